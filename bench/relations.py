"""Recursive relations: what follows from GALEN, and a row deleted; page rank, and a tenth of the edges deleted."""

from __future__ import annotations

import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

import altneu as an
from bench.apart import apart
from bench.measure import MIB, Steps, milliseconds
from bench.scale import Scale
from bench.tables import Aim, Findings, Table

GALEN = "datalog/galen.zip"
ROWS = {1.0: (7_560_179, 16_595_494), 0.1: (307_668, 401_527)}  # of p and q, by the share of p0, q0, c0 and u0
COLUMNS = {"p": "x z", "q": "x y z", "r": "r p e", "c": "y z w", "u": "r z w", "s": "r p"}
WHOLE, VIEWS = ("r", "s"), ("p", "q")
RULES = """WITH MUTUALLY RECURSIVE
  p (x bigint, z bigint) AS (SELECT x, z FROM p0 UNION SELECT a.x, b.z FROM p a JOIN p b ON a.z = b.x
    UNION SELECT q.x, u.w FROM p JOIN u0 u ON p.z = u.r JOIN q ON q.y = u.z AND q.z = p.x
    UNION SELECT a.x, c.w FROM c0 c JOIN p a ON a.z = c.z JOIN p b ON b.x = a.x AND b.z = c.y),
  q (x bigint, y bigint, z bigint) AS (SELECT x, y, z FROM q0 UNION SELECT p.x, q.y, q.z FROM p JOIN q ON p.z = q.x
    UNION SELECT q.x, s.p, q.z FROM q JOIN s0 s ON q.y = s.r
    UNION SELECT a.x, r.e, b.z FROM q a JOIN r0 r ON a.y = r.r JOIN q b ON a.z = b.x AND r.p = b.y)"""
# What rows that are new in a round, dp and dq, make with all there are.
NEW_P = """SELECT a.x, b.z FROM dp a JOIN p b ON a.z = b.x UNION ALL SELECT a.x, b.z FROM p a JOIN dp b ON a.z = b.x
  UNION ALL SELECT q.x, u.w AS z FROM dp p JOIN u0 u ON p.z = u.r JOIN q ON q.y = u.z AND q.z = p.x
  UNION ALL SELECT q.x, u.w AS z FROM p JOIN u0 u ON p.z = u.r JOIN dq q ON q.y = u.z AND q.z = p.x
  UNION ALL SELECT a.x, c.w AS z FROM c0 c JOIN dp a ON a.z = c.z JOIN p b ON b.x = a.x AND b.z = c.y
  UNION ALL SELECT a.x, c.w AS z FROM c0 c JOIN p a ON a.z = c.z JOIN dp b ON b.x = a.x AND b.z = c.y"""
NEW_Q = """SELECT p.x, q.y, q.z FROM dp p JOIN q ON p.z = q.x
  UNION ALL SELECT p.x, q.y, q.z FROM p JOIN dq q ON p.z = q.x
  UNION ALL SELECT q.x, s.p AS y, q.z FROM dq q JOIN s0 s ON q.y = s.r
  UNION ALL SELECT a.x, r.e AS y, b.z FROM dq a JOIN r0 r ON a.y = r.r JOIN q b ON a.z = b.x AND r.p = b.y
  UNION ALL SELECT a.x, r.e AS y, b.z FROM q a JOIN r0 r ON a.y = r.r JOIN dq b ON a.z = b.x AND r.p = b.y"""


def tables(share: float) -> dict[str, pa.Table]:
    """The inputs: the first rows of p, q, c and u, all of r and s."""
    folder = Path(os.environ.get("ALTNEU_DATA", "../shared/data"))
    result = {}
    with zipfile.ZipFile(folder / GALEN) as archive:
        for name, columns in COLUMNS.items():
            names = columns.split()
            with archive.open(f"{name}.txt") as lines:
                table = pc.read_csv(lines, read_options=pc.ReadOptions(column_names=names))
            count = table.num_rows if name in WHOLE else int(table.num_rows * share)
            result[name] = table.slice(0, count).cast(pa.schema([(n, pa.int64()) for n in names]))
    return result


def declare(session: an.Session) -> None:
    """The tables, and p and q as views."""
    for name, columns in COLUMNS.items():
        session.sql(f"CREATE TABLE {name}0 ({', '.join(f'{c} BIGINT' for c in columns.split())})")
    for name in VIEWS:
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS {RULES} SELECT * FROM {name}")


def maintained(share: float, deletes: int) -> Any:
    """All that follows from GALEN, loaded, and rows deleted one by one, ready to run."""
    inputs = tables(share)
    session = an.Session()
    declare(session)
    for name in COLUMNS:
        session.insert(f"{name}0", inputs[name].slice(0, 1))
    session.advance()  # kernels are loaded
    for name in COLUMNS:
        session.insert(f"{name}0", inputs[name].slice(1))
    pick = np.random.default_rng(17)

    def run() -> dict[str, Any]:
        started, work = time.perf_counter(), time.process_time()
        session.advance()
        load, cpu = time.perf_counter() - started, time.process_time() - work
        retained = sum(size for _, size in session._engine.table.sizes().values())
        results = [session._engine.table.rows(session._engine.ports(name).contents) for name in VIEWS]
        steps, used = Steps(), []
        for name in VIEWS * (deletes // 2):
            row = inputs[name].slice(int(pick.integers(inputs[name].num_rows)), 1).to_pylist()[0]
            session.retract(f"{name}0", [tuple(row.values())])
            work = time.process_time()
            steps.run(session.advance)
            used.append(time.process_time() - work)
        return {"load": load, "cpu": cpu, "found": results, "kept": retained, "wall": steps.wall, "used": used}

    return run


def complete(database: Any, inputs: dict[str, pa.Table]) -> None:
    """Make tables p and q in DuckDB, round by round, each with what the one before had new."""
    do = database.execute
    for name, table in inputs.items():
        database.register(f"{name}_given", table)
        do(f"CREATE TABLE {name}0 AS FROM {name}_given")
    for name in VIEWS:
        do(f"CREATE TABLE {name} AS SELECT DISTINCT * FROM {name}0; CREATE TABLE d{name} AS FROM {name}")
    while do("SELECT (SELECT count(*) FROM dp) + (SELECT count(*) FROM dq)").fetchone() != (0,):
        do(f"CREATE TABLE np AS SELECT DISTINCT x, z FROM ({NEW_P}) n ANTI JOIN p USING (x, z)")
        do(f"CREATE TABLE nq AS SELECT DISTINCT x, y, z FROM ({NEW_Q}) n ANTI JOIN q USING (x, y, z)")
        for name in VIEWS:
            do(f"DROP TABLE d{name}; ALTER TABLE n{name} RENAME TO d{name}; INSERT INTO {name} FROM d{name}")


def recomputed(share: float) -> Any:
    """The same by DuckDB, ready to run."""
    import duckdb

    database, inputs = duckdb.connect(config={"threads": 2}), tables(share)

    def run() -> dict[str, Any]:
        work = time.process_time()
        complete(database, inputs)
        results = [database.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in VIEWS]
        return {"found": results, "cpu": time.process_time() - work}

    return run


def galen(findings: Findings, share: float, deletes: int, *, judged: bool) -> None:
    """Load, memory and deletes, against DuckDB's recomputation."""
    ours, theirs = apart(maintained, share, deletes), apart(recomputed, share)
    result = ours.result
    tuples = sum(result["found"])
    shown = Table(
        f"r. GALEN, {share:.0%} of it: {result['found'][0]:,} and {result['found'][1]:,} rows follow",
        [
            "",
            "load, s",
            "CPU, s",
            "added MiB",
            "peak added, bytes per row",
            "state, bytes per row",
            "a row deleted: p50, ms",
            "max",
            "CPU p50, ms",
        ],
    )
    wall, used = ([milliseconds(result[name], p) for p in (50, 100)] for name in ("wall", "used"))
    shown.add(
        "altneu",
        f"{result['load']:.1f}",
        f"{result['cpu']:.1f}",
        f"{ours.added / MIB:,.0f}",
        f"{ours.added / tuples:,.0f}",
        f"{result['kept'] / tuples:.0f}",
        *(f"{w:,.0f}" for w in wall),
        f"{used[0]:,.0f}",
    )
    again = f"{theirs.seconds * 1e3:,.0f}"
    spent = f"{theirs.result['cpu']:.1f}"
    theirs_added = f"{theirs.added / MIB:,.0f}", f"{theirs.added / tuples:,.0f}"
    shown.add("DuckDB, recomputed", f"{theirs.seconds:.1f}", spent, *theirs_added, "", again, again, "")
    shown.notes.append(
        f"The load takes {ours.added / max(theirs.added, 1):.1f} times DuckDB's memory and "
        f"{result['cpu'] / theirs.result['cpu']:.1f} times its CPU seconds."
    )
    same = result["found"] == theirs.result["found"] == list(ROWS[share])
    shown.notes.append(f"The counts of both are {'the same' if same else 'NOT the same'} as the published ones.")
    findings.tables.append(shown)
    findings.aims += [
        Aim("r: GALEN in 5 minutes", f"{result['load']:.0f} s", result["load"] / 300 if judged else None),
        Aim("r: in 10 GB", f"{ours.peak / 1e9:.1f} GB", ours.peak / 1e10 if judged else None),
        Aim("r: a deleted row under a second (p50)", f"{wall[0]:,.0f} ms", wall[0] / 1e3 if judged else None),
        Aim(
            "r: a deleted row 20x cheaper than recomputing with DuckDB",
            f"{theirs.seconds * 1e3 / wall[0]:,.0f}x",
            20 * wall[0] / (theirs.seconds * 1e3) if judged else None,
        ),
    ]


# page rank ------------------------------------------------------------------------------------------------------------


def ranked(nodes: int, edges: int) -> Any:
    """Page rank of a random graph, loaded, a tenth of the edges deleted and inserted again, ready to run."""
    pairs = np.unique(np.random.default_rng(nodes).integers(0, nodes, (edges, 2)), axis=0)
    table = pa.table({"src": np.ascontiguousarray(pairs[:, 0]), "dst": np.ascontiguousarray(pairs[:, 1])})
    some = table.take(np.random.default_rng(edges).permutation(len(pairs))[: len(pairs) // 10])
    session = an.Session()
    session.maintain("ranks", an.algorithms.pagerank(an.source("edges", "src long, dst long")))
    for sign in (1, -1):
        session.insert("edges", [(1, 2), (2, 3)], diff=sign)
        session.advance()

    def run() -> list[tuple[float, float, int]]:
        result = []
        for change, rows in ((session.insert, table), (session.retract, some), (session.insert, some)):
            change("edges", rows)
            started, work = time.perf_counter(), time.process_time()
            session.advance()
            retained = sum(session._engine.table.rows(name) for name in session._engine.table.sizes())
            result.append((time.perf_counter() - started, time.process_time() - work, retained))
        return result

    return run


def page_rank(findings: Findings, nodes: int, edges: int) -> None:
    """A load, and changes of everything."""
    result = apart(ranked, nodes, edges)
    shown = Table(
        f"r. page rank, 20 rounds, of {nodes:,} nodes and {edges:,} edges",
        ["", "s", "CPU, s", "of the load", "updates kept", "of the load's"],
    )
    _, load, first = result.result[0]
    for name, (wall, cpu, retained) in zip(
        ("load", "a tenth of the edges deleted", "and inserted again"), result.result, strict=True
    ):
        shown.add(name, f"{wall:.1f}", f"{cpu:.1f}", f"{cpu / load:.2f}x", f"{retained:,}", f"{retained / first:.2f}x")
    shown.notes.append(f"{result.added / MIB:,.0f} MiB added at the peak.")
    findings.tables.append(shown)
    ratio = result.result[1][1] / load
    findings.aims.append(Aim("r: page rank, a tenth deleted within 2.5x of the load", f"{ratio:.2f}x", ratio / 2.5))


def measure(scale: Scale) -> Findings:
    """The whole of GALEN, or a tenth."""
    findings = Findings()
    full = scale.name == "full"
    galen(findings, 1.0 if full else 0.1, 20, judged=full)
    page_rank(findings, *((20_000, 100_000) if full else (2_000, 10_000)))
    return findings
