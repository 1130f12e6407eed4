"""From logical operators to the kernels that compute them."""

from __future__ import annotations

from dataclasses import replace

from altneu.expressions import Column, Expr, Literal, literal
from altneu.linear import BoundLogic, Project
from altneu.operators.asof.locked import LockSpec
from altneu.operators.asof.revising import AsofSpec, Rule, UnionSpec
from altneu.operators.reduce import families as kernels
from altneu.operators.reduce.accumulate import Accumulator
from altneu.operators.reduce.aggregates import Aggregate
from altneu.operators.reduce.window_functions import Frame, WindowCall
from altneu.plan import ir


def accumulator_of(node: ir.Reduce) -> Accumulator:
    """What an accumulable reduce keeps of its rows."""
    match node.reducer:
        case ir.Aggregates(calls):
            return Accumulator(node.key, _named(calls), node.input.schema)
        case _:
            return kernels.counter(node.input.schema)


def reduce_spec_of(node: ir.Reduce) -> kernels.ReduceSpec:
    """How the results of a reduce are read from what it keeps."""
    match node.reducer:
        case ir.Aggregates(calls, default_row):
            if node.accumulable:
                return kernels.Aggregates(accumulator_of(node), default_row)
            return kernels.GeneralAggregates(node.key, _named(calls), node.input.schema, default_row)
        case ir.Distinct():
            return kernels.Distinct(node.schema)
        case ir.CountOf(column):
            return kernels.CountOf(node.input.schema, column)
        case ir.Threshold(function):
            return kernels.Threshold(node.schema, function.call)
        case ir.TopK(k, order):
            return kernels.TopK(node.key, k, order, node.schema)
        case ir.WindowFunctions(calls):
            return kernels.WindowFunctions(node.key, _windows(calls), node.input.schema)
        case ir.PythonReduce(function, result, with_diffs):
            return kernels.PythonReduce(node.key, function.call, result, node.input.schema, with_diffs)
        case ir.AsOfReduce(side, stamp, left, right, shown, rule, keeps):
            return UnionSpec(node.schema, node.key, side, stamp, left, right, shown, _rule(rule), keeps)
    raise AssertionError(node.reducer)


def asof_spec_of(node: ir.AsOf) -> AsofSpec:
    """How an as-of join by event time is computed of two ordered arrangements."""
    assert node.rule is not None
    return AsofSpec(node.schema, node.outputs, _rule(node.rule), node.keeps)


def lock_spec_of(node: ir.AsOf) -> LockSpec:
    """What a locked as-of join remembers, and how it looks up what it locks in."""
    return LockSpec(
        node.schema,
        (node.left.schema, node.right.schema),
        (node.left_key, node.right_key),
        node.outputs,
        node.keeps,
        node.stamps,
        None if node.rule is None else _rule(node.rule),
        node.simultaneous,
    )


def _rule(rule: ir.AsOfRule) -> Rule:
    return Rule(rule.direction, rule.tolerance, rule.exact, rule.ties)


def mixed(node: ir.AsOf) -> ir.Node:
    """An as-of join by event time as a reduce of groups that hold the rows of both sides: right at any times."""
    assert node.stamps is not None
    assert node.rule is not None
    sides, keys = (node.left, node.right), (node.left_key, node.right_key)
    names = tuple(
        tuple(f"#{letter}{i}" for i in range(len(side.schema))) for letter, side in zip("lr", sides, strict=True)
    )
    grouped = tuple(f"#key{i}" for i in range(len(node.left_key)))
    parts: list[ir.Node] = []
    for i, (side, key) in enumerate(zip(sides, keys, strict=True)):
        outputs = [(name, _column(side, column)) for name, column in zip(grouped, key, strict=True)]
        outputs += [("#side", literal(i == 0)), ("#stamp", _column(side, node.stamps[i]))]
        for j, other in enumerate(sides):
            values = (_column(other, f.name) if i == j else Literal(None, f.type) for f in other.schema)
            outputs += zip(names[j], values, strict=True)
        parts.append(ir.Linear(side, BoundLogic((Project(tuple(outputs)),))))
    shown = tuple(zip(node.right.schema.names, names[1], strict=True))
    called = dict(shown)
    rule = replace(node.rule, ties=tuple((called[column], *how) for column, *how in node.rule.ties))
    reducer = ir.AsOfReduce("#side", "#stamp", names[0], names[1], shown, rule, node.keeps)
    made = ir.Reduce(ir.Concat(tuple(parts)), grouped, reducer)
    place = [dict(zip(s.schema.names, n, strict=True)) for s, n in zip(sides, names, strict=True)]
    return ir.Linear(
        made, BoundLogic((Project(tuple((name, _column(made, place[i][c])) for name, i, c in node.outputs)),))
    )


def _column(node: ir.Node, name: str) -> Expr:
    field = node.schema.field(name)
    return Column(field.name, field.type, field.nullable)


def _named(calls: tuple[ir.Aggregate, ...]) -> tuple[Aggregate, ...]:
    return tuple(Aggregate(f"#{i}", c.function, c.arguments, c.distinct, c.options) for i, c in enumerate(calls))


def _windows(calls: tuple[ir.WindowCall, ...]) -> tuple[WindowCall, ...]:
    frames = [None if c.frame is None else Frame(c.frame.rows, c.frame.start, c.frame.end) for c in calls]
    named = _named(tuple(c.call for c in calls))
    return tuple(
        WindowCall(replace(call, name=f"#w{i}"), c.order, frame, c.number, c.ignore_nulls)
        for i, (c, call, frame) in enumerate(zip(calls, named, frames, strict=True))
    )
