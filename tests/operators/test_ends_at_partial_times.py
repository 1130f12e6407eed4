"""The ends of ordered groups in loops and with two times: what is made of them is what is made of the whole groups.

That whole groups give what recomputation gives is tested in ``test_reduce_at_partial_times``.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.hashing import hash_bits
from altneu.columnar.ranking import order_text
from altneu.operators.kernels import ends, located
from altneu.operators.kernels.below_zero import below_zero
from altneu.operators.reduce import standing, touched_history
from altneu.operators.reduce.calls import Aggregate, FirstRows, WindowCall
from altneu.operators.reduce.node import Ends
from altneu.operators.reduce.python_reduce import PythonSpec
from altneu.operators.reduce.ranked import GeneralSpec
from altneu.operators.reduce.rounds import reduce_in_round
from altneu.operators.reduce.standing import FirstRows as Needed
from altneu.operators.reduce.top_k import TopKSpec
from altneu.operators.reduce.touched_history import round_columns
from altneu.operators.reduce.window import WindowSpec
from altneu.order import AltNeu, Antichain, Epoch, Product, Rounds, interesting_times
from altneu.runtime.base import _after
from altneu.trace.batch import Arranged, Batch, Description, Layout, find_in
from altneu.trace.spine import Spine
from altneu.trace.update import Updates
from tests.operators.ordered_groups import ORDERS, SCHEMA, updates_of

E = Epoch()
PLANE = Product(E, E)
LATTICES = {
    "one loop": (Rounds(E, 1), (5, 5)),
    "two loops": (Rounds(E, 2), (4, 3, 3)),
    "a loop of moments": (Rounds(AltNeu(E), 1), (6, 4)),
    "two times": (PLANE, (5, 6)),
    "a loop with two times": (Rounds(PLANE, 1), (4, 3, 3)),
    "two loops with two times": (Rounds(PLANE, 2), (3, 3, 2, 2)),
}


def first_of(k, order):
    return TopKSpec(("k",), k, order, SCHEMA), Ends(first=k)


def extremes(*functions):
    calls = tuple(Aggregate(function, ("v",), pa.int64()) for function in functions)
    needed = Ends(first=int("min" in functions), last=1, valued=True, either=functions == ("min",))
    return GeneralSpec(("k",), calls, SCHEMA), needed


def ranked(function, k, order):
    number = WindowCall(Aggregate(function, (), pa.int32()), order)
    needed = Ends(first=k, with_ties=True, distinct=function == "dense_rank")
    return WindowSpec(("k",), (number,), SCHEMA, FirstRows(number, k)), needed


def _listed(key, rows):
    yield (repr([(*row, n) for row, n in rows]),)


def listed(k, order):
    return PythonSpec(("k",), _listed, pa.schema([("rows", pa.string())]), SCHEMA, first=(k, order)), Ends(first=k)


BY_V = (("v", False, True),)
CASES = {
    **{f"{k} by {order_text(order)}": (order, first_of(k, order)) for order in ORDERS for k in (1, 3)},
    "min": (BY_V, extremes("min")),
    "max": (BY_V, extremes("max")),
    "min and max": (BY_V, extremes("min", "max")),
    "rank": (ORDERS[1], ranked("rank", 2, ORDERS[1])),
    "dense_rank": (ORDERS[3], ranked("dense_rank", 2, ORDERS[3])),
    "a function": (BY_V, listed(2, BY_V)),
}


@pytest.fixture
def small(monkeypatch):
    """Little is read at first, and of small groups too."""
    monkeypatch.setattr(located, "SMALL", 0)
    monkeypatch.setattr(located, "_TIED", 0)
    monkeypatch.setattr(located, "_READ_FOR", 0)
    monkeypatch.setattr(ends, "_MORE", 2)
    monkeypatch.setattr(ends, "LEAST", 1)
    monkeypatch.setattr(standing, "_ALL_TOUCHED", 1)


@pytest.fixture
def fewer(monkeypatch):
    """How often less of groups was left than all."""
    count, found = [0], touched_history.first_rows

    def some(arranged, needed, touched):
        made, is_whole = found(arranged, needed, touched)
        less = len(made) < len(find_in(arranged.old, touched.hashes, touched.keys))
        assert not (is_whole and less)
        count[0] += less
        return made, is_whole

    monkeypatch.setattr(touched_history, "first_rows", some)
    return count


class Group:
    """An arrangement in an order with the number of its rows below zero, and what is made of it, of all and of ends."""

    def __init__(self, lattice, order, spec, needed):
        self.lattice, self.spec, self.needed = lattice, spec, needed
        self.layout = Layout(SCHEMA, ("k",), lattice, order)
        self.negative_layout = Layout(self.layout.key_schema, ("k",), lattice)
        self.spine, self.negative = Spine.empty(self.layout), Spine.empty(self.negative_layout)
        self.made, self.whole = [], []

    def step(self, updates, lower, upper):
        """All rounds of a step over epochs from ``lower`` up to ``upper``; what is old is folded to before it."""
        since, start, end = (self._frontier(epoch) for epoch in (max(lower - 1, 0), lower, upper))
        description = Description(start, end, since)
        columns = round_columns(self.lattice)
        waiting, again = updates, [[], []]
        while True:
            listed = [waiting, *again[0], *again[1]]
            rounds = [tuple(t) for some in listed for t in some.times[columns].T.tolist()]
            if not rounds:
                return
            now = min(rounds)
            mine, waiting = self._due(waiting, now)
            given = Arranged(self.layout, self.spine.batches, Batch.build(mine, self.layout, description))
            changes = below_zero(given, self.negative.batches)
            new = Batch.build(changes, self.negative_layout, description)
            negative = Arranged(self.negative_layout, self.negative.batches, new)
            for which, (made, needed) in enumerate(((self.made, Needed(self.needed, negative)), (self.whole, None))):
                parts = [self._due(part, now) for part in again[which]]
                looked = Updates.concat([due for due, _ in parts], self.layout.key_schema, self.lattice.width)
                again[which] = [rest for _, rest in parts if len(rest)]
                if not len(given.new) and not len(looked):
                    continue
                result = reduce_in_round(given, now, looked, self.spec, "reduce", needed)
                made.append(result)
                again[which].append(result.pended)
            self.spine = self._inserted(self.spine, given.new, since)
            self.negative = self._inserted(self.negative, new, since)

    def _inserted(self, spine, new, since):
        return spine.insert(_after(spine, new), since) if len(new) else spine

    def _frontier(self, epoch):
        return Antichain(self.lattice, np.array([[epoch]] + [[0]] * (self.lattice.width - 1)))

    def _due(self, updates, now):
        here = (np.array(now, np.int64) == updates.times[round_columns(self.lattice)].T).all(axis=1)
        return updates.filter(here), updates.filter(~here)

    def accumulated(self, made, time):
        """Rows and errors at a time."""
        total = Counter()
        for part in ("oks", "errs"):
            for updates in (getattr(result, part) for result in made):
                below = updates.filter(self.lattice.less_equal(updates.times, time))
                for row, n in zip(below.rows.to_pylist(), below.diffs.tolist(), strict=True):
                    total[part, row] += n
        return {what: n for what, n in total.items() if n}


def history(rng, sizes, count, below):
    """Updates (row, time, diff): rows come at a time and go at a later one or never; where ``below``, anyhow.

    Most are there at once, mostly from the first round on, and little comes later.
    """
    result = []
    for i in range(count):
        row = (rng.choice([0, 0, 0, 1]), rng.choice([None, *range(20)]), rng.choice([None, "a", "b"]))
        if i < 3 * count // 4:
            time = (0, *(rng.choice([0, 0, 0, rng.randrange(n)]) for n in sizes[1:]))
        else:
            time = (rng.randrange(1, sizes[0]), *(rng.choice([n - 1, rng.randrange(n)]) for n in sizes[1:]))
        diff = rng.randint(1, 2)
        result.append((row, time, diff))
        if rng.random() < 0.3:
            result.append((row, tuple(rng.randrange(t, n) for t, n in zip(time, sizes, strict=True)), -diff))
        if below and rng.random() < 0.05:
            result.append((row, tuple(rng.randrange(n) for n in sizes), -1))
    return result


def as_updates(listed, lattice):
    rows = updates_of([(row, 0, diff) for row, _, diff in listed])
    return Updates(rows.rows, np.array([t for _, t, _ in listed], np.int64).reshape(-1, lattice.width).T, rows.diffs)


def check(lattice, sizes, case, rng, *, below, count=60):
    order, (spec, needed) = CASES[case]
    group, listed = Group(lattice, order, spec, needed), history(rng, sizes, count, below)
    cuts = sorted({0, sizes[0], *rng.sample(range(1, sizes[0]), rng.randrange(sizes[0]))})
    for lower, upper in pairwise(cuts):
        part = [update for update in listed if lower <= update[1][0] < upper]
        group.step(as_updates(part, lattice), lower, upper)
    times = as_updates(listed, lattice).times
    number, is_new = np.zeros(len(listed), np.int64), np.ones(len(listed), np.bool_)
    _, joins = interesting_times(lattice, number, times, is_new)
    for time in (joins[:, i : i + 1] for i in range(joins.shape[1])):
        assert group.accumulated(group.made, time) == group.accumulated(group.whole, time), time.T


@pytest.mark.sampled(4)
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("times", LATTICES)
@pytest.mark.usefixtures("small")
def test_what_is_made_of_the_ends_is_what_is_made_of_the_groups(times, case, below, fewer):
    for seed in range(8):
        check(*LATTICES[times], case, random.Random(f"{times}{case}{below}{seed}"), below=below)
    assert fewer[0] > 3 or below


@pytest.mark.sampled(2)
@pytest.mark.parametrize("times", LATTICES)
@pytest.mark.usefixtures("small")
def test_collisions_change_nothing(times):
    with hash_bits(2):
        for case in CASES:
            check(*LATTICES[times], case, random.Random(f"{times}{case}"), below=True)
