"""Nexmark's queries as maintained views give Spark's answers, after later events and after retractions."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pyarrow as pa
import pytest

import altneu as an
from altneu import sql
from bench.nexmark import events
from tests.tpch.history import few_rows

COUNT, RATE = 2_000, 100  # events, and how many of them are a second of their time
each_query = pytest.mark.parametrize("name", events.QUERIES)


def rows_of(table):
    """Rows that can be counted; NaN and doubles need no care, as no query makes a double that is not exact."""
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.fixture(scope="module")
def history():
    """Events in three steps; the third takes back every seventh of the first."""
    result = [events.events(0, COUNT, RATE), events.events(COUNT, COUNT, RATE)]
    result[0]["side_input"] = events.side_input()
    gone = {name: table.take(pa.array(range(0, table.num_rows, 7))) for name, table in result[0].items()}
    return [(1, result[0]), (1, result[1]), (-1, gone)]


@pytest.fixture(scope="module")
def by_spark(history, spark, tmp_path_factory):
    """Spark's answer to each query after each step but the first."""
    folder = tmp_path_factory.mktemp("nexmark")
    result, there = [], {}
    for step, (diff, changes) in enumerate(history):
        for name, rows in changes.items():
            there[name] = changed(there.get(name), rows, diff)
            pl.DataFrame(pl.from_arrow(there[name])).write_parquet(folder / f"{name}-{step}.parquet")
            spark.read.parquet(str(folder / f"{name}-{step}.parquet")).createOrReplaceTempView(name)
        if step:
            with few_rows(spark) as pool:
                ask = pool.map(lambda name: (name, spark.sql(events.query(name)).toArrow()), events.QUERIES)
                result.append(dict(ask))
    for name in events.TABLES:
        spark.catalog.dropTempView(name)
    return result


def changed(before, rows, diff):
    if before is None:
        return rows
    if diff > 0:
        return pa.concat_tables([before, rows])
    left, gone = (pl.DataFrame(pl.from_arrow(table)) for table in (before, rows))
    return left.join(gone, on=gone.columns, how="anti").to_arrow().cast(before.schema)


def test_the_generator_keeps_the_proportions_and_its_promises():
    whole = events.events(0, 5_000)
    assert {name: table.num_rows for name, table in whole.items()} == {"person": 100, "auction": 300, "bid": 4_600}
    parts = [events.events(first, 1_250) for first in range(0, 5_000, 1_250)]
    for name, table in whole.items():
        assert pa.concat_tables([part[name] for part in parts]) == table
    bids, auctions = whole["bid"].to_pydict(), whole["auction"].to_pydict()
    assert set(bids["auction"]) <= set(auctions["id"])
    assert set(bids["bidder"]) | set(auctions["seller"]) <= set(whole["person"]["id"].to_pylist())
    hottest = Counter(bids["auction"]).most_common(1)[0][1]
    assert hottest > 4_600 / 3 * 100 / 300


@each_query
def test_a_query_gives_what_spark_gives(history, by_spark, name):
    with an.Session() as session:
        view = session.maintain(name, sql.query(events.query(name), events.sources()))
        for (diff, changes), wanted in zip(history, [None, *by_spark], strict=True):
            for source in session.sources:
                if source in changes:
                    session.insert(source, changes[source], diff=diff)
            session.advance()
            if wanted is None:
                continue
            kept = view.to_arrow()
            assert kept.column_names == wanted[name].column_names
            assert kept.schema.types == wanted[name].schema.types
            assert rows_of(kept) == rows_of(wanted[name])


def test_every_query_has_an_answer_that_changes(by_spark):
    for name in events.QUERIES:
        before, after = (rows_of(found[name]) for found in by_spark)
        assert before, name
        assert before != after, name
