"""Inserting rows into sources: each becomes an update with a time and a diff, and waits for the next step."""

from __future__ import annotations

from threading import get_ident
from typing import Any

from altneu.collections.source_weights import Diff, weight_names, with_weights
from altneu.collections.sources import (
    Extra,
    InsertTime,
    check_frame,
    commands_of,
    is_spark_frame,
    own_times,
    python_columns,
    refuse_extra,
    to_table,
    unread,
)
from altneu.engine.parts import Parts
from altneu.errors import InputError, UnknownSourceError
from altneu.errors.nearest import did_you_mean
from altneu.plan import ir
from altneu.runtime.inputs import Stamp


def insert(
    parts: Parts,
    source: str,
    data: Any,
    time: InsertTime = None,
    diff: Diff = None,
    sign: int = 1,
    kind: int | None = None,
    extra: Extra = "error",
) -> None:
    """Insert rows into a source, or with ``sign=-1`` retract them; as commands if it is a set or has a key."""
    declared = source_named(parts, source)
    if source in parts.journal.closed:
        refuse_closed(parts, source)
    commands = None
    if kind is not None or declared.commanded_by is not None:
        commands = commands_of(declared, next_call(parts), kind)
    schema = declared.schema if commands is None else commands.read
    own: tuple[int | str, ...] = ()
    if declared.coordinates is not None or (time is not None and isinstance(time, tuple)):
        time, own = own_times(declared, time)
    now = parts.journal.lower
    closed = parts.times.closed.own_of(1 + len(own)) if own else ()
    when = now if time is None else time
    others = unread(declared, extra, () if diff is None else weight_names(diff))
    if diff is None:
        diff = 1
    else:
        times = [where for where in (when, *own) if isinstance(where, str)]
        data, diff = with_weights(declared, data, diff, sign, times, others)
    stamp = Stamp(
        source,
        schema,
        parts.lattice,
        parts.times.at(now),
        when,
        diff,
        sign,
        own,
        commands,
        declared.append_only,
        closed,
    )
    if time is not None or own:
        stamp.check_open(now)
    parts.pending.threads.add(get_ident())
    if type(data) is list and stamp.is_plain:
        updates = stamp.of_columns(python_columns(data, schema.names, schema, source, others), len(data))
    elif is_spark_frame(data) and parts.spark is not None:
        check_frame(data, stamp)
        refuse_extra(data.columns, stamp.columns, others, source)
        parts.pending.frames.setdefault(source, []).append((data, stamp))
        return
    else:
        table = to_table(data, stamp.columns, schema, source, others)
        updates = stamp.updates(table)
        refuse_extra(table.column_names, stamp.columns, others, source)
    if updates.diffs.size:
        parts.pending.updates.setdefault(source, []).append(updates)


def source_named(parts: Parts, name: str) -> ir.Source:
    """The source of this name.

    Raises:
        UnknownSourceError: no view reads a source of this name, and none is stored.
    """
    declared = parts.catalogue.source(name)
    if declared is None:
        known = parts.catalogue.sources
        raise UnknownSourceError(
            f"no maintained view reads a source {name!r}; the sources are: "
            f"{', '.join(known) or '(none: maintain a view first)'}{did_you_mean(name, known)}"
        )
    return declared


def next_call(parts: Parts) -> int:
    """A number for a call with commands, greater than all earlier ones in any session of the store."""
    parts.call = max(parts.call + 1, parts.journal.store.next_number << 32)
    return parts.call


def refuse_closed(parts: Parts, name: str) -> None:
    """Refuse to change a source that is closed.

    Raises:
        InputError: it is.
    """
    if name in parts.journal.closed:
        how = "static=True, and a step has had its rows" if name in parts.catalogue.static else "close_source"
        raise InputError(
            f"source {name!r} is closed ({how}), so its rows never change; to change them, drop the views that "
            f"read it, forget it with session.drop_source({name!r}), in SQL DROP, and declare and fill it again"
        )
