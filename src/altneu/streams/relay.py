"""Micro-batches of Spark Connect: the server writes each into a folder, and this process takes them from there.

On Connect the function that Spark calls with a micro-batch runs beside the server and cannot reach a session. So it
writes the rows into a new folder, then an entry of a log: the batch, a checksum of Spark's plan of it, and the folder.
The batch is there once the entry is, and no write that was given up, and may still go on, adds to its rows. A
batch that Spark repeats, because the server died before it had recorded the end, finds its entry and is not written
again. This process takes the batches in the order of their numbers, and commits each number together with the step of
its rows, as it does on classic Spark: so each counts once, whichever side is killed.

A file sink of Spark's would need no function, but Spark reads its log for itself alone: by no path can a client.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from altneu.errors import StreamError
from altneu.operators.source.keyed import ROW
from altneu.streams.record import REWIND, Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

GROUP = 10  # batches that are removed together: what is left of them is one empty folder
POLL = 0.1  # seconds between two questions how far the query is
_ENTRY = "batch long, plan string, place string"


class Relay:
    """The micro-batches of a query that runs on a server; the rows of one are in ``<folder>/relay``.

    With ``in_order`` each row has its position in the micro-batch.
    """

    repeats_any = True  # the rows of a batch are written once, before any is taken: they may be random

    def __init__(self, frame: DataFrame, *, in_order: bool) -> None:
        self._spark: SparkSession = frame.sparkSession
        self._names, self._in_order = [*frame.columns, *([ROW] if in_order else [])], in_order
        self._schema = _positional(frame.schema, in_order=in_order)
        self._frame = frame
        self._written: dict[int, tuple[str, str]] = {}  # plans and folders of batches that are known to be there
        self._next, self._stopped = 0, False

    def begin(self, folder: str, record: Record, restart: str | None) -> None:
        """Find the first batch to take.

        Cost:   three small jobs.

        Raises:
            StreamError: batches that the store lacks are no longer there.
        """
        self._checkpoint, self._folder = folder, f"{folder}/relay"
        known, upcoming = _query_of(self._spark, folder), _upcoming(self._spark, folder)
        self._look()
        if record.query not in (None, known):  # another query: the first batch says so, unless a restart allows it
            self._next = min(self._written, default=upcoming)
            return
        last = record.batch if record.batch in self._written else record.due
        self._next = min(last, upcoming)  # of the last one the plan is compared
        if self._next in self._written or self._next == upcoming:
            return
        if restart == REWIND:
            raise StreamError(
                f"batch {record.due} is no longer in {self._folder}, and on Spark Connect a checkpoint cannot be "
                f"set back: follow the stream once with a classic SparkSession and restart={REWIND!r}"
            )
        self._next = min((batch for batch in self._written if batch > self._next), default=upcoming)
        record.check_done(self._next - 1, restart)

    def start(self, writer: DataStreamWriter, take: Callable[[DataFrame, int], None]) -> StreamingQuery:
        """Start the query on the server."""
        self._take = take
        write = _writing(self._checkpoint, self._folder, in_order=self._in_order)
        return writer.foreachBatch(write).option("checkpointLocation", self._checkpoint).start()

    def run(self, query: StreamingQuery) -> None:
        """Take each batch that the query writes, until it has ended and none is left."""
        try:
            self._follow(query)
        except BaseException:
            self.stop(query)  # which would go on without this process
            raise
        error = query.exception()
        if error is not None:
            raise error

    def stop(self, query: StreamingQuery) -> None:
        """Stop the query; one whose server is gone, or knows the session no longer, is stopped already."""
        self._stopped = True
        with suppress(Exception):
            query.stop()

    def _follow(self, query: StreamingQuery) -> None:
        told: Any = None
        while not self._stopped:
            active, progress = query.isActive, query.lastProgress  # asked first: what is written later is not missed
            if progress != told or not active:
                told = progress
                self._look()
                while self._next in self._written:
                    self._take(self._rows(self._next), self._next)
                    self._remove(self._next)
                    self._next += 1
                if not active:
                    break
            time.sleep(POLL)

    def plan_of(self, batch: int) -> str | None:
        """A checksum of Spark's plan of a batch, None of one that is not there."""
        return self._written[batch][0] if batch in self._written else None

    def _look(self) -> None:
        """Read the log: the batches that are there and have not been removed."""
        path = f"{_literal(self._folder)}/*/*/log"
        rows = _found(self._spark.read.schema(_ENTRY).json, path)
        self._written = {int(row.batch): (row.plan, row.place) for row in sorted(rows)}

    def _rows(self, batch: int) -> DataFrame:
        path = f"{self._folder}/{batch // GROUP}/{batch}/{self._written[batch][1]}"
        return self._spark.read.schema(self._schema).parquet(_literal(path)).toDF(*self._names)

    def _remove(self, taken: int) -> None:
        """Remove the groups of batches before that of the batch that was taken last; a client can only overwrite."""
        for group in sorted({batch // GROUP for batch in self._written if batch // GROUP < taken // GROUP}):
            self._spark.range(0).write.mode("overwrite").parquet(f"{self._folder}/{group}")
            self._written = {b: entry for b, entry in self._written.items() if b // GROUP != group}


def _writing(checkpoint: str, folder: str, *, in_order: bool) -> Callable[[DataFrame, int], None]:
    """The function that the server's Python calls with a micro-batch; sent by value, it needs no altneu there."""
    of_group, row_name, entry, found, literal = GROUP, ROW, _ENTRY, _found, _literal  # by value, not by this module

    def write(frame: DataFrame, batch: int) -> None:
        import hashlib
        import uuid

        from pyspark.sql import functions as sf

        session, at = frame.sparkSession, f"{folder}/{batch // of_group}/{batch}"
        planned = session.read.text(literal(f"{checkpoint}/offsets/{batch}"), wholetext=True).collect()[0].value
        plan = hashlib.blake2b(planned.encode(), digest_size=16).hexdigest()
        if any(row.plan == plan for row in found(session.read.schema(entry).json, literal(f"{at}/log"))):
            return
        rows = frame.withColumn(row_name, sf.monotonically_increasing_id()) if in_order else frame
        place = f"rows-{uuid.uuid4().hex}"
        rows.toDF(*(f"c{i}" for i in range(len(rows.columns)))).write.parquet(f"{at}/{place}")
        log = session.createDataFrame([(batch, plan, place)], entry).coalesce(1)
        log.write.mode("overwrite").json(f"{at}/log")

    return write


def _helpers() -> tuple[Callable[[Callable[[str], DataFrame], str], list[Any]], Callable[[str], str]]:
    """Two functions that are sent to the server by value, as it does with those that are made inside of others."""

    def found(read: Callable[[str], DataFrame], path: str) -> list[Any]:
        """The rows at a path, none where nothing is there."""
        from pyspark.errors import AnalysisException

        try:
            return read(path).collect()
        except AnalysisException as error:
            if error.getCondition() != "PATH_NOT_FOUND":
                raise
            return []

    def literal(path: str) -> str:
        """A path that Spark takes as it is: it would match a pattern otherwise."""
        return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)

    return found, literal


_found, _literal = _helpers()


def _query_of(spark: SparkSession, folder: str) -> str | None:
    """The id of the query that a checkpoint is of, None of a new one."""
    rows = _found(spark.read.text, _literal(f"{folder}/metadata"))
    return json.loads(rows[0].value)["id"] if rows else None


def _upcoming(spark: SparkSession, folder: str) -> int:
    """The batch that Spark has yet to end: the one after the last whose end it has recorded."""
    names = _found(
        lambda path: spark.read.format("binaryFile").load(path).select("_metadata.file_name"),
        _literal(f"{folder}/commits"),
    )
    return max((int(row.file_name) + 1 for row in names if row.file_name.isdigit()), default=0)


def _positional(schema: StructType, *, in_order: bool) -> StructType:
    """The columns by their positions: their names may be such that files cannot have them."""
    from pyspark.sql.types import LongType, StructType

    types = [*(field.dataType for field in schema), *([LongType()] if in_order else [])]
    result = StructType()
    for i, data_type in enumerate(types):
        result = result.add(f"c{i}", data_type)
    return result
