"""The latest event of each key of a log that only grows, kept as one row a key.

Every update of a log is an event that happened (a positive diff) or one that is taken back (a negative one). Of each
key the arrangement keeps one row, the greatest of all that was ever said of it: in the order of some columns, then of
the whole row, and what was taken back is greater than the same row when it happened. Being a maximum, what is kept does
not depend on how often, in which order and in which step events came.

Where the greatest is a row that was taken back the key is an error, for what that row had replaced is not kept; any
greater event of the key mends it. So a key that is not an error has the row that all its updates, retractions included,
accumulate to.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from altneu.columnar.ranking import dense, sort_lines, whole_order
from altneu.columnar.rows import Ints, Rows
from altneu.errors import ERROR_SCHEMA
from altneu.operators.kernels.groups import no_errors, require_total, show_key, touched
from altneu.operators.kernels.spans import show_row, truth
from altneu.order import Antichain
from altneu.trace.batch import Arranged, Batch, Layout
from altneu.trace.update import Updates

RETRACTED = "#retracted"
RETRACTED_EVENT = "RETRACTED_EVENT"
_BEFORE = -1  # earlier than any time


def kept_schema(schema: pa.Schema) -> pa.Schema:
    """The columns that are kept of events: their own, and whether the event was taken back."""
    return schema.append(pa.field(RETRACTED, pa.bool_(), nullable=False))


def events(updates: Updates, layout: Layout, since: Antichain | None) -> Updates:
    """Updates of a log as ``latest`` takes them; with ``since`` their history is folded up to there.

    A log that is read back from an arrangement is folded as far as merging got by chance; what is said of it must not
    depend on that.
    """
    happened = pa.array(np.zeros(len(updates), np.bool_))
    rows = Rows(layout.schema, (*updates.rows.columns, happened), len(updates))
    return Updates(rows, updates.times if since is None else since.advance(updates.times), updates.diffs)


def latest(arranged: Arranged, order: Sequence[str]) -> Batch:
    """The changes that events make to the greatest one of each key.

    Shape:  an arrangement of ``kept_schema`` by key in, its ``new`` events as ``events`` makes them, ``old`` what this
            function gave before; -1 for the row that was the greatest and +1 for the one that is, at each time at which
            that changes. No event of a key, no row.
    Cost:   one lookup of the keys that have events, one sort of the events: O(d log n) for d events. No exchange, no
            state beside the arrangement.
    Law:    at every time t the changes up to t add up to the maximum, of each key, of the events with times <= t,
            however they are cut into steps (tests/operators/test_latest.py).

    Raises:
        PlanError: the times are not totally ordered.
    """
    layout = arranged.layout
    require_total(arranged, "latest")
    if not len(arranged.new):
        return arranged.new
    groups = touched(arranged)
    values = Rows.concat([groups.old_values, _marked(groups.new_values, groups.new_diffs)], layout.value_schema)
    group = np.concatenate([np.repeat(np.arange(len(groups)), np.diff(groups.old_start)), groups.new_group])
    time = np.concatenate([np.full(groups.old_values.count, _BEFORE), groups.new_times])
    rank, row = _ranks(values, group, [name for name in order if name not in layout.key])
    # Whatever the arrangement ever held of a key was less than what it holds: the greatest old row is the current one.
    position = np.lexsort((time, group))
    last = np.append(np.diff(group[position]).astype(np.bool_) | np.diff(time[position]).astype(np.bool_), True)
    at = position[last]
    best = np.maximum.accumulate(rank[position])[last]  # ranks of later groups are greater
    follows = np.append(False, group[at[1:]] == group[at[:-1]])
    comes = (time[at] != _BEFORE) & np.append(True, best[1:] != best[:-1])
    removed, come = np.flatnonzero(comes & follows), np.flatnonzero(comes)
    moment = at[np.concatenate([removed, come])]
    which = row[np.concatenate([best[removed - 1], best[come]])]
    rows = layout.join(groups.keys.take(group[moment]), values.take(which))
    diffs = np.repeat(np.array([-1, 1]), [len(removed), len(come)])
    return Batch.build(Updates(rows, time[moment].reshape(1, -1), diffs), layout, arranged.new.description)


def _marked(values: Rows, diffs: Ints) -> Rows:
    """Values whose last column tells which were taken back."""
    if (diffs > 0).all():
        return values
    return Rows(values.schema, (*values.columns[:-1], pa.array(diffs < 0)), values.count)


def _ranks(values: Rows, group: Ints, order: Sequence[str]) -> tuple[Ints, Ints]:
    """The rank of each row by (group, order, whole row), equal rows having one, and a row of each rank.

    Whole rows are compared only where the order leaves it open.
    """
    lines = [sort_lines(values.column(name), descending=False, nulls_first=True) for name in order]
    rank = dense([group, *(line for some in lines for line in some)], values.count)
    tied = np.flatnonzero(np.bincount(rank)[rank] > 1)
    if len(tied):
        within = np.zeros(values.count, np.int64)
        within[tied] = dense(whole_order(values.take(tied)), len(tied))
        rank = dense([rank, within], values.count)
    row = np.empty(values.count, np.int64)
    row[rank] = np.arange(values.count)
    return rank, row


def current(changes: Batch, schema: pa.Schema, order: Sequence[str], operator: str) -> tuple[Updates, Updates]:
    """Changes of what is kept as (rows, errors): rows that happened, and an error for each that was taken back."""
    updates = changes.updates()
    *columns, flags = updates.rows.columns
    retracted = truth(flags)
    plain = updates.with_rows(Rows(schema, tuple(columns), len(updates)))
    if not retracted.any():
        return plain, no_errors(len(updates.times))
    failed, names = plain.filter(retracted), changes.layout.key
    keys = failed.rows.select(names).to_pylist()
    texts: dict[str, Sequence[object]] = {
        "operator": [operator] * len(failed),
        "code": [RETRACTED_EVENT] * len(failed),
        "message": [_message(show_key(names, key), ", ".join(order)) for key in keys],
        "row": [show_row(schema.names, row) for row in failed.rows.to_pylist()],
    }
    return plain.filter(~retracted), failed.with_rows(Rows.from_pydict(texts, ERROR_SCHEMA))


def _message(key: str, order: str) -> str:
    return (
        f"an event of {key} was retracted, and what it had replaced is not kept: a log of upserts only grows; "
        f"send that key once more with a greater {order} (nulls as its values if it is gone), and this error goes"
    )
