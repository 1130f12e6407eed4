"""Sessions on a server of Spark Connect that its own script has started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from bench.cluster.server import ConnectServer
from faults.children import ENVIRONMENT
from tests.connect.clients import ended, started

pytestmark = pytest.mark.slow

ROWS = [[0, 1, 999]]
UNSHARE = shutil.which("unshare")


def work(what, server, folder):
    return ended(started("tests.connect.work", what, server.url, str(folder)))


def doctor(server, *more):
    command = [sys.executable, "-m", "altneu.cli", "doctor", "--json", "--master", server.url, *more]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, timeout=400)
    checks = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {check["check"]: check for check in checks if check["check"].startswith("Spark")}


def test_a_session_runs_on_a_server_and_finds_how_many_tasks_it_runs_at_once(server, tmp_path):
    said = work("step", server, tmp_path)
    assert (said["rows"], said["frame"]) == (ROWS, ROWS)
    assert (said["chosen"], said["shards"], said["said"]) == ("auto", 2, [])
    assert said["read"] == {"n": 1999}
    assert said["jobs"]


def test_an_interrupt_cancels_the_jobs_of_a_step(server, tmp_path):
    said = work("interrupted", server, tmp_path)
    (note,) = said["notes"]
    assert note.startswith("altneu: nothing of the step is committed, lower is 1, and the inserted rows are still pend")
    assert 5 < said["seconds"] < 40
    assert said["after"] < 55, "the tasks of the step that was interrupted went on"  # they take 60 seconds
    assert said["tags"] == []
    assert said["rows"] == [[0, 1, 0], [1, 2, 2]]


def test_doctor_looks_at_a_server(server, tmp_path):
    found = doctor(server, "--path", str(tmp_path / "state"))
    assert found["Spark"]["level"] == "ok"
    assert found["Spark"]["message"].endswith("on a server of Spark Connect")
    assert "Spark's workers" not in found


def test_workers_without_altneu_leave_the_steps_to_the_client(tmp_path):
    with ConnectServer(has_altneu=False) as server:
        said = work("step", server, tmp_path)
        assert (said["rows"], said["frame"]) == (ROWS, ROWS)
        assert (said["chosen"], said["placement"]) == ("driver", "driver")
        (warning,) = said["said"]
        assert 'placement="driver" is chosen' in warning
        assert "workers cannot import altneu" in warning
        found = doctor(server)
        assert found["Spark"]["level"] == "ok"
        assert "cannot import altneu" in found["Spark's workers"]["message"]


@pytest.mark.skipif(os.geteuid() != 0 or UNSHARE is None, reason="only root can give workers other folders")
def test_workers_that_do_not_see_the_store_leave_the_steps_to_the_client(tmp_path):
    with ConnectServer(hidden=tmp_path) as server:
        said = work("step", server, tmp_path)
        assert (said["rows"], said["frame"], said["chosen"]) == (ROWS, ROWS, "driver")
        assert "workers cannot read and write the store" in said["said"][0]
        found = doctor(server, "--path", str(tmp_path / "state"))
        assert "cannot read and write the store" in found["Spark's workers"]["message"]
