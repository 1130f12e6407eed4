"""Executors, drivers and workers that die, come late or hang: the answers are those of an undisturbed run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import altneu as an
from bench.cluster import Cluster
from bench.cluster.processes import kill
from faults.strike import InStage
from tests.cluster import driver
from tests.cluster.work import STEPS, contents, expected, go_on, maintain


@pytest.fixture(scope="module")
def answers():
    return expected()


@pytest.fixture
def session(spark, tmp_path):
    with an.Session(spark, path=tmp_path / "state", placement="spark") as opened:
        yield opened


def test_an_executor_is_killed_in_the_middle_of_a_stage(session, spark, cluster, answers):
    views = maintain(session)
    for step in range(STEPS):
        victims = cluster.executors()
        if step % 2:
            with InStage(spark, lambda victims=victims: kill(victims[0])) as disturbance:
                assert list(go_on(session, step + 1)) == [step]
            assert disturbance.acted
            assert victims[0].wait(30) is not None or not victims[0].is_running()
        else:
            assert list(go_on(session, step + 1)) == [step]
    assert contents(views) == answers


def test_a_python_worker_is_killed_in_the_middle_of_a_stage(session, spark, cluster, answers):
    views = maintain(session)
    assert list(go_on(session, 1)) == [0]
    for step in range(1, STEPS):
        victims = cluster.python_workers()
        assert victims
        with InStage(spark, lambda victims=victims: [kill(victim) for victim in victims[:1]]) as disturbance:
            assert list(go_on(session, step + 1)) == [step]
        assert disturbance.acted
    assert contents(views) == answers


def test_a_straggler_is_overtaken_and_changes_nothing_when_it_wakes(session, spark, cluster, answers):
    views = maintain(session)
    assert list(go_on(session, 2)) == [0, 1]
    stopped: list[psutil.Process] = []

    def stop() -> None:
        for victim in cluster.python_workers()[:1]:
            victim.suspend()
            stopped.append(victim)

    try:
        with InStage(spark, stop) as disturbance:
            assert list(go_on(session, 4)) == [2, 3]  # speculation runs its task elsewhere
        assert disturbance.acted
    finally:
        for victim in stopped:
            if victim.is_running():
                victim.resume()
    assert list(go_on(session)) == list(range(4, STEPS))
    assert contents(views) == answers


def test_a_worker_joins_late(session, spark, cluster, answers):
    views = maintain(session)
    assert list(go_on(session, 2)) == [0, 1]
    before = {process.pid for process in cluster.executors()}
    cluster.add_worker()
    for step in go_on(session):
        assert step < STEPS
    assert contents(views) == answers
    assert {process.pid for process in cluster.executors()} - before


def test_the_state_of_a_cluster_is_taken_up_without_spark(session, tmp_path, answers):
    maintain(session)
    assert list(go_on(session, 3)) == [0, 1, 2]
    session.close()
    with an.Session(path=tmp_path / "state") as alone:
        views = maintain(alone)
        assert list(go_on(alone)) == [3, 4, 5]
        assert contents(views) == answers


def test_a_driver_is_killed_and_restarted(tmp_path, answers):
    """Killed after each number of steps, in the next one, with no word of warning; its cluster is its own."""
    with Cluster() as cluster:
        shows = _killed_twice([sys.executable, driver.__file__, cluster.url, str(tmp_path / "state")])
    assert shows == str(sorted((name, sorted(rows.items())) for name, rows in answers.items()))


def _killed_twice(command: list[str]) -> str:
    """What the last driver shows."""
    paths = os.pathsep.join([str(Path(an.__file__).parents[1]), str(Path(__file__).parents[2])])
    environment = os.environ | {"PYTHONPATH": paths}
    taken: list[int] = []
    for patience in (2, 3, STEPS):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            first = int(_word(process, "from"))
            assert first in (len(taken), len(taken) + 1)  # the last step may be committed and not have been told
            taken = list(range(first))
            while len(taken) < STEPS and len(taken) < first + patience:
                taken.append(int(_word(process, "step")))
            if len(taken) < STEPS:
                process.send_signal(signal.SIGKILL)
                continue
            shows = _word(process, "shows")
            assert process.wait(60) == 0
    assert taken == list(range(STEPS))
    return shows


def _word(process: subprocess.Popen[str], word: str) -> str:
    """What the driver says next."""
    assert process.stdout is not None
    said, _, rest = process.stdout.readline().strip().partition(" ")
    assert said == word
    return rest
