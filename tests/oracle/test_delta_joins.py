"""Joins of three and more collections at once, on every runner, against recomputation at every time.

Patterns with and without cycles, relations with columns of their own, texts and nulls, negative counts, future rows,
many times a step, and inside loops: each as a delta join, whatever the optimiser would choose.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import altneu as an
from altneu import Session
from altneu.columnar.hashing import hash_bits
from altneu.plan import ir
from tests.lane import seeds
from tests.oracle.delta_joins_cases import (
    PLANS,
    SOURCES,
    TIMES,
    even,
    history_of,
    judge_of,
)
from tests.oracle.histories import accumulated, random_cuts
from tests.oracle.runners import Judge, Runner, contents_of, observe, state_left, table_of

EACH, ONE = list(range(1, TIMES + 2)), [TIMES + 1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PLANS)
def test_every_step_shows_what_joining_gives(runner, name):
    cuts = {"memory": [EACH, ONE, [2, 4, TIMES + 1]], "shards": [EACH, ONE], "durable": [[2, 3, TIMES + 1]]}
    judge = judge_of(name)
    for some in cuts.get(runner.name, [[3, 4, TIMES + 1]]):
        result = replace(runner, joins="delta").run({name: PLANS[name]}, SOURCES, judge.history, some)
        judge.check(name, result[name])


def test_delta_joins_are_what_was_run():
    for name, plan in PLANS.items():
        with Session() as session:
            session.maintain("v", plan, joins="delta")
            joins = [n for n in ir.walk(session._engine.catalogue.nodes["v"]) if isinstance(n, ir.MultiJoin)]
            assert joins, name
            assert "delta join of" in session.explain("v")


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("seed", seeds(3, 1))
def test_other_histories_and_cuts(name, seed):
    history = even(history_of(seed=100 + seed, cases=6)) if name in ("truss", "closing", "cliques of four") else None
    history = history or history_of(seed=100 + seed, cases=3)
    cuts = random_cuts(random.Random(seed), TIMES + 1)
    runner = Runner("memory", lambda _: Session(shards=1 + seed), ahead=seed == 1, joins="delta")
    Judge(PLANS, history).check(name, runner.run({name: PLANS[name]}, SOURCES, history, cuts)[name])


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("shards", [1, 2])
def test_collisions_of_hashes_change_nothing(name, shards):
    history = even(history_of(seed=2, cases=4))
    with hash_bits(2):
        runner = Runner("memory", lambda _: Session(shards=shards), joins="delta")
        traces = runner.run({name: PLANS[name]}, SOURCES, history, [3, TIMES + 1])
    Judge(PLANS, history).check(name, traces[name])


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("shards", [1, 2])
def test_a_late_view_shows_the_same(name, shards):
    judge = judge_of(name)
    with Session(shards=shards, retain="all") as session:
        for source in SOURCES.values():
            session.maintain(f"keep {source.node.name}", an.source(source.node.name, source.schema))
        _insert(session, judge, 0, 3)
        session.advance(to=3)
        view = session.maintain(name, PLANS[name], joins="delta")
        for time in range(3):
            assert contents_of(view, time) == +judge.expected(name, time)[0]
        assert observe(view, 2, 3).contents == +judge.expected(name, 2)[0]
        _insert(session, judge, 3, TIMES + 1)
        session.advance(to=TIMES)
        assert contents_of(view) == +judge.expected(name, TIMES - 1)[0]


def _insert(session, judge, lower, upper):
    for name, source in SOURCES.items():
        updates = [u for u in judge.history[name] if lower <= u[1] < upper]
        session.insert(name, table_of(updates, source), time="time", diff="diff")


@pytest.mark.parametrize("name", PLANS)
def test_retracting_everything_returns_to_nothing(name):
    judge = judge_of(name)
    with Session(shards=2) as session:
        view = session.maintain(name, PLANS[name], joins="delta")
        for time in range(6):
            for source in session._engine.declared:
                there = accumulated(judge.history[source], TIMES - 1)
                updates = [(row, time, n if time % 2 == 0 else -n) for row, n in there.items()]
                session.insert(source, table_of(updates, SOURCES[source]), time="time", diff="diff")
            session.advance()
        session.advance(to=20)
        assert not view.to_pylist()
        assert not [name for name, _ in state_left(session)]
