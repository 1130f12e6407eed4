"""Few updates of a join met by one kernel: the pairs are those that are made of many."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import altneu as an
from altneu.columnar.rows import Rows
from altneu.errors import DiffOverflowError
from altneu.expressions import parse
from altneu.linear import BoundLogic, Filter
from altneu.operators.join import few, pairs
from altneu.operators.join.pairs import JoinSpec, TooManyMatches, join, join_few
from altneu.order import AltNeu, Antichain, Epoch, Product, Rounds, lifted
from altneu.trace import batch as batches
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.update import Updates

E = Epoch()
PLANE = Product(E, E)
LEFT = pa.schema([("k", pa.int32()), ("a", pa.string())])
RIGHT = pa.schema([("k", pa.int32()), ("b", pa.string())])
OUTPUTS = (("k", 0, "k"), ("a", 0, "a"), ("b", 1, "b"))
JOINED = pa.schema([("k", pa.int32()), ("a", pa.string()), ("b", pa.string())])
LATTICES = {
    "E": (E, E),
    "AltNeu(E)": (AltNeu(E), AltNeu(E)),
    "AltNeu(E) with E": (AltNeu(E), E),
    "Rounds(E, 1) with E": (Rounds(E, 1), E),
    "Rounds(E, 2) with Rounds(E, 1)": (Rounds(E, 2), Rounds(E, 1)),
    "Product(E, E)": (PLANE, PLANE),
    "Rounds(Product(E, E), 1) with Product(E, E)": (Rounds(PLANE, 1), PLANE),
    "AltNeu(Product(E, E))": (AltNeu(PLANE), AltNeu(PLANE)),
}


def batch_of(rng, schema, lattice, count, *, keys, far):
    listed = [(rng.choice(keys), rng.choice("xyz")) for _ in range(count)]
    times = np.array([[rng.randrange(4) for _ in range(count)] for _ in range(lattice.width)], np.int64)
    if isinstance(lattice, AltNeu) and lattice.width > 1:
        times[-1] %= 2
    diffs = np.array([rng.choice([1, -1, 3, *([1 << 31] if far else [])]) for _ in range(count)], np.int64)
    bounds = [Antichain.minimum(lattice), Antichain.of(lattice), Antichain.minimum(lattice)]
    updates = Updates(Rows.from_pylist(listed, schema), times.reshape(lattice.width, count), diffs)
    return Batch.build(updates, Layout(schema, ("k",), lattice), Description(*bounds))


def arranged(rng, schema, lattice, *, size, packed, most=4, **options):
    old = [batch_of(rng, schema, lattice, rng.randrange(1, size), **options) for _ in range(rng.randrange(most))]
    new = batch_of(rng, schema, lattice, rng.randrange(6), **options)
    old = [batch.packed() if packed else batch for batch in old if batch.count]
    return Arranged(Layout(schema, ("k",), lattice), tuple(old), new)


def counted(updates):
    total = Counter()
    for row, time, n in zip(updates.rows.to_pylist(), updates.times.T.tolist(), updates.diffs.tolist(), strict=True):
        total[row, tuple(time)] += n
    return {what: n for what, n in total.items() if n}


@pytest.mark.parametrize("kind", ["usual", "nulls", "hub", "far", "packed", "many"])
@pytest.mark.parametrize("name", LATTICES)
def test_few_pairs_are_those_that_are_made_of_many(name, kind, monkeypatch):
    lattice, other = LATTICES[name]
    rng, answered = random.Random(f"{name}{kind}"), 0
    spec = JoinSpec(JOINED, OUTPUTS, lattice)
    keys = [*range(2 if kind == "hub" else 12), *([None] if kind == "nulls" else [])]
    monkeypatch.setattr(batches, "PACKED_ROWS", 1)
    real = few.few_pairs

    def asked(*given, **named):
        nonlocal answered
        result = real(*given, **named)
        answered += result is not None
        return result

    for _ in range(30):
        options = {
            "keys": keys,
            "size": 60 if kind == "hub" else 20,
            "most": 7 if kind == "many" else 4,
            "packed": kind == "packed",
            "far": kind == "far",
        }
        left, right = arranged(rng, LEFT, lattice, **options), arranged(rng, RIGHT, other, **options)
        if rng.random() < 0.5:
            monkeypatch.setattr(pairs, "few_pairs", asked)
            made, _ = join(left, right, spec)
            monkeypatch.setattr(pairs, "few_pairs", lambda *_, **__: None)
            wanted, _ = join(left, right, spec)
        else:  # the outer side on the left
            turned = JoinSpec(JOINED, tuple((n, 1 - side, column) for n, side, column in OUTPUTS), lattice)
            monkeypatch.setattr(pairs, "few_pairs", asked)
            made, _ = join(right, left, turned)
            monkeypatch.setattr(pairs, "few_pairs", lambda *_, **__: None)
            wanted, _ = join(right, left, turned)
        assert counted(made) == counted(wanted)
    assert answered > 0 or not lattice.is_columnwise


@pytest.mark.parametrize("name", LATTICES)
def test_times_are_padded_only_where_lifting_pads_them(name):
    lattice, other = LATTICES[name]
    times = np.arange(3 * other.width, dtype=np.int64).reshape(other.width, 3)
    padded = np.concatenate([times, np.zeros((lattice.width - other.width, 3), np.int64)])
    assert not few.is_padded(other, lattice) or (lifted(times, other, lattice) == padded).all()


def test_a_budget_holds_for_few_pairs_too():
    rng = random.Random(0)
    options = {"keys": [1], "size": 2, "packed": False, "far": False}
    left, right = (
        Arranged(one.layout, (), one.new)
        for one in (arranged(rng, LEFT, E, **options), arranged(random.Random(4), RIGHT, E, **options))
    )
    assert left.new.count
    assert right.new.count
    with pytest.raises(TooManyMatches):
        join(left, right, JoinSpec(JOINED, OUTPUTS, E), budget=0)


WORDS = pa.schema([("k", pa.int32()), ("a", pa.int64()), ("d", pa.date32())])
OTHERS = pa.schema([("k", pa.int32()), ("b", pa.int8())])
OF_WORDS = JoinSpec(
    pa.schema([("b", pa.int8()), ("k", pa.int32()), ("a", pa.int64()), ("d", pa.date32())]),
    (("b", 1, "b"), ("k", 0, "k"), ("a", 0, "a"), ("d", 0, "d")),
    E,
)
SOME = BoundLogic((Filter(parse("a % 2 = 0", OF_WORDS.schema)),))


def words_of(rng, schema, count, *, nulls, packed):
    values = [1000, 1003, -(1 << 40)] if schema is WORDS else [1, -3, 7]
    rows = [
        (rng.randrange(6), rng.choice([*values, *([None] if nulls else [])]), *([rng.randrange(9)] * (len(schema) - 2)))
        for _ in range(count)
    ]
    columns = [pa.array(column, t) for column, t in zip(zip(*rows, strict=True), schema.types, strict=True)]
    times = np.array([[rng.randrange(4) for _ in rows]], np.int64)
    updates = Updates(Rows(schema, tuple(columns), count), times, np.array([rng.choice([1, 2, -1]) for _ in rows]))
    batch = Batch.build(updates, Layout(schema, ("k",), E), Description.interval(E, 0, 4))
    return batch.packed() if packed else batch


@pytest.mark.parametrize("kind", ["usual", "nulls", "packed"])
@pytest.mark.parametrize("logic", [BoundLogic(), SOME], ids=["plain", "with logic"])
def test_columns_of_few_matches_are_those_of_many(logic, kind, monkeypatch):
    monkeypatch.setattr(batches, "PACKED_ROWS", 1)
    rng, answered = random.Random(kind), 0
    for _ in range(60):
        made = {"nulls": kind == "nulls", "packed": kind == "packed"}
        sides = []
        for schema in (WORDS, OTHERS):
            old = [words_of(rng, schema, rng.randrange(1, 6), **made) for _ in range(3)]
            new = words_of(rng, schema, 1, **made)
            if rng.random() < 0.4:
                new = Batch.empty(new.layout, new.description)
            sides.append(Arranged(new.layout, tuple(batch for batch in old if batch.count), new))
        few_made = join_few(*sides, OF_WORDS, logic, None)
        rows, errors = join(*sides, OF_WORDS, logic)
        if few_made is not None:
            answered += 1
            passed, nothing, failed = few_made
            assert nothing is None
            assert counted(rows) == (counted(passed) if passed is not None else {})
            assert not len(errors)
            assert failed is None or not len(failed)
            assert passed is None or passed.rows.schema == rows.rows.schema
            if rows.diffs.size:
                with pytest.raises(TooManyMatches):
                    join_few(*sides, OF_WORDS, logic, 0)
    assert answered > 20


@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("other", [-1, 2, 3])
def test_the_least_diff_of_all_is_multiplied_exactly_or_not_at_all(first, other):
    """-2^63 has no absolute value in 64 bits, so that asking for one says that it is small."""
    a, b = an.source("a", "k int, x int"), an.source("b", "k int, y int")
    given = {"a": ((1, 2), [-(2**62)] * 2), "b": ((1, 5), [other])}  # the diffs of a are added up
    with an.Session() as session:
        session.maintain("v", a.join(b, on="k"))
        for name in (first, "ab".replace(first, "")):
            row, diffs = given[name]
            for diff in diffs:
                session.insert(name, [row], diff=diff)
            if name == first:
                session.advance()
        with pytest.raises(DiffOverflowError):
            session.advance()
