"""Files that appear completely or not at all; errors of the operating system as altneu's errors."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from altneu.errors import StoreCorruptError, StoreError, StoreFullError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NEW = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW
TEMPORARY = ".tmp"
_AT_ONCE = 8  # files that are synced


def failure(error: OSError, path: str | Path, doing: str) -> StoreError:
    """The store's error for one of the operating system.

    >>> failure(OSError(errno.ENOSPC, "No space left on device"), "s/log", "write")
    StoreFullError('cannot write s/log: No space left on device; nothing was written: make room and try again')
    """
    if error.errno == errno.ENOENT and doing == "read":
        return missing(path)  # gone since it was last looked at, as what never was there
    said = f"cannot {doing} {path}: {error.strerror or error}"
    if error.errno in _FULL:
        return StoreFullError(f"{said}; nothing was written: make room and try again")
    return StoreError(said)


def missing(path: str | Path) -> StoreCorruptError:
    """The error for a file that should be there."""
    return StoreCorruptError(f"{path} is missing; put it back from a copy of the store")


@contextlib.contextmanager
def naming(path: str | Path, doing: str) -> Iterator[None]:
    """Turn an ``OSError`` of the block into a ``StoreError`` that names the file."""
    try:
        yield
    except OSError as error:
        raise failure(error, path, doing) from error


def temporary(path: Path) -> Path:
    """A new name in the folder of ``path``; vacuum and the next opening recognize it by its form."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex}{TEMPORARY}")


def create(path: Path) -> int:
    """Open a file that must not exist yet for writing."""
    return os.open(path, _NEW, 0o644)


def write_all(descriptor: int, data: bytes | bytearray | memoryview) -> None:
    """Write every byte; a short write (the disk is filling up) is continued until a write fails."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def discard(path: Path) -> None:
    """Remove a temporary file if it exists; one that remains is removed at the next opening."""
    with contextlib.suppress(OSError):  # it runs while another error is on its way, which must not be replaced
        path.unlink(missing_ok=True)


def clear_temporaries(folder: Path) -> None:
    """Remove temporary files of a killed writer from a folder; only for the holder of the store's lock."""
    with naming(folder, "list"):
        for path in folder.iterdir():
            if path.name.startswith(".") and path.name.endswith(TEMPORARY):
                discard(path)


def put(path: Path, data: bytes | bytearray | memoryview, *, exclusive: bool, durable: bool = True) -> bool:
    """Make ``path`` appear with all of ``data``, synced if ``durable``, or leave everything as it was.

    ``exclusive`` leaves an existing file alone and answers False (``link`` refuses a name that is taken); without it
    an existing file is replaced. The folder is not synced: see ``sync_folder``.

    Cost:   one create, write, fsync, link or rename.
    """
    temporary_path = temporary(path)
    try:
        descriptor = create(temporary_path)
        try:
            write_all(descriptor, data)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if exclusive:
            return _link(temporary_path, path)
        temporary_path.replace(path)
        return True
    finally:
        discard(temporary_path)


def _link(temporary_path: Path, path: Path) -> bool:
    try:
        path.hardlink_to(temporary_path)
    except FileExistsError:
        return False
    return True


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that its file names survive a power failure."""
    _sync(folder, os.O_DIRECTORY)


def sync_files(paths: Sequence[Path]) -> None:
    """Sync files, so that their bytes survive a power failure.

    Cost:   an fsync each, several at a time: the file system writes its journal once for those that run together, so
            that 24 files take 11 ms where they took 90 one after the other.

    Raises:
        StoreError: one could not be synced; names it.
    """

    def sync(path: Path) -> None:
        with naming(path, "write"):
            _sync(path)

    if len(paths) < 2:
        for path in paths:
            sync(path)
        return
    with ThreadPoolExecutor(min(len(paths), _AT_ONCE), "altneu-sync") as pool:
        for done in [pool.submit(sync, path) for path in paths]:
            done.result()


def _sync(path: Path, flags: int = 0) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> int:
    """Remove a file and return its size in bytes, or 0 if it did not exist."""
    with contextlib.suppress(FileNotFoundError), naming(path, "remove"):
        size = path.lstat().st_size
        path.unlink()
        return size
    return 0


def regular_size(path: Path) -> int:
    """Size of a regular file.

    Raises:
        StoreCorruptError: there is no such file, or it is a link, a folder or a device.
    """
    try:
        status = path.lstat()
    except FileNotFoundError:
        raise missing(path) from None
    except OSError as error:
        raise failure(error, path, "read") from error
    if not stat.S_ISREG(status.st_mode):
        raise StoreCorruptError(f"{path} is not a regular file; a store contains no links, and altneu follows none")
    return status.st_size


def checksum_of(path: Path) -> str:
    """BLAKE2b-128 of a local file in hexadecimal, by which segments are named."""
    with naming(path, "read"), path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def parse_json(text: bytes | bytearray | memoryview, name: str | Path) -> Any:
    """Parse JSON strictly: UTF-8, no NaN or infinity, no endless nesting.

    Raises:
        StoreCorruptError: it does not parse; the error names the file.
    """
    try:
        return json.loads(bytes(text).decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise StoreCorruptError(f"{name} holds JSON that does not parse: {error}") from error


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} must be JSON")
