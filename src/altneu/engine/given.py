"""Rows that are given as the present contents of a source, as inputs of a step that compares them with its state."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from altneu.collections.sources import Extra, check_frame, is_spark_frame, refuse_extra, to_table, unread
from altneu.engine.engine import Engine
from altneu.order import Antichain
from altneu.plan import ir
from altneu.runtime.inputs import Inputs, Stamp


def given_rows(
    engine: Engine,
    source: ir.Source,
    rows: Any,
    diff: int | str,
    time: int,
    extra: Extra = "error",
    named: Iterable[object] = (),
) -> Inputs:
    """The rows as inputs of a step, all at one time; ``diff`` is how often each counts, or the name of a column.

    ``extra`` and ``named`` are as of ``unread``.

    Raises:
        SchemaError: they do not fit the source's columns.
        InputError: they are of an unsupported kind, or a stream.
    """
    frontier = Antichain.of(engine.lattice, time)
    stamp = Stamp(source.name, source.schema, engine.lattice, frontier, time, diff, append_only=source.append_only)
    inputs, others = Inputs(), unread(source, extra, tuple(named))
    if is_spark_frame(rows) and engine.spark is not None:
        check_frame(rows, stamp)
        refuse_extra(rows.columns, stamp.columns, others, source.name)
        inputs.frames[source.name] = [(rows, stamp)]
    else:
        table = to_table(rows, stamp.columns, source.schema, source.name, others)
        updates = stamp.updates(table)
        refuse_extra(table.column_names, stamp.columns, others, source.name)
        inputs.updates[source.name] = [updates] if len(updates) else []
    return inputs
