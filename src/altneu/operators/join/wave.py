"""Pairs of two histories of a key, found by one walk through their times: what has come and gone is not met again.

The updates of both sides are walked through in the linear extension of their times. Each meets what the other side has
passed so far, and then counts on its own side. What is passed is moved on to the meet M of all times still to come,
where updates of one value that fall together are added up: a time t to come is at or above M, so that

    t v s = t v (s v M)

and the pairs come out at the same times. Over a total order that leaves of each value what is there now: a row that
came and went is nothing. To begin with each side is moved on to the meet of the other: old history, folded or not, to
the first of what is new.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from altneu.columnar.rows import Ints
from altneu.compiled import compiled

History: TypeAlias = tuple[Ints, Ints, Ints]
"""By place: the number of the run of equal key and value, times (width, n) and diffs."""

_FEW = 6  # that are compared one by one
_SMALL, _OFTEN = 16, 4  # buffers that are always kept in order; others after work of so many times their size
_RUN = 8  # that are sorted by insertion
_LARGEST = 9.3e18
_ODD = 0x9E3779B97F4A7C15


@compiled()
def wave(bounds: Ints, their_bounds: Ints, mine: History, theirs: History, cursor: Ints, limit: int) -> Any:
    """Match the histories of keys: the next pairs, at most ``limit``.

    Key i has the places ``bounds[i]`` up to ``bounds[i + 1]`` of mine, and so of theirs; on either side it has one.
    ``cursor``, three zeros to begin with, tells where to go on: key, update, pairs of it that were told.

    Shape:  places of mine and of theirs, times (width, m), diffs, and whether every diff fits int64; ``cursor[0]`` is
            the number of keys at the end. Pairs at one time may repeat and cancel.
    Cost:   O(n log n + pairs) for the n updates of a key's histories; going on goes through those of one key again.
    Law:    the products of all pairs of updates, added up (tests/operators/test_wave.py).
    """
    width, owns, others = len(mine[1]), np.diff(bounds), np.diff(their_bounds)
    room, many = min(limit, np.sum(owns * others)), np.max(owns + others)
    out = np.empty((2, room), np.int64), np.empty((width, room), np.int64), np.empty(room, np.int64)
    events = np.empty((2, many), np.int64), np.empty((width, many), np.int64), np.empty(many, np.int64)
    meets, order, scratch = np.empty((width, many), np.int64), np.empty(many, np.int64), np.empty(many, np.int64)
    sides = _buffer(width, np.max(owns)), _buffer(width, np.max(others))
    table = np.empty(_table_size(many), np.int64)
    size, fits = 0, True
    key, upto, emitted = cursor
    while key < len(owns):
        own, count = owns[key], owns[key] + others[key]
        _enter(events, 0, mine, bounds[key], own)
        _enter(events, own, theirs, their_bounds[key], others[key])
        _advance_each_other(events[1], own, count)
        _sort(events, order, scratch, count)
        _meet_backwards(events[1], order, meets, count)
        sides[0][3][:] = 0
        sides[1][3][:] = 0
        for i in range(count):
            e = order[i]
            one, other = (sides[0], sides[1]) if e < own else (sides[1], sides[0])
            fits &= _settle(other, meets[:, i], table)
            if i >= upto:
                met = min(other[3][0] - emitted, room - size)
                fits &= _pair(events, e, other, emitted, met, out, size, 0 if e < own else 1)
                size, emitted = size + met, emitted + met
                if emitted < other[3][0]:
                    cursor[0], cursor[1], cursor[2] = key, i, emitted
                    return out[0][:, :size], out[1][:, :size], out[2][:size], fits
                emitted = 0
            other[3][1] += other[3][0]
            _add(one, events, e)
        key, upto = key + 1, 0
    cursor[0] = key
    return out[0][:, :size], out[1][:, :size], out[2][:size], fits


@compiled()
def _buffer(width: int, room: int) -> Any:
    """What a side has passed: run and place, times, count; and how many, and the work since they were in order."""
    ints = np.empty((2, room), np.int64), np.empty((width, room), np.int64), np.empty(room, np.int64)
    return ints[0], ints[1], ints[2], np.zeros(2, np.int64)


@compiled()
def _table_size(many: int) -> int:
    size = 4
    while size < 2 * many:
        size *= 2
    return size


@compiled()
def _enter(events: Any, first: int, history: History, start: int, count: int) -> None:
    """Take up a key's history: run and place, time and diff of each update."""
    names, times, diffs = events
    runs, when, amounts = history
    for k in range(count):
        names[0, first + k], names[1, first + k], diffs[first + k] = runs[start + k], start + k, amounts[start + k]
        for c in range(len(times)):
            times[c, first + k] = when[c, start + k]


@compiled()
def _advance_each_other(times: Ints, own: int, count: int) -> None:
    """Move each side's times on to the meet of the other's: no pair is before it."""
    for c in range(len(times)):
        mine, theirs = np.min(times[c, :own]), np.min(times[c, own:count])
        for i in range(count):
            times[c, i] = max(times[c, i], theirs if i < own else mine)


@compiled()
def _before(events: Any, a: int, b: int) -> bool:
    """Whether an update comes first: by time, and of one time what takes away, so that what comes does not meet it."""
    times = events[1]
    for c in range(len(times)):
        if times[c, a] != times[c, b]:
            return bool(times[c, a] < times[c, b])
    return bool(events[2][a] < 0 < events[2][b])


@compiled()
def _sort(events: Any, order: Ints, scratch: Ints, count: int) -> None:
    """Merge sort, stable, of runs that are doubled; the first ones sorted by insertion."""
    for i in range(count):
        at = i
        while at % _RUN and _before(events, i, order[at - 1]):
            order[at] = order[at - 1]
            at -= 1
        order[at] = i
    step = _RUN
    while step < count:
        for low in range(0, count - step, 2 * step):
            middle, high = low + step, min(low + 2 * step, count)
            if not _before(events, order[middle], order[middle - 1]):
                continue
            scratch[low:middle] = order[low:middle]
            a, b, at = low, middle, low
            while a < middle:
                if b < high and _before(events, order[b], scratch[a]):
                    order[at] = order[b]
                    b += 1
                else:
                    order[at] = scratch[a]
                    a += 1
                at += 1
        step *= 2


@compiled()
def _meet_backwards(times: Ints, order: Ints, meets: Ints, count: int) -> None:
    """For each update the meet of its time and of all that follow."""
    for c in range(len(times)):
        least = times[c, order[count - 1]]
        for i in range(count - 1, -1, -1):
            least = min(least, times[c, order[i]])
            meets[c, i] = least


@compiled()
def _add(side: Any, events: Any, e: int) -> None:
    """Let an update count."""
    at = side[3][0]
    side[0][0, at], side[0][1, at], side[2][at] = events[0][0, e], events[0][1, e], events[2][e]
    side[1][:, at] = events[1][:, e]
    side[3][0] = at + 1
    side[3][1] += _OFTEN


@compiled()
def _settle(side: Any, meet: Ints, table: Ints) -> bool:
    """Move what is passed on to a time, and add up what falls together; whether the counts fit int64."""
    names, times, counts, state = side
    size, fits, count = state[0], True, 0
    if size == 0 or (size > _SMALL and state[1] < _OFTEN * size):
        return fits
    for i in range(size):
        for c in range(len(times)):
            times[c, i] = max(times[c, i], meet[c])
    if size > _FEW:
        table[: _table_size(size)] = -1
    for i in range(size):
        at = (
            _find(names, times, count, i, table, _table_size(size))
            if size > _FEW
            else _find_few(names, times, count, i)
        )
        if at == count:
            _move(side, i, count)
            count += 1
        else:
            before, diff = counts[at], counts[i]
            counts[at] += diff
            fits &= (before < 0) != (diff < 0) or (counts[at] < 0) == (diff < 0)
    size, count = count, 0
    for i in range(size):
        if counts[i] != 0:
            _move(side, i, count)
            count += 1
    state[0], state[1] = count, 0
    return fits


@compiled()
def _find(names: Ints, times: Ints, count: int, i: int, table: Ints, room: int) -> int:
    """Which of those kept is of the same value and time; ``kept`` if none is, and then it is in the table as that."""
    mixed = np.uint64(names[0, i])
    for c in range(len(times)):
        mixed = (mixed ^ np.uint64(times[c, i])) * np.uint64(_ODD)
        mixed ^= mixed >> np.uint64(32)
    mask = np.uint64(room - 1)
    at = mixed & mask
    while table[at] >= 0 and not _same(names, times, table[at], i):
        at = (at + np.uint64(1)) & mask
    if table[at] < 0:
        table[at] = count
    return int(table[at])


@compiled()
def _find_few(names: Ints, times: Ints, count: int, i: int) -> int:
    at = 0
    while at < count and not _same(names, times, at, i):
        at += 1
    return at


@compiled()
def _same(names: Ints, times: Ints, a: int, b: int) -> bool:
    if names[0, a] != names[0, b]:
        return False
    for c in range(len(times)):  # noqa: SIM110 -- Numba takes no generator here
        if times[c, a] != times[c, b]:
            return False
    return True


@compiled()
def _move(side: Any, start: int, to: int) -> None:
    if start != to:
        side[0][0, to], side[0][1, to], side[2][to] = side[0][0, start], side[0][1, start], side[2][start]
        for c in range(len(side[1])):
            side[1][c, to] = side[1][c, start]


@compiled()
def _pair(events: Any, e: int, other: Any, emitted: int, met: int, out: Any, size: int, side: int) -> bool:
    """Match an update with so many of what the other side has passed, from the one numbered ``told`` on."""
    (pairs, result, products), (names, times, diffs) = out, events
    fits = True
    for i in range(emitted, emitted + met):
        count = other[2][i]
        product = diffs[e] * count
        fits &= abs(float(diffs[e]) * float(count)) <= _LARGEST and product // count == diffs[e]
        pairs[side, size], pairs[1 - side, size], products[size] = names[1, e], other[0][1, i], product
        for c in range(len(times)):
            result[c, size] = max(times[c, e], other[1][c, i])
        size += 1
    return fits
