"""How many units of multiplicity of an ordered group lie before a word, and which word is at a place.

Both are found by bisection, over the sums of diffs before each row of a block (``Block.counted``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from altneu.columnar.columns import Mask, load_int64
from altneu.columnar.lookup import ONE, first_word, word_of
from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.kernels.located import Located

_TOP = np.uint64(1 << 63)


def counted_blocks(located: Located) -> tuple[Ints, Ints]:
    """For kernels: what blocks count, and the lines of their words."""
    return np.array([block.counted for block in located.used], np.int64).reshape(-1, 2), located.words


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
def upto(lines: Ints, block: int, start: int, stop: int, word: np.uint64) -> int:
    """Where the words of a run reach ``word``."""
    if start == stop or word_of(lines, block, stop - 1) < word:
        return stop
    return first_word(lines, block, start, stop, word)


@compiled()
def units_before(hits: Ints, starts: Ints, first: int, last: int, blocks: Any, word: np.uint64) -> int:
    """How many units of a group have a lower word, of its rows from ``starts`` on."""
    counted, lines = blocks
    total = 0
    for h in range(first, last):
        block = hits[h, 1]
        total += units(counted, block, starts[h], upto(lines, block, starts[h], hits[h, 3], word))
    return total


@compiled()
def word_at(hits: Ints, starts: Ints, first: int, last: int, blocks: Any, place: int) -> np.uint64:
    """The word of the unit at a place, from 0 on: the greatest below which there are no more units than that."""
    word, bit = np.uint64(0), _TOP
    while bit:
        if units_before(hits, starts, first, last, blocks, word | bit) <= place:
            word |= bit
        bit >>= ONE
    return word
