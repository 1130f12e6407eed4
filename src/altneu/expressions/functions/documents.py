"""JSON in texts: taken apart by paths, counted, written from values and described."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError, UnsupportedFunctionError
from altneu.expressions.documents import MISSING, Object, Reader, Real, is_whole, quoted, units, written
from altneu.expressions.each import RowFailure, each
from altneu.expressions.formats import pieces, print_moments
from altneu.expressions.functions.strings import joined_present
from altneu.expressions.functions.text import base64
from altneu.expressions.lists import Lists, explode
from altneu.expressions.registry import Group, Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.text_out import to_text
from altneu.expressions.variants.casting import failures_of
from altneu.expressions.variants.text import column_text, spelled
from altneu.expressions.vector import Vector

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("JSON")
_as_hive = Reader(numbers=False)
_STEP = re.compile(
    r"\s*\.\s*(?!\*)(?P<name>[^.\[]+)|\s*\['\s*(?P<quoted>[^']+)\s*'\]|\[\s*(?P<index>\d+)\]|(?P<all>\[\*\])"
)
_ANY = object()


@lru_cache(maxsize=256)
def _path(text: str) -> tuple[Any, ...] | None:
    """The steps of a path, names, indices and ``_ANY``; None if it is none.

    >>> _path("$.a[0]['b c']")
    ('a', 0, 'b c')
    """
    if not text.startswith("$"):
        return None
    steps: list[Any] = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            return None
        name = match["name"] or match["quoted"]
        if name == "*" and match["quoted"]:
            return None  # a wildcard of names, which finds nothing
        steps.append(name if name is not None else _ANY if match["all"] else int(match["index"]))
        at = match.end()
    return tuple(steps)


def _whole_text(text: str) -> str:
    """A string of JSON, unless the text has half of a character.

    Raises:
        ValueError: it has.
    """
    if not is_whole(text):
        raise ValueError(text)
    return quoted(text)


def _found(value: Any, steps: Sequence[Any], style: str, out: list[str], text: Callable[[str], str]) -> bool:
    """Write what a path finds, as Hive does: ``raw`` texts, ``quoted`` ones, or arrays ``flat`` in the one around."""
    if not steps:
        if isinstance(value, str) and not isinstance(value, Real) and style == "raw":
            if not is_whole(value):
                raise ValueError(value)
            out.append(value)
            return True
        if style == "flat" and isinstance(value, list) and not isinstance(value, Object):
            flat = [_found(element, (), style, out, text) for element in value]
            return any(flat)
        out.append(written(value, text))
        return True
    step, rest = steps[0], steps[1:]
    if isinstance(value, Object):
        members = (member for name, member in value if name == step and member is not None)
        return isinstance(step, str) and any(_found(member, rest, style, out, text) for member in members)
    if not isinstance(value, list) or isinstance(step, str):
        return False
    if step is not _ANY:
        inner = "quoted" if rest and rest[0] is _ANY else style
        return step < len(value) and _found(value[step], rest, inner, out, text)
    if rest and rest[0] is _ANY:
        own: list[str] = []
        inside = [_found(element, rest[1:], "flat", own, text) for element in value]
        out.append(f"[{','.join(own)}]")
        return any(inside)
    own = []
    inner = "flat" if style == "flat" else "quoted"
    buffered = text if style == "quoted" else _whole_text
    found = sum([_found(element, rest, inner, own, buffered) for element in value])
    if style == "quoted":
        out.append(f"[{','.join(own)}]")
    elif found:
        out.append(f"[{','.join(own)}]" if found > 1 else ",".join(own))
    return found > 0


@scalar("get_json_object(s string, path string) -> string?")
def get_json_object(call: Call, s: pa.Array, path: pa.Array) -> Out:
    """The value at a path such as `$.a[0].b` or `$.a[*].b`, as text; NULL if there is none, or s is no JSON."""

    def found(text: str, steps_text: str) -> str | None:
        steps = _path(steps_text)
        value = MISSING if steps is None else _as_hive(text)
        if steps is None or value is MISSING:
            return None
        out: list[str] = []
        try:
            return " ".join(out) if _found(value, steps, "raw", out, units) else None
        except (ValueError, RecursionError):
            return None

    return each(call, found, s, path)


def _tuple_rule(args: Arguments) -> Typing:
    types = [args.accept(i, T.STRING) for i in range(len(args))]
    if any(a.type == T.NULL for a in args):
        raise TypeMismatchError("json_tuple takes texts, not NULL")
    return Typing(types, pa.struct([pa.field(f"c{i}", T.STRING) for i in range(len(args) - 1)]), False)


@scalar("json_tuple(s, name, …)", rule=_tuple_rule, usage="json_tuple(s, 'a', 'b', …)")
def json_tuple(call: Call, count: int, s: Vector, *names: Vector) -> Vector:
    """The members of an object by name, as columns c0, c1 …: in SELECT or LATERAL VIEW, elsewhere as a struct."""
    constant = s.constant and all(v.constant for v in names)
    columns = [v.arrow if constant else v.expand(count).arrow for v in (s, *names)]

    def members(text: str | None, *wanted: str | None) -> dict[str, str | None]:
        value = MISSING if text is None else _as_hive(text)
        texts: dict[str, str] = {}
        for name, member in value if isinstance(value, Object) else ():
            if name in wanted and member is not None:
                plain = isinstance(member, str) and not isinstance(member, Real)
                if plain and not is_whole(member):
                    texts = {}
                    break
                texts[name] = member if plain else written(member)
        return {f"c{i}": None if name is None else texts.get(name) for i, name in enumerate(wanted)}

    return Vector(call.type, arrow=each(call, members, *columns, strict=False).values, constant=constant)


@scalar("json_array_length(s string) -> int?")
def json_array_length(call: Call, s: pa.Array) -> Out:
    """Number of elements of the array that a document is; NULL if it is none."""

    def length(text: str) -> int | None:
        value = _as_hive(text)
        return len(value) if isinstance(value, list) and not isinstance(value, Object) else None

    return each(call, length, s)


@scalar("json_object_keys(s string) -> array<string>?")
def json_object_keys(call: Call, s: pa.Array) -> Out:
    """The names of the members of the object that a document is; NULL if it is none."""

    def names(text: str) -> list[str] | None:
        value = _as_hive(text)
        return [name for name, _ in value] if isinstance(value, Object) else None

    return each(call, names, s)


# to_json --------------------------------------------------------------------------------------------------------------

STAMP, LOCAL_STAMP = "yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "yyyy-MM-dd'T'HH:mm:ss.SSS"
_WRITING = {"ignorenullfields": "true", "timestampformat": "", "timestampntzformat": "", "dateformat": ""}


def options(args: Arguments, at: int, known: dict[str, str]) -> dict[str, str]:
    """The options in an argument ``map('name', 'value')``, by their names in lower case.

    Raises:
        TypeMismatchError: it is no map of constant texts.
        UnsupportedFunctionError: an option that is not known.
    """
    result = dict(known)
    if len(args) <= at:
        return result
    parts = getattr(args[at], "args", ())
    values = [getattr(part, "value", None) for part in parts]
    if getattr(args[at], "name", "") != "map" or not all(isinstance(value, str) for value in values):
        raise TypeMismatchError(f"{args.name}: the options `{args[at].text}` must be map('name', 'value', …)")
    for name, value in zip(values[::2], values[1::2], strict=True):
        if str(name).lower() not in known:
            raise UnsupportedFunctionError(f"{args.name}: no option {name!r}; there are {', '.join(known)}")
        result[str(name).lower()] = str(value)
    return result


def _to_json_rule(args: Arguments) -> Typing:
    kind = args[0].type
    if not pt.is_nested(kind):
        raise TypeMismatchError(
            f"to_json takes a struct, an array or a map, not {T.type_name(kind)} (`{args[0].text}`)"
        )
    given = options(args, 1, _WRITING)
    for name in ("timestampformat", "timestampntzformat", "dateformat"):
        pieces(given[name])
    return Typing([None] * len(args), T.STRING, args[0].nullable)


def _has_variants(call: Call) -> bool:
    return T.contains(call.args[0].type, T.VARIANT.equals)


@scalar("to_json(a[, options])", rule=_to_json_rule, fails=_has_variants, grows=True)
def to_json(call: Call, a: Vector, *more: Vector) -> Vector:  # noqa: ARG001 -- the options are read from the call
    """A struct, an array or a map as a document. Options: ignoreNullFields, dateFormat, timestampFormat."""
    given = options(Arguments("to_json", call.args), 1, _WRITING)
    failures = failures_of(spelled(a.arrow)[1], len(a))
    return Vector(T.STRING, arrow=_texts(a.arrow, given), failures=(*a.failures, *failures), constant=a.constant)


def _texts(array: pa.Array, given: dict[str, str]) -> pa.Array:
    """The document of every value; null for a null."""
    kind = array.type
    if kind == T.VARIANT:
        return column_text(array)[0]
    if pt.is_struct(kind):
        return _struct_texts(array, given)
    if pt.is_list(kind):
        lists = explode(array)
        elements = pc.fill_null(_texts(lists.elements, given), "null")
        return _wrapped(lists, elements, "[", "]", array)
    if pt.is_map(kind):
        lists = explode(array)
        keys = _quoted(key_texts(lists.elements.field(0)))
        items = pc.fill_null(_texts(lists.elements.field(1), given), "null")
        return _wrapped(lists, pc.binary_join_element_wise(keys, items, ":"), "{", "}", array)
    if kind == T.STRING:
        return _quoted(array)
    if pt.is_decimal(kind):
        return _decimal_texts(array)
    if kind in (T.FLOAT, T.DOUBLE):
        texts = to_text(array)
        return pc.if_else(pc.is_finite(array), texts, pc.binary_join_element_wise('"', texts, '"', ""))
    return _in_quotes(array, given) if not _is_plain(kind) else to_text(array)


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pt.is_boolean(kind) or pt.is_integer(kind) or kind == T.NULL)


def _in_quotes(array: pa.Array, given: dict[str, str]) -> pa.Array:
    kind = array.type
    if kind == T.BINARY:
        texts = base64(array)
    elif kind in (T.TIMESTAMP, T.TIMESTAMP_NTZ):
        name, default = ("timestampformat", STAMP) if kind == T.TIMESTAMP else ("timestampntzformat", LOCAL_STAMP)
        texts = print_moments(micros(array, 1), given[name] or default)
    elif kind == T.DATE and given["dateformat"]:
        texts = print_moments(micros(array, 86_400_000_000), given["dateformat"])
    else:
        texts = to_text(array)
    return pc.if_else(array.is_valid(), _quoted(texts), None)


def micros(array: pa.Array, unit: int) -> Any:
    """Moments as whole numbers of microseconds, of which ``unit`` are one of theirs."""
    return Vector(array.type, arrow=array).values.astype(np.int64) * unit


def key_texts(keys: pa.Array) -> pa.Array:
    """Values as Java prints what Spark has in memory: dates and timestamps as their numbers."""
    if keys.type == T.DATE:
        return keys.cast(pa.int32()).cast(T.STRING)
    if keys.type in (T.TIMESTAMP, T.TIMESTAMP_NTZ, T.DAY_TIME):
        return keys.cast(pa.int64()).cast(T.STRING)
    return _decimal_texts(keys) if pt.is_decimal(keys.type) else to_text(keys)


def _decimal_texts(numbers: pa.Array) -> pa.Array:
    """Decimals as Java's, with an exponent where those have one."""
    return pa.array([None if value is None else str(value) for value in numbers.to_pylist()], T.STRING)


def _quoted(texts: pa.Array) -> pa.Array:
    encoded = texts.dictionary_encode()
    return pa.array([quoted(text) for text in encoded.dictionary.to_pylist()], T.STRING).take(encoded.indices)


def _wrapped(lists: Lists, elements: pa.Array, start: str, end: str, array: pa.Array) -> pa.Array:
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array(lists.offsets.astype(np.int32)), elements), ",")
    return pc.if_else(array.is_valid(), pc.binary_join_element_wise(start, joined, end, ""), None)


def _struct_texts(array: pa.Array, given: dict[str, str]) -> pa.Array:
    parts = []
    for field, values in zip(array.type, array.flatten(), strict=True):
        texts = _texts(values, given)
        if given["ignorenullfields"].lower() == "false":
            texts = pc.fill_null(texts, "null")
        parts.append(pc.binary_join_element_wise(f"{quoted(field.name)}:", texts, ""))
    body = joined_present(parts, ",") if parts else pa.repeat("", len(array))
    return pc.if_else(array.is_valid(), pc.binary_join_element_wise("{", body, "}", ""), None)


# schema_of_json -------------------------------------------------------------------------------------------------------

_as_values = Reader(numbers=True)


def _check_constant(args: Arguments) -> None:
    if not isinstance(getattr(args[0], "value", None), str):
        raise TypeMismatchError(f"schema_of_json: the document `{args[0].text}` must be a constant text")


@scalar("schema_of_json(s string) -> string", check=_check_constant, fails=True)
def schema_of_json(call: Call, s: pa.Array) -> Out:
    """The type of a document, which is constant, as `from_json` takes it."""

    def described(text: str) -> str:
        value = None if not text.strip(" \t\n\r") else _as_values(text)
        if value is MISSING:
            raise RowFailure("MALFORMED_RECORD_IN_PARSING", f"schema_of_json: {text!r} is no document")
        return _described(_inferred(value))

    return each(call, described, s)


_NOTHING, _TEXT = "null", "STRING"


def _inferred(value: Any) -> Any:
    """The type of a value: a name, ``[element]`` or ``{name: type}``."""
    if isinstance(value, Object):
        members: dict[str, Any] = {}
        for name, member in value:
            members[name] = _inferred(member)
        return members
    if isinstance(value, list):
        element: Any = _NOTHING
        for each_ in value:
            element = _both(element, _inferred(each_))
        return [element]
    if value is None:
        return _NOTHING
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, Real):
        return "DOUBLE"
    if isinstance(value, str):
        return _TEXT
    if -(1 << 63) <= value < 1 << 63:
        return "BIGINT"
    digits = len(str(abs(value)))
    return f"DECIMAL({digits},0)" if digits <= 38 else "DOUBLE"


def _both(left: Any, right: Any) -> Any:
    if right in (left, _NOTHING):
        return left
    if left == _NOTHING:
        return right
    if isinstance(left, dict) and isinstance(right, dict):
        return {name: _both(left.get(name, _NOTHING), right.get(name, _NOTHING)) for name in {**left, **right}}
    if isinstance(left, list) and isinstance(right, list):
        return [_both(left[0], right[0])]
    if not (isinstance(left, str) and isinstance(right, str)):
        return _TEXT
    pair = {left, right}
    if pair <= {"BIGINT", "DOUBLE"} or ("DOUBLE" in pair and any(t.startswith("DECIMAL") for t in pair)):
        return "DOUBLE"
    whole = [int(t[8:-3]) if t.startswith("DECIMAL") else 20 if t == "BIGINT" else 0 for t in (left, right)]
    return f"DECIMAL({max(whole)},0)" if all(whole) else _TEXT


def _described(kind: Any) -> str:
    if isinstance(kind, list):
        return f"ARRAY<{_described(kind[0])}>"
    if not isinstance(kind, dict):
        return _TEXT if kind == _NOTHING else str(kind)
    members = [f"{_name(name)}: {_described(member)}" for name, member in sorted(kind.items()) if member != {}]
    return f"STRUCT<{', '.join(members)}>"


def _name(name: str) -> str:
    return name if re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name) else f"`{name.replace('`', '``')}`"
