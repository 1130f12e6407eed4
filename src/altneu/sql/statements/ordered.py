"""``ORDER BY``, ``LIMIT`` and ``OFFSET`` of a query that is answered once: its rows are put in order at the end.

Inside a view they choose rows, which have no order there; the query's own, at its top, are taken off here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa
from sqlglot import exp

from altneu.columnar.ranking import order_words
from altneu.sql import Shown
from altneu.sql.ordering import count_of
from altneu.types import no_key
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
        """The rows in order, without the columns of the order alone; names may be equal.

        Of rows that are equal in it their values decide which are shown, as in a view, and not how they are stored.
        """
        if self.shown.order:
            keys = list(self.shown.order)
            if self.limit is not None or self.offset:
                table = self._among_the_first(table)
                keys += [(name, False, True) for name in self._ties(table.schema)]
            names, descending, first = zip(*keys, strict=True)
            frame = pl.DataFrame(pl.from_arrow(table.select(list(names))))
            nulls_last = [not f for f in first]
            order = frame.select(pl.arg_sort_by(*names, descending=descending, nulls_last=nulls_last)).to_series()
            table = table.take(pa.array(order.to_numpy()))
        table = table.select(list(self.shown.columns)).slice(self.offset, self.limit)
        return table.rename_columns(list(self.shown.names))

    def _among_the_first(self, table: pa.Table) -> pa.Table:
        """Without rows that are behind all that are shown by the first key, in linear time."""
        most = self.offset + (self.limit or 0)
        if not self.limit or table.num_rows <= most:
            return table
        name, descending, nulls_first = self.shown.order[0]
        column = table.column(name).combine_chunks()
        words = order_words(column, descending=descending, nulls_first=nulls_first)
        return table.filter(pa.array(words <= np.partition(words, most - 1)[most - 1]))

    def _ties(self, schema: pa.Schema) -> list[str]:
        """The columns that decide between rows that are equal in the order; those that have none are left out."""
        keys = {name for name, _, _ in self.shown.order}
        shown = dict.fromkeys(self.shown.columns)
        return [name for name in shown if name not in keys and not no_key(schema.field(name).type)]


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
