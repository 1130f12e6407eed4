"""Casts from variants to other types, and of other types to variants.

Source: Spark's ``VariantGet.cast`` and ``castToVariant``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.columnar.canonical import canonical
from altneu.expressions.documents import Object
from altneu.expressions.each import RowFailure, python
from altneu.expressions.lists import explode
from altneu.expressions.variants import binary
from altneu.expressions.variants.binary import ARRAY, OBJECT, UUID, Reader, Variant, encoded
from altneu.expressions.variants.schemas import size_of
from altneu.expressions.variants.text import json_text, stripped
from altneu.expressions.vector import Failure, Vector, failed_rows

Place = tuple[Reader, int] | None
"""A value inside of a variant."""
INVALID = "INVALID_VARIANT_CAST"
_SCALARS = (
    T.BOOLEAN,
    T.BYTE,
    T.SHORT,
    T.INT,
    T.LONG,
    T.FLOAT,
    T.DOUBLE,
    T.STRING,
    T.BINARY,
    T.DATE,
    T.TIMESTAMP,
    T.TIMESTAMP_NTZ,
)
_LONG = (-(1 << 63), (1 << 63) - 1)
_SHOWN = 200


class Casts(NamedTuple):
    """How values that are no variants are cast: whether they can be, and the cast."""

    possible: Callable[[pa.DataType, pa.DataType], bool]
    convert: Callable[[Vector, pa.DataType], Vector]


class Read(NamedTuple):
    """Values of a type, null where there is none, and the rows that failed."""

    values: pa.Array
    failures: dict[int, RowFailure]


def readable(kind: pa.DataType) -> bool:
    """Whether a variant may be cast to a type."""
    if kind in (*_SCALARS, T.TIME, T.VARIANT) or pt.is_decimal128(kind):
        return True
    if pt.is_list(kind):
        return readable(kind.value_type)
    if pt.is_map(kind):
        return bool(kind.key_type == T.STRING) and readable(kind.item_type)
    return bool(pt.is_struct(kind)) and all(readable(f.type) for f in kind)


def writable(kind: pa.DataType, *, objects: bool) -> bool:
    """Whether values of a type may become variants; maps and structs if ``objects``."""
    if kind in (*_SCALARS, T.VARIANT) or pt.is_decimal128(kind):
        return True
    if pt.is_list(kind):
        return writable(kind.value_type, objects=objects)
    if not objects:
        return False
    if pt.is_map(kind):
        return bool(kind.key_type == T.STRING) and writable(kind.item_type, objects=True)
    return bool(pt.is_struct(kind)) and all(writable(f.type, objects=True) for f in kind)


def nullable(kind: pa.DataType) -> pa.DataType:
    """The type with everything in it nullable, as what comes of a variant is."""
    if kind == T.VARIANT:
        return kind
    if pt.is_struct(kind):
        return pa.struct([pa.field(f.name, nullable(f.type)) for f in kind])
    if pt.is_list(kind):
        return T.list_type(nullable(kind.value_type))
    return pa.map_(kind.key_type, nullable(kind.item_type)) if pt.is_map(kind) else kind


def failures_of(failures: dict[int, RowFailure], count: int) -> tuple[Failure, ...]:
    """The failures of rows, by code."""
    by_code: dict[str, dict[int, str]] = {}
    for row, failure in failures.items():
        by_code.setdefault(failure.code, {})[row] = failure.message
    result = []
    for code, rows in by_code.items():
        mask = np.zeros(count, np.bool_)
        mask[list(rows)] = True
        result.append(Failure(mask, code, rows.__getitem__))
    return tuple(result)


# from variants --------------------------------------------------------------------------------------------------------


def places(array: pa.Array) -> tuple[list[Place], dict[int, RowFailure]]:
    """The values of a column of variants, and the rows whose bytes are none."""
    result: list[Place] = []
    failures: dict[int, RowFailure] = {}
    for row, value in enumerate(array.to_pylist()):
        place: Place = None
        try:
            place = None if value is None else (Reader(value["value"], value["metadata"]), 0)
        except RowFailure as error:
            failures[row] = error
        result.append(place)
    return result, failures


def column_read(array: pa.Array, kind: pa.DataType, casts: Casts, *, strict: bool) -> Vector:
    """A column of variants cast to a type; what does not fit fails its row if ``strict``, else it is null by itself."""
    found, failures = places(array)
    return vector_of(read(found, kind, casts), failures, strict=strict)


def vector_of(result: Read, failures: dict[int, RowFailure], *, strict: bool) -> Vector:
    """What was read as a vector, with the failures that count."""
    count = len(result.values)
    counted = {row: error for row, error in result.failures.items() if strict or error.code != INVALID}
    return Vector(result.values.type, arrow=result.values, failures=failures_of({**counted, **failures}, count))


def read(found: Sequence[Place], kind: pa.DataType, casts: Casts) -> Read:
    """Values inside of variants as values of a type.

    Shape:  n places in, n values out; a place that is None, and the null of a document, are null.
    """
    if kind == T.VARIANT:
        return _variants(found)
    if pt.is_list(kind):
        return _arrays(found, kind, casts)
    if pt.is_map(kind) or pt.is_struct(kind):
        return _objects(found, kind, casts)
    return _scalars(found, kind, casts)


def _unfit(place: Place, kind: pa.DataType) -> RowFailure:
    assert place is not None
    try:
        text = json_text(*place)
    except RowFailure as error:
        return error
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return RowFailure(INVALID, f"the variant {shown} cannot be cast to {T.type_name(kind)}")


def _variants(found: Sequence[Place]) -> Read:
    values: list[Variant | None] = []
    failures: dict[int, RowFailure] = {}
    for row, place in enumerate(found):
        value = None
        try:
            value = None if place is None else encoded(place[0].tree(place[1]))
        except RowFailure as error:
            failures[row] = error
        values.append(value)
    return Read(binary.variants(values), failures)


def _inside(
    found: Sequence[Place], kind: pa.DataType, wanted: int
) -> tuple[list[list[Any] | None], dict[int, RowFailure]]:
    """The elements or fields of every value; None where it is null or of another kind, which fails."""
    parts: list[list[Any] | None] = []
    failures: dict[int, RowFailure] = {}
    for row, place in enumerate(found):
        inner: list[Any] | None = None
        try:
            if place is not None and not place[0].is_null(place[1]):
                reader, at = place
                if reader.kind(at) != wanted:
                    failures[row] = _unfit(place, kind)
                elif wanted == ARRAY:
                    inner = [(reader, place) for place in reader.elements(at)]
                else:
                    inner = [(name, (reader, place)) for name, place in reader.members(at)]
        except RowFailure as error:
            failures[row] = error
        parts.append(inner)
    return parts, failures


def _arrays(found: Sequence[Place], kind: pa.DataType, casts: Casts) -> Read:
    parts, failures = _inside(found, kind, ARRAY)
    inner = read([place for part in parts for place in part or ()], kind.value_type, casts)
    rows = [row for row, part in enumerate(parts) for _ in part or ()]
    _add(failures, inner, rows)
    return Read(pa.ListArray.from_arrays(_offsets(parts), inner.values, type=kind), failures)


def _objects(found: Sequence[Place], kind: pa.DataType, casts: Casts) -> Read:
    parts, failures = _inside(found, kind, OBJECT)
    if pt.is_map(kind):
        members = [member for part in parts for member in part or ()]
        inner = read([place for _, place in members], kind.item_type, casts)
        _add(failures, inner, [row for row, part in enumerate(parts) for _ in part or ()])
        keys = pa.array([name for name, _ in members], T.STRING)
        return Read(canonical(pa.MapArray.from_arrays(_offsets(parts), keys, inner.values, type=kind)), failures)
    by_name = [dict(part or ()) for part in parts]
    columns = []
    for field in kind:
        inner = read([members_.get(field.name) for members_ in by_name], field.type, casts)
        _add(failures, inner, range(len(parts)))
        columns.append(inner.values)
    absent = pa.array([part is None for part in parts], pa.bool_())
    return Read(pa.StructArray.from_arrays(columns, fields=list(kind), mask=absent), failures)


def _add(failures: dict[int, RowFailure], inner: Read, rows: Sequence[int]) -> None:
    """The first failure of the parts of every row; one that is more than a value that does not fit comes first."""
    for at, error in sorted(inner.failures.items(), key=lambda item: (item[1].code == INVALID, item[0])):
        failures.setdefault(rows[at], error)


def _offsets(parts: Sequence[list[Any] | None]) -> pa.Array:
    at, offsets = 0, []
    for part in parts:
        offsets.append(None if part is None else at)
        at += len(part or ())
    return pa.array([*offsets, at], pa.int32())


def _scalars(found: Sequence[Place], kind: pa.DataType, casts: Casts) -> Read:
    """Values that have no parts: all of one type are cast together."""
    groups: dict[pa.DataType, tuple[list[int], list[Any]]] = {}
    failures: dict[int, RowFailure] = {}
    for row, place in enumerate(found):
        try:
            it = None if place is None else _scalar(*place, kind)
        except RowFailure as error:
            failures[row] = error if error.code != INVALID else _unfit(place, kind)
            continue
        if it is not None and it[1] is not None:
            rows, values = groups.setdefault(it[0], ([], []))
            rows.append(row)
            values.append(it[1])
    pieces: list[pa.Array] = []
    index: list[int | None] = [None] * len(found)
    at = 0
    for source, (rows, values) in groups.items():
        result, bad = _converted(source, values, kind, casts)
        for i, row in enumerate(rows):
            if bad[i]:
                failures[row] = _unfit(found[row], kind)
            else:
                index[row] = at + i
        pieces.append(result)
        at += len(rows)
    if not pieces:
        return Read(pa.nulls(len(found), kind), failures)
    return Read(pa.concat_arrays(pieces).take(pa.array(index, pa.int64())), failures)


def _scalar(reader: Reader, at: int, kind: pa.DataType) -> tuple[pa.DataType, Any]:
    if reader.kind(at) in (OBJECT, ARRAY):
        if kind != T.STRING:
            raise RowFailure(INVALID, "")
        return T.STRING, json_text(reader, at)
    source, value = reader.scalar(at)
    if source is UUID:
        if kind != T.STRING:
            raise RowFailure(INVALID, "")
        return T.STRING, value
    if source == Decimal:
        value = stripped(value)
        return pa.decimal128(*size_of(value)), value
    return source, value


def _converted(source: pa.DataType, values: list[Any], kind: pa.DataType, casts: Casts) -> tuple[pa.Array, Any]:
    """Values of one type in another, and which of them do not fit."""
    if kind == T.TIMESTAMP and (source == T.LONG or pt.is_decimal128(source)):
        micros = [value * 1_000_000 if source == T.LONG else _micros(value) for value in values]
        bad = np.array([not _LONG[0] <= m <= _LONG[1] for m in micros], np.bool_)
        fit = [None if b else m for m, b in zip(micros, bad, strict=True)]
        return pa.array(fit, pa.int64()).cast(kind), bad
    if not casts.possible(source, kind):
        return pa.nulls(len(values), kind), np.ones(len(values), np.bool_)
    storage = pa.int32() if source == T.DATE else pa.int64() if source in (T.TIMESTAMP, T.TIMESTAMP_NTZ) else source
    result = casts.convert(Vector(source, arrow=pa.array(values, storage).cast(source)), kind)
    null = np.asarray(result.arrow.is_null())
    failed = failed_rows(result.failures)
    return result.arrow, null if failed is None else null | failed


def _micros(seconds: Decimal) -> int:
    sign, digits, exponent = seconds.as_tuple()
    whole = int("".join(map(str, digits))) * 1_000_000 // 10 ** -int(exponent)
    return -whole if sign else whole


# to variants ----------------------------------------------------------------------------------------------------------


def column_written(array: pa.Array) -> Vector:
    """A column of any type that may become variants as such; null where it is null."""
    values: list[Variant | None] = []
    failures: dict[int, RowFailure] = {}
    valid = array.is_valid().to_pylist()
    for row, tree in enumerate(trees(array)):
        value = None
        try:
            value = encoded(tree) if valid[row] else None
        except RowFailure as error:
            failures[row] = error
        values.append(value)
    return Vector(T.VARIANT, arrow=binary.variants(values), failures=failures_of(failures, len(array)))


def trees(array: pa.Array) -> list[Any]:
    """The trees of values, the failure that writing will raise in the place of what has none.

    Shape:  n values in, n trees out; null is None.
    """
    kind = array.type
    if kind == T.VARIANT:
        return [_tree(value) for value in array.to_pylist()]
    if kind == T.NULL:
        return [None] * len(array)
    if pt.is_list(kind) or pt.is_map(kind):
        lists = explode(array)
        if pt.is_map(kind):
            names, items = lists.elements.field(0).to_pylist(), trees(lists.elements.field(1))
            parts: list[Any] = list(zip(names, items, strict=True))
        else:
            parts = trees(lists.elements)
        make = Object if pt.is_map(kind) else list
        bounds = lists.offsets.tolist()
        valid = array.is_valid().to_pylist()
        return [
            make(parts[start:end]) if there else None
            for start, end, there in zip(bounds, bounds[1:], valid, strict=False)
        ]
    if pt.is_struct(kind):
        columns = [(field.name, trees(part)) for field, part in zip(kind, array.flatten(), strict=True)]
        valid = array.is_valid().to_pylist()
        return [
            Object((name, column[row]) for name, column in columns) if there else None
            for row, there in enumerate(valid)
        ]
    written = Decimal if pt.is_decimal128(kind) else kind
    return [None if value is None else binary.scalar(written, value) for value in python(array)]


def _tree(value: Any) -> Any:
    if value is None:
        return None
    try:
        return Reader(value["value"], value["metadata"]).tree()
    except RowFailure as error:
        return error
