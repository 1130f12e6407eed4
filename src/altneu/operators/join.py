"""Equijoin of two arrangements, by arrival.

Every pair of one update from either side is produced exactly once, in the step in which the later of the two arrives,
at the join of their times: new left with old and new right, old left with new right. No time is compared, so this is
right for every lattice, any partition of the updates into steps, self-joins, and any compaction up to ``lower``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu import difference
from altneu.batch import Arranged, Batch, Block, hit_blocks
from altneu.columns import Stack
from altneu.errors import DiffOverflowError
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
        runs = _value_runs(block) if self.spec.lattice.is_total else None
        for other in hit_blocks(batches, hashes):
            counts, rows = other.find(hashes, keys)
            if not len(rows):
                continue
            their_runs = _value_runs(other) if self.spec.lattice.is_total else None
            if runs is None and their_runs is None:
                self._emit_pairs(block, other, _expand(starts, ends, counts, rows), flipped=flipped)
            else:
                self._emit_waves(block, other, (starts, ends, counts, rows), (runs, their_runs), flipped=flipped)

    def _emit_pairs(self, block: Block, other: Block, pairs: tuple[Ints, Ints], *, flipped: bool) -> None:
        """Every pair, at the join of its times."""
        mine, theirs = pairs
        self._allow(len(mine))
        times = self.spec.lattice.join(block.times[:, mine], other.times[:, theirs])
        diffs = difference.multiply(block.diffs[mine], other.diffs[theirs])
        self._emit(block, other, mine, theirs, times, diffs, flipped=flipped)

    def _emit_waves(
        self,
        block: Block,
        other: Block,
        found: tuple[Ints, Ints, Ints, Ints],
        runs: tuple[Ints | None, Ints | None],
        *,
        flipped: bool,
    ) -> None:
        """Every pair of values once, their histories walked together in order of time."""
        mine_runs, their_runs = (
            np.arange(len(b)) if r is None else r for b, r in zip((block, other), runs, strict=True)
        )
        histories = (mine_runs, block.times[0], block.diffs, their_runs, other.times[0], other.diffs)
        mine, theirs, times, diffs, fits = _waves(*found, *histories)
        if not fits:
            raise DiffOverflowError(
                "a product of diffs in a join left the signed 64-bit range; the step is not committed"
            )
        self._allow(len(mine))
        self._emit(block, other, mine, theirs, times.reshape(1, -1), diffs, flipped=flipped)

    def _allow(self, count: int) -> None:
        self.count += count
        if self.budget is not None and self.count > self.budget:
            raise TooManyMatches(f"{self.count} matches")

    def _emit(
        self, block: Block, other: Block, mine: Ints, theirs: Ints, times: Ints, diffs: Ints, *, flipped: bool
    ) -> None:
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


def _value_runs(block: Block) -> Ints | None:
    """For each row the number of its run of equal key and value; None when every run is one row."""
    if len(block) == 1:
        return None
    alike = (block.value_hash[1:] == block.value_hash[:-1]) & (block.key_hash[1:] == block.key_hash[:-1])
    later = np.flatnonzero(alike) + 1
    if not len(later):
        return None
    same = np.ones(len(later), np.bool_)
    for rows in (block.keys, block.values):
        if rows.columns:
            same &= Stack([rows], rows.schema).equal(later - 1, later)
    fresh = np.ones(len(block), np.int64)
    fresh[later[same]] = 0
    return np.cumsum(fresh) if same.any() else None


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


@numba.njit(cache=True)
def _waves(
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    my_runs: npt.NDArray[np.int64],
    my_times: npt.NDArray[np.int64],
    my_diffs: npt.NDArray[np.int64],
    their_runs: npt.NDArray[np.int64],
    their_times: npt.NDArray[np.int64],
    their_diffs: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64], bool]:
    """Pair runs of equal value: n and m updates at a total order of times make at most n + m - 1, not n * m.

    Either history is walked in order of time with the other's count so far; a change meets what has been before it.
    """
    room = 1024
    mine, theirs = np.empty(room, np.int64), np.empty(room, np.int64)
    times, diffs = np.empty(room, np.int64), np.empty(room, np.int64)
    size, base, fits = 0, 0, True
    for i in range(len(starts)):
        top = base + counts[i]
        a0 = starts[i]
        while a0 < ends[i] and counts[i] > 0:
            a1 = a0 + 1
            while a1 < ends[i] and my_runs[a1] == my_runs[a0]:
                a1 += 1
            b0 = base
            while b0 < top:
                b1 = b0 + 1
                while b1 < top and their_runs[rows[b1]] == their_runs[rows[b0]]:
                    b1 += 1
                if size + (a1 - a0) + (b1 - b0) > room:
                    room = 2 * room + (a1 - a0) + (b1 - b0)
                    mine, theirs = _grown(mine, room), _grown(theirs, room)
                    times, diffs = _grown(times, room), _grown(diffs, room)
                p, q, left, right = a0, b0, 0, 0
                while p < a1 or q < b1:
                    if p < a1 and (q >= b1 or my_times[p] <= their_times[rows[q]]):
                        time, factor, count = my_times[p], my_diffs[p], right
                        left += factor
                        p += 1
                    else:
                        time, factor, count = their_times[rows[q]], their_diffs[rows[q]], left
                        right += factor
                        q += 1
                    if count != 0:
                        product = factor * count
                        if abs(float(factor) * float(count)) > 9.3e18 or product // count != factor:
                            fits = False
                        mine[size], theirs[size], times[size], diffs[size] = a0, rows[b0], time, product
                        size += 1
                b0 = b1
            a0 = a1
        base = top
    return mine[:size], theirs[:size], times[:size], diffs[:size], fits


@numba.njit(cache=True)
def _grown(array: npt.NDArray[np.int64], room: int) -> npt.NDArray[np.int64]:
    made = np.empty(room, np.int64)
    made[: len(array)] = array
    return made
