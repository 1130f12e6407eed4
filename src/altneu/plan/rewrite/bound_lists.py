"""Of lists of which only the first elements are read, as by ``max_by(a, b, n)``, only these are made."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from altneu.expressions import Column, Expr, Literal
from altneu.expressions.expr import Call
from altneu.linear import BoundLogic, Project
from altneu.operators.reduce.calls import Aggregate
from altneu.plan.ir import Aggregates, Concat, Linear, Node, Reduce
from altneu.plan.rewrite.transform import readers, transform
from altneu.types import uncompared


def bound_lists(node: Node) -> Node:
    """Have lists of a group end where what reads them does.

    A list has its values in their order, so its first elements are the first values of the group, which can be read
    without the others.
    """
    counts = readers(node)

    def is_read_once(below: Node) -> bool:
        return counts[below.fingerprint] == 1

    def change(new: Node, old: Node) -> Node:
        if not isinstance(old, Linear) or not isinstance(new, Linear) or not is_read_once(old.input):
            return new
        if not isinstance(old.input, Concat):
            return new.over([_bounded(new.input, new.logic)])
        both = zip(new.input.inputs, old.input.inputs, strict=True)
        return new.over([new.input.over([_bounded(n, new.logic) if is_read_once(o) else n for n, o in both])])

    return transform(node, change)


def _bounded(node: Node, logic: BoundLogic) -> Node:
    """Aggregates of which logic is the one reader."""
    if not isinstance(node, Reduce) or not isinstance(reducer := node.reducer, Aggregates):
        return node
    calls = tuple(_with_most(call, f"#{i}", logic, node) for i, call in enumerate(reducer.calls))
    return node if calls == reducer.calls else replace(node, reducer=replace(reducer, calls=calls))


def _with_most(call: Aggregate, column: str, logic: BoundLogic, reduce: Reduce) -> Aggregate:
    """An aggregate, with how many of its elements are read if it is a list and these are not all."""
    if call.function != "collect_list" or call.distinct or len(call.arguments) > 1 or call.most:
        return call
    (name,) = call.arguments
    if uncompared(reduce.input.schema.field(name).type):
        return call
    return replace(call, most=_read(column, logic, reduce) or 0)


def _read(column: str, logic: BoundLogic, reduce: Reduce) -> int | None:
    """How many of the first elements of a column logic reads; None for all of them."""
    schema, most = reduce.schema, 0
    for step in logic.steps:
        if column in step.columns_read(schema):
            wanted = _most(step.expressions, column)
            if not wanted:
                return None
            most = max(most, wanted)
        if isinstance(step, Project):
            return most
        schema = step.output(schema)
    return None  # it is passed on


def _most(expressions: Iterable[Expr], column: str) -> int | None:
    some = [_wanted(one, column) for one in expressions]
    return None if None in some else max((n for n in some if n is not None), default=0)


def _wanted(one: Expr, column: str) -> int | None:
    """How many of the first elements of a column an expression reads; None for all of them."""
    if column not in one.columns:
        return 0
    if not isinstance(one, Call):
        return None
    if one.name == "slice":
        listed, first, many = one.args
        if _is(listed, column) and isinstance(first, Literal) and first.value == 1 and isinstance(many, Literal):
            return many.value if isinstance(many.value, int) and many.value > 0 else None
    if one.name == ">":
        size, least = one.args
        is_size = isinstance(size, Call) and size.name == "size" and _is(size.args[0], column)
        if is_size and isinstance(least, Literal) and least.value == 0:
            return 1
    return _most(one.args, column)


def _is(one: Expr, column: str) -> bool:
    return isinstance(one, Column) and one.name == column
