"""Long histories in one step: reductions of many updates at many times, and two traps that others fell into."""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import altneu as an
from bench.apart import apart
from bench.inputs import generator
from bench.measure import MIB, Steps
from bench.scale import Scale
from bench.tables import Aim, Findings, Table

MILLION = 1_000_000
RATE_LIMIT, GROWTH_LIMIT, STEP_LIMIT = 1e6, 1.6, 100.0
SAMPLED = 300
GROUPS = (1, 1_000, 100_000)


def _updates(groups: int, rows: int) -> pa.Table:
    rng = generator(f"history {groups} {rows}")
    columns = rng.integers(groups, size=rows), rng.integers(1000, size=rows), np.arange(rows)
    return pa.table(dict(zip(("g", "v", "at"), columns, strict=True)))


def _counted() -> an.Collection:
    return an.source("values", "g long, v long").group_by("g").agg(n="count(*)", s="sum(v)")


def history(groups: int, rows: int) -> Any:
    """A history of as many times as updates, in one step, ready to run; how long its reduction took by itself."""
    table = _updates(groups, rows)
    with an.Session() as warm:
        warm.maintain("sums", _counted())
        warm.insert("values", table.slice(0, 1000), time="at")
        warm.advance(to=1000)
    session = an.Session()
    session.maintain("sums", _counted())

    def run() -> dict[str, float]:
        from altneu.operators.reduce.operation import ReduceOp

        spent, step = 0.0, ReduceOp.step

        def timed(*given: Any) -> Any:
            nonlocal spent
            started = time.perf_counter()
            result = step(*given)
            spent += time.perf_counter() - started
            return result

        session.insert("values", table, time="at")
        with patch.object(ReduceOp, "step", timed):
            started = time.perf_counter()
            session.advance(to=rows)
            whole = time.perf_counter() - started
        return {"whole": whole, "kernel": spent, "changes": session.view("sums").changes().num_rows}

    return run


def one_step_a_time(groups: int, rows: int) -> float:
    """Seconds for a step of one time, the median of a sample."""
    table, taken = _updates(groups, rows), Steps()
    with an.Session() as session:
        session.maintain("sums", _counted())
        for i in range(SAMPLED):
            session.insert("values", table.slice(i, 1).select(["g", "v"]), time=i)
            taken.run(lambda i=i: session.advance(to=i + 1))  # type: ignore[misc]
    return float(np.median(taken.wall))


def long_histories(findings: Findings, rows: int) -> None:
    """As many times as updates, in one group and in many."""
    shown = Table(
        f"h. count and sum over {rows:,} updates at as many times, in one step",
        ["groups", "the step, s", "its reduce, s", "updates/s", "cost at 10x", "one step per time", "added MiB"],
    )
    for groups in GROUPS:
        result, more = apart(history, groups, rows), apart(history, groups, 10 * rows)
        rate = rows / result.result["kernel"]
        growth = more.result["kernel"] / result.result["kernel"] / 10
        gain = one_step_a_time(groups, rows) * rows / result.result["whole"]
        shown.add(
            f"{groups:,}",
            f"{result.result['whole']:.2f}",
            f"{result.result['kernel']:.2f}",
            f"{rate / 1e6:.2f} M",
            f"{growth:.2f}x",
            f"{gain:,.0f}x slower",
            f"{result.added / MIB:,.0f}",
        )
        name = f"h: {groups:,} groups"
        findings.aims += [
            Aim(f"{name}: the reduce takes a million updates a second", f"{rate / 1e6:.2f} M/s", RATE_LIMIT / rate),
            Aim(f"{name}: an update costs no more than 1.6x at ten times as many", f"{growth:.2f}x", growth / 1.6),
            Aim(f"{name}: 100x faster than one step per time", f"{gain:,.0f}x", STEP_LIMIT / gain),
        ]
    findings.tables.append(shown)


# traps ----------------------------------------------------------------------------------------------------------------


def odds_and_evens(times: int) -> Any:
    """One counter that goes up at every time; its odd values joined with its even ones, which never meet."""
    values = an.source("counter", "k long, v long")
    odd, even = values.filter("v % 2 = 1"), values.filter("v % 2 = 0")
    session = an.Session()
    view = session.maintain("pairs", odd.join(even, on="k"))
    at = np.arange(times)
    columns = np.concatenate([at, at[:-1]]), np.concatenate([at, at[1:]])
    diffs = np.concatenate([np.ones(times, np.int64), -np.ones(times - 1, np.int64)])
    zeros = np.zeros(2 * times - 1, np.int64)
    table = pa.table({"k": zeros, "v": columns[0], "at": columns[1], "n": diffs})

    def run() -> dict[str, float]:
        session.insert("counter", table, time="at", diff="n")
        started = time.perf_counter()
        session.advance(to=times)
        return {"seconds": time.perf_counter() - started, "pairs": view.changes().num_rows}

    return run


def counted_at_many_times(times: int) -> Any:
    """A count that changes at every time."""
    session = an.Session()
    view = session.maintain("n", an.source("events", "v long").group_by().agg(n="count(*)"))
    table = pa.table({"v": np.zeros(times, np.int64), "at": np.arange(times)})

    def run() -> dict[str, float]:
        session.insert("events", table, time="at")
        started = time.perf_counter()
        session.advance(to=times)
        return {"seconds": time.perf_counter() - started, "changes": view.changes().num_rows}

    return run


def traps(findings: Findings, times: int) -> None:
    """What is quadratic when every pair of updates, or every time, is looked at."""
    joined, counted = apart(odds_and_evens, times), apart(counted_at_many_times, times // 10)
    shown = Table("h. two traps", ["", "times", "seconds", "found", "added MiB"])
    result = joined.result["pairs"]
    shown.add(
        "odd values of a counter joined with even ones",
        f"{times:,}",
        f"{joined.result['seconds']:.2f}",
        f"{result:,} pairs",
        f"{joined.added / MIB:,.0f}",
    )
    shown.add(
        "a count that changes at every time",
        f"{times // 10:,}",
        f"{counted.result['seconds']:.2f}",
        f"{counted.result['changes']:,} changes",
        f"{counted.added / MIB:,.0f}",
    )
    findings.tables.append(shown)
    findings.aims.append(Aim("h: odds and evens never meet", f"{result} pairs", 1.0 if result == 0 else 2.0))


# two times ------------------------------------------------------------------------------------------------------------


def at_two_times(shape: str, rows: int) -> Any:
    """One group of which every update has a system and an event time of its own, counted and summed in one step."""
    values = an.source("values", "g long, v long", time=("system", "event"))
    sums = values.group_by("g").agg(n="count(*)", s="sum(v)")
    with an.Session() as warm:
        warm.maintain("sums", sums)
        for _ in range(2):
            warm.insert("values", [(0, 1), (0, 2)], time=3 - warm.lower)
            warm.advance()
    session = an.Session()
    view = session.maintain("sums", sums)
    at = np.arange(rows)
    axis = np.where(at % 2 == 0, at // 2, 0), np.where(at % 2 == 1, at // 2, 0)
    system, event = {"diagonal": (at, at), "one epoch": (0 * at, at), "grid": axis}[shape]
    table = pa.table({"g": 0 * at, "v": at % 1000, "s": system, "e": event})

    def run() -> dict[str, float]:
        session.insert("values", table, time=("s", "e"))
        started = time.perf_counter()
        session.advance(to=rows)
        return {"seconds": time.perf_counter() - started, "changes": view.changes().num_rows}

    return run


def two_times(findings: Findings, rows: int) -> None:
    """Chains of times, at ten times as many; a grid, of which each pair of coordinates is a time that matters."""
    shown = Table(
        "h. count and sum of one group over two times, in one step",
        ["updates at", "updates", "seconds", "relative to a tenth of the updates", "changes", "added MiB"],
    )
    side = round(rows**0.5)
    for shape, many, fewer in (("diagonal", rows, rows // 10), ("one epoch", rows, rows // 10), ("grid", 2 * side, 0)):
        result = apart(at_two_times, shape, many)
        seconds = result.result["seconds"]
        growth = seconds / apart(at_two_times, shape, fewer).result["seconds"] if fewer else 0.0
        shown.add(
            {"diagonal": "(i, i)", "one epoch": "(0, i)", "grid": "(i, 0) and (0, i)"}[shape],
            f"{many:,}",
            f"{seconds:.2f}",
            f"{growth:.1f}x" if fewer else "",
            f"{result.result['changes']:,}",
            f"{result.added / MIB:,.0f}",
        )
        if fewer:
            text = f"h: two times, {shape}: ten times as many updates cost no more than 16x"
            findings.aims.append(Aim(text, f"{growth:.1f}x", growth / 16))
    findings.tables.append(shown)


def measure(scale: Scale) -> Findings:
    """All of it."""
    findings, full = Findings(), scale.name == "full"
    rows = MILLION if full else MILLION // 10
    long_histories(findings, rows)
    traps(findings, rows)
    two_times(findings, MILLION // 10)
    return findings
