"""Logical plans: what a query means, as immutable nodes that know their schema and their fingerprint.

Each node is with its operator, in ``operators/*/node.py``; here they are under one name, with what is needed of
whole plans. Nodes know nothing of rows. Few are primitive (source, linear, concat, join, reduce, consolidate, inspect);
the front ends derive the rest from them (semijoin, antijoin, outer joins, distinct, count …).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from altneu.operators.arrange.node import ArrangedBy
from altneu.operators.asof.node import AsOf, UpdateTime
from altneu.operators.asof.reducer import AsOfReduce
from altneu.operators.asof.rule import AsOfRule
from altneu.operators.calculus.node import Differentiate, Integrate, Moments, TellMoment, ToNeu
from altneu.operators.concat.node import Concat, Consolidate, Inspect
from altneu.operators.delta_join.node import MultiJoin
from altneu.operators.feedback.node import Recurred, Recurrence
from altneu.operators.join.node import Join
from altneu.operators.latest.node import Latest
from altneu.operators.linear.node import Linear
from altneu.operators.loop.node import MAX_ROUNDS, EnterAt, Loop, Result, Variable, open_schema
from altneu.operators.node import Node, inputs_first, inputs_of, ordered, walk
from altneu.operators.reduce.calls import USUAL_FRAMES, Aggregate, Frame, WindowCall
from altneu.operators.reduce.node import Reduce, Reducer
from altneu.operators.reduce.reducers import (
    Aggregates,
    CountOf,
    Distinct,
    PythonReduce,
    Threshold,
    TopK,
    Totals,
    WindowFunctions,
)
from altneu.operators.reduce_core.node import ReduceCore
from altneu.operators.sample.node import Sample
from altneu.operators.source.node import Constant, Source, SourceWeight

__all__ = [
    "MAX_ROUNDS",
    "USUAL_FRAMES",
    "Aggregate",
    "Aggregates",
    "ArrangedBy",
    "AsOf",
    "AsOfReduce",
    "AsOfRule",
    "Concat",
    "Consolidate",
    "Constant",
    "CountOf",
    "Differentiate",
    "Distinct",
    "EnterAt",
    "Frame",
    "Inspect",
    "Integrate",
    "Join",
    "Latest",
    "Linear",
    "Loop",
    "Moments",
    "MultiJoin",
    "Node",
    "PythonReduce",
    "Recurred",
    "Recurrence",
    "Reduce",
    "ReduceCore",
    "Reducer",
    "Result",
    "Sample",
    "Source",
    "SourceWeight",
    "TellMoment",
    "Threshold",
    "ToNeu",
    "TopK",
    "Totals",
    "UpdateTime",
    "Variable",
    "WindowCall",
    "WindowFunctions",
    "arrival_verb_in_loop",
    "coordinates",
    "free_level",
    "free_levels",
    "inputs_first",
    "inputs_of",
    "moments",
    "open_schema",
    "ordered",
    "read_from_outside",
    "times_named",
    "walk",
]


@inputs_first
def coordinates(node: Node) -> tuple[str, ...] | None:
    """What the times of a collection are called, None when it has one: it has several when any of its sources has."""
    if isinstance(node, Source):
        return node.coordinates
    return next((names for names in map(coordinates, node.inputs) if names is not None), None)


def times_named(names: Sequence[str]) -> str:
    """How many times there are, and what they are called.

    >>> times_named(("known", "day"))
    'two times, known and day'
    """
    many = {2: "two", 3: "three", 4: "four"}.get(len(names), str(len(names)))
    return f"{many} times, {' and '.join(names)}"


@inputs_first
def arrival_verb_in_loop(node: Node) -> str | None:
    """The verb of a node by arrival, here or below, that reads the variable of a loop; None where there is none."""
    if node.arrival_verb and free_level(node) is not None:
        return node.arrival_verb
    return next((verb for verb in map(arrival_verb_in_loop, node.inputs) if verb), None)


def free_level(node: Node) -> int | None:
    """The level of the innermost loop whose variables a node reads and that is not part of it; None: it reads none."""
    return max(_free(node), default=None)


def free_levels(node: Node) -> frozenset[int]:
    """The levels of all loops whose variables a node reads and that are not part of it."""
    return _free(node)


@inputs_first
def _free(node: Node) -> frozenset[int]:
    return node.free(frozenset().union(*map(_free, node.inputs)))


def read_from_outside(loop: Loop | Recurrence) -> Iterator[Node]:
    """The collections from outside that a loop or feedback reads, each fingerprint once."""

    def is_outside(node: Node) -> bool:
        return max(_free(node), default=-1) < loop.level

    within = ordered(*loop.inputs, below=lambda n: () if is_outside(n) else n.inputs, key=lambda n: n.fingerprint)
    return filter(is_outside, within)


@inputs_first
def moments(node: Node) -> Mapping[int, int]:
    """The scopes of moments that a collection is in: how many inside one another, by the level of the loop around.

    What one input is in all others enter; a loop leaves those of its own level.
    """
    depths: dict[int, int] = {}
    for below in node.inputs:
        for level, depth in moments(below).items():
            depths[level] = max(depth, depths.get(level, 0))
    return {level: depth for level, depth in node.moments(depths).items() if depth}
