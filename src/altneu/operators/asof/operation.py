"""As-of joins as operations: those that follow the right side, and those that lock in what was met."""

from __future__ import annotations

from dataclasses import dataclass

from altneu.operators.asof.locked import LockSpec, locked_rows
from altneu.operators.asof.revising import AsofSpec, asof_join
from altneu.operators.base import CHANGE, Here, Hosting, Kind, Outputs


@dataclass(frozen=True)
class AsofOp(Hosting, tag="AsofOp", kind="as-of join"):
    """As-of join, by event time, of two arrangements that are ordered by it."""

    at_each_time = True
    whole = False
    bound = CHANGE

    spec: AsofSpec

    @property
    def cost(self) -> str:
        """Both sides, around the timestamps that are new."""
        return "(|change| + rows up to the nearest) log n"

    def looked_up_for(self, place: int) -> frozenset[int] | None:
        """Left rows are looked up for new right ones; right rows for both, as a new one changes what is nearest."""
        return None if place else frozenset((1,))

    def step(self, here: Here) -> Outputs:
        """The changes of the matches around what is new on either side."""
        left, right = here.arranged(0), here.arranged(1)
        if not (len(left.new) or len(right.new)):
            return [None, None]
        outputs = asof_join(left, right, self.spec, here.label)
        return self.finished(outputs.oks, outputs.errs)


@dataclass(frozen=True)
class LockedOp(Hosting, tag="LockedOp", kind="as-of join"):
    """The rows of an arrangement of locked matches; output 1 the errors of left rows retracted that were not there."""

    is_by_arrival = True
    at_each_time = whole = False
    bound = CHANGE

    spec: LockSpec

    @property
    def cost(self) -> str:
        """The right side, around the timestamps that are new on the left."""
        return "(|change| + rows up to the nearest) log n"

    def step(self, here: Here) -> Outputs:
        """What is new of the rows."""
        new = here.arranged().new
        if not len(new):
            return [None, None]
        return self.finished(*locked_rows(new, self.spec, here.label))

    @property
    def word(self) -> Kind:
        """Of ``update_time()`` another one: it has no right side."""
        return "update time" if self.spec.times else self.kind
