"""Values of nested types: order and equality as Spark defines them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.expressions.vector import Values, validity


def ranks(left: pa.Array, right: pa.Array) -> tuple[Values, Values]:
    """Integers that compare as the values of two arrays of one type do; nulls inside are least."""
    dense = rank(pa.concat_arrays([left, right]))
    return dense[: len(left)], dense[len(left) :]


def rank(array: pa.Array) -> Values:
    """Dense ranks in Spark's order: null least, NaN greatest, arrays and structs by their parts from the left."""
    valid = validity(array)
    if pt.is_struct(array.type):
        parts = [rank(child) for child in array.flatten()]
        dense = _dense(parts) if parts else np.zeros(len(array), np.int64)
    elif pt.is_list(array.type):
        dense = _rank_lists(array)
    elif array.type == T.NULL:
        return np.zeros(len(array), np.int64)
    else:
        dense = _rank_atoms(array)
    return dense if valid is None else np.where(valid, dense + 1, 0)


def _rank_atoms(array: pa.Array) -> Values:
    if pt.is_floating(array.type):
        values = np.nan_to_num(array.to_numpy(zero_copy_only=False), nan=0.0, posinf=np.inf, neginf=-np.inf)
        missing = np.isnan(array.to_numpy(zero_copy_only=False))
        return _dense([missing.astype(np.int64), np.unique(values, return_inverse=True)[1].reshape(-1)])
    filled: Any = pc.rank(array, sort_keys="ascending", tiebreaker="dense")
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def _dense(columns: list[Values]) -> Values:
    """Dense ranks of rows of integers, compared from the left."""
    if not len(columns[0]):
        return np.zeros(0, np.int64)
    order = np.lexsort(columns[::-1])
    changed = np.zeros(len(order), np.bool_)
    for column in columns:
        moved = column[order]
        changed[1:] |= moved[1:] != moved[:-1]
    dense = np.empty(len(order), np.int64)
    dense[order] = np.cumsum(changed)
    return dense


def _rank_lists(array: pa.Array) -> Values:
    lengths = np.nan_to_num(np.asarray(pc.list_value_length(array).fill_null(0)), nan=0).astype(np.int64)
    elements = rank(array.flatten()) + 1
    starts = np.cumsum(lengths) - lengths
    result = np.zeros(len(array), np.int64)
    for position in range(int(lengths.max(initial=0)) - 1, -1, -1):
        here = lengths > position
        part = np.zeros(len(array), np.int64)
        part[here] = elements[starts[here] + position]
        result = _dense([part, np.where(here, result, 0)])
    return result
