"""Rows that rest on rows of other times: from what an explanation names alone comes the row, and without it none.

Both are asked of the oracles of moments and of feedback, which compute answers from whole histories.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu import Session
from altneu.plan import ir
from tests.oracle import calculus_cases as calculus
from tests.oracle import feedback_cases as feedback
from tests.oracle.histories import random_history
from tests.oracle.moments import CalculusJudge
from tests.oracle.recompute import plain
from tests.oracle.runners import Judge, table_of

FEEDBACK_SOURCES = {"left": feedback.LEFT, "right": feedback.RIGHT}
FEEDBACK_TABLES = {
    "left": lambda rng, case: (case, rng.choice([1, 1, 2, None]), rng.choice([0, 1, 2, 3, None])),
    "right": lambda rng, case: (case, rng.choice([1, 1, 2, None]), rng.choice(["x", "y", None])),
}


def named(explanation):
    """The rows of each source that an explanation names."""
    return {(i.source, tuple(map(plain, row))) for i in explanation.inputs for row in i.updates.rows.to_pylist()}


def parted(history, rows, until):
    """The history of these rows up to a time, and that of all others."""
    own, rest = ({name: [] for name in history} for _ in range(2))
    for name, updates in history.items():
        for row, time, n in updates:
            mine = (name, tuple(map(plain, row))) in rows
            if time <= until or not mine:
                (own if mine else rest)[name].append((row, time, n))
    return own, rest


def explained(judge, name, plan, sources, history, times, ats, *, every_way=True):
    """Explain rows of a view at some times; how many."""
    rows = 0
    with Session(retain="all") as session:
        for source, collection in sources.items():
            session.maintain(f"keep {source}", collection)
        view = session.maintain(name, plan)
        for source, updates in history.items():
            session.insert(source, table_of(updates, sources[source]), time="time", diff="diff")
        session.advance(to=times)
        for at in ats:
            shown = Counter(tuple(map(plain, row.values())) for row in view.to_arrow(at, errors="ignore").to_pylist())
            by_value = {tuple(map(plain, row)): row for row in view.to_pylist(at, errors="ignore")}
            for key in sorted(by_value, key=repr)[:2]:
                explanation = view.explain_row(by_value[key], at)
                assert explanation.sufficient is True, explanation
                assert explanation.count == shown[key]
                own, rest = parted(history, named(explanation), at)
                alone = judge({name: plan}, own).expected(name, at)[0]
                assert {plain_row(r): n for r, n in alone.items()}[key] == shown[key], explanation
                if every_way:
                    without = judge({name: plan}, rest).expected(name, at)[0]
                    assert key not in {plain_row(r) for r in without}, explanation
                rows += 1
    return rows


def plain_row(row):
    return tuple(map(plain, row))


IN_LOOPS = [name for name, p in calculus.PLANS.items() if any(isinstance(n, ir.Result) for n in ir.walk(p.node))]
ONE_WAY = [  # of several: without the way that is shown there may be another, or what it stood against comes up
    *IN_LOOPS,
    "counts of changes",
    "distinct changes",
]
FOLLOWED = [name for name in calculus.PLANS if name not in IN_LOOPS]


@pytest.mark.parametrize("name", [*FOLLOWED, "a loop in moments", "a loop over moments", "moments in a loop"])
def test_moments_are_followed_to_the_changes_that_they_add_up_to(name):
    plan, found, times = calculus.PLANS[name], 0, calculus.TIMES
    for seed in range(6):
        history = random_history(random.Random(seed), calculus.TABLES, 3, times, 7)
        every_way = name not in ONE_WAY
        found += explained(
            CalculusJudge, name, plan, calculus.SOURCES, history, times, [times - 1], every_way=every_way
        )
        if found >= 2:
            break
    assert found or name == "forgotten"


@pytest.mark.parametrize("name", feedback.PLANS)
def test_feedback_is_followed_to_the_times_before(name):
    history = random_history(random.Random(4), FEEDBACK_TABLES, 2, 6, 4)
    plan = feedback.PLANS[name]
    assert explained(Judge, name, plan, FEEDBACK_SOURCES, history, 6, [2, 5], every_way=False)


ORDERS = an.source("orders", "id long, item string", keep=True)
PRICES = an.source("prices", "item string, price long", keep=True)
PAY_ME = ORDERS.differentiate().join(PRICES, on="item").integrate()


def shop(session):
    session.insert("prices", [("bacon", 5), ("egg", 5)], time=0)
    session.insert("orders", [(1, "bacon"), (2, "egg")], time=1)
    session.retract("prices", [("bacon", 5)], time=2)
    session.insert("prices", [("bacon", 6)], time=2)
    session.insert("orders", [(3, "bacon")], time=3)
    session.advance(to=5)


def test_the_price_of_that_moment_is_named_and_no_other():
    with Session(retain="all") as session:
        view = session.maintain("pay me", PAY_ME)
        shop(session)
        explanation = view.explain_row((1, "bacon", 5))
        assert named(explanation) == {("orders", (1, "bacon")), ("prices", ("bacon", 5))}
        assert {(s.label, s.when) for s in explanation.supports} == {
            ("integrate", ""),
            ("join on item", "alt(1)"),
            ("source orders", "time 1"),
            ("source prices", "time 1"),
        }
        assert "source prices at time 1" in str(explanation)
        assert named(view.explain_row((3, "bacon", 6))) == {("orders", (3, "bacon")), ("prices", ("bacon", 6))}


def test_what_is_not_arranged_is_computed_of_its_moments():
    with Session(retain="all") as session:
        view = session.maintain("totals", PAY_ME.group_by("item").agg(total="sum(price)"))
        shop(session)
        explanation = view.explain_row(("egg", 5))
        assert named(explanation) == {("orders", (2, "egg")), ("prices", ("egg", 5))}
        assert explanation.sufficient is True


def test_history_that_is_gone_is_said_to_be():
    (kept,) = an.feedback(lambda before: (before.concat(PAY_ME.select("id")).distinct(),), x="id long")
    with Session() as session:
        view, rows = session.maintain("pay me", PAY_ME), session.maintain("kept", kept)
        shop(session)
        session.advance()
        session.merge()
        explanation = view.explain_row((1, "bacon", 5))
        assert explanation.sufficient is False  # the price of then is gone from the history that is kept
        assert any("changes are not followed to their moments" in note for note in explanation.notes)
        assert any("which are not kept" in note for note in rows.explain_row((1,)).notes)


def test_moments_inside_feedback_and_feedback_inside_moments():
    """A ledger: what was billed, less what was paid since; and bills as of whether the item was on by then."""

    def owed(before):
        bills = ORDERS.differentiate().join(PRICES, on="item").integrate().select("id", "item", "price")
        seen = before.differentiate().join(PRICES, on="item").select("id", "item", price="`right.price`").integrate()
        return bills.concat(seen.filter("price > 5")).distinct()

    (ledger,) = an.feedback(owed, x="id long, item string, price long")
    upon = PRICES.differentiate().join(ledger.select("item", "id"), on="item").integrate()
    with Session(retain="all") as session:
        views = [session.maintain("ledger", ledger), session.maintain("upon", upon)]
        shop(session)
        session.advance(to=8)
        for view in views:
            assert view.to_pylist(errors="ignore")
            for row in view.to_pylist(errors="ignore"):
                explanation = view.explain_row(row)
                assert explanation.sufficient is True, explanation
                assert not explanation.notes


def test_what_was_inspected_is_not_shown_again():
    source, seen = an.source("s", "k long", keep=True), []
    look = lambda *update: seen.append(update)  # noqa: E731
    (kept,) = an.feedback(lambda before: (before.inspect(look).concat(source).distinct(),), k="k long")
    plans = [
        source.inspect(look).group_by("k").agg(n="count(*)"),
        source.iterate(lambda x: x.inspect(look).select(k="least(k + 1, 3)").concat(source).distinct()),
        source.differentiate().inspect(look).semijoin(source, on="k").integrate(),
        kept,
    ]
    with Session(retain="all") as session:
        views = [session.maintain(f"view {i}", plan) for i, plan in enumerate(plans)]
        session.insert("s", [(1,)])
        session.advance(to=3)
        shown = len(seen)
        assert ((1,), 1, 1) in [(tuple(row), time, diff) for row, time, diff in seen]  # a tick later, in feedback
        for view in views:
            assert view.explain_row(view.to_pylist()[0]).sufficient is True
        assert len(seen) == shown


def test_a_moment_that_is_told_is_followed():
    with Session(retain="all") as session:
        view = session.maintain("moments", ORDERS.differentiate().join(PRICES, on="item").moments())
        shop(session)
        explanation = view.explain_row((2, "egg", 5, "alt"))
        assert named(explanation) == {("orders", (2, "egg")), ("prices", ("egg", 5))}
        assert explanation.sufficient is True
        explanation = view.explain_row((2, "egg", 5, "neu"))
        assert (explanation.count, explanation.sufficient) == (-1, True)
        assert {s.when for s in explanation.supports if s.label.startswith("join")} == {"alt(1)"}  # it has gone since
