"""Reduce: bring a function of each group up to date, whatever family it is of."""

from __future__ import annotations

from altneu.operators.accumulable import (
    AccumulableSpec,
    Aggregates,
    CountOf,
    Distinct,
    Threshold,
    counter,
    default_row,
    reduce_accumulable,
)
from altneu.operators.asof import UnionSpec, reduce_asof
from altneu.operators.groups import Groups, ReduceOutput
from altneu.operators.python_reduce import PythonReduce, reduce_python
from altneu.operators.ranked import GeneralAggregates, reduce_general
from altneu.operators.top_k import TopK, reduce_top_k
from altneu.operators.window import WindowFunctions, reduce_window
from altneu.trace.batch import Arranged

ReduceSpec = AccumulableSpec | GeneralAggregates | TopK | WindowFunctions | PythonReduce | UnionSpec


def reduce(given: Arranged | Groups, spec: ReduceSpec, operator: str = "reduce") -> ReduceOutput:
    """Bring the results of the groups that have new updates up to date.

    Law:    at every time the output accumulates to the function of what the input accumulates to (tests/operators).
    """
    match spec:
        case GeneralAggregates():
            return reduce_general(given, spec, operator)
        case TopK():
            return reduce_top_k(given, spec, operator)
        case WindowFunctions():
            return reduce_window(given, spec, operator)
        case PythonReduce():
            return reduce_python(given, spec, operator)
        case UnionSpec():
            return reduce_asof(given, spec, operator)
    return reduce_accumulable(given, spec, operator)


__all__ = [
    "AccumulableSpec",
    "Aggregates",
    "CountOf",
    "Distinct",
    "GeneralAggregates",
    "PythonReduce",
    "ReduceOutput",
    "ReduceSpec",
    "Threshold",
    "TopK",
    "WindowFunctions",
    "counter",
    "default_row",
    "reduce",
    "reduce_accumulable",
    "reduce_general",
    "reduce_python",
    "reduce_top_k",
    "reduce_window",
]
