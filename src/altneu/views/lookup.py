"""Queries that are answered once and need few rows: which rows of which views, and the answer over these rows alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.columnar.ranking import Order, order_text, order_words
from altneu.columnar.rows import Rows
from altneu.engine.engine import Engine
from altneu.engine.reading import ASKED, StateOfViews
from altneu.operators.base import Region, StepMode
from altneu.order import Antichain
from altneu.plan import ir
from altneu.plan.physical import Plan
from altneu.plan.reads import Read, column_read, is_row_by_row, partial_reads
from altneu.plan.rewrite import optimise, without_indexes
from altneu.runtime.inputs import Inputs
from altneu.runtime.local import LocalExecutor
from altneu.runtime.outcome import Outcome
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
from altneu.store import MemoryStore
from altneu.trace.batch import Layout
from altneu.trace.update import Updates
from altneu.views.contents import has_too_many_rows, stored_errors, table_of

MOST_KEYS = 1 << 12  # that are looked up; a query for more reads the view
MOST_ROWS = 1 << 18  # updates with these keys; more are read where the executor reads a view
_SHOWN = 3


@dataclass(frozen=True)
class Lookup:
    """The rows of a view that one reader needs: those of some keys of an arrangement, or (None) only their number.

    ``source`` is the name of the source that has these rows in the plan of the query. Of an ordered arrangement only
    the ``stretch`` with ``bounds``, as EXPLAIN shows them, is read. With ``below_zero``, an arrangement of the numbers
    of rows with negative counts, the first rows in its ``order`` suffice, if they are as many as the query asks for.
    """

    source: str
    view: str
    arrangement: str
    keys: Rows | None
    stretch: Stretch = EVERYTHING
    bounds: tuple[str, ...] = ()
    order: tuple[Order, ...] = ()
    below_zero: str | None = None

    def __str__(self) -> str:
        if self.keys is None:
            return f"lookup: the number of rows of view {self.view}"
        by = [*([shown_keys(self.keys)] if self.keys.schema.names else []), *self.bounds]
        in_order = f" in order of {order_text(self.order)}" * (self.below_zero is not None)
        return f"lookup: view {self.view}{' by ' * bool(by)}{' and '.join(by)}{in_order}"


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


@dataclass(frozen=True)
class Found:
    """How a query is answered with lookups: its plan over sources that have the rows that are looked up."""

    node: ir.Node
    lookups: tuple[Lookup, ...]

    @property
    def views(self) -> list[str]:
        """The views that are read."""
        return list(dict.fromkeys(lookup.view for lookup in self.lookups))


def find(engine: Engine, collection: Collection, first: First | None = None) -> Found | None:
    """The lookups that answer a query; None if it needs all rows of something.

    A key is looked up if the query requires values of all of its columns. It is the key of the view's contents, or of
    another arrangement of the same rows: an index, or one that a join or reduce keeps. Of an ordered arrangement only
    rows within bounds are read, and only the ``first`` rows if the query asks for no more.
    """
    catalogue = engine.catalogue
    node, views = catalogue.over_views(collection)
    existing = engine.journal.existing()

    def arrangements(view: str) -> list[str]:
        return [n for n in catalogue.plan.arrangements_alike(catalogue.ports(view).contents) if n in existing]

    return found_in(node, views, arrangements, engine.table, first, catalogue.plan.below_zero)


def found_in(
    node: ir.Node,
    views: Mapping[str, str],
    arrangements: Callable[[str], Iterable[str]],
    table: StateTable,
    first: First | None = None,
    below_zero: Callable[[str], str | None] = lambda _: None,
) -> Found | None:
    """As ``find``, of a plan over sources that stand for ``views``, of which arrangements hold all rows."""
    if any(isinstance(below, ir.Source) and below.name not in views for below in ir.walk(node)):
        return None
    partial = partial_reads(without_indexes(optimise(node)))
    if partial is None:
        return None
    wanted = _wanted_order(partial[0], first)

    def numbers(name: str) -> str | None:
        order = table.layouts[name].order
        return below_zero(name) if wanted is not None and order and order[0] == wanted else None

    lookups = [
        lookup_of(read, views[read.source], arrangements(views[read.source]), table, numbers) for read in partial[1]
    ]
    return None if None in lookups else Found(partial[0], tuple(lookup for lookup in lookups if lookup is not None))


def _wanted_order(root: ir.Node, first: First | None) -> Order | None:
    """The order of a source's rows in which the first rows of a query come from the first of these; None if unknown."""
    if first is None or not isinstance(root, ir.Linear) or not is_row_by_row(root):
        return None
    column = column_read(root, first.column)
    return None if column is None else (column, first.descending, first.nulls_first)


def lookup_of(
    read: Read,
    view: str,
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
            return Lookup(read.name, view, name, None)
        layout, numbers = table.layouts[name], below_zero(name)
        if not read.values.keys() >= set(layout.key):
            continue
        stretch, bounds = _stretch(read, layout)
        ordered = bool(bounds) or numbers is not None
        count = prod(len(read.values[column]) for column in layout.key)
        rank = not ordered, count, -len(layout.key)
        if count <= MOST_KEYS and (layout.key or ordered) and (best is None or rank < best[0]):
            keys = _keys(read.values, layout)
            if not ordered and keys.count and updates_with_key(table, name, keys) > MOST_ROWS:
                continue
            best = rank, Lookup(read.name, view, name, keys, stretch, bounds, layout.order, numbers)
    return None if best is None else best[1]


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
    if not columns:
        return Rows(layout.key_schema, (), 1)
    places = np.indices([len(column) for column in columns]).reshape(len(columns), -1)
    taken = tuple(column.take(pa.array(place)) for column, place in zip(columns, places, strict=True))
    return Rows(layout.key_schema, taken, places.shape[1])


def rows_of(
    table: StateTable, lookup: Lookup, at: At, schema: pa.Schema, first: int | None = None
) -> tuple[Updates, bool] | None:
    """The rows that are looked up, stamped with a time, and whether these are all; None if all rows are to be read.

    That is so if one of them has a negative count, so that the error is that of a full read, and if they are many. With
    ``first`` they need be no more than the first so many updates of each batch.
    """
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
    elif updates_with_key(table, lookup.arrangement, keys) > MOST_ROWS:
        return None
    else:
        updates = rows_with_key(table, lookup.arrangement, at, keys)
    if (updates.diffs < 0).any():
        return None
    return Updates(updates.rows.select(schema.names), updates.times, updates.diffs), is_all


def inputs_of(
    state: StateOfViews, lookups: Sequence[Lookup], at: Mapping[str, At], first: int | None = None
) -> tuple[dict[str, Updates], bool] | None:
    """The rows that are looked up, by source, and whether these are all; None if views have to be read as a whole.

    Each view has a time in ``at``, and ``first`` is as in ``rows_of``.

    That is so where a view has errors: how many of them a query meets depends on how it reads the view.
    """
    inputs, complete = dict[str, Updates](), True
    for view, time in at.items():
        if state.known(view).since > time[0] or stored_errors(state.table, state.ports(view), time).count:
            return None
    for lookup in lookups:
        found = rows_of(state.table, lookup, at[lookup.view], state.ports(lookup.view).schema, first)
        if found is None:
            return None
        inputs[lookup.source], is_all = found
        complete &= is_all
    return inputs, complete


@dataclass(frozen=True)
class Computed:
    """The state of a query that was computed from given rows."""

    plan: Plan
    table: StateTable
    outcome: Outcome

    def answer(self, at: At) -> pa.Table | None:
        """The rows at a time; None if an operator failed, a row has a negative count, or they are too many."""
        ports = self.plan.views[ASKED]
        updates = contents(self.table, ports.contents, at)
        if stored_errors(self.table, ports, at).count or (updates.diffs < 0).any() or has_too_many_rows(updates):
            return None
        return table_of(updates)


def computed(plan: Plan, inputs: Mapping[str, Updates], at: At) -> Computed:
    """Compute a query from rows of its sources, in this process."""
    lattice = plan.lattice
    table = StateTable(MemoryStore(), lattice, durable=False, layouts=plan.arranged)
    start = Antichain.minimum(lattice)
    region = Region(start, Antichain.of(lattice, at[0] + 1), start)
    given = Inputs({name: [updates] for name, updates in inputs.items() if len(updates)})
    outcome = LocalExecutor().step(plan, table, given, region, StepMode(1, hydrating=True))
    for (name, shard), state in outcome.states.items():
        table.put(name, shard, state)
    return Computed(plan, table, outcome)
