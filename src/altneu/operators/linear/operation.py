"""Linear logic as an operation: what is made of rows, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from altneu.linear import BoundLogic
from altneu.operators.base import Here, Operation, Outputs, Pieces
from altneu.operators.linear.logic import pieces, run_logic


@dataclass(frozen=True)
class LinearOp(Operation, tag="LinearOp", kind="linear"):
    """Linear logic; output 0 the rows, output 1 the errors."""

    additive = True

    logic: BoundLogic

    def step(self, here: Here) -> Outputs:
        """The rows that the logic makes; those of a table function come in pieces where they are many."""
        if self.logic.expands:
            return here.ready(2)
        updates = here.one()
        return [None, None] if updates is None else list(run_logic(self.logic, updates))

    def in_pieces(self, here: Here) -> Iterator[Pieces] | None:
        """What table functions make."""
        if not self.logic.expands:
            return None
        updates = here.one()
        return iter(()) if updates is None else pieces(self.logic, updates, here.lattice)
