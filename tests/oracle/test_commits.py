"""Inputs that are committed before their time is closed show nothing until it is, and then what they would have."""

from __future__ import annotations

import random

import pytest

from altneu import Session
from tests.oracle import (
    asof_cases,
    calculus_cases,
    delta_joins_cases,
    latest_cases,
    locked_cases,
    loops_cases,
    operators_cases,
)
from tests.oracle import two_times_cases as two_times
from tests.oracle.conftest import alternate
from tests.oracle.moments import CalculusJudge
from tests.oracle.runners import Runner, contents_of, errors_of, rows_of

MODULES = [operators_cases, loops_cases, latest_cases, locked_cases, asof_cases, delta_joins_cases]


class Committing(Session):
    """A session that commits before every advance, and now and then what came so far; it looks whether that shows."""

    def insert(self, *args, **options):
        super().insert(*args, **options)
        if self.store.number % 2:
            self.commit()

    def commit(self):
        before = self._shown()
        super().commit()
        assert not self._engine.pending.updates
        assert not self._engine.pending.frames
        assert self._shown() == before

    def advance(self, to=None):
        self.commit()
        return super().advance(to)

    def _shown(self):
        views = [self.view(name) for name in self.views]
        return [(self.lower, rows_of(v.changes("#t")), contents_of(v), errors_of(v)) for v in views]


def check(runner: Runner, module, few: int) -> None:
    end = 1 + max(t for updates in module.HISTORY.values() for _, t, _ in updates)
    names = sorted(module.PLANS)
    module.JUDGE.run(runner, module.SOURCES, [end // 2, end], random.Random(few).sample(names, min(few, len(names))))


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rsplit(".", 1)[-1][:-6])
def test_in_memory(module):
    check(Runner("shards", lambda _: Committing(shards=2), ahead=True, together=True), module, 12)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rsplit(".", 1)[-1][:-6])
def test_reopened(module, tmp_path_factory):
    folder = lambda: tmp_path_factory.mktemp("store")  # noqa: E731
    check(Runner("durable", lambda path: Committing(path=path), folder, reopened=True, together=True), module, 4)


@pytest.mark.parametrize(
    "module", [operators_cases, loops_cases], ids=lambda m: m.__name__.rpartition(".")[2].removesuffix("_cases")
)
def test_on_spark_and_in_the_driver_by_turns(spark, module):
    runner = Runner("mixed", lambda _: Committing(spark), together=True, ahead=True, before_step=alternate)
    check(runner, module, 2)


def test_moments():
    _, history = calculus_cases.histories(5, cases=2)
    few = {name: calculus_cases.PLANS[name] for name in calculus_cases.FEW}
    judge = CalculusJudge(few, history)
    runner = Runner("memory", lambda _: Committing(), ahead=True, together=True)
    for name, trace in runner.run(few, calculus_cases.SOURCES, history, [2, calculus_cases.TIMES + 1]).items():
        judge.check(name, trace)


@pytest.mark.parametrize("name", two_times.PLANS)
def test_two_times(name):
    plan, history = two_times.PLANS[name], two_times.History.random(5)
    with Committing(retain="all", shards=2) as session:
        view = session.maintain("v", plan)
        history.insert(session, 0, two_times.SYSTEMS)
        for upper in (2, two_times.SYSTEMS):
            session.advance(to=upper)
        two_times.check(view, plan, history, two_times.SYSTEMS, range(two_times.SYSTEMS))
