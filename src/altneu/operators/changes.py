"""How a kernel tells changes of a group's row: what was and what is, wherever the two differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.errors import StepFailedError
from altneu.operators.aggregates import DATA, EMPTY, NEGATIVE, OVERFLOW, Aggregate
from altneu.operators.compiled import compiled
from altneu.operators.groups import (
    ARITHMETIC_OVERFLOW,
    NEGATIVE_MULTIPLICITY,
    Groups,
    ReduceOutput,
    error_updates,
    output,
)
from altneu.rows import Ints, Rows
from altneu.update import Updates


@compiled
def room_for(moments: int, many: int) -> Any:
    """Arrays for the changes of so many moments: position, diff, state; validity, low and high words by aggregate."""
    room = 2 * moments
    lines = np.empty((many, room), np.bool_), np.empty((many, room), np.int64), np.empty((many, room), np.int64)
    return np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64), lines[0], lines[1], lines[2]


@compiled
def finals_for(many: int) -> Any:
    """Two lines of finals, one for what was and one for what is: states, validity, low and high words."""
    zeros = np.zeros((2, many), np.bool_), np.zeros((2, many), np.int64), np.zeros((2, many), np.int64)
    return np.zeros(2, np.int64), zeros[0], zeros[1], zeros[2]


@compiled
def emit_change(finals: Any, was: int, at: int, out: Any, made: int) -> int:
    """Write -1 for line ``was`` and +1 for the other if they differ; returns the number of changes written so far."""
    states, valid, low, high = finals
    out_at, out_diff, out_state, out_valid, out_low, out_high = out
    same = states[0] == states[1]
    if same and states[0] == DATA:
        for a in range(valid.shape[1]):
            if valid[0, a] != valid[1, a] or (valid[0, a] and (low[0, a] != low[1, a] or high[0, a] != high[1, a])):
                same = False
    if same:
        return made
    for line in (was, 1 - was):
        if states[line] != EMPTY:
            out_at[made], out_state[made], out_diff[made] = at, states[line], -1 if line == was else 1
            for a in range(valid.shape[1]):
                out_valid[a, made], out_low[a, made], out_high[a, made] = valid[line, a], low[line, a], high[line, a]
            made += 1
    return made


@compiled
def cut(out: Any, made: int) -> Any:
    """The changes written."""
    return out[0][:made], out[1][:made], out[2][:made], out[3][:, :made], out[4][:, :made], out[5][:, :made]


_MOST_ELEMENTS = 2**31 - 1

Finals = Callable[[Any, Any, Ints, Ints], list[pa.Array]]


def tell(
    changes: Any,
    groups: Groups,
    finals: Finals,
    schema: pa.Schema,
    aggregates: Sequence[Aggregate],
    operator: str,
) -> ReduceOutput:
    """A kernel's changes as rows and errors; ``finals(which, valid, low, high)`` makes the aggregates' columns."""
    at, diffs, states, valid, low, high = changes
    good = states == DATA
    clean = bool(good.all())
    which = slice(None) if clean else np.flatnonzero(good)
    keys = groups.keys.take(groups.new_group[at[which]])
    rows = Rows(schema, (*keys.columns, *finals(which, valid, low, high)), keys.count)
    oks = Updates(rows, groups.new_times[at[which]].reshape(1, -1), diffs[which])
    if clean:
        return output(schema, [oks], [])
    bad = np.flatnonzero(~good)
    texts = [state_text(state, aggregates) for state in states[bad].tolist()]
    return output(schema, [oks], [error_updates(operator, groups, at[bad], diffs[bad], texts)])


def state_text(state: int, aggregates: Sequence[Aggregate]) -> tuple[str, str]:
    """Code and message of a group that has no row: NEGATIVE, or OVERFLOW + the position of the aggregate."""
    if state == NEGATIVE:
        return NEGATIVE_MULTIPLICITY, "the group holds a row more often retracted than inserted"
    return (
        ARITHMETIC_OVERFLOW,
        f"{aggregates[state - OVERFLOW]} left the range of its type; cast its argument to a wider one",
    )


def list_column(type_: pa.DataType, elements: pa.Array, starts: Ints, which: Ints, valid: Any) -> pa.Array:
    """Lists out of ``elements``: row i has those from ``starts[which[i]]`` up to ``starts[which[i] + 1]``.

    Raises:
        StepFailedError: the lists are too long together for one column.
    """
    which = np.where(valid, which, 0)
    sizes = np.where(valid, starts[which + 1] - starts[which], 0)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    if offsets[-1] > _MOST_ELEMENTS:
        raise StepFailedError(
            f"the lists collected in this step hold {offsets[-1]} values, a column at most 2^31 - 1; take smaller steps"
        )
    index = np.repeat(starts[which] - offsets[:-1], sizes) + np.arange(offsets[-1])
    values = elements.take(pa.array(index))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=type_)
