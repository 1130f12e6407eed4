"""``col``, ``lit`` and ``fn`` write what SQL writes."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import col, fn, lit, parse, parse_order, parse_projection

SCHEMA = T.parse_schema(
    "a int, b int, t string, xs array<int>, s struct<x:int>, m map<string,int>, `right.dst` int, at timestamp"
)


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (col("a") + 1, "a + 1"),
        (1 + col("a"), "1 + a"),
        (col("a") - col("b"), "a - b"),
        (5 - col("a"), "5 - a"),
        (col("a") * 2 + 1, "a * 2 + 1"),
        (col("a") * (col("b") + 1), "a * (b + 1)"),
        (col("a") / 2, "a / 2"),
        (2 / col("a"), "2 / a"),
        (col("a") // 2, "a div 2"),
        (col("a") % 2, "a % 2"),
        (-col("a"), "-a"),
        (col("a") == 1, "a = 1"),
        (col("a") != lit(None), "a != null"),
        (col("a") < 1, "a < 1"),
        (col("a") >= col("b"), "a >= b"),
        ((col("a") > 1) & (col("b") < 2), "a > 1 and b < 2"),
        ((col("a") > 1) | ~(col("b") < 2), "a > 1 or not (b < 2)"),
        (col("a").eq_null_safe(None), "a <=> null"),
        (col("a").isin(1, 2), "a in (1, 2)"),
        (col("a").isin([1, 2]), "a in (1, 2)"),
        (col("a").between(1, 2), "a between 1 and 2"),
        (col("a").is_null(), "a is null"),
        (col("a").is_not_null(), "a is not null"),
        (col("a").cast("string"), "cast(a as string)"),
        (col("t").try_cast("decimal(5,2)"), "try_cast(t as decimal(5,2))"),
        (col("t").like("a%"), "t like 'a%'"),
        (col("t").rlike("a+"), "t rlike 'a+'"),
        (col("t").ilike("A%"), "t ilike 'A%'"),
        (col("t").substr(1, 2), "substring(t, 1, 2)"),
        (col("t").startswith("a"), "startswith(t, 'a')"),
        (col("xs")[0], "xs[0]"),
        (col("m")["k"], "m['k']"),
        (col("s")["x"], "s.x"),
        (col("s").get_field("x"), "s.x"),
        (col("s").getField("x"), "s.x"),
        (col("s.x"), "s.x"),
        (col("right.dst"), "`right.dst`"),
        (fn.upper(col("t")), "upper(t)"),
        (fn.coalesce(col("a"), 0), "coalesce(a, 0)"),
        (lit("it's") == col("t"), "'it\\'s' = t"),
        (lit(2.5) + col("a"), "2.5D + a"),
        (lit(Decimal("1.50")) + col("a"), "1.50BD + a"),
        (lit(True), "true"),
        (lit(None), "null"),
        (lit(b"\x01"), "X'01'"),
        (lit(np.int64(7)) + col("a"), "7 + a"),
        (lit(2**40), "1099511627776"),
        (lit(dt.date(2020, 2, 29)), "date '2020-02-29'"),
        (lit(dt.datetime.fromisoformat("2020-02-29T01:00")), "timestamp_ntz '2020-02-29 01:00:00'"),
        (
            lit(dt.datetime(2020, 2, 29, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))),
            "timestamp '2020-02-29 00:00:00'",
        ),
        (col("at") + dt.timedelta(hours=2), "at + interval 2 hours"),
        (lit([1, 2]), "array(1, 2)"),
        (lit({"k": 1}), "map('k', 1)"),
        (lit(float("nan")), "cast('NaN' as double)"),
        (col("a").contains("1"), "contains(a, '1')"),
        (col("a").endswith("1"), "endswith(a, '1')"),
    ],
)
def test_columns_build_what_sql_says(built, text):
    assert parse(built, SCHEMA) == parse(text, SCHEMA)


def test_names_and_orders():
    assert parse_projection((col("a") + 1).alias("more"), SCHEMA)[0] == "more"
    assert parse_projection(col("right.dst"), SCHEMA)[0] == "dst"
    assert parse_order([col("a").desc(), col("b"), col("t").asc()], SCHEMA) == parse_order("a desc, b, t asc", SCHEMA)
    assert parse(col("a").alias("x") + 1, SCHEMA) == parse("a + 1", SCHEMA)


def test_a_column_is_no_boolean_no_iterable_and_is_not_changed():
    with pytest.raises(TypeMismatchError, match="&"):
        bool(col("a") > 1)
    with pytest.raises(TypeMismatchError, match="between"):
        assert 1 < col("a") < 3
    with pytest.raises(TypeMismatchError, match="iterable"):
        list(col("xs"))
    with pytest.raises(TypeMismatchError, match="no SQL type"):
        lit(object())
    base = col("a")
    assert parse(base + 1, SCHEMA) != parse(base + 2, SCHEMA)
    assert repr(base + 1) == "Col(a + 1)"
