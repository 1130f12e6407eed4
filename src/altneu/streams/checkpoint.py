"""Spark's checkpoints: their folders, and their records; the micro-batches of a query whose JVM is here."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from altneu.errors import StreamError
from altneu.store import STREAMS, LocalFolder, Store
from altneu.streams.record import REWIND, Record

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class Called:
    """The micro-batches of a query of classic Spark, which calls a function of this process with each."""

    def __init__(self, frame: DataFrame) -> None:
        self._spark = frame.sparkSession
        self.repeats_any = bool(frame._jdf.queryExecution().analyzed().deterministic())

    def begin(self, folder: str, record: Record, restart: str | None) -> None:
        """Set the checkpoint back where that is asked for.

        Raises:
            StreamError: the store is older than the checkpoint.
        """
        self._folder = folder
        if restart == REWIND:
            rewind(self._spark, folder, record.due)
        record.check_done(last_done(self._spark, folder), restart)  # Spark may have nothing to give, and not ask

    def start(self, writer: DataStreamWriter, take: Callable[[DataFrame, int], None]) -> StreamingQuery:
        """Start the query."""
        return writer.foreachBatch(take).option("checkpointLocation", self._folder).start()

    def run(self, query: StreamingQuery) -> None:
        """Wait for the end of the query."""
        query.awaitTermination()

    def stop(self, query: StreamingQuery) -> None:
        """Stop the query after its current micro-batch."""
        query.stop()

    def plan_of(self, batch: int) -> str | None:
        """A checksum of Spark's plan of a batch, None of one that Spark has no file of."""
        return plan_of(self._spark, self._folder, batch)


def own_name(name: str) -> str:
    """The name of a stream's folder; without a point in it."""
    return quote(name, safe="").replace(".", "%2E")


def folder_of(store: Store, scratch: str | None, checkpoint: str | None, name: str, query: str | None = None) -> str:
    """The folder of a stream's checkpoint: in the folder given, or in that of the store.

    A checkpoint that came with a fork has the id of its ``query`` in its name.

    Raises:
        StreamError: the store is not in a local folder.
    """
    own = own_name(name)
    if checkpoint is not None:
        return f"{checkpoint.rstrip('/')}/{own}"
    if scratch is not None:
        return f"file:{scratch}/{own}"
    folder = getattr(store, "folder", None)
    if not isinstance(folder, LocalFolder):
        raise StreamError(
            "the store is not in a local folder: give a folder for the streams' checkpoints, checkpoint=..."
        )
    forked = f"{own}.{query}"
    return f"file:{folder.path}/{STREAMS}/{forked if (folder.path / STREAMS / forked).is_dir() else own}"


def plan_of(spark: SparkSession, folder: str, batch: int) -> str | None:
    """A checksum of Spark's plan of a batch: the file that it writes before it runs the batch.

    A batch that is repeated because its end was not recorded has the same file; one that was planned again after the
    checkpoint was set back has another. None for a batch that Spark has no file of.

    Cost:   a few calls into the JVM; no job.
    """
    jvm, path, files = _files(spark, f"{folder}/offsets/{batch}")
    if not files.exists(path):
        return None
    stream = files.open(path)
    try:
        text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    finally:
        stream.close()
    return hashlib.blake2b(str(text).encode(), digest_size=16).hexdigest()


def last_done(spark: SparkSession, folder: str) -> int | None:
    """The last batch whose end Spark has recorded; None for a new checkpoint."""
    _, path, files = _files(spark, f"{folder}/commits")
    names = [status.getPath().getName() for status in files.listStatus(path)] if files.exists(path) else []
    return max((int(name) for name in names if name.isdigit()), default=None)


def rewind(spark: SparkSession, folder: str, batch: int) -> None:
    """Set a checkpoint back to where ``batch`` is planned and not done, so that Spark runs it again.

    Spark plans later batches again, from the same position of the source; a file source returns the files that it had
    listed for them. Nothing happens if Spark has no record of the batch any more.
    """
    for kind, last in (
        ("commits", batch - 1),
        ("offsets", batch),
    ):  # in this order a crash leaves a checkpoint that runs
        _, path, files = _files(spark, f"{folder}/offsets/{batch}")
        if not files.exists(path):
            return
        for status in files.listStatus(path.getParent().getParent().suffix(f"/{kind}")):
            name = status.getPath().getName()
            if name.isdigit() and int(name) > last:
                files.delete(status.getPath(), False)


def _files(spark: SparkSession, name: str) -> tuple[Any, Any, Any]:
    """The JVM, a path of Hadoop's in it, and the file system that has it."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    path = jvm.org.apache.hadoop.fs.Path(name)
    return jvm, path, path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
