"""Aggregates over frames: sums and extremes that move along with the frame, and any other one frame by frame."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.hashing import hash_rows
from altneu.columnar.ranking import codes
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.operators.kernels.exact_sum import ANYTHING, DECIMAL, NULLS, SCRATCH, STRIDE, add_value, bump
from altneu.operators.kernels.groups import Groups
from altneu.operators.reduce.accumulate import Mask, valid_of, words_of
from altneu.operators.reduce.aggregates import DATA, finish_one, finishing_table, number_kind, result_type
from altneu.operators.reduce.calls import Aggregate, WindowCall
from altneu.operators.reduce.lined_up import Places
from altneu.operators.reduce.ranked import GeneralSpec, reduce_general
from altneu.operators.reduce.window_functions import Picked, Results, Some, Words, frame_of, row_picked
from altneu.order import Epoch
from altneu.trace.batch import Layout

_ALL_VALID = np.empty(0, np.bool_)


def aggregate(call: WindowCall, places: Places) -> Results:
    """An aggregate over the frame of each place.

    Cost:   O(n) for counts, sums, averages and extremes of n places, O(n log n) for other aggregates; and what lists
            hold, of each frame that is unlike the one before.
    """
    assert call.frame is not None
    low, high = frame_of(call.frame, places)
    if not call.call.distinct:
        match call.call.function:
            case "count":
                some = Some.of(places, call.call.arguments)
                return Words(pa.int64(), some.before[high] - some.before[low] + _skipped_values(call, places))
            case "sum" | "avg":
                return _summed(call, places, low, high)
            case "min" | "max":
                return _extreme(call, places, low, high)
            case "collect_list" if not call.call.options:
                return _listed(call, places, low, high)
    return _by_frame(call, places, low, high)


def _skipped_values(call: WindowCall, places: Places) -> Ints | int:
    """How many values of each place's frame are not null, of rows that are not here."""
    skipped = places.ordered.held.groups.skipped
    if skipped is None or call.frame is None or call.frame.start is not None:
        return 0
    values = skipped.units - sum(skipped.sums(name, ANYTHING)[:, NULLS] for name in call.call.arguments)
    return values[places.group][places.line]


def _summed(call: WindowCall, places: Places, low: Ints, high: Ints) -> Words:
    column = places.ordered.column(call.call.arguments[0])
    kind, (line, type_) = number_kind(column.type), _finished(call.call, column.type)
    words = np.zeros((2, len(column)), np.int64)
    words_of(column, kind, words[0], words[1])
    valid = valid_of(column) if column.null_count else _ALL_VALID
    skipped, before = places.ordered.held.groups.skipped, (np.zeros((1, STRIDE), np.int64), np.zeros(1, np.int64))
    whose = np.zeros(len(places), np.int64)
    if skipped is not None and call.frame is not None and call.frame.start is None:
        before, whose = (skipped.sums(call.call.arguments[0], kind), skipped.units), places.group[places.line]
    state, some, finals = _move_sums(places.row, low, high, words, valid, kind, line, whose, before)
    failed = state != DATA
    return Words(type_, finals[0], finals[1] if kind == DECIMAL else None, some, failed if failed.any() else None)


@lru_cache
def _finished(aggregate: Aggregate, column: pa.DataType) -> tuple[Ints, pa.DataType]:
    """How a sum over a column is read, as ``finish_one`` takes it, and the type of what it comes to."""
    schema = pa.schema([pa.field(aggregate.arguments[0], column)])
    return finishing_table([aggregate], [{(0,): 0}], schema)[0], _type_of(aggregate, column)


def _type_of(aggregate: Aggregate, column: pa.DataType) -> pa.DataType:
    return result_type(aggregate, pa.schema([pa.field(aggregate.arguments[0], column)]))


@compiled()
def _move_sums(
    rows: Ints, low: Ints, high: Ints, words: Ints, valid: Mask, kind: int, line: Ints, whose: Ints, before: Any
) -> Any:
    """Go from frame to frame: values that come in are added, those that are left taken away, both exactly.

    ``before`` are the sums and the number of the rows that are in all frames of a group and not here.
    """
    n = len(rows)
    state, some, finals = np.empty(n, np.int64), np.empty(n, np.bool_), np.zeros((2, n), np.int64)
    sums, digits, magnitude = np.zeros(STRIDE, np.int64), np.zeros(8, np.int64), np.zeros(SCRATCH, np.int64)
    first, last = 0, 0
    for i in range(n):
        if i > 0 and low[i] == low[i - 1] and high[i] == high[i - 1]:
            state[i], some[i], finals[0, i], finals[1, i] = (
                state[i - 1],
                some[i - 1],
                finals[0, i - 1],
                finals[1, i - 1],
            )
            continue
        if low[i] < first or low[i] >= last or high[i] < last:
            sums[:] = before[0][whose[i]]
            first, last = low[i], low[i]
        for at in range(last, high[i]):
            _count(rows[at], 1, sums, words, valid, kind, digits)
        for at in range(first, low[i]):
            _count(rows[at], -1, sums, words, valid, kind, digits)
        first, last = low[i], high[i]
        state[i], some[i], finals[0, i], finals[1, i] = finish_one(
            line, sums, high[i] - low[i] + before[1][whose[i]], magnitude
        )
    return state, some, finals


@compiled()
def _count(row: int, diff: int, sums: Ints, words: Ints, valid: Mask, kind: int, digits: Ints) -> None:
    """Let a value count; no sum of less than 2^31 values leaves its slots."""
    if len(valid) > 0 and not valid[row]:
        bump(sums, NULLS, diff)
    else:
        add_value(sums, 0, kind, words[0, row], words[1, row], diff, digits)


def _extreme(call: WindowCall, places: Places, low: Ints, high: Ints) -> Picked:
    name = call.call.arguments[0]
    code = places.ordered.codes(name)
    some = Some.of(places, (name,))
    line = code[places.row[some.places]]
    number = _move_extreme(~line if call.call.function == "max" else line, some.before[low], some.before[high])
    at = np.full(len(number), -1, np.int64)
    result = number >= 0
    at[result] = some.places[number[result]]
    return row_picked(places, name, at)


@compiled()
def _move_extreme(codes_: Ints, low: Ints, high: Ints) -> Ints:
    """The position of the least code of each frame, -1 of an empty one; a queue keeps what may yet be the least."""
    result = np.empty(len(low), np.int64)
    queue = np.empty(len(codes_), np.int64)
    head, tail, first, last = 0, 0, 0, 0
    for i in range(len(low)):
        if low[i] < first or low[i] > last or high[i] < last:
            head, tail, last = 0, 0, low[i]
        for at in range(last, high[i]):
            while tail > head and codes_[queue[tail - 1]] > codes_[at]:
                tail -= 1
            queue[tail] = at
            tail += 1
        first, last = low[i], max(high[i], low[i])
        while head < tail and queue[head] < first:
            head += 1
        result[i] = queue[head] if head < tail else -1
    return result


def _frames(low: Ints, high: Ints) -> tuple[Ints, Ints, Ints]:
    """Where each distinct frame begins and ends, and the number of each place's."""
    fresh = np.append(True, (low[1:] != low[:-1]) | (high[1:] != high[:-1]))[: len(low)]
    which = np.flatnonzero(fresh)
    return low[which], high[which], np.cumsum(fresh) - 1


def _spread(low: Ints, high: Ints) -> Ints:
    """All from ``low`` up to ``high``, one after another."""
    many = high - low
    return np.arange(int(many.sum())) + np.repeat(low - (np.cumsum(many) - many), many)


def _listed(call: WindowCall, places: Places, low: Ints, high: Ints) -> Picked:
    """The values of each frame that are not null, in the order of its rows."""
    name = call.call.arguments[0]
    column, some = places.ordered.column(name), Some.of(places, (name,))
    first, last, number = _frames(some.before[low], some.before[high])
    values = column.take(pa.array(places.row[some.places[_spread(first, last)]]))
    offsets = pa.array(np.append(0, np.cumsum(last - first)), pa.int32())
    return Picked(pa.ListArray.from_arrays(offsets, values, type=_type_of(call.call, column.type)), number, None)


_LINE, _RESULT = "#line", "#0"


def _by_frame(call: WindowCall, places: Places, low: Ints, high: Ints) -> Picked:
    """Any aggregate: a line is a group that its frames, one after another, are the moments of."""
    names = tuple(dict.fromkeys(call.call.arguments))
    columns = [places.ordered.column(n) for n in names]
    fields = [pa.field(n, c.type) for n, c in zip(names, columns, strict=True)]
    layout = Layout(pa.schema([pa.field(_LINE, pa.int64()), *fields]), (_LINE,), Epoch())
    spec = GeneralSpec((_LINE,), (call.call,), layout.schema)
    first, last, number = _frames(low, high)
    line = places.line[np.searchsorted(number, np.arange(len(first)))]
    frames, at, diffs = _moves(first, last, line)
    rows = places.row[at]
    values = Rows(layout.value_schema, tuple(c.take(pa.array(rows)) for c in columns), len(rows))
    result = reduce_general(_groups(layout, line, frames, values, diffs), spec).oks
    come = np.flatnonzero(result.diffs > 0)
    matches = np.where(np.append(True, line[1:] != line[:-1])[: len(line)], _NOTHING, _AS_BEFORE)
    matches[result.times[0]] = _NOTHING
    matches[result.times[0, come]] = come
    matches = matches[np.maximum.accumulate(np.where(matches == _AS_BEFORE, 0, np.arange(len(matches))))]
    results = result.rows.column(_RESULT)
    matches[first == last] = len(results)
    results = pa.concat_arrays([results, pa.array([_of_nothing(call.call.function)], results.type)])
    failed = (matches == _NOTHING)[number]
    compared = None if pa.types.is_nested(results.type) else partial(codes, results)
    return Picked(results, matches[number], compared, failed if failed.any() else None)


_NOTHING, _AS_BEFORE = -1, -2


def _moves(first: Ints, last: Ints, line: Ints) -> tuple[Ints, Ints, Ints]:
    """What makes each frame of the one before in its line, which neither begins nor ends later: frame, place, diff."""
    fresh = np.append(True, line[1:] != line[:-1])[: len(line)]
    was_first = np.where(fresh, first, np.roll(first, 1))
    was_last = np.where(fresh, first, np.roll(last, 1))
    low, high = np.maximum(was_last, first), last
    removed = np.minimum(first, was_last)
    many = np.maximum(high - low, 0), np.maximum(removed - was_first, 0)
    frame = np.concatenate([np.repeat(np.arange(len(first)), m) for m in many])
    place = np.concatenate([_spread(low, low + many[0]), _spread(was_first, was_first + many[1])])
    diff = np.repeat([1, -1], [int(m.sum()) for m in many])
    order = np.argsort(frame, kind="stable")
    return frame[order], place[order], diff[order]


def _groups(layout: Layout, line: Ints, frames: Ints, values: Rows, diffs: Ints) -> Groups:
    """Lines as groups to which all updates are new, each at the moment of its frame."""
    none = np.empty(0, np.int64)
    keys, group = np.unique(line[frames], return_inverse=True)
    return Groups(
        layout,
        Rows(layout.key_schema, (pa.array(keys),), len(keys)),
        group,
        values,
        hash_rows(values),
        frames,
        diffs,
        np.zeros(len(keys) + 1, np.int64),
        Rows.empty(layout.value_schema),
        none.view(np.uint64),
        none,
    )


def _of_nothing(function: str) -> object:
    """What an aggregate is over no rows."""
    if function == "count":
        return 0
    return [] if function.startswith("collect") else None
