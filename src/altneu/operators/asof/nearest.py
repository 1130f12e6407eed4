"""The sweep under as-of joins: which right row each left row meets, at every moment at which anything changes.

Rows are *places*, in order of (group, timestamp): right ones with ties in order too. The rows of each side that are
there are a set of places (``bitmap``), so that the nearest one is found in O(log n). When a right row comes or goes,
only left rows that are there are looked at, and none that a neighbour in the set is nearer to. What the rows of one
moment have in common is looked at once, however many of them are next to each other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.kernels.bitmap import following, insert, preceding, remove
from altneu.operators.kernels.exact_sum import bump

BACKWARD, FORWARD, NEAREST = range(3)
_LEAST, _MOST = -(2**63), 2**63 - 1


@compiled()
def _after(stamp: Ints, starts: Ints) -> Ints:
    """For each place the first one behind it that has another timestamp, or the end of its group."""
    after = np.empty(len(stamp), np.int64)
    for g in range(len(starts) - 1):
        end = starts[g + 1]
        for p in range(starts[g + 1] - 1, starts[g] - 1, -1):
            if p + 1 < starts[g + 1] and stamp[p + 1] != stamp[p]:
                end = p + 1
            after[p] = end
    return after


@compiled()
def _bounds(stamp: Ints, starts: Ints, right_stamp: Ints, right_starts: Ints) -> tuple[Ints, Ints]:
    """For each left place the first right place at or after its timestamp, and the first one after it."""
    at, beyond = np.empty(len(stamp), np.int64), np.empty(len(stamp), np.int64)
    for g in range(len(starts) - 1):
        low, high, end = right_starts[g], right_starts[g], right_starts[g + 1]
        for p in range(starts[g], starts[g + 1]):
            while low < end and right_stamp[low] < stamp[p]:
                low += 1
            while high < end and right_stamp[high] <= stamp[p]:
                high += 1
            at[p], beyond[p] = low, high
    return at, beyond


@compiled()
def _apart(one: int, other: int) -> np.uint64:
    return np.uint64(one) - np.uint64(other) if one >= other else np.uint64(other) - np.uint64(one)


@compiled()
def _met(at: int, beyond: int, stamp: int, group: int, right: Any, there: Any, rule: Ints) -> int:
    """The place of the right row that a left row meets, -1 for none."""
    right_stamp, starts, after = right
    bits, levels = there
    backward, forward = -1, -1
    if rule[0] != FORWARD:
        backward = preceding(bits, levels, (beyond if rule[2] else at) - 1)
        if backward < starts[group]:
            backward = -1
    if rule[0] != BACKWARD:
        forward = following(bits, levels, at if rule[2] else beyond)
        if forward >= starts[group + 1]:
            forward = -1
        if forward >= 0:
            forward = preceding(bits, levels, after[forward] - 1)
    if backward >= 0 and forward >= 0 and _apart(right_stamp[forward], stamp) < _apart(right_stamp[backward], stamp):
        backward = -1
    met = backward if backward >= 0 else forward
    if met >= 0 and rule[1] >= 0 and _apart(right_stamp[met], stamp) > np.uint64(rule[1]):
        return -1
    return met


@compiled()
def _start(places: Ints, diffs: Ints, counts: Ints) -> bool:
    """Let old updates count; whether a count overflowed."""
    overflow = False
    for p in range(len(places)):
        overflow |= bump(counts, places[p], diffs[p])
    return overflow


@compiled()
def _fill(counts: Ints, bits: Any, levels: Ints) -> None:
    for place in range(len(counts)):
        if counts[place] > 0:
            insert(bits, levels, place)


@compiled()
def _turn(m: int, begin: int, end: int, events: Any, counts: Ints, was: Any, there: Any) -> tuple[int, bool]:
    """Let a moment's right updates count; ``was`` lists the places touched and how they were. How many, and overflow.

    The set is brought up to date.
    """
    is_left, places, diffs = events
    stamp, listed, before = was
    bits, levels = there
    many, overflow = 0, False
    for p in range(begin, end):
        place = places[p]
        if is_left[p]:
            continue
        if stamp[place] != m:
            stamp[place], listed[many], before[many] = m, place, counts[place]
            many += 1
        overflow |= bump(counts, place, diffs[p])
    for i in range(many):
        place = listed[i]
        if before[i] <= 0 < counts[place]:
            insert(bits, levels, place)
        elif counts[place] <= 0 < before[i]:
            remove(bits, levels, place)
    return many, overflow


@compiled()
def first_at(stamps: Ints, low: int, high: int, wanted: int) -> int:
    """The first place in [low, high) whose timestamp is at or after one; ``high`` when none is."""
    while low < high:
        middle = (low + high) >> 1
        if stamps[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def _within(low: int, high: int) -> int:
    """The middle of two timestamps, nearer to the lower one."""
    return low + np.int64((np.uint64(high) - np.uint64(low)) >> np.uint64(1))  # type: ignore[return-value]


@compiled()
def _up_to(stamps: Ints, low: int, high: int, wanted: int) -> int:
    """The first place in [low, high) whose timestamp is after one; ``high`` when none is."""
    return high if wanted == _MOST else first_at(stamps, low, high, wanted + 1)


@compiled()
def _above(place: int, next_: int, group: int, left_stamp: Ints, left_starts: Ints, right: Any, rule: Ints) -> Any:
    """The left places [begin, end) that may have a right place nearest below; ``next_`` is its neighbour, or -1."""
    stamp = right[0][place]
    low, high = left_starts[group], left_starts[group + 1]
    begin = first_at(left_stamp, low, high, stamp) if rule[2] else _up_to(left_stamp, low, high, stamp)
    end = high
    if next_ >= 0:
        other = right[0][next_]
        if rule[0] == NEAREST:
            end = _up_to(left_stamp, begin, high, _within(stamp, other))
        else:
            end = first_at(left_stamp, begin, high, other) if rule[2] else _up_to(left_stamp, begin, high, other)
    if rule[1] >= 0 and stamp <= _MOST - rule[1]:
        end = _up_to(left_stamp, begin, end, stamp + rule[1])
    return begin, end


@compiled()
def _below(place: int, before: int, group: int, left_stamp: Ints, left_starts: Ints, right: Any, rule: Ints) -> Any:
    """The left places [begin, end) that may have a right place nearest above; ``before`` is its neighbour, or -1."""
    stamp = right[0][place]
    low, high = left_starts[group], left_starts[group + 1]
    end = _up_to(left_stamp, low, high, stamp) if rule[2] else first_at(left_stamp, low, high, stamp)
    begin = low
    if before >= 0:
        other = right[0][before]
        if rule[0] == NEAREST:
            begin = first_at(left_stamp, low, end, _within(other, stamp))
        else:
            begin = _up_to(left_stamp, low, end, other) if rule[2] else first_at(left_stamp, low, end, other)
    if rule[1] >= 0 and stamp >= _LEAST + rule[1]:
        begin = first_at(left_stamp, begin, end, stamp - rule[1])
    return begin, end


@compiled()
def _beyond(place: int, beside: int, group: int, right: Any, there: Any) -> bool:
    """Whether left rows at the timestamp of a neighbour ``beside``, which they may not meet, may look at a place.

    They do unless a right row on the neighbour's other side is nearer to them.
    """
    stamps, starts, after = right
    bits, levels = there
    if stamps[beside] > stamps[place]:
        other = following(bits, levels, after[beside])
        if other < 0 or other >= starts[group + 1]:
            return True
    else:
        other = preceding(bits, levels, first_at(stamps, starts[group], starts[group + 1], stamps[beside]) - 1)
        if other < starts[group]:
            return True
    return _apart(stamps[place], stamps[beside]) <= _apart(stamps[other], stamps[beside])  # type: ignore[return-value]


@compiled()
def _count(m: int, begin: int, end: int, events: Any, lefts: Ints, todo: Any) -> tuple[int, bool]:
    """Let a moment's left updates count; list their places, and how often they were there. How many, and overflow."""
    is_left, places, diffs = events
    many, overflow = 0, False
    for p in range(begin, end):
        if is_left[p]:
            many = _list(m, places[p], lefts, todo, many)
            overflow |= bump(lefts, places[p], diffs[p])
    return many, overflow


@compiled()
def _list(m: int, place: int, lefts: Ints, todo: Any, many: int) -> int:
    """List a left place, once a moment, with how often it is there."""
    seen, listed, before, _ = todo
    if seen[place] != m:
        seen[place], listed[many], before[many] = m, place, lefts[place]
        many += 1
    return many


@compiled()
def _walk(m: int, begin: int, end: int, here: Any, lefts: Ints, todo: Any, many: int) -> int:
    """List the left rows that are there among places [begin, end)."""
    p = following(here[0], here[1], begin) if begin < end else -1
    while 0 <= p < end:
        todo[3][0] += 1
        many = _list(m, p, lefts, todo, many)
        p = following(here[0], here[1], p + 1)
    return many


@compiled()
def _neighbours(place: int, group: int, right: Any, there: Any) -> Any:
    """The nearest places of other timestamps that are there, -1 for none; and whether a greater tie hides this one."""
    stamps, starts, after = right
    bits, levels = there
    next_ = following(bits, levels, place + 1)
    hidden = 0 <= next_ < after[place]
    if hidden:
        next_ = following(bits, levels, after[place])
    if next_ >= starts[group + 1]:
        next_ = -1
    before = preceding(bits, levels, first_at(stamps, starts[group], starts[group + 1], stamps[place]) - 1)
    if before < starts[group]:
        before = -1
    return before, next_, hidden


@compiled()
def _at_stop(m: int, beside: int, group: int, sides: Any, todo: Any, many: int) -> int:
    """List the left rows at the timestamp of a right place."""
    left_stamp, left_starts, lefts, here, right, _, _ = sides
    low, high = left_starts[group], left_starts[group + 1]
    first = first_at(left_stamp, low, high, right[0][beside])
    return _walk(m, first, _up_to(left_stamp, first, high, right[0][beside]), here, lefts, todo, many)


@compiled()
def _look(m: int, touched: int, group: int, was: Any, rights: Ints, sides: Any, todo: Any, many: int) -> int:
    """List the left rows that are there and may look at right rows that came or went.

    The touched places are in order, so what neighbours have in common is walked through once.
    """
    left_stamp, left_starts, lefts, here, right, there, rule = sides
    above, below = left_starts[group], left_starts[group]
    stops = rule[0] == NEAREST and not rule[2]
    last_before, last_next = -1, -1
    for i in range(touched):
        place = was[1][i]
        if (was[2][i] > 0) == (rights[place] > 0):
            continue
        before, next_, hidden = _neighbours(place, group, right, there)
        if hidden:
            continue
        if rule[0] != FORWARD:
            begin, end = _above(place, next_, group, left_stamp, left_starts, right, rule)
            many = _walk(m, max(begin, above), end, here, lefts, todo, many)
            above = max(above, end)
        if rule[0] != BACKWARD:
            begin, end = _below(place, before, group, left_stamp, left_starts, right, rule)
            many = _walk(m, max(begin, below), end, here, lefts, todo, many)
            below = max(below, end)
        if stops and next_ >= 0 and next_ != last_next and _beyond(place, next_, group, right, there):
            many, last_next = _at_stop(m, next_, group, sides, todo, many), next_
        if stops and before >= 0 and before != last_before and _beyond(place, before, group, right, there):
            many, last_before = _at_stop(m, before, group, sides, todo, many), before
    return many


@compiled()
def _blame(m: int, touched: int, was: Any, rights: Ints, wrong: Any, errors: int) -> tuple[Ints, int]:
    """Note the right rows whose count has fallen below zero, or risen above."""
    for i in range(touched):
        now = rights[was[1][i]]
        if (was[2][i] < 0) != (now < 0):
            if errors == wrong.shape[1]:
                wrong = np.concatenate((wrong, np.empty_like(wrong)), axis=1)
            wrong[0, errors], wrong[1, errors], wrong[2, errors] = m, was[1][i], 1 if now < 0 else -1
            errors += 1
    return wrong, errors


@compiled()
def sweep(moments: Any, left: Any, right: Any, old: Any, events: Any, sets: Any, rule: Ints, keeps: bool) -> Any:
    """Go through the moments: (moment, left, right, diff) of what comes and goes, (moment, place, diff) of errors.

    Also whether a count overflowed, and how many left rows were looked at because a right one came or went.

    Shape:  ``moments`` are (where each starts, its group); ``left`` and ``right`` (timestamps, where groups start);
            ``old`` (left places, left diffs, right places, right diffs); ``events`` (is left, place, diff) by moment
            and place;
            ``sets`` are empty ones of left and right places. With ``keeps`` what meets nothing comes out with right -1.
    """
    moment_starts, moment_group = moments
    left_stamp, left_starts = left
    right_stamp, right_starts = right
    here, there = sets
    side = right_stamp, right_starts, _after(right_stamp, right_starts)
    at, beyond = _bounds(left_stamp, left_starts, right_stamp, right_starts)
    lefts, rights = np.zeros(len(left_stamp), np.int64), np.zeros(len(right_stamp), np.int64)
    overflow = _start(old[0], old[1], lefts)
    overflow |= _start(old[2], old[3], rights)
    _fill(rights, there[0], there[1])
    match = np.full(len(lefts), -1, np.int64)
    for g in range(len(left_starts) - 1):
        for p in range(left_starts[g], left_starts[g + 1]):
            if lefts[p] != 0:
                insert(here[0], here[1], p)
                match[p] = _met(at[p], beyond[p], left_stamp[p], g, side, there, rule)
    was = np.full(len(rights), -1, np.int64), np.empty(len(rights), np.int64), np.empty(len(rights), np.int64)
    room = np.empty(len(lefts), np.int64), np.empty(len(lefts), np.int64)
    todo = np.full(len(lefts), -1, np.int64), room[0], room[1], np.zeros(1, np.int64)
    sides = left_stamp, left_starts, lefts, here, side, there, rule
    out = np.empty((4, 2 * len(events[0]) + 16), np.int64)
    wrong = np.empty((3, 16), np.int64)
    size, errors = 0, 0
    for m in range(len(moment_starts) - 1):
        begin, end, group = moment_starts[m], moment_starts[m + 1], moment_group[m]
        touched, over = _turn(m, begin, end, events, rights, was, there)
        many, too = _count(m, begin, end, events, lefts, todo)
        overflow |= over | too
        wrong, errors = _blame(m, touched, was, rights, wrong, errors)
        many = _look(m, touched, group, was, rights, sides, todo, many)
        if size + 2 * many > out.shape[1]:
            out = np.concatenate((out, np.empty((4, max(out.shape[1], 2 * many)), np.int64)), axis=1)
        for i in range(many):
            p, before = todo[1][i], todo[2][i]
            now = lefts[p]
            if before == 0 and now == 0:
                continue
            if before == 0:
                insert(here[0], here[1], p)
            elif now == 0:
                remove(here[0], here[1], p)
            met = _met(at[p], beyond[p], left_stamp[p], group, side, there, rule)
            then = match[p] if before != 0 else met
            match[p] = met
            if then == met:
                overflow |= ((now ^ before) & (now ^ (now - before))) < 0
                before, now = 0, now - before
            for meets, count in ((then, -before), (met, now)):
                if count != 0 and (keeps or meets >= 0):
                    out[0, size], out[1, size], out[2, size], out[3, size] = m, p, meets, count
                    size += 1
    return out[:, :size].copy(), wrong[:, :errors].copy(), overflow, todo[3][0]


@compiled()
def lookups(
    moments: Any, left: Any, right: Any, old: Any, events: Any, there: Any, rule: Ints, simultaneous: bool
) -> Any:
    """Which right place each left event meets at its moment, -1 for none, by position of the event; and overflow.

    Shape:  as ``sweep``; of the old updates only the right ones are there.
    """
    moment_starts, moment_group = moments
    left_stamp, left_starts = left
    right_stamp, right_starts = right
    bits, levels = there
    side = right_stamp, right_starts, _after(right_stamp, right_starts)
    at, beyond = _bounds(left_stamp, left_starts, right_stamp, right_starts)
    rights = np.zeros(len(right_stamp), np.int64)
    overflow = _start(old[2], old[3], rights)
    _fill(rights, bits, levels)
    was = np.full(len(rights), -1, np.int64), np.empty(len(rights), np.int64), np.empty(len(rights), np.int64)
    result = np.full(len(events[0]), -1, np.int64)
    for m in range(len(moment_starts) - 1):
        begin, end, group = moment_starts[m], moment_starts[m + 1], moment_group[m]
        if simultaneous:
            _, over = _turn(m, begin, end, events, rights, was, there)
            overflow |= over
        for p in range(begin, end):
            if events[0][p]:
                place = events[1][p]
                result[p] = _met(at[place], beyond[place], left_stamp[place], group, side, there, rule)
        if not simultaneous:
            _, over = _turn(m, begin, end, events, rights, was, there)
            overflow |= over
    return result, overflow
