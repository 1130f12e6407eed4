"""Replacing the contents of a source: rows that are given become all that it has, and only differences are inserted.

One step of the executor computes the differences, from the rows that are given and an arrangement that has the
source's rows, in the driver or on Spark as any other step; nothing of it is committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace as changed
from threading import get_ident
from typing import Any

from altneu.collections.source_weights import Diff, weight_names, with_weights
from altneu.collections.sources import Extra, commands_of, unread
from altneu.engine.engine import READ_ROWS, Engine
from altneu.engine.given import given_rows
from altneu.errors import InputError
from altneu.linear import BoundLogic, Negate
from altneu.operators.arrange.operation import ArrangeOp, ReadOp
from altneu.operators.base import StepMode
from altneu.operators.concat.operation import ConcatOp
from altneu.operators.linear.operation import LinearOp
from altneu.operators.source.lowering import commands_name
from altneu.operators.source.operation import SourceOp
from altneu.order import Antichain
from altneu.plan import ir
from altneu.plan.physical import PhysicalNode, Plan, Port, scheduled
from altneu.runtime import interrupts
from altneu.runtime.inputs import Inputs, Stamp
from altneu.runtime.read import contents
from altneu.trace.batch import Layout
from altneu.trace.update import Updates

DIFFERENCE = "difference"  # the rows that are given less those that are there, as an arrangement
DIFF = "#diff"


def replace(engine: Engine, source: str, rows: Any, diff: Diff = None, extra: Extra = "error") -> None:
    """Make rows the contents of a source; see ``Session.replace``."""
    with engine.lock:
        engine.check_open()
        declared, named = engine.source(source), weight_names(diff)
        rows, diff = with_weights(declared, rows, diff, others=unread(declared, extra, named))
        inputs = difference(engine, source, rows, diff, extra, named)
        with interrupts.deferred():
            engine.discard(source)  # what was inserted before is replaced too
            engine.pending = engine.pending.and_more(inputs)
            engine.pending.threads.add(get_ident())


def difference(
    engine: Engine,
    source: str,
    rows: Any,
    diff: int | str = 1,
    extra: Extra = "error",
    named: Iterable[object] = (),
) -> Inputs:
    """What has to be inserted now, so that the rows of the last closed time become those that are given.

    The caller holds the lock, and drops the rows of the source that wait for the next step: these are replaced too.

    Raises:
        as ``Session.replace``.
    """
    engine.check_open()
    engine.require_stored_views()
    engine.adopt()
    declared = engine.source(source)
    engine.refuse_closed(source)
    refuse_replacing(declared, diff)
    arrangement = _arrangement(engine, declared)
    _refuse_future(engine, declared, arrangement)
    inputs = given_rows(engine, declared, rows, diff, max(engine.lower - 1, 0), extra, named)
    return _difference(engine, declared, arrangement, inputs)


# what is refused ------------------------------------------------------------------------------------------------------


def refuse_replacing(source: ir.Source, diff: int | str) -> None:
    """Refuse a source that no rows can replace, whatever it has.

    Raises:
        InputError: it is append-only, or has two times; or it is a set or has a key, and rows have a count.
    """
    if source.append_only:
        raise InputError(
            f"source {source.name!r} is append-only, and to replace its rows is to retract some; insert those that are "
            "new, or declare it without append_only=True"
        )
    if source.coordinates is not None:
        raise InputError(
            f"source {source.name!r} has {ir.times_named(source.coordinates)}, and rows that replace its "
            f"contents do not say which {source.coordinates[1]} they correct; retract the rows that are wrong and "
            "insert those that are right, each with its times"
        )
    if source.commanded_by is not None and not (type(diff) is int and diff == 1):
        what = "has a key" if source.key else "is a set"
        raise InputError(
            f"source {source.name!r} {what}, so each of its rows is there once: diff must be 1, got {diff!r}; leave "
            "out rows that are not there"
        )


def _arrangement(engine: Engine, source: ir.Source) -> str:
    """An arrangement that has all rows and columns of a source, outside of loops and moments.

    Raises:
        InputError: there is none.
    """
    plan, existing = engine.plan, engine.journal.existing()
    for name in plan.arrangements_with(source.fingerprint, source.schema):
        if name in existing and plan.nodes[plan.arrangements[name]].scope == 0:
            return name
    raise InputError(
        f"source {source.name!r} cannot be replaced, because no state has all of its rows, with all columns, to "
        f"compare the new ones with: declare it with an.source({source.name!r}, ..., keep=True), in SQL CREATE SOURCE "
        f"… KEEP, or with a key; or call session.backfill({source.name!r}, rows) once with the rows that it holds now; "
        "or maintain a view of the source itself before its first row"
    )


def _refuse_future(engine: Engine, source: ir.Source, arrangement: str) -> None:
    """Refuse a source with rows of times to come: the new rows do not say whether these are still to come.

    Raises:
        InputError: it has some; the message says until when.
    """
    states = {arrangement, commands_name(source)} if source.commanded_by is not None else {arrangement}
    waiting = [summary.least for (name, _), summary in engine.table.future.items() if name in states]
    if waiting:
        raise InputError(
            f"source {source.name!r} cannot be replaced now: rows that were inserted for time {min(waiting)} or later "
            "are stored and wait, and the new rows do not say whether they are still to come; advance beyond their "
            "times, and replace then"
        )
    lower = engine.lower
    inserted = engine.pending.updates.get(source.name, ())
    later: list[object] = [int(part.times[0].max()) for part in inserted if (part.times[0] > lower).any()]
    times = [stamp.time for _, stamp in engine.pending.frames.get(source.name, ())]
    later += [f"column {time!r}" if isinstance(time, str) else time for time in times if time != lower]
    if later:
        raise InputError(
            f"source {source.name!r} cannot be replaced now: rows were inserted for later times (time={later[0]}), and "
            "the new rows do not say whether they are still to come; advance beyond these times and replace then, or "
            f"discard them with session.discard({source.name!r})"
        )


# the difference -------------------------------------------------------------------------------------------------------


def _difference(engine: Engine, source: ir.Source, arrangement: str, inputs: Inputs) -> Inputs:
    """The rows that are given less those that are there, as rows to insert at the present time."""
    now, table = max(engine.lower - 1, 0), engine.table
    plan, layout = _plan(engine, source, arrangement)
    region = engine.times.region(now, now + 1, now, engine.journal.events)
    layouts, mark = table.layouts, table.mark()
    try:
        with engine.past.watch(f"comparing the rows of {source.name}"):
            outcome = engine.executor.step(plan, table, inputs, region, StepMode(engine.shards, hydrating=True))
        table.layouts = {**layouts, DIFFERENCE: layout}
        engine.journal.take(outcome)
        return _inserted(engine, source, (now,))
    finally:
        with interrupts.deferred():
            table.layouts = layouts
            table.restore(mark)


def _plan(engine: Engine, source: ir.Source, arrangement: str) -> tuple[Plan, Layout]:
    """The plan of the difference, which is an arrangement by all columns, and the layout of that."""
    name, schema = source.name, source.schema
    layout = Layout(schema, tuple(schema.names), engine.lattice)
    nodes = (
        PhysicalNode(SourceOp(name), (), 0, schema, label=f"new rows of {name}"),
        PhysicalNode(ReadOp(arrangement, present=True), (), 0, schema, label=f"read {name}"),
        PhysicalNode(LinearOp(BoundLogic((Negate(),))), (Port(1),), 0, schema, label="less"),
        PhysicalNode(ConcatOp(), (Port(0), Port(2)), 0, schema, label="concat"),
        PhysicalNode(ArrangeOp(DIFFERENCE, layout), (Port(3),), 0, schema, layout.key, label=f"difference of {name}"),
    )
    cut, schedule = scheduled(nodes, engine.plan.scopes[:1])
    layouts = {arrangement: engine.plan.layouts[arrangement]}
    plan = Plan(engine.lattice, cut, read_layouts=layouts, scopes=engine.plan.scopes[:1], schedule=schedule)
    return plan, layout


def _inserted(engine: Engine, source: ir.Source, at: tuple[int, ...]) -> Inputs:
    """The difference as rows that are inserted now: in the driver, or where it is large as a DataFrame of Spark's."""
    lower, table, inputs = engine.lower, engine.table, Inputs()
    commands = commands_of(source, engine.next_call(), None)
    if engine.spark is not None and table.rows(DIFFERENCE) > READ_ROWS and engine.lacking is None:
        frame = engine.executor.read_updates(table, DIFFERENCE, DIFF, at)
        frontier = Antichain.of(engine.lattice, lower)
        stamp = Stamp(source.name, source.schema, engine.lattice, frontier, lower, DIFF, commands=commands)
        inputs.frames[source.name] = [(frame, stamp)]
        return inputs
    updates = contents(table, DIFFERENCE, at)
    if len(updates):
        updates = _at(updates, lower)
        if commands is not None:
            updates = commands.of(updates, updates.rows.to_batch(), source.name)
        inputs.updates[source.name] = [updates]
    return inputs


def _at(updates: Updates, time: int) -> Updates:
    times = updates.times.copy()
    times[:] = time
    return changed(updates, times=times)
