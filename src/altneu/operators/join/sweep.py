"""Pairs of values that are there at one time, found by one sweep through the times of each key."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.kernels.exact_sum import bump

Matches: TypeAlias = tuple[Ints, Ints, Ints, Ints]
"""Starts and ends of a block's runs of equal key, how many rows match each, and these rows."""
History: TypeAlias = tuple[Ints, Ints, Ints]
"""The run of equal key and value that each row of a block is in, times and diffs."""

# What is known of one side of a key: changes by time (time, diff, value); by value its first row, its count so far and
# its place among the values that are there (-1: it is not); the values that are there, and in one cell how many.
_TIME, _DIFF, _VALUE, _ROW, _COUNT, _PLACE, _THERE, _MANY = range(8)
_LARGEST = 9.3e18


@compiled()
def sweep(matches: Matches, mine: History, theirs: History, cursor: Ints, limit: int) -> Any:
    """Match each change of either side with what the other holds then: the next pairs, at most ``limit``.

    ``cursor``, five zeros to begin with, tells where to go on: probe, first of its matches, how far in either history,
    how many pairs of that change have been told.

    Shape:  rows of either block, times, diffs, and whether every count and product of diffs fits int64; ``cursor[0]``
            is the number of probes at the end.
    Cost:   O(n log n + pairs) for the n changes of a key's two histories: values that are never there at one time are
            never looked at together. Going on goes through the changes of one key again.
    """
    starts, ends, counts, rows = matches
    left, right, room = _side(ends - starts), _side(counts), min(limit, 2 * np.sum((ends - starts) * counts))
    out = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    size, fits = 0, True
    probe, base, upto_p, upto_q, emitted = cursor
    while probe < len(starts):
        many, others = ends[probe] - starts[probe], counts[probe]
        if others > 0:
            _enter(left, np.arange(starts[probe], ends[probe]), mine)
            _enter(right, rows[base : base + others], theirs)
        p, q = 0, 0
        while others > 0 and (p < many or q < others):
            is_mine = p < many and (q >= others or not _before(right, q, left, p))
            one, other, at = (left, right, p) if is_mine else (right, left, q)
            if p == upto_p and q == upto_q:  # everything before has been told
                size, met, good = _meet(one, at, other, emitted, out, size, is_mine)
                fits &= good
                if emitted + met < other[_MANY][0]:
                    cursor[0], cursor[1], cursor[2], cursor[3], cursor[4] = probe, base, p, q, emitted + met
                    return _cut(out, size), fits
                emitted = 0
                upto_p, upto_q = (p + 1, q) if is_mine else (p, q + 1)
            fits &= _apply(one, at)
            p, q = (p + 1, q) if is_mine else (p, q + 1)
        probe, base, upto_p, upto_q = probe + 1, base + others, 0, 0
    cursor[0] = probe
    return _cut(out, size), fits


@compiled()
def _side(sizes: Ints) -> Any:
    room = np.max(sizes)
    by_time = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    by_value = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    return (*by_time, *by_value, np.empty(room, np.int64), np.empty(1, np.int64))


@compiled()
def _enter(side: Any, rows: Ints, history: History) -> None:
    """Take up the history of a key: rows of a block, equal values beside each other."""
    runs, times, diffs = history
    value, order, less = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64), 0
    values = 0
    for i in range(len(rows)):
        if i == 0 or runs[rows[i]] != runs[rows[i - 1]]:
            side[_ROW][values], side[_COUNT][values], side[_PLACE][values] = rows[i], 0, -1
            values += 1
        value[i] = values - 1
        if diffs[rows[i]] < 0:
            order[less] = i
            less += 1
    for i in range(len(rows)):
        if diffs[rows[i]] > 0:
            order[less] = i
            less += 1
    if len(rows) > 1:
        order = order[np.argsort(times[rows[order]], kind="mergesort")]
    for i in range(len(rows)):
        side[_TIME][i], side[_DIFF][i], side[_VALUE][i] = times[rows[order[i]]], diffs[rows[order[i]]], value[order[i]]
    side[_MANY][0] = 0


@compiled()
def _before(one: Any, p: int, other: Any, q: int) -> bool:
    """Whether a change comes first: by time, and of one time what takes away, so that what comes does not meet it."""
    if one[_TIME][p] != other[_TIME][q]:
        return bool(one[_TIME][p] < other[_TIME][q])
    return bool(one[_DIFF][p] < 0 < other[_DIFF][q])


@compiled()
def _apply(side: Any, at: int) -> bool:
    """Let a change count; whether the count fits int64."""
    count, place, there, many = side[_COUNT], side[_PLACE], side[_THERE], side[_MANY]
    value = side[_VALUE][at]
    fits = not bump(count, value, side[_DIFF][at])
    if count[value] != 0 and place[value] < 0:
        place[value], there[many[0]] = many[0], value
        many[0] += 1
    elif count[value] == 0 and place[value] >= 0:
        many[0] -= 1
        last = there[many[0]]
        there[place[value]], place[last] = last, place[value]
        place[value] = -1
    return fits


@compiled()
def _meet(one: Any, at: int, other: Any, emitted: int, out: Any, size: int, is_mine: bool) -> tuple[int, int, bool]:
    """Match a change with the other side's values from the one numbered ``told`` on, as many as there is room for."""
    first, second = (out[0], out[1]) if is_mine else (out[1], out[0])
    diff = one[_DIFF][at]
    row, time = one[_ROW][one[_VALUE][at]], one[_TIME][at]
    met = min(other[_MANY][0] - emitted, len(first) - size)
    fits = True
    for i in range(emitted, emitted + met):
        facing = other[_THERE][i]
        count = other[_COUNT][facing]
        product = diff * count
        fits &= abs(float(diff) * float(count)) <= _LARGEST and product // count == diff
        first[size], second[size], out[2][size], out[3][size] = row, other[_ROW][facing], time, product
        size += 1
    return size, met, fits


@compiled()
def _cut(out: Any, size: int) -> Any:
    return out[0][:size], out[1][:size], out[2][:size], out[3][:size]
