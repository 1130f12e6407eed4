"""Other plans for views that are there: what is different comes as a change at the next time, to whoever follows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.columnar.rows import Rows
from altneu.engine.catalogue import described
from altneu.engine.engine import Engine
from altneu.engine.planning import check_maintained, refuse_events
from altneu.errors import PlanError
from altneu.operators.base import ArrangementState, StepMode
from altneu.plan import ir
from altneu.plan.functions import recorded
from altneu.plan.hydrate import Former, hydration_plan, missing
from altneu.plan.lower import Own
from altneu.plan.physical import Plan
from altneu.plan.rewrite import Choices, Joins
from altneu.runtime import interrupts
from altneu.runtime.described import Described, schema_to_text
from altneu.runtime.inputs import Inputs
from altneu.runtime.journal import ERROR_COLUMNS
from altneu.runtime.stored import StoredView
from altneu.trace.batch import Batch, Layout
from altneu.trace.spine import Spine


def alike(some: pa.Schema, other: pa.Schema) -> bool:
    """Whether columns have the same names and types, whether or not they may be null."""
    return bool(some.names == other.names and some.types == other.types)


def redefine(engine: Engine, views: Mapping[str, Collection], joins: Joins = "auto") -> list[str]:
    """Give views other plans, in one commit; the names of those whose plan is another one.

    The rows that are different come and go at the next time that is closed, so readers, subscriptions and sinks get
    them as the changes of that time; earlier times show what they showed.

    Cost:   state that the new plans need and nothing has is computed, as for a late view; then the former and the new
            contents are read once. On Spark that is one job.
    Law:    after the next advance a view is what it would be if it had been so from the start, and the sum of the
            changes that a subscription got is its contents (tests/oracle/test_redefine.py).

    Raises:
        PlanError: there is no such view, its columns would be others, it is without contents, or it is an arrangement.
        HydrationError: rows are needed that no state has.
    """
    with engine.lock:
        engine.check_open()
        catalogue, nodes, choices = engine.catalogue, dict[str, ir.Node](), dict[str, Choices]()
        for name, collection in views.items():
            check_maintained(name, collection)
            if catalogue.planner.is_other(name, collection, joins):
                _refuse(engine, name, collection)
                catalogue.check_sources(collection)
                nodes[name], choices[name] = catalogue.planner.best(name, collection, joins)
        if nodes:
            replan(engine, {name: views[name] for name in nodes}, nodes, choices)
        return [*nodes]


def goes_on(engine: Engine, name: str, collection: Collection) -> bool:
    """Whether what a view has can become what a collection is, by changes."""
    known = _known(engine, name)
    arranged = isinstance(engine.catalogue.nodes.get(name), ir.ArrangedBy) or isinstance(collection.node, ir.ArrangedBy)
    return not (known.ports.changes_only or arranged) and alike(known.ports.schema, collection.schema)


def _known(engine: Engine, name: str) -> Described:
    """Where the contents of a view are, whether it is maintained here or in the store alone.

    Raises:
        PlanError: an early altneu wrote the store, and it does not say.
    """
    if name in engine.catalogue.nodes:
        return described(engine.plan, name, engine.catalogue.nodes[name])
    told = engine.journal.views[name].get("kept")
    if told is None:
        raise PlanError(f"the store does not say where view {name!r} is: maintain it as it was before, and then this")
    return Described.from_json(told)


def _refuse(engine: Engine, name: str, collection: Collection) -> None:
    """Refuse what makes no changes of rows that are there."""
    if engine.times.retain_events is not None:
        refuse_events(name, collection.node)
    known = _known(engine, name)
    ports, layout = known.ports, known.layouts[known.ports.contents]
    if ports.changes_only:
        raise PlanError(
            f"view {name!r} has no contents, so nothing says what is different: drop it and maintain it again"
        )
    was = engine.catalogue.nodes.get(name)
    if layout.order or isinstance(was, ir.ArrangedBy) or isinstance(collection.node, ir.ArrangedBy):
        raise PlanError(
            f"view {name!r} is a trace or an index, and others read its arrangement: drop it and make it again"
        )
    if not alike(ports.schema, collection.schema):
        raise PlanError(
            f"view {name!r} has the columns {_columns(ports.schema)}, and would have {_columns(collection.schema)}; "
            "what follows it expects rows of the former: drop it and maintain it again, or give the new one another "
            "name"
        )
    if known.coordinates != ir.coordinates(collection.node):
        raise PlanError(f"view {name!r} has other times than before: drop it and maintain it again")


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"{f.name} {f.type}" for f in schema)


def replan(
    engine: Engine,
    collections: Mapping[str, Collection],
    nodes: Mapping[str, ir.Node],
    choices: Mapping[str, Choices],
    elsewhere: Mapping[str, tuple[str, Layout]] = MappingProxyType({}),
) -> None:
    """Give views these plans, and commit it.

    Of views whose contents are ``elsewhere``, in an arrangement of that name and layout, the history is that one's, and
    what they have is what they become.
    """
    journal, catalogue, table, old = engine.journal, engine.catalogue, engine.table, engine.plan
    own, former = contents_of(engine, nodes, elsewhere)
    plan = catalogue.lowered(engine.shards, more={**nodes}, own=own)
    layouts = table.layouts
    table.layouts = {**layouts, **{one.arrangement: one.layout for one in former.values()}, **plan.arranged}
    table.layouts |= dict(one.present for one in former.values() if one.present is not None)
    try:
        with journal.undoing():
            existing = journal.existing()
            for now, was in former.items():
                adopt(engine, was.arrangement, now, plan.layouts[now])
            if missing(plan, existing):
                label, called = ", ".join(nodes), _called(engine, nodes)
                part, imported, anew = hydration_plan(plan, label, existing, journal.filled, called, former=former)
                region = engine.times.region(journal.since, journal.lower, journal.since, journal.events)
                mode = StepMode(engine.shards, imported, hydrating=True, anew=anew)
                with engine.past.watch(f"redefining {label}"):
                    journal.take(engine.executor.step(part, table, Inputs(), region, mode))
            views = {n: stored(engine, n, collections[n], nodes[n], choices[n], own[n], plan) for n in nodes}
            sources = {
                s: kept for node in nodes.values() for s, kept in catalogue.columns.retained_sources(node).items()
            }
            names = {one.arrangement: now for now, one in former.items()}
            others = [*catalogue.waiting(), *nodes]
            states = {view: {*journal.views[view]["arrangements"]} for view in others}
            waiting = (states[view] for view in others if view not in nodes)
            gone = {*old.arrangements}.union(*(states[view] for view in nodes)) - {*plan.arrangements}.union(*waiting)
            gone |= {contents for contents, _ in elsewhere.values()}
            interrupts.check()
            with interrupts.deferred():
                for collection in collections.values():
                    catalogue.columns.know(collection)
                journal.commit_redefined(views, sources, gone, names)
                for name, collection in collections.items():
                    catalogue.add(name, collection, nodes[name], plan)
                table.layouts = plan.arranged
                engine.measured.keep(plan)
    except BaseException:
        if engine.plan is old:
            table.layouts = layouts
        raise


def contents_of(
    engine: Engine, nodes: Mapping[str, ir.Node], elsewhere: Mapping[str, tuple[str, Layout]] = MappingProxyType({})
) -> tuple[dict[str, Own], dict[str, Former]]:
    """The arrangements of the contents that views have from now on, and by the names of these what they had."""
    own, former = dict[str, Own](), dict[str, Former]()
    for name, node in nodes.items():
        known = _known(engine, name)
        now = known.ports.contents, known.layouts[known.ports.contents]
        contents, layout = elsewhere.get(name, now)
        own[name] = Own(f"{name}, plan {_number(engine, name)}", layout.key, _wider(layout.schema, node.schema))
        former[own[name].arrangement] = Former(contents, layout, engine.lower, now if name in elsewhere else None)
    return own, former


def _number(engine: Engine, name: str) -> int:
    """How many plans a view will have had."""
    known = engine.journal.views[name].get("own")
    return 2 if known is None else known["number"] + 1


def _called(engine: Engine, nodes: Mapping[str, ir.Node]) -> dict[str, str]:
    return {name: how for node in nodes.values() for name, how in engine.catalogue.called(node).items()}


def _wider(some: pa.Schema, other: pa.Schema) -> pa.Schema:
    """Columns that may be null where those of either may."""
    return pa.schema([f.with_nullable(f.nullable or g.nullable) for f, g in zip(some, other, strict=True)])


def adopt(engine: Engine, contents: str, arrangement: str, layout: Layout) -> None:
    """Begin an arrangement with the history of another; what waits for later times is made by the new plan."""
    table = engine.table
    for shard in table.shards_of(contents):
        state = table.get(contents, shard)
        if state is not None and len(state.spine.batches):
            batches = [_in_layout(batch, layout) for batch in state.spine.batches]
            empty = ArrangementState.empty(layout)
            table.put(arrangement, shard, ArrangementState(Spine.of(layout, batches), empty.future))


def _in_layout(batch: Batch, layout: Layout) -> Batch:
    """A batch in a layout in which more columns may be null."""
    if batch.layout.schema.equals(layout.schema):
        return batch
    updates = batch.updates()
    rows = Rows(layout.schema, updates.rows.columns, updates.rows.count)
    return Batch.build(updates.with_rows(rows), layout, batch.description)


def stored(
    engine: Engine, name: str, collection: Collection, node: ir.Node, choices: Choices, own: Own | None, plan: Plan
) -> StoredView:
    """What is stored of a view with another plan; without contents of its ``own`` it is another view of the name."""
    known = engine.journal.views[name]
    view: StoredView = {
        **known,
        "fingerprint": node.fingerprint,
        "arrangements": plan.arrangements_of(name),
        "delta": choices.delta,
        "kept": described(plan, name, node).to_json(),
        "functions": recorded(collection.node),
        "errors": ERROR_COLUMNS,
        "orders": choices.orders,
        "turns": choices.turns,
        "whole_errors": engine.catalogue.whole_errors(node),
    }
    empty = [key for key in ("orders", "turns", "whole_errors") if not view[key]]
    for key in empty:
        del view[key]  # type: ignore[misc]
    if own is None:
        view.pop("own", None)
        return {**view, "added": engine.store.next_number}
    number, schema = _number(engine, name), schema_to_text(own.schema)
    view["own"] = {"origin": own.origin, "key": [*own.key], "schema": schema, "number": number, "since": engine.lower}
    return view
