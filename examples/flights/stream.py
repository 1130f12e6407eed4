"""The days as streams of files: a process of its own follows them, may be killed, and another one goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

import altneu as an
from altneu.streams import Status
from examples.flights import data
from examples.flights.pipeline import ENOUGH_FLIGHTS, views
from examples.flights.run import open_session
from examples.flights.tables import attached, tables_of
from examples.report import StepRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STREAMS = ("flights", "weather")
OPTIONS = {"time": {"flights": "time", "weather": "published"}, "diff": {"flights": "diff"}}
"""Rows come at their own times, and a time is closed when both streams have shown a later one."""

_FIRST_FILE = 1_400_000_000  # Spark takes files in the order of their modification times, and a second tells two apart


def write_days(stream: data.Stream, folder: Path, lower: int, upper: int) -> dict[str, int]:
    """Write the days from that of ``lower`` up to ``upper`` as files, one a day and stream, where they are not there.

    The result says how many updates the files of each stream have.
    """
    for day in range(lower - lower % data.DAY, upper, data.DAY):
        _write(stream.between(day, day + data.DAY), folder / "flights", day)
        _write(stream.published(day, day + data.DAY), folder / "weather", day)
    return {name: pl.scan_parquet(folder / name / "*.parquet").select(pl.len()).collect().item() for name in STREAMS}


def _write(frame: pl.DataFrame, folder: Path, tick: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{data.day_of(tick)}.parquet"
    if not path.exists():
        hidden = folder / f".{path.name}"
        frame.write_parquet(hidden)
        os.utime(hidden, (_FIRST_FILE + tick // data.DAY,) * 2)
        hidden.rename(path)  # whole, or not there


@dataclass(frozen=True)
class Said:
    """What a follower says of a step: the stream that it was of, and what it took and made.

    Units:  ``commit`` is the number of the step's commit, ``seen`` the greatest time that ever came in the stream.
    """

    stream: str
    seen: int
    commit: int
    seconds: float
    changes_in: int
    changes_out: dict[str, int]
    state_rows: int
    placement: str


class Follower:
    """A process that follows the streams: what it says, a line a step, until it has ended or was killed."""

    def __init__(  # what it is to do, each by its name
        self,
        folder: Path,
        state: Path,
        stop: int,
        *,
        local: bool,
        enough: int = ENOUGH_FLIGHTS,
        port: int | None = None,
        tables: bool = False,
    ) -> None:
        work = {"folder": str(folder), "state": str(state), "stop": stop, "local": local, "enough": enough}
        work |= {"port": port, "tables": tables}
        command = [sys.executable, "-m", "examples.flights.stream", json.dumps(work)]
        self.log = folder / "follower.log"
        with self.log.open("w") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )

    def said(self) -> Iterator[Said]:
        """What it says, as it says it; whoever stops listening ends it.

        Raises:
            RuntimeError: it failed.
        """
        assert self.process.stdout is not None
        try:
            with self.process.stdout as lines:
                for line in lines:
                    yield Said(**json.loads(line))
                if self.process.wait():
                    raise RuntimeError(f"the process that follows the streams failed: {self.log.read_text()[-5000:]}")
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill it and its Spark where they stand (SIGKILL): no chance to say or save anything."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Days:
    """The days that followers have told of, each as the step of its flights and all up to that of the next day's."""

    def __init__(self) -> None:
        self.records: list[StepRecord] = []
        self._steps: list[Said] = []

    def add(self, said: Said) -> StepRecord | None:
        """The day before, when another one begins."""
        begins = said.stream == "flights" and any(step.stream == "flights" for step in self._steps)
        record = self.end() if begins else None
        self._steps.append(said)
        return record

    def end(self) -> StepRecord:
        """The last day, when nothing more is to come."""
        steps, self._steps = self._steps, []
        day = data.day_of(next(step.seen for step in steps if step.stream == "flights"))
        out = {name: sum(step.changes_out[name] for step in steps) for name in steps[0].changes_out}
        changes, seconds = sum(step.changes_in for step in steps), sum(step.seconds for step in steps)
        last = steps[-1]
        label = f"{day:%a} {day.day:2} {day:%b}"
        self.records.append(StepRecord(label, seconds, changes, out, last.state_rows, last.placement))
        return self.records[-1]


def streams_of(spark: SparkSession, folder: str) -> dict[str, DataFrame]:
    """The streams of the files in a folder, a file a micro-batch."""

    def files(name: str) -> DataFrame:
        path = f"{folder}/{name}"
        schema = spark.read.parquet(path).schema
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(path)

    return {name: files(name) for name in STREAMS}


def follow(  # what it is to do, each by its name
    folder: str, state: str, stop: int, *, local: bool, enough: int, port: int | None, tables: bool
) -> None:
    """Follow files or tables to the end of what is there, then close all times before ``stop``; say every step."""
    spark = None if local and tables else an.spark_session(app_name="altneu: flights, streams")
    with open_session(None if local else spark, Path(state), port) as session, ExitStack() as stack:
        for name, view in views(enough).items():
            session.maintain(name, view)

        def say(stream: str, seen: int, seconds: float, step: an.Step) -> None:
            out = dict(step.changes_out)
            made = seconds, step.changes_in, out, step.state_rows, step.placement
            print(json.dumps(asdict(Said(stream, seen, session.store.number, *made))), flush=True)

        def look(status: Status, step: an.Step) -> None:
            say(status.name, status.seen or 0, status.last_seconds, step)

        if tables:
            stack.enter_context(attached(session, folder))
        given = tables_of(folder) if tables else streams_of(spark, folder)
        with session.follow(given, available_now=True, on_step=look, **OPTIONS) as following:
            following.wait()
        if session.lower < stop:  # the last times are open, for more could come
            step = session.advance(to=stop)
            say("end", stop, step.seconds, step)


if __name__ == "__main__":
    follow(**json.loads(sys.argv[1]))
