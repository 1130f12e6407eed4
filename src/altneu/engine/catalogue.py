"""A session's views and sources by name, and the one plan that computes all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from altneu.collections.collection import Collection
from altneu.engine.planning import Planner
from altneu.engine.recent import Recent
from altneu.engine.releasing import Releasing
from altneu.engine.sources import SourceColumns, declaration_of, retained_source, source_of, sources_of
from altneu.errors import PlanError, StorePlanError
from altneu.errors.nearest import listed
from altneu.linear import BoundLogic
from altneu.operators.lowering import arrangement_id
from altneu.order import Lattice
from altneu.plan import ir
from altneu.plan.functions import checked
from altneu.plan.hydrate import Stored as StoredRows
from altneu.plan.lower import Growing, Options, Own, arrangement_name, lower
from altneu.plan.physical import Plan, ViewPorts
from altneu.plan.rewrite.transform import replaced
from altneu.runtime.described import (
    Described,
    is_changes_only,
    schema_from_text,
)
from altneu.runtime.journal import Journal

_PREPARED = 64  # queries that are remembered


@dataclass(frozen=True)
class Stored:
    """A source that no view shows but all of whose rows and errors (``ports``) are stored, because views read it."""

    ports: ViewPorts
    arrangements: tuple[str, ...]


class Catalogue:
    """The views of a session: ``nodes`` by the name of the view, and ``plan``, all of them lowered.

    A view that the store has already gets the plan with which it was computed, as the journal records it.
    """

    def __init__(self, journal: Journal, lattice: Lattice, *, check_functions: bool = False) -> None:
        self._journal, self._lattice, self._check_functions = journal, lattice, check_functions
        self.nodes: dict[str, ir.Node] = {}
        self.changes_only: set[str] = set()  # the views of which no contents are kept
        self.collections: dict[str, Collection] = {}  # the same, as they were written
        self._static: frozenset[str] = frozenset()  # sources that views declare so
        self._read: dict[str, dict[str, ir.Source]] = {}  # the sources of each view, as it was written
        self._by_name: dict[str, ir.Source] = {}  # the same, of all views
        self._written: dict[str, ir.Node] = {}  # plans of views by the fingerprints of what was written
        self.columns, self._releasing = SourceColumns(journal), Releasing(journal)
        self.planner = Planner(journal, self.columns, self.nodes, self.changes_only, self._written)
        self._growing = Growing(lattice)
        self.plan = Plan(lattice, ())
        if journal.kept:
            self.plan = self.lowered(journal.shards)
        self.unowned: set[str] = set()  # state of which nobody knows what it is
        self.prepared = Recent[Any](_PREPARED)  # what queries need, as of a plan, by what identifies a query

    @property
    def sources(self) -> dict[str, ir.Source]:
        """The sources of the views, including those that optimised plans no longer read."""
        return self.kept | self._by_name

    def source(self, name: str) -> ir.Source | None:
        """The source of this name, if there is one."""
        if name in self._by_name:
            return self._by_name[name]
        encoded = self._journal.kept.get(name)
        return None if encoded is None else source_of(name, encoded)

    @property
    def kept(self) -> dict[str, ir.Source]:
        """The sources whose rows are stored until they are dropped, whether a view reads them or not."""
        return {name: source_of(name, encoded) for name, encoded in self._journal.kept.items()}

    def called(self, node: ir.Node) -> dict[str, str]:
        """The sources of a plan as arguments of ``session.backfill``: the name, or the declaration."""
        known = self.sources
        sources = [n for n in ir.walk(node) if isinstance(n, ir.Source) and not (n.coordinates or n.commanded_by)]
        return {n.name: repr(n.name) if n.name in known else declaration_of(n) for n in sources}

    def readers(self, source: str) -> list[str]:
        """The views that read a source."""
        return [name for name, read in self._read.items() if source in read]

    def reading(self, source: str) -> list[str]:
        """The views that read a source, and those of the store that are known to and are not maintained yet."""
        stored = {name: self._journal.views[name].get("kept") for name in self.waiting()}
        waiting = [name for name, told in stored.items() if told is not None and source in told.get("sources", ())]
        return [*self.readers(source), *waiting]

    def lowered(
        self,
        shards: int,
        *,
        more: dict[str, ir.Node] | None = None,
        less: str | None = None,
        without: Iterable[str] = (),
        changes_only: Iterable[str] = (),
        also: Iterable[ir.Source] = (),
        release: Iterable[str] = (),
        own: Mapping[str, Own | None] = MappingProxyType({}),
    ) -> Plan:
        """The plan of all views and stored sources for a number of shards, with one view more or less.

        ``without`` names stored sources that are about to be dropped, ``also`` are further sources to store;
        ``changes_only`` names the views of ``more`` without contents; ``release`` arrangements that are not to be
        stored any more, beside those that are not already; ``own`` the contents of views that are redefined.
        """
        nodes = {name: node for name, node in self.nodes.items() if name != less}
        sources = [*(source for name, source in self.kept.items() if name not in without), *also]
        nodes |= more or {}
        earlier = self.columns.earlier(*nodes.values())
        if self._check_functions:
            nodes = {name: checked(node) for name, node in nodes.items()}
        without_contents = self.changes_only.union(changes_only)
        options = Options(shards, frozenset(without_contents), self._errors_show_all(nodes), earlier, self._own(own))
        plan = self._growing.lower(nodes, options, sources, new=more or {})
        return self._releasing.released(plan, nodes.values(), sources, release, more or {})

    def _own(self, more: Mapping[str, Own | None]) -> dict[str, Own]:
        """The contents of views that were redefined, and are not what their plans make from the start (None)."""
        stored = {name: view["own"] for name, view in self._journal.views.items() if "own" in view}
        known = {n: Own(o["origin"], tuple(o["key"]), schema_from_text(o["schema"])) for n, o in stored.items()}
        return {name: contents for name, contents in {**known, **more}.items() if contents is not None}

    def redefined(self, arrangements: Iterable[str]) -> int:
        """The time from which on some arrangements have rows of the present plans of views; 0 if they always had."""
        stored = [view["own"] for view in self._journal.views.values() if "own" in view]
        since = {arrangement_id(own["origin"], tuple(own["key"])): own["since"] for own in stored}
        return max((since.get(name, 0) for name in arrangements), default=0) if since else 0

    def redefined_after(self, time: int) -> dict[str, StoredRows]:
        """The views that were redefined after a time, and where the rows are that each had then.

        What such a view is made of now says nothing of what it was: a query of then reads it by its name.
        """
        since = {name: view["own"]["since"] for name, view in self._journal.views.items() if "own" in view}
        found = dict[str, StoredRows]()
        for name in [n for n, when in since.items() if time < when and n in self.nodes]:
            ports = self.plan.views[name]
            layout = self.plan.layouts[ports.contents]
            found[name] = StoredRows(as_it_was(name), ports.contents, layout, BoundLogic(()))
        return found

    def unlike(self, time: int) -> frozenset[str]:
        """The arrangements that did not have, at a time, the rows of the plan that makes them now.

        They are the contents of views that were redefined later, and what views have that were computed from these.
        """
        views = self._journal.views
        changed = {found.arrangement for found in self.redefined_after(time).values()}
        late = {name for name in self.nodes if views[name].get("since", 0) > time}
        if late:
            shared = {n for other in self.nodes if other not in late for n in self.plan.arrangements_of(other)}
            shared |= {*self._journal.states_of_sources(self._journal.kept)}
            changed |= {n for name in late for n in self.plan.arrangements_of(name)} - shared
        return frozenset(changed)

    def _errors_show_all(self, nodes: Mapping[str, ir.Node]) -> frozenset[str]:
        """The linear nodes of views that earlier builds stored: their errors show all columns that a row came with.

        They go on to do so in views that share them, also when the earlier views are dropped.
        """
        stored = [(self._journal.views[name], node) for name, node in nodes.items() if name in self._journal.views]
        earlier = _above_sources(*(node for view, node in stored if "errors" not in view))
        return earlier.union(*(view.get("whole_errors", ()) for view, _ in stored))

    def whole_errors(self, node: ir.Node) -> list[str]:
        """The linear nodes that a new view shares with views that earlier builds stored."""
        return sorted(_above_sources(node) & self._errors_show_all(self.nodes))

    def releasable(self) -> frozenset[str]:
        """The arrangements that nobody looks up any more, that are still stored, and that may grow."""
        return self._releasing.releasable(self.plan, self.nodes.values(), self.kept.values)

    def adopt(self, shards: int) -> None:
        """Find the sources whose state an earlier version of altneu left behind when their last view was dropped.

        It did not record which sources are stored; the name of their state follows from their name and columns.
        """
        table, views = self._journal.table, self._journal.views.values()
        owned = {*self.plan.arrangements, *(name for view in views for name in view["arrangements"])}
        unowned = {name for name, _ in (*table.live, *table.stored)} - owned
        if not unowned:
            return
        columns = {name: table.columns_of(name) for name in unowned}
        for arrangement, schema in columns.items():
            candidates = [] if schema is None else [ir.Source(name, schema, True) for name in self._journal.filled]
            for source in candidates:
                if arrangement_name(source, tuple(source.schema.names)) == arrangement:
                    self._journal.keep({source.name: retained_source(source)})
        self.plan = self.lowered(shards)
        self._journal.remove([name for name, schema in columns.items() if schema is None])
        self.unowned = {name for name, schema in columns.items() if schema is not None} - self.plan.arrangements.keys()

    def refuse_unowned(self, *, waiting: bool) -> None:
        """Refuse to continue if there is state that belongs to no view; with ``waiting``, only if its rows become due.

        Raises:
            StorePlanError: there is such state; the message names it.
        """
        if not self.unowned:
            return
        unowned = self.unowned - self.plan.arrangements.keys()
        if waiting:
            unowned &= {name for name, _ in self._journal.table.future}
        if unowned:
            raise StorePlanError(
                f"the store has the state {min(unowned)!r}, which belongs to no view: an earlier version kept it for a "
                "source with keep=True and two times whose last view was dropped; maintain a view of that source, "
                "declared as it was then, and the state belongs to the source again"
            )

    def is_read(self, source: str) -> bool:
        """Whether a view reads a source, also one of the store that is not maintained yet, or its rows are kept."""
        stored = [view.get("kept") for name, view in self._journal.views.items() if name not in self.nodes]
        waiting = any(told is None or source in told.get("sources", [source]) for told in stored)
        return waiting or source in self.sources

    def ports(self, name: str) -> ViewPorts:
        """Where a view's contents and errors are kept.

        Raises:
            PlanError: there is no such view, or its plan is not known yet.
        """
        if name not in self.nodes:
            if name in self._journal.views:
                raise PlanError(f"the store has a view {name!r}, but not its query; maintain({name!r}, ...) it first")
            raise PlanError(f"no view {name!r}; the views are: {listed(name, self.nodes)}")
        return self.plan.views[name]

    def waiting(self) -> list[str]:
        """The views of the store that the session does not maintain yet."""
        return [name for name in self._journal.views if name not in self.nodes]

    def check_contents(self, name: str, *, contents: bool) -> None:
        """Refuse a view whose ``contents`` differ from those that it has already.

        Raises:
            PlanError: this session maintains it otherwise.
            StorePlanError: the store has it otherwise.
        """
        stored = self._journal.views.get(name)
        if name in self.nodes:
            without = name in self.changes_only
        elif stored is not None:
            without = is_changes_only(stored.get("kept"))
        else:
            return
        if without == contents:
            error = PlanError if name in self.nodes else StorePlanError
            raise error(
                f"view {name!r} is maintained {'without' if without else 'with'} contents, and maintain({name!r}, ..., "
                f"contents={contents}) cannot change that; leave it as it is, or drop({name!r}) and maintain it again"
            )

    def read_by(self, name: str) -> frozenset[str]:
        """The names of the sources that a view reads."""
        return frozenset(self._read[name])

    def over_state(self, collection: Collection) -> tuple[ir.Node, dict[str, str], dict[str, Stored]] | None:
        """A collection's plan in which views are sources of their rows, as are sources of which all rows are stored.

        Returns the plan; for each source that stands for a view, the name of the view; and for each stored source,
        named by its fingerprint, where its rows and errors are. None if the plan reads any other source.
        """
        views = {f"view {name}": name for name in self.nodes if name not in self.changes_only}
        if any(isinstance(below, ir.Source) and below.name in views for below in ir.walk(collection.node)):
            return None  # it could be taken for the view
        own = {name: view["own"]["since"] for name, view in self._journal.views.items() if "own" in view}
        by_since = sorted(views.items(), key=lambda named: -own.get(named[1], 0))  # of equal views the longest known
        written = {source: self.collections[name].node for source, name in by_since}
        sources: dict[str, ir.Node] = {n.fingerprint: ir.Source(source, n.schema) for source, n in written.items()}
        node, existing = replaced(collection.node, sources), self._journal.existing()
        views |= {as_it_was(name): name for name in own if name in self.nodes}
        of_views, stored = {source.fingerprint for source in sources.values()}, dict[str, Stored]()
        of_views |= {n.fingerprint for n in ir.walk(node) if isinstance(n, ir.Source) and n.name in views}
        for below in [n for n in ir.walk(node) if isinstance(n, ir.Source) and n.fingerprint not in of_views]:
            whole = [name for name in self.plan.arrangements_with(below.fingerprint, below.schema) if name in existing]
            ports = lower({below.name: below}, self._lattice).views[below.name]
            if not whole or not existing.issuperset(ports.errors):
                return None
            sources[below.fingerprint] = ir.Source(f"source {below.name}", below.schema)
            views[f"source {below.name}"] = below.fingerprint
            stored[below.fingerprint] = Stored(ports, tuple(whole))
        return replaced(collection.node, sources), views, stored

    def lowered_alone(self, name: str, node: ir.Node) -> Plan:
        """The plan of one collection for one shard, without the views of the session."""
        return lower({name: checked(node) if self._check_functions else node}, self._lattice, 1)

    def check_sources(self, collection: Collection) -> None:
        """Refuse a source with two different declarations.

        Raises:
            PlanError: there is one; the message names it.
        """
        sources = self.sources
        for source in map(self.columns.present, sources_of(collection)):
            if sources.setdefault(source.name, source).fingerprint != source.fingerprint:
                if source.name in self.kept and not self.readers(source.name):
                    raise PlanError(
                        f"the session keeps rows of source {source.name!r} under another declaration: it must be "
                        f"{declaration_of(sources[source.name])}; declare it so, or call "
                        f"session.drop_source({source.name!r}) to delete these rows"
                    )
                raise PlanError(
                    f"source {source.name!r} is declared twice, with different columns, times, key=, distinct=, "
                    "append_only=, weight= or keep=; declare it once and use that"
                )

    def add(self, name: str, collection: Collection, node: ir.Node, plan: Plan) -> None:
        """Add a view; ``plan`` is the plan of all views with it."""
        if plan.views[name].changes_only:
            self.changes_only.add(name)
        self.nodes[name], self.plan = node, plan
        self.collections[name] = collection
        self._read[name] = {source.name: self.columns.present(source) for source in sources_of(collection)}
        self._by_name |= self._read[name]
        self._note_static()
        self._written[collection.node.fingerprint] = node

    def remove(self, name: str, plan: Plan) -> None:
        """Remove a view; ``plan`` is that of the others."""
        self.nodes.pop(name, None)
        self.changes_only.discard(name)
        self.collections.pop(name, None)
        self._read.pop(name, None)
        self._by_name = {source: node for read in self._read.values() for source, node in read.items()}
        self._note_static()
        self.plan = plan

    @property
    def static(self) -> frozenset[str]:
        """The sources that are closed by the first step that has rows of them."""
        if not self._journal.kept:
            return self._static
        stored = [name for name, source in self._journal.kept.items() if "static" in source]
        return self._static.union(stored) if stored else self._static

    def columns_changed(self, plan: Plan) -> None:
        """Take up the present columns of sources; ``plan`` is made with them."""
        read = {view: [*sources.values()] for view, sources in self._read.items()}
        self._read = {
            view: {source.name: self.columns.present(source) for source in some} for view, some in read.items()
        }
        self._by_name = {name: source for sources in self._read.values() for name, source in sources.items()}
        self.plan = plan

    def _note_static(self) -> None:
        sources = (source for read in self._read.values() for source in read.values())
        self._static = frozenset(source.name for source in sources if source.static)


def as_it_was(name: str) -> str:
    """The source that stands for a view before it was redefined."""
    return f"view {name}, as it was"


def _above_sources(*nodes: ir.Node) -> frozenset[str]:
    """The linear nodes of some plans that read a source."""
    found = (node for node in ir.walk(*nodes) if isinstance(node, ir.Linear) and isinstance(node.input, ir.Source))
    return frozenset(node.fingerprint for node in found)


def described(plan: Plan, name: str, node: ir.Node) -> Described:
    """The description of a view for readers, which do not have its plan."""
    ports, errors = plan.views[name], {*plan.views[name].errors}
    known = {own: plan.collection_of(own) for own in (ports.contents, *plan.arrangements_of(name)) if own not in errors}
    rows = {own: collection for own, collection in known.items() if collection}
    below_zero = {own: number for own in rows if (number := plan.below_zero(own)) is not None}
    told = (ports.contents, *ports.errors, *rows, *below_zero.values())
    layouts = {own: plan.layouts[own] for own in told}
    return Described(ports, layouts, ir.coordinates(node), rows, below_zero, plan.sources_of(name))
