"""Rows from the first that a step touches on: running functions change of them as of the whole groups."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.ranking import order_text
from altneu.columnar.rows import Rows
from altneu.operators.kernels import suffix
from altneu.operators.reduce.calls import Aggregate, Frame, WindowCall
from altneu.operators.reduce.needed import read_needed
from altneu.operators.reduce.node import Around, Suffix
from altneu.operators.reduce.reducers import WindowFunctions
from altneu.operators.reduce.window import WindowSpec, reduce_window
from altneu.order import Antichain, Epoch
from altneu.trace.batch import Arranged, Batch, Description, Layout, find_in
from altneu.trace.spine import Spine
from altneu.trace.update import Updates
from tests.operators.ordered_groups import ORDERS, SCHEMA, Group, as_counts, history, updates_of

PEERS, ROWS = Frame(False, None, 0), Frame(True, None, 0)
LONG, DOUBLE, INT = pa.int64(), pa.float64(), pa.int32()


def call(function, *arguments, order=ORDERS[0], frame=None, type_=LONG, **how):
    return WindowCall(Aggregate(function, arguments, type_), order, frame, **how)


def running(order):
    """Calls that go on from the rows before, and some that look around."""
    return {
        "ranks": [call("row_number", order=order, type_=INT), call("rank", order=order, type_=INT)],
        "counts": [call("count", order=order, frame=PEERS), call("count", "s", order=order, frame=ROWS)],
        "means": [call("avg", "v", order=order, frame=f, type_=DOUBLE) for f in (PEERS, ROWS, Frame(True, None, 2))],
        "sums": [call("sum", "v", order=order, frame=Frame(True, None, -1))],
        "counts before": [call("count", "v", order=order, frame=Frame(True, None, end)) for end in (-1, -3)],
        "near": [
            call("row_number", order=order, type_=INT),
            call("lag", "v", order=order, number=2),
            call("max", "v", order=order, frame=Frame(True, -1, 3)),
        ],
    }


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("name", running(()))
@pytest.mark.parametrize("order", ORDERS, ids=order_text)
def test_running_functions_of_what_is_read_change_as_those_of_the_groups(order, name, below, monkeypatch):
    monkeypatch.setattr(suffix, "_SMALL", 0)
    rng, calls = random.Random(f"{order}{name}{below}"), tuple(running(order)[name])
    reducer = WindowFunctions(calls).with_order(SCHEMA, ("k",))
    assert isinstance(reducer.needed, Suffix)
    spec, group, fewer = WindowSpec(("k",), calls, SCHEMA), Group(order), 0
    for made, upper in history(rng, 80, below):
        given, negative = group.step(made, upper)
        if not len(given.new):
            continue
        whole, near = reduce_window(given, spec), read_needed(given, reducer.needed, negative)
        of_near = reduce_window(near, spec)
        assert as_counts(of_near.oks) == as_counts(whole.oks)
        assert as_counts(of_near.errs) == as_counts(whole.errs)
        fewer += bool(given.old) and len(near.old_diffs) < len(find_in(given.old, *given.new.distinct_keys()))
    assert fewer > 5 or below or name == "sums"  # one of the values is the least of all whole numbers


def loaded(count, order, scale=1, diffs=1):
    """A group of so many rows in two batches, v is null now and then."""
    layout = Layout(SCHEMA, ("k",), Epoch(), order)
    spine, values = Spine.empty(layout), np.random.default_rng(0).permutation(count)
    for time, part in enumerate((values[: count // 2], values[count // 2 :])):
        v = pa.array(part * scale, mask=part % 7 == 0)
        rows = Rows.from_pydict({"k": np.zeros(len(part), np.int64), "v": v, "s": [f"{i:09}" for i in part]}, SCHEMA)
        new = Updates(rows, np.full((1, len(part)), time), 1 + part % diffs)
        batch = Batch.build(new, layout, Description.interval(Epoch(), time, time + 1))
        spine = spine.insert(batch, since=Antichain.of(Epoch(), time), effort=0)
    return layout, spine


def read_for(change, layout, spine, needed):
    new = Batch.build(updates_of(change), layout, Description.interval(Epoch(), 2, 3))
    negative = Arranged(Layout(layout.key_schema, ("k",), Epoch()), (), Batch.empty(layout, new.description))
    given = Arranged(layout, spine.batches, new)
    return given, read_needed(given, needed, negative)


BY_TEXT = (("s", False, True),)
LAST = [((0, 5, "x"), 2, 1)]


@pytest.mark.parametrize("name", running(()))
@pytest.mark.parametrize("diffs", [1, 3])
def test_what_is_read_does_not_grow_with_the_rows_before(name, diffs):
    calls = tuple(running(BY_TEXT)[name])
    spec, reducer = WindowSpec(("k",), calls, SCHEMA), WindowFunctions(calls).with_order(SCHEMA, ("k",))
    for count in (2_000, 150_000 if name == "means" and diffs == 3 else 20_000):  # the more are several blocks
        layout, spine = loaded(count, BY_TEXT, diffs=diffs)
        for change, most in (
            (LAST, 60),
            ([((0, count - 20, f"{count - 20:09}"), 2, -1)], 80),
            ([((0, 1, f"{count - 300:09}a"), 2, 2), ((0, None, f"{count - 100:09}b"), 2, 1)], 420),
        ):
            given, near = read_for(change, layout, spine, reducer.needed)
            assert len(near.old_diffs) <= most
            assert as_counts(reduce_window(near, spec).oks) == as_counts(reduce_window(given, spec).oks)


def test_sums_that_may_leave_their_range_are_read_with_their_group():
    """A running sum of large numbers fails far before the row that is new."""
    order = (("s", False, True),)
    for frame in (PEERS, Frame(True, -1, 1)):
        calls = [call("sum", "v", order=order, frame=frame)]
        reducer = WindowFunctions(tuple(calls)).with_order(SCHEMA, ("k",))
        assert reducer.needed.sums_of_wide == ("v",)
        spec = WindowSpec(("k",), tuple(calls), SCHEMA)
        for scale, whole in ((1, False), (2**52, True)):
            layout, spine = loaded(2_000, order, scale)
            given, near = read_for(LAST, layout, spine, reducer.needed)
            assert (len(near.old_diffs) == 2_000) == whole
            assert as_counts(reduce_window(near, spec).errs) == as_counts(reduce_window(given, spec).errs)
            assert as_counts(reduce_window(near, spec).oks) == as_counts(reduce_window(given, spec).oks)


def test_what_a_group_is_read_for():
    order = ORDERS[0]
    narrow = pa.schema([("k", LONG), ("v", INT)])
    decimals = pa.schema([("k", LONG), ("v", pa.decimal128(38, 0))])
    runs = call("sum", "v", order=order, frame=PEERS)
    near = call("lag", "v", order=order, number=3)
    assert WindowFunctions((runs,)).with_order(SCHEMA, ("k",)).needed == Suffix(0, ("v",))
    assert WindowFunctions((runs,)).with_order(narrow, ("k",)).needed == Suffix(0)
    assert WindowFunctions((runs, near)).with_order(narrow, ("k",)).needed == Suffix(6)
    assert WindowFunctions((near,)).with_order(narrow, ("k",)).needed == Around(6)
    assert not WindowFunctions((runs,)).with_order(decimals, ("k",)).ordered
    for whole in (
        call("dense_rank", order=order, type_=INT),
        call("ntile", order=order, type_=INT, number=4),
        call("cume_dist", order=order, type_=DOUBLE),
        call("max", "v", order=order, frame=PEERS),
        call("count", order=order, frame=Frame(False, None, None)),
        call("count", order=order, frame=Frame(False, None, "v")),
        call("count", order=order, frame=Frame(True, None, 10**6)),
    ):
        assert not WindowFunctions((near, whole)).with_order(SCHEMA, ("k",)).ordered
    of_key = (("k", False, True),)
    for peers in (call("rank", order=of_key, type_=INT), call("sum", "v", order=of_key, frame=PEERS)):
        assert not WindowFunctions((peers,)).with_order(SCHEMA, ("k",)).ordered
    assert WindowFunctions((call("row_number", order=of_key, type_=INT),)).with_order(SCHEMA, ("k",)).ordered
