"""Ranks by words, columns where these do not decide, against one sort by all columns; and what is gathered for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from altneu.columnar.columns import Stack
from altneu.columnar.gathered import Gathered
from altneu.columnar.ranking import order_words, whole_order
from altneu.columnar.rows import Rows
from altneu.operators.kernels.in_order import GroupsInOrder, in_order
from altneu.operators.reduce.needed import read_needed
from altneu.operators.reduce.node import Ends
from altneu.operators.reduce.top_k import TopKSpec, reduce_top_k
from altneu.order import Epoch
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.update import Updates

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string()), ("x", pa.float64()), ("xs", pa.list_(pa.int64()))])
LONG = "a prefix longer than a word "
VALUES = st.tuples(
    st.none() | st.integers(-2, 2),
    st.none() | st.sampled_from(["", "a", LONG, LONG + "b", LONG + "c"]),
    st.none() | st.sampled_from([-1.5, 0.0, float("inf")]),
    st.none() | st.lists(st.integers(0, 1), max_size=2),
)
ORDERS = st.lists(
    st.tuples(st.sampled_from(SCHEMA.names), st.booleans(), st.booleans()), max_size=4, unique_by=lambda one: one[0]
)


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 3), VALUES), max_size=40), ORDERS, st.booleans())
def test_ranks_are_those_of_the_whole_order(lines: list[Any], order: list[Any], gathered: bool) -> None:
    rows = Rows.from_pylist([values for _, values in lines], SCHEMA)
    group = np.array([number for number, _ in lines], np.int64)
    words = None
    if order:
        name, descending, nulls_first = order[0]
        words = order_words(rows.column(name), descending=descending, nulls_first=nulls_first)
    some = Gathered(Stack((rows.take(np.arange(rows.count)[::-1]),), SCHEMA), np.arange(rows.count)[::-1])
    rank, first = in_order(some if gathered else rows, group, order, words)

    keys = list(zip(group.tolist(), *(line.tolist() for line in whole_order(rows, order)), strict=True))
    expected = {key: place for place, key in enumerate(sorted(set(keys)))}
    assert rank.tolist() == [expected[key] for key in keys]
    assert rank[first].tolist() == list(range(len(expected)))


@pytest.mark.parametrize("count", [300, 3000])
def test_of_wide_columns_only_rows_that_come_out_are_gathered(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    schema = pa.schema([("k", pa.int64()), ("n", pa.int64()), ("wide", pa.string())])
    layout = Layout(schema, ("k",), Epoch(), (("n", True, True),))
    below = Layout(pa.schema([("k", pa.int64())]), ("k",), Epoch())

    def batch(time: int, rows: list[tuple[int, int, str]]) -> Batch:
        updates = Updates(
            Rows.from_pylist(rows, schema), np.full((1, len(rows)), time), np.ones(len(rows), dtype=np.int64)
        )
        return Batch.build(updates, layout, Description.interval(Epoch(), time, time + 1))

    old = tuple(
        batch(time, [(key, 10 * number + time, "w" * 100) for key in range(count) for number in range(3)])
        for time in range(3)
    )
    new = batch(3, [(key, 25 if key else 5, "v") for key in range(count)])
    nothing = Arranged(below, (), Batch.empty(below, Description.interval(Epoch(), 3, 4)))
    groups = read_needed(Arranged(layout, old, new), Ends(first=1), nothing)
    assert isinstance(groups, GroupsInOrder)
    assert len(groups.old_diffs) == 9 * count

    gathered: dict[str, int] = {}
    take = Stack.take_column

    def counted(self: Stack, column: int, index: Any) -> pa.Array:
        gathered[self.schema.names[column]] = gathered.get(self.schema.names[column], 0) + len(index)
        return take(self, column, index)

    monkeypatch.setattr(Stack, "take_column", counted)
    result = reduce_top_k(groups, TopKSpec(("k",), 1, (("n", True, True),), schema))
    assert len(result.oks) == 2 * (count - 1)
    assert gathered == {"n": 2 * (count - 1), "wide": 2 * (count - 1)}
