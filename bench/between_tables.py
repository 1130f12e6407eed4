"""Case u: a Delta table that is followed and another one that is kept; and a pipeline that is run a second time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

import altneu as an
from bench.cluster.server import ConnectServer
from bench.inputs import FOLDER, generator
from bench.scale import Scale
from bench.tables import Findings, Table

ROWS, COMMITS = {"full": 1_000_000, "quick": 100_000}, {"full": 1_000, "quick": 100}
DAYS, CHANGED, SAMPLES = 20, 0.001, 5
ORDERS = an.source("orders", "id long, customer long, price long, day long")
QUERY = ORDERS.group_by("customer").agg(n="count(*)", total="sum(price)", dearest="max(price)")
KEY = "customer"
DATASETS = ("orders", "customers", "sold", "by_city", "by_day", "dearest")
PROJECT = """
from pyspark import pipelines as dp
from pyspark.sql import Window
from pyspark.sql import functions as F

DATA = spark.conf.get("bench.data")

@dp.materialized_view
def orders():
    return spark.read.schema("id LONG, customer LONG, price LONG, day LONG").parquet(f"{DATA}/orders").filter("price > 0")

@dp.materialized_view
def customers():
    return spark.read.schema("customer LONG, city LONG").parquet(f"{DATA}/customers")

@dp.materialized_view
def sold():
    return spark.read.table("orders").join(spark.read.table("customers"), "customer")

@dp.materialized_view
def by_city():
    return spark.read.table("sold").groupBy("city").agg(F.count("*").alias("n"), F.sum("price").alias("total"))

@dp.materialized_view
def by_day():
    return spark.read.table("orders").groupBy("day").agg(F.max("price").alias("most"), F.avg("price").alias("mean"))

@dp.materialized_view
def dearest():
    place = F.row_number().over(Window.partitionBy("city").orderBy(F.desc("price"), "id"))
    return spark.read.table("sold").select("city", "id", "price", place.alias("place")).filter("place <= 10")
"""  # noqa: E501  # a file of its own


@dataclass
class Kept:
    """Seconds of each commit: of following it, of keeping the view, and of delta-rs's merge of the same rows alone."""

    followed: list[float] = field(default_factory=list)
    kept: list[float] = field(default_factory=list)
    merged: list[float] = field(default_factory=list)
    changes: list[pa.Table] = field(default_factory=list)

    @property
    def whole(self) -> float:
        """The median of both together."""
        return float(np.median(np.add(self.followed, self.kept)))


def orders(rng: np.random.Generator, first: int, count: int, rows: int) -> pa.Table:
    """Orders with numbers from ``first`` on, of as many customers as a tenth of ``rows``."""
    ids = np.arange(first, first + count)
    return pa.table(
        {
            "id": ids,
            "customer": rng.integers(0, rows // 10, count),
            "price": rng.integers(1, 10_000, count),
            "day": ids % DAYS,
        }
    )


def change(path: str, rng: np.random.Generator, rows: int) -> None:
    """A commit: new prices of 0.1 % of the rows, all of one day, which is a partition."""
    day, count = int(rng.integers(DAYS)), int(rows * CHANGED)
    ids = DAYS * rng.choice(rows // DAYS, count, replace=False) + day
    source = pa.table({"id": ids, "price": rng.integers(1, 10_000, count)})
    merger = DeltaTable(path).merge(source, f"t.day = {day} AND t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_update({"price": "s.price"}).execute()


def follow(path: str, place: Path, prepare: Any) -> Kept:
    """Load the table, have ``prepare`` change it, and keep the view equal commit by commit."""
    result, kept = Kept(), place / "kept"
    with an.Session(path=place / "state") as session:
        view = session.maintain("view", QUERY)
        sink = an.sinks.delta(view, kept, key=[KEY])
        with session.follow(orders=an.delta(path), available_now=True) as following:
            following.wait()
        sink.run()
        shutil.copytree(kept, place / "alone")
        prepare()
        last = time.perf_counter()

        def on_step(*_: object) -> None:
            nonlocal last
            result.followed.append(time.perf_counter() - last)
            last = time.perf_counter()
            sink.run()
            result.kept.append(time.perf_counter() - last)
            rows = view.changes()
            result.changes.append(rows.filter(pc.greater(rows["diff"], 0)).drop_columns(["time", "diff"]))
            last = time.perf_counter()

        with session.follow(orders=an.delta(path), available_now=True, on_step=on_step) as following:
            following.wait()
    alone = str(place / "alone")
    for rows in result.changes:
        last = time.perf_counter()
        merger = DeltaTable(alone).merge(rows, f"t.{KEY} = s.{KEY}", source_alias="s", target_alias="t")
        merger.when_matched_update_all().when_not_matched_insert_all().execute()
        result.merged.append(time.perf_counter() - last)
    _check(path, str(kept))
    return result


def _check(path: str, kept: str) -> None:
    table = DeltaTable(path).to_pyarrow_table()
    wanted = table.group_by(KEY).aggregate([("price", "count"), ("price", "sum"), ("price", "max")])
    there = DeltaTable(kept).to_pyarrow_table().sort_by(KEY)
    wanted = wanted.select([KEY, "price_count", "price_sum", "price_max"]).rename_columns(there.column_names)
    if there != wanted.sort_by(KEY).cast(there.schema):
        raise AssertionError("the table that is kept is not the query's answer")


def recomputed(spark: Any, path: str, out: Path) -> list[float]:
    """Seconds in which Spark computes the query anew over the files of the table, and writes it as Parquet."""
    files, seconds = DeltaTable(path).file_uris(), list[float]()
    for _ in range(SAMPLES + 1):  # the first is for warming
        started = time.perf_counter()
        query = spark.read.parquet(*files).groupBy(KEY).agg({"*": "count", "price": "sum"}).toDF(KEY, "n", "total")
        query.write.mode("overwrite").parquet(str(out))
        seconds.append(time.perf_counter() - started)
    return seconds[1:]


def tables(scale: Scale, spark: Any, place: Path) -> Table:
    """A table with a change feed, and one without."""
    rows, commits = ROWS[scale.name], COMMITS[scale.name]
    result = Table(
        f"u. following {commits:,} commits of a Delta table of {rows:,} rows, {CHANGED:.1%} changed in each",
        [
            "",
            "s a commit",
            "of it following",
            "of it keeping",
            "delta-rs's merge alone",
            "Spark anew",
            "Spark / altneu",
        ],
        notes=[
            f"Medians. A commit changes {int(rows * CHANGED):,} prices in one of {DAYS} partitions of one file each.",
            f"The view has count, sum and greatest price of {rows // 10:,} customers, as a Delta table with a key.",
            "Merge alone: the view's changes, merged into a copy of that table by deltalake.",
            "Spark anew: count and sum over the same files, into Parquet.",
            "In the end the table that is kept is the query's answer.",
        ],
    )
    for name, feed in (("change feed", "true"), ("files added and removed", "false")):
        print(f"u. {name}")
        rng, path = generator("between tables"), str(place / f"orders-{feed}")
        write_deltalake(
            path, orders(rng, 0, rows, rows), partition_by=["day"], configuration={"delta.enableChangeDataFeed": feed}
        )

        def prepare(path: str = path, rng: np.random.Generator = rng) -> None:
            for _ in range(commits):
                change(path, rng, rows)

        scratch = place / f"follow-{feed}"
        scratch.mkdir()
        kept = follow(path, scratch, prepare)
        anew = float(np.median(recomputed(spark, path, scratch / "anew")))
        parts = [float(np.median(part)) for part in (kept.followed, kept.kept, kept.merged)]
        shown = [f"{seconds:.3f}" for seconds in (kept.whole, *parts, anew)]
        result.add(name, *shown, f"{anew / kept.whole:.1f}x")
        shutil.rmtree(scratch)
        shutil.rmtree(path)
    return result


def pipeline(scale: Scale, server: ConnectServer, spark: Any, place: Path) -> Table:
    """Six materialized views by both commands, before and after a file of 0.1 % more rows."""
    rows, rng, data = ROWS[scale.name], generator("a pipeline"), place / "data"
    for name in ("orders", "customers"):
        (data / name).mkdir(parents=True)
    each = rows // DAYS
    for i in range(DAYS):
        pq.write_table(orders(rng, i * each, each, rows), data / f"orders/{i}.parquet")
    people = pa.table({"customer": np.arange(rows // 10), "city": rng.integers(0, 100, rows // 10)})
    pq.write_table(people, data / "customers/0.parquet")
    result = Table(
        f"u. a pipeline of six materialized views over {rows:,} orders, run twice",
        ["", "first run, s", "second run, s", "first / second"],
        notes=[
            f"Before the second run a file of {int(rows * CHANGED):,} orders comes.",
            "A run is a process; that of spark-pipelines asks a server of Spark Connect that is started already.",
            "In the end the six tables are the same.",
        ],
    )
    commands = {
        "altneu pipelines run": [sys.executable, "-m", "altneu", "pipelines", "run"],
        "spark-pipelines run": [sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec"],
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(2):
        if turn:
            pq.write_table(orders(rng, rows, int(rows * CHANGED), rows), data / "orders/new.parquet")
        for name, command in commands.items():
            print(f"u. {name}, run {turn + 1}")
            spec = _project(place / name.partition(" ")[0], data)
            started = time.perf_counter()
            environment = os.environ | {"SPARK_REMOTE": server.url, "SPARK_CONNECT_MODE_ENABLED": "1"}
            subprocess.run([*command, str(spec)], check=True, env=environment, stdout=subprocess.DEVNULL)
            seconds[name].append(time.perf_counter() - started)
    for name, (first, second) in seconds.items():
        result.add(name, f"{first:.1f}", f"{second:.1f}", f"{first / second:.1f}x")
    for name in DATASETS:
        ours = pq.read_table(place / "altneu/storage/tables" / name)
        theirs = spark.table(name).toArrow().select(ours.column_names).cast(ours.schema)
        order = [(column, "ascending") for column in ours.column_names]
        if ours.sort_by(order) != theirs.sort_by(order):
            raise AssertionError(f"table {name} is not that of spark-pipelines")
    return result


def _project(folder: Path, data: Path) -> Path:
    """The files of the pipeline, with a storage of their own."""
    (folder / "files").mkdir(parents=True, exist_ok=True)
    (folder / "files" / "datasets.py").write_text(PROJECT)
    spec = folder / "spark-pipeline.yml"
    spec.write_text(
        f"name: bench\nstorage: file://{folder}/storage\nconfiguration:\n  bench.data: {data}\n"
        "libraries: [{glob: {include: files/**}}]\n"
    )
    return spec


def measure(scale: Scale) -> Findings:
    """Both halves."""
    from pyspark.sql import SparkSession

    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=FOLDER) as folder, ConnectServer() as server:
        place = Path(folder).absolute()
        spark = SparkSession.builder.remote(server.url).create()
        try:
            return Findings([tables(scale, spark, place), pipeline(scale, server, spark, place)])
        finally:
            spark.stop()  # while there is a server: at its end the process would wait for one
