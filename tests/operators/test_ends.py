"""The ends of ordered groups: what a function of the first rows makes of them is what it makes of the whole groups."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from altneu.columnar.ranking import order_text
from altneu.columnar.rows import Rows
from altneu.operators.kernels import ends
from altneu.operators.reduce.calls import Aggregate
from altneu.operators.reduce.needed import read_needed
from altneu.operators.reduce.node import Ends
from altneu.operators.reduce.ranked import GeneralSpec, reduce_general
from altneu.operators.reduce.top_k import TopKSpec, reduce_top_k
from altneu.order import Antichain, Epoch
from altneu.trace.batch import Arranged, Batch, Description, Layout, find_in
from altneu.trace.spine import Spine
from altneu.trace.update import Updates
from tests.operators.ordered_groups import ORDERS, SCHEMA, Group, as_counts, history, updates_of


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("order", ORDERS, ids=order_text)
def test_the_first_rows_of_the_ends_are_those_of_the_groups(order, k, below, monkeypatch):
    monkeypatch.setattr(ends, "_SMALL", 0)
    monkeypatch.setattr(ends, "_MORE", 2)
    monkeypatch.setattr(ends, "LEAST", 1)
    rng, spec = random.Random(f"{order}{k}{below}"), TopKSpec(("k",), k, order, SCHEMA)
    group, fewer = Group(order), 0
    for made, upper in history(rng, 60, below):
        given, negative = group.step(made, upper)
        if not len(given.new):
            continue
        whole, found = reduce_top_k(given, spec), read_needed(given, Ends(first=k), negative)
        of_ends = reduce_top_k(found, spec)
        assert as_counts(of_ends.oks) == as_counts(whole.oks)
        assert as_counts(of_ends.errs) == as_counts(whole.errs)
        fewer += bool(given.old) and len(found.old_diffs) < len(find_in(given.old, *given.new.distinct_keys()))
    assert fewer > 5 or below


@pytest.mark.parametrize("functions", [["min"], ["max"], ["min", "max"]], ids="-".join)
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("column", ["v", "s"])
def test_extremes_of_the_ends_are_those_of_the_groups(column, below, functions, monkeypatch):
    monkeypatch.setattr(ends, "_SMALL", 0)
    monkeypatch.setattr(ends, "_MORE", 2)
    monkeypatch.setattr(ends, "LEAST", 1)
    rng = random.Random(f"{column}{below}{functions}")
    calls = tuple(Aggregate(function, (column,), SCHEMA.field(column).type) for function in functions)
    spec = GeneralSpec(("k",), calls, SCHEMA)
    some = Ends(first=int("min" in functions), last=1, valued=True)
    group, fewer = Group(((column, False, True),)), 0
    for made, upper in history(rng, 60, below):
        given, negative = group.step(made, upper)
        if not len(given.new):
            continue
        whole, found = reduce_general(given, spec), read_needed(given, some, negative)
        of_ends = reduce_general(found, spec)
        assert as_counts(of_ends.oks) == as_counts(whole.oks)
        assert as_counts(of_ends.errs) == as_counts(whole.errs)
        fewer += bool(given.old) and len(found.old_diffs) < len(find_in(given.old, *given.new.distinct_keys()))
    assert fewer > 5 or below


def rows_read(count, change, some, monkeypatch):
    """How many old updates are gathered for some new ones, of a group of so many rows in two batches."""
    layout = Layout(SCHEMA, ("k",), Epoch(), (("v", False, True),))
    rng = np.random.default_rng(0)
    spine, values = Spine.empty(layout), rng.permutation(count)
    for time, part in enumerate((values[: count // 2], values[count // 2 :])):
        rows = Rows.from_pydict({"k": np.zeros(len(part), np.int64), "v": part, "s": ["x"] * len(part)}, SCHEMA)
        loaded = Updates(rows, np.full((1, len(part)), time), np.ones(len(part), np.int64))
        batch = Batch.build(loaded, layout, Description.interval(Epoch(), time, time + 1))
        spine = spine.insert(batch, since=Antichain.of(Epoch(), time), effort=0)
    new = Batch.build(updates_of(change), layout, Description.interval(Epoch(), 2, 3))
    negative = Arranged(Layout(layout.key_schema, ("k",), Epoch()), (), Batch.empty(layout, new.description))
    gathered, found = 0, ends.matches_of

    def counted(*parts):
        nonlocal gathered
        made = found(*parts)
        gathered += len(made)
        return made

    with monkeypatch.context() as patch:
        patch.setattr(ends, "matches_of", counted)
        read_needed(Arranged(layout, spine.batches, new), some, negative)
    return gathered


@pytest.mark.parametrize("k", [1, 10])
def test_what_is_read_does_not_grow_with_the_group(k, monkeypatch):
    for change in ([((0, -5, "new"), 2, 1)], [((0, 3, "x"), 2, -1)], [((0, 700, "x"), 2, -1), ((0, 700, "y"), 2, 1)]):
        for some in (Ends(first=k), Ends(first=1, last=1, valued=True)):
            few, many = (rows_read(count, change, some, monkeypatch) for count in (2_000, 200_000))
            assert many <= few <= 4 * (k + 2 * len(change)) + 8


def test_a_queue_costs_the_same_however_much_was_taken_from_it(monkeypatch):
    """Each step takes the first row away; the updates that cancel lie in different batches for long."""
    gathered, found = [0], ends.matches_of

    def counted(*parts):
        made = found(*parts)
        gathered[-1] += len(made)
        return made

    monkeypatch.setattr(ends, "matches_of", counted)
    group, count, steps = Group((("v", False, True),)), 20_000, 1_000
    group.step([((0, v, "x"), 0, 1) for v in range(count)], 1)
    spec = TopKSpec(("k",), 1, group.layout.order, SCHEMA)
    for v in range(steps):
        given, negative = group.step([((0, v, "x"), v + 1, -1)], v + 2)
        gathered.append(0)
        made = as_counts(reduce_top_k(read_needed(given, Ends(first=1), negative), spec).oks)
        assert made == {((0, v, "x"), v + 1): -1, ((0, v + 1, "x"), v + 1): 1}
    quarter = steps // 4
    assert sum(gathered[-quarter:]) <= 1.5 * sum(gathered[1 : 1 + quarter])
    assert sum(gathered) < 100 * steps


@pytest.mark.parametrize("seed", range(4))
def test_rows_below_zero_are_counted(seed):
    rng = random.Random(seed)
    group, everything = Group(ORDERS[seed % len(ORDERS)]), []
    for made, upper in history(rng, 40, below=True):
        group.step(made, upper)
        everything += made
        for time in range(upper - 2, upper):
            counts = Counter()
            for row, at, diff in everything:
                counts[row] += diff * (at <= time)
            expected = Counter(row[0] for row, n in counts.items() if n < 0)
            got = Counter()
            for batch in group.negative.batches:
                for (row, at), diff in as_counts(batch.updates()).items():
                    got[row[0]] += diff * (at <= time)
            assert {k: n for k, n in got.items() if n} == dict(expected)
