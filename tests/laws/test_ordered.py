"""Arrangements in order of a column: the same sums as any other, and each key's rows in that order, ties and all."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.hashing import hash_bits, hash_rows
from altneu.columnar.rows import Rows
from altneu.order import Antichain, Epoch
from altneu.trace.batch import Batch, Description, Layout, find_in, ordered_words
from altneu.trace.spine import Spine
from altneu.trace.update import Updates

SCHEMA = pa.schema([("k", pa.string()), ("at", pa.int64()), ("v", pa.string())])
LAYOUT = Layout(SCHEMA, ("k",), Epoch(), "at")
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
    found = Counter()
    for row, time, diff in updates:
        found[row] += diff * (time <= until)
    return {row: n for row, n in found.items() if n}


def listed(batch):
    made = batch.updates()
    return list(zip(made.rows.to_pylist(), made.times[0].tolist(), made.diffs.tolist(), strict=True))


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
    found = find_in([whole], hash_rows(keys), keys)
    assert (found.value_hash[1:] >= found.value_hash[:-1]).all()
    assert len(found) == sum(row[0] == "a" for row, _, _ in listed(whole))


@pytest.mark.parametrize(
    "type_", [pa.int8(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")]
)
def test_words_are_in_the_order_of_the_values_and_tell_them_apart(type_):
    width = type_.bit_width
    values = sorted({-(2 ** (width - 1)), -5, -1, 0, 1, 7, 2 ** (width - 1) - 1})
    plain = pa.array(values, {8: pa.int8(), 32: pa.int32(), 64: pa.int64()}[width])
    words = ordered_words(plain.view(type_) if pa.types.is_temporal(type_) else plain.cast(type_))
    assert (words[1:] > words[:-1]).all()
