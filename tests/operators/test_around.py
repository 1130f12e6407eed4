"""Rows around those that a step touches: window functions over near rows change of them as of the whole groups."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from altneu.columnar.ranking import order_text
from altneu.operators.kernels import around, located
from altneu.operators.reduce.calls import Aggregate, Frame, WindowCall
from altneu.operators.reduce.node import Around, Suffix
from altneu.operators.reduce.reducers import WindowFunctions
from altneu.operators.reduce.window import WindowSpec, reduce_window
from tests.operators.ordered_groups import (
    BELOW,
    ORDERS,
    SCHEMA,
    as_counts,
    check_as_whole,
    count_rows_read,
    loaded,
    read_for,
)


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("reach", [0, 1, 3])
@pytest.mark.parametrize("order", ORDERS, ids=order_text)
def test_windows_around_what_is_new_change_as_those_of_the_groups(order, reach, below, monkeypatch):
    monkeypatch.setattr(located, "SMALL", 0)
    monkeypatch.setattr(located, "_TIED", 0)
    monkeypatch.setattr(located, "_READ_FOR", 0)
    monkeypatch.setattr(around, "_MORE", 2)
    rng, calls = random.Random(f"{order}{reach}{below}"), windows(order, reach)
    spec, some = WindowSpec(("k",), calls, SCHEMA), WindowFunctions(calls).needed(SCHEMA, ("k",))
    fewer = check_as_whole(order, lambda given: reduce_window(given, spec), some, rng, steps=80, below=below)
    assert fewer > 5 or below


PEERS, BEHIND = Frame(False, None, 0), Frame(False, 0, None)


def seeking(order):
    """Calls that ignore nulls, by themselves and beside others."""
    text = pa.string()

    def call(function, name, frame=None, **how):
        type_ = pa.int64() if name == "v" else text
        return WindowCall(Aggregate(function, (name,), type_), order, frame, ignore_nulls=True, **how)

    return {
        "rows": [call("lag", "v", number=1), call("lead", "s", number=2), call("lag", "s", number=-1)],
        "last rows": [call("last", "s", Frame(True, None, end)) for end in (0, -1, 2)],
        "first rows": [call("first", "v", Frame(True, start, None)) for start in (0, -2, 1)],
        "peers": [call("last", "s", PEERS), call("first", "v", BEHIND), call("lead", "v", number=1)],
        "numbered": [call("nth_value", "s", Frame(True, 0, None), number=2), call("last", "v", PEERS)],
        "near": [
            call("last", "v", Frame(True, None, 0)),
            call("first", "s", Frame(True, -2, 1)),
            WindowCall(Aggregate("avg", ("v",), pa.float64()), order, Frame(True, -1, 1)),
        ],
        "among peers": [
            call("last", "s", PEERS),
            call("lag", "v", number=1),
            WindowCall(Aggregate("max", ("v",), pa.int64()), order, Frame(False, 0, 0)),
        ],
        "running": [
            call("last", "s", PEERS),
            call("lead", "v", number=1),
            WindowCall(Aggregate("row_number", (), pa.int32()), order),
            WindowCall(Aggregate("count", ("v",), pa.int64()), order, PEERS),
        ],
    }


@pytest.mark.sampled(4)
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("name", seeking(()))
@pytest.mark.parametrize("order", ORDERS, ids=order_text)
def test_windows_that_ignore_nulls_change_as_those_of_the_groups(order, name, below, monkeypatch):
    monkeypatch.setattr(located, "SMALL", 0)
    monkeypatch.setattr(located, "_TIED", 0)
    monkeypatch.setattr(located, "_READ_FOR", 0)
    monkeypatch.setattr(around, "_MORE", 2)
    rng, calls = random.Random(f"{order}{name}{below}"), tuple(seeking(order)[name])
    spec, some = WindowSpec(("k",), calls, SCHEMA), WindowFunctions(calls).needed(SCHEMA, ("k",))
    assert isinstance(some, Suffix if name == "running" else Around)
    fewer = check_as_whole(order, lambda given: reduce_window(given, spec), some, rng, steps=80, below=below)
    tied = order[0][0] == "s" and name in ("peers", "among peers", "numbered", "running")  # few values: many are peers
    assert fewer > 5 or below or tied


@pytest.mark.parametrize("nulls", [10, 100])
def test_what_is_read_grows_with_what_is_null_and_not_with_the_group(nulls, monkeypatch):
    """Of the texts one in so many is not null."""
    order, read = (("v", False, True),), count_rows_read(monkeypatch)
    calls = tuple(seeking(order)["last rows"])
    spec, needed = WindowSpec(("k",), calls, SCHEMA), WindowFunctions(calls).needed(SCHEMA, ("k",))
    texts = lambda part: [None if i % nulls else "x" for i in part]  # noqa: E731
    groups = [loaded(count, order, s=texts) for count in (3_000, 300_000)]
    for change in ([((0, 1_500, "new"), 2, 1)], [((0, 700, "x"), 2, -1)], [((0, 1_503, None), 2, -1)]):
        for group in groups:
            read.append(0)
            given, near = read_for(change, *group, needed)
            if group is groups[0]:
                assert as_counts(reduce_window(near, spec).oks) == as_counts(reduce_window(given, spec).oks)
        few, many = read[-2:]
        assert many <= few + 8 * nulls
        assert few <= 100 * nulls


@pytest.mark.parametrize("reach", [1, 10])
def test_what_is_read_does_not_grow_with_the_group(reach, monkeypatch):
    read = count_rows_read(monkeypatch)
    groups = [loaded(count, (("v", False, True),)) for count in (2_000, 200_000)]
    for change in ([((0, -5, "new"), 2, 1)], [((0, 3, "x"), 2, -1)], [((0, 700, "x"), 2, -1), ((0, 1700, "y"), 2, 1)]):
        for group in groups:
            read.append(0)
            read_for(change, *group, Around(2 * reach))
        few, many = read[-2:]
        assert many <= few + 4 * reach
        assert few <= 16 * (reach + 1) * len(change)


def test_what_is_not_near_is_read_whole():
    order = (("v", False, True),)
    calls = windows(order, 2)
    assert WindowFunctions(calls).needed(SCHEMA, ("k",)) == Around(4)
    for call in (
        WindowCall(Aggregate("lag", ("k",), pa.int64()), order, ignore_nulls=True),
        WindowCall(Aggregate("first", ("v",), pa.int64()), order, PEERS, ignore_nulls=True),
        WindowCall(Aggregate("lag", ("v",), pa.int64()), order, number=10**6, ignore_nulls=True),
        WindowCall(Aggregate("avg", ("v",), pa.float64()), order, Frame(True, -(10**6), 0)),
        WindowCall(Aggregate("lag", ("v",), pa.int64()), (("v", True, False),)),
    ):
        assert not WindowFunctions((*calls, call)).with_order(BELOW, ("k",)).ordered
