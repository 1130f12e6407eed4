"""Sums of few slots, read from hashes by one kernel: what comes of them is what comes of many."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.hashing import hash_bits
from altneu.columnar.rows import Rows
from altneu.operators.reduce.accumulable import AggregatesSpec, TotalsSpec, reduce_accumulable
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


def schema_of(key_type):
    return pa.schema([*([("k", key_type)] if key_type else []), ("i", pa.int64()), ("f", pa.float64())])


def listed(output):
    rows = zip(output.rows.to_pylist(), output.times[0].tolist(), output.diffs.tolist(), strict=True)
    return sorted(rows, key=repr)


@pytest.mark.parametrize("kind", ["usual", "nulls", "negative", "times", "packed", "large"])
@pytest.mark.parametrize("key_type", [None, pa.int64(), pa.int8(), pa.date32(), pa.string()], ids=str)
@pytest.mark.parametrize("spec_of", [AggregatesSpec, TotalsSpec, lambda a: AggregatesSpec(a, default_row=True)])
def test_few_sums_are_those_of_many(spec_of, key_type, kind, monkeypatch):
    rng, answered = random.Random(f"{key_type}{kind}"), 0
    schema = schema_of(key_type)
    accumulator = Accumulator(("k",) if key_type else (), CALLS, schema)
    spec, layout = spec_of(accumulator), Layout(accumulator.slot_schema, accumulator.key, E)
    monkeypatch.setattr("altneu.trace.batch.PACKED_ROWS", 1)
    keys = ["a", "b"] if key_type == pa.string() else [0, 1, 5]
    there = []

    def batch_at(lower, upper, count):
        nonlocal there
        rows, diffs = [], []
        for _ in range(count):
            number = rng.choice([1, -7, 1 << 40, *([1 << 62] if kind == "large" else [])])
            row = (rng.choice([number, None]), rng.choice([0.5, -3.0, None]))
            if key_type:
                row = (rng.choice([*keys, *([None] if kind == "nulls" else [])]), *row)
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
    if key_type == pa.string():
        assert not answered
    elif kind == "usual":
        assert answered > 20


def test_where_hashes_collide_they_tell_nothing():
    accumulator = Accumulator(("k",), CALLS, schema_of(pa.int64()))
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
