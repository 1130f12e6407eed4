"""``python -m bench.cluster.bulk``: a bulk load that is larger than the memory of any process it passes through.

Rows with random keys are read from Parquet by a cluster of small executors, whose Python workers have 1 GB of addresses
each, and kept whole, distinct, counted and joined; a second load is merged with the first and taken back, a view comes
late, and the shards are doubled. What the views show is compared with Spark's own answers.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

import altneu as an
from bench.cluster import Cluster

FILE_ROWS = 1_000_000
KEY_SHARE = 5  # rows a key, on average
SAMPLE_SECONDS = 0.2
MIB = 1 << 20

EDGES = an.source("edges", "src long, dst long")
HUBS = an.source("hubs", "node long")
VIEWS = {
    "edges": EDGES,
    "counts": EDGES.group_by("src").agg(n="count(*)", total="sum(dst)"),
    "distinct": EDGES.select("dst").distinct(),
    "joined": EDGES.join(HUBS, on={"src": "node"}).select("src", "dst"),
}
LATE = EDGES.group_by("dst").agg(n="count(*)", least="min(src)")
SAID = {
    "edges": "select count(*), sum(src), sum(dst) from {edges}",
    "counts": "select count(distinct src), count(*), sum(dst) from {edges}",
    "distinct": "select count(*), sum(dst), min(dst) from (select distinct dst from {edges})",
    "joined": "select count(*), sum(src), sum(dst) from {edges} where src % 100 = 0",
    "late": "select count(*), sum(n), sum(least) from (select dst, count(*) n, min(src) least from {edges} group by 1)",
}
SHOWN = {
    "edges": "select count(*), sum(src), sum(dst) from {view}",
    "counts": "select count(*), sum(n), sum(total) from {view}",
    "distinct": "select count(*), sum(dst), min(dst) from {view}",
    "joined": "select count(*), sum(src), sum(dst) from {view}",
    "late": "select count(*), sum(n), sum(least) from {view}",
}


def write_edges(folder: Path, rows: int, keys: int, seed: int) -> None:
    """Random edges in files of a million."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    for number, start in enumerate(range(0, rows, FILE_ROWS)):
        count = min(FILE_ROWS, rows - start)
        table = pa.table({"src": rng.integers(0, keys, count), "dst": rng.integers(0, rows, count)})
        pq.write_table(table, folder / f"{number:03}.parquet")


class Watch:
    """The most memory that each kind of process has had, resident, in bytes."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.peaks = cluster, dict[str, int]()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    @contextmanager
    def running(self) -> Iterator[Watch]:
        """Looking, inside the block."""
        self._thread.start()
        try:
            yield self
        finally:
            self._stop.set()
            self._thread.join()

    def _look(self) -> None:
        own = psutil.Process()
        while not self._stop.wait(SAMPLE_SECONDS):
            self._note("driver, Python", [own])
            self._note("driver, Java", [p for p in own.children() if "java" in p.name()])
            for kind, result in (("executor", self.cluster.executors), ("Python worker", self.cluster.python_workers)):
                try:
                    self._note(kind, result())
                except psutil.Error:  # it ended while it was looked at
                    continue

    def _note(self, kind: str, processes: list[psutil.Process]) -> None:
        for process in processes:
            try:
                self.peaks[kind] = max(self.peaks.get(kind, 0), process.memory_info().rss)
            except psutil.NoSuchProcess:
                continue

    def __str__(self) -> str:
        return ", ".join(f"{kind} {most / MIB:,.0f} MB" for kind, most in sorted(self.peaks.items()))


class Load:
    """One session over the files, step by step, each timed."""

    def __init__(self, spark: Any, folder: Path, shards: int | None) -> None:
        self.spark, self.folder = spark, folder
        self.session = an.Session(spark, path=folder / "state", shards=shards)
        for name, plan in VIEWS.items():
            self.session.maintain(name, plan)
        self.names = list(VIEWS)

    def frame(self, name: str) -> Any:
        """Rows of files."""
        return self.spark.read.parquet(str(self.folder / name))

    def timed(self, what: str, rows: int, work: Callable[[], object]) -> None:
        """Do something, and say how long it took."""
        start = time.perf_counter()
        work()
        seconds = time.perf_counter() - start
        click.echo(f"{what:<28}{rows:>12,} rows {seconds:8.1f} s {rows / seconds:>12,.0f} rows/s")

    def check(self, edges: Any) -> None:
        """Compare every view with what Spark says of all rows that are there.

        Raises:
            AssertionError: they differ.
        """
        for name in self.names:
            shown = self.spark.sql(SHOWN[name], view=self.session.view(name).df()).collect()
            wanted = self.spark.sql(SAID[name], edges=edges).collect()
            if shown != wanted:
                raise AssertionError(f"view {name} shows {shown}, and Spark says {wanted}")
        click.echo(f"  right: {', '.join(self.names)}")

    def run(self, rows: int) -> None:
        """The first load, a second one, a retraction, a late view."""
        session, more = self.session, max(rows // 10, 1)
        session.insert("hubs", pa.table({"node": np.arange(0, max(rows // KEY_SHARE, 1), 100)}))
        session.insert("edges", self.frame("first"))
        self.timed("load", rows, session.advance)
        self.check(self.frame("first"))
        session.insert("edges", self.frame("second"))
        self.timed("second load", more, session.advance)
        self.check(self.frame("first").union(self.frame("second")))
        session.retract("edges", self.frame("second"))
        self.timed("retraction of the second", more, session.advance)
        self.timed("late view", rows, lambda: session.maintain("late", LATE))
        self.names.append("late")
        self.check(self.frame("first"))
        before = session.shards
        self.timed(f"reshard {before} to {2 * before}", rows, lambda: session.reshard(2 * before))
        self.check(self.frame("first"))
        session.close()


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--rows", default=20_000_000, help="Rows of the load.")
@click.option("--workers", default=2, help="Workers of one core.")
@click.option("--shards", default=None, type=int, help="Shards of the state; as many as cores if not given.")
@click.option("--memory", default="1g", help="Of each executor, and of each Python worker (its addresses).")
@click.option("--driver-memory", default="2g", help="Of the driver's Java.")
def main(rows: int, workers: int, shards: int | None, memory: str, driver_memory: str) -> None:
    """Load, add, retract and hydrate on a cluster of small executors, and compare with Spark."""
    config = {
        "spark.driver.memory": driver_memory,
        "spark.executor.memory": memory,
        "spark.executor.pyspark.memory": memory,
    }
    with tempfile.TemporaryDirectory(prefix="altneu-bulk-") as name, Cluster(workers, memory="3g") as cluster:
        folder = Path(name)
        write_edges(folder / "first", rows, max(rows // KEY_SHARE, 1), seed=1)
        write_edges(folder / "second", max(rows // 10, 1), max(rows // KEY_SHARE, 1), seed=2)
        spark = cluster.session("bulk", config)
        try:
            with Watch(cluster).running() as watch:
                Load(spark, folder, shards).run(rows)
            click.echo(f"most memory: {watch}")
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
