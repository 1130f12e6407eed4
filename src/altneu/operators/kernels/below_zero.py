"""How many rows of each group have a count below zero: what a reader of a group's first rows cannot see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from altneu.columnar.gathered import Gathered
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.errors import DiffOverflowError
from altneu.operators.kernels import small_ends, small_groups
from altneu.operators.kernels.exact_sum import bump
from altneu.operators.kernels.groups import number_new
from altneu.operators.kernels.in_order import in_order
from altneu.operators.kernels.located import Located
from altneu.order import parted, placed
from altneu.trace.batch import Arranged, Batch, Layout, Matches, find_in, matches_of
from altneu.trace.update import Updates

_LEFT = "the count of a row left the signed 64-bit range; the step is not committed"


def below_zero(given: Arranged, known: Sequence[Batch]) -> Updates:
    """The changes of the number of rows of each key whose count is below zero.

    Where times are not totally ordered, the output is by epoch: the number of rows whose count is below zero at
    some time of the epoch, in any round and at any event time. If times have more than two coordinates, a row is
    also counted if its retractions alone do not rule that out.

    Shape:  an arrangement in an order of columns in; rows of its key out, where there are rounds at the one of what is
            new. ``known`` are the batches of earlier output, arranged by the key.
    Cost:   O(log n) for each new update of a key that has a retraction or a row below zero, and nothing for others.
    Law:    at every time the output accumulates to the number of rows below zero (tests/operators/test_ends.py,
            tests/operators/test_ends_at_partial_times.py).

    Raises:
        DiffOverflowError: a count leaves the signed 64-bit range.
    """
    layout = given.layout
    if not given.new.count:
        return Updates.empty(layout.key_schema, layout.lattice.width)
    values, words, times, diffs = given.new.updates_by_key()
    known = [batch for batch in known if batch.count]
    if not known and (int(np.minimum.reduce(diffs)) > 0 or _none_is(given)):
        return Updates.empty(layout.key_schema, layout.lattice.width)
    hashes, keys = given.new.distinct_keys()
    number = number_new(given)
    suspect = np.zeros(keys.count, np.bool_)
    suspect[number[diffs < 0]] = True
    if known:
        suspect[find_in(known, hashes, keys).probe] = True
    some = suspect[number].nonzero()[0]
    if not len(some):
        return Updates.empty(layout.key_schema, layout.lattice.width)
    if len(some) < len(number):
        number, values, words, times, diffs = number[some], values.take(some), words[some], times[:, some], diffs[some]
    result = Located.of_new(given)
    old = matches_of(result.with_rows(number, words, values, layout), result.used, layout, as_read=True)
    both, group = Gathered.both(old.values, values), np.concatenate([old.probe, number])
    row, _ = in_order(both, group, layout.order, np.concatenate([old.value_hash, words]))
    if not layout.lattice.is_total:
        return _at_epochs(layout, old, row, (keys, number, times, diffs))
    counts, times = np.zeros(int(row.max()) + 1, np.int64), times[0]
    order = np.lexsort((times, row[len(old) :]))
    at, change, overflow = _crossings(
        counts, row[: len(old)], old.diffs, row[len(old) :][order], times[order], diffs[order]
    )
    if overflow:
        raise DiffOverflowError(_LEFT)
    which = order[at]
    return Updates(keys.take(number[which]), times[which].reshape(1, -1), change)


def _none_is(given: Arranged) -> bool:
    """Whether that is told by the kernels that read in place."""
    return small_groups.none_is_below(given) or small_ends.none_is_below(given)


def _at_epochs(layout: Layout, old: Matches, row: Ints, new: tuple[Rows, Ints, Ints, Ints]) -> Updates:
    """The same at epochs, of updates whose rows are numbered, the old ones first."""
    keys, number, times, diffs = new
    both, all_diffs = np.concatenate([old.times, times], axis=1), np.concatenate([old.diffs, diffs])
    order = np.lexsort((*both[:0:-1], row))
    is_new = order >= len(old)
    which, at, change, overflow = _changes(row[order], is_new, both.take(order, axis=1), all_diffs[order])
    if overflow:
        raise DiffOverflowError(_LEFT)
    if not len(at):
        return Updates.empty(layout.key_schema, layout.lattice.width)
    outer, rounds = parted(layout.lattice, times[:, :1])
    then, at_rounds = np.zeros((len(outer), len(at)), np.int64), np.repeat(rounds, len(at), axis=1)
    then[0] = at
    rows = keys.take(number[order[which] - len(old)])
    return Updates(rows, placed(layout.lattice, then, at_rounds), change)


@compiled()
def _changes(row: Ints, is_new: Any, times: Ints, diffs: Ints) -> tuple[Ints, Ints, Ints, bool]:
    """For updates by row and all coordinates but epochs: a new update of the row, an epoch, +1 or -1."""
    which, at, change = np.empty(len(row), np.int64), np.empty(len(row), np.int64), np.empty(len(row), np.int64)
    count, first, overflow = 0, 0, False
    while first < len(row):
        last, some, least = first, -1, np.int64(0)
        while last < len(row) and row[last] == row[first]:
            if is_new[last] and (some < 0 or times[0, last] < least):
                some, least = last, times[0, last]
            last += 1
        if some >= 0:
            epochs, was = np.unique(times[0, first:last]), 0
            for epoch in epochs:
                if epoch >= least:
                    before, _ = _is_below(times, diffs, is_new, first, last, epoch, False)
                    after, over = _is_below(times, diffs, is_new, first, last, epoch, True)
                    overflow |= over
                    change_here = int(after) - int(before)
                    if change_here != was:
                        which[count], at[count], change[count] = some, epoch, change_here - was
                        count, was = count + 1, change_here
        first = last
    return which[:count].copy(), at[:count].copy(), change[:count].copy(), overflow


@compiled()
def _is_below(
    times: Ints, diffs: Ints, is_new: Any, first: int, last: int, epoch: int, with_new: bool
) -> tuple[bool, bool]:
    """Whether the count of a row is below zero at some time of an epoch, with or without what is new; if it overflows.

    With more than two coordinates: whether it would be at one of its retractions if all of these came as early.
    """
    sums, at, many, overflow = np.zeros(last - first, np.int64), np.empty(last - first, np.int64), 0, False
    for i in range(first, last):  # updates of equal rounds and event times form one run, whatever their epochs
        if i == first or (times[1:, i] != times[1:, i - 1]).any():
            at[many], many = i, many + 1
        if times[0, i] <= epoch and (with_new or not is_new[i]):
            overflow |= bump(sums, many - 1, diffs[i])
    count, below = np.zeros(1, np.int64), False
    if len(times) == 2:
        for m in range(many):
            overflow |= bump(count, 0, sums[m])
            below |= count[0] < 0
        return below, overflow
    for m in range(many):
        if sums[m] < 0:
            count[0] = 0
            for n in range(many):
                if sums[n] < 0 or (times[1:, at[n]] <= times[1:, at[m]]).all():
                    overflow |= bump(count, 0, sums[n])
            below |= count[0] < 0
    return below, overflow


@compiled()
def _crossings(
    counts: Ints, old: Ints, old_diffs: Ints, new: Ints, times: Ints, diffs: Ints
) -> tuple[Ints, Ints, bool]:
    """At which new updates, by row and time, a row's count comes or ceases to be below zero: +1 or -1."""
    overflow = False
    for i in range(len(old)):
        overflow |= bump(counts, old[i], old_diffs[i])
    at, change = np.empty(len(new), np.int64), np.empty(len(new), np.int64)
    count, i = 0, 0
    while i < len(new):
        before = counts[new[i]]
        j = i
        while j < len(new) and new[j] == new[i] and times[j] == times[i]:
            overflow |= bump(counts, new[j], diffs[j])
            j += 1
        after = counts[new[i]]
        if (before < 0) != (after < 0):
            at[count], change[count] = i, 1 if after < 0 else -1
            count += 1
        i = j
    return at[:count].copy(), change[:count].copy(), overflow
