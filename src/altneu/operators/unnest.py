"""``unnest``: a row for each element of an array, or for each entry of a map."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from altneu.columnar.columns import children, valid_mask
from altneu.columnar.rows import Ints
from altneu.operators.expansion import Expansion


def unnest(values: pa.Array, *, ordinality: bool = False, outer: bool = False) -> Expansion:
    """One row an element; the columns are the elements, or the keys and the values, then the ordinals.

    A null and an empty array make no row; with ``outer`` they make one of nulls. Elements that are null make rows.

    >>> lists = pa.array([["a", None], [], None, ["b"]])
    >>> parents, columns = unnest(lists, ordinality=True, outer=True).rows(0, 10)
    >>> parents.tolist(), [c.to_pylist() for c in columns]
    ([0, 0, 1, 2, 3], [['a', None, None, None, 'b'], [1, 2, None, None, 1]])
    """
    offsets, parts = children(values)
    sizes = np.diff(offsets)
    if values.null_count:
        sizes = np.where(valid_mask(values), sizes, 0)  # a null may cover elements

    def columns(parents: Ints, steps: Ints) -> list[pa.Array]:
        nothing = sizes[parents] == 0 if outer else None
        index = pa.array(offsets[parents] + steps, mask=nothing)
        taken = [part.take(index) for part in parts]
        return [*taken, pa.array(steps + 1, mask=nothing)] if ordinality else taken

    return Expansion(np.maximum(sizes, 1) if outer else sizes, (), columns)
