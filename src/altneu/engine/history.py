"""The last steps of a session, its present activity, and listeners to both."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from altneu.columnar.immutable import immutable
from altneu.runtime.progress import watch

KEPT = 1000  # steps


@immutable(frozen=True)
class Step:
    """The result of an advance.

    Units:  ``lower`` and ``upper`` bound the times that it closed; ``seconds`` is wall time, including the commit; the
            changes are consolidated updates; ``state_rows`` is the number of updates in all arrangements;
            ``recomputed`` are the views of which it computed anew what they alone have.
    """

    lower: int
    upper: int
    seconds: float
    changes_in: int
    changes_out: Mapping[str, int]
    placement: str
    state_rows: int
    recomputed: tuple[str, ...] = ()


@immutable(frozen=True, slots=True)
class Past:
    """A completed step.

    Units:  ``number`` counts the steps of the session from 1, including those that are no longer recorded; ``ended`` is
            in seconds since 1970, UTC.
    """

    number: int
    ended: float
    step: Step


@dataclass(frozen=True, slots=True)
class Failed:
    """An advance that failed, and its error; ``ended`` is as in ``Past``."""

    ended: float
    error: str


class Doing:
    """An activity, and its start by ``time.monotonic``: a context that shows it, unless it is a part of another one."""

    __slots__ = ("_history", "_is_outermost", "_is_shown", "started", "text")

    def __init__(self, history: History, text: str, started: float | None) -> None:
        self.text, self.started = text, time.monotonic() if started is None else started
        self._history = history
        self._is_outermost = self._is_shown = False

    @property
    def seconds(self) -> float:
        """Its duration so far, in seconds."""
        return time.monotonic() - self.started

    def __enter__(self) -> None:
        if self._history.doing is None:
            try:
                self._is_outermost = True
                self._history.doing = self
                self._is_shown = watch.begin(f"altneu: {self.text}", self.started)
            except BaseException:
                self.__exit__()
                raise

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            watch.end()
        if self._is_outermost:
            self._history.doing = None


class History:
    """The steps of one session. To add a step requires the session's lock; reading does not.

    ``count`` is the number of steps so far, ``failed`` the last failure if no step succeeded after it.
    """

    def __init__(self) -> None:
        self._past: deque[Past] = deque(maxlen=KEPT)
        self._listeners: tuple[Callable[[], object], ...] = ()
        self.count = 0
        self.failed: Failed | None = None
        self.doing: Doing | None = None

    def last(self, n: int = KEPT) -> list[Past]:
        """The last steps, at most ``n``, the oldest first."""
        return list(islice(reversed(tuple(self._past)), max(n, 0)))[::-1]

    def add(self, step: Step) -> Step:
        """Record a step that has just ended, and call the listeners."""
        self.count += 1
        self.failed = None
        self._past.append(Past(self.count, time.time(), step))
        if self._listeners:
            self._tell()
        return step

    def fail(self, error: BaseException) -> None:
        """Record why an advance failed."""
        self.failed = Failed(time.time(), f"{type(error).__name__}: {error}")
        self._tell()

    def listen(self, function: Callable[[], object]) -> Callable[[], None]:
        """Call a function after each step, under the session's lock; call the returned function to stop that.

        The function must be fast and must not raise: the step is committed and waits for it.
        """
        self._listeners += (function,)

        def end() -> None:
            self._listeners = tuple(f for f in self._listeners if f is not function)

        return end

    def _tell(self) -> None:
        for function in self._listeners:
            function()

    def watch(self, text: str, started: float | None = None) -> Doing:
        """A context that shows its activity to readers, and on a terminal if slow; ``started`` is as in ``Doing``."""
        return Doing(self, text, started)
