"""Dates and timestamps from and to text by a pattern."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.errors import NonDeterministicError, TypeMismatchError
from altneu.expressions import casts, formats
from altneu.expressions.functions.arithmetic import truncated
from altneu.expressions.functions.datetime import DAY, GROUP, SECOND
from altneu.expressions.registry import Out, Rule, Typing, register
from altneu.expressions.rules import accept, expect_count
from altneu.expressions.time_in import zone_offsets
from altneu.expressions.vector import Mask, Values, Vector

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr

DEFAULT = "yyyy-MM-dd HH:mm:ss"
_UNREADABLE = "CANNOT_PARSE_TIMESTAMP"


def _pattern_rule(name: str, args: Sequence[Expr], at: int) -> None:
    """Check a pattern that is constant when the plan is built."""
    if len(args) > at:
        value = getattr(args[at], "value", None)
        if isinstance(value, str):
            formats.pieces(value)
        elif not args[at].is_literal:
            raise TypeMismatchError(f"{name}: the pattern (`{args[at].text}`) must be a constant")


def _reading_rule(name: str, returns: pa.DataType) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 1, 2)
        _pattern_rule(name, args, 1)
        kind = args[0].type
        kept = kind in (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ)
        first = None if kept else accept(name, 0, args[0], T.STRING)
        return Typing([first, T.STRING][: len(args)], returns, True if name.startswith("try") else None)

    return rule


def _read(call: Call, count: int, value: Vector, pattern: str | None = None) -> Vector:
    """A moment as it is, a text by its pattern or, without one, by a cast."""
    if pattern is None or value.type != T.STRING:
        return casts.convert(value.with_failures(()), call.type, count)
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


def _try_read(call: Call, count: int, value: Vector, pattern: str | None = None) -> Vector:
    from altneu.expressions.vector import failed_rows

    result = _read(call, count, value, pattern)
    failed = failed_rows(result.failures)
    return result if failed is None else casts.with_nulls(result, failed)


for _name, _kind in (
    ("to_date", T.DATE),
    ("to_timestamp", T.TIMESTAMP),
    ("to_timestamp_ltz", T.TIMESTAMP),
    ("to_timestamp_ntz", T.TIMESTAMP_NTZ),
):
    register(
        _name,
        rule=_reading_rule(_name, _kind),
        style="vector",
        group=GROUP,
        usage=f"{_name}(s[, pattern])",
        doc=f"A {'date' if _kind == T.DATE else 'timestamp'} read from a text, by a pattern when one is given.",
        constants=(1,),
        fails=True,
    )(_read)
for _name, _kind in (("try_to_timestamp", T.TIMESTAMP), ("try_to_date", T.DATE)):
    register(
        _name,
        rule=_reading_rule(_name, _kind),
        style="vector",
        group=GROUP,
        usage=f"{_name}(s[, pattern])",
        doc=f"{_name.removeprefix('try_')}, NULL where the text does not fit.",
        constants=(1,),
    )(_try_read)


def _format_rule(args: Sequence[Expr]) -> Typing:
    expect_count("date_format", args, 2)
    _pattern_rule("date_format", args, 1)
    return Typing([T.TIMESTAMP, T.STRING], T.STRING)


@register(
    "date_format",
    rule=_format_rule,
    style="vector",
    group=GROUP,
    usage="date_format(t, pattern)",
    doc="A date or timestamp printed by a pattern.",
    constants=(1,),
)
def date_format(call: Call, count: int, moment: Vector, pattern: str | None) -> Vector:
    """A moment printed by a pattern."""
    return _printed(moment.values, moment.valid, pattern, moment.constant)


def _printed(micros: Values, valid: Mask | None, pattern: str | None, constant: bool) -> Vector:
    if pattern is None:
        return Vector(T.STRING, arrow=pa.nulls(len(micros), T.STRING), constant=constant)
    text = formats.print_moments(micros, pattern)
    if valid is not None:
        text = pc.if_else(pa.array(valid), text, None)
    return Vector(T.STRING, arrow=text, constant=constant)


def _from_unixtime_rule(args: Sequence[Expr]) -> Typing:
    expect_count("from_unixtime", args, 1, 2)
    _pattern_rule("from_unixtime", args, 1)
    return Typing([accept("from_unixtime", 0, args[0], T.LONG), T.STRING][: len(args)], T.STRING)


@register(
    "from_unixtime",
    rule=_from_unixtime_rule,
    style="vector",
    group=GROUP,
    usage="from_unixtime(n[, pattern])",
    doc="The timestamp so many seconds after 1970, printed.",
    constants=(1,),
)
def from_unixtime(call: Call, count: int, seconds: Vector, pattern: str | None = DEFAULT) -> Vector:
    """Seconds since 1970, printed."""
    bounded = np.clip(seconds.values, -(2**63 // SECOND) + 1, 2**63 // SECOND - 1)
    return _printed(bounded * SECOND, seconds.valid, pattern, seconds.constant)


def _unix_rule(name: str) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        if not args:
            raise NonDeterministicError(f"{name}() without arguments is the clock; use a column that holds the time")
        expect_count(name, args, 1, 2)
        _pattern_rule(name, args, 1)
        kept = args[0].type in (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ)
        return Typing([T.TIMESTAMP if kept else accept(name, 0, args[0], T.STRING), T.STRING][: len(args)], T.LONG)

    return rule


@register(
    "unix_timestamp",
    "to_unix_timestamp",
    rule=_unix_rule("unix_timestamp"),
    style="vector",
    group=GROUP,
    usage="unix_timestamp(t[, pattern])",
    doc="Seconds since 1970 of a timestamp, or of a text by a pattern.",
    constants=(1,),
    fails=True,
)
def unix_timestamp(call: Call, count: int, value: Vector, pattern: str | None = DEFAULT) -> Vector:
    """Seconds since 1970."""
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


def _zone_rule(name: str) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 2)
        return Typing([T.TIMESTAMP, accept(name, 1, args[1], T.STRING)], T.TIMESTAMP)

    return rule


def _shifted(name: str, to_utc: bool) -> Callable[..., Any]:
    def kernel(call: Call, moment: Values, zone: str) -> Any:
        shift = zone_offsets(zone, moment) if to_utc else utc_offsets(zone, moment)
        if shift is None:
            return Out(moment, ((np.ones(len(moment), np.bool_), "INVALID_TIMEZONE", f"{zone!r} is no time zone"),))
        return moment - shift if to_utc else moment + shift

    return kernel


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


for _name, _to, _doc in (
    ("from_utc_timestamp", False, "The wall clock of a zone at a moment in UTC."),
    ("to_utc_timestamp", True, "The moment in UTC of a zone's wall clock."),
):
    register(
        _name,
        rule=_zone_rule(_name),
        style="numpy",
        group=GROUP,
        usage=f"{_name}(t, zone)",
        doc=_doc,
        constants=(1,),
        fails=True,
    )(_shifted(_name, _to))
