"""As-of joins by event time: each left row with the right row whose timestamp is nearest, kept right by a sweep.

What a left row meets depends on which right rows are there, and its count only multiplies that: the result is linear in
the left side. Of right rows with equal timestamps the last is met in the rule's order of ties, or else the greatest,
column by column in the schema's order. A right row whose count is below zero is an error, and is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.ranking import Mask, Order, codes, whole_order
from altneu.columnar.rows import Ints, Rows
from altneu.errors import ERROR_SCHEMA, DiffOverflowError
from altneu.operators.asof.nearby import Points, Spans, between, windows
from altneu.operators.asof.nearest import BACKWARD, FORWARD, NEAREST, sweep
from altneu.operators.asof.rule import AsOfRule, MixedSides
from altneu.operators.kernels.bitmap import empty_set
from altneu.operators.kernels.grouping import group_rows, order_within_groups
from altneu.operators.kernels.groups import (
    NEGATIVE_MULTIPLICITY,
    NOTHING_PENDED,
    Groups,
    ReduceOutput,
    no_errors,
    number_new,
    touched,
)
from altneu.operators.kernels.spans import show_row, truth
from altneu.operators.reduce.spec import ReduceSpec
from altneu.trace.batch import Arranged, Layout, Matches
from altneu.trace.update import Updates

_DIRECTIONS = {"backward": BACKWARD, "forward": FORWARD, "nearest": NEAREST}


def words_of(rule: AsOfRule) -> Ints:
    """A rule for kernels."""
    return np.array([_DIRECTIONS[rule.direction], -1 if rule.tolerance is None else rule.tolerance, rule.exact])


@dataclass(frozen=True)
class AsofSpec:
    """An as-of join of two arrangements, each ordered by its timestamps.

    ``outputs`` lists (name, side, column), side 0 being the left one; with ``keeps`` a left row that meets nothing has
    nulls for the right one's columns.

    It is not the node, which has its inputs, and whose keys are those of the arrangements; a task is sent this.
    """

    schema: pa.Schema
    outputs: tuple[tuple[str, int, str], ...]
    rule: AsOfRule
    keeps: bool


@dataclass(frozen=True)
class UnionSpec(ReduceSpec):
    """The same as a function of groups in which rows of both sides are mixed, for times that do not form a chain."""

    schema: pa.Schema
    key: tuple[str, ...]
    sides: MixedSides

    def reduce(self, given: Arranged | Groups, operator: str) -> ReduceOutput:
        """The sides of each group, swept."""
        return reduce_asof(given, self, operator)


@dataclass(frozen=True)
class Side:
    """The updates of one side, old ones first.

    Shape:  ``rows`` n rows, ``group``, ``diffs`` (n,); ``times`` of the new ones alone.
    """

    rows: Rows
    group: Ints
    diffs: Ints
    times: Ints

    @property
    def old(self) -> int:
        """How many are old."""
        return len(self.diffs) - len(self.times)


@dataclass(frozen=True)
class Ranked:
    """The distinct rows of a side by (group, timestamp, ties).

    Shape:  P places; ``row`` (P,) a row at each, ``stamp`` (P,) its timestamp; group g has those from ``starts[g]`` up
            to ``starts[g + 1]``; ``place`` (n,) of each update of the side.
    """

    row: Ints
    stamp: Ints
    starts: Ints
    place: Ints

    @classmethod
    def of(cls, side: Side, stamp: str, groups: int, *, ties: Sequence[Order] | None) -> Ranked:
        """Tell rows apart and rank them: those of one timestamp by ``ties`` and all columns, or as they come (None)."""
        value, first = group_rows(side.rows, side.group.reshape(1, -1))
        distinct = side.rows if len(first) == side.rows.count else side.rows.take(first)
        stamps = codes(distinct.column(stamp))
        lines = [stamps] if ties is None else whole_order(distinct, ((stamp, False, True), *ties))
        order, starts = order_within_groups(lines, side.group[first], groups)
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        return cls(first[order], stamps[order], starts, rank[value])

    def at(self, places: Ints) -> Ints:
        """The row at each place, -1 for none."""
        result = np.full(len(places), -1, np.int64)
        some = np.flatnonzero(places >= 0)
        result[some] = self.row[places[some]]
        return result


@dataclass(frozen=True)
class Changes:
    """What comes and goes: ``times`` (1, n) of moments, ``left`` and ``right`` (-1: none) places, ``diffs``."""

    times: Ints
    left: Ints
    right: Ints
    diffs: Ints


def asof_join(left: Arranged, right: Arranged, spec: AsofSpec, operator: str = "asof_join") -> ReduceOutput:
    """Bring an as-of join up to date.

    Shape:  two arrangements by keys of equal types, without null keys or timestamps, each ordered by its timestamps;
            rows of ``spec.schema`` and error rows out.
    Cost:   O(log n) for each new update, the rows between it and the nearest timestamps that hold a right row
            throughout the step, once a step however many updates they lie beside, and the rows whose match changes,
            at each time that changes it. No exchange, no state beside the two arrangements.
    Law:    at every time the output accumulates to the as-of join of what the inputs accumulate to
            (tests/oracle/test_asof.py).

    Raises:
        DiffOverflowError: a count leaves the signed 64-bit range.
    """
    points = _points(left, right)
    result = windows(points, right.old, right.new, exact=spec.rule.exact)
    moving = np.flatnonzero(result.moves)
    some = Spans(result.spans.key[moving], result.spans.low[moving], result.spans.high[moving])
    before = between(points, some, left.old, left.layout)
    sides = (
        _side(replace(before, probe=moving[before.probe]), between(points, result.spans, (left.new,), left.layout)),
        _side(
            between(points, result.reach, right.old, right.layout),
            between(points, result.reach, (right.new,), right.layout),
        ),
    )
    ranks = (
        Ranked.of(sides[0], left.layout.order[0][0], len(result.moves), ties=None),
        Ranked.of(sides[1], right.layout.order[0][0], len(result.moves), ties=spec.rule.ties),
    )
    changes, errors = _swept(sides, ranks, spec.rule, keeps=spec.keeps)
    keys = points.keys.take(result.spans.key)
    at = ranks[0].row[changes.left], ranks[1].at(changes.right)
    whole = (_whole(left.layout, keys, sides[0]), _whole(right.layout, keys, sides[1]))
    rows = joined(spec.schema, spec.outputs, whole, at)
    oks = Updates(rows, changes.times, changes.diffs)
    shown = whole[1].take(ranks[1].row[errors.right])
    return ReduceOutput(oks, _failed(operator, right.layout.schema.names, shown, errors), NOTHING_PENDED)


def reduce_asof(given: Arranged | Groups, spec: UnionSpec, operator: str = "asof_join") -> ReduceOutput:
    """Bring an as-of join up to date whose two sides are mixed in one arrangement.

    Shape:  as ``asof_join``, of an arrangement by key that need not be ordered.
    Cost:   re-reads the touched groups. No exchange, no state beside the arrangement.
    Law:    as ``asof_join``.
    """
    groups = touched(given)
    group = np.repeat(np.arange(len(groups)), np.diff(groups.old_start)), groups.new_group
    are_left = tuple(truth(rows.column(spec.sides.side)) for rows in (groups.old_values, groups.new_values))
    sides = tuple(_mixed(groups, group, tuple(mask == side for mask in are_left)) for side in (True, False))
    ranks = (
        Ranked.of(_without(sides[0], spec.sides.right), spec.sides.stamp, len(groups), ties=None),
        Ranked.of(_without(sides[1], spec.sides.left), spec.sides.stamp, len(groups), ties=spec.sides.rule.ties),
    )
    changes, errors = _swept(sides, ranks, spec.sides.rule, keeps=spec.sides.keeps)
    outputs = [(n, 0, n) for n in (*spec.key, *spec.sides.left)] + [(n, 1, n) for n in spec.sides.right]
    whole = tuple(_whole(groups.layout, groups.keys, side) for side in sides)
    at = ranks[0].row[changes.left], ranks[1].at(changes.right)
    oks = Updates(joined(spec.schema, outputs, whole, at), changes.times, changes.diffs)
    shown = whole[1].take(ranks[1].row[errors.right]).select([column for _, column in spec.sides.shown])
    return ReduceOutput(oks, _failed(operator, [name for name, _ in spec.sides.shown], shown, errors), NOTHING_PENDED)


def _mixed(groups: Groups, group: tuple[Ints, Ints], chosen: tuple[Mask, Mask]) -> Side:
    """The updates of one side."""
    old, new = (np.flatnonzero(mask) for mask in chosen)
    rows = Rows.concat([groups.old_values.take(old), groups.new_values.take(new)], groups.layout.value_schema)
    numbers = np.concatenate([group[0][old], group[1][new]])
    return Side(rows, numbers, np.concatenate([groups.old_diffs[old], groups.new_diffs[new]]), groups.new_times[new])


def _without(side: Side, names: Sequence[str]) -> Side:
    """A side without the columns of the other, which are null in its rows."""
    columns = [n for n in side.rows.schema.names if n not in names]
    return replace(side, rows=side.rows.select(columns))


def _side(old: Matches, new: Matches) -> Side:
    """The updates of one side as they were found, by window."""
    rows = Rows.concat([old.values, new.values], old.values.schema)
    group, diffs = np.concatenate([old.probe, new.probe]), np.concatenate([old.diffs, new.diffs])
    return Side(rows, group, diffs, new.times[0])


def _points(left: Arranged, right: Arranged) -> Points:
    """The timestamps of all new updates."""
    parts = [one.new.distinct_keys() for one in (left, right)]
    schema = left.layout.key_schema
    both = Rows.concat([Rows(schema, keys.columns, keys.count) for _, keys in parts], schema)
    hashes = np.concatenate([h for h, _ in parts])
    number, first = group_rows(both, np.zeros((0, both.count), np.int64), hashes)
    many = parts[0][1].count
    words = [one.new.updates_by_key()[1] if len(one.new) else hashes[:0] for one in (left, right)]
    key = np.concatenate([number[:many][number_new(left)], number[many:][number_new(right)]])
    moves = np.repeat([False, True], [len(w) for w in words])
    return Points(both.take(first), hashes[first], key, np.concatenate(words), moves)


def moments(sides: Sequence[Side], ranks: Sequence[Ranked]) -> tuple[Any, Any, Ints, Ints]:
    """The new updates by (group, time, place), as kernels take them: where moments start, the events; their times."""
    group, time = (np.concatenate(parts) for parts in zip(*((s.group[s.old :], s.times) for s in sides), strict=True))
    place, diffs = (
        np.concatenate(parts)
        for parts in zip(
            *((r.place[s.old :], s.diffs[s.old :]) for s, r in zip(sides, ranks, strict=True)), strict=True
        )
    )
    is_left = np.repeat([True, False], [len(s.times) for s in sides])
    order = np.lexsort((place, time, group))
    group, time = group[order], time[order]
    fresh = np.append(True, (group[1:] != group[:-1]) | (time[1:] != time[:-1]))[: len(order)]
    starts = np.flatnonzero(np.append(fresh, True))
    at = starts[:-1]
    return (starts, group[at]), (is_left[order], place[order], diffs[order]), time[at], order


def kernel_sides(sides: Sequence[Side], ranks: Sequence[Ranked]) -> tuple[Any, Any, Any]:
    """Both sides as kernels take them, and their old updates."""
    left, right = ((r.stamp, r.starts) for r in ranks)
    old = tuple(part for s, r in zip(sides, ranks, strict=True) for part in (r.place[: s.old], s.diffs[: s.old]))
    return left, right, old


def _swept(sides: Sequence[Side], ranks: Sequence[Ranked], rule: AsOfRule, *, keeps: bool) -> tuple[Changes, Changes]:
    """What comes and goes, and which right rows become errors."""
    when, events, times, _ = moments(sides, ranks)
    sets = tuple(empty_set(len(rank.stamp)) for rank in ranks)
    result, wrong, overflow, _ = sweep(when, *kernel_sides(sides, ranks), events, sets, words_of(rule), keeps)
    if overflow:
        raise DiffOverflowError("the count of a row left the signed 64-bit range; the step is not committed")
    return (
        Changes(times[result[0]].reshape(1, -1), result[1], result[2], result[3]),
        Changes(times[wrong[0]].reshape(1, -1), wrong[1], wrong[1], wrong[2]),
    )


def _whole(layout: Layout, keys: Rows, side: Side) -> Rows:
    """The rows of a side with their keys."""
    of_rows = keys.take(side.group)
    return layout.join(Rows(layout.key_schema, of_rows.columns, of_rows.count), side.rows)


def joined(
    schema: pa.Schema, outputs: Sequence[tuple[str, int, str]], sides: Sequence[Rows], at: tuple[Ints, Ints]
) -> Rows:
    """Rows of columns of both sides at positions, of which -1 is null."""
    index = [pa.array(at[0]), pa.array(at[1], mask=at[1] < 0)]
    columns = tuple([sides[side].column(name).take(index[side]) for _, side, name in outputs])
    return Rows(schema, columns, len(at[0]))


def _failed(operator: str, names: Sequence[str], rows: Rows, errors: Changes) -> Updates:
    """Right rows whose count is below zero, as errors."""
    if not rows.count:
        return no_errors(1)
    message = "a row of the right side was more often retracted than inserted; it is not there to be met"
    texts: dict[str, Sequence[object]] = {
        "operator": [operator] * rows.count,
        "code": [NEGATIVE_MULTIPLICITY] * rows.count,
        "message": [message] * rows.count,
        "row": [show_row(names, row) for row in rows.to_pylist()],
    }
    return Updates(Rows.from_pydict(texts, ERROR_SCHEMA), errors.times, errors.diffs)
