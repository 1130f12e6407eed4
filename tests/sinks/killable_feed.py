"""Two sessions that are one dataflow, to be killed: the first writes a view as messages, the second reads them.

Run as a script, it reads ``<seed> <folder>`` a line. Each run takes up both stores and the messages where they are.
With a seed it kills itself in front of an operation on a file that the seed chooses; with 0 it comes to its end.
"""

from __future__ import annotations

from pathlib import Path

import altneu as an
from tests.fate import forks
from tests.sinks.killable import EVENTS, LAST, change

STEPS = 14


def reading(folder: Path) -> tuple[an.cdc.Feed, an.Collection]:
    """What the second session reads and maintains."""
    feed = an.cdc.Feed("last", "k long, n long, top string", path=folder / "messages")
    return feed, feed.collection.group_by("top").agg(keys="count(*)", n="sum(n)")


def run(folder: Path) -> None:
    feed, tops = reading(folder)
    with an.Session(path=folder / "one") as one, an.Session(path=folder / "two") as two:
        everything, last = one.maintain("all", EVENTS), one.maintain("last", LAST)
        two.maintain("tops", tops)
        sink = an.sinks.feed(last, folder / "messages")
        while one.lower < STEPS:
            chance = change(one, everything)
            if chance.random() < 0.7:
                sink.run()
            if chance.random() < 0.7:
                feed.advance(two)
        sink.run()
        feed.advance(two)


def main() -> None:
    an.Session().close()  # what is slow to import is imported once
    forks(run)


if __name__ == "__main__":
    main()
