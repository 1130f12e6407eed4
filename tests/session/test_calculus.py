"""What differentiate and integrate mean to a session: late views, state, sharing, errors, refusals."""

from __future__ import annotations

from collections import Counter

import pytest

import altneu as an
from altneu import Session
from altneu.errors import HydrationError, PlanError, TimeRangeError, ViewHasErrorsError
from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.join.operation import JoinOp
from altneu.order import alt, neu
from altneu.testing import assert_changes

ORDERS = an.source("orders", "id long, item string")
PRICES = an.source("prices", "item string, price long")
KEPT_ORDERS = an.source("orders", "id long, item string", keep=True)
KEPT_PRICES = an.source("prices", "item string, price long", keep=True)
PAID = ORDERS.differentiate().join(PRICES, on="item").integrate()


def price(session, new, old=None):
    if old is not None:
        session.retract("prices", [("tea", old)])
    session.insert("prices", [("tea", new)])


def test_a_retracted_order_is_retracted_at_the_price_of_that_moment():
    with Session() as session:
        view = session.maintain("paid", PAID)
        price(session, 5)
        session.insert("orders", [(1, "tea")])
        session.advance()
        price(session, 6, 5)
        session.advance()
        assert view.to_pylist() == [(1, "tea", 5)]
        session.retract("orders", [(1, "tea")])
        session.advance()
        assert_changes(view, "id | item | price | time | diff\n1 | tea | 6 | 2 | -1")
        assert view.to_pylist(errors="ignore") == [(1, "tea", 5)]
        with pytest.raises(ViewHasErrorsError, match="NEGATIVE_MULTIPLICITY"):
            view.to_pylist()


@pytest.mark.parametrize(("prices", "met"), [(PRICES, 6), (PRICES.delay_to_neu(), 5)])
def test_what_happens_at_the_same_time_is_in_or_out(prices, met):
    with Session() as session:
        view = session.maintain("paid", ORDERS.differentiate().join(prices, on="item").integrate())
        price(session, 5)
        session.advance()
        price(session, 6, 5)
        session.insert("orders", [(1, "tea")])
        session.advance()
        assert view.to_pylist() == [(1, "tea", met)]


def later(session, orders, prices):
    """A view of orders at 5 and 6, added when the price is 7."""
    price(session, 5)
    session.insert("orders", [(1, "tea")])
    session.advance()
    price(session, 6, 5)
    session.insert("orders", [(2, "tea")])
    session.advance()
    price(session, 7, 6)
    session.advance()
    view = session.maintain("late", orders.differentiate().join(prices, on="item").select("id", "price").integrate())
    start = sorted(view.to_pylist())
    session.insert("orders", [(3, "tea")])
    price(session, 8, 7)
    session.advance()
    price(session, 9, 8)
    session.advance()
    assert sorted(view.to_pylist()) == [*start, (3, 8)]
    return start


@pytest.mark.parametrize("path", [False, True])
@pytest.mark.parametrize("other", [None, "paid", "count"])
def test_a_late_view_starts_from_the_present(tmp_path, path, other):
    """Whatever other views there are: blips that one of them keeps, folded or not, are not what has come."""
    with Session(path=tmp_path / "state" if path else None) as session:
        session.maintain("orders", KEPT_ORDERS)
        session.maintain("prices", KEPT_PRICES)
        blips = KEPT_ORDERS.differentiate()
        if other == "paid":
            session.maintain("paid", blips.join(KEPT_PRICES, on="item").integrate())
        if other == "count":
            session.maintain("count", blips.group_by("item").agg(n="count(*)").integrate())
        assert later(session, KEPT_ORDERS, KEPT_PRICES) == [(1, 7), (2, 7)]


def test_a_late_view_on_spark_starts_from_the_present(spark):
    with Session(spark, placement="spark", shards=2) as session:
        session.maintain("orders", KEPT_ORDERS)
        session.maintain("prices", KEPT_PRICES)
        session.maintain("paid", KEPT_ORDERS.differentiate().join(KEPT_PRICES, on="item").integrate())
        assert later(session, KEPT_ORDERS, KEPT_PRICES) == [(1, 7), (2, 7)]


def test_a_late_view_of_all_that_was_retained_is_as_if_it_had_been_there():
    with Session(retain="all") as session:
        session.maintain("orders", KEPT_ORDERS)
        session.maintain("prices", KEPT_PRICES)
        assert later(session, KEPT_ORDERS, KEPT_PRICES) == [(1, 5), (2, 6)]


def test_a_late_view_of_what_another_has_integrated_has_what_that_has():
    with Session() as session:
        session.maintain("paid", PAID)
        price(session, 5)
        session.insert("orders", [(1, "tea")])
        session.advance()
        price(session, 6, 5)
        session.advance()
        counts = session.maintain("counts", PAID.count("n"))
        assert counts.to_pylist() == [(1, "tea", 5, 1)]


def test_a_late_view_needs_the_rows_and_not_their_moments():
    with Session() as session:
        session.maintain("paid", PAID)
        price(session, 5)
        session.insert("orders", [(1, "tea")])
        session.advance()
        with pytest.raises(HydrationError, match="keep=True"):
            session.maintain("late", ORDERS.differentiate().join(PRICES, on="item").select("price").integrate())


@pytest.mark.parametrize("retain", [None, 3, "all"])
def test_moments_leave_nothing_behind(retain):
    """A change is kept for the step that it comes in, however long times are readable, and then folded away."""
    with Session(retain=retain) as session:
        session.maintain("paid", PAID)
        price(session, 5)
        for step in range(200):
            session.insert("orders", [(step, "tea")])
            session.advance()
        (kept,) = (
            session._engine.table.rows(n.operation.arrangement)
            for n in session._engine.plan.nodes
            if isinstance(n.operation, ArrangeOp) and session._engine.plan.has_moments(n)
        )
        assert kept < 100


def test_the_arrangement_of_what_is_met_is_that_of_other_joins():
    joined = ORDERS.join(PRICES, on="item")
    with Session() as session:
        session.maintain("joined", joined)
        session.maintain("paid", PAID)
        plan = session._engine.plan
        met = [plan.nodes[n.inputs[1].node].operation for n in plan.nodes if isinstance(n.operation, JoinOp)]
        assert len(met) == 2
        assert len(set(map(id, met))) == 1


def test_integrating_what_was_differentiated_needs_no_operator():
    with Session() as session:
        session.maintain("same", ORDERS.differentiate().integrate())
        assert "differentiate" not in session.explain("same")


def test_an_error_of_one_moment_stays():
    """Changes that are negative are no rows of which one can be chosen, and what that made is not forgotten."""
    with Session() as session:
        view = session.maintain("v", ORDERS.select("item").differentiate().distinct().integrate())
        session.insert("orders", [(1, "tea")])
        session.advance()
        assert view.to_pylist() == [("tea",)]
        session.retract("orders", [(1, "tea")])
        session.advance()
        session.advance()
        assert [e["code"] for e in view.errors().to_pylist()] == ["NEGATIVE_MULTIPLICITY"]


def test_updates_of_the_future_wait_for_their_moments():
    with Session() as session:
        view = session.maintain(
            "paid",
            ORDERS.temporal(lower="id", upper="id + 2")
            .differentiate()
            .join(PRICES.delay_to_neu(), on="item")
            .integrate(),
        )
        session.insert("prices", [("tea", t) for t in range(8)], time="price")
        session.insert("orders", [(3, "tea"), (9, "tea")])
        held = session.advance(to=3).state_rows
        assert view.to_pylist() == []
        session.advance(to=5)
        assert Counter(view.to_pylist()) == Counter((3, "tea", t) for t in range(3))
        session.advance(to=6)
        assert view.changes().num_rows == 5  # gone again at 5, when five prices are there
        assert held > 4


def test_a_time_without_end_is_no_moment_of_a_step():
    with Session() as session:
        view = session.maintain(
            "v",
            ORDERS.temporal(lower="id", upper="cast(null as bigint)", null_upper="never")
            .differentiate()
            .group_by("item")
            .agg(n="count(*)")
            .integrate(),
        )
        session.insert("orders", [(3, "tea")])
        session.advance(to=5)
        assert view.to_pylist() == [("tea", 1)]


def test_a_time_that_has_no_moments_is_refused_and_can_be_discarded():
    with Session() as session:
        view = session.maintain("paid", PAID)
        price(session, 5)
        session.insert("orders", [(1, "tea")], time=2**62)
        with pytest.raises(TimeRangeError, match="below 2\\^62"):
            session.advance()
        session.discard("orders")
        session.insert("orders", [(2, "tea")])
        session.advance()
        assert view.to_pylist() == [(2, "tea", 5)]


REFUSED = {
    "a view": (lambda c: Session().maintain("v", c), "maintain the result of its integrate"),
    "latest": (lambda c: c.latest("item", "id"), "after integrate"),
    "temporal": (lambda c: c.temporal("id", "id + 1"), "after integrate"),
    "a delay": (lambda c: c.delay(by=1), "after integrate"),
    "a bound": (lambda c: c.filter("logical_now() < id"), "after integrate"),
    "a concat outside": (lambda c: Session().maintain("v", c.concat(ORDERS)), "maintain the result of its integrate"),
    "integrate in a loop": (lambda c: ORDERS.iterate(lambda x: x.concat(c).integrate()), "same loop"),
    "a loop left": (lambda _: ORDERS.iterate(lambda x: x.differentiate()), "integrate it first"),
    "a loop left by what is read": (
        lambda _: ORDERS.iterate(lambda x: x.concat(ORDERS.differentiate())),
        "integrate it",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_moments_cannot_be_asked_for_is_refused(name):
    attempt, message = REFUSED[name]
    with pytest.raises(PlanError, match=message):
        attempt(ORDERS.differentiate())


def test_integrate_takes_what_was_differentiated():
    with pytest.raises(PlanError, match="after differentiate"):
        ORDERS.integrate()


@pytest.mark.parametrize("moments", [ORDERS.differentiate(), ORDERS.delay_to_neu()])
def test_moments_of_one_time_do_not_meet_two_times(moments):
    about = an.source("about", "item string, note string", time=("known", "day"))
    with Session() as session, pytest.raises(PlanError, match="with two times"):
        session.maintain("v", moments.join(about, on="item").integrate())


@pytest.mark.parametrize("options", [{}, {"shards": 3}])
@pytest.mark.parametrize("cuts", [(1, 4, 7), (7,), range(1, 8)])
def test_inspect_shows_the_moments_at_which_changes_come_and_go(options, cuts):
    people, seen = an.source("people", "name string"), []
    changes = people.differentiate().inspect(lambda row, time, diff: seen.append((row.name, time, diff))).integrate()
    with an.Session(**options) as session:
        session.maintain("changes", changes)
        for time, diff in [(1, 1), (3, 1), (6, -2)]:
            session.insert("people", [("frank",)], time=time, diff=diff)
        for upper in cuts:
            session.advance(to=upper)
    wanted = [(1, 1), (3, 1), (6, -2)]
    assert seen == [("frank", at(t), sign * d) for t, d in wanted for at, sign in ((alt, 1), (neu, -1))]


def test_inspect_shows_moments_of_moments():
    people, seen = an.source("people", "name string"), []
    twice = people.differentiate().differentiate().inspect(lambda _, time, diff: seen.append((time, diff)))
    with an.Session() as session:
        session.maintain("changes", twice.integrate().integrate())
        session.insert("people", [("frank",)], time=2)
        session.advance(to=3)
    expected = {alt(alt(2)): 1, neu(alt(2)): -1, alt(neu(2)): -1, neu(neu(2)): 1}
    assert dict(seen) == expected
    assert len(seen) == 4
