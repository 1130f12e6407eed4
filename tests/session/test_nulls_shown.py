"""The schema of a view's DataFrame: no column is said to be without nulls that may hold one, and most are that are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import altneu as an
from altneu import types as T
from altneu.columnar.rows import Rows
from altneu.expressions import may_be_null, parse
from altneu.runtime.spark.versions import spark_schema
from tests.expressions import cases, values


def of_columns(nullable: bool) -> pa.Schema:
    """The columns of ``values``, all of which may be null, or none."""
    return pa.schema([f.with_nullable(nullable) for f in T.parse_schema(values.table().schema)])


@pytest.mark.parametrize("group", cases.GROUPS)
def test_what_is_said_to_be_no_null_is_none(group):
    """Over rows without nulls, as the schema says or as a plan knows: both give one answer."""
    columns = [pc.fill_null_backward(pc.fill_null_forward(column)) for column in values.table().columns]
    schema, open_ = of_columns(nullable=False), of_columns(nullable=True)
    rows = Rows.from_batch(pa.table(columns, schema=schema))
    never = frozenset(schema.names)
    for text in cases.GROUPS[group]:
        declared = parse(text, schema)
        assert may_be_null(parse(text, open_), never) == declared.nullable, text
        assert may_be_null(parse(text, open_), frozenset()) == parse(text, open_).nullable, text
        if not declared.nullable:
            result = declared.evaluate(rows)
            failed = False if result.failed is None else result.failed
            assert not (np.asarray(result.values.is_null()) & ~failed).any(), text


QUERIES = {
    "SELECT k, count(*) AS c, count(b) AS d, count(DISTINCT a) AS e, sum(a) AS s, max(a) AS m FROM t GROUP BY k": (),
    "SELECT count(*) AS c, sort_array(collect_list(a)) AS l, collect_set(b) AS s, count_if(a > 1) AS i FROM t": (),
    "SELECT a / k AS q, a % k AS m, a + k AS p, a * 2 AS t, cast(s AS int) AS i, cast(a AS bigint) AS w FROM t": "qmi",
    "SELECT row_number() OVER (PARTITION BY k ORDER BY a) AS r, lag(a) OVER (PARTITION BY k ORDER BY a) l FROM t": (),
    "SELECT a, count(*) OVER (PARTITION BY k) AS c, sum(a) OVER (PARTITION BY k) AS s FROM t": (),
    "SELECT b, percent_rank() OVER (ORDER BY a) AS p, ntile(2) OVER (ORDER BY a) AS n FROM t": (),
    "SELECT c, row_number() OVER (ORDER BY c) AS r FROM (SELECT k, count(*) AS c FROM t GROUP BY k)": (),
    "SELECT x.a, y.a AS z, y.b FROM t x LEFT JOIN t y ON x.k = y.k": (),
    "SELECT x.a, y.c AS z FROM t x LEFT JOIN (SELECT k, count(*) AS c FROM t GROUP BY k) y ON x.k = y.k": (),
    "SELECT x.a, y.c AS z FROM t x JOIN (SELECT k, count(*) AS c FROM t GROUP BY k) y ON x.k = y.k": (),
    "SELECT x.a, y.a AS z FROM t x FULL JOIN t y ON x.k = y.k": (),
    "SELECT x.a, y.a AS z FROM t x JOIN t y ON x.k = y.k": (),
    "SELECT a FROM t x WHERE EXISTS (SELECT 1 FROM t y WHERE y.k = x.a)": (),
    "SELECT DISTINCT a, b FROM t": (),
    "SELECT a, count(*) AS c FROM t GROUP BY a UNION ALL SELECT b, 1 FROM t": (),
    "SELECT a, count(*) AS c FROM t GROUP BY a UNION ALL SELECT a, b FROM t": (),
    "SELECT k, a, grouping(k) AS g, count(*) AS c FROM t GROUP BY CUBE (k, a)": (),
    "SELECT c / 2 AS h, c + 1 AS i, cast(c AS int) AS j FROM (SELECT k, count(*) AS c FROM t GROUP BY k)": "h",
    "SELECT x.k, (SELECT max(a) FROM t y WHERE y.k = x.k) AS m FROM t x": (),
    "SELECT x.k, (SELECT count(*) FROM t y WHERE y.k = x.k) AS m FROM t x": (),
    "SELECT coalesce(b, 0) AS z, if(a > 1, s, 'x') AS i, CASE WHEN a > 1 THEN a END AS n, nullif(a, 1) AS l FROM t": (),
    "SELECT upper(s) AS u, length(s) AS l, substring(s, 1, 2) AS p, sqrt(d) AS r, round(d) AS o FROM t": "ro",
    "SELECT cast(d AS decimal(10, 2)) AS n, cast('NaN' AS double) AS x FROM t": "x",
    "SELECT k, a, x FROM t LATERAL VIEW explode(array(a, k)) AS x": "x",
    "SELECT k, count(*) AS c FROM t GROUP BY k ORDER BY c LIMIT 2": (),
}
"""Each with the columns of which Spark says otherwise: of some casts, quotients and roots that they may be null."""
DDL = "k bigint not null, a int not null, b int, s string not null, d double not null"
FILLED = [(1, 2, None, "1", 2.0), (1, 3, 4, "2", float("nan")), (5, 1, None, "3", 0.5)]


@pytest.mark.parametrize("query", QUERIES)
def test_a_view_has_the_nulls_of_sparks_answer(spark, query):
    frame = spark.createDataFrame(FILLED, spark_schema(T.parse_schema(DDL)))
    frame.createOrReplaceTempView("t")
    theirs = {field.name: field.nullable for field in spark.sql(query).schema}
    with an.Session(spark, placement="driver") as session:
        session.sql(f"CREATE TABLE t ({DDL})")
        session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        session.insert("t", FILLED)
        session.advance()
        view = session.view("v")
        told = {field.name: field.nullable for field in view.df().schema}
        rows = view.df().collect()
    assert sorted(map(repr, rows)) == sorted(map(repr, spark.sql(query).collect()))
    assert not [name for name, nullable in told.items() if not nullable and any(row[name] is None for row in rows)]
    assert {name for name in told if told[name] != theirs[name]} == set(QUERIES[query])


def test_a_large_view_that_tasks_read_has_the_same_schema(spark, monkeypatch):
    monkeypatch.setattr("altneu.engine.engine.READ_ROWS", 0)
    rows = an.source("rows", "k long, a int not null")
    with an.Session(spark, placement="driver") as session:
        view = session.maintain("v", rows.group_by("k").agg(n="count(*)", least="min(a)"))
        session.insert("rows", [(1, 2), (None, 3)])
        session.advance()
        assert {f.name: f.nullable for f in view.df().schema} == {"k": True, "n": False, "least": True}
        assert sorted(view.df().collect(), key=repr) == [(1, 1, 2), (None, 1, 3)]


def test_what_is_cast_to_a_decimal_may_be_no_number(spark):
    """NaN becomes null, and a null in the list of NOT IN leaves nothing."""
    query = "SELECT k FROM t WHERE k NOT IN (SELECT cast(d AS decimal(10, 2)) FROM t)"
    frame = spark.createDataFrame(FILLED, spark_schema(T.parse_schema(DDL)))
    frame.createOrReplaceTempView("t")
    with an.Session() as session:
        session.sql(f"CREATE TABLE t ({DDL})")
        session.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
        session.insert("t", FILLED)
        session.advance()
        assert session.view("v").to_pylist() == [tuple(row) for row in spark.sql(query).collect()] == []
