"""Values as altneu keeps them, at any depth, so that equal values have equal bits: floats and maps have several forms.

There is one NaN and no negative zero, and the entries of a map are in the order of their keys.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from altneu.columnar.columns import children, encode, equal_values
from altneu.columnar.rows import Rows

Mask = npt.NDArray[np.bool_]


def varies(data_type: pa.DataType) -> bool:
    """Whether equal values of a type may come in several forms.

    >>> varies(pa.list_(pa.float64())), varies(pa.map_(pa.string(), pa.int64())), varies(pa.int64())
    (True, True, False)
    """
    if pa.types.is_floating(data_type) or pa.types.is_map(data_type):
        return True
    return any(varies(data_type.field(i).type) for i in range(data_type.num_fields))


def canonical(column: pa.Array) -> pa.Array:
    """The same values, each in its one form; the very array when all are in it.

    >>> canonical(pa.array([-0.0, None, 1.5])).to_pylist()
    [0.0, None, 1.5]
    >>> canonical(pa.array([{"b": 1, "a": 2}], pa.map_(pa.string(), pa.int64()))).to_pylist()
    [[('a', 2), ('b', 1)]]
    """
    if pa.types.is_floating(column.type):
        return _one_float(column)
    if not varies(column.type):
        return column
    mask = column.is_null() if column.null_count else None
    if pa.types.is_struct(column.type):
        parts = column.flatten()
        forms = [canonical(part) for part in parts]
        if all(m is part for m, part in zip(forms, parts, strict=True)):
            return column
        return pa.StructArray.from_arrays(forms, fields=list(column.type), mask=mask)
    offsets, parts = children(column)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    parts = [part.slice(first, count) for part in parts]
    forms = [canonical(part) for part in parts]
    if pa.types.is_map(column.type) and (order := _order(forms[0], offsets)) is not None:
        forms = [part.take(pa.array(order)) for part in forms]
    if all(m is part for m, part in zip(forms, parts, strict=True)):
        return column
    kind = pa.MapArray if pa.types.is_map(column.type) else pa.ListArray
    return kind.from_arrays(pa.array(offsets - first, pa.int32()), *forms, type=column.type, mask=mask)


def repeated_keys(column: pa.Array) -> Mask:
    """The values, canonical ones, in which a map has a key twice, at any depth.

    >>> kind = pa.map_(pa.string(), pa.int64())
    >>> repeated_keys(canonical(pa.array([[("a", 1)], [("a", 1), ("b", 2), ("a", 3)]], kind))).tolist()
    [False, True]
    """
    repeated = np.zeros(len(column), np.bool_)
    if not varies(column.type) or pa.types.is_floating(column.type):
        return repeated
    if pa.types.is_struct(column.type):
        return np.logical_or.reduce([repeated, *map(repeated_keys, column.flatten())])
    offsets, parts = children(column)
    first, rows = int(offsets[0]), _parents(offsets)
    parts = [part.slice(first, len(rows)) for part in parts]
    for part in parts:
        repeated[rows[repeated_keys(part)]] = True
    if pa.types.is_map(column.type):
        follows = np.flatnonzero(rows[1:] == rows[:-1])
        repeated[rows[follows[equal_values(parts[0], follows, follows + 1)]]] = True
    return repeated & np.asarray(column.is_valid())


def canonical_rows(rows: Rows) -> Rows:
    """Rows with every value in its one form.

    Raises:
        pyarrow.ArrowInvalid: a map has a key twice.
    """
    if not any(varies(f.type) for f in rows.schema):
        return rows
    columns = tuple(map(canonical, rows.columns))
    for field, column in zip(rows.schema, columns, strict=True):
        if repeated_keys(column).any():
            raise pa.ArrowInvalid(f"a map of column {field.name!r} has a key twice")
    return Rows(rows.schema, columns, rows.count)


def _one_float(column: pa.Array) -> pa.Array:
    values = (
        column.to_numpy(zero_copy_only=False)
        if column.null_count == 0
        else column.fill_null(0).to_numpy(zero_copy_only=False)
    )
    nan = np.isnan(values)
    odd = nan | ((values == 0) & np.signbit(values))
    if not odd.any():
        return column
    fixed = np.where(nan, np.nan, values + 0.0).astype(values.dtype)
    words = f"u{values.itemsize}"
    if (fixed.view(words) == values.view(words)).all():
        return column
    mask = np.asarray(column.is_null()) if column.null_count else None
    return pa.array(fixed, column.type, mask=mask)


def _parents(offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The list that each element is in."""
    return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))


def _order(keys: pa.Array, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.int64] | None:
    """The order in which each map's entries are in the order of their keys; None: as they are."""
    if pa.types.is_nested(keys.type):
        texts = encode(Rows(pa.schema([("key", keys.type)]), (keys,), len(keys)))
        sequence = np.array(sorted(range(len(texts)), key=texts.__getitem__), np.int64)
    else:
        sequence = pc.sort_indices(keys).to_numpy().astype(np.int64)
    place = np.empty(len(keys), np.int64)
    place[sequence] = np.arange(len(keys))
    order = np.lexsort((place, _parents(offsets)))
    return None if (order[1:] > order[:-1]).all() else order
