"""How a kernel tells changes of a group's row: what was and what is, wherever the two differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.columns import Mask
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.errors import StepFailedError
from altneu.operators.kernels.groups import (
    ARITHMETIC_OVERFLOW,
    NEGATIVE_MULTIPLICITY,
    NOTHING_PENDED,
    Groups,
    ReduceOutput,
    error_updates,
    no_errors,
    output,
)
from altneu.operators.reduce.aggregates import DATA, EMPTY, NEGATIVE, OVERFLOW
from altneu.operators.reduce.calls import Aggregate, WindowCall
from altneu.trace.update import Updates


@compiled()
def room_for(moments: int, many: int) -> Any:
    """Arrays for the changes of so many moments: position, diff, state; validity; low and high words by aggregate."""
    room = 2 * moments
    return np.empty((3, room), np.int64), np.empty((many, room), np.bool_), np.empty((2, many, room), np.int64)


@compiled()
def finals_for(many: int) -> Any:
    """Two lines of finals, one for what was and one for what is: states, validity, low and high words."""
    return np.zeros(2, np.int64), np.zeros((2, many), np.bool_), np.zeros((2, 2, many), np.int64)


@compiled()
def emit_change(  # arrays one by one: taking tuples of them apart costs more than the rest
    states: Ints, valid: Mask, words: Ints, was: int, at: int, lines: Ints, shown: Mask, emitted: Ints, count: int
) -> int:
    """Write -1 for line ``was`` and +1 for the other if they differ; returns the number of changes written so far."""
    same = states[0] == states[1]
    for a in range(valid.shape[1] if same and states[0] == DATA else 0):
        same &= valid[0, a] == valid[1, a]
        if valid[0, a]:
            same &= words[0, 0, a] == words[0, 1, a] and words[1, 0, a] == words[1, 1, a]
    if same:
        return count
    for line in (was, 1 - was):
        if states[line] != EMPTY:
            lines[0, count], lines[1, count], lines[2, count] = at, -1 if line == was else 1, states[line]
            for a in range(valid.shape[1]):
                shown[a, count] = valid[line, a]
                emitted[0, a, count], emitted[1, a, count] = words[0, line, a], words[1, line, a]
            count += 1
    return count


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
    """A kernel's changes as rows and errors; ``finals(which, valid, low, high)`` makes the aggregates' columns.

    Shape:  position, diff and state of each change; validity of each aggregate; its low words, its high words.
    """
    (at, diffs, states), valid, (low, high) = changes
    good = states == DATA
    clean = bool(good.all())
    which = slice(None) if clean else np.flatnonzero(good)
    keys = groups.keys.take(groups.new_group[at[which]])
    rows = Rows(schema, (*keys.columns, *finals(which, valid, low, high)), keys.count)
    oks = Updates(rows, groups.new_times[at[which]].reshape(1, -1), diffs[which])
    if clean:
        return ReduceOutput(oks, no_errors(1), NOTHING_PENDED)
    bad = np.flatnonzero(~good)
    texts = [state_text(state, aggregates) for state in states[bad].tolist()]
    return output(schema, [oks], [error_updates(operator, groups, at[bad], diffs[bad], texts)])


def state_text(state: int, aggregates: Sequence[Aggregate | WindowCall]) -> tuple[str, str]:
    """Code and message of a group that has no row: NEGATIVE, or OVERFLOW + the position of the aggregate."""
    if state == NEGATIVE:
        return NEGATIVE_MULTIPLICITY, "the group holds a row more often retracted than inserted"
    return (
        ARITHMETIC_OVERFLOW,
        f"{aggregates[state - OVERFLOW].signature} left the range of its type; cast its argument to a wider one",
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
