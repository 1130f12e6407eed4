"""Case e: linear logic. A chain of ten steps, seven-day windows, a long series."""

from __future__ import annotations

import gzip
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

import altneu as an
from altneu.executor.inputs import Stamp
from altneu.linear import BoundLogic
from altneu.linear.normal import normalise
from altneu.logic import Logic
from altneu.operators.linear import run_logic
from altneu.order import Antichain, Epoch
from altneu.rows import Rows
from altneu.update import Updates
from bench.inputs import generator
from bench.measure import Steps, Timed, in_turns, memory
from bench.scale import Scale
from bench.tables import Aim, Findings, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WEEK = 7 * 24 * 3600
FINE = 1000  # ticks in a second
UNFUSED_LIMIT, POLARS_LIMIT, ADVANCE_LIMIT = 3.0, 1.3, 50.0

CHAIN: Logic = (
    an.logic.filter("qty > 0")
    .select("*", total="price * qty")
    .filter("total < 100000")
    .select("*", hour="at div 3600")
    .filter("pmod(hour, 24) >= 6")
    .select("*", fee="total div 100")
    .filter("user <> 0")
    .select("user", "hour", "total", "fee", net="total - fee")
    .filter("net > 50")
    .select("user", "hour", "net")
)


def orders(rows: int) -> pa.Table:
    """Seeded orders, all whole numbers."""
    rng = generator(f"orders-{rows}")
    most = {"id": rows, "user": 100_000, "qty": 20, "price": 10_000, "at": 10**8}
    return pa.table({name: rng.integers(-2 if name == "qty" else 0, top, rows) for name, top in most.items()})


def by_polars(frame: pl.DataFrame) -> pl.DataFrame:
    """The chain as a person would write it for Polars, which sees no overflow."""
    c = pl.col
    return (
        frame.lazy()
        .filter(c("qty") > 0)
        .with_columns(total=c("price") * c("qty"))
        .filter(c("total") < 100_000)
        .with_columns(hour=c("at") // 3600)
        .filter(c("hour") % 24 >= 6)
        .with_columns(fee=c("total") // 100)
        .filter(c("user") != 0)
        .select("user", "hour", "total", "fee", net=c("total") - c("fee"))
        .filter(c("net") > 50)
        .select("user", "hour", "net")
        .collect()
    )


def by_spark(frame: DataFrame) -> None:
    """The chain as Spark's own DataFrame, its result discarded."""
    made = (
        frame.where("qty > 0")
        .selectExpr("*", "price * qty as total")
        .where("total < 100000")
        .selectExpr("*", "at div 3600 as hour")
        .where("pmod(hour, 24) >= 6")
        .selectExpr("*", "total div 100 as fee")
        .where("user <> 0")
        .selectExpr("user", "hour", "total", "fee", "total - fee as net")
        .where("net > 50")
        .select("user", "hour", "net")
    )
    made.write.format("noop").mode("overwrite").save()


def chain(scale: Scale, findings: Findings) -> None:
    """Ten steps over the same rows: as one logic, one by one, by Spark, by Polars."""
    table = orders(scale.group_rows)
    schema = pa.schema([(name, pa.int64()) for name in table.column_names])
    lattice = Epoch()
    stamp = Stamp("orders", schema, lattice, Antichain.of(lattice, 0), 0, 1)
    bound = CHAIN.bind(schema)
    fused = normalise(bound, schema)
    frame = pl.DataFrame(pl.from_arrow(table))
    updates = stamp.updates(table)

    def step_by_step() -> Updates:
        made = updates
        for step in bound.steps:
            made, _ = run_logic(BoundLogic((step,)), made)
        return made

    def polars_and_moving() -> Updates:
        stamp.updates(table)
        made = by_polars(frame).to_arrow()
        rows = Rows.from_batch(made)
        return Updates(rows, np.zeros((1, rows.count), np.int64), np.ones(rows.count, np.int64))

    with an.spark_session(app_name="altneu: bench") as spark:
        as_spark = spark.createDataFrame(table).cache()
        as_spark.count()
        contenders: dict[str, Callable[[], object]] = {
            "fused, rows in memory": lambda: run_logic(fused, updates),
            "fused, and moving rows in": lambda: run_logic(fused, stamp.updates(table)),
            "one by one": step_by_step,
            "Polars": lambda: by_polars(frame),
            "Polars, and moving rows in and out": polars_and_moving,
            "Spark, cached, discarded": lambda: by_spark(as_spark),
        }
        for run in contenders.values():
            run()
        found = in_turns(contenders, 5)
    shown = Table(f"e. ten linear steps over {table.num_rows:,} rows", ["contender", "seconds", "to fused"])
    whole = found["fused, and moving rows in"].median
    for name, seconds in found.items():
        shown.add(name, f"{seconds.median:.3f}", f"{seconds.median / found['fused, rows in memory'].median:.2f}x")
    findings.tables.append(shown)
    unfused = found["one by one"].median / found["fused, rows in memory"].median
    against = whole / found["Polars, and moving rows in and out"].median
    findings.aims += [
        Aim(
            f"e: fused at least {UNFUSED_LIMIT:.0f}x faster than one by one", f"{unfused:.1f}x", UNFUSED_LIMIT / unfused
        ),
        Aim(f"e: within {POLARS_LIMIT}x of Polars and moving rows", f"{against:.2f}x", against / POLARS_LIMIT),
    ]


def data_folder() -> Path:
    """Where other people's data are, if they are."""
    return Path(os.environ.get("ALTNEU_DATA", "../shared/data"))


def window(findings: Findings, most: int) -> None:
    """CollegeMsg in windows of seven days: all events in one advance, and one advance an event."""
    path = data_folder() / "temporal" / "collegemsg.txt.gz"
    if not path.exists():
        print(f"e. {path} is missing: no windows")
        return
    with gzip.open(path, "rt") as lines:
        events = [tuple(map(int, line.split())) for line in lines][:most]
    seconds = Counter[int]()
    rows = []
    for a, b, at in events:  # no two in one tick, so that each may have an advance of its own
        rows.append((a, b, (at - events[0][2]) * FINE + seconds[at]))
        seconds[at] += 1
    source = an.source("messages", "a long, b long, at long")
    plan = source.temporal("at", f"at + {WEEK * FINE}").group_by().agg(n="count(*)")
    end = rows[-1][2] + WEEK * FINE + 1
    whole, single = Timed(), Steps()
    changes: list[Counter[tuple[object, ...]]] = [Counter(), Counter()]
    for _ in range(3):
        changes[0].clear()
        with an.Session() as session:
            view = session.maintain("week", plan)
            session.insert("messages", rows, time="at")
            started = time.perf_counter()
            session.advance(to=end)
            whole.seconds.append(time.perf_counter() - started)
            _add(changes[0], view)
    with an.Session() as session:
        view = session.maintain("week", plan)
        for row in rows:

            def step(row: tuple[int, ...] = row) -> None:
                session.insert("messages", [row], time=row[2])
                session.advance(to=row[2] + 1)

            single.run(step)
            _add(changes[1], view)
        single.run(lambda: session.advance(to=end))
        _add(changes[1], view)
    same = {k: n for k, n in changes[0].items() if n} == {k: n for k, n in changes[1].items() if n}
    ratio = single.total / whole.median
    shown = Table(f"e. {len(rows):,} events in a window of seven days", ["", "seconds", "same net changes"])
    shown.add("one advance", f"{whole.median:.3f}", "")
    shown.add("one advance an event", f"{single.total:.3f}", "yes" if same else "**no**")
    findings.tables.append(shown)
    findings.aims.append(
        Aim(f"e: one advance at least {ADVANCE_LIMIT:.0f}x faster", f"{ratio:.0f}x", ADVANCE_LIMIT / ratio)
    )


def _add(changes: Counter[tuple[object, ...]], view: an.View) -> None:
    for row in view.changes().to_pylist():
        changes[tuple(v for k, v in row.items() if k != "diff")] += row["diff"]


def long_series(scale: Scale, findings: Findings) -> None:
    """A series that is filtered before any of it is kept, and one that is kept."""
    rows = 2 * scale.group_rows
    shown = Table(f"e. a series of {rows:,}", ["", "seconds", "peak MiB"])
    for name, logic in {
        "one in a thousand kept": an.logic.generate_series(1, rows, as_="i").filter("i % 1000 = 0").select("i"),
        "all of it": an.logic.generate_series(1, rows, as_="i").select("i"),
    }.items():
        schema = pa.schema([("x", pa.int64())])
        bound = normalise(logic.bind(schema), schema)
        one = Updates(Rows.from_pylist([(1,)], schema), np.zeros((1, 1), np.int64), np.ones(1, np.int64))
        with memory() as peak:
            started = time.perf_counter()
            made, _ = run_logic(bound, one)
            seconds = time.perf_counter() - started
        shown.add(f"{name}: {len(made):,} rows", f"{seconds:.3f}", peak)
        del made
    findings.tables.append(shown)


def measure(scale: Scale) -> Findings:
    """All of it."""
    findings = Findings()
    chain(scale, findings)
    window(findings, 59_835 if scale.name == "full" else 5_000)
    long_series(scale, findings)
    return findings
