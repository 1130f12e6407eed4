"""Queries written as DataFrames have Spark's answers, by both roads.

Without Spark every query is compared with what Spark once answered, and on Spark a part of them with what it answers;
``ALTNEU_FRAMES=1`` compares all of them, and ``ALTNEU_FRAMES=write`` stores Spark's answers anew.
"""

from __future__ import annotations

import os

import pytest

import altneu as an
from tests.frames import work
from tests.frames.queries import QUERIES

pytest.importorskip("grpc", reason="Spark Connect's client is not installed")
from pyspark.sql.connect import functions as connect_functions
from pyspark.sql.connect.window import Window as ConnectWindow

PART = (
    "filter",
    "filter dropped",
    "limit of dropped",
    "unionByName missing",
    "case",
    "struct made",
    "lambdas",
    "explode outer",
    "join using full",
    "join on names",
    "aggregates",
    "cube",
    "pivot several",
    "windows that slide",
    "window rows",
    "lag",
    "dropna thresh",
    "scalar correlated",
)


@pytest.fixture(scope="module")
def described():
    """Views of all queries, written with Spark Connect's client and no server."""
    with an.Session() as session:
        tables = work.handles(session)
        views = {
            name: session.maintain(name, query(connect_functions, ConnectWindow, tables))
            for name, query in QUERIES.items()
        }
        work.fill(session)
        yield views


@pytest.mark.filterwarnings("ignore:WARN WindowExpression")
@pytest.mark.parametrize("name", QUERIES)
def test_what_is_written_for_connect_has_sparks_answer(described, name):
    assert work.shown(work.kept(described[name])) == work.answers()[name]


@pytest.fixture(scope="module")
def classic(spark):
    """Views of some queries, written as DataFrames of Spark's own session, and Spark's answers."""
    from pyspark.sql import Window, functions

    names = list(QUERIES) if work.WHOLE else PART
    names = [n for n in names if hasattr(spark, "tvf") or n not in work.SINCE_4]
    real = work.spark_tables(spark)
    found = {name: work.by_spark(QUERIES[name], functions, Window, real) for name in names}
    if os.environ.get("ALTNEU_FRAMES") == "write":
        work.write({name: work.shown(rows) for name, rows in found.items()})
    with an.Session(spark, placement="driver") as session:
        tables = work.handles(session)
        views = {name: session.maintain(name, QUERIES[name](functions, Window, tables)) for name in names}
        work.fill(session)
        yield views, found


@pytest.mark.parametrize("name", QUERIES if work.WHOLE else PART)
def test_what_is_written_for_a_session_of_spark_has_its_answer(classic, name):
    views, found = classic
    if name not in views:
        pytest.skip("this version of Spark cannot write it")
    assert work.kept(views[name]) == found[name]
    assert work.shown(found[name]) == work.answers()[name]
