"""Times of day, with microseconds as Spark's ``TIME(6)``: made from numbers and texts, cut, subtracted and moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.coercion import INTEGRAL, is_numeric
from altneu.expressions.formats import pieces, read_moments
from altneu.expressions.functions.datetime import DAY, OVERFLOW, SECOND
from altneu.expressions.literals import time_text
from altneu.expressions.registry import Group, Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.text_in import trim
from altneu.expressions.time_in import times
from altneu.expressions.vector import Mask, Values, dtype_of

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("Times of day")
_BOUNDS = "DATETIME_FIELD_OUT_OF_BOUNDS"
_UNITS = {"HOUR": 3600 * SECOND, "MINUTE": 60 * SECOND, "SECOND": SECOND, "MILLISECOND": 1_000, "MICROSECOND": 1}


def _bounded(call: Call, micros: Values, bad: Mask) -> Any:
    """Times of day, of which those that are bad are errors."""
    if not bad.any():
        return micros
    return Out(np.where(bad, 0, micros), ((bad, _BOUNDS, f"`{call.text}`: it is no time of day"),))


@scalar("make_time(hour int, minute int, second as decimal(16,6)) -> time", fails=True)
def make_time(call: Call, hour: Values, minute: Values, second: Values) -> Any:
    """A time of day from its parts; the second has a fraction."""
    bad = (hour < 0) | (hour > 23) | (minute < 0) | (minute > 59) | (second < 0) | (second >= 60 * SECOND)
    return _bounded(call, (hour.astype(np.int64) * 60 + minute) * 60 * SECOND + second, bad)


def _number_rule(args: Arguments) -> Typing:
    kind = args[0].type
    if kind != T.NULL and not (is_numeric(kind) if args.name == "time_from_seconds" else kind in INTEGRAL):
        what = "a number" if args.name == "time_from_seconds" else "a whole number"
        raise TypeMismatchError(f"{args.name} takes {what}, not {T.type_name(kind)} (`{args[0].text}`); cast it")
    return Typing([T.LONG if kind == T.NULL or kind in INTEGRAL else None], T.TIME)


def _from_ticks(ticks: int) -> Callable[[Call, Values], Any]:
    def kernel(call: Call, values: Values) -> Any:
        bad = (values < 0) | (values >= DAY // ticks)
        return _bounded(call, np.where(bad, 0, values) * ticks, bad)

    return kernel


for _unit, _word, _ticks in (("millis", "milliseconds", 1_000), ("micros", "microseconds", 1)):
    scalar(f"time_from_{_unit}(n)", rule=_number_rule, doc=f"The time of day n {_word} after midnight.", fails=True)(
        _from_ticks(_ticks)
    )


@scalar("time_from_seconds(n)", rule=_number_rule, fails=True)
def time_from_seconds(call: Call, values: Values) -> Any:
    """The time of day n seconds, which may have a fraction, after midnight."""
    kind = call.args[0].type
    if kind in INTEGRAL:
        return _from_ticks(SECOND)(call, values)
    if values.dtype.kind == "f":
        wide = values.astype(np.float64)
        bad = ~np.isfinite(wide) | (wide >= 86_400) | (np.trunc(np.where(np.isfinite(wide), wide, 0) * 1e9) < 0)
        return _bounded(call, np.trunc(np.where(bad, 0, wide) * 1e9).astype(np.int64) // 1_000, bad)
    exact = values.astype(object) * 10**9
    nanos = exact // 10**kind.scale
    bad = np.asarray((nanos < 0) | (nanos >= DAY * 1_000) | (exact % 10**kind.scale != 0), np.bool_)  # as Spark has it
    return _bounded(call, (np.where(bad, 0, nanos) // 1_000).astype(dtype_of(T.TIME)), bad)


def _time_rule(result: pa.DataType) -> Callable[[Arguments], Typing]:
    def rule(args: Arguments) -> Typing:
        if args[0].type not in (T.TIME, T.NULL):
            raise TypeMismatchError(
                f"{args.name} takes a time of day, not {T.type_name(args[0].type)} (`{args[0].text}`); cast it"
            )
        return Typing([T.TIME], result)

    return rule


@scalar("time_to_seconds(t)", rule=_time_rule(pa.decimal128(14, 6)))
def time_to_seconds(t: Values) -> Values:
    """Seconds since midnight, a decimal with the fraction."""
    return t


@scalar("time_to_millis(t)", rule=_time_rule(T.LONG))
def time_to_millis(t: Values) -> Values:
    """Milliseconds since midnight."""
    return t // 1_000


@scalar("time_to_micros(t)", rule=_time_rule(T.LONG))
def time_to_micros(t: Values) -> Values:
    """Microseconds since midnight."""
    return t


def _size_of(call: Call, unit: str, count: int) -> int | Out:
    """How many microseconds a unit has; all rows as failures if there is none of that name."""
    found = _UNITS.get(unit.upper())
    if found is not None:
        return found
    message = f"{call.name}: the unit must be one of {', '.join(_UNITS)}, got {unit!r}"
    return Out(np.zeros(count, np.int64), ((np.ones(count, np.bool_), "INVALID_PARAMETER_VALUE", message),))


@scalar("time_trunc(unit string, t time) -> time", fails=True)
def time_trunc(call: Call, unit: str, t: Values) -> Any:
    """The time of day cut to a unit: HOUR, MINUTE, SECOND, MILLISECOND or MICROSECOND."""
    size = _size_of(call, unit, len(t))
    return t - t % size if isinstance(size, int) else size


@scalar("time_diff(unit string, start time, end time) -> bigint", fails=True)
def time_diff(call: Call, unit: str, start: Values, end: Values) -> Any:
    """How many whole units, of those of `time_trunc`, are from start to end."""
    between = end - start
    size = _size_of(call, unit, len(between))
    return np.sign(between) * (np.abs(between) // size) if isinstance(size, int) else size


def _check_pattern(args: Arguments) -> None:
    if len(args) > 1:
        pattern = getattr(args[1], "value", None)
        if not isinstance(pattern, str) and not args[1].is_literal:
            raise TypeMismatchError(f"{args.name}: the format `{args[1].text}` must be constant")
        pieces(pattern or "")


@scalar("to_time(s string[, format string]) -> time", check=_check_pattern, fails=True)
def to_time(call: Call, text: pa.Array, pattern: str | None = "") -> Any:
    """The time of day that a text says, by a pattern or as a cast reads it; an error if it says none."""
    values, bad = _read(text, pattern)
    message = f"`{call.text}`: the text says no time of day"
    return Out(values, ((bad, "CANNOT_PARSE_TIME", message),)) if bad.any() else values


@scalar("try_to_time(s string[, format string]) -> time?", check=_check_pattern)
def try_to_time(text: pa.Array, pattern: str | None = "") -> Any:
    """The time of day that a text says; NULL if it says none."""
    values, bad = _read(text, pattern)
    return Out(values, (), bad)


def _read(text: pa.Array, pattern: str | None) -> tuple[Values, Mask]:
    if not pattern:
        return times(trim(text))
    values, bad = read_moments(text, pattern)
    return values % DAY, bad


@scalar(
    "time_add_interval(t time, i interval day to second) -> time",
    message_name="+",
    usage="time + INTERVAL n unit, time - INTERVAL n unit",
    fails=True,
)
def time_add_interval(call: Call, t: Values, i: Values) -> Any:
    """The time of day plus or minus an interval; an error if that is another day."""
    result = t + i
    bad = (result < 0) | (result >= DAY) | (((t ^ result) & (i ^ result)) < 0)
    if not bad.any():
        return result

    def message(row: int) -> str:
        return f"`{call.text}`: {time_text(int(t[row if len(t) > 1 else 0]))} moved is no time of the same day"

    return Out(np.where(bad, 0, result), ((bad, OVERFLOW, message),))


@scalar("time_subtract(a time, b time) -> interval day to second", message_name="-", usage="time - time")
def time_subtract(a: Values, b: Values) -> Values:
    """The interval between two times of day."""
    return a - b
