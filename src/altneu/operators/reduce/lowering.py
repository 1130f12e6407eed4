"""Functions of groups as operations: over a few numbers a group, or over the group."""

from __future__ import annotations

from dataclasses import replace

from altneu.operators.asof.reducer import AsOfReduce
from altneu.operators.asof.revising import UnionSpec
from altneu.operators.lowering import Lowered, Lowering, Port, arrange_label, group_label
from altneu.operators.reduce import aggregates, families, reducers
from altneu.operators.reduce.accumulate import Accumulator
from altneu.operators.reduce.node import Reduce
from altneu.operators.reduce.operation import ExplodeOp, ReduceOp
from altneu.operators.reduce.window_functions import WindowCall


def lower_reduce(to: Lowering, node: Reduce) -> Lowered:
    """A reduce over the arrangement of its key."""
    return _accumulable(to, node) if node.accumulable else _general(to, node)


def _accumulable(to: Lowering, node: Reduce) -> Lowered:
    below = to.lower(node.input)
    accumulator = accumulator_of(node)
    origin = f"{to.name_of(node.input)}|{node.key}|{node.reducer.accumulated}"
    combined = to.once(
        origin, lambda: to.add(ExplodeOp(accumulator), (below.port,), accumulator.slot_schema, label="combine")
    )
    spread = below.spread if below.spread == node.key else None
    slots = Lowered(Port(combined), spread)
    return _reduced(to, node, to.arrange(slots, node.key, origin, group_label(node.key)))


def _general(to: Lowering, node: Reduce) -> Lowered:
    below = to.lower(node.input)
    return _reduced(to, node, to.arrange(below, node.key, to.name_of(node.input), arrange_label(node.key)))


def _reduced(to: Lowering, node: Reduce, state: int) -> Lowered:
    spec = spec_of(node)
    number = to.add(ReduceOp(spec), (Port(state),), node.schema, label=str(node.reducer), logical=node.fingerprint)
    to.may_fail(node, Lowered(Port(number, 1), None))
    return Lowered(Port(number), node.key)


def accumulator_of(node: Reduce) -> Accumulator:
    """What an accumulable reduce keeps of its rows."""
    match node.reducer:
        case reducers.Aggregates(calls):
            return Accumulator(node.key, _named(calls), node.input.schema)
        case _:
            return families.counter(node.input.schema)


def spec_of(node: Reduce) -> families.ReduceSpec:
    """How the results of a reduce are read from what it keeps."""
    match node.reducer:
        case reducers.Aggregates(calls, default_row):
            if node.accumulable:
                return families.Aggregates(accumulator_of(node), default_row)
            return families.GeneralAggregates(node.key, _named(calls), node.input.schema, default_row)
        case reducers.Distinct():
            return families.Distinct(node.schema)
        case reducers.CountOf(column):
            return families.CountOf(node.input.schema, column)
        case reducers.Threshold(function):
            return families.Threshold(node.schema, function.call)
        case reducers.TopK(k, order):
            return families.TopK(node.key, k, order, node.schema)
        case reducers.WindowFunctions(calls):
            return families.WindowFunctions(node.key, _windows(calls), node.input.schema)
        case reducers.PythonReduce(function, result, with_diffs):
            return families.PythonReduce(node.key, function.call, result, node.input.schema, with_diffs)
        case AsOfReduce(side, stamp, left, right, shown, rule, keeps):
            return UnionSpec(node.schema, node.key, side, stamp, left, right, shown, rule, keeps)
    raise AssertionError(node.reducer)


def _named(calls: tuple[reducers.Aggregate, ...]) -> tuple[aggregates.Aggregate, ...]:
    """Calls with the names of their columns."""
    return tuple(
        aggregates.Aggregate(f"#{i}", c.function, c.arguments, c.distinct, c.options) for i, c in enumerate(calls)
    )


def _windows(calls: tuple[reducers.WindowCall, ...]) -> tuple[WindowCall, ...]:
    named = _named(tuple(c.call for c in calls))
    return tuple(
        WindowCall(replace(call, name=f"#w{i}"), c.order, c.frame, c.number, c.ignore_nulls)
        for i, (c, call) in enumerate(zip(calls, named, strict=True))
    )
