"""Leases: the commits and history that readers without a lock need, each in the name of a file in ``readers/``.

A lease consists of the least commit whose files its reader opens, the time after which the reader needs changes, and
the end of its validity. Vacuum retains the commits, steps retain the history. A live reader renews its lease; that of a
dead one expires. No result depends on a clock: if data that a reader needs was removed, it gets an error.
"""

from __future__ import annotations

import contextlib
import math
import numbers
import os
import re
import socket
import threading
import time
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from altneu.errors import StoreError
from altneu.store.folder import Folder

_FORM = re.compile(r"([0-9A-Za-z_-]{1,100})\.(\d{1,19}|-)\.(\d{1,19}|-)\.(\d{1,15})\.lease", re.ASCII)
_NAME = re.compile(r"[0-9A-Za-z_-]{1,100}", re.ASCII)
_SHORTEST = 1.0  # seconds
_LONGEST = 10**9  # seconds: thirty years
_GRAINS = 10  # a lease's end is rounded up to a tenth of its time, so that renewing it is seldom a write
_PATIENCE = 1.0  # seconds for which a lease may keep more than its reader needs


@dataclass(frozen=True)
class Lease:
    """The needs of one reader, and until when they are valid.

    Units:  ``commit`` is the least commit whose files are opened, None for none; ``since`` the time after which
            changes will be read, None for none; ``until`` is in whole seconds since 1970.
    """

    name: str
    commit: int | None
    since: int | None
    until: int

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise StoreError(
                f"the name of a lease must be up to 100 letters, digits, dashes and underscores, got {self.name!r:.200}"
            )

    @property
    def file(self) -> str:
        """The name of its file, which has all of its parts.

        >>> Lease("job", 42, None, 1700000000).file
        'job.42.-.1700000000.lease'
        """
        commit, since = ("-" if part is None else str(part) for part in (self.commit, self.since))
        return f"{self.name}.{commit}.{since}.{self.until}.lease"

    @classmethod
    def of_file(cls, file: str) -> Lease | None:
        """The lease in the name of a file; None for other names.

        >>> Lease.of_file("job.42.-.1700000000.lease") == Lease("job", 42, None, 1700000000)
        True
        """
        match = _FORM.fullmatch(file)
        if match is None:
            return None
        commit, since = (None if part == "-" else int(part) for part in match.group(2, 3))
        return cls(match[1], commit, since, int(match[4]))


def lease_seconds(lease: float | str) -> float:
    """The validity of a lease that is not renewed, in seconds, from a number or a string.

    >>> lease_seconds("1 hour"), lease_seconds("90 seconds"), lease_seconds(5)
    (3600.0, 90.0, 5.0)

    Raises:
        StoreError: it says no such time, or less than a second.
    """
    seconds = 0.0
    if isinstance(lease, str):
        if match := re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(second|minute|hour|day)s?\s*", lease):
            seconds = float(match[1]) * {"second": 1, "minute": 60, "hour": 3600, "day": 86400}[match[2]]
    elif isinstance(lease, numbers.Real) and not isinstance(lease, bool):
        seconds = float(lease)
    if not _SHORTEST <= seconds <= _LONGEST:
        raise StoreError(
            f'lease must be a span of at least a second such as "1 hour", "90 seconds" or 3600, got {lease!r}'
        )
    return seconds


def lease_end(seconds: float) -> int:
    """The expiry of a lease of a number of seconds that begins now, rounded up."""
    grain = max(int(seconds / _GRAINS), 1)
    return math.ceil((time.time() + seconds) / grain) * grain


class Leases:
    """The leases of a store, which are in the names of files, so that one listing reads them all.

    Files with other names are ignored.
    """

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def live(self) -> list[Lease]:
        """The valid leases.

        Cost:   one listing of a small folder.
        """
        now = time.time()
        return [lease for lease in self._all() if lease.until >= now]

    def over(self) -> list[Lease]:
        """The expired leases."""
        now = time.time()
        return [lease for lease in self._all() if lease.until < now]

    def holder(self, lease: Lease) -> str:
        """The process that made a lease, for messages."""
        return bytes(self._folder.read(lease.file)).decode("utf-8", "replace").strip()

    def _all(self) -> list[Lease]:
        return [lease for name in self._folder.names() if (lease := Lease.of_file(name)) is not None]

    def add(self, lease: Lease) -> None:
        """Add a lease; others of the same name stay."""
        self._folder.put(lease.file, f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def put(self, lease: Lease) -> None:
        """Add a lease, then delete all others of its name."""
        before = [other for other in self._all() if other.name == lease.name and other != lease]
        self.add(lease)
        for other in before:
            self.end(other)

    def end(self, lease: Lease) -> None:
        """Delete a lease."""
        self._folder.remove(lease.file)

    def sweep(self) -> None:
        """Delete expired leases."""
        for lease in self.over():
            self.end(lease)


def least_commit(leases: Iterable[Lease]) -> int | None:
    """The least commit that any of the leases needs."""
    return min((lease.commit for lease in leases if lease.commit is not None), default=None)


def least_since(leases: Sequence[Lease]) -> int | None:
    """The least time after which any of the leases needs changes."""
    if not leases:
        return None
    return min((lease.since for lease in leases if lease.since is not None), default=None)


class HeldLease:
    """A lease that a thread renews while this object exists and is open; closing it deletes the lease.

    If the process dies the lease expires. A ``shared`` lease is never deleted, since other readers with the same needs
    use it too.
    """

    def __init__(
        self, leases: Leases, name: str, seconds: float, commit: int | None, since: int | None, *, shared: bool = False
    ) -> None:
        self._leases, self._seconds, self._shared = leases, seconds, shared
        self._mutex = threading.Lock()
        self._requested = self.lease = Lease(name, commit, since, lease_end(seconds))
        self._written = time.monotonic()
        leases.add(self.lease)
        self._stop = threading.Event()
        self._end = weakref.finalize(self, _end, self._stop, leases, self.lease, os.getpid(), shared)
        arguments = (weakref.ref(self), self._stop, seconds / 3)
        threading.Thread(target=_renewing, args=arguments, name=f"altneu lease {name}", daemon=True).start()

    def renew(self) -> None:
        """Renew it for its whole validity from now on."""
        with self._mutex:
            self._put()

    def move(self, commit: int | None, since: int | None) -> None:
        """Replace the needs from now on.

        Cost:   one small file. If only the commit moves forward, it is written at most once a second; until then more
                is retained than necessary.
        """
        with self._mutex:
            self._requested = replace(self._requested, commit=commit, since=since)
            written = self.lease
            later = (
                since == written.since and commit is not None and written.commit is not None and commit > written.commit
            )
            if not later or time.monotonic() - self._written >= min(_PATIENCE, self._seconds / 3):
                self._put()

    def _put(self) -> None:
        lease, before = replace(self._requested, until=lease_end(self._seconds)), self.lease
        if not self._end.alive or lease == before:
            return
        self._leases.add(lease)  # both hold until the older one is taken back
        self._end.detach()
        self._end = weakref.finalize(self, _end, self._stop, self._leases, lease, os.getpid(), self._shared)
        self.lease, self._written = lease, time.monotonic()
        if not self._shared:
            self._leases.end(before)

    def close(self, *, keep: bool = False) -> None:
        """Delete it, or with ``keep`` let it expire; a second call has no effect."""
        with self._mutex:
            if keep:
                self._end.detach()
                self._stop.set()
            self._end()


def _end(stop: threading.Event, leases: Leases, lease: Lease, owner: int, shared: bool) -> None:
    stop.set()
    if os.getpid() == owner and not shared:  # a forked child inherits the object, not the lease
        with contextlib.suppress(StoreError):  # it runs out by itself
            leases.end(lease)


def _renewing(reference: weakref.ref[HeldLease], stop: threading.Event, every: float) -> None:
    while not stop.wait(every):
        lease = reference()
        if lease is None:
            return
        with contextlib.suppress(StoreError):  # a full disk, say: the next time may do, and a lease that ends is told
            lease.renew()
        del lease
