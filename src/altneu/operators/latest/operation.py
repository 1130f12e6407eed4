"""The latest event of each key, as rows."""

from __future__ import annotations

from dataclasses import dataclass

from altneu.operators.base import BY_KEY, CHANGE, Here, Hosting, Outputs
from altneu.operators.latest.events import current


@dataclass(frozen=True)
class LatestOp(Hosting, tag="LatestOp", kind="latest"):
    """The rows of an arrangement of latest events; output 1 the errors of those that were retracted."""

    at_each_time = whole = False  # what an event replaced is forgotten
    bound = CHANGE

    order: tuple[str, ...]

    @property
    def cost(self) -> str:
        """Of each key that has events the current one."""
        return BY_KEY

    def step(self, here: Here) -> Outputs:
        """What is new of the rows."""
        new = here.arranged().new
        if not len(new):
            return [None, None]
        own = new.layout.schema.remove(len(new.layout.schema) - 1)
        return self.finished(*current(new, own, self.order, here.label))
