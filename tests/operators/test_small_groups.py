"""Small groups read by one kernel: what it answers is what the kernels for all groups answer."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.hashing import hash_bits
from altneu.columnar.rows import Rows
from altneu.operators.kernels import below_zero as counts
from altneu.operators.kernels import small_groups
from altneu.operators.reduce.calls import Aggregate
from altneu.operators.reduce.ranked import GeneralSpec
from altneu.operators.reduce.rounds import reduce_in_round
from altneu.order import Antichain, Epoch, Product, Rounds
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.update import Updates
from tests.operators.counting import counted

LOOP = Rounds(Epoch(), 1)
VALUES = {"int8": pa.int8(), "int": pa.int32(), "bigint": pa.int64(), "date": pa.date32()}
EPOCH, AT = 5, 3


def schema_of(type_):
    return pa.schema([("k", pa.int32()), ("v", type_)])


def batch_of(updates, layout, lower, upper):
    rows = Rows(
        layout.schema,
        (
            pa.array([k for (k, _), _, _ in updates], pa.int32()),
            pa.array([v for (_, v), _, _ in updates], pa.int64()).cast(pa.int32()).cast(layout.schema.field("v").type),
        ),
        len(updates),
    )
    times = np.array([t for _, t, _ in updates], np.int64).reshape(-1, layout.lattice.width).T.copy()
    ends = [
        Antichain(layout.lattice, np.array([[end]] + [[0]] * (layout.lattice.width - 1))) for end in (lower, upper, 0)
    ]
    return Batch.build(Updates(rows, times, np.array([d for *_, d in updates], np.int64)), layout, Description(*ends))


def arranged(rng, layout, *, keys=6, rows=40, below=False, nulls=False, late=False):
    """Old updates of some epochs, and what is new at a round of the last one."""
    there, values = Counter(), [*range(-4, 5), *([None] if nulls else [])]

    def update(epoch, inner):
        row = rng.choice([*range(keys), None]) if nulls else rng.randrange(keys), rng.choice(values)
        diff = rng.choice([1, 1, 2, -1])
        if diff < 0 and not below and not there[row]:
            diff = 1
        there[row] += diff
        return row, (epoch, inner)[: layout.lattice.width], diff

    old = []
    for lower, upper in pairwise([0, 2, 4, EPOCH]):
        inner = [rng.choice([0, 0, AT, AT + 1, rng.randrange(30 if late else 6)]) for _ in range(rows // 3)]
        old.append(batch_of([update(rng.randrange(lower, upper), at) for at in inner], layout, lower, upper))
    if layout.lattice is LOOP:  # what earlier rounds of the step have made
        old.append(batch_of([update(EPOCH, rng.randrange(AT)) for _ in range(rng.randrange(4))], layout, EPOCH, EPOCH))
    new = batch_of([update(EPOCH, AT) for _ in range(rng.randrange(12))], layout, EPOCH, EPOCH + 1)
    return Arranged(layout, tuple(batch for batch in old if batch.count), new)


def layout_of(type_, lattice, *, descending=False):
    return Layout(schema_of(type_), ("k",), lattice, (("v", descending, True),))


def again_of(rng, layout, keys=6):
    some = rng.sample(range(keys + 2), rng.choice([0, 0, 1, 3]))
    some += some[:1]  # a group may be asked for twice
    times = np.array([[EPOCH] * len(some), [AT] * len(some)], np.int64)
    return Updates(Rows.from_pylist([(k,) for k in some], layout.key_schema), times, np.ones(len(some), np.int64))


def spec_of(function, type_):
    return GeneralSpec(("k",), (Aggregate(function, ("v",), type_),), schema_of(type_))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["usual", "below", "nulls", "late", "many"])
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("function", "descending"), [("min", False), ("max", False), ("max", True)])
def test_an_extreme_of_small_groups_in_a_round_is_that_of_any_groups(function, descending, value, kind, monkeypatch):
    layout, spec = layout_of(VALUES[value], LOOP, descending=descending), spec_of(function, VALUES[value])
    rng, answered, ahead = random.Random(f"{function}{descending}{value}{kind}"), 0, 0
    for _ in range(40):
        rows = 400 if kind == "many" else 40
        options = {kind: True} if kind in ("below", "nulls", "late") else {}
        given, again = arranged(rng, layout, rows=rows, **options), again_of(rng, layout)
        few = spec.of_few(given, (AT,), again)
        with monkeypatch.context() as patch:
            patch.setattr(GeneralSpec, "of_few", lambda *_: None)
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
    assert (answered > 8 and ahead) or kind in ("below", "nulls", "many")


def test_what_is_not_small_is_left_to_others():
    layout, spec, rng = layout_of(pa.int64(), LOOP), spec_of("min", pa.int64()), random.Random(0)
    given, nothing = arranged(rng, layout), again_of(random.Random(1), layout).filter(np.zeros(0, np.bool_))
    many = [((0, v), (1, 0), 1) for v in range(small_groups.MOST_ROWS + 1)]
    new = batch_of([((0, 0), (EPOCH, AT), 1)], layout, EPOCH, EPOCH + 1)
    assert spec.of_few(Arranged(layout, (batch_of(many[1:], layout, 0, EPOCH),), new), (AT,), nothing) is None
    assert spec.of_few(Arranged(layout, (batch_of(many[2:], layout, 0, EPOCH),), new), (AT,), nothing) is not None
    two = batch_of([((0, 0), (EPOCH, AT), 1), ((0, 1), (EPOCH + 1, AT), 1)], layout, EPOCH, EPOCH + 2)
    assert spec.of_few(Arranged(layout, given.old, two), (AT,), nothing) is None
    with hash_bits(2):
        assert spec.of_few(given, (AT,), nothing) is None
        assert not small_groups.none_is_below(given)


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("lattice", [Epoch(), LOOP, Product(Epoch(), Epoch())])
def test_where_no_count_is_below_zero_none_becomes_so(lattice, below, monkeypatch):
    rng, answered = random.Random(f"{lattice}{below}"), 0
    layout = layout_of(pa.int64(), lattice)
    for _ in range(100):
        given = arranged(rng, layout, keys=30, rows=60, below=below)
        none = small_groups.none_is_below(given)
        with monkeypatch.context() as patch:
            patch.setattr(counts, "_none_is", lambda _: False)
            changes = counts.below_zero(given, ())
        assert not (none and len(changes))
        answered += none
    assert answered > 50 or below or lattice.width > 1
    assert answered < 100 or not below
