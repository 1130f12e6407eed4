"""Sources with two times: at every system time and every event time, against recomputation of what was known then."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

import altneu as an
from altneu import Session
from altneu.columnar.hashing import hash_bits
from altneu.operators.reduce import along
from altneu.plan.rewrite import optimise
from tests.lane import seeds
from tests.oracle.histories import random_cuts
from tests.oracle.recompute import plain, recompute, without_zeros
from tests.oracle.runners import Runner
from tests.oracle.two_times_cases import (
    EVENTS,
    PLANS,
    SYSTEMS,
    A,
    B,
    History,
    check,
    check_on,
)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("seed", seeds(3, 1))
def test_every_pair_of_times_shows_what_was_known(name, seed):
    plan, history = PLANS[name], History.random(seed, negative=seed == 2 and "loop" not in name and name != "labels")
    with Session(retain="all", shards=1 + seed) as session:
        view = session.maintain("v", plan)
        for lower, upper in pairwise([0, *random_cuts(random.Random(seed), SYSTEMS)]):
            history.insert(session, lower, upper)
            session.advance(to=upper)
            _changes_lead_there(view, plan, history, lower, upper)
        check(view, plan, history, SYSTEMS, range(SYSTEMS))


def _changes_lead_there(view, plan, history, lower, upper, first=0):
    """The changes of a step are the difference between what is before it and what is after, from ``first`` on."""
    changed: Counter = Counter()
    table = view.changes(time_column="t").to_pylist()
    for row in table:
        *values, system, event, diff = row.values()
        assert lower <= system < upper
        assert event >= first
        changed[plain(values), event] += diff
    node = optimise(plan.node)
    for event in range(first, EVENTS):
        delta: Counter = Counter(recompute(node, history.held(upper - 1, event), upper - 1)[0])
        if lower:
            delta.subtract(recompute(node, history.held(lower - 1, event), lower - 1)[0])
        found: Counter = Counter()
        for (row, e), n in changed.items():
            if e <= event:
                found[row] += n
        assert without_zeros(found) == without_zeros(delta)


@pytest.mark.parametrize("name", PLANS)
def test_only_the_present_is_retained_by_default(name):
    """System times fold, event times do not."""
    plan, history = PLANS[name], History.random(7)
    with Session() as session:
        view = session.maintain("v", plan)
        for system in range(SYSTEMS):
            history.insert(session, system, system + 1)
            session.advance()
            check(view, plan, history, system, [system])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PLANS)
def test_on_every_runner(runner: Runner, name):
    check_on(runner, name)


@pytest.mark.parametrize("name", PLANS)
def test_a_late_view_and_few_rows_at_once_and_collisions(name, monkeypatch):
    monkeypatch.setattr(along, "MOST_ROWS", 3)
    plan, history = PLANS[name], History.random(13)
    with hash_bits(2), Session(retain="all") as session:
        session.maintain("a", A)
        session.maintain("b", B)
        history.insert(session, 0, 3)
        session.advance(to=3)
        view = session.maintain("v", plan)
        check(view, plan, history, 3, range(3))
        history.insert(session, 3, SYSTEMS)
        session.advance(to=SYSTEMS)
        check(view, plan, history, SYSTEMS, range(SYSTEMS))


@pytest.mark.parametrize("name", PLANS)
def test_event_times_that_are_not_kept_apart_count_as_one(name):
    plan, history = PLANS[name], History.random(17)
    with Session(retain=1, retain_events=1, shards=2) as session:
        view = session.maintain("v", plan)
        for lower, upper in pairwise([0, 1, 3, 4, SYSTEMS]):
            history.insert(session, lower, upper)
            session.advance(to=upper)
            first = max(0, upper - 2)
            _changes_lead_there(view, plan, history, lower, upper, first)
            check(view, plan, history, upper, range(max(0, upper - 2), upper), first)
            if first:
                with pytest.raises(an.errors.HistoryGoneError, match="no longer retained"):
                    view.to_arrow((upper - 1, first - 1), errors="ignore")
            if upper == 3:
                late = session.maintain("late", plan.select("*"))
        check(late, plan, history, SYSTEMS, [SYSTEMS - 1], SYSTEMS - 2)


def test_compacted_event_times_take_no_room(tmp_path):
    days = 120

    def kept(path, **options):
        with Session(path=path, **options) as session:
            view = session.maintain("n", A.group_by("k").agg(n="count(*)", most="max(v)"))
            for day in range(days):
                session.insert("a", [(0, 0, day % 7), (0, 1, day % 7)], time=day)
                step = session.advance()
            assert sorted(view.to_pylist()) == [(0, days, 6), (1, days, 6)]
            assert sorted(view.to_pylist(at=(None, days - 3))) == [(0, days - 2, 6), (1, days - 2, 6)]
        return step.state_rows

    everything, few = kept(tmp_path / "all"), kept(tmp_path / "few", retain_events=4)
    assert few < everything / 5
    with Session(path=tmp_path / "few") as session:  # what is gone stays so, whatever is asked for now
        view = session.maintain("n", A.group_by("k").agg(n="count(*)", most="max(v)"))
        with pytest.raises(an.errors.HistoryGoneError, match=r"event time 114 is no .* about 115 or"):
            view.to_pylist(at=(None, 114))
        session.insert("a", [(0, 0, 9)], time=3)  # about a day that is not kept apart any more
        session.advance()
        assert sorted(view.to_pylist(at=(None, 115))) == [(0, 117, 9), (1, 116, 6)]


def test_an_event_time_beyond_all_is_the_last():
    with Session() as session:
        view = session.maintain("a", A)
        session.insert("a", [(0, 1, 2)], time=2**63 - 1)
        session.advance()
        assert view.to_pylist(at=(None, 2**64)) == view.to_pylist() == [(0, 1, 2)]


def test_a_number_of_event_times_is_asked_for():
    with pytest.raises(an.errors.PlanError, match="retain_events must be a whole number of at least 0, got -1"):
        Session(retain_events=-1)


@pytest.mark.parametrize("plan", [A.filter("false"), A.filter("k > 1 and false").concat(A.filter("false")).distinct()])
def test_a_view_that_is_always_empty_has_two_times_as_any_other(plan):
    with Session(retain="all") as session:
        view, source = session.maintain("nothing", plan), session.maintain("source", A)
        session.insert("a", [(0, 1, 2)], time=(0, 1))
        session.advance(2)
        assert view.to_pylist(at=(1, 1)) == []
        assert source.to_pylist(at=(1, 1)) == [(0, 1, 2)]
        assert view.changes().column_names == source.changes().column_names
