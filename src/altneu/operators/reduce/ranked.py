"""Aggregates that need the group itself: min, max, percentiles, distinct ones, collect, and accumulable ones beside.

The contents of every touched group are ranked once, and then one sweep goes through the moments of the step: counts per
rank, a set of the ranks that are there (``bitmap``), a tree of their counts (``order_tree``), running sums. No moment
re-reads its group, except to list it and to find its most frequent value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu.columnar.columns import Mask, column_of_words
from altneu.columnar.hashing import Hashes
from altneu.columnar.ranking import dense, sort_lines
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.errors import DiffOverflowError, PlanError
from altneu.operators.kernels.bitmap import empty_set
from altneu.operators.kernels.changes import list_column, tell
from altneu.operators.kernels.contents import Contents, contents
from altneu.operators.kernels.exact_sum import ANYTHING, DECIMAL
from altneu.operators.kernels.grouping import group_rows, order_within_groups
from altneu.operators.kernels.groups import (
    NOTHING_PENDED,
    Groups,
    ReduceOutput,
    is_quiet,
    no_errors,
    output,
    require_total,
    touched,
)
from altneu.operators.kernels.small_ends import extremes, history_of_extremes
from altneu.operators.kernels.small_groups import extreme_in_round
from altneu.operators.reduce.accumulate import valid_of, words_of
from altneu.operators.reduce.aggregates import check_names, column_of, number_kind, output_fields
from altneu.operators.reduce.calls import Aggregate
from altneu.operators.reduce.extremes import reduce_extremes
from altneu.operators.reduce.ranked_plan import COLUMN, FACTORS, FIRST, LIST, POINT, WHAT, Plan, Track, plan_of
from altneu.operators.reduce.ranked_sweep import sweep
from altneu.operators.reduce.spec import ReduceSpec
from altneu.order import Epoch
from altneu.trace.batch import Arranged
from altneu.trace.update import Updates, consolidate


@dataclass(frozen=True)
class GeneralSpec(ReduceSpec):
    """Any aggregates of each group over an arrangement of ``input`` by ``key``.

    Raises:
        UnsupportedFunctionError, TypeMismatchError: as ``result_type`` says.
    """

    key: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    input: pa.Schema
    default_row: bool = False

    def __post_init__(self) -> None:
        check_names(self.schema.names)
        for aggregate in self.aggregates:
            for name in aggregate.arguments:
                if name in self.key:
                    raise PlanError(
                        f"{aggregate.signature} reads {name!r}, which is a group column; give it as a column of its own"
                    )

    def reduce(self, given: Arranged | Groups, operator: str) -> ReduceOutput:
        """The values of each group, ranked; of lists that have at most so many elements these."""
        result = reduce_general(given, self, operator)
        return _cut(result, self) if any(one.most for one in self.aggregates) else result

    def of_few(self, given: Arranged, rounds: tuple[int, ...], again: Updates) -> ReduceOutput | None:
        """One extreme of the only other column, from the words of an arrangement in its order."""
        if len(self.greatest) != 1:
            return None
        return extreme_in_round(given, rounds, again, self.schema, greatest=self.greatest[0])

    def of_ends(self, given: Arranged) -> ReduceOutput | None:
        """Extremes of the only other column, from its words; not where the row of nothing comes or goes."""
        layout = given.layout
        if not len(self._ends) or layout.only_value is None or (found := extremes(given, self._ends)) is None:
            return None
        keys, words, times, diffs, _ = found
        if self.default_row and np.add.reduce(diffs):
            return None
        columns = [column_of_words(layout.value_schema.types[0], line) for line in words]
        rows = Rows(self.schema, (*keys.columns, *columns), keys.count)
        return ReduceOutput(Updates(rows, times, diffs), no_errors(1), NOTHING_PENDED)

    def history(self, given: Arranged, hashes: Hashes, keys: Rows, before: int) -> Updates | None:
        """Extremes of few groups at ``before``, and what changes one later, when all that is new is.

        None where more is needed, as by ``of_ends``.
        """
        layout = given.layout
        if self.default_row or not len(self._ends) or layout.only_value is None:
            return None
        found = history_of_extremes(given, self._ends, (hashes, keys), before)
        if found is None:
            return None
        (number, times, diffs), words = found
        columns = [column_of_words(layout.value_schema.types[0], line) for line in words]
        rows = Rows(self.schema, (*keys.take(number).columns, *columns), number.size)
        return Updates(rows, times.reshape(1, -1), diffs)

    @cached_property
    def _ends(self) -> Mask:
        values = len(self.input) - len(self.key)
        some = [a.function == "max" for a in self.aggregates if a.is_extreme]
        return np.array(some if values == 1 and len(some) == len(self.aggregates) else [], np.bool_)

    @cached_property
    def schema(self) -> pa.Schema:
        """Key columns, then one column an aggregate."""
        keys = [self.input.field(name) for name in self.key]
        return pa.schema([*keys, *output_fields(self.aggregates, self.input)])

    @cached_property
    def greatest(self) -> tuple[bool, ...]:
        """Where rows have one column beside the key and all aggregates are its extremes: which are the greatest."""
        return () if self.default_row else tuple(self._ends.tolist())

    @cached_property
    def plan(self) -> Plan:
        """What is followed and read."""
        return plan_of(self.aggregates, self.input)


def _cut(result: ReduceOutput, spec: GeneralSpec) -> ReduceOutput:
    """Lists without the elements behind the first: changes of lists that differ only in these are none."""
    rows, columns = result.oks.rows, list(result.oks.rows.columns)
    for place, one in enumerate(spec.aggregates, len(spec.key)):
        if one.most:
            columns[place] = pc.list_slice(columns[place], 0, one.most, return_fixed_size_list=False)
    cut = Rows(rows.schema, tuple(columns), rows.count)
    return replace(result, oks=consolidate(replace(result.oks, rows=cut), Epoch()))


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


def reduce_general(given: Arranged | Groups, spec: GeneralSpec, operator: str = "reduce") -> ReduceOutput:
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
    if spec.greatest:
        given = touched(given)
        result = reduce_extremes(given, spec.greatest, spec.schema)
        if result is not None:
            return result
    held = contents(given)
    plan = spec.plan
    ranks = _rank(plan, held)
    located = np.array([t.places for t in plan.tracks], np.int64)
    changes, flat, list_starts, overflow = sweep(
        (held.moment_group, held.moments, held.groups.old_start, held.values.count),
        (held.new_value, held.new_diffs),
        (held.old_value, held.groups.old_diffs),
        (
            np.array([t.ranked for t in plan.tracks], np.bool_),
            ranks.position,
            ranks.starts,
            ranks.first,
            *empty_set(len(ranks.first)),
        ),
        (located, np.zeros(len(ranks.first) if located.any() else 0, np.int64)),
        (plan.terms, plan.slots, *_words(plan, held.values)),
        (plan.reads, plan.fractions, plan.finishing, spec.default_row),
    )
    if overflow:
        raise DiffOverflowError("a count or a sum of a group left the signed 64-bit range; the step is not committed")

    types = spec.schema.types[len(spec.key) :]

    def finals(which: Any, valid: Any, low: Ints, high: Ints) -> list[pa.Array]:
        results: list[pa.Array] = []
        for a, aggregate in enumerate(spec.aggregates):
            type_ = types[a]
            what = plan.reads[a, WHAT]
            column = held.values.column(aggregate.arguments[0]) if what >= FIRST else None
            good, words = valid[a, which], low[a, which]
            if column is None:
                results.append(column_of(type_, words, high[a, which], good))
            elif what >= LIST:
                results.append(list_column(type_, column.take(pa.array(flat)), list_starts, words, good))
            else:
                results.append(column.take(pa.array(words, mask=~good)))
        return results

    return tell(
        ((held.moment_at[changes[0][0]], *changes[0][1:]), *changes[1:]),
        held.groups,
        finals,
        spec.schema,
        spec.aggregates,
        operator,
    )


def _rank(plan: Plan, held: Contents) -> _Ranks:
    """Number the values that each track follows; ordered tracks by value within each group."""
    count, groups = held.values.count, len(held.groups)
    position = np.full((len(plan.tracks), count), -1, np.int64)
    starts = np.zeros((len(plan.tracks), groups + 1), np.int64)
    firsts = []
    total = 0
    for t, track in enumerate(plan.tracks):
        some = _without_nulls([held.values.column(name) for name in track.needed], count)
        if not track.ranked:
            position[t, some] = 0
            continue
        rows = held.values.select(track.arguments).take(some)
        if t in plan.ordered:
            line = _line(rows, track)
            order, _ = order_within_groups([line], held.group[some], groups)
            rank, first = _dense_ranks(line, held.group[some], order)
        else:
            rank, first = group_rows(rows, held.group[some].reshape(1, -1)) if len(some) else (some, some)
        position[t, some] = rank + total
        firsts.append(some[first])
        if t in plan.ordered:
            starts[t] = held.group[some[first]].searchsorted(np.arange(groups + 1)) + total
        total += len(first)
    return _Ranks(position, starts, np.concatenate(firsts) if firsts else np.empty(0, np.int64))


def _line(rows: Rows, track: Track) -> Ints:
    """One key a row that is ordered as its values are: of an ordered list by what it is ordered by, then by value."""
    if not track.order:
        return sort_lines(rows.columns[0], descending=False, nulls_first=True)[0]
    *options, last = track.order
    lines = [
        line
        for column, (descending, nulls_first) in zip(rows.columns[1:], options, strict=True)
        for line in sort_lines(column, descending=descending, nulls_first=nulls_first)
    ]
    return dense([*lines, *sort_lines(rows.columns[0], descending=last, nulls_first=True)], rows.count)


def _without_nulls(columns: Sequence[pa.Array], count: int) -> Ints:
    """Positions at which no column is null."""
    valid = [valid_of(column) for column in columns if column.null_count]
    return np.logical_and.reduce(valid).nonzero()[0] if valid else np.arange(count)


@compiled()
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


def _words(plan: Plan, values: Rows) -> tuple[Ints, Ints]:
    """Low and high words of the columns that are summed or interpolated."""
    read = {*plan.terms[:, FACTORS:].ravel().tolist(), *plan.reads[plan.reads[:, WHAT] == POINT, COLUMN].tolist()}
    columns = [values.column(name) for name in plan.columns]
    kinds = [number_kind(c.type) if i in read else ANYTHING for i, c in enumerate(columns)]
    low = np.zeros((len(columns), values.count), np.int64)
    high = np.zeros((len(columns), values.count if DECIMAL in kinds else 0), np.int64)
    for i, (column, kind) in enumerate(zip(columns, kinds, strict=True)):
        words_of(column, kind, low[i], high[i])
    return low, high
