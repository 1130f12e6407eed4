"""Where a store's files are: a folder of whole files, on a local disk or elsewhere."""

from __future__ import annotations

import mmap
import os
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from altneu.errors import StoreCorruptError
from altneu.store.files import (
    TEMPORARY,
    checksum_of,
    clear_temporaries,
    naming,
    put,
    regular_size,
    remove,
    sync_folder,
    temporary,
)
from altneu.store.lock import Writer, WriterLock
from altneu.store.references import SegmentRef, segment_name

Data = bytes | bytearray | memoryview


class Folder(ABC):
    """A folder of files that are there wholly or not at all: a small value, which tasks are sent.

    All that a store asks of a file system. Files are put whole and never changed; ``exclusive`` is what makes a commit
    log of it: of all who put one name, one is told True, and its bytes stay. ``name`` is always one plain file name.

    Raises:
        StoreError: every method, when the file system fails; the message names the file.
    """

    locks: ClassVar[bool]  # whether one writer shuts out all others, or only learns at a commit that it lost

    @abstractmethod
    def where(self, name: str = "") -> str:
        """The folder, or a file of it, as messages name it."""

    @abstractmethod
    def child(self, name: str) -> Self:
        """A folder inside this one."""

    @abstractmethod
    def make(self) -> None:
        """Make the folder where it has to be made."""

    @abstractmethod
    def check(self) -> None:
        """Refuse a folder that is not one of its own."""

    @abstractmethod
    def probed(self) -> Folder:
        """This folder, able to put ``exclusive``; refused if its file system is not."""

    @abstractmethod
    def writer(self) -> Writer:
        """Take the place of the one writer."""

    @abstractmethod
    def put(self, name: str, data: Data, *, exclusive: bool = False, durable: bool = True) -> bool:
        """Make a file appear with all of ``data``, or leave everything as it was; False if the name is taken.

        Raises:
            StoreInDoubtError: nobody can say whether the file is there.
        """

    @abstractmethod
    def sync(self) -> None:
        """Make the names of the folder survive a loss of power, where ``put`` has not done it already."""

    @abstractmethod
    def sync_parent(self) -> None:
        """Make the folder's own name survive a loss of power."""

    @abstractmethod
    def read(self, name: str) -> memoryview:
        """The bytes of a file; StoreCorruptError if it is missing."""

    def read_those(self, names: Collection[str]) -> dict[str, memoryview]:
        """The bytes of those files that are there, read at once where that is quicker."""
        return {name: self.read(name) for name in names if self.has(name)}

    @abstractmethod
    def checksum(self, name: str) -> str:
        """BLAKE2b-128 of a file, read whole from where it is, in hexadecimal."""

    @abstractmethod
    def names(self) -> list[str]:
        """Names of what is in the folder, in order."""

    @abstractmethod
    def sizes(self, names: Collection[str]) -> dict[str, int]:
        """Size of each file; StoreCorruptError if one is missing."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether anything has this name."""

    @abstractmethod
    def remove(self, name: str) -> int:
        """Remove a file; the bytes it had, 0 if it is gone already."""

    @abstractmethod
    def move(self, name: str, to: Self) -> None:
        """Give a file to another folder of the same file system."""

    @abstractmethod
    def clear_unfinished(self) -> None:
        """Remove what a writer that died left half written; only for the one writer."""

    @abstractmethod
    def temporary(self, number: int) -> Path:
        """A fresh local file in which a segment that aims at commit ``number`` is written."""

    @abstractmethod
    def adopt(self, temporary: Path, ref: SegmentRef) -> None:
        """Put a segment that was written to ``written``, which it moves or removes."""

    @abstractmethod
    def mappable(self, ref: SegmentRef) -> Path:
        """A local file with a segment's bytes; the size is checked, the bytes are those of the place it is from."""

    @abstractmethod
    def spoiled(self, ref: SegmentRef) -> bool:
        """Told that the local file of a segment cannot be used: whether it was a copy, and another is worth a try."""


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
                f"{self.path} is not a folder of its own; a store holds no links, and none is followed"
            )

    def probed(self) -> LocalFolder:
        return self  # link never replaces

    def writer(self) -> Writer:
        return WriterLock(self.path / "lock")

    def put(self, name: str, data: Data, *, exclusive: bool = False, durable: bool = True) -> bool:
        path = self.path / name
        with naming(path, "write"):
            return put(path, data, exclusive=exclusive, durable=durable)

    def sync(self) -> None:
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


def check_size(path: Path, ref: SegmentRef) -> None:
    """Refuse a local file that has not a segment's size."""
    if (size := regular_size(path)) != ref.bytes:
        raise StoreCorruptError(f"{path} has {size} bytes where the log says {ref.bytes}: the file was cut off or grew")


def is_unfinished(name: str) -> bool:
    """Whether a name is that of a file being written."""
    return name.startswith(".") and name.endswith(TEMPORARY)
