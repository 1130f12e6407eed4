"""The same views in Spark SQL, recomputed from scratch, and the comparison with what altneu kept."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
import pyarrow as pa

from examples.flights import data
from examples.flights.pipeline import ENOUGH_FLIGHTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RELATIVE = 1e-9
"""How far apart two doubles may be, relatively: Spark sums in any order, altneu exactly.

Only terms of one sign are summed as doubles, so what Spark's rounding costs is relative to the sum itself.
"""


def query(view: str, now: int, enough: int = ENOUGH_FLIGHTS) -> str:
    """One view of ``pipeline.views(enough)`` in Spark SQL, over the flights as they stand at the tick ``now``."""
    return {
        "board": "SELECT day, origin, state, count(*) AS flights FROM flights GROUP BY day, origin, state",
        "delays": """
            SELECT carrier, hour, count(*) AS flights, avg(dep_delay) AS mean,
                sum(greatest(dep_delay, 0) / 60) AS hours, max(dep_delay) AS worst
            FROM flights WHERE dep_delay IS NOT NULL GROUP BY carrier, hour""",
        "routes": f"""
            SELECT origin, dest, count(*) AS flights, avg(arr_delay) AS delay
            FROM flights WHERE state = 'landed' GROUP BY origin, dest HAVING count(*) >= {enough}
            ORDER BY delay DESC, origin, dest LIMIT 10""",
        "fleet": """
            SELECT id, day, airline, flight, origin, dest, state, dep_delay, manufacturer, model, seats
            FROM flights JOIN airlines USING (carrier) LEFT JOIN planes USING (tailnum)""",
        "recent": f"""
            SELECT origin, count(*) AS flights, avg(dep_delay) AS mean, count_if(dep_delay > 15) AS late
            FROM flights WHERE {now} >= sched_dep + dep_delay AND {now} < sched_dep + dep_delay + {data.DAY}
            GROUP BY origin""",
        "chains": """
            WITH days AS (
                SELECT day, tailnum, array_sort(collect_list(
                    struct(sched_dep, id, dep_delay, arr_delay, carrier, flight, origin, dest))) AS legs
                FROM flights WHERE dep_delay IS NOT NULL AND tailnum IS NOT NULL GROUP BY day, tailnum
            ), roots AS (
                SELECT day, tailnum, root, slice(legs, place + 2, size(legs)) AS later, root.arr_delay AS late,
                    greatest(least(coalesce(get(legs, place - 1).arr_delay, 0), root.dep_delay), 0) AS above
                FROM days LATERAL VIEW posexplode(legs) AS place, root
            ), chains AS (
                SELECT *, aggregate(later, struct(late, 0L AS flights, 0L AS minutes), (chain, leg) -> struct(
                    least(chain.late, leg.dep_delay, coalesce(leg.arr_delay, 0)) AS late,
                    chain.flights + if(least(chain.late, leg.dep_delay) > above, 1, 0) AS flights,
                    chain.minutes + greatest(least(chain.late, leg.dep_delay) - above, 0) AS minutes)) AS chain
                FROM roots WHERE late > above
            )
            SELECT root.id AS root, day, tailnum, root.carrier, root.flight, root.origin, root.dest, late,
                chain.flights, chain.minutes
            FROM chains WHERE chain.flights > 0""",
        "weather": f"""
            WITH departures AS (
                SELECT id, day, origin, sched_dep + dep_delay AS departed FROM flights WHERE dep_delay IS NOT NULL
            ), observations AS (
                SELECT origin, published, observed, struct(observed, temp, visib) AS seen
                FROM weather WHERE published <= {now}
            ), events AS (
                SELECT *, NULL AS told, NULL AS later FROM departures
                UNION ALL SELECT NULL, NULL, origin, published, seen, NULL FROM observations
                UNION ALL SELECT NULL, NULL, origin, observed, NULL, seen FROM observations
            ), met AS (
                SELECT id, day, origin, departed, max(told) OVER before AS told, max(later) OVER before AS later
                FROM events WINDOW before AS (
                    PARTITION BY origin ORDER BY departed RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
            )
            SELECT id, day, origin, departed, told.observed AS known, told.temp AS known_temp,
                told.visib AS known_visib, later.observed, later.temp, later.visib
            FROM met WHERE id IS NOT NULL""",
    }[view]


def _now(upper: int) -> str:
    """Spark SQL for the flights as they stand before ``upper``: what a collection means, said of a table of updates."""
    columns = ", ".join(data.COLUMNS)
    return f"SELECT {columns} FROM updates WHERE time < {upper} GROUP BY {columns} HAVING sum(diff) > 0"


@dataclass(frozen=True)
class Recomputation:
    """One view computed anew by Spark: its rows, and the least seconds of a few warm runs (rows left in Spark)."""

    rows: pa.Table
    seconds: float


@contextmanager
def spark_tables(spark: SparkSession, updates: Path, weather: pl.DataFrame, upper: int, folder: Path) -> Iterator[None]:
    """Make the input's final state tables of Spark, as Parquet files: flights, planes, airlines, and all weather."""
    weather.write_parquet(folder / "weather.parquet")
    data.planes().write_parquet(folder / "planes.parquet")
    data.airlines().write_parquet(folder / "airlines.parquet")
    spark.read.parquet(str(updates)).createOrReplaceTempView("updates")
    spark.sql(_now(upper)).write.mode("overwrite").parquet(str(folder / "flights.parquet"))
    tables = ("flights", "planes", "airlines", "weather")
    for name in tables:
        spark.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    try:
        yield
    finally:
        for name in (*tables, "updates"):
            spark.catalog.dropTempView(name)


def recompute(spark: SparkSession, sql: str, runs: int = 3) -> Recomputation:
    """Ask ``sql`` of Spark's tables; the first run, which also fetches the rows, is not timed.

    The timed runs write to Spark's ``noop`` sink: every row is computed and none is sent to Python, in Spark's favour.
    """
    rows = spark.sql(sql).toArrow()
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        spark.sql(sql).write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - begin)
    return Recomputation(rows, min(seconds))


def difference(kept: pa.Table, recomputed: pa.Table) -> str | None:
    """Say how two tables differ as multisets of rows, or None: doubles may differ by 1e-9 of the larger.

    Rows are paired in the order of their exact columns, then of their doubles.
    """
    if sorted(kept.column_names) != sorted(recomputed.column_names):
        return f"columns {kept.column_names} against {recomputed.column_names}"
    if kept.num_rows != recomputed.num_rows:
        return f"{kept.num_rows:,} rows against {recomputed.num_rows:,}"
    floating = [field.name for field in recomputed.schema if pa.types.is_floating(field.type)]
    exact = [name for name in recomputed.column_names if name not in floating]
    left, right = (pl.DataFrame(pl.from_arrow(table)).sort([*exact, *floating]) for table in (kept, recomputed))
    for name in exact:
        unequal = left[name].ne_missing(right[name])
        if unequal.any():
            row = int(unequal.arg_max() or 0)
            return f"column {name}: {left.row(row)} against {right.row(row)}"
    for name in floating:
        ours, theirs = left[name].to_numpy(), right[name].to_numpy()
        far = ~np.isclose(ours, theirs, rtol=RELATIVE, atol=0.0, equal_nan=True)
        if far.any():
            row = int(far.argmax())
            return f"column {name}: {left.row(row)} against {right.row(row)}"
    return None
