"""Faults inside a process: it dies in front of an operation on a file, or half way through a write, or one fails."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from altneu.store import files, segments

# What Python tells of before it happens.
OPERATIONS = {"open", "os.link", "os.remove", "os.rename", "os.mkdir", "os.truncate", "os.listdir", "os.scandir"}
FAILING = ("open", "write", "fsync", "link", "replace", "unlink", "listdir")
REASONS = {
    "open": (errno.EACCES, errno.EMFILE, errno.ENOSPC),
    "write": (errno.ENOSPC, errno.EIO, errno.EDQUOT),
    "fsync": (errno.EIO, errno.ENOSPC),
    "link": (errno.EACCES, errno.EIO, errno.ENOSPC),
    "replace": (errno.EACCES, errno.EIO, errno.ENOSPC),
    "unlink": (errno.EACCES, errno.EIO),
    "listdir": (errno.EACCES, errno.EIO),
}


def die() -> None:
    """End this process without a word."""
    os.kill(os.getpid(), signal.SIGKILL)


def count(folder: Path, act: Callable[[int], None]) -> None:
    """Call ``act`` with the number of each operation on a file of a folder, before it happens."""
    seen, start = 0, str(folder)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal seen
        on_file = event in OPERATIONS and isinstance(arguments[0], str | os.PathLike)
        if on_file and os.fspath(arguments[0]).startswith(start):  # type: ignore[arg-type]
            seen += 1
            act(seen)

    sys.addaudithook(hook)


def kill_at(folder: Path, number: int) -> None:
    """Die in front of the operation ``number``."""
    count(folder, lambda seen: die() if seen == number else None)


def tear_at(number: int, part: float) -> None:
    """Die in the write ``number``, when a part of its bytes is written."""
    seen, write_all = 0, files.write_all

    def torn(descriptor: int, data: bytes | bytearray | memoryview) -> None:
        nonlocal seen
        seen += 1
        if seen == number:
            write_all(descriptor, memoryview(data)[: int(len(data) * part)])
            die()
        write_all(descriptor, data)

    files.write_all = segments.write_all = torn  # type: ignore[attr-defined]


class Failing:
    """The operations ``first`` to ``first + many - 1`` of one kind on files of a folder fail, once it is armed."""

    def __init__(self, folder: Path, kind: str, reason: int, first: int, many: int) -> None:
        self._folder, self._reason = str(folder), reason
        self._first, self._last = first, first + many - 1
        self._seen, self._descriptors = 0, set[int]()
        self.failed = 0
        self._wrap_open(fails=kind == "open")
        if kind != "open":
            self._wrap(kind)

    def _fail(self, what: object) -> None:
        self._seen += 1
        if self._first <= self._seen <= self._last:
            self.failed += 1
            raise OSError(self._reason, os.strerror(self._reason), str(what))

    def _wrap_open(self, *, fails: bool) -> None:
        real, close = os.open, os.close

        def opened(path: Any, *arguments: Any, **named: Any) -> int:
            mine = isinstance(path, str | os.PathLike) and os.fspath(path).startswith(self._folder)
            if mine and fails:
                self._fail(path)
            descriptor = real(path, *arguments, **named)
            if mine:
                self._descriptors.add(descriptor)
            return descriptor

        def closed(descriptor: int) -> None:
            self._descriptors.discard(descriptor)
            close(descriptor)

        os.open, os.close = opened, closed  # type: ignore[assignment]

    def _wrap(self, kind: str) -> None:
        real = getattr(os, kind)

        def wrapped(what: Any, *arguments: Any, **named: Any) -> Any:
            mine = what in self._descriptors if isinstance(what, int) else str(what).startswith(self._folder)
            if mine:
                self._fail(what)
            return real(what, *arguments, **named)

        setattr(os, kind, wrapped)
