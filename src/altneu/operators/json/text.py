"""``json``: members of JSON texts as columns; what is not asked for is checked to be JSON and not read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import PlanError, TypeMismatchError, UnknownColumnError
from altneu.linear.steps import JsonField
from altneu.operators.json.values import UNITS, Reader, Values
from altneu.operators.linear.expansion import Mask

Unit = str | Mapping[str, str]


def json_fields(schema: pa.Schema, unit: Unit = "", paths: Mapping[str, str] | None = None) -> tuple[JsonField, ...]:
    """Fields by their names and types; the way to each is its name, unless ``paths`` says another.

    Units:  ``unit`` is that of whole numbers read as dates ("d") or timestamps ("s", "ms", "us", "ns"), for all fields
            that it fits, if any, or by name.

    >>> json_fields(T.parse_schema("at timestamp, city string"), "ms", {"city": "address.city"})[1].path
    ('address', 'city')

    Raises:
        UnknownColumnError: a path or a unit for a name that is not a field.
        PlanError: a unit that is none, or none of its field.
        TypeMismatchError: a type that JSON is not read as.
    """
    ways = dict(paths or {})
    units = {f.name: unit for f in schema} if isinstance(unit, str) else dict(unit)
    for what, given in (("paths", ways), ("unit", units)):
        unknown = next((n for n in given if n not in schema.names), None)
        if unknown is not None:
            raise UnknownColumnError(unknown, schema.names, what)
    fitting = {f.name: _units_of(f.type) for f in schema}
    wrong = [n for n, u in units.items() if u and u not in fitting[n]]
    if wrong and (not isinstance(unit, str) or unit not in ("d", *UNITS)):
        name = next((n for n in wrong if fitting[n]), wrong[0])
        raise PlanError(_misfit(schema.field(name), units[name], fitting[name]))
    readable = {n: u for n, u in units.items() if n not in wrong}
    result = tuple(
        JsonField(f.name, tuple(ways.get(f.name, f.name).split(".")), f.type, readable.get(f.name, "")) for f in schema
    )
    for field in result:
        try:
            parse_json(pa.array([], T.STRING), [field])
        except TypeMismatchError as error:
            raise TypeMismatchError(f"field {field.name!r}: {error}") from None
    return result


def _wanted(field: JsonField) -> list[tuple[tuple[str, ...], pa.DataType]]:
    """What has to be found to read a field: the member, and those read in its place."""
    if not field.fallbacks:
        return [(field.path, field.type)]
    return [(path, T.STRING) for path in (field.path, *field.fallbacks)]


def _units_of(data_type: pa.DataType) -> tuple[str, ...]:
    """The units that whole numbers in values of a type may have."""
    if data_type == T.DATE:
        return ("d",)
    if pt.is_timestamp(data_type):
        return tuple(UNITS)
    inner = [data_type.field(i).type for i in range(data_type.num_fields)]
    return tuple(dict.fromkeys(u for t in inner for u in _units_of(t)))


def _misfit(field: pa.Field, unit: str, fitting: Sequence[str]) -> str:
    kind = T.type_name(field.type)
    known = ", ".join(map(repr, fitting))
    remedy = f"its units are {known}" if known else "only dates and timestamps have one; leave it out"
    return f"unit={unit!r} does not fit field {field.name!r} of type {kind}: {remedy}"


def parse_json(
    texts: pa.Array, fields: Sequence[JsonField], needs: Sequence[tuple[tuple[str, ...], tuple[str, ...]]] = ()
) -> tuple[list[pa.Array], Mask | None, Callable[[int], tuple[str, str]]]:
    """Read fields of each text; return the columns, the rows that failed, and the code and message of each of those.

    A null text gives nulls, and so does a member that is absent or null, or within such a one. Of members of one name
    the last counts. A text that is no JSON (one value, at most 1,000 levels deep) fails as INVALID_JSON, and a member
    that its field's type cannot hold as JSON_TYPE:

    * boolean takes true and false; integers take numbers without fraction and exponent; float and double take numbers
      and Spark's words for those that JSON lacks ("NaN", "Infinity", "-INF" ...);
    * decimals take numbers, or strings of them, and round as a cast does;
    * strings take strings, and of other values the JSON without its white space;
    * binary takes base64;
    * dates and timestamps take strings as a cast does, and whole numbers where the field has a unit;
    * arrays take arrays, structs and maps take objects; members that a struct lacks are null.

    An object at a path of ``needs`` that has none of the members named there fails as MISSING_FIELDS.

    >>> from altneu.types import parse_type
    >>> fields = [JsonField("id", ("after", "id"), pa.int64()), JsonField("op", ("op",), pa.string())]
    >>> texts = pa.array(
    ...     ['{"op": "c", "after": {"id": 7}}', '{"op": "d", "after": null}', '{"after": [7]}', None]
    ... )
    >>> columns, failed, failure = parse_json(texts, fields)
    >>> [c.to_pylist() for c in columns], failed.tolist()
    ([[7, None, None, None], ['c', 'd', None, None]], [False, False, True, False])
    >>> failure(2)
    ('JSON_TYPE', 'after is [7], which is no object')

    Shape:  n texts in; a column a field, each of n values, which mean nothing where the row failed.
    Cost:   one pass over the bytes of the texts, and one more over those of lists and maps that are read.
    Law:    the values are those of Python's ``json`` (tests/operators/test_json_text.py).
    Source: RFC 8259.

    Raises:
        TypeMismatchError: a field's type is none that JSON is read as.
    """
    reader = Reader()
    root = Values.of_texts(texts)
    wanted = [(path, kind) for field in fields for path, kind in _wanted(field)]
    wanted += [((*path, name), T.STRING) for path, names in needs for name in names]
    result = reader.find(root, wanted)
    for path, names in needs:
        reader.check_needs(result, path, names)
    columns = [reader.field(result, f) for f in fields]
    if not reader.failed:
        return columns, None, reader.failed.__getitem__
    mask = np.zeros(len(texts), np.bool_)
    mask[list(reader.failed)] = True
    return columns, mask, reader.failed.__getitem__
