"""Functions of groups that see their own output, as operations."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from altneu.operators.base import GROUPS, Bound, Here, Operation, Outputs
from altneu.operators.reduce_core.groups import CoreSpec, reduce_core
from altneu.trace.batch import Arranged, Batch


@dataclass(frozen=True)
class ReduceCoreOp(Operation, tag="ReduceCoreOp", kind="reduce"):
    """The changes of a function's output, group by group; ``arrangement`` keeps the output, as it was before a step.

    Output 0 goes into that arrangement, output 1 are errors.
    """

    starts = looks_again = makes_rows = at_each_time = whole = False
    keeps = takes_from = None
    is_by_arrival = True

    arrangement: str
    spec: CoreSpec

    @property
    def bound(self) -> Bound:
        """The function may read its groups."""
        return GROUPS

    @property
    def cost(self) -> str:
        """The output of the groups, and what the function asks for."""
        return "|change| + output of the groups touched + what the function reads of them"

    def step(self, here: Here) -> Outputs:
        """What the function makes of the changes of this step."""
        arranged = here.arranged()
        if not arranged.new.count:
            return [None, None]
        if here.mode.hydrating:  # how much of the history of what is read back was merged must not matter
            at_once = here.present(arranged.new.updates(), here.lattice)
            new = Batch.build(at_once, arranged.layout, arranged.new.description)
            arranged = Arranged(arranged.layout, arranged.old, new)
        state = here.stored(self.arrangement)
        rows, errors = reduce_core(arranged, () if state is None else state.spine.batches, self.spec, here.label)
        return [rows if len(rows) else None, errors if len(errors) else None]

    @property
    def reads(self) -> str:
        """The output as it was before the step."""
        return self.arrangement

    def lies_by(self) -> None:
        """An arrangement lies by its key."""

    def exchange_key(self, schema: pa.Schema) -> None:
        """An arrangement stays where it is."""

    def works_by(self, first: object) -> tuple[str, ...]:
        """The key of its groups."""
        return self.spec.key
