"""The bench's bulk loads of TPC-H, as Spark's own event log tells them: what was read, into Python, to the driver."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow.parquet as pq
import pytest

from bench.event_log import Log, logged
from bench.tpch.bulk import Pair, Run

SCALE = 0.01
LOADED = {
    1: {"lineitem"},  # sums alone
    6: {"lineitem"},
    3: {"lineitem", "orders", "customer"},  # joins
}


@dataclass
class Load:
    """One query's load: what Spark wrote down of it, and how many rows each table has."""

    log: Log
    pair: Pair
    rows: dict[str, int]


@pytest.fixture(scope="module")
def loads(spark, tmp_path_factory) -> dict[int, Load]:
    run, found = Run(tmp_path_factory.mktemp("bulk"), SCALE, spark, "spark"), {}
    rows = {file.stem: pq.ParquetFile(file).metadata.num_rows for file in run.folder.glob("*.parquet")}
    for number in LOADED:
        pair, folder = Pair(), tmp_path_factory.mktemp("log")
        with logged(spark, folder) as log:
            run.ours(number, pair)
        found[number] = Load(log, pair, rows)
    return found


@pytest.mark.parametrize("number", LOADED)
def test_each_row_that_is_needed_is_read_once_and_none_comes_to_the_driver(loads, number):
    load = loads[number]
    assert load.pair.difference is None
    step, *later = load.log.titled("altneu step")
    assert len(step.scans) == len(LOADED[number])
    assert [scan.metrics["number of files read"] for scan in step.scans] == [1] * len(LOADED[number])
    assert sorted(scan.rows for scan in step.scans) == sorted(load.rows[table] for table in LOADED[number])
    assert [query.scans for query in later] == [[]] * len(later)
    assert all(query.result_bytes < 100_000 for query in load.log.titled("altneu step"))


@pytest.mark.parametrize(("number", "groups"), [(1, 4), (6, 1)])
def test_sums_come_into_python_and_no_rows(loads, number, groups):
    (step,) = loads[number].log.titled("altneu step")
    assert step.into_python("read") == 0
    assert groups <= step.into_python("sums of lineitem") <= 4 * groups
    (scan,) = step.scans
    assert len(scan.columns) == {1: 7, 6: 4}[number]  # those that the query names


def test_rows_that_a_join_needs_come_into_python_and_no_others(spark, loads):
    filters = {
        "lineitem": "l_shipdate > date'1995-03-15'",
        "orders": "o_orderdate < date'1995-03-15'",
        "customer": "c_mktsegment = 'BUILDING'",
    }
    (step, *_) = loads[3].log.titled("altneu step")
    needed = sum(spark.table(table).where(test).count() for table, test in filters.items())
    assert step.into_python("read") == needed < 0.6 * sum(loads[3].rows[table] for table in filters)
