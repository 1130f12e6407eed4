"""A session and its sinks killed anywhere, and gone on with: files and tables end equal to the views."""

from __future__ import annotations

from collections import Counter

import pytest

import altneu as an
from tests.fate import forking, killed
from tests.sinks import killable
from tests.store.support import CHILD


@pytest.fixture(scope="module")
def runs():
    with forking(killable.__file__, CHILD) as run:
        yield run


def contents_of(sink) -> Counter:
    actual = sink.contents()
    return Counter(dict(zip(actual.rows.to_pylist(), actual.diffs.tolist(), strict=True)))


def check(folder) -> dict[str, Counter]:
    with an.read(folder / "state") as reader:
        result = killable.sinks(reader, folder)
        for sink in result:
            assert sink.run() == 0  # what there is to come has come
            assert contents_of(sink) == Counter(sink.view.to_pylist()), sink.where
        return {name: Counter(reader.view(name).to_pylist()) for name in reader.views}


def test_killed_anywhere(runs, quick):
    assert runs(0, quick / "undisturbed") == 0
    wanted = check(quick / "undisturbed")
    kills = 0
    for seed in range(1, 3):
        kills += killed(runs, quick / str(seed), seed)
        assert check(quick / str(seed)) == wanted
    assert kills > 5
