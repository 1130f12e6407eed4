"""Ctrl-C: it comes out as a KeyboardInterrupt whatever it meets, and does not cut what happens wholly or not at all.

Python raises KeyboardInterrupt wherever the main thread is. Compiled code may turn it into a SystemError or print and
forget it, a callback of a library too, and the handler of another library may fail. So whoever works under a ``Lock``
is watched: what the handler raised is what comes out in the end. In ``deferred`` parts, such as a commit, the signal
waits until they are over. Signals are only seen by the main thread; everywhere else all of this does nothing.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # typeshed lacks it
import logging
import os
import signal
import threading
from collections.abc import Callable
from threading import get_ident
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, Self

PATIENCE = 5.0  # seconds for which a part that is deferred may keep a signal waiting that is sent again
_SIGNALS = (int(signal.SIGINT), int(signal.SIGTERM))  # the second one where a program gave it a handler
_NEAR = 4  # calls between a place that is not to be cut and the handler, at most

Handler = Callable[[int, FrameType | None], Any]


class _Watch:
    """The handler of a signal while somebody is watched: it does what the handler before it does, and remembers it."""

    def __init__(self, number: int, previous: Handler) -> None:
        self.number, self.previous = number, previous
        self.raised: BaseException | None = None
        self.has_news = False  # whether there is anything for ``check``
        self._waiting_since: float | None = None

    def __call__(self, _number: int, frame: FrameType | None) -> None:
        if _is_in_lock(frame) or (_state.deferring and self._can_wait()):
            self._waiting_since, self.has_news = self._waiting_since or monotonic(), True
            return
        self.deliver(frame)

    def _can_wait(self) -> bool:
        return self._waiting_since is None or monotonic() - self._waiting_since < PATIENCE

    def deliver(self, frame: FrameType | None = None) -> None:
        """Have the handler before this one do what it does."""
        self._waiting_since, self.has_news = None, True
        _state.filters = True
        logging.getLogger().addFilter(_is_wanted)
        try:
            self.previous(self.number, frame)
        except BaseException as error:
            if type(error).__module__.startswith("py4j"):  # Spark's handler before 4.2: the call that it cuts fails it
                self.raised = KeyboardInterrupt()
                raise self.raised from error
            self.raised = error
            raise

    def check(self) -> None:
        """Raise what was swallowed, or has waited."""
        if self._waiting_since is not None:
            self.deliver()
        if self.raised is not None:
            raise self.raised


def _is_wanted(record: logging.LogRecord) -> bool:
    """Whether a record says something new: Py4J logs the call that an interrupt cut, and one of Spark's handler."""
    return f"{os.sep}py4j{os.sep}" not in record.pathname


class _State:
    """What the main thread, of the number ``main``, is at; ``filters`` says that records of its log are left out."""

    main = threading.main_thread().ident
    deferring = 0
    watches: tuple[_Watch, ...] = ()
    filters = False


_state = _State()


def _forked() -> None:
    """In a process that was forked, the thread that forked it is the main one."""
    _state.main = get_ident()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class _Deferred:
    """The context of ``deferred``, the same one each time: what is inside is counted."""

    __slots__ = ()

    def __enter__(self) -> None:
        if get_ident() == _state.main:
            _state.deferring += 1

    def __exit__(self, *_: object) -> None:
        if get_ident() == _state.main:
            _state.deferring -= 1


_deferred = _Deferred()


def deferred() -> _Deferred:
    """Inside, a Ctrl-C waits; it is raised by the next ``check``, or when the lock is given back.

    One that is sent again ``PATIENCE`` seconds later is raised at once.
    """
    return _deferred


def check() -> None:
    """Raise the interrupt that something on the way here has swallowed, or that has waited."""
    if get_ident() == _state.main and not _state.deferring:
        for watch in _state.watches:
            if watch.has_news:
                watch.check()


def original(error: BaseException) -> BaseException:
    """The interrupt that an error comes of, or else the error."""
    if get_ident() == _state.main and not isinstance(error, KeyboardInterrupt):
        for watch in _state.watches:
            if watch.raised is not None:
                return watch.raised
    return error


class Lock:
    """A reentrant lock whose holder, if it is the main thread, is watched.

    A signal between taking it and what it is taken for, or between that and giving it back, waits: the lock is never
    left behind.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0  # of the main thread
        self._around: tuple[_Watch, ...] = ()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """As of ``threading.RLock``; nobody is watched."""
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """As of ``threading.RLock``."""
        self._lock.release()

    @property
    def is_mine(self) -> bool:
        """Whether this thread has it."""
        return self._lock._is_owned()  # type: ignore[attr-defined]

    def __enter__(self) -> Self:
        if get_ident() != _state.main:
            self._lock.acquire()
            return self
        if not self._depth:
            self._around = _state.watches
            _state.watches = _watching()
        try:
            while not self._lock.acquire(timeout=0.1):
                check()
        except BaseException:
            if not self._depth:
                self._let_go()
            raise
        self._depth += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if get_ident() != _state.main:
            self._lock.release()
            return
        self._depth -= 1
        self._lock.release()
        if self._depth:
            return
        watches = self._let_go()
        if error is None or not isinstance(error, KeyboardInterrupt):
            for watch in watches:
                if watch.has_news and (watch.raised is not error or error is None):
                    watch.check()

    def _let_go(self) -> tuple[_Watch, ...]:
        watches, _state.watches = _state.watches, self._around
        if _state.filters and not _state.watches:
            _state.filters = False
            logging.getLogger().removeFilter(_is_wanted)
        for watch in watches:
            _signal.signal(watch.number, watch.previous)
        return watches


def _watching() -> tuple[_Watch, ...]:
    """Watch signals that have handlers in Python; others end the process, or are ignored."""
    # `signal` has the same functions, but looks numbers up in an enumeration, which takes four times as long.
    watches: tuple[_Watch, ...] = ()
    for number in _SIGNALS:
        previous = _signal.getsignal(number)
        if previous is not None and previous.__class__ is not int:  # else it has none in Python
            watches = (*watches, _Watch(number, previous))
    for watch in watches:
        _signal.signal(watch.number, watch)
    return watches


_UNCUT = {f.__code__ for f in (Lock.__enter__, Lock.__exit__)}


def _is_in_lock(frame: FrameType | None) -> bool:
    """Whether a signal came while a lock was being taken or given back."""
    for _ in range(_NEAR):
        if frame is None:
            return False
        if frame.f_code in _UNCUT:
            return True
        frame = frame.f_back
    return False
