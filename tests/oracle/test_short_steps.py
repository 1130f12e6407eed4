"""Advances that are cut into many steps, because more is due than one may take up, show what one step shows."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from altneu import Session
from altneu.runtime import step_limit
from tests.oracle.conftest import alternate
from tests.oracle.histories import History, random_history
from tests.oracle.plans import SOURCES, TABLES, random_plan
from tests.oracle.retries import Retries
from tests.oracle.runners import Judge, Runner


@pytest.fixture(autouse=True)
def short_steps(monkeypatch):
    monkeypatch.setattr(step_limit, "STEP_ROWS", 3)


def check(runner: Runner, seed: int) -> None:
    """All of a history at once, in one advance and in two; and as it comes."""
    rng = random.Random(seed)
    times = rng.randint(4, 9)
    history: History = random_history(rng, TABLES, rng.randint(1, 4), times, rng.randint(1, 3))
    plans = {str(i): random_plan(rng, rng.randint(2, 8)) for i in range(4)}
    judge = Judge(plans, history)
    for ahead, cuts in ((True, [times]), (True, [rng.randint(1, times - 1), times]), (False, [times // 2, times])):
        traces = replace(runner, ahead=ahead, together=True).run(plans, SOURCES, history, cuts)
        for name, trace in traces.items():
            judge.check(name, trace)


@pytest.mark.parametrize("seed", range(100, 110))
def test_in_memory(seed):
    check(Runner("memory", lambda _: Session()), seed)


@pytest.mark.parametrize("seed", range(110, 114))
def test_reopened_after_every_advance(seed, tmp_path_factory):
    folder = lambda: tmp_path_factory.mktemp("store")  # noqa: E731
    check(Runner("durable", lambda path: Session(path=path, shards=2), folder, reopened=True), seed)


def test_as_tasks_of_spark_each_run_twice(tmp_path_factory):
    def open_session(path):
        session = Session(path=path, shards=2)
        session._engine.executor = Retries(2)
        return session

    check(Runner("retries", open_session, lambda: tmp_path_factory.mktemp("store")), 114)


def test_on_spark_and_in_the_driver_by_turns(spark):
    check(Runner("mixed", lambda _: Session(spark), before_step=alternate), 115)
