"""Segments read block by block, for processes with too little address space to map them whole.

Blocks are copied, and freed when they are no longer used: only the first key hash of each block is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np
import pyarrow as pa

from altneu.errors import StoreCorruptError
from altneu.store.files import naming
from altneu.store.folder import Folder
from altneu.store.references import SegmentRef
from altneu.store.segments import OPEN_SEGMENTS

__all__ = ["read_between", "read_blocks"]


def read_blocks(folder: Folder, ref: SegmentRef, start: int = 0, stop: int | None = None) -> list[pa.RecordBatch]:
    """Some record batches of a segment, read into memory; the checksum is not checked.

    Raises:
        StoreCorruptError: it is missing, or differs from the reference; names the file.
    """
    with _reader(folder, ref) as reader:
        last = reader.num_record_batches if stop is None else stop
        return [reader.get_batch(i) for i in range(start, last)]


def read_between(
    folder: Folder, ref: SegmentRef, column: str, lower: int, upper: int, blocks: range | None = None
) -> tuple[int, list[pa.RecordBatch]]:
    """The record batches that may have values of ``column`` from ``lower`` on and before ``upper``.

    The segment, or its part with the numbers ``blocks``, must be sorted by it. Returns also the number of the first.

    Cost:   their bytes, and, once in a process for each segment, those of the column.
    """
    firsts = _firsts(folder, ref, column)
    blocks = range(len(firsts)) if blocks is None else blocks
    firsts = firsts[blocks.start : blocks.stop]
    start = max(int(np.searchsorted(firsts, np.uint64(lower))) - 1, 0) + blocks.start
    stop = blocks.stop if upper >= 1 << 64 else int(np.searchsorted(firsts, np.uint64(upper))) + blocks.start
    return start, read_blocks(folder, ref, start, stop) if start < stop else []


@lru_cache(maxsize=OPEN_SEGMENTS)
def _firsts(folder: Folder, ref: SegmentRef, column: str) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    """The first value of a column in each record batch."""
    with _reader(folder, ref) as reader:
        at = reader.schema.get_field_index(column)
    with _reader(folder, ref, pa.ipc.IpcReadOptions(included_fields=[at])) as reader:
        hashes = [reader.get_batch(i).column(0)[0].as_py() for i in range(reader.num_record_batches)]
    return np.array(hashes, np.uint64)


@contextmanager
def _reader(
    folder: Folder, ref: SegmentRef, options: pa.ipc.IpcReadOptions | None = None
) -> Iterator[pa.ipc.RecordBatchFileReader]:
    path = folder.mappable(ref)
    with naming(path, "read"), pa.OSFile(str(path)) as file:
        try:
            yield pa.ipc.open_file(file, options=options)
        except pa.ArrowInvalid as error:
            raise StoreCorruptError(f"{path} is not an Arrow file, or is damaged: {error}") from error
