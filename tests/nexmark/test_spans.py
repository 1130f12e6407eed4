"""``window(...)`` puts rows into the spans that Spark puts them into."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import altneu as an
from altneu import sql
from altneu.errors import PlanError
from bench.nexmark.events import sources

ROWS = [(n, datetime(1969, 12, 31, 23, 59, 40, tzinfo=UTC) + timedelta(seconds=1.7 * n)) for n in range(40)]
TABLE = pa.table(
    {"n": [n for n, _ in ROWS] + [-1], "at": pa.array([t for _, t in ROWS] + [None], pa.timestamp("us", "UTC"))}
)
CATALOG = {"t": an.source("t", "n bigint, at timestamp")}


def kept(text):
    with an.Session() as session:
        view = session.maintain("v", sql.query(text, CATALOG))
        session.insert("t", TABLE)
        session.advance()
        return view.to_arrow()


@pytest.mark.parametrize(
    "arguments",
    ["'10 seconds'", "'10 seconds', '5 seconds'", "'10 seconds', '4 seconds'", "'1 minute', '1 minute', '7 seconds'"],
)
def test_rows_are_in_the_spans_that_spark_says(spark, arguments):
    spark.createDataFrame(TABLE).createOrReplaceTempView("t")
    for text in (
        f"SELECT window.start, window.end AS ended, count(*) AS n FROM t GROUP BY window(at, {arguments})",
        f"SELECT n % 2 AS odd, window(at, {arguments}) AS s, max(n) AS n FROM t GROUP BY 1, window(at, {arguments})",
        f"SELECT n, window(at, {arguments}) FROM t WHERE n > 3",
    ):
        wanted, actual = spark.sql(text).toArrow(), kept(text)
        assert actual.column_names == wanted.column_names
        assert Counter(map(str, actual.to_pylist())) == Counter(map(str, wanted.to_pylist()))
        assert actual.num_rows > 1
    spark.catalog.dropTempView("t")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("at", "a time, a length"),
        ("at, '1 month'", "must be a span of days"),
        ("at, '0 seconds'", "slide must be positive"),
        ("at, '1 second', '2 seconds'", "slide must be positive"),
        ("at, '1 day', '1 second'", "86,400 spans"),
    ],
)
def test_what_is_no_span_of_time_is_refused(arguments, said):
    with pytest.raises(PlanError, match=said):
        sql.query(f"SELECT count(*) AS n FROM t GROUP BY window({arguments})", CATALOG)


def test_two_that_differ_are_refused():
    with pytest.raises(PlanError, match="several windows"):
        sql.query("SELECT window(at, '1 second') AS a, window(at, '2 seconds') AS b FROM t", CATALOG)


def test_a_query_inside_has_its_own():
    text = """SELECT window.start, count(*) AS n FROM (
        SELECT window.end AS bounded, count(*) AS n FROM bid GROUP BY window(date_time, '10 seconds')
    ) q GROUP BY window(bounded, '1 minute')"""
    assert sql.query(text, sources()).columns == ["start", "n"]
