"""Loops of thousands of rounds: a document that many edit, and the far end of a chain.

A trace of the first kind is made up (``bench.crdt``), or read from ``out/bench/crdt`` where somebody has put
``insert.txt`` and ``remove.txt`` of a real one. Seconds are those of one processor.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pyarrow as pa

import altneu as an
from altneu.runtime import local
from altneu.sql import query
from bench import crdt
from bench.inputs import generator
from bench.measure import milliseconds
from bench.scale import Scale
from bench.tables import Aim, Findings, Table

FOLDER = Path("out/bench/crdt")
EDITS, RUN = 60_000, 8_000
QUICK_EDITS, QUICK_RUN = 4_000, 800
LINKS, QUICK_LINKS = 10_000, 1_000
LOAD_SECONDS, REMOVAL = 300.0, 50.0
EDGES = an.source("edges", "src bigint, dst bigint")
ROOTS = an.source("roots", "node bigint")
CHAIN = """
WITH RECURSIVE reached AS (
    SELECT node FROM roots UNION SELECT e.dst AS node FROM reached r JOIN edges e ON e.src = r.node
)
SELECT node FROM reached
"""


class _Rounds:
    """A session of one view, whose segments are counted: outside loops there is one, or one before and one after."""

    def __init__(self, view: an.Collection) -> None:
        self.session = an.Session()
        self.view = self.session.maintain("view", view)
        self.count = 0

    def step(self) -> float:
        """Seconds for a step; ``count`` is how many segments it had."""
        self.count, real = 0, local.run_here

        def counting(*given: object, **named: object) -> object:
            self.count += 1
            return real(*given, **named)  # type: ignore[arg-type]

        local.run_here = counting  # type: ignore[assignment]
        try:
            return _seconds(self.session.advance)
        finally:
            local.run_here = real


def _seconds(run: Callable[[], object]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def measure(scale: Scale) -> Findings:
    """Run the case."""
    table = Table(
        "Loops of thousands of rounds (seconds of one processor)",
        [
            "input",
            "rows",
            "rounds",
            "load, s",
            "ms per round",
            "change p50, ms",
            "p95",
            "DuckDB, s",
            "DuckDB / change",
        ],
    )
    result = Findings(tables=[table])
    full = scale.name == "full"
    _document(table, result, full=full, changes=min(scale.changes, 100))
    _chain(table, LINKS if full else QUICK_LINKS, min(scale.changes, 50))
    return result


def _document(table: Table, findings: Findings, *, full: bool, changes: int) -> None:
    real = (FOLDER / "insert.txt").exists() and full
    result = crdt.trace(EDITS, RUN) if full else crdt.trace(QUICK_EDITS, QUICK_RUN)
    inserts, removals = crdt.read(FOLDER) if real else result
    rounds = _Rounds(query(crdt.QUERY, {"inserted": crdt.INSERTED, "removed": crdt.REMOVED}))
    rounds.session.insert("inserted", inserts)
    rounds.session.insert("removed", removals)
    load, count = rounds.step(), rounds.count
    wanted = crdt.answer(inserts, removals)
    _check(sorted(rounds.view.to_pylist()), wanted)
    removed = set(removals)
    shown = [row[:2] for row in inserts if row[:2] not in removed]
    seconds = []
    for element in random.Random(0).sample(shown, changes):
        rounds.session.insert("removed", [element])
        seconds.append(rounds.step())
        removals = [*removals, element]
    _check(sorted(rounds.view.to_pylist()), crdt.answer(inserts, removals))
    anew = _duckdb(
        crdt.QUERY.replace("MUTUALLY RECURSIVE", "RECURSIVE").replace(" bigint", ""),
        {"inserted": (crdt.INSERTED, inserts), "removed": (crdt.REMOVED, removals)},
    )
    name = "the trace in out/bench/crdt" if real else "a made-up trace"
    p50 = _row(table, f"{name}, {len(inserts):,} insertions", len(wanted), count, load, seconds, anew)
    findings.aims += [
        Aim("o: a trace loaded within five minutes", f"{load:.0f} s", load / LOAD_SECONDS),
        Aim("o: a removal in 50 ms, median", f"{p50:.1f} ms", p50 / REMOVAL),
    ]


def _chain(table: Table, links: int, changes: int) -> None:
    rounds = _Rounds(query(CHAIN, {"edges": EDGES, "roots": ROOTS}))
    edges = [(i, i + 1) for i in range(links)]
    rounds.session.insert("roots", [(0,)])
    rounds.session.insert("edges", edges)
    load, count = rounds.step(), rounds.count
    _check(rounds.view.to_arrow().num_rows, links + 1)
    rng, seconds = generator("chain"), []
    for _ in range(changes):  # a link near the far end goes, and is there again
        at = links - 1 - int(rng.integers(10))
        for change in (rounds.session.retract, rounds.session.insert):
            change("edges", [edges[at]])
            seconds.append(rounds.step())
    anew = _duckdb(CHAIN, {"edges": (EDGES, edges), "roots": (ROOTS, [(0,)])})
    name = f"a chain of {links:,} links; one of the last ten goes and comes"
    _row(table, name, links + 1, count, load, seconds, anew)


def _row(table: Table, name: str, rows: int, rounds: int, load: float, seconds: list[float], anew: float) -> float:
    p50, p95 = milliseconds(seconds, 50), milliseconds(seconds, 95)
    times = [f"{load:.1f}", f"{load / rounds * 1e3:.2f}", f"{p50:.1f}", f"{p95:.1f}"]
    table.add(name, f"{rows:,}", f"{rounds:,}", *times, f"{anew:.1f}", f"{anew * 1e3 / p50:,.0f}")
    return p50


def _duckdb(text: str, tables: dict[str, tuple[an.Collection, list[tuple[int, ...]]]]) -> float:
    """Seconds of one processor in which DuckDB computes a query from tables in its memory."""
    with duckdb.connect(config={"threads": 1}) as database:
        for name, (source, rows) in tables.items():
            given = pa.table(dict(zip(source.schema.names, zip(*rows, strict=True), strict=True)), schema=source.schema)
            database.register("given", given)
            database.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            database.unregister("given")
        return _seconds(lambda: database.execute(text).fetch_arrow_table())


def _check(shown: object, wanted: object) -> None:
    if shown != wanted:
        raise AssertionError("the view does not show what the input gives")
