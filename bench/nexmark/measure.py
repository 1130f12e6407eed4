"""Case n: Nexmark's queries as views, each fed with the same stream of events."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

import altneu as an
from altneu import sql
from bench.measure import MIB, memory
from bench.nexmark import events
from bench.scale import Scale
from bench.tables import Findings, Table

BATCH, RATE = 10_000, 10_000  # events a step, and a second of event time


@dataclass
class Maintained:
    """What a view of the whole stream took, and what is there in the end."""

    seconds: list[float]
    rows: int
    changed: int
    added: int


def stream(count: int) -> list[dict[str, pa.Table]]:
    """The events of each step; the table that q13 reads comes with the first."""
    results = [events.events(first, BATCH, RATE) for first in range(0, count, BATCH)]
    results[0]["side_input"] = events.side_input()
    return results


def keep(name: str, steps: Sequence[dict[str, pa.Table]]) -> Maintained:
    """Feed a view with the stream."""
    with memory() as peak, an.Session() as session:
        session.maintain(name, sql.query(events.query(name), events.sources()))
        seconds, changed = [], 0
        for step in steps:
            started = time.perf_counter()
            for source in session.sources:
                if source in step:
                    session.insert(source, step[source])
            last = session.advance()
            seconds.append(time.perf_counter() - started)
            changed += last.changes_out[name]
    return Maintained(seconds, last.state_rows, changed, peak.added)


def measure(scale: Scale) -> Findings:
    """Every query by itself."""
    return fed(1_000_000 if scale.name == "full" else 100_000, events.QUERIES)


def fed(count: int, names: Sequence[str]) -> Findings:
    """Some of the queries, with so many events."""
    steps = stream(count)
    columns = ["query", "events/s", "step p50, ms", "last tenth, events/s", "updates kept", "added MiB", "changes out"]
    table = Table(f"n. Nexmark: {count:,} events in steps of {BATCH:,}", columns)
    for name in names:
        print(f"n. {name}")
        keep(name, steps[:2])  # kernels are loaded
        result = keep(name, steps)
        tenth = result.seconds[-max(len(steps) // 10, 1) :]
        table.add(
            name,
            f"{count / sum(result.seconds):,.0f}",
            f"{np.median(result.seconds) * 1e3:.0f}",
            f"{BATCH * len(tenth) / sum(tenth):,.0f}",
            f"{result.rows:,}",
            f"{result.added / MIB:,.0f}",
            f"{result.changed:,}",
        )
    table.notes.append(
        "Local, in memory, one session for each query. Events are Arrow tables; their number includes all three "
        f"streams, even if a query reads only one. {RATE:,} events are a second of event time. No state is discarded: "
        "these queries have no watermarks, and even windows that ended long ago stay correct."
    )
    return Findings([table])
