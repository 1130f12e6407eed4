"""What collections mean that are defined by what they were at earlier times."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from altneu.operators.loop.node import Variable
from altneu.operators.node import Node, Whole


class _OverTime(Whole):
    """What depends on the times at which changes come, because a change at one is another at the next."""

    is_sum = False

    @property
    def reads_times(self) -> bool:
        """A change comes back so many ticks later."""
        return True

    @property
    def is_by_arrival(self) -> bool:
        """What is there depends on what was."""
        return True

    @property
    def arrival_verb(self) -> str | None:
        """Its verb."""
        return "feedback"


@dataclass(frozen=True, eq=False)
class Recurrence(_OverTime, tag="Recurrence"):
    """Variables that are at each time what ``bodies`` made of them so many ticks (``by``) before; at first, nothing.

    No collection itself: ``Recurred`` is what a body makes. The bodies read ``Variable``s of its ``level``.
    """

    names: tuple[str, ...]
    schemas: tuple[pa.Schema, ...]
    bodies: tuple[Node, ...]
    level: int
    by: tuple[int, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The bodies."""
        return self.bodies

    def _schema(self) -> pa.Schema:
        """That of the first variable."""
        return self.schemas[0]

    def variable(self, index: int) -> Variable:
        """A variable as the bodies read it."""
        return Variable(self.level, index, self.schemas[index])

    def describe(self) -> str:
        """Names and ticks."""
        return f"{self.names} {self.level} {self.by}"

    def free(self, below: frozenset[int]) -> frozenset[int]:
        """Its own variables are part of it."""
        return below - {self.level}


@dataclass(frozen=True, eq=False)
class Recurred(_OverTime, tag="Recurred"):
    """What the body of a variable makes at each time, which the variable is some ticks later."""

    recurrence: Recurrence
    index: int

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The recurrence."""
        return (self.recurrence,)

    def _schema(self) -> pa.Schema:
        """That of the variable."""
        return self.recurrence.schemas[self.index]

    def describe(self) -> str:
        """Which variable."""
        return str(self.index)

    @property
    def title(self) -> str:
        """The variable."""
        names = self.recurrence.names
        return f"{names[self.index]} of the feedback over {', '.join(names)}"
