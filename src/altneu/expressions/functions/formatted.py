"""Dates and timestamps from and to text by a pattern."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.errors import NonDeterministicError, TypeMismatchError
from altneu.expressions import casts, formats
from altneu.expressions.functions.arithmetic import truncated
from altneu.expressions.functions.datetime import DAY, SECOND, scalar
from altneu.expressions.registry import Out
from altneu.expressions.rules import Arguments, Typing, expect_count
from altneu.expressions.time_in import zone_offsets
from altneu.expressions.vector import Mask, Values, Vector

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

DEFAULT = "yyyy-MM-dd HH:mm:ss"
_UNREADABLE = "CANNOT_PARSE_TIMESTAMP"


def _check_pattern(args: Arguments) -> None:
    """Check a pattern that is constant when the plan is built."""
    if len(args) > 1:
        value = getattr(args[1], "value", None)
        if isinstance(value, str):
            formats.pieces(value)
        elif not args[1].is_literal:
            raise TypeMismatchError(f"{args.name}: the pattern (`{args[1].text}`) must be a constant")


def _read(call: Call, value: Vector, pattern: str | None = None) -> Vector:
    """A moment as it is, a text by its pattern or, without one, by a cast."""
    if pattern is None or value.type != T.STRING:
        return casts.convert(value.with_failures(()), call.type)
    micros, bad = formats.read_moments(value.arrow, pattern)
    values = (micros // DAY).astype(np.int32) if call.type == T.DATE else micros
    read = Vector(call.type, values, value.valid, constant=value.constant)
    if value.valid is not None:
        bad = bad & value.valid
    return read if not bad.any() else read.with_failures(_unreadable(value, pattern, bad))


def _unreadable(value: Vector, pattern: str, bad: Mask) -> tuple[Any, ...]:
    from altneu.expressions.vector import Failure

    def message(row: int) -> str:
        return f"The text {value.arrow[row if len(value) > 1 else 0].as_py()!r} does not fit the pattern {pattern!r}"

    return (Failure(bad, _UNREADABLE, message),)


def _try_read(call: Call, value: Vector, pattern: str | None = None) -> Vector:
    from altneu.expressions.vector import failed_rows

    result = _read(call, value, pattern)
    failed = failed_rows(result.failures)
    return result if failed is None else casts.with_nulls(result, failed)


_READ = "(s string|date|timestamp|timestamp_ntz[, pattern as string]) -> "
for _name, _kind in (
    ("to_date", "date"),
    ("to_timestamp", "timestamp"),
    ("to_timestamp_ltz", "timestamp"),
    ("to_timestamp_ntz", "timestamp_ntz"),
):
    scalar(
        f"{_name}{_READ}{_kind}",
        check=_check_pattern,
        doc=f"The {_kind.removesuffix('_ntz')} in a text, read by the pattern if there is one.",
        fails=True,
    )(_read)
for _name, _kind in (("to_timestamp", "timestamp"), ("to_date", "date")):
    scalar(f"try_{_name}{_READ}{_kind}?", check=_check_pattern, doc=f"`{_name}`, but NULL if the text does not fit.")(
        _try_read
    )


@scalar("date_format(t as timestamp, pattern as string) -> string", check=_check_pattern)
def date_format(moment: Vector, pattern: str | None) -> Vector:
    """The date or timestamp as a text, formatted by the pattern."""
    return _printed(moment.values, moment.valid, pattern, moment.constant)


def _printed(micros: Values, valid: Mask | None, pattern: str | None, constant: bool) -> Vector:
    if pattern is None:
        return Vector(T.STRING, arrow=pa.nulls(len(micros), T.STRING), constant=constant)
    text = formats.print_moments(micros, pattern)
    if valid is not None:
        text = pc.if_else(pa.array(valid), text, None)
    return Vector(T.STRING, arrow=text, constant=constant)


@scalar("from_unixtime(n bigint[, pattern as string]) -> string", check=_check_pattern)
def from_unixtime(seconds: Vector, pattern: str | None = DEFAULT) -> Vector:
    """The timestamp n seconds after the start of 1970, as a text."""
    bounded = np.clip(seconds.values, -(2**63 // SECOND) + 1, 2**63 // SECOND - 1)
    return _printed(bounded * SECOND, seconds.valid, pattern, seconds.constant)


def _unix_rule(args: Arguments) -> Typing:
    if not args:
        raise NonDeterministicError(f"{args.name}() without arguments is the clock; use a column that holds the time")
    expect_count(args.name, args, 1, 2)
    _check_pattern(args)
    known = args[0].type in (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ)
    return Typing([T.TIMESTAMP if known else args.accept(0, T.STRING), T.STRING][: len(args)], T.LONG)


@scalar("unix_timestamp(…)", "to_unix_timestamp", rule=_unix_rule, usage="unix_timestamp(t[, pattern])", fails=True)
def unix_timestamp(value: Vector, pattern: str | None = DEFAULT) -> Vector:
    """Seconds since 1970, of a timestamp or of a text that the pattern reads."""
    failures: tuple[Any, ...] = ()
    if value.type == T.STRING:
        micros, bad = formats.read_moments(value.arrow, pattern or DEFAULT)
        if value.valid is not None:
            bad = bad & value.valid
        failures = _unreadable(value, pattern or DEFAULT, bad) if bad.any() else ()
    else:
        micros = value.values
    return Vector(
        T.LONG, truncated(micros, np.full(1, SECOND)), value.valid, failures=failures, constant=value.constant
    )


def _moved(moment: Values, zone: str, shift: Values | None, sign: int) -> Any:
    if shift is None:
        return Out(moment, ((np.ones(len(moment), np.bool_), "INVALID_TIMEZONE", f"{zone!r} is no time zone"),))
    return moment + sign * shift


def utc_offsets(zone: str, utc: Values) -> Values | None:
    """Microseconds east of UTC of moments in a zone; None when there is no such zone."""
    fixed = zone_offsets(zone, utc)
    if fixed is None:
        return None
    try:
        local = pc.local_timestamp(pa.array(utc, pa.timestamp("us", zone)))
    except pa.ArrowInvalid:
        return fixed
    return local.cast(T.LONG).to_numpy() - utc


@scalar("from_utc_timestamp(t as timestamp, zone string) -> timestamp", fails=True)
def from_utc_timestamp(t: Values, zone: str) -> Any:
    """The local time in a zone at a time in UTC."""
    return _moved(t, zone, utc_offsets(zone, t), 1)


@scalar("to_utc_timestamp(t as timestamp, zone string) -> timestamp", fails=True)
def to_utc_timestamp(t: Values, zone: str) -> Any:
    """The time in UTC at a local time of a zone."""
    return _moved(t, zone, zone_offsets(zone, t), -1)


def _zones_rule(args: Arguments) -> Typing:
    last = len(args) - 1
    known = args[last].type in (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ, T.STRING, T.NULL)
    if not known:
        raise TypeMismatchError(f"convert_timezone takes a timestamp, not {T.type_name(args[last].type)}")
    return Typing([*(args.accept(i, T.STRING) for i in range(last)), T.TIMESTAMP_NTZ], T.TIMESTAMP_NTZ)


@scalar(
    "convert_timezone(source, target[, t])", rule=_zones_rule, usage="convert_timezone([source, ]target, t)", fails=True
)
def convert_timezone(*args: pa.Array) -> Any:
    """The local time in a zone at a local time of another one (default UTC), without a zone."""
    *zones, moment = args
    micros = Vector(T.TIMESTAMP_NTZ, arrow=moment).values.copy()
    failures = []
    for sign, column, offsets in zip(
        (-1, 1)[-len(zones) :], zones, (zone_offsets, utc_offsets)[-len(zones) :], strict=True
    ):
        for zone in column.unique().to_pylist():
            rows = np.asarray(pc.equal(column, zone).fill_null(False)) & np.asarray(moment.is_valid())
            shift = None if zone is None else offsets(zone, micros[rows])
            if shift is None and zone is not None:
                failures.append((rows, "INVALID_TIMEZONE", f"{zone!r} is no time zone"))
            elif shift is not None:
                micros[rows] += sign * shift
    return Out(Vector(T.TIMESTAMP_NTZ, micros).arrow, failures)
