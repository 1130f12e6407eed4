"""Looking through a whole store: what is damaged, and the last commit of which everything is there."""

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
    """What ``check_store`` found.

    Shape:  ``commit`` is the number of the last commit in the log, ``whole`` that of the last one of which everything
            holds, None if there is none such; ``problems`` names each damaged file and says what is wrong with it.
    """

    commit: int
    whole: int | None
    problems: tuple[str, ...]


def check_store(path: Location, *, storage_options: Mapping[str, Any] = MappingProxyType({})) -> StoreCheck:
    """Read every file that a store needs, and say what is wrong with it; nothing is changed, and no lock is taken.

    A store in which something is wrong may still open: of the log only what comes after the last checkpoint is read.

    Cost:   reads every commit and, whole, every segment that the last commit names.

    Raises:
        StoreError: there is no store, or a file cannot be read for another reason than that it is damaged.
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
    """A survey of a store that stayed as it was meanwhile, or had nothing wrong: a writer's vacuum takes files away."""
    for _ in range(_ATTEMPTS):
        survey = Survey(folder)
        survey.last_whole()
        if not survey.problems or survey.log.numbers() == survey.numbers:
            break
    return survey


class _Remembered(CommitLog):
    """A log of which every commit is read once."""

    def __init__(self, folder: Folder, root: str) -> None:
        super().__init__(folder, root)
        self._known: dict[int, Commit | StoreCorruptError] = {}

    def _fetch(self, number: int) -> None:
        """All are known already."""

    def read(self, number: int) -> Commit:
        """Read one commit, or raise what was raised when it was read."""
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
    """All of a store, read once; ``problems`` grows with what is looked at.

    Raises:
        StoreVersionError: an altneu of another format wrote it.
        StoreError: a file cannot be read, which does not say that it is damaged.
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
        """The store's id as the first commit knows it; nothing else does."""
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
        """The last commit of which everything holds: its number, the state after it, and itself.

        The state before the first commit is whole too, while the log goes back to it.
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
        """The ranges of numbers, from above the first to the second, that recoveries have gone back over."""
        for number in self.numbers:
            if (
                number not in self.bad_commits
                and (recovered := self.log.read(number).info.get("recovered")) is not None
            ):
                assert isinstance(recovered, dict)
                yield int(str(recovered["to"])), int(str(recovered["from"]))


def _difference(segments: Folder, ref: SegmentRef) -> str | None:
    """What a segment's file has else than its reference says."""
    where = segments.where(ref.name)
    if (size := segments.sizes([ref.name])[ref.name]) != ref.bytes:
        return f"{where} has {size} bytes where the log says {ref.bytes}: the file was cut off or grew"
    if segments.checksum(ref.name) != ref.checksum:
        return f"{where} fails its checksum: bytes in it have changed"
    return None
