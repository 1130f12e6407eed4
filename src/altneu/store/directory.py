"""A store in a folder, on a local disk or elsewhere, with one writer (docs/format.md says what is in it)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any, Self

import pyarrow as pa

from altneu.errors import StoreCorruptError, StoreError, StoreInDoubtError, StoreLockedError
from altneu.store.base import CommitInfo, Store, Vacuumed
from altneu.store.commit import Commit
from altneu.store.folder import Folder, is_unfinished
from altneu.store.identity import FILE, FORMAT, make_identity, read_identity, take_up
from altneu.store.leases import Lease, Leases
from altneu.store.ledger import Change, Ledger
from altneu.store.locate import Location, folder_of
from altneu.store.lock import Writer
from altneu.store.log import CommitLog
from altneu.store.orphans import aimed_at, find_orphans, over
from altneu.store.recovery import ASIDE
from altneu.store.recovery import recover as recover_store
from altneu.store.references import Json, SegmentRef
from altneu.store.segments import Verify, open_segment, write_segment

CHECKPOINT_EVERY = 50
FOLDERS = ("log", "segments", "scratch", "readers")
_ADVICE = (
    "recover=True opens the store at the last complete commit and quarantines everything after it; "
    "altneu.check_store(path) reports all damage beforehand"
)


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
        self, folder: Folder, writer: Writer, log: CommitLog, *, checkpoint_every: int, verify: Verify, durable: bool
    ) -> None:
        ledger, last, checkpoint = log.replay()
        super().__init__(ledger, last.number if last else 0, last.frontier if last else None)
        self._root = log.root
        self._folder = folder
        self._writer = writer
        self._log = log
        self._parent = last.digest if last else log.root
        self._checkpoint = checkpoint
        self._checkpoint_every = checkpoint_every
        self._verify: Verify = verify
        self.durable = durable
        self._unsynced: set[str] = set()  # segments of this process, which a commit syncs all at once
        self._goes_on = False  # whether this process has written, or is about to
        self._segments, self._scratch = folder.child("segments"), folder.child("scratch")
        self._leases = Leases(folder.child("readers"))
        self._require(ledger.segments.values())

    @classmethod
    def create_or_open(
        cls,
        path: Location,
        *,
        create: bool = True,
        checkpoint_every: int = CHECKPOINT_EVERY,
        verify: Verify = "first",
        durable: bool = True,
        storage_options: Mapping[str, Any] = MappingProxyType({}),
        recover: bool = False,
    ) -> Self:
        """Open the store in a folder for writing, or create one there.

        ``path`` is a local folder, an address that fsspec supports ("s3://bucket/prefix", with its
        ``storage_options``) or a pyarrow file system. ``recover`` reads the whole store first; if a file is damaged, it
        goes back to the last complete commit, moves later files into the quarantine and names them in a warning.
        ``durable=False`` leaves out syncs to the disk, for a store that lives no longer than its process.

        Raises:
            StoreError: there is no store and ``create`` is False, or the folder has other files, or its file system
                cannot create a file only if it does not exist.
            StoreVersionError: a version of altneu with another format wrote it.
            StoreCorruptError: a file is damaged; names it. With ``recover``: no commit is complete.
            StoreLockedError: another session has the store open.
            StoreFullError: the disk is too full to create a store.
        """
        if checkpoint_every < 1:
            raise StoreError(f"checkpoint_every must be at least 1, got {checkpoint_every}")
        folder = folder_of(path, storage_options)
        if create:
            folder.make()
        elif not folder.has(FILE):
            raise StoreError(f"there is no store in {folder.where()}; leave out create=False to create one")
        folder = folder.probed()
        if folder.has(FILE):
            for name in FOLDERS[1:]:  # what is empty is lost by some who copy, and the first stores had no readers
                folder.child(name).make()
        else:
            make_folders(folder)
        for name in FOLDERS:
            folder.child(name).check()
        writer = folder.writer()
        try:
            for place in (folder, folder.child("log")):
                place.clear_unfinished()
            if recover:
                recover_store(folder, durable=durable)
            version, identity = _identity(folder)
            log = CommitLog(folder.child("log"), identity, durable=durable)
            folder.child("log").sync()  # a commit that its writer died too early to sync is built upon from here on
            store = cls(folder, writer, log, checkpoint_every=checkpoint_every, verify=verify, durable=durable)
            store._clear_scratch()
            store._goes_on = recover  # which deletes nothing that damage may have cut off from its commit
            if version != FORMAT:
                take_up(folder, identity)
        except BaseException as error:
            writer.release()
            if isinstance(error, StoreCorruptError) and not recover:
                raise StoreCorruptError(f"{error}; {_ADVICE}") from error
            raise
        return store

    @property
    def folder(self) -> Folder:
        """The store's address."""
        return self._folder

    @property
    def segment_directory(self) -> Folder:
        """Folder for ``write_segment`` and ``open_segment`` in other processes."""
        return self._segments

    @property
    def scratch_directory(self) -> Folder:
        """Folder for segments that no commit will name."""
        return self._scratch

    def write_segment(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> SegmentRef:
        """Write a segment that the next commit may name, which also syncs it."""
        self._writer.check(self._folder.where())
        self.go_on()
        ref = write_segment(self.segment_directory, batches, schema, self.next_number, durable=False)
        self._unsynced.add(ref.name)
        return ref

    def hand_over(self) -> None:
        """Wait until all segments that this process has written are there for other processes."""
        self.go_on()
        self._segments.arrived(sorted(self._unsynced))

    def open_segment(self, ref: SegmentRef) -> list[pa.RecordBatch]:
        """The record batches of a segment, memory-mapped and checked."""
        return open_segment(self.segment_directory, ref, self._verify)

    def _require(self, refs: Collection[SegmentRef]) -> None:
        sizes = self._segments.sizes([ref.name for ref in refs])
        for ref in refs:
            if (size := sizes[ref.name]) != ref.bytes:
                where = self._segments.where(ref.name)
                raise StoreCorruptError(f"{where} has {size} bytes where {ref.bytes} are named: it was cut off or grew")

    def _settle(self) -> None:
        if self._log.is_cut and self._folder.locks:
            before = self._number
            self._look_again()
            if self._number != before:
                raise StoreInDoubtError(f"commit {self._number} was interrupted but exists: open the store again")

    def _look_again(self) -> None:
        """Read the log again: after an interrupt the commit may exist or not, and the ledger may be inconsistent."""
        if self._folder.locks and not self._log.doubtful:
            ledger, last, checkpoint = self._log.look_again()
            self._ledger, self._checkpoint = ledger, checkpoint
            self._parent = last.digest if last else self._log.root
            self._number, self._frontier = (last.number, last.frontier) if last else (0, None)

    def _append(self, change: Change, frontier: Json, info: dict[str, Json]) -> None:
        self._writer.check(self._folder.where())
        if change.new_segments:
            self._sync({ref.name for ref in change.new_segments})
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

    def _sync(self, named: set[str]) -> None:
        """Sync the segments that a commit names; what cannot be synced is removed, as nobody can say what it holds."""
        written, self._unsynced = named & self._unsynced, set()
        finish = self._segments.sync if self.durable else self._segments.arrived
        try:
            finish(sorted(written))
        except BaseException:
            with suppress(StoreError):
                for name in written:
                    self._segments.remove(name)
            raise

    @property
    def checksums(self) -> dict[str, str]:
        """The names of the segments that the state names, by their checksums."""
        return {ref.checksum: name for name, ref in self._ledger.segments.items()}

    @contextmanager
    def replacing(self, state: Mapping[str, Json], blobs: Mapping[str, memoryview]) -> Iterator[None]:
        """A context in which the store has another state, which its first commit makes that of the log.

        That commit is a checkpoint, so that the change is atomic; without one, the state is as before at the end. Its
        segments are in the folder already (``share``).

        Raises:
            StoreCorruptError: a segment that the state names is missing.
        """
        with self._mutex:
            self._settle()
            before, number, checkpoint = self._ledger, self._number, self._checkpoint
            ledger = Ledger()
            ledger.apply(ledger.prepare(state, (), blobs))
            self._require(ledger.segments.values())
            if self.durable:
                self._segments.sync()
            self._ledger, self._checkpoint = ledger, number - self._checkpoint_every
            try:
                yield
            finally:
                if self._number == number:
                    self._ledger, self._checkpoint = before, checkpoint

    def leases(self) -> list[Lease]:
        """The leases of readers.

        Cost:   one listing of a small folder.
        """
        return self._leases.live()

    def lease(self, lease: Lease) -> bool:
        """Replace the lease of that name."""
        self._leases.put(lease)
        return True

    def history(self, limit: int = 20) -> list[CommitInfo]:
        """Recent commits, newest first, as far as the log goes back.

        Cost:   reads one file a commit.
        """
        with self._mutex:
            numbers = self._log.numbers()[::-1][: max(limit, 0)]
            commits = [self._log.read(number) for number in numbers]
        return [CommitInfo(c.number, c.transaction, c.at, c.checkpoint, c.frontier, c.info) for c in commits]

    def vacuum(self, keep: int = 3) -> Vacuumed:
        """Remove files that no running step, no reader's lease and none of the last ``keep`` commits need.

        A lease on an older commit retains that commit and all later ones. Removed are commits older than the checkpoint
        from which the oldest retained commit is replayed; and segments that no retained commit names, and scratch
        files, if their number is at most that of the last commit (a higher number belongs to the running step). Readers
        that have a removed segment open can go on reading it.

        Cost:   lists the folders and reads at most ``checkpoint_every + keep`` commits.
        Law:    afterwards every named segment can be opened, and all others of finished steps are removed
                (tests/store/test_vacuum.py).

        Raises:
            StoreError: ``keep`` is below 1, or a file cannot be removed; named files are never touched.
            StoreLockedError: on a file system without locks, another writer has committed; nothing is removed.
        """
        if keep < 1:
            raise StoreError(f"keep must be at least 1, got {keep}")
        with self._mutex:
            self._writer.check(self._folder.where())
            numbers = self._log.numbers()
            if (numbers or [0])[-1] != self._number:
                raise StoreLockedError(
                    f"another writer has continued {self._folder.where()} to commit {numbers[-1]} and vacuums it, "
                    f"while this one is at {self._number}: close this one and open the store again"
                )
            self._leases.sweep()
            orphans = find_orphans(self._folder, self._log, keep, self._leases.live(), until=self._number)
            # Oldest first: a log cut short in between still ends with everything that is replayed.
            commits = [self._log.remove(number) for number in orphans.commits]
            segments = [self._segments.remove(name) for name in orphans.segments]
            scratch = [self._scratch.remove(name) for name in orphans.scratch]
            return Vacuumed(len(segments), len(scratch), len(commits), sum(commits) + sum(segments) + sum(scratch))

    def _clear_scratch(self) -> None:
        """Delete scratch files, which no writer needs after its end; without a lock their writer may be running."""
        for name in list(over(self._scratch, None if self._folder.locks else self._number)):
            self._scratch.remove(name)

    def go_on(self) -> None:
        """Delete the segments of a step that died before its commit, once, before this process adds others.

        A bulk load has many of them. Nothing names them: a commit has the greatest number of all segments that it
        names. Opening a store deletes none, as the end of its log may have been left behind by who copied it. Without a
        lock their writer may be running. Tasks of a dead driver may write more, which vacuum deletes.
        """
        if self._folder.locks and not self._goes_on:
            for name in [name for name in self._segments.names() if (aimed_at(name) or 0) > self._number]:
                self._segments.remove(name)
        self._goes_on = True

    def close(self) -> None:
        """Release the lock; the object refuses to write from then on."""
        self._writer.release()


def make_folders(folder: Folder, besides: Collection[str] = ()) -> None:
    """Make the folders of a new store.

    Raises:
        StoreError: there are other files, ``besides`` some.
    """
    there = folder.names()
    strangers = {name for name in there if not is_unfinished(name)} - {*FOLDERS, *besides, ASIDE, "lock", FILE}
    if strangers and FILE not in there:
        raise StoreError(
            f"{folder.where()} contains other files ({min(strangers)}, …); choose an empty folder for a new store"
        )
    for name in FOLDERS:
        folder.child(name).make()


def _identity(folder: Folder) -> tuple[int, str]:
    """The store's format and id, after a check of its version; a new store gets an id."""
    if not folder.has(FILE):
        if any(name.endswith(".commit") for name in folder.child("log").names()):
            where = folder.where(FILE)
            raise StoreCorruptError(
                f"{where} is missing, but there are commits; put it back from a copy of the store, or, if a fork into "
                "this folder was interrupted, fork again"
            )
        make_identity(folder)
        folder.sync()
        folder.sync_parent()
    return read_identity(folder)
