"""Dates and timestamps moved, subtracted and cut; intervals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.calendar import add_months, civil_from_days, days_from_civil, month_length
from altneu.expressions.coercion import INTEGRAL
from altneu.expressions.decimals import divide_half_up
from altneu.expressions.functions.datetime import DAY, OVERFLOW, SECOND, as_days, scalar
from altneu.expressions.intervals import SIZES, text_in_units, units_named
from altneu.expressions.registry import Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Mask, Values

if TYPE_CHECKING:
    from altneu.expressions.expr import Call


def _days_rule(args: Arguments) -> Typing:
    if args[1].type not in (*INTEGRAL[:3], T.STRING, T.NULL):
        raise TypeMismatchError(
            f"{args.name} takes a number of days that is int, not {T.type_name(args[1].type)} (`{args[1].text}`)"
        )
    return Typing((args.accept(0, T.DATE), T.INT), T.DATE)


@scalar("date_add(d, n)", "dateadd", rule=_days_rule, usage="date_add(d, n), d + n")
def date_add(date: Values, days: Values) -> Values:
    """The date n days later."""
    return date + days


@scalar("date_sub(d, n)", rule=_days_rule, usage="date_sub(d, n), d - n")
def date_sub(date: Values, days: Values) -> Values:
    """The date n days earlier."""
    return date - days


@scalar("datediff(end date, start date) -> int", "date_diff")
def datediff(end: Values, start: Values) -> Values:
    """Days from start to end."""
    return end - start


@scalar("date_diff_days(end date, start date) -> interval day to second", usage="d1 - d2", message_name="-")
def date_diff_days(end: Values, start: Values) -> Values:
    """The interval between two dates."""
    return (end.astype(np.int64) - start) * DAY


def _difference_rule(args: Arguments) -> Typing:
    kinds = {a.type for a in args}
    kind = T.TIMESTAMP_NTZ if T.TIMESTAMP_NTZ in kinds <= {T.TIMESTAMP_NTZ, T.DATE} else T.TIMESTAMP
    if T.STRING in kinds:
        kind = next(k for k in kinds if k != T.STRING)
        kind = T.TIMESTAMP if kind == T.DATE else kind
    return Typing((kind, kind), T.DAY_TIME)


def _micros_checked(call: Call, result: Values, far: Mask, code: str = "ARITHMETIC_OVERFLOW") -> Any:
    return Out(result, ((far, code, lambda _: f"long overflow in `{call.text}`"),)) if far.any() else result


@scalar("timestamp_diff(end, start)", rule=_difference_rule, message_name="-", usage="t1 - t2", fails=True)
def timestamp_diff(call: Call, end: Values, start: Values) -> Any:
    """The interval between two timestamps."""
    result = end - start
    return _micros_checked(call, result, ((end ^ start) & (end ^ result)) < 0)


def _add_interval_rule(args: Arguments) -> Typing:
    kind = args[0].type
    if kind == T.DATE and args[1].type == T.DAY_TIME:
        kind = T.TIMESTAMP  # as Spark has it
    return Typing((kind, None), kind)


@scalar("add_interval(…)", rule=_add_interval_rule, usage="t + INTERVAL n unit, t - INTERVAL n unit", fails=True)
def add_interval(call: Call, moment: Values, amount: Values) -> Any:
    """The date or timestamp plus or minus an interval."""
    if call.args[1].type == T.DAY_TIME:
        result = moment + amount
        return out_of_range(call, result, ((moment ^ result) & (amount ^ result)) < 0)
    return _moved(call, moment, amount)


def _moved(call: Call, moment: Values, months: Values) -> Any:
    """Moved by months; the day is cut to the length of the month."""
    days = add_months(as_days(moment, call.type), months)
    if call.type == T.DATE:
        return out_of_range(call, days.astype(np.int32), (days >= 2**31) | (days < -(2**31)))
    far = np.abs(days) > 106_751_990
    return out_of_range(call, np.where(far, 0, days) * DAY + moment % DAY, far)


def out_of_range(call: Call, result: Values, far: Mask) -> Any:
    """The result, with an error where it left the range of its type."""
    return Out(result, ((far, OVERFLOW, lambda _: f"`{call.text}` is out of range"),)) if far.any() else result


@scalar("interval_add(a any, b any) -> a", message_name="+", usage="interval + interval", fails=True)
def interval_add(call: Call, a: Values, b: Values) -> Any:
    """Sum of intervals."""
    result = a + b
    return out_of_range(call, result, ((a ^ result) & (b ^ result)) < 0)


@scalar("interval_subtract(a any, b any) -> a", message_name="-", usage="interval - interval", fails=True)
def interval_subtract(call: Call, a: Values, b: Values) -> Any:
    """Difference of intervals."""
    result = a - b
    return out_of_range(call, result, ((a ^ b) & (a ^ result)) < 0)


@scalar("interval_text(interval any, units string) -> string")
def interval_text(interval: pa.Array, units: str) -> pa.Array:
    """The text of an interval as Spark writes it for the units of its type, such as DAY TO HOUR."""
    if interval.type == T.YEAR_MONTH:
        interval = pa.array([None if v is None else v.months for v in interval.to_pylist()], T.LONG)
    encoded, between = interval.cast(T.LONG).dictionary_encode(), units_named(units)
    words = [f"INTERVAL '{text_in_units(v, *between)}' {units}" for v in encoded.dictionary.to_pylist()]
    return pa.array(words, T.STRING).take(encoded.indices)


@scalar("interval_as(interval any, units string) -> interval")
def interval_as(interval: Values, units: str) -> Values:
    """The interval cut to its last unit, such as the hours of DAY TO HOUR."""
    size = SIZES[units_named(units)[1]]
    return np.sign(interval) * (np.abs(interval) // size * size)


def _scaled_rule(args: Arguments) -> Typing:
    want = args[1].type if args[1].type in INTEGRAL else T.DOUBLE
    return Typing((None, T.LONG if want in INTEGRAL else want), args[0].type)


@scalar(
    "interval_multiply(interval, n)", rule=_scaled_rule, message_name="interval *", usage="interval * n", fails=True
)
def interval_multiply(call: Call, interval: Values, number: Values) -> Any:
    """The interval multiplied by n."""
    if number.dtype.kind == "i":
        result = interval * number
        return out_of_range(call, result, np.abs(interval.astype(np.float64) * number - result) > 2.0**62)
    return _rounded(call, interval * number)


@scalar("interval_divide(interval, n)", rule=_scaled_rule, message_name="interval *", usage="interval / n", fails=True)
def interval_divide(call: Call, interval: Values, number: Values) -> Any:
    """The interval divided by n, rounded."""
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
    return out_of_range(call, (np.sign(safe) * np.floor(np.abs(safe) + 0.5)).astype(np.int64), far)


_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_MICROS = {
    "WEEK": 7 * DAY,
    "DAY": DAY,
    "DAYOFYEAR": DAY,
    "HOUR": 3600 * SECOND,
    "MINUTE": 60 * SECOND,
    "SECOND": SECOND,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}

_FAR = 10_000_000  # months, which leave the range of timestamps wherever they begin


def _no_unit(call: Call, unit: str, count: int) -> Out:
    known = [*_MONTHS, *(name for name in _MICROS if name != "DAYOFYEAR" or call.name == "timestampadd")]
    message = f"{call.name}: the unit must be one of {', '.join(known)}, got {unit!r}"
    return Out(np.zeros(count, np.int64), ((np.ones(count, np.bool_), "INVALID_PARAMETER_VALUE", message),))


def _moment_rule(args: Arguments) -> Typing:
    kind = args[2].type if args[2].type == T.TIMESTAMP_NTZ else T.TIMESTAMP
    return Typing((args.accept(0, T.STRING), args.accept(1, T.LONG), args.accept(2, kind)), kind)


@scalar(
    "timestampadd(unit, n, t)",
    rule=_moment_rule,
    usage="timestampadd(MONTH, n, t), dateadd(MONTH, n, t), date_add(MONTH, n, t)",
    fails=True,
)
def timestampadd(call: Call, unit: str, amount: Values, moment: Values) -> Any:
    """The timestamp n units later: YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, MILLISECOND, MICROSECOND."""
    name = unit.upper()
    if name in _MONTHS:
        return _moved(call, moment, np.clip(amount, -_FAR, _FAR) * _MONTHS[name])
    size = _MICROS.get(name)
    if size is None:
        return _no_unit(call, unit, max(len(amount), len(moment)))
    far = np.abs(amount.astype(np.float64)) * size >= 2.0**63
    by = np.where(far, 0, amount) * size
    result = moment + by
    return out_of_range(call, result, far | (((moment ^ result) & (by ^ result)) < 0))


@scalar(
    "timestampdiff(unit string, start as timestamp, end as timestamp) -> bigint",
    usage="timestampdiff(MONTH, start, end), datediff(MONTH, start, end), date_diff(MONTH, start, end)",
    fails=True,
)
def timestampdiff(call: Call, unit: str, start: Values, end: Values) -> Any:
    """How many whole units, of those of `timestampadd`, are from start to end."""
    name = unit.upper()
    if name in _MONTHS:
        days, clock, until, until_clock = start // DAY, start % DAY, end // DAY, end % DAY
        until = until - ((until > days) & (until_clock < clock)) + ((until < days) & (until_clock > clock))
        (y1, m1, d1), (y2, m2, d2) = civil_from_days(days), civil_from_days(until)
        apart = ((y2 - y1) * 12 + m2 - m1).astype(np.int64) * 32 + d2 - d1
        return _whole(apart, 32 * _MONTHS[name])
    size = None if name == "DAYOFYEAR" else _MICROS.get(name)
    between = end - start
    if size is None:
        return _no_unit(call, unit, len(between))
    return _micros_checked(call, _whole(between, size), ((end ^ start) & (end ^ between)) < 0)


def _whole(values: Values, size: int) -> Values:
    return np.sign(values) * (np.abs(values) // size)


@scalar("add_months(d date, n int) -> date", fails=True)
def add_months_kernel(call: Call, date: Values, months: Values) -> Any:
    """The date n months later; the last day of that month if the month is too short."""
    return _moved(call, date, months.astype(np.int64))


@scalar("last_day(d date) -> date")
def last_day(date: Values) -> Values:
    """The last day of the date's month."""
    year, month, day = civil_from_days(date)
    return (date + month_length(year, month) - day).astype(np.int32)


_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WEEKDAY_NAMES = {
    **{n: i for i, n in enumerate(_WEEKDAYS)},
    **{n: i for i, n in enumerate(("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"))},
    **{n: i for i, n in enumerate(("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"))},
}


@scalar("next_day(d date, weekday string) -> date", usage="next_day(d, 'MON')", fails=True)
def next_day(date: Values, name: str) -> Any:
    """The first date after d that has this weekday."""
    weekday = _WEEKDAY_NAMES.get(name.strip().upper())
    if weekday is None:
        return Out(date, ((np.ones(len(date), np.bool_), "ILLEGAL_DAY_OF_WEEK", f"{name!r} is no day of the week"),))
    return (date + (weekday - 4 - date.astype(np.int64)) % 7 + 1).astype(np.int32)


@scalar("months_between(end as timestamp, start as timestamp[, round as boolean]) -> double")
def months_between(end: Values, start: Values, rounded: Values | None = None) -> Values:
    """Months from start to end, counting 31 days as a month where whole months do not fit; rounded to 8 digits."""
    (y1, m1, d1), (y2, m2, d2) = civil_from_days(end // DAY), civil_from_days(start // DAY)
    months = ((y1 - y2) * 12 + m1 - m2).astype(np.float64)
    whole = (d1 == d2) | ((d1 == month_length(y1, m1)) & (d2 == month_length(y2, m2)))
    seconds = (end % DAY // SECOND - start % DAY // SECOND + (d1 - d2) * 86_400).astype(np.float64)
    exact = months + seconds / (31 * 86_400)
    nearest = np.sign(exact) * np.floor(np.abs(exact) * 1e8 + 0.5) / 1e8
    difference = nearest if rounded is None else np.where(rounded, nearest, exact)
    return np.where(whole, months, difference)


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


@scalar("trunc(d date, unit string) -> date?", usage="trunc(d, 'MONTH')")
def trunc(date: Values, unit: str) -> Any:
    """The first day of the date's year, quarter, month or week; NULL for another unit."""
    name = _DATE_UNITS.get(unit.upper())
    if name is None:
        return Out(date, (), np.ones(len(date), np.bool_))
    return cut_days(date.astype(np.int64), name).astype(np.int32)


@scalar("date_trunc(unit string, t as timestamp) -> timestamp?", usage="date_trunc('HOUR', t)")
def date_trunc(unit: str, moment: Values) -> Any:
    """The timestamp truncated to a unit, from MICROSECOND to YEAR; NULL for another unit."""
    name = _TIME_UNITS.get(unit.upper())
    if name is None:
        return Out(moment, (), np.ones(len(moment), np.bool_))
    if name in _TICKS:
        return moment // _TICKS[name] * _TICKS[name]
    return cut_days(moment // DAY, name) * DAY


def _bucket_rule(args: Arguments) -> Typing:
    size, kind = args[0], args[1].type
    width = getattr(size, "value", None)
    if size.type not in (T.DAY_TIME, T.YEAR_MONTH) or not size.is_literal or width is None or width <= 0:
        raise TypeMismatchError(f"time_bucket: the size `{size.text}` must be an interval above 0, a constant")
    if kind not in (T.TIMESTAMP, T.TIMESTAMP_NTZ):
        raise TypeMismatchError(f"time_bucket takes a timestamp, not {T.type_name(kind)} (`{args[1].text}`); cast it")
    if len(args) > 2 and (not args[2].is_literal or args[2].type != kind):
        raise TypeMismatchError(f"time_bucket: the origin `{args[2].text}` must be {T.type_name(kind)}, a constant")
    return Typing([None] * len(args), kind)


_EPOCH = np.zeros(1, np.int64)


@scalar("time_bucket(size, t[, origin])", rule=_bucket_rule, fails=True)
def time_bucket(call: Call, size: Values, t: Values, origin: Values = _EPOCH) -> Any:
    """The start of the timestamp's bucket, of buckets of an interval each from an origin, by default 1970."""
    if call.args[0].type == T.DAY_TIME:
        start = t - (t - origin) % size
        far = start > t  # beyond the least timestamp
        return out_of_range(call, np.where(far, t, start), far)
    (year, month, day), (first_year, first_month, first_day) = (civil_from_days(m // DAY) for m in (t, origin))
    months = (year - first_year) * 12 + month - first_month
    before = (day - first_day) * DAY + (t % DAY - origin % DAY) < 0
    place, origins = (months - before) // size * size, np.broadcast_to(origin, t.shape)
    following = (
        add_months(origins // DAY, place + size) * DAY + origins % DAY
    )  # it may begin with a shorter month's end
    return _moved(call, origins, np.where(following <= t, place + size, place))


def _window_time_rule(args: Arguments) -> Typing:
    kind = args[0].type
    names = [f.name for f in kind] if pt.is_struct(kind) else []
    if names != ["start", "end"] or kind.field(1).type not in (T.TIMESTAMP, T.TIMESTAMP_NTZ):
        raise TypeMismatchError(
            f"window_time takes what window() or session_window() gives, not {T.type_name(kind)} (`{args[0].text}`)"
        )
    return Typing([None], kind.field(1).type)


@scalar("window_time(w)", rule=_window_time_rule, usage="window_time(window)")
def window_time(w: pa.Array) -> Any:
    """The last moment of a window of time: a microsecond before its end."""
    end = pc.struct_field(w, 1)
    return pc.subtract(end.cast(T.LONG), 1).cast(end.type)
