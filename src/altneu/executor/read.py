"""Reading arrangements: what they accumulate to at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from altneu.errors import ERROR_SCHEMA
from altneu.executor.base import ArrangementState
from altneu.executor.state import StateTable
from altneu.operators.spans import show_row
from altneu.rows import Rows
from altneu.update import Updates, consolidate


def accumulated(state: ArrangementState, at: int) -> Updates:
    """The rows of one shard with their counts at a time, all stamped with it.

    Shape:  no two of equal row, no zero count.
    """
    layout = state.spine.layout
    parts = []
    for batch in state.spine.batches:
        updates = batch.updates()
        late = updates.times[0] > at
        parts.append(updates.filter(~late) if late.any() else updates)
    if len(parts) == 1 and not (parts[0].times[0] != parts[0].times[0][:1]).any():
        return replace(parts[0], times=np.full_like(parts[0].times, at))  # one batch at one time: nothing to add up
    everything = Updates.concat(parts, layout.schema, layout.lattice.width)
    return consolidate(Updates(everything.rows, np.full_like(everything.times, at), everything.diffs), layout.lattice)


def contents(table: StateTable, name: str, at: int) -> Updates:
    """The rows of an arrangement with their counts at a time, over all shards."""
    parts = [accumulated(state, at) for shard in table.shards_of(name) if (state := table.get(name, shard)) is not None]
    return Updates.concat(parts, table.layouts[name].schema, table.lattice.width)


def negatives(found: Updates, view: str) -> Updates | None:
    """Error rows for the rows whose count is negative; None when there are none."""
    bad = np.flatnonzero(found.diffs < 0)
    if not len(bad):
        return None
    rows = found.rows.take(bad)
    columns = {
        "operator": [f"view {view}"] * len(bad),
        "code": ["NEGATIVE_MULTIPLICITY"] * len(bad),
        "message": [
            f"a row has count {d}: it was retracted more often than inserted" for d in found.diffs[bad].tolist()
        ],
        "row": [show_row(found.schema.names, r) for r in rows.to_pylist()],
    }
    return Updates(Rows.from_pydict(columns, ERROR_SCHEMA), found.times[:, bad], np.ones(len(bad), np.int64))
