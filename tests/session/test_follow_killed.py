"""A stream that is cut short anywhere goes on where it was: nothing is lost and nothing counted twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import altneu as an
from altneu.store import Store
from tests.session.streaming import COUNTS, LATE, Files, follow

ROOT = Path(__file__).parents[2]


@pytest.fixture
def files(spark, tmp_path):
    found = Files(spark, tmp_path / "in")
    found.put(*((k % 3, k, 10 + k) for k in range(9)))
    found.put((1, 100, 12), (2, 200, 40))
    return found


def run(state, files, **options):
    """Follow to the end; all that there is to be seen."""
    with an.Session(path=state) as session:
        views = session.maintain("v", COUNTS), session.maintain("late", LATE)
        status = follow(session, files, **options)
        lower = session.lower
        if "time" in options and lower < 100:  # of a crash after the last commit nothing is left to do
            session.advance(to=100)
        return [Counter(view.to_pylist()) for view in views], (status.rows, status.late), lower


@pytest.mark.parametrize("options", [{}, {"time": "time", "watermark": 2, "late": "error"}], ids=["counted", "timed"])
def test_a_crash_before_or_after_any_commit(options, files, tmp_path, monkeypatch):
    """What a crash leaves is what is there just then: a copy is taken, and resumed."""
    copies: list[Path] = []
    commit = Store.commit

    def copy(store):
        copies.append(tmp_path / f"copy {len(copies)}")
        shutil.copytree(store.folder.path, copies[-1])

    def copying(store, *args, **more):
        copy(store)
        number = commit(store, *args, **more)
        copy(store)
        return number

    with monkeypatch.context() as patched:
        patched.setattr(Store, "commit", copying)
        undisturbed = run(tmp_path / "state", files, max_rows=4, **options)
    follows = copies[4:]  # the first two commits are those of the views
    assert len(follows) >= 8
    for i, state in enumerate(follows):
        resumed = run(state, files, max_rows=4 if i % 2 else 5, **options)
        assert resumed[:2] == undisturbed[:2], state.name
        if i % 2:  # cut in the same way
            assert resumed[2] in (undisturbed[2], 100), state.name


@pytest.mark.parametrize("point", ["operation 12"])
def test_a_process_that_is_killed(point, files, tmp_path):
    state = tmp_path / "state"
    command = [sys.executable, "-m", "tests.session.stream_child", str(state), str(files.folder), point, "4"]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    killed = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, check=False, cwd=ROOT)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    with an.Session(path=state) as session:
        view = session.maintain("v", COUNTS)
        before = sum(n for _, n, _ in view.to_pylist())
        status = follow(session, files, max_rows=2)
        assert 0 < before < status.rows == 11
        assert Counter(view.to_pylist()) == Counter([(0, 3, 9), (1, 4, 112), (2, 4, 215)])
