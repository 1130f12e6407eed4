"""A store opened for reading while another process may write it: no lock, no writes, one commit after another."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import pyarrow as pa

from altneu.errors import HistoryGoneError, StoreCorruptError, StoreError
from altneu.store.base import CommitInfo, Store, Vacuumed
from altneu.store.commit import Commit
from altneu.store.folder import Folder
from altneu.store.identity import FILE, read_identity
from altneu.store.leases import HeldLease, Lease, Leases, lease_seconds, least_commit
from altneu.store.ledger import Change, Ledger
from altneu.store.locate import Location, folder_of
from altneu.store.log import CommitLog
from altneu.store.references import Json, SegmentRef
from altneu.store.segments import open_segment

_FOLLOWED = 25  # commits that are followed one by one; to go further the last checkpoint is nearer
_ATTEMPTS = 20  # a vacuum may take away what is read just now, which then is not the last commit any more


class StoreReader:
    """Follows the log of a store that another process may be writing.

    ``refresh`` moves to the last commit; ``snapshot`` is the state there, and does not change. A *lease* protects the
    files of the snapshot from vacuum; without one (``lease=None``, for a store on a read-only disk) opening a file that
    was removed raises an error. With ``shared`` many readers that stay at one commit use one lease, which expires.

    A lease is safe against a running vacuum: the lease is written first and names an existing commit, and then the log
    is read. A vacuum that did not see the lease began before; therefore its last commit is in the log that is read, and
    it does not remove files that this commit, or a later one, names.

    Law:    a snapshot is a state that was committed; whatever it names can be read as long as the lease holds
            (tests/store/test_reader.py).
    """

    def __init__(
        self,
        path: Location,
        *,
        lease: float | str | None = "1 hour",
        since: int | None = None,
        shared: bool = False,
        storage_options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._folder = folder_of(path, storage_options)
        if not self._folder.has(FILE):
            raise StoreError(f"there is no store in {self._folder.where()}")
        self._log = CommitLog(self._folder.child("log"), read_identity(self._folder)[1])
        self._leases = Leases(self._folder.child("readers"))
        self._lease: HeldLease | None = None
        self._ledger, self._last = Ledger(), None
        if lease is not None:
            numbers, seconds = self._log.numbers(), lease_seconds(lease)
            name = f"commits-{seconds:.0f}" if shared else f"reader-{uuid.uuid4().hex}"
            first = numbers[-1] if numbers else 0
            try:
                self._folder.child("readers").make()  # which the first stores had not
                self._lease = HeldLease(self._leases, name, seconds, first, since, shared=shared)
            except StoreError as error:
                raise type(error)(
                    f"{error}; this failed when the reader wrote its lease: lease=None reads without one"
                ) from error
        try:
            self.snapshot = self._read_log()
        except BaseException:
            self.close()
            raise

    _last: Commit | None

    @property
    def where(self) -> str:
        """The folder, as messages name it."""
        return self._folder.where()

    @property
    def leased(self) -> int:
        """The least commit that the lease retains; without a lease, the commit of the snapshot."""
        commit = self._lease.lease.commit if self._lease is not None else None
        return self.snapshot.number if commit is None else commit

    def keep(self, commit: int, since: int | None) -> None:
        """Request that commits from ``commit`` on be retained, and history from the writer's next step on."""
        if self._lease is not None:
            self._lease.move(commit, since)

    def refresh(self) -> bool:
        """Move to the last commit; returns whether that is a different one. The lease does not move.

        Cost:   a listing, and the commits in between.

        Raises:
            StoreCorruptError: a file of the log is damaged.
        """
        numbers = self._log.numbers()
        if self._last is not None and numbers and numbers[-1] == self._last.number:
            return False
        before = self.snapshot.number
        self.snapshot = self._read_log()
        return self.snapshot.number != before

    def _read_log(self) -> Snapshot:
        for _ in range(_ATTEMPTS):
            numbers = self._log.numbers()
            last = (numbers or [0])[-1]
            try:
                return self._follow(last, numbers)
            except StoreCorruptError:
                if self._log.numbers() == numbers:
                    raise  # it is no vacuum that has moved on
        raise StoreError(f"{self.where} changes faster than it can be read; give the reader a lease")

    def _follow(self, last: int, numbers: list[int]) -> Snapshot:
        """Read the state of commit ``last``, from the present state if the commits in between exist."""
        followed = self._onward([n for n in numbers if self._last is not None and n > self._last.number])
        self._ledger, self._last = self._log.replay(last)[:2] if followed is None else followed
        return Snapshot(self._folder, self._log, self._ledger, self._last)

    def _onward(self, numbers: list[int]) -> tuple[Ledger, Commit] | None:
        """Apply later commits to the present state; None if they do not follow it, as after a recovery."""
        if self._last is None or not numbers or numbers[-1] - self._last.number != len(numbers) <= _FOLLOWED:
            return None
        ledger, commit = self._ledger.copy(), self._last
        for number in numbers:
            following = self._log.read(number)
            if following.parent != commit.digest:
                return None
            ledger, commit = self._log.follow(ledger, following), following
        return ledger, commit

    def before(self, number: int) -> Snapshot:
        """The state before a commit, if a lease of this or another reader retains it.

        Raises:
            HistoryGoneError: that commit is no longer retained.
        """
        least = least_commit(self._leases.live())
        if self._lease is None or least is None or number <= least:
            raise HistoryGoneError(f"commit {number - 1} of {self.where} is not retained for any reader")
        self._lease.move(min(number - 1, self.leased), self._lease.lease.since)
        try:
            ledger, commit, _ = self._log.replay(number - 1)
        except StoreCorruptError as error:
            raise HistoryGoneError(f"commit {number - 1} of {self.where} is no longer retained: {error}") from error
        return Snapshot(self._folder, self._log, ledger, commit)

    def lease(self, lease: Lease) -> bool:
        """Replace the lease of that name."""
        self._folder.child("readers").make()
        self._leases.put(lease)
        return True

    def close(self, *, keep: bool = False) -> None:
        """Delete the lease, or with ``keep`` let it expire; open segments stay readable. May be called twice."""
        if self._lease is not None:
            self._lease.close(keep=keep)


class Snapshot(Store):
    """The state of one commit, which never changes; nothing can be written through it."""

    def __init__(self, folder: Folder, log: CommitLog, ledger: Ledger, commit: Commit | None) -> None:
        super().__init__(ledger, commit.number if commit else 0, commit.frontier if commit else None)
        self._root = log.root
        self._folder, self._segments, self._log = folder, folder.child("segments"), log
        self.digest = commit.digest if commit else log.root

    @property
    def folder(self) -> Folder:
        """The store's address."""
        return self._folder

    @property
    def segments(self) -> Mapping[str, SegmentRef]:
        """The segments that the state names, by their names."""
        return MappingProxyType(self._ledger.segments)

    @property
    def segment_directory(self) -> Folder:
        """Folder for ``open_segment`` in other processes."""
        return self._segments

    def open_segment(self, ref: SegmentRef) -> list[pa.RecordBatch]:
        """The record batches of a segment, memory-mapped and checked.

        Raises:
            HistoryGoneError: a vacuum has removed it after the lease expired.
            StoreCorruptError: it differs from the reference.
        """
        try:
            return open_segment(self.segment_directory, ref)
        except StoreCorruptError as error:
            numbers = self._log.numbers()
            if self._segments.has(ref.name) or not numbers or numbers[-1] == self.number:
                raise
            where = self._folder.where()
            raise HistoryGoneError(
                f"the files of commit {self.number} of {where} are gone (it is at {numbers[-1]} now): the reader's "
                "lease has expired, or it has none; refresh() goes to the last commit, a longer lease= retains the "
                "files for longer"
            ) from error

    def history(self, limit: int = 20) -> list[CommitInfo]:
        """Recent commits up to this one, newest first, as far as the log goes back."""
        numbers = [n for n in self._log.numbers() if n <= self.number]
        commits = [self._log.read(number) for number in numbers[::-1][: max(limit, 0)]]
        return [CommitInfo(c.number, c.transaction, c.at, c.checkpoint, c.frontier, c.info) for c in commits]

    def close(self) -> None:
        """Nothing to close."""

    def _refuse(self) -> NoReturn:
        raise StoreError(f"{self._folder.where()} is open for reading only; a Session on its path writes it")

    def _require(self, refs: Collection[SegmentRef]) -> None:
        self._refuse()

    def _append(self, change: Change, frontier: Json, info: dict[str, Json]) -> None:
        self._refuse()

    def write_segment(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> SegmentRef:
        """Raises: a snapshot is read-only."""
        self._refuse()

    def vacuum(self, keep: int = 3) -> Vacuumed:
        """Raises: a snapshot is read-only."""
        self._refuse()
