"""How many rows of each group have a count below zero: what a reader of a group's first rows cannot see."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Ints, Rows
from altneu.errors import DiffOverflowError
from altneu.operators.kernels.compiled import compiled
from altneu.operators.kernels.exact_sum import bump
from altneu.operators.kernels.grouping import group_rows
from altneu.operators.kernels.groups import number_new
from altneu.operators.kernels.located import Located
from altneu.trace.batch import Arranged, Batch, find_in, matches_of
from altneu.trace.update import Updates


def below_zero(given: Arranged, known: Sequence[Batch]) -> Updates:
    """The changes of the number of rows of each key whose count is below zero.

    Shape:  an arrangement in an order of columns, with totally ordered times, in; rows of its key out. ``known`` are
            batches of what came out before, arranged by the key.
    Cost:   O(log n) for each new update of a key that has a retraction or a row below zero, and nothing for others.
    Law:    at every time the output accumulates to the number of rows below zero (tests/operators/test_ends.py).

    Raises:
        DiffOverflowError: a count leaves the signed 64-bit range.
    """
    layout = given.layout
    if not len(given.new):
        return Updates.empty(layout.key_schema, layout.lattice.width)
    hashes, keys = given.new.distinct_keys()
    number = number_new(given)
    values, words, times, diffs = given.new.updates_by_key()
    suspect = np.zeros(keys.count, np.bool_)
    suspect[number[diffs < 0]] = True
    known = [batch for batch in known if len(batch)]
    if known:
        suspect[find_in(known, hashes, keys).probe] = True
    some = np.flatnonzero(suspect[number])
    if not len(some):
        return Updates.empty(layout.key_schema, layout.lattice.width)
    number, values, words, times, diffs = number[some], values.take(some), words[some], times[0, some], diffs[some]
    result = Located.of([b for b in given.old if len(b)], hashes, keys)
    old = matches_of(result.with_rows(number, words, values, layout), result.used, layout)
    both = Rows.concat([old.values, values], layout.value_schema)
    group = np.concatenate([old.probe, number])
    row, _ = group_rows(both, group.reshape(1, -1), hash_rows(both))
    counts = np.zeros(int(row.max()) + 1, np.int64)
    order = np.lexsort((times, row[len(old) :]))
    at, change, overflow = _crossings(
        counts, row[: len(old)], old.diffs, row[len(old) :][order], times[order], diffs[order]
    )
    if overflow:
        raise DiffOverflowError("the count of a row left the signed 64-bit range; the step is not committed")
    which = order[at]
    return Updates(keys.take(number[which]), times[which].reshape(1, -1), change)


@compiled
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
