"""Feedback from one time to a later one, on every runner, against recomputing one time after the other."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu import Session
from altneu.errors import PlanError, SchemaError
from tests.oracle.feedback_cases import LEFT, PLANS, RIGHT
from tests.oracle.histories import random_cuts, random_history
from tests.oracle.retries import run_twice
from tests.oracle.runners import Judge, Runner, contents_of, unlike

SOURCES = {"left": LEFT, "right": RIGHT}
CASES, TIMES = 4, 7


def row_of_left(rng, case):
    return case, rng.choice([1, 1, 2, None]), rng.choice([0, 1, 2, 3, None])


def row_of_right(rng, case):
    return case, rng.choice([1, 1, 2, None]), rng.choice(["x", "y", None])


TABLES = {"left": row_of_left, "right": row_of_right}
HISTORY = random_history(random.Random(1), TABLES, CASES, TIMES, 3)
JUDGE = Judge(PLANS, HISTORY)
EACH, ONE = list(range(1, TIMES + 1)), [TIMES]
ON_SPARK = ["since", "three ticks ago", "by each other, one"]  # where a step is dear


def test_every_step_shows_what_one_time_after_the_other_gives(runner):
    some = {"memory": [EACH, ONE], "shards": [EACH, ONE], "durable": [[3, TIMES]]}
    for cuts in some.get(runner.name, [[3, TIMES]]):
        JUDGE.run(runner, SOURCES, cuts, None if runner.name in some else ON_SPARK)


@pytest.mark.parametrize("name", PLANS)
def test_a_rewritten_plan_means_the_same(name):
    JUDGE.check_rewritten(name, range(TIMES))


@pytest.mark.parametrize("seed", range(3))
def test_any_history(seed):
    rng = random.Random(seed)
    history = random_history(rng, TABLES, CASES, TIMES, 4)
    runner = Runner("shards", lambda _: Session(shards=rng.randint(1, 3)), together=True, ahead=bool(seed % 2))
    Judge(PLANS, history).run(runner, SOURCES, random_cuts(rng, TIMES))


@pytest.mark.parametrize("retain", ["all", 2])
def test_history_that_is_retained_shows_the_result_of_then(retain):
    runner = Runner("retained", lambda _: Session(retain=retain, shards=2), together=True)
    JUDGE.run(runner, SOURCES, [2, 3, TIMES])


def test_tasks_that_run_twice_make_the_same_and_it_is_right(tmp_path):
    run_twice(JUDGE, SOURCES, [3, 4, TIMES], tmp_path / "state", PLANS)


EVENTS = an.source("events", "device string, up boolean")


def since(before):
    on, off = (EVENTS.filter(test).select("device") for test in ("up", "not up"))
    return (before.concat(on).distinct().antijoin(off, on="device"),)


def event(session, device, up, time):
    session.insert("events", [(device, up)], time=time)
    session.retract("events", [(device, up)], time=time + 1)


def test_an_advance_over_many_times_takes_a_step_for_each_at_which_something_happens():
    (on,) = an.feedback(since, on="device string")
    with Session(retain="all") as session:
        view = session.maintain("on", on)
        commits = [session._engine.journal.steps]

        def steps(to):
            session.advance(to=to)
            commits.append(session._engine.journal.steps)
            return commits[-1] - commits[-2]

        assert steps(1_000) <= 2  # constants are there at time 0
        event(session, "lamp", True, 5_000)
        assert steps(4_000) == 1  # the event waits
        assert steps(10**9) <= 5  # at 5000, at 5001 where it is gone and comes back, and one for all that is quiet
        event(session, "lamp", False, 10**9 + 7)
        assert steps(2 * 10**9) <= 5
        assert [view.to_pylist(at=t) for t in (4_999, 5_000, 10**9 + 6, 10**9 + 7, 2 * 10**9 - 1)] == [
            [],
            [("lamp",)],
            [("lamp",)],
            [],
            [],
        ]


@pytest.mark.parametrize("by", [1, 10])
def test_a_result_that_never_settles_takes_a_step_in_so_many_ticks(by):
    one = an.source("one", "x int")
    (flips,) = an.feedback(lambda before: one.concat(before.negate()), by=by, x="x int")
    with Session(retain="all") as session:
        view = session.maintain("flips", flips)
        session.insert("one", [(1,)])
        session.advance(to=by)
        before = session._engine.journal.steps
        session.advance(to=11 * by)
        assert session._engine.journal.steps - before == 10
        assert [len(view.to_pylist(at=t)) for t in range(11 * by)] == [int(t // by % 2 == 0) for t in range(11 * by)]


def test_what_is_to_come_back_is_there_after_a_restart_with_more_shards(tmp_path):
    (on,) = an.feedback(since, by=4, on="device string")
    for shards, time in [(1, 0), (2, 2), (4, 3), (4, 9)]:
        with Session(path=tmp_path, shards=shards) as session:
            view = session.maintain("on", on)
            if time == 0:
                for i in range(20):
                    event(session, f"lamp {i}", True, i % 2)
            session.advance(to=time + 1)
            expected = {0: 0, 1: 10, 2: 0, 3: 0}
            found = len(view.to_pylist())
            assert found == (10 if time % 4 in (0, 1) else 0), (time, expected)
    assert an.check_store(tmp_path).problems == ()


def test_a_late_view_begins_with_nothing_before():
    (on,) = an.feedback(since, on="device string")
    with Session() as session:
        rows = session.maintain("events", EVENTS)
        for device in ("lamp", "fan"):
            event(session, device, True, session.lower)
            session.advance()
        session.insert("events", [("pump", True)])
        session.advance()
        assert rows.to_pylist() == [("pump", True)]
        late = session.maintain("on", on)
        assert late.to_pylist() == [("pump",)]
        session.retract("events", [("pump", True)])
        session.advance(to=9)  # it came back before
        assert late.to_pylist() == [("pump",)]
        other = session.maintain("many", on.group_by().agg(n="count(*)"))  # of the same feedback: what is there
        event(session, "fan", True, 9)
        session.advance(to=20)
        assert (sorted(late.to_pylist()), other.to_pylist()) == ([("fan",), ("pump",)], [(2,)])


def test_a_later_view_of_the_same_feedback_reads_what_is_there():
    (on,) = an.feedback(since, on="device string")
    with Session() as session:
        first = session.maintain("lamps", on.filter("device = 'lamp'"))
        event(session, "lamp", True, 0)
        event(session, "fan", True, 1)
        session.advance(to=5)
        later = session.maintain("others", on.filter("device <> 'lamp'"))
        assert (first.to_pylist(), later.to_pylist()) == ([("lamp",)], [("fan",)])
        event(session, "fan", False, 6)
        session.advance(to=9)
        assert (first.to_pylist(), later.to_pylist()) == ([("lamp",)], [])


def test_explain_row_says_that_earlier_times_are_gone():
    (on,) = an.feedback(since, on="device string")
    with Session() as session:
        view = session.maintain("on", on)
        event(session, "lamp", True, 0)
        session.advance(to=5)
        assert "rests on what it was at earlier times, which are not kept" in str(view.explain_row(("lamp",)))


def test_what_is_refused():
    two = an.source("two", "k long", time=("system", "event"))
    k = an.source("k", "k long")
    same = lambda x: (x,)  # noqa: E731
    for use, error, match in [
        (lambda: an.feedback(same), PlanError, "needs at least one variable"),
        (lambda: an.feedback(same, by=0, x="k long"), PlanError, "whole number of ticks of at least 1"),
        (lambda: an.feedback(same, by=1.5, x="k long"), PlanError, "whole number of ticks of at least 1"),
        (lambda: an.feedback(same, by={"y": 1}, x="k long"), PlanError, "for each variable"),
        (lambda: an.feedback(lambda _: (k.select(j="k"),), x="k long"), SchemaError, "the feedback's variable x has"),
        (lambda: an.feedback(lambda _: None, x="k long"), PlanError, "must return 1 collection"),
        (lambda: an.feedback(lambda x, _: x, x="k long", y="k long"), PlanError, "must return 2 collection"),
        (lambda: an.feedback(lambda x: (x.latest("k", "k"),), x="k long"), PlanError, "latest reads a variable"),
        (lambda: k.iterate(lambda _: an.feedback(same, x="k long")[0]), PlanError, "define it outside"),
        (lambda: an.feedback(lambda _: an.feedback(same, x="k long"), y="k long"), PlanError, "define it outside"),
    ]:
        with pytest.raises(error, match=match):
            use()
    with Session() as session, pytest.raises(PlanError, match="feedback needs collections with one time"):
        session.maintain("x", an.feedback(lambda x: (x.concat(two),), x="k long")[0])


def test_what_a_tick_costs_does_not_depend_on_how_much_there_is():
    source = an.source("rows", "k long")
    (kept,) = an.feedback(lambda before: (before.concat(source).distinct(),), k="k long")
    read = []
    for n in (1_000, 100_000):
        with Session() as session:
            session.maintain("kept", kept)
            session.insert("rows", [(i,) for i in range(n)])
            session.advance(to=5)
            session.insert("rows", [(n,)])
            session.advance(to=9)
            assert [past.step.changes_out["kept"] for past in session.history()] == [n, 1]
            last = session._engine.measured._last
            read.append(sum(rows_in + rows_out for _, one in last for rows_in, rows_out, *_ in one.counts.values()))
    assert read[0] == read[1] < 100


def test_contents_agree_with_the_idiom_of_a_source_of_the_result_before():
    before = an.source("before", "device string", keep=True)
    (on,) = an.feedback(since, on="device string")
    rng = random.Random(3)
    with Session() as session:
        verb, idiom = session.maintain("verb", on), session.maintain("idiom", *since(before))
        for _ in range(12):
            if session.lower:
                session.replace("before", idiom.to_pylist())
            if rng.random() < 0.7:
                event(session, rng.choice("abc"), rng.random() < 0.6, session.lower)
            session.advance()
            assert unlike(contents_of(verb), Counter(contents_of(idiom))) == {}
