"""Joins of long histories at times that are no chain: the products of all pairs, and few of those that cancel."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import altneu as an
from altneu.columnar.hashing import hash_bits
from altneu.operators.join import operation as joining_operation
from altneu.operators.join import pairs as joins
from altneu.operators.join.pairs import JoinSpec, TooManyMatches, join
from altneu.operators.join.wave import wave
from altneu.order import AltNeu, Antichain, Epoch, Product, Rounds
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.update import Updates, consolidate
from tests.operators.support import updates_of

E = Epoch()
PLANE, SPACE = Product(E, E), Product(E, E, E)
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
JOINED = pa.schema([("k", pa.int64()), ("a", pa.string()), ("b", pa.string())])


# the kernel -----------------------------------------------------------------------------------------------------------


def sides(width):
    """By key: values, each with its changes at times; a key has some."""
    time = st.tuples(*[st.integers(0, 3)] * width)
    changes = st.dictionaries(
        st.tuples(st.integers(0, 2), time), st.sampled_from([-2, -1, 1, 1]), min_size=1, max_size=20
    )
    return st.lists(st.tuples(changes, changes), min_size=1, max_size=3)


def flat(keys):
    rows = [(3 * i + v, t, d) for i, key in enumerate(keys) for (v, t), d in sorted(key.items())]
    runs, times, diffs = zip(*rows, strict=True)
    bounds = np.cumsum([0, *map(len, keys)])
    return bounds, (np.array(runs), np.ascontiguousarray(np.array(times).T), np.array(diffs))


def walked(keys, limit):
    (bounds, mine), (their_bounds, theirs) = flat([a for a, _ in keys]), flat([b for _, b in keys])
    cursor, pairs = np.zeros(3, np.int64), []
    while cursor[0] < len(keys):
        (a, b), times, diffs, fits = wave(bounds, their_bounds, mine, theirs, cursor, limit)
        assert fits
        assert len(diffs) <= limit
        pairs += zip(
            mine[0][a].tolist(), theirs[0][b].tolist(), map(tuple, times.T.tolist()), diffs.tolist(), strict=True
        )
    return pairs


@pytest.mark.parametrize("width", [1, 2, 3])
@given(data=st.data(), limit=st.sampled_from([1, 2, 7, 1000]))
def test_it_gives_the_products_of_all_changes(width, data, limit):
    keys = data.draw(sides(width))
    pairs, total, wanted = walked(keys, limit), Counter(), Counter()
    for a, b, time, diff in pairs:
        total[a, b, time] += diff
    for i, (mine, theirs) in enumerate(keys):
        for (a, s), d in mine.items():
            for (b, t), e in theirs.items():
                wanted[3 * i + a, 3 * i + b, tuple(map(max, s, t))] += d * e
    assert {p: n for p, n in total.items() if n} == {p: n for p, n in wanted.items() if n}
    assert pairs == walked(keys, 1000), "portions change nothing, not even the order"


@pytest.mark.parametrize("diffs", [(2**62, 4), (2**62, 2**62, 1)])
def test_a_product_or_a_sum_beyond_64_bits_is_seen(diffs):
    *ours, last = diffs
    times = np.zeros((2, len(ours)), np.int64)
    mine = np.zeros(len(ours), np.int64), times, np.array(ours)
    theirs = np.zeros(1, np.int64), np.ones((2, 1), np.int64), np.array([last])
    bounds, their_bounds = np.array([0, len(ours)]), np.array([0, 1])
    *_, fits = wave(bounds, their_bounds, mine, theirs, np.zeros(3, np.int64), 10)
    assert not fits


# joins ----------------------------------------------------------------------------------------------------------------


def spec_of(lattice):
    return JoinSpec(JOINED, (("k", 0, "k"), ("a", 0, "v"), ("b", 1, "v")), lattice)


def batch(updates, lattice):
    given = updates_of(SCHEMA, [(row, 0, diff) for row, _, diff in updates])
    times = np.array([time for _, time, _ in updates], np.int64).reshape(-1, lattice.width).T
    frontiers = Antichain.minimum(lattice), Antichain.of(lattice), Antichain.minimum(lattice)
    return Batch.build(
        Updates(given.rows, times, given.diffs), Layout(SCHEMA, ("k",), lattice), Description(*frontiers)
    )


def arranged(parts, step, lattice):
    """As a join sees a collection of which some batches have arrived before."""
    old = tuple(b for b in (batch(part, lattice) for part in parts[:step]) if len(b))
    return Arranged(Layout(SCHEMA, ("k",), lattice), old, batch(parts[step], lattice))


def as_counter(updates, lattice):
    done = consolidate(updates, lattice)
    rows = zip(done.rows.to_pylist(), map(tuple, done.times.T.tolist()), done.diffs.tolist(), strict=True)
    return {(row, time): diff for row, time, diff in rows}


def _random(rng, sizes, count):
    rows = [((rng.randrange(2), rng.choice("xyz")), tuple(rng.randrange(n) for n in sizes)) for _ in range(count)]
    return [(row, time, rng.choice([1, -1, 2])) for row, time in rows]


LATTICES = {
    "Product(E, E)": (PLANE, PLANE, (5, 5)),
    "Product(E, E, E)": (SPACE, SPACE, (3, 4, 4)),
    "Product(AltNeu(E), E)": (Product(AltNeu(E), E), Product(AltNeu(E), E), (5, 4)),
    "Rounds(E, 2) with E": (Rounds(E, 2), E, (3, 3, 3)),
    "AltNeu(Product(E, E))": (AltNeu(PLANE), AltNeu(PLANE), (3, 3, 2)),
}


@pytest.mark.parametrize("name", LATTICES)
@pytest.mark.parametrize("seed", range(6))
def test_a_join_in_steps_is_the_product_of_all_updates(name, seed, monkeypatch):
    lattice, other, sizes = LATTICES[name]
    rng = random.Random(seed)
    monkeypatch.setattr(joins, "CHUNK", rng.choice([3, 50, 10**6]))
    monkeypatch.setattr(joins, "FEW_PAIRS", rng.choice([0, 16]))
    left, right = _random(rng, sizes, rng.randrange(80)), _random(rng, sizes[: other.width], rng.randrange(80))
    cut = [sorted(rng.choices(range(len(u) + 1), k=2)) for u in (left, right)]
    lefts, rights = ([u[:i], u[i:j], u[j:]] for u, (i, j) in zip((left, right), cut, strict=True))
    with hash_bits(rng.choice([2, 64])):
        result = [join(arranged(lefts, i, lattice), arranged(rights, i, other), spec_of(lattice))[0] for i in range(3)]
    wanted: Counter = Counter()
    for (k, a), s, d in left:
        for (j, b), t, e in right:
            if j == k:
                inside = np.array([[*t, *[0] * (lattice.width - other.width)]]).T
                wanted[(k, a, b), tuple(lattice.join(np.array([s]).T, inside)[:, 0].tolist())] += d * e
    assert as_counter(Updates.concat(result, JOINED, lattice.width), lattice) == {p: n for p, n in wanted.items() if n}


TOGGLES = 1000
AT = np.arange(TOGGLES)
WAYS = {
    "later and later": (AT, AT),
    "at one epoch": (0 * AT, AT),
    "at one event time": (AT, 0 * AT),
    "up and down": (AT, TOGGLES - AT // 100),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_toggled_a_thousand_times_on_either_side_is_not_met_a_million_times(way):
    times = list(zip(*(2 * column for column in WAYS[way]), strict=True))
    left = [((0, "x"), time, 1 - 2 * (i % 2)) for i, time in enumerate(times)]
    right = [((0, "y"), (s + 1, e + 1), 1 - 2 * (i % 2)) for i, (s, e) in enumerate(times)]
    result, _ = join(arranged([left], 0, PLANE), arranged([right], 0, PLANE), spec_of(PLANE), budget=10_000)
    assert len(result) < 10_000
    assert len(result) >= len(consolidate(result, PLANE))


def test_few_times_are_all_that_a_budget_counts():
    times = [(i, 7 - i) for i in range(8)]
    both = [((0, "x"), time, 1) for time in times]
    with pytest.raises(TooManyMatches):
        join(arranged([both], 0, PLANE), arranged([both], 0, PLANE), spec_of(PLANE), budget=63)


EDGES, ROOTS = an.source("edges", "src long, dst long"), an.source("roots", "src long")
A, B = (an.source(name, "src long, dst long", time=("system", "event")) for name in "ab")
WALK = ROOTS.iterate(lambda x: x.join(EDGES, on="src").select(src="dst").concat(ROOTS), max_rounds=3, on_limit="stop")


@pytest.mark.parametrize(
    ("view", "names", "time"), [(WALK, ("roots", "edges"), "at"), (A.join(B, on="src"), "ab", ("at", "at"))]
)
def test_toggled_in_a_loop_and_with_two_times(view, names, time, monkeypatch):
    """Counted where the executor gets what joins make."""
    result, real = [], joining_operation.join_pieces

    def counting(*given):
        for rows, failed in real(*given):
            result.append(len(rows))
            yield rows, failed

    monkeypatch.setattr(joining_operation, "join_pieces", counting)
    with an.Session() as session:
        shown = session.maintain("v", view)
        for later, name in enumerate(names):
            columns = {c: 0 * AT for c in ("src", "dst") if c != "dst" or name != "roots"}
            session.insert(
                name, pa.table({**columns, "at": 2 * AT + later, "d": 1 - 2 * (AT % 2)}), time=time, diff="d"
            )
        session.advance(to=2 * TOGGLES + 1)
        assert shown.to_pylist() == []
    assert 0 < sum(result) < 10_000
