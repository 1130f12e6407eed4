"""What a task writes: new batches put into segments as they come, when they are much."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa

from altneu.order import Antichain, fixed
from altneu.runtime.batch_writer import BatchWriter, Growing
from altneu.runtime.files import Files, to_ipc
from altneu.runtime.state import BLOB_BYTES, lazy_run, run_to_json
from altneu.runtime.stored import Data, in_segment
from altneu.store import Folder, SegmentRef, SegmentWriter
from altneu.trace.batch import Batch, Block, Description, Layout, LazyBatch
from altneu.trace.future import Run
from altneu.trace.records import packed_records, packed_schema


@dataclass(frozen=True)
class Place:
    """Where a task writes: a folder, and the number of the commit that it aims at."""

    folder: Folder
    number: int
    durable: bool


@dataclass
class Writer:
    """Writes what a task makes, named by its content: small as blobs that travel with it, large as segments."""

    place: Place
    blobs: dict[str, bytes] = field(default_factory=dict)
    segments: set[str] = field(default_factory=set)

    def write(self, batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> Data:
        """Write data that the coming commit, or a later segment of the step, will name."""
        if sum(b.nbytes for b in batches) < BLOB_BYTES:
            data = to_ipc(batches, schema)
            name = f"b{self.place.number}.{hashlib.blake2b(data, digest_size=16).hexdigest()}"
            self.blobs[name] = data
            return {"blob": name}
        return self.segment(batches, schema)

    def segment(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Data:
        """Write a segment, whatever its size."""
        with self.opened(schema) as segment:
            for batch in batches:
                segment.write(batch)
            return self.finished(segment)

    def opened(self, schema: pa.Schema) -> SegmentWriter:
        """A segment to be written a record batch at a time."""
        return SegmentWriter(self.place.folder, schema, self.place.number, durable=False)

    def finished(self, segment: SegmentWriter) -> Data:
        """The name of a segment that is complete."""
        ref = segment.finish()
        self.segments.add(ref.name)
        return in_segment(ref)

    def settle(self) -> None:
        """Sync all segments that were written, at once; the driver learns their names afterwards."""
        names, self.segments = sorted(self.segments), set()
        if names and self.place.durable:
            self.place.folder.sync(names)
        elif names:
            self.place.folder.arrived(names)


@dataclass
class GrowingSegment(Growing):
    """A batch on its way into a segment, as soon as it is more than may wait in memory."""

    batch_writer: SegmentBatchWriter
    bytes: int = 0
    rows: int = 0
    written: list[tuple[int, int, int]] = field(default_factory=list)  # of each part: blocks, first and last key hash
    segment: SegmentWriter | None = None

    def add(self, part: Batch) -> None:
        """The next part."""
        super().add(part)
        self.bytes += part.nbytes
        if self.batch_writer.room is not None and self.bytes > self.batch_writer.room:
            self._put_away()

    def _put_away(self) -> None:
        schema = packed_schema(self.layout)
        self.segment = self.segment or self.batch_writer.writer.opened(schema)
        for part in self.parts:
            for batch in packed_records(part):
                self.segment.write(batch)
            self.rows += len(part)
            self.written.append((len(part.blocks), part.first_hash, part.last_hash))
        self.parts, self.bytes = [], 0

    def finish(self, *, ordered: bool = False) -> Batch:
        """All of it as one batch."""
        if self.segment is None:
            return super().finish(ordered=ordered)
        self._put_away()
        files = self.batch_writer.files
        with self.segment as segment:
            data = self.batch_writer.writer.finished(segment)
        if ordered or all(a < b for (*_, a), (_, b, _) in pairwise(self.written)):
            return files.lazy(self.layout, self.description, self.rows, data)
        return self.batch_writer.merged(self._parts_of(data), Antichain.minimum(self.layout.lattice))

    def _parts_of(self, data: Data) -> list[Batch]:
        """The parts once more, each a run of blocks of the segment."""
        files, results, start = self.batch_writer.files, list[Batch](), 0
        for blocks, *_ in self.written:
            numbers = range(start, start + blocks)

            def part(lower: int, upper: int, numbers: range = numbers) -> Sequence[Block]:
                return files.blocks(self.layout, data, lower, upper, numbers)

            size = SegmentRef.from_json(data).bytes * blocks // sum(n for n, *_ in self.written)
            results.append(LazyBatch(self.layout, self.description, 0, size, part, exact=False))
            start += blocks
        return results


@dataclass
class SegmentBatchWriter(BatchWriter):
    """Puts what is much into segments; merges are taken to their end, for a task keeps no half-done merge."""

    files: Files = field(kw_only=True)
    writer: Writer = field(kw_only=True)
    at_once: bool = True

    def future_run(self, run: Run, layout: Layout) -> Run:
        """A run that is written at once, and opened when it is due."""
        value = run_to_json(run.updates(), self.writer.segment)
        return lazy_run(layout, value, 0, run.least(fixed(layout.lattice)), self.files)

    def growing(self, layout: Layout, description: Description) -> Growing:
        """A batch to be put together."""
        return GrowingSegment(self, layout, description)
