"""Dates and timestamps: their parts, moving them, cutting them, building them. The session's time zone is UTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.calendar import add_months, civil_from_days, days_from_civil, month_length
from altneu.expressions.coercion import INTEGRAL, is_numeric
from altneu.expressions.decimals import divide_half_up
from altneu.expressions.registry import Out, Rule, Typing, register
from altneu.expressions.rules import accept, expect_count, takes
from altneu.expressions.vector import Mask, Values, Vector

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr

GROUP = "Dates and timestamps"
DAY = 86_400_000_000
SECOND = 1_000_000
POINTS = (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ)
OVERFLOW = "DATETIME_OVERFLOW"


def as_days(values: Values, kind: pa.DataType) -> Values:
    """Days since the epoch, as int64."""
    return values.astype(np.int64) if kind == T.DATE else values // DAY


def point(name: str, want: pa.DataType) -> Callable[[Expr], pa.DataType | None]:
    """The cast of a date or timestamp argument: any moment stays as it is, anything else is read as ``want``."""

    def typed(arg: Expr) -> pa.DataType | None:
        return arg.type if arg.type in POINTS else accept(name, 0, arg, want)

    return typed


def _part_rule(name: str, want: pa.DataType, returns: pa.DataType) -> Rule:
    typed = point(name, want)

    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 1)
        return Typing([typed(args[0])], returns)

    return rule


def _date_parts() -> dict[str, Callable[[Values], Values]]:
    def quarter(days: Values) -> Values:
        return (civil_from_days(days)[1] + 2) // 3

    def day_of_year(days: Values) -> Values:
        year = civil_from_days(days)[0]
        one = np.ones(1, np.int64)
        return days - days_from_civil(year, one, one) + 1

    return {
        "year": lambda days: civil_from_days(days)[0],
        "quarter": quarter,
        "month": lambda days: civil_from_days(days)[1],
        "day": lambda days: civil_from_days(days)[2],
        "dayofweek": lambda days: (days + 4) % 7 + 1,
        "weekday": lambda days: (days + 3) % 7,
        "dayofyear": day_of_year,
        "weekofyear": lambda days: iso_week(days)[1],
        "yearofweek": lambda days: iso_week(days)[0],
    }


def iso_week(days: Values) -> tuple[Values, Values]:
    """Year and week of ISO 8601: weeks start on Monday, week 1 has the year's first Thursday."""
    thursday = days - (days + 3) % 7 + 3
    year = civil_from_days(thursday)[0]
    one = np.ones(1, np.int64)
    return year, (thursday - days_from_civil(year, one, one)) // 7 + 1


DATE_PARTS = _date_parts()
_PART_DOCS = {
    "year": "Year.",
    "quarter": "Quarter, 1 to 4.",
    "month": "Month, 1 to 12.",
    "day": "Day of the month.",
    "dayofweek": "Day of the week, 1 is Sunday.",
    "weekday": "Day of the week, 0 is Monday.",
    "dayofyear": "Day of the year.",
    "weekofyear": "ISO week of the year.",
}


def _part_kernel(part: Callable[[Values], Values]) -> Callable[[Call, Values], Values]:
    return lambda call, values: part(as_days(values, call.args[0].type)).astype(np.int32)


for _name, _doc in _PART_DOCS.items():
    _aliases = ("dayofmonth",) if _name == "day" else ()
    register(
        _name,
        *_aliases,
        rule=_part_rule(_name, T.DATE, T.INT),
        style="numpy",
        group=GROUP,
        usage=f"{_name}(d)",
        doc=_doc,
    )(_part_kernel(DATE_PARTS[_name]))

_CLOCK = {"hour": (3_600 * SECOND, 24), "minute": (60 * SECOND, 60), "second": (SECOND, 60)}


def _clock_kernel(unit: int, size: int) -> Callable[[Call, Values], Values]:
    def kernel(call: Call, values: Values) -> Values:
        if call.args[0].type == T.DATE:
            return np.zeros(len(values), np.int32)
        return (values // unit % size).astype(np.int32)

    return kernel


for _name, (_unit, _size) in _CLOCK.items():
    register(
        _name,
        rule=_part_rule(_name, T.TIMESTAMP, T.INT),
        style="numpy",
        group=GROUP,
        usage=f"{_name}(t)",
        doc=f"The {_name} of the {'day' if _name == 'hour' else 'hour' if _name == 'minute' else 'minute'}.",
    )(_clock_kernel(_unit, _size))

_FIELDS = {
    **dict.fromkeys(("year", "y", "years", "yr", "yrs"), "year"),
    "yearofweek": "yearofweek",
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "mon", "mons", "months"), "month"),
    **dict.fromkeys(("week", "w", "weeks"), "weekofyear"),
    **dict.fromkeys(("day", "d", "days"), "day"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    **dict.fromkeys(("dayofweek_iso", "dow_iso"), "dayofweek_iso"),
    "doy": "dayofyear",
    **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), "minute"),
    **dict.fromkeys(("second", "s", "sec", "seconds", "secs"), "second"),
}


def _extract_rule(args: Sequence[Expr]) -> Typing:
    expect_count("extract", args, 2)
    name = _FIELDS.get(str(getattr(args[0], "value", "")).lower())
    if name is None:
        raise TypeMismatchError(
            f"extract: {args[0].text} is no part of a date; the parts are {', '.join(dict.fromkeys(_FIELDS.values()))}"
        )
    want = T.TIMESTAMP if name in _CLOCK else T.DATE
    typed = point("extract", want)(args[1])
    return Typing((None, typed), pa.decimal128(8, 6) if name == "second" else T.INT)


@register(
    "extract",
    "date_part",
    "datepart",
    rule=_extract_rule,
    style="numpy",
    group=GROUP,
    usage="extract(part FROM t), date_part('part', t)",
    doc="A part by name: year, quarter, month, week, day, dow, doy, hour, minute, second (with its fraction).",
    constants=(0,),
)
def extract(call: Call, part: str, values: Values) -> Values:
    """A part of a date or timestamp by name."""
    name, kind = _FIELDS[part.lower()], call.args[1].type
    if name == "second":
        return np.zeros(len(values), np.int64) if kind == T.DATE else values % (60 * SECOND)
    if name in _CLOCK:
        unit, size = _CLOCK[name]
        return np.zeros(len(values), np.int32) if kind == T.DATE else (values // unit % size).astype(np.int32)
    days = as_days(values, kind)
    if name == "dayofweek_iso":
        return ((days + 3) % 7 + 1).astype(np.int32)
    return DATE_PARTS[name](days).astype(np.int32)


def _days_rule(name: str) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 2)
        if args[1].type not in (*INTEGRAL[:3], T.STRING, T.NULL):
            raise TypeMismatchError(
                f"{name} takes a number of days that is int, not {T.type_name(args[1].type)} (`{args[1].text}`)"
            )
        return Typing((accept(name, 0, args[0], T.DATE), T.INT), T.DATE)

    return rule


@register(
    "date_add",
    "dateadd",
    rule=_days_rule("date_add"),
    style="numpy",
    group=GROUP,
    usage="date_add(d, n), d + n",
    doc="The date n days later.",
)
def date_add(call: Call, date: Values, days: Values) -> Values:
    """The date so many days later."""
    return date + days


@register(
    "date_sub",
    rule=_days_rule("date_sub"),
    style="numpy",
    group=GROUP,
    usage="date_sub(d, n), d - n",
    doc="The date n days earlier.",
)
def date_sub(call: Call, date: Values, days: Values) -> Values:
    """The date so many days earlier."""
    return date - days


@register(
    "datediff",
    "date_diff",
    rule=takes("datediff", T.DATE, T.DATE, returns=T.INT),
    style="numpy",
    group=GROUP,
    usage="datediff(end, start)",
    doc="Days from start to end.",
)
def datediff(call: Call, end: Values, start: Values) -> Values:
    """Days from the second to the first."""
    return end - start


@register(
    "date_diff_days",
    rule=takes("-", T.DATE, T.DATE, returns=T.DAY_TIME),
    style="numpy",
    group=GROUP,
    usage="d1 - d2",
    doc="The interval between two dates.",
)
def date_diff_days(call: Call, end: Values, start: Values) -> Values:
    """The interval between two dates."""
    return (end.astype(np.int64) - start) * DAY


def _difference_rule(args: Sequence[Expr]) -> Typing:
    expect_count("-", args, 2)
    kinds = {a.type for a in args}
    kind = T.TIMESTAMP_NTZ if T.TIMESTAMP_NTZ in kinds <= {T.TIMESTAMP_NTZ, T.DATE} else T.TIMESTAMP
    if T.STRING in kinds:
        kind = next(k for k in kinds if k != T.STRING)
        kind = T.TIMESTAMP if kind == T.DATE else kind
    return Typing((kind, kind), T.DAY_TIME)


def _micros_checked(call: Call, result: Values, far: Mask, code: str = "ARITHMETIC_OVERFLOW") -> Any:
    return Out(result, ((far, code, lambda _: f"long overflow in `{call.text}`"),)) if far.any() else result


@register(
    "timestamp_diff",
    rule=_difference_rule,
    style="numpy",
    group=GROUP,
    usage="t1 - t2",
    doc="The interval between two timestamps.",
    fails=True,
)
def timestamp_diff(call: Call, end: Values, start: Values) -> Any:
    """The interval between two timestamps."""
    result = end - start
    return _micros_checked(call, result, ((end ^ start) & (end ^ result)) < 0)


def _add_interval_rule(args: Sequence[Expr]) -> Typing:
    kind = args[0].type
    if kind == T.TIMESTAMP_NTZ or (kind == T.DATE and args[1].type == T.DAY_TIME):
        kind = T.TIMESTAMP  # as Spark has it
    return Typing((kind, None), kind)


@register(
    "add_interval",
    rule=_add_interval_rule,
    style="numpy",
    group=GROUP,
    usage="t + INTERVAL n unit, t - INTERVAL n unit",
    doc="A date or timestamp moved by an interval.",
    fails=True,
)
def add_interval(call: Call, moment: Values, amount: Values) -> Any:
    """A date or timestamp moved by an interval."""
    if call.args[1].type == T.DAY_TIME:
        result = moment + amount
        return _out_of_range(call, result, ((moment ^ result) & (amount ^ result)) < 0)
    return _moved(call, moment, amount)


def _moved(call: Call, moment: Values, months: Values) -> Any:
    """Moved by months; the day is cut to the length of the month."""
    days = add_months(as_days(moment, call.type), months)
    if call.type == T.DATE:
        return _out_of_range(call, days.astype(np.int32), (days >= 2**31) | (days < -(2**31)))
    far = np.abs(days) > 106_751_990
    return _out_of_range(call, np.where(far, 0, days) * DAY + moment % DAY, far)


def _out_of_range(call: Call, result: Values, far: Mask) -> Any:
    return Out(result, ((far, OVERFLOW, lambda _: f"`{call.text}` is out of range"),)) if far.any() else result


def _same_interval(name: str) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 2)
        return Typing((None, None), args[0].type)

    return rule


@register(
    "interval_add",
    rule=_same_interval("+"),
    style="numpy",
    group=GROUP,
    usage="interval + interval",
    doc="Sum of intervals.",
    fails=True,
)
def interval_add(call: Call, a: Values, b: Values) -> Any:
    """Sum of intervals."""
    result = a + b
    return _out_of_range(call, result, ((a ^ result) & (b ^ result)) < 0)


@register(
    "interval_subtract",
    rule=_same_interval("-"),
    style="numpy",
    group=GROUP,
    usage="interval - interval",
    doc="Difference of intervals.",
    fails=True,
)
def interval_subtract(call: Call, a: Values, b: Values) -> Any:
    """Difference of intervals."""
    result = a - b
    return _out_of_range(call, result, ((a ^ b) & (a ^ result)) < 0)


def _scaled_rule(args: Sequence[Expr]) -> Typing:
    expect_count("interval *", args, 2)
    want = args[1].type if args[1].type in INTEGRAL else T.DOUBLE
    return Typing((None, T.LONG if want in INTEGRAL else want), args[0].type)


@register(
    "interval_multiply",
    rule=_scaled_rule,
    style="numpy",
    group=GROUP,
    usage="interval * n",
    doc="An interval n times.",
    fails=True,
)
def interval_multiply(call: Call, interval: Values, number: Values) -> Any:
    """An interval a number of times."""
    if number.dtype.kind == "i":
        result = interval * number
        return _out_of_range(call, result, np.abs(interval.astype(np.float64) * number - result) > 2.0**62)
    return _rounded(call, interval * number)


@register(
    "interval_divide",
    rule=_scaled_rule,
    style="numpy",
    group=GROUP,
    usage="interval / n",
    doc="A part of an interval, rounded.",
    fails=True,
)
def interval_divide(call: Call, interval: Values, number: Values) -> Any:
    """A part of an interval."""
    zero = number == 0
    safe = np.where(zero, np.ones(1, number.dtype), number)
    if number.dtype.kind == "i":
        result = divide_half_up(interval, safe)
    else:
        result = np.where(np.isfinite(safe), interval / safe, 0)
        result = (np.sign(result) * np.floor(np.abs(result) + 0.5)).astype(np.int64)
    return (
        Out(result, ((zero, "INTERVAL_DIVIDED_BY_ZERO", lambda _: f"Division by zero in `{call.text}`"),))
        if zero.any()
        else result
    )


def _rounded(call: Call, exact: Values) -> Any:
    far = ~(np.abs(exact) < 2.0**63)
    safe = np.where(far, 0, exact)
    return _out_of_range(call, (np.sign(safe) * np.floor(np.abs(safe) + 0.5)).astype(np.int64), far)


@register(
    "add_months",
    rule=takes("add_months", T.DATE, T.INT, returns=T.DATE),
    style="numpy",
    group=GROUP,
    usage="add_months(d, n)",
    doc="The date n months later, the day cut to the month's length.",
    fails=True,
)
def add_months_kernel(call: Call, date: Values, months: Values) -> Any:
    """The date so many months later."""
    return _moved(call, date, months.astype(np.int64))


@register(
    "last_day",
    rule=takes("last_day", T.DATE, returns=T.DATE),
    style="numpy",
    group=GROUP,
    usage="last_day(d)",
    doc="The last day of the date's month.",
)
def last_day(call: Call, date: Values) -> Values:
    """The last day of the month."""
    year, month, day = civil_from_days(date)
    return (date + month_length(year, month) - day).astype(np.int32)


_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WEEKDAY_NAMES = {
    **{n: i for i, n in enumerate(_WEEKDAYS)},
    **{n: i for i, n in enumerate(("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"))},
    **{n: i for i, n in enumerate(("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"))},
}


@register(
    "next_day",
    rule=takes("next_day", T.DATE, T.STRING, returns=T.DATE),
    style="numpy",
    group=GROUP,
    usage="next_day(d, 'MON')",
    doc="The first such weekday after the date.",
    constants=(1,),
    fails=True,
)
def next_day(call: Call, date: Values, name: str) -> Any:
    """The first such weekday after the date."""
    weekday = _WEEKDAY_NAMES.get(name.strip().upper())
    if weekday is None:
        return Out(date, ((np.ones(len(date), np.bool_), "ILLEGAL_DAY_OF_WEEK", f"{name!r} is no day of the week"),))
    return (date + (weekday - 4 - date.astype(np.int64)) % 7 + 1).astype(np.int32)


def _months_between_rule(args: Sequence[Expr]) -> Typing:
    expect_count("months_between", args, 2, 3)
    return Typing((T.TIMESTAMP, T.TIMESTAMP, T.BOOLEAN)[: len(args)], T.DOUBLE)


@register(
    "months_between",
    rule=_months_between_rule,
    style="numpy",
    group=GROUP,
    usage="months_between(end, start[, round])",
    doc="Months between, a month having 31 days; rounded to 8 digits.",
)
def months_between(call: Call, end: Values, start: Values, rounded: Values | None = None) -> Values:
    """Months between two timestamps."""
    (y1, m1, d1), (y2, m2, d2) = civil_from_days(end // DAY), civil_from_days(start // DAY)
    months = ((y1 - y2) * 12 + m1 - m2).astype(np.float64)
    whole = (d1 == d2) | ((d1 == month_length(y1, m1)) & (d2 == month_length(y2, m2)))
    seconds = (end % DAY // SECOND - start % DAY // SECOND + (d1 - d2) * 86_400).astype(np.float64)
    exact = months + seconds / (31 * 86_400)
    nearest = np.sign(exact) * np.floor(np.abs(exact) * 1e8 + 0.5) / 1e8
    kept = nearest if rounded is None else np.where(rounded, nearest, exact)
    return np.where(whole, months, kept)


_DATE_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    "QUARTER": "quarter",
    **dict.fromkeys(("MONTH", "MON", "MM"), "month"),
    "WEEK": "week",
}
_TIME_UNITS = {
    **_DATE_UNITS,
    **dict.fromkeys(("DAY", "DD"), "day"),
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
    "MILLISECOND": "millisecond",
    "MICROSECOND": "microsecond",
}
_TICKS = {"hour": 3_600 * SECOND, "minute": 60 * SECOND, "second": SECOND, "millisecond": 1_000, "microsecond": 1}


def cut_days(days: Values, unit: str) -> Values:
    """Dates cut to the start of their week, month, quarter or year."""
    if unit == "day":
        return days
    if unit == "week":
        return days - (days + 3) % 7
    year, month, _ = civil_from_days(days)
    one = np.ones(1, np.int64)
    first = {"year": one, "quarter": (month - 1) // 3 * 3 + 1, "month": month}[unit]
    return days_from_civil(year, first, one)


@register(
    "trunc",
    rule=takes("trunc", T.DATE, T.STRING, returns=T.DATE, nullable=True),
    style="numpy",
    group=GROUP,
    usage="trunc(d, 'MONTH')",
    doc="The date cut to its year, quarter, month or week; NULL for another unit.",
    constants=(1,),
)
def trunc(call: Call, date: Values, unit: str) -> Any:
    """The date cut to a unit."""
    name = _DATE_UNITS.get(unit.upper())
    if name is None:
        return Out(date, (), np.ones(len(date), np.bool_))
    return cut_days(date.astype(np.int64), name).astype(np.int32)


def _date_trunc_rule(args: Sequence[Expr]) -> Typing:
    expect_count("date_trunc", args, 2)
    return Typing((accept("date_trunc", 0, args[0], T.STRING), T.TIMESTAMP), T.TIMESTAMP, True)


@register(
    "date_trunc",
    rule=_date_trunc_rule,
    style="numpy",
    group=GROUP,
    usage="date_trunc('HOUR', t)",
    doc="The timestamp cut to a unit, from MICROSECOND to YEAR; NULL for another.",
    constants=(0,),
)
def date_trunc(call: Call, unit: str, moment: Values) -> Any:
    """The timestamp cut to a unit."""
    name = _TIME_UNITS.get(unit.upper())
    if name is None:
        return Out(moment, (), np.ones(len(moment), np.bool_))
    if name in _TICKS:
        return moment // _TICKS[name] * _TICKS[name]
    return cut_days(moment // DAY, name) * DAY


def _invalid(
    call: Call, bad: Mask, what: str, code: str = "DATETIME_FIELD_OUT_OF_BOUNDS"
) -> tuple[Mask, str, Callable[[int], str]]:
    return bad, code, lambda _: f"`{call.text}`: the parts make no {what}"


@register(
    "make_date",
    rule=takes("make_date", T.INT, T.INT, T.INT, returns=T.DATE),
    style="numpy",
    group=GROUP,
    usage="make_date(year, month, day)",
    doc="A date from its parts.",
    fails=True,
)
def make_date(call: Call, year: Values, month: Values, day: Values) -> Any:
    """A date from its parts."""
    days, bad = _civil(year, month, day)
    return Out(days.astype(np.int32), (_invalid(call, bad, "date"),)) if bad.any() else days.astype(np.int32)


def _civil(year: Values, month: Values, day: Values) -> tuple[Values, Mask]:
    year, month, day = year.astype(np.int64), month.astype(np.int64), day.astype(np.int64)
    good = (month >= 1) & (month <= 12)
    month = np.where(good, month, 1)
    good = good & (day >= 1) & (day <= month_length(year, month))
    days = days_from_civil(year, month, np.where(good, day, 1))
    good = good & (days < 2**31) & (days >= -(2**31))
    return np.where(good, days, 0), ~good


def _timestamp_rule(name: str, returns: pa.DataType) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 6)
        return Typing((T.INT, T.INT, T.INT, T.INT, T.INT, pa.decimal128(16, 6)), returns)

    return rule


def make_timestamp(
    call: Call, year: Values, month: Values, day: Values, hour: Values, minute: Values, second: Values
) -> Any:
    """A timestamp from its parts; second 60 is the next minute's first."""
    days, bad = _civil(year, month, day)
    whole = (second == 60 * SECOND) | ((second >= 0) & (second < 60 * SECOND))
    bad = bad | (hour < 0) | (hour > 23) | (minute < 0) | (minute > 59) | ~whole | (np.abs(days) > 106_751_990)
    days = np.where(bad, 0, days)
    micros = days * DAY + ((hour.astype(np.int64) * 60 + minute) * 60) * SECOND + second
    return Out(micros, (_invalid(call, bad, "timestamp"),)) if bad.any() else micros


for _name, _kind in (
    ("make_timestamp", T.TIMESTAMP),
    ("make_timestamp_ltz", T.TIMESTAMP),
    ("make_timestamp_ntz", T.TIMESTAMP_NTZ),
):
    register(
        _name,
        rule=_timestamp_rule(_name, _kind),
        style="numpy",
        group=GROUP,
        usage=f"{_name}(year, month, day, hour, minute, second)",
        doc="A timestamp from its parts.",
        fails=True,
    )(make_timestamp)


def _unix_rule(name: str) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 1)
        return Typing([T.TIMESTAMP], T.LONG)

    return rule


for _name, _ticks in (("unix_seconds", SECOND), ("unix_millis", 1_000), ("unix_micros", 1)):
    register(
        _name,
        rule=_unix_rule(_name),
        style="numpy",
        group=GROUP,
        usage=f"{_name}(t)",
        doc=f"{_name.split('_')[1].capitalize()} since 1970.",
    )(lambda call, values, ticks=_ticks: values // ticks)


@register(
    "unix_date",
    rule=takes("unix_date", T.DATE, returns=T.INT),
    style="numpy",
    group=GROUP,
    usage="unix_date(d)",
    doc="Days since 1970.",
)
def unix_date(call: Call, date: Values) -> Values:
    """Days since 1970."""
    return date


@register(
    "date_from_unix_date",
    rule=takes("date_from_unix_date", T.INT, returns=T.DATE),
    style="numpy",
    group=GROUP,
    usage="date_from_unix_date(n)",
    doc="The date so many days after 1970-01-01.",
)
def date_from_unix_date(call: Call, days: Values) -> Values:
    """The date of a number of days."""
    return days


def saturated(values: Values) -> Values:
    """Doubles as int64, cut to its range as Java does; NaN is 0."""
    top = 2.0**63
    result = np.where(np.abs(values) < top, values, 0).astype(np.int64)
    return np.where(values >= top, 2**63 - 1, np.where(values <= -top, -(2**63), result))


def _from_ticks(name: str, ticks: int) -> None:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 1)
        if not is_numeric(args[0].type) and args[0].type != T.NULL:
            raise TypeMismatchError(f"{name} takes a number, not {T.type_name(args[0].type)} (`{args[0].text}`)")
        if args[0].type in INTEGRAL or name != "timestamp_seconds":
            return Typing([T.LONG], T.TIMESTAMP)
        return Typing([T.DOUBLE], T.TIMESTAMP, True)

    def kernel(call: Call, values: Values) -> Any:
        if values.dtype.kind == "f":
            exact = values * ticks
            return Out(saturated(exact), (), ~np.isfinite(values))
        limit = (2**63 - 1) // ticks
        far = (values > limit) | (values < -limit) if ticks > 1 else np.zeros(1, np.bool_)
        return _out_of_range(call, values * ticks, far)

    register(
        name,
        rule=rule,
        style="numpy",
        group=GROUP,
        usage=f"{name}(n)",
        doc=f"The timestamp so many {name.split('_')[1]} after 1970.",
        fails=True,
    )(kernel)


for _name, _ticks in (("timestamp_seconds", SECOND), ("timestamp_millis", 1_000), ("timestamp_micros", 1)):
    _from_ticks(_name, _ticks)


def _names_kernel(names: tuple[str, ...], part: str) -> Callable[[Call, int, Vector], Vector]:
    def kernel(call: Call, count: int, date: Vector) -> Vector:
        index = DATE_PARTS[part](as_days(date.values, date.type)) - (1 if part == "month" else 0)
        mask = None if date.valid is None else ~date.valid
        return Vector(T.STRING, arrow=pa.array(names).take(pa.array(index, mask=mask)), constant=date.constant)

    return kernel


register(
    "dayname",
    rule=_part_rule("dayname", T.DATE, T.STRING),
    style="vector",
    group=GROUP,
    usage="dayname(d)",
    doc="Name of the weekday: Mon, Tue and so on.",
)(_names_kernel(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), "weekday"))
register(
    "monthname",
    rule=_part_rule("monthname", T.DATE, T.STRING),
    style="vector",
    group=GROUP,
    usage="monthname(d)",
    doc="Name of the month: Jan, Feb and so on.",
)(_names_kernel(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"), "month"))
