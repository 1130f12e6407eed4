"""Values of rows as JSON has them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.types import type_name

_EXACT = (1 << 53) - 1  # whole numbers beyond are rounded by JavaScript


def cell(value: Any) -> Any:
    """A value as JSON; what JSON or JavaScript would change or has not is a text.

    >>> [cell(v) for v in (None, True, 7, 1 << 60, 0.5, float("nan"), bytes([0, 255]), dt.date(2013, 1, 1))]
    [None, True, 7, '1152921504606846976', 0.5, 'NaN', '0x00ff', '2013-01-01']
    """
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -_EXACT <= value <= _EXACT else str(value)
        case float():
            if math.isfinite(value):
                return value
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case bytes():
            return f"0x{value.hex()}"
        case dt.datetime():
            return value.isoformat(" ")
        case dt.date() | Decimal():
            return str(value)
        case list() | tuple():
            return [cell(v) for v in value]
        case dict():
            return {str(k): cell(v) for k, v in value.items()}
        case _:
            return str(value)


def columns_of(schema: pa.Schema) -> list[dict[str, Any]]:
    """Names and types of columns, and on which side their values are shown."""
    return [{"name": f.name, "type": type_name(f.type), "number": _is_number(f.type)} for f in schema]


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def cells_of(rows: Rows) -> list[list[Any]]:
    """Rows as JSON."""
    return [[cell(value) for value in row] for row in rows.to_pylist()]


def table_of(table: pa.Table, rows: int) -> dict[str, Any]:
    """The first rows of a table, and how many there are."""
    shown: Sequence[Any] = cells_of(Rows.from_batch(table.slice(0, rows).combine_chunks()))
    return {"columns": columns_of(table.schema), "rows": shown, "total": table.num_rows}
