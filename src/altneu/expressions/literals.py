"""Canonical SQL text of literals; parsing the text gives the same constant."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

from altneu import types as T
from altneu.columnar.python_values import date_text, timestamp_text

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
    if data_type == T.TIME:
        return f"TIME '{time_text(value)}'"
    if data_type == T.DAY_TIME:
        return f"INTERVAL '{day_time_text(value)}' DAY TO SECOND"
    if data_type == T.YEAR_MONTH:
        sign, months = ("-", -value) if value < 0 else ("", value)
        return f"INTERVAL '{sign}{months // 12}-{months % 12}' YEAR TO MONTH"
    return f"{value}{suffix}"


def time_text(micros: int) -> str:
    """A time of day as Spark prints it, without trailing zeros of the second.

    >>> time_text(43_200_500_000), time_text(1)
    ('12:00:00.5', '00:00:00.000001')
    """
    seconds, fraction = divmod(micros, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{clock}.{fraction:06d}".rstrip("0") if fraction else clock


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
