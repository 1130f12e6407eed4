"""Two sessions that are one dataflow, killed anywhere, and gone on with: the reader ends equal to the writer."""

from __future__ import annotations

import pytest

import altneu as an
from tests.fate import forking, killed
from tests.sinks import killable_feed
from tests.store.support import CHILD


@pytest.fixture(scope="module")
def runs():
    with forking(killable_feed.__file__, CHILD) as run:
        yield run


def check(folder) -> list[tuple]:
    """The view of the second session, which is its query over that of the first, at the same time."""
    _, tops = killable_feed.reading(folder)
    with an.read(folder / "one") as one, an.read(folder / "two") as two, an.Session() as fresh:
        assert one.lower == two.lower == killable_feed.STEPS
        answer = sorted(two.view("tops").to_pylist())
        view = fresh.maintain("tops", tops)
        rows = [
            (f'{{"k": {k}, "n": {n}, "top": "{top}"}}', one.lower - 1, 1) for k, n, top in one.view("last").to_pylist()
        ]
        fresh.insert("last", [data for data, _, _ in rows])
        fresh.advance()
        assert answer == sorted(view.to_pylist())
        return answer


def test_killed_anywhere(runs, quick):
    assert runs(0, quick / "undisturbed") == 0
    wanted = check(quick / "undisturbed")
    kills = 0
    for seed in range(1, 4):
        kills += killed(runs, quick / str(seed), seed)
        assert check(quick / str(seed)) == wanted
    assert kills > 4
