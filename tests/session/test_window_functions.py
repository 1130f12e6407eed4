"""Window functions beside Spark's own, over values of all types, and what both refuse."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import altneu as an
from altneu import types as T
from altneu.errors import PlanError
from altneu.expressions import parse_window
from tests.expressions.against_spark import plain, same
from tests.interpreted import interpreted

NAN = float("nan")
ROWS = an.source(
    "t",
    "id int, g string, i int, l bigint, small tinyint, x double, y double, f float, m decimal(8,2), "
    "wide decimal(38,4), s string, d date, at timestamp, ntz timestamp_ntz, b boolean, xs array<int>",
)
BY_ID = "partition by g order by id"
FRAMES = [
    f"{BY_ID} rows between unbounded preceding and current row",
    f"{BY_ID} rows between 2 preceding and 1 following",
    f"{BY_ID} rows between 3 preceding and 2 preceding",
    f"{BY_ID} rows between current row and unbounded following",
    f"{BY_ID} desc rows 2 preceding",
    "partition by g order by i",
    "partition by g order by i desc, b range between current row and unbounded following",
    "partition by g",
]
PICKED = ["x", "s", "xs", "i"]
INEXACT = ["stddev(y)", "var_pop(y)", "corr(y, i)"]
AGGREGATES = [
    *(f"{f}({c})" for f in ("sum", "avg") for c in ("i", "l", "small", "y", "f", "m", "wide")),
    *(f"{f}({c})" for f in ("min", "max") for c in ("x", "s", "m", "d", "at", "b")),
    *INEXACT,
    *("max_by(s, id)", "try_sum(i)", "bit_xor(i)"),
    *("count(*)", "count(x)", "count(s, x)", "count_if(b)", "bool_and(b)", "some(b)", "sum(null)"),
]
PLACES = ["row_number()", "rank()", "dense_rank()", "percent_rank()", "cume_dist()", "ntile(3)", "ntile(50)"]
AWAY = [
    *(f"{f}({c}{n})" for f in ("lag", "lead") for c, n in [("x", ""), ("s", ", 2"), ("i", ", 1, -5"), ("d", ", -1")]),
    *("lag(xs, 1)", "lag(l, 1, i)", "lead(m, 2, 1.5)", "lag(s, 1, 'none') ignore nulls", "lead(x, 2) ignore nulls"),
    *("lag(i, 0) ignore nulls", "lag(i, 100)", "lag(x, 2) respect nulls", "lead(b, 1, true)"),
]
RANGES = [
    ("i", "1 preceding", "2 following"),
    ("i desc", "1 preceding", "2 following"),
    ("i", "unbounded preceding", "1 preceding"),
    ("l nulls last", "2 preceding", "current row"),
    ("small", "1 following", "3 following"),
    ("x", "1.5 preceding", "current row"),
    ("x desc", "0.5 following", "unbounded following"),
    ("m", "1.25 preceding", "1.25 following"),
    ("d", "3 preceding", "1 following"),
    ("d", "interval 1 month preceding", "current row"),
    ("at", "interval 12 hours preceding", "interval 24 hours following"),
    ("at desc", "interval 1 month preceding", "current row"),
    ("ntz", "interval 2 days preceding", "interval 1 day following"),
]


def windows() -> list[str]:
    actual = [  # all of them over every other frame, some over each
        f"{call} over ({frame})" for n, frame in enumerate(FRAMES) for call in AGGREGATES[:: 1 if n % 2 else 5]
    ]
    for frame in FRAMES[:5]:
        for c in PICKED:
            actual += [f"{call} over ({frame})" for call in (f"first_value({c})", f"last({c})", f"nth_value({c}, 2)")]
            actual += [f"{call} ignore nulls over ({frame})" for call in (f"first({c})", f"last_value({c})")]
        actual += [f"nth_value(s, 2) ignore nulls over ({frame})", f"first(s, true) over ({frame})"]
        actual += [f"any_value(x) over ({frame})", f"collect_list(s) over ({frame})"]
    for order in ("id", "x, id desc", "s desc nulls first, id"):
        actual += [f"{call} over (partition by g, b order by {order})" for call in [*PLACES, *AWAY]]
    actual += [f"{call} over (partition by g order by x)" for call in (*PLACES[1:5], "max(s)", "sum(l)")]
    for key, start, end in RANGES:
        frame = f"partition by g order by {key} range between {start} and {end}"
        actual += [f"{call} over ({frame})" for call in ("count(*)", "sum(l)", "min(s)", "avg(m)")]
    return [
        *actual,
        "i - avg(i) over (partition by g) + rank() over (order by id)",
        "median(y) over (partition by g) - percentile(i, 0.25) over (partition by b)",
        "sum(l) over () / count(*) over (partition by pmod(i, 2))",
        "case when lag(b) over (order by id) then 'yes' else s end",
        "sum(i + 1) over (partition by upper(s) order by abs(l), id rows unbounded preceding)",
    ]


def row(rng: random.Random, number: int) -> tuple[object, ...]:
    i, cents = rng.choice([None, -2, 0, 1, 1, 3, 7]), rng.choice([None, "0.00", "-1.25", "1.25", "2.50", "99.99"])
    day = rng.choice([None, *range(0, 70, 9)])
    moment = None if day is None else datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=day // 5, hours=day)
    return (
        number,
        rng.choice(["a", "b", "c", None]),
        i,
        None if i is None else i * 10**12,
        rng.choice([None, -100, 0, 1, 2, 100]),
        rng.choice([None, NAN, float("inf"), float("-inf"), -0.5, 0.0, 1.0, 2.5]),
        rng.choice([None, 0.25, -1.5, 8.0]),
        rng.choice([None, 0.5, -2.0]),
        cents and Decimal(cents),
        cents and Decimal(cents) * 10**20,
        rng.choice([None, "", "x", "yy", "z"]),
        None if day is None else date(2024, 1, 1) + timedelta(days=day),
        moment,
        moment and moment.replace(tzinfo=None),
        rng.choice([None, True, False]),
        rng.choice([None, [], [1, None], [2]]),
    )


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = random.Random(7)
    rows = [row(rng, n) for n in range(40)]
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, ROWS.schema, strict=True)], schema=ROWS.schema)


@pytest.mark.spark
def test_spark_gives_the_same(spark, table):
    texts = windows()
    named = {f"w{n}": text for n, text in enumerate(texts)}
    with an.Session() as session:
        view = session.maintain("w", ROWS.window(**named))
        half = len(table) // 2
        session.insert("t", table.slice(half))
        session.insert("t", table.slice(0, 5))
        session.advance()
        session.retract("t", table.slice(0, 5))
        session.insert("t", table.slice(0, half))
        session.advance()
        mine = view.to_arrow().sort_by("id")
    actual = spark.createDataFrame(table).repartition(1).selectExpr("id", *(f"{t} as {n}" for n, t in named.items()))
    kinds = {f.name: f.dataType.simpleString().replace(", ", ",") for f in actual.schema}
    with interpreted(spark):
        theirs = actual.toArrow().sort_by("id")
    wrong = []
    for name, text in named.items():
        if kinds[name] != T.type_name(mine.schema.field(name).type):
            wrong.append(f"{text}: Spark's type is {kinds[name]}, ours {T.type_name(mine.schema.field(name).type)}")
        near = 1e-12 if text.startswith(tuple(INEXACT)) else 0.0
        pairs = zip(*(plain(t.column(name).combine_chunks()) for t in (mine, theirs)), strict=True)
        wrong += [
            f"{text} at {n}: Spark {b!r}, altneu {a!r}" for n, (a, b) in enumerate(pairs) if not same(a, b, near)
        ][:2]
    assert not wrong, "\n".join(wrong)


REFUSED = [
    "row_number() over (partition by g)",
    "lag(i) over ()",
    "nth_value(i, 2) over (partition by g)",
    "rank() over (order by i rows between 1 preceding and current row)",
    "lag(i) over (order by i rows between 1 preceding and current row)",
    "lag(i, l) over (order by i)",
    "lag(i, 1, b) over (order by i)",
    "ntile(0) over (order by i)",
    "ntile(i) over (order by i)",
    "nth_value(i, 0) over (order by i)",
    "sum(i) over (order by i rows between 2 following and 1 following)",
    "sum(i) over (order by i rows between unbounded following and current row)",
    "sum(i) over (order by i rows between current row and unbounded preceding)",
    "sum(i) over (order by i rows between 1.5 preceding and current row)",
    "sum(i) over (order by i rows between i preceding and current row)",
    "sum(i) over (order by i, l range between 1 preceding and current row)",
    "sum(i) over (order by s range between 1 preceding and current row)",
    "sum(i) over (order by at range between 1 preceding and current row)",
    "sum(i) over (partition by g range between unbounded preceding and current row)",
    "sum(i) over (partition by g range between 1 preceding and current row)",
    "sum(i) ignore nulls over (order by i)",
    "rank() ignore nulls over (order by i)",
    "abs(i) over (order by i)",
    "sum(s, i) over (order by i)",
    "first(i, b) over (order by i)",
    "sum(i) over nowhere",
    "sum(i) over (partition by map(s, i))",
    "rank(i, l) filter (where b) over (order by i)",
    "rank() over (order by i) over (order by i)",
]


@pytest.mark.spark
@pytest.mark.parametrize("text", REFUSED)
def test_both_refuse(spark, table, text):
    with pytest.raises(PlanError):
        parse_window(text, ROWS.schema)
    with pytest.raises(AnalysisException):
        spark.createDataFrame(table.slice(0, 0)).selectExpr(text).schema  # noqa: B018 -- analysed when it is asked for


def test_a_verb_without_a_window_is_refused():
    with pytest.raises(PlanError, match="contains no window function"):
        ROWS.window(n="i + 1")
    with pytest.raises(PlanError, match="at least one column"):
        ROWS.window()
    with pytest.raises(PlanError, match="two columns are called 'i'"):
        ROWS.window(i="rank() over (order by l)")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("first(v) WITHIN GROUP (ORDER BY v DESC) OVER (PARTITION BY g)", [3, 3, 3]),
        ("first(v) WITHIN GROUP (ORDER BY v DESC) OVER (PARTITION BY g ORDER BY v)", [1, 2, 3]),
        ("last(v, true) WITHIN GROUP (ORDER BY v DESC, g) OVER (PARTITION BY g)", [1, 1, 1]),
        ("last(v) OVER (PARTITION BY g ORDER BY v)", [1, 2, 3]),
    ],
)
def test_the_first_of_an_order_is_of_that_order_and_not_of_the_windows(call, expected):
    rows = an.source("rows", "g int, v int")
    with an.Session() as session:
        view = session.maintain("view", rows.window(result=call))
        session.insert("rows", [(1, 2), (1, 1)])
        session.advance()
        session.insert("rows", [(1, 3)])
        session.advance()
        assert [result for _, _, result in sorted(view.to_pylist())] == expected


@pytest.mark.parametrize("call", ["rank()", "lag(v)", "nth_value(v, 2)", "any_value(v)"])
def test_within_group_is_refused_where_the_order_is_that_of_the_window(call):
    with pytest.raises(PlanError, match="WITHIN GROUP"):
        an.source("rows", "g int, v int").window(result=f"{call} WITHIN GROUP (ORDER BY v) OVER (ORDER BY v)")
