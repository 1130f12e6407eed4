"""What tests of join fusion share with other tests."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa

import altneu as an
from altneu.columnar.rows import Rows
from altneu.linear import BoundLogic, Filter, Temporal
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
