"""Merging of batches, in slices that each take bounded time.

A merge walks its inputs in hash order. A slice is everything up to a cut: a few thousand rows of each input, ended
between two key hashes, or, within one key of very many rows, between two value hashes. A cut never separates rows that
may be equal; the slices are therefore consolidated one by one, and their concatenation is the merged batch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate

import numpy as np

from altneu.columnar import few
from altneu.columnar.columns import Stack
from altneu.columnar.hashing import Hashes
from altneu.columnar.immutable import immutable
from altneu.columnar.rows import Rows
from altneu.columnar.sorting import Unsorted, settle
from altneu.errors import PlanError
from altneu.order import Antichain
from altneu.trace.batch import (
    BLOCK_ROWS,
    PACKED_ROWS,
    Batch,
    Block,
    Description,
    blocks_of,
    merged_few,
    packed,
    uncompacted_from,
)

_BLOCK_BYTES = 1 << 28  # small slices are put together up to this size


class _Source:
    """The rows of one input batch, numbered through its blocks."""

    __slots__ = ("blocks", "size", "starts")

    def __init__(self, batch: Batch) -> None:
        self.blocks = batch.blocks
        self.starts = list(accumulate((len(b) for b in batch.blocks), initial=0))
        self.size = self.starts[-1]

    def parts(self, start: int, stop: int) -> list[Block]:
        """The slices of blocks that form rows ``start`` to ``stop``."""
        slices = []
        while start < stop:
            i = bisect_right(self.starts, start) - 1
            end = min(stop, self.starts[i + 1])
            base = self.starts[i]
            whole = start == base and end == self.starts[i + 1]
            slices.append(self.blocks[i] if whole else self.blocks[i].slice(start - base, end - base))
            start = end
        return slices

    def hash_at(self, row: int, *, of_value: bool = False) -> np.uint64:
        """The key hash (or the value hash) of a row."""
        i = bisect_right(self.starts, row) - 1
        block = self.blocks[i]
        at = np.array([row - self.starts[i]])
        value: np.uint64 = (block.value_hash_at(at) if of_value else block.key_hash_at(at))[0]
        return value

    def key_at(self, row: int) -> Rows:
        """The key of a row."""
        i = bisect_right(self.starts, row) - 1
        return self.blocks[i].keys.slice(row - self.starts[i], row - self.starts[i] + 1)

    def bound(self, start: int, stop: int, target: np.uint64, *, of_value: bool = False, after: bool = False) -> int:
        """The first of rows ``start`` to ``stop`` whose hash is at (or ``after``) ``target`` or beyond, else ``stop``.

        Hashes must ascend between the two: value hashes do so within one key.
        """
        while start < stop:
            i = bisect_right(self.starts, start) - 1
            base, end = self.starts[i], min(stop, self.starts[i + 1])
            some = slice(start - base, end - base)
            hashes: Hashes = self.blocks[i].value_hash_at(some) if of_value else self.blocks[i].key_hash_at(some)
            position = start + int(hashes.searchsorted(target, "right" if after else "left"))
            if position < end:
                return position
            start = end
        return stop


@immutable(frozen=True)
class Merge:
    """A merge in progress: readers see ``inputs`` until everything is in ``done``.

    ``at`` counts the rows taken from each input; ``done`` are full blocks, ``small`` the last slices, not yet a block.
    """

    inputs: tuple[Batch, ...]
    since: Antichain
    at: tuple[int, ...]
    done: tuple[Block, ...] = ()
    small: tuple[Block, ...] = ()
    credit: int = 0

    @classmethod
    def start(cls, inputs: Sequence[Batch], since: Antichain) -> Merge:
        """Begin with nothing merged."""
        return cls(tuple(inputs), since, (0,) * len(inputs))

    @cached_property
    def total(self) -> int:
        """The rows of all inputs, which are the cost of the merge."""
        return sum(map(len, self.inputs))

    @property
    def remaining(self) -> int:
        """Rows not yet taken."""
        return self.total - sum(self.at)

    @cached_property
    def _sources(self) -> tuple[_Source, ...]:
        return tuple(map(_Source, self.inputs))

    def advance(self, fuel: int, slice_rows: int, since: Antichain) -> Merge:
        """Take slices until ``fuel`` rows are used up, advancing times to ``since``.

        A slice has about ``slice_rows`` rows; where there is fuel for more, as many as that, up to a block.
        """
        merge, sources = self, self._sources
        since = self.since.join(since)
        at, done, small = list(self.at), list(self.done), list(self.small)
        held = sum(b.nbytes for b in small)
        while fuel > 0 and sum(at) < self.total:
            ends = _cut(sources, at, max(slice_rows, min(fuel, BLOCK_ROWS)))
            fuel -= sum(ends) - sum(at)
            new = _merge_slice(sources, at, ends, since)
            small.extend(new)
            held += sum(b.nbytes for b in new)
            at = ends
            if sum(map(len, small)) >= BLOCK_ROWS // 2 or held >= _BLOCK_BYTES:
                done.extend(map(packed, _together(small)))
                small, held = [], 0
        merge = replace(self, since=since, at=tuple(at), done=tuple(done), small=tuple(small))
        merge.__dict__["_sources"] = sources  # cached: the inputs are the same
        return merge

    def finished(self) -> Batch:
        """The merged batch, once nothing remains."""
        return _merged(self.inputs, self.since, (*self.done, *map(packed, _together(self.small))))


def _merged(inputs: Sequence[Batch], since: Antichain, blocks: tuple[Block, ...]) -> Batch:
    """The batch of what inputs were merged to."""
    first, last = inputs[0], inputs[-1]
    for batch in inputs:
        since = since.join(batch.description.since)
    return Batch(first.layout, Description(first.description.lower, last.description.upper, since), blocks)


def merge(batches: Sequence[Batch], since: Antichain) -> Batch:
    """Merge batches that follow each other in time, oldest first, into one, with times advanced to ``since``.

    Cost:   O(n log k) for k batches of n rows in all.
    Law:    sums at every t with since <= t are unchanged, and updates that no such t distinguishes are added up; of a
            layout with ``changes_only`` the updates from ``uncompacted_from(since)`` on are unchanged, and no others
            remain (tests/laws/test_spine.py).

    Raises:
        PlanError: there is no batch, and therefore no layout.
        DiffOverflowError: a summed diff exceeds the signed 64-bit range.
    """
    if not batches:
        raise PlanError("merge needs at least one batch; use Spine.merged for a spine that may be empty")
    if sum(map(len, batches)) < PACKED_ROWS:
        return _merged(batches, since, _merge_runs([batch.blocks for batch in batches], since))
    return Merge.start(batches, since).advance(1 << 62, BLOCK_ROWS, since).finished()


def _cut(sources: Sequence[_Source], at: Sequence[int], rows: int) -> list[int]:
    """Where the next slice ends in each source: at one hash, up to which they have about ``rows`` rows together.

    Hashes lie evenly, so each source is cut at the same share of what remains of it.
    """
    left = sum(s.size for s in sources) - sum(at)
    ends = [min(a + max(rows * (s.size - a) // left, 1), s.size) for a, s in zip(at, sources, strict=True)]
    hashes = [s.hash_at(e) for e, s in zip(ends, sources, strict=True) if e < s.size]
    if not hashes:
        return ends
    cut = min(hashes)
    positions = [s.bound(a, e, cut) for a, e, s in zip(at, ends, sources, strict=True)]
    if sum(positions) > sum(at):
        return positions
    # One key hash fills the whole slice of some source: end it within that hash, or take all of the hash.
    stops = [s.bound(a, s.size, cut, after=True) for a, s in zip(at, sources, strict=True)]
    if not _one_key(sources, at, stops):
        return stops
    rows = max(rows // len(sources), 1)  # how values lie in one key is not known
    ends = [min(a + rows, e) for a, e in zip(at, stops, strict=True)]
    values = [s.hash_at(e, of_value=True) for e, stop, s in zip(ends, stops, sources, strict=True) if e < stop]
    if not values:
        return stops
    value = min(values)
    positions = [s.bound(a, e, value, of_value=True) for a, e, s in zip(at, ends, sources, strict=True)]
    if sum(positions) > sum(at):
        return positions
    return [s.bound(a, e, value, of_value=True, after=True) for a, e, s in zip(at, stops, sources, strict=True)]


def _one_key(sources: Sequence[_Source], at: Sequence[int], stops: Sequence[int]) -> bool:
    """Whether all rows between ``at`` and ``stops``, which share a key hash, have one key."""
    keys = []
    for source, start, stop in zip(sources, at, stops, strict=True):
        while start < stop:
            i = bisect_right(source.starts, start) - 1
            if not source.blocks[i].collision_free:
                return False
            keys.append(source.key_at(start))
            start = source.starts[i + 1]  # noqa: PLW2901 -- on to the next block
    stack = Stack(keys, keys[0].schema)
    others = np.arange(1, len(keys))
    return bool(stack.equal(np.zeros_like(others), others).all())


def _merge_slice(
    sources: Sequence[_Source], at: Sequence[int], ends: Sequence[int], since: Antichain
) -> tuple[Block, ...]:
    return _merge_runs([source.parts(a, e) for source, a, e in zip(sources, at, ends, strict=True) if a < e], since)


def _merge_runs(runs: Sequence[Sequence[Block]], since: Antichain) -> tuple[Block, ...]:
    """Merge runs of blocks, each in the order of batches."""
    runs = [run for run in runs if run]
    if runs and runs[0][0].layout.changes_only:
        runs = [[part_kept for part in run if (part_kept := _recent(part, since)) is not None] for run in runs]
    parts = [part for run in runs for part in run]
    if not parts:
        return ()
    layout = parts[0].layout
    times = since.advance(np.concatenate([p.times for p in parts], axis=1))
    diffs = np.concatenate([p.diffs for p in parts])
    if diffs.size <= few.MOST and (block := merged_few(parts, times, diffs, layout)) is not None:
        return (block,) if block.diffs.size else ()
    bounds = list(accumulate((sum(map(len, run)) for run in runs), initial=0))
    rows_in = Unsorted(
        Stack([p.keys for p in parts], layout.key_schema),
        Stack([p.values for p in parts], layout.value_schema),
        np.concatenate([p.key_hash for p in parts]),
        np.concatenate([p.value_hash for p in parts]),
        times,
        diffs,
        layout.order,
    )
    return blocks_of(settle(rows_in, layout.lattice, np.array(bounds)), rows_in, layout)


def _recent(block: Block, since: Antichain) -> Block | None:
    """The updates of a block that are retained with this ``since``; None if there are none."""
    index = np.flatnonzero(block.times[0] >= uncompacted_from(since))
    if len(index) == len(block):
        return block
    return block.take(index) if len(index) else None


def _together(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Concatenate consecutive small blocks; large ones stay."""
    if len(blocks) <= 1:
        return tuple(blocks)
    layout = blocks[0].layout
    if sum(map(len, blocks)) > BLOCK_ROWS or sum(b.nbytes for b in blocks) > 4 * _BLOCK_BYTES:
        half = len(blocks) // 2
        return (*_together(blocks[:half]), *_together(blocks[half:]))
    block = Block(
        layout,
        Rows.concat([b.keys for b in blocks], layout.key_schema),
        Rows.concat([b.values for b in blocks], layout.value_schema),
        np.concatenate([b.key_hash for b in blocks]),
        np.concatenate([b.value_hash for b in blocks]),
        np.concatenate([b.times for b in blocks], axis=1),
        np.concatenate([b.diffs for b in blocks]),
        all(b.collision_free for b in blocks),
    )
    return (block,)
