"""Dates and timestamps: their parts, moving them, cutting them, building them. The session's time zone is UTC."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.calendar import civil_from_days, days_from_civil
from altneu.expressions.intervals import SIZES, name_of_units, units_named, units_of
from altneu.expressions.registry import Group
from altneu.expressions.rules import Arguments, Typing, accept
from altneu.expressions.vector import Values, Vector, dtype_of

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("Dates and timestamps")
DAY = 86_400_000_000
SECOND = 1_000_000
OVERFLOW = "DATETIME_OVERFLOW"


def as_days(values: Values, kind: pa.DataType) -> Values:
    """Days since the epoch, as int64."""
    return values.astype(np.int64) if kind == T.DATE else values // DAY


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
    "dayofweek": "Day of the week; 1 is Sunday.",
    "weekday": "Day of the week; 0 is Monday.",
    "dayofyear": "Day of the year.",
    "weekofyear": "ISO week of the year.",
}


def _part_kernel(part: Callable[[Values], Values]) -> Callable[[Call, Values], Values]:
    def kernel(call: Call, values: Values) -> Values:
        return part(as_days(values, call.args[0].type)).astype(np.int32)

    return kernel


for _name, _doc in _PART_DOCS.items():
    _aliases = ("dayofmonth",) if _name == "day" else ()
    scalar(f"{_name}(d date|timestamp|timestamp_ntz) -> int", *_aliases, doc=_doc)(_part_kernel(DATE_PARTS[_name]))

_CLOCK = {"hour": (3_600 * SECOND, 24), "minute": (60 * SECOND, 60), "second": (SECOND, 60)}


def _clock_kernel(unit: int, size: int) -> Callable[[Call, Values], Values]:
    def kernel(call: Call, values: Values) -> Values:
        if call.args[0].type == T.DATE:
            return np.zeros(len(values), np.int32)
        return (values // unit % size).astype(np.int32)

    return kernel


for _name, _whole in (("hour", "day"), ("minute", "hour"), ("second", "minute")):
    scalar(f"{_name}(t timestamp|date|timestamp_ntz|time) -> int", doc=f"The {_name} of the {_whole}.")(
        _clock_kernel(*_CLOCK[_name])
    )

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
_WORDS = {function: part for part, function in reversed(_FIELDS.items())}
"""The first word for each part, by the function that computes it."""

_OF_INTERVALS = {
    "day": T.INT,
    "hour": T.BYTE,
    "minute": T.BYTE,
    "second": pa.decimal128(8, 6),
    "year": T.INT,
    "month": T.BYTE,
}


def _extract_rule(args: Arguments) -> Typing:
    given = getattr(args[0], "value", None)
    if not isinstance(given, str):
        raise TypeMismatchError(f"extract: the part must be a constant, got `{args[0].text}`")
    name = _FIELDS.get(given.lower())
    if args[1].type in (T.DAY_TIME, T.YEAR_MONTH):
        first, last = units_of(args[1])
        there = [part for part in _OF_INTERVALS if first <= units_named(part)[0] <= last]
        what = f"an interval {name_of_units((first, last)).lower()}"
    else:
        there = list(_CLOCK if args[1].type == T.TIME else dict.fromkeys(_FIELDS.values()))
        what = "a time" if args[1].type == T.TIME else "a date or timestamp"
    if name is None or name not in there:
        parts = ", ".join(map(_WORDS.__getitem__, there))
        raise TypeMismatchError(f"extract: {what} has no {given.lower()} (`{args[1].text}`); its parts are {parts}")
    if args[1].type in (T.DAY_TIME, T.YEAR_MONTH):
        return Typing((None, None), _OF_INTERVALS[name])
    known = args[1].type in (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ) or (args[1].type == T.TIME and name in _CLOCK)
    want = T.TIMESTAMP if name in _CLOCK else T.DATE
    read = None if known else accept("extract", 0, args[1], want)
    return Typing((None, read), pa.decimal128(8, 6) if name == "second" else T.INT)


@scalar(
    "extract(part, t)", "date_part", "datepart", rule=_extract_rule, usage="extract(part FROM t), date_part('part', t)"
)
def extract(call: Call, part: str, values: Values) -> Values:
    """A part by name: year, quarter, month, week, day, dow, doy, hour, minute, second (with its fraction).

    An interval has the parts that are among its units.
    """
    name, kind = _FIELDS[part.lower()], call.args[1].type
    if kind in (T.DAY_TIME, T.YEAR_MONTH):
        amount, size = np.abs(values), 1 if name == "second" else SIZES[units_named(name)[0]]
        wraps = {"hour": 24, "minute": 60, "second": 60 * SECOND, "month": 12}.get(name)
        amount = amount // size if wraps is None else amount // size % wraps
        return (np.sign(values) * amount).astype(dtype_of(call.type))
    if name == "second":
        return np.zeros(len(values), np.int64) if kind == T.DATE else values % (60 * SECOND)
    if name in _CLOCK:
        unit, size = _CLOCK[name]
        return np.zeros(len(values), np.int32) if kind == T.DATE else (values // unit % size).astype(np.int32)
    days = as_days(values, kind)
    if name == "dayofweek_iso":
        return ((days + 3) % 7 + 1).astype(np.int32)
    return DATE_PARTS[name](days).astype(np.int32)


@scalar("dayname(d date|timestamp|timestamp_ntz) -> string")
def dayname(d: Vector) -> Vector:
    """Name of the weekday: Mon, Tue and so on."""
    return _named(
        ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), DATE_PARTS["weekday"](as_days(d.values, d.type)), d
    )


@scalar("monthname(d date|timestamp|timestamp_ntz) -> string")
def monthname(d: Vector) -> Vector:
    """Name of the month: Jan, Feb and so on."""
    names = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
    return _named(names, DATE_PARTS["month"](as_days(d.values, d.type)) - 1, d)


def _named(names: tuple[str, ...], index: Values, date: Vector) -> Vector:
    mask = None if date.valid is None else ~date.valid
    return Vector(T.STRING, arrow=pa.array(names).take(pa.array(index, mask=mask)), constant=date.constant)
