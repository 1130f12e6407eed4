"""Differentiate, integrate and what is between them, against updates with their moments, on every runner."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import pytest

import altneu as an
from altneu import Session
from altneu.columnar.hashing import hash_bits
from altneu.plan.rewrite import optimise
from altneu.runtime import base, step_limit
from altneu.trace import spine
from tests.oracle.calculus_cases import (
    FEW,
    KEY,
    PLANS,
    PRICES,
    SOURCES,
    TABLES,
    TIMES,
    histories,
    plans,
    reach,
    rounds,
)
from tests.oracle.histories import random_cuts, random_history
from tests.oracle.moments import CalculusJudge, Meaning, Moving
from tests.oracle.runners import Runner, contents_of, errors_of, row_text, table_of


@pytest.mark.parametrize("seed", range(2))
def test_every_time_shows_what_its_moments_add_up_to(seed):
    rng, history = histories(seed)
    runner = Runner("memory", lambda _: Session(shards=1 + 2 * seed))
    judge = CalculusJudge(PLANS, history)
    for name, trace in runner.run(PLANS, SOURCES, history, random_cuts(rng, TIMES + 1)).items():
        judge.check(name, trace)


def test_every_runner_has_moments(runner: Runner):
    rng, history = histories(2)
    few = {name: PLANS[name] for name in FEW}
    judge = CalculusJudge(few, history)
    for name, trace in runner.run(few, SOURCES, history, random_cuts(rng, TIMES + 1)).items():
        judge.check(name, trace)


MANY = 40


@pytest.fixture
def folds_at_once(monkeypatch):
    """Every batch is merged with those before it, and folded, in the step in which it comes."""
    for name, value in {"TINY_ROWS": 0, "TINY_BATCHES": 0}.items():
        monkeypatch.setattr(spine, name, value)
    monkeypatch.setattr(base, "COMPACT_ROWS", 1)


@pytest.mark.parametrize(
    "name", ["as of", "as of before", "sums of changes", "moments of moments", "moments in a loop"]
)
def test_steps_and_folding_change_nothing(name, folds_at_once):
    """Old rows are seen at the least time that any reader asks for, and must not seem to be of the same time."""
    rng = random.Random(7)
    history = random_history(rng, TABLES, 2, MANY, 1)
    judge = CalculusJudge({name: PLANS[name]}, history)
    seen = []
    for cuts, retain in (([MANY], None), (range(1, MANY + 1), None), (range(1, MANY + 1), "all"), (range(3, 43, 3), 4)):
        for ahead in (False, True):
            runner = Runner("memory", lambda _, retain=retain: Session(retain=retain), ahead=ahead)
            trace = runner.run({name: PLANS[name]}, SOURCES, history, cuts)[name]
            seen.append(sorted((u for step in trace.steps for u in step.changes if u[1] < MANY), key=repr))
    judge.check(name, trace)
    assert all(changes == seen[0] for changes in seen)
    assert seen[0]


@pytest.mark.parametrize("seed", range(2))
def test_an_advance_in_many_steps_is_as_one(monkeypatch, seed):
    """What is not due yet waits for its moments, and is counted by the epochs of these."""
    monkeypatch.setattr(step_limit, "STEP_ROWS", 3)
    _, history = histories(5 + seed, cases=2)
    few = {name: PLANS[name] for name in FEW}
    judge = CalculusJudge(few, history)
    for cuts in ([TIMES + 1], [2, TIMES + 1]):
        runner = Runner("memory", lambda _: Session(), ahead=True, together=bool(seed))
        for name, trace in runner.run(few, SOURCES, history, cuts).items():
            judge.check(name, trace)


def test_hashes_that_collide_change_nothing():
    rng, history = histories(3)
    few = {name: PLANS[name] for name in FEW}
    with hash_bits(2):
        traces = Runner("memory", lambda _: Session(shards=3)).run(few, SOURCES, history, random_cuts(rng, TIMES + 1))
    judge = CalculusJudge(few, history)
    for name, trace in traces.items():
        judge.check(name, trace)


KEPT = {name: an.source(name, c.schema, keep=True) for name, c in SOURCES.items()}
LATE = plans(**KEPT)


@pytest.mark.parametrize("retain", [None, "all"])
def test_a_late_view_takes_what_is_there_as_having_come_at_once(retain):
    """As much of history as is kept is as it was; what came before has come at its beginning."""
    _, history = histories(4)
    start = TIMES // 2
    since = 0 if retain else start - 1
    moved = {name: [(row, max(t, since), n) for row, t, n in updates] for name, updates in history.items()}
    judge = CalculusJudge(LATE, moved)
    with Session(retain=retain) as session:
        for name, source in KEPT.items():
            session.maintain(name, source)
        for lower, upper in [(0, start), *((t, t + 1) for t in range(start, TIMES + 1))]:
            for name, source in KEPT.items():
                session.insert(
                    name,
                    table_of([u for u in history[name] if lower <= u[1] < upper], source),
                    time="time",
                    diff="diff",
                )
            session.advance(to=upper)
            for name, plan in LATE.items() if upper == start else ():
                session.maintain(f"late {name}", plan)
            for name in LATE:
                wanted, errors = judge.expected(name, upper - 1)
                view = session.view(f"late {name}")
                assert contents_of(view) == Counter({r: n for r, n in wanted.items() if n > 0}), (name, upper)
                negative = {
                    ("NEGATIVE_MULTIPLICITY", row_text(view.schema.names, r)) for r, n in wanted.items() if n < 0
                }
                assert errors_of(view) == errors | negative, (name, upper)


EVENTS = an.source("events", "trial int, k long, v long", time=("system", "event"))
AT_TWO_TIMES = {
    "the same": EVENTS.differentiate().consolidate().integrate(),
    "as of": EVENTS.differentiate().join(PRICES, on=KEY).integrate(),
    "itself as of before": EVENTS.differentiate()
    .join(EVENTS.select("trial", "k", u="v").delay_to_neu(), on=KEY)
    .integrate(),
    "itself as of": EVENTS.differentiate().join(EVENTS.select("trial", "k", u="v"), on=KEY).integrate(),
    "sums of changes": EVENTS.differentiate().group_by(*KEY).agg(n="count(*)", total="sum(v)").integrate(),
    "distinct": EVENTS.select(*KEY).differentiate().distinct().integrate(),
    "top_k": EVENTS.differentiate().concat(EVENTS.delay_to_neu()).top_k(1, "v", per=KEY).integrate(),
    "antijoin": EVENTS.differentiate().antijoin(PRICES, on=KEY).integrate(),
    "moments of moments": EVENTS.differentiate()
    .differentiate()
    .group_by(*KEY)
    .agg(n="count(*)")
    .integrate()
    .integrate(),
    "a loop in moments": reach(
        EVENTS.differentiate().select(*KEY), PRICES.select("trial", src="k", dst="w")
    ).integrate(),
    "moments in a loop": rounds(EVENTS.select(*KEY), lambda x: x.differentiate().semijoin(PRICES, on=KEY).integrate()),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", AT_TWO_TIMES)
def test_moments_of_two_times(name, seed):
    """Also, for the last seed, when event times long ago are not kept apart: then rows are about the first that is."""
    rng = random.Random(seed)
    plan = AT_TWO_TIMES[name]
    one = random_history(rng, TABLES, 2, 3, 1)
    rows = [(row, (s, rng.randrange(3)), n) for row, s, n in one["orders"]]
    rows += [(row, (min(s + 1, 2), e), -n) for row, (s, e), n in rows if rng.random() < 0.3]
    prices = [(row, (t,), n) for row, t, n in one["prices"]]
    steps = [(0, 3)] if rng.random() < 0.3 else [(0, 1), (1, 2), (2, 3)]
    apart = [(t, upper - 1 if seed == 2 else 0) for lower, upper in steps for t in range(lower, upper)]
    moved = [(row, (s, max(e, dict(apart)[s])), n) for row, (s, e), n in rows]
    meaning = Meaning({"events": Moving.of(("event",), moved), "prices": Moving.of((), prices)})
    wanted = meaning.of(optimise(plan.node))
    with Session(retain="all", shards=1 + seed, retain_events=0 if seed == 2 else None) as session:
        view = session.maintain("v", plan)
        for lower, upper in steps:
            for row, at, n in rows:
                if lower <= at[0] < upper:
                    session.insert("events", [row], time=at, diff=n)
            for row, (t,), n in prices if "prices" in session._engine.declared else ():
                if lower <= t < upper:
                    session.insert("prices", [row], time=t, diff=n)
            session.advance(to=upper)
        for at in product(range(3), range(apart[-1][1], 4)):
            held = wanted.at(at)
            assert contents_of(view, at) == Counter({r: n for r, n in held.items() if n > 0}), at
            negative = {("NEGATIVE_MULTIPLICITY", row_text(plan.columns, r)) for r, n in held.items() if n < 0}
            assert errors_of(view, at) == meaning.failed(at) | negative, at
