"""The last steps of a session, what it is doing just now, and who is told of them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

from altneu.runtime.progress import watch

KEPT = 1000  # steps


@dataclass(frozen=True)
class Step:
    """What an advance did.

    Units:  ``lower`` and ``upper`` bound the times it closed; ``seconds`` is wall time, commit included; the changes
            are consolidated updates; ``state_rows`` counts updates kept in all arrangements.
    """

    lower: int
    upper: int
    seconds: float
    changes_in: int
    changes_out: Mapping[str, int]
    placement: str
    state_rows: int


@dataclass(frozen=True, slots=True)
class Past:
    """A step that is done.

    Units:  ``number`` counts the steps of the session from 1, also those that are no longer kept; ``ended`` is in
            seconds since 1970, UTC.
    """

    number: int
    ended: float
    step: Step


@dataclass(frozen=True, slots=True)
class Failed:
    """An advance that did not come to its end, and why; ``ended`` as of ``Past``."""

    ended: float
    error: str


@dataclass(frozen=True, slots=True)
class Doing:
    """What goes on, and since when, by ``time.monotonic``."""

    text: str
    started: float

    @property
    def seconds(self) -> float:
        """How long it has gone on."""
        return time.monotonic() - self.started


class History:
    """The steps of one session; whoever adds to it holds the session's lock, anybody may look.

    ``count`` is the number of steps so far, ``failed`` the last failure if no step came after it.
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
        """Note a step that has just ended, and tell those who listen."""
        self.count += 1
        self.failed = None
        self._past.append(Past(self.count, time.time(), step))
        self._tell()
        return step

    def fail(self, error: BaseException) -> None:
        """Note why an advance did not come to its end."""
        self.failed = Failed(time.time(), f"{type(error).__name__}: {error}")
        self._tell()

    def listen(self, function: Callable[[], object]) -> Callable[[], None]:
        """Have a function called after each step, under the session's lock; what is given back ends that.

        It is quick and does not raise: the step waits for it, and is committed.
        """
        self._listeners += (function,)

        def end() -> None:
            self._listeners = tuple(f for f in self._listeners if f is not function)

        return end

    def _tell(self) -> None:
        for function in self._listeners:
            function()

    @contextmanager
    def watch(self, text: str, started: float | None = None) -> Iterator[None]:
        """Say what happens inside to whoever looks, and on a terminal if it takes long; ``started`` as of ``Doing``."""
        if self.doing is not None:
            yield
            return
        self.doing = Doing(text, time.monotonic() if started is None else started)
        try:
            with watch(f"altneu: {text}", started):
                yield
        finally:
            self.doing = None
