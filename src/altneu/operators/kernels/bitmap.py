"""A set of positions with its neighbours found in O(log n): bitmaps of bitmaps, 64 to a word, as plain arrays.

Level 0 has a bit per position, each level above a bit per word below that is not empty.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from altneu.columnar.rows import Ints
from altneu.compiled import compiled

Words = npt.NDArray[np.uint64]

_ONE = np.uint64(1)


def empty_set(size: int) -> tuple[Words, Ints]:
    """No positions out of ``size``: the words of all levels, and where each level starts (one more at the end).

    >>> words, levels = empty_set(5000)
    >>> for position in (7, 4096, 4999):
    ...     insert(words, levels, position)
    >>> remove(words, levels, 4096)
    >>> (
    ...     [following(words, levels, p) for p in (0, 7, 8, 5000)],
    ...     [preceding(words, levels, p) for p in (4998, 6)],
    ... )
    ([7, 7, 4999, -1], [7, -1])
    """
    levels = [0]
    while True:
        size = (size + 63) >> 6
        levels.append(levels[-1] + max(size, 1))
        if size <= 1:
            return np.zeros(levels[-1], np.uint64), np.array(levels, np.int64)


@compiled()
def insert(words: Words, levels: Ints, position: int) -> None:
    """Put a position in."""
    for level in range(len(levels) - 1):
        at = levels[level] + (position >> 6)
        before = words[at]
        words[at] = before | (_ONE << np.uint64(position & 63))
        if before != 0:
            return
        position >>= 6


@compiled()
def remove(words: Words, levels: Ints, position: int) -> None:
    """Take a position out."""
    for level in range(len(levels) - 1):
        at = levels[level] + (position >> 6)
        words[at] &= ~(_ONE << np.uint64(position & 63))
        if words[at] != 0:
            return
        position >>= 6


@compiled()
def _lowest(word: np.uint64) -> int:
    at = 0
    for width in (32, 16, 8, 4, 2, 1):
        if word & ((_ONE << np.uint64(width)) - _ONE) == 0:
            word >>= np.uint64(width)
            at += width
    return at


@compiled()
def _highest(word: np.uint64) -> int:
    at = 0
    for width in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(width) != 0:
            word >>= np.uint64(width)
            at += width
    return at


@compiled()
def following(words: Words, levels: Ints, position: int) -> int:
    """The least position in the set at or after ``position``; -1 if there is none."""
    for level in range(len(levels) - 1):
        at = levels[level] + (position >> 6)
        if at >= levels[level + 1]:
            return -1
        word = words[at] >> np.uint64(position & 63)
        if word != 0:
            position += _lowest(word)
            for below in range(level - 1, -1, -1):
                position = (position << 6) + _lowest(words[levels[below] + position])
            return position
        position = (position >> 6) + 1
    return -1


@compiled()
def preceding(words: Words, levels: Ints, position: int) -> int:
    """The greatest position in the set at or before ``position``; -1 if there is none."""
    for level in range(len(levels) - 1):
        if position < 0:
            return -1
        word = words[levels[level] + (position >> 6)] << np.uint64(63 - (position & 63))
        if word != 0:
            position -= 63 - _highest(word)
            for below in range(level - 1, -1, -1):
                position = (position << 6) + _highest(words[levels[below] + position])
            return position
        position = (position >> 6) - 1
    return -1
