"""Sums of small groups read by one kernel: what it answers is what the kernels for all groups answer."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.hashing import hash_bits
from altneu.columnar.rows import Rows
from altneu.operators.kernels import small_sums
from altneu.operators.reduce import along_epochs
from altneu.operators.reduce.accumulable import AccumulableSpec, AggregatesSpec, DistinctSpec, TotalsSpec
from altneu.operators.reduce.accumulate import Accumulator
from altneu.operators.reduce.calls import Aggregate
from altneu.operators.reduce.rounds import reduce_in_round
from altneu.order import Antichain, Epoch, Rounds
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.update import Updates
from tests.operators.counting import counted

LOOP = Rounds(Epoch(), 1)
EPOCH, AT = 5, 3
SCHEMA = pa.schema([("k", pa.int32()), ("v", pa.int64()), ("x", pa.float64()), ("d", pa.decimal128(38, 2))])
CALLS = {
    "count": [("count", (), pa.int64())],
    "values": [("count", ("v",), pa.int64()), ("sum", ("v",), pa.int64())],
    "doubles": [("sum", ("x",), pa.float64()), ("avg", ("v",), pa.float64())],
    "decimals": [("sum", ("d",), pa.decimal128(38, 2)), ("count", (), pa.int64())],
}
SPECS = [*CALLS, "totals", "default", "distinct"]


def spec_of(name):
    if name == "distinct":
        return DistinctSpec(pa.schema([SCHEMA.field("k")]))
    key = () if name == "default" else ("k",)
    calls = CALLS["values" if name in ("totals", "default") else name]
    accumulator = Accumulator(key, tuple(Aggregate(*call) for call in calls), SCHEMA)
    return TotalsSpec(accumulator) if name == "totals" else AggregatesSpec(accumulator, default_row=name == "default")


def batch_of(updates, spec, layout, lower, upper):
    rows = Rows.from_pylist([row for row, _, _ in updates], SCHEMA)
    times = np.array([time for _, time, _ in updates], np.int64).reshape(-1, 2).T.copy()
    given = Updates(rows, times, np.array([diff for *_, diff in updates], np.int64))
    if isinstance(spec, DistinctSpec):
        given = given.with_rows(rows.select(("k",)))
    bounds = [Antichain(LOOP, np.array([[end], [0]])) for end in (lower, upper, 0)]
    return Batch.build(spec.sums.explode(given, LOOP), layout, Description(*bounds))


def arranged(rng, spec, *, keys=6, rows=40, below=False, nulls=False, late=False, large=False):
    """Old updates of some epochs, and what is new at a round of the last one."""
    layout = Layout(spec.sums.slot_schema, spec.sums.key, LOOP)
    there, values = {}, [*range(-2, 3), *([None] if nulls else []), *([2**62] if large else [])]

    def update(epoch, inner):
        key, value = rng.choice([*range(keys), *([None] if nulls else [])]), rng.choice(values)
        row = key, value, None if value is None else value / 2, None if value is None else value
        diff = rng.choice([1, 1, 2, -1])
        if diff < 0 and not below and not there.get(row):
            diff = 1
        there[row] = there.get(row, 0) + diff
        return row, (epoch, inner), diff

    old = []
    for lower, upper in pairwise([0, 2, 4, EPOCH]):
        inner = [rng.choice([0, 0, AT, AT + 1, rng.randrange(30 if late else 6)]) for _ in range(rows // 3)]
        old.append(batch_of([update(rng.randrange(lower, upper), at) for at in inner], spec, layout, lower, upper))
    # what earlier rounds of the step have made
    earlier = [update(EPOCH, rng.randrange(AT)) for _ in range(rng.randrange(4))]
    old.append(batch_of(earlier, spec, layout, EPOCH, EPOCH))
    new = [update(EPOCH, AT) for _ in range(rng.randrange(12))]
    return Arranged(layout, tuple(b for b in old if b.count), batch_of(new, spec, layout, EPOCH, EPOCH + 1))


def again_of(rng, layout, keys=6):
    some = rng.sample(range(keys + 2), rng.choice([0, 0, 1, 3]))
    some += some[:1]  # a group may be asked for twice
    times = np.array([[EPOCH] * len(some), [AT] * len(some)], np.int64)
    rows = Rows.from_pylist([(k,)[: len(layout.key)] for k in some], layout.key_schema)
    return Updates(Rows(rows.schema, rows.columns, len(some)), times, np.ones(len(some), np.int64))


@pytest.mark.parametrize("kind", ["usual", "below", "nulls", "late", "many", "large"])
@pytest.mark.parametrize("name", SPECS)
def test_sums_of_small_groups_in_a_round_are_those_of_any_groups(name, kind, monkeypatch):
    spec, rng, answered, ahead = spec_of(name), random.Random(f"{name}{kind}"), 0, 0
    options = {kind: True} if kind in ("below", "nulls", "late", "large") else {}
    monkeypatch.setattr(along_epochs, "AHEAD_ROWS", small_sums.MOST_ROWS)  # so that both look ahead in every group
    for _ in range(40):
        given = arranged(rng, spec, rows=1500 if kind == "many" else 40, **options)
        again = again_of(rng, given.layout)
        few = spec.of_few(given, (AT,), again)
        with monkeypatch.context() as patch:
            patch.setattr(AccumulableSpec, "of_few", lambda *_: None)
            wanted = reduce_in_round(given, (AT,), again, spec, "reduce")
        if few is None:
            continue
        answered += 1
        assert counted(few.oks) == counted(wanted.oks)
        assert few.oks.rows.schema == wanted.oks.rows.schema
        assert not len(few.errs)
        assert not len(wanted.errs)
        assert counted(few.pended) == counted(wanted.pended)
        ahead += len(few.pended)
    assert (answered > 8 and ahead) or kind in ("below", "nulls", "many", "large")


def test_what_is_not_small_is_left_to_others():
    spec, rng = spec_of("count"), random.Random(0)
    given = arranged(rng, spec)
    layout, nothing = given.layout, again_of(rng, given.layout).filter(np.zeros(0, np.bool_))
    new = batch_of([((0, 0, 0.0, 0), (EPOCH, AT), 1)], spec, layout, EPOCH, EPOCH + 1)
    for count, is_left in ((small_sums.MOST_ROWS, True), (small_sums.MOST_ROWS - 1, False)):
        history = [((0, 0, 0.0, 0), (1, at), 1) for at in range(count)]
        others = Arranged(layout, (batch_of(history, spec, layout, 0, EPOCH),), new)
        assert (spec.of_few(others, (AT,), nothing) is None) == is_left
    two = [((0, 0, 0.0, 0), (EPOCH, AT), 1), ((1, 0, 0.0, 0), (EPOCH + 1, AT), 1)]
    assert spec.of_few(Arranged(layout, given.old, batch_of(two, spec, layout, 0, EPOCH + 2)), (AT,), nothing) is None
    with hash_bits(2):
        assert spec.of_few(given, (AT,), nothing) is None
    text = DistinctSpec(pa.schema([("k", pa.string())]))
    layout = Layout(text.sums.slot_schema, ("k",), LOOP)
    rows = Updates(Rows.from_pylist([("a",)], text.rows), np.array([[EPOCH], [AT]]), np.ones(1, np.int64))
    bounds = Description(*[Antichain(LOOP, np.array([[end], [0]])) for end in (0, EPOCH + 1, 0)])
    batch = Batch.build(text.sums.explode(rows, LOOP), layout, bounds)
    again = Updates.empty(layout.key_schema, 2)
    assert text.of_few(Arranged(layout, (), batch), (AT,), again) is None
