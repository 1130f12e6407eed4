"""The worker step is pure: what it is given decides what it makes, and nothing it is given changes."""

from __future__ import annotations

import pickle
import random
from collections import Counter

import numpy as np
import pytest
from pyspark import cloudpickle

import altneu as an
from altneu.errors import StoreFullError
from altneu.linear import Filter, Project
from altneu.operators.base import Region, StepMode
from altneu.operators.linear.operation import LinearOp
from altneu.order import Antichain
from altneu.runtime.base import run
from altneu.runtime.inputs import Stamp
from altneu.runtime.local import ShardView
from altneu.trace.update import Updates
from tests.lane import some_of
from tests.oracle import plans
from tests.oracle.histories import random_history
from tests.oracle.operators_cases import HISTORY, JUDGE, PLANS
from tests.oracle.queries import SOURCES
from tests.oracle.retries import Retries
from tests.oracle.runners import Judge, Runner, table_of
from tests.session.durable_cases import no_file_beyond


def session_of_retries(path):
    session = an.Session(path=path, shards=3)
    session._engine.executor = Retries(3)
    return session


def test_tasks_that_run_twice_make_the_same_and_it_is_right(tmp_path):
    """Operators through the code of Spark's tasks, messages in any order, each task more than once."""
    runner = Runner("retries", session_of_retries, lambda: tmp_path / "state", together=True)
    for name, trace in runner.run(
        {name: PLANS[name] for name in some_of(PLANS, 2)}, SOURCES, HISTORY, [2, 5, 8]
    ).items():
        JUDGE.check(name, trace)


def test_a_task_that_runs_twice_writes_a_segment_once(tmp_path):
    """Large state goes to files; their names say what is in them, so attempts meet in one."""
    with session_of_retries(tmp_path / "state") as session:
        orders = an.source("orders", "item long, price long")
        view = session.maintain("v", orders.filter("price >= 0"))
        session.insert("orders", [(i, i % 7) for i in range(20_000)])
        before = session._engine.executor.tasks
        session.advance()
        assert session._engine.executor.tasks == before + 6
        named = {value["batches"][0]["data"]["segment"]["name"] for value in session._engine.table.stored.values()}
        assert {p.name for p in (tmp_path / "state" / "segments").iterdir()} == named
        assert len(named) == 3
        assert Counter(view.to_pylist()) == Counter((i, i % 7) for i in range(20_000))


@pytest.mark.parametrize("seed", range(4))
def test_random_plans_survive_retries(tmp_path, seed):
    rng = random.Random(seed)
    history = random_history(rng, plans.TABLES, 4, 5, 3)
    result = {str(i): plans.random_plan(rng, 5) for i in range(5)}
    runner = Runner("retries", session_of_retries, lambda: tmp_path / "state", together=True)
    judge = Judge(result, history)
    for name, trace in runner.run(result, plans.SOURCES, history, [1, 3, 5]).items():
        judge.check(name, trace)


def test_a_full_disk_under_a_task_is_named_in_the_error_and_commits_nothing(tmp_path):
    rows = [(i, i % 7) for i in range(20_000)]
    with session_of_retries(tmp_path / "state") as session:
        view = session.maintain("v", an.source("orders", "item long, price long"))
        session.insert("orders", rows)
        with no_file_beyond(20_000), pytest.raises(StoreFullError, match="cannot write"):
            session.advance()
        assert session.lower == 0
        session.advance()
        assert Counter(view.to_pylist()) == Counter(rows)


def frozen(message):
    """A copy that later changes of the arrays would tell from the original."""
    updates = message if isinstance(message, Updates) else message.new.updates()
    return updates.rows.to_pylist(), updates.times.copy(), updates.diffs.copy()


def same(left, right):
    return left[0] == right[0] and np.array_equal(left[1], right[1]) and np.array_equal(left[2], right[2])


@pytest.mark.parametrize(
    "name", ["self-join", "full join", "collect", "count, sum, avg", "top_k", "reduce", "two hops", "diamond"]
)
def test_the_step_changes_nothing_it_is_given_and_repeats_itself(name):
    with an.Session() as session:
        session.maintain("v", PLANS[name])
        for source in session._engine.declared:
            updates = [u for u in HISTORY[source] if u[1] < 4]
            session.insert(source, table_of(updates, SOURCES[source]), time="time", diff="diff")
        session.advance(to=4)
        plan, lattice = session._engine.plan, session._engine.lattice
        region = Region(*(Antichain.of(lattice, t) for t in (4, 8, 4)))
        inbox = {}
        for source, node in plan.sources.items():
            stamp = Stamp(source, SOURCES[source].schema, lattice, region.lower, "time", "diff")
            later = [u for u in HISTORY[source] if u[1] >= 4]
            inbox[-1 - node] = [stamp.updates(table_of(later, SOURCES[source]))]
        snapshot = ShardView(session._engine.table, 0)
        before = {n: [frozen(b.updates()) for b in snapshot[n].spine.batches] for n in snapshot}
        given = {port: [frozen(m) for m in parts] for port, parts in inbox.items()}
        messages = inbox
        for stage in range(plan.depth):
            once, again = (run(plan, stage, 0, snapshot, messages, region, StepMode()) for _ in range(2))
            assert [(s, c) for s, c, _ in once.sent] == [(s, c) for s, c, _ in again.sent]
            assert all(same(frozen(a), frozen(b)) for (*_, a), (*_, b) in zip(once.sent, again.sent, strict=True))
            assert once.new.keys() == again.new.keys()
            news = [{n: frozen(batch.updates()) for n, (batch,) in made.new.items()} for made in (once, again)]
            assert all(same(new, news[1][n]) for n, new in news[0].items())
            messages = {}
            for _, channel, message in once.sent:
                messages.setdefault(channel, []).append(message)
        for n, batches in before.items():
            assert all(same(b, frozen(a.updates())) for b, a in zip(batches, snapshot[n].spine.batches, strict=True))
        for port, parts in given.items():
            assert all(same(a, frozen(b)) for a, b in zip(parts, inbox[port], strict=True))


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_sent_to_a_task_says_the_same_there(name):
    """Errors name operators and expressions: said otherwise, they would not be found again when their rows go."""
    with an.Session() as session:
        session.maintain(name, PLANS[name])
        here = session._engine.plan
        there = pickle.loads(cloudpickle.dumps(here))  # noqa: S301 -- as tasks get it
        assert [n.label for n in there.nodes] == [n.label for n in here.nodes]
        for mine, theirs in zip(here.nodes, there.nodes, strict=True):
            if isinstance(mine.operation, LinearOp):
                for a, b in zip(mine.operation.logic.steps, theirs.operation.logic.steps, strict=True):
                    assert str(a) == str(b)
                    assert [e.text for e in expressions(a)] == [e.text for e in expressions(b)]


def expressions(step):
    if isinstance(step, Filter):
        return [step.predicate]
    return [e for _, e in step.outputs] if isinstance(step, Project) else []
