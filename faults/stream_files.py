"""A stream of files, and what follows it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import altneu as an
from altneu.runtime.spark.versions import spark_schema
from altneu.streams import Status

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

N = an.source("n", "k long, v long")
COUNTS = N.group_by("k").agg(n="count(*)", total="sum(v)")
LATE = an.late_rows(N)
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("time", pa.int64()), ("d", pa.int64())])


class Files:
    """A folder of files; its stream gives one a micro-batch, in the order in which they were put."""

    def __init__(self, spark: SparkSession, folder: Path, schema: pa.Schema = SCHEMA) -> None:
        self.spark, self.folder, self.schema, self.count = spark, folder, schema, 0
        folder.mkdir(exist_ok=True)

    def put(self, *rows: tuple[int, ...]) -> None:
        """One more file, of rows ``(k, v, time, d)``; what is left out at the end of a row is 0, and ``d`` 1."""
        whole = [(*row, *(0, 0, 1)[len(row) - 1 :]) for row in rows]
        self.put_table(pa.Table.from_pylist([dict(zip(self.schema.names, r, strict=True)) for r in whole], self.schema))

    def put_table(self, table: pa.Table) -> None:
        """One more file."""
        hidden, path = self.folder / ".new", self.folder / f"{self.count}.parquet"
        pq.write_table(table, hidden)
        self.count += 1
        os.utime(hidden, (1_700_000_000 + self.count,) * 2)  # Spark goes by this
        hidden.rename(path)

    def stream(self) -> DataFrame:
        """The files as a stream."""
        reader = self.spark.readStream.schema(spark_schema(self.schema))
        return reader.option("maxFilesPerTrigger", 1).parquet(str(self.folder))


def follow(session: an.Session, files: Files, name: str = "n", **options: Any) -> Status:
    """Follow to the end of what is there, of the columns of the files those of the source; the stream's status."""
    with session.follow({name: files.stream()}, available_now=True, **{"extra": "ignore", **options}) as following:
        assert following.wait(200), f"{name} goes on for ever"
    return following.status[name]
