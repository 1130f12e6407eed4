"""The views of a session as plans: the choice of each view's plan, and the one plan of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from altneu.collections.collection import Collection
from altneu.engine.recent import Recent
from altneu.errors import PlanError, StorePlanError
from altneu.linear import BoundLogic, Function
from altneu.operators.lowering import arrangement_id
from altneu.operators.source.lowering import commands_name
from altneu.order import Lattice
from altneu.plan import ir
from altneu.plan.collated import refuse_collated_keys
from altneu.plan.functions import aliases, changes, checked, functions_of, with_functions
from altneu.plan.hydrate import Stored as StoredRows
from altneu.plan.lower import Own, arrangement_name, lower
from altneu.plan.physical import Plan, ViewPorts
from altneu.plan.rewrite import (
    NEWER,
    Choices,
    Exists,
    Joins,
    Rule,
    Sizes,
    chosen_joins,
    optimise,
    share_orders,
    with_orders,
    without_indexes,
)
from altneu.plan.rewrite.earlier import without_needs
from altneu.plan.rewrite.transform import replaced
from altneu.plan.static import releasable, released
from altneu.plan.versions import Earlier, Versions, earlier, over_earliest
from altneu.runtime.described import (
    Described,
    is_changes_only,
    schema_from_text,
    schema_to_text,
    versions_from_json,
    versions_to_json,
)
from altneu.runtime.journal import Journal
from altneu.runtime.stored import StoredSource, StoredVersion, StoredVersions
from altneu.types import to_ddl

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
        self._releasable: tuple[tuple[Plan, frozenset[str]], Mapping[str, frozenset[str]]] | None = None
        self._read: dict[str, dict[str, ir.Source]] = {}  # the sources of each view, as it was written
        self._by_name: dict[str, ir.Source] = {}  # the same, of all views
        self.plan = Plan(lattice, ())
        if journal.kept:
            self.plan = self.lowered(journal.shards)
        self.unowned: set[str] = set()  # state of which nobody knows what it is
        self._written: dict[str, ir.Node] = {}  # plans of views by the fingerprints of what was written
        self._known_as: dict[str, str] = {}  # the digests that the store has for functions, by their own
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
        return None if encoded is None else _source_of(name, encoded)

    @property
    def kept(self) -> dict[str, ir.Source]:
        """The sources whose rows are stored until they are dropped, whether a view reads them or not."""
        return {name: _source_of(name, encoded) for name, encoded in self._journal.kept.items()}

    def called(self, node: ir.Node) -> dict[str, str]:
        """The sources of a plan as arguments of ``session.backfill``: the name, or the declaration."""
        known = self.sources
        sources = [n for n in ir.walk(node) if isinstance(n, ir.Source) and not (n.coordinates or n.commanded_by)]
        return {n.name: repr(n.name) if n.name in known else _declared(n) for n in sources}

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
        earlier = self.earlier(*nodes.values())
        if self._check_functions:
            nodes = {name: checked(node) for name, node in nodes.items()}
        without_contents = {*self.changes_only, *changes_only}
        plan = lower(
            nodes,
            self._lattice,
            shards,
            sources,
            without_contents,
            self._errors_show_all(nodes),
            earlier,
            self._own(own),
        )
        if not self._journal.closed:
            return plan
        plan = replace(plan, closed=self._journal.closed)
        known = releasable(plan, _kept_as(nodes.values(), sources))
        gone = (self._journal.released | set(release)) & self._ready(known)
        return released(plan, gone - self._may_wait(plan, known, more or {}))

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
        """The arrangements that nobody looks up any more, that are still stored, and that may grow.

        What is static stays, so that views that are added later find it.
        Cost:   nothing without closed sources; else the plan is looked at once, and then what waits.
        """
        if not self._journal.closed:
            return frozenset()
        made_for = self.plan, self._journal.closed
        if self._releasable is None or any(a is not b for a, b in zip(self._releasable[0], made_for, strict=True)):
            plan = replace(self.plan, closed=self._journal.closed)
            known = releasable(plan, _kept_as(self.nodes.values(), self.kept.values()))
            growing = {n: states for n, states in known.items() if not plan.is_static(plan.arrangements[n])}
            self._releasable = made_for, growing
        known = self._releasable[1]
        return self._ready(known) if known else frozenset()

    def _ready(self, known: Mapping[str, frozenset[str]]) -> frozenset[str]:
        """Those of the arrangements on whose other inputs no update waits."""
        waiting = {name for name, _ in self._journal.table.future}
        return frozenset(name for name, states in known.items() if waiting.isdisjoint(states))

    def _may_wait(self, plan: Plan, known: Mapping[str, frozenset[str]], views: Iterable[str]) -> frozenset[str]:
        """Those of the arrangements in new views on whose other inputs updates may wait once the views are filled.

        Of a static collection that is delayed, say, there are updates of later times when a view comes that delays it.
        """
        new = [view for view in views if view not in self._journal.views]
        if not new:
            return frozenset()
        existing = self._journal.existing()
        theirs = {name for view in new for name in plan.arrangements_of(view)}
        return frozenset(name for name, states in known.items() if name in theirs and not states <= existing)

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

    # columns of sources -----------------------------------------------------------------------------------------------

    @property
    def versions(self) -> dict[str, Versions]:
        """The columns that each source has and had, as far as that is recorded."""
        return {name: _versions(stored) for name, stored in self._journal.versions.items()}

    def versions_of(self, source: ir.Source) -> Versions:
        """The columns that a source has and had: those that are recorded, or its own."""
        stored = self._journal.versions.get(source.name)
        return Versions.of(source.schema) if stored is None else _versions(stored)

    def present(self, source: ir.Source) -> ir.Source:
        """A source with its present columns; as it is where its columns were never those of the recorded one."""
        versions = self.versions_of(source)
        return versions.as_of(versions.present, source)

    def earlier(self, *nodes: ir.Node) -> dict[str, Earlier]:
        """The sources of some plans that have earlier columns, by their fingerprints."""
        changed = {name: _versions(v) for name, v in self._journal.versions.items() if len(v["versions"]) > 1}
        return earlier(nodes, changed) if changed else {}

    def know(self, collection: Collection) -> None:
        """Have the next commit tell the columns of a collection's sources that no commit has told."""
        new = [source for source in sources_of(collection) if source.name not in self._journal.versions]
        self._journal.know({source.name: versions_to_json(Versions.of(source.schema)) for source in new})

    def is_read(self, source: str) -> bool:
        """Whether a view reads a source, also one of the store that is not maintained yet, or its rows are kept."""
        stored = [view.get("kept") for name, view in self._journal.views.items() if name not in self.nodes]
        waiting = any(told is None or source in told.get("sources", [source]) for told in stored)
        return waiting or source in self.sources

    def retained_sources(self, node: ir.Node) -> dict[str, StoredSource]:
        """The records of the stored sources that a view's plan reads, with their present columns, by name."""
        sources = [below for below in ir.walk(node) if isinstance(below, ir.Source) and below.keep]
        return {source.name: retained_source(self.present(source)) for source in sources}

    def _rewritten(self, node: ir.Node, without: Sequence[Rule] = ()) -> ir.Node:
        """A plan as rules make it, over the earliest columns of its sources that have what it reads."""
        rewritten = optimise(node, without)
        changed = {name: _versions(v) for name, v in self._journal.versions.items() if len(v["versions"]) > 1}
        over = over_earliest(node, rewritten, changed) if changed else node
        return without_indexes(rewritten if over is node else optimise(over, without))

    def ports(self, name: str) -> ViewPorts:
        """Where a view's contents and errors are kept.

        Raises:
            PlanError: there is no such view, or its plan is not known yet.
        """
        if name not in self.nodes:
            if name in self._journal.views:
                raise PlanError(f"the store has a view {name!r}, but not its query; maintain({name!r}, ...) it first")
            raise PlanError(f"no view {name!r}; the views are: {', '.join(self.nodes) or '(none)'}")
        return self.plan.views[name]

    def waiting(self) -> list[str]:
        """The views of the store that the session does not maintain yet."""
        return [name for name in self._journal.views if name not in self.nodes]

    def chosen(self, name: str, collection: Collection, joins: Joins) -> tuple[ir.Node, Choices]:
        """A view's plan and what was chosen for it: as stored if the collection is the same, else the best at present.

        Raises:
            PlanError: the name is taken by another collection.
            StorePlanError: the store holds another plan under this name.
        """
        node, choices = self._optimised(name, collection, joins)
        if name in self.nodes and self.nodes[name].fingerprint != node.fingerprint:
            raise PlanError(
                f"this session maintains another collection as {name!r}; choose another name, or drop it first"
            )
        stored = self._journal.views.get(name)
        if name not in self.nodes and stored is not None and stored["fingerprint"] != node.fingerprint:
            raise StorePlanError(
                f"the store holds another plan for view {name!r} (its query, a function, a schema or keep= of a "
                f"source has changed, or it was computed from a view that is to be maintained before it); "
                f"session.drop({name!r}) forgets its state, or open another path"
            )
        return node, choices

    def is_other(self, name: str, collection: Collection, joins: Joins) -> bool:
        """Whether there is a view of this name with another plan, or with functions that have changed since."""
        stored = self._journal.views.get(name)
        if stored is None:
            return False
        try:
            known = self.recognised(name, collection, joins)
        except StorePlanError:
            return True
        fingerprint = self.nodes[name].fingerprint if name in self.nodes else stored["fingerprint"]
        return self._optimised(name, known, joins)[0].fingerprint != fingerprint

    def is_known_with(self, name: str, collection: Collection, versions: Mapping[str, Versions]) -> bool:
        """Whether a collection is a stored view if its sources had these columns."""
        before = self._journal.versions
        self._journal.versions = {**before, **{source: versions_to_json(known) for source, known in versions.items()}}
        try:
            return not self.is_other(name, collection, "auto")
        finally:
            self._journal.versions = before

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

    def recognised(self, name: str, collection: Collection, joins: Joins, *, trust: bool = False) -> Collection:
        """The collection with its functions replaced by those that the store has recorded, if they are the same.

        A stored view is found by its plan without functions; these are then compared with their records, which stores
        of earlier versions lack.

        Raises:
            StorePlanError: the plan is the stored one except for functions that have changed, without ``trust``.
            UnsupportedFunctionError: a column with a collation is a key of an operator.
        """
        refuse_collated_keys(collection.node)
        known = self._renamed(collection, self._known_as)
        stored = self._journal.views.get(name)
        if stored is None or name in self.nodes:
            return known
        own = functions_of(collection.node)
        recorded = stored.get("functions")
        for names in aliases(own, recorded) if own else ():
            renamed = self._renamed(collection, names)
            if self._clash(names) or self._optimised(name, renamed, joins)[0].fingerprint != stored["fingerprint"]:
                continue
            if recorded is not None and not trust and (changed := changes(own, recorded)):
                raise StorePlanError(_changed_functions(name, changed))
            self._known_as |= names
            return renamed
        return known

    @staticmethod
    def _renamed(collection: Collection, names: dict[str, str]) -> Collection:
        def known(function: Function) -> Function:
            return function.known_as(names.get(function.digest, function.digest))

        return Collection(with_functions(collection.node, known)) if names else collection

    def _clash(self, names: dict[str, str]) -> bool:
        """Whether two functions would have the same name, which the store cannot have recorded."""
        taken = {stored: own for own, stored in self._known_as.items()}
        return any(taken.get(stored, own) != own for own, stored in names.items())

    def best(
        self, name: str, collection: Collection, joins: Joins, sizes: Sizes | None = None
    ) -> tuple[ir.Node, Choices]:
        """The best plan at present, and what was chosen for it.

        With ``sizes``, which tell how many rows come first, as if there were no view of this name.
        """
        node = self._rewritten(collection.node)
        joined, choices = chosen_joins(node, self._exists(None if sizes is None else name), joins, sizes)
        shared, orders = share_orders(joined, [node for other, node in self.nodes.items() if other != name])
        return shared, replace(choices, orders=orders)

    def _optimised(self, name: str, collection: Collection, joins: Joins) -> tuple[ir.Node, Choices]:
        if joins not in ("auto", "delta", "binary"):
            raise PlanError(f'joins must be "auto", "delta" or "binary", got {joins!r}')
        chosen = shared, _ = self.best(name, collection, joins)
        stored = self._journal.views.get(name)
        if stored is None or shared.fingerprint == stored["fingerprint"]:
            return chosen
        others = list[tuple[ir.Node, Choices]]()  # what was worth it then need not be so now, and some rules came later
        for written in (collection.node, without_needs(collection.node)):
            for newer in ((), *NEWER):
                for policy in (Choices(stored["delta"], turns={**stored.get("turns", {})}), joins):
                    joined, choices = chosen_joins(self._rewritten(written, newer), self._exists(), policy)
                    orders = stored.get("orders", {})
                    others.append((with_orders(joined, orders), replace(choices, orders=orders)))
        if (upon := self.upon_views(collection)) is not None:
            others.append((upon, Choices()))
        return next((other for other in others if other[0].fingerprint == stored["fingerprint"]), chosen)

    def _exists(self, less: str | None = None) -> Exists:
        existing = self._journal.existing(less)
        return lambda part, key: arrangement_name(part, key) in existing

    def read_by(self, name: str) -> frozenset[str]:
        """The names of the sources that a view reads."""
        return frozenset(self._read[name])

    def upon_views(self, collection: Collection) -> ir.Node | None:
        """A collection's plan upon the state of views, its own part unoptimised; None if it reads no view.

        The optimised plan of the whole may need rows that only the sources had, because rules move a filter below a
        view's reduce, or prune an unused column there.
        """
        with_contents = [node for name, node in self.nodes.items() if name not in self.changes_only]
        by_node = {written: node for written, node in self._written.items() if node in with_contents}
        if not any(below.fingerprint in by_node for below in ir.walk(collection.node)):
            return None
        return without_indexes(replaced(collection.node, by_node))

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
        for source in map(self.present, sources_of(collection)):
            if sources.setdefault(source.name, source).fingerprint != source.fingerprint:
                if source.name in self.kept and not self.readers(source.name):
                    raise PlanError(
                        f"the session keeps rows of source {source.name!r} under another declaration: it must be "
                        f"{_declared(sources[source.name])}; declare it so, or call "
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
        self._read[name] = {source.name: self.present(source) for source in sources_of(collection)}
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
        self._read = {view: {source.name: self.present(source) for source in some} for view, some in read.items()}
        self._by_name = {name: source for sources in self._read.values() for name, source in sources.items()}
        self.plan = plan

    def _note_static(self) -> None:
        sources = (source for read in self._read.values() for source in read.values())
        self._static = frozenset(source.name for source in sources if source.static)


def as_it_was(name: str) -> str:
    """The source that stands for a view before it was redefined."""
    return f"view {name}, as it was"


def _changed_functions(name: str, changed: list[str]) -> str:
    return (
        f"functions of view {name!r} have changed since it was stored: {'; '.join(changed)}. "
        "Retractions must remove the rows that the stored functions made. Restore the functions; or call "
        f"session.drop({name!r}) and maintain the view again; or, if each function returns for every row what it "
        f"returned before, maintain({name!r}, ..., trust_functions=True)"
    )


def _versions(stored: StoredVersions) -> Versions:
    return _versions_of(tuple((v["schema"], tuple(v["numbers"])) for v in stored["versions"]), _items(stored))


def _items(stored: StoredVersions) -> tuple[tuple[str, str], ...]:
    return tuple(stored.get("defaults", {}).items())


@lru_cache(maxsize=1024)
def _versions_of(versions: tuple[tuple[str, tuple[int, ...]], ...], defaults: tuple[tuple[str, str], ...]) -> Versions:
    told = [StoredVersion(schema=schema, numbers=list(numbers)) for schema, numbers in versions]
    return versions_from_json(StoredVersions(versions=told, defaults=dict(defaults)))


@lru_cache(maxsize=1024)
def _source(
    name: str,
    schema: str,
    keep: bool,
    coordinates: tuple[str, ...],
    key: tuple[str, ...],
    distinct: bool,
    static: bool,
    append_only: bool,
    weight: ir.SourceWeight | None,
) -> ir.Source:
    times: Any = coordinates or None
    return ir.Source(name, schema_from_text(schema), keep, times, key or None, distinct, static, append_only, weight)


def _source_of(name: str, encoded: StoredSource) -> ir.Source:
    """A stored source, from its record in a commit."""
    key, coordinates = tuple(encoded.get("key", ())), tuple(encoded["coordinates"])
    marks = ("distinct" in encoded, "static" in encoded, "append_only" in encoded)
    stored = encoded.get("weight")
    weight = None if stored is None else ir.SourceWeight(tuple(stored["columns"]), stored["text"], stored["group"])
    return _source(name, encoded["schema"], encoded.get("keep", True), coordinates, key, *marks, weight)


def _declared(source: ir.Source) -> str:
    """The declaration of a stored source."""
    keep, times = ", keep=True" * source.keep, "" if source.coordinates is None else f", time={source.coordinates}"
    by = f", key={list(source.key)}" if source.key else ", distinct=True" * source.distinct
    more = ", append_only=True" * source.append_only
    if source.weight is not None:
        more += f", weight={source.weight.text}"
    return f"an.source({source.name!r}, {to_ddl(source.schema)!r}{keep}{times}{by}{more})"


def _above_sources(*nodes: ir.Node) -> frozenset[str]:
    """The linear nodes of some plans that read a source."""
    found = (node for node in ir.walk(*nodes) if isinstance(node, ir.Linear) and isinstance(node.input, ir.Source))
    return frozenset(node.fingerprint for node in found)


def _kept_as(nodes: Iterable[ir.Node], sources: Iterable[ir.Source]) -> set[str]:
    """The arrangements of all rows of stored sources, and of those that plans declare so."""
    declared = [node for node in ir.walk(*nodes) if isinstance(node, ir.Source) and node.keep]
    return {retained_source(source)["arrangement"] for source in (*sources, *declared)}


def retained_source(source: ir.Source) -> StoredSource:
    """The record of a source whose rows are stored, also of one that is declared without ``keep``."""
    name = arrangement_name(source, source.commanded_by or tuple(source.schema.names))
    assert name is not None  # no source is in a loop
    description: StoredSource = {
        "schema": schema_to_text(source.schema),
        "coordinates": list(source.coordinates or ()),
        "arrangement": name,
    }
    if source.commanded_by is not None:
        description["commands"] = commands_name(source)
        if source.key:
            description["key"] = list(source.key)
        else:
            description["distinct"] = True
    if not source.keep:
        description["keep"] = False
    if source.static:
        description["static"] = True
    if source.append_only:
        description["append_only"] = True
    if source.weight is not None:
        columns, text, group = list(source.weight.columns), source.weight.text, source.weight.group
        description["weight"] = {"columns": columns, "text": text, "group": group}
    return description


def sources_of(collection: Collection) -> list[ir.Source]:
    """The sources of a collection, each as often as it is declared otherwise."""
    return [below for below in ir.walk(collection.node) if isinstance(below, ir.Source)]


def described(plan: Plan, name: str, node: ir.Node) -> Described:
    """The description of a view for readers, which do not have its plan."""
    ports, errors = plan.views[name], {*plan.views[name].errors}
    known = {own: plan.collection_of(own) for own in (ports.contents, *plan.arrangements_of(name)) if own not in errors}
    rows = {own: collection for own, collection in known.items() if collection}
    below_zero = {own: number for own in rows if (number := plan.below_zero(own)) is not None}
    told = (ports.contents, *ports.errors, *rows, *below_zero.values())
    layouts = {own: plan.layouts[own] for own in told}
    return Described(ports, layouts, ir.coordinates(node), rows, below_zero, plan.sources_of(name))


def refuse_events(name: str, node: ir.Node) -> None:
    """Refuse to compact event times where rows have several, or where these are delayed of what comes from state.

    An event time before those retained counts as the first of them, and a delay of that is another than its own delay:
    a row would be retracted at another event time than it was inserted at. Rows of sources have their own.

    Raises:
        PlanError: a view does so; names the view, and the times or the delay.
    """
    if (names := ir.coordinates(node)) is not None and len(names) > 2:
        raise PlanError(
            f"view {name!r} has the times {' and '.join(names)}, and retain_events compacts one event time: open the "
            "session without it"
        )
    exact = dict[str, bool]()  # by fingerprint: rows of sources, one by one
    for below in ir.walk(node):
        exact[below.fingerprint] = isinstance(below, ir.Source | ir.Linear | ir.Concat | ir.Constant) and all(
            exact.get(one.fingerprint, False) for one in below.inputs
        )
        if isinstance(below, ir.Linear) and below.logic.delay.moves_events and not exact[below.input.fingerprint]:
            raise PlanError(
                f"view {name!r} delays event times ({below.logic.delay}) of {below.input.title}, and retain_events "
                "compacts them: delay the rows of the sources before anything else, or open the session without "
                "retain_events"
            )


def check_maintained(name: object, collection: object) -> None:
    """Check the arguments of ``maintain``.

    Raises:
        PlanError: the collection is not one, or is differentiated; or the name is not a name.
    """
    if not isinstance(collection, Collection):
        raise PlanError(
            f"maintain needs a collection, such as an.source(...) or the result of its verbs, got {collection!r}"
            + ("; " + instead if (instead := getattr(type(collection), "as_collection", "")) else "")
        )
    if ir.free_level(collection.node) is not None:
        raise PlanError(
            "the collection reads the variable of a loop, which is only known inside the loop's body; "
            "maintain what iterate or recursive returns"
        )
    if ir.moments(collection.node):
        raise PlanError(
            "the collection is differentiated, so its rows exist only for a moment, and a view is read at a time; "
            "maintain the result of its integrate(), or of its moments(), which has the moments in a column"
        )
    if not isinstance(name, str) or not name:
        raise PlanError(f"the name of a view must be a string, got {name!r}")
