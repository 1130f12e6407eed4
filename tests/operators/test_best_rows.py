"""The best rows of groups: over chains, planes and rounds the first of what is kept is the first of all."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from altneu.columnar.hashing import hash_bits
from altneu.columnar.ranking import Order
from altneu.columnar.rows import Rows
from altneu.operators.reduce.best_rows import best_rows, may_be_first
from altneu.order import Antichain, Epoch, Lattice, Product, Rounds
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.spine import merge
from altneu.trace.update import Updates

E = Epoch()
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("w", pa.string())])
LEAST: tuple[Order, ...] = (("v", False, False),)
GREATEST: tuple[Order, ...] = (("v", True, False),)
ORDERS = {"least": (LEAST,), "greatest": (GREATEST,), "both": (LEAST, GREATEST), "by text": ((("w", False, True),),)}
LATTICES = {"chain": E, "plane": Product(E, E), "rounds": Rounds(E, 1), "rounds of a plane": Rounds(Product(E, E), 1)}
Row = tuple[int, int | None, str]
Added = tuple[Row, tuple[int, ...]]


def place(order: tuple[Order, ...], row: Row) -> list[Any]:
    """Where a row is in an order, ties being decided by all columns in turn; nulls are of one column, which has one."""
    values = dict(zip(SCHEMA.names, row, strict=True))
    rest = [(name, False, True) for name in SCHEMA.names if name not in {line[0] for line in order}]
    places = []
    for name, descending, nulls_first in (*order, *rest):
        value: Any = values[name]
        null = value is None
        places.append((null != nulls_first, 0 if null else -value if descending else value))
    return places


class Kept:
    """Steps of rows that are added, one epoch and one round after the other, and what is kept of them."""

    def __init__(self, lattice: Lattice, orders: tuple[tuple[Order, ...], ...], *, folded: bool) -> None:
        self.layout, self.orders, self.folded = Layout(SCHEMA, ("k",), lattice), orders, folded
        self.batches: tuple[Batch, ...] = ()

    def add(self, rows: list[Added], epoch: int) -> None:
        lattice = self.layout.lattice
        described = Description.interval(lattice, self.time(0), self.time(epoch + 1))
        times = np.array([time for _, time in rows], np.int64).reshape(-1, lattice.width).T
        table = Rows.from_pylist([row for row, _ in rows], SCHEMA)
        updates = Updates(table, times, np.ones(len(rows), np.int64))
        new = Batch.build(updates, self.layout, described)
        made = best_rows(Arranged(self.layout, self.batches, new), self.orders)
        assert (made.updates().times[0] == epoch).all() if len(made) else True
        self.batches = (*self.batches, made)

    def fold(self, epoch: int) -> None:
        """As histories are between steps: as of the next epoch."""
        if self.folded and self.batches:
            since = Antichain(self.layout.lattice, np.array(self._at(epoch), np.int64).reshape(-1, 1))
            self.batches = (merge(self.batches, since),)

    def _at(self, epoch: int) -> tuple[int, ...]:
        return (epoch, *[0] * (self.layout.lattice.width - 1))

    def time(self, epoch: int) -> Any:
        return self.layout.lattice.decode(self._at(epoch))

    def counts(self, at: tuple[int, ...]) -> dict[Row, int]:
        """What is there at a time."""
        held: dict[Row, int] = {}
        for batch in self.batches:
            updates = batch.updates()
            for row, time, diff in zip(
                updates.rows.to_pylist(), updates.times.T.tolist(), updates.diffs.tolist(), strict=True
            ):
                if all(a <= b for a, b in zip(time, at, strict=True)):
                    held[row] = held.get(row, 0) + diff
        return {row: count for row, count in held.items() if count}

    @property
    def size(self) -> int:
        return sum(map(len, self.batches))


def added(rng: random.Random, lattice: Lattice, epoch: int, at: int) -> Added:
    row = rng.randrange(2), rng.choice([None, 0, 1, 2, 3, 4]), rng.choice("abc")
    middle = [rng.randrange(3)] * (lattice.width - 1 - isinstance(lattice, Rounds))
    return row, (epoch, *middle, *[at] * isinstance(lattice, Rounds))


@pytest.mark.parametrize("bits", [1, 64])
@pytest.mark.parametrize("orders", ORDERS)
@pytest.mark.parametrize("kind", LATTICES)
@given(seed=st.integers(0, 10**6), folded=st.booleans())
@settings(max_examples=25, deadline=None)
def test_the_first_row_is_the_first_of_all_at_every_time(
    kind: str, orders: str, bits: int, seed: int, *, folded: bool
) -> None:
    rng, lattice = random.Random(seed), LATTICES[kind]
    with hash_bits(bits):
        kept, given = Kept(lattice, ORDERS[orders], folded=folded), list[Added]()
        for epoch in range(4):
            kept.fold(epoch)
            for at in sorted(rng.sample(range(4), 2)) if isinstance(lattice, Rounds) else [0]:
                rows = [added(rng, lattice, epoch, at) for _ in range(rng.randrange(5))]
                if rows:
                    kept.add(rows, epoch)
                    given += rows
            for rest in product(range(4), repeat=lattice.width - 1):
                check(kept, given, (epoch, *rest))


def check(kept: Kept, given: list[Added], at: tuple[int, ...]) -> None:
    counts = kept.counts(at)
    assert all(count > 0 for count in counts.values()), "no row is below zero"
    there = {row for row, time in given if all(a <= b for a, b in zip(time, at, strict=True))}
    assert counts.keys() <= there
    for key, order in product({row[0] for row in there}, kept.orders):
        first, wanted = (
            min((row for row in rows if row[0] == key), key=lambda row: place(order, row)) for rows in (counts, there)
        )
        assert first == wanted


@pytest.mark.parametrize("orders", ORDERS)
def test_over_a_chain_one_row_is_left_for_each_order(orders: str) -> None:
    rng, kept = random.Random(1), Kept(E, ORDERS[orders], folded=True)
    for epoch in range(30):
        kept.fold(epoch)
        kept.add([added(rng, E, epoch, 0) for _ in range(20)], epoch)
    kept.fold(30)
    assert kept.size == 2 * len(ORDERS[orders])


def test_in_a_loop_the_rows_are_left_that_were_the_best_by_some_round() -> None:
    """However often what leads there changes: a better row of an early round leaves nothing of a later one."""
    kept = Kept(Rounds(E, 1), (LEAST,), folded=True)
    for epoch in range(20):
        kept.fold(epoch)
        for at in (1, 3):
            kept.add([((0, 100 - 2 * epoch - at, "a"), (epoch, at))], epoch)
    kept.fold(20)
    assert kept.size == 3, "the best of round 1, the best of all, and that the first goes when that comes"
    kept.add([((0, 5, "a"), (20, 0))], 20)
    kept.fold(21)
    assert kept.size == 1


def test_of_many_rows_those_are_looked_at_that_may_be_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("altneu.operators.reduce.best_rows._MANY", 1)
    rows = [(i % 3, (i * 7) % 50, "abc"[i % 2]) for i in range(300)]
    updates = Updates(Rows.from_pylist(rows, SCHEMA), np.zeros((1, 300), np.int64), np.ones(300, np.int64))
    few = may_be_first(updates, ("k",), ORDERS["both"])
    assert {row[:2] for row in few.rows.to_pylist()} == {
        (k, most([row[1] for row in rows if row[0] == k])) for k in range(3) for most in (min, max)
    }
    assert len(few) < 60


def test_rows_of_columns_of_the_key_alone() -> None:
    """An order that says nothing: the whole row decides."""
    kept = Kept(E, ((),), folded=False)
    kept.add([((0, 2, "a"), (0,)), ((0, None, "b"), (0,)), ((0, 2, "b"), (0,))], 0)
    assert kept.counts((0,)) == {(0, None, "b"): 1}
