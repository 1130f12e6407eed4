"""What a plan reads of its sources: the rows with some values, only how many rows there are, or everything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from altneu.expressions.equalities import required_values
from altneu.expressions.sharing import conjuncts
from altneu.linear import Filter, Project
from altneu.plan.ir import Linear, Node, Source, walk
from altneu.plan.rewrite.transform import replaced


@dataclass(frozen=True)
class Read:
    """What one node of a plan reads of a source.

    ``name`` is that of a source of its own, which has the rows that the node reads, in the plan with ``reads``.
    ``values`` are the values of which a row that matters has one, by column; None if only the number of rows matters.
    """

    name: str
    source: str
    values: Mapping[str, pa.Array] | None


def partial_reads(root: Node) -> tuple[Node, tuple[Read, ...]] | None:
    """A plan in which each reader of a source has a source of its own, and what these need; None if one needs all rows.

    The plan is as ``optimise`` gives it. What depends on the times of rows, and not on the rows of one time alone,
    needs all rows.
    """
    nodes = list(walk(root))
    if any(node.is_by_arrival or node.arrival_verb or node.reads_times for node in nodes):
        return None
    readers: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for below in node.inputs:
            if isinstance(below, Source):
                readers[below.name].append(node)
    if not readers or isinstance(root, Source):
        return None
    instead: dict[str, Node] = {}
    reads: list[Read] = []
    for name, linear in readers.items():
        for number, node in enumerate(linear):
            if not isinstance(node, Linear):
                return None
            values = _values(node)
            if values is not None and not values:
                return None
            own = name if len(linear) == 1 else f"{name} ({number + 1})"
            assert isinstance(node.input, Source)
            instead[node.fingerprint] = Linear(replace(node.input, name=own), node.logic)
            reads.append(Read(own, name, values))
    return replaced(root, instead), tuple(reads)


def _values(node: Linear) -> dict[str, pa.Array] | None:
    """The values that the first filters of a node require, by column; None if it reads no column of any row."""
    logic, values = node.logic, dict[str, pa.Array]()
    if logic.delay:
        return values
    if not logic.columns_read(node.input.schema) and all(isinstance(step, Project) for step in logic.steps):
        return None
    for step in logic.steps:
        if not isinstance(step, Filter) or step.predicate.can_fail:
            break  # a row on which it fails may be one without these values
        for part in conjuncts(step.predicate):
            known = required_values(part)
            if known is not None:
                column, among = known[0], pc.unique(known[1])
                if column not in values or len(among) < len(values[column]):
                    values[column] = among
    return values
