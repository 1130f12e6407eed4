"""Aggregates that need the group itself: min, max, distinct ones, collect, and the accumulable ones beside them.

The contents of every touched group are ranked once, and then one sweep goes through the moments of the step: counts per
rank, a set of the ranks that are there (``bitmap``), running sums. No moment re-reads its group, except to list it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.batch import Arranged
from altneu.errors import DiffOverflowError, PlanError
from altneu.operators.accumulate import Mask, valid_of, words_of
from altneu.operators.aggregates import (
    DATA,
    EMPTY,
    NEGATIVE,
    OVERFLOW,
    Aggregate,
    check_names,
    column_of,
    finish_one,
    finishing_table,
    number_kind,
    result_type,
)
from altneu.operators.bitmap import Words, empty_set, following, insert, preceding, remove
from altneu.operators.changes import emit_change, finals_for, list_column, room_for, tell
from altneu.operators.compiled import compiled
from altneu.operators.contents import Contents, contents
from altneu.operators.exact_sum import ANYTHING, DECIMAL, NULLS, SCRATCH, STRIDE, add_value, bump
from altneu.operators.grouping import group_rows
from altneu.operators.groups import Groups, ReduceOutput, is_quiet, output, require_total
from altneu.operators.ranking import order_within_groups, sort_lines
from altneu.rows import Ints, Rows, positions_of, taken

# What an aggregate reads: sums, how many ranks are there, the first or last of them, or all of them.
SUMS, DISTINCT_SUMS, RANKS, FIRST, LAST, LIST, SET = range(7)
_LONGEST_LIST = 2**31 - 1

_READS = {"min": FIRST, "max": LAST, "collect_list": LIST, "collect_set": SET}


@dataclass(frozen=True)
class _Track:
    """One thing to follow in a group: a column's sum, or the ranks of a column's (or several columns') values."""

    arguments: tuple[str, ...]
    ranked: bool
    ordered: bool
    kind: int


@dataclass(frozen=True)
class GeneralAggregates:
    """Any aggregates of each group over an arrangement of ``schema`` by ``key``.

    Raises:
        UnsupportedFunctionError, TypeMismatchError: as ``result_type`` says.
    """

    key: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    input: pa.Schema
    default_row: bool = False

    def __post_init__(self) -> None:
        check_names([*self.key, *(a.name for a in self.aggregates)])
        for aggregate in self.aggregates:
            result_type(aggregate, self.input)
            for name in aggregate.arguments:
                if name in self.key:
                    raise PlanError(
                        f"{aggregate} reads {name!r}, which is a group column; give it as a column of its own"
                    )

    @cached_property
    def schema(self) -> pa.Schema:
        """Key columns, then one column an aggregate."""
        keys = [self.input.field(name) for name in self.key]
        return pa.schema([*keys, *(pa.field(a.name, result_type(a, self.input)) for a in self.aggregates)])

    @cached_property
    def plan(self) -> tuple[tuple[_Track, ...], Ints, Ints]:
        """The tracks; for each aggregate its track (-1: none) and what it reads there."""
        tracks: dict[tuple[tuple[str, ...], bool], _Track] = {}
        reads = np.zeros((len(self.aggregates), 2), np.int64)
        for line, aggregate in zip(reads, self.aggregates, strict=True):
            ordered = aggregate.function in _READS
            ranked = ordered or aggregate.distinct
            line[1] = _READS.get(aggregate.function, SUMS)
            if aggregate.distinct and not ordered:
                line[1] = RANKS if aggregate.function == "count" else DISTINCT_SUMS
            if not aggregate.arguments:
                line[0] = -1
                continue
            place = (aggregate.arguments, ranked)
            kind = (
                number_kind(self.input.field(aggregate.arguments[0]).type)
                if line[1] in (SUMS, DISTINCT_SUMS)
                else ANYTHING
            )
            if aggregate.function == "count":
                kind = ANYTHING
            before = tracks.get(place, _Track(*place, ordered, kind))
            summed = kind if before.kind == ANYTHING else before.kind
            tracks[place] = _Track(*place, before.ordered or ordered, summed)
            line[0] = list(tracks).index(place)
        bases = [1 + STRIDE * track if track >= 0 else -1 for track in reads[:, 0].tolist()]
        return tuple(tracks.values()), reads, finishing_table(self.aggregates, bases, self.input)


@dataclass(frozen=True)
class _Ranks:
    """Ranks of all tracks in one line of positions.

    Shape:  ``position`` (T, V): where each value counts, -1 for null; ``starts`` (T, K + 1): ordered tracks have
            group g's positions from ``starts[t, g]`` up to ``starts[t, g + 1]``; ``first`` (R,): a value at each
            position.
    """

    position: Ints
    starts: Ints
    first: Ints


def reduce_general(given: Arranged | Groups, spec: GeneralAggregates, operator: str = "reduce") -> ReduceOutput:
    """Bring the aggregates of the touched groups up to date.

    Shape:  an arrangement by ``spec.key`` in; rows of ``spec.schema`` and error rows out, at the times at which a
            group's result differs from the one before.
    Cost:   re-reads the touched groups once, one sort of their values; then O(log n) a moment and aggregate, except
            that collect lists the group at each moment that changes it. No exchange, no state beside the arrangement.
    Law:    at every time the output accumulates to the aggregates of what the input accumulates to; a value whose count
            is below zero makes its group an error until it is not (tests/operators/test_reduce_general.py).

    Raises:
        PlanError: the times are not totally ordered.
        DiffOverflowError: a count or a sum leaves the signed 64-bit range.
    """
    require_total(given, operator)
    if is_quiet(given):
        return output(spec.schema, [], [])
    held = contents(given)
    tracks, reads, finishing = spec.plan
    ranks = _rank(tracks, held)
    words = _words(tracks, held.values)
    kinds = np.array([t.kind for t in tracks], np.int64)
    ranked = np.array([t.ranked for t in tracks], np.bool_)
    changes, flat, list_starts, overflow = _sweep(
        (held.moment_group, held.moments, held.groups.old_start, held.values.count),
        (held.new_value, held.new_diffs),
        (held.old_value, held.groups.old_diffs),
        (kinds, ranked, ranks.position, ranks.starts, ranks.first, *empty_set(len(ranks.first))),
        words,
        (reads, finishing, spec.default_row),
    )
    if overflow:
        raise DiffOverflowError("a count or a sum of a group left the signed 64-bit range; the step is not committed")

    def finals(which: Any, valid: Any, low: Ints, high: Ints) -> list[pa.Array]:
        made: list[pa.Array] = []
        for a, aggregate in enumerate(spec.aggregates):
            type_ = spec.schema.field(aggregate.name).type
            column = held.values.column(aggregate.arguments[0]) if reads[a, 1] >= FIRST else None
            good, words = valid[a, which], low[a, which]
            if column is None:
                made.append(column_of(type_, words, high[a, which], good))
            elif reads[a, 1] >= LIST:
                made.append(list_column(type_, column.take(pa.array(flat)), list_starts, words, good))
            else:
                made.append(column.take(pa.array(words, mask=~good)))
        return made

    return tell(
        ((held.moment_at[changes[0][0]], *changes[0][1:]), *changes[1:]),
        held.groups,
        finals,
        spec.schema,
        spec.aggregates,
        operator,
    )


def _rank(tracks: Sequence[_Track], held: Contents) -> _Ranks:
    """Number the values that each track follows; ordered tracks by value within each group."""
    count, groups = held.values.count, len(held.groups)
    position = np.full((len(tracks), count), -1, np.int64)
    starts = np.zeros((len(tracks), groups + 1), np.int64)
    firsts = []
    total = 0
    for t, track in enumerate(tracks):
        columns = [held.values.column(name) for name in track.arguments]
        some = _without_nulls(columns, count)
        if not track.ranked:
            position[t, some] = 0
            continue
        if track.ordered:
            (line,) = sort_lines(taken(columns[0], positions_of(some)), descending=False, nulls_first=True)
            order, _ = order_within_groups([line], held.group[some], groups)
            rank, first = _dense_ranks(line, held.group[some], order)
        else:
            rows = held.values.select(track.arguments).take(some)
            rank, first = group_rows(rows, held.group[some].reshape(1, -1)) if len(some) else (some, some)
        position[t, some] = rank + total
        firsts.append(some[first])
        if track.ordered:
            starts[t] = np.searchsorted(held.group[some[first]], np.arange(groups + 1)) + total
        total += len(first)
    return _Ranks(position, starts, np.concatenate(firsts) if firsts else np.empty(0, np.int64))


def _without_nulls(columns: Sequence[pa.Array], count: int) -> Ints:
    """Positions at which no column is null."""
    some = np.ones(count, np.bool_)
    for column in columns:
        if column.null_count:
            some &= valid_of(column)
    return np.flatnonzero(some)


@compiled
def _dense_ranks(line: Ints, group: Ints, order: Ints) -> tuple[Ints, Ints]:
    """Ranks through all groups, equal values of a group sharing one; and a value of each rank."""
    rank, first = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    used = 0
    for p in range(len(order)):
        i = order[p]
        if p == 0 or line[i] != line[order[p - 1]] or group[i] != group[order[p - 1]]:
            first[used] = i
            used += 1
        rank[i] = used - 1
    return rank, first[:used].copy()


def _words(tracks: Sequence[_Track], values: Rows) -> tuple[Ints, Ints]:
    """Low and high words of the values that are summed."""
    low = np.zeros((len(tracks), values.count), np.int64)
    high = np.zeros((len(tracks), values.count if any(t.kind == DECIMAL for t in tracks) else 0), np.int64)
    for t, track in enumerate(tracks):
        if track.kind != ANYTHING:
            words_of(values.column(track.arguments[0]), track.kind, low[t], high[t])
    return low, high


@compiled
def _list(flat: Ints, used: int, once: bool, t: int, group: int, ranking: Any, counts: Ints) -> Any:
    """Append the values of a track in order, each as often as it counts; -1 if they are more than a list holds."""
    _, _, _, starts, first, bits, levels = ranking
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


@compiled
def _note(m: int, begin: int, end: int, values: Ints, ranking: Any, counts: Ints, notes: Any) -> int:
    """Note each rank that a moment's updates will touch, with its count before them; returns how many."""
    ranked, position = ranking[1], ranking[2]
    stamp, noted, noted_count = notes
    many = 0
    for p in range(begin, end):
        for t in range(len(ranked)):
            at = position[t, values[p]]
            if ranked[t] and at >= 0 and stamp[at] != m:
                stamp[at], noted[many], noted_count[many] = m, at, counts[at]
                many += 1
    return many


@compiled
def _mark(reads: Ints, stale: Mask, group: int, many: int, starts: Ints, counts: Ints, notes: Any) -> None:
    """Mark the lists that the noted ranks change: a list by any change of a count, a set when a value comes or goes."""
    _, noted, noted_count = notes
    for a in range(len(reads)):
        if reads[a, 1] < LIST or stale[a]:
            continue
        for p in range(many):
            if starts[reads[a, 0], group] <= noted[p] < starts[reads[a, 0], group + 1]:
                then, now = max(noted_count[p], 0), max(counts[noted[p]], 0)
                stale[a] |= then != now and (reads[a, 1] == LIST or then == 0 or now == 0)


@compiled
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


@compiled
def _extreme(least: bool, start: int, stop: int, bits: Words, levels: Ints) -> int:
    """The least or the greatest rank of a group that is there, -1 if none is."""
    at = following(bits, levels, start) if least else preceding(bits, levels, stop - 1)
    return at if start <= at < stop else -1


@compiled
def _sweep(  # noqa: C901, PLR0912, PLR0915 -- taking tuples of arrays apart costs more than a group's updates do
    groups: Any, new: Any, old: Any, ranking: Any, words: Any, read: Any
) -> Any:
    """Go through the moments of every group: first its old updates, then those of each moment.

    Returns the changes, the values of the lists made, where each list starts, and whether anything overflowed. A list's
    low word is its number.
    """
    moment_group, moments, old_starts, size = groups
    (new_values, new_diffs), (old_values, old_diffs) = new, old
    kinds, ranked, position, starts, first, bits, levels = ranking
    (low, high), (reads, finishing, default_row) = words, read
    tracks, ranks, many, count = len(kinds), len(first), len(reads), len(moments) - 1
    lists_read = np.sum(reads[:, 1] >= LIST)
    sums, there, digits = np.zeros(1 + STRIDE * tracks, np.int64), np.zeros(tracks, np.int64), np.zeros(8, np.int64)
    value_counts, counts = np.zeros(size, np.int64), np.zeros(ranks, np.int64)
    room = 1 + (np.max(np.diff(moments)) * tracks if lists_read > 0 else 0)
    notes = np.full(ranks, -1, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    stale, number, magnitude = np.ones(many, np.bool_), np.zeros(many, np.int64), np.zeros(SCRATCH, np.int64)
    flat, lists_made = np.empty(64, np.int64), 0
    ends = np.zeros((count + len(old_starts)) * lists_read + 1, np.int64)
    lines, shown, told = room_for(count, many)
    states, valid, final_words = finals_for(many)
    made, current, line, negatives, noted = 0, -1, 0, 0, 0
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
                stale[:] = True
            for p in range(begin, end):
                value, diff = (new_values[p], new_diffs[p]) if moment else (old_values[p], old_diffs[p])
                overflow |= bump(sums, 0, diff)
                negatives -= 1 if value_counts[value] < 0 else 0
                overflow |= bump(value_counts, value, diff)
                negatives += 1 if value_counts[value] < 0 else 0
                for t in range(tracks):
                    at = position[t, value]
                    amount = diff
                    if at < 0:
                        overflow |= not ranked[t] and bump(sums, 1 + STRIDE * t + NULLS, diff)
                        continue
                    if ranked[t]:
                        amount, over = _ranked(at, diff, counts, bits, levels)
                        overflow |= over
                        there[t] += amount
                    if amount != 0:
                        upper = high[t, value] if high.shape[1] > 0 else 0
                        overflow |= add_value(sums, 1 + STRIDE * t, kinds[t], low[t, value], upper, amount, digits)
            if moment and lists_read > 0:
                _mark(reads, stale, group, noted, starts, counts, notes)
            states[line] = NEGATIVE if negatives > 0 else EMPTY if sums[0] == 0 and not default_row else DATA
            for a in range(many if states[line] == DATA else 0):
                t, what = reads[a, 0], reads[a, 1]
                result, some, low_word, high_word = DATA, True, 0, 0
                if what in (SUMS, DISTINCT_SUMS):
                    total = sums[0] if what == SUMS else there[t]
                    result, some, low_word, high_word = finish_one(finishing[a], sums, total, magnitude)
                elif what == RANKS:
                    low_word = there[t]
                elif what < LIST:
                    at = _extreme(what == FIRST, starts[t, group], starts[t, group + 1], bits, levels)
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
                if result == OVERFLOW:
                    states[line] = OVERFLOW + a
                    break
                valid[line, a], final_words[0, line, a], final_words[1, line, a] = some, low_word, high_word
        made = emit_change(states, valid, final_words, 1 - line, m, lines, shown, told, made)
    changes = lines[:, :made], shown[:, :made], told[:, :, :made]
    return changes, flat[: ends[lists_made]], ends[: lists_made + 1], overflow
