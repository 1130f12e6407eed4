"""A Python function over the values of rows, called once for each that are distinct."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu.expressions.registry import Out

if TYPE_CHECKING:
    from altneu.expressions.expr import Call


class RowFailure(Exception):  # noqa: N818 -- it becomes an error row
    """Values of which a function has no result: Spark's class of error, and what is said of the row."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code, self.message = code, message


def python(array: pa.Array) -> list[Any]:
    """Values as Python has them; moments and spans are whole numbers, since Python's own end at the year 9999."""
    kind = array.type
    if pt.is_date(kind):
        return array.cast(pa.int32()).to_pylist()
    if pt.is_timestamp(kind) or pt.is_duration(kind) or pt.is_time(kind):
        return array.cast(pa.int64()).to_pylist()
    return array.to_pylist()


def each(
    call: Call, function: Callable[..., Any], *columns: pa.Array, strict: bool = True, type_: pa.DataType | None = None
) -> Out:
    """The function's result for the values of every row; None is null.

    A row with a null is null if ``strict``, without a call. The function may raise a ``RowFailure``.

    Shape:  ``columns`` have n values each, the result n of ``type_``, by default the call's.
    Cost:   a call of the function for each distinct combination of values.
    """
    known: dict[Any, Any] = {}
    results: list[Any] = []
    failed: dict[str, dict[int, str]] = {}
    for row, values in enumerate(zip(*map(python, columns), strict=True)):
        result = None
        if not (strict and None in values):
            try:
                result = known[values]
            except KeyError:
                result = known[values] = _result(function, values)
            except TypeError:  # lists and the like have no hash
                result = _result(function, values)
            if isinstance(result, RowFailure):
                failed.setdefault(result.code, {})[row] = result.message
                result = None
        results.append(result)
    array = pa.array(results, call.type if type_ is None else type_)
    return Out(array, [_failure(code, rows, len(results)) for code, rows in failed.items()])


def _result(function: Callable[..., Any], values: tuple[Any, ...]) -> Any:
    try:
        return function(*values)
    except RowFailure as error:
        return error


def _failure(code: str, rows: dict[int, str], count: int) -> tuple[Any, str, Callable[[int], str]]:
    mask = np.zeros(count, np.bool_)
    mask[list(rows)] = True
    return mask, code, rows.__getitem__
