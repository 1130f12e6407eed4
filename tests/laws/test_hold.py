"""What is held and what is taken from it together accumulate to what was added, and waiting costs nothing."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from altneu.hold import Hold
from altneu.order import Antichain, Epoch, Lattice, Product
from altneu.rows import Rows
from altneu.update import Updates

SCHEMA = pa.schema([("x", pa.int64())])
PLANE = Product(Epoch(), Epoch())
updates = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 9), st.integers(-2, 2)), max_size=20)


def made(entries: list[tuple[int, int, int, int]], lattice: Lattice) -> Updates:
    times = np.array([[t, u][: lattice.width] for _, t, u, _ in entries], np.int64).reshape(-1, lattice.width).T
    rows = Rows.from_pylist([(x,) for x, *_ in entries], SCHEMA)
    return Updates(rows, np.ascontiguousarray(times), np.array([d for *_, d in entries], np.int64))


def counted(*parts: Updates) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    for part in parts:
        for row, time, diff in zip(part.rows.to_pylist(), part.times.T.tolist(), part.diffs.tolist(), strict=True):
            found[*row, *time] += diff
    return Counter({key: diff for key, diff in found.items() if diff})


@pytest.mark.parametrize("lattice", [Epoch(), PLANE], ids=str)
@given(batches=st.lists(updates, max_size=8), uppers=st.lists(st.integers(0, 10), max_size=4))
def test_nothing_is_lost_and_nothing_comes_early(lattice, batches, uppers):
    hold = Hold(SCHEMA, lattice)
    taken = []
    for entries in batches:
        hold = hold.add(made(entries, lattice))
    for upper in sorted(uppers):
        frontier = Antichain.of(lattice, upper if lattice.is_total else (upper, 0))
        due, hold = hold.take(frontier)
        taken += due
        assert all(not frontier.less_equal(part.times).any() for part in due)
        assert not hold.is_due(frontier)
        assert frontier.less_equal(hold.updates().times).all()
    everything = counted(*(made(entries, lattice) for entries in batches))
    assert counted(*taken, hold.updates()) == everything


@given(updates)
def test_what_is_retracted_does_not_wait(entries):
    added = made(entries, Epoch())
    hold = Hold(SCHEMA, Epoch()).add(added).add(Updates(added.rows, added.times, -added.diffs))
    assert len(hold) == 0
    assert hold.least() is None


def test_there_are_few_runs_however_many_inserts():
    hold = Hold(SCHEMA, Epoch())
    for time in range(1000):
        hold = hold.add(made([(time, 1000 - time, 0, 1)], Epoch()))
    assert len(hold) == 1000
    assert len(hold.runs) <= 12
    assert hold.least() == 1


def test_taking_little_of_much_copies_nothing():
    hold = Hold(SCHEMA, Epoch()).add(made([(i, i, 0, 1) for i in range(10_000)], Epoch()))
    due, rest = hold.take(Antichain.of(Epoch(), 3))
    assert sum(map(len, due)) == 3
    assert np.shares_memory(rest.runs[0].diffs, hold.runs[0].diffs)
