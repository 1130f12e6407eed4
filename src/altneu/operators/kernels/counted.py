"""How many units of multiplicity of an ordered group lie before a word, and which word is at a place.

Both are found by bisection, over the sums of diffs before each row of a block (``Batch.counted``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from altneu.columnar.columns import Mask, load_int64
from altneu.columnar.lookup import LAST_WORD, ONE, first_word, word_of
from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.kernels.located import Located


def counted_blocks(located: Located) -> tuple[Ints, Ints]:
    """For kernels: what blocks count, and the lines of their words."""
    return located.counted, located.words


def uncounted(located: Located, counted: Ints, count: int) -> Mask:
    """Which of so many keys have rows in blocks whose diffs are too large to be summed."""
    result = np.zeros(count, np.bool_)
    if len(counted) and (counted[:, 0] < 0).any():
        result[located.hits[counted[located.hits[:, 1], 0] < 0, 0]] = True
    return result


@compiled()
def units(counted: Ints, block: int, start: int, stop: int) -> int:
    """The sum of the diffs of some rows of a block."""
    if counted[block, 0] == 0:
        return counted[block, 1] * (stop - start)
    address = counted[block, 0]
    return load_int64(address + 8 * stop) - load_int64(address + 8 * start)


@compiled()
def units_before(hits: Ints, starts: Ints, first: int, last: int, blocks: Any, word: np.uint64) -> int:
    """How many units of a group have a lower word, of its rows from ``starts`` on."""
    counted, lines = blocks
    total = 0
    for h in range(first, last):
        block = hits[h, 1]
        total += units(counted, block, starts[h], first_word(lines, block, starts[h], hits[h, 3], word))
    return total


@compiled()
def word_at(hits: Ints, starts: Ints, first: int, last: int, blocks: Any, place: int) -> np.uint64:
    """The word of the unit at a place, from 0 on; the last word where there are not as many.

    Cost:   O(r + log n) runs are looked at, of r runs with n rows, each in O(log n) words: the word of the row half way
            through what is left divides it, and a run of which nothing is left is not looked at again.
    Law:    tests/operators/test_counted.py (against all units in order, and runs looked at by count).
    """
    counted, lines = blocks
    run, low, high, many = np.arange(first, last), starts[first:last].copy(), hits[first:last, 3].copy(), 0
    cut, behind, before = np.empty(len(run), np.int64), np.empty(len(run), np.int64), 0  # units before all of ``low``
    for i in range(len(run)):
        if low[i] < high[i]:
            run[many], low[many], high[many] = first + i, low[i], high[i]
            many += 1
    while many:
        half = np.sum(high[:many] - low[:many]) >> 1
        i = 0
        while half >= high[i] - low[i]:
            half -= high[i] - low[i]
            i += 1
        word = word_of(lines, hits[run[i], 1], low[i] + half)
        upto, through = before, before
        for i in range(many):
            block = hits[run[i], 1]
            cut[i] = first_word(lines, block, low[i], high[i], word)
            behind[i] = cut[i]
            if cut[i] < high[i] and word < LAST_WORD:
                behind[i] = first_word(lines, block, cut[i], high[i], word + ONE)
            elif cut[i] < high[i]:
                behind[i] = high[i]
            upto += units(counted, block, low[i], cut[i])
            through += units(counted, block, low[i], behind[i])
        if upto <= place < through:
            return word
        left = 0
        for i in range(many):
            start, stop = (low[i], cut[i]) if upto > place else (behind[i], high[i])
            if start < stop:
                run[left], low[left], high[left] = run[i], start, stop
                left += 1
        many, before = left, before if upto > place else through
    return LAST_WORD
