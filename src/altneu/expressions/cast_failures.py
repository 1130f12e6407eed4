"""The failures of casts: their codes, and messages worded as Spark words them."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from altneu import types as T
from altneu.expressions.text_out import to_text
from altneu.expressions.vector import Vector

CAST_OVERFLOW, OUT_OF_RANGE, INVALID = "CAST_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE", "CAST_INVALID_INPUT"
UNSUPPORTED_RANGE = "NUMERIC_OUT_OF_SUPPORTED_RANGE"


def explain(vector: Vector, target: pa.DataType, code: str) -> Callable[[int], str]:
    """The message for a row whose value does not fit."""

    def message(row: int) -> str:
        arrow = vector.arrow
        value = to_text(arrow.slice(row if len(arrow) > 1 else 0, 1))[0].as_py()
        shown = f"'{value}'" if vector.type == T.STRING else value
        names = f'"{T.type_name(vector.type).upper()}" cannot be cast to "{T.type_name(target).upper()}"'
        if code == CAST_OVERFLOW:
            return f"The value {shown} of the type {names} due to an overflow"
        if code in (OUT_OF_RANGE, UNSUPPORTED_RANGE):
            return f"The value {shown} of the type {names}: it has too many digits"
        return f"The value {shown} of the type {names} because it is malformed"

    return message
