"""What a report is made of: records of steps, tables and texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Cell = str | int | float | bool | None
"""A table's cell: a bool is shown as a tick or a cross, a number with its thousands apart."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of a run.

    Units:  ``seconds`` of wall clock; changes in consolidated updates; ``state_rows`` in rows held after the step.
    """

    label: str
    seconds: float
    changes_in: int
    changes_out: Mapping[str, int]
    state_rows: int
    placement: str = ""

    @property
    def total_out(self) -> int:
        """Changes of all views together."""
        return sum(self.changes_out.values())


@dataclass(frozen=True, slots=True)
class Table:
    """A table under a title, with a note below it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Text:
    """A text shown as it is, in a fixed pitch: a plan, a query, a log."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one page shows, from top to bottom: title, summary, facts, tables, charts over ``steps``, texts."""

    title: str
    summary: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    steps: Sequence[StepRecord] = ()
    tables: Sequence[Table] = ()
    texts: Sequence[Text] = ()


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least value that at least ``share`` of the values do not exceed (nearest rank, no interpolation).

    >>> percentile([4.0, 1.0, 2.0, 3.0], 0.5), percentile([1.0, 9.0], 0.99)
    (2.0, 9.0)

    Raises:
        ValueError: there are no values, or ``share`` is not in (0, 1].
    """
    if not values or not 0 < share <= 1:
        raise ValueError("a percentile needs at least one value and a share above 0 and up to 1")
    return sorted(values)[math.ceil(share * len(values)) - 1]
