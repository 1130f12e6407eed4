"""Matches of a join as rows that are not there yet: positions in blocks, and the columns that were asked for.

Most matches of a join with a filter behind it are thrown away. What a filter reads is gathered for all of them, what
it does not read only for those that it kept, and what nothing reads never.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.immutable import immutable
from altneu.columnar.rows import Ints, Rows, positions_of, taken


class Side(Protocol):
    """What matched rows read of a block: keys and values."""

    @property
    def keys(self) -> Rows:
        """The columns of the key."""

    @property
    def values(self) -> Rows:
        """The other columns."""


@immutable(frozen=True, slots=True)
class Found:
    """Rows of several blocks, brought together."""

    keys: Rows
    values: Rows


@immutable(frozen=True, slots=True)
class Pairs:
    """Matches between a left and a right block.

    Shape:  ``at`` holds n positions in either block; ``times`` int64 ``(width, n)``; ``diffs`` int64 ``(n,)``.
    """

    blocks: tuple[Side, Side]
    at: tuple[Ints, Ints]
    times: Ints
    diffs: Ints

    def __len__(self) -> int:
        return len(self.diffs)


class MatchedRows(Rows):
    """Rows whose columns are gathered from the blocks of a join when they are read.

    ``outputs`` says for a column of which side it is and how it is named there; ``added`` are columns that were
    computed since. Position k belongs to the last pair of blocks whose start is at or before k.
    """

    __slots__ = ("_added", "_at", "_blocks", "_cut", "_made", "_outputs", "_starts")

    _outputs: Mapping[str, tuple[int, str]]
    _blocks: Sequence[tuple[Side, Side]]
    _starts: Ints
    _at: tuple[Ints, Ints]
    _added: Mapping[str, pa.Array]
    _made: dict[str, pa.Array]
    _cut: dict[int, list[tuple[Side, pa.Array]]]  # what _positions found

    def __init__(
        self,
        schema: pa.Schema,
        outputs: Mapping[str, tuple[int, str]],
        blocks: Sequence[tuple[Side, Side]],
        starts: Ints,
        at: tuple[Ints, Ints],
        added: Mapping[str, pa.Array],
    ) -> None:
        put = object.__setattr__  # the class it extends is frozen
        put(self, "schema", schema)
        put(self, "count", len(at[0]))
        put(self, "_outputs", outputs)
        put(self, "_blocks", blocks)
        put(self, "_starts", starts)
        put(self, "_at", at)
        put(self, "_added", added)
        put(self, "_made", {})
        put(self, "_cut", {})

    @classmethod
    def of(cls, pairs: Sequence[Pairs], schema: pa.Schema, outputs: Mapping[str, tuple[int, str]]) -> MatchedRows:
        """The rows of all pairs, one after the other; there is at least one."""
        if len(pairs) == 1:
            return cls(schema, outputs, [pairs[0].blocks], np.array([0, len(pairs[0])]), pairs[0].at, {})
        left, right = (np.concatenate([p.at[side] for p in pairs]) for side in (0, 1))
        starts = np.array([*accumulate(map(len, pairs), initial=0)])
        return cls(schema, outputs, [p.blocks for p in pairs], starts, (left, right), {})

    @property
    def columns(self) -> tuple[pa.Array, ...]:
        """All columns, gathered."""
        return tuple([self.column(name) for name in self.schema.names])

    def column(self, name: str) -> pa.Array:
        """One column, gathered when it is first asked for."""
        array = self._added.get(name)
        if array is None:
            array = self._made.get(name)
        if array is None:
            array = self._made[name] = self._gathered(*self._outputs[name])
        return array

    def column_at(self, name: str, index: npt.NDArray[np.integer]) -> pa.Array:
        """The values of one column at ``index``: of a column that was not read yet, only these are gathered."""
        if name in self._made or name in self._added or not self._keeps_order(index):
            return super().column_at(name, index)
        return self._moved(index, {}).column(name)

    def _gathered(self, side: int, name: str) -> pa.Array:
        parts = [_side_of(block, name).gathered(name, at) for block, at in self._positions(side)]
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def _positions(self, side: int) -> list[tuple[Side, pa.Array]]:
        """The blocks of a side that have rows here, and the positions of these; at least one block."""
        result = self._cut.get(side)
        if result is None:
            at, bounds = self._at[side], self._starts.tolist()
            result = self._cut[side] = [
                (blocks[side], positions_of(at[start:stop]))
                for blocks, start, stop in zip(self._blocks, bounds, bounds[1:], strict=False)
                if stop > start
            ] or [(self._blocks[0][side], positions_of(at))]
        return result

    def take(self, index: npt.NDArray[np.integer]) -> Rows:
        """Rows at ``index``; what was only gathered, and not computed, is forgotten."""
        if not self._keeps_order(index):
            return self.built().take(index)
        positions = positions_of(index)
        return self._moved(index, {name: taken(array, positions) for name, array in self._added.items()})

    def _keeps_order(self, index: npt.NDArray[np.integer]) -> bool:
        """Whether rows of one pair of blocks stay together."""
        return len(self._blocks) == 1 or not bool((index[1:] < index[:-1]).any())

    def _moved(self, index: npt.NDArray[np.integer], added: Mapping[str, pa.Array]) -> MatchedRows:
        at = (self._at[0][index], self._at[1][index])
        return MatchedRows(self.schema, self._outputs, self._blocks, np.searchsorted(index, self._starts), at, added)

    def slice(self, start: int, stop: int) -> Rows:
        """Rows ``start`` to ``stop``."""
        added = {name: array.slice(start, stop - start) for name, array in self._added.items()}
        at = (self._at[0][start:stop], self._at[1][start:stop])
        starts = np.clip(self._starts, start, stop) - start
        return MatchedRows(self.schema, self._outputs, self._blocks, starts, at, added)

    def widened(self, schema: pa.Schema, columns: Sequence[pa.Array]) -> Rows:
        """With computed columns behind those there are."""
        fresh = dict(zip(schema.names[len(self.schema) :], columns, strict=True))
        wider = MatchedRows(schema, self._outputs, self._blocks, self._starts, self._at, {**self._added, **fresh})
        wider._made.update(self._made)
        return wider

    def built(self) -> Rows:
        """The same as ordinary rows: positions and blocks are let go of."""
        return Rows(self.schema, self.columns, self.count)


def _side_of(block: Side, name: str) -> Rows:
    """Which of a block's rows have a column: its keys or its values."""
    return block.keys if block.keys.schema.get_field_index(name) >= 0 else block.values
