"""Which right row an as-of join meets."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AsOfRule:
    """Which right row a left row meets: the nearest in a direction, no further than ``tolerance`` units away.

    ``exact`` says whether its own timestamp counts. Of right rows with one timestamp the last is met in the order of
    ``ties`` (column, descending, nulls first) and then of the whole row.
    """

    direction: str
    tolerance: int | None
    exact: bool
    ties: tuple[tuple[str, bool, bool], ...] = ()

    def __str__(self) -> str:
        within = "" if self.tolerance is None else f", within {self.tolerance}"
        order = (f"{c}{' desc' * d}{_nulls(d, first)}" for c, d, first in self.ties)
        ties = f", ties by {', '.join(order)}" if self.ties else ""
        return f"{self.direction}{within}{'' if self.exact else ', no exact matches'}{ties}"

    def __repr__(self) -> str:
        ties = f", ties={self.ties!r}" * bool(self.ties)
        return f"AsOfRule(direction={self.direction!r}, tolerance={self.tolerance!r}, exact={self.exact!r}{ties})"


@dataclass(frozen=True)
class MixedSides:
    """An as-of join of groups that hold rows of both sides.

    ``side`` is true in left rows, ``stamp`` is the timestamp of either; ``left`` and ``right`` are columns of one side,
    null in rows of the other, and ``shown`` the right side's columns as (name, column), for errors. With ``keeps`` a
    left row that meets nothing has nulls.
    """

    side: str
    stamp: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    shown: tuple[tuple[str, str], ...]
    rule: AsOfRule
    keeps: bool


def _nulls(descending: bool, first: bool) -> str:
    """How an order says where nulls are, where it is not as usual."""
    return "" if first is not descending else f" nulls {'first' if first else 'last'}"
