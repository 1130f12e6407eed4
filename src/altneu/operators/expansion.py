"""Rows that make rows: how many each makes, and any slice of what they make, without building the rest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.rows import Ints

Mask = npt.NDArray[np.bool_]
Failures: TypeAlias = tuple[tuple[Mask, str, Callable[[int], str]], ...]
"""Rows that failed, a code, and the message of each such row."""
MOST = int(np.iinfo(np.int64).max)
"""Counts end here; that many rows are never made."""


@dataclass(frozen=True)
class Expansion:
    """What a table function makes of n rows.

    Row i makes ``counts[i]`` rows; they come in order, those of row 0 first. ``columns(parents, steps)`` makes the new
    columns of the rows ``steps[k]`` (from 0) of the input rows ``parents[k]``.

    ``failures`` are masks of the rows that made an error instead, each with a code and a message by row; such a row
    has count 0.

    >>> thrice = Expansion(np.array([2, 0, 1]), (), lambda parents, steps: [pa.array(10 * parents + steps)])
    >>> parents, [column] = thrice.rows(1, 3)
    >>> parents.tolist(), column.to_pylist()
    ([0, 2], [1, 20])
    """

    counts: Ints
    failures: Failures
    columns: Callable[[Ints, Ints], list[pa.Array]]

    @cached_property
    def total(self) -> int:
        """How many rows there are, at most ``MOST``."""
        return int(self._ends[-1]) if len(self._ends) else 0

    def rows(self, begin: int, end: int) -> tuple[Ints, list[pa.Array]]:
        """The rows at output positions from ``begin`` up to ``end``: the input rows they come from, and the columns.

        Shape:  min(end, total) - begin rows.
        Cost:   O(end - begin), and O(log n) to find the place.
        Law:    slices joined are the whole (tests/operators/test_series.py, tests/operators/test_unnest.py).
        """
        end = min(end, self.total)
        begin = min(begin, end)
        first, last = (int(p) for p in np.searchsorted(self._ends, (begin, end), side="right"))
        last = min(last + 1, len(self._ends))
        starts = self._starts[first:last]
        sizes = np.minimum(self._ends[first:last], end) - np.maximum(starts, begin)
        parents = np.repeat(self._making[first:last], sizes)
        steps = np.arange(begin, end) - np.repeat(starts, sizes)
        return parents, self.columns(parents, steps)

    @cached_property
    def _making(self) -> Ints:
        """The rows that make any."""
        return np.flatnonzero(self.counts)

    @cached_property
    def _ends(self) -> Ints:
        """Where the rows that each of them makes end."""
        counts = self.counts[self._making]
        if counts.sum(dtype=np.float64) < MOST / 2:
            return np.cumsum(counts)
        return np.array(list(accumulate(counts.tolist(), lambda a, b: min(a + b, MOST))), np.int64)

    @cached_property
    def _starts(self) -> Ints:
        return np.concatenate([np.zeros(1, np.int64), self._ends])[:-1]
