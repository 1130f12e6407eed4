"""Floats as altneu keeps them: one NaN, and no negative zero, at any depth, so that equal values have equal bits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from altneu.rows import Rows


def has_floats(data_type: pa.DataType) -> bool:
    """Whether a type holds floats anywhere.

    >>> has_floats(pa.list_(pa.float64())), has_floats(pa.int64())
    (True, False)
    """
    if pa.types.is_floating(data_type):
        return True
    return any(has_floats(data_type.field(i).type) for i in range(data_type.num_fields))


def normalise(column: pa.Array) -> pa.Array:
    """The same values with one NaN and no -0.0; the very array when it has none to change.

    >>> normalise(pa.array([-0.0, None, 1.5])).to_pylist()
    [0.0, None, 1.5]
    """
    if pa.types.is_floating(column.type):
        return _normalise_flat(column)
    if not has_floats(column.type):
        return column
    if pa.types.is_struct(column.type):
        names = [column.type.field(i) for i in range(column.type.num_fields)]
        mask = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays([normalise(c) for c in column.flatten()], fields=names, mask=mask)
    mask = column.is_null() if column.null_count else None
    offsets = column.offsets
    if pa.types.is_map(column.type):
        made = pa.MapArray.from_arrays(offsets, normalise(column.keys), normalise(column.items))
    else:
        made = pa.ListArray.from_arrays(offsets, normalise(column.values))
    return (
        pa.array([None if m else v for m, v in zip(mask.to_pylist(), made.to_pylist(), strict=True)], column.type)
        if mask is not None
        else made.cast(column.type)
    )


def _normalise_flat(column: pa.Array) -> pa.Array:
    values = (
        column.to_numpy(zero_copy_only=False)
        if column.null_count == 0
        else column.fill_null(0).to_numpy(zero_copy_only=False)
    )
    odd = np.isnan(values) | ((values == 0) & np.signbit(values))
    if not odd.any():
        return column
    fixed = np.where(np.isnan(values), np.nan, values + 0.0).astype(values.dtype)
    mask = np.asarray(column.is_null()) if column.null_count else None
    return pa.array(fixed, column.type, mask=mask)


def normalise_rows(rows: Rows) -> Rows:
    """Rows with every float column normalised."""
    if not any(has_floats(f.type) for f in rows.schema):
        return rows
    return Rows(rows.schema, tuple(map(normalise, rows.columns)), rows.count)
