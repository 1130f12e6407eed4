"""``from_json``: documents as values of a type, what does not fit as null.

Source: Spark's JacksonParser with its default options: the mode PERMISSIVE, in which a member that does not fit is
null and the others of its object stay.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import PlanError, TypeMismatchError, UnsupportedFunctionError
from altneu.expressions.documents import MISSING, ExactReader, Object, Reader, Real, is_whole, written
from altneu.expressions.each import RowFailure, each
from altneu.expressions.formats import pieces, read_moments
from altneu.expressions.functions.documents import options, scalar
from altneu.expressions.registry import Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.text_in import parse_values

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

_OPTIONS = {"mode": "PERMISSIVE", "timestampformat": "", "timestampntzformat": "", "dateformat": ""}
_MODES = ("PERMISSIVE", "FAILFAST")
_read = Reader(numbers=True)
_read_exactly = ExactReader(numbers=True)
_WIDE = Context(prec=80)
_BITS = {T.BYTE: (-128, 255), T.SHORT: (-(1 << 15), (1 << 15) - 1), T.INT: (-(1 << 31), (1 << 31) - 1)}
_LONG = (-(1 << 63), (1 << 63) - 1)
_BASE64 = re.compile(r"\s*(?:[A-Za-z0-9+/]{4}\s*)*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_ZONE = re.compile(r":.*(?:[A-Za-z+]|-\d)")
_DAY = 86_400_000_000


class _Unfit(Exception):  # noqa: N818 -- a signal inside this module
    """A value does not fit its type; ``partial`` is what does, of an object or of what holds one."""

    def __init__(self, partial: Any = MISSING) -> None:
        super().__init__()
        self.partial = partial


class _Inexact(Exception):  # noqa: N818 -- a signal inside this module
    """A value is to become the text that it was written as, which it does not know."""


def _unfit() -> NoReturn:
    raise _Unfit


Reading = Callable[[Any], Any]


@lru_cache(maxsize=256)
def schema_of_text(text: str) -> pa.DataType:
    """The type that a schema says: a type, or the columns of a struct.

    Raises:
        PlanError: it is none.
    """
    try:
        return T.parse_type(text)
    except PlanError:
        return T.struct_of(text)


def _rule(args: Arguments) -> Typing:
    text = getattr(args[1], "value", None)
    if not isinstance(text, str):
        raise TypeMismatchError(f"from_json: the schema `{args[1].text}` must be a constant text, 'a INT, b STRING'")
    kind = schema_of_text(text)
    if not pt.is_nested(kind) or kind == T.VARIANT:
        raise TypeMismatchError(f"from_json gives a struct, an array or a map, not {T.type_name(kind)}")
    kind = nullable(kind)
    given = options(args, 2, _OPTIONS)
    if given["mode"].upper() not in _MODES:
        raise UnsupportedFunctionError(f"from_json: the mode must be one of {', '.join(_MODES)}, got {given['mode']!r}")
    for name in ("timestampformat", "timestampntzformat", "dateformat"):
        pieces(given[name])
    _reading(kind, tuple(sorted(given.items())))
    return Typing([args.accept(0, T.STRING), None, *[None] * (len(args) - 2)], kind, True)


def nullable(kind: pa.DataType) -> pa.DataType:
    """The type with everything in it nullable."""
    if T.is_struct(kind):
        return pa.struct([pa.field(f.name, nullable(f.type)) for f in kind])
    if pt.is_list(kind):
        return T.list_type(nullable(kind.value_type))
    return pa.map_(kind.key_type, nullable(kind.item_type)) if pt.is_map(kind) else kind


def _fails(call: Call) -> bool:
    return options(Arguments("from_json", call.args), 2, _OPTIONS)["mode"].upper() == "FAILFAST"


@scalar("from_json(s, schema[, options])", rule=_rule, usage="from_json(s, 'a INT, b STRING'[, options])", fails=_fails)
def from_json(call: Call, s: pa.Array, *more: pa.Array) -> Out:  # noqa: ARG001 -- constants, read from the call
    """A document as a value of a type; members that do not fit are NULL. Options: mode, dateFormat, timestampFormat."""
    given = options(Arguments("from_json", call.args), 2, _OPTIONS)
    kind, strict = call.type, given["mode"].upper() == "FAILFAST"
    reading = _reading(kind, tuple(sorted(given.items())))
    nothing = dict.fromkeys(f.name for f in kind) if T.is_struct(kind) else None

    def value(text: str) -> Any:
        if not text.strip(" \t\n\r"):
            return None
        document = _read(text)
        if pt.is_list(kind) and T.is_struct(kind.value_type) and isinstance(document, Object):
            document = [document]  # an object where an array of them should be
        try:
            return _unfit() if document is MISSING or document is None else reading(document)
        except _Unfit as error:
            if strict:
                raise RowFailure(
                    "MALFORMED_RECORD_IN_PARSING", f"from_json: {text!r} does not fit {T.type_name(kind)}"
                ) from None
            return nothing if error.partial is MISSING else error.partial

    return each(call, value, s)


def records_of(kind: pa.DataType, formats: Mapping[str, str]) -> Callable[[str], tuple[list[dict[str, Any]], bool]]:
    """How a record of a JSON file becomes rows of a struct, and whether something in it does not fit.

    An object is one row, an array of objects one of each; a record without anything is none. What is not a text and
    becomes one is as it was written.

    >>> read = records_of(pa.struct([("a", T.INT)]), {})
    >>> read('[{"a": 1}, {"a": "x"}]'), read("x"), read(" ")
    (([{'a': 1}, {'a': None}], True), ([{'a': None}], True), ([], False))

    Raises:
        TypeMismatchError, UnsupportedFunctionError: a column of a type that is not read from JSON.
    """
    reading = _reading(nullable(kind), tuple(sorted({**_OPTIONS, **formats, "exact": "true"}.items())))
    nothing = dict.fromkeys(f.name for f in kind)

    def rows(text: str) -> tuple[list[dict[str, Any]], bool]:
        if not text.strip(" \t\n\r"):
            return [], False
        try:
            return rows_of(_read(text))
        except _Inexact:
            return rows_of(_read_exactly(text))

    def rows_of(document: Any) -> tuple[list[dict[str, Any]], bool]:
        found, bad = list[dict[str, Any]](), False
        several = isinstance(document, list) and not isinstance(document, Object)
        for member in document if several else [document]:
            try:
                found.append(reading(member))
            except _Unfit as error:
                if error.partial is MISSING:
                    return [nothing], True
                bad = True
                found.append(error.partial)
        return found, bad

    return rows


@cache
def _reading(kind: pa.DataType, given: tuple[tuple[str, str], ...]) -> Reading:
    """How a value of a document becomes one of a type.

    Raises:
        UnsupportedFunctionError: nothing becomes one.
    """
    if T.is_struct(kind):
        return _object({f.name: _reading(f.type, given) for f in kind})
    if pt.is_list(kind):
        return _array(_reading(kind.value_type, given))
    if pt.is_map(kind):
        if kind.key_type != T.STRING:
            raise TypeMismatchError(f"from_json: the keys of a map must be texts, not {T.type_name(kind.key_type)}")
        return _map(_reading(kind.item_type, given))
    if pt.is_decimal128(kind):
        return lambda value: _decimal(value, kind)
    plain = _exact if kind == T.STRING and ("exact", "true") in given else _PLAIN.get(kind)
    if plain is not None:
        return plain
    formats = dict(given)
    if kind == T.DATE:
        return lambda value: _moment(value, kind, formats["dateformat"])
    if kind == T.TIME:
        return lambda value: _moment(value, kind, "")
    if kind == T.TIMESTAMP:
        return lambda value: _moment(value, kind, formats["timestampformat"])
    if kind == T.TIMESTAMP_NTZ:
        return lambda value: _moment(value, kind, formats["timestampntzformat"])
    raise UnsupportedFunctionError(f"from_json: {T.type_name(kind)} is not read from JSON; read a text and cast it")


def _object(members: dict[str, Reading]) -> Reading:
    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, Object):
            raise _Unfit
        result: dict[str, Any] = dict.fromkeys(members)
        bad = False
        for name, member in value:
            reading = members.get(name)
            if reading is None:
                continue
            try:
                result[name] = None if member is None else reading(member)
            except _Unfit as error:
                bad = True
                result[name] = None if error.partial is MISSING else error.partial
        if bad:
            raise _Unfit(result)
        return result

    return read


def _parts(reading: Reading, values: list[Any]) -> tuple[list[Any], bool]:
    """Values inside an array or a map; one of which nothing fits makes all of it unfit."""
    results, bad = [], False
    for value in values:
        try:
            results.append(None if value is None else reading(value))
        except _Unfit as error:
            if error.partial is MISSING:
                raise
            bad = True
            results.append(error.partial)
    return results, bad


def _array(reading: Reading) -> Reading:
    def read(value: Any) -> list[Any]:
        if isinstance(value, Object) or not isinstance(value, list):
            raise _Unfit
        results, bad = _parts(reading, value)
        if bad:
            raise _Unfit(results)
        return results

    return read


def _map(reading: Reading) -> Reading:
    def read(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, Object):
            raise _Unfit
        results, bad = _parts(reading, [member for _, member in value])
        entries = dict(zip((_text(name) for name, _ in value), results, strict=True))  # of equal names the last
        if bad:
            raise _Unfit(sorted(entries.items()))
        return sorted(entries.items())

    return read


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Real)


def _text(value: Any) -> str:
    text = value if _is_text(value) else written(value)
    return text if is_whole(text) else "".join("?" if "\ud800" <= c <= "\udfff" else c for c in text)


def _exact(value: Any) -> str:
    """A text, or how another value was written."""
    if isinstance(value, bool) or _is_text(value):
        return _text(value)
    raw: str | None = getattr(value, "raw", None)
    if raw is None:
        raise _Inexact
    return raw


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Unfit
    return value


def _whole(low: int, high: int) -> Reading:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _Unfit
        return value - 256 if (low, high) == _BITS[T.BYTE] and value > 127 else value  # as Jackson reads a byte

    return read


_WORDS = {
    "NaN": float("nan"),
    **dict.fromkeys(("Infinity", "+INF", "+Infinity"), float("inf")),
    **dict.fromkeys(("-Infinity", "-INF"), float("-inf")),
}


def _double(value: Any) -> float:
    if isinstance(value, Real):
        return value.double + 0.0
    if isinstance(value, str):
        if value not in _WORDS:
            raise _Unfit
        return _WORDS[value]
    if isinstance(value, bool) or not isinstance(value, int):
        raise _Unfit
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _float(value: Any) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(_double(value)))


def _binary(value: Any) -> bytes:
    if not _is_text(value):
        raise _Unfit
    if _BASE64.fullmatch(value) is None:
        raise _Unfit
    return b64decode(value)


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _Unfit
    try:
        number = Decimal(str(value)).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _WIDE)
    except (InvalidOperation, ValueError):
        raise _Unfit from None
    if not number.is_finite() or (number.adjusted() >= kind.precision - kind.scale and number):
        raise _Unfit
    return number


def _moment(value: Any, kind: pa.DataType, pattern: str) -> int:
    if _is_text(value):
        number = moment_of(value, kind, pattern)
        if number is None:
            raise _Unfit
        return number
    if kind == T.TIMESTAMP and isinstance(value, int) and not isinstance(value, bool):
        micros = value * 1_000_000
        if _LONG[0] <= micros <= _LONG[1]:
            return micros
    raise _Unfit


@lru_cache(maxsize=4096)
def moment_of(text: str, kind: pa.DataType, pattern: str) -> int | None:
    """A date or timestamp by a pattern, or as a cast reads it where there is none; None if the text is none."""
    if not is_whole(text):
        return None
    array = pa.array([text])
    if pattern:
        values, bad = read_moments(array, pattern)
        values = values // _DAY if kind == T.DATE else values
    else:
        if kind == T.TIMESTAMP_NTZ and _ZONE.search(text):
            return None
        values, bad = parse_values(array, kind)
    return None if np.asarray(bad).any() else int(values[0])


_PLAIN: dict[pa.DataType, Reading] = {
    T.STRING: _text,
    T.BOOLEAN: _boolean,
    **{kind: _whole(*bounds) for kind, bounds in _BITS.items()},
    T.LONG: _whole(*_LONG),
    T.DOUBLE: _double,
    T.FLOAT: _float,
    T.BINARY: _binary,
    T.NULL: lambda _value: None,
}
