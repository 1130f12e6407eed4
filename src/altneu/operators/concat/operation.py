"""Sums of collections, consolidation, and updates shown to a function."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.linear import Function
from altneu.operators.base import Here, Operation, Outputs
from altneu.trace.update import Updates, consolidate


@dataclass(frozen=True)
class ConcatOp(Operation, tag="ConcatOp", kind="concat"):
    """The sum of the inputs."""

    additive = True

    def step(self, here: Here) -> Outputs:
        """All updates, consolidated where a row comes by many ways."""
        schema = here.schema
        parts = [u if u.schema is schema else _conform(u, schema) for u in here.received()]
        made = Updates.concat(parts, schema, here.lattice.width) if parts else None
        return [here.summed(made, settle=True)]


def _conform(updates: Updates, schema: pa.Schema) -> Updates:
    """The parts of a sum agree in types; names and nullability are those of the first."""
    return updates.with_rows(Rows(schema, updates.rows.columns, len(updates)))


@dataclass(frozen=True)
class ConsolidateOp(Operation, tag="ConsolidateOp", kind="consolidate"):
    """The step's updates, each (data, time) once."""

    summing = True

    def step(self, here: Here) -> Outputs:
        """The updates, consolidated."""
        updates = here.one()
        return [here.summed(None if updates is None else consolidate(updates, here.lattice))]


@dataclass(frozen=True)
class TapOp(Operation, tag="TapOp", kind="inspect"):
    """The step's updates, consolidated and handed to a Python function after the commit."""

    function: Function

    def step(self, here: Here) -> Outputs:
        """Nothing: the function is shown the updates."""
        updates = here.one()
        if updates is not None:
            shown = consolidate(updates, here.lattice)
            here.show(shown)
            here.measure(went=len(shown))
        return [None]
