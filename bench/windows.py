"""Windows: real events in one advance or in one each; a windowed join with and without pushed bounds."""

from __future__ import annotations

import gzip
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import altneu as an
from altneu.plan import rewrite
from altneu.plan.rewrite.push_bounds import push_bounds
from altneu.plan.rewrite.push_filters import push_filters
from bench.apart import apart
from bench.inputs import generator
from bench.measure import MIB, Steps, Timed, milliseconds
from bench.scale import Scale
from bench.tables import Aim, Findings, Table

WEEK = 7 * 24 * 3600
FINE = 1000  # ticks in a second
EVENTS = 59_835
ADVANCE_LIMIT = 50.0
Changes = Counter[tuple[object, ...]]


def data_folder() -> Path:
    """Where other people's data are, if they are."""
    return Path(os.environ.get("ALTNEU_DATA", "../shared/data"))


def messages(most: int) -> list[tuple[int, int, int]] | None:
    """CollegeMsg: who wrote to whom and when, no two in one tick, so that each may have an advance of its own."""
    path = data_folder() / "temporal" / "collegemsg.txt.gz"
    if not path.exists():
        return None
    with gzip.open(path, "rt") as lines:
        events = [tuple(map(int, line.split())) for line in lines][:most]
    seconds = Counter[int]()
    rows = []
    for a, b, at in events:
        rows.append((a, b, (at - events[0][2]) * FINE + seconds[at]))
        seconds[at] += 1
    return rows


def window(findings: Findings, most: int) -> None:
    """CollegeMsg in windows of seven days: all events in one advance, and one advance per event."""
    rows = messages(most)
    if rows is None:
        findings.tables.append(Table("e. CollegeMsg is missing, so there are no windows", [""]))
        return
    source = an.source("messages", "a long, b long, at long")
    plan = source.temporal("at", f"at + {WEEK * FINE}").group_by().agg(n="count(*)")
    end = rows[-1][2] + WEEK * FINE + 1
    whole, single = Timed(), Steps()
    at_once: Changes = Counter()
    for _ in range(5):
        with an.Session() as session:
            view = session.maintain("week", plan)
            started = time.perf_counter()
            session.insert("messages", rows, time="at")
            session.advance(to=end)
            whole.seconds.append(time.perf_counter() - started)
            at_once = _read_changes(view)
    one_by_one: Changes = Counter()
    with an.Session() as session:
        view = session.maintain("week", plan)
        for row in rows:

            def step(row: tuple[int, ...] = row) -> None:
                session.insert("messages", [row], time=row[2])
                session.advance(to=row[2] + 1)

            single.run(step)
            one_by_one.update(_read_changes(view))
        single.run(lambda: session.advance(to=end))
        one_by_one.update(_read_changes(view))
    same = _net(at_once) == _net(one_by_one)
    ratio = single.total / whole.least
    shown = Table(f"e. {len(rows):,} events in a window of seven days", ["", "seconds", "ms per step", "updates out"])
    shown.add("one advance", f"{whole.least:.3f}", f"{whole.least * 1e3:.0f}", f"{len(_net(at_once)):,}")
    each = f"{milliseconds(single.wall, 50):.2f} (median)"
    shown.add("one advance per event", f"{single.total:.3f}", each, f"{len(_net(one_by_one)):,}")
    shown.notes.append(
        f"The time includes inserting. The updates and their times are the same: {'yes' if same else '**no**'}."
    )
    findings.tables.append(shown)
    findings.aims += [
        Aim(f"e: one advance {ADVANCE_LIMIT:.0f}x faster than one per event", f"{ratio:.0f}x", ADVANCE_LIMIT / ratio),
        Aim("e: the same updates in one advance as in one per event", "yes" if same else "no", 1.0 if same else 2.0),
    ]


def _read_changes(view: an.View) -> Changes:
    changes: Changes = Counter()
    for row in view.changes().to_pylist():
        changes[tuple(v for k, v in row.items() if k != "diff")] += row["diff"]
    return changes


def _net(changes: Changes) -> dict[tuple[object, ...], int]:
    return {row: n for row, n in changes.items() if n}


# a windowed join ------------------------------------------------------------------------------------------------------

TICKS, ROWS, USERS, LENGTH = 10, 200, 2_000, 200  # of a step; rows of each side; whom both know; of the window


def joined_stream(pushed: bool, steps: int) -> Any:
    """A stream through a windowed join, ready to run; what it tells is in its result."""
    rules = rewrite.RULES
    if not pushed:
        rewrite.RULES = tuple(rule for rule in rules if rule not in (push_bounds, push_filters))
    clicks = an.source("clicks", "user long, page long, at long")
    orders = an.source("orders", "user long, amount long, placed long")
    within = " and ".join(f"logical_now() >= {c} and logical_now() < {c} + {LENGTH}" for c in ("at", "placed"))
    plan = clicks.join(orders, on="user").filter(within).group_by("page").agg(n="count(*)", s="sum(amount)")
    session = an.Session()
    view = session.maintain("pages", plan)
    rewrite.RULES = rules
    rng = generator("windowed join")

    def part(now: int, names: tuple[str, str, str]) -> pa.Table:
        columns = rng.integers(USERS, size=ROWS), rng.integers(100, size=ROWS), now + rng.integers(TICKS, size=ROWS)
        return pa.table(dict(zip(names, columns, strict=True)))

    def run() -> dict[str, float]:
        taken = Steps()
        for step in range(steps):
            now = step * TICKS
            session.insert("clicks", part(now, ("user", "page", "at")))
            session.insert("orders", part(now, ("user", "amount", "placed")))
            taken.run(lambda now=now: session.advance(to=now + TICKS))  # type: ignore[misc]
        columns = {name: layout.schema.names for name, layout in session._engine.table.layouts.items()}
        joined = [name for name in columns if "at" in columns[name] or "placed" in columns[name]]
        tenth = steps // 10
        return {
            "joined": sum(map(session._engine.table.rows, joined)),
            "all": sum(map(session._engine.table.rows, columns)),
            "seconds": taken.total,
            "first": float(np.median(taken.wall[tenth : 2 * tenth])),
            "last": float(np.median(taken.wall[-tenth:])),
            "answer": sum(n * (page + 1) + 7 * s for page, n, s in view.to_pylist()),
        }

    return run


def windowed_join(findings: Findings, steps: int) -> None:
    """State and time of a windowed join, with the optimiser's rules for bounds and filters and without."""
    rows = 2 * steps * ROWS
    shown = Table(
        f"e. a windowed join of a stream of {rows:,} rows in {steps:,} steps, a window of {LENGTH // TICKS} of them",
        ["", "updates kept for the join", "in all", "seconds", "an early step, ms", "a late step, ms", "added MiB"],
    )
    matches = {}
    for name, pushed in {"bounds pushed below the join": True, "bounds where they were written": False}.items():
        result = apart(joined_stream, pushed, steps)
        matches[pushed] = result.result
        answer = result.result
        shown.add(
            name,
            f"{answer['joined']:,}",
            f"{answer['all']:,}",
            f"{answer['seconds']:.2f}",
            f"{answer['first'] * 1e3:.2f}",
            f"{answer['last'] * 1e3:.2f}",
            f"{result.added / MIB:,.0f}",
        )
    same = matches[True]["answer"] == matches[False]["answer"]
    needed = 2 * 2 * ROWS * LENGTH // TICKS
    shown.notes.append(
        f"Each step has {ROWS} rows on each side, of {USERS:,} users. The window has {needed // 2:,} rows, and each is "
        f"held a second time, as its future retraction: {needed:,}. Steps: medians of the second and of the last tenth."
    )
    shown.notes.append(f"The contents at the end are the same: {'yes' if same else '**no**'}.")
    findings.tables.append(shown)
    less = matches[False]["joined"] / matches[True]["joined"]
    findings.aims.append(Aim("e: bounds below a join free its state", f"{less:.0f}x less", 2 / less if same else 2.0))


def measure(scale: Scale, findings: Findings) -> None:
    """All of it."""
    full = scale.name == "full"
    window(findings, EVENTS if full else 5_000)
    windowed_join(findings, 2_000 if full else 300)
