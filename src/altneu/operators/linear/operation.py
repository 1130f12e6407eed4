"""Linear logic as an operation: what is made of rows, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from altneu.expressions import Expr
from altneu.linear import BoundLogic
from altneu.linear.asked import required_of
from altneu.operators.base import Here, Outputs, Pieces, RowByRow
from altneu.operators.linear.logic import pieces, run_logic
from altneu.trace.update import Updates


@dataclass(frozen=True)
class LinearOp(RowByRow, tag="LinearOp", kind="linear"):
    """Linear logic; output 0 the rows, output 1 the errors."""

    is_linear = True
    is_named = False

    logic: BoundLogic
    errors_show_read: bool = False
    """Whether errors show the columns that are read, and not all that a row came with."""

    def step(self, here: Here) -> Outputs:
        """The rows that the logic makes; those of a table function come in pieces where they are many."""
        if self.logic.expands:
            return here.ready(2)
        updates = here.one()
        if updates is None:
            return [None, None]
        return run_logic(self.logic, self._read_of(updates) if self._shows_some else updates)

    def in_pieces(self, here: Here) -> Iterator[Pieces] | None:
        """What table functions make."""
        if not self.flows:
            return None
        updates = here.one()
        return iter(()) if updates is None else pieces(self.logic, self._read_of(updates), here.lattice)

    def _read_of(self, updates: Updates) -> Updates:
        """The rows, with the columns that errors show."""
        if not self._shows_some:
            return updates
        schema = updates.rows.schema
        known, names = self._columns_read[0]
        if known is not schema:
            read = self.logic.columns_read(schema)
            names = None if len(read) == len(schema) else [n for n in schema.names if n in read]
            self._columns_read[0] = schema, names
        return updates if names is None else updates.with_rows(updates.rows.select(names))

    @cached_property
    def _shows_some(self) -> bool:
        """Whether there are errors, which show what is read."""
        return self.errors_show_read and self.logic.has_errors

    @cached_property
    def _columns_read(self) -> list[tuple[pa.Schema | None, list[str] | None]]:
        """The last schema of rows, and which of its columns are read if not all."""
        return [(None, None)]

    @property
    def flows(self) -> bool:
        """Table functions make rows."""
        return self.logic.expands

    @property
    def at_each_time(self) -> bool:
        """What is delayed depends on the times of rows."""
        return not self.logic.delay

    @property
    def applied(self) -> BoundLogic:
        """All that it is."""
        return self.logic

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """Those that its steps read."""
        return frozenset(self.logic.columns_read(schema))

    def tests_of(self, schema: pa.Schema, now: int | None) -> tuple[Expr, ...]:
        """Those that its steps begin with."""
        return required_of(self.logic, schema, now)

    def described(self, label: str, *, own_times: int) -> str:
        """The logic, which is its label."""
        return f"linear {label}"
