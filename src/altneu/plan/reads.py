"""What a plan reads of its sources: the rows with some values, only how many rows there are, or everything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from altneu.expressions import Expr
from altneu.expressions.equalities import required_bound, required_values
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
    bounds: tuple[tuple[str, str, pa.Array], ...] = ()  # column, comparison, value: what the rows satisfy as well


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
            bounds = tuple(_bounds(node))
            if values is not None and not values and not bounds and not is_row_by_row(root):
                return None
            own = name if len(linear) == 1 else f"{name} ({number + 1})"
            assert isinstance(node.input, Source)
            instead[node.fingerprint] = Linear(replace(node.input, name=own), node.logic)
            reads.append(Read(own, name, values, bounds))
    return replaced(root, instead), tuple(reads)


def _values(node: Linear) -> dict[str, pa.Array] | None:
    """The values that the first filters of a node require, by column; None if it reads no column of any row."""
    logic, values = node.logic, dict[str, pa.Array]()
    if logic.delay:
        return values
    if not logic.columns_read(node.input.schema) and all(isinstance(step, Project) for step in logic.steps):
        return None
    for part in _first_tests(node):
        known = required_values(part)
        if known is not None:
            column, among = known[0], pc.unique(known[1])
            if column not in values or len(among) < len(values[column]):
                values[column] = among
    return values


def _bounds(node: Linear) -> Iterator[tuple[str, str, pa.Array]]:
    for part in () if node.logic.delay else _first_tests(node):
        bound = required_bound(part)
        if bound is not None:
            yield bound


def _first_tests(node: Linear) -> Iterator[Expr]:
    """What the first filters of a node test, all of which a row that matters passes."""
    for step in node.logic.steps:
        if not isinstance(step, Filter) or step.predicate.can_fail:
            break  # a row on which it fails may be one that does not pass
        yield from conjuncts(step.predicate)


def is_row_by_row(root: Node) -> bool:
    """Whether each row of a plan is made of one row of a source, none of which can fail."""
    if not isinstance(root, Linear) or not isinstance(root.input, Source):
        return False
    logic = root.logic
    return not logic.delay and not logic.has_errors and all(isinstance(step, Filter | Project) for step in logic.steps)


def column_read(root: Linear, output: str) -> str | None:
    """The column of a source that an output of a plan is, which is row by row; None if it is computed."""
    for step in reversed(root.logic.steps):
        if isinstance(step, Project):
            expression = dict(step.outputs)[output]
            if not expression.is_column:
                return None
            output = expression.column_name
    return output
