"""Messages of a shard that wait for their turn: in memory while they are few, else in a temporary file by key hash."""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from collections.abc import Hashable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import IO, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.hashing import Hashes
from altneu.runtime.packed import Packed
from altneu.trace.update import Updates

BUCKETS = 256
_SHIFT = np.uint64(64 - 8)

_Part = tuple[int, int, int, tuple[pa.Schema, pa.Schema]]  # bucket, offset, bytes, the schemas of what is packed

Ends = npt.NDArray[np.int64]
"""Where the rows of each bucket end, after a 0."""

Cut = tuple[int, int]
"""A range of buckets: the first, and the one after the last."""


def hashes_of(cut: Cut) -> tuple[int, int]:
    """The key hashes of a range of buckets: the first, and the one after the last."""
    return cut[0] << int(_SHIFT), cut[1] << int(_SHIFT)


def bytes_of(updates: Updates) -> int:
    """What updates take up in memory."""
    return sum(c.nbytes for c in updates.rows.columns) + updates.times.nbytes + updates.diffs.nbytes


def ordered(updates: Updates, hashes: Hashes, packed: Packed | None = None) -> tuple[Packed, Ends]:
    """Updates in the order of their buckets, and where each bucket ends; ``hashes`` are those by which they lie.

    They may be ``packed`` already, which is what there will be if they are in order.
    """
    bucket = (hashes >> _SHIFT).astype(np.uint8)  # so narrow that NumPy sorts them by counting
    if (bucket[1:] < bucket[:-1]).any():
        packed = Packed.of(updates.take(np.argsort(bucket, kind="stable")))
    return packed or Packed.of(updates), np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=BUCKETS))])


def weights_of(packed: Packed, ends: Ends) -> npt.NDArray[np.int64]:
    """The bytes of each bucket's updates, once they are unpacked."""
    return np.diff(ends) * (packed.bytes_as_updates // max(len(packed), 1))


class Spill:
    """A temporary file of updates, by port and by the first bits of their hash; it goes with the process.

    >>> from altneu.columnar.rows import Rows
    >>> from altneu.columnar.hashing import hash_rows
    >>> rows = Rows.from_pydict({"k": list(range(1000))}, pa.schema([("k", pa.int64())]))
    >>> updates = Updates(rows, np.zeros((1, 1000), np.int64), np.ones(1000, np.int64))
    >>> with Spill() as spill:
    ...     spill.write("port", *ordered(updates, hash_rows(rows)))
    ...     sum(len(part) for cut in [(0, 100), (100, 256)] for part in spill.read("port", cut))
    1000
    """

    def __init__(self) -> None:
        folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]  # Spark's own, in its tasks
        self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder if Path(folder).is_dir() else None)  # noqa: SIM115
        self._parts: dict[Hashable, list[_Part]] = defaultdict(list)
        self._end = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, port: Hashable, updates: Packed, ends: Ends) -> None:
        """Put updates away that are in the order of their buckets."""
        schemas = updates.batch.schema, updates.schema
        for number, (start, stop) in enumerate(pairwise(ends.tolist())):
            if start < stop:
                data = updates.batch.slice(start, stop - start).serialize()
                self._file.write(data)
                self._parts[port].append((number, self._end, data.size, schemas))
                self._end += data.size

    def ports(self) -> list[Hashable]:
        """Where there is anything."""
        return list(self._parts)

    def read(self, port: Hashable, cut: Cut) -> Iterator[Updates]:
        """What there is for a port in a range of buckets, in the order in which it came."""
        self._file.flush()
        for bucket, offset, size, (stored, schema) in self._parts.get(port, ()):
            if cut[0] <= bucket < cut[1]:
                data = os.pread(self._file.fileno(), size, offset)
                yield Packed(pa.ipc.read_record_batch(pa.py_buffer(data), stored), schema).updates()
