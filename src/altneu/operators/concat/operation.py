"""Sums of collections, consolidation, and updates shown to a function."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.linear import Function
from altneu.operators.base import CHANGE, Here, Kind, Outputs, RowByRow, Stateless
from altneu.trace.update import Updates, consolidate


@dataclass(frozen=True)
class ConcatOp(RowByRow, tag="ConcatOp", kind="concat"):
    """The sum of the inputs; with ``paths`` that of the paths of a delta join, which are shown as parts of it."""

    at_each_time = is_sum = True
    is_named = False

    paths: bool = False

    def step(self, here: Here) -> Outputs:
        """All updates, consolidated where a row comes by many ways."""
        schema = here.schema
        parts = [u if u.schema is schema else _conform(u, schema) for u in here.received()]
        updates = Updates.concat(parts, schema, here.lattice.width) if parts else None
        return [here.summed(updates, settle=True)]

    @property
    def word(self) -> Kind:
        """What its parts are paths of."""
        return "delta join" if self.paths else self.kind

    @property
    def has_paths(self) -> bool:
        """Where it is the sum of them."""
        return self.paths


def _conform(updates: Updates, schema: pa.Schema) -> Updates:
    """The parts of a sum agree in types; names and nullability are those of the first."""
    return updates.with_rows(Rows(schema, updates.rows.columns, len(updates)))


@dataclass(frozen=True)
class ConsolidateOp(Stateless, tag="ConsolidateOp", kind="consolidate"):
    """The step's updates, each (data, time) once."""

    summing = makes_rows = at_each_time = True
    whole = False
    bound = CHANGE

    def step(self, here: Here) -> Outputs:
        """The updates, consolidated."""
        updates = here.one()
        return [here.summed(None if updates is None else consolidate(updates, here.lattice))]

    def lies_by(self) -> None:
        """As the exchange or the input says."""

    def exchange_key(self, schema: pa.Schema) -> tuple[str, ...]:
        """Equal rows meet."""
        return tuple(schema.names)


@dataclass(frozen=True)
class InspectOp(Stateless, tag="TapOp", kind="inspect"):
    """The step's updates, consolidated and handed to a Python function after the commit."""

    shows = True
    makes_rows = at_each_time = whole = False
    bound = CHANGE

    function: Function

    def step(self, here: Here) -> Outputs:
        """Nothing: the function is shown the updates."""
        updates = here.one()
        if updates is not None:
            shown = consolidate(updates, here.lattice)
            here.show(shown)
            here.measure(rows_out=len(shown))
        return [None]

    def lies_by(self) -> None:
        """As the exchange or the input says."""

    def exchange_key(self, schema: pa.Schema) -> tuple[str, ...]:
        """Equal rows meet."""
        return tuple(schema.names)
