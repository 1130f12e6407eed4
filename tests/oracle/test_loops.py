"""Loops on every runner against iterating from scratch at every time: many epochs a step, deletes, future rows.

The cases of a history travel together, as everywhere: graphs of a few nodes, each with its trial in every row.
"""

from __future__ import annotations

import random

import pytest

import altneu as an
from altneu import Session
from altneu.columnar.hashing import hash_bits
from tests.lane import seeds
from tests.oracle.histories import accumulated, random_cuts
from tests.oracle.loops_cases import (
    HISTORY,
    JUDGE,
    PLANS,
    SOURCES,
    TIMES,
    _insert,
    history_of,
)
from tests.oracle.runners import Judge, Runner, contents_of, observe, state_left, table_of

EACH, ONE = list(range(1, TIMES + 2)), [TIMES + 1]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PLANS)
def test_every_step_shows_what_iterating_gives(runner, name):
    cuts = {"memory": [EACH, ONE, [2, 5, TIMES + 1]], "durable": [[2, 3, TIMES + 1]]}
    for some in cuts.get(runner.name, [[3, 4, TIMES + 1]]):
        JUDGE.check(name, runner.run({name: PLANS[name]}, SOURCES, HISTORY, some)[name])


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("seed", seeds(3, 1))
def test_other_histories_and_cuts(name, seed):
    history = history_of(seed=100 + seed, cases=3)
    cuts = random_cuts(random.Random(seed), TIMES + 1)
    runner = Runner("memory", lambda _: Session(shards=1 + seed), ahead=seed == 1)
    Judge(PLANS, history).check(name, runner.run({name: PLANS[name]}, SOURCES, history, cuts)[name])


@pytest.mark.parametrize("name", PLANS)
def test_collisions_of_hashes_change_nothing(name):
    history = history_of(seed=2, cases=2)
    with hash_bits(2):
        traces = Runner("memory", lambda _: Session()).run({name: PLANS[name]}, SOURCES, history, [3, TIMES + 1])
    Judge(PLANS, history).check(name, traces[name])


@pytest.mark.parametrize("name", PLANS)
def test_a_late_view_shows_the_same(name):
    """Computed from what another view keeps, beside it, and after the loop's own view was there."""
    with Session(retain="all") as session:
        for source in SOURCES.values():
            session.maintain(f"keep {source.node.name}", an.source(source.node.name, source.schema))
        _insert(session, 0, 3)
        session.advance(to=3)
        view = session.maintain(name, PLANS[name])
        again = session.maintain("again", PLANS[name].select("*", more="1"))
        for time in range(3):
            assert observe(view, 2, 3).contents == JUDGE.expected(name, 2)[0]
            assert contents_of(view, time) == JUDGE.expected(name, time)[0]
        _insert(session, 3, TIMES + 1)
        session.advance(to=TIMES)
        assert contents_of(view) == JUDGE.expected(name, TIMES - 1)[0]
        assert sum(contents_of(again).values()) == sum(JUDGE.expected(name, TIMES - 1)[0].values())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PLANS)
def test_retracting_everything_returns_to_nothing(name):
    with Session(shards=2) as session:
        view = session.maintain(name, PLANS[name])
        kept = []
        for time in range(12):
            for source in session._engine.declared:
                there = accumulated(HISTORY[source], TIMES - 1)
                updates = [(row, time, n if time % 2 == 0 else -n) for row, n in there.items()]
                session.insert(source, table_of(updates, SOURCES[source]), time="time", diff="diff")
            kept.append(session.advance().state_rows)
        session.advance(to=30)
        assert not view.to_pylist()
        assert not [name for name, _ in state_left(session)]
        assert kept[-1] <= 3 * max(kept[:2]) + 64
