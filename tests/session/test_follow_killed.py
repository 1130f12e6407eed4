"""A stream that is cut short anywhere goes on where it was: nothing is lost and nothing counted twice."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from faults.stream_files import COUNTS, LATE, Files, follow
from faults.streams import killed_and_resumed
from tests.commits import copied


@pytest.fixture
def files(spark, tmp_path):
    result = Files(spark, tmp_path / "in")
    result.put(*((k % 3, k, 10 + k) for k in range(9)))
    result.put((1, 100, 12), (2, 200, 40))
    return result


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
def test_a_crash_before_or_after_any_commit(options, files, tmp_path):
    """What a crash leaves is what is there just then: a copy is taken, and resumed."""
    with copied(tmp_path) as copies:
        undisturbed = run(tmp_path / "state", files, max_rows=4, **options)
    follows = copies[4:]  # the first two commits are those of the views
    assert len(follows) >= 8
    for i, state in enumerate(follows):
        resumed = run(state, files, max_rows=4 if i % 2 else 5, **options)
        assert resumed[:2] == undisturbed[:2], state.name
        if i % 2:  # cut in the same way
            assert resumed[2] in (undisturbed[2], 100), state.name


def test_processes_that_are_killed(spark, tmp_path):
    struck, differences = killed_and_resumed(spark, random.Random(3), tmp_path, kills=1)
    assert not differences
    assert struck
