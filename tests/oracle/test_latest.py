"""Logs that only grow, and the latest row of each key, on every runner, against recomputation at every time."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from altneu import Session
from tests.oracle.histories import random_cuts
from tests.oracle.latest_cases import (
    HISTORY,
    JUDGE,
    PLANS,
    SOURCES,
    TIMES,
    growing,
)
from tests.oracle.retries import run_twice
from tests.oracle.runners import Judge, Runner, contents_of, errors_of, observe, table_of, unlike

EACH, ONE = list(range(1, TIMES + 1)), [TIMES]


def test_every_step_shows_what_recomputation_gives(runner):
    some = {"memory": [EACH, ONE], "shards": [EACH, [4, TIMES]], "durable": [[2, 3, TIMES]]}
    for cuts in some.get(runner.name, [random_cuts(random.Random(5), TIMES)]):
        JUDGE.run(runner, SOURCES, cuts)


def test_collisions_of_hashes_change_nothing():
    JUDGE.run_with_collisions(SOURCES, [3, TIMES])


@pytest.mark.parametrize("seed", range(6))
def test_any_log_that_grows(seed):
    rng = random.Random(seed)
    history = growing(rng)
    judge = Judge(PLANS, history)
    runner = Runner("shards", lambda _: Session(shards=rng.randint(1, 3)), together=True)
    judge.run(runner, SOURCES, random_cuts(rng, TIMES))


@pytest.mark.parametrize("seed", range(3))
def test_events_that_come_long_before_their_time_wait(seed):
    """In any order and in any pieces: the updates are those of events that come just in time."""
    rng = random.Random(seed)
    cuts = random_cuts(rng, TIMES)
    whole = Runner("memory", lambda _: Session(), together=True).run(PLANS, SOURCES, HISTORY, cuts)
    with Session(shards=2) as session:
        views = {name: session.maintain(name, plan) for name, plan in PLANS.items()}
        for source, updates in HISTORY.items():
            shuffled = rng.sample(updates, len(updates))
            cut = rng.randrange(len(shuffled))
            for part in (shuffled[:cut], shuffled[cut:]):
                session.insert(source, table_of(part, SOURCES[source]), time="time", diff="diff")
        for step in range(len(cuts)):
            session.advance(to=cuts[step])
            for name, view in views.items():
                seen = whole[name].steps[step]
                assert observe(view, seen.lower, seen.upper) == seen


@pytest.mark.parametrize("name", PLANS)
def test_a_view_maintained_late_says_what_it_would_have_said(name):
    """From kept sources, with events that wait; then it is kept right like any other."""
    with Session(shards=random.Random(name).choice([1, 3])) as session:
        for source, collection in SOURCES.items():
            session.maintain(f"all of {source}", collection)
            session.insert(source, table_of(HISTORY[source], collection), time="time", diff="diff")
        session.advance(to=4)
        view = session.maintain(name, PLANS[name])
        check(name, view, 3)
        session.advance(to=TIMES)
        check(name, view, TIMES - 1)


def check(name, view, time):
    wanted, errors = JUDGE.expected(name, time)
    assert unlike(contents_of(view), Counter({row: n for row, n in wanted.items() if n > 0})) == {}
    assert errors <= errors_of(view)


def test_tasks_that_run_twice_make_the_same_and_it_is_right(tmp_path):
    """In any order of messages."""
    run_twice(JUDGE, SOURCES, [3, 4, 7, TIMES], tmp_path / "state", PLANS)
