"""The interface of all stores, with or without files."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Self

import pyarrow as pa

from altneu.errors import StoreError
from altneu.store.commit import RECOVERED
from altneu.store.folder import Folder
from altneu.store.leases import Lease
from altneu.store.ledger import Bytes, Change, Ledger
from altneu.store.references import Json, SegmentRef, admit


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """A commit, as ``history`` lists it.

    Units:  ``at`` is seconds since 1970 by the writer's clock.
    """

    number: int
    transaction: str
    at: float
    checkpoint: bool
    frontier: Json
    info: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """The result of a vacuum: what it removed."""

    segments: int = 0
    scratch: int = 0
    commits: int = 0
    bytes: int = 0


class Store(ABC):
    """A flat mapping ``str -> Json`` that changes by numbered commits, with the data that its values name.

    The contract. Between commits the state is that of commit ``number`` (0: empty). A commit is atomic: when ``commit``
    returns, every key that it sets has its value, and every blob and segment that a value names can be read; when it
    raises, ``state``, ``frontier`` and ``number`` are unchanged, and another commit may be tried. Data that no value
    names any more may be removed: a blob at once, a segment by ``vacuum``.

    A value names a segment by ``ref.to_json()`` and a blob by ``{"blob": name}``, anywhere inside it. Segments are
    written before the commit that names them, aiming at ``next_number``. The name of a blob is the caller's choice; no
    live blob may have it.
    """

    durable: bool = False  # whether a commit is on the disk when it returns
    _root: str  # the id that it was made with

    def __init__(self, ledger: Ledger, number: int, frontier: Json) -> None:
        self._ledger = ledger
        self._number = number
        self._frontier = frontier
        self._mutex = threading.RLock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def identity(self) -> str:
        """The id of its history, which a recovery to an earlier commit replaces."""
        back = self._ledger.state.get(RECOVERED)
        return self._root if back is None else f"{self._root}.{back}"

    @property
    def number(self) -> int:
        """Number of the last commit; 0 before the first."""
        return self._number

    @property
    def next_number(self) -> int:
        """Number that segments of the step in flight aim at."""
        return self._number + 1

    @property
    def frontier(self) -> Json:
        """Frontier of the last commit; None before the first."""
        return self._frontier

    @property
    def state(self) -> Mapping[str, Json]:
        """The state after the last commit: a view that follows it; its values must not be changed."""
        return MappingProxyType(self._ledger.state)

    @property
    def segment_directory(self) -> Folder | None:
        """Folder for ``write_segment`` and ``open_segment`` in other processes; None if there are no files."""
        return None

    @property
    def scratch_directory(self) -> Folder | None:
        """Folder for segments that no commit will name; None if there are no files."""
        return None

    def blobs(self) -> dict[str, memoryview]:
        """The bytes of all live blobs."""
        return dict(self._ledger.blobs)

    def blob(self, name: str) -> memoryview:
        """The bytes of a live blob.

        Raises:
            StoreError: no value names such a blob.
        """
        try:
            return self._ledger.blobs[name]
        except KeyError:
            raise StoreError(f"no value of commit {self._number} names a blob {name!r}") from None

    def commit(
        self,
        frontier: Json,
        set: Mapping[str, Any] = MappingProxyType({}),  # noqa: A002  # the word of the log
        delete: Iterable[str] = (),
        blobs: Mapping[str, Bytes] = MappingProxyType({}),
        info: Mapping[str, Any] = MappingProxyType({}),
    ) -> int:
        """Change the state atomically; returns the number of the commit.

        Shape:  ``set`` and ``delete`` have no key in common; every deleted key exists; every blob given is named by a
                value given; every value given names only blobs given or live, and segments live or written for this
                commit.
        Cost:   proportional to the change; every fifty commits the whole state is written.
        Law:    a store reopened after any commit has the same state (tests/store/test_directory.py).

        Raises:
            StoreError: the change does not have this shape; nothing is committed.
            StoreFullError: the disk is full; nothing is committed, and a later commit may succeed.
            StoreLockedError: another writer was faster; nothing is committed.
            KeyboardInterrupt: ``number`` shows whether it was committed.
        """
        with self._mutex:
            self._settle()
            change = self._ledger.prepare(set, delete, blobs)
            for ref in change.new_segments:
                if ref.number != self.next_number:
                    raise StoreError(
                        f"segment {ref.name} was written for commit {ref.number}, but this is commit "
                        f"{self.next_number}: vacuum may have removed it, so it must be written again"
                    )
            self._require(change.new_segments)
            bound = admit(frontier)
            admitted = {key: admit(value) for key, value in info.items()}
            try:
                self._append(change, bound, admitted)
                self._ledger.apply(change)
                self._number, self._frontier = self._number + 1, bound
            except StoreError:
                raise
            except BaseException:
                self._look_again()
                raise
            return self._number

    def _settle(self) -> None:  # noqa: B027  # where a commit is there or not, there is nothing to find out
        """Find out whether an earlier commit happened, if that is in doubt."""

    def _look_again(self) -> None:  # noqa: B027
        """Restore the state of the last commit after an interrupted one."""

    @abstractmethod
    def _require(self, refs: Collection[SegmentRef]) -> None:
        """Raise if one of these segments does not exist."""

    @abstractmethod
    def _append(self, change: Change, frontier: Json, info: dict[str, Json]) -> None:
        """Store the commit, or raise without storing anything."""

    @abstractmethod
    def write_segment(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> SegmentRef:
        """Write a segment that the next commit may name."""

    def hand_over(self) -> None:  # noqa: B027 -- a store in memory has no other processes
        """Wait until all segments that this process has written are there for other processes."""

    @abstractmethod
    def open_segment(self, ref: SegmentRef) -> list[pa.RecordBatch]:
        """The record batches of a segment."""

    def leases(self) -> list[Lease]:
        """The leases of readers; a store in memory has none."""
        return []

    def lease(self, lease: Lease) -> bool:
        """Replace the lease of that name; False if the store keeps no files for readers."""
        return False

    @abstractmethod
    def history(self, limit: int = 20) -> list[CommitInfo]:
        """Recent commits, newest first, as far as the log goes back."""

    @abstractmethod
    def vacuum(self, keep: int = 3) -> Vacuumed:
        """Remove segments of finished steps that neither a lease nor the last ``keep`` commits need."""

    @abstractmethod
    def close(self) -> None:
        """Close the store; a second call has no effect."""
