"""One query's load in a process of its own, which ``bench.tpch.large`` starts, watches and may kill.

What it says on its output are lines of JSON: the phase that begins, and in the end what it has found.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import psutil

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


@dataclass
class Taken:
    """What something took: seconds on the clock, and those that this process and those below it computed."""

    seconds: float = 0.0
    computed: float = 0.0


@contextmanager
def taken() -> Iterator[Taken]:
    """What the block takes, which is known when it ends."""
    result = Taken()
    clock, processor = time.perf_counter(), _processor_seconds()
    yield result
    result.seconds, result.computed = time.perf_counter() - clock, _processor_seconds() - processor


def _processor_seconds() -> float:
    """Of this process and of those below it, with those that have ended."""
    me, result = psutil.Process(), 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            result += sum(process.cpu_times()[:4])  # user, system, and both of children that have been waited for
        except psutil.Error:
            continue
    return result


def own(spark: SparkSession, query: Query, folder: Path) -> Taken:
    """Spark's query, written to Parquet; all rows that it has without a limit are then in the folder ``ANSWER``."""
    begin(ON)
    with taken() as result:
        spark.sql(query.text).write.parquet(str(folder / OUT))
    if query.limit is None:
        (folder / OUT).rename(folder / ANSWER)
    else:
        shutil.rmtree(folder / OUT)
        spark.sql(query.whole).write.parquet(str(folder / ANSWER))
    return result


def load(spark: SparkSession, query: Query, folder: Path, memory: str) -> dict[str, object]:
    """The view in a store, which a killed load may have left, and whether it is Spark's answer."""
    store = folder / STORE
    begin(LOAD)
    with ExitStack() as stack:
        with taken() as result:
            session = stack.enter_context(an.Session(spark, path=store, memory=memory))
            view = session.maintain("v", sql.query(query.text, data.sources()))
            is_loaded = session.lower > 0  # the kill came after the commit
            for name in session.sources if not is_loaded else ():
                session.insert(name, spark.table(name))
            step = session.advance()
        begin(CHECK)
        answer = rows_of(spark.read.parquet(str(folder / ANSWER)).toArrow())
        difference = query.difference(rows_of(view.to_arrow()), answer)
        analysed = session.explain("v", analyze=True)
    kept = sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    return {
        "seconds": result.seconds,
        "computed": result.computed,
        "was_loaded": is_loaded,
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
    apart = None if again else own(spark, query, folder)
    found = {"own": apart and [apart.seconds, apart.computed], **load(spark, query, folder, memory)}
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
