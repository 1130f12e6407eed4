"""Reduce: bring a function of each group up to date, whatever family it is of."""

from __future__ import annotations

from altneu.batch import Arranged
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
from altneu.operators.groups import ReduceOutput
from altneu.operators.ranked import RankedAggregates, reduce_ranked

ReduceSpec = AccumulableSpec | RankedAggregates


def reduce(arranged: Arranged, spec: ReduceSpec, operator: str = "reduce") -> ReduceOutput:
    """Bring the results of the groups that have new updates up to date.

    Law:    at every time the output accumulates to the function of what the input accumulates to (tests/operators).
    """
    match spec:
        case RankedAggregates():
            return reduce_ranked(arranged, spec, operator)
    return reduce_accumulable(arranged, spec, operator)


__all__ = [
    "AccumulableSpec",
    "Aggregates",
    "CountOf",
    "Distinct",
    "RankedAggregates",
    "ReduceOutput",
    "ReduceSpec",
    "Threshold",
    "counter",
    "default_row",
    "reduce",
    "reduce_accumulable",
    "reduce_ranked",
]
