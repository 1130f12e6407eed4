"""Columns of PySpark are expressions wherever altneu takes its own."""

from __future__ import annotations

import pytest

import altneu as an
from altneu.errors import PlanError, UnknownColumnError

pytest.importorskip("grpc", reason="Spark Connect's client is not installed")
from pyspark.sql.connect import functions as connect_functions
from pyspark.sql.connect.window import Window as ConnectWindow
from pyspark.sql.types import IntegerType

ORDERS = an.source("orders", "k bigint, x int, n string, tags array<string>")
ROWS = [(1, 5, "a", ["u"]), (1, 7, "b", []), (2, None, "A", None), (2, 1, None, ["v", "w"])]
IN_SQL = [
    lambda: ORDERS.filter("x > 1 AND n IS NOT NULL"),
    lambda: ORDERS.filter("k IN (2, 3)").select("k", y="x + 1"),
    lambda: ORDERS.select("k", big="CASE WHEN x > 4 THEN upper(n) ELSE 'small' END", t="CAST(x AS string)"),
    lambda: ORDERS.select("k", l="transform(tags, v -> concat(v, '!'))"),
    lambda: ORDERS.group_by("k").agg(s="sum(x)", c="count(DISTINCT n)", r="sum(x) / count(*)"),
    lambda: ORDERS.top_k(1, "x desc", per="k"),
    lambda: ORDERS.window(place="row_number() OVER (PARTITION BY k ORDER BY x)"),
]


def in_columns(F, W):
    return [
        ORDERS.filter((F.col("x") > 1) & F.col("n").isNotNull()),
        ORDERS.filter(F.col("k").isin(2, 3)).select("k", y=F.col("x") + 1),
        ORDERS.select("k", big=F.when(F.col("x") > 4, F.upper("n")).otherwise("small"), t=F.col("x").cast("string")),
        ORDERS.select("k", l=F.transform("tags", lambda v: F.concat(v, F.lit("!")))),
        ORDERS.group_by("k").agg(s=F.sum("x"), c=F.countDistinct("n"), r=F.sum("x") / F.count("*")),
        ORDERS.top_k(1, F.col("x").desc(), per="k"),
        ORDERS.window(place=F.row_number().over(W.partitionBy("k").orderBy("x"))),
    ]


def rows(collections):
    with an.Session() as session:
        views = [session.maintain(f"v{i}", c) for i, c in enumerate(collections)]
        session.insert("orders", ROWS)
        session.advance()
        return [(v.schema.names, sorted(v.to_pylist(), key=repr)) for v in views]


def test_columns_of_connect_say_what_texts_say():
    assert rows(in_columns(connect_functions, ConnectWindow)) == rows([q() for q in IN_SQL])


def test_columns_of_a_session_of_spark_say_what_texts_say(spark):
    from pyspark.sql import Window, functions

    assert rows(in_columns(functions, Window)) == rows([q() for q in IN_SQL])


def test_a_column_has_its_alias_as_its_name():
    F = connect_functions
    selected = ORDERS.select(F.col("k"), (F.col("x") + 1).alias("y"))
    assert selected.columns == ["k", "y"]


def test_what_a_column_cannot_say_is_refused():
    F = connect_functions
    with pytest.raises(UnknownColumnError, match="nosuch"):
        ORDERS.filter(F.col("nosuch") > 1)
    with pytest.raises(PlanError, match=r"the function .* an\.udf"):
        ORDERS.select(y=F.udf(lambda x: x, IntegerType())("x"))
