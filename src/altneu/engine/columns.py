"""Columns of a source that come and go, or get another name or type: all of it in one commit.

Views that do not read a changed column go on as they are. The kept rows are read once, and stored in the new form.
"""

from __future__ import annotations

from collections.abc import Collection as Names
from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeVar

import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.engine.catalogue import described
from altneu.engine.engine import Engine
from altneu.engine.redefine import adopt, contents_of, goes_on
from altneu.engine.redefine import stored as stored_view
from altneu.engine.sources import retained_source, sources_of
from altneu.errors import InputError, PlanError
from altneu.linear import BoundLogic
from altneu.operators.base import StepMode
from altneu.operators.source.lowering import commands_name
from altneu.plan import ir
from altneu.plan.hydrate import Former, Stored, hydration_plan, missing
from altneu.plan.physical import Plan
from altneu.plan.versions import Version, Versions, read_of
from altneu.runtime import interrupts
from altneu.runtime.inputs import Inputs
from altneu.runtime.stored import StoredSource, StoredView
from altneu.trace.batch import Layout

T = TypeVar("T")


def declare(engine: Engine, name: str, collection: object) -> None:
    """Add the columns that sources of a collection are declared with and did not have so far; they are null before.

    The collection is to be maintained under a name.

    Raises:
        as ``change_columns``.
    """
    with engine.lock:
        engine.check_open()
        for source in sources_of(collection) if isinstance(collection, Collection) else ():
            versions = engine.catalogue.columns.versions.get(source.name) or _unrecorded(
                engine, name, collection, source
            )
            if versions is None or versions.find(source.schema) is not None:
                continue
            if not engine.catalogue.is_read(source.name):
                engine.journal.know({source.name: Versions.of(source.schema)})  # it is another one
            elif (added := with_columns_of(versions, source.schema)) is not None:
                change_columns(engine, source.name, added, declared=added.as_of(versions.present, source))


def _unrecorded(engine: Engine, name: str, collection: object, source: ir.Source) -> Versions | None:
    """The columns of a source in a store of an earlier altneu, which recorded them of kept rows alone.

    Others are found by what a stored view is called: it has the plan over the first of the declared columns.

    Cost:   for each column that may have come, a rewriting of the plan, the first time that the store is opened so.
    """
    if (known := engine.catalogue.source(source.name)) is not None:
        return Versions.of(known.schema)
    stored = engine.journal.views.get(name)
    if stored is None or not isinstance(collection, Collection) or not engine.catalogue.is_read(source.name):
        return None
    for count in range(len(source.schema), 0, -1):
        versions = Versions.of(pa.schema([*source.schema][:count]))
        later = with_columns_of(versions, source.schema)
        if later is not None and engine.catalogue.planner.is_known_with(name, collection, {source.name: later}):
            return versions
    return None


def with_columns_of(versions: Versions, schema: pa.Schema) -> Versions | None:
    """Versions with a further one that has these columns, if they are the present ones and more that may be null."""
    present = versions.present.schema
    if [f for f in schema if f.name in present.names] != [*present]:
        return None
    for place, column in enumerate(schema):
        if column.name not in present.names:
            if not column.nullable:
                return None
            versions = versions.added(column, at=place)
    return versions


def change_columns(
    engine: Engine,
    name: str,
    versions: Versions,
    views: Mapping[str, Collection] = MappingProxyType({}),
    declared: ir.Source | None = None,
) -> None:
    """Give a source other columns from now on, and commit; ``versions`` has these as the present ones.

    ``views`` are those that show the source itself or read what changes, as what they are from now on. Of those that
    have other columns then, subscriptions end; the others go on, as after ``redefine``. ``declared`` is the source as
    it was, if no view of it is maintained yet.

    Cost:   nothing is computed, unless the rows of the source are kept: these are read and written once.
    Law:    afterwards every view is what it would be if the rows had had the present columns from the start
            (tests/oracle/test_columns.py).

    Raises:
        InputError: rows of the source are inserted and wait for a step, or its commands wait for later times, or it is
            closed, or a set, or what changes is a column of its key or weight.
        PlanError: a view reads a column that the change removes, or whose type it changes.
    """
    with engine.lock:
        engine.check_open()
        source = engine.catalogue.source(name)
        if source is None and declared is not None and declared.commanded_by is not None:
            source = declared  # views of the store are still to be maintained, and its rows are there
        if source is None:  # its views are still to be maintained, and find what is recorded
            engine.journal.know({name: versions})
            return
        before = engine.catalogue.columns.versions_of(source).present
        _refuse(engine, source, before, versions, views)
        _change(engine, source, before, versions, views)


def _refuse(engine: Engine, source: ir.Source, before: Version, versions: Versions, except_for: Names[str]) -> None:
    """Refuse what would leave rows without a meaning."""
    name = source.name
    engine.refuse_closed(name)
    if name in engine.pending.sources:
        raise InputError(
            f"rows of source {name!r} are inserted and wait, with the columns of before: advance, or "
            f"session.discard({name!r}), and change the columns then"
        )
    now = versions.present.by_number
    gone = [f.name for n, f in before.by_number.items() if n not in now]
    fixed = [f.name for n, f in before.by_number.items() if n not in now or now[n].type != f.type]
    renamed = [f.name for n, f in before.by_number.items() if n in now and now[n].name != f.name]
    if source.distinct and (gone or len(now) > len(before.numbers)):
        raise InputError(
            f"source {name!r} is a set of whole rows, and with other columns other rows are equal: keep its rows with "
            "keep=True and read source(...).distinct() instead"
        )
    special = {*(source.key or ()), *(source.weight.columns if source.weight is not None else ())}
    if wrong := [c for c in fixed if c in special] or [c for c in renamed if c in special and source.key is None]:
        what = "key" if source.key else "weight"
        raise InputError(f"column {wrong[0]!r} is part of the {what} of source {name!r}, which stays as it is")
    for column in fixed:
        if views := [v for v in readers_of(engine, name, before.number_of(column)) if v not in except_for]:
            raise PlanError(
                f"column {column!r} of source {name!r} is read by the view(s) {', '.join(views)}; drop these first, or "
                "give them a definition that does not read it"
            )
    if source.commanded_by is not None and commands_name(source) in {n for n, _ in engine.table.future}:
        raise InputError(
            f"commands to source {name!r} wait for later times, with the columns of before: advance beyond them, and "
            "change the columns then"
        )


def readers_of(engine: Engine, name: str, number: int) -> list[str]:
    """The maintained views that read a column of a source, by its number."""
    versions = engine.catalogue.columns.versions.get(name)
    found = dict[str, None]()
    for view, node in engine.catalogue.nodes.items() if versions is not None else ():
        for source, columns in read_of(node).values():
            version = versions.find(source.schema) if versions is not None and source.name == name else None
            if version is not None and number in version.numbers and version.by_number[number].name in columns:
                found[view] = None
    return [*found]


def _change(
    engine: Engine, source: ir.Source, was: Version, versions: Versions, shown: Mapping[str, Collection]
) -> None:
    journal, catalogue, table = engine.journal, engine.catalogue, engine.table
    name, before = source.name, journal.versions.get(source.name)
    kept, new = journal.kept.get(name), versions.as_of(versions.present, source)
    record = None if kept is None else retained_source(new)
    layouts, old = table.layouts, engine.plan
    journal.versions[name] = versions  # plans are made with the new columns; put back if nothing comes of it
    if record is not None:
        journal.kept[name] = record
    try:
        best = {view: catalogue.planner.best(view, collection, "auto") for view, collection in shown.items()}
        nodes = {view: node for view, (node, _) in best.items()}
        own, former = contents_of(engine, {v: node for v, node in nodes.items() if goes_on(engine, v, shown[v])})
        unread = [new] if new.commanded_by is not None and name not in catalogue.sources else []
        plan = catalogue.lowered(engine.shards, more=nodes, own={v: own.get(v) for v in nodes}, also=unread)
        stored = _stored(engine, source, new, versions.logic(was, versions.present))
        known = {} if stored is None else {stored.arrangement: stored.layout}
        table.layouts = {**layouts, **known, **plan.arranged}
        with journal.undoing():
            existing = journal.existing() | ({*_states(kept)} if kept is not None else set())
            if record is not None:
                existing -= {*_states(record)} - {n for n, _ in (*table.live, *table.stored)}
            for now, past in former.items():
                adopt(engine, past.arrangement, now, plan.layouts[now])
            _fill(engine, new, plan, existing, stored, former)
            views = {view: _described(engine, view, plan) for view in catalogue.nodes if view not in shown}
            views = {view: told for view, told in views.items() if told != journal.views[view]}
            for view, (node, choices) in best.items():
                views[view] = stored_view(engine, view, shown[view], node, choices, own.get(view), plan)
            waiting = (journal.views[view]["arrangements"] for view in catalogue.waiting())
            needed = {*plan.arrangements, *(name for names in waiting for name in names)}
            gone = {*old.arrangements, *(_states(kept) if kept is not None else ())} - needed
            interrupts.check()
            with interrupts.deferred():
                called = {past.arrangement: now for now, past in former.items()}
                journal.commit_versions(name, versions, record, views, gone, called)
                for view, collection in shown.items():
                    if view not in own:
                        engine.subscribers.end(view)
                    catalogue.add(view, collection, nodes[view], plan)
                catalogue.columns_changed(plan)
                table.layouts = plan.arranged
                engine.measured.keep(plan)
    except BaseException:
        if engine.plan is old:
            table.layouts = layouts
            _put_back(journal.versions, name, before)
            _put_back(journal.kept, name, kept)
        raise


def _fill(
    engine: Engine,
    source: ir.Source,
    plan: Plan,
    existing: set[str],
    stored: Stored | None,
    former: Mapping[str, Former],
) -> None:
    """Compute what does not exist yet, from the rows of the source as they are stored."""
    journal = engine.journal
    known = () if stored is None else (stored,)
    if [name for name in missing(plan, existing) if all(name != one.waiting for one in known)]:
        called = engine.catalogue.called(source)
        part, imported, anew = hydration_plan(plan, source.name, existing, journal.filled, called, known, former)
        region = engine.times.region(journal.since, journal.lower, journal.since, journal.events)
        mode = StepMode(engine.shards, imported, hydrating=True, anew=anew)
        with engine.past.watch(f"changing the columns of {source.name}"):
            journal.take(engine.executor.step(part, engine.table, Inputs(), region, mode))


def _states(source: StoredSource) -> list[str]:
    """The arrangement of a source, and that of the commands to it that wait."""
    return [source["arrangement"], *([source["commands"]] if "commands" in source else ())]


def _stored(engine: Engine, source: ir.Source, new: ir.Source, logic: BoundLogic) -> Stored | None:
    """Where the rows of the source are, if they are kept; ``logic`` makes present ones of them."""
    kept = engine.journal.kept.get(source.name)
    if kept is None and source.commanded_by is None:
        return None
    place = retained_source(source)["arrangement"]
    by = source.commanded_by or tuple(source.schema.names)
    layout = engine.plan.layouts.get(place) or Layout(source.schema, by, engine.lattice)
    if new.commanded_by is None:
        return Stored(source.name, place, layout, logic)
    into, waiting = retained_source(new)["arrangement"], commands_name(new)
    return Stored(source.name, place, layout, logic, into, waiting)


def _described(engine: Engine, view: str, plan: Plan) -> StoredView:
    """What is stored of a view, in a plan over the present columns."""
    encoded = described(plan, view, engine.catalogue.nodes[view]).to_json()
    return {**engine.journal.views[view], "arrangements": plan.arrangements_of(view), "kept": encoded}


def _put_back(table: dict[str, T], name: str, value: T | None) -> None:
    if value is None:
        table.pop(name, None)
    else:
        table[name] = value
