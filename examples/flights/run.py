"""The run: load some months at once, then keep the views right day by day, then ask Spark whether they are."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import altneu as an
from examples.flights import data, verify
from examples.flights.pipeline import ENOUGH_FLIGHTS, views
from examples.report import StepRecord

if TYPE_CHECKING:
    import polars as pl
    from pyspark.sql import DataFrame, SparkSession

    from altneu import Session, View

OnDay = Callable[[StepRecord], None]


def month_start(month: int) -> date:
    """The first of a month of 2013, 13 being January 2014.

    >>> month_start(13)
    datetime.date(2014, 1, 1)
    """
    return date(2013 + (month - 1) // 12, (month - 1) % 12 + 1, 1)


@dataclass(frozen=True)
class Verdict:
    """What Spark says of one view: ``problem`` is None when both answers are equal."""

    view: str
    rows: int
    recompute_seconds: float
    problem: str | None

    @property
    def equal(self) -> bool:
        """Whether nothing was found to differ."""
        return self.problem is None


class Pipeline:
    """A session that maintains the seven views over one stream of flights.

    ``record`` keeps what every step cost, as the report wants it; the bulk load is ``bulk`` and not among them.
    """

    def __init__(self, session: Session, stream: data.Stream, enough: int = ENOUGH_FLIGHTS) -> None:
        self.session, self.stream, self.enough = session, stream, enough
        self.views: dict[str, View] = {name: session.maintain(name, view) for name, view in views(enough).items()}
        self.bulk: StepRecord | None = None
        self.days: list[StepRecord] = []

    @property
    def lower(self) -> int:
        """The first tick that is not closed yet; beyond 0 when the session came back from its folder."""
        return int(self.session.lower)

    def load(self, updates: pl.DataFrame | DataFrame, upper: int) -> StepRecord:
        """Insert planes (as Debezium events), airlines, and what happens before ``upper``; compute the views once."""
        self.session.insert("planes", data.plane_events())
        self.session.insert("airlines", data.airlines())
        self.bulk = self._step("bulk load", updates, upper)
        return self.bulk

    def keep_up(self, until: int) -> Iterator[StepRecord]:
        """Go on day by day to the tick ``until``: insert a day's updates, advance to midnight, hand out the cost."""
        while self.lower < until:
            day = data.day_of(self.lower)
            upper = min(data.tick(day) + data.DAY, until)
            record = self._step(f"{day:%a} {day.day:2} {day:%b}", self.stream.between(self.lower, upper), upper)
            self.days.append(record)
            yield record

    def _step(self, label: str, updates: pl.DataFrame | DataFrame, upper: int) -> StepRecord:
        begin = time.perf_counter()
        self.session.insert("flights", updates, time="time", diff="diff")
        self.session.insert("weather", self.stream.published(self.lower, upper), time="published")
        step = self.session.advance(to=upper)
        seconds = time.perf_counter() - begin
        return StepRecord(label, seconds, step.changes_in, dict(step.changes_out), step.state_rows, str(step.placement))

    @property
    def median_day(self) -> float:
        """Median seconds of a day."""
        return statistics.median(day.seconds for day in self.days)

    def verdicts(self, spark: SparkSession, updates: Path, folder: Path, runs: int = 3) -> Iterator[Verdict]:
        """Have Spark compute every view from scratch, from ``updates`` as a Parquet file, and compare."""
        with verify.spark_tables(spark, updates, self.stream.weather, self.lower, folder):
            for name, view in self.views.items():
                anew = verify.recompute(spark, verify.query(name, self.lower - 1, self.enough), runs)
                problem = verify.difference(view.to_arrow(), anew.rows)
                yield Verdict(name, anew.rows.num_rows, anew.seconds, problem)


def open_session(spark: SparkSession | None, path: Path | None, port: int | None = None) -> Session:
    """Open a session on Spark, or in this process when ``spark`` is None; durable when there is a ``path``.

    With a ``port`` its page is there as long as it is.
    """
    where = None if path is None else str(path)
    session = an.Session(path=where) if spark is None else an.Session(spark, path=where)
    if port is not None:
        session.serve(port=port)
    return session
