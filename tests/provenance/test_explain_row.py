"""Why a row is in a view: from the input rows of an explanation alone recomputation makes the row, as often."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu import Session
from altneu.errors import HistoryGoneError, ReadError
from altneu.plan import ir
from tests.oracle import loops_cases as loops
from tests.oracle import plans as random_plans
from tests.oracle import queries
from tests.oracle import two_times_cases as timed
from tests.oracle.histories import random_history
from tests.oracle.recompute import plain, recompute
from tests.oracle.runners import table_of

ORDERS = an.source("orders", "id long, item string, price long", keep=True)
TOTALS = ORDERS.group_by("item").agg(total="sum(price)")


def rests_on(explanation):
    """The rows of each source with their counts, and the greatest time."""
    result = {}
    for source in explanation.inputs:
        rows = [tuple(map(plain, row.values())) for row in source.to_arrow().to_pylist()]
        width = len(source.times)
        counts = result.setdefault(source.source, Counter())
        for row in rows:
            counts[row[: -width - 1]] += row[-1]
    return result


def check(view, collection, sources, at=None, most=4):
    """Explain some rows of a view; how many."""
    time = view._readings.known(view.name).readable(at)[0]
    shown = Counter(tuple(map(plain, row.values())) for row in view.to_arrow(at, errors="ignore").to_pylist())
    rows = {tuple(map(plain, row)): row for row in view.to_pylist(at, errors="ignore")}
    for key in sorted(rows, key=repr)[:most]:
        explanation = view.explain_row(rows[key], at)
        assert explanation.sufficient is True
        assert explanation.count == shown[key]
        held = {name: Counter() for name in sources} | rests_on(explanation)
        result, _ = recompute(collection.node, held, time)
        assert result[key] == shown[key], explanation
    return len(rows)


def filled(session, history, sources, cases):
    for name, updates in history.items():
        some = [u for u in updates if u[0][0] in cases]
        if name in session.sources and some:
            session.insert(name, table_of(some, sources[name]), time="time", diff="diff")


def test_random_plans():
    explained = 0
    for seed in range(40):
        rng = random.Random(seed)
        times = rng.randint(2, 5)
        history = random_history(rng, random_plans.TABLES, 3, times, 6)
        plans = {str(i): random_plans.random_plan(rng, rng.randint(2, 8)) for i in range(3)}
        with Session(retain="all") as session:
            for name, plan in plans.items():
                session.maintain(name, plan)
            filled(session, history, random_plans.SOURCES, {0, 2})
            session.advance(to=times)
            for name, plan in plans.items():
                explained += check(session.view(name), plan, random_plans.SOURCES)
    assert explained > 100


QUERIES = queries.queries()
DELAYED = {n for n, q in QUERIES.items() if any(isinstance(b, ir.Linear) and b.logic.delay for b in ir.walk(q.node))}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", sorted(QUERIES))
def test_every_operator(name):
    plan = QUERIES[name]
    history = random_history(random.Random(5), queries.TABLES, 3, 3, 5)
    with Session(retain="all") as session:
        for source, collection in queries.SOURCES.items():
            session.maintain(f"keep {source}", collection)
        view = session.maintain(name, plan)
        filled(session, history, queries.SOURCES, {0, 2})
        session.advance(to=3)
        if name in DELAYED:  # recomputation would have to know what there was before
            assert all(view.explain_row(row).sufficient for row in view.to_pylist(errors="ignore")[:4])
        else:
            check(view, plan, queries.SOURCES)


@pytest.mark.parametrize("name", loops.PLANS)
def test_loops_are_followed_round_by_round(name):
    plan = loops.PLANS[name]
    history = loops.history_of(seed=7, cases=2, size=4)
    with Session(retain="all") as session:
        for source, collection in loops.SOURCES.items():
            session.maintain(f"keep {source}", collection)
        view = session.maintain(name, plan)
        filled(session, history, loops.SOURCES, {0, 4})
        session.advance(to=loops.TIMES)
        check(view, plan, loops.SOURCES, most=3)


def test_a_path_is_found_and_nothing_else():
    edges = an.source("edges", "src long, dst long", keep=True)
    roots = an.source("roots", "node long", keep=True)
    reached = roots.iterate(lambda x: x.join(edges, on={"node": "src"}).select(node="dst").concat(roots).distinct())
    with Session() as session:
        view = session.maintain("reached", reached)
        session.insert("edges", [(0, 1), (1, 2), (2, 3), (3, 0), (1, 7), (7, 8), (0, 9)])
        session.insert("roots", [0])
        session.advance()
        explanation = view.explain_row((3,))
        assert sorted(explanation.to_arrow("edges").to_pylist(), key=str) == [
            {"src": s, "dst": d, "time": 0, "diff": 1} for s, d in [(0, 1), (1, 2), (2, 3)]
        ]
        assert {s.rounds for s in explanation.supports if s.label.startswith("join")} == {(0,), (1,), (2,)}


@pytest.mark.parametrize("name", [n for n in timed.PLANS if "fail" not in n and "error" not in n and "time" not in n])
def test_two_times(name):
    plan = timed.PLANS[name]
    rng = random.Random(3)
    with Session(retain="all") as session:
        view = session.maintain(name, plan)
        for source in ("a", "b"):
            session.maintain(f"keep {source}", getattr(timed, source.upper()))
        rows = [(0, rng.randrange(3), rng.randrange(3), *rng.choices(range(4), k=2)) for _ in range(25)]
        session.insert("a", [(*r, 1) for r in rows] + [(*r, -1) for r in rows[:5]], time=("s", "e"), diff="d")
        session.insert("b", [(0, rng.randrange(3), rng.randrange(3)) for _ in range(5)])
        session.advance(to=4)
        for at in (3, 3), (2, 1), None:
            for row in sorted(view.to_pylist(at), key=repr)[:3]:
                explanation = view.explain_row(row, at)
                assert explanation.sufficient is True
                assert all(
                    t <= explanation.at[1]
                    for i in explanation.inputs
                    for t in i.updates.times[-1]
                    if len(i.updates.times) == 2
                )


def test_a_row_of_an_earlier_time_rests_on_what_there_was():
    with Session(retain="all") as session:
        view = session.maintain("totals", TOTALS)
        session.insert("orders", [(1, "tea", 3)])
        session.advance()
        session.insert("orders", [(2, "tea", 4)])
        session.advance()
        assert view.explain_row(("tea", 3), at=0).to_arrow("orders").to_pylist() == [
            {"id": 1, "item": "tea", "price": 3, "time": 0, "diff": 1}
        ]
        assert view.explain_row(("tea", 7)).to_arrow("orders").column("time").to_pylist() == [0, 1]


def test_extremes_rest_on_the_rows_that_have_them_and_winners_on_themselves():
    with Session() as session:
        most = session.maintain("most", ORDERS.group_by("item").agg(most="max(price)"))
        first = session.maintain("first", ORDERS.top_k(1, "price desc", per=["item"]))
        session.insert("orders", [(i, "tea", i) for i in range(10)])
        session.advance()
        for view in (most, first):
            assert view.explain_row({"item": "tea"}).to_arrow("orders").column("id").to_pylist() == [9]


def test_what_nothing_keeps_is_explained_as_far_as_it_is_known():
    orders = an.source("orders", "id long, item string, price long")
    with Session() as session:
        view = session.maintain("totals", orders.filter("price > 1").group_by("item").agg(total="sum(price)"))
        session.insert("orders", [(1, "tea", 3), (2, "jam", 4)])
        session.advance()
        explanation = view.explain_row(("tea", 3))
        assert explanation.sufficient is None
        assert [(i.source, i.kept, i.to_arrow().to_pylist()) for i in explanation.inputs] == [
            ("orders", False, [{"item": "tea"}])
        ]
        assert 'source orders, whose rows are not stored: rows with\n    {"item": "tea"}' in str(explanation)
        with pytest.raises(KeyError, match="was not computed from rows of a source 'else'"):
            explanation.to_arrow("else")


def test_the_row_that_was_met_as_of_its_time_is_explained():
    quotes = an.source("quotes", "item string, price long", keep=True)
    with Session(retain="all") as session:
        changes, now = ORDERS.differentiate(), quotes.delay_to_neu()
        view = session.maintain("met", changes.join(now, on="item").select("id", p="`right.price`").integrate())
        session.insert("quotes", [("tea", 5)])
        session.advance()
        session.insert("orders", [(1, "tea", 3)])
        session.advance()
        session.retract("quotes", [("tea", 5)])
        session.advance()
        explanation = view.explain_row((1, 5))
        assert explanation.sufficient is True  # the quote is gone: when it came and went tells why the row is there
        assert explanation.to_arrow("quotes").select(["time", "diff"]).to_pylist() == [
            {"time": 0, "diff": 1},
            {"time": 2, "diff": -1},
        ]


def test_a_row_that_is_absent_and_a_row_that_is_not_given():
    with Session() as session:
        view = session.maintain("orders too", ORDERS)
        session.insert("orders", [(1, "tea", 3), (2, "tea", 4)])
        session.advance()
        for row, message in {
            (1, "tea", 9): 'has no row {"id": 1, "item": "tea", "price": 9} at that time; it has {"id": 1',
            (1, "tea"): "has 3 columns",
            ("x", "tea", 3): "the row does not fit view 'orders too'",
        }.items():
            with pytest.raises(ReadError) as caught:
                view.explain_row(row)
            assert message in str(caught.value)
        with pytest.raises(ReadError, match="has 2 rows with"):
            view.explain_row({"item": "tea"})
        with pytest.raises(ReadError, match="no column 'colour'"):
            view.explain_row({"colour": 1})
        with pytest.raises(an.errors.NotYetKnownError):
            view.explain_row((1, "tea", 3), at=5)
        session.advance(to=9)
        with pytest.raises(HistoryGoneError):
            view.explain_row((1, "tea", 3), at=2)


def test_a_row_with_a_negative_count_rests_on_who_owes_it():
    with Session() as session:
        view = session.maintain("v", ORDERS.select("item", "price"))
        session.insert("orders", [(1, "tea", 3), (2, "tea", 4)])
        session.retract("orders", [(2, "tea", 4), (3, "tea", 4)])
        session.advance()
        explanation = view.explain_row(("tea", 4))
        assert (explanation.count, explanation.sufficient) == (-1, True)
        assert explanation.to_arrow("orders").to_pylist() == [
            {"id": 3, "item": "tea", "price": 4, "time": 0, "diff": -1}
        ]
        assert "is in view v at time 0, -1 times" in str(explanation)


def test_as_a_dictionary_and_from_a_reader(tmp_path):
    with Session(path=tmp_path) as session:
        view = session.maintain("totals", TOTALS)
        session.insert("orders", [(1, "tea", 3)] * 2)
        session.advance()
        answer = view.explain_row({"item": "tea"}).to_dict()
        assert answer["row"] == {"item": "tea", "total": 6}
        assert answer["inputs"] == [
            {
                "source": "orders",
                "kept": True,
                "columns": ["id", "item", "price", "time", "diff"],
                "rows": [[1, "tea", 3, 0, 2]],
            }
        ]
        assert [o["inputs"] for o in answer["operators"]][-1] == []
    with an.read(tmp_path) as reader, pytest.raises(ReadError, match="not its query"):
        reader.view("totals").explain_row(("tea", 6))


def test_on_spark(spark):
    with Session(spark, placement="spark", shards=3) as session:
        view = session.maintain("totals", TOTALS)
        session.insert("orders", [(i, f"item {i % 50}", i) for i in range(500)])
        session.advance()
        for row in view.to_pylist()[:5]:
            explanation = view.explain_row(row)
            assert explanation.sufficient is True
            assert explanation.to_arrow("orders").num_rows == 10


def test_views_that_read_the_order_of_another_are_explained():
    rows = an.source("rows", "g long, u long, v long", keep=True)
    over = "OVER (PARTITION BY g ORDER BY u)"
    plans = {
        "max": rows.group_by("g").agg(m="max(u)"),
        "several": rows.group_by("g").agg(m="median(u)", most="max(u)", n="count(*)"),
        "lag": rows.select("u", "g").window(before=f"lag(u) {over}"),
        "top": rows.select("u", "g").top_k(2, by="u", per="g"),
    }
    wanted = {"max": [3], "several": [1, 2, 3], "lag": [1, 2, 3], "top": [1, 2]}
    with an.Session(retain="all") as session:
        session.maintain("whole", rows.top_k(3, by="u", per="g"))
        views = {name: session.maintain(name, plan) for name, plan in plans.items()}
        session.insert("rows", [(1, 1, 10), (1, 2, 20), (1, 3, 30), (2, 5, 50)])
        session.advance()
        for name, view in views.items():
            assert "shared with" in session.explain(name), name
            why = view.explain_row(next(row for row in view.to_arrow().to_pylist() if row["g"] == 1))
            assert why.sufficient, name
            assert sorted(why.to_arrow("rows")["u"].to_pylist()) == wanted[name], name
