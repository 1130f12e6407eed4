"""Functions of groups as operations: over a few numbers a group, or over the group."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from altneu.columnar.ranking import order_text
from altneu.operators.asof.reducer import AsOfReduce
from altneu.operators.asof.revising import UnionSpec
from altneu.operators.lowering import Lowered, Lowering, Port, arrange_label, arrangement_id, group_label
from altneu.operators.reduce import aggregates, families, reducers
from altneu.operators.reduce.accumulate import Accumulator
from altneu.operators.reduce.node import WHOLE, Reduce
from altneu.operators.reduce.operation import BelowZeroOp, ExplodeOp, ReduceOp
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
    below, origin, label = to.lower(node.input), to.name_of(node.input), arrange_label(node.key)
    order = node.reducer.state_order(node.input.schema, node.key)
    if not order or not to.lattice_in(to.scope_of(below)).is_total:
        return _reduced(to, node, to.arrange(below, node.key, origin, label))
    state = to.arrange(below, node.key, origin, f"{label} in order of {order_text(order)}", order)
    return _reduced(to, node, state, _below_zero(to, state, node, f"{origin}|by {order_text(order)}"))


def _below_zero(to: Lowering, state: int, node: Reduce, origin: str) -> int:
    """How many rows of each group of an ordered arrangement have a count below zero, which is read by the key."""
    name = f"below zero|{origin}"
    schema = pa.schema([node.input.schema.field(k) for k in node.key])
    operation = BelowZeroOp(arrangement_id(name, node.key))
    number = to.once(
        f"{name}|{node.key}",
        lambda: to.add(operation, (Port(state),), schema, label="rows below zero", logical=name),
    )
    return to.arrange(Lowered(Port(number), node.key), node.key, name, "groups with rows below zero")


def _reduced(to: Lowering, node: Reduce, *states: int) -> Lowered:
    operation = ReduceOp(spec_of(node), node.reducer.ends if len(states) > 1 else WHOLE)
    inputs, label = tuple(map(Port, states)), str(node.reducer)
    number = to.add(operation, inputs, node.schema, label=label, logical=node.fingerprint)
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
        case reducers.TopK(k, order, _):
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
