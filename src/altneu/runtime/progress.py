"""A line on the terminal for what takes longer than two seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

PATIENCE = 2.0  # seconds before anything is shown
MANY_ROUNDS = 100  # before a loop's round is shown


class Watch:
    """Shows what is going on, once it has gone on for a while, on a terminal and nowhere else.

    One thread a process looks twice a second; a step that is quick costs it two assignments. The line is gone when the
    block ends, so that what is printed next has a line of its own.
    """

    def __init__(self, console: Console | None = None) -> None:
        if console is not None:
            self.console = console
        self.current: tuple[str, float] | None = None
        self.round: tuple[Sequence[str], int] | None = None  # the loop that runs, by its variables, and its round
        self._thread: threading.Thread | None = None
        self._line, self._ended = threading.Lock(), threading.Event()

    @contextmanager
    def __call__(self, text: str, started: float | None = None) -> Iterator[None]:
        """Watch what happens inside; ``text`` says what it is, ``started`` since when, by ``time.monotonic``."""
        if self.console is None or not self.console.is_terminal or self.current is not None:
            yield
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="altneu progress", daemon=True)
            self._thread.start()
        self.current = (text, time.monotonic() if started is None else started)
        try:
            yield
        finally:
            self.current = None
            self._ended.set()
            with self._line:
                """The line is gone."""

    @cached_property
    def console(self) -> Console | None:
        """The terminal, where Rich is installed (``altneu[cli]``): without it nothing is shown."""
        try:
            from rich.console import Console
        except ImportError:
            return None
        return Console(stderr=True)

    def _look(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(0.5)
            seen = self.current
            if seen is not None and time.monotonic() - seen[1] > PATIENCE:
                self._show(seen)

    def _show(self, shown: tuple[str, float]) -> None:
        with self._line:
            self._ended.clear()
            if self.current is not shown:
                return
            from rich.live import Live
            from rich.spinner import Spinner

            spinner = Spinner("dots")
            # What others print meanwhile stays where they print it, which may be a file.
            with Live(spinner, console=self.console, transient=True, redirect_stdout=False, redirect_stderr=False):
                while self.current is shown:
                    spinner.update(text=f"{shown[0]}, {time.monotonic() - shown[1]:.0f} s{self._of_loop()}")
                    self._ended.wait(0.2)

    def _of_loop(self) -> str:
        """In which round a loop is, for one of a few rounds is over before it is read."""
        found = self.round
        return (
            f", round {found[1]:,} of the loop over {', '.join(found[0])}" if found and found[1] >= MANY_ROUNDS else ""
        )


watch = Watch()
