"""The folder of a store's files, on a local disk or elsewhere."""

from __future__ import annotations

import errno
import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from altneu.errors import StoreCorruptError, StoreError
from altneu.store.files import (
    TEMPORARY,
    checksum_of,
    clear_temporaries,
    missing,
    naming,
    put,
    regular_size,
    remove,
    sync_files,
    sync_folder,
    temporary,
)
from altneu.store.lock import Writer, WriterLock
from altneu.store.references import SegmentRef, segment_name

Data = bytes | bytearray | memoryview


class Folder(ABC):
    """A folder in which files appear completely or not at all; a small value, which is sent to tasks.

    This is all that a store needs of a file system. Files are written whole and never changed. ``exclusive`` makes a
    commit log possible: of all processes that put a file of one name, one gets True, and its bytes stay. ``name`` is
    always a plain file name.

    Raises:
        StoreError: every method, when the file system fails; the message names the file.
    """

    locks: ClassVar[bool]  # whether one writer shuts out all others, or only learns at a commit that it lost

    @property
    def storage_options(self) -> Mapping[str, Any]:
        """The settings of the file system, which may contain secrets; a local disk has none."""
        return {}

    @abstractmethod
    def where(self, name: str = "") -> str:
        """The address of the folder, or of a file in it, for messages."""

    @abstractmethod
    def child(self, name: str) -> Self:
        """A folder inside this one."""

    @abstractmethod
    def make(self) -> None:
        """Create the folder if the file system needs that."""

    @abstractmethod
    def check(self) -> None:
        """Refuse a link or a file in place of the folder."""

    @abstractmethod
    def probed(self) -> Folder:
        """This folder, if its file system supports ``exclusive``; otherwise it is refused."""

    @abstractmethod
    def writer(self) -> Writer:
        """Become the single writer."""

    @abstractmethod
    def put(self, name: str, data: Data, *, exclusive: bool = False, durable: bool = True) -> bool:
        """Make a file appear with all of ``data``, or leave everything as it was; False if the name is taken.

        Raises:
            StoreInDoubtError: it is unknown whether the file was written.
        """

    @abstractmethod
    def sync(self, written: Collection[str] = ()) -> None:
        """Make the names of the folder survive a loss of power, where ``put`` has not done it already.

        Before them, the bytes of the files that were ``written`` without it.
        """

    @abstractmethod
    def sync_parent(self) -> None:
        """Make the folder's own name survive a loss of power."""

    @abstractmethod
    def read(self, name: str) -> memoryview:
        """The bytes of a file; StoreCorruptError if it is missing."""

    def read_those(self, names: Collection[str]) -> dict[str, memoryview]:
        """The bytes of the files that exist, read in parallel where that is faster."""
        return {name: self.read(name) for name in names if self.has(name)}

    @abstractmethod
    def checksum(self, name: str) -> str:
        """BLAKE2b-128 of a file, in hexadecimal, read from the file system itself."""

    @abstractmethod
    def names(self) -> list[str]:
        """The sorted names of the files in the folder."""

    @abstractmethod
    def sizes(self, names: Collection[str]) -> dict[str, int]:
        """Size of each file; StoreCorruptError if one is missing."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether a file of this name exists."""

    @abstractmethod
    def remove(self, name: str) -> int:
        """Remove a file; returns its size, 0 if it does not exist."""

    @abstractmethod
    def move(self, name: str, to: Self) -> None:
        """Move a file to another folder of the same file system."""

    @abstractmethod
    def share(self, name: str, to: Folder, called: str) -> None:
        """Have a file of this folder in another one too, under a name: each may remove it for itself.

        On a local disk both are one file; an object store copies it, without a byte coming here. Nothing happens if
        the other folder has a file of that name, which must then be the same one.

        Raises:
            StoreError: the other folder is on another file system.
        """

    @abstractmethod
    def clear_unfinished(self) -> None:
        """Remove unfinished files of a writer that died; only the single writer may call it."""

    @abstractmethod
    def temporary(self, number: int) -> Path:
        """A new local file for writing a segment of commit ``number``."""

    @abstractmethod
    def adopt(self, temporary: Path, ref: SegmentRef) -> None:
        """Add the segment that was written to ``temporary``, which is moved or removed.

        Other processes may have to wait for it until ``arrived`` has returned.
        """

    def arrived(self, names: Collection[str]) -> None:  # noqa: B027 -- on a local disk they are
        """Wait until segments that were adopted are there for all processes.

        Raises:
            StoreError: one could not be written; the others are there.
        """

    @abstractmethod
    def mappable(self, ref: SegmentRef) -> Path:
        """A local file with a segment's bytes; only its size is checked."""

    @abstractmethod
    def spoiled(self, ref: SegmentRef) -> bool:
        """Drop the unusable local file of a segment; returns whether it was a copy that can be fetched again."""


@dataclass(frozen=True, slots=True)
class LocalFolder(Folder):
    """A folder of a local disk.

    Cost:   ``put`` is one create, write, fsync, link or rename, unlink.
    """

    locks: ClassVar[bool] = True

    path: Path

    def where(self, name: str = "") -> str:
        return str(self.path / name)

    def child(self, name: str) -> LocalFolder:
        return LocalFolder(self.path / name)

    def make(self) -> None:
        with naming(self.path, "create"):
            self.path.mkdir(parents=True, exist_ok=True)

    def check(self) -> None:
        if not self.has(""):
            raise StoreCorruptError(f"{self.path} is missing; put it back from a copy of the store")
        if self.path.is_symlink() or not self.path.is_dir():
            raise StoreCorruptError(
                f"{self.path} is not a folder of its own; a store contains no links, and altneu follows none"
            )

    def probed(self) -> LocalFolder:
        return self  # link never replaces

    def writer(self) -> Writer:
        return WriterLock(self.path / "lock")

    def put(self, name: str, data: Data, *, exclusive: bool = False, durable: bool = True) -> bool:
        path = self.path / name
        with naming(path, "write"):
            return put(path, data, exclusive=exclusive, durable=durable)

    def sync(self, written: Collection[str] = ()) -> None:
        sync_files([self.path / name for name in written])
        with naming(self.path, "sync"):
            sync_folder(self.path)

    def sync_parent(self) -> None:
        LocalFolder(self.path.parent).sync()

    def read(self, name: str) -> memoryview:
        """The bytes of a file, mapped."""
        path = self.path / name
        if not regular_size(path):
            return memoryview(b"")  # nothing cannot be mapped
        with naming(path, "read"):
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
            finally:
                os.close(descriptor)

    def checksum(self, name: str) -> str:
        return checksum_of(self.path / name)

    def names(self) -> list[str]:
        with naming(self.path, "list"):
            return sorted(os.listdir(self.path))  # noqa: PTH208  # names are enough

    def sizes(self, names: Collection[str]) -> dict[str, int]:
        return {name: regular_size(self.path / name) for name in names}

    def has(self, name: str) -> bool:
        path = self.path / name
        return path.exists() or path.is_symlink()

    def remove(self, name: str) -> int:
        return remove(self.path / name)

    def move(self, name: str, to: Folder) -> None:
        assert isinstance(to, LocalFolder)
        with naming(self.path / name, "move"):
            (self.path / name).rename(to.path / name)

    def share(self, name: str, to: Folder, called: str) -> None:
        """A second link to a file."""
        path = self.path / name
        if not isinstance(to, LocalFolder):
            raise other_file_system(self, to)
        with naming(path, "link"):
            try:
                os.link(path, to.path / called, follow_symlinks=False)
            except FileExistsError:
                pass
            except FileNotFoundError:
                raise missing(path) from None
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                raise other_file_system(self, to) from error

    def clear_unfinished(self) -> None:
        clear_temporaries(self.path)

    def temporary(self, number: int) -> Path:
        return temporary(self.path / segment_name(number, "0" * 32))

    def adopt(self, temporary: Path, ref: SegmentRef) -> None:
        temporary.replace(self.path / ref.name)

    def mappable(self, ref: SegmentRef) -> Path:
        path = self.path / ref.name
        check_size(path, ref)
        return path

    def spoiled(self, ref: SegmentRef) -> bool:
        return False


def other_file_system(folder: Folder, other: Folder) -> StoreError:
    """The error about two folders that cannot share files."""
    return StoreError(
        f"{other.where()} is on another file system than {folder.where()}, so they cannot share files; choose a folder "
        "on the same one"
    )


def check_size(path: Path, ref: SegmentRef) -> None:
    """Refuse a local file whose size is not that of the segment."""
    if (size := regular_size(path)) != ref.bytes:
        raise StoreCorruptError(f"{path} has {size} bytes where the log says {ref.bytes}: the file was cut off or grew")


def is_unfinished(name: str) -> bool:
    """Whether a name is that of an unfinished file."""
    return name.startswith(".") and name.endswith(TEMPORARY)
