"""How much state TPC-H's views keep with tables open and closed: ``python -m bench.tpch.closed``.

The figures do not depend on the machine. The queries are those that join ``nation`` or ``region``; each is a session of
its own, its contents included.
"""

from __future__ import annotations

import sys
from collections.abc import Collection

import altneu as an
from altneu.sql import query
from bench.tpch import data

JOINING = (2, 5, 7, 8, 9, 10, 11, 20, 21)
SMALL = ("nation", "region")
DIMENSIONS = (*SMALL, "supplier", "part", "partsupp", "customer")


def state(text: str, scale: float, closed: Collection[str], joins: str) -> tuple[int, int]:
    """Updates in the state of a view and its bytes, after the load and a step that changes nothing else."""
    sources = data.sources()
    with an.Session() as session:
        session.maintain("view", query(text, sources), joins=joins)  # type: ignore[arg-type]
        for name, table in data.generate(scale).items():
            if name in session.sources:
                session.insert(name, table)
        session.advance()
        for name in closed:
            if name in session.sources:
                session.close_source(name)
        operators = session.explained("view").operators
        return sum(o.updates or 0 for o in operators), sum(o.bytes or 0 for o in operators)


def main(scale: float = 0.1) -> None:
    """A line for each query: updates and MiB with no table closed, with the small ones, with all but the facts."""
    texts = data.texts()
    print("| query | open | | region and nation closed | | all but orders and lineitem closed | |")
    print("| --- |" + " ---: |" * 6)
    for number in JOINING:
        found = [state(texts[number], scale, closed, "auto") for closed in ((), SMALL, DIMENSIONS)]
        cells = [cell for rows, size in found for cell in (f"{rows:,}", f"{size / (1 << 20):.0f}")]
        print(f"| q{number} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
