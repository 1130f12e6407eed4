"""As-of joins by event time, on every runner, against brute force at every time: ties, duplicates, what comes late."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu import Collection, Session
from altneu.runtime.local import LocalExecutor
from tests.oracle.histories import random_cuts, random_history
from tests.oracle.recompute import Row
from tests.oracle.retries import Retries
from tests.oracle.runners import Judge, Runner, contents_of, errors_of, table_of, unlike

LEFT = an.source("left", "trial int, k long, at long, a long", keep=True)
RIGHT = an.source("right", "trial int, k long, at long, b string", keep=True)
SOURCES = {"left": LEFT, "right": RIGHT}
KEY = ["trial", "k"]
CASES, TIMES = 6, 6


def plans() -> dict[str, Collection]:
    """By name."""

    def of(**options) -> Collection:
        return LEFT.asof_join(RIGHT, KEY, time="at", mode="revising", **options)

    made = {
        f"{direction}, {how}, {tolerance}, {exact}": of(
            direction=direction, how=how, tolerance=tolerance, allow_exact_matches=exact
        )
        for direction, how, tolerance, exact in (
            ("backward", "inner", None, True),
            ("backward", "left", 2, False),
            ("forward", "left", None, False),
            ("forward", "inner", 1, True),
            ("nearest", "left", 1, True),
            ("nearest", "inner", None, False),
        )
    }
    renamed = RIGHT.select("trial", "b", key="k", stamp="at")
    return made | {
        "one key": LEFT.asof_join(RIGHT, "trial", time="at", mode="revising", how="left"),
        "of other names": LEFT.asof_join(
            renamed, {"trial": "trial", "k": "key"}, left_time="at", right_time="stamp", mode="revising", how="left"
        ),
        "by a cast key": LEFT.asof_join(
            RIGHT.select("trial", "at", "b", k="CAST(k AS double)"), KEY, time="at", mode="revising", how="left"
        ),
        "of no columns": LEFT.select("trial", "at").asof_join(
            RIGHT.select("trial", "at"), "trial", time="at", mode="revising"
        ),
        "above what may fail": LEFT.select("*", x="6 div a").asof_join(RIGHT, KEY, time="at", mode="revising"),
        "of few columns": of(how="left").select("trial", "a", "b"),
        "ties": of(how="left", ties="b desc"),
        "ties, forward": of(direction="forward", ties=["b nulls last"]),
        "ties, nearest, of few columns": LEFT.asof_join(
            RIGHT.select("trial", "at", "k", "b", c="length(b)", d="k"), "trial", time="at", mode="revising",
            direction="nearest", how="left", ties="d desc, c nulls last"
        ).select("trial", "a", k="`right.k`"),
        "ties in a loop": LEFT.select("trial", "k", "at").iterate(
            lambda x: x.asof_join(RIGHT.select("trial", "at", "k"), "trial", time="at", mode="revising",
                                  direction="forward", allow_exact_matches=False, ties="k desc")
            .select("trial", k="`right.k`", at="`right.at`").concat(LEFT.select("trial", "k", "at")).distinct()
        ),
        "below a filter": of().filter("b <> 'x' and a > 0"),
        "below what may fail": of().select("trial", y="6 div a"),
        "below a reduce": of(how="left").group_by("trial", "b").agg(n="count(*)", last="max(at)"),
        "below a join": of().join(LEFT.select(*KEY, z="a"), on=KEY),
        "of itself": LEFT.asof_join(
            LEFT.select("trial", "k", "at", c="a"), KEY, time="at", mode="revising", allow_exact_matches=False
        ),
        "in a loop": LEFT.select("trial", "k", "at").iterate(
            lambda x: x.asof_join(RIGHT.select("trial", "at"), "trial", time="at", mode="revising", direction="forward",
                                  allow_exact_matches=False)
            .select("trial", "k", at="`right.at`").concat(LEFT.select("trial", "k", "at")).distinct()
        ),
        "in a loop on the right": RIGHT.select("trial", "k", "at").iterate(
            lambda x: LEFT.select("trial", "k", "at").asof_join(x, "trial", time="at", mode="revising", how="left")
            .select("trial", k="`right.k`", at="coalesce(`right.at`, at) + 1").filter("at < 4")
            .concat(RIGHT.select("trial", "k", "at")).distinct(), max_rounds=12, on_limit="stop"
        ),
    }  # fmt: skip


PLANS = plans()
NO_KEY = {
    "no key": LEFT.asof_join(RIGHT, time="at", mode="revising", how="left"),
    "no key, nearest": LEFT.select("a", "at").asof_join(
        RIGHT.select("at", "b"), time="at", mode="revising", direction="nearest"
    ),
}


def row_of_left(rng: random.Random, case: int) -> Row:
    return case, rng.choice([1, 1, 2, None]), rng.choice([None, *range(6)]), rng.randrange(3)


def row_of_right(rng: random.Random, case: int) -> Row:
    return case, rng.choice([1, 1, 2, None]), rng.choice([None, *range(6)]), rng.choice(["x", "y", None])


TABLES = {"left": row_of_left, "right": row_of_right}
HISTORY = random_history(random.Random(1), TABLES, CASES, TIMES, 3)
JUDGE = Judge(PLANS, HISTORY)
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
    def open_session(path):
        session = Session(path=path, shards=3)
        session._engine.executor = retries
        return session

    def alternate(session, step):
        session._engine.executor = (retries, LocalExecutor())[step % 2]

    retries = Retries(3)
    runner = Runner("retries", open_session, lambda: tmp_path / "state", together=True, before_step=alternate)
    plans = {name: plan for name, plan in PLANS.items() if "loop" not in name}
    for name, trace in runner.run(plans, SOURCES, HISTORY, [3, 4, TIMES]).items():
        JUDGE.check(name, trace)
    assert retries.tasks > 0
