"""Data that states and messages name: opened where it is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from altneu.order import Antichain, Lattice
from altneu.runtime.stored import Data, Frontier, StoredBatch
from altneu.store import Folder, SegmentRef, open_segment, read_between, read_blocks
from altneu.trace.batch import Block, Description, Layout, LazyBatch, cut_blocks
from altneu.trace.records import blocks_of_records

_KEY_HASH = "#key_hash"


def frontier_to_json(frontier: Antichain) -> Frontier:
    """A frontier as lists of coordinates."""
    return [list(map(int, column)) for column in frontier.elements.T]


def frontier_from_json(lattice: Lattice, value: Frontier) -> Antichain:
    """The frontier that ``frontier_to_json`` wrote."""
    return Antichain(lattice, np.array(value, np.int64).reshape(-1, lattice.width).T)


def description_from_json(layout: Layout, value: StoredBatch) -> Description:
    """The bounds of the times of a stored batch."""
    return Description(
        frontier_from_json(layout.lattice, value["lower"]),
        frontier_from_json(layout.lattice, value["upper"]),
        frontier_from_json(layout.lattice, value["since"]),
    )


_FEW = 256  # rows that may be slices; more are not sliced before they are written


def to_ipc(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> bytes:
    """Record batches as one Arrow IPC stream, whose bytes depend on the rows alone."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(_alone(batch))
    return sink.getvalue().to_pybytes()


def _alone(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Few rows without those beside them: of a slice Arrow writes whole words, with what is behind it."""
    if batch.num_rows > _FEW or not batch.num_columns or batch.nbytes == batch.get_total_buffer_size():
        return batch
    return batch.take(pa.array(range(batch.num_rows), pa.int64()))


def from_ipc(data: bytes | memoryview) -> list[pa.RecordBatch]:
    """The record batches of an Arrow IPC stream, without copying."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return list(reader)


@dataclass(frozen=True)
class Files:
    """How a task opens data: segments mapped, or read block by block where addresses are ``scarce``."""

    folder: Folder | None
    blob: Callable[[str], bytes | memoryview]
    scarce: bool = False

    def open(self, data: Data) -> list[pa.RecordBatch]:
        """All record batches of some data."""
        if "blob" in data:
            return from_ipc(self.blob(data["blob"]))
        return read_blocks(*self._segment(data)) if self.scarce else open_segment(*self._segment(data))

    def _segment(self, data: Data) -> tuple[Folder, SegmentRef]:
        assert self.folder is not None
        return self.folder, SegmentRef.from_json(data)

    def open_part(self, data: Data, number: int) -> pa.RecordBatch:
        """One record batch of some data."""
        if self.scarce and "blob" not in data:
            return read_blocks(*self._segment(data), number, number + 1)[0]
        return self.open(data)[number]

    def batch(self, layout: Layout, stored: StoredBatch) -> LazyBatch:
        """The batch that ``batch_to_json`` named, opened where it is touched."""
        return self.lazy(layout, description_from_json(layout, stored), stored["rows"], stored["data"])

    def lazy(self, layout: Layout, description: Description, rows: int, data: Data) -> LazyBatch:
        """The batch whose data is somewhere."""

        def part(lower: int, upper: int) -> Sequence[Block]:
            return self.blocks(layout, data, lower, upper)

        return LazyBatch(layout, description, rows, self.size(data), part, stored=data)

    def size(self, data: Data) -> int:
        """Bytes of some data."""
        return len(self.blob(data["blob"])) if "blob" in data else SegmentRef.from_json(data).bytes

    def blocks(
        self, layout: Layout, data: Data, lower: int, upper: int, numbers: range | None = None
    ) -> tuple[Block, ...]:
        """What a batch's data, or the record batches of these numbers, has of a range of key hashes."""
        if self.scarce and "blob" not in data:
            first, result = read_between(*self._segment(data), _KEY_HASH, lower, upper, numbers)
        else:
            numbers = numbers or range(1 << 62)
            first, result = numbers.start, self.open(data)[numbers.start : numbers.stop]
        return cut_blocks(blocks_of_records(layout, result, first), lower, upper)
