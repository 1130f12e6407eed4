"""The views of a session as plans: which one a view gets, and the one plan of all of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from altneu.collections.collection import Collection
from altneu.errors import PlanError, StorePlanError
from altneu.linear import Function
from altneu.operators.source.lowering import commands_name
from altneu.order import Lattice
from altneu.plan import ir
from altneu.plan.functions import aliases, changes, checked, functions_of, with_functions
from altneu.plan.lower import arrangement_name, lower
from altneu.plan.physical import Plan, ViewPorts
from altneu.plan.rewrite import NEWER, Joins, chosen_joins, optimise, without_indexes
from altneu.plan.rewrite.earlier import without_needs
from altneu.plan.rewrite.transform import replaced
from altneu.runtime.described import Described, is_changes_only, schema_from_text, schema_to_text
from altneu.runtime.journal import Journal
from altneu.types import to_ddl


class Catalogue:
    """What a session maintains: ``nodes`` by the name of the view, and ``plan``, all of them lowered.

    A view that the store has already gets the plan with which it was computed; that it did is the journal's to tell.
    """

    def __init__(self, journal: Journal, lattice: Lattice, *, check_functions: bool = False) -> None:
        self._journal, self._lattice, self._check_functions = journal, lattice, check_functions
        self.nodes: dict[str, ir.Node] = {}
        self.changes_only: set[str] = set()  # the views of which no contents are kept
        self.collections: dict[str, Collection] = {}  # the same, as they were written
        self._read: dict[str, dict[str, ir.Source]] = {}  # the sources of each view, as it was written
        self.plan = Plan(lattice, ())
        if journal.kept:
            self.plan = self.lowered(journal.shards)
        self.unowned: set[str] = set()  # state of which nobody knows what it is
        self._written: dict[str, ir.Node] = {}  # plans of views by the fingerprints of what was written
        self._known_as: dict[str, str] = {}  # the digests that the store has for functions, by their own

    @property
    def sources(self) -> dict[str, ir.Source]:
        """The sources that views read, also such as turn out to be of no use to them."""
        return self.kept | {name: source for read in self._read.values() for name, source in read.items()}

    @property
    def kept(self) -> dict[str, ir.Source]:
        """The sources whose rows are kept until they are dropped, whether a view reads them or not."""
        return {name: _source_of(name, encoded) for name, encoded in self._journal.kept.items()}

    def called(self, node: ir.Node) -> dict[str, str]:
        """How ``session.backfill`` is given the sources of a plan that it takes: by name, or as declared."""
        known = self.sources
        sources = [n for n in ir.walk(node) if isinstance(n, ir.Source) and not (n.coordinates or n.commanded_by)]
        return {n.name: repr(n.name) if n.name in known else _declared(n) for n in sources}

    def readers(self, source: str) -> list[str]:
        """The views that are made of a source."""
        return [name for name, read in self._read.items() if source in read]

    def lowered(
        self,
        shards: int,
        *,
        more: dict[str, ir.Node] | None = None,
        less: str | None = None,
        without: Iterable[str] = (),
        changes_only: Iterable[str] = (),
        also: Iterable[ir.Source] = (),
    ) -> Plan:
        """The plan of all views and kept sources for a number of shards, with one view more or less.

        ``without`` names kept sources that are about to be dropped, ``also`` are sources to keep beside them;
        ``changes_only`` names those of ``more`` that have no contents.
        """
        nodes = {name: node for name, node in self.nodes.items() if name != less}
        sources = [*(source for name, source in self.kept.items() if name not in without), *also]
        nodes |= more or {}
        if self._check_functions:
            nodes = {name: checked(node) for name, node in nodes.items()}
        return lower(nodes, self._lattice, shards, sources, {*self.changes_only, *changes_only})

    def adopt(self, shards: int) -> None:
        """Find out which sources the state is of that an earlier altneu left behind when their last view was dropped.

        It told of no source that its rows are kept; the name and the columns together give the name of their state.
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
                    self._journal.keep(retained_sources(source))
        self.plan = self.lowered(shards)
        self._journal.remove([name for name, schema in columns.items() if schema is None])
        self.unowned = {name for name, schema in columns.items() if schema is not None} - self.plan.arrangements.keys()

    def refuse_unowned(self, *, waiting: bool) -> None:
        """Refuse to go on where there is state that belongs to nothing; with ``waiting``, only if rows of it fall due.

        Raises:
            StorePlanError: naming it.
        """
        unowned = self.unowned - self.plan.arrangements.keys()
        if waiting:
            unowned &= {name for name, _ in self._journal.table.held}
        if unowned:
            raise StorePlanError(
                f"the store has the state {min(unowned)!r}, which belongs to no view: an earlier version kept it for a "
                "source with keep=True and two times whose last view was dropped; maintain a view of that source, "
                "declared as it was then, and the state belongs to the source again"
            )

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
        """Views that the store has and the session does not maintain yet."""
        return [name for name in self._journal.views if name not in self.nodes]

    def chosen(self, name: str, collection: Collection, joins: Joins) -> tuple[ir.Node, list[str]]:
        """A view's plan and its delta joins: as it had them, where its collection is the same, else the best now.

        Raises:
            PlanError: the name is taken by another collection.
            StorePlanError: the store holds another plan under this name.
        """
        node, deltas = self._optimised(name, collection, joins)
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
        return node, deltas

    def check_contents(self, name: str, *, contents: bool) -> None:
        """Refuse to take up a view with contents that was made without them, or the other way round.

        Raises:
            PlanError: this session maintains it so.
            StorePlanError: the store has it so.
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
                f"view {name!r} was made {'without' if without else 'with'} contents: maintain({name!r}, ..., "
                f"contents={contents}) cannot change that; leave it as it was, or drop({name!r}) and maintain it again"
            )

    def recognised(self, name: str, collection: Collection, joins: Joins, *, trust: bool = False) -> Collection:
        """The collection with its functions under the digests by which the store knows them.

        A view that the store has is found again by its plan, functions aside; these are compared with what was recorded
        of them, except that an earlier altneu recorded nothing.

        Raises:
            StorePlanError: the plan is the stored one, but for functions that have changed, and no ``trust``.
        """
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
        """Whether two functions would go by one name, of which the store cannot have known both."""
        taken = {stored: own for own, stored in self._known_as.items()}
        return any(taken.get(stored, own) != own for own, stored in names.items())

    def _optimised(self, name: str, collection: Collection, joins: Joins) -> tuple[ir.Node, list[str]]:
        if joins not in ("auto", "delta", "binary"):
            raise PlanError(f'joins must be "auto", "delta" or "binary", got {joins!r}')
        node = without_indexes(optimise(collection.node))
        existing = self._journal.existing()

        def exists(part: ir.Node, key: tuple[str, ...]) -> bool:
            return arrangement_name(part, key) in existing

        chosen = chosen_joins(node, exists, joins)
        stored = self._journal.views.get(name)
        if stored is None or chosen[0].fingerprint == stored["fingerprint"]:
            return chosen
        others = [  # what was worth it then need not be so now, and some rules came later
            chosen_joins(without_indexes(optimise(written, newer)), exists, policy)
            for written in (collection.node, without_needs(collection.node))
            for newer in ((), NEWER)
            for policy in (stored["delta"], joins)
        ]
        if (upon := self.upon_views(collection)) is not None:
            others.append((upon, []))
        return next((other for other in others if other[0].fingerprint == stored["fingerprint"]), chosen)

    def upon_views(self, collection: Collection) -> ir.Node | None:
        """A collection's plan upon what views keep, its own part as it was written; None where it has none of theirs.

        What the rules make of the whole may ask for rows that only the sources had: a filter goes below a view's
        reduce, a column that is not read is cut off below it.
        """
        with_contents = [node for name, node in self.nodes.items() if name not in self.changes_only]
        by_node = {written: node for written, node in self._written.items() if node in with_contents}
        if not any(below.fingerprint in by_node for below in ir.walk(collection.node)):
            return None
        return without_indexes(replaced(collection.node, by_node))

    def check_sources(self, collection: Collection) -> None:
        """Refuse a source that is declared twice, and not in the same way.

        Raises:
            PlanError: naming it.
        """
        sources = self.sources
        for source in _sources_of(collection):
            if sources.setdefault(source.name, source).fingerprint != source.fingerprint:
                if source.name in self.kept and not self.readers(source.name):
                    raise PlanError(
                        f"the session keeps rows of source {source.name!r} under another declaration: it must be "
                        f"{_declared(sources[source.name])}; declare it so, or call "
                        f"session.drop_source({source.name!r}) to delete these rows"
                    )
                raise PlanError(
                    f"source {source.name!r} is declared twice, with different columns, times, key=, distinct= or "
                    "keep=; declare it once and use that"
                )

    def add(self, name: str, collection: Collection, node: ir.Node, plan: Plan) -> None:
        """Take up a view, of which ``plan`` is the plan with all others."""
        if plan.views[name].changes_only:
            self.changes_only.add(name)
        self.nodes[name], self.plan = node, plan
        self.collections[name] = collection
        self._read[name] = {source.name: source for source in _sources_of(collection)}
        self._written[collection.node.fingerprint] = node

    def remove(self, name: str, plan: Plan) -> None:
        """Let go of a view; ``plan`` is that of the others."""
        self.nodes.pop(name, None)
        self.changes_only.discard(name)
        self.collections.pop(name, None)
        self._read.pop(name, None)
        self.plan = plan


def _changed_functions(name: str, changed: list[str]) -> str:
    return (
        f"functions of view {name!r} have changed since it was stored: {'; '.join(changed)}. "
        "Retractions must remove the rows that the stored functions made. Restore the functions; or call "
        f"session.drop({name!r}) and maintain the view again; or, if each function returns for every row what it "
        f"returned before, maintain({name!r}, ..., trust_functions=True)"
    )


@lru_cache(maxsize=1024)
def _source(
    name: str, schema: str, keep: bool, coordinates: tuple[str, ...], key: tuple[str, ...], distinct: bool
) -> ir.Source:
    times: Any = coordinates or None
    return ir.Source(name, schema_from_text(schema), keep, times, key or None, distinct)


def _source_of(name: str, encoded: dict[str, Any]) -> ir.Source:
    """The kept source that a commit tells of."""
    key = tuple(encoded.get("key", ()))
    return _source(
        name, encoded["schema"], encoded.get("keep", True), tuple(encoded["coordinates"]), key, "distinct" in encoded
    )


def _declared(source: ir.Source) -> str:
    """How a kept source is declared."""
    keep, times = ", keep=True" * source.keep, "" if source.coordinates is None else f", time={source.coordinates}"
    by = f", key={list(source.key)}" if source.key else ", distinct=True" * source.distinct
    return f"an.source({source.name!r}, {to_ddl(source.schema)!r}{keep}{times}{by})"


def retained_sources(node: ir.Node) -> dict[str, dict[str, Any]]:
    """What a commit tells of the kept sources that a view's plan is made of, by name."""
    sources = [below for below in ir.walk(node) if isinstance(below, ir.Source) and below.keep]
    return {source.name: retained_source(source) for source in sources}


def retained_source(source: ir.Source) -> dict[str, Any]:
    """What a commit tells of a source whose rows are kept, also of one that is declared without ``keep``."""
    description = {
        "schema": schema_to_text(source.schema),
        "coordinates": list(source.coordinates or ()),
        "arrangement": arrangement_name(source, source.commanded_by or tuple(source.schema.names)),
        **_commands_of(source),
    }
    return description if source.keep else {**description, "keep": False}


def _commands_of(source: ir.Source) -> dict[str, Any]:
    """What a commit tells more of a kept source that takes commands."""
    if source.commanded_by is None:
        return {}
    return {"commands": commands_name(source)} | ({"key": list(source.key)} if source.key else {"distinct": True})


def _sources_of(collection: Collection) -> list[ir.Source]:
    return [below for below in ir.walk(collection.node) if isinstance(below, ir.Source)]


def described(plan: Plan, name: str, node: ir.Node) -> Described:
    """What a reader without the plan has to know of a view."""
    ports = plan.views[name]
    layouts = {name: plan.layouts[name] for name in (ports.contents, *ports.errors)}
    return Described(ports, layouts, ir.coordinates(node))


def check_maintained(name: object, collection: object) -> None:
    """Refuse what cannot be a view.

    Raises:
        PlanError: it is no collection, or one that has no contents at a time; or the name is none.
    """
    if not isinstance(collection, Collection):
        raise PlanError(
            f"maintain needs a collection, such as an.source(...) or the result of its verbs, got {collection!r}"
        )
    if ir.free_level(collection.node) is not None:
        raise PlanError(
            "the collection reads the variable of a loop, which is only known inside the loop's body; "
            "maintain what iterate or recursive returns"
        )
    if ir.moments(collection.node):
        raise PlanError(
            "the collection was differentiated: what it holds is there for a moment, and a view is read at times; "
            "maintain what integrate() makes of it"
        )
    if not isinstance(name, str) or not name:
        raise PlanError(f"the name of a view must be a string, got {name!r}")
