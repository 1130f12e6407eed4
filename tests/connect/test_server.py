"""Sessions on a server of Spark Connect that its own script has started."""

from __future__ import annotations

import os
import re
import shutil

import pytest

from tests.connect.clients import run

pytestmark = pytest.mark.slow

ROWS = [[0, 1, 999]]
UNSHARE = shutil.which("unshare")


@pytest.fixture
def asked(server, clients, tmp_path):
    """What a client of the server has to say of a job."""
    return lambda job: run(clients, job, tmp_path, url=server.url)


def test_a_session_runs_on_a_server_and_finds_how_many_tasks_it_runs_at_once(asked):
    said = asked("step")
    assert (said["rows"], said["frame"]) == (ROWS, ROWS)
    assert (said["chosen"], said["shards"], said["said"]) == ("auto", 2, [])
    assert said["read"] == {"n": 1999}
    assert re.search(r"no table or view 'there'.*give the DataFrame of a temporary view in its place", said["refused"])
    assert said["jobs"]


def test_an_interrupt_cancels_the_jobs_of_a_step(asked):
    said = asked("interrupted")
    (note,) = said["notes"]
    assert note.startswith("altneu: nothing of the step is committed, lower is 1, and the inserted rows are still pend")
    assert 2 < said["seconds"] < 40
    assert said["after"] < 55, "the tasks of the step that was interrupted went on"  # they take 60 seconds
    assert said["tags"] == []
    assert said["rows"] == [[0, 1, 0], [1, 2, 2]]


def test_doctor_looks_at_a_server(asked):
    found = asked("doctor")
    assert found["Spark"]["level"] == "ok"
    assert found["Spark"]["message"].endswith("on a server of Spark Connect")
    assert "Spark's workers" not in found


def test_workers_without_altneu_leave_the_steps_to_the_client(server, asked):
    with server.workers(has_altneu=False):
        said = asked("step")
        assert (said["rows"], said["frame"]) == (ROWS, ROWS)
        assert (said["chosen"], said["placement"]) == ("driver", "driver")
        (warning,) = said["said"]
        assert 'placement="driver" is chosen' in warning
        assert "workers cannot import altneu" in warning
        found = asked("doctor")
        assert found["Spark"]["level"] == "ok"
        assert "cannot import altneu" in found["Spark's workers"]["message"]


@pytest.mark.skipif(os.geteuid() != 0 or UNSHARE is None, reason="only root can give workers other folders")
def test_workers_that_do_not_see_the_store_leave_the_steps_to_the_client(server, asked, tmp_path):
    with server.workers(hidden=tmp_path):
        said = asked("step")
        assert (said["rows"], said["frame"], said["chosen"]) == (ROWS, ROWS, "driver")
        assert "workers cannot read and write the store" in said["said"][0]
        found = asked("doctor")
        assert "cannot read and write the store" in found["Spark's workers"]["message"]
