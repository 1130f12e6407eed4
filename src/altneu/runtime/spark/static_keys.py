"""The keys of the static sides of joins, by which Spark filters the DataFrames that are joined with them.

Once a side of a join is static (``plan/static.py``), the other side is not stored, and a row of it whose key the static
side lacks never matches. If the static side is small, its keys are read here and become tests like those of filters:
Spark drops the rows of a DataFrame that match in no view before they are turned into Arrow, and skips files and row
groups without such keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.expressions import Column, Expr, call, literal
from altneu.expressions.coercion import INTEGRAL
from altneu.linear.steps import Extend, Filter, Project
from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.join.operation import JoinOp
from altneu.operators.linear.operation import LinearOp
from altneu.plan.physical import Plan, Port
from altneu.runtime.state import StateTable

MOST_KEYS = 4_096  # a static side with more updates is not read, and Spark gets no filter by its keys

Tests = tuple[Expr, ...]
_KEYS = (*INTEGRAL, T.STRING, T.DATE)  # equal here where they are equal in Spark


@dataclass(frozen=True)
class StaticKeys:
    """For each operation that reads a source the tests that rows must pass to match; keys are read once a step."""

    plan: Plan
    table: StateTable
    _known: dict[str, Mapping[str, pa.Array]] = field(default_factory=dict)

    def alternatives(self, reader: int) -> list[Tests]:
        """Sets of tests of an operation's input: a row matters only if it passes all tests of at least one set.

        An empty set, which all rows pass, stands for a reader that needs all rows or a join whose keys are unknown. No
        test can fail.

        Shape:  one set for each join behind the operation.
        Cost:   ``MOST_KEYS`` rows of each static side are read at most.
        """
        node = self.plan.nodes[reader]
        if isinstance(node.operation, ArrangeOp):
            return [*self._of_arrangement(reader, {name: name for name in node.schema.names})]
        if not isinstance(node.operation, LinearOp):
            return [()]
        columns = _columns_kept(node.operation, self.plan.nodes[node.inputs[0].node].schema)
        if columns is None:
            return [()]
        return [tests for i in self._readers(reader) for tests in self._of_arrangement(i, columns)]

    def _readers(self, node: int) -> list[int]:
        return [i for i, reader in enumerate(self.plan.nodes) if Port(node) in reader.inputs]

    def _of_arrangement(self, i: int, columns: Mapping[str, str]) -> Iterator[Tests]:
        """The tests of each join that reads an arrangement; ``columns`` tells where its columns come from."""
        node = self.plan.nodes[i]
        operation = node.operation
        if not isinstance(operation, ArrangeOp) or not operation.is_released or self.plan.has_moments(node):
            yield ()
            return
        for j in self._readers(i):
            join = self.plan.nodes[j]
            others = [port for port in join.inputs if port != Port(i)]
            if not isinstance(join.operation, JoinOp) or join.operation.spec.nulls_equal or len(others) != 1:
                yield ()
                continue
            keys = zip(operation.layout.key, self._keys(others[0].node), strict=False)
            known = [(columns[mine], values) for mine, values in keys if mine in columns and values is not None]
            yield tuple(_among(name, values) for name, values in known)

    def _keys(self, side: int) -> list[pa.Array | None]:
        """The values of each column of a static side's key, without null; None where they are unknown."""
        operation = self.plan.nodes[side].operation
        if not isinstance(operation, ArrangeOp) or not self.plan.is_static(side):
            return []
        name, layout = operation.arrangement, operation.layout
        if name not in self._known:
            there = self.table.rows(name) <= MOST_KEYS and not layout.changes_only
            self._known[name] = self._values(name, layout.key) if there else {}
        return [self._known[name].get(key) for key in layout.key]

    def _values(self, name: str, key: tuple[str, ...]) -> Mapping[str, pa.Array]:
        schema = self.table.layouts[name].schema
        states = [state for shard in self.table.shards_of(name) if (state := self.table.get(name, shard)) is not None]
        rows = [batch.updates().rows for state in states for batch in state.spine.batches]
        values: dict[str, pa.Array] = {}
        for column in key:
            if (kind := schema.field(column).type) in _KEYS:
                found = pc.unique(pa.chunked_array([r.column(column) for r in rows], kind)).drop_null()
                values[column] = found.take(pc.sort_indices(found))
        return values


def _columns_kept(operation: LinearOp, schema: pa.Schema) -> dict[str, str] | None:
    """By the columns that linear logic passes on as they are, the columns they were; None if rows matter otherwise.

    They do if the logic can fail on them, or delays them.
    """
    logic = operation.logic
    if logic.delay or logic.has_errors:
        return None
    kept = {name: name for name in schema.names}
    for step in logic.steps:
        if isinstance(step, Project):
            plain = {name: e.column_name for name, e in step.outputs if e.is_column}
            kept = {name: kept[before] for name, before in plain.items() if before in kept}
        elif isinstance(step, Extend):
            kept = {name: before for name, before in kept.items() if name not in dict(step.outputs)}
        elif not isinstance(step, Filter):
            return None
    return kept


def _among(name: str, values: pa.Array) -> Expr:
    """Whether a column has one of some values; no row has one of none."""
    if not len(values):
        return literal(False)
    return call("in", [Column(name, values.type), *(literal(value, values.type) for value in values.to_pylist())])
