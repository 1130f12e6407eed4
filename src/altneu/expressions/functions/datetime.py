"""Dates and timestamps: their parts, moving them, cutting them, building them. The session's time zone is UTC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.calendar import civil_from_days, days_from_civil
from altneu.expressions.registry import Rule, Typing, register
from altneu.expressions.rules import accept, expect_count
from altneu.expressions.vector import Values, Vector

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
