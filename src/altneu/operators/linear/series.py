"""``generate_series``: the values from a start up to and with a stop, as numbers, dates or timestamps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.errors import TypeMismatchError
from altneu.expressions.calendar import civil_from_days, days_from_civil
from altneu.expressions.text_out import to_text
from altneu.expressions.vector import Vector
from altneu.operators.linear.expansion import MOST, Expansion, Failures, Mask

Values: TypeAlias = Callable[[Ints, Ints], Ints]
"""The values of rows at steps from 0."""

_STEPS = {
    **{kind: (kind,) for kind in (T.BYTE, T.SHORT, T.INT, T.LONG)},
    **dict.fromkeys((T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ), (T.YEAR_MONTH, T.DAY_TIME)),
}
_DAY = 86_400_000_000
_CYCLE = 4_800  # months in which the calendar comes round


def series(start: pa.Array, stop: pa.Array, step: pa.Array, *, outer: bool = False) -> Expansion:
    """One row a value: from ``start`` by ``step`` as long as it is not beyond ``stop``, in the type of ``start``.

    Integers go by integers of their type, dates and timestamps by months or by day-time intervals; a date takes only
    whole days. A step that leads away from ``stop`` makes no row, and nor does a null; a step of zero is an error.
    With ``outer`` what would make no row makes one of null.
    What the type cannot hold is beyond any ``stop``.

    Months are added to the value before, and the day is cut to the length of the month: the end of January 2021 leads
    to 02-28, and that to 03-28. An interval has months or days and never both, so every step makes progress.

    >>> def values(*arguments):
    ...     return series(*(pa.array([a]) for a in arguments)).rows(0, 100)[1][0].to_pylist()
    >>> values(1, 10, 3), values(3, 1, -1), values(1, 10, -1)
    ([1, 4, 7, 10], [3, 2, 1], [])
    >>> series(*(pa.array([a]) for a in (1, 10, -1)), outer=True).rows(0, 100)[1][0].to_pylist()
    [None]

    Cost:   O(n), and nothing for a value before it is asked for.
    Law:    the values are those of adding one step after the other (tests/operators/test_series.py).
    Source: PostgreSQL; Materialize for months.

    Raises:
        TypeMismatchError: there is no series of these types.
    """
    kind, by = start.type, step.type
    if stop.type != kind or by not in _STEPS.get(kind, ()):
        raise TypeMismatchError(
            f"generate_series cannot go from {T.type_name(kind)} to {T.type_name(stop.type)} by {T.type_name(by)}: "
            "integers go by integers of the same type, dates and timestamps by intervals"
        )
    vectors = [Vector(a.type, arrow=a) for a in (start, stop, step)]
    first, last, stride = (v.values.astype(np.int64) for v in vectors)
    usable = np.ones(len(start), np.bool_)
    for vector in vectors:
        usable &= True if vector.valid is None else vector.valid
    bad = _failures(kind, by, stride, usable)
    for mask, _, _ in bad:
        usable &= ~mask
    if by == T.YEAR_MONTH:
        counts, values = _by_months(first, last, stride, 1 if kind == T.DATE else _DAY)
    else:
        counts, values = _evenly(first, last, stride // _DAY if kind == T.DATE else stride)
    counts = np.where(usable, counts, 0)
    if not outer:
        return Expansion(counts, bad, lambda rows, steps: [Vector(kind, values(rows, steps)).arrow])
    empty = counts == 0
    for mask, _, _ in bad:
        empty &= ~mask

    def or_null(rows: Ints, steps: Ints) -> list[pa.Array]:
        return [Vector(kind, values(rows, steps), ~empty[rows]).arrow]

    return Expansion(np.where(empty, 1, counts), bad, or_null)


def _failures(kind: pa.DataType, by: pa.DataType, step: Ints, usable: Mask) -> Failures:
    zero = usable & (step == 0)
    part = usable & (step % _DAY != 0) & (kind == T.DATE and by == T.DAY_TIME)
    result: Failures = (
        (zero, "STEP_SIZE_ZERO", lambda _: "step size cannot equal zero"),
        (part, "STEP_NOT_WHOLE_DAYS", lambda row: _not_whole_days(int(step[row]))),
    )
    return tuple(f for f in result if f[0].any())


def _not_whole_days(step: int) -> str:
    shown = to_text(pa.array([step], T.DAY_TIME))[0]
    return f"the step {shown} is no whole number of days, as a series of dates needs; cast start and stop to timestamp"


def _evenly(begin: Ints, end: Ints, step: Ints) -> tuple[Ints, Values]:
    """Number and values of series in steps of one size; anything where the step is zero."""
    up = step > 0
    a, b, c = (x.view(np.uint64) for x in (begin, end, step))  # a distance may need all 64 bits
    size = np.maximum(np.where(up, c, np.uint64(0) - c), np.uint64(1))
    whole = np.where(up, b - a, a - b) // size
    counts = np.minimum(whole, np.uint64(MOST - 1)).astype(np.int64) + 1
    ahead = np.where(up, begin <= end, begin >= end)
    # The product may wrap; the sum is in range, so it wraps back
    return np.where(ahead, counts, 0), lambda rows, steps: begin[rows] + steps * step[rows]


def _by_months(begin: Ints, end: Ints, step: Ints, unit: int) -> tuple[Ints, Values]:
    """Number and values of series of times that have ``unit`` ticks a day."""
    day, tick = begin // unit, begin % unit
    year, month, of_month = civil_from_days(day)
    months = year * 12 + month - 1
    cuts = np.full((3, len(begin)), MOST, np.int64)
    _find_cuts(months, of_month, step, cuts)

    def days(rows: Ints, steps: Ints) -> Ints:
        moved = months[rows] + steps * step[rows]
        left = of_month[rows]
        for length, cut in zip((30, 29, 28), cuts, strict=True):
            left = np.where(steps >= cut[rows], np.minimum(left, length), left)
        return days_from_civil(moved // 12, moved % 12 + 1, left)

    stop, stop_tick = end // unit, end % unit
    year, month, _ = civil_from_days(stop)
    steps = (year * 12 + month - 1 - months) // np.where(step == 0, 1, step)
    latest = days(np.arange(len(begin)), np.maximum(steps, 0))  # in the month of the stop, or not as far
    later = (latest > stop) | ((latest == stop) & (tick > stop_tick))
    earlier = (latest < stop) | ((latest == stop) & (tick < stop_tick))
    counts = np.maximum(steps + ~np.where(step > 0, later, earlier), 0)
    return counts, lambda rows, steps: days(rows, steps) * unit + tick[rows]


@compiled()
def _find_cuts(months: Ints, days: Ints, step: Ints, cuts: Ints) -> None:
    """The first step at which a day of the month is cut to 30, to 29 and to 28."""
    for row in range(len(months)):
        day = days[row]
        for k in range(1, _CYCLE + 1):
            if day <= 28 or step[row] == 0:
                break
            moved = months[row] + k * step[row]
            year, month = moved // 12, moved % 12
            length = 31 - (month % 7) % 2
            if month == 1:
                length = 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
            for limit in range(length, min(day, 31)):
                cuts[30 - limit, row] = k
            day = min(day, length)
