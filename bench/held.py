"""What is held until its time comes: expirations after a long pause, a million times in one advance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import altneu as an
from altneu.operators.base import Region, StepMode
from altneu.plan.physical import Plan
from altneu.runtime import step_limit
from altneu.runtime.inputs import Inputs
from altneu.runtime.local import LocalExecutor
from altneu.runtime.outcome import Outcome
from altneu.runtime.state import StateTable
from bench.apart import apart
from bench.inputs import generator
from bench.measure import MIB
from bench.scale import Scale
from bench.tables import Findings, Table

TIMES = 50_000  # at which rows expire
GROUPS = 1_000
WARM = 20_000  # rows of a first run, in which kernels are loaded
WHOLE = 1 << 62


class Counting(LocalExecutor):
    """Runs steps as ever, and counts them."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self, plan: Plan, table: StateTable, inputs: Inputs, region: Region, mode: StepMode) -> Outcome:
        """Run a step."""
        self.steps += 1
        return super().step(plan, table, inputs, region, mode)


def expirations(rows: int, cut: bool) -> Callable[[], Any]:
    """A session in which ``rows`` rows are there and their expirations held; to run is to advance beyond them all."""
    if rows > WARM:
        expirations(WARM, True)()
    if not cut:
        step_limit.STEP_ROWS = WHOLE
    rng = generator("expirations")
    source = an.source("events", "k long, v long, until long")
    plan = source.filter("logical_now() < until").group_by("k").agg(n="count(*)", s="sum(v)")
    session = an.Session()
    view = session.maintain("counts", plan)
    given = {"k": rng.integers(GROUPS, size=rows), "v": rng.integers(100, size=rows)}
    session.insert("events", pa.table({**given, "until": 10 + rng.integers(TIMES, size=rows)}))
    del given
    session.advance(to=1)

    def run() -> dict[str, int]:
        session._engine.executor = executor = Counting()
        done = session.advance(to=10 * TIMES)
        return {"left": len(view.to_pylist()), "steps": executor.steps, "out": done.changes_out["counts"]}

    return run


def long_pause(findings: Findings, rows: int) -> None:
    """The peak of memory of one advance over many expirations, cut into steps and whole."""
    shown = Table(
        f"e. {rows:,} expirations at {TIMES:,} times, all due after a long pause",
        ["", "steps", "seconds", "resident before, MiB", "peak, added MiB", "updates out"],
    )
    for name, cut in {f"cut into steps of {step_limit.STEP_ROWS:,}": True, "one step": False}.items():
        result = apart(expirations, rows, cut)
        if result.result["left"]:
            raise AssertionError("rows are left that have expired")
        shown.add(
            name,
            result.result["steps"],
            f"{result.seconds:.2f}",
            f"{result.before / MIB:,.0f}",
            f"{result.added / MIB:,.0f}",
            f"{result.result['out']:,}",
        )
    findings.tables.append(shown)


def distinct_times(rows: int, times: int, window: int) -> Callable[[], Any]:
    """A session that is given ``rows`` rows, at so many times; to run is one advance over all of them."""
    if rows > WARM:
        distinct_times(WARM, min(times, WARM), window)()
    rng = generator("distinct times")
    source = an.source("events", "k long, v long, at long")
    shown = source.temporal("at", f"at + {window}") if window else source
    session = an.Session()
    view = session.maintain("counts", shown.group_by("k").agg(n="count(*)", s="sum(v)"))
    at = rng.permutation(np.arange(rows) % times)
    session.insert(
        "events",
        pa.table({"k": rng.integers(GROUPS, size=rows), "v": rng.integers(100, size=rows), "at": at}),
        time="at",
    )

    def run() -> dict[str, int]:
        session._engine.executor = executor = Counting()
        done = session.advance(to=times + window + 1)
        return {"out": done.changes_out["counts"], "groups": len(view.to_pylist()), "steps": executor.steps}

    return run


def many_times(findings: Findings, rows: int) -> None:
    """What distinct times cost: as many rows at few times and at many, in one advance."""
    shown = Table(
        f"e. one advance over {rows:,} rows at few times and at many",
        ["", "distinct times", "steps", "seconds", "updates out", "added MiB"],
    )
    for window in (0, 1_000):
        for times in (1, 1_000, rows):
            result = apart(distinct_times, rows, times, window)
            shown.add(
                f"count and sum by {GROUPS:,} groups" + (f", in a window of {window:,}" if window else ""),
                f"{times:,}",
                result.result["steps"],
                f"{result.seconds:.2f}",
                f"{result.result['out']:,}",
                f"{result.added / MIB:,.0f}",
            )
    shown.notes.append("Each change of a group produces two updates: the old row is removed and the new one added.")
    findings.tables.append(shown)


def measure(scale: Scale, findings: Findings) -> None:
    """All of it."""
    long_pause(findings, scale.group_rows)
    many_times(findings, scale.group_rows // 5)
