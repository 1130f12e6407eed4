"""``ORDER BY``, ``LIMIT`` and ``OFFSET`` of a query that is answered once: its rows are put in order at the end.

Inside a view they choose rows, which have no order there; the query's own, at its top, are taken off here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
from sqlglot import exp

from altneu.sql import Shown
from altneu.sql.ordering import count_of
from altneu.types.syntax import refuse_unread
from altneu.views.lookup import First


@dataclass(frozen=True)
class Ordered:
    """A query without its LIMIT and OFFSET, and these."""

    shown: Shown
    limit: int | None = None
    offset: int = 0

    @property
    def first(self) -> First | None:
        """How many rows are shown, in which order; None if all are."""
        if self.limit is None or not self.shown.order:
            return None
        return First(*self.shown.order[0], self.limit + self.offset)

    def apply(self, table: pa.Table) -> pa.Table:
        """The rows in order, without the columns of the order alone; names may be equal."""
        if self.shown.order:
            names, descending, first = zip(*self.shown.order, strict=True)
            frame = pl.DataFrame(pl.from_arrow(table.select(list(names))))
            nulls_last = [not f for f in first]
            order = frame.select(pl.arg_sort_by(*names, descending=descending, nulls_last=nulls_last)).to_series()
            table = table.take(pa.array(order.to_numpy()))
        table = table.select(list(self.shown.columns)).slice(self.offset, self.limit)
        return table.rename_columns(list(self.shown.names))


def ordered(tree: exp.Expr, bind: Callable[[exp.Expr], Shown]) -> Ordered:
    """Bind a query, with its own limits taken off.

    Raises:
        PlanError: a limit that is not a number; something is set in it that nothing reads.
    """
    refuse_unread(tree)
    plain = _opened(tree).copy()
    taken = {name: plain.args.get(name) for name in ("limit", "offset")}
    for name in taken:
        plain.set(name, None)
    inside = _opened(plain)
    if not any(inside.args.get(name) for name in taken):  # its order is the order of all
        plain = inside
    limit, offset = count_of(taken["limit"], "LIMIT"), count_of(taken["offset"], "OFFSET") or 0
    return Ordered(bind(plain), limit, offset)


def _opened(tree: exp.Expr) -> exp.Expr:
    """A query without parentheses around it."""
    while isinstance(tree, exp.Subquery) and not any(value for name, value in tree.args.items() if name != "this"):
        tree = tree.this
    return tree
