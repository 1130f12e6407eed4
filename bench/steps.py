"""Case d: what a one-row step costs on states of growing size, in memory."""

from __future__ import annotations

import gc
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import altneu as an
from bench.inputs import Columns, generator, parquet
from bench.measure import Peak, Steps, memory, milliseconds
from bench.scale import Scale
from bench.streams import counting, joining
from bench.tables import Aim, Findings, Table
from bench.workloads import Row

PIECES = 7  # the state comes in steps that each double it, so that merges are on their way when one-row steps begin
WARM_STEPS = 300
STEP_LIMIT, GROWTH_LIMIT, SMALLER_SIDE = 1.0, 2.0, 10


@dataclass
class Measured:
    """Steps on one size of state."""

    size: int
    state_rows: int
    steps: Steps
    peak: Peak

    def row(self) -> list[str]:
        """As a line of the table."""
        wall, cpu = self.steps.wall, self.steps.cpu
        return [
            f"{self.size:,}",
            f"{self.state_rows:,}",
            *(f"{milliseconds(wall, p):.2f}" for p in (50, 99, 100)),
            *(f"{milliseconds(cpu, p):.2f}" for p in (99, 100)),
            str(self.peak),
        ]


def keys(rows: int) -> pa.Table:
    """Every key once, in random order."""

    def make(rng: np.random.Generator) -> Columns:
        return {"k": rng.permutation(rows), "v": rng.integers(100, 1000, rows)}

    return pq.read_table(parquet(f"keys-{rows}", make))


def fill(session: an.Session, source: str, table: pa.Table) -> None:
    """Insert a table in pieces, each as large as all before it."""
    start = 0
    for i in range(PIECES, -1, -1):
        stop = table.num_rows >> i
        session.insert(source, table.slice(start, stop - start))
        session.advance()
        start = stop


@dataclass
class Changes:
    """One-row changes: a new row, then a retraction of one of the rows that came so, and again."""

    size: int
    sources: tuple[str, ...]
    rng: np.random.Generator = field(default_factory=lambda: generator("steps"))
    there: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))

    def apply(self, session: an.Session, i: int) -> an.Step:
        """The i-th change, and an advance."""
        source = self.sources[(i // 2) % len(self.sources)]
        known = self.there[source]
        if i % 2 and len(known) > 1:
            at = int(self.rng.integers(len(known)))
            known[at], known[-1] = known[-1], known[at]
            session.retract(source, [known.pop()])
        else:
            known.append((int(self.rng.integers(self.size)), int(self.rng.integers(100, 1000))))
            session.insert(source, known[-1:])
        return session.advance()


def on_counts(size: int, count: int) -> Measured:
    """Filter and count by group, with as many groups as rows."""
    with an.Session() as session:
        session.maintain("view", counting())
        fill(session, "events", keys(size))
        return _measure(session, count, Changes(size, ("events",)))


def on_joins(size: int, count: int) -> Measured:
    """Filter and join with ``size`` rows of another source; one change in four is on that side."""
    with an.Session() as session:
        session.maintain("view", joining())
        table = keys(size)
        session.insert("events", table.slice(0, size // SMALLER_SIDE))
        fill(session, "dimension", table.rename_columns(["k", "w"]))
        return _measure(session, count, Changes(size, ("events", "events", "events", "dimension")))


def _measure(session: an.Session, count: int, changes: Changes) -> Measured:
    for i in range(WARM_STEPS):
        last = changes.apply(session, i)
    steps = Steps()
    with memory() as peak:
        for i in range(count):
            last = steps.run(lambda i=i: changes.apply(session, i))  # type: ignore[misc]
    return Measured(changes.size, last.state_rows, steps, peak)


def measure(scale: Scale) -> Findings:
    """Both plans on every size."""
    findings = Findings()
    plans = {
        "filter + count by group": on_counts,
        f"filter + join (the other side has a {SMALLER_SIDE}th of the rows)": on_joins,
    }
    for name, plan in plans.items():
        table = Table(
            f"d. a one-row step of {name}, in memory",
            ["rows", "updates kept", "p50 ms", "p99 ms", "max ms", "p99 CPU ms", "max CPU ms", "peak MiB"],
            notes=[f"{scale.steps:,} steps. CPU: the CPU time of this thread, which other processes do not affect."],
        )
        results = []
        for size in scale.states:
            print(f"d. {name}, {size:,} rows")
            results.append(plan(size, scale.steps))
            gc.collect()  # the state of this size must not be let go of while the next one steps
            table.rows.append(results[-1].row())
        p50 = [milliseconds(f.steps.wall, 50) for f in results]
        growth = p50[-1] / p50[0]
        first, last = (f"{s:,}" for s in (scale.states[0], scale.states[-1]))
        table.notes.append(f"p50 on {last} rows / p50 on {first} rows: {growth:.2f}")
        findings.tables.append(table)
        findings.aims += [
            Aim(
                f"d: a one-row step under {STEP_LIMIT:.0f} ms ({name}; p50, largest state)",
                f"{p50[-1]:.2f} ms",
                p50[-1] / STEP_LIMIT,
            ),
            Aim(
                f"d: no more than doubling from {first} to {last} rows ({name})",
                f"{growth:.2f}x",
                growth / GROWTH_LIMIT,
            ),
        ]
    return findings
