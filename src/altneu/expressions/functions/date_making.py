"""Dates and timestamps made from numbers, and numbers from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.calendar import days_from_civil, month_length
from altneu.expressions.casts import saturated
from altneu.expressions.coercion import INTEGRAL, is_numeric
from altneu.expressions.functions.date_moving import out_of_range
from altneu.expressions.functions.datetime import DAY, SECOND, scalar
from altneu.expressions.registry import Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.time_in import zone_offsets
from altneu.expressions.vector import Mask, Values

if TYPE_CHECKING:
    from altneu.expressions.expr import Call


def _invalid(
    call: Call, bad: Mask, what: str, code: str = "DATETIME_FIELD_OUT_OF_BOUNDS"
) -> tuple[Mask, str, Callable[[int], str]]:
    return bad, code, lambda _: f"`{call.text}`: the parts make no {what}"


@scalar("make_date(year int, month int, day int) -> date", fails=True)
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


def make_timestamp(
    call: Call,
    year: Values,
    month: Values,
    day: Values,
    hour: Values,
    minute: Values,
    second: Values,
    zone: str | None = None,
) -> Any:
    """A timestamp from its parts."""  # second 60 is the next minute's first
    days, bad = _civil(year, month, day)
    whole = (second == 60 * SECOND) | ((second >= 0) & (second < 60 * SECOND))
    bad = bad | (hour < 0) | (hour > 23) | (minute < 0) | (minute > 59) | ~whole | (np.abs(days) > 106_751_990)
    days = np.where(bad, 0, days)
    micros = days * DAY + ((hour.astype(np.int64) * 60 + minute) * 60) * SECOND + second
    failures: list[tuple[Mask, str, str | Callable[[int], str]]] = []
    if zone is not None:
        shift = zone_offsets(zone, micros)
        if shift is None:
            failures.append((np.ones(micros.shape, np.bool_), "INVALID_TIMEZONE", f"{zone!r} is no time zone"))
        else:
            micros = micros - shift
    if call.name.startswith("try_"):
        return Out(micros, failures, np.broadcast_to(bad, micros.shape))
    return Out(micros, [*failures, _invalid(call, bad, "timestamp")]) if failures or bad.any() else micros


for _name, _kind in (
    ("make_timestamp", "timestamp"),
    ("make_timestamp_ltz", "timestamp"),
    ("make_timestamp_ntz", "timestamp_ntz"),
):
    _parts = "year as int, month as int, day as int, hour as int, minute as int, second as decimal(16,6)"
    _zone = "" if _kind == "timestamp_ntz" else "[, zone string]"
    scalar(f"{_name}({_parts}{_zone}) -> {_kind}", fails=True)(make_timestamp)
    scalar(
        f"try_{_name}({_parts}{_zone}) -> {_kind}?",
        doc=f"`{_name}`, but NULL if the parts make no timestamp.",
        fails=lambda call: len(call.args) > 6,
    )(make_timestamp)


def _interval(call: Call, parts: Sequence[tuple[Values, int]], least: int, most: int) -> Any:
    """The sum of parts in a unit each, checked exactly."""
    total = sum(part.astype(object) * unit for part, unit in parts)
    bad = np.asarray((total < least) | (total > most), np.bool_)
    values = np.where(bad, 0, total).astype(np.int64)
    message = f"`{call.text}`: the interval is too long"
    return Out(values, ((bad, "INTERVAL_ARITHMETIC_OVERFLOW", message),)) if bad.any() else values


_ZERO = np.zeros(1, np.int64)


def _months_rule(args: Arguments) -> Typing:
    return Typing([args.accept(i, T.INT) for i in range(len(args))], T.YEAR_MONTH)


@scalar("make_ym_interval([years, months])", rule=_months_rule, fails=True)
def make_ym_interval(call: Call, years: Values = _ZERO, months: Values = _ZERO) -> Any:
    """An interval of years and months."""
    return _interval(call, ((years, 12), (months, 1)), -(1 << 31), (1 << 31) - 1)


@scalar(
    "make_dt_interval([days int, hours int, minutes int, seconds as decimal(18,6)]) -> interval day to second",
    fails=True,
)
def make_dt_interval(
    call: Call, days: Values = _ZERO, hours: Values = _ZERO, minutes: Values = _ZERO, seconds: Values = _ZERO
) -> Any:
    """An interval of days, hours, minutes and seconds."""
    parts = ((days, DAY), (hours, 3600 * SECOND), (minutes, 60 * SECOND), (seconds, 1))
    return _interval(call, parts, -(1 << 63), (1 << 63) - 1)


@scalar("unix_seconds(t as timestamp) -> bigint")
def unix_seconds(t: Values) -> Values:
    """Seconds since 1970."""
    return t // SECOND


@scalar("unix_millis(t as timestamp) -> bigint")
def unix_millis(t: Values) -> Values:
    """Milliseconds since 1970."""
    return t // 1_000


@scalar("unix_micros(t as timestamp) -> bigint")
def unix_micros(t: Values) -> Values:
    """Microseconds since 1970."""
    return t


@scalar("unix_date(d date) -> int")
def unix_date(date: Values) -> Values:
    """Days since 1970."""
    return date


@scalar("date_from_unix_date(n int) -> date")
def date_from_unix_date(days: Values) -> Values:
    """The date n days after 1970-01-01."""
    return days


def _ticks_rule(args: Arguments) -> Typing:
    if not is_numeric(args[0].type) and args[0].type != T.NULL:
        raise TypeMismatchError(f"{args.name} takes a number, not {T.type_name(args[0].type)} (`{args[0].text}`)")
    if args[0].type in INTEGRAL or args.name != "timestamp_seconds":
        return Typing([T.LONG], T.TIMESTAMP)
    return Typing([T.DOUBLE], T.TIMESTAMP, True)


def _from_ticks(ticks: int) -> Callable[..., Any]:
    def kernel(call: Call, values: Values) -> Any:
        if values.dtype.kind == "f":
            exact = values * ticks
            return Out(saturated(exact), (), ~np.isfinite(values))
        limit = (2**63 - 1) // ticks
        far = (values > limit) | (values < -limit) if ticks > 1 else np.zeros(1, np.bool_)
        return out_of_range(call, values * ticks, far)

    return kernel


for _unit, _word, _ticks in (
    ("seconds", "seconds", SECOND),
    ("millis", "milliseconds", 1_000),
    ("micros", "microseconds", 1),
):
    scalar(
        f"timestamp_{_unit}(n)", rule=_ticks_rule, doc=f"The timestamp n {_word} after the start of 1970.", fails=True
    )(_from_ticks(_ticks))
