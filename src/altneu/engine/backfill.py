"""Backfill: the rows of a source, given again so that later views can be filled from them.

The rows are checked before they are stored: the same operators applied to them must give the state that is stored of
the source already. One step, which runs like any other, computes both and the check.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from altneu.collections.collection import Collection
from altneu.collections.source_weights import Diff, weight_names, with_weights
from altneu.collections.sources import Extra, unread
from altneu.engine.engine import Engine
from altneu.engine.given import given_rows
from altneu.engine.sources import retained_source
from altneu.errors import InputError, PlanError, UnknownSourceError
from altneu.linear import BoundLogic, Negate
from altneu.operators.arrange.operation import ArrangeOp, ReadOp
from altneu.operators.base import StepMode
from altneu.operators.concat.operation import ConcatOp
from altneu.operators.linear.operation import LinearOp
from altneu.operators.reduce.accumulate import Accumulator
from altneu.operators.reduce.operation import ExplodeOp
from altneu.order import Antichain
from altneu.plan import ir
from altneu.plan.physical import PhysicalNode, Plan, Port, scheduled
from altneu.plan.static import released_name
from altneu.runtime import interrupts
from altneu.runtime.inputs import Inputs
from altneu.runtime.state import StateTable
from altneu.trace.batch import Layout
from altneu.trace.update import Updates, consolidate

_CHECK = "check "  # what is kept less what is made of the rows given, as an arrangement


def backfill(engine: Engine, source: str | Collection, rows: Any, diff: Diff, extra: Extra = "error") -> None:
    """Check the rows of a source, store them from now on, and commit; see ``Session.backfill``."""
    with engine.lock:
        engine.check_open()
        engine.require_stored_views()
        engine.adopt()
        _backfill(engine, source, rows, diff, extra)


def _backfill(engine: Engine, source: str | Collection, rows: Any, diff: Diff, extra: Extra) -> None:
    declared = _declared(engine, source)
    _refuse_two_times(declared)
    _refuse_commands(declared)
    since = _compact(engine, declared.name)
    journal, table, name = engine.journal, engine.table, declared.name
    inputs = _inputs(engine, declared, rows, diff, since, extra)
    plan = engine.catalogue.lowered(engine.shards, also=[declared])
    _refuse_waiting(engine, plan, name)
    layouts, mark, was_retained = table.layouts, table.mark(), name in journal.kept
    before = journal.since
    try:
        with journal.undoing():
            journal.since = since
            if name in journal.filled:
                _fill(engine, plan, declared, inputs)
            if not was_retained:
                table.layouts = plan.arranged
                interrupts.check()
                with interrupts.deferred():
                    journal.commit_source(name, retained_source(declared))
                    engine.catalogue.plan = plan
    except BaseException:
        if was_retained or name not in journal.kept:
            table.layouts, journal.since = layouts, before
        raise
    if was_retained:
        table.layouts, journal.since = layouts, before
        table.restore(mark)  # the rows are right, and nothing is new


def _declared(engine: Engine, source: str | Collection) -> ir.Source:
    """The source with this name, or this source itself.

    Raises:
        PlanError: the argument is neither a name nor a source, or a source with another declaration than here.
        UnknownSourceError: no view reads a source of this name, or it never had rows.
    """
    if isinstance(source, str):
        filled = source in engine.sources_filled
        if source not in engine.sources and filled:
            raise UnknownSourceError(
                f"no view reads source {source!r} any more, so its columns are unknown; pass the source itself, as it "
                f"was declared: session.backfill(an.source({source!r}, ...), rows)"
            )
        return engine.source(source)
    declared = getattr(source, "node", None)
    if not isinstance(declared, ir.Source):
        raise PlanError(f"the source of a backfill must be a name or an.source(...), got {source!r}")
    engine.catalogue.check_sources(source)
    if declared.name not in engine.sources and declared.name not in engine.sources_filled:
        raise UnknownSourceError(
            f"source {declared.name!r} never had rows in this session; maintain a view of it and insert its rows. "
            f"The sources are: {', '.join(engine.sources) or '(none)'}"
        )
    return declared


def _refuse_two_times(source: ir.Source) -> None:
    if source.coordinates is not None:
        raise InputError(
            f"source {source.name!r} has {ir.times_named(source.coordinates)}, and rows that are given again "
            f"do not say when they became known; declare it with keep=True before its first row"
        )


def _refuse_commands(source: ir.Source) -> None:
    if source.commanded_by is not None:
        what = "has a key" if source.key else "is a set"
        raise InputError(
            f"source {source.name!r} {what}: the session keeps all of its rows as long as a view reads it, so "
            f"that any view can be added. If no view reads it, call session.drop_source({source.name!r}), declare it "
            "again with keep=True so that its rows stay, and insert the rows"
        )


def _compact(engine: Engine, name: str) -> int:
    """The last closed time, which becomes ``since``.

    Raises:
        InputError: earlier times are retained.
    """
    since, now = engine.times.since_after(engine.lower), engine.lower - 1
    kept = {view: engine.since_of(view) for view, stored in engine.journal.views.items() if "retain" in stored}
    since = min([since, *kept.values()])
    if since < now:
        leases, subscribed = engine.journal.store.leases(), engine.subscribers.since
        readers = sorted({lease.name for lease in leases if lease.since is not None and lease.since < now})
        ends = [f"readers and sinks ({', '.join(readers)}; run() brings a sink up to date)"] * bool(readers)
        ends += ["subscriptions"] * (subscribed is not None and subscribed < now) + ["retain="] * bool(
            engine.times.retain
        )
        ends += [f"view {view!r} (maintain it with retain=0)" for view, start in kept.items() if start < now]
        raise InputError(
            f"source {name!r} cannot be backfilled while times before {now} can be read, from {since} on: the given "
            f"rows do not say what the source held then. The history is retained for: {'; '.join(ends)}. Close these, "
            "or open the session without retain=, and backfill then"
        )
    return max(since, 0)


def _inputs(engine: Engine, source: ir.Source, rows: Any, diff: Diff, since: int, extra: Extra) -> Inputs:
    """The rows as inputs of a step, all at the present time.

    Raises:
        InputError: there are rows, but the source never had any.
        SchemaError: the rows do not fit its columns.
    """
    named = weight_names(diff)
    rows, diff = with_weights(source, rows, diff, others=unread(source, extra, named))
    inputs = given_rows(engine, source, rows, diff, since, extra, named)
    some = bool(inputs.updates.get(source.name))
    if source.name in inputs.frames and source.name not in engine.sources_filled:
        some = not rows.isEmpty()
    if some and source.name not in engine.sources_filled:
        raise InputError(
            f"source {source.name!r} has never had a row, and backfill takes the rows that a source holds now; insert "
            "the rows instead"
        )
    return inputs


# what may be pending --------------------------------------------------------------------------------------------------


def _refuse_waiting(engine: Engine, plan: Plan, name: str) -> None:
    """Refuse a source that may have future updates, since the rows given do not have these.

    Future updates in an arrangement that is checked are part of the check.
    """
    pending = {arrangement for arrangement, _ in engine.table.future}
    checked = {check.arrangement for check in _checks(plan, name, engine.journal.existing())}
    for i in _first_states(plan, name):
        stored = _arrangement_of(plan, i)
        if not pending.isdisjoint((stored, released_name(stored))) and stored not in checked:
            raise InputError(
                f"source {name!r} cannot be backfilled now: {_place(plan, i)} holds changes of future times, "
                "which may come from rows of this source that were inserted with future times; advance beyond these "
                "times, and backfill then"
            )
    if name in engine.sources_filled and not engine.lower:
        raise InputError(f"source {name!r} cannot be backfilled before the first advance: none of its rows counts yet")


def _first_states(plan: Plan, name: str) -> Iterator[int]:
    """The first nodes with state after a source: its future updates wait there."""
    reached = set()
    for i, node in enumerate(plan.nodes):
        if i in plan.source_of:
            if plan.source_of[i] == name:
                reached.add(i)
        elif any(port.node in reached for port in node.inputs):
            if node.operation.keeps is not None:
                yield i
            else:
                reached.add(i)


def _arrangement_of(plan: Plan, i: int) -> str:
    """The arrangement of a node."""
    keeps = plan.nodes[i].operation.keeps
    assert keeps is not None
    return keeps[0]


def _place(plan: Plan, i: int) -> str:
    """An arrangement as messages name it: its label, and the views that read it."""
    arrangement = _arrangement_of(plan, i)
    readers = [view for view in plan.views if arrangement in plan.arrangements_of(view)]
    of = f" of view{'s' * (len(readers) > 1)} {', '.join(map(repr, readers))}" if readers else ""
    return f"{plan.nodes[i].label!r}{of}"


# the check ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Check:
    """An arrangement that stateless operators derive from the source alone, and the node that has it."""

    node: int
    arrangement: str
    layout: Layout
    accumulator: Accumulator | None

    @property
    def name(self) -> str:
        """The name of the arrangement of the difference, while it exists."""
        return f"{_CHECK}{self.arrangement}"

    @property
    def own(self) -> Layout:
        """The layout of the difference: by all columns, so that it is partitioned evenly whatever the key."""
        return Layout(self.layout.schema, tuple(self.layout.schema.names), self.layout.lattice)


def _checks(plan: Plan, name: str, existing: set[str]) -> list[_Check]:
    """The arrangements with which the rows of a source can be compared.

    Those after a delay are left out, since they depend on when rows arrived, and so are loops, moments and errors.
    """
    images, constants = set[int](), set[int]()
    checks = []
    for i, node in enumerate(plan.nodes):
        operation, inputs = node.operation, {port.node for port in node.inputs}
        if node.scope or any(port.output for port in node.inputs) or not inputs <= images | constants:
            continue
        if not inputs:
            if plan.source_of.get(i) == name:
                images.add(i)
            elif i not in plan.source_of and operation.is_timeless:
                constants.add(i)
        elif not inputs & images:
            continue
        elif operation.is_timeless and operation.keeps is None:
            images.add(i)
        elif isinstance(operation, ArrangeOp) and not operation.transforms and operation.arrangement in existing:
            below = plan.nodes[node.inputs[0].node].operation
            accumulator = below.accumulator if isinstance(below, ExplodeOp) else None
            checks.append(_Check(i, operation.arrangement, operation.layout, accumulator))
    return checks


@dataclass
class _Checking:
    """Builds the plan that stores a source and compares the stored state with that computed from the rows given."""

    plan: Plan
    nodes: list[PhysicalNode] = field(default_factory=list)
    copies: dict[int, int] = field(default_factory=dict)

    def add(self, node: PhysicalNode) -> Port:
        self.nodes.append(node)
        return Port(len(self.nodes) - 1)

    def copy(self, needed: set[int]) -> None:
        """Copy nodes and everything below them from the session's plan."""
        for i in reversed(range(len(self.plan.nodes))):
            if i in needed:
                needed |= {port.node for port in self.plan.nodes[i].inputs}
        for i in sorted(needed):
            node = self.plan.nodes[i]
            inputs = tuple(Port(self.copies[port.node], port.output) for port in node.inputs)
            exchange = node.operation.exchange_key(node.schema)
            self.copies[i] = self.add(replace(node, inputs=inputs, exchange=exchange)).node

    def compare(self, check: _Check) -> None:
        """Arrange the stored state less the computed one."""
        schema, node = check.layout.schema, self.plan.nodes[check.node]
        computed = Port(self.copies[node.inputs[0].node])
        less = self.add(PhysicalNode(LinearOp(BoundLogic((Negate(),))), (computed,), 0, schema, label="less"))
        stored = self.add(
            PhysicalNode(ReadOp(check.arrangement, present=True), (), 0, schema, label=f"read {node.label}")
        )
        both = self.add(PhysicalNode(ConcatOp(), (stored, less), 0, schema, label="concat"))
        operation = ArrangeOp(check.name, check.own)
        self.add(PhysicalNode(operation, (both,), 0, schema, check.own.key, label=f"check {node.label}"))


def _fill(engine: Engine, plan: Plan, source: ir.Source, inputs: Inputs) -> None:
    """Compute the state to store and the differences, in one step, and take the state if there are no differences."""
    journal, table = engine.journal, engine.table
    existing, arrangement = journal.existing(), retained_source(source)["arrangement"]
    checks = _checks(plan, source.name, existing)
    checking = _Checking(plan)
    needed = {plan.nodes[check.node].inputs[0].node for check in checks}
    checking.copy(needed if arrangement in existing else needed | {plan.arrangements[arrangement]})
    for check in checks:
        checking.compare(check)
    nodes, schedule = scheduled(checking.nodes, plan.scopes)
    layouts = {check.arrangement: check.layout for check in checks}
    part = Plan(plan.lattice, nodes, read_layouts=layouts, scopes=plan.scopes, schedule=schedule)
    region = engine.times.region(journal.since, journal.lower, journal.since, journal.events)
    with engine.past.watch(f"checking and keeping the rows of {source.name}"):
        outcome = engine.executor.step(part, table, inputs, region, StepMode(engine.shards, hydrating=True))
    table.layouts = {**plan.arranged, **{check.name: check.own for check in checks}}
    journal.take(outcome)
    for check in checks:
        _refuse_difference(table, plan, source.name, check, region.since)
        table.remove(check.name)


def _refuse_difference(table: StateTable, plan: Plan, name: str, check: _Check, since: Antichain) -> None:
    """Refuse the rows given if the stored state differs from that computed from them.

    Raises:
        InputError: it does; the message shows one of the rows that differ.
    """
    if not table.rows(check.name):
        return
    later = None
    for shard in table.shards_of(check.name):
        state = table.get(check.name, shard)
        if state is None:
            continue
        parts = [batch.updates() for batch in state.spine.batches]
        differing = _differing(Updates.concat(parts, check.own.schema, check.own.lattice.width), check, since)
        if len(differing):
            raise InputError(
                f"the rows given for source {name!r} are not those that it holds: {_place(plan, check.node)} keeps "
                f"{_example(differing, check)}. Nothing has changed; give every row that the source holds now, as "
                "often as the source holds it"
            )
        if later is None:
            waiting = _differing(state.future.updates(), check, since)
            later = waiting if len(waiting) else None
    if later is not None:
        raise InputError(
            f"the rows given for source {name!r} are not all of its rows: for the future time "
            f"{int(later.times[0, 0])}, {_place(plan, check.node)} keeps {_example(later, check)}. Nothing has "
            "changed. Rows that were inserted with future times cannot be given again: advance beyond their times, "
            "and backfill then"
        )


def _differing(updates: Updates, check: _Check, since: Antichain) -> Updates:
    """The updates that do not cancel; of sums, those whose value is not zero, whatever their digits."""
    updates = consolidate(replace(updates, times=since.advance(updates.times)), check.own.lattice)
    if check.accumulator is None or not len(updates):
        return updates
    return updates.filter(check.accumulator.not_zero(updates))


def _example(differing: Updates, check: _Check) -> str:
    """The first row that differs, and by how much."""
    rows, diff = differing.rows, int(differing.diffs[0])
    names = rows.schema.names if check.accumulator is None else [*check.accumulator.key]
    (values,) = rows.select(names).slice(0, 1).to_pylist()
    shown = ", ".join(f"{n}={v!r}" for n, v in zip(names, values, strict=True))
    if check.accumulator is not None:
        return f"other counts or sums of the group ({shown}) than the given rows produce"
    often = "once" if abs(diff) == 1 else f"{abs(diff)} times"
    return f"({shown}) {often} {'more' if diff > 0 else 'less'} than the given rows produce"
