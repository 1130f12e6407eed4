"""A session that follows a table and keeps others equal to its views, in a process that is killed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altneu as an
from altneu.errors import HistoryGoneError, SinkError, StreamError
from altneu.sinks import Sink
from faults import delta_tables, iceberg_tables, injected
from faults.delta_tables import QUERY, ROWS

Say = Callable[[str, Any], None]

FORMATS: dict[str, Any] = {"delta": delta_tables, "iceberg": iceberg_tables}
_TRIES = 50  # of a sink, while another one writes to its table
_LATE = ("was written by another process meanwhile", "the store is an older copy")


def run_sinks(created: list[Sink]) -> None:
    """Run each to the end of its view, however often another one comes first."""
    for sink in created:
        for left in reversed(range(_TRIES)):
            try:
                sink.run()
                break
            except SinkError as error:
                if not any(text in str(error) for text in _LATE) or not left:
                    raise
                time.sleep(0.01)


def run(folder: Path, say: Say, *, format_: str, kill: int = 0, clock: float = 0, max_bytes: int | str = "1g") -> None:
    """Follow the table to its end, and run the sinks after each step; `kill` or `clock` ends the process on the way."""
    state = folder / "state"
    if clock:  # the system ends it, in the middle of whatever it does
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, clock)
    if kill:
        injected.kill_at(state, kill)
    with an.Session(path=state, retain="all") as session:
        session.maintain("rows", ROWS)
        session.maintain("v", QUERY)
        created = FORMATS[format_].sinks(session, folder)
        run_sinks(created)  # which a session that was killed owes them
        table = FORMATS[format_].given(folder, max_bytes=max_bytes)
        with session.follow(rows=table, available_now=True, on_step=lambda *_: run_sinks(created)) as following:
            following.wait()
        say("lower", session.lower)


def rival(folder: Path, say: Say, *, format_: str) -> None:
    """Run the same sinks from a reader of the store, until it is killed: what they do is done once all the same."""
    while not (folder / "state" / "format.json").exists():
        time.sleep(0.005)
    runs = 0
    while True:
        try:
            with an.read(folder / "state") as reader:
                if {"rows", "v"} <= {*reader.views}:
                    for sink in FORMATS[format_].sinks(reader, folder):
                        runs += sink.run() > 0
                    say("written", runs)
        except (HistoryGoneError, SinkError, StreamError) as error:
            if isinstance(error, SinkError) and not any(text in str(error) for text in _LATE):
                raise
        time.sleep(0.01)
