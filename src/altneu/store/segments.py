"""Segments: immutable files of Arrow record batches, named by their content.

Both functions take picklable arguments, so that Spark's Python workers can call them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa

from altneu.errors import StoreCorruptError, StoreError
from altneu.store.files import checksum_of, create, discard, failure, naming, write_all
from altneu.store.folder import Folder, LocalFolder
from altneu.store.references import SegmentRef, segment_name

Verify = Literal["always", "first", "never"]

CHECKED_BYTES = 64 << 20
OPEN_SEGMENTS = 4096
_CHUNK = 1 << 20


class _HashingSink:
    """A binary file for Arrow that hashes the bytes written."""

    closed = False

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pending = bytearray()
        self._hash = hashlib.blake2b(digest_size=16)
        self.size = 0
        self.error: OSError | None = None

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.size += view.nbytes
        if view.nbytes < _CHUNK:
            self._pending += view
            if len(self._pending) >= _CHUNK:
                self.flush()
        else:
            self.flush()
            self._emit(view)
        return view.nbytes

    def flush(self) -> None:
        if self._pending:
            data, self._pending = self._pending, bytearray()
            self._emit(data)

    def _emit(self, data: bytearray | memoryview) -> None:
        self._hash.update(data)
        try:
            write_all(self._descriptor, data)
        except OSError as error:
            self.error = error  # Arrow passes it on, but not every version keeps its number
            raise

    def checksum(self) -> str:
        return self._hash.hexdigest()


class SegmentWriter:
    """Writes one segment batch by batch; ``finish`` gives it its name.

    Until then it is a temporary file, which the end of the ``with`` block removes. A writer that fails therefore leaves
    nothing behind, and one that is killed leaves a file whose name says when vacuum may remove it.

    Cost:   one pass over the bytes, blake2b over them (1.3 GB/s), one fsync unless ``durable=False``; on remote file
            systems one upload.
    """

    def __init__(self, folder: Folder | str, schema: pa.Schema, number: int, *, durable: bool = True) -> None:
        self._folder = _folder(folder)
        self._number = number
        self._schema = schema
        self._durable = durable
        self._rows = 0
        self._temporary = self._folder.temporary(number)
        with naming(self._temporary, "write"):
            self._descriptor = create(self._temporary)
        self._sink = _HashingSink(self._descriptor)
        self._writer = pa.ipc.new_file(pa.PythonFile(self._sink, mode="w"), schema)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abandon()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append one record batch; it stays one block when the segment is opened.

        Raises:
            StoreError: the batch has another schema.
            StoreFullError: the disk is full; the segment was removed.
        """
        if batch.schema != self._schema:
            raise StoreError(f"a batch must have the schema of its segment, {self._schema}, got {batch.schema}")
        try:
            self._writer.write_batch(batch)
        except (OSError, pa.ArrowException) as error:
            raise self._failed(error) from error
        self._rows += batch.num_rows

    def finish(self) -> SegmentRef:
        """Complete the file and give it its name.

        Raises:
            StoreFullError: the disk is full; the segment was removed.
            StoreError: it could not be uploaded; the segment was removed.
        """
        try:
            self._writer.close()
            self._sink.flush()
            if self._durable:
                os.fsync(self._descriptor)
            checksum = self._sink.checksum()
            ref = SegmentRef(segment_name(self._number, checksum), self._rows, self._sink.size, checksum)
            self._folder.adopt(self._temporary, ref)
            if self._durable:
                self._folder.arrived([ref.name])
        except (OSError, pa.ArrowException) as error:
            raise self._failed(error) from error
        self._close()
        return ref

    def abandon(self) -> None:
        """Remove the unfinished file; after ``finish`` it does nothing."""
        if self._descriptor >= 0:
            self._close()
            discard(self._temporary)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)

    def _failed(self, error: OSError | pa.ArrowException) -> Exception:
        self.abandon()
        said = self._sink.error or error
        return failure(said, self._temporary, "write") if isinstance(said, OSError) else error


def write_segment(
    folder: Folder | str, batches: Iterable[pa.RecordBatch], schema: pa.Schema, number: int, *, durable: bool = True
) -> SegmentRef:
    """Write record batches as one segment for commit ``number``.

    It is durable when a commit names it: the file is synced here, its name by the commit. ``durable=False`` is for
    what is synced later (``Folder.sync``), or never (``Folder.arrived``). The same batches give the same name, so that
    a task that runs twice writes one segment.

    Shape:  any number of batches of ``schema``, each of which is one block when the segment is opened.
    Cost:   one pass over the bytes; one fsync, or one upload.

    Raises:
        StoreFullError: the disk is full; nothing is left behind.

    >>> import tempfile
    >>> batch = pa.record_batch({"a": [1, 2, 3]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     ref = write_segment(folder, [batch], batch.schema, number=1)
    ...     open_segment(folder, ref)[0].to_pydict()
    {'a': [1, 2, 3]}
    """
    with SegmentWriter(folder, schema, number, durable=durable) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.finish()


def open_segment(folder: Folder | str, ref: SegmentRef, verify: Verify = "first") -> list[pa.RecordBatch]:
    """The record batches of a segment, memory-mapped: only what is touched is read.

    The size, the Arrow footer and the number of rows are checked whenever a file is mapped. ``verify="first"`` also
    checks the checksum when a process first opens a file below 64 MB (a larger one would have to be read completely);
    ``"always"`` checks it at every opening, ``"never"`` does not. Remote files are checked when they are fetched,
    whatever their size.

    Cost:   30 µs to map; 0.75 ms for each megabyte to check; 1 µs if the process has it open.

    Raises:
        StoreCorruptError: it is missing, or differs from the reference; names the file.
    """
    place = _folder(folder)
    try:
        return _opened(place, ref, verify)
    except StoreError:
        if not place.spoiled(ref):
            raise
    forget_segments()
    return _opened(place, ref, verify)  # the copy was damaged or gone: what it was made of need not be


def _folder(folder: Folder | str) -> Folder:
    return LocalFolder(Path(folder)) if isinstance(folder, str) else folder


def _opened(folder: Folder, ref: SegmentRef, verify: Verify) -> list[pa.RecordBatch]:
    if verify == "always":
        check_segment(folder, ref)
    elif verify == "first" and ref.bytes < CHECKED_BYTES:
        _check_once(folder, ref)
    return list(_mapped(folder, ref))


def check_segment(folder: Folder, ref: SegmentRef) -> None:
    """Read a segment whole.

    Raises:
        StoreCorruptError: it is missing, or its bytes have changed; names the file.
    """
    path = folder.mappable(ref)
    if checksum_of(path) != ref.checksum:
        raise StoreCorruptError(f"{path} fails its checksum: bytes in it have changed")


# A segment is immutable and named by its content, so what was checked or mapped once stays right; a bound keeps a
# process that lives for months from remembering every segment it ever saw.
_check_once = lru_cache(maxsize=16 * OPEN_SEGMENTS)(check_segment)


@lru_cache(maxsize=OPEN_SEGMENTS)
def _mapped(folder: Folder, ref: SegmentRef) -> tuple[pa.RecordBatch, ...]:
    path = folder.mappable(ref)
    try:
        with pa.memory_map(
            str(path)
        ) as file:  # closing gives the descriptor back; the mapping lives as long as its batches
            reader = pa.ipc.open_file(file)
            batches = tuple(reader.get_batch(i) for i in range(reader.num_record_batches))
        for batch in batches:
            batch.validate()
    except (pa.ArrowException, ValueError) as error:
        raise StoreCorruptError(f"{path} is not an Arrow file, or is damaged: {error}") from error
    except OSError as error:
        if error.errno is None:  # Arrow's own complaint about the bytes, not the operating system's
            raise StoreCorruptError(f"{path} is a damaged Arrow file: {error}") from error
        raise failure(error, path, "read") from error
    if (rows := sum(batch.num_rows for batch in batches)) != ref.rows:
        raise StoreCorruptError(f"{path} holds {rows} rows where the log says {ref.rows}")
    return batches


def forget_segments() -> None:
    """Drop this process's cache of open segments; a mapping is released together with its last batch."""
    _mapped.cache_clear()
    _check_once.cache_clear()
