"""The sweep over ranked groups: through the moments of a step, each group's old updates first."""

from __future__ import annotations

from typing import Any

import numpy as np

from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.kernels.bitmap import Words, following, insert, preceding, remove
from altneu.operators.kernels.changes import emit_change, finals_for, room_for
from altneu.operators.kernels.exact_sum import (
    BIT_COUNTS,
    DIGITS,
    NULLS,
    PRODUCT,
    SCRATCH,
    add_bits,
    add_product,
    add_value,
    bits_of,
    bump,
)
from altneu.operators.kernels.order_tree import grow, place_of
from altneu.operators.reduce.accumulate import Mask
from altneu.operators.reduce.aggregates import DATA, EMPTY, NEGATIVE, OVERFLOW, finish_one
from altneu.operators.reduce.ranked_plan import (
    ALL,
    BASE,
    COLUMN,
    DESCENDING,
    DISTINCT_SUMS,
    FACTORS,
    FIRST,
    KIND,
    LIST,
    MODE,
    NOT,
    NTH,
    POINT,
    RANKS,
    SET,
    SUMS,
    TRACK,
    WHAT,
    WHOLE,
)

_LONGEST_LIST = 2**31 - 1


@compiled()
def _list(flat: Ints, used: int, once: bool, t: int, group: int, ranking: Any, counts: Ints) -> Any:
    """Append the values of a track in order, each as often as it counts; -1 if they are more than a list holds."""
    _, _, starts, first, bits, levels = ranking
    begin = used
    at = following(bits, levels, starts[t, group])
    while 0 <= at < starts[t, group + 1]:
        times = 1 if once else counts[at]
        if times > _LONGEST_LIST - (used - begin):
            return flat, -1
        if used + times > len(flat):
            flat = np.concatenate((flat, np.empty(len(flat) + times, np.int64)))
        flat[used : used + times] = first[at]
        used += times
        at = following(bits, levels, at + 1)
    return flat, used


@compiled()
def _note(m: int, begin: int, end: int, values: Ints, ranking: Any, counts: Ints, notes: Any) -> int:
    """Note each rank that a moment's updates will touch, with its count before them; returns how many."""
    ranked, position = ranking[0], ranking[1]
    stamp, noted, noted_count = notes
    many = 0
    for p in range(begin, end):
        for t in range(len(ranked)):
            at = position[t, values[p]]
            if ranked[t] and at >= 0 and stamp[at] != m:
                stamp[at], noted[many], noted_count[many] = m, at, counts[at]
                many += 1
    return many


@compiled()
def _mark(reads: Ints, stale: Mask, group: int, many: int, starts: Ints, counts: Ints, notes: Any) -> None:
    """Mark the lists that the noted ranks change: a list by any change of a count, a set when a value comes or goes."""
    _, noted, noted_count = notes
    for a in range(len(reads)):
        if reads[a, WHAT] < LIST or stale[a]:
            continue
        for p in range(many):
            if starts[reads[a, TRACK], group] <= noted[p] < starts[reads[a, TRACK], group + 1]:
                then, now = max(noted_count[p], 0), max(counts[noted[p]], 0)
                stale[a] |= then != now and (reads[a, WHAT] == LIST or then == 0 or now == 0)


@compiled()
def _ranked(at: int, diff: int, counts: Ints, bits: Words, levels: Ints) -> tuple[int, bool]:
    """Let a value's rank count: by how much the values that are there have changed, and overflow."""
    was = counts[at] > 0
    overflow = bump(counts, at, diff)
    if was == (counts[at] > 0):
        return 0, overflow
    if was:
        remove(bits, levels, at)
        return -1, overflow
    insert(bits, levels, at)
    return 1, overflow


@compiled()
def _extreme(least: bool, start: int, stop: int, bits: Words, levels: Ints) -> int:
    """The least or the greatest rank of a group that is there, -1 if none is."""
    at = following(bits, levels, start) if least else preceding(bits, levels, stop - 1)
    return at if start <= at < stop else -1


@compiled()
def _mode(greatest: bool, start: int, stop: int, counts: Ints) -> int:
    """The least or the greatest of the ranks that count most, -1 if none is there."""
    result, most = -1, 0
    for at in range(start, stop):
        if counts[at] > most or (greatest and counts[at] == most > 0):
            result, most = at, counts[at]
    return result


@compiled()
def _place(fraction: float, n: int) -> int:
    """Which of n values, from 0 on, is the least that a fraction of them is not above."""
    return max(int(np.ceil(fraction * n)) - 1, 0)


@compiled()
def _point(fraction: float, read: Ints, n: int, start: int, stop: int, tree: Ints, first: Ints, words: Ints) -> int:
    """The bits of what is at a fraction of the way through n values, between two of them in proportion.

    Between whole numbers it is one, cut off.
    """
    descending = read[DESCENDING] > 0
    position = (n - 1) * fraction
    lower, upper = int(np.floor(position)), int(np.ceil(position))
    a = words[first[place_of(tree, start, stop, n - 1 - lower if descending else lower)]]
    b = words[first[place_of(tree, start, stop, n - 1 - upper if descending else upper)]]
    if a == b:
        return a
    if read[WHOLE]:
        return int(float(a) + (float(b) - float(a)) * (position - lower))
    left, right = np.int64(a).view(np.float64), np.int64(b).view(np.float64)
    return bits_of(left + (right - left) * (position - lower))


@compiled()
def _add_term(term: Ints, value: int, amount: int, sums: Ints, low: Ints, high: Ints, digits: Ints) -> bool:
    """Add a value, or a product of values, ``amount`` times; whether a slot overflowed."""
    kind, base, column = term[KIND], term[BASE], term[FACTORS]
    if kind == BIT_COUNTS:
        return add_bits(sums, base + DIGITS, low[column, value], amount)
    if kind != PRODUCT:
        upper = high[column, value] if high.shape[1] > 0 else 0
        return add_value(sums, base, kind, low[column, value], upper, amount, digits)
    many = 0
    factors = np.empty(len(term) - FACTORS, np.int64)
    while many < len(factors) and term[FACTORS + many] >= 0:
        factors[many] = low[term[FACTORS + many], value]
        many += 1
    return add_product(sums, base + DIGITS, factors[:many], amount)


@compiled()
def sweep(  # noqa: C901, PLR0912, PLR0915 -- taking tuples of arrays apart costs more than a group's updates do
    groups: Any, new: Any, old: Any, ranking: Any, placing: Any, summed: Any, read: Any
) -> Any:
    """Go through the moments of every group: first its old updates, then those of each moment.

    Returns the changes, the values of the lists made, where each list starts, and whether anything overflowed. A list's
    low word is its number.
    """
    moment_group, moments, old_starts, size = groups
    (new_values, new_diffs), (old_values, old_diffs) = new, old
    ranked, position, starts, first, bits, levels = ranking
    (located, tree), (terms, slots, low, high), (reads, fractions, finishing, default_row) = placing, summed, read
    tracks, ranks, many, count = len(ranked), len(first), len(reads), len(moments) - 1
    lists_read = np.sum(reads[:, WHAT] >= LIST)
    sums, digits = np.zeros(slots, np.int64), np.zeros(8, np.int64)
    there, total, amounts = np.zeros(tracks, np.int64), np.zeros(tracks, np.int64), np.zeros(tracks, np.int64)
    value_counts, counts = np.zeros(size, np.int64), np.zeros(ranks, np.int64)
    room = 1 + (np.max(np.diff(moments)) * tracks if lists_read > 0 else 0)
    notes = np.full(ranks, -1, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    stale, number, magnitude = np.ones(many, np.bool_), np.zeros(many, np.int64), np.zeros(SCRATCH, np.int64)
    flat, lists_made = np.empty(64, np.int64), 0
    ends = np.zeros((count + len(old_starts)) * lists_read + 1, np.int64)
    lines, shown, written = room_for(count, many)
    states, valid, final_words = finals_for(many)
    built, current, line, negatives, noted = 0, -1, 0, 0, 0
    overflow = False
    for m in range(count):
        group = moment_group[m]
        for moment in range(1 if group == current else 0, 2):
            if moment:
                begin, end = moments[m], moments[m + 1]
                if lists_read > 0:
                    noted = _note(m, begin, end, new_values, ranking, counts, notes)
                line = 1 - line
            else:
                begin, end = old_starts[group], old_starts[group + 1]
                current, negatives = group, 0
                sums[:] = 0
                there[:] = 0
                total[:] = 0
                stale[:] = True
            for p in range(begin, end):
                value, diff = (new_values[p], new_diffs[p]) if moment else (old_values[p], old_diffs[p])
                overflow |= bump(sums, 0, diff)
                negatives -= 1 if value_counts[value] < 0 else 0
                overflow |= bump(value_counts, value, diff)
                negatives += 1 if value_counts[value] < 0 else 0
                for t in range(tracks):
                    at = position[t, value]
                    amounts[t] = diff
                    if at >= 0 and ranked[t]:
                        amounts[t], over = _ranked(at, diff, counts, bits, levels)
                        overflow |= over
                        there[t] += amounts[t]
                        if located[t] != NOT:
                            placed = diff if located[t] == ALL else amounts[t]
                            overflow |= bump(total, t, placed)
                            grow(tree, starts[t, group], starts[t, group + 1], at, placed)
                for s in range(len(terms)):
                    t = terms[s, TRACK]
                    if position[t, value] < 0:
                        if not ranked[t] and terms[s, FACTORS + 1] < 0:
                            overflow |= bump(sums, terms[s, BASE] + NULLS, diff)
                    elif amounts[t] != 0:
                        overflow |= _add_term(terms[s], value, amounts[t], sums, low, high, digits)
            if moment and lists_read > 0:
                _mark(reads, stale, group, noted, starts, counts, notes)
            states[line] = NEGATIVE if negatives > 0 else EMPTY if sums[0] == 0 and not default_row else DATA
            for a in range(many if states[line] == DATA else 0):
                t, what, descending = reads[a, TRACK], reads[a, WHAT], reads[a, DESCENDING] > 0
                result, some, low_word, high_word = DATA, True, 0, 0
                if what in (SUMS, DISTINCT_SUMS):
                    n = sums[0] if what == SUMS else there[t]
                    result, some, low_word, high_word = finish_one(finishing[a], sums, n, magnitude)
                elif what == RANKS:
                    low_word = there[t]
                elif what == POINT:
                    some = total[t] > 0
                    if some:
                        low_word = _point(
                            fractions[a], reads[a], total[t], starts[t, group], starts[t, group + 1], tree, first,
                            low[reads[a, COLUMN]],
                        )  # fmt: skip
                elif what < LIST:
                    at = -1
                    if what == MODE:
                        at = _mode(descending, starts[t, group], starts[t, group + 1], counts)
                    elif what != NTH:
                        at = _extreme(what == FIRST, starts[t, group], starts[t, group + 1], bits, levels)
                    elif total[t] > 0:
                        nth = _place(fractions[a], total[t])
                        nth = total[t] - 1 - nth if descending else nth
                        at = place_of(tree, starts[t, group], starts[t, group + 1], nth)
                    some = at >= 0
                    low_word = first[at] if some else 0
                else:
                    if stale[a]:
                        flat, used = _list(flat, ends[lists_made], what == SET, t, group, ranking, counts)
                        if used < 0:
                            states[line] = OVERFLOW + a
                            break
                        number[a] = lists_made
                        lists_made += 1
                        ends[lists_made] = used
                        stale[a] = False
                    low_word = number[a]
                if result != DATA:
                    states[line] = NEGATIVE if result == NEGATIVE else OVERFLOW + a
                    break
                valid[line, a], final_words[0, line, a], final_words[1, line, a] = some, low_word, high_word
        built = emit_change(states, valid, final_words, 1 - line, m, lines, shown, written, built)
    changes = lines[:, :built], shown[:, :built], written[:, :, :built]
    return changes, flat[: ends[lists_made]], ends[: lists_made + 1], overflow
