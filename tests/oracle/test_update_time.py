"""``update_time()``: when each copy of a row came, on every runner, against a queue of copies for every row."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu import Session
from altneu.runtime.batch_writer import BatchWriter
from tests.oracle.histories import random_cuts, random_history
from tests.oracle.locked_cases import present
from tests.oracle.recompute import Row
from tests.oracle.retries import run_twice
from tests.oracle.runners import Judge, Runner, contents_of, errors_of, table_of, unlike
from tests.oracle.update_time_cases import LEFT, PLANS, RIGHT, TIMED

SOURCES = {"left": LEFT, "right": RIGHT}
CASES, TIMES = 6, 7


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


def test_a_late_view_begins_with_the_present():
    begin = 3
    judge = Judge(PLANS, present(HISTORY, begin))
    late = [n for n in PLANS if n not in ("delayed", "of what comes and goes by itself")]  # whose past is looked at
    with Session(shards=2) as session:
        for source, collection in SOURCES.items():
            session.maintain(f"all of {source}", collection)
            session.insert(source, table_of(HISTORY[source], collection), time="time", diff="diff")
        for time in range(begin + 1):  # in steps, so that what is read back was merged
            session.advance(to=time + 1)
        views = {name: session.maintain(name, PLANS[name]) for name in late}
        for time in (begin, TIMES - 1):
            if time > begin:
                session.advance(to=TIMES)
            for name, view in views.items():
                wanted, _ = judge.expected(name, time)
                assert unlike(contents_of(view), Counter({row: n for row, n in wanted.items() if n > 0})) == {}, name


def test_tasks_that_run_twice_make_the_same_and_it_is_right(tmp_path):
    """In any order of messages."""
    run_twice(JUDGE, SOURCES, [3, 4, TIMES], tmp_path / "state", PLANS)


@pytest.mark.parametrize("room", [100, 2000])
def test_a_stage_in_parts_makes_the_same(room):
    """With room for a few rows a stage is run for some keys after the others."""

    def opened(path):
        session = Session(path=path, shards=2)
        session._engine.executor.batch_writer = BatchWriter(room)
        return session

    JUDGE.run(
        Runner("parts", opened, ahead=True), SOURCES, [3, TIMES], ["of a source", "of groups", "locked and timed"]
    )


def test_what_is_owed_is_counted_in_64_bits():
    row, huge = (1, 1, 1), 2**62
    with Session() as session:
        view = session.maintain("v", TIMED)
        session.retract("left", [row], diff=huge)
        session.advance()
        session.retract("left", [row], diff=huge)
        with pytest.raises(an.errors.DiffOverflowError, match="64-bit"):
            session.advance()
        session.discard()
        assert errors_of(view)
        session.insert("left", [row], diff=huge + 1)
        session.advance()
        assert contents_of(view) == Counter({(*row, 1): 1})
        assert not errors_of(view)
