"""Case e: linear logic. A chain of ten steps, a long series; windows and what is held are in modules of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

import altneu as an
from altneu.collections.logic import Logic
from altneu.columnar.rows import Rows
from altneu.linear import BoundLogic
from altneu.linear.normal import normalise
from altneu.operators.linear.logic import run_logic
from altneu.order import Antichain, Epoch
from altneu.runtime.inputs import Stamp
from altneu.trace.update import Updates
from bench import held, windows
from bench.apart import apart
from bench.inputs import generator
from bench.measure import MIB, interleaved
from bench.scale import Scale
from bench.tables import Aim, Findings, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

UNFUSED_LIMIT, POLARS_LIMIT = 3.0, 1.3
TURNS = 60
FUSED, SPARK = "fused, rows in memory", "Spark, cached, discarded"

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


def by_polars(frame: pl.DataFrame, *also: str) -> pl.DataFrame:
    """The chain as a person would write it for Polars, which sees no overflow; ``also`` are columns to take along."""
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
        .select(*also, "user", "hour", "total", "fee", net=c("total") - c("fee"))
        .filter(c("net") > 50)
        .select("user", "hour", "net", *also)
        .collect()
    )


def by_spark(frame: DataFrame) -> None:
    """The chain as Spark's own DataFrame, its result discarded."""
    result = (
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
    result.write.format("noop").mode("overwrite").save()


def chain(scale: Scale, findings: Findings) -> None:
    """Ten steps over the same rows: as one logic, one by one, by Spark, by Polars."""
    table = orders(scale.group_rows)
    contenders = _contenders(table)
    result = interleaved(contenders, TURNS)  # before there is a Java process that may do something of its own
    with an.spark_session(app_name="altneu: bench") as spark:
        as_spark = spark.createDataFrame(table).cache()
        as_spark.count()
        by_spark(as_spark)
        beside = interleaved({SPARK: lambda: by_spark(as_spark), FUSED: contenders[FUSED]}, TURNS // 4)
    best = {name: timed.least for name, timed in result.items()}
    shown = Table(f"e. ten linear steps over {table.num_rows:,} rows", ["", "seconds", "/ fused", "median", "CPU s"])
    for name, timed in (*result.items(), (SPARK, beside[SPARK])):
        cpu = "" if name == SPARK else f"{min(timed.cpu):.3f}"
        ratio = f"{timed.least / best[FUSED]:.2f}x"
        shown.add(name, f"{timed.least:.3f}", ratio, f"{timed.median:.3f}", cpu)
    shown.notes.append(
        f"The fastest of {TURNS} runs, taken in turns ({TURNS // 4} with Spark, afterwards); all use both cores. CPU: "
        "the least CPU time of this process in a run, on both cores together."
    )
    findings.tables.append(shown)
    unfused = best["one by one"] / best[FUSED]
    moved, by_hand = result["fused, and moving rows in"], result["Polars, and moving rows in and out"]
    against, computed = moved.least / by_hand.least, min(moved.cpu) / min(by_hand.cpu)
    spark_too = beside[SPARK].least / beside[FUSED].least
    findings.aims += [
        Aim(f"e: fused {UNFUSED_LIMIT:.0f}x faster than one by one", f"{unfused:.1f}x", UNFUSED_LIMIT / unfused),
        Aim(
            f"e: within {POLARS_LIMIT}x of Polars and moving rows, on the clock and in CPU time",
            f"{against:.2f}x, CPU {computed:.2f}x",
            max(against, computed) / POLARS_LIMIT,
        ),
        Aim("e: faster than Spark's own chain", f"{spark_too:.1f}x", 1 / spark_too),
    ]


def _contenders(table: pa.Table) -> dict[str, Callable[[], object]]:
    schema = pa.schema([(name, pa.int64()) for name in table.column_names])
    lattice = Epoch()
    stamp = Stamp("orders", schema, lattice, Antichain.of(lattice, 0), 0, 1)
    bound = CHAIN.bind(schema)
    fused = normalise(bound, schema)
    frame = pl.DataFrame(pl.from_arrow(table))
    updates = stamp.updates(table)

    def step_by_step() -> Updates:
        result = updates
        for step in bound.steps:
            result, _ = run_logic(BoundLogic((step,)), result)
        return result

    def polars_and_moving() -> Updates:
        stamp.updates(table)
        rows = Rows.from_batch(by_polars(pl.DataFrame(pl.from_arrow(table))).to_arrow())
        return Updates(rows, np.zeros((1, rows.count), np.int64), np.ones(rows.count, np.int64))

    def polars_carrying() -> Updates:
        given = stamp.updates(table)
        carried = table.append_column("#time", pa.array(given.times[0])).append_column("#diff", pa.array(given.diffs))
        rows = Rows.from_batch(by_polars(pl.DataFrame(pl.from_arrow(carried)), "#time", "#diff").to_arrow())
        times, diffs = (np.asarray(rows.column(name)) for name in ("#time", "#diff"))
        return Updates(rows.select(["user", "hour", "net"]), times.reshape(1, -1), diffs)

    _require_same(run_logic(fused, updates)[0], step_by_step(), polars_and_moving(), polars_carrying())
    return {
        FUSED: lambda: run_logic(fused, updates),
        "fused, and moving rows in": lambda: run_logic(fused, stamp.updates(table)),
        "one by one": step_by_step,
        "Polars": lambda: by_polars(frame),
        "Polars, and moving rows in and out": polars_and_moving,
        "the same, the times and diffs of the rows with them": polars_carrying,
    }


def _require_same(first: Updates, *others: Updates) -> None:
    for other in others:
        same = all(a.equals(b) for a, b in zip(first.rows.columns, other.rows.columns, strict=True))
        if not (same and (first.times == other.times).all() and (first.diffs == other.diffs).all()):
            raise AssertionError("the contenders do not make the same updates")


SERIES = {
    "one in a thousand kept": an.logic.generate_series("1", "x", as_="i").filter("i % 1000 = 0").select("i"),
    "all of it": an.logic.generate_series("1", "x", as_="i").select("i"),
}


def series(name: str, rows: int) -> Callable[[], int]:
    """A series made by logic alone; gives the number of rows that come out, and is run in a process of its own."""
    schema = pa.schema([("x", pa.int64())])
    bound = normalise(SERIES[name].bind(schema), schema)

    def run(last: int = rows) -> int:
        one = Updates(Rows.from_pylist([(last,)], schema), np.zeros((1, 1), np.int64), np.ones(1, np.int64))
        result, _ = run_logic(bound, one)
        return len(result)

    run(1000)
    return run


def series_view(name: str, rows: int) -> Callable[[], int]:
    """A session with a view of a series, ready to advance; gives the number of rows that the view has."""
    numbers = an.source("numbers", "x long")
    plan = numbers.generate_series("1", "x", as_="i").filter("i % 1000 = 0").select("i")
    if name == "counted":
        plan = numbers.generate_series("1", "x", as_="i").group_by().agg(n="count(*)")
    session = an.Session()
    view = session.maintain("series", plan)
    session.insert("numbers", [(5000,)])
    session.advance()
    session.retract("numbers", [(5000,)])
    session.insert("numbers", [(rows,)])

    def run() -> int:
        session.advance()
        return view.to_arrow().num_rows

    return run


def long_series(scale: Scale, findings: Findings) -> None:
    """A series that is filtered before any of it is kept, and one that is kept."""
    rows = 2 * scale.group_rows
    shown = Table(f"e. a series of {rows:,}", ["", "rows out", "MiB out", "seconds", "peak, added MiB"])
    for title, prepare, name in (
        ("logic: one in a thousand kept", series, "one in a thousand kept"),
        ("logic: all of it", series, "all of it"),
        ("a session's view of one in a thousand", series_view, "kept"),
        ("a session's count of all of it", series_view, "counted"),
    ):
        result = apart(prepare, name, rows)
        size, seconds = f"{result.result * 24 / MIB:,.1f}", f"{result.seconds:.3f}"
        shown.add(title, f"{result.result:,}", size, seconds, f"{result.added / MIB:,.0f}")
    shown.notes.append(
        f"The output has a value, a time and a diff for each row. All values together have {rows * 8 / MIB:,.0f} MiB."
    )
    findings.tables.append(shown)


def measure(scale: Scale) -> Findings:
    """All of it."""
    findings = Findings()
    chain(scale, findings)
    long_series(scale, findings)
    windows.measure(scale, findings)
    held.measure(scale, findings)
    return findings
