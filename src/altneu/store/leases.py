"""Leases: what readers that hold no lock still need of a store, each a small file in ``readers/``.

A lease names the least commit whose files its reader opens, the time after which the reader wants to see changes, and
until when it holds. Vacuum keeps the commits, steps keep the history. A reader that lives renews its lease; one that
died is forgotten when the lease runs out. No answer depends on a clock: what a reader needs is there or it is told so.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
import time
import weakref
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from altneu.errors import StoreError
from altneu.store.files import naming, parse_json, put, remove

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}", re.ASCII)
_SUFFIX = ".json"
_LARGEST = 65536  # bytes of a file that can be a lease
_SHORTEST = 1.0  # seconds
_PATIENCE = 1.0  # seconds for which a lease may keep more than its reader needs


@dataclass(frozen=True)
class Lease:
    """What one reader needs, and until when.

    Units:  ``commit`` is the least commit whose files are opened, None for none; ``since`` the time after which
            changes will be asked for, None for none; ``until`` seconds since 1970.
    """

    name: str
    commit: int | None
    since: int | None
    until: float

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise StoreError(
                f"{self.name!r:.200} is no name of a lease: letters, digits, dots, dashes, underscores, at most 100"
            )


def lease_seconds(lease: float | str) -> float:
    """How long a lease holds that is not renewed, from seconds or a text.

    >>> lease_seconds("1 hour"), lease_seconds("90 seconds"), lease_seconds(5)
    (3600.0, 90.0, 5.0)

    Raises:
        StoreError: it says no such time, or less than a second.
    """
    seconds = 0.0
    if isinstance(lease, str):
        if found := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(second|minute|hour|day)s?\s*", lease):
            seconds = float(found[1]) * {"second": 1, "minute": 60, "hour": 3600, "day": 86400}[found[2]]
    elif not isinstance(lease, bool):
        seconds = float(lease)
    if not _SHORTEST <= seconds < float("inf"):
        raise StoreError(f'lease={lease!r} is no time from a second on, such as "1 hour", "90 seconds" or 3600')
    return seconds


class Leases:
    """The leases of a store, in a folder.

    A file that says no lease counts for nothing, and vacuum removes it: whoever needed it is told so when it asks.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[str, tuple[object, Lease | None]] = {}

    def live(self, now: float | None = None) -> list[Lease]:
        """The leases that have not run out.

        Cost:   one listing; a file is read again only when it has changed.
        """
        if not self._folder.is_dir():
            return []
        at = time.time() if now is None else now
        return [lease for lease in self._all().values() if lease is not None and lease.until >= at]

    def _all(self) -> dict[str, Lease | None]:
        with naming(self._folder, "list"):
            names = [name for name in os.listdir(self._folder) if name.endswith(_SUFFIX) and name[0] != "."]  # noqa: PTH208  # names are enough
        read: dict[str, tuple[object, Lease | None]] = {}
        for name in names:
            path = self._folder / name
            try:
                found = path.lstat()
            except FileNotFoundError:
                continue  # its reader has just gone
            mark = (found.st_mtime_ns, found.st_ino, found.st_size)
            known = self._read.get(name)
            read[name] = known if known is not None and known[0] == mark else (mark, _lease_in(path))
        self._read = read
        return {name: lease for name, (_, lease) in read.items()}

    def put(self, lease: Lease) -> None:
        """Make or replace a lease."""
        path = self._folder / f"{lease.name}{_SUFFIX}"
        with naming(path, "write"):
            self._folder.mkdir(exist_ok=True)
            put(path, (json.dumps(asdict(lease)) + "\n").encode("ascii"), exclusive=False)

    def end(self, name: str) -> None:
        """Take a lease back."""
        remove(self._folder / f"{name}{_SUFFIX}")

    def sweep(self, now: float | None = None) -> None:
        """Remove leases that ran out."""
        at = time.time() if now is None else now
        for name, lease in self._all().items() if self._folder.is_dir() else ():
            if lease is None or lease.until < at:
                remove(self._folder / name)


def _lease_in(path: Path) -> Lease | None:
    try:
        if path.is_symlink() or path.stat().st_size > _LARGEST:
            return None
        found = parse_json(path.read_bytes(), path)
        numbers = all(type(found[k]) is int or found[k] is None for k in ("commit", "since"))
        if not numbers or type(found["until"]) not in (int, float) or found["name"] + _SUFFIX != path.name:
            return None
        return Lease(found["name"], found["commit"], found["since"], float(found["until"]))
    except (OSError, StoreError, LookupError, TypeError):
        return None


def least_commit(leases: Iterable[Lease]) -> int | None:
    """The least commit that any of them needs."""
    return min((lease.commit for lease in leases if lease.commit is not None), default=None)


def least_since(leases: Iterable[Lease]) -> int | None:
    """The least time after which any of them wants changes."""
    return min((lease.since for lease in leases if lease.since is not None), default=None)


class HeldLease:
    """A lease that a thread renews as long as this object lives and is not closed; then it is taken back.

    A process that dies renews nothing, and the lease runs out.
    """

    def __init__(self, leases: Leases, name: str, seconds: float, commit: int | None, since: int | None) -> None:
        self._leases, self._seconds = leases, seconds
        self._mutex = threading.Lock()
        self.lease = Lease(name, commit, since, 0.0)
        self._put(self.lease)
        self._stop = threading.Event()
        self._end = weakref.finalize(self, _end, self._stop, leases, name, os.getpid())
        arguments = (weakref.ref(self), self._stop, seconds / 3)
        threading.Thread(target=_renewing, args=arguments, name=f"altneu lease {name}", daemon=True).start()

    def renew(self) -> None:
        """Let it hold for its whole time from now on."""
        with self._mutex:
            if self._end.alive:
                self._put(self.lease)

    def move(self, commit: int | None, since: int | None) -> None:
        """Ask for something else from now on.

        Cost:   one small file; of another commit alone the file hears once a second, as it keeps too much meanwhile.
        """
        with self._mutex:
            asked = replace(self.lease, commit=commit, since=since)
            if not self._end.alive or asked == self.lease:
                return
            age = time.time() + self._seconds - self.lease.until
            less = commit is not None and self.lease.commit is not None and commit < self.lease.commit
            if since != self.lease.since or less or age >= min(_PATIENCE, self._seconds / 3):
                self._put(asked)

    def _put(self, lease: Lease) -> None:
        lease = replace(lease, until=time.time() + self._seconds)
        self._leases.put(lease)
        self.lease = lease

    def close(self, *, keep: bool = False) -> None:
        """Take it back; with ``keep`` it holds until it runs out. Twice is once."""
        with self._mutex:
            if keep and self._end.detach() is not None:
                self._stop.set()
            self._end()


def _end(stop: threading.Event, leases: Leases, name: str, owner: int) -> None:
    stop.set()
    if os.getpid() == owner:  # a forked child inherits the object, not the lease
        with contextlib.suppress(StoreError):  # it runs out by itself
            leases.end(name)


def _renewing(held: weakref.ref[HeldLease], stop: threading.Event, every: float) -> None:
    while not stop.wait(every):
        lease = held()
        if lease is None:
            return
        with contextlib.suppress(StoreError):  # a full disk, say: the next time may do, and a lease that ends is told
            lease.renew()
        del lease
