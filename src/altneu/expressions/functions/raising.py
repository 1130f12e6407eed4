"""Failing on purpose: a row that should not be becomes an error row."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.expressions.registry import Out, register
from altneu.expressions.rules import takes
from altneu.expressions.vector import Mask, Vector

if TYPE_CHECKING:
    from altneu.expressions.expr import Call


def _text(vector: Vector, row: int) -> str:
    value = vector.arrow[row].as_py()
    return "null" if value is None else str(value)


@register(
    "raise_error",
    rule=takes("raise_error", T.STRING, T.STRING, returns=T.NULL, optional=1, nullable=True),
    style="vector",
    group="Conditional",
    usage="raise_error(message), raise_error(code, message)",
    doc="Fails: the row is an error with this message, and the code USER_RAISED_EXCEPTION or one's own.",
    fails=True,
    fold=False,
)
def raise_error(call: Call, count: int, *args: Vector) -> Out:
    """Null, and every row failed."""
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


@register(
    "debezium_event",
    rule=takes("debezium_event", T.STRING, T.BOOLEAN, T.BOOLEAN, returns=T.BOOLEAN, nullable=False),
    style="vector",
    group="Change data capture",
    usage="debezium_event(op, has_before, has_after)",
    doc="Whether a Debezium event changes rows: true for op r, c, u and d, false for m. Fails on any other op, and on "
    "an event without the row images that its op needs.",
    fails=True,
    fold=False,
)
def debezium_event(call: Call, count: int, op: Vector, has_before: Vector, has_after: Vector) -> Out:
    """True where rows change."""
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
    found = "no op" if value is None else f"op {value!r}"
    return f"an event with {found}; those of Debezium are r, c, u, d, t and m (is this a document of Debezium?)"
