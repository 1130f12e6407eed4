"""What code for a level of processors costs: ``python -m bench.levels [rounds]``.

The same work with kernels compiled for any x86-64 processor, for the level of a wheel's kernels (altneu.compiled.LEVEL)
and for the processor that is here, in turns, each in a process of its own. Processor seconds are compared, of which the
least of all rounds counts; the first run of a process, which compiles, does not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import altneu as an
from altneu import algorithms
from altneu.compiled import LEVEL

LEVELS = {"any x86-64": "generic", LEVEL: LEVEL, "this processor": ""}
ROWS, NODES, ROUNDS = 1_000_000, 20_000, 5


def _table(rows: int, keys: int) -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({"k": rng.integers(0, keys, rows), "v": rng.integers(0, 1000, rows), "n": np.arange(rows)})


def _of(collection: an.Collection, table: pa.Table, changes: int = 0) -> Callable[[], None]:
    """All rows in one step, then changes of one row."""

    def run() -> None:
        with an.Session() as session:
            session.maintain("view", collection)
            session.insert("rows", table)
            session.advance()
            for i in range(changes):
                session.insert("rows", table.slice(i, 1))
                session.advance()

    return run


def works() -> dict[str, Callable[[], None]]:
    """What is measured, by what it is."""
    rows, other = an.source("rows", "k long, v long, n long"), an.source("edges", "src long, dst long")
    table = _table(ROWS, 10_000)
    rng = np.random.default_rng(2)
    edges = pa.table({"src": rng.integers(0, NODES, 5 * NODES), "dst": rng.integers(0, NODES, 5 * NODES)})

    def distances() -> None:
        with an.Session() as session:
            roots = an.source("roots", "node long")
            session.maintain("view", algorithms.bfs(other, roots))
            session.insert("roots", [(0,)])
            session.insert("edges", edges)
            session.advance()

    text = table.set_column(1, "v", pc.cast(table["v"], pa.string()))
    words = an.source("rows", "k long, v string, n long")
    return {
        "1,000,000 rows: count, sum, minimum of 10,000 groups": _of(
            rows.group_by("k").agg(n="count(*)", total="sum(v)", least="min(v)"), table
        ),
        "1,000,000 rows joined with themselves": _of(rows.join(rows, on="n").select("k", w="right.v"), table),
        "1,000,000 rows: expressions, text, distinct": _of(
            words.filter("k % 7 > 1").select("k", t="upper(v) || '-' || v").distinct(), text
        ),
        "1,000,000 rows: the three best of each group": _of(rows.top_k(3, "v desc, n", per="k"), table),
        "distances on 20,000 nodes and 100,000 edges": distances,
        "1,000 steps of one row": _of(
            rows.group_by("k").agg(n="count(*)", total="sum(v)"), table.slice(0, 100_000), changes=1_000
        ),
    }


def measured() -> dict[str, float]:
    """Processor seconds of each work, in this process."""
    seconds = {}
    for name, run in works().items():
        run()
        began = time.process_time()
        run()
        seconds[name] = time.process_time() - began
    return seconds


def main(rounds: int) -> None:
    """Measure in turns; a table of seconds and of ratios to the level of a wheel."""
    least: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as kernels:
        for _ in range(rounds):
            for level, name in LEVELS.items():
                settings = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": ""} if name else {}
                place = {"NUMBA_CACHE_DIR": str(Path(kernels) / level.replace(" ", "-"))}
                kept = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
                command = [sys.executable, "-m", "bench.levels", "--here"]
                done = subprocess.run(command, env=kept | settings | place, capture_output=True, text=True, check=True)
                for work, seconds in json.loads(done.stdout).items():
                    least[work, level] = min(seconds, least.get((work, level), seconds))
    lines = [f"| | {' | '.join(LEVELS)} |", f"|---|{'---|' * len(LEVELS)}"]
    for work in works():
        of = least[work, LEVEL]
        cells = [f"{least[work, level]:.2f} s ({least[work, level] / of:.2f})" for level in LEVELS]
        lines.append(f"| {work} | {' | '.join(cells)} |")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--here"]:
        sys.stdout.write(json.dumps(measured()))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
