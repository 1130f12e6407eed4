"""Arrangements in order of a column: the same sums as any other, and each key's rows in that order, ties and all."""

from __future__ import annotations

import math
import random
from collections import Counter
from contextlib import nullcontext
from decimal import Decimal
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.canonical import canonical_rows
from altneu.columnar.hashing import hash_bits, hash_rows
from altneu.columnar.ranking import order_text, order_words, sort_lines
from altneu.columnar.rows import Rows
from altneu.order import Antichain, Epoch
from altneu.trace.batch import Batch, Description, Layout, find_in
from altneu.trace.spine import Spine
from altneu.trace.update import Updates

SCHEMA = pa.schema([("k", pa.string()), ("at", pa.int64()), ("v", pa.string())])
LAYOUT = Layout(SCHEMA, ("k",), Epoch(), (("at", False, True),))
EXTREMES = [-(2**63), -1, 0, 1, 2**63 - 1]


def updates_of(listed):
    rows = Rows.from_pylist([row for row, _, _ in listed], SCHEMA)
    times, diffs = (np.array([u[i] for u in listed], np.int64) for i in (1, 2))
    return Updates(rows, times.reshape(1, -1), diffs)


def random_updates(rng, count, time):
    return [
        ((rng.choice("ab"), rng.choice([*EXTREMES, *range(5)]), rng.choice(["x", "y", None, "z" * 40])), time, diff)
        for diff in rng.choices([-2, -1, 1, 1, 2], k=count)
    ]


def sums(updates, until):
    actual = Counter()
    for row, time, diff in updates:
        actual[row] += diff * (time <= until)
    return {row: n for row, n in actual.items() if n}


def listed(batch):
    result = batch.updates()
    return list(zip(result.rows.to_pylist(), result.times[0].tolist(), result.diffs.tolist(), strict=True))


def check(batch):
    """Within a key by the column; equal rows next to each other, each time once."""
    rows = listed(batch)
    keys = [row[0] for row, _, _ in rows]
    assert len([i for i in range(len(keys)) if i == 0 or keys[i] != keys[i - 1]]) == len(set(keys))
    for (one, _, _), (other, _, _) in pairwise(rows):
        assert one[0] != other[0] or one[1] <= other[1]
    assert len({(row, time) for row, time, _ in rows}) == len(rows)
    runs = [row for i, (row, _, _) in enumerate(rows) if i == 0 or rows[i - 1][0] != row]
    assert len(runs) == len(set(runs))


@pytest.mark.parametrize("bits", [None, 1])
@pytest.mark.parametrize("seed", range(3))
def test_a_spine_in_order_adds_up_and_stays_in_order(seed, bits):
    if bits is not None:
        with hash_bits(bits):
            build_and_merge(seed)
    else:
        build_and_merge(seed)


def build_and_merge(seed):
    rng = random.Random(seed)
    spine, everything = Spine.empty(LAYOUT), []
    for time in range(12):
        some = random_updates(rng, rng.choice([1, 5, 200]), time)
        everything += some
        batch = Batch.build(updates_of(some), LAYOUT, Description.interval(Epoch(), time, time + 1))
        check(batch)
        spine = spine.insert(batch, since=Antichain.of(Epoch(), max(time - 3, 0)))
        for part in spine.batches:
            check(part)
        assert sums([u for part in spine.batches for u in listed(part)], time) == sums(everything, time)
    whole = spine.merged(Antichain.of(Epoch(), 11))
    check(whole)
    keys = Rows.from_pydict({"k": ["a"]}, LAYOUT.key_schema)
    matches = find_in([whole], hash_rows(keys), keys)
    assert (matches.value_hash[1:] >= matches.value_hash[:-1]).all()
    assert len(matches) == sum(row[0] == "a" for row, _, _ in listed(whole))


ORDERS = [
    (("v", False, True),),
    (("v", True, False), ("at", False, False)),
    (("n", True, True), ("d", False, False)),
    (("d", True, False), ("n", False, True), ("v", True, True)),
    (("x", False, False), ("l", True, False)),
    (("l", False, True),),
]
WIDE = pa.schema(
    [
        ("k", pa.string()),
        ("at", pa.int64()),
        ("v", pa.string()),
        ("n", pa.int64()),
        ("d", pa.decimal128(30, 2)),
        ("x", pa.float64()),
        ("l", pa.list_(pa.string())),
    ]
)
SEVERAL = [
    [None, -(2**63), 2**63 - 1, 0, 3],
    [None, "", "same first bytes", "same first bytes, then not", "\x00", "é", "z"],
    [None, -(2**63), 2**63 - 1, 0, 1],
    [None, Decimal("-1.5"), Decimal(2**64), Decimal(2**64 + 1), Decimal(-(2**70)), Decimal(0)],
    [None, float("nan"), float("-inf"), 0.0, -1.5, 1e300],
    [None, [], [None], ["a"], ["a", "b"]],
]


def less(order, one, other):
    """Whether a value comes before another, decided by comparing Python values; None where they are equal."""
    names = WIDE.names[1:]
    how = [*order, *((n, False, True) for n in names if n not in {c for c, _, _ in order})]
    for name, descending, nulls_first in how:
        a, b = one[names.index(name)], other[names.index(name)]
        if a is None or b is None:
            if (a is None) != (b is None):
                return (a is None) == nulls_first
            continue
        a, b = _comparable(a), _comparable(b)
        if a != b:
            return (a < b) != descending
    return None


def _comparable(value):
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, list):
        return [(e is not None, e or "") for e in value]
    return value


@pytest.mark.parametrize("bits", [None, 1])
@pytest.mark.parametrize("order", ORDERS, ids=order_text)
def test_the_values_of_a_key_are_in_the_order_of_their_columns(order, bits):
    rng = random.Random(str(order))
    layout = Layout(WIDE, ("k",), Epoch(), order)
    with hash_bits(bits) if bits is not None else nullcontext():
        spine, expected = Spine.empty(layout), Counter()
        for time in range(6):
            some = []
            for _ in range(rng.choice([1, 40, 300])):
                values = [rng.choice(column) for column in SEVERAL]
                some.append((rng.choice("ab"), *values))
            diffs = [rng.choice([-1, 1, 1]) for _ in some]
            rows = canonical_rows(Rows.from_pylist(some, WIDE))
            result = Updates(rows, np.full((1, len(some)), time), np.array(diffs, np.int64))
            for row, diff in zip(rows.to_pylist(), diffs, strict=True):
                expected[repr(row)] += diff
            batch = Batch.build(result, layout, Description.interval(Epoch(), time, time + 1))
            spine = spine.insert(batch, since=Antichain.of(Epoch(), time))
            for part in spine.batches:
                in_order(order, part)
        whole = spine.merged(Antichain.of(Epoch(), 6))
        in_order(order, whole)
        assert {repr(r): d for r, _, d in listed(whole)} == {r: d for r, d in expected.items() if d}


def in_order(order, batch):
    rows = listed(batch)
    for (one, at, _), (other, later, _) in pairwise(rows):
        if one[0] == other[0]:
            before = less(order, one[1:], other[1:])
            assert before is True or (before is None and at < later), (one, other)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
@pytest.mark.parametrize("place", range(len(SEVERAL)))
def test_words_never_contradict_the_order(place, nulls_first, descending):
    column = canonical_rows(
        Rows.from_pydict({"c": SEVERAL[place]}, pa.schema([WIDE.field(place + 1).with_name("c")]))
    ).columns[0]
    words = order_words(column, descending=descending, nulls_first=nulls_first)
    lines = sort_lines(column, descending=descending, nulls_first=nulls_first)
    ranked = words[np.lexsort(lines[::-1])]
    assert (ranked[1:] >= ranked[:-1]).all()


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")]
)
def test_words_are_in_the_order_of_the_values_and_tell_them_apart(type_):
    width = type_.bit_width
    values = sorted({-(2 ** (width - 1)), -5, -1, 0, 1, 7, 2 ** (width - 1) - 1})
    plain = pa.array(values, {8: pa.int8(), 32: pa.int32(), 64: pa.int64()}[width])
    words = order_words(plain.view(type_) if pa.types.is_temporal(type_) else plain.cast(type_))
    assert (words[1:] > words[:-1]).all()
