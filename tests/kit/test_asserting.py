"""Assertions that hold where they should, and say what differs where they do not."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import InputError, SchemaError
from altneu.testing import assert_changes, assert_contents, assert_same_as_spark, table

ORDERS = an.source("orders", "item string, price long", keep=True)
TOTALS = ORDERS.group_by("item").agg(total="sum(price)", mean="avg(price)")


@pytest.fixture
def session():
    with an.Session(retain="all") as session:
        session.maintain("total", ORDERS.group_by("item").agg(total="sum(price)"))
        session.insert("orders", table("item | price\ntea | 3\ntea | 4\njam | 5"))
        session.advance()
        session.retract("orders", [("tea", 3)])
        session.advance()
        yield session


def test_changes(session):
    view = session.view("total")
    assert_changes(view, "item | total | time | diff\ntea | 4 | 1 | +1\ntea | 7 | 1 | -1")
    assert_changes(view, [("tea", 7, 1, -1), ("tea", 4, 1, 1)])
    assert_changes(view, "total | item | diff\n4 | tea | 1\n7 | tea | -1")
    assert_changes(view, "item | total\ntea | 4\njam | 5", since=-1)
    assert_changes(view, "item | total | time\ntea | 7 | 0\njam | 5 | 0", since=-1, until=0)
    with pytest.raises(AssertionError) as caught:
        assert_changes(view, "item | total | time | diff\ntea | 4 | 1 | +1\ntea | 8 | 1 | -1")
    assert str(caught.value).split("\n") == [
        "the changes of view total differ",
        "missing:",
        "  item | total | time | diff",
        "  tea  | 8     | 1    | -1",
        "not expected:",
        "  item | total | time | diff",
        "  tea  | 7     | 1    | -1",
    ]


def test_contents(session):
    view = session.view("total")
    assert_contents(view, "item | total\njam | 5\ntea | 4")
    assert_contents(view, "item | total\njam | 5\ntea | 7", at=0)
    assert_contents(pa.table({"a": [1, 1, 2]}), "a | diff\n1 | 2\n2 | 1")
    assert_contents(pa.table({"a": [math.nan, -0.0]}), pa.table({"a": [0.0, math.nan]}))
    with pytest.raises(AssertionError, match=r"view total has other rows\nmissing:\n  item \| total\n  jam  \| 6\nnot"):
        assert_contents(view, "item | total\njam | 6\ntea | 4")
    with pytest.raises(
        AssertionError, match=r"missing:\n  a \| diff\n  1 \| \+2\nnot expected:\n  a \| diff\n  1 \| \+3"
    ):
        assert_contents(pa.table({"a": [1, 1, 1]}), "a\n1\n1")


def test_other_columns_are_refused(session):
    view = session.view("total")
    with pytest.raises(SchemaError, match="the expected table lacks 'total'"):
        assert_changes(view, "item | time | diff\ntea | 1 | 1")
    with pytest.raises(SchemaError, match="has an unknown column 'colour'"):
        assert_contents(view, "item | total | colour\ntea | 1 | red")
    with pytest.raises(SchemaError, match="column 'total' of the expected table must be bigint"):
        assert_contents(view, pa.table({"item": ["tea"], "total": ["x"]}))
    with pytest.raises(InputError, match="rows of 1 values for 2 columns"):
        assert_contents(view, [("tea",)])
    with pytest.raises(InputError, match=r"the rows to compare must be .* got a dict"):
        assert_contents({}, "a\n1")


def test_same_as_spark(spark):
    with an.Session(retain="all") as session:
        view = session.maintain("total", TOTALS)
        session.insert("orders", [("tea", 3), ("tea", 4), ("jam", None)])
        session.advance()
        session.insert("orders", [(None, 1)])
        session.advance()
        query = "select item, sum(price) total, avg(price) mean from orders group by item"
        assert_same_as_spark(view, query, spark)
        assert_same_as_spark(view, query, spark, at=0)
        rows = spark.createDataFrame([("tea", 7), ("jam", None), (None, 1)], "item string, price long")
        with pytest.raises(AssertionError, match="missing"):
            assert_same_as_spark(view, query, spark, tables={"orders": rows})
        near = query.replace("avg(price)", "avg(price) * 1.0000001d")
        assert_same_as_spark(view, near, spark, tolerance=1e-6)
        with pytest.raises(AssertionError, match="missing"):
            assert_same_as_spark(view, near, spark, tolerance=1e-9)
        by_function = lambda s: s.table("orders").groupBy("item").agg({"price": "sum"})  # noqa: E731
        with pytest.raises(AssertionError, match=r"Spark's answer has item string, sum\(price\) bigint"):
            assert_same_as_spark(view, by_function, spark)
        assert not spark.catalog.tableExists("orders")


def test_what_is_not_kept_cannot_be_compared(spark):
    with an.Session() as session:
        view = session.maintain("n", an.source("orders", "item string").group_by().agg(n="count(*)"))
        session.insert("orders", ["tea"])
        session.advance()
        with pytest.raises(InputError, match="declare it with keep=True, or give them"):
            assert_same_as_spark(view, "select count(*) n from orders", spark)
        with pytest.raises(InputError, match="needs a Spark session"):
            assert_same_as_spark(view, "select count(*) n from orders")


def test_what_is_asked_for_is_compared(session):
    view = session.view("total")
    assert_changes(view, "item | total | time\njam | 5 | 0\ntea | 7 | 0", until=0)
    with pytest.raises(AssertionError):
        assert_changes(view, "item | total | time | diff\ntea | 4 | 1 | +1\ntea | 7 | 1 | -1", until=0)
    with pytest.raises(AssertionError):
        assert_contents(pa.table({"x": pa.array([], pa.string())}), "x\n-")
    for diffs in ([1.9], [None]):
        with pytest.raises(SchemaError, match="the diffs of a table must be whole numbers"):
            assert_contents(pa.table({"x": [1]}), pa.table({"x": [1], "diff": diffs}))
