"""What a forked process is asked to do; each says what it sees by ``say(word, value)``."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altneu as an
from altneu.errors import AltneuError, HistoryGoneError, StoreCorruptError, StoreVersionError
from faults import injected, table_pipeline, work

Say = Callable[[str, Any], None]

_TRIES = 6


def run(folder: Path, say: Say, *, kill: int = 0, tear: int = 0, part: float = 0.5, steps: int = work.STEPS) -> None:
    """Take the steps that are left, and die on the way where that is asked for."""
    work.small_files()
    if kill:
        injected.kill_at(folder, kill)
    if tear:
        injected.tear_at(tear, part)
    say("shows", work.run(folder, say, steps=steps))


def operations(folder: Path, say: Say) -> None:
    """Take all steps and say how many operations on files that took."""
    work.small_files()
    seen = 0

    def act(number: int) -> None:
        nonlocal seen
        seen = number

    injected.count(folder, act)
    work.run(folder, lambda *_: None)
    say("operations", seen)


def failing(folder: Path, say: Say, *, operation: str, reason: int, first: int, many: int) -> None:
    """Take all steps while operations on files fail: every error is altneu's own, the same session goes on after it.

    A session that says that its store must be opened anew, or cannot go on, is closed and opened again.
    """
    work.small_files()
    fault = injected.Failing(folder, operation, reason, first, many)
    for _ in range(_TRIES):
        try:
            with an.Session(path=folder) as session:
                views = work.maintain(session)
                _go_on(session, say)
                say("shows", work.digests(views))
                say("faults", fault.failed)
                return
        except AltneuError as error:
            say("error", f"{type(error).__name__}: {error}")
    say("failed", f"no session came to its end in {_TRIES} tries")


def _go_on(session: an.Session, say: Say) -> None:
    """Take the steps; one that failed is tried again in the same session, its rows being there still."""
    while (step := session.lower) < work.STEPS:
        work.insert(session, step)
        for attempt in range(_TRIES):
            try:
                session.advance()
                break
            except AltneuError as error:
                say("error", f"{type(error).__name__}: {error}")
                if session.lower != step or attempt == _TRIES - 1:
                    raise
        say("step", step)


def damaged(folder: Path, say: Say, *, steps: int) -> None:
    """Open a store in which bytes were changed: it is as it was, or the error names the file and recovery mends it."""
    work.small_files()
    try:
        say("shows", work.run(folder, say, steps=steps))
    except (StoreCorruptError, StoreVersionError) as error:
        say("corrupt", str(error))


def recovered(folder: Path, say: Say, *, steps: int) -> None:
    """Open a damaged store at its last good commit and go on from there."""
    import warnings

    work.small_files()
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        try:
            opened = an.Session(path=folder, recover=True)
        except StoreCorruptError as error:
            say("corrupt", str(error))
            return
    with opened as session:
        views = work.maintain(session)
        say("from", session.lower)
        for step in work.take(session, steps):
            say("step", step)
        say("shows", work.digests(views))


def read(folder: Path, say: Say, *, pause: float) -> None:
    """Read all views again and again, until killed: what they show is what was true at some commit."""
    answers = work.expected()
    while not (folder / "format.json").exists():
        time.sleep(pause)
    times = 0
    while True:
        try:
            with an.read(folder) as reader:
                known = set(reader.views)
                lower = reader.lower
                shown = work.digests({name: reader.view(name) for name in work.VIEWS if name in known})
            for name, digest in shown.items():
                if digest != answers[lower][name]:
                    say("differs", f"view {name} at {lower}")
            times += bool(shown)
            say("read", times)
        except HistoryGoneError as error:
            say("unread", str(error))
        time.sleep(pause)


JOBS: dict[str, Callable[..., None]] = {
    "run": run,
    "operations": operations,
    "failing": failing,
    "damaged": damaged,
    "recovered": recovered,
    "read": read,
    "tables": table_pipeline.run,
    "rival": table_pipeline.rival,
}
