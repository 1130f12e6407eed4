"""Equijoins as an operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from altneu.operators.base import CHANGE, Here, Hosting, Message, Outputs, Pieces
from altneu.operators.join.pairs import JoinSpec, join_few, join_pieces


@dataclass(frozen=True)
class JoinOp(Hosting, tag="JoinOp", kind="join"):
    """Equijoin of two arrangements; the logic is applied to its matches before they are built.

    Output 0 the rows, output 2 the errors of the logic.
    """

    flows = at_each_time = True
    whole = False
    bound = CHANGE

    spec: JoinSpec

    @property
    def cost(self) -> str:
        """Rows of the other side with the same key."""
        return "(|change| + |matches|) log n"

    def looked_up_for(self, place: int) -> frozenset[int]:
        """The other side."""
        return frozenset((1 - place,))

    def step(self, here: Here) -> Outputs:
        """The matches, which come in pieces where they are many."""
        return here.ready(3)

    def in_pieces(self, here: Here) -> Iterator[Pieces] | list[Message | None]:
        """The matches."""
        left, right, budget = here.arranged(0), here.arranged(1), here.mode.budget
        few = join_few(left, right, self.spec, self.logic, budget)
        if few is not None:
            return few
        pieces = join_pieces(left, right, self.spec, self.logic, budget)
        return ((rows, None, failed) for rows, failed in pieces)
