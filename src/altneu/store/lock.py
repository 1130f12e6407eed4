"""The single writer of a store: on a local disk an advisory lock, which the kernel releases when its process dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import time
import weakref
from abc import ABC, abstractmethod
from pathlib import Path

from altneu.errors import StoreError, StoreLockedError
from altneu.store.files import failure, naming

_TAKEN = frozenset({errno.EWOULDBLOCK, errno.EACCES})
_PATIENCE, _PAUSE = 1.0, 0.001  # seconds for which a lock is tried that somebody only looks at, and between two tries
_HELD: weakref.WeakSet[WriterLock] = weakref.WeakSet()


class Writer(ABC):
    """The right to write a store: until ``release``, and not in a forked process."""

    @property
    @abstractmethod
    def held(self) -> bool:
        """Whether this object may still write."""

    @abstractmethod
    def release(self) -> None:
        """Release the store for the next writer; a second call has no effect."""

    def check(self, where: str) -> None:
        """Raise if this object may no longer write."""
        if not self.held:
            raise StoreError(
                f"this store object on {where} is closed (or was inherited by a forked process); open it again"
            )


class UnlockedWriter(Writer):
    """The right to write where there are no locks: two may write, and the log gives each number to one of them."""

    def __init__(self) -> None:
        self._process: int | None = os.getpid()

    @property
    def held(self) -> bool:
        """Whether this object may still write: it is not closed, and its process is the one that opened it."""
        return self._process == os.getpid()

    def release(self) -> None:
        """Give up the right to write; a second call has no effect."""
        self._process = None


class WriterLock(Writer):
    """Held from construction until ``release``, the end of the object, or the end of the process.

    Law:    at any time at most one process of the machine holds it; a process that dies, in whatever way, releases it
            (tests/store/test_lock.py).

    Raises:
        StoreLockedError: another process or object holds it; names it.
    """

    def __init__(self, path: Path) -> None:
        with naming(path, "open"):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        try:
            _take(self._descriptor)
        except OSError as error:
            holder = _text(self._descriptor)
            os.close(self._descriptor)
            if error.errno not in _TAKEN:
                raise failure(error, path, "lock") from error
            raise StoreLockedError(
                f"{path.parent} is open in another session ({holder or 'holder unknown'}); close that one first"
            ) from None
        with contextlib.suppress(OSError):  # who holds it is only for the message, and a full disk must still open
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._end = weakref.finalize(self, _release, self._descriptor, os.getpid())
        _HELD.add(self)

    @property
    def held(self) -> bool:
        """Whether this object still holds the lock (in a forked child it does not)."""
        return self._end.alive

    def release(self) -> None:
        """Release the store for the next writer; a second call has no effect."""
        self._end()

    def leave_to_parent(self) -> None:
        """In a forked child: drop the descriptor and leave the lock with the parent."""
        if self._end.detach() is not None:
            os.close(self._descriptor)


def holder_of(path: Path) -> str | None:
    """The present holder of a lock, from the text of its file; None if there is none. Others may take it meanwhile.

    Raises:
        StoreError: the file cannot be read.
    """
    with naming(path, "open"):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise failure(error, path, "lock") from error
        return _text(descriptor) or "a process that is not known"
    else:
        return None
    finally:
        os.close(descriptor)


def _take(descriptor: int) -> None:
    """Lock for writing. Waits for processes that only look for the holder, which takes a moment; not for a writer."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _TAKEN or time.monotonic() > deadline:
                raise
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # which raises beside a writer
            time.sleep(_PAUSE)
        else:
            return


def _text(descriptor: int) -> str:
    return os.pread(descriptor, 200, 0).decode("utf-8", "replace").strip()


def _release(descriptor: int, owner: int) -> None:
    if os.getpid() == owner:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # at once, even if a child of some other fork still has the descriptor
    os.close(descriptor)


def _after_fork() -> None:
    for lock in list(_HELD):
        lock.leave_to_parent()


os.register_at_fork(after_in_child=_after_fork)
