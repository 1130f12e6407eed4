"""Dates and timestamps made from numbers, and numbers from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.calendar import days_from_civil, month_length
from altneu.expressions.casts import saturated
from altneu.expressions.coercion import INTEGRAL, is_numeric
from altneu.expressions.functions.date_moving import out_of_range
from altneu.expressions.functions.datetime import DAY, GROUP, SECOND
from altneu.expressions.registry import Out, Rule, Typing, register
from altneu.expressions.rules import expect_count, takes
from altneu.expressions.vector import Mask, Values

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr


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
        return out_of_range(call, values * ticks, far)

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
