"""Queries that are answered once and need few rows: which rows of which views, and the answer over these rows alone.

What a query looks up follows from its plan, and from what is found: the keys that one side of a join has restrict the
other side. So a query is prepared once, and its lookups are made each time that it is asked, perhaps with other
constants for its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import pyarrow as pa
from pyarrow import types as pt

from altneu.collections.collection import Collection
from altneu.columnar.ranking import Order
from altneu.engine.catalogue import Stored, as_it_was
from altneu.engine.engine import Engine
from altneu.engine.reading import ASKED, StateOfViews
from altneu.expressions.expr import Literal
from altneu.linear import Filter, Project
from altneu.operators.base import Region, StepMode
from altneu.operators.linear.logic import run_logic
from altneu.order import Antichain
from altneu.plan import ir
from altneu.plan.physical import Plan
from altneu.plan.reads import (
    Reader,
    Values,
    column_read,
    is_row_by_row,
    read_of,
    separated,
    values_by_joins,
)
from altneu.plan.rewrite import optimise, without_indexes
from altneu.plan.rewrite.transform import replaced
from altneu.runtime.inputs import Inputs
from altneu.runtime.local import LocalExecutor
from altneu.runtime.outcome import Outcome
from altneu.runtime.read import At, contents
from altneu.runtime.state import StateTable
from altneu.store import MemoryStore
from altneu.trace.update import Updates
from altneu.views.contents import has_too_many_rows, stored_errors, table_of
from altneu.views.lookup import MOST_KEYS, MOST_ROWS, First, Lookup, few_of, lookup_of, rows_of

_FEWEST = 64  # updates of each batch in which the first rows of a query are looked for
_MORE = 8  # times as many, where they are not enough
_PLANS = 4  # lowered plans that are kept with a query

Lower = Callable[[ir.Node], Plan]
"""The plan of a query over the rows of its sources alone, for one shard."""


@dataclass(frozen=True)
class Found:
    """What a query looked up, by the names of its readers: the rows found, and what the readers make of them.

    ``readers`` have their constants.
    """

    readers: tuple[Reader, ...]
    lookups: tuple[Lookup, ...]
    inputs: Mapping[str, Updates]
    made: Mapping[str, Updates]


@dataclass(frozen=True)
class Answered:
    """The rows of a query from lookups."""

    table: pa.Table
    found: Found


@dataclass(frozen=True)
class Prepared:
    """A query over views as its lookups need it: each reader of a view has a source of its own.

    ``views`` are the views by the names of their sources, ``arrangements`` those of all rows of a view that there are.
    A source of which all rows are ``stored`` is like a view of it.
    ``first`` is how many rows are asked for, in which order, and ``numbers`` names, for the arrangements in that order,
    those of rows with negative counts. ``coordinates`` are the names of the two times of the query's rows, if they
    have two. Before ``since`` views that stand for a part of the query, not by their name, had other rows.
    """

    node: ir.Node
    readers: tuple[Reader, ...]
    views: Mapping[str, str]
    arrangements: Mapping[str, tuple[str, ...]]
    lower: Lower
    first: First | None = None
    numbers: Mapping[str, str | None] = field(default_factory=dict)
    coordinates: tuple[str, ...] | None = None
    stored: Mapping[str, Stored] = field(default_factory=dict)
    since: int = 0

    def found(
        self, state: StateOfViews, times: Mapping[str, At], constants: Sequence[Literal] = (), most: int | None = None
    ) -> tuple[Found, bool] | None:
        """The rows that the query needs, and whether these are all; None if views have to be read as a whole.

        Each view has a time in ``times``. With ``most``, and if the first rows suffice, so many updates of each batch
        are read at most.

        That is so where a view has errors: how many of them a query meets depends on how it reads the view.
        """
        for view, time in times.items():
            if view not in self.stored and state.known(view).since > time[0]:
                return None
            ports = self.stored[view].ports if view in self.stored else state.ports(view)
            if stored_errors(state.table, ports, time).count:
                return None
        readers = tuple(reader.with_constants(constants) for reader in self.readers) if constants else self.readers
        reads = {reader.name: read_of(reader) for reader in readers}
        lookups, inputs, made, complete = dict[str, Lookup](), dict[str, Updates](), dict[str, Updates](), True
        while len(inputs) < len(readers):
            if inputs or self._has_constants:
                by_joins = self._by_joins(readers, made, next(iter(times.values())))
                known = {name: reads[name].and_of(v) for name, v in by_joins.items() if reads[name].values is not None}
                reads |= known
            waiting = [reader for reader in readers if reader.name not in inputs]
            alike = {reader.name: self._alike(state, reader, times) for reader in waiting}
            chosen = list[tuple[Reader, Lookup]]()
            for reader in waiting:
                read = reads[reader.name]
                if read.is_partial or (self.first is not None and is_row_by_row(reader.node)):
                    lookup = lookup_of(read, self._title(reader), alike[reader.name], state.table, self.numbers.get)
                    if lookup is not None:
                        chosen.append((reader, lookup))
            if not chosen:
                chosen = [
                    (reader, lookup)
                    for reader in waiting
                    if (lookup := few_of(reads[reader.name], self._title(reader), alike[reader.name], state.table))
                ]
                if not chosen or len(chosen) == len(waiting):  # there is nothing large to be looked up by them
                    return None
            for reader, lookup in chosen:
                rows = rows_of(state.table, lookup, times[self.views[reader.source]], reader.node.input.schema, most)
                if rows is None or (own := _made(reader, rows[0])) is None:
                    return None
                lookups[reader.name], inputs[reader.name], made[reader.name] = lookup, rows[0], own
                complete &= rows[1]
        return Found(readers, tuple(lookups[reader.name] for reader in readers), inputs, made), complete

    def _alike(self, state: StateOfViews, reader: Reader, times: Mapping[str, At]) -> tuple[str, ...]:
        """The arrangements of all rows that a reader reads."""
        view = self.views[reader.source]
        names = self.arrangements[view]
        return names if view in self.stored else tuple(state.known(view).arrangements(names, times[view]))

    def _by_joins(self, readers: Sequence[Reader], made: Mapping[str, Updates], at: At) -> dict[str, Values]:
        """Values that rows of the other sources have if they matter, because of what was found."""
        by_joins = values_by_joins(self._over_made(readers), made.keys(), self._keys_of(made, at))
        wanted = dict[str, Values]()
        for reader in readers:
            values = by_joins.get(reader.name, {})
            if _is_plain(reader):  # these are values of what it makes
                values = {old: values[new] for new, old in reader.node.lineage(0).items() if new in values}
            if values:
                wanted[reader.name] = values
        return wanted

    def _title(self, reader: Reader) -> str:
        view = self.views[reader.source]
        return reader.source if view in self.stored else f"view {view}"

    def half_given(self, table: StateTable) -> list[str]:
        """The arrangements that cannot be looked up because the query requires values of some columns of a key only.

        Keys are hashed as a whole: rows with the same value of one column are not beside each other. What is arranged
        by all of its columns is left out, as nobody means to look rows up there.
        """
        notes = []
        for reader in self.readers:
            read, names = read_of(reader), self.arrangements[self.views[reader.source]]
            given = read.values or {}
            if lookup_of(read, "", names, table, self.numbers.get) is not None:
                continue
            for key in dict.fromkeys(table.layouts[name].key for name in names):
                missing = [column for column in key if column not in given]
                if 0 < len(missing) < len(key) < len(reader.node.input.schema):
                    by, none = ", ".join(key), " and ".join(missing)
                    notes.append(f"no lookup of {self._title(reader)} by ({by}): the query requires no value of {none}")
        return notes

    def node_of(self, found: Found) -> ir.Node:
        """The plan over sources that have the rows found, with its constants."""
        return _with_readers(self.node, self.readers, found.readers)

    @cached_property
    def _has_constants(self) -> bool:
        """Whether some rows of the plan are found before anything is looked up, as those of VALUES are."""
        return any(isinstance(node, ir.Constant) for node in ir.walk(self.node))

    @cached_property
    def _above(self) -> ir.Node:
        """The plan over what its plain readers make of rows: only readers have parameters, so it is planned once."""
        plain = [reader for reader in self.readers if _is_plain(reader)]
        sources = {reader.node.fingerprint: ir.Source(reader.name, reader.node.schema) for reader in plain}
        return sources.get(self.node.fingerprint) or replaced(self.node, sources)

    def _over_made(self, readers: Sequence[Reader]) -> ir.Node:
        """The plan over what readers, with their constants, make of rows."""
        others = [pair for pair in zip(self.readers, readers, strict=True) if not _is_plain(pair[0])]
        return _with_readers(self._above, *zip(*others, strict=True)) if others else self._above

    def _keys_of(self, made: Mapping[str, Updates], at: At) -> Callable[[ir.Node, Sequence[str]], Values]:
        def values_of(node: ir.Node, columns: Sequence[str]) -> Values:
            """The distinct values of columns that are not null, of a node whose sources are all found; of a few."""
            updates = self._updates(node, made, at)
            rows = None if updates is None else updates.rows
            plain = [] if rows is None else [name for name in columns if not pt.is_nested(rows.column(name).type)]
            values = {name: rows.column(name).unique().drop_null() for name in plain if rows is not None}
            return {name: among for name, among in values.items() if len(among) <= MOST_KEYS}

        return values_of

    def _updates(self, node: ir.Node, made: Mapping[str, Updates], at: At) -> Updates | None:
        """The rows of a node from what was found; None if any of it fails, or the rows are wrong."""
        if isinstance(node, ir.Source):
            return made[node.name]
        return computed(self.lower(node), made, at).updates(at)

    def answer(
        self, state: StateOfViews, times: Mapping[str, At], at: At, constants: Sequence[Literal] = ()
    ) -> Answered | None:
        """The rows at a time; None if views have to be read as a whole, or anything fails or has a negative count.

        Only a computation from whole views decides which errors there are. If the query has ``first``, they are only
        so many rows, or more.
        """
        most = None if self.first is None else max(self.first.count, _FEWEST)
        while True:
            found = self.found(state, times, constants, most)
            if found is None:
                return None
            answered = self._answered(found[0], at)
            if answered is None or found[1]:
                return answered
            assert most is not None
            if self.first is not None and answered.table.num_rows >= self.first.count:
                return answered
            most = most * _MORE if most * _MORE <= MOST_ROWS else None

    def _answered(self, found: Found, at: At) -> Answered | None:
        updates = self._updates(self._over_made(found.readers), found.made, at)
        return None if updates is None or _is_wrong(updates) else Answered(table_of(updates), found)


def prepared(engine: Engine, collection: Collection, first: First | None = None) -> Prepared | None:
    """How lookups may answer a query over a session's views; None if it reads what is no view, or times.

    A key is looked up if the query requires values of all of its columns, or if a join does: the side of which all
    rows are found has the keys of the other. It is the key of the view's contents, or of another arrangement of the
    same rows: an index, or one that a join or reduce keeps. Of an ordered arrangement only rows within bounds are read,
    and only the ``first`` rows if the query asks for no more.

    It holds until a view is added or dropped.
    """
    catalogue, existing = engine.catalogue, engine.journal.existing()
    if (over := catalogue.over_state(collection)) is None:
        return None
    node, views, stored = over

    def arrangements(view: str) -> list[str]:
        alike = stored[view].arrangements if view in stored else engine.arrangements(view)
        return [name for name in alike if name in existing]

    def lower(node: ir.Node) -> Plan:
        return catalogue.lowered_alone(ASKED, node)

    query = prepared_over(node, views, arrangements, engine.table, lower, first, catalogue.plan.below_zero)
    if query is None:
        return None
    since = catalogue.redefined(n for source, n in _contents(engine, query) if source != as_it_was(query.views[source]))
    return replace(query, coordinates=ir.coordinates(collection.node), stored=stored, since=since)


def _contents(engine: Engine, query: Prepared) -> Iterator[tuple[str, str]]:
    """The sources of a query that stand for views, and where the contents of these are."""
    for source, view in query.views.items():
        if view in engine.catalogue.nodes:
            yield source, engine.ports(view).contents


def prepared_over(
    node: ir.Node,
    views: Mapping[str, str],
    arrangements: Callable[[str], Iterable[str]],
    table: StateTable,
    lower: Lower,
    first: First | None = None,
    below_zero: Callable[[str], str | None] = lambda _: None,
) -> Prepared | None:
    """As ``prepared``, of a plan over sources that stand for ``views``, of which arrangements hold all rows."""
    if any(isinstance(below, ir.Source) and below.name not in views for below in ir.walk(node)):
        return None
    parts = separated(without_indexes(optimise(node)))
    if parts is None:
        return None
    root, readers = parts
    read = {reader.source: views[reader.source] for reader in readers}
    of_views = {view: tuple(arrangements(view)) for view in read.values()}
    wanted, numbers = _wanted_order(root, first), dict[str, str | None]()
    for name in (name for names in of_views.values() for name in names if wanted is not None):
        order = table.layouts[name].order
        numbers[name] = below_zero(name) if order and order[0] == wanted else None
    suffices = first if any(numbers.values()) else None
    return Prepared(root, readers, read, of_views, lru_cache(_PLANS)(lower), suffices, numbers)


def _wanted_order(root: ir.Node, first: First | None) -> Order | None:
    """The order of a source's rows in which the first rows of a query come from the first of these; None if unknown."""
    if first is None or not isinstance(root, ir.Linear) or not is_row_by_row(root):
        return None
    column = column_read(root, first.column)
    return None if column is None else (column, first.descending, first.nulls_first)


def _is_plain(reader: Reader) -> bool:
    """Whether its logic makes a row of a row, or leaves it out."""
    logic = reader.node.logic
    return not logic.delay and all(isinstance(step, Filter | Project) for step in logic.steps)


def _made(reader: Reader, rows: Updates) -> Updates | None:
    """What a plain reader makes of rows, and what another one is given; None if a row fails."""
    if not _is_plain(reader):
        return rows
    made, errors = run_logic(reader.node.logic, rows)
    return None if len(errors) else made


def _with_readers(root: ir.Node, old: Sequence[Reader], new: Sequence[Reader]) -> ir.Node:
    """A plan with other readers in the places of its own."""
    pairs = [pair for pair in zip(old, new, strict=True) if pair[0] is not pair[1]]
    instead: dict[str, ir.Node] = {was.node.fingerprint: reader.node for was, reader in pairs}
    return (instead.get(root.fingerprint) or replaced(root, instead)) if instead else root


def _is_wrong(updates: Updates) -> bool:
    """Whether a row has a negative count, or they are too many for a table."""
    return bool((updates.diffs < 0).any()) or has_too_many_rows(updates)


@dataclass(frozen=True)
class Computed:
    """The state of a query that was computed from given rows."""

    plan: Plan
    table: StateTable
    outcome: Outcome

    def updates(self, at: At) -> Updates | None:
        """The rows at a time; None if an operator failed, a row has a negative count, or they are too many."""
        ports = self.plan.views[ASKED]
        updates = contents(self.table, ports.contents, at)
        return None if stored_errors(self.table, ports, at).count or _is_wrong(updates) else updates


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
