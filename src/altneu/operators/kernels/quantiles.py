"""The rows of a group near some fractions of the way through its order, and a few that stand for all others.

A group of n units of multiplicity that gains and loses p units in a step has from n - p to n + p of them at each of its
times, and each row moves by at most p places. So what is at a fraction of the way at any time of the step is among the
rows that were at most p places from that fraction of n - p or n + p. These stretches of the order are read, and the
rows that have the word of one that is new. What lies between two stretches is replaced by one of its rows with the
count of all of them: none of these rows is ever at the fraction, and as many as before are on each side of it. That
holds where no row's count is below zero: groups that have such a row are read whole.

Places are found by bisecting the words: how many units have a lower word is a sum over batches, of the sums of diffs
before each row of a block (``Block.counted``), which are made once for each block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from altneu.columnar.columns import Mask
from altneu.columnar.lookup import LAST_WORD, ONE, first_word, word_of
from altneu.columnar.ranking import Words
from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.kernels.counted import counted_blocks, uncounted, units, word_at
from altneu.operators.kernels.located import (
    NewRows,
    OldRows,
    by_columns,
    next_key,
    null_ends,
    places_in,
    put_run,
    twice,
)
from altneu.operators.reduce.node import Quantiles
from altneu.trace.batch import Matches

_MORE = 16
_MARGIN = 2  # places by which a fraction of a number may be rounded


def quantiles_of(wanted: Quantiles, new: NewRows, old: OldRows) -> Matches:
    """The old updates that ``wanted`` needs, by key; ``new`` has all that is new.

    Shape:  ``old`` in the order of one column, ascending, nulls first.
    Cost:   O(d f) rows, and those that have the word of one that is read, for d units that are new and f fractions;
            with ``of_words`` one row a word;
            the first and last word of each block of the group, and O(f log n) others in each batch. 8 bytes a row where
            diffs differ, derived from the batch.
    Law:    a function of the values at these fractions makes the same of it as of the whole groups
            (tests/operators/test_quantiles.py).
    """
    located, count = old.located, new.keys.count
    moved = np.zeros(count, np.float64)
    np.add.at(moved, new.number, np.abs(new.diffs))
    needed = (len(wanted.fractions) + 1) * (moved + _MARGIN)
    blocks = counted_blocks(located)
    old = old.and_whole(uncounted(located, blocks[0], count))
    whole = old.whole_up_to(np.minimum(_MORE * needed, 2.0**62).astype(np.int64))
    if whole.all():
        return old.all()
    some = (~whole[new.number]).nonzero()[0]
    touched = np.empty((some.size, 2), np.int64)
    touched[:, 0], touched[:, 1] = new.number[some], new.words[some].view(np.int64)
    behind = null_ends(located, located.hits, old.layout.order[0][0])
    found = _stretches(
        located.hits,
        behind,
        blocks,
        np.array(wanted.fractions, np.float64),
        touched[np.lexsort((touched[:, 1].view(np.uint64), touched[:, 0]))],
        np.where(whole, -1, moved).astype(np.int64),
        wanted.of_words,
    )
    return _read(old, whole, *found)


def _read(old: OldRows, whole: Mask, stretches: Ints, stand_ins: Ints) -> Matches:
    """The rows of stretches and of groups that are read whole, and those that stand for others, by key."""
    single = stand_ins.copy()
    single[:, 3] = single[:, 2] + 1
    runs = old.with_whole(np.concatenate([stretches, single]), whole)
    result = old.read(runs)
    lines = by_columns(stand_ins, 0)
    diffs = result.diffs.copy()
    diffs[places_in(runs, lines, 0)] = lines[:, 3]
    return Matches(result.probe, result.values, result.value_hash, result.times, diffs)


@compiled()
def _around(fraction: float, n: int, moved: int) -> tuple[int, int]:
    """The first and the last place that may hold what is at a fraction, of n units of which so many come and go."""
    low = int(np.floor(fraction * max(n - moved - 1, 0))) - moved - _MARGIN
    high = int(np.ceil(fraction * (n + moved))) + moved + _MARGIN
    return max(low, 0), min(high, n - 1)


@compiled()
def _stretches(
    hits: Ints, behind: Ints, blocks: Any, fractions: Any, touched: Ints, moved: Ints, of_words: bool
) -> tuple[Ints, Ints]:
    """Runs that are read; and for each part of a group that is not, one of its rows: (key, block, row, units of all).

    ``touched`` are lines (key, word), by key and word, the word as an unsigned number. Keys with ``moved`` below zero
    are left out. Nulls are a part of their own, and so are the rows of each word that is read with ``of_words``.
    """
    runs, used = np.empty((len(hits) + 8, 4), np.int64), 0
    others, many = np.empty((len(hits) + 8, 4), np.int64), 0
    first, next_ = 0, 0
    while first < len(hits):
        key, last = hits[first, 0], next_key(hits, first)
        while next_ < len(touched) and touched[next_, 0] < key:
            next_ += 1
        begin = next_
        while next_ < len(touched) and touched[next_, 0] == key:
            next_ += 1
        if moved[key] >= 0:
            low, high = _wanted(hits, behind, first, last, blocks, fractions, moved[key], touched[begin:next_, 1])
            at = hits[first:last, 2].copy()
            if of_words or begin == next_ or touched[begin, 1] != 0:
                others, many = _stand_in(others, many, hits, first, at, behind[first:last], blocks)
                at = behind[first:last].copy()
            for r in range(len(low)):
                start, end = at.copy(), hits[first:last, 3].copy()
                for h in range(first, last):
                    block, i = hits[h, 1], h - first
                    start[i] = first_word(blocks[1], block, at[i], hits[h, 3], low[r])
                    if high[r] < LAST_WORD:
                        end[i] = first_word(blocks[1], block, start[i], hits[h, 3], high[r] + ONE)
                others, many = _stand_in(others, many, hits, first, at, start, blocks)
                if of_words:
                    others, many = _by_word(others, many, hits, first, start, end, blocks)
                else:
                    for i in range(last - first):
                        runs, used = put_run(runs, used, key, hits[first + i, 1], start[i], end[i])
                at = end
            others, many = _stand_in(others, many, hits, first, at, hits[first:last, 3], blocks)
        first = last
    return runs[:used].copy(), others[:many].copy()


@compiled()
def _wanted(
    hits: Ints, behind: Ints, first: int, last: int, blocks: Any, fractions: Any, moved: int, touched: Ints
) -> tuple[Words, Words]:
    """The stretches of a group that are read, from one word up to and with another, ascending and apart."""
    n = 0
    for h in range(first, last):
        n += units(blocks[0], hits[h, 1], behind[h], hits[h, 3])
    room = len(fractions) + len(touched)
    low, high, count = np.empty(room, np.uint64), np.empty(room, np.uint64), 0
    for f in range(len(fractions) if n > 0 else 0):
        left, right = _around(fractions[f], n, moved)
        low[count] = word_at(hits, behind, first, last, blocks, left)
        high[count] = word_at(hits, behind, first, last, blocks, right)
        count += 1
    for t in range(len(touched)):
        low[count] = high[count] = np.uint64(touched[t])
        count += 1
    order, joined = np.argsort(low[:count]), 0
    out_low, out_high = np.empty(count, np.uint64), np.empty(count, np.uint64)
    for i in order:
        if joined and low[i] <= out_high[joined - 1]:
            out_high[joined - 1] = max(out_high[joined - 1], high[i])
            continue
        out_low[joined], out_high[joined] = low[i], high[i]
        joined += 1
    return out_low[:joined].copy(), out_high[:joined].copy()


@compiled()
def _stand_in(
    others: Ints, many: int, hits: Ints, first: int, start: Ints, stop: Ints, blocks: Any
) -> tuple[Ints, int]:
    """Let a row stand for all from ``start`` up to ``stop`` in the runs of a group, if they are any units at all."""
    total, some = 0, -1
    for i in range(len(start)):
        if start[i] < stop[i]:
            total += units(blocks[0], hits[first + i, 1], start[i], stop[i])
            some = i if some < 0 else some
    if some >= 0 and total:
        if many == len(others):
            others = twice(others)
        others[many, 0], others[many, 1], others[many, 2] = hits[first + some, 0], hits[first + some, 1], start[some]
        others[many, 3] = total
        many += 1
    return others, many


@compiled()
def _by_word(others: Ints, many: int, hits: Ints, first: int, start: Ints, stop: Ints, blocks: Any) -> tuple[Ints, int]:
    """Let one row of each word stand for all that have it, from ``start`` up to ``stop`` in the runs of a group."""
    at = start.copy()
    while True:
        least, some = LAST_WORD, False
        for i in range(len(at)):
            if at[i] < stop[i]:
                least, some = min(least, word_of(blocks[1], hits[first + i, 1], at[i])), True
        if not some:
            return others, many
        upto = stop.copy()
        if least < LAST_WORD:
            for i in range(len(at)):
                upto[i] = first_word(blocks[1], hits[first + i, 1], at[i], stop[i], least + ONE)
        others, many = _stand_in(others, many, hits, first, at, upto, blocks)
        at = upto
