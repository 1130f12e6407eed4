"""Case m: each TPC-H query as a view, loaded and then refreshed, beside Spark's recomputation from cached tables."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import altneu as an
from altneu import sql
from bench.inputs import FOLDER
from bench.measure import MIB, Steps, milliseconds
from bench.scale import Scale
from bench.tables import Aim, Findings, Table
from bench.tpch import data
from bench.tpch.compare import Query, rows_of
from bench.tpch.refresh import Changes, Refresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS, WARM, SHARE = 20, 2, 1000  # refresh steps, those before the clock runs, and one order in how many a step changes
CORES = 2
WANTED = 20.0


@dataclass
class Maintained:
    """What one session took: seconds of the load and of each step, and what it keeps."""

    load: float
    steps: Steps
    rows: int
    bytes: int
    changed: int
    answers: dict[int, pa.Table]


@dataclass
class Run:
    """The tables, the changes of each step, and the queries' texts."""

    tables: dict[str, pa.Table]
    steps: list[Changes]
    texts: dict[int, str]
    after: dict[str, pa.Table]

    @classmethod
    def at(cls, scale: float) -> Run:
        """Half of the orders that a step changes come, the other half go."""
        tables = data.generate(scale)
        refresh, half = Refresh(tables, seed=1), max(tables["orders"].num_rows // SHARE // 2, 1)
        steps = []
        for _ in range(WARM + STEPS):
            refresh.orders(half, half)
            steps.append(refresh.changes())
        return cls(tables, steps, data.texts(), refresh.now())

    def keep(self, numbers: Sequence[int]) -> Maintained:
        """Load the views of some queries in one session and refresh them."""
        with an.Session() as session:
            views = {n: session.maintain(f"q{n}", sql.query(self.texts[n], data.sources())) for n in numbers}
            started = time.perf_counter()
            for name in session.sources:
                session.insert(name, self.tables[name])
            session.advance()
            load, steps, changed = time.perf_counter() - started, Steps(), 0
            for i, changes in enumerate(self.steps):
                run = steps if i >= WARM else Steps()
                last = run.run(lambda changes=changes: _refresh(session, changes))  # type: ignore[misc]
                changed += sum(last.changes_out.values())
            size = sum(b.nbytes for state in session._engine.table.live.values() for b in state.spine.batches)
            answers = {n: view.to_arrow() for n, view in views.items()}
        return Maintained(load, steps, last.state_rows, size, changed, answers)


def _refresh(session: an.Session, changes: Changes) -> an.Step:
    for name in session.sources:
        if name in changes:
            session.insert(name, changes[name], diff="diff")
    return session.advance()


class Beside:
    """Spark with the tables in its memory."""

    def __init__(self, folder: Path, turns: int) -> None:
        self.folder, self.turns = folder, turns
        config = {"spark.sql.shuffle.partitions": CORES}
        self.spark: SparkSession = an.spark_session("altneu bench", f"local[{CORES}]", config=config)

    def show(self, name: str, tables: dict[str, pa.Table]) -> None:
        """Take the tables, cached, in place of those before."""
        self.spark.catalog.clearCache()
        for table, rows in tables.items():
            path = self.folder / f"{name}-{table}.parquet"
            pq.write_table(rows, path)
            frame = self.spark.read.parquet(str(path)).cache()
            frame.count()
            frame.createOrReplaceTempView(table)

    def seconds(self, text: str) -> float:
        """The median of some runs after a first one; all rows are made and none leaves Spark."""
        taken = []
        for _ in range(1 + self.turns):
            started = time.perf_counter()
            self.spark.sql(text).write.format("noop").mode("overwrite").save()
            taken.append(time.perf_counter() - started)
        return float(np.median(taken[1:]))

    def difference(self, text: str, view: pa.Table) -> str | None:
        """How Spark's answer differs."""
        query = Query.of(text)
        return query.difference(rows_of(view), rows_of(self.spark.sql(query.whole).toArrow()))


def measure(scale: Scale) -> Findings:
    """Every query for itself, then all in one session."""
    return compared(0.1 if scale.name == "full" else 0.01, data.QUERIES, scale.turns)


def compared(scale: float, numbers: Sequence[int], turns: int) -> Findings:
    """Some of the queries, at a scale factor."""
    run = Run.at(scale)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tpch-", dir=FOLDER) as folder:
        beside = Beside(Path(folder).absolute(), turns)
        beside.show("at-first", run.tables)
        run.keep([numbers[0]])  # kernels are loaded
        result, again = {}, {}
        for n in numbers:
            print(f"m. q{n}")
            result[n], again[n] = run.keep([n]), beside.seconds(run.texts[n])
        print("m. all in one session")
        together = run.keep(numbers)
        beside.show("at-last", run.after)
        differences = {n: beside.difference(run.texts[n], result[n].answers[n]) for n in numbers}
        differences |= {-n: beside.difference(run.texts[n], together.answers[n]) for n in numbers}
    findings = Findings()
    _tell(findings, run, scale, result, again, together)
    wrong = {n: problem for n, problem in differences.items() if problem is not None}
    same = "m: in the end every view is what Spark makes of the tables"
    findings.aims.append(Aim(same, f"{len(wrong)} differ" if wrong else "yes", 1 + len(wrong)))
    for n, problem in wrong.items():
        print(f"m. q{n} differs: {problem}")
    return findings


def _tell(
    findings: Findings,
    run: Run,
    scale: float,
    views: dict[int, Maintained],
    again: dict[int, float],
    together: Maintained,
) -> None:
    lines = sum(table.num_rows for step in run.steps[WARM:] for table in step.values()) / STEPS
    columns = [
        "query",
        "load, s",
        "step p50, ms",
        "max, ms",
        "Spark again, ms",
        "ratio",
        "updates kept",
        "MiB",
        "changes out",
    ]
    title = f"m. TPC-H at scale factor {scale}: a refresh of 0.1 % of the orders, {lines:,.0f} rows a step"
    table = Table(title, columns)
    ratios = {n: again[n] / np.median(view.steps.wall) for n, view in views.items()}
    for n, view in views.items():
        table.add(f"q{n}", *_figures(view), f"{again[n] * 1e3:,.0f}", f"{ratios[n]:,.0f}x", *_size(view))
    ratio = sum(again.values()) / float(np.median(together.steps.wall))
    in_all = f"{sum(again.values()) * 1e3:,.0f}"
    table.add("all in one session", *_figures(together), in_all, f"{ratio:,.0f}x", *_size(together))
    table.notes.append(
        f"{STEPS} steps; each inserts new orders and deletes as many old ones, with their lines. Local, in memory, one "
        "session for each query. Spark again: Spark's own query over tables that it has cached, the median of warm "
        "runs, with the result discarded. Load: from Arrow tables to the answer."
    )
    findings.tables.append(table)
    median, (least, where) = float(np.median(list(ratios.values()))), min((r, n) for n, r in ratios.items())
    findings.aims += [
        Aim(f"m: the median of the ratios is {WANTED:.0f}x", f"{median:,.0f}x", WANTED / median),
        Aim("m: no query slower than recomputing", f"{least:,.1f}x (q{where})", 1 / least),
    ]


def _figures(view: Maintained) -> list[str]:
    wall = view.steps.wall
    return [f"{view.load:.2f}", f"{milliseconds(wall, 50):.1f}", f"{milliseconds(wall, 100):.1f}"]


def _size(view: Maintained) -> list[str]:
    return [f"{view.rows:,}", f"{view.bytes / MIB:,.0f}", f"{view.changed / (WARM + STEPS):,.0f}"]
