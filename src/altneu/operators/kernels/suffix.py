"""The rows of a group from shortly before the first that a step touches up to its last.

The rows before these are not touched, and what a running function makes of them stays as it is. What it makes of the
others rests on how many units those are, and on their sums. If other functions look r rows back and on, 2 r units
before the first touched row are read too (``around``). That holds where no row's count is below zero: groups that
have such a row are read whole.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from altneu.columnar.columns import Mask
from altneu.columnar.ranking import Words
from altneu.columnar.rows import Ints
from altneu.operators.kernels.block_sums import SkippedRows, may_leave_range
from altneu.operators.kernels.compiled import compiled
from altneu.operators.kernels.counted import counted_blocks, uncounted, units, upto, word_at
from altneu.operators.kernels.ends import Located, NewRows, has_below_zero, joined_runs, no_matches
from altneu.operators.reduce.node import Suffix
from altneu.trace.batch import Arranged, Matches, matches_of

_SMALL = 64  # groups of so many old updates are read whole


def suffix_of(given: Arranged, needed: Suffix, negative: Arranged, new: NewRows) -> tuple[Matches, SkippedRows | None]:
    """The old updates that are needed of some keys, by key, and those that are not; ``new`` has all that is new.

    Shape:  ``given`` in an order of columns; ``negative`` has the number of rows of each key whose count is
            below zero, arranged by the key.
    Cost:   the rows from the first touched one on, and one bisection in each batch; 64, where rows before it are read.
            8 bytes a row where diffs differ, derived from the batch.
    Law:    running functions change of these rows, with the sums of those that are skipped, as of the whole groups
            (tests/operators/test_suffix.py).
    """
    layout = given.layout
    if not any(len(batch) for batch in given.old):
        return no_matches(layout), None
    located = Located.of(given.old, new.hashes, new.keys)
    count = new.keys.count
    size = np.zeros(count, np.int64)
    np.add.at(size, located.hits[:, 0], located.hits[:, 3] - located.hits[:, 2])
    blocks = counted_blocks(located)
    whole = has_below_zero(negative, new.hashes, new.keys) | (size <= _SMALL) | uncounted(located, blocks[0], count)
    if needed.sums_of_wide:
        whole |= may_leave_range(located, new, needed.sums_of_wide)
    first = np.full(count, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(first, new.number, new.words)
    start, skipped = _starts(located.hits, blocks, first, whole, needed.units)
    runs = located.hits.copy()
    runs[:, 2] = start
    runs = joined_runs(runs[runs[:, 2] < runs[:, 3]])
    return matches_of(runs, located.used, layout), SkippedRows(located, start, skipped)


@compiled
def _starts(hits: Ints, blocks: Any, words: Words, whole: Mask, before: int) -> tuple[Ints, Ints]:
    """Where each run begins to be read, ``before`` units ahead of its key's word; and how many units are left out."""
    start, skipped = hits[:, 2].copy(), np.zeros(len(words), np.int64)
    counted, addresses = blocks
    first = 0
    while first < len(hits):
        key, last = hits[first, 0], first + 1
        while last < len(hits) and hits[last, 0] == key:
            last += 1
        word, total = words[key], 0
        for h in range(first, last if not whole[key] else first):
            at = upto(addresses[hits[h, 1]], hits[h, 2], hits[h, 3], word)
            total += units(counted, hits[h, 1], hits[h, 2], at)
        if total > before:
            if before > 0:
                word = word_at(hits, hits[:, 2], first, last, blocks, total - before)
            for h in range(first, last):
                start[h] = upto(addresses[hits[h, 1]], hits[h, 2], hits[h, 3], word)
                skipped[key] += units(counted, hits[h, 1], hits[h, 2], start[h])
        first = last
    return start, skipped
