"""``reduce_core``: what a function makes of its own output, on every runner, against one time after the other."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu import Session
from altneu.errors import PlanError, SchemaError
from altneu.operators.reduce_core import groups
from altneu.trace import cursor
from tests.oracle.histories import random_cuts, random_history
from tests.oracle.locked_cases import present
from tests.oracle.reduce_core_cases import EQUAL, LEFT, PLANS, RIGHT
from tests.oracle.retries import run_twice
from tests.oracle.runners import Judge, Runner, contents_of, table_of, unlike

SOURCES = {"left": LEFT, "right": RIGHT}
CASES, TIMES = 6, 7


def row_of_left(rng, case):
    return case, rng.choice([1, 1, 2, None]), rng.choice([0, 1, 2, 3, None])


def row_of_right(rng, case):
    return case, rng.choice([1, 1, 2, None]), rng.choice(["x", "y", None])


TABLES = {"left": row_of_left, "right": row_of_right}
HISTORY = random_history(random.Random(1), TABLES, CASES, TIMES, 4)
JUDGE = Judge(PLANS, HISTORY)
EACH, ONE = list(range(1, TIMES + 1)), [TIMES]
ON_SPARK = ["total", "extremes", "fails", "of all"]  # where a step is dear


def test_every_step_shows_what_one_time_after_the_other_gives(runner):
    some = {"memory": [EACH, ONE], "shards": [EACH], "durable": [[3, TIMES]]}
    for cuts in some.get(runner.name, [[3, TIMES]]):
        JUDGE.run(runner, SOURCES, cuts, None if runner.name in some else ON_SPARK)


@pytest.mark.parametrize("name", PLANS)
def test_a_rewritten_plan_means_the_same(name):
    JUDGE.check_rewritten(name, range(TIMES))


def test_collisions_of_hashes_change_nothing():
    JUDGE.run_with_collisions(SOURCES, [3, TIMES])


@pytest.mark.parametrize("seed", range(3))
def test_any_history(seed, monkeypatch):
    monkeypatch.setattr(cursor, "LEAST", 1)
    monkeypatch.setattr(cursor, "MOST", 3)
    rng = random.Random(seed)
    history = random_history(rng, TABLES, CASES, TIMES, 5)
    runner = Runner("shards", lambda _: Session(shards=rng.randint(1, 3)), together=True, ahead=bool(seed % 2))
    Judge(PLANS, history).run(runner, SOURCES, random_cuts(rng, TIMES))


@pytest.mark.parametrize("retain", ["all", 2])
def test_history_that_is_retained_shows_the_output_of_then(retain):
    runner = Runner("retained", lambda _: Session(retain=retain, shards=2), together=True)
    JUDGE.run(runner, SOURCES, [2, 3, TIMES], ["total", "ever", "fails", "below a join"])


def test_a_late_view_begins_with_the_present():
    begin = 3
    judge = Judge(PLANS, present(HISTORY, begin))
    late = [n for n in PLANS if n != "of what comes and goes by itself"]  # whose past is looked at
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
    run_twice(JUDGE, SOURCES, [3, 4, TIMES], tmp_path / "state", PLANS)


@pytest.mark.parametrize("name", EQUAL)
def test_what_does_not_depend_on_the_past_is_what_reduce_gives(name):
    history = random_history(random.Random(5), TABLES, 6, TIMES, 4)
    history = {source: [u for u in updates if u[0][0] % 2 == 0] for source, updates in history.items()}
    with Session(retain="all") as session:
        one, two = session.maintain("one", PLANS[name]), session.maintain("two", EQUAL[name])
        session.insert("left", table_of(history["left"], LEFT), time="time", diff="diff")
        for time in range(TIMES):
            session.advance()
            assert contents_of(one) == contents_of(two), time


def test_what_is_refused():
    grouped = LEFT.group_by("k")
    moments = LEFT.differentiate().group_by("k")
    two = an.source("two", "k long, a long", time=("system", "event"))
    with pytest.raises(PlanError, match="use it before differentiate or after integrate"):
        moments.reduce_core(len, "x int")
    with pytest.raises(SchemaError, match="is a group column too"):
        grouped.reduce_core(len, "k int")
    with pytest.raises(PlanError, match="belongs to the key"):
        grouped.reduce_core(len, "x int", order="k")
    with pytest.raises(PlanError, match="must be of columns"):
        grouped.reduce_core(len, "x int", order="a + 1")
    with pytest.raises(PlanError, match="reduce_core reads what changes from round to round"):
        LEFT.iterate(lambda x: x.group_by("trial", "k").reduce_core(len, "a long"))
    with Session() as session, pytest.raises(PlanError, match="reduce_core needs collections with one time"):
        session.maintain("x", two.group_by("k").reduce_core(len, "x int"))


def test_a_change_of_a_large_group_reads_what_the_function_asks_for(monkeypatch):
    source = an.source("rows", "k long, v long")

    def least(key, changes, group):
        first = next(iter(group))[0].v
        group.count((5,))
        if [row.v for row, _ in group.output] != [first]:
            yield from ((row, -n) for row, n in group.output)
            yield (first,), 1

    counts = []
    for n in (1_000, 100_000):
        read = []
        with Session() as session:
            view = session.maintain("least", source.group_by("k").reduce_core(least, "v long", order="v"))
            for part in range(3):
                session.insert("rows", [(1, v) for v in range(10 + part, n, 3)])
                session.advance()
            monkeypatch.setattr(groups, "chunks", counting(cursor.chunks, read))
            session.insert("rows", [(1, 3)])
            session.retract("rows", [(1, 10)])
            session.advance()
            assert view.to_pylist() == [(1, 3)]
            monkeypatch.undo()
        counts.append(sum(read))
    assert counts[1] <= counts[0] + 3 * 64
    assert counts[1] <= 1_000


def counting(chunks, read):
    def counted(*args):
        for part in chunks(*args):
            read.append(len(part))
            yield part

    return counted
