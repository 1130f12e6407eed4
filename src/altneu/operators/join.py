"""Equijoin of two arrangements, by arrival.

Every pair of one update from either side is produced exactly once, in the step in which the later of the two arrives,
at the join of their times: new left with old and new right, old left with new right. No time is compared, so this is
right for every lattice, any partition of the updates into steps, self-joins, and any compaction up to ``lower``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu import difference
from altneu.batch import Arranged, Batch, Block
from altneu.order import Lattice
from altneu.rows import Ints, Rows
from altneu.update import Updates


class TooManyMatches(Exception):  # noqa: N818 -- a signal between the step and its executor, not an error
    """A join would make more matches than the executor allows in this place."""


@dataclass(frozen=True)
class JoinSpec:
    """Which columns of which side form the output; ``outputs`` holds (name, side, column)."""

    schema: pa.Schema
    outputs: tuple[tuple[str, int, str], ...]
    lattice: Lattice


def join(left: Arranged, right: Arranged, spec: JoinSpec, budget: int | None = None) -> Updates:
    """Join the updates that arrive in this step with what is there.

    Shape:  output columns as ``spec.outputs`` says; times are joins, diffs products.
    Cost:   O(d log n + matches) for d new updates; no exchange, no state beside the two arrangements.
    Law:    at every time the output accumulates to the join of what the inputs accumulate to
            (tests/oracle/test_operators.py).
    Source: McSherry et al., Differential Dataflow, CIDR 2013.

    Raises:
        DiffOverflowError: a product of diffs leaves int64.
        TooManyMatches: more than ``budget`` matches, when a budget is given.
    """
    matches = _Matches(spec, budget)
    for block in left.new.blocks:
        matches.cross(block, (*right.old, right.new), flipped=False)
    for block in right.new.blocks:
        matches.cross(block, left.old, flipped=True)
    return Updates.concat(matches.parts, spec.schema, spec.lattice.width)


class _Matches:
    """Collects the matches of blocks with batches."""

    def __init__(self, spec: JoinSpec, budget: int | None) -> None:
        self.spec, self.budget = spec, budget
        self.count = 0
        self.parts: list[Updates] = []

    def cross(self, block: Block, batches: Sequence[Batch], *, flipped: bool) -> None:
        """Match every update of ``block`` with those of equal key in ``batches``."""
        if not len(block):
            return
        starts, keys = _probes(block)
        if not len(starts):
            return
        ends = np.append(block.run_starts(), len(block))
        ends = ends[np.searchsorted(ends, starts, side="right")]
        hashes = block.key_hash[starts]
        for other in _blocks(batches):
            counts, rows = other.find(hashes, keys)
            if len(rows):
                self._emit(block, other, _expand(starts, ends, counts, rows), flipped=flipped)

    def _emit(self, block: Block, other: Block, pairs: tuple[Ints, Ints], *, flipped: bool) -> None:
        mine, theirs = pairs
        self.count += len(mine)
        if self.budget is not None and self.count > self.budget:
            raise TooManyMatches(f"{self.count} matches")
        times = self.spec.lattice.join(block.times[:, mine], other.times[:, theirs])
        diffs = difference.multiply(block.diffs[mine], other.diffs[theirs])
        sides = ((other, theirs), (block, mine)) if flipped else ((block, mine), (other, theirs))
        positions = [pa.array(index) for _, index in sides]
        columns = tuple(_column(sides[side][0], name).take(positions[side]) for _, side, name in self.spec.outputs)
        self.parts.append(Updates(Rows(self.spec.schema, columns, len(mine)), times, diffs))


def _column(block: Block, name: str) -> pa.Array:
    index = block.keys.schema.get_field_index(name)
    return block.keys.columns[index] if index >= 0 else block.values.column(name)


def _probes(block: Block) -> tuple[Ints, Rows]:
    """Where the runs of equal key start and what the keys are; null keys never match and are left out."""
    starts = block.run_starts()
    keys = block.keys if len(starts) == len(block) else block.keys.take(starts)
    if any(c.null_count for c in keys.columns):
        valid = np.logical_and.reduce([np.asarray(c.is_valid()) for c in keys.columns])
        return starts[valid], keys.filter(valid)
    return starts, keys


def _blocks(batches: Sequence[Batch]) -> Iterator[Block]:
    for batch in batches:
        yield from batch.blocks


@numba.njit(cache=True)
def _expand(
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Cross each probe's own run with its matches: two parallel arrays of positions."""
    total = 0
    for i in range(len(starts)):
        total += (ends[i] - starts[i]) * counts[i]
    mine = np.empty(total, np.int64)
    theirs = np.empty(total, np.int64)
    at, base = 0, 0
    for i in range(len(starts)):
        for m in range(starts[i], ends[i]):
            for k in range(base, base + counts[i]):
                mine[at] = m
                theirs[at] = rows[k]
                at += 1
        base += counts[i]
    return mine, theirs
