"""Whether the Python workers of a server can do the work of a session: import altneu, and read and write its store."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from altneu.runtime.spark.versions import failure_of, is_connect
from altneu.store import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MADE = b"altneu: written by the client\n"
_ANSWER = "says string"


def lacking(spark: SparkSession, folder: Folder) -> str | None:
    """What a server's workers lack for a session whose segments are in ``folder``, None if they lack nothing.

    Those of a Spark that this process runs are as it started them. Of a server one worker is asked: it imports altneu,
    reads a file that this process has written, and writes one that this process reads. Both files are removed.

    Cost:   one job of one task, of a server.
    """
    if not is_connect(spark):
        return None
    names = [f".reach-{uuid.uuid4().hex}-{side}.tmp" for side in ("client", "worker")]
    folder.put(names[0], _MADE)
    try:
        rows = spark.range(0, 1, 1, 1).mapInArrow(_asking(pickle.dumps(folder), names), _ANSWER).collect()
        said = [str(row.says) for row in rows]
        if said != ["ok"]:
            return said[0] if said else "Spark's workers give no answer"
        if not folder.has(names[1]) or bytes(folder.read(names[1])) != _MADE:
            return f"what Spark's workers write at {folder.where()} is not there for this process"
    except Exception as error:  # noqa: BLE001  # a platform may refuse in any way: what it says is the answer
        return f"Spark ran no job of Python: {failure_of(error).splitlines()[0][:300]}"
    finally:
        for name in names:
            if folder.has(name):
                folder.remove(name)
    return None


def _asking(pickled: bytes, names: list[str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that a worker runs: it is sent by value, so that one that lacks altneu can say so."""
    made = _MADE

    def look() -> str:
        import importlib
        import pickle

        try:
            importlib.import_module("altneu")
        except ImportError as error:
            return f"Spark's workers cannot import altneu ({error})"
        folder = pickle.loads(pickled)  # noqa: S301  # this process has made it
        try:
            read = bytes(folder.read(names[0]))
            folder.put(names[1], read, durable=False)
        except Exception as error:  # noqa: BLE001  # the file system's, the object store's or altneu's
            return f"Spark's workers cannot read and write the store: {error}"
        return "ok" if read == made else f"{folder.where()} is another folder for Spark's workers"

    def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"says": [look()]})

    return ask
