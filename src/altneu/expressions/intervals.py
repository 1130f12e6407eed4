"""Intervals: literals, and their arithmetic with dates and timestamps."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.errors import ExpressionSyntaxError, UnsupportedFunctionError
from altneu.expressions.coercion import INTEGRAL
from altneu.expressions.expr import Expr, Literal

_MICROS = {
    "WEEK": 604_800_000_000,
    "DAY": 86_400_000_000,
    "HOUR": 3_600_000_000,
    "MINUTE": 60_000_000,
    "SECOND": 1_000_000,
    "MILLISECOND": 1_000,
    "MICROSECOND": 1,
}
_MONTHS = {"YEAR": 12, "MONTH": 1}
_UNITS = r"(YEAR|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND|MILLISECOND|MICROSECOND)S?"
_DAY_TIME = re.compile(r"([+-])?(?:(\d+) )?(?:(\d+):)?(\d+)(?::(\d+))?(?:\.(\d{1,9}))?")


class DayLiteral(Literal):
    """An interval written in days: a date moved by it stays a date."""


def literal(node: exp.Expr) -> Literal:
    """The constant of an INTERVAL literal.

    Raises:
        ExpressionSyntaxError: its text does not fit its unit.
    """
    value, unit = node.this, node.args.get("unit")
    negative = isinstance(value, exp.Neg)
    inner = value.this if negative else value
    if not isinstance(inner, exp.Literal):
        raise UnsupportedFunctionError(
            f"{node.sql('spark')!r}: an INTERVAL needs a constant; multiply it: n * INTERVAL 1 DAY"
        )
    text = inner.this.strip()
    if negative:
        text = text[1:] if text.startswith("-") else f"-{text}"
    if unit is None:
        return _phrases(text, node)
    if isinstance(unit, exp.IntervalSpan):
        return _span(text, unit.this.name.upper(), unit.expression.name.upper(), node)
    match = re.fullmatch(_UNITS, unit.name.upper())
    if match is None:
        raise ExpressionSyntaxError(f"{node.sql('spark')!r}: the interval's unit is not known")
    return _amount(text, match[1], node)


def _amount(text: str, unit: str, node: exp.Expr) -> Literal:
    if not re.fullmatch(r"[+-]?\d+(\.\d+)?", text):
        raise ExpressionSyntaxError(f"{node.sql('spark')!r}: {text!r} is not a number of {unit.lower()}s")
    if unit in _MONTHS:
        return Literal(int(text) * _MONTHS[unit], T.YEAR_MONTH)
    result = DayLiteral if unit in ("DAY", "WEEK") else Literal
    return result(int(Decimal(text) * _MICROS[unit]), T.DAY_TIME)


def _phrases(text: str, node: exp.Expr) -> Literal:
    """``INTERVAL '1 day 2 hours'``."""
    matches = re.findall(rf"([+-]?\d+(?:\.\d+)?)\s*{_UNITS}", text.upper())
    rest = re.sub(rf"[+-]?\d+(?:\.\d+)?\s*{_UNITS}", "", text.upper()).strip()
    if not matches or rest:
        raise ExpressionSyntaxError(
            f"{node.sql('spark')!r}: write an interval as INTERVAL 1 DAY or INTERVAL '1 day 2 hours'"
        )
    parts = [_amount(amount, unit, node) for amount, unit in matches]
    if len({p.type for p in parts}) > 1:
        raise UnsupportedFunctionError(
            f"{node.sql('spark')!r}: months and days do not mix in one interval; add two intervals"
        )
    result = DayLiteral if all(isinstance(p, DayLiteral) for p in parts) else Literal
    return result(sum(p.value for p in parts), parts[0].type)


def _span(text: str, first: str, last: str, node: exp.Expr) -> Literal:
    if first == "YEAR":
        match = re.fullmatch(r"([+-])?(\d+)-(\d+)", text)
        if match:
            months = int(match[2]) * 12 + int(match[3])
            return Literal(-months if match[1] == "-" else months, T.YEAR_MONTH)
    order = ["DAY", "HOUR", "MINUTE", "SECOND"]
    if first in order and last in order:
        units = order[order.index(first) : order.index(last) + 1]
        match = re.fullmatch(r"([+-])?([\d: ]+)(?:\.(\d{1,6}))?", text)
        numbers = re.split(r"[: ]", match[2].strip()) if match else []
        if match and len(numbers) == len(units):
            micros = sum(int(n) * _MICROS[u] for n, u in zip(numbers, units, strict=True)) + int(
                (match[3] or "").ljust(6, "0")
            )
            return Literal(-micros if match[1] == "-" else micros, T.DAY_TIME)
    raise ExpressionSyntaxError(f"{node.sql('spark')!r}: the interval's text does not fit {first} TO {last}")


_POINTS = (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ)


def arithmetic(symbol: str, left: Expr, right: Expr, call: Callable[[str, Sequence[Expr]], Expr]) -> Expr | None:
    """The call that an operator on dates, timestamps and intervals means; None when no operand is one."""
    a, b = left.type, right.type
    if symbol == "+" and b in _POINTS and (a in (T.DAY_TIME, T.YEAR_MONTH) or (a in INTEGRAL and b == T.DATE)):
        left, right, a, b = right, left, b, a
    if a in _POINTS:
        return _on_point(symbol, left, right, call)
    if T.TIME in (a, b):
        return _on_time(symbol, left, right, call)
    if b in _POINTS and a == T.STRING and symbol == "-":
        return call("timestamp_diff", [left, right])
    interval = {a, b} & {T.DAY_TIME, T.YEAR_MONTH}
    if not interval:
        return None
    if symbol in "+-" and isinstance(left, DayLiteral) and isinstance(right, DayLiteral):
        return DayLiteral(left.value + (right.value if symbol == "+" else -right.value), T.DAY_TIME)
    if symbol in "+-" and a == b:
        return call("interval_add" if symbol == "+" else "interval_subtract", [left, right])
    if symbol == "*":
        return call("interval_multiply", [right, left] if b in interval else [left, right])
    if symbol == "/" and a in interval:
        return call("interval_divide", [left, right])
    return None


def _on_time(symbol: str, left: Expr, right: Expr, call: Callable[[str, Sequence[Expr]], Expr]) -> Expr | None:
    """A time of day moved by an interval, or the interval between two."""
    if symbol == "+" and (left.type, right.type) == (T.DAY_TIME, T.TIME):
        left, right = right, left
    if symbol in "+-" and (left.type, right.type) == (T.TIME, T.DAY_TIME):
        return call("time_add_interval", [left, right if symbol == "+" else call("negative", [right])])
    if symbol == "-" and {left.type, right.type} <= {T.TIME, T.STRING}:
        return call("time_subtract", [left, right])
    return None


def _on_point(symbol: str, point: Expr, other: Expr, call: Callable[[str, Sequence[Expr]], Expr]) -> Expr | None:
    kind: pa.DataType = other.type
    if symbol == "-" and (kind in _POINTS or kind == T.STRING):
        return call("date_diff_days" if point.type == kind == T.DATE else "timestamp_diff", [point, other])
    if symbol not in "+-":
        return None
    if point.type == T.DATE and isinstance(other, DayLiteral) and other.value is not None:
        return call("date_add" if symbol == "+" else "date_sub", [point, Literal(other.value // _MICROS["DAY"], T.INT)])
    if kind in (T.DAY_TIME, T.YEAR_MONTH):
        amount = other if symbol == "+" else call("negative", [other])
        return call("add_interval", [point, amount])
    if point.type == T.DATE and (kind in INTEGRAL or kind == T.STRING):
        return call("date_add" if symbol == "+" else "date_sub", [point, other])
    return None
