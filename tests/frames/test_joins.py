"""Joins of a DataFrame with one derived from it: the answer of Spark and of Spark Connect, or an error as there."""

from __future__ import annotations

import pytest

import altneu as an
from altneu.errors import PlanError
from bench.cluster.server import ConnectServer
from tests.connect.clients import ended, started
from tests.frames import work
from tests.frames.joins import QUERIES, ROWS, SCHEMA, answer

pytest.importorskip("grpc", reason="Spark Connect's client is not installed")
from pyspark.errors import AnalysisException
from pyspark.sql import functions as classic_functions
from pyspark.sql.connect import functions as connect_functions

SOURCE = an.source("rows", SCHEMA)


def shown(session, functions):
    """The columns and rows of views of all queries; None for one that is refused."""
    handle, views = session.frame(SOURCE), {}
    for name, query in QUERIES.items():
        try:
            views[name] = session.maintain(name, query(functions, handle))
        except (PlanError, AnalysisException):
            views[name] = None
    session.insert("rows", [*ROWS[1:], ROWS[1]])
    session.advance()
    session.insert("rows", ROWS[:1])
    session.retract("rows", [ROWS[1]])
    session.advance()
    return {name: None if view is None else rows_of(view.to_arrow()) for name, view in views.items()}


def rows_of(table):
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return table.column_names, sorted(map(list, rows), key=repr)


@pytest.fixture(scope="module")
def of_connect():
    with ConnectServer() as server:
        return ended(started("tests.frames.joins", server.url))


@pytest.fixture(scope="module")
def described():
    with an.Session() as session:
        return shown(session, connect_functions)


@pytest.mark.spark
@pytest.mark.skipif(work.VERSION < (4, 3), reason="Spark Connect has resolved such columns in other ways")
@pytest.mark.parametrize("name", QUERIES)
def test_connects_client_has_the_answer_of_spark_connect(name, described, of_connect):
    wanted = of_connect[name]
    assert described[name] == (None if isinstance(wanted, str) else tuple(wanted))


@pytest.fixture(scope="module")
def classic(spark):
    rows = spark.createDataFrame(ROWS, SCHEMA)
    found = {name: answer(query, classic_functions, rows) for name, query in QUERIES.items()}
    with an.Session(spark, placement="driver") as session:
        return shown(session, classic_functions), found


@pytest.mark.parametrize("name", QUERIES)
def test_a_classic_session_has_its_answer(name, classic):
    mine, found = classic
    assert mine[name] == (None if isinstance(found[name], str) else found[name])


def test_a_column_that_may_be_one_of_several_is_told_with_a_remedy():
    with an.Session() as session:
        frame = session.frame(SOURCE)
        with pytest.raises(PlanError, match=r"'k' may be one of several.*df\.alias\('a'\).*\[in select"):
            session.maintain("v", QUERIES["on, inner, t"](connect_functions, frame))
