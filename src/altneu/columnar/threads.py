"""Long loops of compiled kernels on several threads.

A kernel that is compiled with ``nogil=True`` runs without the interpreter's lock, so that parts of one loop run at the
same time. Only loops whose parts write to different places are cut, and only where a thread is worth its start; what
comes out is the same, bit by bit, however many threads there are. A task of Spark has one thread: Spark gives every
core a task of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue

LEAST = 1 << 15
"""Rows that one part has at least."""
MOST = 4
"""Threads at most: these loops wait for memory, which more of them do not make faster."""


class _Part:
    """A part of a loop that another thread runs."""

    def __init__(self, loop: Callable[[int, int], object], start: int, stop: int) -> None:
        self._call = partial(loop, start, stop)
        self._ended = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run it, and store the exception that it raises."""
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001  # raised where the loop was started
            self.error = error
        finally:
            self._ended.set()

    def wait(self) -> None:
        """Wait until it has ended."""
        self._ended.wait()


class _Threads:
    """The threads of this process, started when they are first needed.

    They are daemons, since an executor's threads keep a process from ending when an interrupt comes as one is started.
    """

    def __init__(self) -> None:
        self.count = min(
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, MOST
        )
        self.forget()

    def forget(self) -> None:
        """Start again: a forked process has none of its parent's threads."""
        self._parts: SimpleQueue[_Part] = SimpleQueue()
        self._started = 0

    def put(self, part: _Part) -> None:
        """Have a part run by the next thread that is free."""
        while self._started < self.count - 1:
            self._started += 1
            threading.Thread(target=_serve, args=(self._parts,), name="altneu-kernel", daemon=True).start()
        self._parts.put(part)


def _serve(parts: SimpleQueue[_Part]) -> None:
    while True:
        parts.get().run()


_threads = _Threads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_threads.forget)


def limit(count: int) -> None:
    """Use at most so many threads, this one included; one means that nothing is cut.

    Raises:
        ValueError: it is not from 1 to ``MOST``.
    """
    if not 1 <= count <= MOST:
        raise ValueError(f"threads must be from 1 to {MOST}, got {count}")
    _threads.count = count


def count() -> int:
    """How many threads a long loop has."""
    return _threads.count


def in_parts(size: int, loop: Callable[[int, int], object]) -> None:
    """Call ``loop(start, stop)`` for ranges that make up ``range(size)``, the last one in this thread.

    Raises:
        Whatever a part raises, after all have ended.

    >>> squares = [0] * 10
    >>> def loop(start: int, stop: int) -> None:
    ...     squares[start:stop] = [i * i for i in range(start, stop)]
    >>> in_parts(10, loop)
    >>> squares[-1]
    81
    """
    parts = min(_threads.count, size // LEAST)
    if parts < 2:
        loop(0, size)
        return
    run([(size * i // parts, size * (i + 1) // parts) for i in range(parts)], loop)


def run(ranges: list[tuple[int, int]], loop: Callable[[int, int], object]) -> None:
    """Call ``loop`` for each range, the last one in this thread, and wait for all of them."""
    *others, own = ranges
    parts = [_Part(loop, start, stop) for start, stop in others]
    for part in parts:
        _threads.put(part)
    try:
        loop(*own)
    finally:
        for part in parts:
            part.wait()
    for part in parts:
        if part.error is not None:
            raise part.error
