"""Steps in which views are computed anew where that is cheaper than to bring them up to date by the change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import get_args

from altneu.errors import PlanError
from altneu.operators.base import ArrangementState, Region, StepMode
from altneu.order import Antichain
from altneu.plan.physical import Plan
from altneu.plan.recompute import Recomputable, before, recomputable
from altneu.plan.refresh_cost import Cost, Facts, Work, cost_of
from altneu.runtime.execution import Executor
from altneu.runtime.inputs import Inputs
from altneu.runtime.journal import Journal, Refresh
from altneu.runtime.measured import Ran
from altneu.runtime.outcome import Outcome
from altneu.runtime.step_limit import before_feedback

REFRESHES: tuple[Refresh, ...] = get_args(Refresh)
LEAST_ROWS = 10_000
"""Of a step with fewer updates nothing is estimated: it costs less than to look."""
MUCH_STATE = 1_000_000
"""Of steps of sessions with fewer updates in their state DataFrames are not counted: that is a job of Spark's."""


@dataclass(frozen=True)
class Chosen:
    """What a step computes anew: views, and the one time at which everything in it happens."""

    what: Recomputable
    time: int


class Refreshing:
    """How the views of a session are refreshed, and which of them a step computes anew."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known: tuple[Plan, dict[str, Recomputable | str]] | None = None
        self.costs: dict[str, Cost] = {}  # as estimated last
        self.steps: dict[str, int] = {}  # in which views were computed anew, since the session was opened

    def setting(self, view: str) -> Refresh:
        """How a view is to be refreshed."""
        return self._journal.views[view].get("refresh", "auto")

    def of(self, plan: Plan, view: str) -> Recomputable | str:
        """What a view may compute anew in a plan, or why that is nothing."""
        if self._known is None or self._known[0] is not plan:
            self._known = plan, {}
        known = self._known[1]
        if view not in known:
            known[view] = recomputable(plan, view, kept_states(self._journal))
        return known[view]

    def check(self, plan: Plan, view: str, refresh: Refresh | None) -> None:
        """Refuse to refresh a view in full of which nothing can be computed anew.

        Raises:
            PlanError: the view, and why.
        """
        if refresh == "full" and isinstance(found := self.of(plan, view), str):
            raise PlanError(f'view {view!r} cannot be refreshed in full: {found}; leave refresh out, or say "auto"')

    def may_recompute(self, pending: Inputs) -> bool:
        """Whether the next step may be one that computes anything anew: one with many updates, or of such a view."""
        journal = self._journal
        if journal.table.future or pending.frames:
            return True
        rows, views, updates = 0, journal.views, pending.updates
        for view in views:  # every step does this: there are no calls in it
            if "refresh" in views[view]:
                return True
        for source in updates:
            for part in updates[source]:
                rows += part.diffs.size
        return rows >= LEAST_ROWS

    def chosen(
        self,
        plan: Plan,
        lower: int,
        upper: int,
        pending: Inputs,
        counted: Callable[[str], Work],
        in_frames: Callable[[str], int | None],
        since_after: Callable[[int], int],
    ) -> Chosen | None:
        """What the next step of those from ``lower`` to ``upper`` computes anew, None where nothing.

        All that happens in such a step happens at one time: the first at which anything does.

        ``counted`` is the work of an operator so far, ``in_frames`` the rows of a source's DataFrames, if known, and
        ``since_after`` the least time that is retained after a step up to a time.

        Cost:   a comparison, in a step with few updates where no view is always computed anew; else O(size of the
                plan) for each view. With DataFrames and much state Spark counts their rows.
        """
        journal, views = self._journal, self._journal.views
        full = [name for name, view in views.items() if "refresh" in view and view["refresh"] == "full"]
        many = sum([part.diffs.size for parts in pending.updates.values() for part in parts]) >= LEAST_ROWS
        many = many or (bool(pending.frames) and journal.table.total >= MUCH_STATE)
        if not (full or many or journal.table.future):
            return None
        first = before_feedback(journal.table, pending, lower, upper, 1)
        waiting = Antichain.of(journal.table.lattice, first)
        if not (full or many or journal.table.is_due(waiting, LEAST_ROWS - 1)):
            return None
        due = journal.table.due_of(waiting)
        concerned = [view for view in plan.views if _concerns(plan, view, pending, due)]
        always = (self.of(plan, view) for view in full if view in concerned)
        picked = [found for found in always if isinstance(found, Recomputable)]
        changes = _changes(pending, first, in_frames) if many else {}
        if sum(updates for updates, _ in changes.values()) + sum(due.values()) >= LEAST_ROWS:
            facts = Facts(journal.table.rows, changes, counted, due, since_after(first) < first - 1)
            cheaper = (self._cheaper(plan, view, facts) for view in concerned)
            picked += [found for found in cheaper if found is not None]
        return Chosen(reduce(or_, picked), first - 1) if picked else None

    def _cheaper(self, plan: Plan, view: str, facts: Facts) -> Recomputable | None:
        """What a view computes anew where that costs less."""
        if self.setting(view) != "auto" or isinstance(found := self.of(plan, view), str):
            return None
        if found.sources.isdisjoint(self._journal.filled):
            return None  # its first rows
        cost = self.costs[view] = cost_of(found, facts)
        return found if cost.is_full_cheaper else None

    def took(self, chosen: Chosen) -> None:
        """A step with this is committed."""
        for view in chosen.what.views:
            self.steps[view] = self.steps.get(view, 0) + 1

    def told(self, plan: Plan, view: str) -> str:
        """What EXPLAIN says of how a view is refreshed; nothing where it is by the change alone, as usual."""
        if view not in self._journal.views:
            return ""  # a query
        setting, said = self.setting(view), list[str]()
        if setting == "incremental":
            return "no step computes it anew (refresh=incremental)"
        if setting == "full":
            found = self.of(plan, view)
            said.append(
                f"each step computes nothing anew (refresh=full): {found}"
                if isinstance(found, str)
                else f"each step computes {len(found.arrangements)} of its {len(plan.arrangements_of(view))} "
                "arrangements anew (refresh=full)"
            )
        if view in self.costs:
            said.append(f"the last large step: {self.costs[view]}")
        if steps := self.steps.get(view):
            said.append(f"computed anew in {steps:,} step{'s' * (steps > 1)}")
        return "; ".join(said)


def kept_states(journal: Journal) -> set[str]:
    """The states of sources whose rows are stored, whoever reads them."""
    return set(journal.states_of_sources(journal.kept))


def _concerns(plan: Plan, view: str, pending: Inputs, due: Mapping[str, int]) -> bool:
    """Whether a step changes anything that a view is made of."""
    sources, arrangements = plan.sources_of(view), plan.arrangements_of(view)
    return not (pending.sources.isdisjoint(sources) and due.keys().isdisjoint(arrangements))


def _changes(pending: Inputs, upper: int, in_frames: Callable[[str], int | None]) -> dict[str, tuple[int, int]]:
    """Of each source how many updates a step has, and what they add up to; of unknown DataFrames it counts as none."""
    changes = dict[str, tuple[int, int]]()
    for source, parts in pending.updates.items():
        diffs = [part.diffs[part.times[0] < upper] for part in parts]
        changes[source] = sum(map(len, diffs)), sum(int(d.sum()) for d in diffs)
    for source, frames in pending.frames.items():
        rows, net = changes.get(source, (0, 0))
        count = in_frames(source) or 0
        each = {stamp.sign * stamp.diff if isinstance(stamp.diff, int) else 0 for _, stamp in frames}
        changes[source] = rows + count, net + (count * each.pop() if len(each) == 1 else 0)
    return changes


def checked_refresh(refresh: object) -> Refresh | None:
    """How a view is to be refreshed; None where that is not said.

    Raises:
        PlanError: it is no such word.
    """
    if refresh is None or refresh in REFRESHES:
        return refresh
    raise PlanError(f'refresh must be "auto", "incremental" or "full", got {refresh!r}')


def recompute(
    chosen: Chosen, journal: Journal, executor: Executor, shards: int, region: Region, outcome: Outcome
) -> Ran:
    """Compute views anew from what a step has made of everything else, and add that to its ``outcome``.

    ``region`` is that of the step, with history from the time on at which everything in it happens. What is different
    in the views' contents is their new batch.

    Cost:   what the arrangements hold that are read; the former and the new contents are read once, and if history is
            retained so are those of the other arrangements that are computed.
    """
    what, table, layouts = chosen.what, journal.table, journal.table.layouts
    retained = region.final.since.least
    part = what.part(chosen.time, history=retained is None or retained < chosen.time)
    meanwhile = {name: one.layout for one in part.former.values() for name in (one.arrangement, one.fresh) if name}
    table.layouts = {**layouts, **meanwhile}
    try:
        for name in sorted(what.arrangements):
            for shard in table.shards_of(name):
                if name in part.former:  # its history goes on; what waits for later is made again
                    table.put_present(before(name), shard, name)
                    table.put_present(name, shard, name)
                else:
                    table.put(name, shard, ArrangementState.empty(layouts[name]))
        more = executor.step(part.plan, table, Inputs(), region, StepMode(shards, part.given, hydrating=True))
        journal.take(more)
        for name in meanwhile:
            table.remove(name)
    finally:
        table.layouts = layouts
    outcome.new |= more.new
    outcome.recomputed = what.views
    if more.placement != "driver":
        outcome.placement = more.placement
    return Ran(part.plan, more.measured, part.given)
