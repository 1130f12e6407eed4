"""A process that forks sessions with sinks, to be killed: run as a script, it reads ``<seed> <folder>`` a line.

Each takes up the store and its sinks where they are, and goes on with the input by ``lower``, so that every run of it
inserts the same rows at the same times. With a seed it kills itself in front of an operation on a file, or a statement
of the database, that the seed chooses; with 0 it comes to its end.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import sys
from functools import partial
from pathlib import Path

import altneu as an

EVENTS = an.source("events", "k long, v string")
LAST = EVENTS.group_by("k").agg(n="count(*)", top="max(v)")
STEPS = 6
MOST = 400  # operations before it is killed
OPERATIONS = {"open", "os.link", "os.remove", "os.rename", "os.mkdir", "os.listdir", "os.scandir"}


class Fate:
    """Kills this process in front of the operation whose turn it is."""

    def __init__(self):
        self.left = 0  # for ever

    def tick(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def arm(self, folder: str, seed: int) -> None:
        self.left = random.Random(seed).randrange(1, MOST)

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            if event in OPERATIONS and str(arguments[0]).startswith(folder):
                self.tick()

        sys.addaudithook(hook)

    def connect(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path)
        connection.set_trace_callback(self.tick)  # of each statement
        return connection


FATE = Fate()


def sinks(session: an.Session, folder: Path) -> list[an.sinks.Sink]:
    everything, last, connect = (
        session.view("all"),
        session.view("last"),
        partial(FATE.connect, folder / "tables.db"),
    )
    return [
        an.sinks.parquet(last, folder / "upserted", mode="upsert", key=["k"], buckets=3),
        an.sinks.parquet(everything, folder / "merged", buckets=3),
        an.sinks.parquet(everything, folder / "changes", mode="append"),
        an.sinks.database(last, connect, "upserted", mode="upsert", key=["k"]),
        an.sinks.database(everything, connect, "merged", mode="merge"),
        an.sinks.database(everything, connect, "changes", mode="append"),
    ]


def run(folder: Path) -> None:
    with an.Session(path=folder / "state") as session:
        everything = session.maintain("all", EVENTS)
        session.maintain("last", LAST)
        made = sinks(session, folder)
        for sink in made:
            sink.run()
        while session.lower < STEPS:
            chance = random.Random(session.lower)
            session.insert("events", [(chance.randrange(5), chance.choice("xyz")) for _ in range(6)])
            there = sorted(everything.to_pylist()) if session.lower else []
            session.retract("events", chance.sample(there, min(len(there), 4)))
            session.advance()
            for sink in made:
                sink.run()


def main() -> None:
    an.Session().close()  # what is slow to import is imported once
    for line in sys.stdin:
        seed, folder = line.rstrip("\n").split(" ", 1)
        child = os.fork()
        if not child:
            if seed != "0":
                FATE.arm(folder, int(seed))
            run(Path(folder))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
