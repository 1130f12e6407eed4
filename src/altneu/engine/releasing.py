"""The arrangements that are stored no longer: only updates of closed sources would be looked up in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from altneu.engine.sources import retained_source
from altneu.plan import ir
from altneu.plan.physical import Plan
from altneu.plan.static import releasable, released
from altneu.runtime.journal import Journal


class Releasing:
    """What is only looked up for updates of sources that are closed, as the journal has these and the state."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: tuple[tuple[Plan, frozenset[str]], Mapping[str, frozenset[str]]] | None = None

    def released(
        self,
        plan: Plan,
        nodes: Iterable[ir.Node],
        sources: Iterable[ir.Source],
        release: Iterable[str],
        new: Iterable[str],
    ) -> Plan:
        """A plan without the state that is not stored any more, and without that of the arrangements to ``release``.

        Nothing is released that updates may reach once the ``new`` views are filled.
        """
        if not self._journal.closed:
            return plan
        plan = replace(plan, closed=self._journal.closed)
        known = releasable(plan, _kept_as(nodes, sources))
        gone = (self._journal.released | set(release)) & self._ready(known)
        return released(plan, gone - self._may_wait(plan, known, new))

    def releasable(
        self, present: Plan, nodes: Iterable[ir.Node], stored: Callable[[], Iterable[ir.Source]]
    ) -> frozenset[str]:
        """The arrangements of a plan that nobody looks up any more, that are still stored, and that may grow.

        What is static stays, so that views that are added later find it.
        Cost:   nothing without closed sources; else the plan is looked at once, and then what waits.
        """
        if not self._journal.closed:
            return frozenset()
        made_for = present, self._journal.closed
        if self._known is None or any(a is not b for a, b in zip(self._known[0], made_for, strict=True)):
            plan = replace(present, closed=self._journal.closed)
            known = releasable(plan, _kept_as(nodes, stored()))
            growing = {n: states for n, states in known.items() if not plan.is_static(plan.arrangements[n])}
            self._known = made_for, growing
        known = self._known[1]
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


def _kept_as(nodes: Iterable[ir.Node], sources: Iterable[ir.Source]) -> set[str]:
    """The arrangements of all rows of stored sources, and of those that plans declare so."""
    declared = [node for node in ir.walk(*nodes) if isinstance(node, ir.Source) and node.keep]
    return {retained_source(source)["arrangement"] for source in (*sources, *declared)}
