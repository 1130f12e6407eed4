"""Failing on purpose: a row that should not be becomes an error row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu.expressions.registry import Group, Out
from altneu.expressions.vector import Mask, Vector

if TYPE_CHECKING:
    pass


def _text(vector: Vector, row: int) -> str:
    value = vector.arrow[row].as_py()
    return "null" if value is None else str(value)


@Group("Conditional")(
    "raise_error(code string[, message string]) -> void?",
    usage="raise_error(message), raise_error(code, message)",
    fails=True,
    fold=False,
)
def raise_error(count: int, *args: Vector) -> Out:
    """Fails: the row becomes an error row with this message and code (by default USER_RAISED_EXCEPTION)."""
    message = args[-1]
    if len(args) == 1:
        return Out(pa.nulls(count), [(np.ones(count, np.bool_), "USER_RAISED_EXCEPTION", lambda i: _text(message, i))])
    codes = np.array([_text(args[0], i) for i in range(count)], object)
    return Out(pa.nulls(count), [(codes == c, c, lambda i: _text(message, i)) for c in dict.fromkeys(codes)])


_OPS = ["r", "c", "u", "d", "m", "t"]
_TRUNCATE, _OTHER = 5, 6
_HAS_BEFORE = np.array([False, False, True, True, False, False, False])
_HAS_AFTER = np.array([True, True, True, False, False, False, False])

_NO_BEFORE = (
    "an update or a delete without the row as it was (before): let the database send it (PostgreSQL: ALTER TABLE … "
    "REPLICA IDENTITY FULL; MySQL: binlog_row_image=FULL), or read the events by key with an.cdc.debezium_upsert"
)
_NO_AFTER = "an event that says that there is a row, and does not have the row (after)"
_TRUNCATED = (
    "the table was truncated, and the event does not say which rows that took away; let the connector leave such "
    "events out (skipped.operations=t, its default), and retract the rows of the table yourself"
)


def _true(vector: Vector, count: int) -> Mask:
    return np.broadcast_to(vector.values if vector.valid is None else vector.values & vector.valid, count)


@Group("Change data capture")(
    "debezium_event(op string, has_before boolean, has_after boolean) -> boolean!", fails=True, fold=False
)
def debezium_event(count: int, op: Vector, has_before: Vector, has_after: Vector) -> Out:
    """Whether a Debezium event changes rows: true for op r, c, u and d, false for m.

    Fails on any other op, and on an event without the row images that its op needs.
    """
    kind = np.asarray(pc.index_in(op.expand(count).arrow, pa.array(_OPS)).fill_null(_OTHER))
    failures: list[tuple[Mask, str, str | Callable[[int], str]]] = [
        (_HAS_BEFORE[kind] & ~_true(has_before, count), "MISSING_BEFORE", _NO_BEFORE),
        (_HAS_AFTER[kind] & ~_true(has_after, count), "MISSING_AFTER", _NO_AFTER),
        (kind == _TRUNCATE, "TRUNCATED_TABLE", _TRUNCATED),
        (kind == _OTHER, "UNKNOWN_OPERATION", lambda i: _unknown(op, i)),
    ]
    return Out(_HAS_BEFORE[kind] | _HAS_AFTER[kind], failures)


def _unknown(op: Vector, row: int) -> str:
    value = op.arrow[0 if op.constant else row].as_py()
    result = "no op" if value is None else f"op {value!r}"
    return f"an event with {result}; those of Debezium are r, c, u, d, t and m (is this a document of Debezium?)"
