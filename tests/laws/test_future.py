"""Laws of future updates: none is lost, none is early, and updates that cancel do not wait."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from altneu.columnar.rows import Rows
from altneu.order import AltNeu, Antichain, Epoch, Product, Rounds
from altneu.trace.future import FutureRuns, FutureUpdates
from altneu.trace.update import Updates

SCHEMA = pa.schema([("k", pa.int64())])
LATTICES = [Epoch(), AltNeu(Epoch()), Product(Epoch(), Epoch()), AltNeu(Product(Epoch(), Epoch()))]

coordinate = st.integers(0, 6)
update = st.tuples(st.integers(0, 2), st.lists(coordinate, min_size=3, max_size=3), st.sampled_from([-2, -1, 1, 2]))
action = st.one_of(st.lists(update, max_size=6), st.lists(coordinate, min_size=3, max_size=3).map(tuple))


def updates_of(lattice, listed):
    rows = Rows(SCHEMA, (pa.array([k for k, _, _ in listed], pa.int64()),), len(listed))
    times = np.array([fitted(lattice, t) for _, t, _ in listed], np.int64).reshape(-1, lattice.width).T
    return Updates(rows, np.ascontiguousarray(times), np.array([d for *_, d in listed], np.int64))


def fitted(lattice, time):
    """A time of this lattice out of three numbers: a flag is 0 or 1."""
    short = list(time[: lattice.width])
    if isinstance(lattice, AltNeu) and lattice.width == 3:
        short[-1] %= 2
    return short


def count(updates):
    held = Counter()
    for (k,), time, diff in zip(
        updates.rows.to_pylist(), updates.times.T.tolist(), updates.diffs.tolist(), strict=True
    ):
        held[k, tuple(time)] += diff
    return Counter({u: n for u, n in held.items() if n})


def summed(*parts):
    total = Counter()
    for part in parts:
        for u, n in part.items():
            total[u] += n
    return Counter({u: n for u, n in total.items() if n})


def is_beyond(upper, time):
    return bool(upper.less_equal(np.array(time, np.int64).reshape(-1, 1))[0])


@pytest.mark.parametrize("lattice", LATTICES, ids=repr)
@given(actions=st.lists(action, max_size=14))
def test_what_is_taken_and_what_is_left_add_up_to_what_was_added(lattice, actions):
    hold, model = FutureRuns(SCHEMA, lattice), Counter()
    for what in actions:
        if isinstance(what, list):
            added = updates_of(lattice, what)
            hold = hold.add(added)
            model = summed(model, count(added))
        else:
            upper = Antichain(lattice, np.array(fitted(lattice, what), np.int64).reshape(-1, 1))
            due = Counter({u: n for u, n in model.items() if not is_beyond(upper, u[1])})
            assert hold.is_due(upper) or not due
            taken, hold = hold.take(upper)
            assert summed(*map(count, taken)) == due
            assert not hold.is_due(upper)
            model = Counter({u: n for u, n in model.items() if u not in due})
        assert count(hold.updates()) == model
        keys = [int(lattice.sort_keys(np.array(t, np.int64).reshape(-1, 1))[0][0]) for _, t in model]
        assert not model or hold.least() <= min(keys)


@pytest.mark.parametrize("lattice", LATTICES, ids=repr)
def test_rows_that_come_and_go_do_not_pile_up(lattice):
    """The progress law: a thousand pairs that cancel are hardly anything."""
    hold = FutureRuns(SCHEMA, lattice)
    hold = hold.add(updates_of(lattice, [(k, [5, 5, 1], 1) for k in range(100)]))
    for i in range(1000):
        hold = hold.add(updates_of(lattice, [(i, [6, 6, 0], 1)])).add(updates_of(lattice, [(i, [6, 6, 0], -1)]))
    assert 100 <= len(hold) <= 110
    assert len(hold.runs) <= 8


def test_few_runs_however_many_updates_wait():
    hold = FutureRuns(SCHEMA, Epoch())
    for i in range(2000):
        hold = hold.add(updates_of(Epoch(), [(i, [i % 50, 0, 0], 1)]))
    assert len(hold) == 2000
    assert len(hold.runs) <= 12
    due, rest = hold.take(Antichain.of(Epoch(), 10))
    assert (sum(map(len, due)), len(rest), rest.least()) == (400, 1600, 10)


LOOPS = Product(Epoch(), Epoch(), Epoch())
rounds = st.tuples(st.integers(0, 2), st.integers(0, 2))
change = st.tuples(st.integers(0, 2), st.tuples(st.integers(0, 5), rounds), st.sampled_from([-1, 1, 2]))


@given(
    actions=st.lists(
        st.one_of(st.lists(change, min_size=1, max_size=6), st.tuples(rounds, st.integers(0, 6))), max_size=12
    )
)
def test_future_updates_of_rounds_are_due_in_their_round(actions):
    holds, model = FutureUpdates(SCHEMA, Rounds(Epoch(), 2)), Counter()
    for what in actions:
        if isinstance(what, list):
            added = updates_of(LOOPS, [(k, [e, *r], n) for k, (e, r), n in what])
            holds = holds.add(added)
            model = summed(model, count(added))
        else:
            at, upper = what
            due = Counter({u: n for u, n in model.items() if u[1][1:] == at and u[1][0] < upper})
            frontier = Antichain.of(Epoch(), upper)
            later = min((u[1][1] for u in model if u[1][0] < upper), default=None)
            assert later is None or holds.next_round((), frontier) <= later
            assert holds.is_due(at, frontier) or not due
            taken, holds = holds.take(at, frontier)
            assert summed(*map(count, taken)) == due
            assert not holds.is_due(at, frontier)
            model = Counter({u: n for u, n in model.items() if u not in due})
        assert count(holds.updates()) == model
        assert not model or holds.least() <= min(u[1][0] for u in model)
