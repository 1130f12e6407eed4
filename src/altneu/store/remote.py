"""Folders that fsspec reaches: object stores, and other file systems that can put a file if it is not there yet.

obstore 0.12 puts, reads, lists and removes objects on moto's S3 in 0.3 to 0.7 of s3fs's time and less than a fifth of
its CPU time, and of eight writers of one name exactly one wins with either. fsspec is used because ``storage_options``
are the words of its file systems, and because any file system that fsspec reaches may hold a store, if it passes the
probe. obstore's local files are not synced to disk; those are ``LocalFolder``'s in any case.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from altneu.errors import StoreCorruptError, StoreError, StoreInDoubtError
from altneu.store.cache import SegmentCache, segment_cache
from altneu.store.files import discard, missing
from altneu.store.folder import Data, Folder, other_file_system
from altneu.store.lock import UnlockedWriter, Writer
from altneu.store.references import SegmentRef

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

Way = Literal["put", "open", ""]

_FEW = 4  # files whose sizes are asked one by one; more are found in one listing
_PART = 8 << 20  # bytes that are read at once
_TRIES = 3  # puts of the same file whose reply does not come
_RIVALS = 4  # writers at once in the probe
_AT_ONCE = 8  # segments that a process uploads


class _Uploads:
    """Segments on their way, by their addresses: a request takes long, but several take no longer than one.

    One that has failed stays until somebody waits for it.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_AT_ONCE, "altneu-upload")
        self._lock = threading.Lock()
        self._begun: dict[str, Future[None]] = {}

    def begin(self, address: str, upload: Callable[[], None]) -> None:
        """Upload a segment; one of the same address comes first, whatever becomes of it."""
        before = self._begun.get(address)

        def run() -> None:
            if before is not None:
                before.exception()
            upload()
            with self._lock:
                if self._begun.get(address) is future:
                    del self._begun[address]

        with self._lock:
            future = self._begun[address] = self._pool.submit(run)

    def wait(self, addresses: Collection[str]) -> None:
        """Wait for some, all of them, and raise what the first one that failed has raised."""
        with self._lock:
            some = [self._begun[address] for address in addresses if address in self._begun]
        failed = [error for error in [future.exception() for future in some] if error is not None]
        with self._lock:
            for address in addresses:
                if (future := self._begun.get(address)) is not None and future.done():
                    del self._begun[address]
        if failed:
            raise failed[0]


_uploads = _Uploads()


def _forked() -> None:
    """A forked process has none of the threads."""
    global _uploads  # noqa: PLW0603 -- one a process
    _uploads = _Uploads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@dataclass(frozen=True, slots=True)
class RemoteFolder(Folder):
    """A folder (a prefix) of a file system that fsspec supports.

    It is pickled with the settings of the file system, which may contain secrets: these never occur in its text, in
    messages or in the store. ``way`` is the way of creating a file only if it does not exist: "" before it is probed.

    Cost:   every method is one request; fsspec's cached listings are not used.
    """

    locks: ClassVar[bool] = False

    path: str
    filesystem: AbstractFileSystem = field(compare=False, repr=False)
    way: Way = field(default="", compare=False)

    @property
    def _cache(self) -> SegmentCache:
        return segment_cache()

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}" if name else self.path

    @property
    def storage_options(self) -> Mapping[str, Any]:
        return dict(self.filesystem.storage_options)

    def where(self, name: str = "") -> str:
        return str(self.filesystem.unstrip_protocol(self._at(name)))

    def child(self, name: str) -> RemoteFolder:
        return replace(self, path=self._at(name))

    def make(self) -> None:
        """Prefixes need not be created; folders of file systems that have folders must be."""
        with self._naming("", "create"):
            if not _is_object_store(self.filesystem):
                self.filesystem.makedirs(self.path, exist_ok=True)

    def check(self) -> None:
        """Nothing to check: there are no links."""

    def writer(self) -> Writer:
        return UnlockedWriter()

    def probed(self) -> RemoteFolder:
        """This folder with a ``way``, found by a probe, of creating a file only if it does not exist.

        Cost:   several threads put one file at once, and once more; about four requests one after the other.

        Raises:
            StoreError: two puts of the same name both succeeded, or the second replaced the bytes of the first.
        """
        failures = []
        for way in ("put", "open"):
            folder = replace(self, way=way)
            failure = folder._fault(f"probe-{uuid.uuid4().hex}")  # of this class
            if failure is None:
                return folder
            failures.append(failure)
        raise StoreError(
            f"{self.where()} cannot hold a store: {'; '.join(dict.fromkeys(failures))}. A store needs a file system "
            "that can put a file only if it does not exist yet: a local disk, S3 (s3fs 2026.9 or newer), Google Cloud "
            "Storage (gcsfs) or Azure (adlfs)"
        )

    def _fault(self, name: str) -> str | None:
        """The defect of this way of creating a file; None if it has none."""
        contents = [f"{name} {i}".encode() for i in range(_RIVALS + 1)]
        try:
            with ThreadPoolExecutor(_RIVALS) as pool:
                results = list(pool.map(self._try, [name] * _RIVALS, contents))
            results.append(self._try(name, contents[-1]))
            won = [data for data, answer in zip(contents, results, strict=True) if answer is True]
            if not won:
                self.put(name, contents[0])  # raises where nothing at all can be written, which is another matter
                said = next((answer for answer in results if isinstance(answer, str)), "it says that the file exists")
                return f"it does not put a file only if it does not exist yet ({said})"
            if len(won) > 1:
                return "it lets two writers put the same file"
            return None if bytes(self.read(name)) == won[0] else "it overwrites a file that it says exists"
        finally:
            with contextlib.suppress(StoreError):  # what stays behind is a few bytes that no store reads
                self.remove(name)

    def _try(self, name: str, data: bytes) -> bool | str:
        """Whether a file was created; or the exception if the file system does not support this way."""
        try:
            self._create(name, data)
        except FileExistsError:
            return False
        except Exception as error:  # noqa: BLE001  # whatever it is, it says that this is no way
            return f"{type(error).__name__}: {error}"
        return True

    def _create(self, name: str, data: Data) -> None:
        """Create a file; FileExistsError if it exists."""
        if self.way == "put" and _puts_itself(self.filesystem):
            self.filesystem.pipe_file(self._at(name), bytes(data), mode="create")
            return
        file = self.filesystem.open(self._at(name), "xb")
        with file:
            file.write(bytes(data))

    def put(self, name: str, data: Data, *, exclusive: bool = False, durable: bool = True) -> bool:
        if not exclusive:
            with self._naming(name, "write"):
                self.filesystem.pipe_file(self._at(name), bytes(data))
            return True
        assert self.way, "a log needs a folder that was probed"
        failed: Exception | None = None
        for _ in range(_TRIES):  # the same bytes: that it failed does not say that it was not done, or will not be yet
            try:
                self._create(name, data)
            except FileExistsError:
                return False
            except (FileNotFoundError, PermissionError) as error:
                raise self._failure(error, name, "write") from error
            except Exception as error:  # noqa: BLE001  # of all others nobody can say what came of it
                failed = error
            else:
                return True
        assert failed is not None
        raise StoreInDoubtError(str(self._failure(failed, name, "write"))) from failed

    def sync(self, written: Collection[str] = ()) -> None:
        """Wait for uploads: one that has returned is durable, as is a put."""
        self.arrived(written)

    def sync_parent(self) -> None:
        """Nothing to do."""

    def arrived(self, names: Collection[str]) -> None:
        _uploads.wait([self.where(name) for name in names])

    def read(self, name: str) -> memoryview:
        with self._naming(name, "read"):
            return memoryview(self.filesystem.cat_file(self._at(name)))

    def read_those(self, names: Collection[str]) -> dict[str, memoryview]:
        def attempt(name: str) -> memoryview | None:
            try:
                return self.read(name)
            except StoreCorruptError:
                return None

        with ThreadPoolExecutor(max(len(names), 1)) as pool:
            contents = zip(names, pool.map(attempt, names), strict=True)
            return {name: data for name, data in contents if data is not None}

    def checksum(self, name: str) -> str:
        self._forget()
        digest = hashlib.blake2b(digest_size=16)
        with self._naming(name, "read"), self.filesystem.open(self._at(name), "rb", cache_type="none") as file:
            while part := file.read(_PART):
                digest.update(part)
        return digest.hexdigest()

    def names(self) -> list[str]:
        return sorted(self._listed())

    def _listed(self) -> dict[str, int]:
        """The entries of the folder, by name."""
        self._forget()
        with self._naming("", "list"):
            try:
                listing = self.filesystem.ls(self.path, detail=True)
            except FileNotFoundError:
                return {}  # a prefix without objects
        entries = {str(entry["name"]).rstrip("/").rpartition("/")[2]: entry for entry in listing}
        own = self.path.rpartition("/")[2]
        return {
            name: int(entry["size"] or 0)
            for name, entry in entries.items()
            if name and not (name == own and str(entry["name"]).rstrip("/") == self.path)
        }

    def sizes(self, names: Collection[str]) -> dict[str, int]:
        self.arrived(names)
        if len(names) > _FEW:
            listed = self._listed()
            for name in names:
                if name not in listed:
                    raise self._missing(name)
            return {name: listed[name] for name in names}
        return {name: self._size(name) for name in names}

    def _size(self, name: str) -> int:
        self._forget()
        with self._naming(name, "read"):
            return int(self.filesystem.info(self._at(name))["size"])

    def has(self, name: str) -> bool:
        try:
            self._size(name)
        except StoreCorruptError:
            return False
        return True

    def remove(self, name: str) -> int:
        with contextlib.suppress(StoreError):
            self.arrived([name])
        try:
            size = self._size(name)
            with self._naming(name, "remove"):
                self.filesystem.rm_file(self._at(name))
        except StoreCorruptError:
            return 0
        return size

    def move(self, name: str, to: Folder) -> None:
        """Copy, then remove: if interrupted in between, the file exists twice."""
        assert isinstance(to, RemoteFolder)
        with self._naming(name, "move"):
            self.filesystem.cp_file(self._at(name), to._at(name))  # of this class
            self.filesystem.rm_file(self._at(name))

    def share(self, name: str, to: Folder, called: str) -> None:
        """A copy that the object store makes; the local copy, which is named by its checksum, serves both."""
        if not isinstance(to, RemoteFolder) or to.filesystem != self.filesystem:
            raise other_file_system(self, to)
        with self._naming(name, "copy"):
            self.filesystem.cp_file(self._at(name), to._at(called))  # of this class

    def clear_unfinished(self) -> None:
        """Nothing to do: there are no unfinished files."""

    def temporary(self, number: int) -> Path:
        return self._cache.temporary()

    def adopt(self, temporary: Path, ref: SegmentRef) -> None:
        """Begin to upload a segment, which is then added to the local cache."""

        def upload() -> None:
            try:
                with self._naming(ref.name, "write"):
                    self.filesystem.put_file(str(temporary), self._at(ref.name))
                self._cache.keep(temporary, ref)
            finally:
                discard(temporary)

        _uploads.begin(self.where(ref.name), upload)

    def mappable(self, ref: SegmentRef) -> Path:
        self.arrived([ref.name])

        def fetch(to: Path) -> None:
            with self._naming(ref.name, "read"):
                self.filesystem.get_file(self._at(ref.name), str(to))

        return self._cache.fetched(ref, fetch, self.where(ref.name))

    def spoiled(self, ref: SegmentRef) -> bool:
        self._cache.discard(ref)
        return True

    def _forget(self) -> None:
        """Drop cached listings, so that files of other writers are seen."""
        self.filesystem.invalidate_cache()

    @contextlib.contextmanager
    def _naming(self, name: str, doing: str) -> Iterator[None]:
        """Turn whatever a file system raises into a ``StoreError`` that names the file."""
        try:
            yield
        except StoreError:
            raise
        except FileNotFoundError as error:
            raise self._missing(name) from error
        except Exception as error:
            raise self._failure(error, name, doing) from error

    def _missing(self, name: str) -> StoreCorruptError:
        return missing(self.where(name))

    def _failure(self, error: Exception, name: str, doing: str) -> StoreError:
        return StoreError(f"cannot {doing} {self.where(name)}: {type(error).__name__}: {error}")


def _is_object_store(filesystem: AbstractFileSystem) -> bool:
    protocols = {filesystem.protocol} if isinstance(filesystem.protocol, str) else set(filesystem.protocol)
    return bool(protocols & {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az"})


def _puts_itself(filesystem: AbstractFileSystem) -> bool:
    """Whether a file system has an atomic put of its own; fsspec's default first checks and then puts."""
    from fsspec import AbstractFileSystem
    from fsspec.asyn import AsyncFileSystem

    kind: Any = type(filesystem)
    if isinstance(filesystem, AsyncFileSystem):
        own: Callable[..., Any] = kind._pipe_file  # what a file system of its kind defines
        return own is not AsyncFileSystem._pipe_file
    return kind.pipe_file is not AbstractFileSystem.pipe_file
