"""Reduce over slots: a few numbers per group are the state, and each moment costs what changed at it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar import few
from altneu.columnar.columns import column_of_words
from altneu.columnar.hashing import NULL_HASH, SETTING, Hashes, tells_number, unmixed
from altneu.columnar.python_values import exception_text, value_text
from altneu.columnar.rows import Ints, Rows, record_type
from altneu.compiled import compiled
from altneu.errors import DiffOverflowError, ImpureFunctionError
from altneu.operators.kernels.changes import emit_change, finals_for, room_for, tell
from altneu.operators.kernels.exact_sum import SCRATCH, bump
from altneu.operators.kernels.groups import (
    NEGATIVE_MULTIPLICITY,
    NOTHING_PENDED,
    PYTHON_EXCEPTION,
    PYTHON_VALUE,
    Groups,
    ReduceOutput,
    error_updates,
    in_time_order,
    is_quiet,
    no_errors,
    order_of_moments,
    output,
    require_total,
    touched,
)
from altneu.operators.kernels.small_groups import (
    NO_PLACES,
    compared_keys,
    key_hash_at,
    lines_of_all,
    places_of_all,
    run_of,
    runs_at,
    word_at,
)
from altneu.operators.kernels.small_sums import sums_in_round
from altneu.operators.reduce.accumulate import Accumulator, Mask, whole
from altneu.operators.reduce.aggregates import (
    ANY,
    DATA,
    EMPTY,
    ROWS,
    TOTALS,
    column_of,
    finals_into,
)
from altneu.operators.reduce.calls import Aggregate
from altneu.operators.reduce.spec import ReduceSpec
from altneu.trace.batch import Arranged
from altneu.trace.update import Updates

_LARGEST_COUNT = 2**62

_AT, _DIFF, _TIME, _KEY = range(4)  # lines of what ``_few`` makes
_OVERFLOW_MESSAGE = "a sum of the group left the signed 64-bit range of a slot; the step is not committed"


_Answer = int | tuple[str, str]  # of a function: a count, or the code and text of its failure
RowsAndErrors = tuple[list[Updates], list[Updates]]  # rows and errors


class AccumulableSpec(ReduceSpec):
    """What is read from a few numbers per group, its sums."""

    @property
    @abstractmethod
    def sums(self) -> Accumulator:
        """What adds them up."""

    def reduce(self, given: Arranged | Groups, operator: str) -> ReduceOutput:
        """From the slots that have changed; a few by one kernel, which reads them where they lie."""
        known = self._of_few(given) if given.__class__ is Arranged and given.new.count <= few.MOST else None
        return reduce_accumulable(given, self, operator) if known is None else known

    def of_few(self, given: Arranged, rounds: tuple[int, ...], again: Updates) -> ReduceOutput | None:
        """What is told by the sums of the groups alone, from where they lie."""
        if self.shown is None:
            return None
        sums = self.sums
        tables = sums.kinds, sums.finishing
        return sums_in_round(given, rounds, again, self.schema, sums.slot_hashes, tables, self.shown)

    def _of_few(self, given: Arranged) -> ReduceOutput | None:
        """The same of few slots at one time; None where more is needed."""
        layout, sums, count, shown = given.layout, self.sums, given.new.count, self.shown
        if shown is None or SETTING.mask is not None or not count or given.new.blocks[1:]:
            return None
        if not layout.lattice.is_total:
            return None
        keys, places = (0, NO_PLACES) if self._is_told else (layout.keys, places_of_all(given))
        if places is None:
            return None
        table, addresses, old = lines_of_all(given)
        made, all_valid, lines, valid, words = _few(
            table, addresses, old, places, keys, sums.kinds, sums.finishing, shown, sums.slots
        )
        if made < 0:
            return None
        if not made:
            return output(self.schema, [], [])
        columns: list[pa.Array] = []
        if not self._is_told:
            columns += given.new.blocks[0].keys.take(lines[_AT, :made]).columns
        for t in self._key_types if self._is_told else ():  # a loop, as a comprehension is a call more
            columns += (column_of_words(t, lines[_KEY, :made]),)
        columns += self._finals(made, all_valid, valid, words)
        oks = Updates(Rows(self.schema, tuple(columns), made), lines[_TIME : _TIME + 1, :made], lines[_DIFF, :made])
        return ReduceOutput(oks, no_errors(1), NOTHING_PENDED)

    def _finals(self, made: int, all_valid: bool, valid: Mask, words: Ints) -> list[pa.Array]:
        """The columns of so many changes."""
        columns = list[pa.Array]()
        for a, (t, is_number) in enumerate(self._final_types):
            if is_number and all_valid:
                columns += (column_of_words(t, words[0, a, :made]),)
            else:
                columns += (column_of(t, words[0, a, :made], words[1, a, :made], valid[a, :made]),)
        return columns

    def history(self, given: Arranged, hashes: Hashes, keys: Rows, before: int) -> Updates | None:
        """What was there of few groups at ``before``, and what changes one later, when all that is new is.

        None where more is needed, as by ``_of_few``.
        """
        sums, shown = self.sums, self.shown
        if shown is None or SETTING.mask is not None or (compared := compared_keys(given, keys)) is None:
            return None
        made, all_valid, lines, valid, words = _history(
            *lines_of_all(given), *compared, hashes, before, (sums.kinds, sums.finishing), shown, sums.slots
        )
        if made < 0:
            return None
        rows = (*keys.take(lines[_AT, :made]).columns, *self._finals(made, all_valid, valid, words))
        return Updates(Rows(self.schema, rows, made), lines[_TIME : _TIME + 1, :made], lines[_DIFF, :made])

    @cached_property
    def _is_told(self) -> bool:
        """Whether hashes tell keys, of one whole number or of nothing."""
        key = self.sums.key_schema
        return not key or tells_number(key)

    @cached_property
    def _key_types(self) -> list[pa.DataType]:
        return self.sums.key_schema.types

    @cached_property
    def _final_types(self) -> list[tuple[pa.DataType, bool]]:
        """The types of the aggregates, and which of them are whole numbers."""
        return [(t, pa.types.is_signed_integer(t)) for t in self.schema.types[len(self.sums.key) :]]

    @property
    def shown(self) -> int | None:
        """What a group has a row for, which is its key and its aggregates; None where its row is more than these."""
        return None

    @abstractmethod
    def reduced(self, groups: Groups, operator: str) -> ReduceOutput:
        """The changes of what the touched groups come to."""


@dataclass(frozen=True)
class AggregatesSpec(AccumulableSpec):
    """Accumulable aggregates of each group. With ``default_row`` the empty group has a row too."""

    accumulator: Accumulator
    default_row: bool = False

    @property
    def sums(self) -> Accumulator:
        """The slots of the aggregates."""
        return self.accumulator

    @cached_property
    def shown(self) -> int:
        """What a group has a row for."""
        return ANY if self.default_row else ROWS

    @cached_property
    def schema(self) -> pa.Schema:
        """Key columns, then one column an aggregate."""
        return self.accumulator.output_schema

    def reduced(self, groups: Groups, operator: str) -> ReduceOutput:
        """One walk through the moments of each group."""
        accumulator = self.accumulator  # times are copied, as Numba has another type for those that are read only
        changes, overflow = _walk(
            (groups.new_group, groups.new_times.copy(), whole(groups.new_values.columns[0]), groups.new_diffs),
            (groups.old_start, whole(groups.old_values.columns[0]), groups.old_diffs),
            accumulator.kinds,
            accumulator.finishing,
            self.shown,
            accumulator.slots,
        )
        if overflow:
            raise DiffOverflowError(_OVERFLOW_MESSAGE)
        types = self._final_types

        def finals(which: Any, valid: Any, low: Ints, high: Ints) -> list[pa.Array]:
            return [column_of(t, low[a, which], high[a, which], valid[a, which]) for a, (t, _) in enumerate(types)]

        return tell(changes, groups, finals, self.schema, accumulator.aggregates, operator)


@dataclass(frozen=True)
class TotalsSpec(AggregatesSpec):
    """Sums of each group that has one which is not zero, whatever the signs of its counts."""

    @cached_property
    def shown(self) -> int:
        """Sums that are not all zero."""
        return TOTALS


class CountedSpec(AccumulableSpec):
    """What is made of each row by its count: the row is the group, and its count all that is kept."""

    rows: pa.Schema

    @cached_property
    def sums(self) -> Accumulator:
        """The count."""
        return counter(self.rows)

    def reduced(self, groups: Groups, operator: str) -> ReduceOutput:
        """Of each row, where its count changes."""
        return output(self.schema, *self.results(groups, _count(groups), operator))

    @abstractmethod
    def results(self, groups: Groups, counts: Counts, operator: str) -> RowsAndErrors:
        """Rows and errors of what counts were and are."""


@dataclass(frozen=True)
class DistinctSpec(CountedSpec):
    """Each row whose count is positive, once."""

    rows: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        """That of the rows."""
        return self.rows

    @property
    def shown(self) -> int:
        """Some copies of the row."""
        return ROWS

    def results(self, groups: Groups, counts: Counts, operator: str) -> RowsAndErrors:
        """Rows whose count became positive, or is so no more; errors for counts below zero."""
        return _distinct(groups, counts, self, operator)


def present_rows(given: Arranged | Groups, schema: pa.Schema) -> Updates:
    """Each row whose count is positive, once, with the columns of a schema; where it is below zero there is none.

    Shape:  an arrangement of counts by the rows, with totally ordered times.
    Cost:   O(d log n) for d new updates; no exchange, no state beside the arrangement.
    Law:    tests/operators/test_collate.py.

    Raises:
        DiffOverflowError: a count leaves the signed 64-bit range.
    """
    groups = touched(given)
    counts = _count(groups)
    return _counted(groups, counts.at, (counts.after > 0).astype(np.int64) - (counts.before > 0), schema)


def negative_rows(given: Arranged | Groups, schema: pa.Schema) -> Updates:
    """Some columns of each row whose count is below zero; all else as ``present_rows``."""
    groups = touched(given)
    counts = _count(groups)
    wrong = _counted(groups, counts.at, (counts.after < 0).astype(np.int64) - (counts.before < 0), groups.keys.schema)
    return Updates(wrong.rows.select(schema.names), wrong.times, wrong.diffs)


@dataclass(frozen=True)
class CountOfSpec(CountedSpec):
    """Each row once, with its count (negative ones too) in a further column."""

    rows: pa.Schema
    column: str = "count"

    def results(self, groups: Groups, counts: Counts, operator: str) -> RowsAndErrors:
        """Rows with the counts that they had and have."""
        return _count_of(groups, counts, self)

    @cached_property
    def schema(self) -> pa.Schema:
        """The row's columns and the count."""
        return pa.schema([*self.rows, pa.field(self.column, pa.int64(), nullable=False)])


@dataclass(frozen=True)
class ThresholdSpec(CountedSpec):
    """Each row as often as ``function`` says for its count, or ``with_row`` for the row, as a Record, and its count.

    A row whose count is zero is not asked about.
    """

    looks_ahead = False  # as of any function in Python

    rows: pa.Schema
    function: Callable[..., int]
    with_row: bool = False

    @property
    def schema(self) -> pa.Schema:
        """That of the rows."""
        return self.rows

    def results(self, groups: Groups, counts: Counts, operator: str) -> RowsAndErrors:
        """The difference of what the function says; errors where it fails."""
        return _threshold(groups, counts, self, operator)


def counter(schema: pa.Schema) -> Accumulator:
    """The accumulator behind distinct, counts and threshold: only the count of each row."""
    return Accumulator(tuple(schema.names), (), schema)


def default_row(spec: AggregatesSpec) -> Rows:
    """The row of the empty group of a global aggregate: counts are 0, everything else is null.

    The caller emits it once, at the least time; from then on ``reduce_accumulable`` replaces it and brings it back.

    >>> schema = pa.schema([("x", pa.int64())])
    >>> calls = (Aggregate("count", (), pa.int64()), Aggregate("sum", ("x",), pa.int64()))
    >>> default_row(AggregatesSpec(Accumulator((), calls, schema), default_row=True)).to_pylist()
    [(0, None)]
    """
    return empty_group_row(spec.accumulator.aggregates, spec.schema)


def empty_group_row(aggregates: Sequence[Aggregate], schema: pa.Schema) -> Rows:
    """The row of the empty group under ``schema``: 0 for counts, empty lists for collect, null for the rest."""
    values: list[Any] = [
        0 if a.function == "count" else [] if a.function.startswith("collect") else None for a in aggregates
    ]
    return Rows.from_pylist([tuple(values)], schema)


def reduce_accumulable(given: Arranged | Groups, spec: AccumulableSpec, operator: str = "reduce") -> ReduceOutput:
    """Bring the results of the touched groups up to date.

    Shape:  an arrangement of slots by the key columns in; rows of ``spec.schema`` and error rows out, at the times of
            the new updates at which a result differs from the one before; -1 for the row that was, +1 for the row
            that is.
    Cost:   O(d log n) for d new slots, over all groups at once; no exchange, no state beside the arrangement.
    Law:    at every time the output accumulates to the aggregate of what the input accumulates to
            (tests/operators/test_reduce_accumulable.py).

    Raises:
        PlanError: the times are not totally ordered.
        DiffOverflowError: a slot leaves the signed 64-bit range.
    """
    require_total(given, operator)
    if is_quiet(given):
        return output(spec.schema, [], [])
    return spec.reduced(touched(given), operator)


@compiled()
def _walk(new: Any, old: Any, kinds: Ints, finishing: Ints, shown: int, width: int) -> Any:
    """Walk the moments of every group on one dense accumulator; returns the changes and whether a slot overflowed."""
    groups, times, slots, amounts = new
    order, starts = order_of_moments(groups, times)
    old_starts, old_slots, old_amounts = old
    sums, magnitude = np.zeros(width, np.int64), np.zeros(SCRATCH, np.int64)
    lines, signs, final_words = room_for(len(starts) - 1, len(finishing))
    states, valid, words = finals_for(len(finishing))
    result, current, first, line = 0, -1, 0, 0
    overflow = False
    for m in range(len(starts) - 1):
        at = order[starts[m]]
        if groups[at] != current:
            if current >= 0:  # of many slots few are set
                for p in range(old_starts[current], old_starts[current + 1]):
                    sums[old_slots[p]] = 0
                for p in range(starts[first], starts[m]):
                    sums[slots[order[p]]] = 0
            current, first = groups[at], m
            for p in range(old_starts[current], old_starts[current + 1]):
                overflow |= bump(sums, old_slots[p], old_amounts[p])
            finals_into(finishing, kinds, sums, shown, states, valid, words, line, magnitude)
        for p in range(starts[m], starts[m + 1]):
            overflow |= bump(sums, slots[order[p]], amounts[order[p]])
        line = 1 - line
        finals_into(finishing, kinds, sums, shown, states, valid, words, line, magnitude)
        result = emit_change(states, valid, words, 1 - line, at, lines, signs, final_words, result)
    return (lines[:, :result], signs[:, :result], final_words[:, :, :result]), overflow


@compiled()
def _few(  # arrays one by one: taking tuples of them apart costs more than the rest
    table: Ints,
    addresses: Ints,
    old: int,
    places: Ints,
    keys: int,
    kinds: Ints,
    finishing: Ints,
    shown: int,
    width: int,
) -> tuple[int, bool, Ints, Mask, Ints]:
    """As ``_walk`` over all blocks, of which the last alone is new; how many changes, -1 where that does not do.

    And whether no aggregate is null; and the changes. So many ``keys`` are compared by their ``places``
    (``places_of_all``); if that is 0, hashes tell keys, but for null. It does not do with such a key, with different
    keys of one hash, with several times, for a group that has no row but an error, and for sums that leave 64 bits.
    """
    size, time, many = table[old, 1], word_at(addresses, old, 2, 0), len(finishing)
    lines, valid = np.empty((4, 2 * size), np.int64), np.empty((many, 2 * size), np.bool_)
    words = np.empty((2, many, 2 * size), np.int64)
    nothing = -1, False, lines, valid, words
    for row in range(1, size):
        if word_at(addresses, old, 2, row) != time:
            return nothing
    sums, magnitude = np.zeros(width, np.int64), np.zeros(SCRATCH, np.int64)
    states, some, finals = finals_for(len(finishing))
    first, result = 0, 0
    while first < size:
        key, last = key_hash_at(table, old, first), first
        while last < size and key_hash_at(table, old, last) == key:
            last += 1
        if key == NULL_HASH and keys == 0:
            return nothing
        sums[:] = 0
        for block in range(old):
            start, stop = run_of(table, block, key)
            if start < stop and keys > 0 and not few.is_equal(places[old], first, places[block], start, 0, keys):
                return nothing
            if not _add(sums, addresses, block, start, stop):
                return nothing
        finals_into(finishing, kinds, sums, shown, states, some, finals, 0, magnitude)
        if not _add(sums, addresses, old, first, last):
            return nothing
        finals_into(finishing, kinds, sums, shown, states, some, finals, 1, magnitude)
        for state in states:
            if state not in (EMPTY, DATA):
                return nothing
        before = result
        result = emit_change(states, some, finals, 0, first, lines, valid, words, result)
        for change in range(before, result):
            lines[_TIME, change], lines[_KEY, change] = time, np.int64(unmixed(key))
        first = last
    return result, bool(valid[:, :result].all()), lines, valid, words


@compiled()
def _history(  # arrays one by one, as there
    table: Ints,
    addresses: Ints,
    old: int,
    places: Ints,
    keys: Ints,
    hashes: Hashes,
    before: int,
    tables: tuple[Ints, Ints],
    shown: int,
    width: int,
) -> tuple[int, bool, Ints, Mask, Ints]:
    """As ``_few``, of groups with keys, of which these are the hashes: what there was, and then what changes."""
    kinds, finishing = tables
    many, size, time = len(finishing), len(hashes), before + 1
    lines, valid = np.empty((4, 3 * size), np.int64), np.empty((many, 3 * size), np.bool_)
    words, runs = np.empty((2, many, 3 * size), np.int64), np.empty((len(table), 2), np.int64)
    nothing = -1, False, lines, valid, words
    sums, magnitude = np.zeros(width, np.int64), np.zeros(SCRATCH, np.int64)
    states, some, finals = finals_for(many)
    result = 0
    for key in range(size):
        if not runs_at(table, addresses, places, old, hashes, keys, key, time, runs):
            return nothing
        sums[:] = 0
        for block in range(len(table)):
            if block == old:
                finals_into(finishing, kinds, sums, shown, states, some, finals, 0, magnitude)
            if not _add(sums, addresses, block, runs[block, 0], runs[block, 1]):
                return nothing
        if len(table) == old:
            finals_into(finishing, kinds, sums, shown, states, some, finals, 0, magnitude)
        finals_into(finishing, kinds, sums, shown, states, some, finals, 1, magnitude)
        for state in states:
            if state not in (EMPTY, DATA):
                return nothing
        if states[0] == DATA:
            lines[_AT, result], lines[_DIFF, result], lines[_TIME, result] = key, 1, before
            for a in range(many):
                valid[a, result] = some[0, a]
                words[0, a, result], words[1, a, result] = finals[0, 0, a], finals[1, 0, a]
            result += 1
        first = result
        result = emit_change(states, some, finals, 0, key, lines, valid, words, result)
        lines[_TIME, first:result] = time
    return result, bool(valid[:, :result].all()), lines, valid, words


@compiled()
def _add(sums: Ints, addresses: Ints, block: int, start: int, stop: int) -> bool:
    """Add the slots of some rows of a block, whose numbers their hashes tell; whether all of them fit."""
    for row in range(start, stop):
        slot = int(unmixed(np.uint64(word_at(addresses, block, 0, row))))
        if not 0 <= slot < len(sums) or bump(sums, slot, word_at(addresses, block, 1, row)):
            return False
    return True


@dataclass(frozen=True, slots=True)
class Counts:
    """Moments at which a count changed: position of a new update (for group and time), the count before and after."""

    at: Ints
    before: Ints
    after: Ints


def _count(groups: Groups) -> Counts:
    order, starts = in_time_order(groups.new_group, groups.new_times)
    before, after, overflow = _running(
        order, starts, groups.new_group, groups.new_diffs, groups.old_start, groups.old_diffs
    )
    if overflow:
        raise DiffOverflowError(_OVERFLOW_MESSAGE)
    changed = (before != after).nonzero()[0]
    return Counts(order[starts[changed]], before[changed], after[changed])


@compiled()
def _running(
    order: Ints, starts: Ints, groups: Ints, diffs: Ints, old_starts: Ints, old_diffs: Ints
) -> tuple[Ints, Ints, bool]:
    """The count of each moment's group before and after it; overflow seen."""
    sums = np.zeros(len(old_starts) - 1, np.int64)
    before, after = np.empty(len(starts) - 1, np.int64), np.empty(len(starts) - 1, np.int64)
    overflow = False
    for g in range(len(sums)):
        for p in range(old_starts[g], old_starts[g + 1]):
            overflow |= bump(sums, g, old_diffs[p])
    for m in range(len(starts) - 1):
        g = groups[order[starts[m]]]
        before[m] = sums[g]
        for p in range(starts[m], starts[m + 1]):
            overflow |= bump(sums, g, diffs[order[p]])
        after[m] = sums[g]
    return before, after, overflow


def _counted(groups: Groups, at: Ints, diffs: Ints, schema: pa.Schema, counts: Ints | None = None) -> Updates:
    """Rows of the groups (with their counts) wherever a diff is not zero."""
    some = diffs.nonzero()[0]
    keys = groups.keys.take(groups.new_group[at[some]])
    columns = keys.columns if counts is None else (*keys.columns, pa.array(counts[some]))
    return Updates(Rows(schema, columns, keys.count), groups.new_times[at[some]].reshape(1, -1), diffs[some])


def _distinct(groups: Groups, counts: Counts, spec: DistinctSpec, operator: str) -> RowsAndErrors:
    shown = (counts.after > 0).astype(np.int64) - (counts.before > 0)
    wrong = (counts.after < 0).astype(np.int64) - (counts.before < 0)
    bad = np.flatnonzero(wrong)
    text = (NEGATIVE_MULTIPLICITY, "the row is more often retracted than inserted")
    errs = error_updates(operator, groups, counts.at[bad], wrong[bad], [text] * len(bad))
    return [_counted(groups, counts.at, shown, spec.schema)], [errs]


def _count_of(groups: Groups, counts: Counts, spec: CountOfSpec) -> RowsAndErrors:
    was, is_ = -(counts.before != 0).astype(np.int64), (counts.after != 0).astype(np.int64)
    return [
        _counted(groups, counts.at, was, spec.schema, counts.before),
        _counted(groups, counts.at, is_, spec.schema, counts.after),
    ], []


def _threshold(groups: Groups, counts: Counts, spec: ThresholdSpec, operator: str) -> RowsAndErrors:
    before, after = (_of_rows if spec.with_row else _of_counts)(groups, counts, spec)
    shown = [_number_or_0(b) - _number_or_0(a) for a, b in zip(before, after, strict=True)]
    failures: list[tuple[int, int, tuple[str, str]]] = []
    for i, (a, b) in enumerate(zip(before, after, strict=True)):
        if a != b:
            failures += [(i, diff, text) for diff, text in ((-1, a), (1, b)) if isinstance(text, tuple)]
    at = counts.at[np.array([i for i, _, _ in failures], np.int64)]
    diffs = np.array([diff for _, diff, _ in failures], np.int64)
    errs = error_updates(operator, groups, at, diffs, [text for _, _, text in failures])
    return [_counted(groups, counts.at, np.array(shown, np.int64), spec.schema)], [errs]


def _of_counts(_groups: Groups, counts: Counts, spec: ThresholdSpec) -> tuple[list[_Answer], list[_Answer]]:
    """What the function says for the counts before and after each moment; it is called once for each count."""
    requested = {count: _ask(spec.function, count) for count in {*counts.before.tolist(), *counts.after.tolist()}}
    before, after = ([requested[count] for count in c.tolist()] for c in (counts.before, counts.after))
    return before, after


def _of_rows(groups: Groups, counts: Counts, spec: ThresholdSpec) -> tuple[list[_Answer], list[_Answer]]:
    """The same of a function that takes the row too; a row that Python has no value for is not given to it."""
    record = record_type(spec.rows.names)
    rows, refused = groups.keys.for_functions()
    called = [partial(spec.function, record(row)) for row in rows]

    def said(numbers: Ints) -> list[_Answer]:
        pairs = zip(groups.new_group[counts.at].tolist(), numbers.tolist(), strict=True)
        return [
            (PYTHON_VALUE, refused[row]) if count and row in refused else _ask(called[row], count)
            for row, count in pairs
        ]

    return said(counts.before), said(counts.after)


def _number_or_0(answer: _Answer) -> int:
    return answer if isinstance(answer, int) else 0


def _ask(function: Callable[[int], int], count: int) -> _Answer:
    """What the function says for a count, or the code and text of its failure."""
    if count == 0:
        return 0
    try:
        answer = function(count)
    except ImpureFunctionError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever a user's function raises is data
        return PYTHON_EXCEPTION, exception_text(error)
    if isinstance(answer, bool | int | np.integer):
        answer = int(answer)
        if abs(answer) < _LARGEST_COUNT:
            return answer
        return PYTHON_EXCEPTION, f"the function returned {answer}, which is beyond 2^62, for {count}"
    return PYTHON_EXCEPTION, f"the function returned {value_text(answer)} for {count}, not an int"
