"""Every aggregate gives what Spark gives: type and value, over many types, nulls, NaN, ties and groups of nothing.

Groups are corrected before they are compared: rows come and go again, and what is left is what Spark is given.
"""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyspark
import pytest

import altneu as an
from altneu import types as T
from tests.expressions.against_spark import plain, same
from tests.interpreted import interpreted

DDL = (
    "k int, u int, i int, l bigint, y tinyint, b boolean, x double, z double, f float, d decimal(10,2), "
    "w decimal(38,10), s string, t timestamp, n timestamp_ntz, a date, v interval day to second, r array<int>, "
    "q struct<a:int,b:string>"
)
SCHEMA = T.parse_schema(DDL)
NUMBERS = ("i", "l", "y", "x", "f", "d", "w")
PAIRS = (("x", "z"), ("i", "x"), ("d", "f"), ("z", "i"), ("i", "i"))
ORDERED = (*NUMBERS, "b", "s", "t", "n", "a", "v", "r", "q")

WITH_NULLS = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)  # before, Spark reads and drops it
EXACT = [
    *(f"{f}({c}) respect nulls" for f in ("collect_set", "collect_list") for c in ORDERED if WITH_NULLS),
    *["collect_list(i) filter (where b) respect nulls"] * WITH_NULLS,
    *(f"{f}({c})" for f in ("min", "max", "collect_set") for c in ORDERED),
    *(f"mode({c}, true)" for c in ORDERED),
    *(f"{f}({c})" for f in ("bit_and", "bit_or", "bit_xor") for c in ("i", "l", "y")),
    *(f"{f}({c})" for f in ("sum", "avg", "try_sum", "try_avg") for c in ("i", "y", "d", "v")),
    *(f"{f}({c})" for f in ("try_sum", "try_avg") for c in ("l", "w")),
    *(f"count(distinct {c})" for c in ORDERED),
    *(f"approx_count_distinct({c})" for c in NUMBERS),
    *(f"median({c})" for c in (*NUMBERS, "v")),
    *(f"percentile({c}, array(0.0, 0.1, 0.5, 0.99, 1.0))" for c in (*NUMBERS, "v")),
    *(f"percentile_cont(0.3) within group (order by {c} desc)" for c in (*NUMBERS, "v")),
    *(f"percentile_disc({p}) within group (order by {c})" for c in (*NUMBERS, "v") for p in (0, 0.4, 1)),
    *(f"percentile_disc({p}) within group (order by {c} desc)" for c in ("i", "x") for p in (0, 0.3, 0.75)),
    *(f"percentile_approx({c}, array(0.0, 0.25, 0.5, 1.0))" for c in (*NUMBERS, "t", "n", "a", "v")),
    "approx_percentile(i, 0.4, 100)",
    "percentile(distinct i, 0.3)",
    "median(distinct y)",
    "percentile(s, 0.5) filter (where s rlike '^[0-9]+$')",
    "mode() within group (order by s desc)",
    *(f"max_by({c}, u)" for c in ORDERED),
    *(f"min_by({c}, u)" for c in ("i", "s", "r")),
    "max_by(i, u, 2)",
    "min_by(l, u, 3)",
    "min_by(i, i)",
    "max_by(t, if(i > 2, u, null))",
    "regr_count(x, i)",
    "listagg(i, '-') within group (order by i)",
    "listagg(distinct s, ',') within group (order by s)",
    "listagg(distinct i) within group (order by i desc)",
    "string_agg(s, ',') within group (order by i desc nulls last, s)",
    "listagg(a, null) within group (order by a)",
    "count(i, s)",
    "count_if(b)",
    "bool_and(b)",
    "bool_or(b)",
    "bit_xor(distinct i)",
    "max(x) filter (where i > 0)",
    "collect_union(r)",
    "bitmap_construct_agg(y + 128L)",
    "bitmap_or_agg(binary(s))",
    "bitmap_and_agg(binary(s))",
    "regr_avgx(d, i)",
    "regr_avgy(d, i)",
]
NEAR = [
    *(
        f"{f}({c})"
        for f in ("stddev", "stddev_pop", "std", "variance", "var_pop", "var_samp", "skewness", "kurtosis")
        for c in NUMBERS
    ),
    *(
        f"{f}({a}, {b})"
        for f in (
            "covar_pop",
            "covar_samp",
            "corr",
            "regr_slope",
            "regr_intercept",
            "regr_r2",
            "regr_sxx",
            "regr_syy",
            "regr_sxy",
            "regr_avgx",
            "regr_avgy",
        )
        for a, b in PAIRS
    ),
    "sum(x)",
    "avg(f)",
    "stddev(distinct i)",
    "corr(distinct i, l)",
    "var_pop(x) filter (where i > 0)",
]
"""What Spark rounds on the way."""


def row(rng: random.Random, k: int) -> tuple[Any, ...]:
    """A row of a group; each group has nulls, extremes and NaN of its own."""

    def some(*values: Any) -> Any:
        return None if rng.random() < (0.2, 0.0, 0.9, 1.0)[k % 4] else rng.choice(values)

    odd = (math.nan, math.inf, -math.inf) if k in (4, 6) else (math.nan,) if k == 5 else ()
    return (
        k,
        rng.randrange(10**6),
        some(1, 2, 2, 5, -9, 100),
        some(3, 7, 7, 2**40, 2**62 if k > 3 else -11),
        some(0, 1, 1, -128, 127),
        some(True, False),
        some(0.1, 1.5, 1.5, -2.25, 1e10, 3e-7, *odd),
        some(0.1, 2.5, -7.0, 8.0, *(odd if k != 5 else ())),
        some(0.5, 1.25, -3.0, *odd),
        some(Decimal("1.10"), Decimal("-3.25"), Decimal("99999999.99"), Decimal("1.10")),
        some(Decimal("1.5000000001"), Decimal(-2), *((Decimal(10) ** 27,) if k > 3 else ())),
        some("a", "", "b", "7", "12", "é"),
        some(dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)),
        some(*(dt.datetime(y, 2, 28, 12, tzinfo=dt.UTC).replace(tzinfo=None) for y in (2020, 2024))),
        some(dt.date(2020, 1, 1), dt.date(1960, 5, 5), dt.date(2024, 2, 29)),
        some(dt.timedelta(days=1), dt.timedelta(microseconds=-3), dt.timedelta(hours=5, microseconds=2)),
        some([1, 2], [1], [None, 3], []),
        some({"a": 1, "b": None}, {"a": 1, "b": "x"}, {"a": None, "b": "x"}),
    )


@pytest.fixture(scope="module")
def groups():
    """What is left in the end, and rows that come and go again."""
    rng = random.Random(7)
    left = [row(rng, k) for k in range(9) for _ in range((7, 12, 4, 3, 9, 6, 8, 1, 2)[k])]
    return left, [row(rng, k) for k in range(10) for _ in range(6)]


IN_ORDER = {
    f"{name}({column}{ignore}) within group (order by {order})": (name, column, bool(ignore), order)
    for name in ("first", "last")
    for column in ("i", "s", "r", "q")
    for ignore in ("", ", true")
    for order in ("u", "u desc", "i desc, u", "i nulls last, u")
}
"""``first`` and ``last`` of an order, which Spark does not have."""


@pytest.fixture(scope="module")
def ours(groups):
    left, passing = groups
    source = an.source("rows", SCHEMA)
    texts = {f"c{i}": text for i, text in enumerate([*EXACT, *NEAR])} | {f"any_{c}": f"any_value({c})" for c in ORDERED}
    texts |= {f"p{i}": text for i, text in enumerate(IN_ORDER)}
    with an.Session() as session:
        view = session.maintain("view", source.group_by("k").agg(**texts))
        session.insert("rows", passing + left[::2])
        session.advance()
        session.insert("rows", left[1::2])
        session.retract("rows", passing)
        session.advance()
        return view.to_arrow().sort_by("k")


@pytest.fixture(scope="module")
def theirs(spark, groups):
    """Spark's columns; Spark plans few aggregates with DISTINCT at a time."""
    rows = [dict(zip(SCHEMA.names, values, strict=True)) for values in groups[0]]
    spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA), DDL).createOrReplaceTempView("aggregated")
    texts = [*EXACT, *NEAR]
    once = [text for text in texts if "distinct " in text and not text.startswith("count")]
    many = [text for text in texts if text not in once]
    result = {}
    for part in [*(many[i : i + 60] for i in range(0, len(many), 60)), *([text] for text in once)]:
        columns = ", ".join(f"{text} AS c{texts.index(text)}" for text in part)
        frame = spark.sql(f"SELECT k, {columns} FROM aggregated GROUP BY k")
        with interpreted(spark):
            table = frame.toArrow().sort_by("k")
        for text in part:
            name = f"c{texts.index(text)}"
            kind = frame.schema[name].dataType.simpleString().replace(", ", ",")
            result[text] = kind, table.column(name).combine_chunks()
    return result


@pytest.mark.parametrize("text", [*EXACT, *NEAR])
def test_spark_gives_the_same(text, ours, theirs):
    mine = ours.column(f"c{[*EXACT, *NEAR].index(text)}").combine_chunks()
    kind, other = theirs[text]
    assert T.type_name(T.normalise_type(mine.type)) == kind
    assert len(mine) == 9
    tolerance = 1e-6 if text in NEAR else 0.0
    pairs = zip(plain(mine), plain(other), strict=True)
    wrong = [(k, m, o) for k, (m, o) in enumerate(pairs) if not _agree(text, m, o, tolerance)]
    assert not wrong


@pytest.mark.parametrize("column", ORDERED)
def test_any_value_is_one_of_them(column, ours, groups):
    at = SCHEMA.names.index(column)
    for k, value in enumerate(plain(ours.column(f"any_{column}").combine_chunks())):
        given = [r[at] for r in groups[0] if r[0] == k and r[at] is not None]
        known = plain(pa.array(given, SCHEMA.field(at).type))
        assert any(same(value, one) for one in known) if known else value is None


@pytest.mark.parametrize("text", IN_ORDER)
def test_the_first_and_the_last_of_an_order(text, ours, groups):
    name, column, ignore, order = IN_ORDER[text]
    at, i, u = (SCHEMA.names.index(c) for c in (column, "i", "u"))

    def place(one):
        far = one[i] is None
        by_i = {"i desc, u": (far, 0 if far else -one[i]), "i nulls last, u": (far, 0 if far else one[i])}.get(
            order, ()
        )
        return (*by_i, -one[u] if order == "u desc" else one[u])

    for k, value in enumerate(plain(ours.column(f"p{[*IN_ORDER].index(text)}").combine_chunks())):
        rows = sorted((r for r in groups[0] if r[0] == k and not (ignore and r[at] is None)), key=place)
        wanted = (rows[0] if name == "first" else rows[-1])[at] if rows else None
        assert same(value, wanted)


def test_nulls_are_ignored_where_that_is_said():
    texts = ["first(s) within group (order by u) ignore nulls", "first(s ignore nulls) within group (order by u)"]
    for text in (*texts, "first(s, true) within group (order by u)"):
        plan = an.source("rows", "k int, u int, s string").group_by("k").agg(text + " as x")
        with an.Session() as session:
            view = session.maintain("v", plan)
            session.insert("rows", [(1, 1, None), (1, 2, "b"), (1, 3, "c"), (2, 1, None)])
            session.advance()
            assert sorted(view.to_pylist()) == [(1, "b"), (2, None)]
            session.retract("rows", [(1, 2, "b")])
            session.advance()
            assert sorted(view.to_pylist()) == [(1, "c"), (2, None)]


def _agree(text: str, mine: Any, other: Any, tolerance: float) -> bool:
    if text.startswith("collect"):  # what Spark collects has no order
        mine, other = sorted(map(repr, mine)), sorted(map(repr, other))
    return same(mine, other, tolerance)
