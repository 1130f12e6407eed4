"""Loops in parts: every segment in the driver or in tasks, whichever it falls to; tasks are killed and run again."""

from __future__ import annotations

import pytest

import altneu as an
from altneu.errors import NoFixpointError
from altneu.plan.physical import PENDED
from tests.oracle.loops_cases import EDGES, HISTORY, JUDGE, PLANS, ROOTS, SOURCES, TIMES, _insert, reach
from tests.oracle.retries import Retries
from tests.oracle.runners import Runner, contents_of

SHARDS = 3
CUTS = [3, 4, TIMES + 1]
ON_SPARK = ["reach", "components by and by", "strong components", "sums"]


def session_of(share, seen):
    def open_session(path):
        session = an.Session(path=path, shards=SHARDS)
        session._engine.executor = Retries(SHARDS, share)
        seen.append(session._engine.executor)
        return session

    return open_session


@pytest.mark.sampled(4)
@pytest.mark.parametrize("share", [1, 0.5])
@pytest.mark.parametrize("name", PLANS)
def test_tasks_that_are_killed_and_run_again_make_the_same_and_it_is_right(tmp_path, name, share):
    seen = []
    runner = Runner("retries", session_of(share, seen), lambda: tmp_path / "state", reopened=share < 1)
    JUDGE.check(name, runner.run({name: PLANS[name]}, SOURCES, HISTORY, CUTS)[name])
    assert sum(executor.tasks for executor in seen) > 0
    assert sum(executor.placed[False] for executor in seen) > 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PLANS)
def test_a_late_view_is_computed_by_tasks_and_by_the_driver(tmp_path, name):
    with session_of(0.6, [])(tmp_path / "state") as session:
        for source in SOURCES.values():
            session.maintain(f"keep {source.node.name}", an.source(source.node.name, source.schema))
        _insert(session, 0, 3)
        session.advance(to=3)
        view = session.maintain(name, PLANS[name])
        again = session.maintain("again", PLANS[name].select("*", more="1"))
        assert contents_of(view) == JUDGE.expected(name, 2)[0]
        _insert(session, 3, TIMES + 1)
        session.advance(to=TIMES)
        assert contents_of(view) == JUDGE.expected(name, TIMES - 1)[0]
        assert sum(contents_of(again).values()) == sum(JUDGE.expected(name, TIMES - 1)[0].values())


@pytest.mark.parametrize("name", ON_SPARK)
def test_segments_fall_to_the_driver_and_to_spark_at_random(spark, monkeypatch, name):
    import random

    from altneu.runtime.spark.executor import SparkExecutor

    rng, real = random.Random(name), SparkExecutor.is_large
    monkeypatch.setattr(SparkExecutor, "is_large", lambda *given: real(*given) and rng.random() < 0.4)
    runner = Runner("by segment", lambda _: an.Session(spark, placement="spark"))
    JUDGE.check(name, runner.run({name: PLANS[name]}, SOURCES, HISTORY, CUTS)[name])


def test_what_passes_between_segments_is_no_part_of_the_commit(tmp_path):
    """Messages are in files of the store, as they are too large for a blob; vacuum takes them, and nothing else."""
    with session_of(1, [])(tmp_path / "state") as session:
        view = session.maintain("reach", reach())
        nodes = 4000
        session.insert("roots", [(0, 0)])
        session.insert("edges", [(0, i // 8, i, 1) for i in range(nodes)])
        session.advance()
        store = session._engine.journal.store
        assert not [key for key in store.state if PENDED in key]
        named = set(store._ledger.segments)
        files = {path.name for path in (tmp_path / "state" / "segments").iterdir()}
        assert named < files
        store.vacuum(keep=1)
        assert {path.name for path in (tmp_path / "state" / "segments").iterdir()} == named
        assert len(view.to_pylist()) == nodes
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("reach", reach())
        session.retract("roots", [(0, 0)])
        session.advance()
        assert view.to_pylist() == []


def test_a_round_is_placed_by_the_output_of_the_previous_one(tmp_path, monkeypatch):
    """Nine hundred nodes are few, but they lead to many."""
    from altneu.runtime import schedule
    from altneu.runtime.spark import executor as spark

    placed, real = {}, Retries.is_large

    def noting(executor, step, segment, frames):
        placed[segment.rounds] = real(executor, step, segment, frames)
        return placed[segment.rounds]

    monkeypatch.setattr(Retries, "is_large", noting)
    monkeypatch.setattr(spark, "DRIVER_ROWS", 20_000)
    for many, wanted in ((10**9, (3,)), (100, (2,))):
        monkeypatch.setattr(schedule, "_MANY_ROWS", many)
        placed.clear()
        with session_of(1, [])(tmp_path / str(many)) as session:
            session._engine.executor.placement = "auto"
            view = session.maintain("v", reach())
            session.insert("roots", [(0, 0)])
            session.advance()
            for level in range(3):
                first, count = sum(30**k for k in range(level)), 30**level
                step = first + count
                session.insert("edges", [(0, first + i // 30, step + i, 1) for i in range(30 * count)], time=2)
            session.advance(to=2)
            session.advance(to=3)
            assert len(view.to_pylist()) == 1 + 30 + 900 + 27_000
        assert min(rounds for rounds, large in placed.items() if large and rounds and rounds > (0,)) == wanted


def test_a_loop_of_tasks_that_does_not_end_says_where_and_commits_nothing(tmp_path):
    with session_of(1, [])(tmp_path / "state") as session:
        view = session.maintain("v", EDGES.iterate(lambda x: x.concat(x), max_rounds=6))
        session.insert("edges", [(0, 1, 2, 1)], time=1)
        session.insert("edges", [(0, 5, 6, 1)], time=2)
        with pytest.raises(NoFixpointError, match="after 6 rounds at time 1, 2; nothing"):
            session.advance(to=4)
        assert (session.lower, view.to_pylist()) == (0, [])
        session.discard()
        session.insert("roots", [(0, 1)]) if "roots" in session._engine.declared else None
        session.advance(to=4)
        assert session.lower == 4


def test_many_sources_enter_where_they_are_read():
    """A source that only a loop reads goes there straight from the first stage."""
    with an.Session() as session:
        view = session.maintain("v", ROOTS.iterate(lambda x: x.concat(ROOTS).distinct()))
        session.insert("roots", [(0, 1), (0, 1), (0, 2)])
        session.advance()
        assert sorted(view.to_pylist()) == [(0, 1), (0, 2)]
