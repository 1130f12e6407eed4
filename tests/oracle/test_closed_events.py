"""Closed event times: what is closed takes no rows and never changes, and all that can be read is as it would be."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import altneu as an
from altneu import Session
from altneu.order import Antichain, Epoch, Product
from altneu.plan.rewrite import optimise
from altneu.runtime import step_limit
from tests.oracle.histories import random_cuts
from tests.oracle.recompute import recompute
from tests.oracle.runners import Runner, contents_of
from tests.oracle.two_times_cases import EVENTS, PLANS, SYSTEMS, A, B, History, check

PLANE = Product(Epoch(), Epoch())
CLOSED = [0, 1, 1, 3, 4]  # event times before these take no row at a system time
LATER = SYSTEMS + 2


def _history(seed: int, *, negative: bool = False) -> History:
    """Rows whose event times are not closed when they come."""
    history = History.random(seed, negative=negative)
    return replace(history, a=[(row, (s, max(e, CLOSED[s])), diff) for row, (s, e), diff in history.a])


def _closed_by(upper: int) -> int:
    """The event time up to which a step to ``upper`` may close."""
    return CLOSED[upper] if upper < SYSTEMS else EVENTS


def _check_final(view, plan, history, first=0) -> int:
    """At times that the frontier says are final, a view shows what comes of all that is ever inserted."""
    frontier, node, count = view.frontier, optimise(plan.node), 0
    for system in range(view.since, LATER):
        for event in range(first, EVENTS + 1):
            if frontier.less_equal(PLANE.from_python((system, event)))[0]:
                if system >= frontier.elements[0].min():
                    with pytest.raises(an.errors.NotYetKnownError):
                        view.to_arrow((system, event), errors="ignore")
                continue
            wanted, _ = recompute(node, history.held(system, event), system)
            found = contents_of(view, (system, event))
            assert found == Counter({r: n for r, n in wanted.items() if n > 0}), (system, event, frontier)
            count += 1
    return count


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("seed", range(3))
def test_what_is_final_stays_and_the_rest_is_right(name, seed):
    plan, history = PLANS[name], _history(seed, negative=seed == 2 and "loop" not in name and name != "labels")
    with Session(retain="all", shards=1 + seed) as session:
        view, final = session.maintain("v", plan), 0
        for lower, upper in pairwise([0, *random_cuts(random.Random(seed), SYSTEMS)]):
            history.insert(session, lower, upper)
            session.advance(to=upper, event=_closed_by(upper))
            final += _check_final(view, plan, history)
        check(view, plan, history, SYSTEMS, range(SYSTEMS))
        assert session.frontier == Antichain.of(PLANE, (SYSTEMS, EVENTS))
        one_time = "b" in session.sources
        assert view.frontier == session.frontier or one_time or name == "filter of its time"
        assert final >= sum(range(SYSTEMS)) * (EVENTS + 1) // 4 or name == "filter of its time"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PLANS)
def test_all_inserted_at_once_and_then_closed(name):
    """Rows of times to come are known when event times are closed; the frontier says where they wait."""
    plan, history = PLANS[name], _history(5)
    with Session(retain="all") as session:
        view = session.maintain("v", plan)
        history.insert(session, 0, SYSTEMS)
        for upper in range(1, SYSTEMS + 1):
            session.advance(event=EVENTS)
            waiting = sorted({s for _, (s, _), _ in history.a if s >= upper})
            assert session.frontier == Antichain.of(PLANE, (upper, EVENTS))
            if name == "source":
                assert view.frontier == Antichain.of(PLANE, (upper, EVENTS), *[(s, 0) for s in waiting])
            _check_final(view, plan, history)
        check(view, plan, history, SYSTEMS, range(SYSTEMS))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PLANS)
def test_event_times_are_compacted_as_far_as_they_are_closed(name):
    plan, history = PLANS[name], _history(17)
    with Session(retain=1, retain_events=1, shards=2) as session:
        view = session.maintain("v", plan)
        for lower, upper in pairwise([0, 1, 3, 4, SYSTEMS]):
            history.insert(session, lower, upper)
            session.advance(to=upper, event=_closed_by(upper))
            first = max(0, (_closed_by(upper) or upper) - 2)
            check(view, plan, history, upper, range(max(0, upper - 2), upper), first)
            _check_final(view, plan, history, first)
            if first:
                with pytest.raises(an.errors.HistoryGoneError, match="no longer retained"):
                    view.to_arrow((upper - 1, first - 1), errors="ignore")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["extremes", "joined with one time", "labels", "window", "filter with errors"])
def test_on_every_runner(runner: Runner, name):
    plan, history, folder = PLANS[name], _history(11), runner.folder()
    session = runner.open_session(folder)
    view = session.maintain("v", plan)
    for step, (lower, upper) in enumerate(pairwise([0, 2, 4, SYSTEMS])):
        runner.before_step(session, step)
        history.insert(session, lower, upper, runner.convert)
        session.advance(to=upper, event=_closed_by(upper))
        frontiers = session.frontier, view.frontier
        check(view, plan, history, upper, [upper - 1])
        _check_final(view, plan, history)
        if runner.reopened:
            with an.read(folder) as reader:
                assert reader.view("v").frontier == frontiers[1]
                _check_final(reader.view("v"), plan, history)
            session.close()
            session = runner.open_session(folder)
            view = session.maintain("v", plan)
            assert (session.frontier, view.frontier) == frontiers
            _check_final(view, plan, history)
        if _closed_by(upper):
            late = History([((0, 0, 0), (upper, _closed_by(upper) - 1), 1)], [])
            with pytest.raises(an.errors.BeforeFrontierError, match="closed"):
                _insert_and_advance(session, late, runner)
            session.discard()
    session.close()


def _insert_and_advance(session: Session, history: History, runner: Runner) -> None:
    history.insert(session, 0, LATER, runner.convert)
    session.advance()  # rows of a DataFrame are looked at now


def test_state_follows_the_closed_event_times_and_not_the_clock(tmp_path):
    days = 120

    def kept(closing: bool) -> int:
        with Session(path=tmp_path / str(closing), retain_events=3) as session:
            view = session.maintain("n", A.group_by("k").agg(n="count(*)", most="max(v)"))
            for day in range(days):
                session.insert("a", [(0, 0, day % 7), (0, 1, day % 7)], time=1000 + day)  # other units than the clock's
                step = session.advance(event=1000 + day + 1) if closing else session.advance()
            assert sorted(view.to_pylist()) == [(0, days, 6), (1, days, 6)]
            return step.state_rows

    assert kept(closing=True) < kept(closing=False) / 5


@pytest.mark.parametrize("rows", [1, 2, 1_000_000])
def test_what_an_advance_retains_does_not_depend_on_how_many_steps_it_takes(rows, monkeypatch):
    monkeypatch.setattr(step_limit, "STEP_ROWS", rows)
    with Session(retain_events=0) as session:
        view = session.maintain("v", A.group_by().agg(n="count(*)"))
        for system in range(4):
            session.insert("a", [(0, 1, system)], time=(system, system))
        session.advance(to=4, event=2)
        assert [view.to_pylist(at=(3, event)) for event in (1, 2, 3)] == [[(2,)], [(3,)], [(4,)]]
        with pytest.raises(an.errors.HistoryGoneError, match="event time 0 is no longer retained"):
            view.to_pylist(at=(3, 0))


def test_a_source_with_one_time_and_rows_of_the_future_keep_event_times_open():
    with Session() as session:
        view = session.maintain("v", A.join(B, on=["trial", "k"]))
        alone = session.maintain("alone", A.select("v"))
        session.insert("a", [(0, 1, 2)], time=1)
        session.insert("a", [(0, 1, 3)], time=(7, 2))
        session.insert("b", [(0, 1, 9)])
        session.advance(event=5)
        assert session.frontier == Antichain.of(PLANE, (1, 5))
        assert view.frontier == Antichain.of(PLANE, (1, 0))
        assert alone.frontier == Antichain.of(PLANE, (1, 5), (7, 0))
        assert alone.to_pylist(at=(6, 2)) == [(2,)]
        for at in ((7, 2), (1, 5), (9, 4)):
            with pytest.raises(an.errors.NotYetKnownError, match="is not closed yet"):
                alone.to_pylist(at=at)
        with pytest.raises(an.errors.NotYetKnownError):
            view.to_pylist(at=(1, 1))
        session.close_source("b")
        assert view.frontier == Antichain.of(PLANE, (1, 5), (7, 0))
        session.advance(to=8)
        assert view.frontier == alone.frontier == Antichain.of(PLANE, (8, 5))
        assert sorted(alone.to_pylist(at=(100, 4))) == [(2,), (3,)]
        session.close_source("a")
        assert alone.frontier.is_empty
        assert session.is_static("v")
        assert sorted(alone.to_pylist(at=(100, 100))) == [(2,), (3,)]


def test_one_time_has_a_frontier_too():
    with Session() as session:
        view = session.maintain("b", B.filter("logical_now() < w"))
        session.insert("b", [(0, 1, 9)])
        session.advance(to=2)
        assert session.frontier == view.frontier == Antichain.of(Epoch(), 2)
        session.close_source("b")
        assert view.frontier == Antichain.of(Epoch(), 9)
        session.advance(to=10)
        assert view.frontier == Antichain.of(Epoch())


def test_closed_event_times_take_no_rows():
    with Session() as session:
        view = session.maintain("a", A)
        session.insert("a", [(0, 1, 2)], time=2)  # before it is closed
        session.advance(event=3)
        for given in (2, (None, 2), (4, 0)):
            with pytest.raises(
                an.errors.BeforeFrontierError, match=r"event time \d is closed: rows of 'a' can be about 3"
            ):
                session.insert("a", [(0, 1, 2)], time=given)
        with pytest.raises(
            an.errors.BeforeFrontierError, match="row 1 of the insert into 'a' has the event time 2, but"
        ):
            session.insert("a", [{"trial": 0, "k": 1, "v": 2, "e": e} for e in (3, 2)], time="e")
        session.insert("a", [(0, 1, 2)], time=3)
        assert session.advance().changes_in == 1
        assert len(view.to_pylist()) == 2


def test_event_times_alone_can_be_closed_and_never_opened_again():
    with Session() as session:
        session.maintain("a", A)
        step = session.advance(to=0, event=3)
        assert (step.lower, step.upper, session.lower) == (0, 0, 0)
        assert session.frontier == Antichain.of(PLANE, (0, 3))
        session.advance(event=3)  # as before
        for call, reason in (
            ({"event": 2}, r"advance\(event=2\) would go back: event times before 3 are closed already"),
            ({"to": 1, "event": 3}, "would go back"),
            ({"event": 2.5}, "not a whole number"),
        ):
            with pytest.raises(an.errors.InputError, match=reason):
                session.advance(**call)
        with pytest.raises(an.errors.TimeRangeError, match="beyond 64 bits"):
            session.advance(event=2**63)
        assert session.frontier == Antichain.of(PLANE, (1, 3))
    with Session() as session:
        session.maintain("b", B)
        with pytest.raises(an.errors.InputError, match="closes event times, and no source has any"):
            session.advance(event=1)


def test_a_step_that_fails_closes_nothing():
    with Session(path=None) as session:
        view = session.maintain("a", A.count())
        for _ in range(2):
            session.insert("a", [(0, 1, 2)], time=0, diff=2**62)
        with pytest.raises(an.errors.DiffOverflowError):
            session.advance(event=5)
        assert session.frontier == view.frontier == Antichain.of(PLANE, (0, 0))
        session.discard()
        session.insert("a", [(0, 1, 2)], time=0)
        session.advance(event=5)
        assert view.to_pylist(at=(50, 4)) == [(0, 1, 2, 1)]


def test_statements_close_event_times():
    with Session() as session:
        session.maintain("a", A)
        assert (
            str(session.sql("ADVANCE EVENT 3"))
            == "Result(ADVANCE: times before 1, and event times before 3 are closed)"
        )
        session.sql("ADVANCE TO 5 EVENT 2")  # a script that is run again
        assert session.frontier == Antichain.of(PLANE, (5, 3))
        assert "closed already" in str(session.sql("ADVANCE TO 5 EVENT 3"))
        session.sql("ADVANCE TO 5 EVENT 4")
        assert session.frontier == Antichain.of(PLANE, (5, 4))


CHILD = """
import sys
import altneu as an
a = an.source("a", "k long", time=("system", "event"))
with an.Session(path=sys.argv[1], retain_events=2) as session:
    session.maintain("n", a.group_by().agg(n="count(*)"))
    while True:
        day = session.lower
        if day > 2:
            print("ready", flush=True)
        session.insert("a", [day, day], time=day)
        session.advance(event=day + 1)
"""


def test_a_killed_session_has_closed_what_its_last_commit_says(tmp_path):
    path = Path(__file__).parents[2]
    for seconds in (0.3, 0.7):
        command = [sys.executable, "-c", CHILD, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=path, env={**os.environ}) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(seconds)
            child.send_signal(signal.SIGKILL)
        with an.read(tmp_path) as reader:
            frontier = reader.view("n").frontier
            assert frontier == Antichain.of(PLANE, (reader.lower, reader.lower))
            assert reader.view("n").to_pylist() == [(2 * reader.lower,)]
            assert reader.view("n").to_pylist(at=(10**6, reader.lower - 1)) == [(2 * reader.lower,)]
