"""Refresh steps: new orders with their lines, old ones that go (TPC-H's RF1 and RF2), and changes of all other tables.

TPC-H's own refresh streams insert 0.1 % of the orders and delete as many. The steps here are made from a seed out of
the tables alone, at any scale, and are small or large as asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import numpy as np
import polars as pl
import pyarrow as pa

KEYS = {
    "region": ["r_regionkey"],
    "nation": ["n_nationkey"],
    "supplier": ["s_suppkey"],
    "customer": ["c_custkey"],
    "part": ["p_partkey"],
    "partsupp": ["ps_partkey", "ps_suppkey"],
    "orders": ["o_orderkey"],
    "lineitem": ["l_orderkey", "l_linenumber"],
}
LARGE = 44
"""The least quantity of each line of a large order; seven lines of it are more than Q18 asks for."""

MONEY = pl.Decimal(15, 2)
Changes = dict[str, pa.Table]
"""Of each table that changes the rows, with a column ``diff``."""


class Refresh:
    """The tables as they are, and what changes them."""

    def __init__(self, tables: Mapping[str, pa.Table], seed: int = 0) -> None:
        self.tables = {name: pl.DataFrame(pl.from_arrow(table)) for name, table in tables.items()}
        self._random = np.random.default_rng(seed)
        self._changes: dict[str, list[pl.DataFrame]] = {}
        self._gone: dict[str, pl.DataFrame] = {}

    def changes(self) -> Changes:
        """What changed since this was last asked."""
        result = {name: pl.concat(frames) for name, frames in self._changes.items()}
        self._changes = {}
        return {name: _plain(frame.to_arrow()) for name, frame in result.items()}

    def now(self) -> dict[str, pa.Table]:
        """The tables after all changes."""
        return {name: _plain(frame.to_arrow()) for name, frame in self.tables.items()}

    def orders(self, inserted: int, deleted: int) -> None:
        """New orders come (RF1), old ones go (RF2), each with its lines."""
        doomed = self._some("orders", deleted).select(l_orderkey="o_orderkey")
        self._delete("orders", doomed.rename({"l_orderkey": "o_orderkey"}))
        self._delete("lineitem", doomed)
        if inserted:
            orders, lines = self._new_orders(inserted)
            self._insert("orders", orders)
            self._insert("lineitem", lines)

    def swap(self, table: str, pairs: int) -> None:
        """Rows exchange all that is not their key, two and two: what the table holds stays, and says it of others."""
        key = KEYS[table]
        some = self._some(table, 2 * pairs)
        half = len(some) // 2
        turned = pl.concat([some.slice(half, half), some.slice(0, half)])
        before = some.slice(0, 2 * half)
        after = turned.with_columns(before.select(key))
        self._delete(table, before.select(key))
        self._insert(table, after)

    def become(self, table: str, rows: int, **values: object) -> None:
        """Some rows take values that a query asks for."""
        before = self._some(table, rows)
        casts = {name: before.schema[name] for name in values}
        after = before.with_columns(**{name: pl.lit(value, casts[name]) for name, value in values.items()})
        self._delete(table, before.select(KEYS[table]))
        self._insert(table, after)

    def drop(self, table: str, rows: int) -> None:
        """Rows go, and what refers to them stays."""
        some = self._some(table, rows)
        self._gone[table] = some
        self._delete(table, some.select(KEYS[table]))

    def restore(self, table: str) -> None:
        """The rows that were dropped last are there again."""
        self._insert(table, self._gone.pop(table))

    def _some(self, table: str, count: int) -> pl.DataFrame:
        frame = self.tables[table]
        return frame[np.sort(self._random.choice(len(frame), min(count, len(frame)), replace=False))]

    def _insert(self, table: str, rows: pl.DataFrame) -> None:
        self.tables[table] = pl.concat([self.tables[table], rows])
        self._record(table, rows, 1)

    def _delete(self, table: str, keys: pl.DataFrame) -> None:
        frame = self.tables[table]
        self._record(table, frame.join(keys, on=keys.columns, how="semi", maintain_order="left"), -1)
        self.tables[table] = frame.join(keys, on=keys.columns, how="anti", maintain_order="left")

    def _record(self, table: str, rows: pl.DataFrame, diff: int) -> None:
        if len(rows):
            self._changes.setdefault(table, []).append(rows.with_columns(diff=pl.lit(diff, pl.Int64)))

    def _new_orders(self, count: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Orders like some that are there, by other customers, on other days, of other parts; the first one is large.

        A line's price is its quantity times the part's price, an order's total what its lines come to.
        """
        like = self._like(count)
        frame = self.tables["orders"]
        first = int(frame["o_orderkey"].max()) + 1  # type: ignore[arg-type]
        customers = self.tables["customer"]["c_custkey"].to_numpy()
        moved = pl.Series(
            "moved", [timedelta(int(d)) for d in self._random.integers(-40, 41, count)], pl.Duration("us")
        )
        orders = like.with_columns(
            moved,
            new=pl.Series(np.arange(first, first + count)),
            o_custkey=pl.Series(self._random.choice(customers, count)),
        )
        chosen = orders.select("o_orderkey", "new", "moved")
        lines = self.tables["lineitem"].join(chosen, left_on="l_orderkey", right_on="o_orderkey")
        lines = self._new_lines(lines.sort("new", "l_linenumber"), first)
        total = lines.group_by("new").agg((pl.col("total").sum() // 10_000).alias("total"))
        orders = orders.join(total, on="new").sort("new")
        orders = orders.with_columns(
            o_orderkey="new",
            o_orderdate=pl.col("o_orderdate") + pl.col("moved"),
            o_totalprice=_money(pl.col("total")),
        )
        return orders.select(frame.columns), lines.with_columns(l_orderkey="new").select(
            self.tables["lineitem"].columns
        )

    def _like(self, count: int) -> pl.DataFrame:
        """Orders to go by, the first of them one with seven lines if there is any."""
        some = self._some("orders", count)
        full = self.tables["lineitem"].filter(pl.col("l_linenumber") == 7).select(o_orderkey="l_orderkey")
        others = self.tables["orders"].join(full, on="o_orderkey", how="semi", maintain_order="left")
        others = others.join(some, on="o_orderkey", how="anti", maintain_order="left")
        if not len(others):
            return some
        return pl.concat([others[int(self._random.integers(len(others)))], some.slice(1)])

    def _new_lines(self, lines: pl.DataFrame, large: int) -> pl.DataFrame:
        offers = self.tables["partsupp"].select(l_partkey="ps_partkey", l_suppkey="ps_suppkey")
        prices = self.tables["part"].select(l_partkey="p_partkey", price=_cents(pl.col("p_retailprice")))
        offers = offers.join(prices, on="l_partkey", maintain_order="left")
        offered = offers[self._random.integers(len(offers), size=len(lines))]
        least = np.where(lines["new"].to_numpy() == large, LARGE, 1)
        quantity = pl.Series("quantity", self._random.integers(least, 51))
        lines = lines.with_columns(
            quantity, offered["price"], l_partkey=offered["l_partkey"], l_suppkey=offered["l_suppkey"]
        )
        lines = lines.with_columns(cents=pl.col("quantity") * pl.col("price"))
        charged = pl.col("cents") * (100 - _cents(pl.col("l_discount"))) * (100 + _cents(pl.col("l_tax")))
        dates = [(pl.col(c) + pl.col("moved")).alias(c) for c in ("l_shipdate", "l_commitdate", "l_receiptdate")]
        return lines.with_columns(
            *dates,
            total=charged,
            l_quantity=_money(pl.col("quantity") * 100),
            l_extendedprice=_money(pl.col("cents")),
        )


def _cents(amount: pl.Expr) -> pl.Expr:
    return (amount * 100).cast(pl.Int64)


def _money(cents: pl.Expr) -> pl.Expr:
    return (cents.cast(pl.Decimal(17, 2)) / 100).cast(MONEY)


def _plain(table: pa.Table) -> pa.Table:
    """With ordinary strings, as the generator has them."""
    plain = [f.with_type(pa.string()) if f.type in (pa.large_string(), pa.string_view()) else f for f in table.schema]
    return table.cast(pa.schema(plain))
