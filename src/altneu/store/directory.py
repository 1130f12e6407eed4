"""A store in a folder of a local disk, with one writer (docs/format.md says what is in it)."""

from __future__ import annotations

import importlib.metadata
import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from altneu.errors import StoreCorruptError, StoreError, StoreVersionError
from altneu.store.base import CommitInfo, Store, Vacuumed
from altneu.store.commit import Commit
from altneu.store.files import TEMPORARY, clear_temporaries, naming, parse_json, put, regular_size, remove, sync_folder
from altneu.store.leases import Lease, Leases, least_commit
from altneu.store.ledger import Change
from altneu.store.lock import WriterLock
from altneu.store.log import CommitLog
from altneu.store.references import Json, SegmentRef, segment_number
from altneu.store.segments import Verify, open_segment, write_segment

FORMAT = 2
CHECKPOINT_EVERY = 50
_FOLDERS = ("segments", "log", "scratch", "readers")


def folder_of(path: str | os.PathLike[str]) -> Path:
    """The folder that a path of a store means.

    Raises:
        StoreError: it is on no local disk.
    """
    if "://" in os.fspath(path):
        raise StoreError(f"{os.fspath(path)} is not a local folder; this version keeps stores on local disks only")
    return Path(path).absolute()


def _software() -> str:
    try:
        return importlib.metadata.version("altneu")
    except importlib.metadata.PackageNotFoundError:
        return "unreleased"


class DirectoryStore(Store):
    """A store in a folder: ``format.json``, ``lock``, ``segments/``, ``log/``, ``scratch/``.

    Cost:   a small commit is one file, written and synced: about half a millisecond on a local SSD.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with DirectoryStore.create_or_open(folder) as store:
    ...         number = store.commit(1, set={"answer": 42})
    ...     with DirectoryStore.create_or_open(folder, create=False) as again:
    ...         number, again.frontier, dict(again.state)
    (1, 1, {'answer': 42})
    """

    def __init__(
        self, path: Path, lock: WriterLock, log: CommitLog, *, checkpoint_every: int, verify: Verify, durable: bool
    ) -> None:
        ledger, last, checkpoint = log.replay()
        super().__init__(ledger, last.number if last else 0, last.frontier if last else None)
        self._path = path
        self._lock = lock
        self._log = log
        self._parent = last.digest if last else log.root
        self._checkpoint = checkpoint
        self._checkpoint_every = checkpoint_every
        self._verify: Verify = verify
        self.durable = durable
        self._segments, self._scratch = path / "segments", path / "scratch"
        self._leases = Leases(path / "readers")
        for ref in ledger.segments.values():
            self._require(ref)

    @classmethod
    def create_or_open(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool = True,
        checkpoint_every: int = CHECKPOINT_EVERY,
        verify: Verify = "first",
        durable: bool = True,
    ) -> Self:
        """Open the store in a folder for writing, or make one there.

        ``durable=False`` leaves out every sync to the disk: for a store that goes with its process.

        Raises:
            StoreError: there is none and ``create`` is False, or the folder holds something else.
            StoreVersionError: an altneu of another format wrote it.
            StoreCorruptError: a file of it does not hold; names the file.
            StoreLockedError: another session has it open.
            StoreFullError: the disk is too full to make one.
        """
        folder = folder_of(path)
        if checkpoint_every < 1:
            raise StoreError(f"checkpoint_every is a number of commits, at least 1, not {checkpoint_every}")
        if create:
            _make_folders(folder)
        elif not (folder / "format.json").exists():
            raise StoreError(f"there is no store in {folder}; leave out create=False to make one")
        else:
            (folder / "readers").mkdir(exist_ok=True)  # which the first stores had not
        _check_folders(folder)
        lock = WriterLock(folder / "lock")
        try:
            for place in (folder, folder / "log"):
                clear_temporaries(place)
            log = CommitLog(folder / "log", _identity(folder), durable=durable)
            with naming(folder / "log", "sync"):
                sync_folder(
                    folder / "log"
                )  # a commit that its writer died too early to sync is built upon from here on
            store = cls(folder, lock, log, checkpoint_every=checkpoint_every, verify=verify, durable=durable)
            store._clear_scratch()
        except BaseException:
            lock.release()
            raise
        return store

    @property
    def path(self) -> Path:
        """The folder."""
        return self._path

    @property
    def segment_directory(self) -> str:
        """Folder for ``write_segment`` and ``open_segment`` in other processes."""
        return str(self._segments)

    @property
    def scratch_directory(self) -> str:
        """Folder for segments that no commit will name."""
        return str(self._scratch)

    def write_segment(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> SegmentRef:
        """Write a segment that the next commit may name."""
        self._lock.check(self._path)
        return write_segment(self.segment_directory, batches, schema, self.next_number, durable=self.durable)

    def open_segment(self, ref: SegmentRef) -> list[pa.RecordBatch]:
        """The record batches of a segment, memory-mapped and checked."""
        return open_segment(self.segment_directory, ref, self._verify)

    def _require(self, ref: SegmentRef) -> None:
        path = self._segments / ref.name
        if (size := regular_size(path)) != ref.bytes:
            raise StoreCorruptError(f"{path} has {size} bytes where {ref.bytes} are named: it was cut off or grew")

    def _append(self, change: Change, frontier: Json, info: dict[str, Json]) -> None:
        self._lock.check(self._path)
        if change.new_segments and self.durable:
            with naming(self._segments, "sync"):
                sync_folder(self._segments)
        number = self.next_number
        whole = number - self._checkpoint >= self._checkpoint_every
        parts: dict[str, Any] = {"set": change.set, "delete": change.delete, "blobs": change.blobs}
        if whole:
            after = self._ledger.copy()
            after.apply(change)
            parts = {"set": after.state, "blobs": after.blobs}
        transaction = uuid.uuid4().hex
        self._parent = self._log.put(
            Commit(number, transaction, self._parent, time.time(), whole, frontier, info=info, **parts)
        )
        if whole:
            self._checkpoint = number

    def leases(self) -> list[Lease]:
        """What readers still need.

        Cost:   one listing of a small folder.
        """
        return self._leases.live()

    def history(self, limit: int = 20) -> list[CommitInfo]:
        """Recent commits, newest first, as far as the log goes back.

        Cost:   reads one file a commit.
        """
        with self._mutex:
            numbers = self._log.numbers()[::-1][: max(limit, 0)]
            found = [self._log.read(number) for number in numbers]
        return [CommitInfo(c.number, c.transaction, c.at, c.checkpoint, c.frontier, c.info) for c in found]

    def vacuum(self, keep: int = 3) -> Vacuumed:
        """Remove what no step in flight, no reader's lease and none of the last ``keep`` commits can need.

        A lease on an older commit keeps that one and all that follow it. That is: commits older than the checkpoint
        from which the oldest commit kept is replayed; segments that no commit kept names, and scratch, whose number
        is at most that of the last commit (a higher one belongs to the step in flight, which nobody names yet).
        Readers that have a removed segment open keep it.

        Cost:   lists the folders and reads at most ``checkpoint_every + keep`` commits.
        Law:    what is named can be opened afterwards; what is not, and is over, is gone (tests/store/test_vacuum.py).

        Raises:
            StoreError: ``keep`` is below 1, or a file cannot be removed; what is named is never touched.
        """
        if keep < 1:
            raise StoreError(f"keep is a number of commits, at least 1, not {keep}")
        with self._mutex:
            self._lock.check(self._path)
            numbers = self._log.numbers()
            self._leases.sweep()
            leased = least_commit(self._leases.live())
            base = self._number - keep + 1 if leased is None else min(leased, self._number - keep + 1)
            base = max(base, self._log.first_replayable(numbers))
            ledger, _, oldest = self._log.replay(base)
            named = set(ledger.segments)
            for number in range(base + 1, self._number + 1):
                ledger = self._log.follow(ledger, self._log.read(number))
                named.update(ledger.segments)
            # Oldest first: a log cut short in between still ends with everything that is replayed.
            commits = [remove(self._log.path(number)) for number in numbers if number < oldest]
            segments = [remove(p) for p in self._over(self._segments) if p.name not in named]
            scratch = [remove(p) for p in self._over(self._scratch)]
            return Vacuumed(len(segments), len(scratch), len(commits), sum(commits) + sum(segments) + sum(scratch))

    def _over(self, folder: Path) -> Iterator[Path]:
        """Files of a folder, finished or not, that belong to a step that is over."""
        with naming(folder, "list"):
            entries = sorted(folder.iterdir())
        for path in entries:
            number = _aimed_at(path.name)
            if number is not None and number <= self._number:
                yield path

    def _clear_scratch(self) -> None:
        """Nothing in scratch outlives the writer it was made for."""
        with naming(self._scratch, "list"):
            entries = sorted(self._scratch.iterdir())
        for path in entries:
            if _aimed_at(path.name) is not None:
                remove(path)

    def close(self) -> None:
        """Release the lock; the object refuses to write from then on."""
        self._lock.release()


def _aimed_at(name: str) -> int | None:
    """Number of the commit that a segment, or the temporary file of one, aims at."""
    if name.startswith(".") and name.endswith(TEMPORARY):
        name = name[1:].rsplit(".", 2)[0]
    return segment_number(name)


def _make_folders(folder: Path) -> None:
    with naming(folder, "create"):
        folder.mkdir(parents=True, exist_ok=True)
        strangers = {p.name for p in folder.iterdir() if not p.name.endswith(TEMPORARY)} - {
            *_FOLDERS,
            "lock",
            "format.json",
        }
        if strangers and not (folder / "format.json").exists():
            raise StoreError(
                f"{folder} holds other things ({min(strangers)}, …); choose an empty folder for a new store"
            )
        for name in _FOLDERS:
            (folder / name).mkdir(exist_ok=True)


def _check_folders(folder: Path) -> None:
    for name in _FOLDERS:
        path = folder / name
        if path.is_symlink() or not path.is_dir():
            raise StoreCorruptError(f"{path} is not a folder of its own; a store holds no links, and none is followed")


def _identity(folder: Path) -> str:
    """The store's id, after its version is found fit; a new store gets one."""
    path = folder / "format.json"
    if not path.exists() and not path.is_symlink():
        if any((folder / "log").glob("*.commit")):
            raise StoreCorruptError(f"{path} is missing, but there are commits; put it back from a copy of the store")
        text = json.dumps({"format": FORMAT, "altneu": _software(), "id": uuid.uuid4().hex}) + "\n"
        with naming(path, "write"):
            put(path, text.encode("ascii"), exclusive=False)
            sync_folder(folder)
            sync_folder(folder.parent)
    return stored_identity(folder)


def stored_identity(folder: Path) -> str:
    """The id of the store in a folder.

    Raises:
        StoreVersionError: an altneu of another format wrote it.
        StoreCorruptError: ``format.json`` does not hold.
    """
    path = folder / "format.json"
    if regular_size(path) > 65536:
        raise StoreCorruptError(f"{path} is far too large to say a format")
    with naming(path, "read"):
        found = parse_json(path.read_bytes(), path)
    return _checked(found, path)


def _checked(found: Any, path: Path) -> str:
    version = found.get("format") if isinstance(found, dict) else None
    if type(version) is not int or version < 1:
        raise StoreCorruptError(f"{path} says no format version")
    if version != FORMAT:
        raise StoreVersionError(
            f"{path.parent} has format {version}, written by altneu {found.get('altneu', 'unknown')}; this is altneu "
            f"{_software()}, which reads format {FORMAT}: install that altneu, or open another folder"
        )
    if not isinstance(found.get("id"), str) or not found["id"]:
        raise StoreCorruptError(f"{path} has no store id")
    identity: str = found["id"]
    return identity
