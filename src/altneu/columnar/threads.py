"""Long loops of compiled kernels on several threads.

A kernel that is compiled with ``nogil=True`` runs without the interpreter's lock, so that parts of one loop run at the
same time. Only loops whose parts write to different places are cut, and only where a thread is worth its start; what
comes out is the same, bit by bit, however many threads there are. A task of Spark has one thread: Spark gives every
core a task of its own.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

LEAST = 1 << 15
"""Rows that one part has at least."""
MOST = 4
"""Threads at most: these loops wait for memory, which more of them do not make faster."""


class _Threads:
    """The threads of this process, started when they are first needed."""

    def __init__(self) -> None:
        self.count = min(
            len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1, MOST
        )
        self._pool: ThreadPoolExecutor | None = None

    def forget(self) -> None:
        """Start anew: a process that was forked has none of its parent's threads."""
        self._pool = None

    def pool(self) -> ThreadPoolExecutor:
        """Those beside the thread that asks."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(MOST - 1, "altneu-kernel")
        return self._pool


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
    futures = [_threads.pool().submit(loop, start, stop) for start, stop in others]
    try:
        loop(*own)
    finally:
        wait(futures)
    for future in futures:
        future.result()
