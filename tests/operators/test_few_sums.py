"""Sums of few slots, read from hashes by one kernel: what comes of them is what comes of many."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.hashing import hash_bits
from altneu.columnar.rows import Rows
from altneu.operators.reduce.accumulable import AggregatesSpec, DistinctSpec, TotalsSpec, reduce_accumulable
from altneu.operators.reduce.accumulate import Accumulator
from altneu.operators.reduce.calls import Aggregate
from altneu.order import Antichain, Epoch
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.update import Updates

E = Epoch()
CALLS = (
    Aggregate("count", (), pa.int64()),
    Aggregate("count", ("i",), pa.int64()),
    Aggregate("sum", ("i",), pa.int64()),
    Aggregate("avg", ("i",), pa.float64()),
    Aggregate("sum", ("f",), pa.float64()),
)


TYPES = {
    "none": {},
    "bigint": {"k": pa.int64()},
    "tinyint": {"k": pa.int8()},
    "date": {"k": pa.date32()},
    "string": {"k": pa.string()},
    "two": {"k": pa.int32(), "l": pa.int64()},
    "mixed": {"k": pa.float64(), "l": pa.bool_(), "m": pa.string()},
}
TEXTS, NUMBERS = ["a", "b"], [0, 1, 5]


def schema_of(key_types):
    return pa.schema([*key_types.items(), ("i", pa.int64()), ("f", pa.float64())])


def listed(output):
    rows = zip(output.rows.to_pylist(), output.times[0].tolist(), output.diffs.tolist(), strict=True)
    return sorted(rows, key=repr)


@pytest.mark.parametrize("kind", ["usual", "nulls", "negative", "times", "packed", "large"])
@pytest.mark.parametrize("key", TYPES)
@pytest.mark.parametrize("spec_of", [AggregatesSpec, TotalsSpec, lambda a: AggregatesSpec(a, default_row=True), None])
def test_few_sums_are_those_of_many(spec_of, key, kind, monkeypatch):
    rng, answered, types = random.Random(f"{key}{kind}"), 0, TYPES[key]
    schema = schema_of(types)
    if spec_of is None:
        schema = pa.schema([schema.field(name) for name in types])
        spec = DistinctSpec(schema)
        accumulator = spec.sums
    else:
        accumulator = Accumulator(tuple(types), CALLS, schema)
        spec = spec_of(accumulator)
    layout = Layout(accumulator.slot_schema, accumulator.key, E)
    monkeypatch.setattr("altneu.trace.batch.PACKED_ROWS", 1)
    there = []

    def batch_at(lower, upper, count):
        nonlocal there
        rows, diffs = [], []
        for _ in range(count):
            number = rng.choice([1, -7, 1 << 40, *([1 << 62] if kind == "large" else [])])
            row = (rng.choice([number, None]), rng.choice([0.5, -3.0, None])) if spec_of else ()
            for t in reversed(types.values()):
                some = TEXTS if t == pa.string() else [True, False] if t == pa.bool_() else NUMBERS
                row = (rng.choice([*some, *([None] if kind == "nulls" else [])]), *row)
            if kind != "negative" and there and rng.random() < 0.4:
                row = there.pop(rng.randrange(len(there)))
                diffs.append(-1)
            else:
                diffs.append(rng.choice([1, -1]) if kind == "negative" else 1)
                there += [row] if diffs[-1] > 0 else []
            rows.append(row)
        times = np.array([[rng.randrange(lower, upper) for _ in rows]], np.int64).reshape(1, -1)
        updates = Updates(Rows.from_pylist(rows, schema), times, np.array(diffs, np.int64))
        batch = Batch.build(accumulator.explode(updates, E), layout, Description.interval(E, lower, upper))
        return batch.packed() if kind == "packed" and batch.count else batch

    old, now = [], 0
    for _ in range(30):
        upper = now + (3 if kind == "times" else 1)
        new = batch_at(now, upper, rng.randrange(1, 4))
        now = upper
        if not new.count:
            continue
        given = Arranged(layout, tuple(old), new)
        few = spec._of_few(given)
        many = reduce_accumulable(given, spec)
        if few is not None:
            answered += 1
            assert listed(few.oks) == listed(many.oks)
            assert few.oks.schema == many.oks.schema
            assert not len(few.errs)
            assert not len(many.errs)
        assert listed(spec.reduce(given, "reduce").oks) == listed(many.oks)
        old.append(new)
    assert answered > 20 or kind != "usual"


def test_different_keys_of_one_hash_are_left_to_others():
    accumulator = Accumulator(("k", "l"), CALLS, schema_of(TYPES["two"]))
    spec, layout = AggregatesSpec(accumulator), Layout(accumulator.slot_schema, accumulator.key, E)

    def batch_at(time, row):
        updates = Updates(Rows.from_pylist([row], accumulator.schema), np.array([[time]]), np.ones(1, np.int64))
        return Batch.build(accumulator.explode(updates, E), layout, Description.interval(E, time, time + 1))

    old, new = batch_at(0, (1, 2, 3, 0.5)), batch_at(1, (1, 3, 4, 0.5))
    assert len(spec._of_few(Arranged(layout, (old,), new)).oks) == 1
    (block,), (other,) = old.blocks, new.blocks
    hashed = replace(block, key_hash=np.repeat(other.key_hash[:1], len(block)))
    assert spec._of_few(Arranged(layout, (Batch(layout, old.description, (hashed,)),), new)) is None
    several = replace(block, collision_free=False)
    assert spec._of_few(Arranged(layout, (Batch(layout, old.description, (several,)),), new)) is None


def test_where_hashes_collide_they_tell_nothing():
    accumulator = Accumulator(("k",), CALLS, schema_of(TYPES["bigint"]))
    spec, layout = AggregatesSpec(accumulator), Layout(accumulator.slot_schema, accumulator.key, E)
    with hash_bits(2):
        updates = Updates(
            Rows.from_pylist([(1, 2, 0.5)], accumulator.schema), np.zeros((1, 1), np.int64), np.ones(1, np.int64)
        )
        new = Batch.build(
            accumulator.explode(updates, E), layout, Description(*(Antichain.of(E, t) for t in (0, 1, 0)))
        )
        assert spec._of_few(Arranged(layout, (), new)) is None
        assert listed(spec.reduce(Arranged(layout, (), new), "reduce").oks) == [((1, 1, 1, 2, 2.0, 0.5), 0, 1)]
