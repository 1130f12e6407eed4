"""Cursors: the updates of batches in the order of their arrangement, some at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from altneu.columnar.lookup import word_stretch
from altneu.columnar.ranking import Order, dense, order_words, sort_lines
from altneu.columnar.rows import Rows
from altneu.order import Antichain
from altneu.trace.batch import LARGEST_HASH, Batch, Block, Description, Layout
from altneu.trace.update import Updates

Place: TypeAlias = tuple[int, int]
"""Where updates lie: the hash of their key, and that of their value, or the word of the first order column."""

FIRST: Place = (0, 0)
LAST: Place = (LARGEST_HASH, LARGEST_HASH)
LEAST = 1 << 6  # updates of each batch that are read first
MOST = 1 << 13  # and at a time, later


def chunks(batches: Sequence[Batch], layout: Layout, first: Place = FIRST, last: Place = LAST) -> Iterator[Updates]:
    """The updates of batches at the places from ``first`` to ``last``, in order of their places.

    Shape:  equal rows have one place, and all updates of a place are in one chunk, in no order; nothing is added up.
            Where the hashes of keys collide, all updates with such a hash have one place: there may be others than
            those between the places, with the same hash.
    Cost:   O(log n) for each block at the ends. In memory are at most ``MOST`` updates of each batch, or those of one
            place, if that has more; the first chunk is small, so that a reader that stops early has read little.
    """
    within = [batch.between(first[0], last[0] + 1).blocks for batch in batches if len(batch)]
    if not all(block.collision_free for blocks in within for block in blocks):  # words of several keys are in no order
        first, last = (first[0], 0), (last[0], LARGEST_HASH)
        runs = [run for run in (_Run(blocks, first, last, by_key=True) for blocks in within) if run]
    else:
        runs = [run for run in (_Run(blocks, first, last) for blocks in within) if run]
    size = LEAST
    while runs:
        cut = min((place for run in runs if (place := run.place_after(size)) is not None), default=None)
        taken = [part for run in runs for part in run.take_before(cut)]
        if taken:
            yield Updates.concat([block.updates() for block in taken], layout.schema, layout.lattice.width)
            runs = [run for run in runs if run]
            size = min(2 * size, MOST)
        else:  # there are more updates at the first place than that
            size *= 2


def places(layout: Layout, key_hash: int, ends: Sequence[Rows | None]) -> tuple[Place, Place]:
    """The first and last place of a key's updates from one value of the first order column to another (None: any)."""
    words = [0, LARGEST_HASH]
    if layout.order:
        name, descending, nulls_first = layout.order[0]
        for i, end in enumerate(ends):
            if end is not None:
                words[i] = int(order_words(end.column(name), descending=descending, nulls_first=nulls_first)[0])
    return (key_hash, words[0]), (key_hash, words[1])


def between(updates: Updates, by: Order, start: Rows | None, stop: Rows | None) -> Updates:
    """The updates whose value of a column is at ``start`` or behind it in an order, and before ``stop``."""
    name, descending, nulls_first = by
    ends = [end.column(name) for end in (start, stop) if end is not None]
    column = pa.concat_arrays([updates.rows.column(name), *ends])
    ranks = dense(sort_lines(column, descending=descending, nulls_first=nulls_first), len(column))
    keep = np.ones(len(updates), np.bool_)
    if start is not None:
        keep &= ranks[: len(updates)] >= ranks[len(updates)]
    if stop is not None:
        keep &= ranks[: len(updates)] < ranks[-1]
    return updates.filter(keep)


def settled(updates: Updates, layout: Layout) -> Updates:
    """Updates consolidated, in the order of a layout."""
    least = Antichain.minimum(layout.lattice)
    batch = Batch.build(updates, layout, Description(least, Antichain.of(layout.lattice), least))
    return batch.updates() if len(batch) else Updates.empty(layout.schema, layout.lattice.width)


class _Run:
    """The updates of a batch between two places that have not been taken yet."""

    def __init__(self, blocks: Sequence[Block], first: Place, last: Place, *, by_key: bool = False) -> None:
        self._by_key = by_key  # all updates with a hash of a key have one place
        parts = [(block, _begin(block, first), _begin(block, last, after=True)) for block in blocks]
        self._parts = [part for part in parts if part[1] < part[2]]

    def __bool__(self) -> bool:
        return bool(self._parts)

    def place_after(self, count: int) -> Place | None:
        """The place of the update that so many come before; None if there are no more."""
        for block, start, stop in self._parts:
            if count < stop - start:
                key, word = _place(block, start + count)
                return key, 0 if self._by_key else word
            count -= stop - start
        return None

    def take_before(self, place: Place | None) -> list[Block]:
        """Take the updates at lesser places, or all."""
        taken, left = list[Block](), list[tuple[Block, int, int]]()
        for block, start, stop in self._parts:
            end = stop if place is None else start if left else _begin(block, place, low=start, high=stop)
            if start < end:
                taken.append(block.slice(start, end))
            if end < stop:
                left.append((block, end, stop))
        self._parts = left
        return taken


def _place(block: Block, at: int) -> Place:
    one = slice(at, at + 1)
    return int(block.key_hash_at(one)[0]), int(block.value_hash_at(one)[0])


def _begin(block: Block, place: Place, low: int = 0, high: int | None = None, *, after: bool = False) -> int:
    """The first position in a stretch of a block that is at a place or behind it; with ``after``, that is behind it."""
    stop = len(block) if high is None else high
    start = bisect_left(range(stop), place[0], lo=low, key=lambda at: int(block.key_hash_at(slice(at, at + 1))[0]))
    end = bisect_left(range(stop), place[0] + 1, lo=start, key=lambda at: int(block.key_hash_at(slice(at, at + 1))[0]))
    if start == end:
        return start
    begin, behind = word_stretch(block.addresses, 0, start, end, np.uint64(place[1]), np.uint64(place[1]))
    return int(behind if after else begin)
