"""Every operator, on every runner, against recomputation at every time.

Spark runs all plans that are judged in one session, so that a step costs one job and not one for each plan.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from altneu import Collection, Session
from altneu.columnar.hashing import hash_bits
from tests.oracle.histories import accumulated, random_cuts
from tests.oracle.operators_cases import HISTORY, JUDGE, PLANS, TIMES, history_of
from tests.oracle.queries import SOURCES
from tests.oracle.runners import Judge, Runner, Trace, Traces, observe, state_left, table_of


def cuts_of(seed: int) -> list[int]:
    return random_cuts(random.Random(seed), TIMES + 1)


TINY = 64  # rows that a spine may leave alone
EACH, ONE = list(range(1, TIMES + 2)), [TIMES + 1]


@dataclass
class Runs:
    """What one runner made of the history, for each way to cut it into steps; run when first asked for."""

    runner: Runner
    plans: Mapping[str, Collection]  # those that are judged
    known: dict[tuple[int, ...], Traces] = field(default_factory=dict)

    def trace(self, name: str, cuts: Sequence[int]) -> Trace:
        traces = self.known.setdefault(tuple(cuts), {})
        if name not in traces:
            wanted = self.plans if self.runner.together else {name: self.plans[name]}
            traces |= self.runner.run(wanted, SOURCES, HISTORY, cuts)
        return traces[name]


@pytest.fixture(scope="module")
def runs(runner, request):
    asked = [item for item in request.session.items if item.path == request.path and "runs" in item.fixturenames]
    judged = {item.callspec.params["name"] for item in asked if item.callspec.params["runner"] == runner.name}
    return Runs(runner, {name: plan for name, plan in PLANS.items() if name in judged})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PLANS)
def test_every_step_shows_what_recomputation_gives(runs, name):
    for cuts in {"memory": [EACH, ONE, cuts_of(3)], "shards": [EACH], "durable": [[2, 3, 8]]}.get(
        runs.runner.name, [cuts_of(5)]
    ):
        JUDGE.check(name, runs.trace(name, cuts))


@pytest.mark.parametrize("name", PLANS)
def test_collisions_of_hashes_change_nothing(name):
    history = history_of(seed=2, cases=3, size=2)
    with hash_bits(2):
        traces = Runner("memory", lambda _: Session()).run({name: PLANS[name]}, SOURCES, history, [3, 4, TIMES + 1])
    Judge(PLANS, history).check(name, traces[name])


@pytest.mark.parametrize("name", PLANS)
def test_the_order_of_inserts_changes_nothing(name):
    """Pieces in any order, and long before their time, give the very updates that one insert a step gives."""
    rng = random.Random(name)
    whole = Runner("memory", lambda _: Session()).run({name: PLANS[name]}, SOURCES, HISTORY, [4, TIMES + 1])[name]
    with Session() as session:
        view = session.maintain(name, PLANS[name])
        pieces = []
        for source in session._engine.declared:
            updates = rng.sample(HISTORY[source], len(HISTORY[source]))
            cut = rng.randrange(len(updates))
            pieces += [(source, updates[:cut]), (source, updates[cut:])]
        for source, updates in rng.sample(pieces, len(pieces)):
            session.insert(source, table_of(updates, SOURCES[source]), time="time", diff="diff")
        for seen in whole.steps:
            session.advance(to=seen.upper)
            assert observe(view, seen.lower, seen.upper) == seen


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PLANS)
def test_retracting_everything_returns_to_nothing(name):
    """State included: what is left of it adds up to nothing, and what comes and goes does not pile up."""
    rounds = 8
    with Session(shards=2) as session:
        view = session.maintain(name, PLANS[name])
        kept = []
        for time in range(2 * rounds):
            for source in session._engine.declared:
                there = accumulated(HISTORY[source], TIMES - 1)
                updates = [(row, time, n if time % 2 == 0 else -n) for row, n in there.items()]
                session.insert(source, table_of(updates, SOURCES[source]), time="time", diff="diff")
            kept.append(session.advance().state_rows)
        time = 4 * rounds  # when nothing is delayed any more
        session.advance(to=time + 1)
        nothing = JUDGE.expected(name, time)[0]
        assert observe(view, time, time + 1).contents == nothing
        assert not view.errors().num_rows
        assert [rows for _, rows in state_left(session)] == [1] * len(nothing)
        assert kept[-1] <= 3 * max(kept[:2]) + TINY
