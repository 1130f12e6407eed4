"""Functions of groups as operations: over a few numbers a group, or over the group."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from altneu.columnar.ranking import Order, order_text
from altneu.linear import Function
from altneu.operators.asof.revising import UnionSpec
from altneu.operators.asof.rule import MixedSides
from altneu.operators.lowering import Lowered, Lowering, Port, arrange_label, arrangement_id, group_label
from altneu.operators.reduce.accumulable import AggregatesSpec, CountOfSpec, DistinctSpec, ThresholdSpec
from altneu.operators.reduce.accumulate import Accumulator
from altneu.operators.reduce.calls import Aggregate, WindowCall
from altneu.operators.reduce.node import WHOLE, Reduce
from altneu.operators.reduce.operation import BelowZeroOp, ExplodeOp, ReduceOp
from altneu.operators.reduce.python_reduce import PythonSpec
from altneu.operators.reduce.ranked import GeneralSpec
from altneu.operators.reduce.spec import ReduceSpec
from altneu.operators.reduce.top_k import TopKSpec
from altneu.operators.reduce.window import WindowSpec


def lower_reduce(to: Lowering, node: Reduce) -> Lowered:
    """A reduce over the arrangement of its key, of sums or of rows."""
    spec = spec_of(node)
    below, origin, label = to.lower(node.input), to.name_of(node.input), arrange_label(node.key)
    if (sums := spec.sums) is not None:
        origin = f"{origin}|{node.key}|{node.reducer.accumulated}"
        combined = to.once(origin, lambda: to.add(ExplodeOp(sums), (below.port,), sums.slot_schema, label="combine"))
        below = Lowered(Port(combined), below.spread if below.spread == node.key else None)
        label = group_label(node.key)
    inputs: tuple[Port, ...]
    order = node.reducer.state_order(node.input.schema, node.key)
    if not order or not to.lattice_in(to.scope_of(below)).is_total:
        ends, inputs = WHOLE, (Port(to.arrange(below, node.key, origin, label)),)
    else:
        ends, inputs = node.reducer.ends, _in_order(to, node, below, order)
    operation = ReduceOp(spec, ends)
    number = to.add(operation, inputs, node.schema, label=str(node.reducer), logical=node.fingerprint)
    to.may_fail(node, Lowered(Port(number, 1), None))
    return Lowered(Port(number), node.key)


def _in_order(to: Lowering, node: Reduce, below: Lowered, order: tuple[Order, ...]) -> tuple[Port, ...]:
    """Two arrangements by the key: of the rows in an order, and of how many of a group have a count below zero."""
    text = order_text(order)
    label = f"{arrange_label(node.key)} in order of {text}"
    state = Port(to.arrange(below, node.key, to.name_of(node.input), label, order))
    name = f"below zero|{to.name_of(node.input)}|by {text}"
    schema = pa.schema([node.input.schema.field(k) for k in node.key])
    operation = BelowZeroOp(arrangement_id(name, node.key))
    number = to.once(
        f"{name}|{node.key}", lambda: to.add(operation, (state,), schema, label="rows below zero", logical=name)
    )
    numbers = to.arrange(Lowered(Port(number), node.key), node.key, name, "groups with rows below zero")
    return state, Port(numbers)


def spec_of(node: Reduce) -> ReduceSpec:
    """How the results of a reduce are read from what it keeps."""
    return node.reducer.of_family(_Specs(node.key, node.input.schema, node.schema))


@dataclass(frozen=True)
class _Specs:
    """The families of functions of groups over the rows of one input, by one key."""

    key: tuple[str, ...]
    input: pa.Schema
    output: pa.Schema

    def aggregates(self, calls: tuple[Aggregate, ...], *, default_row: bool) -> ReduceSpec:
        """Over sums where all of them are accumulable, else over the rows."""
        if all(call.accumulable for call in calls):
            return AggregatesSpec(Accumulator(self.key, calls, self.input), default_row)
        return GeneralSpec(self.key, calls, self.input, default_row)

    def distinct(self) -> ReduceSpec:
        """Over counts."""
        return DistinctSpec(self.input)

    def counts(self, column: str) -> ReduceSpec:
        """Over counts."""
        return CountOfSpec(self.input, column)

    def threshold(self, function: Function) -> ReduceSpec:
        """Over counts."""
        return ThresholdSpec(self.input, function.call)

    def first_rows(self, k: int, order: tuple[Order, ...]) -> ReduceSpec:
        """Over rows."""
        return TopKSpec(self.key, k, order, self.output)

    def windows(self, calls: tuple[WindowCall, ...]) -> ReduceSpec:
        """Over rows."""
        return WindowSpec(self.key, calls, self.input)

    def python(self, function: Function, result: pa.Schema, *, with_diffs: bool) -> ReduceSpec:
        """Over rows."""
        return PythonSpec(self.key, function.call, result, self.input, with_diffs)

    def as_of(self, sides: MixedSides) -> ReduceSpec:
        """Over rows of both sides."""
        return UnionSpec(self.output, self.key, sides)
