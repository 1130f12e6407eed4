"""Lookups: the rows of a view that have some keys, lie in a stretch of an order, are few, or are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import pyarrow as pa

from altneu.columnar.ranking import Order, order_text, order_words
from altneu.columnar.rows import Rows
from altneu.plan.reads import Read
from altneu.runtime.read import (
    EVERYTHING,
    At,
    Stretch,
    contents,
    row_count,
    rows_in_order,
    rows_with_key,
    updates_with_key,
)
from altneu.runtime.state import StateTable
from altneu.trace.batch import Layout
from altneu.trace.update import Updates

MOST_KEYS = 1 << 12  # that are looked up; a query for more reads the view
MOST_ROWS = 1 << 18  # updates with these keys; more are read where the executor reads a view
_SHOWN = 3


@dataclass(frozen=True)
class Lookup:
    """The rows of a view that one reader needs: those of some keys of an arrangement, or (None) only their number.

    ``source`` is the name of the source that has these rows in the plan of the query; ``of`` says of what view they
    are, or of what source whose rows are stored. Of an ordered arrangement only the ``stretch`` with ``bounds``, as
    EXPLAIN shows them, is read. With ``below_zero``, an arrangement of the numbers of rows with negative counts, the
    first rows in its ``order`` suffice, if they are as many as the query asks for. ``are_few`` says that all rows are
    read, so that larger views are looked up by what these have.
    """

    source: str
    of: str
    arrangement: str
    keys: Rows | None
    stretch: Stretch = EVERYTHING
    bounds: tuple[str, ...] = ()
    order: tuple[Order, ...] = ()
    below_zero: str | None = None
    are_few: bool = False

    def __str__(self) -> str:
        if self.are_few:
            return f"lookup: all rows of {self.of}, which are few"
        if self.keys is None:
            return f"lookup: the number of rows of {self.of}"
        by = [*([shown_keys(self.keys)] if self.keys.schema.names else []), *self.bounds]
        in_order = f" in order of {order_text(self.order)}" * (self.below_zero is not None)
        return f"lookup: {self.of}{' by ' * bool(by)}{' and '.join(by)}{in_order}"


@dataclass(frozen=True)
class First:
    """How many rows of a query are asked for, in order of one of its columns."""

    column: str
    descending: bool
    nulls_first: bool
    count: int


def shown_keys(keys: Rows) -> str:
    """Keys for EXPLAIN.

    >>> schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    >>> (
    ...     shown_keys(Rows.from_pylist([(1, "x")], schema)),
    ...     shown_keys(Rows.from_pylist([(1, "x"), (2, None)], schema)),
    ... )
    ("(a, b) = (1, 'x')", "(a, b) in ((1, 'x'), (2, NULL))")
    """
    names = keys.schema.names
    rows = keys.slice(0, min(_SHOWN, keys.count)).to_pylist()
    texts = [["NULL" if value is None else repr(value) for value in row] for row in rows]
    several = len(names) > 1
    items = [f"({', '.join(row)})" if several else row[0] for row in texts]
    left = f"({', '.join(names)})" if several else names[0]
    if keys.count == 1:
        return f"{left} = {items[0]}"
    more = [f"… {keys.count - _SHOWN} more"] if keys.count > _SHOWN else []
    return f"{left} in ({', '.join([*items, *more])})"


def lookup_of(
    read: Read,
    of: str,
    arrangements: Iterable[str],
    table: StateTable,
    below_zero: Callable[[str], str | None] = lambda _: None,
) -> Lookup | None:
    """The lookup of what a reader needs of a view, in one of its arrangements; None if none has a fitting key.

    Of several it is one in an order that leaves rows out, and then one with the fewest keys, of the most columns.
    """
    best: tuple[tuple[bool, int, int], Lookup] | None = None
    for name in arrangements:
        if read.values is None:
            return Lookup(read.name, of, name, None)
        layout, numbers = table.layouts[name], below_zero(name)
        if not read.values.keys() >= set(layout.key):
            continue
        stretch, bounds = _stretch(read, layout)
        ordered = bool(bounds) or numbers is not None
        count = prod(len(read.values[column]) for column in layout.key)
        rank = not ordered, count, -len(layout.key)
        if count <= MOST_KEYS and (layout.key or ordered) and (best is None or rank < best[0]):
            keys = _keys(read.values, layout)
            many = not ordered and keys.count and table.rows(name) > MOST_ROWS
            if many and updates_with_key(table, name, keys) > MOST_ROWS:
                continue
            best = rank, Lookup(read.name, of, name, keys, stretch, bounds, layout.order, numbers)
    return None if best is None else best[1]


def few_of(read: Read, of: str, arrangements: Iterable[str], table: StateTable) -> Lookup | None:
    """The lookup of all rows of a view, if it has at most ``MOST_KEYS`` updates; None if it has more.

    Cost:   a comparison for each arrangement; ``rows_of`` then reads at most ``MOST_KEYS`` updates.
    """
    rows, name = min(((table.rows(name), name) for name in arrangements), default=(MOST_KEYS + 1, ""))
    return Lookup(read.name, of, name, None, are_few=True) if rows <= MOST_KEYS else None


def _stretch(read: Read, layout: Layout) -> tuple[Stretch, tuple[str, ...]]:
    """The part of an ordered arrangement in which rows satisfy what a reader requires, and its bounds as a text."""
    stretch, texts = EVERYTHING, []
    for column, comparison, value in read.bounds if layout.order else ():
        name, descending, nulls_first = layout.order[0]
        if name == column:
            word = int(order_words(value, descending=descending, nulls_first=nulls_first)[0])
            if (comparison[0] == ">") != descending:
                stretch = replace(stretch, least=max(stretch.least, word))
            else:
                stretch = replace(stretch, most=min(stretch.most, word))
            texts.append(f"{column} {comparison} {value[0].as_py()!r}")
    return stretch, tuple(texts)


def _keys(values: Mapping[str, pa.Array], layout: Layout) -> Rows:
    """The keys whose columns have some values, each once."""
    columns = [values[name] for name in layout.key]
    if len(columns) < 2:
        return Rows(layout.key_schema, tuple(columns), len(columns[0]) if columns else 1)
    places = np.indices([len(column) for column in columns]).reshape(len(columns), -1)
    taken = tuple(column.take(pa.array(place)) for column, place in zip(columns, places, strict=True))
    return Rows(layout.key_schema, taken, places.shape[1])


def rows_of(
    table: StateTable, lookup: Lookup, at: At, schema: pa.Schema, first: int | None = None
) -> tuple[Updates, bool] | None:
    """The rows that are looked up, stamped with a time, and whether these are all; None if all rows are to be read.

    That is so if one of them has a negative count, so that the error is that of a full read, and if a stretch has many.
    With ``first`` they need be no more than the first so many updates of each batch.
    """
    if lookup.are_few:
        updates = contents(table, lookup.arrangement, at)
        if (updates.diffs < 0).any():
            return None
        return Updates(updates.rows.select(schema.names), updates.times, updates.diffs), True
    if lookup.keys is None:
        count = row_count(table, lookup.arrangement, at)
        if count is None or count < 0:
            return None
        one = Rows(schema, tuple(pa.nulls(1, field.type) for field in schema), 1)
        updates = Updates(one, np.full((1, 1), at[0]), np.array([count], np.int64))
        return (updates if count else Updates.empty(schema, 1)), True
    keys, is_all = lookup.keys, True
    if not keys.count:
        return Updates.empty(schema, 1), True
    if lookup.below_zero is not None and first is not None:
        if len(rows_with_key(table, lookup.below_zero, at, keys)):
            return None
        updates, is_all = rows_in_order(table, lookup.arrangement, at, keys, replace(lookup.stretch, first=first))
    elif lookup.bounds:
        stretch = replace(lookup.stretch, first=MOST_ROWS)
        updates, is_all = rows_in_order(table, lookup.arrangement, at, keys, stretch)
        if not is_all:
            return None
    else:
        updates = rows_with_key(table, lookup.arrangement, at, keys)
    if (updates.diffs < 0).any():
        return None
    return Updates(updates.rows.select(schema.names), updates.times, updates.diffs), is_all
