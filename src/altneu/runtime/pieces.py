"""Pieces: parts of an arrangement that one task can read by itself, wherever the store's folder is seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from altneu.errors import HistoryGoneError, StoreCorruptError
from altneu.runtime.files import Files, frontier_from_json
from altneu.runtime.read import At, summed
from altneu.runtime.state import batch_from_json, blob_names
from altneu.runtime.stored import StoredBatch
from altneu.store import Folder, SegmentRef, Store
from altneu.trace.batch import Batch, Layout, reaches
from altneu.trace.update import Updates, consolidate


@dataclass(frozen=True)
class Piece:
    """Batches of one shard of an arrangement, by their names, with the blobs among them; it can be pickled."""

    layout: Layout
    directory: Folder | None
    batches: tuple[StoredBatch, ...]
    blobs: dict[str, bytes]

    @classmethod
    def of(cls, store: Store, layout: Layout, batches: Sequence[StoredBatch]) -> Piece:
        """Batches that a commit names."""
        blobs = {name: bytes(store.blob(name)) for batch in batches for name in blob_names(batch)}
        return cls(layout, store.segment_directory, tuple(batches), blobs)

    def contents(self, at: At) -> Updates:
        """The rows with their counts at a time, all stamped with its first coordinate."""
        return summed([self._open(batch) for batch in self.batches], self.layout, at)

    def changes(self, start: int, end: int) -> Updates:
        """The updates at times from ``start`` up to but not including ``end``."""
        parts = [between(self._open(batch).updates(), start, end) for batch in self.batches]
        return Updates.concat(parts, self.layout.schema, self.layout.lattice.width)

    def snapshot(self, time: int) -> Updates:
        """What there is at a time, as updates at that time; of two times the second is kept apart."""
        return at_once([self._open(batch) for batch in self.batches], self.layout, time)

    def reaching(self, start: int) -> Piece:
        """Without the batches that end before ``start``; nothing is opened to tell."""
        frontier = partial(frontier_from_json, self.layout.lattice)
        batches = [batch for batch in self.batches if reaches(frontier(batch["upper"]).elements, start)]
        used = {name for batch in batches for name in blob_names(batch)}
        return Piece(self.layout, self.directory, tuple(batches), {n: b for n, b in self.blobs.items() if n in used})

    def _open(self, stored: StoredBatch) -> Batch:
        try:
            return batch_from_json(self.layout, stored, Files(self.directory, self.blobs.__getitem__).open)
        except StoreCorruptError as error:
            if self.directory is None or self.directory.has(SegmentRef.from_json(stored["data"]).name):
                raise
            raise HistoryGoneError(
                f"{error}; it existed when this read was planned, but the reader's lease has expired; use a longer "
                'lease (option "lease", such as "6 hours")'
            ) from error


def at_once(batches: Sequence[Batch], layout: Layout, time: int) -> Updates:
    """What batches hold at a time, as updates at that time; of two times the second is kept apart."""
    parts = [between(batch.updates(), 0, time + 1) for batch in batches]
    result = Updates.concat(parts, layout.schema, layout.lattice.width)
    times = np.concatenate([np.full((1, len(result)), time, np.int64), result.times[1:]])
    return consolidate(Updates(result.rows, times, result.diffs), layout.lattice)


def between(updates: Updates, start: int, end: int) -> Updates:
    """The updates from ``start`` up to but not including ``end``, by the first coordinate of their times."""
    times = updates.times[0]
    inside = np.asarray((times >= start) & (times < end))
    return updates if inside.all() else updates.filter(inside)
