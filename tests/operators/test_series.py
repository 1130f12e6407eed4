"""generate_series: the vectors of its rules, and against adding one step after the other."""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import altneu as an
from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.calendar import civil_from_days, days_from_civil
from altneu.operators.linear.expansion import Expansion
from altneu.operators.linear.series import series

DAY = 86_400_000_000
TYPES = {T.BYTE: 8, T.SHORT: 16, T.INT: 32, T.LONG: 64}


def of(kind: pa.DataType, values: list[Any]) -> pa.Array:
    if kind == T.YEAR_MONTH:
        return pa.array([None if v is None else pa.MonthDayNano((v, 0, 0)) for v in values], kind)
    return pa.array(values, kind)


def run(kind: pa.DataType, by: pa.DataType, *arguments: Any, most: int = 1_000) -> list[Any]:
    start, stop, step = arguments
    result = series(of(kind, [start]), of(kind, [stop]), of(by, [step]))
    assert not result.failures
    return result.rows(0, most)[1][0].to_pylist()


def days(*texts: str) -> list[date]:
    return [date.fromisoformat(t) for t in texts]


def moments(*texts: str) -> list[datetime]:
    return [datetime.fromisoformat(t) for t in texts]


def rows(expanded: Expansion, begin: int, end: int) -> list[tuple[int, int]]:
    parents, [column] = expanded.rows(begin, end)
    width = column.type.bit_width
    return list(zip(parents.tolist(), column.view(f"int{width}").to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("start", "stop", "step", "expected"),
    [
        (1, 3, 1, [1, 2, 3]),
        (1, 10, 11, [1]),
        (3, 1, -1, [3, 2, 1]),
        (-2, 2, 3, [-2, 1]),
        (2, 2, 1, [2]),
        (2, 2, -1, [2]),
        (1, 3, -1, []),
        (3, 1, 1, []),
        (None, 3, 1, []),
        (1, None, 1, []),
        (1, 3, None, []),
        (None, None, 0, []),
        (2**63 - 3, 2**63 - 1, 2, [2**63 - 3, 2**63 - 1]),
        (2**63 - 4, 2**63 - 1, 2, [2**63 - 4, 2**63 - 2]),
        (-(2**63), 2**63 - 1, 2**63 - 1, [-(2**63), -1, 2**63 - 2]),
        (2**63 - 1, -(2**63), -(2**63), [2**63 - 1, -1]),
    ],
)
def test_of_integers(start, stop, step, expected):
    assert run(T.LONG, T.LONG, start, stop, step) == expected


@pytest.mark.parametrize("kind", [T.LONG, T.DATE, T.TIMESTAMP])
def test_outer_keeps_what_has_no_values_with_null_and_changes_nothing_else(kind):
    """Every series of small bounds, with nulls; an error row stays one."""
    by, unit = {T.LONG: (T.LONG, 1), T.DATE: (T.DAY_TIME, DAY), T.TIMESTAMP: (T.YEAR_MONTH, 1)}[kind]
    some = [None, -2, 0, 1]
    rows = [(a, b, None if c is None else c * unit) for a in some for b in some for c in some]
    width = pa.int32() if kind == T.DATE else pa.int64()
    start, stop = (pa.array([r[i] for r in rows], width).cast(kind) for i in (0, 1))
    step = of(by, [r[2] for r in rows])
    plain, outer = series(start, stop, step), series(start, stop, step, outer=True)
    assert [f[0].tolist() for f in outer.failures] == [f[0].tolist() for f in plain.failures]
    failed = np.logical_or.reduce([f[0] for f in plain.failures])

    def expanded(expansion):
        parents, (column,) = expansion.rows(0, 10_000)
        return list(zip(parents.tolist(), column.to_pylist(), strict=True))

    want = expanded(plain) + [(row, None) for row in range(len(rows)) if plain.counts[row] == 0 and not failed[row]]
    assert sorted(expanded(outer), key=str) == sorted(want, key=str)
    assert plain.counts.any()
    assert failed.any()


def test_a_step_of_zero_is_an_error_of_its_row():
    result = series(pa.array([1, 1, None, 5]), pa.array([2, 2, 2, 5]), pa.array([1, 0, 0, 0]))
    [(mask, code, message)] = result.failures
    assert mask.tolist() == [False, True, False, True]
    assert (code, message(1)) == ("STEP_SIZE_ZERO", "step size cannot equal zero")
    assert result.counts.tolist() == [2, 0, 0, 0]


@pytest.mark.parametrize("kind", TYPES)
def test_the_step_that_would_overflow_ends_the_series(kind):
    top = 2 ** (TYPES[kind] - 1) - 1
    assert run(kind, kind, top - 10, top, 7) == [top - 10, top - 3]
    assert run(kind, kind, -top + 9, -top - 1, -7) == [-top + 9, -top + 2]


def test_months_go_from_the_value_before():
    assert run(T.DATE, T.YEAR_MONTH, date(2021, 1, 31), date(2021, 5, 31), 1) == days(
        "2021-01-31", "2021-02-28", "2021-03-28", "2021-04-28", "2021-05-28"
    )
    assert run(T.DATE, T.YEAR_MONTH, date(2020, 1, 31), date(2020, 9, 30), 2) == days(
        "2020-01-31", "2020-03-31", "2020-05-31", "2020-07-31", "2020-09-30"
    )
    assert run(T.DATE, T.YEAR_MONTH, date(2020, 3, 31), date(2019, 11, 29), -1) == days(
        "2020-03-31", "2020-02-29", "2020-01-29", "2019-12-29", "2019-11-29"
    )
    assert run(T.DATE, T.YEAR_MONTH, date(2096, 2, 29), date(2109, 1, 1), 48) == days(
        "2096-02-29", "2100-02-28", "2104-02-28", "2108-02-28"
    )


def test_the_time_of_day_decides_about_the_last_month():
    expected = moments("2020-01-31 12:00", "2020-02-29 12:00", "2020-03-29 12:00")
    start, _, noon = expected
    assert run(T.TIMESTAMP_NTZ, T.YEAR_MONTH, start, noon, 1) == expected
    assert run(T.TIMESTAMP_NTZ, T.YEAR_MONTH, start, noon - timedelta(microseconds=1), 1) == expected[:2]
    zoned = [t.replace(tzinfo=UTC) for t in expected]
    assert run(T.TIMESTAMP, T.YEAR_MONTH, zoned[0], zoned[2], 1) == zoned


def test_day_time_intervals_move_timestamps_and_whole_days_dates():
    [start] = moments("2024-02-28 12:00")
    assert run(T.TIMESTAMP_NTZ, T.DAY_TIME, start, start + timedelta(hours=40), timedelta(hours=18)) == [
        start,
        start + timedelta(hours=18),
        start + timedelta(hours=36),
    ]
    assert run(T.DATE, T.DAY_TIME, date(2024, 3, 1), date(2024, 2, 27), timedelta(days=-2)) == days(
        "2024-03-01", "2024-02-28"
    )


def test_a_part_of_a_day_is_no_step_for_dates():
    start = of(T.DATE, [date(2024, 1, 1)] * 3)
    result = series(start, start, of(T.DAY_TIME, [timedelta(hours=36), timedelta(days=1), timedelta(0)]))
    assert result.counts.tolist() == [0, 1, 0]
    (zero, first, _), (part, second, message) = result.failures
    assert (first, zero.tolist()) == ("STEP_SIZE_ZERO", [False, False, True])
    assert (second, part.tolist()) == ("STEP_NOT_WHOLE_DAYS", [True, False, False])
    assert message(0).startswith("the step INTERVAL '1 12:00:00' DAY TO SECOND is no whole number of days")


@pytest.mark.parametrize(
    ("kind", "stop", "by"),
    [
        (T.LONG, T.LONG, T.INT),
        (T.LONG, T.INT, T.LONG),
        (T.DATE, T.TIMESTAMP, T.YEAR_MONTH),
        (T.DATE, T.DATE, T.INT),
        (T.DOUBLE, T.DOUBLE, T.DOUBLE),
    ],
)
def test_types_without_a_series_are_refused(kind, stop, by):
    with pytest.raises(TypeMismatchError, match="generate_series cannot go from"):
        series(pa.array([], kind), pa.array([], stop), pa.array([], by))


def test_a_slice_of_a_huge_series_costs_a_slice():
    result = series(pa.array([0, -(2**63), 1]), pa.array([10**7, 2**63 - 1, 2]), pa.array([1, 1, 1]))
    assert result.counts.tolist() == [10**7 + 1, 2**63 - 1, 2]  # one less than there are: no int64 holds 2^64
    assert result.total == 2**63 - 1
    assert rows(result, 10**7 - 1, 10**7 + 3) == [
        (0, 10**7 - 1),
        (0, 10**7),
        (1, -(2**63)),
        (1, -(2**63) + 1),
    ]
    assert rows(result, 2**62, 2**62 + 1) == [(1, 2**62 - 10**7 - 1 - 2**63)]


def _next_month(day: int, months: int) -> int:
    year, month, of_month = (int(p[0]) for p in civil_from_days(np.array([day])))
    year, month = divmod(year * 12 + month - 1 + months, 12)
    same = 2000 + year % 400  # the calendar comes round, and Python's knows no other years
    day = min(of_month, monthrange(same, month + 1)[1])
    return int(days_from_civil(np.array([year]), np.array([month + 1]), np.array([day]))[0])


def _slow(kind: pa.DataType, by: pa.DataType, start: int, stop: int, step: int, most: int) -> list[int]:
    """One step after the other, with a check after each."""
    limit = 2 ** (kind.bit_width - 1)
    result: list[int] = []
    unit = DAY if kind in (T.TIMESTAMP, T.TIMESTAMP_NTZ) else 1
    while -limit <= start < limit and (start <= stop if step > 0 else start >= stop) and len(result) < most:
        result.append(start)
        if by == T.YEAR_MONTH:
            start = _next_month(start // unit, step) * unit + start % unit
        else:
            start += step // DAY if kind == T.DATE else step
    return result


@st.composite
def arguments(draw):
    kind = draw(st.sampled_from([*TYPES, T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ]))
    limit = 2 ** (kind.bit_width - 1)
    by = kind if kind in TYPES else draw(st.sampled_from([T.YEAR_MONTH, T.DAY_TIME]))
    near = (
        st.integers(-60, 60)
        if kind in TYPES
        else st.integers(-40_000, 40_000).map(lambda d: d * (1 if kind == T.DATE else DAY // 3))
    )
    ends = st.sampled_from([-limit, limit - 1, limit - 2]).flatmap(
        lambda e: st.integers(0, 40).map(lambda k: max(-limit, min(limit - 1, e + (k if e < 0 else -k))))
    )
    value = st.one_of(st.none(), near, ends) if draw(st.integers(0, 9)) == 0 else st.one_of(near, ends)
    if by == T.YEAR_MONTH:
        step = st.one_of(
            st.integers(-15, 15), st.sampled_from([48, -48, 1200, 4800, -4800, 7 * 4800, 2**31 - 1, -(2**31)])
        )
    elif by == T.DAY_TIME:
        step = st.integers(-50, 50).map(lambda k: k * DAY)
    else:
        step = st.one_of(st.integers(-7, 7), st.sampled_from([limit - 1, -limit]))
    triples = draw(st.lists(st.tuples(value, value, st.one_of(step, step, step, st.none())), min_size=0, max_size=5))
    return kind, by, triples


@given(arguments(), st.lists(st.integers(0, 300), max_size=4))
@example((T.TIMESTAMP, T.YEAR_MONTH, [(2**63 - 1 - 9 * DAY, 2**63 - 1, 1)]), [])
@example((T.DATE, T.YEAR_MONTH, [(-(2**31) + 3, -(2**31), -1)]), [])
@example((T.DATE, T.YEAR_MONTH, [(18_321, 18_321 + 146_097 * 2, 4_800)]), [])
def test_values_are_those_of_step_after_step(case, cuts):
    kind, by, triples = case
    width = f"int{kind.bit_width}"
    pad = [(1, 2, 1), *triples]  # slices with an offset are read rightly
    start, stop = (pa.array([t[i] for t in pad], width).view(kind).slice(1) for i in (0, 1))
    result = series(start, stop, _steps([t[2] for t in pad], by).slice(1))
    most = 200
    expected = []
    for row, (a, b, step) in enumerate(triples):
        if a is None or b is None or step is None:
            assert result.counts[row] == 0
        elif step == 0:
            assert result.counts[row] == 0
            assert result.failures[0][0][row]
        else:
            values = _slow(kind, by, a, b, step, most)
            assert min(int(result.counts[row]), most) == len(values)
            before = int(result.counts[:row].astype(object).sum()) if row else 0
            if before < 2**62:
                assert rows(result, before, before + len(values)) == [(row, v) for v in values]
            expected += [(row, v) for v in values]
    if result.total == len(expected):
        points = sorted({0, result.total, *(c for c in cuts if c <= result.total)})
        pieces = [rows(result, a, b) for a, b in pairwise(points)]
        assert [r for p in pieces for r in p] == expected


def _steps(values: list[int | None], by: pa.DataType) -> pa.Array:
    if by == T.YEAR_MONTH:
        return of(by, values)
    return pa.array(values, f"int{by.bit_width}").view(by)


@pytest.mark.parametrize(
    ("kind", "step", "code"),
    [
        ("date", "interval 2 day", None),
        ("date", "interval '24:00' hour to minute", None),
        ("date", "interval -1 month", None),
        ("date", "interval 12 hour", "STEP_NOT_WHOLE_DAYS"),
        ("date", "interval -36 hour", "STEP_NOT_WHOLE_DAYS"),
        ("date", "interval 0 month", "STEP_SIZE_ZERO"),
        ("timestamp", "interval 12 hour", None),
        ("timestamp", "interval 0 second", "STEP_SIZE_ZERO"),
        ("long", "7", None),
        ("long", "0", "STEP_SIZE_ZERO"),
        ("long", "CAST(null AS bigint)", None),
    ],
)
def test_a_constant_step_tells_whether_it_can_fail(kind, step, code):
    """The plan keeps errors where there may be any, and nowhere else."""
    values = {"long": 5, "date": date(2021, 5, 5), "timestamp": datetime(2021, 5, 5, tzinfo=UTC)}
    numbers = an.source("numbers", f"a {kind}")
    days = numbers.generate_series("a", "a", step=step)
    assert days.node.logic.can_fail == (code is not None)
    with an.Session() as session:
        view = session.maintain("days", days)
        session.insert("numbers", [values[kind]])
        session.advance()
        assert view.errors()["code"].to_pylist() == ([code] if code else [])
        assert len(view.to_pylist(errors="ignore")) == (0 if code or "null" in step else 1)
