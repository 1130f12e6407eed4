"""Case k: one-row micro-batches of Structured Streaming, followed by a session beside Spark's own stateful query."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import altneu as an
from bench.inputs import FOLDER, generator
from bench.scale import Scale
from bench.tables import Findings, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

GROUPS, SHARDS = 100, 2
VIEW = an.source("events", "k long, v long").filter("v >= 100").group_by("k").agg(n="count(*)", total="sum(v)")


@dataclass
class Batches:
    """Micro-batches of one contender: seconds of each run, milliseconds of each batch and of its own part of it."""

    seconds: list[float] = field(default_factory=list)
    batch: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)

    def add(self, seconds: float, query: StreamingQuery) -> None:
        """Add a run; what Spark reports of its first batch, in which everything is started, is left out."""
        self.seconds.append(seconds)
        for progress in query.recentProgress[1:]:
            durations = progress.durationMs
            self.batch.append(durations["triggerExecution"])
            self.own.append(durations["addBatch"])


def files(folder: Path, count: int) -> None:
    """Files of one row each, which come in this order."""
    rng = generator("following")
    for i in range(count):
        path = folder / f"{i}.parquet"
        row = {"k": [int(rng.integers(GROUPS))], "v": [int(rng.integers(1000))]}
        pq.write_table(pa.table(row), path)
        os.utime(path, (1_700_000_000 + i,) * 2)


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    """A micro-batch a file."""
    return spark.readStream.schema("k long, v long").option("maxFilesPerTrigger", 1).parquet(str(folder))


def follow(spark: SparkSession | None, frame: DataFrame, scratch: Path) -> StreamingQuery:
    """A durable session, a synced commit a micro-batch."""
    opened = an.Session(path=scratch / "state") if spark is None else an.Session(spark, scratch / "state")
    with opened as session:
        session.maintain("view", VIEW)
        with session.follow(events=frame, available_now=True) as following:
            following.wait()
        return following.queries["events"]


def aggregate(frame: DataFrame, scratch: Path) -> StreamingQuery:
    """The same query by Spark, its state in its own store, updates to a sink that discards them."""
    counted = frame.where("v >= 100").groupBy("k").agg({"*": "count", "v": "sum"})
    return run(counted.writeStream.outputMode("update").format("noop"), scratch)


def nothing(frame: DataFrame, scratch: Path) -> StreamingQuery:
    """What every micro-batch costs, with nothing done to it."""
    return run(frame.writeStream.foreachBatch(lambda *_: None), scratch)


def run(writer: object, scratch: Path) -> StreamingQuery:
    """Take all that is there."""
    query: StreamingQuery = writer.option("checkpointLocation", str(scratch)).trigger(availableNow=True).start()  # type: ignore[attr-defined]
    query.awaitTermination()
    return query


def measure(scale: Scale) -> Findings:
    """All contenders in turns."""
    count = min(scale.changes // 10, 80)  # Spark remembers the progress of a hundred
    spark = an.spark_session("altneu bench", f"local[{SHARDS}]", config={"spark.sql.shuffle.partitions": SHARDS})
    contenders: dict[str, Callable[[DataFrame, Path], StreamingQuery]] = {
        "Spark, stateful aggregation": aggregate,
        "altneu on Spark, durable": lambda frame, scratch: follow(spark, frame, scratch),
        "altneu, local, durable": lambda frame, scratch: follow(None, frame, scratch),
        "Spark, nothing done": nothing,
    }
    result = {name: Batches() for name in contenders}
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=FOLDER) as folder:
        place = Path(folder).absolute()
        rows = place / "rows"
        rows.mkdir()
        files(rows, count)
        for turn in range(scale.turns + 1):  # the first is for warming
            for i, (name, contender) in enumerate(contenders.items()):
                print(f"k. {name}")
                scratch = place / f"{turn}-{i}"
                scratch.mkdir()
                started = time.perf_counter()
                query = contender(stream(spark, rows), scratch)
                if turn:
                    result[name].add(time.perf_counter() - started, query)
    note = (
        f"{count} files of one row, {scale.turns} runs in turns, of which the quickest counts for steps/s; {SHARDS} "
        "shuffle partitions; files, states and checkpoints on a local disk. Own: what Spark calls addBatch, the work "
        "on the rows; the rest is its logs, and looking for files."
    )
    columns = ["", "steps/s", "batch p50, ms", "batch p99, ms", "of it own, p50 ms", "against the aggregation"]
    table = Table("k. one-row micro-batches of Structured Streaming", columns, notes=[note])
    wanted = min(result["Spark, stateful aggregation"].seconds)
    for name, batches_of_one in result.items():
        least, own = min(batches_of_one.seconds), np.median(batches_of_one.own)
        p50, p99 = np.percentile(batches_of_one.batch, [50, 99])
        table.add(name, f"{count / least:.1f}", f"{p50:.0f}", f"{p99:.0f}", f"{own:.0f}", f"{wanted / least:.2f}x")
    return Findings([table])
