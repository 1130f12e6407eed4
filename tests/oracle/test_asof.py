"""As-of joins by event time, on every runner, against brute force at every time: ties, duplicates, what comes late."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from altneu import Session
from tests.oracle.asof_cases import (
    CASES,
    HISTORY,
    JUDGE,
    LEFT,
    PLANS,
    RIGHT,
    SOURCES,
    TABLES,
    TIMES,
)
from tests.oracle.histories import random_cuts, random_history
from tests.oracle.retries import run_twice
from tests.oracle.runners import Judge, Runner, contents_of, errors_of, table_of, unlike

NO_KEY = {
    "no key": LEFT.asof_join(RIGHT, time="at", mode="revising", how="left"),
    "no key, nearest": LEFT.select("a", "at").asof_join(
        RIGHT.select("at", "b"), time="at", mode="revising", direction="nearest"
    ),
}
EACH, ONE = list(range(1, TIMES + 1)), [TIMES]


ON_SPARK = [
    "ties, nearest, of few columns",
    "backward, left, 2, False",
    "nearest, inner, None, False",
    "of other names",
]  # where a step is dear


def test_every_step_shows_what_brute_force_gives(runner):
    some = {"memory": [EACH, ONE], "shards": [EACH], "durable": [[3, TIMES]]}
    for cuts in some.get(runner.name, [[3, TIMES]]):
        JUDGE.run(runner, SOURCES, cuts, None if runner.name in some else ON_SPARK)


@pytest.mark.parametrize("name", PLANS)
def test_a_rewritten_plan_means_the_same(name):
    JUDGE.check_rewritten(name, range(TIMES) if "loop" not in name else [TIMES - 1])


def test_collisions_of_hashes_change_nothing():
    JUDGE.run_with_collisions(SOURCES, [3, TIMES])


@pytest.mark.parametrize("seed", range(3))
def test_any_history(seed):
    rng = random.Random(seed)
    history = random_history(rng, TABLES, CASES, TIMES, 5)
    some = dict(rng.sample(sorted(PLANS.items()), 6))
    judge = Judge(some, history)
    runner = Runner("shards", lambda _: Session(shards=rng.randint(1, 3)), together=True)
    judge.run(runner, SOURCES, random_cuts(rng, TIMES))


@pytest.mark.parametrize("seed", range(2))
def test_without_a_key_all_rows_are_one_group(seed):
    rng = random.Random(seed)
    history = random_history(rng, TABLES, 2, TIMES, 3)
    judge = Judge(NO_KEY, history)
    runner = Runner("shards", lambda _: Session(shards=2), together=True)
    judge.run(runner, SOURCES, random_cuts(rng, TIMES))


def test_late_views_say_what_they_would_have_said():
    with Session(shards=2) as session:
        for source, collection in SOURCES.items():
            session.maintain(f"all of {source}", collection)
            session.insert(source, table_of(HISTORY[source], collection), time="time", diff="diff")
        session.advance(to=4)
        views = {name: session.maintain(name, plan) for name, plan in PLANS.items()}
        for time in (3, TIMES - 1):
            for name, view in views.items():
                wanted, errors = JUDGE.expected(name, time)
                assert unlike(contents_of(view), Counter({row: n for row, n in wanted.items() if n > 0})) == {}
                assert errors <= errors_of(view)
            if time == 3:
                session.advance(to=TIMES)


def test_tasks_that_run_twice_make_the_same_and_it_is_right(tmp_path):
    """In any order of messages."""
    run_twice(JUDGE, SOURCES, [3, 4, TIMES], tmp_path / "state", [name for name in PLANS if "loop" not in name])
