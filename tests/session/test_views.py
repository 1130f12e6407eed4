"""Views that come late, share, are dropped, are refused, and are explained."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu.engine import planning
from altneu.errors import HydrationError, PlanError, SchemaError, UnboundedCostError, UnknownTableError
from altneu.plan.rewrite import NEWER, optimise
from tests.oracle.histories import accumulated
from tests.oracle.operators_cases import HISTORY, TIMES
from tests.oracle.queries import SOURCES, queries
from tests.oracle.recompute import recompute
from tests.oracle.runners import contents_of, observe, table_of, unlike

ORDERS = an.source("orders", "item string, price long")
KEPT = an.source("orders", "item string, price long", keep=True)
TOTAL = ORDERS.group_by("item").agg(total="sum(price)")
PLANS = queries()


@pytest.fixture
def session():
    with an.Session() as session:
        yield session


def fill(session, rows=(("tea", 3), ("tea", 4), ("jam", 5))):
    session.insert("orders", list(rows))
    session.advance()


# late -----------------------------------------------------------------------------------------------------------------


def test_a_late_view_reads_what_a_kept_source_kept(session):
    session.maintain("any", KEPT.filter("price > 100"))
    fill(session)
    late = session.maintain("late", KEPT.group_by("item").agg(n="count(*)"))
    assert sorted(late.to_pylist()) == [("jam", 1), ("tea", 2)]
    fill(session, [("jam", 1)])
    assert sorted(late.to_pylist()) == [("jam", 2), ("tea", 2)]


def test_a_late_view_reads_what_another_view_keeps(session):
    session.maintain("all", ORDERS)
    fill(session)
    late = session.maintain("total", TOTAL)
    assert sorted(late.to_pylist()) == [("jam", 5), ("tea", 7)]


def test_a_late_view_takes_over_an_arrangement_of_the_same_collection(session):
    session.maintain("total", TOTAL)
    fill(session)
    before = session.advance().state_rows
    session.maintain("rich", ORDERS.group_by("item").agg(total="sum(price)").filter("total > 5"))
    assert session.view("rich").to_pylist() == [("tea", 7)]
    assert session.advance().state_rows == before + 1


def test_rows_that_nothing_keeps_cannot_be_had_late(session):
    session.maintain("total", TOTAL)
    fill(session)
    with pytest.raises(HydrationError, match=r"'late' needs the rows of source 'orders' .* keep=True"):
        session.maintain("late", ORDERS.distinct())
    assert session.views == ["total"]
    fill(session, [("jam", 1)])
    assert sorted(session.view("total").to_pylist()) == [("jam", 6), ("tea", 7)]
    session.maintain("late", TOTAL.filter("total > 6"))
    assert session.view("late").to_pylist() == [("tea", 7)]


def test_a_source_that_never_had_rows_may_be_read_late(session):
    session.maintain("total", TOTAL)
    fill(session)
    other = an.source("other", "x long")
    late = session.maintain("late", other.group_by().agg(n="count(*)"))
    assert late.to_pylist() == [(0,)]
    session.insert("other", [1, 2])
    session.advance()
    assert late.to_pylist() == [(2,)]


def test_future_rows_reach_a_late_view_too(session):
    session.maintain("all", KEPT)
    session.insert("orders", [("tea", 1)], time=5)
    session.advance()
    late = session.maintain("total", KEPT.group_by("item").agg(total="sum(price)"))
    session.insert("orders", [("tea", 2)], time=5)
    assert late.to_pylist() == []
    session.advance(to=6)
    assert late.to_pylist() == [("tea", 3)]


def test_a_late_view_with_a_delay_counts_what_came_before_since_as_of_then_at_the_latest():
    """Which rows it lacks depends on what has been merged; never one too many, and none a delay after since."""
    lacking = set()
    for steps in range(12, 18):
        with an.Session() as session:
            session.maintain("all", KEPT)
            for time in range(steps):
                fill(session, [("tea", time)])
            late = session.maintain("late", KEPT.delay(by=5).select("price"))
            assert late.since == steps - 1
            for now in range(steps - 1, steps + 5):
                actual = {price for (price,) in late.to_pylist()}
                due = {price for price in range(steps) if price + 5 <= now}
                assert actual <= due
                lacking |= due - actual
                session.advance()
            assert actual == due == set(range(steps))
    assert lacking


def test_rows_inserted_before_a_late_view_and_not_yet_advanced_reach_it_once(session):
    session.maintain("all", KEPT)
    session.insert("orders", [("tea", 1)])
    late = session.maintain("total", KEPT.group_by("item").agg(total="sum(price)"))
    session.advance()
    assert late.to_pylist() == [("tea", 1)]


@pytest.mark.parametrize("name", PLANS)
def test_any_view_maintained_late_says_what_it_would_have_said(name):
    """Half way through the history, from kept sources; then it is kept right like any other."""
    with an.Session(shards=random.Random(name).choice([1, 3])) as session:
        for source, collection in SOURCES.items():
            session.maintain(f"all of {source}", collection)
        for upper in (2, 4):
            for source, collection in SOURCES.items():
                part = [u for u in HISTORY[source] if upper - 2 <= u[1] < upper]
                session.insert(source, table_of(part, collection), time="time", diff="diff")
            session.advance(to=upper)
        view = session.maintain(name, PLANS[name])
        check(name, view, 3)
        for source, collection in SOURCES.items():
            part = [u for u in HISTORY[source] if 4 <= u[1] < TIMES]
            session.insert(source, table_of(part, collection), time="time", diff="diff")
        session.advance(to=TIMES)
        check(name, view, TIMES - 1)


def held_at(time):
    return {source: accumulated(updates, time) for source, updates in HISTORY.items()}


def check(name, view, time):
    wanted, errors = recompute(optimise(PLANS[name].node), held_at(time), time, held_at)
    assert unlike(contents_of(view), Counter({row: n for row, n in wanted.items() if n > 0})) == {}
    if all(n > 0 for n in wanted.values()):
        assert observe(view, 0, 0).errors == errors


# shared ---------------------------------------------------------------------------------------------------------------


def test_the_same_view_twice_costs_nothing(session):
    session.maintain("one", TOTAL)
    fill(session)
    rows = session.advance().state_rows
    again = session.maintain("two", ORDERS.group_by("item").agg(total="sum(price)"))
    assert sorted(again.to_pylist()) == [("jam", 5), ("tea", 7)]
    assert session.advance().state_rows == rows


def test_operators_share_arrangements_of_one_collection_and_key(session):
    """Four joins on the same key of the same rows keep one arrangement of them; others keep their own."""
    edges = an.source("edges", "src long, dst long")
    plans = {
        "there": edges.join(edges, on={"dst": "src"}),
        "three": edges.join(edges, on={"dst": "src"}).select("src", dst="`right.dst`").join(edges, on={"dst": "src"}),
    }
    for name, plan in plans.items():
        session.maintain(name, plan)
    arranged = [n for n in session._engine.plan.nodes if n.logical == edges.node.fingerprint and "arrange" in n.label]
    assert sorted(n.label for n in arranged) == ["arrange by dst", "arrange by src"]


def test_the_same_name_for_the_same_plan_is_the_same_view(session):
    one = session.maintain("total", TOTAL)
    two = session.maintain("total", ORDERS.group_by("item").agg(total="sum(price)"))
    fill(session)
    assert sorted(one.to_pylist()) == sorted(two.to_pylist()) == [("jam", 5), ("tea", 7)]
    with pytest.raises(PlanError, match="maintains another collection as 'total'"):
        session.maintain("total", ORDERS.distinct())


def test_a_source_is_declared_one_way(session):
    session.maintain("total", TOTAL)
    with pytest.raises(PlanError, match="source 'orders' is declared twice, with different columns"):
        session.maintain("v", an.source("orders", "item string, price int"))
    with pytest.raises(PlanError, match="source 'orders' is declared twice"):
        session.maintain("v", TOTAL.join(an.source("orders", "item string"), on="item"))
    assert session.views == ["total"]


# dropped --------------------------------------------------------------------------------------------------------------


def test_dropping_a_view_lets_go_of_what_only_it_needs(session):
    session.maintain("total", TOTAL)
    fill(session)
    alone = session.advance().state_rows
    session.maintain("most", TOTAL.group_by().agg(most="max(total)"))
    assert session.advance().state_rows > alone
    session.drop("most")
    assert session.views == ["total"]
    assert session.advance().state_rows == alone
    with pytest.raises(PlanError, match="no view 'most'; the views are: total"):
        session.drop("most")
    fill(session, [("jam", 1)])
    assert sorted(session.view("total").to_pylist()) == [("jam", 6), ("tea", 7)]


def test_a_view_that_others_stand_on_may_go_first(session):
    session.maintain("total", TOTAL)
    fill(session)
    most = session.maintain("most", TOTAL.group_by().agg(most="max(total)"))
    session.drop("total")
    fill(session, [("jam", 10)])
    assert most.to_pylist() == [(15,)]


def test_dropped_state_is_not_taken_up_again(session):
    session.maintain("total", TOTAL)
    fill(session)
    session.drop("total")
    with pytest.raises(HydrationError):
        session.maintain("total", TOTAL)


# explained and refused ------------------------------------------------------------------------------------------------


def test_explain_says_keys_exchanges_state_and_what_bounds_the_cost(session):
    flights = an.source("flights", "carrier string, delay long, origin string")
    names = an.source("names", "carrier string, name string")
    plan = (
        flights.filter("delay > 0")
        .join(names, on="carrier")
        .group_by("name")
        .agg(n="count(*)", delays="collect_list(delay)")
    )
    session.maintain("late", plan)
    session.insert("flights", [("UA", 5, "JFK")])
    session.advance()
    text = session.explain("late")
    for part in (
        "view late",
        "join on carrier",
        "key: carrier",
        "exchange: carrier",
        "linear filter delay > ",
        "[general]",
        "cost per step: rows of the groups touched (bounded)",
        "cost per step: |change| log n (incremental)",
        "arrangement (carrier, delay), 1 updates",
        "source flights",
        "bounded by the groups touched",
    ):
        assert part in text, text
    session.maintain("sums", names.group_by("carrier").agg(n="count(*)"))
    assert "[accumulable]" in session.explain("sums")
    assert "bounded by the change (incremental)" in session.explain("sums")


def test_explain_says_which_views_share_an_arrangement(session):
    edges = an.source("edges", "src long, dst long")
    two = edges.join(edges, on={"dst": "src"})
    session.maintain("hops", two.select("src", far="right.dst"))
    assert "shared with" not in session.explain("hops")
    session.maintain("counts", two.group_by("src").agg(n="count(*)"))
    assert "arrangement (src, dst), 0 updates, shared with hops" in session.explain("counts")
    session.drop("counts")
    assert "shared with" not in session.explain("hops")
    with pytest.raises(PlanError, match="no view"):
        session.explain("nothing")


def test_strict_refuses_what_re_reads_everything(session):
    every = ORDERS.group_by().agg(m="collect_list(price)")
    with pytest.raises(UnboundedCostError, match=r"'all of them'.*re-reads all rows on every change.*per group"):
        session.maintain("all of them", every, strict=True)
    assert session.views == []
    session.maintain("all of them", every)
    session.maintain("top", ORDERS.top_k(10, "price"), strict=True)
    session.maintain("greatest", ORDERS.group_by().agg(m="max(price)"), strict=True)
    session.maintain("per item", ORDERS.top_k(10, "price", per="item"), strict=True)
    session.maintain("total", ORDERS.group_by().agg(total="sum(price)"), strict=True)
    session.maintain("join", ORDERS.join(ORDERS.distinct(), on="item"), strict=True)
    fill(session)
    assert session.view("total").to_pylist() == [(12,)]


def test_names_of_columns_are_checked_when_the_plan_is_built():
    with pytest.raises(SchemaError, match="two columns"):
        ORDERS.select("item", item="price")


@pytest.mark.parametrize(
    ("how", "rows"),
    [
        ("inner", [(1, 1, 1, 7, 9)]),
        ("left", [(1, 1, 1, 7, 9), (1, 2, None, None, None)]),
        ("right", [(1, 1, 1, 7, 9), (None, None, 3, 4, 5)]),
        ("full", [(1, 1, 1, 7, 9), (1, 2, None, None, None), (None, None, 3, 4, 5)]),
    ],
)
def test_two_columns_may_be_compared_with_one(session, how, rows):
    left, right = an.source("pairs", "p long, q long"), an.source("singles", "v long, w long, u long")
    on = {"p": "v", "q": "v"}
    view = session.maintain("joined", left.join(right, on, how))
    session.maintain("there", left.semijoin(right, on)), session.maintain("not there", left.antijoin(right, on))
    session.insert("pairs", [(1, 1), (1, 2)])
    session.insert("singles", [(1, 7, 9), (3, 4, 5)])
    session.advance()
    assert Counter(view.to_pylist()) == Counter(rows)
    assert (session.view("there").to_pylist(), session.view("not there").to_pylist()) == ([(1, 1)], [(1, 2)])


def test_a_name_from_spark_is_answered_with_the_verb_it_has_here():
    with pytest.raises(AttributeError, match=r"what Spark calls groupBy is group_by\(...\) here"):
        ORDERS.groupBy("item")
    with pytest.raises(AttributeError, match=r"a collection has no 'itme'$"):
        _ = ORDERS.itme
    with pytest.raises(
        AttributeError, match=r'no \'price\'; a column is named in expressions, .* or F.col\("price"\)$'
    ):
        _ = ORDERS.price
    with pytest.raises(TypeError, match="a column is named in expressions"):
        _ = ORDERS["price"]
    assert not hasattr(ORDERS, "__arrow_c_stream__")


def test_a_name_from_elsewhere_is_answered_with_what_there_is_here():
    with an.Session() as session:
        view, result = session.maintain("v", ORDERS), session.sql("SELECT 1")
        for value, name, told in (
            (session, "stop", "a session has no 'stop'; use close()"),
            (session, "upsert", r"use insert_or_update\(name, rows\)"),
            (view, "toPandas", r"a view has no 'toPandas'; use to_arrow\(\).to_pandas\(\)"),
            (result, "show", r"a statement has no 'show'; use print\(result\)"),
            (ORDERS.group_by("item"), "count", r'use agg\(count="count\(\*\)"\)'),
            (session, "insret", "a session has no 'insret'$"),
        ):
            with pytest.raises(AttributeError, match=told):
                getattr(value, name)


def test_what_is_no_collection_or_view_is_told_of_where_it_is_given():
    with an.Session() as session:
        for given in (session.peek, lambda query: session.maintain("v", query)):
            with pytest.raises(PlanError, match=r"maintain and peek need a collection, .* session.sql"):
                given("SELECT 1")
        with pytest.raises(PlanError, match="explain needs the name of a view, got Collection"):
            session.explain(ORDERS)


def test_a_view_of_the_store_whose_query_is_not_here_is_told_of_as_such(tmp_path):
    with an.Session(path=tmp_path / "state") as session:
        session.maintain("v", ORDERS)
    told = r"The store has view 'v', but not its query: session.maintain\('v'"
    with an.Session(path=tmp_path / "state") as session, pytest.raises(UnknownTableError, match=told):
        session.sql("SELECT * FROM v")


SALES = an.source("sales", "item string, day long, price long")
KEEPERS = {
    "sums": SALES.group_by("item", "day").agg(total="sum(price)", n="count(*)"),
    "as of": SALES.asof_join(SALES.select("item", "day", p="price"), "item", time="day", mode="revising"),
    "changes": SALES.differentiate().integrate().filter("price > 1"),
    "joined": SALES.join(SALES.group_by("item").agg(most="max(price)"), on="item").filter("price < most"),
}
UPON = {
    "a filter": lambda c: c.filter("item = 'tea'"),
    "a column": lambda c: c.select("item"),
    "groups": lambda c: c.group_by("item").agg(n="count(*)", last="max(day)"),
    "both": lambda c: c.filter("day > 1").join(c.group_by("item").agg(last="max(day)"), on="item"),
}


@pytest.mark.parametrize("upon", UPON)
@pytest.mark.parametrize("keeper", KEEPERS)
def test_a_late_view_upon_a_view_needs_no_rows_of_sources(keeper, upon, tmp_path):
    base, late = KEEPERS[keeper], UPON[upon](KEEPERS[keeper])
    first = [("tea", 1, 3), ("tea", 2, 4), ("jam", 1, 5), ("jam", 3, 2)]
    then = [("tea", 3, 9), ("ham", 2, 2), ("ham", 4, 3)]
    with an.Session() as session:
        wanted = session.maintain("early", late)
        session.insert("sales", first)
        session.advance()
        before = sorted(wanted.to_pylist())
        session.insert("sales", then)
        session.retract("sales", first[1:2])
        session.advance()
        after = sorted(wanted.to_pylist())
    with an.Session(path=tmp_path) as session:
        session.maintain("base", base)
        session.insert("sales", first)
        session.advance()
        assert sorted(session.maintain("late", late).to_pylist()) == before
    with an.Session(path=tmp_path) as session:
        session.maintain("base", base)
        view = session.maintain("late", late)
        assert sorted(view.to_pylist()) == before
        session.insert("sales", then)
        session.retract("sales", first[1:2])
        session.advance()
        assert sorted(view.to_pylist()) == after


def test_a_view_that_was_dropped_says_so():
    with an.Session() as session:
        view = session.maintain("v", an.source("s", "k long"))
        session.drop("v")
        for ask in (view.to_arrow, view.changes, view.errors):
            with pytest.raises(PlanError, match="no view 'v'"):
                ask()


def test_a_view_of_a_store_from_before_a_rule_keeps_the_plan_it_had(tmp_path, monkeypatch):
    """Three tables united: two distincts, of which the inner one is superfluous now."""
    others = [an.source(name, "item string, price long") for name in ("b", "c")]
    united = ORDERS.concat(others[0]).distinct().concat(others[1]).distinct()
    older = optimise(united.node, NEWER[-1])
    assert older.fingerprint != optimise(united.node).fingerprint
    with monkeypatch.context() as patch, an.Session(path=tmp_path) as session:
        patch.setattr(planning, "optimise", lambda node, _=(): optimise(node, NEWER[-1]))
        session.maintain("united", united)
        fill(session)
    with an.Session(path=tmp_path) as session:
        view = session.maintain("united", united)
        assert view._readings.catalogue.nodes["united"].fingerprint == older.fingerprint
        session.insert("c", [("tea", 3), ("rum", 9)])
        session.retract("orders", [("tea", 3)])
        session.advance()
        assert sorted(view.to_pylist()) == [("jam", 5), ("rum", 9), ("tea", 3), ("tea", 4)]


def test_a_view_of_a_store_from_before_groups_were_in_order_keeps_its_state(tmp_path, monkeypatch):
    """A view beside it that is added now has its groups in order."""
    with monkeypatch.context() as patch, an.Session(path=tmp_path) as session:
        patch.setattr(planning, "optimise", lambda node, more=(): optimise(node, (*NEWER[3], *more)))
        session.maintain("first", ORDERS.top_k(1, "price desc", per="item"))
        fill(session)
    with an.Session(path=tmp_path) as session:
        view = session.maintain("first", ORDERS.top_k(1, "price desc", per="item"))
        assert "in order of" not in session.explain("first")
        session.insert("orders", [("tea", 300), ("tea", 200)])
        session.advance()
        assert ("tea", 300) in view.to_pylist()
        two = session.maintain("two", ORDERS.top_k(2, "price desc", per="item"))
        assert "in order of price desc" in session.explain("two")
        assert {("tea", 300), ("tea", 200)} <= set(two.to_pylist())
        session.insert("orders", [("tea", 300)], diff=-1)
        session.advance()
        assert ("tea", 200) in view.to_pylist()
        assert ("tea", 300) not in two.to_pylist()


def test_a_view_of_a_store_from_before_windows_were_split_reads_its_groups(tmp_path, monkeypatch):
    """One that is added now is computed one order after the other, and shows the same."""
    windows = ORDERS.window(
        was="lag(price) over (partition by item order by price)", next="lag(price) over (order by item, price desc)"
    ).window(
        less="lag(was) over (partition by item order by price)",
        more="lead(next) over (partition by item order by next, price)",
    )
    with monkeypatch.context() as patch, an.Session(path=tmp_path) as session:
        patch.setattr(planning, "optimise", lambda node, more=(): optimise(node, (*NEWER[1], *more)))
        session.maintain("first", windows)
        fill(session)
    with an.Session(path=tmp_path) as session:
        first, second = session.maintain("first", windows), session.maintain("second", windows)
        assert "lag(was) by price, lead(next) by next, price" in str(session.explain("first"))
        assert "copy_number() by" in str(session.explain("second"))
        for rows, diff in (([("tea", 3), ("tea", 3), ("rum", 1)], 1), ([("tea", 4)], -1), ([("tea", 3)], -1)):
            session.insert("orders", rows, diff=diff)
            session.advance()
            assert sorted(map(repr, first.to_pylist())) == sorted(map(repr, second.to_pylist()))


def test_a_view_of_a_store_from_before_rows_were_picked_keeps_its_structs(tmp_path, monkeypatch):
    """One that is added now keeps their fields, and shows the same."""
    kept = an.source("orders", "item string, price long", keep=True)
    grouped = kept.select("item", "price", rest="price % 3").group_by("rest")
    dearest, both = grouped.agg(best="max_by(item, price)"), grouped.agg(best="max_by(item, price)", most="max(price)")
    with monkeypatch.context() as patch, an.Session(path=tmp_path) as session:
        patch.setattr(planning, "optimise", lambda node, more=(): optimise(node, (*NEWER[0], *more)))
        session.maintain("first", dearest)
        fill(session)
    with an.Session(path=tmp_path) as session:
        first = session.maintain("first", dearest)
        second = session.maintain("second", both)
        assert "named_struct" in str(session.explain("first"))
        assert "named_struct" not in str(session.explain("second"))
        for rows, diff in (([("tea", 30), ("tea", 30), ("rum", 1)], 1), ([("tea", 30)], -1), ([("tea", 30)], -1)):
            session.insert("orders", rows, diff=diff)
            session.advance()
            assert sorted(first.to_pylist()) == sorted(row[:2] for row in second.to_pylist())
