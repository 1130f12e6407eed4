"""A store without files, for sessions in memory."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Collection, Iterable

import pyarrow as pa

from altneu.errors import StoreCorruptError, StoreError
from altneu.store.base import CommitInfo, Store, Vacuumed
from altneu.store.ledger import Change, Ledger
from altneu.store.references import Json, SegmentRef, segment_name

_REMEMBERED = 1000


class MemoryStore(Store):
    """A store with the contract of ``DirectoryStore`` in the memory of its process.

    >>> store = MemoryStore()
    >>> store.commit(1, set={"view/reach": {"rows": {"blob": "b1"}}}, blobs={"b1": b"data"})
    1
    >>> bytes(store.blob("b1")), store.frontier
    (b'data', 1)
    """

    def __init__(self) -> None:
        super().__init__(Ledger(), 0, None)
        self._root = uuid.uuid4().hex
        self._segments: dict[str, tuple[pa.RecordBatch, ...]] = {}
        self._written = 0
        self._history: deque[CommitInfo] = deque(maxlen=_REMEMBERED)

    def _require(self, refs: Collection[SegmentRef]) -> None:
        for ref in refs:
            if ref.name not in self._segments:
                raise StoreCorruptError(f"segment {ref.name} is missing from this store")

    def _append(self, change: Change, frontier: Json, info: dict[str, Json]) -> None:
        self._history.append(CommitInfo(self.next_number, "", time.time(), False, frontier, info))

    def write_segment(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> SegmentRef:
        """Store the batches under a new name."""
        stored = tuple(batches)
        if any(batch.schema != schema for batch in stored):
            raise StoreError(f"a batch must have the schema of its segment, {schema}")
        self._written += 1
        serial = f"{self._written:032x}"
        ref = SegmentRef(
            segment_name(self.next_number, serial),
            sum(b.num_rows for b in stored),
            sum(b.nbytes for b in stored),
            serial,
        )
        self._segments[ref.name] = stored
        return ref

    def open_segment(self, ref: SegmentRef) -> list[pa.RecordBatch]:
        """The batches of this name."""
        self._require([ref])
        return list(self._segments[ref.name])

    def history(self, limit: int = 20) -> list[CommitInfo]:
        """Recent commits, newest first, at most a thousand."""
        return list(self._history)[::-1][:limit]

    def vacuum(self, keep: int = 3) -> Vacuumed:
        """Drop segments of finished steps that no value names; ``keep`` applies to stores on disk."""
        with self._mutex:
            unreferenced = [
                n for n in self._segments if n not in self._ledger.segments and int(n.split("-")[1]) <= self._number
            ]
            freed = sum(batch.nbytes for name in unreferenced for batch in self._segments.pop(name))
            return Vacuumed(segments=len(unreferenced), bytes=freed)

    def close(self) -> None:
        """Nothing to close."""
