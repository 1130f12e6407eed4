"""Aggregates of one group that are computed from several states of it, put together to one row.

``count(*)`` is read from sums, ``max(x)`` from the end of the rows in the order of x, ``count(distinct x)`` from the
sums of distinct values. Each such part is computed by a kernel of its own, over what it needs of its state, with one
difference: what was there before the step is given to the kernel as new, at a moment before all others. So a part says
what its values were, and at which times they change; a group's row is that of all parts, wherever one of them changes.

Source: the collation of reductions in Materialize, there an operator with a state of its own. Here it needs none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import ClassVar

import numpy as np
import pyarrow as pa

from altneu.columnar import few
from altneu.columnar.gathered import Gathered
from altneu.columnar.hashing import NULL_HASH, Hashes, is_injective
from altneu.columnar.ranking import Words
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.errors import ERROR_SCHEMA
from altneu.operators.kernels.changes import state_text
from altneu.operators.kernels.grouping import group_rows
from altneu.operators.kernels.groups import AllNew, Groups, ReduceOutput, key_errors, no_errors, number_new, output
from altneu.operators.kernels.in_order import GroupsInOrder, InPart
from altneu.operators.kernels.located import NewRows, no_matches
from altneu.operators.kernels.small_ends import is_small
from altneu.operators.reduce.accumulable import AggregatesSpec, empty_group_row
from altneu.operators.reduce.aggregates import NEGATIVE
from altneu.operators.reduce.calls import Aggregate
from altneu.operators.reduce.needed import old_rows
from altneu.operators.reduce.node import Ends, Quantiles
from altneu.operators.reduce.ranked import GeneralSpec
from altneu.operators.reduce.seen import Seen
from altneu.operators.reduce.spec import ReduceSpec
from altneu.trace.batch import Arranged, Matches, matches_of, runs_of
from altneu.trace.update import Updates


@dataclass(frozen=True)
class Touched:
    """The distinct keys of a step, and a time before all of its times."""

    hashes: Words
    keys: Rows
    before: int

    @classmethod
    def of(cls, given: Sequence[Arranged]) -> tuple[Touched, Iterator[Ints]]:
        """The keys of several arrangements by the same columns; which of them those of each are that has any."""
        parts = [one.new.distinct_keys() for one in given if one.new.blocks]
        before = min([int(np.minimum.reduce(block.times, axis=None)) for one in given for block in one.new.blocks]) - 1
        if not parts[1:] or _is_one(parts, given[0].layout.key_schema):
            return cls(*parts[0], before), repeat(np.arange(parts[0][0].size))
        keys = Rows.concat([part for _, part in parts], given[0].layout.key_schema)
        hashes = np.concatenate([part for part, _ in parts])
        which, first = group_rows(keys, np.empty((0, keys.count), np.int64), hashes)
        numbers = np.split(which, np.cumsum([part.count for _, part in parts])[:-1])
        return cls(hashes[first], keys.take(first), before), iter(numbers)


def _is_one(parts: Sequence[tuple[Hashes, Rows]], schema: pa.Schema) -> bool:
    """Whether all of several sets of distinct keys are sure to be the same one key."""
    found = {hash_ for hashes, _ in parts for hash_ in hashes[:2].tolist()}
    return len(found) == 1 and int(NULL_HASH) not in found and is_injective(schema)


@dataclass(frozen=True)
class _Input:
    """An arrangement and what is new in it, by touched key in ascending order, with times."""

    given: Arranged
    touched: Touched
    new: NewRows
    times: Ints

    @classmethod
    def of(cls, given: Arranged, touched: Touched, numbers: Ints | None) -> _Input:
        """What is new; ``numbers`` are those of its distinct keys among the touched ones, None if nothing is."""
        if numbers is None:
            nothing = no_matches(given.layout)
            new = NewRows(
                touched.hashes, touched.keys, nothing.probe, nothing.values, nothing.value_hash, nothing.diffs
            )
            return cls(given, touched, new, nothing.times[0])
        values, words, times, diffs = given.new.updates_by_key()
        number = numbers[number_new(given)]
        if touched.keys.count == 1:
            return cls(given, touched, NewRows(touched.hashes, touched.keys, number, values, words, diffs), times[0])
        at = number.argsort(kind="stable")
        new = NewRows(touched.hashes, touched.keys, number[at], values.take(at), words[at], diffs[at])
        return cls(given, touched, new, times[0, at])

    def old(self) -> Matches:
        """All old updates of the touched keys."""
        batches, layout = [batch for batch in self.given.old if batch.blocks], self.given.layout
        if not batches:
            return no_matches(layout)
        return matches_of(*runs_of(batches, self.touched.hashes, self.touched.keys), layout, as_read=True)

    def all(self) -> Groups | None:
        """The groups with all of their old updates; None if they have no updates at all."""
        old = self.old()
        return self.groups(old) if len(old) or len(self.new.diffs) else None

    def groups(self, old: Matches) -> Groups:
        """The groups as if these old updates were new, at a time before all others."""
        layout, touched = self.given.layout, self.touched
        group, counts = np.concatenate([old.probe, self.new.number]), np.concatenate([old.diffs, self.new.diffs])
        when = np.concatenate([np.array([touched.before] * old.diffs.size, np.int64), self.times])
        values = Gathered.both(old.values, self.new.values)
        words = np.concatenate([old.value_hash, self.new.words]) if layout.order else None
        if touched.keys.count > 1:
            order = group.argsort(kind="stable")
            group, values, when, counts = group[order], values.at(order), when[order], counts[order]
            words = None if words is None else words[order]
        if words is None:
            return AllNew(layout, touched.keys, group, values, when, counts)
        return GroupsInOrder(layout, touched.keys, (group, values, words, when, counts), InPart(no_matches(layout)))


@dataclass(frozen=True)
class PartSpec(ABC):
    """How some aggregates are computed, those at ``places`` among all, from so many arrangements."""

    arrangements: ClassVar[int]
    is_whole: ClassVar[bool] = False
    """Whether it is made of all that is kept of a group."""

    spec: ReduceSpec
    places: tuple[int, ...]

    @property
    def rows(self) -> int:
        """How many rows of a group, or sums of it, are read."""
        return 1

    def aggregates(self, calls: Sequence[Aggregate]) -> Sequence[Aggregate]:
        """What the kernel computes, of all aggregates."""
        return [calls[place] for place in self.places]

    @abstractmethod
    def groups(self, inputs: Sequence[_Input]) -> Groups:
        """What the kernel is given."""

    def wrong(self, inputs: Sequence[_Input]) -> Groups | None:
        """Numbers of rows below zero, by key, that the kernel does not see."""
        return None

    def history(self, given: Sequence[Arranged], touched: Touched) -> Updates | None:
        """What the kernel makes of these groups, from where they lie; None where that is not told, or any is wrong.

        All that is new is of the time after that before all others.
        """
        return None


@dataclass(frozen=True)
class SumsPart(PartSpec):
    """What is read from sums; beside the aggregates at ``places`` others may be added up, so that errors are found."""

    arrangements = 1

    spec: AggregatesSpec

    def aggregates(self, calls: Sequence[Aggregate]) -> Sequence[Aggregate]:
        """Those at its places, and the others."""
        return self.spec.accumulator.aggregates

    def groups(self, inputs: Sequence[_Input]) -> Groups:
        """All sums of the group."""
        return inputs[0].groups(inputs[0].old())

    def history(self, given: Sequence[Arranged], touched: Touched) -> Updates | None:
        """From the sums."""
        return _history_of_sums(self.spec, given[0], touched)


@dataclass(frozen=True)
class BestPart(PartSpec):
    """What is read from the best rows, which are all that is kept of a group."""

    arrangements = 1

    def groups(self, inputs: Sequence[_Input]) -> Groups:
        """All rows that are kept."""
        return inputs[0].groups(inputs[0].old())


@dataclass(frozen=True)
class OrderedPart(PartSpec):
    """What is read from some of the rows in an order; the second arrangement has the numbers of rows below zero.

    Only some columns of these rows may be ``seen``.
    """

    arrangements = 2
    needed: Ends | Quantiles
    seen: Seen | None = None

    @property
    def rows(self) -> int:
        """Those that are needed."""
        return self.needed.rows

    def groups(self, inputs: Sequence[_Input]) -> Groups:
        """The rows that are needed, and those that are new."""
        state, negative = inputs
        needed = self.needed if self.seen is None else self.seen.called(self.needed)
        groups = state.groups(old_rows(state.given, needed, negative.given, state.new).old)
        return groups if self.seen is None else self.seen.groups(groups)

    def history(self, given: Sequence[Arranged], touched: Touched) -> Updates | None:
        """From the ends of the rows."""
        state, negative = given
        if self.seen is not None or not isinstance(self.needed, Ends) or _has_any(negative) or not is_small(state):
            return None
        assert isinstance(self.spec, GeneralSpec)
        return self.spec.history(state, touched.hashes, touched.keys, touched.before)


@dataclass(frozen=True)
class ValuesPart(OrderedPart):
    """What is read from some of the distinct values in an order, which are there where their count is not zero.

    The second arrangement has the numbers of values below zero, which the first does not show.
    """

    def wrong(self, inputs: Sequence[_Input]) -> Groups | None:
        """All numbers of the group."""
        return inputs[1].all()

    def history(self, given: Sequence[Arranged], touched: Touched) -> Updates | None:
        """Not told: the rows are counts."""
        return None


@dataclass(frozen=True)
class DistinctPart(PartSpec):
    """What is read from sums of distinct values; the second arrangement has the numbers of values below zero."""

    arrangements = 2

    def groups(self, inputs: Sequence[_Input]) -> Groups:
        """All sums of the group."""
        return inputs[0].groups(inputs[0].old())

    def wrong(self, inputs: Sequence[_Input]) -> Groups | None:
        """All numbers of the group."""
        return inputs[1].all()

    def history(self, given: Sequence[Arranged], touched: Touched) -> Updates | None:
        """From the sums."""
        return None if _has_any(given[1]) else _history_of_sums(self.spec, given[0], touched)


@dataclass(frozen=True)
class AllValuesPart(DistinctPart):
    """What is made of all distinct values; the second arrangement has the numbers of values below zero."""

    is_whole = True


def _has_any(given: Arranged) -> bool:
    return bool(given.new.count) or any([batch.count for batch in given.old])  # noqa: C419  # a generator takes longer


def _history_of_sums(spec: ReduceSpec, given: Arranged, touched: Touched) -> Updates | None:
    if not isinstance(spec, AggregatesSpec) or spec.default_row or not is_small(given) or not _has_any(given):
        return None
    return spec.history(given, touched.hashes, touched.keys, touched.before)


@dataclass(frozen=True)
class Collation:
    """The parts of the aggregates of a group, in the order of their arrangements."""

    parts: tuple[PartSpec, ...]
    calls: tuple[Aggregate, ...]
    schema: pa.Schema
    default_row: bool


def collate(given: Sequence[Arranged], spec: Collation, operator: str) -> ReduceOutput:
    """Bring the aggregates of the groups that have new updates in some arrangement up to date.

    Shape:  the arrangements of all parts, by the same key, with totally ordered times; rows of ``spec.schema`` and
            error rows out.
    Cost:   what the kernels of the parts cost, over what they need of each touched group; no exchange, no state.
    Law:    at every time the output accumulates to the aggregates of what the input accumulates to; a group has an
            error where one of its parts shows a count below zero (tests/operators/test_collate.py).

    Raises:
        DiffOverflowError: a count or a sum leaves the signed 64-bit range.
    """
    touched, numbers = Touched.of(given)
    number_of = [next(numbers) if one.new.blocks else None for one in given]
    histories, errors, wrong, at = list[Updates](), list[Updates](), list[Moments](), 0
    for part in spec.parts:
        mine = slice(at, at + part.arrangements)
        at += part.arrangements
        history = part.history(given[mine], touched) if touched.hashes.size <= few.MOST else None
        if history is None:
            inputs = [_Input.of(one, touched, some) for one, some in zip(given[mine], number_of[mine], strict=True)]
            result = part.spec.reduce(part.groups(inputs), operator)
            history = result.oks
            errors.append(result.errs)
            if (some := part.wrong(inputs)) is not None:
                moments, failed = _errors_below_zero(some, operator)
                wrong.append(moments)
                errors.append(failed)
        histories.append(history)
    rows = _put_together(histories, wrong, errors, touched, spec)
    return output(spec.schema, [rows], [_united(errors, touched.before)])


Moments = tuple[Ints, Ints, Ints]
"""Keys, times, and changes."""


def _errors_below_zero(groups: Groups, operator: str) -> tuple[Moments, Updates]:
    """When there begin, and cease, to be rows below zero in a group; and the errors that says of it."""
    if not groups.new_group.size:
        return (groups.new_group, groups.new_times, groups.new_diffs), no_errors(1)
    order = np.lexsort((groups.new_times, groups.new_group))
    group, times, diffs = groups.new_group[order], groups.new_times[order], groups.new_diffs[order]
    at, change = changes_of(group, times, diffs)
    keys, texts = groups.keys.take(group[at]), [state_text(NEGATIVE, ())] * len(at)
    return (group[at], times[at], change), key_errors(operator, keys, times[at], change, texts)


def _united(errors: Sequence[Updates], before: int) -> Updates:
    """Errors that some part has, once; those of the moment ``before`` all others were there."""
    some = Updates.concat([part for part in errors if len(part)], ERROR_SCHEMA, 1)
    if not len(some):
        return some
    row, _ = group_rows(some.rows, np.empty((0, len(some)), np.int64))
    order = np.lexsort((some.times[0], row))
    times = some.times[0, order]
    at, change = changes_of(row[order], times, some.diffs[order])
    fresh = times[at] > before
    at, change = at[fresh], change[fresh]
    return Updates(some.rows.take(order[at]), times[at].reshape(1, -1), change)


@compiled()
def changes_of(what: Ints, times: Ints, diffs: Ints) -> tuple[Ints, Ints]:
    """Where the sum of what is equal begins (+1) and ceases (-1) to be above zero; by what it is of, and time."""
    at, change = np.empty(len(what), np.int64), np.empty(len(what), np.int64)
    count, i, total = 0, 0, 0
    while i < len(what):
        if i == 0 or what[i] != what[i - 1]:
            total = 0
        was = total > 0
        j = i
        while j < len(what) and what[j] == what[i] and times[j] == times[i]:
            total += diffs[j]
            j += 1
        if was != (total > 0):
            at[count], change[count] = i, 1 if total > 0 else -1
            count += 1
        i = j
    return at[:count].copy(), change[:count].copy()


def _put_together(
    histories: Sequence[Updates], wrong: Sequence[Moments], errors: Sequence[Updates], touched: Touched, spec: Collation
) -> Updates:
    """The rows of groups, of what each part had and has."""
    keys, many = touched.keys, len(histories)
    sizes = [result.diffs.size for result in histories]
    number = np.zeros(keys.count + sum(sizes), np.int64)
    if keys.count > 1:
        named = Rows.concat([keys, *(result.rows.select(keys.schema.names) for result in histories)], keys.schema)
        number, _ = group_rows(named, np.empty((0, named.count), np.int64))
    events = [np.empty((5, 0), np.int64)]  # key, time, diff, part, row
    start = keys.count
    for i, (result, size) in enumerate(zip(histories, sizes, strict=True)):
        whose = number[start : start + size]
        start += size
        if size:
            places = np.zeros(size, np.int64) + i, np.arange(size)
            events.append(np.array([whose, result.times[0], result.diffs, *places]))
    if spec.default_row:  # one group: whatever is wrong is so of it
        wrong = [(np.zeros(len(result), np.int64), result.times[0], result.diffs) for result in errors]
    for whose, times, change in wrong:
        if whose.size:
            places = np.full(whose.size, many), np.zeros(whose.size, np.int64)
            events.append(np.array([whose, times, change, *places]))
    lines = np.concatenate(events, axis=1)
    lines = np.take(lines, np.lexsort((lines[2], lines[1], lines[0])), axis=1)
    whose, times, diffs, rows = _assembled(lines, many, touched.before, spec.default_row)
    columns: list[pa.Array | None] = [None] * len(spec.calls)
    for part, result, line in zip(spec.parts, histories, rows, strict=True):
        some = result.rows
        if spec.default_row:  # its number is -1: the last
            of_nothing = empty_group_row(part.aggregates(spec.calls), some.schema)
            some = Rows.concat([some, of_nothing], some.schema)
        taken = some.take(np.where(line < 0, some.count - 1, line)).columns[len(keys.columns) :]
        for place, column in zip(part.places, taken, strict=False):
            columns[place] = column
    put = Rows(spec.schema, (*keys.take(whose).columns, *columns), len(whose))
    return Updates(put, times.reshape(1, -1), diffs)


@compiled()
def _assembled(lines: Ints, parts: int, before: int, default_row: bool) -> tuple[Ints, Ints, Ints, Ints]:
    """Changes of whole rows: key, time, diff, and the row of each part; -1 for none, which the default row is made of.

    ``lines`` are those of ``_put_together``, by key, time and diff; part ``parts`` says what is wrong.
    """
    n = lines.shape[1]
    whose, times, diffs = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
    rows = np.empty((parts, 2 * n), np.int64)
    row = np.full(parts, -1, np.int64)
    count, i, wrong = 0, 0, 0
    while i < n:
        key, time = lines[0, i], lines[1, i]
        if i == 0 or key != lines[0, i - 1]:
            row[:] = -1
            wrong = 0
        if time > before and _is_shown(row, wrong, default_row):
            whose[count], times[count], diffs[count] = key, time, -1
            rows[:, count] = row
            count += 1
        while i < n and lines[0, i] == key and lines[1, i] == time:
            if lines[3, i] == parts:
                wrong += lines[2, i]
            else:
                row[lines[3, i]] = lines[4, i] if lines[2, i] > 0 else -1
            i += 1
        if time > before and _is_shown(row, wrong, default_row):
            whose[count], times[count], diffs[count] = key, time, 1
            rows[:, count] = row
            count += 1
    return whose[:count].copy(), times[:count].copy(), diffs[:count].copy(), rows[:, :count].copy()


@compiled()
def _is_shown(row: Ints, wrong: int, default_row: bool) -> bool:
    """Whether a group has a row: that of all its parts, or the default one if none has any."""
    there = 0
    for part in range(len(row)):
        there += row[part] >= 0
    return wrong == 0 and (there == len(row) or (default_row and there == 0))
