"""What the moments of a time mean: changes as collections, and what they add up to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from altneu.operators.node import Columns, Node, Unary, same_columns

MOMENT_NAMES = ("alt", "neu")


@dataclass(frozen=True, eq=False)
class Moments(Unary):
    """What goes into a scope of moments, two for each time, or out of it.

    ``level`` is that of the innermost loop that was being written (-1: none): the times are those there. ``depth``
    counts the scopes of moments inside one another at that level, from 1.
    """

    depth: int = 1
    level: int = -1

    def describe(self) -> str:
        """Which scope."""
        return f"{self.level}.{self.depth}"

    def lineage(self, i: int) -> Mapping[str, str]:
        """All columns."""
        return {n: n for n in self.schema.names}

    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """The same rows."""
        return same_columns(self.input, known)

    def reads(self, i: int, needed: Columns) -> Columns:
        """What is needed."""
        return needed

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """As the input."""
        return empty[0]

    @property
    def moves_times(self) -> bool:
        """It does."""
        return True

    @property
    def arrival_verb(self) -> str | None:
        """None: loops and sources of two times have moments too."""
        return None

    @property
    def is_by_arrival(self) -> bool:
        """Not on its way in: moments are of the time that a row has."""
        return False

    @property
    def reads_times(self) -> bool:
        """It does: each has two moments."""
        return True


@dataclass(frozen=True, eq=False)
class _Entering(Moments):
    """Into a scope of moments."""

    def free(self, below: frozenset[int]) -> frozenset[int]:
        """The loop whose times have these moments is one that is read."""
        return below | {self.level} if self.level >= 0 else below

    def moments(self, below: dict[int, int]) -> dict[int, int]:
        """The scope that it makes."""
        return below | {self.level: self.depth}


@dataclass(frozen=True, eq=False)
class Differentiate(_Entering, tag="Differentiate"):
    """The changes of a collection, each present at the earlier moment of its time and removed at the later one."""

    def is_consolidated(self, inputs: Sequence[bool]) -> bool:
        """As the input."""
        return inputs[0]


@dataclass(frozen=True, eq=False)
class ToNeu(_Entering, tag="ToNeu"):
    """A collection in a scope of moments, each change at the later moment of its time."""


@dataclass(frozen=True, eq=False)
class TellMoment(Moments, tag="TellMoment"):
    """Each change with a column that says its moment, all at the earlier one, so that none is forgotten."""

    column: str = "moment"

    def _schema(self) -> pa.Schema:
        """The columns, then that of the moment."""
        return pa.schema([*self.input.schema, pa.field(self.column, pa.string(), nullable=False)])

    def describe(self) -> str:
        """Which scope, and what the column is called."""
        return f"{self.level}.{self.depth} {self.column}"

    @property
    def title(self) -> str:
        """The column."""
        return f"moments as {self.column}"

    def lineage(self, i: int) -> Mapping[str, str]:
        """All columns but that of the moment."""
        return {n: n for n in self.input.schema.names}

    def reads(self, i: int, needed: Columns) -> Columns:
        """What is needed of the others."""
        return needed - {self.column}

    def at_least(self, needed: Columns) -> Columns:
        """The column of the moment, which is always made, and one other: rows without columns are none."""
        own = needed - {self.column} or frozenset(self.input.schema.names[:1])
        return own | {self.column}

    def shown(self, i: int) -> Mapping[str, str]:
        """All columns of the input."""
        return {n: n for n in self.input.schema.names}

    def is_consolidated(self, inputs: Sequence[bool]) -> bool:
        """As the input: what is at another moment is another row."""
        return inputs[0]

    @property
    def is_by_arrival(self) -> bool:
        """When a change was is what it says."""
        return True


@dataclass(frozen=True, eq=False)
class Integrate(Moments, tag="Integrate"):
    """What earlier moments add up to, at the times outside the scope; later moments are forgotten."""

    def is_consolidated(self, inputs: Sequence[bool]) -> bool:
        """As the input."""
        return inputs[0]

    @property
    def is_by_arrival(self) -> bool:
        """It forgets later moments."""
        return True

    def same_as(self, sets: Sequence[bool], consolidated: Sequence[bool]) -> Node | None:
        """What was differentiated right before."""
        below = self.input
        is_inverse = isinstance(below, Differentiate) and (below.depth, below.level) == (self.depth, self.level)
        return below.inputs[0] if is_inverse else None

    def moments(self, below: dict[int, int]) -> dict[int, int]:
        """Out of the scope."""
        inside = below.get(self.level)
        return below if inside is None else below | {self.level: min(inside, self.depth - 1)}
