"""From logical reducers to the kernels that compute them."""

from __future__ import annotations

from altneu import ir
from altneu.operators import reduce as kernels
from altneu.operators.accumulate import Accumulator
from altneu.operators.aggregates import Aggregate


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
        case ir.PythonReduce(function, result, with_diffs):
            return kernels.PythonReduce(node.key, function.call, result, node.input.schema, with_diffs)


def _named(calls: tuple[ir.Aggregate, ...]) -> tuple[Aggregate, ...]:
    return tuple(Aggregate(f"#{i}", c.function, c.arguments, c.distinct) for i, c in enumerate(calls))
