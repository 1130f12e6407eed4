"""Updates: ``(data, time, diff)`` in columns, the form in which operators exchange collections."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar import few
from altneu.columnar.columns import Stack
from altneu.columnar.hashing import hash_rows
from altneu.columnar.immutable import immutable
from altneu.columnar.rows import Apply, Ints, Rows
from altneu.columnar.sorting import Unsorted, settle
from altneu.order import Lattice

_NO_COLUMNS = pa.schema([])


@immutable(frozen=True, slots=True)
class Updates:
    """n updates in no particular order, not necessarily consolidated.

    Shape:  ``rows`` n rows; ``times`` int64 of shape (width, n), one line per time coordinate; ``diffs`` int64 (n,).
    Units:  ``times`` counts ticks; ``diffs`` is a signed count.
    """

    rows: Rows
    times: Ints
    diffs: Ints

    def __len__(self) -> int:
        return self.diffs.size

    @property
    def schema(self) -> pa.Schema:
        """Schema of the data."""
        return self.rows.schema

    @classmethod
    def empty(cls, schema: pa.Schema, width: int) -> Updates:
        """No updates, the same each time; as of rows, the schema is known by its identity."""
        result = _EMPTY.get((id(schema), width))
        if result is None or result.rows.schema is not schema:
            if len(_EMPTY) >= _MOST_EMPTY:
                _EMPTY.clear()
            nothing = np.empty((width, 0), np.int64), np.empty(0, np.int64)
            result = _EMPTY[id(schema), width] = Updates(Rows.empty(schema), *nothing)
        return result

    @classmethod
    def concat(cls, parts: Sequence[Updates], schema: pa.Schema, width: int, apply: Apply = map) -> Updates:
        """Stack updates of one schema; ``apply`` as for ``Rows.concat``."""
        parts = [p for p in parts if p.diffs.size]
        if not parts:
            return cls.empty(schema, width)
        if not parts[1:]:
            return parts[0]
        times, diffs = apply(
            lambda arrays: np.concatenate(arrays, axis=-1), ([p.times for p in parts], [p.diffs for p in parts])
        )
        return cls(Rows.concat([p.rows for p in parts], schema, apply), times, diffs)

    def take(self, index: npt.NDArray[np.integer]) -> Updates:
        """Updates at ``index``, in that order."""
        return Updates(self.rows.take(index), self.times.take(index, axis=1), self.diffs[index])

    def filter(self, mask: npt.NDArray[np.bool_]) -> Updates:
        """Updates whose mask is true."""
        return self.take(np.flatnonzero(mask))

    def slice(self, start: int, stop: int) -> Updates:
        """Updates ``start`` to ``stop``: rows and diffs are not copied."""
        return Updates(
            self.rows.slice(start, stop), np.ascontiguousarray(self.times[:, start:stop]), self.diffs[start:stop]
        )

    def with_rows(self, rows: Rows) -> Updates:
        """The same times and diffs on other rows (of equal count)."""
        return Updates(rows, self.times, self.diffs)


_MOST_EMPTY = 4096
_EMPTY: dict[tuple[int, int], Updates] = {}  # by the identity of their schema, which they keep, and the width of times


def consolidate(updates: Updates, lattice: Lattice) -> Updates:
    """Sum the diffs of equal ``(data, time)`` pairs and drop the zeros.

    Shape:  n updates in, m <= n out, in the order of batches; no two share ``(data, time)``; no zero diff.
    Cost:   O(n log n), no exchange, no state.
    Law:    the accumulation at every time is unchanged (tests/laws/test_update.py).
    Source: McSherry et al., Differential Dataflow, CIDR 2013.

    Raises:
        DiffOverflowError: a summed diff exceeds the signed 64-bit range.

    >>> from altneu.order import Epoch
    >>> rows = Rows.from_pydict({"a": ["x", "y", "x"]}, pa.schema([("a", pa.string())]))
    >>> twice = Updates(rows, np.array([[0, 0, 0]]), np.array([1, 0, 1]))
    >>> one = consolidate(twice, Epoch())
    >>> one.rows.to_pylist(), one.diffs.tolist()
    ([('x',)], [2])
    """
    if len(updates) <= 1:
        return updates if np.count_nonzero(updates.diffs) == len(updates) else updates.take(np.empty(0, np.int64))
    columns, count = updates.rows.columns, updates.diffs.size
    if count <= few.MOST and (places := few.places_of(columns)) is not None:
        known = few.settled(places[None], few.STARTS[count], len(columns), updates.times, updates.diffs)
        if known is not None:
            index, (_, _, times, diffs), _, _ = known
            return Updates(updates.rows.built() if index is None else updates.rows.take(index).built(), times, diffs)
    stack = Stack([updates.rows], updates.schema)
    nothing = Stack([Rows(_NO_COLUMNS, (), len(updates))], _NO_COLUMNS)
    hashes = hash_rows(updates.rows)
    rows_in = Unsorted(stack, nothing, hashes, np.zeros(len(updates), np.uint64), updates.times, updates.diffs)
    done = settle(rows_in, lattice)
    return Updates(stack.take(done.index), done.times, done.diffs)
