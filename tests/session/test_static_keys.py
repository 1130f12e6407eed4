"""Of rows joined with what never changes, Spark hands over those that meet something, and the answers are the same."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import altneu as an
from altneu.runtime.spark import static_keys
from bench.spark_metrics import scanned
from tests.session.needed_rows_cases import SCHEMA, TESTS, rows_at_random, shown

FACTS = an.source("r", SCHEMA)
DIMENSIONS = an.source("d", "j int, m bigint, u string, e date, w bigint", static=True)
KEYS = [{"i": "j"}, {"n": "m"}, {"s": "u"}, {"d": "e"}, {"i": "j", "s": "u"}]
LOGIC = [None, "w > 0", "10 div w > 1"]


def plan_at_random(rng: random.Random) -> an.Collection:
    """A join of facts with some of the dimensions, of any kind, and logic or an aggregate behind it."""
    facts, some = FACTS, DIMENSIONS.filter(f"w != {rng.randint(0, 3)}")
    if rng.random() < 0.5:
        facts = facts.filter(rng.choice(TESTS))
    if rng.random() < 0.3:
        facts = facts.select("s", "d", "n", i="coalesce(i, 1)")
    keys = rng.choice(KEYS)
    how = rng.choice(["inner", "inner", "inner", "left", "semi", "anti"])
    if how == "semi":
        plan = facts.semijoin(some.select(**keys), on=[*keys])
    elif how == "anti":
        plan = facts.antijoin(some.select(**keys), on=[*keys])
    else:
        plan = facts.join(some, on=keys, how=how)
        logic = rng.choice(LOGIC)
        plan = plan.select("i", "n", "s", "w") if logic is None else plan.filter(logic).select("i", "n", "w")
    if rng.random() < 0.3 and "i" in plan.schema.names and "n" in plan.schema.names:
        return plan.group_by("i").agg("count(*) as c", "max(n) as m")
    return plan


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(9))
def test_the_answers_and_errors_are_those_of_all_rows(spark, tmp_path, seed):
    rng = random.Random(seed)
    facts = rows_at_random(rng, 200)
    keys = rows_at_random(rng, rng.choice([0, 2, 6])).select(["i", "n", "s", "d"]).rename_columns(["j", "m", "u", "e"])
    keys = keys.append_column("w", pa.array([rng.randint(-2, 3) for _ in range(len(keys))], pa.int64()))
    often = facts.append_column("often", pa.array([rng.choice([-1, 1, 2]) for _ in range(200)]))
    pq.write_table(often, tmp_path / "facts.parquet", row_group_size=20)
    frame = spark.read.parquet(str(tmp_path / "facts.parquet"))
    plans = [plan_at_random(rng) for _ in range(rng.choice([1, 1, 2]))]
    with an.Session() as here, an.Session(spark, placement=rng.choice(["spark", "auto"])) as there:
        views = [[session.maintain(f"v{i}", plan) for i, plan in enumerate(plans)] for session in (here, there)]
        for session, rows in ((here, facts), (there, frame.drop("often"))):
            if len(keys):
                session.insert("d", keys)
                session.advance()
            session.advance()  # of which the first with rows of the dimensions closes them
            session.insert("r", rows)
            session.advance()
        for one, other in zip(*views, strict=True):
            assert shown(one) == shown(other)
        here.insert("r", often, diff="often")
        there.insert("r", frame, diff="often")
        here.retract("r", facts)
        there.retract("r", frame.drop("often"))
        for session in (here, there):
            session.advance()
        for one, other in zip(*views, strict=True):
            assert shown(one) == shown(other)


@pytest.fixture
def star(spark, tmp_path):
    """Ten thousand sales in order of their item, and a hundred items, of which a view wants two."""
    sales = pa.table({"item": [i // 100 for i in range(10_000)], "price": [i % 7 for i in range(10_000)]})
    pq.write_table(sales, tmp_path / "sales.parquet", row_group_size=500)
    items = [(i, "red" if i in (3, 5) else "blue") for i in range(100)]
    return spark.read.parquet(str(tmp_path / "sales.parquet")), items


SALES, ITEMS = an.source("sales", "item bigint, price bigint"), an.source("items", "item bigint, colour string")
RED = SALES.join(ITEMS.filter("colour = 'red'"), on="item").group_by("colour").agg("sum(price) as total")


def load(spark, star, plans, path=None):
    """The sales, which come after the items are closed: what views show, the rows scanned, and the filter in EXPLAIN.

    With a ``path`` the store is reopened before they come.
    """
    sales, items = star
    with an.Session(spark, placement="spark", path=path) as session:
        for name, plan in plans.items():
            session.maintain(name, plan)
        session.insert("items", items)
        session.advance()
        session.close_source("items")
        if path is None:
            return _sales(spark, session, sales, plans)
    with an.Session(spark, placement="spark", path=path) as session:
        for name, plan in plans.items():
            session.maintain(name, plan)
        return _sales(spark, session, sales, plans)


def _sales(spark, session, sales, plans):
    session.insert("sales", sales)
    with scanned(spark) as found:
        session.advance()
    (said,) = (line for line in session.explain(next(iter(plans))).splitlines() if "Spark was asked for" in line)
    return {name: session.view(name).to_pylist() for name in plans}, found.rows, said.partition(" where ")[2]


@pytest.mark.parametrize("reopened", [False, True])
def test_spark_hands_over_the_rows_that_match(spark, star, tmp_path, reopened):
    """It reads the two row groups that may have items from 3 to 5."""
    shown, rows, asked = load(spark, star, {"red": RED}, tmp_path / "store" if reopened else None)
    assert shown == {"red": [("red", sum(i % 7 for i in range(10_000) if i // 100 in (3, 5)))]}
    assert (rows, asked) == (1_000, "item IN (3L, 5L)")


def test_all_rows_are_read_where_the_keys_are_too_many(spark, star, monkeypatch):
    monkeypatch.setattr(static_keys, "MOST_KEYS", 1)
    shown, rows, asked = load(spark, star, {"red": RED})
    assert shown == {"red": [("red", sum(i % 7 for i in range(10_000) if i // 100 in (3, 5)))]}
    assert (rows, asked) == (10_000, "")


def test_no_row_is_read_where_nothing_can_match(spark, star):
    green = SALES.join(ITEMS.filter("colour = 'green'"), on="item").select("item", "price")
    shown, rows, asked = load(spark, star, {"green": green})
    assert (shown, rows, asked) == ({"green": []}, 0, "false")


@pytest.mark.parametrize(
    ("other", "rows", "asked"),
    [
        (
            SALES.join(ITEMS.filter("colour = 'blue' and item > 97"), on="item").select("item"),
            1_500,
            "item IN (3L, 5L) OR item IN (98L, 99L)",
        ),
        (SALES.join(an.source("others", "item bigint"), on="item"), 10_000, ""),
        (SALES.group_by("item").agg("count(*) as n"), 10_000, ""),
    ],
    ids=["static", "open", "all"],
)
def test_what_another_view_needs_is_read(spark, star, other, rows, asked):
    """The keys of both static joins; every row where a join is with an open source, or a view reads all sales."""
    assert load(spark, star, {"red": RED, "other": other})[1:] == (rows, asked)


def test_many_values_are_shown_by_their_number(spark, star):
    blue = SALES.join(ITEMS.filter("colour = 'blue'"), on="item").select("item")
    shown, _, asked = load(spark, star, {"blue": blue})
    assert Counter(shown["blue"]) == Counter((i // 100,) for i in range(10_000) if i // 100 not in (3, 5))
    assert asked == "item IN (0L, …: 98 values)"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("tinyint", [-128, 127]),
        ("smallint", [-(2**15), 2**15 - 1]),
        ("int", [-(2**31), 2**31 - 1]),
        ("bigint", [-(2**63), 2**63 - 1]),
        ("date", [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
        ("string", ["", " a", "2.5", "é_-:/"]),
        ("string", ["'", "\\", "\\n", "${x}", "a\n"]),
    ],
)
def test_keys_of_each_type(spark, kind, values):
    """The least and the greatest, and texts that Spark's parser would take for something else."""
    left, right = an.source("l", f"k {kind}, n bigint"), an.source("r", f"k {kind}", static=True)
    rows = [(value, n) for n, value in enumerate([*values, None])]
    with an.Session(spark, placement="spark") as session:
        view = session.maintain("met", left.join(right, on="k").select("n"))
        session.insert("r", [(value,) for value in values[1:]])
        session.advance()
        session.insert("l", spark.createDataFrame(rows, f"k {kind}, n bigint"))
        session.advance()
        assert sorted(view.to_pylist()) == [(n,) for n in range(1, len(values))]
        assert "k, n where k IN (" in session.explain("met")
