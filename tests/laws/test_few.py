"""Laws of few rows: what one kernel makes of them is what the general functions make."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from altneu.columnar import few
from altneu.columnar.columns import Stack
from altneu.columnar.hashing import hash_bits, hash_rows
from altneu.columnar.lookup import hash_from
from altneu.columnar.narrow import narrow_rows, stored_columns
from altneu.columnar.rows import Rows
from altneu.columnar.sorting import Unsorted, settle
from altneu.order import Epoch
from tests.laws.histories import DOMAINS

_FLAT = [name for name, (data_type, _) in DOMAINS.items() if few.places_of([pa.nulls(0, data_type)]) is not None]


def rows_of(columns: list[pa.Array], count: int) -> Rows:
    return Rows(pa.schema([(f"c{i}", c.type) for i, c in enumerate(columns)]), tuple(columns), count)


@st.composite
def parts(draw: st.DrawFn) -> tuple[list[list[pa.Array]], list[int]]:
    """Parts of rows with the same columns of any flat types, as slices that do not begin where their buffers do."""
    names = draw(st.lists(st.sampled_from(_FLAT), max_size=3))
    counts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    result = []
    for count in counts:
        drawn = [draw(st.lists(st.sampled_from(DOMAINS[n][1]), min_size=count + 1, max_size=count + 1)) for n in names]
        result.append([pa.array(values, DOMAINS[n][0]).slice(1) for n, values in zip(names, drawn, strict=True)])
    return result, counts


@given(parts(), st.data())
def test_a_few_updates_are_settled_as_all_others_are(given_parts: Any, data: st.DataObject) -> None:
    columns, counts = given_parts
    total, many = sum(counts), len(columns[0])
    keys = data.draw(st.integers(0, many))
    times = np.array([data.draw(st.lists(st.integers(0, 1), min_size=total, max_size=total))], np.int64)
    diffs = np.array(data.draw(st.lists(st.integers(-1, 2), min_size=total, max_size=total)), np.int64)
    stacks = [
        Stack(
            [rows_of(part[cut], n) for part, n in zip(columns, counts, strict=True)], rows_of(columns[0][cut], 0).schema
        )
        for cut in (slice(keys), slice(keys, None))
    ]
    bits = data.draw(st.sampled_from([None, 0, 1, 64]))
    places = np.array([few.places_of(part) for part in columns], np.int64).reshape(len(counts), many, 6)
    starts = np.array([0, *np.cumsum(counts)])
    with hash_bits(64 if bits is None else bits):
        hashes = [np.concatenate([hash_rows(rows) for rows in stack.parts]) for stack in stacks]
        expected = settle(Unsorted(*stacks, *hashes, times, diffs), Epoch())
        done = few.settled(places, starts, keys, times, diffs)
    if done is None:
        assert bits in (0, 1)  # else hashes of few values do not collide
        return
    index, (key_hash, value_hash, made_times, made_diffs), table, addresses = done
    assert made_diffs.tolist() == expected.diffs.tolist()
    assert (key_hash.tolist(), value_hash.tolist()) == (expected.key_hash.tolist(), expected.value_hash.tolist())
    assert made_times.tolist() == expected.times.tolist()
    index = np.arange(total) if index is None else index
    for stack in stacks:
        assert stack.take(index).to_pylist() == stack.take(expected.index).to_pylist()
    if index.size:
        assert table[0, 1:].tolist() == [index.size, *key_hash[[0, -1]].view(np.int64).tolist()]
        lines = [key_hash, value_hash, made_diffs, *made_times]
        assert [table[0, 0], *addresses[:, 0]] == [line.__array_interface__["data"][0] for line in lines]


@pytest.mark.parametrize("diff", [1 << 60, -(1 << 60), -(1 << 63)])
def test_a_sum_that_may_leave_64_bits_is_not_decided(diff: int) -> None:
    numbers = pa.array([1])
    places = few.places_of([numbers])
    assert few.settled(places[None], few.STARTS[1], 1, np.zeros((1, 1), np.int64), np.array([diff])) is None


@pytest.mark.parametrize(
    "data_type", [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us"), pa.float64()]
)
def test_columns_of_words_are_gathered(data_type: pa.DataType) -> None:
    column = pa.array([5, -3, 7, 0], data_type)
    places = few.places_of([column.slice(1)])
    (made,) = few.gathered(places[None], np.array([0, 3]), np.array([2, 0]), [data_type])
    assert made.equals(pa.concat_arrays([column.slice(3, 1), column.slice(1, 1)]))
    with_null = pa.array([None, 1], pa.int64())
    assert few.gathered(few.places_of([with_null])[None], np.array([0, 2]), np.array([1]), [pa.int64()]) is None


def test_columns_of_pairs_are_chosen_from_narrow_and_other_columns() -> None:
    schema = pa.schema([("k", pa.int64()), ("d", pa.date32())])
    narrow = narrow_rows(
        Rows(schema, (pa.array([1000, 1003, 1001]), pa.array([1, 2, 3], pa.int32()).cast(pa.date32())), 3)
    )
    wide = Rows(schema, (pa.array([-5, 1 << 60, 0]), pa.array([4, 5, 6], pa.int32()).cast(pa.date32())), 3)
    numbers = pa.array([1, 2], pa.int16())
    mine = few.places_of([numbers])
    theirs = np.array([few.stored_places(stored_columns(rows), schema.types) for rows in (narrow, wide)])
    at, ends = np.array([[1, 0, 1], [1, 1, 0]]), np.array([[0, 1], [1, 3]])
    choice = np.array([[0, 0], [1, 0], [1, 1]])
    types = [pa.int16(), pa.int64(), pa.date32()]
    columns = few.chosen(mine, at, theirs, ends, choice, False, types)
    assert [c.cast(pa.int32()).to_pylist() if c.type == pa.date32() else c.to_pylist() for c in columns] == [
        [2, 1, 2],
        [1003, 1 << 60, -5],
        [2, 5, 4],
    ]
    flipped = few.chosen(mine, at, theirs, ends, np.abs(choice - [[1, 0]]), True, types)
    assert [c.to_pylist() for c in flipped] == [c.to_pylist() for c in columns]


def test_narrow_decimals_are_compared_with_those_of_sixteen_bytes() -> None:
    """By what they are, and not by the memory behind their codes."""
    schema = pa.schema([("d", pa.decimal128(12, 2)), ("k", pa.int64())])
    texts = ["-3.00", "0.00", "7.25", "-0.01"]
    numbers = pa.array([Decimal(text) for text in texts], pa.decimal128(12, 2))
    far = pa.array([Decimal("-3.00"), None, Decimal("1234567890.25"), Decimal("-0.01")], pa.decimal128(12, 2))
    rows = [Rows(schema, (column, pa.array([0, 0, 0, 0])), 4) for column in (numbers, far)]
    narrow = narrow_rows(rows[0])
    assert stored_columns(narrow)[0].codes is not None
    places = [few.stored_places(stored_columns(some), schema.types) for some in (narrow, *rows)]
    values = [numbers.to_pylist(), numbers.to_pylist(), far.to_pylist()]
    for one, mine in zip(places, values, strict=True):
        for other, theirs in zip(places, values, strict=True):
            for i, j in product(range(4), range(4)):
                assert few.is_equal(one, i, other, j, 0, 1) == (mine[i] == theirs[j]), (mine[i], theirs[j])
    assert few.gathered(places[0][None], np.array([0, 4]), np.array([1]), schema.types) is None


@given(st.lists(st.integers(0, 2**64 - 1), min_size=2, max_size=300), st.integers(0, 400), st.booleans())
def test_a_hash_is_found_wherever_hashes_lie(drawn: list[int], copies: int, even: bool) -> None:
    """Where a bisection finds it: of hashes that lie evenly, or close together, or are very often the same."""
    numbers = [*drawn, *[drawn[0]] * copies] if even else [number % 1000 for number in [*drawn, *[drawn[0]] * copies]]
    hashes = np.sort(np.array(numbers, np.uint64))
    first, last = hashes[0], hashes[-1]
    address = hashes.__array_interface__["data"][0]
    near = {int(h) + by for h in hashes[[0, 1, len(hashes) // 2, -1]] for by in (-1, 0, 1)} | {*map(int, hashes)}
    for target in map(np.uint64, sorted(t for t in near if int(first) <= t <= int(last))):
        if first < last:
            assert hash_from(address, len(hashes), first, last, target) == hashes.searchsorted(target)
