"""Rows from the first that a step touches on: running functions change of them as of the whole groups."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from altneu.columnar.ranking import order_text
from altneu.operators.kernels import block_extremes, located, suffix
from altneu.operators.reduce.calls import Aggregate, Frame, WindowCall
from altneu.operators.reduce.node import WHOLE, Around, Suffix, Within
from altneu.operators.reduce.reducers import WindowFunctions
from altneu.operators.reduce.window import WindowSpec, reduce_window
from altneu.order import Antichain, Epoch
from altneu.trace.batch import Batch, Description
from tests.operators import ordered_groups
from tests.operators.ordered_groups import BELOW, ORDERS, SCHEMA, as_counts, check_as_whole, read_for, updates_of

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
        "distinct before": [call("dense_rank", order=order, type_=INT), call("row_number", order=order, type_=INT)],
        "first rows": [
            call("first", "s", order=order, frame=PEERS, type_=pa.string()),
            call("nth_value", "v", order=order, frame=ROWS, number=3),
            call("first", "v", order=order, frame=Frame(True, None, -2)),
            call("rank", order=order, type_=INT),
        ],
        "extremes": [
            call("max", "v", order=order, frame=PEERS),
            call("min", "v", order=order, frame=Frame(True, None, 1)),
            call("min", "s", order=order, frame=ROWS, type_=pa.string()),
            call("last", "s", order=order, frame=PEERS, type_=pa.string()),
        ],
        "settling": [
            call("max", "v", order=order, frame=PEERS),
            call("min", "s", order=order, frame=ROWS, type_=pa.string()),
            call("nth_value", "v", order=order, frame=ROWS, number=2),
            call("last", "s", order=order, frame=PEERS, type_=pa.string()),
        ],
        "settling of one": [call("max", "v", order=order, frame=ROWS)],
        "all": [
            call("max", "s", order=order, frame=ROWS, type_=pa.string()),
            call("dense_rank", order=order, type_=INT),
            call("count", "v", order=order, frame=PEERS),
            call("avg", "v", order=order, frame=PEERS, type_=DOUBLE),
            call("first", "v", order=order, frame=PEERS),
            call("lag", "v", order=order, number=1),
        ],
        "near": [
            call("row_number", order=order, type_=INT),
            call("lag", "v", order=order, number=2),
            call("max", "v", order=order, frame=Frame(True, -1, 3)),
        ],
    }


@pytest.mark.sampled(6)
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("name", running(()))
@pytest.mark.parametrize("order", ORDERS, ids=order_text)
def test_running_functions_of_what_is_read_change_as_those_of_the_groups(order, name, below, monkeypatch):
    rng, calls = random.Random(f"{order}{name}{below}"), tuple(running(order)[name])
    monkeypatch.setattr(block_extremes, "FEW", rng.choice([0, 3]))
    monkeypatch.setattr(located, "SMALL", 0)
    monkeypatch.setattr(suffix, "_SEARCHED", 0)
    monkeypatch.setattr(suffix, "_READ_ON", 1)
    spec, needed = WindowSpec(("k",), calls, SCHEMA), WindowFunctions(calls).needed(SCHEMA, ("k",))
    assert isinstance(needed, Suffix)
    fewer = check_as_whole(order, lambda given: reduce_window(given, spec), needed, rng, steps=80, below=below)
    tied = name in ("extremes", "all") and order[0][0] == "s"  # all that ties with a row is read, and texts are few
    assert fewer > 5 or tied or below or name == "sums"  # one of the values is the least of all whole numbers


def loaded(count, order, scale=1, diffs=1):
    """A group of so many rows, v is null now and then."""
    return ordered_groups.loaded(
        count,
        order,
        v=lambda part: pa.array(part * scale, mask=part % 7 == 0),
        s=lambda part: [f"{i:09}" for i in part],
        diffs=lambda part: 1 + part % diffs,
    )


BY_TEXT = (("s", False, True),)
LAST = [((0, 5, "x"), 2, 1)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", running(()))
@pytest.mark.parametrize("diffs", [1, 3])
def test_what_is_read_does_not_grow_with_the_rows_before(name, diffs):
    calls = tuple(running(BY_TEXT)[name])
    spec, needed = WindowSpec(("k",), calls, SCHEMA), WindowFunctions(calls).needed(SCHEMA, ("k",))
    for count in (2_000, 150_000 if name == "means" and diffs == 3 else 20_000):  # the more are several blocks
        layout, spine = loaded(count, BY_TEXT, diffs=diffs)
        for change, most in (
            (LAST, 60),
            ([((0, count - 20, f"{count - 20:09}"), 2, -1)], 80),
            ([((0, 1, f"{count - 300:09}a"), 2, 2), ((0, None, f"{count - 100:09}b"), 2, 1)], 420),
        ):
            given, near = read_for(change, layout, spine, needed)
            assert len(near.old_diffs) <= most
            assert as_counts(reduce_window(near, spec).oks) == as_counts(reduce_window(given, spec).oks)


@pytest.mark.parametrize("count", [2_000, 200_000])
def test_what_settles_is_read_up_to_where_results_stay(count):
    """The greatest value so far is that of the row; a row that is new with less changes nothing but itself."""
    calls = (
        call("max", "v", order=BY_TEXT, frame=PEERS),
        call("min", "v", order=BY_TEXT, frame=ROWS),
        call("nth_value", "s", order=BY_TEXT, frame=ROWS, number=2, type_=pa.string()),
    )
    spec, needed = WindowSpec(("k",), calls, SCHEMA), WindowFunctions(calls).needed(SCHEMA, ("k",))
    layout, spine = loaded(count, BY_TEXT)
    for value, at, changed in ((3, 500, 0), (count // 2, 500, count // 2 - 500), (700, 500, 200), (None, 500, 0)):
        row = (0, value, f"{at:09}a")
        new = Batch.build(updates_of([(row, 1, 1)]), layout, Description.interval(Epoch(), 2, 3))
        with_row = spine.insert(new, since=Antichain.of(Epoch(), 1))
        for before, diff in ((spine, 1), (with_row, -1)):
            given, near = read_for([(row, 2, diff)], layout, before, needed)
            assert len(near.old_diffs) <= 4 * changed + 80
            assert as_counts(reduce_window(near, spec).oks) == as_counts(reduce_window(given, spec).oks)


def test_sums_that_may_leave_their_range_are_read_with_their_group():
    """A running sum of large numbers fails far before the row that is new."""
    order = (("s", False, True),)
    for frame in (PEERS, Frame(True, -1, 1)):
        calls = [call("sum", "v", order=order, frame=frame)]
        needed = WindowFunctions(tuple(calls)).needed(SCHEMA, ("k",))
        assert needed.sums_of_wide == ("v",)
        spec = WindowSpec(("k",), tuple(calls), SCHEMA)
        for scale, whole in ((1, False), (2**52, True)):
            layout, spine = loaded(2_000, order, scale)
            given, near = read_for(LAST, layout, spine, needed)
            assert (len(near.old_diffs) == 2_000) == whole
            assert as_counts(reduce_window(near, spec).errs) == as_counts(reduce_window(given, spec).errs)
            assert as_counts(reduce_window(near, spec).oks) == as_counts(reduce_window(given, spec).oks)


def test_what_a_group_is_read_for():
    order = ORDERS[0]
    narrow = pa.schema([("k", LONG), ("v", INT)])
    decimals = pa.schema([("k", LONG), ("v", pa.decimal128(38, 0))])
    runs = call("sum", "v", order=order, frame=PEERS)
    near = call("lag", "v", order=order, number=3)
    assert WindowFunctions((runs,)).needed(SCHEMA, ("k",)) == Suffix(0, ("v",))
    assert WindowFunctions((runs,)).needed(narrow, ("k",)) == Suffix(0)
    assert WindowFunctions((runs, near)).needed(narrow, ("k",)) == Suffix(6)
    assert WindowFunctions((near,)).needed(narrow, ("k",)) == Around(6)
    last = call("last", "v", order=order, frame=PEERS)
    assert WindowFunctions((last,)).needed(SCHEMA, ("k",)) == Within(())
    assert WindowFunctions((call("last", "v", order=order, frame=ROWS),)).needed(SCHEMA, ("k",)) == Around(0)
    greatest, dense = call("max", "v", order=order, frame=PEERS), call("dense_rank", order=order, type_=INT)
    third = call("nth_value", "v", order=order, frame=PEERS, number=3)
    assert WindowFunctions((last, greatest)).needed(SCHEMA, ("k",)) == Suffix(0, extremes=(("v", True),), settles=True)
    assert WindowFunctions((dense, third)).needed(SCHEMA, ("k",)) == Suffix(6, first=3, peers=True)
    upto = call("count", order=order, frame=Frame(False, None, "v"))
    assert WindowFunctions((upto,)).needed(SCHEMA, ("k",)) == Suffix(0, bounds=("v",))
    for unsettled in (runs, near, call("min", "v", order=order, frame=Frame(True, None, 1))):
        assert not WindowFunctions((greatest, unsettled)).needed(narrow, ("k",)).settles
    framed = Suffix(0, beside=Around(6, with_ties=True, bounds=("v",)))
    assert WindowFunctions((upto, near)).needed(SCHEMA, ("k",)) == framed
    assert WindowFunctions((runs,)).needed(decimals, ("k",)) == WHOLE
    for whole in (
        call("ntile", order=order, type_=INT, number=4),
        call("cume_dist", order=order, type_=DOUBLE),
        call("first", "v", order=order, frame=PEERS, ignore_nulls=True),
        call("nth_value", "v", order=order, frame=PEERS, number=10**6),
        call("count", order=order, frame=Frame(False, None, None)),
        call("count", order=order, frame=Frame(False, None, "s")),
        call("count", order=order, frame=Frame(True, None, 10**6)),
    ):
        assert WindowFunctions((near, whole)).needed(SCHEMA, ("k",)) == WHOLE
    of_key = (("k", False, True),)
    for peers in (call("rank", order=of_key, type_=INT), call("sum", "v", order=of_key, frame=PEERS)):
        assert WindowFunctions((peers,)).needed(SCHEMA, ("k",)) == WHOLE
    assert WindowFunctions((call("row_number", order=of_key, type_=INT),)).with_order(BELOW, ("k",)).ordered
