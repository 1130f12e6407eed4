"""Intervals: literals, their units, and their arithmetic with dates and timestamps."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.errors import ExpressionSyntaxError, UnsupportedFunctionError
from altneu.expressions.coercion import INTEGRAL
from altneu.expressions.expr import Call, Column, Expr, Literal

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


_NAMES = ("DAY", "HOUR", "MINUTE", "SECOND", "YEAR", "MONTH")
_WHOLE = {T.DAY_TIME: (0, 3), T.YEAR_MONTH: (4, 5)}
_DAYS = (0, 0)
_OF_DIFFERENCES = {"date_diff_days": _DAYS, "time_subtract": (1, 3)}  # a date less a date, a time of day less one
_KEEPING = frozenset(
    {
        *("interval_add", "interval_subtract", "negative", "positive", "abs", "coalesce", "case", "if", "nvl2"),
        *("greatest", "least", "min", "max", "sum", "try_sum", "mode", "any_value", "first", "last", "nth_value"),
        *("lag", "lead", "percentile_disc", "min_by", "max_by"),
    }
)
"""Functions whose intervals have the units of their arguments."""


class Interval(Literal):
    """A constant interval with the units that it is written in: the first and the last, as places in ``_NAMES``."""

    def __init__(self, value: int | None, data_type: pa.DataType, units: tuple[int, int]) -> None:
        super().__init__(value, data_type)
        self.units = units


def units_of(expr: Expr) -> tuple[int, int]:
    """The first and the last unit of an interval's type in Spark; altneu's types do not tell them apart.

    >>> (
    ...     units_of(Interval(0, T.DAY_TIME, (1, 2))),
    ...     units_of(Column("d", T.DAY_TIME)),
    ...     units_of(Column("n", T.INT)),
    ... )
    ((1, 2), (0, 3), (0, 3))
    """
    whole = _WHOLE.get(expr.type, _WHOLE[T.DAY_TIME])
    if isinstance(expr, Interval):
        return expr.units
    if isinstance(expr, Column) and expr.mark.startswith("interval "):
        return units_named(expr.mark.removeprefix("interval "))
    return units_of_call(expr.function.name, expr.args, expr.type) if isinstance(expr, Call) else whole


def units_of_call(name: str, args: Sequence[Expr], kind: pa.DataType) -> tuple[int, int]:
    """The units of what a function gives, by its name."""
    if name in _OF_DIFFERENCES:
        return _OF_DIFFERENCES[name]
    if name == "interval_as" and isinstance(args[1], Literal):
        return units_named(args[1].value)
    of_args = [units_of(a) for a in args if a.type == kind and not (isinstance(a, Literal) and a.value is None)]
    if name not in _KEEPING or not of_args or kind not in _WHOLE:
        return _WHOLE.get(kind, _WHOLE[T.DAY_TIME])
    return min(first for first, _ in of_args), max(last for _, last in of_args)


def units_named(text: str) -> tuple[int, int]:
    """The units that a text names: ``DAY TO HOUR``, or one.

    >>> units_named("DAY TO HOUR"), units_named("month")
    ((0, 1), (5, 5))
    """
    names = text.upper().split(" TO ")
    return _NAMES.index(names[0]), _NAMES.index(names[-1])


def name_of_units(units: tuple[int, int]) -> str:
    """The units as Spark writes them.

    >>> name_of_units((0, 1)), name_of_units((5, 5))
    ('DAY TO HOUR', 'MONTH')
    """
    return " TO ".join(dict.fromkeys(_NAMES[u] for u in units))


def mark_of_units(expr: Expr) -> str:
    """The name of an interval's type where Spark has another one than altneu; else nothing."""
    whole = _WHOLE.get(expr.type)
    if whole is None or (units := units_of(expr)) == whole:
        return ""
    return f"interval {name_of_units(units).lower()}"


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
        return Interval(int(text) * _MONTHS[unit], T.YEAR_MONTH, units_named(unit))
    name = {"WEEK": "DAY", "MILLISECOND": "SECOND", "MICROSECOND": "SECOND"}.get(unit, unit)
    return Interval(int(Decimal(text) * _MICROS[unit]), T.DAY_TIME, units_named(name))


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
    units = [units_of(p) for p in parts]
    both = min(first for first, _ in units), max(last for _, last in units)
    return Interval(sum(p.value for p in parts), parts[0].type, both)


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
            return Interval(-micros if match[1] == "-" else micros, T.DAY_TIME, units_named(f"{first} TO {last}"))
    raise ExpressionSyntaxError(f"{node.sql('spark')!r}: the interval's text does not fit {first} TO {last}")


SIZES = (86_400_000_000, 3_600_000_000, 60_000_000, 1, 12, 1)
"""How much each unit of ``_NAMES`` is: microseconds, or months. A second has a fraction, so nothing is cut from it."""


def text_in_units(value: int, first: int, last: int) -> str:
    """An interval of microseconds or months, from its first unit to its last.

    >>> text_in_units(93_600_000_000, 0, 1), text_in_units(93_600_500_000, 1, 3), text_in_units(-14, 4, 5)
    ('1 02', '26:00:00.5', '-1-2')
    """
    sign, value = ("-", -value) if value < 0 else ("", value)
    if last >= _NAMES.index("YEAR"):
        years, months = divmod(value, 12)
        return sign + (str(value // SIZES[first]) if first == last else f"{years}-{months}")
    parts = []
    for unit in range(first, last + 1):
        number, value = divmod(value, 1_000_000 if unit == _NAMES.index("SECOND") else SIZES[unit])
        parts.append(str(number) if unit == 0 else f"{number:02d}")
    fraction = f".{value:06d}".rstrip("0") if last == _NAMES.index("SECOND") and value else ""
    days = [parts.pop(0)] if first == 0 else []
    return sign + " ".join([*days, *([":".join(parts)] if parts else [])]) + fraction


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
    if point.type == T.DATE and kind == T.DAY_TIME and units_of(other) == _DAYS:
        if isinstance(other, Literal) and other.value is not None:
            days = Literal(other.value // _MICROS["DAY"], T.INT)
            return call("date_add" if symbol == "+" else "date_sub", [point, days])
        amount = other if symbol == "+" else call("negative", [other])
        return call("to_date", [call("add_interval", [point, amount])])
    if kind in (T.DAY_TIME, T.YEAR_MONTH):
        amount = other if symbol == "+" else call("negative", [other])
        return call("add_interval", [point, amount])
    if point.type == T.DATE and (kind in INTEGRAL or kind == T.STRING):
        return call("date_add" if symbol == "+" else "date_sub", [point, other])
    return None
