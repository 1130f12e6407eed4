"""How far a step may go: a long advance is cut where too much would be due at once."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from altneu.order import Antichain
from altneu.runtime.inputs import Inputs
from altneu.runtime.state import StateTable

STEP_ROWS = 1_000_000  # updates a shard that one step takes up, inserted or held, unless they are all of one time


def step_limit(table: StateTable, pending: Inputs, lower: int, upper: int, shards: int) -> int:
    """The time up to which the next step of an advance from ``lower`` to ``upper`` goes.

    It is the latest before which at most ``STEP_ROWS`` updates a shard are due, or one time beyond those before which
    nothing is. Rows of DataFrames are not known before they are read, and not counted.

    Cost:   O(number of holds), nothing opened, as long as there are few; else O(log n) looks at every run.
    """
    room = STEP_ROWS * shards
    rows = 0
    for name in pending.updates:
        for updates in pending.updates[name]:
            rows += updates.diffs.size
    if not table.future and rows <= room:
        return upper
    inserted = [updates.times[0] for parts in pending.updates.values() for updates in parts]
    if rows <= room and not table.is_due(Antichain.of(table.lattice, upper), room - rows):
        return upper
    times = np.sort(np.concatenate(inserted)) if inserted else np.empty(0, np.int64)

    def due(end: int) -> int:
        return int(np.searchsorted(times, end)) + table.due(Antichain.of(table.lattice, end))

    if due(upper) <= room:
        return upper
    over = bisect_right(range(upper), room, lower, upper, key=due)
    return over - 1 if due(over - 1) else over


def before_feedback(table: StateTable, pending: Inputs, lower: int, upper: int, by: int) -> int:
    """The time up to which a step may go at whose times nothing comes back that happens in it.

    What happens at the first time at which anything does comes back ``by`` ticks later, at the earliest. Nothing
    happens where no update is inserted or waits. Rows of DataFrames with times of their own may be due at once.

    Cost:   O(number of holds), nothing opened.
    """
    times = [
        max(int(updates.times[0].min()), lower)
        for parts in pending.updates.values()
        for updates in parts
        if len(updates)
    ]
    stamps = (stamp.time for parts in pending.frames.values() for _, stamp in parts)
    times += [max(time, lower) if isinstance(time, int) else lower for time in stamps]
    times += [max(int(summary.least), lower) for summary in table.future.values()]
    if lower == 0:  # constants are there from the first time on
        times.append(0)
    return min(upper, min(times) + by) if times else upper
