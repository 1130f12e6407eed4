"""Intervals have the units of Spark's types: in their texts, in ``typeof``, and in what a date becomes with them."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from pyspark.sql.utils import AnalysisException

import altneu as an
from altneu.errors import PlanError

DAYS = "(SELECT DATE'2020-01-01' AS a, DATE'2020-01-04' - DATE'2020-01-01' AS d, INTERVAL '1 02' DAY TO HOUR AS h)"
TIMES = "(SELECT TIME'10:00:00' AS a, TIME'09:29:59.5' AS b, DATE'2020-01-02' AS c, DATE'2020-01-01' AS d)"
WHOLE = "(SELECT INTERVAL '-3 04:05:06.25' DAY TO SECOND AS i)"
QUERIES = [
    f"SELECT {', '.join(f'CAST({e} AS STRING)' for e in group)}"
    for group in (
        ("DATE'2020-01-04' - DATE'2020-01-01'", "-(DATE'2020-01-04' - DATE'2020-01-01')"),
        ("INTERVAL '1 02:03' DAY TO MINUTE", "INTERVAL 3 HOURS", "INTERVAL '3' MINUTE", "INTERVAL '1 02' DAY TO HOUR"),
        ("INTERVAL '3' YEAR", "INTERVAL '5' MONTH", "INTERVAL '-1-2' YEAR TO MONTH", "INTERVAL '2' YEAR * 2"),
        ("INTERVAL '3' SECOND", "INTERVAL '1.5' SECOND", "INTERVAL '100:02.5' MINUTE TO SECOND", "INTERVAL 1 WEEK"),
        ("INTERVAL '1 day 2 hours'", "INTERVAL 1 DAY + INTERVAL 2 MINUTES", "- INTERVAL '90' MINUTE"),
        (
            "CAST(INTERVAL '1 2:30' DAY TO MINUTE AS INTERVAL HOUR)",
            "CAST(INTERVAL '1-2' YEAR TO MONTH AS INTERVAL YEAR)",
        ),
        ("CAST(INTERVAL '-1 2:30' DAY TO MINUTE AS INTERVAL DAY TO HOUR)", "CAST(INTERVAL 1 DAY AS INTERVAL SECOND)"),
    )
] + [
    f"SELECT d || '', CAST(d * 2 AS STRING), CAST(d / 2 AS STRING), 'x' || (d + h), CAST(abs(d) AS STRING) FROM {DAYS}",
    f"SELECT '' || coalesce(d, h), CAST(if(true, d, d) AS STRING), CAST(greatest(d, h) AS STRING) FROM {DAYS}",
    f"SELECT CAST(sum(d) AS STRING), CAST(max(d) AS STRING), CAST(avg(d) AS STRING), 'x' || min(h) FROM {DAYS}",
    f"SELECT 'x' || d, count(*) FROM {DAYS} GROUP BY d",
    f"SELECT CAST(max(d) OVER () AS STRING), CAST(lag(h, 0) OVER (ORDER BY a) AS STRING), 'x' || d FROM {DAYS}",
    f"SELECT typeof(v), 'x' || v, 'x' || w FROM (SELECT max(d) OVER () v, lag(h, 0) OVER (ORDER BY a) w FROM {DAYS})",
    f"SELECT typeof(d), typeof(h), typeof(INTERVAL '1' YEAR), typeof(INTERVAL 1 WEEK), typeof(d * 2) FROM {DAYS}",
    f"SELECT a + d, a - d, d + a, a + h, a + (d + d), a - d * 1 FROM {DAYS}",
    f"SELECT 'x' || i FROM (SELECT d AS i FROM {DAYS} UNION ALL SELECT h FROM {DAYS})",
    f"SELECT 'x' || x.d, 'x' || y.h FROM {DAYS} x LEFT JOIN {DAYS} y ON x.d < y.h",
    f"SELECT extract(DAY FROM i), date_part('MINUTE', i), typeof(extract(HOUR FROM i)) FROM {WHOLE}",
    "SELECT extract(YEAR FROM INTERVAL '-1-2' YEAR TO MONTH), extract(MONTH FROM INTERVAL '-1-2' YEAR TO MONTH)",
    "SELECT extract(HOUR FROM INTERVAL '30' HOUR), datepart('d', INTERVAL '3' DAY)",
    f"SELECT a - b, CAST(a - b AS STRING), 'x' || -(b - a), typeof(a - b) FROM {TIMES}",
    f"SELECT 'x' || max(a - b), CAST(avg(a - b) AS STRING) FROM {TIMES}",
    f"SELECT 'x' || (a - b) * 2, 'x' || coalesce(a - b, INTERVAL 1 MINUTE), extract(HOUR FROM a - b) FROM {TIMES}",
    f"SELECT 'x' || d FROM (SELECT DISTINCT d FROM {DAYS}) ORDER BY d LIMIT 1",
    (
        "SELECT n + make_interval(0, 1, 1, 2, 3, 4, 5.5), n - make_interval(0, i, 1, 2, 3, i, 5.5), "
        "make_interval(i) + n, n + make_interval(0, NULL), n + make_interval(0, i) - make_interval(0, 0, 0, i) FROM "
        "VALUES (TIMESTAMP_NTZ'2024-01-31 10:00:00', 1), (TIMESTAMP_NTZ'2024-03-31 00:00:00', -11) t(n, i)"
    ),
    (
        "SELECT d + make_interval(0, i, i), d - make_interval(1, 1, 1, i), d + make_interval(), "
        "typeof(d + make_interval(i)) FROM VALUES (DATE'2024-01-31', 1), (DATE'2024-03-31', -11) t(d, i)"
    ),
]


@pytest.mark.parametrize("text", QUERIES)
def test_an_interval_has_the_units_that_spark_gives_it(spark, text):
    with an.Session() as session:
        mine = [tuple(map(str, row)) for row in session.sql(text).to_pylist()]
    theirs = [tuple(map(str, row)) for row in spark.sql(text).collect()]
    assert sorted(x.replace("+00:00", "") for row in mine for x in row) == sorted(x for row in theirs for x in row)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "a - b",
            "c - d",
            "-(a - b)",
            "max(a - b)",
            "avg(a - b)",
            "(a - b) * 2",
            "coalesce(a - b, INTERVAL 1 MINUTE)",
        ),
        *("a - b + INTERVAL 1 DAY", "INTERVAL '1 02' DAY TO HOUR", "INTERVAL '1' SECOND"),
        *("max(c - d) OVER ()", "lag(a - b) OVER (ORDER BY a)", "avg(c - d) OVER ()"),
    ],
)
def test_statements_that_show_columns_say_these_units_too(spark, value):
    text = f"SELECT {value} AS v FROM {TIMES}"
    theirs = [tuple(row) for row in spark.sql(f"DESCRIBE QUERY {text}").collect()]
    with an.Session() as session:
        assert session.sql(f"DESCRIBE QUERY {text}").to_pylist() == theirs
        session.sql(f"CREATE MATERIALIZED VIEW m AS {text}")
        assert session.sql("DESCRIBE m").to_pylist() == theirs
        assert [row.type for row in session.sql("SHOW COLUMNS IN m")] == [kind for _, kind, _ in theirs]


def test_collections_with_intervals_of_several_units_have_those_of_all():
    rows = an.source("rows", "a date, b date")
    days = rows.select(i="a - b")
    hours = rows.select(i="INTERVAL '1 02' DAY TO HOUR")
    with an.Session() as session:
        view = session.maintain("v", days.concat(hours).select(t="'' || i"))
        session.insert("rows", [(dt.date(2020, 1, 2), dt.date(2020, 1, 1))])
        session.advance()
        assert sorted(view.to_pylist()) == [("INTERVAL '1 00' DAY TO HOUR",), ("INTERVAL '1 02' DAY TO HOUR",)]


@pytest.mark.parametrize(
    "call",
    [
        *("max(x)", "count(x)", "count(*)", "max_by(x, x)", "median(x)", "mode(x)", "count(DISTINCT x)", "abs(x)"),
        *("sum(x) IGNORE NULLS OVER ()", "row_number() IGNORE NULLS OVER (ORDER BY x)", "upper(x)", "listagg(x)"),
    ],
)
def test_ignore_nulls_is_refused_where_spark_refuses_it(spark, call):
    shown = call if "NULLS" in call else f"{call} IGNORE NULLS"
    text = f"SELECT {shown} FROM VALUES (1), (NULL) t(x)"
    with pytest.raises(AnalysisException, match="does not support IGNORE NULLS"):
        spark.sql(text)
    with an.Session() as session, pytest.raises(PlanError, match=r"\(\) takes no IGNORE NULLS"):
        session.sql(text)


@pytest.mark.parametrize("call", ["max(x)", "abs(x)", "bool_and(x > 0)", "approx_count_distinct(x)"])
def test_respect_nulls_says_nothing_elsewhere(spark, call):
    text = f"SELECT {call} RESPECT NULLS AS y FROM VALUES (1), (1) t(x)"
    with an.Session() as session:
        assert session.sql(text).to_pylist() == [tuple(row) for row in spark.sql(text).collect()]


@pytest.mark.parametrize(
    "part", ["YEAR FROM INTERVAL '3' DAY", "DAY FROM INTERVAL '30' HOUR", "MONTH FROM INTERVAL '3' YEAR"]
)
def test_an_interval_has_only_the_parts_among_its_units(spark, part):
    with pytest.raises(AnalysisException, match="INVALID_EXTRACT_FIELD"):
        spark.sql(f"SELECT extract({part})")
    with an.Session() as session, pytest.raises(PlanError, match=r"extract: an interval .* has no .*; its parts are "):
        session.sql(f"SELECT extract({part})")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("extract(foo FROM DATE '2020-01-01')", "a date or timestamp has no foo (`DATE"),
        ("extract(foo FROM INTERVAL '1' DAY)", "; its parts are day ["),
        ("extract(year FROM TIME '12:00:00')", "; its parts are hour, minute, second ["),
        ("date_part(NULL, DATE '2020-01-01')", "the part must be a constant"),
    ],
)
def test_extract_says_which_parts_there_are(call, said):
    with an.Session() as session, pytest.raises(PlanError, match=re.escape(said)):
        session.sql(f"SELECT {call}")


def test_each_part_that_extract_names_is_one():
    with an.Session() as session:
        with pytest.raises(PlanError) as raised:
            session.sql("SELECT extract(foo FROM DATE '2020-01-01')")
        parts = str(raised.value).split("its parts are ")[1].split(" [")[0].split(", ")
        assert len(parts) == 12
        for part in parts:
            assert session.sql(f"SELECT extract({part} FROM DATE '2020-01-01')").to_pylist()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("make_interval(0, 1)", "stands beside a time"),
        ("1 + make_interval(0, 1)", "moves dates and timestamps, not int"),
        ("DATE'2024-01-31' + make_interval(0, 0, 0, 0, 1)", "cast the date to a timestamp"),
        ("DATE'2024-01-31' + try_make_interval(0, 1)", r"add make_interval\(…\) to a time"),
    ],
)
def test_an_interval_of_months_and_days_is_no_value(text, why):
    with an.Session() as session, pytest.raises(PlanError, match=why):
        session.sql(f"SELECT {text}")
