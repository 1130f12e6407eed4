"""Orphans, files of a store that are not needed: found by a session's vacuum, or while no session is open."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from altneu.errors import StoreCorruptError, StoreError
from altneu.store.files import TEMPORARY
from altneu.store.folder import Folder, is_unfinished
from altneu.store.identity import FILE, read_identity
from altneu.store.leases import Lease, Leases, least_commit
from altneu.store.locate import Location, folder_of
from altneu.store.log import CommitLog, commit_name
from altneu.store.references import segment_number

_ATTEMPTS = 10
_PLACES = ("log", "segments", "scratch", "readers")


@dataclass(frozen=True)
class Orphans:
    """Names of orphans: commits, oldest first; segments and scratch files, including unfinished ones."""

    commits: tuple[int, ...]
    segments: tuple[str, ...]
    scratch: tuple[str, ...]


def find_orphans(folder: Folder, log: CommitLog, keep: int, leases: Iterable[Lease], *, until: int | None) -> Orphans:
    """The files of steps up to commit ``until`` that no lease and none of the last ``keep`` commits need.

    A lease on an older commit retains that commit and all later ones. Commits are needed from the checkpoint on from
    which the oldest retained one is replayed. A segment with a number above ``until`` may belong to a running step;
    None means that there is none.

    Cost:   lists the folders and reads the commits from that checkpoint on.
    """
    numbers = log.numbers()
    last = (numbers or [0])[-1]
    leased = least_commit(leases)
    base = last - keep + 1 if leased is None else min(leased, last - keep + 1)
    base = max(base, log.first_replayable(_without_gaps(numbers)))
    ledger, _, oldest = log.replay(base)
    named = set(ledger.segments)
    for number in range(base + 1, last + 1):
        ledger = log.follow(ledger, log.read(number))
        named.update(ledger.segments)
    return Orphans(
        tuple(number for number in numbers if number < oldest),
        tuple(name for name in over(folder.child("segments"), until) if name not in named),
        tuple(over(folder.child("scratch"), until)),
    )


def over(folder: Folder, until: int | None) -> Iterator[str]:
    """The segments of a folder, finished or not, of commits up to a number; None: all."""
    for name in folder.names() if _is_there(folder) else ():
        number = aimed_at(name)
        if number is not None and (until is None or number <= until):
            yield name


def _is_there(folder: Folder) -> bool:
    """Whether a folder can be listed: some tools do not copy empty folders; a prefix of an object store always can."""
    return not folder.locks or folder.has("")


def aimed_at(name: str) -> int | None:
    """The number of the commit for which a segment, or its temporary file, is written."""
    if is_unfinished(name):
        name = name[1:].removesuffix(TEMPORARY).rpartition(".")[0]
    return segment_number(name)


def _without_gaps(numbers: list[int]) -> list[int]:
    """The last consecutive numbers: a recovery leaves a gap below its checkpoint.

    >>> _without_gaps([3, 4, 7, 8])
    [7, 8]
    """
    start = next((i for i in range(len(numbers) - 1, 0, -1) if numbers[i - 1] != numbers[i] - 1), 0)
    return numbers[start:]


@dataclass(frozen=True)
class RemovedFiles:
    """The files that ``vacuum_store`` removed, or would remove: their names inside the store, and sizes."""

    commits: Mapping[str, int]
    segments: Mapping[str, int]
    scratch: Mapping[str, int]
    temporary: Mapping[str, int]
    leases: Mapping[str, int]

    @property
    def kinds(self) -> dict[str, Mapping[str, int]]:
        """All files, by kind."""
        return {name: getattr(self, name) for name in ("commits", "segments", "scratch", "temporary", "leases")}

    @property
    def bytes(self) -> int:
        """Bytes of all these files."""
        return sum(sum(files.values()) for files in self.kinds.values())


def vacuum_store(
    path: Location,
    *,
    keep: int = 3,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] = MappingProxyType({}),
) -> RemovedFiles:
    """Remove the orphans of a store while no session has it open; ``dry_run`` only lists them.

    These are the files that its own vacuum removes, and the remains of dead processes: segments of uncommitted steps,
    scratch files, unfinished files, expired leases. Where there is no lock, as on an object store, a session may be
    writing unnoticed; then files above the last commit stay, and so do unfinished ones.

    Cost:   lists the folders and reads about fifty commits.
    Law:    the store has the same state as before at every retained commit (tests/store/test_orphans.py).

    Raises:
        StoreError: there is no store, or ``keep`` is below 1.
        StoreLockedError: a session has it open; the session vacuums it by itself.
    """
    if keep < 1:
        raise StoreError(f"keep must be at least 1, got {keep}")
    folder = folder_of(path, storage_options)
    if not folder.has(FILE):
        raise StoreError(f"there is no store in {folder.where()}")
    log = CommitLog(folder.child("log"), read_identity(folder)[1])
    if dry_run:
        return _sized(folder, *_stable_scan(folder, log, keep))
    writer = folder.writer()
    try:
        orphans, unfinished, leases = _scan(folder, log, keep)
        return RemovedFiles(
            {f"log/{commit_name(n)}": log.remove(n) for n in orphans.commits},
            _removed(folder, "segments", orphans.segments),
            _removed(folder, "scratch", orphans.scratch),
            {
                name: size
                for place, names in unfinished.items()
                for name, size in _removed(folder, place, names).items()
            },
            _removed(folder, "readers", leases),
        )
    finally:
        writer.release()


_Scan = tuple[Orphans, dict[str, tuple[str, ...]], tuple[str, ...]]


def _scan(folder: Folder, log: CommitLog, keep: int) -> _Scan:
    """Orphans, unfinished files by place, and expired leases."""
    places = [place for place in _PLACES if _is_there(folder.child(place))]
    leases = Leases(folder.child("readers")) if "readers" in places else None
    until = None if folder.locks else (log.numbers() or [0])[-1]
    orphans = find_orphans(folder, log, keep, leases.live() if leases else (), until=until)
    unfinished: dict[str, tuple[str, ...]] = {}
    if folder.locks:
        taken = {*orphans.segments, *orphans.scratch}
        for place in ("", *places):
            names = _place(folder, place).names()
            unfinished[place] = tuple(name for name in names if is_unfinished(name) and name not in taken)
    return orphans, unfinished, tuple(lease.file for lease in leases.over()) if leases else ()


def _place(folder: Folder, place: str) -> Folder:
    return folder.child(place) if place else folder


def _stable_scan(folder: Folder, log: CommitLog, keep: int) -> _Scan:
    """The same for a store that a session may be writing, which may delete files during the scan."""
    for _ in range(_ATTEMPTS):
        numbers = log.numbers()
        try:
            return _scan(folder, log, keep)
        except StoreCorruptError:
            if log.numbers() == numbers:
                raise
    raise StoreError(f"{folder.where()} changes faster than it can be read; try again")


def _sized(
    folder: Folder, orphans: Orphans, unfinished: Mapping[str, tuple[str, ...]], leases: tuple[str, ...]
) -> RemovedFiles:
    def sizes(place: str, names: tuple[str, ...]) -> dict[str, int]:
        child = _place(folder, place)
        bytes_of = {}
        for name in names:
            if child.has(name):  # a session beside may have taken it meanwhile
                bytes_of[f"{place}/{name}" if place else name] = child.sizes([name])[name]
        return bytes_of

    return RemovedFiles(
        sizes("log", tuple(commit_name(n) for n in orphans.commits)),
        sizes("segments", orphans.segments),
        sizes("scratch", orphans.scratch),
        {name: size for place, names in unfinished.items() for name, size in sizes(place, names).items()},
        sizes("readers", leases),
    )


def _removed(folder: Folder, place: str, names: tuple[str, ...]) -> dict[str, int]:
    child = _place(folder, place)
    return {f"{place}/{name}" if place else name: child.remove(name) for name in names}
