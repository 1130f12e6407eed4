"""Window functions that read few rows in one order each are computed one order after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from altneu.expressions import Column
from altneu.linear import BoundLogic, Project
from altneu.operators.reduce.calls import copy_number
from altneu.operators.reduce.node import Needed, Suffix
from altneu.plan.ir import Linear, Node, Reduce, WindowCall, WindowFunctions
from altneu.plan.rewrite.transform import transform
from altneu.types import mark_of


def split_windows(node: Node) -> Node:
    """Have window functions of several orders, or that look both back and on, read rows that lie in these orders.

    A group lies in one order, so together they would read it whole. Each of the operators in place of one adds columns
    to all rows. Rows that are equal may differ in these, and then are rows of their own to the next one: so that it has
    them in the order in which they were, they are numbered where two of the operators tell them apart.
    """
    return transform(node, lambda new, _: _split(new))


def can_be_split(node: Reduce) -> bool:
    """Whether window functions that read their whole group do not, one order after the other."""
    return _split(node) is not node


def _split(node: Node) -> Node:
    if not isinstance(node, Reduce) or not isinstance(reducer := node.reducer, WindowFunctions):
        return node
    if reducer.first is not None or reducer.ordered or _in_order(node, reducer.calls):
        return node
    parts: list[list[WindowCall]] = []
    for call in dict.fromkeys(reducer.calls):
        part = next((part for part in parts if _in_order(node, [*part, call])), None)
        if part is not None:
            part.append(call)
        elif _in_order(node, [call]):
            parts.append([call])
        else:
            return node
    running = [part for part in parts if _runs_on(_needed(node, part))]
    if len(running) > 1:
        return node  # where two run on, or one runs on and one back, most changes change most rows
    parts.sort(key=lambda part: part not in running)  # which would run on behind each row that another one changes
    telling = [part for part in parts if any(call.reads_ties for call in part)]
    if len(telling) > 1:
        numbered = [[copy_number(part[0].order), *part] for part in telling]
        first = next((i for i, part in enumerate(numbered) if _in_order(node, part)), None)
        if first is None:
            return node
        parts.insert(parts.index(telling[0]), numbered[first])
        parts.remove(telling[first])
    return _one_after_the_other(node, reducer.calls, parts)


def _one_after_the_other(node: Reduce, calls: Sequence[WindowCall], parts: Sequence[Sequence[WindowCall]]) -> Node:
    rows: Node = node.input
    names: dict[WindowCall, str] = {}
    for part in parts:
        if not _in_order(replace(node, input=rows), part):
            return node  # the columns that were added cannot be compared
        reduced = replace(node, input=rows, reducer=WindowFunctions(tuple(part)))
        outputs = [(name, _column(reduced, name)) for name in rows.schema.names]
        for i, call in enumerate(part):
            names[call] = f"#part{len(names)}"
            outputs.append((names[call], _column(reduced, f"#w{i}")))
        rows = Linear(reduced, BoundLogic((Project(tuple(outputs)),)))
    outputs = [(name, _column(rows, name)) for name in node.input.schema.names]
    outputs += [(f"#w{i}", _column(rows, names[call])) for i, call in enumerate(calls)]
    return Linear(rows, BoundLogic((Project(tuple(outputs)),)))


def _in_order(node: Reduce, calls: Sequence[WindowCall]) -> bool:
    windows = WindowFunctions(tuple(calls))
    return windows.with_order(node.input, node.key) is not windows


def _runs_on(needed: Needed) -> bool:
    return isinstance(needed, Suffix) and not needed.settles


def _needed(node: Reduce, calls: Sequence[WindowCall]) -> Needed:
    return WindowFunctions(tuple(calls)).with_order(node.input, node.key).needed(node.input.schema, node.key)


def _column(node: Node, name: str) -> Column:
    field = node.schema.field(name)
    return Column(name, field.type, field.nullable, mark_of(field))
