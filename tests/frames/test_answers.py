"""Queries written as DataFrames have Spark's answers, by both roads.

Without Spark every query, and 60 random ones, are compared with what Spark once answered, and on Spark a part of them
with what it answers. ``ALTNEU_FRAMES=1`` compares all of them and 300 random ones by both roads, and
``ALTNEU_FRAMES=write`` stores Spark's answers anew.
"""

from __future__ import annotations

import pytest

import altneu as an
from tests.frames import work
from tests.tpch.history import few_rows

pytest.importorskip("grpc", reason="Spark Connect's client is not installed")
from pyspark.sql.connect import functions as connect_functions
from pyspark.sql.connect.window import Window as ConnectWindow

PART = (
    "filter dropped",
    "limit of dropped",
    "struct made",
    "lambdas",
    "explode outer",
    "join using full",
    "cube",
    "pivot several",
    "windows that slide",
    "lag",
    "dropna thresh",
    "scalar correlated",
)


@pytest.fixture(scope="module")
def described():
    """Views of all queries, written with Spark Connect's client and no server."""
    with an.Session() as session:
        tables = work.handles(session)
        frames = {n: work.written(query, connect_functions, ConnectWindow, tables) for n, query in work.ALL.items()}
        views = {name: session.maintain(name, frame) for name, frame in frames.items() if frame is not None}
        work.fill(session)
        yield views


@pytest.mark.filterwarnings("ignore:WARN WindowExpression")
@pytest.mark.parametrize("name", [n for n in work.ALL if n in work.answers()])
def test_what_is_written_for_connect_has_sparks_answer(described, name):
    if name not in described:
        pytest.skip("this version of Spark cannot write it")
    assert work.shown(work.kept(described[name])) == work.answers()[name]


@pytest.fixture(scope="module")
def classic(spark):
    """Views of some queries, written as DataFrames of Spark's own session, and Spark's answers."""
    from pyspark.sql import Window, functions

    names = list(work.ALL) if work.WHOLE else PART
    real = work.spark_tables(spark)
    names = [n for n in names if work.written(work.ALL[n], functions, Window, real) is not None]
    with few_rows(spark):
        found = {name: work.by_spark(work.ALL[name], functions, Window, real) for name in names}
    if work.WRITE:
        work.write({name: work.shown(rows) for name, rows in found.items()})
    with an.Session(spark, placement="driver") as session:
        tables = work.handles(session)
        views = {name: session.maintain(name, work.ALL[name](functions, Window, tables)) for name in names}
        work.fill(session)
        yield views, found


@pytest.mark.parametrize("name", work.ALL if work.WHOLE else PART)
def test_what_is_written_for_a_session_of_spark_has_its_answer(classic, described, name):
    views, found = classic
    if name not in views:
        pytest.skip("this version of Spark cannot write it")
    assert work.kept(views[name]) == found[name]
    assert work.kept(described[name]) == found[name]
