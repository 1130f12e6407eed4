"""As-of joins that lock in what they met, on every runner, against a queue of copies for every left row."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu import Session
from tests.oracle.histories import random_cuts, random_history
from tests.oracle.locked_cases import (
    CASES,
    HISTORY,
    JUDGE,
    KEY,
    LEFT,
    PLANS,
    RIGHT,
    SOURCES,
    TABLES,
    TIMES,
    present,
)
from tests.oracle.retries import run_twice
from tests.oracle.runners import Judge, Runner, contents_of, errors_of, table_of, unlike

EACH, ONE = list(range(1, TIMES + 1)), [TIMES]


ON_SPARK = ["of the key, left", "by time, left", "locked twice"]  # where a step is dear


def test_every_step_shows_what_a_queue_of_copies_gives(runner):
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
    runner = Runner("shards", lambda _: Session(shards=rng.randint(1, 3)), together=True, ahead=bool(seed % 2))
    judge.run(runner, SOURCES, random_cuts(rng, TIMES))


def test_a_late_view_begins_with_the_present():
    """What is there is locked in as if it had just come; with simultaneous changes out, to what was there before."""
    begin = 3
    late = {n: p for n, p in PLANS.items() if "simultaneous" not in n}
    judge = Judge(late, present(HISTORY, begin))
    with Session(shards=2) as session:
        for source, collection in SOURCES.items():
            session.maintain(f"all of {source}", collection)
            session.insert(source, table_of(HISTORY[source], collection), time="time", diff="diff")
        for time in range(begin + 1):  # in steps, so that what is read back was merged
            session.advance(to=time + 1)
        views = {name: session.maintain(name, plan) for name, plan in late.items()}
        simultaneous = session.maintain("out", PLANS["by time, simultaneous out"])
        plan = LEFT.asof_join(RIGHT, KEY, mode="locked", time="at", allow_exact_matches=False, how="left")
        wanted, _ = Judge({"in": plan}, present(HISTORY, begin)).expected("in", begin)
        assert unlike(contents_of(simultaneous), Counter({r: n for r, n in wanted.items() if n > 0})) == {}
        for time in (begin, TIMES - 1):
            if time > begin:
                session.advance(to=TIMES)
            for name, view in views.items():
                wanted, _ = judge.expected(name, time)
                assert unlike(contents_of(view), Counter({row: n for row, n in wanted.items() if n > 0})) == {}, name


@pytest.mark.parametrize("arranged", [False, True])
def test_a_late_view_meets_the_latest_rows_too(arranged):
    """Also without what is simultaneous, and whether the right side is read from its arrangement or from its rows."""
    with Session() as session:
        for source, collection in SOURCES.items():
            session.maintain(f"all of {source}", collection)
        session.insert("left", [(0, 1, 5, 1)])
        for time in range(4):
            session.insert("right", [(0, 1, time, "x")], time=time)
            session.advance(to=time + 1)
        if arranged:
            session.maintain("in", PLANS["by time, left"])
        assert session.maintain("out", PLANS["by time, simultaneous out"]).to_pylist() == [(0, 1, 5, 1, 3, "x")]


def test_nothing_is_left_when_every_copy_is_taken_back():
    with Session() as session:
        for name, plan in PLANS.items():
            session.maintain(name, plan)
        rng = random.Random(3)
        for source in SOURCES:
            rows = [TABLES[source](rng, case) for case in range(CASES) for _ in range(4)]
            session.insert(source, rows)
            session.retract(source, rows, time=4)
        session.advance(to=6)
        assert all(not view.to_pylist(errors="ignore") for view in map(session.view, PLANS))


def test_tasks_that_run_twice_make_the_same_and_it_is_right(tmp_path):
    """In any order of messages."""
    run_twice(JUDGE, SOURCES, [3, 4, TIMES], tmp_path / "state", PLANS)


@pytest.mark.parametrize("options", [{}, {"time": "at"}])
def test_what_is_owed_is_counted_in_64_bits(options):
    """More is refused, and what there was stays: it must not come to nothing, which nobody would see."""
    row, huge = (1, 1, 1, 1), 2**62
    with Session() as session:
        view = session.maintain("v", LEFT.asof_join(RIGHT, KEY, mode="locked", how="left", **options))
        session.retract("left", [row], diff=huge)
        session.advance()
        for diffs in ([huge], [huge, huge]):
            for diff in diffs:
                session.retract("left", [row], diff=diff)
            with pytest.raises(an.errors.DiffOverflowError, match="64-bit"):
                session.advance()
            session.discard()
            assert errors_of(view)
        session.insert("left", [row], diff=huge + 1)
        session.advance()
        assert contents_of(view) == Counter({(*row, None, None): 1})
        assert not errors_of(view)
