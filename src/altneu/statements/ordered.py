"""``ORDER BY``, ``LIMIT`` and ``OFFSET`` of a query that is answered once: its rows are put in order at the end.

Inside a view they choose rows, which have no order there; the query's own, at its top, are taken off here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa
from sqlglot import exp

from altneu.collection import Collection
from altneu.errors import StatementError
from altneu.types import quote_name

Bind = Callable[[exp.Expr], Collection]

_KEY = "(order {})"  # no name that a query gives by itself


@dataclass(frozen=True)
class Ordered:
    """A query without its order, and the order: ``keys`` are columns, with descending and nulls last of each."""

    collection: Collection
    keys: tuple[tuple[str, bool, bool], ...] = ()
    limit: int | None = None
    offset: int = 0
    columns: tuple[str, ...] = field(default=())

    def apply(self, table: pa.Table) -> pa.Table:
        """The rows in order, without the columns that only tell the order."""
        if self.keys:
            names, descending, nulls_last = zip(*self.keys, strict=True)
            frame = pl.DataFrame(pl.from_arrow(table.select(list(dict.fromkeys(names)))))
            order = frame.select(pl.arg_sort_by(*names, descending=descending, nulls_last=nulls_last)).to_series()
            table = table.take(pa.array(order.to_numpy()))
        return table.select(list(self.columns)).slice(self.offset, self.limit)


def ordered(tree: exp.Expr, bind: Bind) -> Ordered:
    """Bind a query, with its own order taken off.

    A key is the number of an output, an expression over outputs, or else one over what the query reads.

    Raises:
        StatementError: a limit that is no number, a key of another query's columns.
    """
    plain = tree.copy()
    taken = {name: plain.args.get(name) for name in ("order", "limit", "offset")}
    for name in taken:
        plain.set(name, None)
    limit, offset = _number(taken["limit"], "LIMIT"), _number(taken["offset"], "OFFSET") or 0
    collection = bind(plain)
    columns = tuple(collection.columns)
    wanted = taken["order"].expressions if taken["order"] is not None else []
    above: dict[str, exp.Expr] = {}
    inside: dict[str, exp.Expr] = {}
    keys = []
    for i, key in enumerate(wanted):
        name, this = _KEY.format(i), key.this
        if isinstance(this, exp.Literal) and not this.is_string:
            name = _output(columns, int(this.name))
        elif _reads_only(this, columns):
            above[name] = this
        else:
            inside[name] = this
        descending = bool(key.args.get("desc"))
        nulls_first = key.args.get("nulls_first")
        keys.append((name, descending, not (not descending if nulls_first is None else nulls_first)))
    if inside:
        collection = bind(_with_columns(plain, inside))
    if above:
        rest = {name: this.sql("spark") for name, this in above.items()}
        collection = collection.select(*map(quote_name, collection.columns), **rest)
    return Ordered(collection, tuple(keys), limit, offset, columns)


def _with_columns(query: exp.Expr, more: dict[str, exp.Expr]) -> exp.Expr:
    if not isinstance(query, exp.Select) or query.args.get("distinct"):
        shown = ", ".join(this.sql("spark") for this in more.values())
        raise StatementError(f"ORDER BY {shown}: after a set operation or DISTINCT keys are columns that are shown")
    return query.select(*(exp.alias_(this.copy(), name, quoted=True) for name, this in more.items()))


def _reads_only(tree: exp.Expr, columns: tuple[str, ...]) -> bool:
    known = {name.lower() for name in columns}
    return all(not c.table and c.name.lower() in known for c in tree.find_all(exp.Column)) and not tree.find(exp.Query)


def _output(columns: tuple[str, ...], position: int) -> str:
    if not 1 <= position <= len(columns):
        raise StatementError(f"ORDER BY {position}: the query has {len(columns)} columns")
    return columns[position - 1]


def _number(node: exp.Expr | None, word: str) -> int | None:
    if node is None:
        return None
    value = node.expression if isinstance(node, exp.Limit | exp.Offset) else node
    if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit():
        raise StatementError(f"{word} takes a whole number, not {node.sql('spark')}")
    return int(value.name)
