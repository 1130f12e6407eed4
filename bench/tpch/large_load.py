"""One query's load in a process of its own, which ``bench.tpch.large`` starts, watches and may kill.

What it says on its output are lines of JSON: the phase that begins, and in the end what it has found.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

import altneu as an
from altneu import sql
from bench.tpch import data
from bench.tpch.compare import Query, rows_of
from bench.tpch.measure import CORES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ON, LOAD, CHECK = "Spark", "load", "check"
TABLES, STORE, OUT, ANSWER = "tables", "store", "out", "answer"


def begin(phase: str) -> None:
    """Say that a phase begins."""
    print(json.dumps({"phase": phase}), flush=True)


def own(spark: SparkSession, query: Query, folder: Path) -> float:
    """Seconds of Spark's query, written to Parquet; what all of its rows are is then in the folder ``ANSWER``."""
    begin(ON)
    started = time.perf_counter()
    spark.sql(query.text).write.parquet(str(folder / OUT))
    seconds = time.perf_counter() - started
    if query.limit is None:
        (folder / OUT).rename(folder / ANSWER)
    else:
        shutil.rmtree(folder / OUT)
        spark.sql(query.whole).write.parquet(str(folder / ANSWER))
    return seconds


def load(spark: SparkSession, query: Query, folder: Path, memory: str) -> dict[str, object]:
    """The view in a store, which a killed load may have left, and whether it is Spark's answer."""
    store = folder / STORE
    begin(LOAD)
    started = time.perf_counter()
    with an.Session(spark, path=store, memory=memory) as session:
        opened = time.perf_counter() - started
        view = session.maintain("v", sql.query(query.text, data.sources()))
        for name in session.sources:
            session.insert(name, spark.table(name))
        step = session.advance()
        seconds = time.perf_counter() - started
        begin(CHECK)
        answer = rows_of(spark.read.parquet(str(folder / ANSWER)).toArrow())
        difference = query.difference(rows_of(view.to_arrow()), answer)
        analysed = session.explain("v", analyze=True)
    kept = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    return {
        "seconds": seconds,
        "opened": opened,
        "rows": step.state_rows,
        "kept": kept,
        "difference": difference,
        "placement": step.placement,
        "analysed": analysed,
    }


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("number", type=int)
@click.option("--memory", required=True, help="Of a task.")
@click.option("--again", is_flag=True, help="Spark's answer is there already.")
def main(folder: Path, number: int, memory: str, *, again: bool) -> None:
    """Load a query over the tables of a folder into the store beside them."""
    query = Query.of(data.texts()[number])
    spark = an.spark_session("altneu bench", f"local[{CORES}]")
    for name in data.TABLES:
        spark.read.parquet(str(folder / TABLES / name)).createOrReplaceTempView(name)
    seconds = None if again else own(spark, query, folder)
    print(json.dumps({"own": seconds, **load(spark, query, folder, memory)}), flush=True)


if __name__ == "__main__":
    main()
