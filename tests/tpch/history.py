"""A history of the TPC-H tables at scale factor 0.01, and what DuckDB and Spark say of the queries after each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from bench.tpch import data
from bench.tpch.compare import Query, Row
from bench.tpch.refresh import Changes, Refresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCALE = 0.01
# On so few rows Spark spends its time on looking for a better plan while it runs, and on compiling.
QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
}
SEED = 22
ALL = ("region", "nation", "supplier", "customer", "part", "partsupp")


# Of so small a scale most answers are of a few rows or none: rows that the queries ask for are made.
WANTED = (
    ("part", 80, {"p_type": "ECONOMY ANODIZED STEEL"}),
    ("part", 80, {"p_name": "forest green"}),
    ("part", 80, {"p_size": 15}),
    ("part", 60, {"p_brand": "Brand#12", "p_container": "SM CASE", "p_size": 3}),
    ("part", 60, {"p_brand": "Brand#23", "p_container": "MED BOX", "p_size": 4}),
    ("supplier", 12, {"s_nationkey": 2}),  # Brazil
    ("supplier", 12, {"s_nationkey": 3}),  # Canada
    ("supplier", 12, {"s_nationkey": 20}),  # Saudi Arabia
    ("supplier", 5, {"s_comment": "Customer Complaints"}),
    ("customer", 200, {"c_nationkey": 1}),  # Argentina
)


def steps_of(refresh: Refresh) -> list[Changes]:
    """What happens: orders come and go all the time, and every other table is turned, thinned and made whole again."""
    result: list[Changes] = []
    for table, rows, values in WANTED:
        refresh.become(table, rows, **values)
    refresh.orders(60, 30)
    result.append(refresh.changes())
    for table, pairs, rows in zip(ALL, (1, 3, 20, 200, 300, 800), (1, 2, 10, 100, 100, 400), strict=True):
        refresh.swap(table, pairs)
        refresh.drop(table, rows)
    refresh.orders(15, 600)
    result.append(refresh.changes())
    for table in ALL:
        refresh.restore(table)
    refresh.orders(900, 15)
    result.append(refresh.changes())
    return result


class History:
    """The tables at first, the changes of each step, and the tables after each."""

    def __init__(self) -> None:
        self.tables = data.generate(SCALE)
        refresh = Refresh(self.tables, SEED)
        self.steps = steps_of(refresh)
        self.texts = data.texts()
        self.queries = {number: Query.of(text) for number, text in self.texts.items()}
        self.answers = data.answers(SCALE)

    @cached_property
    def states(self) -> list[dict[str, pa.Table]]:
        """The tables at first and after each step, by applying the changes."""
        result = [dict(self.tables)]
        for step in self.steps:
            result.append(result[-1] | {name: applied(result[-1][name], changed) for name, changed in step.items()})
        return result

    @cached_property
    def by_duckdb(self) -> list[dict[int, list[Row]]]:
        """What DuckDB says of each query, without limits, at first and after each step."""
        return [_ask_duckdb(tables, self.queries) for tables in self.states]

    def by_spark(self, spark: SparkSession, step: int, folder: Path) -> dict[int, pa.Table]:
        """What Spark says of each query, without limits, at first (0) or after a step."""
        for name, table in self.states[step].items():
            pl.DataFrame(pl.from_arrow(table)).write_parquet(folder / f"{name}-{step}.parquet")
            spark.read.parquet(str(folder / f"{name}-{step}.parquet")).createOrReplaceTempView(name)
        with few_rows(spark) as pool:
            result = dict(pool.map(lambda n: (n, spark.sql(self.queries[n].whole).toArrow()), self.queries))
        for name in data.TABLES:
            spark.catalog.dropTempView(name)
        return result


@contextmanager
def few_rows(spark: SparkSession) -> Iterator[ThreadPoolExecutor]:
    """Spark as it answers small queries soonest; while one is planned another runs."""
    before = {name: spark.conf.get(name, None) for name in QUICK}
    for name, value in QUICK.items():
        spark.conf.set(name, value)
    with ThreadPoolExecutor(2) as pool:
        yield pool
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def applied(table: pa.Table, changed: pa.Table) -> pa.Table:
    """A table after a change of it: diffs are added up, and what is left counts one."""
    before = pl.DataFrame(pl.from_arrow(table)).with_columns(diff=pl.lit(1, pl.Int64))
    both = pl.concat([before, pl.DataFrame(pl.from_arrow(changed))])
    counts = both.group_by(table.column_names).agg(pl.col("diff").sum()).filter(pl.col("diff") != 0)
    assert (counts["diff"] == 1).all()
    return counts.drop("diff").to_arrow().cast(table.schema)


def _ask_duckdb(tables: Mapping[str, pa.Table], queries: Mapping[int, Query]) -> dict[int, list[Row]]:
    with data.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return {number: connection.execute(query.whole).fetchall() for number, query in queries.items()}
