"""``update_time()``: when each copy of a row came, on every runner, against a queue of copies for every row."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu import Collection, Session
from altneu.executor.local import LocalExecutor
from tests.oracle.histories import random_cuts, random_history
from tests.oracle.recompute import Row
from tests.oracle.retries import Retries
from tests.oracle.runners import Judge, Runner, contents_of, errors_of, unlike
from tests.oracle.test_locked import present

LEFT = an.source("left", "trial int, k long, a long", keep=True)
RIGHT = an.source("right", "trial int, k long, b string", keep=True)
SOURCES = {"left": LEFT, "right": RIGHT}
KEY = ["trial", "k"]
CASES, TIMES = 6, 7
TIMED = LEFT.select("*", came=an.update_time())


def plans() -> dict[str, Collection]:
    """By name."""
    both = LEFT.join(RIGHT, on=KEY)
    return {
        "of a source": TIMED,
        "of fewer columns": LEFT.select("trial", "k").select("trial", came="update_time()"),
        "in an expression": LEFT.select("trial", "a", x="6 div (update_time() - a)"),
        "filtered before": LEFT.filter("a > 0").select("*", came="update_time()"),
        "filtered after": TIMED.filter("a > 0 and came > 2").select("trial", "came"),
        "in a filter": LEFT.filter("update_time() % 2 = 0 and k = 1"),
        "of what comes and goes by itself": LEFT.filter("logical_now() >= a * 3").select("*", came="update_time()"),
        "for some time": LEFT.filter("logical_now() < update_time() + 2"),
        "since when": LEFT.group_by(*KEY).agg(since="min(update_time())", n="count(*)"),
        "since when at all": LEFT.select(*KEY).distinct().select("*", since="update_time()"),
        "by when": LEFT.group_by("trial", came="update_time()").agg(n="count(*)"),
        "of a join": both.select("*", came="update_time()").select("trial", "b", "came"),
        "below a join": TIMED.join(RIGHT, on=KEY).select("trial", "b", "came"),
        "of groups": LEFT.group_by("trial").agg(n="count(*)", m="max(a)").select("*", came="update_time()"),
        "of what may be owed": LEFT.select(*KEY).concat(RIGHT.select(*KEY).negate()).select("*", came="update_time()"),
        "twice": TIMED.filter("came > 1").select("trial", "came").select("*", again="update_time()"),
        "delayed": LEFT.delay(every=3).select("*", came="update_time()"),
        "of copies": LEFT.unnest("array(1, 1, update_time())", as_="n").select("trial", "n", came="update_time()"),
        "beside a loop": TIMED.select("trial", "came").iterate(
            lambda x: x.concat(x.select("trial", came="least(came + 1, 9)")).distinct()
        ),
        "locked and timed": TIMED.asof_join(RIGHT, KEY, mode="locked").select("*", met="update_time()"),
    }


PLANS = plans()


def row_of_left(rng: random.Random, case: int) -> Row:
    return case, rng.choice([1, 1, 2, None]), rng.randrange(3)


def row_of_right(rng: random.Random, case: int) -> Row:
    return case, rng.choice([1, 1, 2, None]), rng.choice(["x", "y", None])


TABLES = {"left": row_of_left, "right": row_of_right}
HISTORY = random_history(random.Random(1), TABLES, CASES, TIMES, 4)
JUDGE = Judge(PLANS, HISTORY)
EACH, ONE = list(range(1, TIMES + 1)), [TIMES]
ON_SPARK = ["of a source", "since when", "locked and timed"]  # where a step is dear


def test_every_step_shows_what_a_queue_of_copies_gives(runner):
    some = {"memory": [EACH, ONE], "shards": [EACH], "durable": [[3, TIMES]]}
    for cuts in some.get(runner.name, [[3, TIMES]]):
        JUDGE.run(runner, SOURCES, cuts, None if runner.name in some else ON_SPARK)


@pytest.mark.parametrize("name", PLANS)
def test_a_rewritten_plan_means_the_same(name):
    JUDGE.check_rewritten(name, range(TIMES))


def test_collisions_of_hashes_change_nothing():
    JUDGE.run_with_collisions(SOURCES, [3, TIMES])


@pytest.mark.parametrize("seed", range(3))
def test_any_history(seed):
    rng = random.Random(seed)
    history = random_history(rng, TABLES, CASES, TIMES, 5)
    some = dict(rng.sample(sorted(PLANS.items()), 7))
    runner = Runner("shards", lambda _: Session(shards=rng.randint(1, 3)), together=True, ahead=bool(seed % 2))
    Judge(some, history).run(runner, SOURCES, random_cuts(rng, TIMES))


@pytest.mark.parametrize("retain", ["all", 2])
def test_history_that_is_retained_shows_the_times_of_then(retain):
    runner = Runner("retained", lambda _: Session(retain=retain, shards=2), together=True)
    JUDGE.run(runner, SOURCES, [2, 3, TIMES], ["of a source", "since when", "in a filter", "of groups"])
