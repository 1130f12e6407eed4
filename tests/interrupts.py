"""Ctrl-C in the middle of something."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def interrupted_when(happened: threading.Event) -> Iterator[None]:
    """Raise KeyboardInterrupt in the main thread, as Ctrl-C does, once something has happened."""

    def wait() -> None:
        if happened.wait(60):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        happened.set()
        thread.join()
