"""Spark's checkpoints: where they are, and what they say of a batch."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from altneu.errors import StreamError
from altneu.store import LocalFolder, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def folder_of(store: Store, scratch: str | None, checkpoint: str | None, name: str) -> str:
    """Where the checkpoint of a stream is: in the folder given, or beside what the store has.

    Raises:
        StreamError: the store is in no local folder.
    """
    own = quote(name, safe="").replace(".", "%2E")
    if checkpoint is not None:
        return f"{checkpoint.rstrip('/')}/{own}"
    if scratch is not None:
        return f"file:{scratch}/{own}"
    folder = getattr(store, "folder", None)
    if not isinstance(folder, LocalFolder):
        raise StreamError("the store is in no local folder: say where the streams' checkpoints go, checkpoint=...")
    return f"file:{folder.path}/streams/{own}"


def plan_of(spark: SparkSession, folder: str, batch: int) -> str | None:
    """A checksum of what Spark planned a batch to hold: the file that it writes before the batch is run.

    A batch that comes again because it was not seen to end has the same file; one that was planned anew, after the
    checkpoint was put back to an earlier state, has another. None for a batch that Spark does not know, or no longer.

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
    """The last batch that Spark saw the end of; None of a checkpoint that is new."""
    _, path, files = _files(spark, f"{folder}/commits")
    names = [status.getPath().getName() for status in files.listStatus(path)] if files.exists(path) else []
    return max((int(name) for name in names if name.isdigit()), default=None)


def rewind(spark: SparkSession, folder: str, batch: int) -> None:
    """Set a checkpoint back to where ``batch`` is planned and not done, if it has gone further: Spark runs it again.

    What Spark planned for later batches it plans again, from the same place of the source; a file source gives what it
    had found for them. Nothing happens where Spark no longer knows what the batch held.
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
