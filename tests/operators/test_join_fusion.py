"""Linear logic inside a join gives what it gives behind it, whatever the chunks, and builds only what passes."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import altneu as an
from altneu.columnar.rows import Rows
from altneu.linear import BoundLogic, Filter, Temporal
from altneu.operators import join as joining
from altneu.operators.join import JoinSpec, TooManyMatches, join
from altneu.operators.linear import run_logic
from altneu.order import Epoch, Product
from altneu.plan.rewrite import optimise
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.update import Updates

LEFT = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.string())])
RIGHT = pa.schema([("k", pa.int64()), ("c", pa.int64()), ("d", pa.list_(pa.int64()))])
OUTPUTS = (("k", 0, "k"), ("a", 0, "a"), ("b", 0, "b"), ("c", 1, "c"), ("d", 1, "d"), ("k2", 1, "k"))
JOINED = an.source("j", "k long, a long, b string, c long, d array<long>, k2 long")
SCHEMA = pa.schema([(f.name, f.type) for f in JOINED.schema])


def bound(collection: an.Collection) -> BoundLogic:
    return optimise(collection.node).logic


def tolerant(logic: BoundLogic) -> BoundLogic:
    """The same with its filters and bounds taken early: where they fail, rows pass."""
    early = [
        Filter(s.predicate, True)
        if isinstance(s, Filter)
        else Temporal(s.bounds, s.delay, True)
        if isinstance(s, Temporal)
        else s
        for s in logic.steps
    ]
    return BoundLogic(tuple(early), logic.delay)


FAILING = JOINED.filter("6 div a > 1")
IN_TIME = JOINED.filter("logical_now() >= a and logical_now() < 12 div c")
LOGICS = {
    "nothing": BoundLogic(),
    "filter": bound(JOINED.filter("a > c")),
    "nothing passes": bound(JOINED.filter("a > 100")),
    "filter with errors": bound(FAILING),
    "early filter": tolerant(bound(FAILING)),
    "early filter, then the filter": tolerant(bound(FAILING)).followed_by(bound(FAILING)),
    "columns": bound(JOINED.select("c", "a", x="k")),
    "no column": bound(JOINED.select(one="1")),
    "filter and select": bound(JOINED.filter("a <> c").select("k", t="concat(b, '!')", u="a div c")),
    "temporal": bound(JOINED.temporal("a", "c + 2")),
    "temporal with errors": bound(IN_TIME.select("k", "b")),
    "early temporal": tolerant(bound(IN_TIME)).followed_by(bound(IN_TIME)),
    "twice in time": bound(JOINED.temporal("a").select("*", e="c + 3").filter("c > 0").temporal(upper="e")),
    "delay": bound(JOINED.filter("a > 0").delay(by=3).select("b")),
    "function": bound(JOINED.filter("a > 0").map(lambda r: (r.k, 4 // r.c), "k long, q long")),
    "filter function": bound(JOINED.filter(lambda r: r.a > r.c).select("d")),
    "unnest": bound(JOINED.filter("a > 0").unnest("d", as_="e").filter("e <> c").select("b", "e")),
    "series": bound(JOINED.generate_series("a", "c", as_="i").select("i", "k")),
    "repeat and negate": bound(JOINED.repeat_row("a").negate().filter("c > 0")),
    "emit": bound(JOINED.join_function([({"x": "b"}, "a", "c"), ({"x": "'y'"}, "a + 1", 1)])),
}


def side(rng: random.Random, schema: pa.Schema, lattice, steps: int) -> list[Batch]:
    """Batches of a history with repeated keys and values, nulls, retractions and counts above one."""
    last = {"b": [None, "x", "y"], "d": [None, [], [1], [2, 2]]}[schema.names[2]]
    batches, before = [], 0
    for step in range(steps):
        count = rng.randint(0, 9)
        keys, values = [0, 1, 1, 2, None], [None, 0, 1, 2, 3]
        rows = [(rng.choice(keys), rng.choice(values), rng.choice(last)) for _ in range(count)]
        times = np.array([[rng.randint(before, before + 3) for _ in rows] for _ in range(lattice.width)], np.int64)
        diffs = np.array([rng.choice([1, 1, 2, -1]) for _ in rows], np.int64)
        updates = Updates(Rows.from_pylist(rows, schema), times.reshape(lattice.width, count), diffs)
        layout = Layout(schema, ("k",), lattice)
        at = step if lattice.width == 1 else (step, step)
        description = Description.interval(lattice, at, step + 1 if lattice.width == 1 else (step + 1, step + 1))
        batches.append(Batch.build(updates, layout, description))
        before += rng.randint(0, 2)
    return batches


def arranged(batches: list[Batch]) -> Arranged:
    return Arranged(batches[0].layout, tuple(batches[:-1]), batches[-1])


def total(updates: Updates) -> Counter[tuple[object, ...]]:
    """What updates add up to, per row and time."""
    found: Counter[tuple[object, ...]] = Counter()
    for row, time, diff in zip(updates.rows.to_pylist(), updates.times.T.tolist(), updates.diffs.tolist(), strict=True):
        found[repr(row), *time] += diff
    return Counter({key: n for key, n in found.items() if n})


def pairs(left: Arranged, right: Arranged, spec: JoinSpec) -> Updates:
    """The matches that this step owes, one by one."""

    def each(batches):
        return [
            (dict(zip(u.schema.names, row, strict=True)), time, diff)
            for u in (b.updates() for b in batches)
            for row, time, diff in zip(u.rows.to_pylist(), u.times.T, u.diffs.tolist(), strict=True)
        ]

    both = [(each([left.new]), each(right.all)), (each(left.old), each([right.new]))]
    made = [
        (tuple((x, y)[s][column] for _, s, column in spec.outputs), np.maximum(t, u), d * e)
        for mine, theirs in both
        for x, t, d in mine
        for y, u, e in theirs
        if x["k"] is not None and x["k"] == y["k"]
    ]
    times = np.array([time for _, time, _ in made], np.int64).reshape(len(made), spec.lattice.width).T
    return Updates(Rows.from_pylist([r for r, _, _ in made], spec.schema), times, np.array([d for *_, d in made], int))


@pytest.mark.parametrize("lattice", [Epoch(), Product(Epoch(), Epoch())], ids=["total", "partial"])
@pytest.mark.parametrize("chunk", [1, 3, 1 << 16])
@pytest.mark.parametrize("name", LOGICS)
def test_logic_in_a_join_gives_what_it_gives_of_every_pair(monkeypatch, name, chunk, lattice):
    monkeypatch.setattr(joining, "CHUNK", chunk)
    logic, spec = LOGICS[name], JoinSpec(SCHEMA, OUTPUTS, lattice)
    rng = random.Random(f"{name} {lattice}")
    for _ in range(6):
        left, right = (arranged(side(rng, schema, lattice, rng.randint(1, 4))) for schema in (LEFT, RIGHT))
        rows, errors = join(left, right, spec, logic)
        wanted, failed = run_logic(logic, pairs(left, right, spec))
        assert rows.schema == wanted.schema
        assert total(rows) == total(wanted)
        assert total(errors) == total(failed)


def crowd(schema: pa.Schema, rows: int, text: str) -> Arranged:
    columns = (pa.array(np.zeros(rows, np.int64)), pa.array(np.arange(rows)), pa.array([text] * rows, schema.types[2]))
    updates = Updates(Rows(schema, columns, rows), np.zeros((1, rows), np.int64), np.ones(rows, np.int64))
    return arranged([Batch.build(updates, Layout(schema, ("k",), Epoch()), Description.interval(Epoch(), 0, 1))])


def test_memory_follows_what_passes_and_not_what_matches():
    """A million matches of two kilobytes each, of which a thousand pass: neither they nor their positions are kept."""
    right = pa.schema([("k", pa.int64()), ("c", pa.int64()), ("d", pa.string())])
    sides = crowd(LEFT, 1000, "x" * 1000), crowd(right, 1000, "y" * 1000)
    logic = bound(
        an.source("j", "k long, a long, b string, c long, d string, k2 long").filter("a = c").select("b", "d", "a")
    )
    spec = JoinSpec(pa.schema([*SCHEMA][:4]).append(right.field("d")).append(SCHEMA.field("k2")), OUTPUTS, Epoch())
    before, pool = pa.default_memory_pool(), pa.system_memory_pool()  # which nothing else uses
    assert before.backend_name != pool.backend_name
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        rows, _ = join(*sides, spec, logic)
        peak = pool.max_memory() + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert len(rows) == 1000
    assert peak < 32 << 20


def test_the_budget_counts_matches_and_not_what_passes():
    right = pa.schema([("k", pa.int64()), ("c", pa.int64()), ("d", pa.string())])
    sides = crowd(LEFT, 100, "x"), crowd(right, 100, "y")
    spec = JoinSpec(pa.schema([*SCHEMA][:4]).append(right.field("d")).append(SCHEMA.field("k2")), OUTPUTS, Epoch())
    logic = bound(JOINED.filter("a > 1000"))
    assert len(join(*sides, spec, logic, budget=10_000)[0]) == 0
    with pytest.raises(TooManyMatches):
        join(*sides, spec, logic, budget=9_999)
