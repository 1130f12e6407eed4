"""Rows around those that a step touches: window functions over near rows change of them as of the whole groups."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.ranking import order_text
from altneu.columnar.rows import Rows
from altneu.operators.kernels import around
from altneu.operators.reduce.calls import Aggregate, Frame, WindowCall
from altneu.operators.reduce.needed import read_needed
from altneu.operators.reduce.node import Around
from altneu.operators.reduce.reducers import WindowFunctions
from altneu.operators.reduce.window import WindowSpec, reduce_window
from altneu.order import Antichain, Epoch
from altneu.trace.batch import Arranged, Batch, Description, Layout, find_in
from altneu.trace.spine import Spine
from altneu.trace.update import Updates
from tests.operators.ordered_groups import ORDERS, SCHEMA, Group, as_counts, history, updates_of


def windows(order, reach):
    """Calls that look so far back or on."""
    v, text = Aggregate("lag", ("v",), pa.int64()), Aggregate("lag", ("s",), pa.string())
    frame = Frame(True, -reach, reach)
    return (
        WindowCall(v, order, number=reach),
        WindowCall(Aggregate("lead", ("s",), text.type), order, number=reach),
        WindowCall(Aggregate("avg", ("v",), pa.float64()), order, frame),
        WindowCall(Aggregate("max", ("v",), pa.int64()), order, Frame(True, -reach, 0)),
        WindowCall(Aggregate("first", ("s",), pa.string()), order, Frame(True, -reach, -1)),
        WindowCall(Aggregate("count", ("v",), pa.int64()), order, Frame(True, 1, max(reach, 1))),
    )


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("reach", [0, 1, 3])
@pytest.mark.parametrize("order", ORDERS, ids=order_text)
def test_windows_around_what_is_new_change_as_those_of_the_groups(order, reach, below, monkeypatch):
    monkeypatch.setattr(around, "_SMALL", 0)
    monkeypatch.setattr(around, "_MORE", 2)
    rng, calls = random.Random(f"{order}{reach}{below}"), windows(order, reach)
    spec, some = WindowSpec(("k",), calls, SCHEMA), WindowFunctions(calls, ordered=True).needed
    group, fewer = Group(order), 0
    for made, upper in history(rng, 80, below):
        given, negative = group.step(made, upper)
        if not len(given.new):
            continue
        whole, near = reduce_window(given, spec), read_needed(given, some, negative)
        of_near = reduce_window(near, spec)
        assert as_counts(of_near.oks) == as_counts(whole.oks)
        assert as_counts(of_near.errs) == as_counts(whole.errs)
        fewer += bool(given.old) and len(near.old_diffs) < len(find_in(given.old, *given.new.distinct_keys()))
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
    gathered, matches_of = 0, around.matches_of

    def counted(*parts):
        nonlocal gathered
        result = matches_of(*parts)
        gathered += len(result)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(around, "matches_of", counted)
        read_needed(Arranged(layout, spine.batches, new), some, negative)
    return gathered


@pytest.mark.parametrize("reach", [1, 10])
def test_what_is_read_does_not_grow_with_the_group(reach, monkeypatch):
    for change in ([((0, -5, "new"), 2, 1)], [((0, 3, "x"), 2, -1)], [((0, 700, "x"), 2, -1), ((0, 1700, "y"), 2, 1)]):
        few, many = (rows_read(count, change, Around(2 * reach), monkeypatch) for count in (2_000, 200_000))
        assert many <= few + 4 * reach
        assert few <= 16 * (reach + 1) * len(change)


def test_what_is_not_near_is_read_whole():
    order = (("v", False, True),)
    calls = windows(order, 2)
    assert WindowFunctions(calls).with_order(SCHEMA, ("k",)).needed == Around(4)
    for call in (
        WindowCall(Aggregate("lag", ("v",), pa.int64()), order, ignore_nulls=True),
        WindowCall(Aggregate("avg", ("v",), pa.float64()), order, Frame(False, 0, 0)),
        WindowCall(Aggregate("avg", ("v",), pa.float64()), order, Frame(True, -(10**6), 0)),
        WindowCall(Aggregate("lag", ("v",), pa.int64()), (("v", True, False),)),
    ):
        assert not WindowFunctions((*calls, call)).with_order(SCHEMA, ("k",)).ordered
