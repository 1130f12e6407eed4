"""Laws of consolidation, against a Counter: sums are kept, nothing superfluous is."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from altneu.columnar import few
from altneu.columnar.hashing import hash_bits
from altneu.columnar.rows import Rows
from altneu.columnar.sorting import SMALL
from altneu.errors import DiffOverflowError
from altneu.order import AltNeu, Epoch, Lattice, Product, Rounds
from altneu.trace.update import Updates, consolidate
from tests.laws.histories import History, accumulated, all_times, histories, listed, summed, updates_of

LONGS = pa.schema([("a", pa.int64())])


@given(histories(rows=25))
def test_consolidation_sums_equal_data_and_time(history: History) -> None:
    lattice = history.layout.lattice
    with history.hashing():
        actual = listed(consolidate(history.updates(0), lattice), lattice)
    assert len({(row, time) for row, time, _ in actual}) == len(actual), "no two updates share (data, time)"
    assert all(diff for _, _, diff in actual), "no zero diff"
    assert summed(actual) == summed(history.steps[0])


@given(histories(rows=25))
def test_accumulating_at_any_time_is_unchanged(history: History) -> None:
    lattice = history.layout.lattice
    with history.hashing():
        actual = listed(consolidate(history.updates(0), lattice), lattice)
    for time in all_times(lattice, 3):
        assert accumulated(actual, time) == accumulated(history.steps[0], time)


@given(histories(rows=12))
def test_consolidation_does_not_depend_on_order_nor_on_being_done_twice(history: History) -> None:
    lattice = history.layout.lattice
    with history.hashing():
        updates = history.updates(0)
        once = listed(consolidate(updates, lattice), lattice)
        backwards = consolidate(updates.take(np.arange(len(updates))[::-1]), lattice)
        assert listed(backwards, lattice) == once
        assert listed(consolidate(consolidate(updates, lattice), lattice), lattice) == once


@pytest.mark.parametrize("bits", [None, 2])
@pytest.mark.parametrize(
    "lattice", [Epoch(), AltNeu(Epoch()), Product(Epoch(), Epoch()), Product(AltNeu(Epoch()), Epoch())]
)
def test_large_random_updates(lattice: Lattice, bits: int | None) -> None:
    count = 20_000 if bits is None else 500
    pick = random.Random(count)
    columns = np.array([[pick.randrange(4) for _ in range(lattice.width)] for _ in range(count)], np.int64).T
    times = lattice.to_pylist(columns)
    rows = [(pick.choice(["a", "b", "c", None]), pick.choice([None, *range(50)])) for _ in range(count)]
    updates = [(row, time, pick.choice([1, -1])) for row, time in zip(rows, times, strict=True)]
    given_updates = updates_of(updates, pa.schema([("s", pa.string()), ("i", pa.int64())]), lattice)
    if bits is None:
        actual = consolidate(given_updates, lattice)
    else:
        with hash_bits(bits):
            actual = consolidate(given_updates, lattice)
    assert len(summed(updates)) == len(actual)
    assert summed(listed(actual, lattice)) == summed(updates)


def sums(diffs: list[int], rows: list[int]) -> list[int]:
    updates = Updates(
        Rows.from_pydict({"a": rows}, LONGS), np.zeros((1, len(diffs)), np.int64), np.array(diffs, np.int64)
    )
    return sorted(consolidate(updates, Epoch()).diffs.tolist())


def test_a_sum_that_leaves_int64_is_refused() -> None:
    with pytest.raises(DiffOverflowError, match="left the signed 64-bit range"):
        sums([2**62, 2**62], [1, 1])
    with pytest.raises(DiffOverflowError):
        sums([-(2**63), -1], [1, 1])


def test_only_the_final_sum_must_fit() -> None:
    assert sums([2**62, 2**62, -(2**62)], [1, 1, 1]) == [2**62]
    assert sums([2**62, 2**62], [1, 2]) == [2**62, 2**62]
    assert sums([2**63 - 1, -(2**63)], [1, 1]) == [-1]


def test_what_cancels_leaves_nothing() -> None:
    assert sums([1, -1], [1, 1]) == []
    assert sums([0], [1]) == []
    assert sums([], []) == []


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("names", [("a",), ("a", "b"), ("a", "t")])
@pytest.mark.parametrize("count", [SMALL + 1, 400, few.MOST, few.MOST + 1])  # fewer: test_few.py
def test_what_one_kernel_settles_is_what_the_others_do(
    count: int, names: tuple[str, ...], nulls: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same order: of few rows often, of one row very often, of so many that sums may overflow, of nulls."""
    pick, lattice, settled = random.Random(f"{count}{names}{nulls}"), Rounds(Epoch(), 1), 0
    schema = pa.schema([("a", pa.int32()), ("b", pa.int64()), ("t", pa.string())])
    one_kernel = few.settled

    def counting(*given: Any) -> few.Settled | None:
        nonlocal settled
        result = one_kernel(*given)
        settled += result is not None
        return result

    for values, diffs in [(3, (1, -1)), (count, (1, -1, 2)), (1, (1,)), (3, (1 << 55, -(1 << 55), (1 << 62) - 1))]:
        some = [*range(values), *([None] if nulls else [])]
        picked = [(pick.choice(some), pick.choice(some), str(pick.choice(some))) for _ in range(count)]
        rows = Rows.from_pylist(picked, schema).select(names)
        times = np.array([[pick.randrange(3) for _ in range(count)], [pick.randrange(9) for _ in range(count)]])
        given = Updates(rows, times, np.array([pick.choice(diffs) for _ in range(count)], np.int64))
        monkeypatch.setattr(few, "settled", counting)
        actual = _consolidated(given, lattice)
        monkeypatch.setattr(few, "settled", lambda *_: None)
        assert actual == _consolidated(given, lattice)
    assert bool(settled) == (count <= few.MOST)


def _consolidated(updates: Updates, lattice: Lattice) -> object:
    try:
        done = consolidate(updates, lattice)
    except DiffOverflowError:
        return "overflow"
    return done.rows.to_pylist(), done.times.tolist(), done.diffs.tolist()
