"""A line on the terminal, or in a notebook's cell, for what takes longer than two seconds; and for kernels compiled."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import cached_property, partial
from typing import TYPE_CHECKING, TextIO

from numba.core import event

from altneu.columnar import html

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.console import Console

    Line = AbstractContextManager[Callable[[str], object]]  # a line while it is there, and what changes its text
    Lines = Callable[[Context], Line]

PATIENCE = 2.0  # seconds before anything is shown
MANY_ROUNDS = 100  # before a loop's round is shown


class Watch:
    """Shows what is going on, once it has gone on for a while, on a terminal or in a notebook and nowhere else.

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
        self._known: tuple[TextIO, Lines | None] | None = None  # where lines go
        self._context: Context  # of the cell that runs

    def __call__(self, text: str, started: float | None = None) -> _Watched:
        """Watch what happens inside; ``text`` says what it is, ``started`` since when, by ``time.monotonic``."""
        return _Watched(self, text, started)

    def begin(self, text: str, started: float | None = None) -> bool:
        """Watch what happens until ``end``, which is called if the answer is yes."""
        if self.current is not None or self._shown is None:
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="altneu progress", daemon=True)
            self._thread.start()
        self._context = copy_context()
        self.current = (text, time.monotonic() if started is None else started)
        return True

    def end(self) -> None:
        """It is over."""
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

    @property
    def _shown(self) -> Lines | None:
        """Where lines are shown, if anywhere: standard error is looked at again where it is another one."""
        error = sys.stderr
        if self._known is None or self._known[0] is not error:
            self._known = error, self._place()
        return self._known[1]

    def _place(self) -> Lines | None:
        if _is_notebook():
            return _in_cell
        console = self.console
        return partial(_on_terminal, console) if console is not None and console.is_terminal else None

    def _look(self) -> None:
        pause = threading.Event()
        while True:
            pause.wait(0.5)
            seen = self.current
            if seen is not None and time.monotonic() - seen[1] > PATIENCE:
                self._show(seen)

    def _show(self, shown: tuple[str, float]) -> None:
        place = self._shown
        with self._line:
            self._ended.clear()
            if self.current is not shown or place is None:
                return
            with place(self._context) as say:
                while self.current is shown:
                    say(f"{shown[0]}, {time.monotonic() - shown[1]:.0f} s{self._of_loop()}")
                    self._ended.wait(0.2)

    def _of_loop(self) -> str:
        """In which round a loop is, for one of a few rounds is over before it is read."""
        result = self.round
        return (
            f", round {result[1]:,} of the loop over {', '.join(result[0])}"
            if result and result[1] >= MANY_ROUNDS
            else ""
        )


@contextmanager
def _on_terminal(console: Console, _: Context) -> Iterator[Callable[[str], object]]:
    from rich.live import Live
    from rich.spinner import Spinner

    spinner = Spinner("dots")
    # What others print meanwhile stays where they print it, which may be a file.
    with Live(spinner, console=console, transient=True, redirect_stdout=False, redirect_stderr=False):
        yield lambda text: spinner.update(text=text)


@contextmanager
def _in_cell(context: Context) -> Iterator[Callable[[str], object]]:
    """A line of the cell whose code runs in a context; a cell that is run meanwhile does not get it."""
    from IPython.display import display

    shown = context.run(display, _Shown(""), display_id=True)
    try:
        yield lambda text: context.run(shown.update, _Shown(text))
    finally:
        context.run(shown.update, _Shown(""))


class _Shown:
    """A line as a cell shows it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return html.note(self._text) if self._text else ""


def _is_notebook() -> bool:
    """Whether this process is the kernel of a notebook; a terminal with IPython is a terminal."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class _Watched:
    """The context of what is watched."""

    __slots__ = ("_is_begun", "_parts", "_watch")

    def __init__(self, watch: Watch, text: str, started: float | None) -> None:
        self._watch, self._parts = watch, (text, started)

    def __enter__(self) -> None:
        self._is_begun = self._watch.begin(*self._parts)

    def __exit__(self, *_: object) -> None:
        if self._is_begun:
            self._watch.end()


class Compiling(event.Listener):
    """Says on standard error, once a process, that kernels of altneu are being compiled.

    It is said where that has taken ``PATIENCE`` altogether: one or two new kernels need no message.
    Kernels that are read from files, compiled before, do not count.
    """

    def __init__(self) -> None:
        self.is_said, self._is_listening = False, False
        self._depth, self._spent, self._since = 0, 0.0, 0.0

    def listen(self) -> None:
        """From now on; more than once is the same."""
        if not self._is_listening:
            self._is_listening = True
            event.register("numba:compile", self)  # type: ignore[no-untyped-call]

    def on_start(self, compiled: event.Event) -> None:
        """A kernel is compiled, perhaps for another one."""
        if not self._depth:
            self._since = time.monotonic()
        self._depth += 1
        self._look(compiled)

    def on_end(self, compiled: event.Event) -> None:
        """It is over."""
        self._look(compiled)
        self._depth -= 1
        if not self._depth:
            self._spent += time.monotonic() - self._since

    def _look(self, found: event.Event) -> None:
        spent = self._spent + time.monotonic() - self._since
        function = found.data["dispatcher"].py_func
        if self.is_said or spent < PATIENCE or not str(function.__module__).startswith("altneu."):
            return
        self.is_said = True
        sys.stderr.write(
            "altneu: compiling kernels and caching them: the first steps of an installation take "
            "up to a minute; python -m altneu.warm compiles all of them ahead\n"
        )


watch = Watch()
compiling = Compiling()
