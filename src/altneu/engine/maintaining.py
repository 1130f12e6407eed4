"""Maintaining collections as views: with the state that the store has of them, or computed from other state.

Also what is set of a view later: how much history it retains, how it is refreshed, and which state it needs no longer.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from altneu.collections.collection import Collection
from altneu.engine.catalogue import described
from altneu.engine.frontier import checked_retain
from altneu.engine.parts import Parts
from altneu.engine.planning import check_maintained, refuse_events
from altneu.engine.recomputing import checked_refresh
from altneu.engine.sizes import SizesOfInputs
from altneu.errors import HydrationError, PlanError
from altneu.explain import refuse_unbounded
from altneu.operators.base import StepMode
from altneu.plan import ir
from altneu.plan.functions import recorded
from altneu.plan.hydrate import hydration_plan, missing
from altneu.plan.physical import Plan
from altneu.plan.rewrite import Choices, Joins, Sizes, open_joins
from altneu.plan.static import released_name
from altneu.runtime import interrupts
from altneu.runtime.inputs import Inputs
from altneu.runtime.journal import Refresh
from altneu.runtime.stored import StoredView


def maintain(
    parts: Parts,
    name: str,
    collection: Collection,
    *,
    strict: bool,
    joins: Joins,
    trust_functions: bool,
    contents: bool,
    retain: int | Literal["all"] | None,
    refresh: Refresh | None,
) -> None:
    """Maintain a collection from now on, under a name."""
    check_maintained(name, collection)
    if not isinstance(contents, bool):
        raise PlanError(f"contents must be True or False, got {contents!r}")
    retain, refresh = checked_retain(retain), checked_refresh(refresh)
    parts.catalogue.check_contents(name, contents=contents)
    collection = parts.catalogue.planner.recognised(name, collection, joins, trust=trust_functions)
    node, choices = parts.catalogue.planner.chosen(name, collection, joins)
    if parts.times.retain_events is not None:
        refuse_events(name, collection.node)
    if name in parts.catalogue.nodes:
        set_retain(parts, name, retain)
        set_refresh(parts, name, refresh)
        return
    parts.catalogue.check_sources(collection)
    add = partial(_add, parts, name, collection, strict=strict, contents=contents, retain=retain, refresh=refresh)
    try:
        add(node, choices)
        parts.open_joins.discard(name)
        if joins == "auto" and open_joins(node):
            parts.open_joins.add(name)
    except HydrationError:
        upon = parts.catalogue.planner.upon_views(collection)
        if upon is None:
            raise
        add(upon, Choices())


def set_retain(parts: Parts, name: str, retain: int | Literal["all"] | None) -> None:
    """Retain so much history of a view that is maintained from now on; what is gone does not come back."""
    if retain is not None:
        with interrupts.deferred():
            parts.journal.retain(name, retain, parts.times.since_of(name))


def set_refresh(parts: Parts, name: str, refresh: Refresh | None) -> None:
    """Refresh a view that is maintained so from now on."""
    if refresh is not None and refresh != parts.refreshing.setting(name):
        parts.refreshing.check(parts.plan, name, refresh)
        with interrupts.deferred():
            parts.journal.refresh(name, refresh)


def _add(
    parts: Parts,
    name: str,
    collection: Collection,
    node: ir.Node,
    choices: Choices,
    *,
    strict: bool,
    contents: bool,
    retain: int | Literal["all"] | None,
    refresh: Refresh | None,
) -> None:
    """Add a view: with its stored state, or computed from existing state."""
    without = () if contents else (name,)
    plan = parts.catalogue.lowered(parts.shards, more={name: node}, changes_only=without)
    if strict:
        refuse_unbounded(plan, name)
    if name not in parts.journal.views:
        parts.refreshing.check(plan, name, refresh)
    before = parts.table.layouts
    parts.table.layouts = plan.arranged
    try:
        if name not in parts.journal.views:
            with parts.past.watch(f"computing view {name}"):
                _hydrate(parts, plan, name, collection, node, choices, retain, refresh)
        else:
            with interrupts.deferred():
                arrangements = plan.arrangements_of(name) if parts.catalogue.columns.earlier(node) else None
                needed = {*parts.journal.views[name]["arrangements"]} if arrangements is not None else set[str]()
                parts.journal.describe(name, described(plan, name, node), recorded(collection.node), arrangements)
                parts.journal.keep(parts.catalogue.columns.retained_sources(node))
                parts.catalogue.columns.know(collection)
                parts.catalogue.add(name, collection, node, plan)
                parts.journal.remove(parts.journal.unneeded(needed, plan.arrangements))
            set_retain(parts, name, retain)
            set_refresh(parts, name, refresh)
    except BaseException:
        if name not in parts.catalogue.nodes:
            parts.table.layouts = before
        raise


def _hydrate(
    parts: Parts,
    plan: Plan,
    name: str,
    collection: Collection,
    node: ir.Node,
    choices: Choices,
    retain: int | Literal["all"] | None,
    refresh: Refresh | None,
) -> None:
    """Compute the arrangements of a view that do not exist yet, commit, and add the view."""
    journal, outcome, since = parts.journal, None, 0
    with journal.undoing():
        existing = journal.existing()
        if missing(plan, existing):
            part, imported, recompute = _hydration(parts, plan, name, existing, node)
            region = parts.times.region(journal.since, journal.lower, journal.since, journal.events)
            mode = StepMode(parts.shards, imported, hydrating=True, anew=recompute)
            outcome = parts.executor.step(part, parts.table, Inputs(), region, mode)
            journal.take(outcome)
            since = min(parts.catalogue.redefined(part.read_layouts), max(journal.lower - 1, 0))
        stored_again = {n: released_name(n) for n in journal.released if n in plan.arrangements}
        encoded = described(plan, name, node)
        arrangements, sources = plan.arrangements_of(name), parts.catalogue.columns.retained_sources(node)
        functions, whole_errors = recorded(collection.node), parts.catalogue.whole_errors(node)
        interrupts.check()
        with interrupts.deferred():
            parts.catalogue.columns.know(collection)
            journal.commit_view(
                name,
                node.fingerprint,
                arrangements,
                choices,
                encoded,
                functions,
                sources,
                stored_again=stored_again,
                whole_errors=whole_errors,
                retain=retain,
                refresh=refresh,
                since=since,
            )
            parts.catalogue.add(name, collection, node, plan)
    if outcome is not None:
        parts.measured.fill(part, outcome.measured, imported)


def _hydration(
    parts: Parts, plan: Plan, name: str, existing: set[str], node: ir.Node
) -> tuple[Plan, frozenset[str], frozenset[str]]:
    """The plan that fills what a view lacks; views that were just redefined do not have the rows yet."""
    filled, called = parts.journal.filled, parts.catalogue.called(node)
    unlike = frozenset(found.arrangement for found in parts.catalogue.redefined_after(parts.lower - 1).values())
    try:
        return hydration_plan(plan, name, existing, filled, called, unlike=unlike)
    except HydrationError as error:
        if not unlike:
            raise
        hydration_plan(plan, name, existing, filled, called)  # if that fails too it is for another reason
        raise HydrationError(
            f"advance before view {name!r} is maintained: only a view that was redefined has the rows that it "
            "needs, and that from the next time on"
        ) from error


def choose_joins(parts: Parts) -> None:
    """Plan views anew whose joins were chosen by their pattern alone, once the first rows of all sources are here.

    Such a view has no rows, so that nothing is computed twice; it keeps its name, and what follows it.
    """
    sizes = None
    for name in [*parts.open_joins]:
        read = parts.catalogue.read_by(name) if name in parts.catalogue.nodes else frozenset()
        if not read or not read.isdisjoint(parts.journal.filled):
            parts.open_joins.discard(name)
        elif read <= parts.pending.sources:
            parts.open_joins.discard(name)
            sizes = sizes or Sizes(SizesOfInputs(parts.pending))
            with parts.past.watch(f"choosing how view {name} joins"):
                node, choices = parts.catalogue.planner.best(name, parts.catalogue.collections[name], "auto", sizes)
            if node.fingerprint != parts.catalogue.nodes[name].fingerprint:
                _plan_anew(parts, name, node, choices)


def _plan_anew(parts: Parts, name: str, node: ir.Node, choices: Choices) -> None:
    """Give a view that has no rows another plan, and commit it."""
    collection, view = parts.catalogue.collections[name], parts.journal.views[name]
    without = {name} & parts.catalogue.changes_only
    plan = parts.catalogue.lowered(parts.shards, more={name: node}, changes_only=without)
    before, parts.table.layouts = parts.table.layouts, plan.arranged
    try:
        retain = view["retain"]["times"] if "retain" in view else None
        _hydrate(parts, plan, name, collection, node, choices, retain, view.get("refresh"))
    except BaseException:
        if parts.catalogue.nodes[name] is not node:
            parts.table.layouts = before
        raise
    held = {state for state, _ in (*parts.table.live, *parts.table.stored)}
    parts.journal.remove(held.intersection(view["arrangements"]) - plan.arrangements.keys())
    parts.measured.keep(plan)


def release(parts: Parts) -> None:
    """Store no longer what is only looked up for updates of closed sources, and commit that."""
    journal, catalogue = parts.journal, parts.catalogue
    if not journal.closed:
        return
    names = catalogue.releasable()
    if not names and parts.plan.closed == journal.closed:
        return
    before, plan = parts.plan, catalogue.lowered(parts.shards, release=names)
    with interrupts.deferred():
        if names:
            states = {name: (released_name(name), plan.layouts[released_name(name)]) for name in names}
            views = [view for view in catalogue.nodes if not names.isdisjoint(before.arrangements_of(view))]
            told = {view: _described_anew(parts, view, plan) for view in views}
            parts.table.layouts = {**parts.table.layouts, **plan.arranged}
            journal.release(states, told)
        catalogue.plan, parts.table.layouts = plan, plan.arranged
        parts.measured.keep(plan)


def _described_anew(parts: Parts, name: str, plan: Plan) -> StoredView:
    """What is stored of a view, with the arrangements that it needs in a plan."""
    encoded = described(plan, name, parts.catalogue.nodes[name]).to_json()
    return {**parts.journal.views[name], "arrangements": plan.arrangements_of(name), "kept": encoded}
