"""Two views over reports with two times, kept day by day, and what they ought to say, computed from the reports."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

import altneu as an
from altneu import Collection, Session, View
from examples.corrections.data import COLUMNS, FLIGHTS, Reports

LATE = 240
"""Minutes after which an arrival is on the list of late ones."""


def views() -> dict[str, Collection]:
    """The views over the source ``flights``, by name: as it was ``known`` on a day, about flights up to a ``day``."""
    flights = an.source("flights", FLIGHTS, time=("known", "day"))
    carriers = flights.group_by("carrier").agg(flights="count(*)", mean="avg(minutes)", worst="max(minutes)")
    return {"carriers": carriers, "late": flights.filter(f"minutes >= {LATE}")}


def recomputed(reports: Reports, view: str, known: int, day: int) -> pl.DataFrame:
    """What a view ought to say at ``at=(known, day)``."""
    believed = reports.believed(known, day)
    if view == "late":
        return believed.filter(pl.col("minutes") >= LATE)
    return believed.group_by("carrier").agg(
        flights=pl.len().cast(pl.Int64), mean=pl.col("minutes").mean(), worst=pl.col("minutes").max()
    )


@dataclass(frozen=True)
class Day:
    """What a day's reports cost: of ``changes`` rows ``corrections`` were about ``past`` earlier days."""

    changes: int
    corrections: int
    past: int
    made: int
    seconds: float


class Pipeline:
    """A session that keeps the views, with every day on which anything was known still readable."""

    def __init__(self, session: Session, reports: Reports) -> None:
        self.session, self.reports = session, reports
        self.views: dict[str, View] = {name: session.maintain(name, view) for name, view in views().items()}

    def next_day(self) -> Day:
        """Take in what became known on the next day: the flights of that day, and corrections of earlier ones."""
        known = int(self.session.lower)
        updates = self.reports.updates(known)
        earlier = updates.filter(pl.col("day") < known)
        self.session.insert("flights", updates, time=("known", "day"), diff="diff")
        step = self.session.advance()
        made = sum(step.changes_out.values())
        return Day(len(updates), len(earlier) // 2, earlier["day"].n_unique(), made, step.seconds)

    def read(self, view: str, known: int, day: int) -> pl.DataFrame:
        """What a view says was known on one day about the flights up to another, by Spark if the session has it."""
        at = (known, day)
        table = self.views[view].to_arrow(at) if self.session.spark is None else self.views[view].df(at).toArrow()
        return pl.DataFrame(pl.from_arrow(table))

    def differences(self, known: int, day: int) -> list[str]:
        """The views that do not say what they ought to; a mean may differ in its last digits."""
        return [name for name in self.views if not self._equal(name, known, day)]

    def _equal(self, view: str, known: int, day: int) -> bool:
        kept, wanted = self.read(view, known, day), recomputed(self.reports, view, known, day)
        key = "carrier" if view == "carriers" else COLUMNS
        names = kept.columns
        kept, wanted = kept.sort(key), wanted.select(names).sort(key)
        if kept.height != wanted.height:
            return False
        near = [((kept[n] - wanted[n]).abs() < 1e-9).all() for n in names if n == "mean"]
        exact = [kept[n].eq_missing(wanted[n]).all() for n in names if n != "mean"]
        return all([*near, *exact])
