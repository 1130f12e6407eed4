"""CSV: a record as a struct, a struct as a record, and the type of one.

Source: the format of Spark's CSV files, which is that of the library univocity-parsers: a quote inside a quoted value
has a backslash before it, a quote that is neither that nor at the end makes the value one without quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import PlanError, TypeMismatchError, UnsupportedFunctionError
from altneu.expressions.each import RowFailure, each
from altneu.expressions.formats import pieces, print_moments
from altneu.expressions.functions.documents import LOCAL_STAMP, STAMP, micros, options
from altneu.expressions.functions.from_json import moment_of, nullable
from altneu.expressions.registry import Group, Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.text_out import to_text
from altneu.expressions.vector import Vector

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("CSV")
_FORM = {"sep": ",", "delimiter": "", "quote": '"', "escape": "\\", "nullvalue": ""}
_FORMATS = {"dateformat": "", "timestampformat": "", "timestampntzformat": ""}
_READING = {**_FORM, **_FORMATS, "mode": "PERMISSIVE"}
_WRITING = {**_FORM, **_FORMATS, "emptyvalue": '""', "quoteall": "false", "escapequotes": "true"}
_MALFORMED = "MALFORMED_RECORD_IN_PARSING"
_WIDE = Context(prec=80)
_BITS = {T.BYTE: 7, T.SHORT: 15, T.INT: 31, T.LONG: 63}
_BLANKS = "".join(map(chr, range(33)))


def _given(args: Arguments, at: int, known: dict[str, str]) -> dict[str, str]:
    """The options of a call, checked.

    Raises:
        TypeMismatchError, UnsupportedFunctionError: as ``options``; a separator, quote or escape is not one character.
    """
    given = options(args, at, known)
    given["sep"] = given.pop("delimiter", "") or given["sep"]
    for name in ("sep", "quote", "escape"):
        if len(given[name]) != 1:
            raise UnsupportedFunctionError(f"{args.name}: the {name} must be one character, got {given[name]!r}")
    for name in given.keys() & _FORMATS.keys():
        pieces(given[name])
    return given


# reading --------------------------------------------------------------------------------------------------------------


def record(text: str, sep: str = ",", quote: str = '"', escape: str = "\\") -> list[tuple[str, bool]]:
    r"""The values of a record, each with whether it is not empty or stands in quotes.

    >>> [value for value, _ in record('1,"a, b","c\\"d", e')]
    ['1', 'a, b', 'c"d', ' e']

    Raises:
        RowFailure: an escape follows the quote at the end of a value.
    """
    return _values(text, 0, sep, quote, escape, "")[0]


def records(text: str, sep: str, quote: str, escape: str) -> Iterator[tuple[str, list[tuple[str, bool]] | None]]:
    r"""The records of a text in which quoted values may have ends of lines, and their values as ``record``.

    Lines of nothing are none. ``None`` stands for the values where an escape follows the quote at the end of one.

    >>> [[value for value, _ in values] for _, values in records('1,"a\nb"\n\n2,c\n', ",", '"', "\\")]
    [['1', 'a\nb'], ['2', 'c']]
    """
    at = 0
    while at < len(text):
        if text[at] == "\n":
            at += 1
            continue
        try:
            values, end = _values(text, at, sep, quote, escape, "\n")
        except RowFailure:
            values, end = None, text.find("\n", at)
            end = len(text) if end < 0 else end
        yield text[at:end], values
        at = end + 1


def _values(text: str, at: int, sep: str, quote: str, escape: str, stop: str) -> tuple[list[tuple[str, bool]], int]:
    """The values from a place on, and where the text or a ``stop`` ends them."""
    values: list[tuple[str, bool]] = []
    while True:
        if text[at : at + 1] == quote:
            value, at = _quoted(text, at + 1, sep, quote, escape, stop)
            values.append((value, True))
        else:
            end = _end(text, at, sep, stop)
            values.append((text[at:end], end > at))
            at = end
        if at >= len(text) or text[at] == stop:
            return values, at
        at += 1


def _end(text: str, at: int, sep: str, stop: str) -> int:
    """Where a value without quotes ends."""
    end = text.find(sep, at)
    end = len(text) if end < 0 else end
    found = text.find(stop, at, end) if stop else -1
    return end if found < 0 else found


def _quoted(text: str, at: int, sep: str, quote: str, escape: str, stop: str) -> tuple[str, int]:
    """A value from behind its quote on, and where it ends: at a separator, a ``stop`` or with the text."""
    parts: list[str] = []
    before = ""
    size = len(text)
    if at == size:
        return quote, at
    while at < size:
        one = text[at]
        if before == quote and (one <= " " or one == sep):
            return _after(text, at, "".join(parts), sep, quote, stop)
        if one not in (quote, escape):
            if before == quote:
                return _bare(text, at, f"{quote}{''.join(parts)}{quote}", sep, stop)
            if before == escape:
                parts.append(escape)
            end = at
            while end < size and text[end] not in (quote, escape):
                end += 1
            parts.append(text[at:end])
            before = text[end : end + 1]
            at = end + 1
            continue
        if before == escape and (one == quote or (one == escape and escape != quote)):
            parts.append(one)
            one = ""
        elif before == one == quote:
            parts.append(quote)
        elif before == quote:
            raise RowFailure(_MALFORMED, f"{text!r}: {escape!r} follows the quote at the end of a value")
        before = one
        at += 1
    return "".join(parts), size


def _after(text: str, at: int, value: str, sep: str, quote: str, stop: str) -> tuple[str, int]:
    """Behind the quote that ends a value: blanks go, unless something else follows them."""
    end = at
    while end < len(text) and text[end] <= " " and text[end] not in (sep, stop):
        end += 1
    if end == len(text) or text[end] in (sep, stop):
        return value, end
    return _bare(text, at, f"{quote}{value}{quote}", sep, stop)


def _bare(text: str, at: int, value: str, sep: str, stop: str) -> tuple[str, int]:
    """A value that has quotes in it and goes on until the next separator."""
    end = _end(text, at, sep, stop)
    return value + text[at:end], end


class _Unfit(Exception):  # noqa: N818 -- a signal inside this module
    """A text is no value of its type."""


Reading = Callable[[str], Any]


@lru_cache(maxsize=256)
def _schema(text: str) -> pa.DataType:
    try:
        kind = T.parse_type(text)
    except PlanError:
        kind = T.struct_of(text)
    if not T.is_struct(kind):
        raise TypeMismatchError(f"from_csv gives a struct, not {T.type_name(kind)}")
    return nullable(kind)


def _rule(args: Arguments) -> Typing:
    text = getattr(args[1], "value", None)
    if not isinstance(text, str):
        raise TypeMismatchError(f"from_csv: the schema `{args[1].text}` must be a constant text, 'a INT, b STRING'")
    kind = _schema(text)
    given = _given(args, 2, _READING)
    if given["mode"].upper() not in ("PERMISSIVE", "FAILFAST"):
        raise UnsupportedFunctionError(f"from_csv: the mode must be one of PERMISSIVE, FAILFAST, got {given['mode']!r}")
    if "_corrupt_record" in kind.names:
        raise UnsupportedFunctionError("from_csv: there is no _corrupt_record; mode FAILFAST makes an error row of one")
    _readings(kind, tuple(sorted(given.items())))
    return Typing([args.accept(0, T.STRING), None, *[None] * (len(args) - 2)], kind, args[0].nullable)


@scalar("from_csv(s, schema[, options])", rule=_rule, usage="from_csv(s, 'a INT, b STRING'[, options])", fails=True)
def from_csv(call: Call, s: pa.Array, *more: pa.Array) -> Out:  # noqa: ARG001 -- constants, read from the call
    """A record as a struct; values that do not fit are NULL.

    Options: sep, quote, escape, nullValue, mode, dateFormat, timestampFormat.
    """
    given = _given(Arguments("from_csv", call.args), 2, _READING)
    kind, strict = call.type, given["mode"].upper() == "FAILFAST"
    row, form = row_of(kind, given), (given["sep"], given["quote"], given["escape"])

    def value(text: str) -> dict[str, Any]:
        result, bad = row(record(text, *form) if text else [])
        if bad and strict:
            raise RowFailure(_MALFORMED, f"from_csv: {text!r} does not fit {T.type_name(kind)}")
        return result

    return each(call, value, s)


def row_of(
    kind: pa.DataType, given: Mapping[str, str]
) -> Callable[[Sequence[tuple[str, bool]]], tuple[dict[str, Any], bool]]:
    """How the values of a record become a row of a struct, and whether one does not fit, is missing or too many.

    Raises:
        UnsupportedFunctionError: a column of a type that is not read from CSV.
    """
    given = {**_READING, **given}
    readings, null = _readings(kind, tuple(sorted(given.items()))), given["nullvalue"]

    def row(found: Sequence[tuple[str, bool]]) -> tuple[dict[str, Any], bool]:
        bad = len(found) != len(readings)
        result: dict[str, Any] = dict.fromkeys(readings)
        for (name, reading), (part, present) in zip(readings.items(), found, strict=False):
            if not present or part == null:
                continue
            try:
                result[name] = reading(part)
            except _Unfit:
                bad = True
        return result, bad

    return row


@cache
def _readings(kind: pa.DataType, given: tuple[tuple[str, str], ...]) -> dict[str, Reading]:
    return {f.name: _reading(f.type, f.name, dict(given)) for f in kind}


def _reading(kind: pa.DataType, name: str, given: Mapping[str, str]) -> Reading:
    """How a text becomes a value of a type.

    Raises:
        UnsupportedFunctionError: it does not.
    """
    if kind == T.STRING:
        return lambda text: text
    if kind == T.BINARY:
        return lambda text: text.encode("utf-8", "replace")
    if kind in _BITS:
        return lambda text: _whole(text, _BITS[kind])
    if kind in (T.FLOAT, T.DOUBLE):
        return lambda text: _float(text, kind)
    if kind == T.BOOLEAN:
        return _boolean
    if pt.is_decimal128(kind):
        return lambda text: _decimal(text, kind)
    if kind == T.TIME:
        return lambda text: _moment(text, kind, "")
    formats = {T.DATE: "dateformat", T.TIMESTAMP: "timestampformat", T.TIMESTAMP_NTZ: "timestampntzformat"}
    if kind in formats:
        return lambda text: _moment(text, kind, given[formats[kind]])
    raise UnsupportedFunctionError(
        f"from_csv: {T.type_name(kind)} ({name!r}) is not read from CSV; read a text and cast it"
    )


def _whole(text: str, bits: int) -> int:
    if re.fullmatch(r"[+-]?\d+", text) is None:
        raise _Unfit
    value = int(text)
    if not -(1 << bits) <= value < 1 << bits:
        raise _Unfit
    return value


_WORDS = {"NaN": "nan", "Inf": "inf", "-Inf": "-inf"}
_JAVA = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)", re.ASCII)


def _float(text: str, kind: pa.DataType) -> float:
    plain = _WORDS.get(text)
    if plain is None:
        plain = text.strip(_BLANKS)
        if _JAVA.fullmatch(plain) is None:
            raise _Unfit
        plain = plain.removeprefix("+").replace("NaN", "nan")
        plain = plain if "n" in plain else plain.rstrip("fFdD")
    value: float = pc.cast(pa.array([plain.replace("-nan", "nan")]), kind)[0].as_py()
    return value + 0.0


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise _Unfit
    return text.lower() == "true"


def _decimal(text: str, kind: pa.DataType) -> Decimal:
    plain = text.replace(",", "")
    if re.fullmatch(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", plain) is None:
        raise _Unfit
    try:
        number = Decimal(plain).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, _WIDE)
    except (InvalidOperation, ValueError):
        raise _Unfit from None
    if number and number.adjusted() >= kind.precision - kind.scale:
        raise _Unfit
    return number


def _moment(text: str, kind: pa.DataType, pattern: str) -> int:
    number = moment_of(text, kind, pattern)
    if number is None:
        raise _Unfit
    return number


# writing --------------------------------------------------------------------------------------------------------------


def _to_csv_rule(args: Arguments) -> Typing:
    kind = args[0].type
    if not T.is_struct(kind):
        raise TypeMismatchError(f"to_csv takes a struct, not {T.type_name(kind)} (`{args[0].text}`)")
    if T.contains(kind, T.VARIANT.equals):
        raise UnsupportedFunctionError("to_csv: a variant is not written; cast it to string")
    if any(pt.is_duration(inner) for inner in _parts(kind)):
        raise UnsupportedFunctionError("to_csv: an interval is not written; cast it to string")
    _given(args, 1, _WRITING)
    return Typing([None] * len(args), T.STRING, True)


def _parts(kind: pa.DataType) -> Iterator[pa.DataType]:
    yield kind
    if pt.is_nested(kind):
        for i in range(kind.num_fields):
            yield from _parts(kind.field(i).type)


@scalar("to_csv(a[, options])", rule=_to_csv_rule, grows=True)
def to_csv(call: Call, a: Vector, *more: Vector) -> Vector:  # noqa: ARG001 -- the options are read from the call
    """A struct as a record.

    Options: sep, quote, escape, nullValue, emptyValue, quoteAll, escapeQuotes, dateFormat, timestampFormat.
    """
    given = _given(Arguments("to_csv", call.args), 1, _WRITING)
    array = a.arrow
    columns = [_cells(values, given) for values in array.flatten()]
    sep, null = given["sep"], given["nullvalue"]
    texts: list[str | None] = []
    for present, *cells in zip(array.is_valid().to_pylist(), *columns, strict=True):
        nothing = not cells or (len(cells) == 1 and cells[0] is None and not null)
        written = [_instead(null, given) if c is None else _written(c, given, i == 0) for i, c in enumerate(cells)]
        texts.append(None if nothing or not present else sep.join(written))
    return Vector(T.STRING, arrow=pa.array(texts, T.STRING), constant=a.constant)


def _written(cell: str, given: Mapping[str, str], first: bool) -> str:
    """A value, in quotes where that is needed: also one that only blanks behind it, which go, would break."""
    cell = cell.lstrip(_BLANKS)
    quote, escape = given["quote"], given["escape"]
    breaks = given["sep"] in cell or "\n" in cell or "\r" in cell
    needed = breaks or cell.startswith(quote) or (first and cell.startswith("#"))
    needed = needed or (quote in cell and given["escapequotes"].lower() != "false")
    cell = cell.rstrip(_BLANKS)
    if not cell:
        return _instead(given["emptyvalue"], given)
    if not needed and given["quoteall"].lower() != "true":
        return cell
    cell = cell.replace(escape, escape * 2) if escape != quote else cell
    return f"{quote}{cell.replace(quote, escape + quote)}{quote}"


def _instead(word: str, given: Mapping[str, str]) -> str:
    """What stands for nothing: in quotes where all values are, unless it has its own."""
    quote = given["quote"]
    own = len(word) > 1 and word.startswith(quote) and word.endswith(quote)
    return word if own or given["quoteall"].lower() != "true" else f"{quote}{word}{quote}"


def _cells(array: pa.Array, given: Mapping[str, str]) -> list[str | None]:
    """The text of every value; None for a null."""
    kind = array.type
    if pt.is_nested(kind):
        return [None if value is None else _nested(value, kind, given) for value in _listed(array)]
    if kind == T.BINARY:
        return [None if v is None else f"[{v.hex(' ').upper()}]" for v in array.to_pylist()]
    if pt.is_decimal(kind):
        return [None if v is None else str(v) for v in array.to_pylist()]
    if kind in (T.TIMESTAMP, T.TIMESTAMP_NTZ):
        name, default = ("timestampformat", STAMP) if kind == T.TIMESTAMP else ("timestampntzformat", LOCAL_STAMP)
        texts = print_moments(micros(array, 1), given[name] or default)
    elif kind == T.DATE and given["dateformat"]:
        texts = print_moments(micros(array, 86_400_000_000), given["dateformat"])
    else:
        texts = to_text(array)
    return pc.if_else(array.is_valid(), texts, None).to_pylist()


def _listed(array: pa.Array) -> Iterator[pa.Array | None]:
    """The parts of each nested value: a struct's fields, an array's elements, a map's keys and values."""
    for scalar_ in array:
        if not scalar_.is_valid:
            yield None
        elif T.is_struct(array.type):
            yield [pa.array([scalar_[i].as_py()], f.type) for i, f in enumerate(array.type)]
        else:
            yield scalar_.values


def _nested(value: Any, kind: pa.DataType, given: Mapping[str, str]) -> str:
    if T.is_struct(kind):
        return "{" + _joined([_cells(part, given)[0] for part in value]) + "}"
    if pt.is_map(kind):
        keys, items = (_cells(value.field(i), given) for i in (0, 1))
        entries = [f"{k} ->" if v is None else f"{k} -> {v}" for k, v in zip(keys, items, strict=True)]
        return "{" + ", ".join(entries) + "}"
    return "[" + _joined(_cells(value, given)) + "]"


def _joined(texts: list[str | None]) -> str:
    """Values beside one another, of which those that are null are nothing at all."""
    return "".join(("," if i else "") + ("" if t is None else f" {t}" if i else t) for i, t in enumerate(texts))


# schema_of_csv --------------------------------------------------------------------------------------------------------


def _check_constant(args: Arguments) -> None:
    if not isinstance(getattr(args[0], "value", None), str):
        raise TypeMismatchError(f"schema_of_csv: the record `{args[0].text}` must be a constant text")


def _schema_rule(args: Arguments) -> Typing:
    _check_constant(args)
    _given(args, 1, {**_FORM, **_FORMATS})
    return Typing([T.STRING, *[None] * (len(args) - 1)], T.STRING, False)


@scalar("schema_of_csv(s[, options])", rule=_schema_rule, fails=True)
def schema_of_csv(call: Call, s: pa.Array, *more: pa.Array) -> Out:  # noqa: ARG001 -- constants, read from the call
    """The type of a record, which is constant, as `from_csv` takes it."""
    given = _given(Arguments("schema_of_csv", call.args), 1, {**_FORM, **_FORMATS})

    def described(text: str) -> str:
        if not text:
            raise RowFailure(_MALFORMED, "schema_of_csv: the record is empty")
        found = record(text, given["sep"], given["quote"], given["escape"])
        kinds = [_inferred(part if present else given["nullvalue"], given) for part, present in found]
        return f"STRUCT<{', '.join(f'_c{i}: {kind}' for i, kind in enumerate(kinds))}>"

    return each(call, described, s)


def _inferred(text: str, given: Mapping[str, str]) -> str:
    """The first type that reads a text."""
    if not text or text == given["nullvalue"]:
        return "STRING"
    for kind, name in ((T.INT, "INT"), (T.LONG, "BIGINT")):
        if _fits(lambda kind=kind: _whole(text, _BITS[kind])):  # type: ignore[misc]
            return name
    plain = text.replace(",", "")
    if re.fullmatch(r"[+-]?\d+\.?", plain):
        digits = len(plain.strip("+-.").lstrip("0")) or 1
        if digits <= 38:
            return f"DECIMAL({digits},0)"
    if _fits(lambda: _float(text, T.DOUBLE)):
        return "DOUBLE"
    for kind, option in ((T.DATE, "dateformat"), (T.TIMESTAMP, "timestampformat")):
        pattern = given[option] or ("yyyy-MM-dd" if kind == T.DATE else "")
        if _fits(lambda kind=kind, pattern=pattern: _moment(text, kind, pattern)):  # type: ignore[misc]
            return T.type_name(kind).upper()
    return "BOOLEAN" if text.lower() in ("true", "false") else "STRING"


def _fits(read: Callable[[], Any]) -> bool:
    try:
        read()
    except _Unfit:
        return False
    return True
