"""A process that forks sessions with sinks, to be killed: run as a script, it reads ``<seed> <folder>`` a line.

Each takes up the store and its sinks where they are, and goes on with the input by ``lower``, so that every run of it
inserts the same rows at the same times. With a seed it kills itself in front of an operation on a file, or a statement
of the database, that the seed chooses; with 0 it comes to its end.
"""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import altneu as an
from tests.fate import FATE, forks

EVENTS = an.source("events", "k long, v string")
LAST = EVENTS.group_by("k").agg(n="count(*)", top="max(v)")
STEPS = 6


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


def change(session: an.Session, everything: an.View) -> random.Random:
    """A step that only its time decides, and the random numbers that go on from it."""
    chance = random.Random(session.lower)
    session.insert("events", [(chance.randrange(5), chance.choice("xyz")) for _ in range(6)])
    there = sorted(everything.to_pylist()) if session.lower else []
    session.retract("events", chance.sample(there, min(len(there), 4)))
    session.advance()
    return chance


def run(folder: Path) -> None:
    with an.Session(path=folder / "state") as session:
        everything = session.maintain("all", EVENTS)
        session.maintain("last", LAST)
        created = sinks(session, folder)
        for sink in created:
            sink.run()
        while session.lower < STEPS:
            change(session, everything)
            for sink in created:
                sink.run()


def main() -> None:
    an.Session().close()  # what is slow to import is imported once
    forks(run)


if __name__ == "__main__":
    main()
