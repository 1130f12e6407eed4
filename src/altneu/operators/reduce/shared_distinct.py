"""Distinct values of one column that several aggregates count, each for some of the rows.

``count(DISTINCT x) FILTER (WHERE a)`` and ``count(DISTINCT x) FILTER (WHERE b)`` read columns that are x or null. One
arrangement has every x of a group, with flags that say in which of the columns a row has it. From it come the rows of
the distinct values, with x in the columns in which some row has it. So x is looked up once, however many filters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.errors import DiffOverflowError
from altneu.operators.base import BY_KEY, CHANGE, Here, Outputs, OverArrangements
from altneu.operators.kernels.exact_sum import bump
from altneu.operators.kernels.groups import Groups, in_time_order, touched
from altneu.trace.batch import Arranged
from altneu.trace.update import Updates


@dataclass(frozen=True)
class _SharedValues(OverArrangements):
    """What reads the arrangement of flags by the key and the value; flag i is that of column i."""

    makes_rows = at_each_time = True
    whole = False
    bound = CHANGE

    columns: int

    @property
    def cost(self) -> str:
        """The counts of the values that are new."""
        return BY_KEY


@dataclass(frozen=True)
class SharedPresentOp(_SharedValues, tag="SharedPresentOp", kind="distinct"):
    """The values that are there, once each, in those of the columns in which a row has them."""

    def step(self, here: Here) -> Outputs:
        """Where a column begins, or ceases, to have a value."""
        given = here.arranged()
        return [present_values(given, self.columns, here.schema) if len(given.new) else None]


@dataclass(frozen=True)
class SharedNegativeOp(_SharedValues, tag="SharedNegativeOp", kind="count"):
    """The groups of values that some column has a negative number of times."""

    def step(self, here: Here) -> Outputs:
        """Where such a count has become negative, or is so no more."""
        given = here.arranged()
        return [negative_values(given, self.columns, here.schema) if len(given.new) else None]


def present_values(given: Arranged, columns: int, schema: pa.Schema) -> Updates:
    """Each value that a row has once, in those of the columns in which its count is positive, null in the others.

    Shape:  an arrangement of flags by the key and the value, which is its last key column; rows of ``schema`` out: the
            key, then the columns.
    Cost:   O(d log n) for d new rows and two to the power of the columns flags of a value, at most; no exchange, no
            state beside the arrangement.
    Law:    tests/operators/test_collate.py.

    Raises:
        DiffOverflowError: a count leaves the signed 64-bit range.
    """
    groups, (at, before, after, *_) = _changed(given, columns)
    some = np.flatnonzero(before != after)
    old, new = some[before[some] != 0], some[after[some] != 0]
    flags = np.concatenate([before[old], after[new]])
    at = np.concatenate([at[old], at[new]])
    found = groups.keys.take(groups.new_group[at]).columns
    value = found[-1]
    shown = [pc.if_else(pa.array((flags >> i) & 1 != 0), value, None) for i in range(1, columns + 1)]
    rows = Rows(schema, (*found[:-1], *shown), len(at))
    diffs = np.concatenate([np.full(len(old), -1), np.ones(len(new), np.int64)])
    return Updates(rows, groups.new_times[at].reshape(1, -1), diffs)


def negative_values(given: Arranged, columns: int, schema: pa.Schema) -> Updates:
    """The key of each value whose count in some column is below zero; all else as ``present_values``."""
    groups, (at, _, _, before, after) = _changed(given, columns)
    some = np.flatnonzero(before != after)
    keys = groups.keys.take(groups.new_group[at[some]]).select(schema.names)
    return Updates(keys, groups.new_times[at[some]].reshape(1, -1), after[some] - before[some])


def _changed(given: Arranged, columns: int) -> tuple[Groups, Ints]:
    groups = touched(given)
    order, starts = in_time_order(groups.new_group, groups.new_times)
    lines, overflow = _flags(
        (order, starts, groups.new_group, _words(groups.new_values), groups.new_diffs),
        (groups.old_start, _words(groups.old_values), groups.old_diffs),
        columns,
    )
    if overflow:
        raise DiffOverflowError("a count of the group left the signed 64-bit range; the step is not committed")
    return groups, lines


def _words(values: Rows) -> Ints:
    return np.asarray(values.columns[0]).astype(np.int64)


@compiled()
def _flags(new: tuple[Ints, ...], old: tuple[Ints, ...], columns: int) -> tuple[Ints, bool]:
    """Of each moment: a new update of it, what is there before and after it, and whether a count is negative then.

    What is there is one bit for rows, then one for each column.
    """
    order, starts, groups, flags, diffs = new
    old_starts, old_flags, old_diffs = old
    counts = np.zeros(1 + columns, np.int64)
    lines = np.empty((5, len(starts) - 1), np.int64)
    current, overflow = -1, False
    there, negative = 0, 0
    for m in range(len(starts) - 1):
        at = order[starts[m]]
        if groups[at] != current:
            current = groups[at]
            counts[:] = 0
            for p in range(old_starts[current], old_starts[current + 1]):
                overflow |= _add(counts, old_flags[p], old_diffs[p])
            there, negative = _state(counts)
        lines[0, m], lines[1, m], lines[3, m] = at, there, negative
        for p in range(starts[m], starts[m + 1]):
            overflow |= _add(counts, flags[order[p]], diffs[order[p]])
        there, negative = _state(counts)
        lines[2, m], lines[4, m] = there, negative
    return lines, overflow


@compiled()
def _add(counts: Ints, flags: int, diff: int) -> bool:
    """Count rows, and those that have a value in each column; whether that overflows."""
    overflow, bits = bump(counts, 0, diff), (flags << 1) | 1
    for i in range(1, len(counts)):
        if (bits >> i) & 1:
            overflow |= bump(counts, i, diff)
    return overflow


@compiled()
def _state(counts: Ints) -> tuple[int, int]:
    there, negative = 0, 0
    for i in range(len(counts)):
        if counts[i] > 0:
            there |= 1 << i
        elif counts[i] < 0 and i:
            negative = 1
    return there, negative
