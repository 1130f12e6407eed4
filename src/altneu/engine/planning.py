"""Which collections can be views, and the choice of a view's plan: the best at present, or the one of the stored view.

A stored view goes on with the plan with which it was computed, which is found again by its fingerprint.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from altneu.collections.collection import Collection
from altneu.engine.sources import SourceColumns
from altneu.errors import PlanError, StorePlanError
from altneu.linear import Function
from altneu.plan import ir
from altneu.plan.collated import refuse_collated_keys
from altneu.plan.functions import aliases, changes, functions_of, with_functions
from altneu.plan.lower import arrangement_name
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
from altneu.plan.versions import Versions, over_earliest
from altneu.runtime.journal import Journal


class Planner:
    """Chooses plans for collections, beside the views that there are.

    ``nodes`` are the plans of the maintained views by name, ``changes_only`` the views without contents, and
    ``written`` their plans by the fingerprints of what was written; whoever adds a view adds to them.
    """

    def __init__(
        self,
        journal: Journal,
        columns: SourceColumns,
        nodes: Mapping[str, ir.Node],
        changes_only: AbstractSet[str],
        written: Mapping[str, ir.Node],
    ) -> None:
        self._journal, self._columns = journal, columns
        self._nodes, self._changes_only, self._written = nodes, changes_only, written
        self._known_as: dict[str, str] = {}  # the digests that the store has for functions, by their own

    def chosen(self, name: str, collection: Collection, joins: Joins) -> tuple[ir.Node, Choices]:
        """A view's plan and what was chosen for it: as stored if the collection is the same, else the best at present.

        Raises:
            PlanError: the name is taken by another collection.
            StorePlanError: the store holds another plan under this name.
        """
        node, choices = self._optimised(name, collection, joins)
        if name in self._nodes and self._nodes[name].fingerprint != node.fingerprint:
            raise PlanError(
                f"this session maintains another collection as {name!r}; choose another name, or drop it first"
            )
        stored = self._journal.views.get(name)
        if name not in self._nodes and stored is not None and stored["fingerprint"] != node.fingerprint:
            raise StorePlanError(
                f"the store holds another plan for view {name!r} (its query, a function, a schema or keep= of a "
                "source has changed, it was computed from a view that is to be maintained before it, or it is a "
                "DataFrame of another kind or version of Spark, which describes the query otherwise); "
                f"maintain({name!r}, ..., replace=True) gives it this plan, session.drop({name!r}) forgets its state, "
                "or open another path"
            )
        return node, choices

    def best(
        self, name: str, collection: Collection, joins: Joins, sizes: Sizes | None = None
    ) -> tuple[ir.Node, Choices]:
        """The best plan at present, and what was chosen for it.

        With ``sizes``, which tell how many rows come first, as if there were no view of this name.
        """
        node = self._rewritten(collection.node)
        joined, choices = chosen_joins(node, self._exists(None if sizes is None else name), joins, sizes)
        shared, orders = share_orders(joined, [node for other, node in self._nodes.items() if other != name])
        return shared, replace(choices, orders=orders)

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
        if stored is None or name in self._nodes:
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

    def is_other(self, name: str, collection: Collection, joins: Joins) -> bool:
        """Whether there is a view of this name with another plan, or with functions that have changed since."""
        stored = self._journal.views.get(name)
        if stored is None:
            return False
        try:
            known = self.recognised(name, collection, joins)
        except StorePlanError:
            return True
        fingerprint = self._nodes[name].fingerprint if name in self._nodes else stored["fingerprint"]
        return self._optimised(name, known, joins)[0].fingerprint != fingerprint

    def is_known_with(self, name: str, collection: Collection, versions: Mapping[str, Versions]) -> bool:
        """Whether a collection is a stored view if its sources had these columns."""
        before = self._journal.versions
        self._journal.versions = {**before, **versions}
        try:
            return not self.is_other(name, collection, "auto")
        finally:
            self._journal.versions = before

    def upon_views(self, collection: Collection) -> ir.Node | None:
        """A collection's plan upon the state of views, its own part unoptimised; None if it reads no view.

        The optimised plan of the whole may need rows that only the sources had, because rules move a filter below a
        view's reduce, or prune an unused column there.
        """
        with_contents = [node for name, node in self._nodes.items() if name not in self._changes_only]
        by_node = {written: node for written, node in self._written.items() if node in with_contents}
        if not any(below.fingerprint in by_node for below in ir.walk(collection.node)):
            return None
        return without_indexes(replaced(collection.node, by_node))

    def _rewritten(self, node: ir.Node, without: Sequence[Rule] = ()) -> ir.Node:
        """A plan as rules make it, over the earliest columns of its sources that have what it reads."""
        rewritten = optimise(node, without)
        changed = self._columns.changed
        over = over_earliest(node, rewritten, changed) if changed else node
        return without_indexes(rewritten if over is node else optimise(over, without))

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

    @staticmethod
    def _renamed(collection: Collection, names: dict[str, str]) -> Collection:
        def known(function: Function) -> Function:
            return function.known_as(names.get(function.digest, function.digest))

        return Collection(with_functions(collection.node, known)) if names else collection

    def _clash(self, names: dict[str, str]) -> bool:
        """Whether two functions would have the same name, which the store cannot have recorded."""
        taken = {stored: own for own, stored in self._known_as.items()}
        return any(taken.get(stored, own) != own for own, stored in names.items())


def _changed_functions(name: str, changed: list[str]) -> str:
    return (
        f"functions of view {name!r} have changed since it was stored: {'; '.join(changed)}. "
        "Retractions must remove the rows that the stored functions made. Restore the functions; or call "
        f"session.drop({name!r}) and maintain the view again; or, if each function returns for every row what it "
        f"returned before, maintain({name!r}, ..., trust_functions=True)"
    )


def _instead(value: object) -> str:
    """How a collection is had of what is none; empty if nothing is known of it."""
    if isinstance(value, str):
        return (
            "of SQL, session.sql('CREATE MATERIALIZED VIEW name AS SELECT …') makes a view and session.sql(query) rows"
        )
    return getattr(type(value), "as_collection", "")


def check_maintained(name: object, collection: object) -> None:
    """Check the arguments of ``maintain``.

    Raises:
        PlanError: the collection is not one, or is differentiated; or the name is not a name.
    """
    if not isinstance(collection, Collection):
        raise PlanError(
            f"maintain and peek need a collection, such as an.source(...) or the result of its verbs, got "
            f"{collection!r}" + ("; " + instead if (instead := _instead(collection)) else "")
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


def refuse_events(name: str, node: ir.Node) -> None:
    """Refuse to compact event times if rows have several, or if a view delays the event times of stored rows.

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
