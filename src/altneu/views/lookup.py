"""Queries that are answered once and need few rows: which rows of which views, and the answer over these rows alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.columnar.rows import Rows
from altneu.engine.engine import Engine
from altneu.engine.reading import ASKED, StateOfViews
from altneu.operators.base import Region, StepMode
from altneu.order import Antichain
from altneu.plan import ir
from altneu.plan.physical import Plan
from altneu.plan.reads import Read, partial_reads
from altneu.plan.rewrite import optimise, without_indexes
from altneu.runtime.inputs import Inputs
from altneu.runtime.local import LocalExecutor
from altneu.runtime.outcome import Outcome
from altneu.runtime.read import At, contents, row_count, rows_with_key, updates_with_key
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

    ``source`` is the name of the source that has these rows in the plan of the query.
    """

    source: str
    view: str
    arrangement: str
    keys: Rows | None

    def __str__(self) -> str:
        if self.keys is None:
            return f"lookup: the number of rows of view {self.view}"
        return f"lookup: view {self.view} by {shown_keys(self.keys)}"


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


def find(engine: Engine, collection: Collection) -> Found | None:
    """The lookups that answer a query; None if it needs all rows of something.

    A key is looked up if the query requires values of all of its columns. It is the key of the view's contents, or of
    another arrangement of the same rows: an index, or one that a join or reduce keeps.
    """
    catalogue = engine.catalogue
    node, views = catalogue.over_views(collection)
    existing = engine.journal.existing()

    def arrangements(view: str) -> list[str]:
        return [n for n in catalogue.plan.arrangements_alike(catalogue.ports(view).contents) if n in existing]

    return found_in(node, views, arrangements, engine.table)


def found_in(
    node: ir.Node, views: Mapping[str, str], arrangements: Callable[[str], Iterable[str]], table: StateTable
) -> Found | None:
    """As ``find``, of a plan over sources that stand for ``views``, of which arrangements hold all rows."""
    if any(isinstance(below, ir.Source) and below.name not in views for below in ir.walk(node)):
        return None
    partial = partial_reads(without_indexes(optimise(node)))
    if partial is None:
        return None
    lookups = [lookup_of(read, views[read.source], arrangements(views[read.source]), table) for read in partial[1]]
    return None if None in lookups else Found(partial[0], tuple(lookup for lookup in lookups if lookup is not None))


def lookup_of(read: Read, view: str, arrangements: Iterable[str], table: StateTable) -> Lookup | None:
    """The lookup of what a reader needs of a view, in one of its arrangements; None if none has a fitting key."""
    best: tuple[int, int, str, Layout] | None = None
    for name in arrangements:
        if read.values is None:
            return Lookup(read.name, view, name, None)
        layout = table.layouts[name]
        if layout.key and read.values.keys() >= set(layout.key):
            count = prod(len(read.values[column]) for column in layout.key)
            if count <= MOST_KEYS and (best is None or (count, -len(layout.key)) < best[:2]):
                best = count, -len(layout.key), name, layout
    if best is None or read.values is None:
        return None
    return Lookup(read.name, view, best[2], _keys(read.values, best[3]))


def _keys(values: Mapping[str, pa.Array], layout: Layout) -> Rows:
    """The keys whose columns have some values, each once."""
    columns = [values[name] for name in layout.key]
    places = np.indices([len(column) for column in columns]).reshape(len(columns), -1)
    taken = tuple(column.take(pa.array(place)) for column, place in zip(columns, places, strict=True))
    return Rows(layout.key_schema, taken, places.shape[1])


def rows_of(table: StateTable, lookup: Lookup, at: At, schema: pa.Schema) -> Updates | None:
    """The rows that are looked up, stamped with a time; None if reading all rows is needed, or better.

    That is so if one of them has a negative count, so that the error is that of a full read.
    """
    if lookup.keys is None:
        count = row_count(table, lookup.arrangement, at)
        if count is None or count < 0:
            return None
        one = Rows(schema, tuple(pa.nulls(1, field.type) for field in schema), 1)
        updates = Updates(one, np.full((1, 1), at[0]), np.array([count], np.int64))
        return updates if count else Updates.empty(schema, 1)
    if not lookup.keys.count:
        return Updates.empty(schema, 1)
    if updates_with_key(table, lookup.arrangement, lookup.keys) > MOST_ROWS:
        return None
    updates = rows_with_key(table, lookup.arrangement, at, lookup.keys)
    if (updates.diffs < 0).any():
        return None
    return Updates(updates.rows.select(schema.names), updates.times, updates.diffs)


def inputs_of(state: StateOfViews, lookups: Sequence[Lookup], at: Mapping[str, At]) -> dict[str, Updates] | None:
    """The rows that are looked up, by source; None if views have to be read as a whole. Each view has a time in ``at``.

    That is so where a view has errors: how many of them a query meets depends on how it reads the view.
    """
    inputs: dict[str, Updates] = {}
    for view, time in at.items():
        if state.known(view).since > time[0] or stored_errors(state.table, state.ports(view), time).count:
            return None
    for lookup in lookups:
        updates = rows_of(state.table, lookup, at[lookup.view], state.ports(lookup.view).schema)
        if updates is None:
            return None
        inputs[lookup.source] = updates
    return inputs


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
