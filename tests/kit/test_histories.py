"""Random histories: no count below zero, simplest first; and what of a pipeline they find."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

import altneu as an
from altneu.errors import InputError
from altneu.testing import assert_incremental, assert_same_as_spark, cuts, histories, replay

ORDERS = an.source("orders", "item string, price long", keep=True)
PRICES = an.source("prices", "item string, least decimal(5,2), day date, tags array<string>", keep=True)
BOTH = ORDERS.join(PRICES, on="item").filter("price > least").group_by("item").agg(n="count(*)", most="max(price)")


@settings(max_examples=20)
@given(histories({"orders": ORDERS, "prices": PRICES}, times=3), cuts(3))
def test_a_pipeline_stays_right(history, steps):
    assert steps[-1] == 3
    assert_incremental({"both": BOTH, "orders": ORDERS}, history, steps)


@given(histories([ORDERS, PRICES]))
def test_no_count_is_below_zero(history):
    for time in range(history.times):
        for rows in history.at(time).values():
            assert all(diff > 0 for diff in rows.column("diff").to_pylist())


def test_every_kind_of_change_is_drawn():
    both = lambda h, wanted: any(wanted(u) for u in h.updates["orders"])  # noqa: E731
    for wanted in (lambda u: u[2] < 0, lambda u: u[2] > 1, lambda u: u[0][0] is None, lambda u: u[1] == 3):
        assert find(histories([ORDERS]), lambda h, wanted=wanted: both(h, wanted))
    few = settings(max_examples=300)
    below = lambda h: any(d < 0 for rows in h.at(3).values() for d in rows.column("diff").to_pylist())  # noqa: E731
    assert find(histories([ORDERS], negative=True), below)
    with pytest.raises(NoSuchExample):
        find(histories([ORDERS]), below, settings=few)


@given(histories([ORDERS], columns={"orders.price": st.just(7), "item": st.just("tea")}))
def test_columns_of_ones_own(history):
    assert {row for row, _, _ in history.updates["orders"]} <= {("tea", 7)}


def test_a_function_that_is_none_is_found():
    ticks = count()
    odd = ORDERS.map(lambda row: (row.item, next(ticks)), "item string, tick long")
    with pytest.raises(AssertionError, match=r"view odd at time \d, steps to \d: the table has other rows"):
        find(histories([ORDERS], times=2, changes=2), lambda h: assert_incremental({"odd": odd}, h))


@settings(max_examples=5)
@given(histories([an.source("s", "time long, diff long", keep=True)], times=2))
def test_columns_may_be_called_time_and_diff(history):
    source = an.source("s", "time long, diff long", keep=True)
    assert_incremental(source.select(a="time", b="diff"), history)


def test_only_sources_have_histories():
    with pytest.raises(InputError, match="histories needs sources"):
        histories([BOTH])
    with pytest.raises(InputError, match="has two times"):
        histories([an.source("a", "k long", time=("system", "event"))])
    with pytest.raises(InputError, match="needs a strategy"):
        histories([an.source("a", "m map<string,long>")])


def test_beside_spark_step_by_step(spark):
    query = "select item, count(*) n from orders group by item"
    history = find(histories([ORDERS], times=2), lambda h: len(h.updates["orders"]) > 3)
    steps = 0
    for session in replay(ORDERS.group_by("item").agg(n="count(*)"), history):
        assert_same_as_spark(session.view("view"), query, spark)
        steps += 1
    assert steps == 2
