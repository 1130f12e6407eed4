"""TPC-H and Nexmark written as DataFrames say what they say in SQL, after every step.

The views of SQL are compared with Spark's answers elsewhere (tests/tpch, tests/nexmark). With ``ALTNEU_FRAMES=1`` Spark
answers the DataFrames themselves, and views of them as its own session writes them are compared with that.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import polars as pl
import pyarrow as pa
import pytest

import altneu as an
from altneu import sql
from bench.nexmark import events
from bench.tpch import data
from tests.frames import nexmark, tpch, work
from tests.tpch.history import History, few_rows

pytest.importorskip("grpc", reason="Spark Connect's client is not installed")
from pyspark.sql.connect import functions as connect_functions
from pyspark.sql.connect.window import Window as ConnectWindow

COUNT, RATE = 1_000, 100


def tables_of(session, sources):
    return SimpleNamespace(**{name: session.frame(source) for name, source in sources.items()})


def both(session, name, frame, text, sources):
    return session.maintain(f"{name} frame", frame), session.maintain(f"{name} sql", sql.query(text, sources))


def rows_of(table):
    """Rows by place: a DataFrame's constants may have other types than those of SQL."""
    table = table if isinstance(table, pa.Table) else table.to_arrow()
    columns = (column.cast(pa.float64()) if pa.types.is_decimal(column.type) else column for column in table.columns)
    return Counter(tuple(map(work.comparable, row)) for row in zip(*(c.to_pylist() for c in columns), strict=True))


@pytest.fixture(scope="module")
def tpch_views():
    """Both views of every query, and those whose rows differed after each of the steps."""
    if data.extension() is None:
        pytest.skip("duckdb or duckdb-extension-tpch is not installed")
    history, sources = History(), data.sources()
    with an.Session() as session:
        tables = tables_of(session, sources)
        frames = {n: work.written(query, connect_functions, tables) for n, query in tpch.QUERIES.items()}
        views = {
            n: both(session, f"q{n}", frame, history.texts[n], sources)
            for n, frame in frames.items()
            if frame is not None
        }
        for name in session.sources:
            session.insert(name, history.tables[name])
        session.advance()
        seen = []
        for step in history.steps:
            for name in set(session.sources) & set(step):
                session.insert(name, step[name], diff="diff")
            session.advance()
            seen.append({n: tuple(map(rows_of, pair)) for n, pair in views.items()})
        yield views, seen


@pytest.mark.parametrize("number", tpch.QUERIES)
def test_tpch(tpch_views, number):
    views, seen = tpch_views
    if number not in views:
        pytest.skip("this version of Spark cannot write it")
    frame, text = views[number]
    assert frame.to_arrow().column_names == text.to_arrow().column_names
    for found in seen:
        assert found[number][0] == found[number][1]
    assert any(found[number][0] for found in seen)


@pytest.fixture(scope="module")
def nexmark_views():
    """Both views of every query, after two parts of the events and after some of the first were taken back."""
    sources = events.sources()
    first, second = events.events(0, COUNT, RATE), events.events(COUNT, COUNT, RATE)
    first["side_input"] = events.side_input()
    gone = {name: table.take(pa.array(range(0, table.num_rows, 7))) for name, table in first.items()}
    with an.Session() as session:
        tables = tables_of(session, sources)
        frames = {n: work.written(q, connect_functions, ConnectWindow, tables) for n, q in nexmark.QUERIES.items()}
        views = {
            n: both(session, n, frame, events.query(n), sources) for n, frame in frames.items() if frame is not None
        }
        for diff, changes in ((1, first), (1, second), (-1, gone)):
            for name, rows in changes.items():
                session.insert(name, rows, diff=diff)
            session.advance()
        yield views


@pytest.mark.parametrize("name", nexmark.QUERIES)
def test_nexmark(nexmark_views, name):
    if name not in nexmark_views:
        pytest.skip("this version of Spark cannot write it")
    frame, text = nexmark_views[name]
    assert frame.to_arrow().column_names == text.to_arrow().column_names
    assert rows_of(frame) == rows_of(text)
    assert rows_of(frame)


@pytest.mark.skipif(not work.WHOLE, reason="ALTNEU_FRAMES=1 asks Spark")
@pytest.mark.parametrize("suite", ["tpch", "nexmark"])
def test_views_have_sparks_own_answers(spark, tmp_path, suite):
    from pyspark.sql import Window, functions

    if suite == "tpch":
        sources, rows = data.sources(), data.generate(0.01)
        queries = {n: lambda t, q=query: q(functions, t) for n, query in tpch.QUERIES.items()}
    else:
        sources, rows = events.sources(), {**events.events(0, COUNT, RATE), "side_input": events.side_input()}
        queries = {n: lambda t, q=query: q(functions, Window, t) for n, query in nexmark.QUERIES.items()}
    for name, table in rows.items():
        pl.DataFrame(pl.from_arrow(table)).write_parquet(tmp_path / f"{name}.parquet")
    real = SimpleNamespace(**{n: spark.read.parquet(str(tmp_path / f"{n}.parquet")).alias(n) for n in sources})
    with an.Session(spark, placement="driver") as session:
        tables = tables_of(session, sources)
        views = {n: session.maintain(f"q{n}", query(tables)) for n, query in queries.items()}
        for name, table in rows.items():
            session.insert(name, table)
        session.advance()
        with few_rows(spark):
            for n, query in queries.items():
                found = query(real).toArrow()
                assert views[n].to_arrow().schema.types == found.schema.types, n
                assert views[n].to_arrow().column_names == found.column_names, n
                assert rows_of(views[n]) == rows_of(found), n
