"""Canonical SQL text of literals and calls; parsing the text gives the same expression."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from altneu import types as T
from altneu.columnar.python_values import date_text, timestamp_text

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_SUFFIX = {T.BYTE: "Y", T.SHORT: "S", T.LONG: "L"}


def literal_sql(value: Any, data_type: pa.DataType) -> str:
    r"""Text of a constant.

    >>> (
    ...     literal_sql(5, pa.int64()),
    ...     literal_sql("it's", pa.string()),
    ...     literal_sql(None, pa.int32()),
    ...     literal_sql(0, pa.date32()),
    ... )
    ('5L', "'it\\'s'", 'CAST(NULL AS int)', "DATE '1970-01-01'")
    """
    if value is None:
        return "NULL" if data_type == T.NULL else f"CAST(NULL AS {T.type_name(data_type)})"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value.translate(_ESCAPES)}'"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if isinstance(value, float):
        return _float_sql(value, data_type)
    if isinstance(value, Decimal):
        return f"CAST('{value:f}' AS {T.type_name(data_type)})"
    return _integer_sql(value, data_type)


def _float_sql(value: float, data_type: pa.DataType) -> str:
    name = T.type_name(data_type)
    if math.isnan(value) or math.isinf(value):
        text = "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        return f"CAST('{text}' AS {name})"
    if data_type == T.FLOAT:
        return f"CAST('{value!r}' AS float)"
    return f"{value!r}D"


def _integer_sql(value: int, data_type: pa.DataType) -> str:
    suffix = _SUFFIX.get(data_type, "")
    if data_type == T.DATE:
        return f"DATE '{date_text(value)}'"
    if data_type in (T.TIMESTAMP, T.TIMESTAMP_NTZ):
        word = "TIMESTAMP" if data_type == T.TIMESTAMP else "TIMESTAMP_NTZ"
        return f"{word} '{timestamp_text(value)}'"
    if data_type == T.DAY_TIME:
        return f"INTERVAL '{day_time_text(value)}' DAY TO SECOND"
    if data_type == T.YEAR_MONTH:
        sign, months = ("-", -value) if value < 0 else ("", value)
        return f"INTERVAL '{sign}{months // 12}-{months % 12}' YEAR TO MONTH"
    return f"{value}{suffix}"


def day_time_text(micros: int) -> str:
    """A day-time interval in Spark's ANSI form.

    >>> day_time_text(-90_061_000_001)
    '-1 01:01:01.000001'
    """
    sign, micros = ("-", -micros) if micros < 0 else ("", micros)
    seconds, fraction = divmod(micros, 1_000_000)
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    day, hour = divmod(hours, 24)
    return f"{sign}{day} {hour:02d}:{minute:02d}:{second:02d}.{fraction:06d}"


def render_call(call: Call, texts: list[str]) -> str:
    """Text of a call, given the texts of its arguments."""
    special = _RENDER.get(call.name)
    if special is not None:
        return special(call, texts)
    if call.function.infix and len(texts) == 2:
        return f"{_inner(call, texts, 0)} {call.name} {_inner(call, texts, 1)}"
    return f"{call.name}({', '.join(texts)})"


def _inner(call: Call, texts: list[str], index: int) -> str:
    """An argument inside an operator: parenthesised when it is an operator itself."""
    seen = call.args[index]
    while getattr(seen, "implicit", False) and texts[index] == seen.args[0].text:  # type: ignore[attr-defined]
        seen = seen.args[0]  # type: ignore[attr-defined]
    called = getattr(seen, "function", None)
    negative = texts[index].startswith("-")
    return f"({texts[index]})" if negative or (called is not None and called.infix) else texts[index]


def _case(call: Call, texts: list[str]) -> str:
    pairs = "".join(f" WHEN {texts[i]} THEN {texts[i + 1]}" for i in range(0, len(texts) - 1, 2))
    return f"CASE{pairs}{f' ELSE {texts[-1]}' if len(texts) % 2 else ''} END"


def _field(call: Call, texts: list[str]) -> str:
    return f"{_inner(call, texts, 0)}.{T.quote_name(call.args[1].value)}"  # type: ignore[attr-defined]


_RENDER: dict[str, Callable[[Call, list[str]], str]] = {
    "cast": lambda call, texts: f"CAST({texts[0]} AS {T.type_name(call.type)})",
    "try_cast": lambda call, texts: f"TRY_CAST({texts[0]} AS {T.type_name(call.type)})",
    "case": _case,
    "and": lambda call, texts: f"{_inner(call, texts, 0)} AND {_inner(call, texts, 1)}",
    "or": lambda call, texts: f"{_inner(call, texts, 0)} OR {_inner(call, texts, 1)}",
    "not": lambda call, texts: f"NOT {_inner(call, texts, 0)}",
    "negative": lambda call, texts: f"-{_inner(call, texts, 0)}",
    "~": lambda call, texts: f"~{_inner(call, texts, 0)}",
    "isnull": lambda call, texts: f"{_inner(call, texts, 0)} IS NULL",
    "isnotnull": lambda call, texts: f"{_inner(call, texts, 0)} IS NOT NULL",
    "in": lambda call, texts: f"{_inner(call, texts, 0)} IN ({', '.join(texts[1:])})",
    "like": lambda call, texts: (
        f"{_inner(call, texts, 0)} LIKE {texts[1]}" + (f" ESCAPE {texts[2]}" if len(texts) > 2 else "")
    ),
    "ilike": lambda call, texts: (
        f"{_inner(call, texts, 0)} ILIKE {texts[1]}" + (f" ESCAPE {texts[2]}" if len(texts) > 2 else "")
    ),
    "rlike": lambda call, texts: f"{_inner(call, texts, 0)} RLIKE {_inner(call, texts, 1)}",
    "ltrim": lambda call, texts: f"ltrim({', '.join(reversed(texts))})",
    "rtrim": lambda call, texts: f"rtrim({', '.join(reversed(texts))})",
    "[]": lambda call, texts: f"{_inner(call, texts, 0)}[{texts[1]}]",
    ".": _field,
}
