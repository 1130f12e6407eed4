"""Aggregates of whole groups beside the rows of these are joined to them, so that they cost what they change."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from altneu.expressions import Column
from altneu.expressions.construct import literal
from altneu.linear import BoundLogic, Extend, Project
from altneu.operators.reduce.node import Needed, Suffix
from altneu.plan.ir import Aggregates, Join, Linear, Node, Reduce, WindowCall, WindowFunctions
from altneu.plan.rewrite.split_windows import can_be_split
from altneu.plan.rewrite.transform import transform
from altneu.types import mark_of


def join_aggregates(node: Node) -> Node:
    """Have window functions over whole groups that are aggregates meet the rows in a join.

    An extreme, a percentile or a number of distinct values stays as it is after most changes, and then only the rows
    that change are touched. Where the result changes, so do all rows of the group, whichever way it is computed. The
    others of the same groups are to read few rows; where they run on, sums stay with them, because both change most
    rows at each step.
    """
    return transform(node, lambda new, _: _joined(new))


def _joined(node: Node) -> Node:
    if not isinstance(node, Reduce) or not isinstance(reducer := node.reducer, WindowFunctions):
        return node
    places = [i for i, one in enumerate(reducer.calls) if _is_of_all(one)]
    if not places or reducer.first is not None or reducer.ordered:
        return node
    others = [i for i in range(len(reducer.calls)) if i not in places]
    rows: Node = node.input
    if others:
        windows = WindowFunctions(tuple(reducer.calls[i] for i in others))
        rows = replace(node, reducer=windows)
        if windows.with_order(node.input, node.key) is windows and not can_be_split(rows):
            return node  # which reads the group, whatever is taken from it
        runs = any(isinstance(_needed(node, one), Suffix) for one in windows.calls)
        if runs and any(reducer.calls[i].call.accumulable for i in places):
            return node
    calls = tuple(reducer.calls[i].call for i in places)
    read = {name: name for name in node.key}
    copies = {name: f"#of {name}" for one in calls for name in one.arguments if name in read}  # groups have no keys
    calls = tuple(replace(one, arguments=tuple(copies.get(name, name) for name in one.arguments)) for one in calls)
    read |= {copies.get(name, name): name for i in places for name in reducer.calls[i].call.arguments}
    columns = Project(tuple((name, _column(of, node.input.schema)) for name, of in read.items()))
    groups: Node = replace(node, input=Linear(node.input, BoundLogic((columns,))), reducer=Aggregates(calls))
    results = {i: (0, f"#w{at}") for at, i in enumerate(others)} | {i: (1, f"#{at}") for at, i in enumerate(places)}
    outputs = [(name, 0, name) for name in node.input.schema.names]
    outputs += [(f"#w{i}", *results[i]) for i in range(len(reducer.calls))]
    if not node.key:
        rows, groups = (Linear(side, BoundLogic((Extend((("#one", literal(1)),)),))) for side in (rows, groups))
    key = node.key or ("#one",)
    return Join(rows, groups, key, key, tuple(outputs), nulls_equal=True)


def _needed(node: Reduce, call: WindowCall) -> Needed:
    return WindowFunctions((call,)).with_order(node.input, node.key).needed(node.input.schema, node.key)


def _is_of_all(window: WindowCall) -> bool:
    """Whether it is an aggregate of its whole group that is not made by reading it."""
    frame, aggregate = window.frame, window.call
    whole = frame is not None and (frame.start, frame.end) == (None, None)
    of_tuples = aggregate.function == "count"  # which ``count_tuples`` makes one column of
    return whole and not window.ignore_nulls and (of_tuples or aggregate.state is not None)


def _column(name: str, schema: pa.Schema) -> Column:
    field = schema.field(name)
    return Column(name, field.type, field.nullable, mark_of(field))
