"""A cache of local copies of remote segments, named by their checksums and shared by all processes of the user."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Callable
from functools import cache
from pathlib import Path

from altneu.errors import StoreCorruptError, StoreError
from altneu.store.files import TEMPORARY, checksum_of, discard, naming, regular_size
from altneu.store.folders import user_cache
from altneu.store.references import SegmentRef

LARGEST = 20 << 30  # bytes
_ABANDONED = 24 * 3600  # seconds after which a file that nobody finished is taken to have no writer


class SegmentCache:
    """A folder of segments named by their checksums, so that a copy can never be outdated.

    A segment is checked before it gets its name. When the cache exceeds ``largest`` bytes, the least recently used
    segments are deleted; a process that has one mapped can go on reading it. Several processes may share the folder:
    files appear under their names only when complete, and deleted ones are fetched again.
    """

    def __init__(self, folder: Path, largest: int) -> None:
        self.folder, self.largest = folder, largest

    def _path(self, ref: SegmentRef) -> Path:
        return self.folder / f"{ref.checksum}.arrow"

    def temporary(self) -> Path:
        """A fresh name for a file that is being written."""
        return self.folder / f".{uuid.uuid4().hex}{TEMPORARY}"

    def keep(self, temporary: Path, ref: SegmentRef) -> None:
        """Add a file that was just written, whose checksum is known."""
        with naming(temporary, "write"):
            temporary.replace(self._path(ref))
        self._shrink()

    def fetched(self, ref: SegmentRef, fetch: Callable[[Path], None], where: str) -> Path:
        """The local copy of a segment, created by ``fetch`` if there is none.

        Raises:
            StoreCorruptError: the fetched file differs from the reference.
        """
        path = self._path(ref)
        with contextlib.suppress(OSError):
            if path.stat().st_size == ref.bytes:
                os.utime(path)  # used now
                return path
        temporary = self.temporary()
        try:
            fetch(temporary)
            _check(temporary, ref, where)
            self.keep(temporary, ref)
        finally:
            discard(temporary)
        return path

    def discard(self, ref: SegmentRef) -> None:
        """Delete a copy."""
        discard(self._path(ref))

    def _shrink(self) -> None:
        """Delete the least recently used copies, and abandoned temporary files."""
        files, total, now = [], 0, time.time()
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another process was quicker
                    status = entry.stat(follow_symlinks=False)
                    if not entry.name.endswith(TEMPORARY):
                        files.append((status.st_mtime, status.st_size, entry.path))
                        total += status.st_size
                    elif now - status.st_mtime > _ABANDONED:
                        discard(Path(entry.path))
        for _, size, path in sorted(files)[:-1]:
            if total <= self.largest:
                break
            discard(Path(path))
            total -= size


def _check(path: Path, ref: SegmentRef, where: str) -> None:
    size = regular_size(path)
    if size != ref.bytes:
        raise StoreCorruptError(
            f"{where} has {size} bytes where the log says {ref.bytes}: the file was cut off or grew"
        )
    if checksum_of(path) != ref.checksum:
        raise StoreCorruptError(f"{where} fails its checksum: bytes in it have changed")


@cache
def segment_cache() -> SegmentCache:
    """This user's cache: ``ALTNEU_CACHE`` names its folder, ``ALTNEU_CACHE_BYTES`` how large it may grow (20 GiB)."""
    named = os.environ.get("ALTNEU_CACHE")
    folder = Path(named).expanduser() if named else user_cache("segments")
    with naming(folder, "create"):
        folder.mkdir(parents=True, exist_ok=True)
    text = os.environ.get("ALTNEU_CACHE_BYTES", "")
    if text and not text.isdigit():
        raise StoreError(f"ALTNEU_CACHE_BYTES must be a number of bytes, got {text!r}")
    return SegmentCache(folder, int(text) if text else LARGEST)
