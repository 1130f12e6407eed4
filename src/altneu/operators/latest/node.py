"""What the latest event of each key means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from altneu.operators.node import Columns, Key, Unary, all_columns


@dataclass(frozen=True, eq=False)
class Latest(Unary, tag="Latest"):
    """The input is a log of events; of each key, the one that is greatest in the order of some columns.

    Ties are decided by the whole row. An event that is there more than once counts once.
    """

    key: Key
    order: Key

    def describe(self) -> str:
        """Key and order."""
        return f"{self.key} {self.order}"

    def lineage(self, i: int) -> Mapping[str, str]:
        """The key: another test would choose another event."""
        return {k: k for k in self.key}

    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """The events of the key."""
        return {k: k for k in self.key if k in known}

    def reads(self, i: int, needed: Columns) -> Columns:
        """All columns, which decide ties."""
        return all_columns(self.input)

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """Where there is no event."""
        return empty[0]

    def is_set(self, inputs: Sequence[bool]) -> bool:
        """It is."""
        return True

    @property
    def moves_times(self) -> bool:
        """An event is removed when a later one arrives."""
        return True

    @property
    def reads_times(self) -> bool:
        """It does: it is about one time."""
        return True

    @property
    def is_by_arrival(self) -> bool:
        """It is not: the columns say which event is the latest."""
        return False

    @property
    def arrival_verb(self) -> str | None:
        """Its verb."""
        return "latest"

    @property
    def hosts(self) -> bool:
        """It does."""
        return True
