"""A line on the terminal for what takes longer than two seconds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

PATIENCE = 2.0  # seconds before anything is shown


class Watch:
    """Shows what is going on, once it has gone on for a while, on a terminal and nowhere else.

    One thread a process looks twice a second; a step that is quick costs it two assignments.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.current: tuple[str, float] | None = None
        self._thread: threading.Thread | None = None

    @contextmanager
    def __call__(self, text: str, started: float | None = None) -> Iterator[None]:
        """Watch what happens inside; ``text`` says what it is, ``started`` since when, by ``time.monotonic``."""
        if not self.console.is_terminal or self.current is not None:
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

    def _look(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(0.5)
            seen = self.current
            if seen is not None and time.monotonic() - seen[1] > PATIENCE:
                self._show(seen, pause)

    def _show(self, shown: tuple[str, float], pause: threading.Event) -> None:
        with self.console.status(shown[0]) as status:
            while self.current is shown:
                status.update(f"{shown[0]}, {time.monotonic() - shown[1]:.0f} s")
                pause.wait(0.2)


watch = Watch(Console(stderr=True))
