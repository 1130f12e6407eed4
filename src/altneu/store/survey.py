"""Checking a whole store for damaged files, and finding its last complete commit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from altneu.errors import StoreCorruptError, StoreError
from altneu.store.commit import Commit
from altneu.store.folder import Folder
from altneu.store.identity import FILE, read_identity
from altneu.store.ledger import Ledger
from altneu.store.locate import Location, folder_of
from altneu.store.log import CommitLog
from altneu.store.references import SegmentRef

_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """The result of ``check_store``.

    Shape:  ``commit`` is the number of the last commit in the log, ``whole`` that of the last complete and undamaged
            one, None if there is none; ``problems`` names each damaged file and its damage.
    """

    commit: int
    whole: int | None
    problems: tuple[str, ...]


def check_store(path: Location, *, storage_options: Mapping[str, Any] = MappingProxyType({})) -> StoreCheck:
    """Read every file that a store needs and list the damaged ones; changes nothing and takes no lock.

    A damaged store may still open, since opening reads the log only from the last checkpoint on.

    Cost:   reads every commit and, whole, every segment that the last commit names.

    Raises:
        StoreError: there is no store, or a file cannot be read for another reason than damage.
        StoreVersionError: an altneu of another format wrote it.

    >>> import tempfile, altneu as an
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with an.Session(path=folder) as session:
    ...         _ = session.advance()
    ...     an.check_store(folder)
    StoreCheck(commit=1, whole=1, problems=())
    """
    folder = folder_of(path, storage_options)
    survey = _settled(folder)
    if not survey.numbers and not folder.has(FILE):
        raise StoreError(f"there is no store in {folder.where()}")
    whole = survey.last_whole()
    return StoreCheck(survey.top, None if whole is None else whole[0], tuple(survey.problems))


def _settled(folder: Folder) -> Survey:
    """A survey during which the store did not change, or that has no problems: a writer's vacuum may remove files."""
    for _ in range(_ATTEMPTS):
        survey = Survey(folder)
        survey.last_whole()
        if not survey.problems or survey.log.numbers() == survey.numbers:
            break
    return survey


class _Remembered(CommitLog):
    """A log that reads every commit once."""

    def __init__(self, folder: Folder, root: str) -> None:
        super().__init__(folder, root)
        self._known: dict[int, Commit | StoreCorruptError] = {}

    def _fetch(self, number: int) -> None:
        """Nothing to do: all commits are in memory."""

    def read(self, number: int) -> Commit:
        """One commit, or the exception of its first reading."""
        if number not in self._known:
            try:
                self._known[number] = super().read(number)
            except StoreCorruptError as error:
                self._known[number] = error
        commit = self._known[number]
        if isinstance(commit, StoreCorruptError):
            raise commit
        return commit


class Survey:
    """The contents of a store, read once; ``problems`` lists the damage found so far.

    Raises:
        StoreVersionError: an altneu of another format wrote it.
        StoreError: a file cannot be read, for another reason than damage.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.problems: dict[str, None] = {}
        self.bad_segments: set[str] = set()
        self._good_segments: set[SegmentRef] = set()
        self.log = _Remembered(folder.child("log"), "")
        self.numbers = self.log.numbers()
        self.bad_commits = [number for number in self.numbers if not self._is_whole(number)]
        self.lacks_identity = False
        try:
            _, self.log.root = read_identity(folder)
        except StoreCorruptError as error:
            self.log.root = self._root()
            if self.numbers or folder.has(FILE):  # else there is no store yet
                self.lacks_identity = True
                self._note(error)

    @property
    def top(self) -> int:
        """Number of the last commit in the log, whatever it holds."""
        return self.numbers[-1] if self.numbers else 0

    def _root(self) -> str:
        """The store's id, from the first commit, the only other place that has it."""
        first = self.numbers[:1] == [1] and 1 not in self.bad_commits
        return self.log.read(1).parent if first else ""

    def _note(self, error: StoreCorruptError) -> None:
        self.problems[str(error)] = None

    def _is_whole(self, number: int) -> bool:
        try:
            self.log.read(number)
        except StoreCorruptError as error:
            self._note(error)
            return False
        return True

    def last_whole(self) -> tuple[int, Ledger, Commit | None] | None:
        """The last complete commit: its number, the state after it, and the commit itself.

        The state before the first commit is complete too, if the log goes back to it.
        """
        return self._last_whole

    @cached_property
    def _last_whole(self) -> tuple[int, Ledger, Commit | None] | None:
        for number in reversed(self.numbers):
            try:
                ledger, commit, _ = self.log.replay(number)
            except StoreCorruptError as error:
                self._note(error)
                continue
            if all([self._is_good(ref) for ref in ledger.segments.values()]):  # noqa: C419  # every one is looked at
                return number, ledger, commit
        return (0, Ledger(), None) if self.numbers[:1] in ([], [1]) else None

    def _is_good(self, ref: SegmentRef) -> bool:
        if ref in self._good_segments:
            return True
        if ref.name in self.bad_segments:
            return False
        segments = self.folder.child("segments")
        try:
            wrong = _difference(segments, ref)
        except StoreCorruptError as error:
            wrong = str(error)
        if wrong is None:
            self._good_segments.add(ref)
            return True
        self.problems[wrong] = None
        self.bad_segments.add(ref.name)
        return False

    def discarded(self) -> Iterator[tuple[int, int]]:
        """The ranges of numbers that recoveries have discarded, each from above the first to the second."""
        for number in self.numbers:
            if (
                number not in self.bad_commits
                and (recovered := self.log.read(number).info.get("recovered")) is not None
            ):
                assert isinstance(recovered, dict)
                yield int(str(recovered["to"])), int(str(recovered["from"]))


def _difference(segments: Folder, ref: SegmentRef) -> str | None:
    """The differences between a segment's file and its reference."""
    where = segments.where(ref.name)
    if (size := segments.sizes([ref.name])[ref.name]) != ref.bytes:
        return f"{where} has {size} bytes where the log says {ref.bytes}: the file was cut off or grew"
    if segments.checksum(ref.name) != ref.checksum:
        return f"{where} fails its checksum: bytes in it have changed"
    return None
