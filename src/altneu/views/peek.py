"""Queries that are answered once: computed from the state of views, read, and forgotten."""

from __future__ import annotations

import time as clock
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from types import MappingProxyType

import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.engine.before import Before
from altneu.engine.engine import Engine
from altneu.engine.planning import check_maintained
from altneu.engine.reading import ASKED, Known, Lock, OnErrors, Time
from altneu.errors import HydrationError, PlanError
from altneu.explain import Explained, seconds_of
from altneu.explain import explained as explained_plan
from altneu.expressions.expr import Literal
from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.base import StepMode
from altneu.plan import ir
from altneu.plan.hydrate import Stored, hydration_plan, missing
from altneu.plan.physical import Plan, ViewPorts
from altneu.runtime.inputs import Inputs
from altneu.runtime.measured import Measurements, Ran
from altneu.runtime.state import StateTable
from altneu.views.contents import Contents
from altneu.views.lookup import First
from altneu.views.prepared import Answered, Prepared, computed, prepared

NAME = ASKED
SCAN = "scan: whole arrangements are read"


@dataclass(frozen=True)
class _Answer:
    """The state of a collection that is not maintained, while it is there."""

    lock: Lock
    table: StateTable
    at: ViewPorts
    when: Known

    def ports(self, name: str) -> ViewPorts:
        """Where its contents and errors are."""
        return self.at

    def arrangements(self, name: str) -> tuple[str, ...]:
        """Its contents."""
        return (self.at.contents,)

    def known(self, name: str) -> Known:
        """When it can be read."""
        return self.when


class _Asked(Contents):
    """The contents of a query that is answered once."""

    @property
    def _title(self) -> str:
        return NAME

    @property
    def _remedy(self) -> str:
        return "A query leaves them out with WHERE, or has NULL instead with try_cast(), try_divide() and the like."


def peek(
    engine: Engine,
    collection: Collection,
    at: Time = None,
    errors: OnErrors = "raise",
    first: First | None = None,
) -> pa.Table:
    """The rows of a collection at a time; nothing is committed, and its state is forgotten.

    If only the ``first`` rows are wanted others may be left out.

    If it needs only rows of views that have some keys, or only their number, these are looked up and the rest is
    computed from them; while another thread computes a step, of the state before it, if the collection was asked for
    before. Else it is computed like a view that is added late: it reads every existing arrangement that it can use, and
    an existing view directly.
    """
    check_maintained(NAME, collection)
    before = engine.before
    if before is not None and (query := _prepared(engine, collection, first, errors, anew=False)) is not None:
        looked_up = from_lookups(before, query, at)
        if looked_up is not None:
            return looked_up.table
    with engine.lock:
        engine.check_open()
        return _peeked(engine, collection, at, errors, first)


def _peeked(engine: Engine, collection: Collection, at: Time, errors: OnErrors, first: First | None) -> pa.Table:
    if (looked_up := _looked_up(engine, collection, at, errors, first)) is not None:
        return looked_up.table
    with _computed(engine, collection, at) as (plan, node, since, _):
        known = replace(_known(engine, ir.coordinates(node), since), node=node)
        answer = _Answer(engine.lock, engine.table, plan.views[NAME], known)
        return _Asked(answer, NAME).to_arrow(at, errors)


def _looked_up(
    engine: Engine, collection: Collection, at: Time, errors: OnErrors, first: First | None = None
) -> Answered | None:
    """The rows of a collection from lookups; None if it needs more than these.

    Where anything fails or is negative it is computed as a whole: only that decides which errors there are.
    """
    query = _prepared(engine, collection, first, errors)
    return None if query is None else from_lookups(engine, query, at)


def _prepared(
    engine: Engine, collection: Collection, first: First | None, errors: OnErrors, *, anew: bool = True
) -> Prepared | None:
    """How lookups may answer a collection, remembered until a view is added or dropped; None if they do not.

    None too if it is not remembered and not to be prepared ``anew``.
    """
    if errors not in ("raise", "ignore"):
        return None
    collection = engine.catalogue.planner.recognised(NAME, collection, "auto")
    key, remembered = (collection.node.fingerprint, first), engine.catalogue.prepared
    plan, query = remembered.get(key) or (None, None)
    if plan is not engine.plan and anew:
        plan, query = engine.plan, prepared(engine, collection, first)
        remembered.put(key, (plan, query))
    return query if plan is engine.plan else None


def from_lookups(
    state: Engine | Before, query: Prepared, at: Time = None, constants: Sequence[Literal] = ()
) -> Answered | None:
    """The rows of a prepared query at a time; None if it needs more than lookups."""
    since = state.retained[1]
    if not query.stored:
        since = min(since, max((state.known(view).since for view in query.views.values()), default=since))
    if _is_before(at, since):
        return None
    time = _known(state, query.coordinates, since).readable(at)
    if time[0] < query.since:
        return None
    return query.answer(state, dict.fromkeys(query.views.values(), time), time, constants)


def _known(state: Engine | Before, coordinates: tuple[str, ...] | None, since: int) -> Known:
    """The times at which a query can be answered."""
    lower, _, events = state.retained
    upper = max(lower, 1)
    return Known(NAME, upper, since, upper, events, coordinates, "Session(retain=...) keeps more")


@contextmanager
def _computed(
    engine: Engine, collection: Collection, at: Time = None
) -> Iterator[tuple[Plan, ir.Node, int, Measurements]]:
    """A context in which a collection has state like a view.

    Gives the common plan, its own plan, from which time on it can be read, and its costs. ``at`` a time that views
    retain and the session does not, it is computed from the contents of the views that it reads.
    """
    journal, table, measured = engine.journal, engine.table, Measurements()
    then = _moment(engine, at)
    past, unlike = _past(engine, collection, then), engine.catalogue.unlike(then)
    unread = sorted(
        {n.name for n in ir.walk(collection.node) if isinstance(n, ir.Source)} - {*engine.sources} - past.keys()
    )
    if unread:
        called = engine.catalogue.called(collection.node) if unread[0] in journal.filled else {}
        again = (
            f"give its rows again with session.backfill({called[unread[0]]}, rows), or " if unread[0] in called else ""
        )
        raise HydrationError(
            f"{again}declare it with KEEP: no view reads source {unread[0]!r}, so its rows are not stored"
        )
    is_earlier = _is_before(at, journal.since)
    plan, node = planned(engine, collection, upon_views=is_earlier, past=past, unlike=unlike)
    _refuse_times_of_now(plan, journal.existing())
    layouts, mark, upper = table.layouts, table.mark(), max(engine.lower, 1)
    try:
        table.layouts = plan.arranged
        existing, since = journal.existing(), journal.since
        if not missing(plan, existing):
            since = engine.times.since_of_arrangements((plan.views[NAME].contents, *plan.views[NAME].errors))
        else:
            part, imported, recompute = hydration_plan(
                plan, NAME, existing, journal.filled, engine.catalogue.called(node), [*past.values()], unlike=unlike
            )
            if is_earlier:
                since = engine.times.since_of_arrangements({*imported, *part.read_layouts})
            region = engine.times.region(since, upper, since, journal.events)
            mode = StepMode(engine.shards, imported, hydrating=True, anew=recompute)
            outcome = engine.executor.step(part, table, Inputs(), region, mode)
            measured.add(Ran(part, outcome.measured))
            journal.take(outcome)
        yield plan, node, since, measured
    finally:
        table.restore(mark)
        table.layouts = layouts


def explained(
    engine: Engine,
    collection: Collection,
    *,
    analyze: bool = False,
    in_order: tuple[Collection, First] | None = None,
) -> Explained:
    """What the operators of a collection would cost if it were maintained; to ``analyze`` it is computed once.

    Where lookups answer it these are named, and the operators are those that compute the rest from them.
    ``in_order`` is the collection without its LIMIT, and the rows that this leaves.

    Raises:
        HydrationError: it needs rows that no state has.
    """
    with engine.lock:
        engine.check_open()
        existing = engine.journal.existing()
        if (looked_up := _explained_lookup(engine, collection, in_order, analyze=analyze)) is not None:
            return looked_up
        if not analyze:
            plan, _ = planned(engine, collection)
            return _noted(engine, collection, existing, explained_plan(plan, NAME, engine.facts()), plan)
        started = clock.perf_counter()
        with _computed(engine, collection) as (plan, _, _, measured):
            seconds = clock.perf_counter() - started
            facts = replace(engine.facts(), measured=measured.read(), run=f"once, in {seconds_of(seconds)}")
            return _noted(engine, collection, existing, explained_plan(plan, NAME, facts), plan)


def _noted(
    engine: Engine, collection: Collection, existing: set[str], plan_explained: Explained, plan: Plan
) -> Explained:
    """With what is read: whole arrangements, which of them could not be looked up, and how many there are."""
    query = _prepared(engine, collection, None, "raise")
    half_given = [] if query is None else query.half_given(engine.table)
    lacking = len([n for n in plan.arrangements_of(NAME) if n not in existing])
    there = len(plan.arrangements_of(NAME)) - lacking
    return replace(
        plan_explained, notes=(SCAN, *half_given, f"arrangements: {there} there already, {lacking} to build")
    )


def _explained_lookup(
    engine: Engine, collection: Collection, in_order: tuple[Collection, First] | None, *, analyze: bool
) -> Explained | None:
    started = clock.perf_counter()
    check_maintained(NAME, collection)
    candidates = [(collection, None)] if in_order is None else [in_order, (collection, None)]
    for candidate, first in candidates:
        query = prepared(engine, engine.catalogue.planner.recognised(NAME, candidate, "auto"), first)
        if query is None or (first is not None and query.first is None):
            continue
        time = _known(engine, query.coordinates, engine.journal.since).readable(None)
        answer = query.answer(engine, dict.fromkeys(query.views.values(), time), time)
        if answer is not None:
            break
    else:
        return None
    plan, notes = query.lower(query.node_of(answer.found)), tuple(map(str, answer.found.lookups))
    if not analyze:
        return replace(explained_plan(plan, NAME, engine.facts()), notes=notes)
    measured = Measurements()
    measured.add(Ran(plan, computed(plan, answer.found.inputs, time).outcome.measured))
    facts = replace(
        engine.facts(), measured=measured.read(), run=f"once, in {seconds_of(clock.perf_counter() - started)}"
    )
    return replace(explained_plan(plan, NAME, facts), notes=notes)


def _refuse_times_of_now(plan: Plan, existing: set[str]) -> None:
    """Refuse ``update_time()`` of rows whose time of arrival no view keeps.

    Raises:
        PlanError: with the remedy.
    """
    for name in plan.arrangements_of(NAME):
        operation = plan.nodes[plan.arrangements[name]].operation
        if isinstance(operation, ArrangeOp) and operation.retention.needs_history and name not in existing:
            raise PlanError(
                "only views record update_time(), and none records it for these rows: in a query that is answered "
                "once, all rows would arrive now. Query a view that records it: CREATE MATERIALIZED VIEW … AS SELECT "
                "*, update_time() AS came FROM …, in Python session.maintain(...)"
            )


def _is_before(at: Time, since: int) -> bool:
    """Whether a time to read at, if it is one, lies before ``since``."""
    first = at[0] if isinstance(at, tuple) and at else at
    return isinstance(first, Integral) and int(first) < since


def _moment(engine: Engine, at: Time) -> int:
    """The first coordinate of a time to read at, which by default is the last closed one."""
    first: object = at[0] if isinstance(at, tuple) and at else at  # what is no time is refused where it is read
    return int(first) if isinstance(first, Integral) else engine.lower - 1


def _past(engine: Engine, collection: Collection, time: int) -> dict[str, Stored]:
    """Where the rows are of views that a collection reads as they were before they were redefined, by their sources."""
    read = {below.name for below in ir.walk(collection.node) if isinstance(below, ir.Source)}
    return {found.source: found for found in engine.catalogue.redefined_after(time).values() if found.source in read}


def planned(
    engine: Engine,
    collection: Collection,
    *,
    upon_views: bool = False,
    past: Mapping[str, Stored] = MappingProxyType({}),
    unlike: frozenset[str] = frozenset(),
) -> tuple[Plan, ir.Node]:
    """The plan of all views together with a collection, and the collection's own plan.

    It is the rewritten plan if it can be; with ``upon_views`` rather the written one, over the views that it reads.
    ``past`` has the sources that stand for views as they were; nothing is computed from arrangements that are
    ``unlike`` what their plan makes.

    Raises:
        HydrationError: it needs rows that no state has.
    """
    check_maintained(NAME, collection)
    catalogue, journal = engine.catalogue, engine.journal
    collection = catalogue.planner.recognised(NAME, collection, "auto")
    node, _ = catalogue.planner.chosen(NAME, collection, "auto")
    nodes = [node] if (upon := catalogue.planner.upon_views(collection)) is None else [node, upon]
    if upon_views or any(below.is_by_arrival for below in ir.walk(node)):
        nodes.reverse()  # what a view has seen come, a rewritten plan would let come now
    for last, node in zip((*[False] * (len(nodes) - 1), True), nodes, strict=True):
        plan = catalogue.lowered(engine.shards, more={NAME: node})
        try:
            called = catalogue.called(node)
            hydration_plan(plan, NAME, journal.existing(), journal.filled, called, [*past.values()], unlike=unlike)
            break
        except HydrationError:
            if last:
                raise
    return plan, node
