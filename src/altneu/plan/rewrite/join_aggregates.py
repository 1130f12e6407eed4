"""Aggregates of whole groups beside the rows of these are joined to them, where they may stay as they are."""

from __future__ import annotations

from dataclasses import replace

from altneu.expressions import Column, Expr
from altneu.expressions.construct import call, literal
from altneu.linear import BoundLogic, Extend
from altneu.plan.ir import Aggregates, Join, Linear, Node, Reduce, WindowCall, WindowFunctions
from altneu.plan.rewrite.transform import transform


def join_aggregates(node: Node) -> Node:
    """Have window functions over whole groups whose result most changes leave as it is meet the rows in a join.

    Such are extremes, percentiles and what is made of distinct values. A group is then read whole only when its result
    changes, and with it all of its rows. Counts and sums change with every row, so nothing is gained by a join.
    """
    return transform(node, lambda new, _: _joined(new))


def _joined(node: Node) -> Node:
    if not isinstance(node, Reduce) or not isinstance(reducer := node.reducer, WindowFunctions):
        return node
    places = [i for i, one in enumerate(reducer.calls) if _may_stay(one)]
    if not places or reducer.first is not None or reducer.ordered:
        return node
    others = [i for i in range(len(reducer.calls)) if i not in places]
    rows: Node = node.input
    if others:
        windows = WindowFunctions(tuple(reducer.calls[i] for i in others))
        if windows.with_order(node.input, node.key) is windows:
            return node  # which reads the group, whatever is taken from it
        rows = replace(node, reducer=windows)
    groups: Node = replace(node, reducer=Aggregates(tuple(reducer.calls[i].call for i in places)))
    columns = {
        **{f"#w{i}": (0, f"#w{at}") for at, i in enumerate(others)},
        **{f"#w{i}": (1, f"#{at}") for at, i in enumerate(places)},
    }
    outputs = [(name, 0, name) for name in node.input.schema.names]
    outputs += [(f"#w{i}", *columns[f"#w{i}"]) for i in range(len(reducer.calls))]
    key, rows = _keyed(rows, node)
    _, groups = _keyed(groups, node)
    return Join(rows, groups, key, key, tuple(outputs))


def _may_stay(window: WindowCall) -> bool:
    """Whether it is an aggregate of its whole group that a row more or less need not change."""
    frame, aggregate = window.frame, window.call
    whole = frame is not None and (frame.start, frame.end) == (None, None)
    of_tuples = aggregate.function == "count" and aggregate.distinct  # which ``count_tuples`` makes one column of
    return whole and not window.ignore_nulls and (of_tuples or aggregate.state not in (None, "sums"))


def _keyed(side: Node, windows: Reduce) -> tuple[tuple[str, ...], Node]:
    """A side with columns for its key that are never null, and their names."""
    schema = windows.input.schema
    wrapped: dict[str, Expr] = {}
    for name in windows.key or ("",):
        if not name:
            wrapped[name] = literal(1)
        elif (field := schema.field(name)).nullable:
            wrapped[name] = call("named_struct", [literal("v"), Column(name, field.type, True)])
    if not wrapped:
        return windows.key, side
    named = {name: f"#key {name}" for name in wrapped}
    logic = BoundLogic((Extend(tuple((named[name], expr) for name, expr in wrapped.items())),))
    return tuple(named.get(name, name) for name in windows.key or ("",)), Linear(side, logic)
