"""Reduce at times that are no chain, against recomputation at every join of the times of a history.

Histories are cut into steps, by epoch or at random, and what is old is folded anyhow up to what the next steps are at.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from altneu.columnar.hashing import hash_bits
from altneu.columnar.rows import Rows
from altneu.operators.reduce import along, along_epochs
from altneu.operators.reduce.accumulable import AggregatesSpec, CountOfSpec, DistinctSpec, ThresholdSpec, counter
from altneu.operators.reduce.accumulate import Accumulator
from altneu.operators.reduce.any_lattice import reduce_at_any
from altneu.operators.reduce.calls import Frame, WindowCall
from altneu.operators.reduce.python_reduce import PythonSpec
from altneu.operators.reduce.ranked import GeneralSpec
from altneu.operators.reduce.rounds import reduce_in_round
from altneu.operators.reduce.top_k import TopKSpec
from altneu.operators.reduce.touched_history import round_columns
from altneu.operators.reduce.window import WindowSpec
from altneu.order import AltNeu, Antichain, Epoch, Product, Rounds, interesting_times
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.update import Updates
from tests.operators.support import call, updates_of

E = Epoch()
PLANE, SPACE = Product(E, E), Product(E, E, E)
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64())])
NEGATIVE = "NEGATIVE_MULTIPLICITY"


# reducers -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reducer:
    """A spec, the columns it groups by, and what it makes of the counts of a group's values: rows, or an error."""

    spec: object
    key: tuple[str, ...]
    of: object
    explode: object = None
    by_row: bool = False
    calls: list = field(default_factory=list)


def _summed(group):
    n, s = sum(group.values()), sum(v * c for v, c in group.items())
    return NEGATIVE if n < 0 or (n == 0 and s) else [(n, s, s / n)] if n else []


def _checked(rows):
    return lambda group: NEGATIVE if min(group.values(), default=0) < 0 else rows(sorted(group.elements()))


def _general(values):
    return [(min(values), max(values), len(set(values)), tuple(values))] if values else []


def _called(key, rows):
    CALLED.append((key, tuple(rows)))
    return [sum(row.v * count for row, count in rows) % 5] * 2


def _lined_up(values):
    """Each value with its number from the greatest on, and the sum of it and the one before."""
    return [(v, n + 1, v + sum(values[::-1][n - 1 : n])) for n, v in enumerate(values[::-1])]


WINDOW = WindowSpec(
    ("k",),
    (
        WindowCall(call("row_number", ()), (("v", True, False),)),
        WindowCall(call("sum", ("v",)), (("v", True, False),), Frame(True, -1, 0)),
    ),
    SCHEMA,
)
CALLED: list = []
SUMS = Accumulator(("k",), tuple(call(f, ("v",) if f != "count" else ()) for f in ("count", "sum", "avg")), SCHEMA)
GENERAL = tuple(call(f, ("v",), distinct=n == "kinds") for n, f in
                (("least", "min"), ("most", "max"), ("kinds", "count"), ("all", "collect_list")))  # fmt: skip
ROWS = counter(SCHEMA)
REDUCERS = {
    "sums": Reducer(AggregatesSpec(SUMS), ("k",), _summed, SUMS.explode),
    "general": Reducer(GeneralSpec(("k",), GENERAL, SCHEMA), ("k",), _checked(_general)),
    "top_k": Reducer(
        TopKSpec(("k",), 2, (("v", True, False),), SCHEMA), ("k",), _checked(lambda v: [(w,) for w in v[-2:]])
    ),
    "window": Reducer(WINDOW, ("k",), _checked(_lined_up)),
    "a function": Reducer(
        PythonSpec(("k",), _called, pa.schema([("r", pa.int64())]), SCHEMA),
        ("k",),
        _checked(lambda v: [(sum(v) % 5,)] * 2 if v else []),
    ),
    "distinct": Reducer(
        DistinctSpec(SCHEMA), ("k", "v"), lambda n: NEGATIVE if n < 0 else 1, ROWS.explode, by_row=True
    ),
    "counts": Reducer(CountOfSpec(SCHEMA), ("k", "v"), lambda n: n, ROWS.explode, by_row=True),
    "threshold": Reducer(
        ThresholdSpec(SCHEMA, lambda n: n * (n % 3)), ("k", "v"), lambda n: n * (n % 3), ROWS.explode, by_row=True
    ),
}


def recomputed(name, held):
    """Rows and errors of what is held."""
    reducer, oks, errs = REDUCERS[name], Counter(), Counter()
    if reducer.by_row:
        for (k, v), n in held.items():
            result = reducer.of(n)
            if result == NEGATIVE:
                errs[result, f"k={k}, v={v}"] += 1
            elif result:
                oks[(k, v, n) if name == "counts" else (k, v)] += 1 if name == "counts" else result
        return oks, errs
    for k in {row[0] for row in held}:
        result = reducer.of(Counter({v: n for (key, v), n in held.items() if key == k}))
        if result == NEGATIVE:
            errs[result, f"k={k}"] += 1
        else:
            oks.update((k, *row) for row in result)
    return oks, errs


# running --------------------------------------------------------------------------------------------------------------


@dataclass
class Engine:
    """Runs one reducer over steps as an executor would: rounds in their order, what is pended when it is due."""

    lattice: object
    name: str
    reduce: object
    rng: random.Random

    def __post_init__(self):
        reducer = REDUCERS[self.name]
        schema = SCHEMA if reducer.explode is None else reducer.explode(updates_of(SCHEMA, []), E).schema
        self.layout = Layout(schema, reducer.key, self.lattice)
        frontiers = Antichain.minimum(self.lattice), Antichain.of(self.lattice), Antichain.minimum(self.lattice)
        self.description = Description(*frontiers)
        self.old, self.made, self.pended = [], [], []

    def fold(self, since):
        """Move some of what is old, each to ``since`` or to some time before; what falls together becomes one."""
        if not self.old:
            return
        whole = Updates.concat([b.updates() for b in self.old], self.layout.schema, self.lattice.width)
        some = np.array([self.rng.random() < 0.7 for _ in range(len(whole))], np.bool_)
        moved = np.where(some, self.lattice.join(whole.times, since), whole.times)
        self.old = [Batch.build(Updates(whole.rows, moved, whole.diffs), self.layout, self.description)]

    def step(self, updates):
        reducer, columns = REDUCERS[self.name], round_columns(self.lattice)
        if reducer.explode is not None:
            updates = reducer.explode(updates, self.lattice)
        while True:
            waiting = [tuple(t) for u in [updates, *self.pended] for t in u.times[columns].T.tolist()]
            if not waiting:
                return
            now = min(waiting)
            mine, updates = self._due(updates, now)
            parts = [self._due(p, now) for p in self.pended]
            again = Updates.concat([due for due, _ in parts], self.layout.key_schema, self.lattice.width)
            self.pended = [rest for _, rest in parts if len(rest)]
            if not len(mine) and not len(again):
                return
            new = Batch.build(mine, self.layout, self.description)
            if len(new) or len(again):
                before = len(CALLED)
                result = self.reduce(Arranged(self.layout, tuple(self.old), new), now, again, reducer.spec, "reduce")
                assert len(set(CALLED[before:])) == len(CALLED[before:]), "one call for the same contents"
                self.made.append(result)
                self.pended.append(result.pended)
            self.old.append(new)

    def _due(self, updates, now):
        here = (np.array(now, np.int64) == updates.times[round_columns(self.lattice)].T).all(axis=1)
        return updates.filter(here), updates.filter(~here)

    def accumulated(self, time):
        actual = []
        for part, columns in (("oks", slice(None)), ("errs", slice(1, None, 2))):
            total = Counter()
            for updates in (getattr(made, part) for made in self.made):
                below = updates.filter(self.lattice.less_equal(updates.times, time))
                for row, n in zip(below.rows.to_pylist(), below.diffs.tolist(), strict=True):
                    total[tuple(tuple(c) if isinstance(c, list) else c for c in row)[columns]] += n
            actual.append(Counter({row: n for row, n in total.items() if n}))
        return tuple(actual)


def steps_of(lattice, updates, rng, by):
    """The updates cut into steps, each with the greatest time that what is old then may be folded to."""
    if by == "epoch":
        cuts = sorted({0, 9, *rng.sample(range(1, 5), rng.randrange(3))})
        parts = [[u for u in updates if a <= u[1][0] < b] for a, b in pairwise(cuts)]
    else:
        numbers = [rng.randrange(3) for _ in updates]
        parts = [[u for u, n in zip(updates, numbers, strict=True) if n == i] for i in range(3)]
    for i, part in enumerate(parts):
        meet = lattice.maximum()
        for _, time, _ in (u for later in parts[i:] for u in later):
            meet = lattice.meet(meet, np.array([time]).T)
        if by == "epoch":
            meet[1:] = 0
        if round_columns(lattice).start < lattice.width:
            meet[0] -= 1  # inside loops what is old is before the step
        rows = updates_of(SCHEMA, [(row, 0, diff) for row, _, diff in part])
        times = np.array([time for _, time, _ in part], np.int64).reshape(-1, lattice.width).T
        yield Updates(rows.rows, times, rows.diffs), meet


def check(lattice, name, updates, reduce, seed, by):
    rng = random.Random(seed)
    engine = Engine(lattice, name, reduce, rng)
    for step, since in steps_of(lattice, updates, rng, by):
        if since[0, 0] >= 0:
            engine.fold(since)
        engine.step(step)
    times = np.array([time for _, time, _ in updates], np.int64).T
    _, joins = interesting_times(lattice, np.zeros(len(updates), np.int64), times, np.ones(len(updates), np.bool_))
    there = {tuple(t) for t in joins.T.tolist()}
    for made in engine.made:
        assert {tuple(t) for u in (made.oks, made.errs) for t in u.times.T.tolist()} <= there
    for time in (joins[:, i : i + 1] for i in range(joins.shape[1])):
        held = Counter()
        for (row, _, diff), below in zip(updates, lattice.less_equal(times, time), strict=True):
            held[row] += diff * int(below)
        assert engine.accumulated(time) == recomputed(name, Counter({row: n for row, n in held.items() if n}))


def histories(sizes):
    """Updates of few rows at few times, which are columns below ``sizes``."""
    times = st.tuples(*(st.integers(0, n - 1) for n in sizes))
    row = st.tuples(st.integers(0, 1), st.integers(0, 2))
    return st.lists(st.tuples(row, times, st.sampled_from([1, 1, 2, -1])), min_size=1, max_size=12)


CASES = {
    "Product(E, E)": (PLANE, (5, 4), reduce_in_round, "epoch"),
    "Product(E, E), any": (PLANE, (4, 3), reduce_at_any, "epoch"),
    "Product(E, E, E)": (SPACE, (3, 3, 3), reduce_in_round, "epoch"),
    "Product(E, E, E), by arrival": (SPACE, (3, 3, 3), reduce_at_any, "arrival"),
    "AltNeu(Product(E, E))": (AltNeu(PLANE), (4, 3, 2), reduce_in_round, "epoch"),
    "AltNeu(Product(E, E)), by arrival": (AltNeu(PLANE), (3, 3, 2), reduce_at_any, "arrival"),
    "Product(AltNeu(E), E)": (Product(AltNeu(E), E), (5, 4), reduce_in_round, "epoch"),
    "Rounds(E, 1)": (Rounds(E, 1), (4, 4), reduce_in_round, "epoch"),
    "Rounds(E, 2), any": (Rounds(E, 2), (3, 3, 3), reduce_at_any, "epoch"),
    "Rounds(Product(E, E), 1)": (Rounds(PLANE, 1), (4, 3, 3), reduce_in_round, "epoch"),
    "Rounds(Product(E, E), 2)": (Rounds(PLANE, 2), (3, 3, 2, 2), reduce_in_round, "epoch"),
    "AltNeu(Rounds(E, 1))": (AltNeu(Rounds(E, 1)), (3, 3, 2), reduce_in_round, "epoch"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", REDUCERS)
@pytest.mark.parametrize("case", CASES)
@given(data=st.data())
@settings(max_examples=10)
def test_every_join_of_times_shows_what_was_there(case, name, data):
    lattice, sizes, reduce, by = CASES[case]
    check(lattice, name, data.draw(histories(sizes)), reduce, data.draw(st.integers(0, 99)), by)


@pytest.mark.parametrize("case", CASES)
def test_longer_histories_and_few_rows_at_once_and_collisions(case, monkeypatch):
    monkeypatch.setattr(along, "MOST_ROWS", 5)
    lattice, sizes, reduce, by = CASES[case]
    rng = random.Random(case)
    for seed, name in enumerate(REDUCERS):
        row = (lambda: (rng.randrange(2), rng.randrange(3)), lambda: tuple(rng.randrange(n) for n in sizes))
        updates = [(row[0](), row[1](), rng.choice([1, 1, 2, -1])) for _ in range(25)]
        with hash_bits(2):
            check(lattice, name, updates, reduce, seed, by)


@pytest.mark.parametrize("rounds", [1, 2, 8])
def test_groups_that_look_few_or_many_rounds_ahead(rounds, monkeypatch):
    monkeypatch.setattr(along_epochs, "AHEAD_ROUNDS", rounds)
    monkeypatch.setattr(along_epochs, "AHEAD_ROWS", 12)  # of some groups, and not of others
    rng = random.Random(rounds)
    for seed, name in enumerate([*REDUCERS] * 6):
        rows = [((rng.choice([0, 0, 1]), rng.randrange(3)), (rng.randrange(4), rng.randrange(10))) for _ in range(25)]
        check(Rounds(E, 1), name, [(*row, rng.choice([1, 1, 2, -1])) for row in rows], reduce_in_round, seed, "epoch")


# cost -----------------------------------------------------------------------------------------------------------------


def _stepped(lattice, name, columns, times, reduce=reduce_in_round):
    """What steps make of rows (k, v), inserted once each; every step has its part of the times."""
    engine = Engine(lattice, name, reduce, random.Random(0))
    for step, part in enumerate(times):
        count = part.shape[1]
        values = np.resize(columns, count) + 1000 * step
        rows = Rows.from_pydict({"k": np.zeros(count, np.int64), "v": values}, SCHEMA)
        engine.step(Updates(rows, part, np.ones(count, np.int64)))
    return engine.made


@pytest.mark.parametrize(("rounds", "visits"), [(3, [0, 2]), (40, [0, 2, 11, 20, 29, 38])])
def test_a_group_is_looked_at_again_where_something_comes_of_a_change_and_not_at_each_of_its_rounds(rounds, visits):
    """Each round has brought a row behind the others; one that comes before all of them takes the second's place."""
    visited = []

    def reduce(arranged, now, *given):
        visited.append(*now)
        return reduce_in_round(arranged, now, *given)

    old = np.stack([np.zeros(rounds, np.int64), 1 + np.arange(rounds)])
    made = _stepped(Rounds(E, 1), "top_k", -np.arange(rounds), [old, np.array([[1], [0]])], reduce)
    assert visited[rounds:] == visits
    assert [len(one.oks) for one in made[rounds:]] == [1, 1] + [0] * (len(visits) - 2)


LONG = 30_000
ONE_BY_ONE = {
    "the diagonal": np.tile(np.arange(LONG), (2, 1)),
    "one epoch": np.stack([np.zeros(LONG, np.int64), np.arange(LONG)]),
    "one event time": np.stack([np.arange(LONG), np.zeros(LONG, np.int64)]),
    "events later and later": np.stack([np.arange(LONG) // 3, np.arange(LONG) // 2]),
}


@pytest.mark.parametrize("case", ONE_BY_ONE)
@pytest.mark.parametrize("name", ["sums", "top_k"])
def test_a_chain_of_times_is_one_line_and_its_changes_are_all_that_comes(case, name):
    """Quadratic work would take hours."""
    times = ONE_BY_ONE[case]
    (result,) = _stepped(PLANE, name, np.arange(7), [times])
    distinct = np.unique(times, axis=1).shape[1]
    assert len(result.oks) == 2 * distinct - 1 if name == "sums" else len(result.oks) < 20


def test_a_correction_of_the_beginning_costs_each_later_time_twice():
    many = 20_000
    first = np.stack([np.zeros(many, np.int64), np.arange(many)])
    _, result = _stepped(PLANE, "sums", np.arange(7), [first, np.array([[1], [0]])])
    assert 3 * many < len(result.oks) < 4 * many  # the changes from time to time, those before taken back


def _calls(values, times):
    CALLED.clear()
    _stepped(PLANE, "a function", np.array(values), times)
    return len(CALLED)


def test_a_function_is_called_once_for_each_interesting_time_and_each_event_time_before():
    side = 6
    up = np.arange(side)
    axes = np.concatenate([np.stack([up, 0 * up]), np.stack([0 * up, up])], axis=1)
    assert _calls(np.arange(2 * side), [axes]) == side**2
    known, epochs = np.stack([0 * up, up]), np.stack([1 + up, 0 * up])
    assert _calls(up, [known, epochs]) == side + side**2 + side
    assert _calls(up, [known, np.array([[1], [side - 1]])]) == side + 1 + 1


def test_a_function_is_called_once_for_contents_that_come_again():
    """Events are told one after the other, in two orders: a group is the same at many pairs of times."""
    up = np.arange(6)
    both = np.concatenate([np.stack([up, 0 * up]), np.stack([0 * up, up])], axis=1)
    assert _calls([1], [both]) == 2 * 6 - 1  # of 36 times
