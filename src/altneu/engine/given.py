"""Rows that are given as the present contents of a source, as inputs of a step that compares them with its state."""

from __future__ import annotations

from typing import Any

from altneu.collections.sources import check_frame, is_spark_frame, to_table
from altneu.engine.engine import Engine
from altneu.order import Antichain
from altneu.plan import ir
from altneu.runtime.inputs import Inputs, Stamp


def given_rows(engine: Engine, source: ir.Source, rows: Any, diff: int | str, time: int) -> Inputs:
    """The rows as inputs of a step, all at one time; ``diff`` is how often each counts, or the name of a column.

    Raises:
        SchemaError: they do not fit the source's columns.
        InputError: they are of an unsupported kind, or a stream.
    """
    frontier = Antichain.of(engine.lattice, time)
    stamp = Stamp(source.name, source.schema, engine.lattice, frontier, time, diff, append_only=source.append_only)
    inputs = Inputs()
    if is_spark_frame(rows) and engine.spark is not None:
        check_frame(rows, stamp)
        inputs.frames[source.name] = [(rows, stamp)]
    else:
        updates = stamp.updates(to_table(rows, stamp.columns, source.schema, source.name))
        inputs.updates[source.name] = [updates] if len(updates) else []
    return inputs
