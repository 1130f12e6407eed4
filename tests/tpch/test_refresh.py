"""Refresh steps keep the tables' keys and references, whatever is done to them."""

import polars as pl
import pytest

from bench.tpch import data
from bench.tpch.refresh import KEYS, LARGE, Refresh
from tests.tpch.history import applied

pytestmark = pytest.mark.skipif(data.extension() is None, reason="duckdb or duckdb-extension-tpch is not installed")


@pytest.fixture(scope="module")
def tables():
    return data.generate(0.01)


def frame(table):
    return pl.DataFrame(pl.from_arrow(table))


def test_changes_add_up_to_the_tables_as_they_are(tables):
    refresh = Refresh(tables, seed=3)
    for _ in range(3):
        refresh.orders(20, 10)
        refresh.swap("part", 10)
        refresh.drop("supplier", 3)
        changes = refresh.changes()
        for name, changed in changes.items():
            tables = tables | {name: applied(tables[name], changed)}
        refresh.restore("supplier")
    for name, changed in refresh.changes().items():
        tables = tables | {name: applied(tables[name], changed)}
    for name, table in refresh.now().items():
        columns = table.column_names
        assert frame(tables[name]).sort(columns).equals(frame(table).sort(columns))
        assert not frame(table).select(KEYS[name]).is_duplicated().any()


def test_new_orders_are_whole(tables):
    refresh = Refresh(tables, seed=4)
    refresh.orders(50, 0)
    now = {name: frame(table) for name, table in refresh.now().items()}
    last = tables["orders"]["o_orderkey"].to_numpy().max()
    orders = now["orders"].filter(pl.col("o_orderkey") > last)
    lines = now["lineitem"].filter(pl.col("l_orderkey") > last)
    assert len(orders) == 50
    assert set(orders["o_orderkey"]) == set(lines["l_orderkey"])
    offers = now["partsupp"].select("ps_partkey", "ps_suppkey")
    assert not len(lines.join(offers, left_on=["l_partkey", "l_suppkey"], right_on=offers.columns, how="anti"))
    first = lines.filter(pl.col("l_orderkey") == last + 1)
    assert len(first) == 7
    assert first["l_quantity"].min() >= LARGE
    charged = pl.col("l_extendedprice").cast(float) * (1 - pl.col("l_discount").cast(float))
    charged = (charged * (1 + pl.col("l_tax").cast(float))).sum()
    totals = lines.group_by("l_orderkey").agg(charged.alias("charged"))
    both = orders.join(totals, left_on="o_orderkey", right_on="l_orderkey")
    assert both.select(((pl.col("o_totalprice").cast(float) - pl.col("charged")).abs() < 0.011).all()).item()


def test_a_swap_keeps_the_keys_and_what_is_beside_them(tables):
    refresh = Refresh(tables, seed=5)
    refresh.swap("customer", 20)
    before, after = frame(tables["customer"]), frame(refresh.now()["customer"])
    assert sorted(before["c_custkey"]) == sorted(after["c_custkey"])
    assert sorted(before.drop("c_custkey").rows()) == sorted(after.drop("c_custkey").rows())
    assert len(before.join(after, on=before.columns, how="anti")) == 40
