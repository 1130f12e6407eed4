"""Decimal arithmetic on unscaled integers, exact at 38 digits, rounded half up as Spark does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.expressions.registry import Out
from altneu.expressions.vector import Mask, Values, dtype_of

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

_INT64_DIGITS = 18


def fit(values: Values, data_type: pa.DataType) -> tuple[Values, Mask]:
    """Values in a decimal type's own NumPy type, and where they have more digits than it."""
    limit = 10**data_type.precision
    if values.dtype.kind != "O" and data_type.precision > _INT64_DIGITS:
        return values.astype(object), np.zeros(len(values), np.bool_)
    far = np.asarray((values >= limit) | (values <= -limit), np.bool_)
    dtype = dtype_of(data_type)
    if values.dtype.kind == "O" and dtype.kind != "O":
        values = np.where(far, 0, values).astype(np.int64) if len(values) else values.astype(np.int64)
    return values, far


def rescale(values: Values, source: int, target: int, digits: int = 38) -> Values:
    """Unscaled values at another scale, rounded half up; ``digits`` bounds the digits of the values."""
    if target == source:
        return values
    if target > source:
        if digits + target - source > _INT64_DIGITS:
            values = values.astype(object)
        return values * 10 ** (target - source)
    return divide_half_up(values, 10 ** (source - target))


def divide_half_up(values: Values, divisor: Any) -> Values:
    """Quotient rounded half away from zero; ``divisor`` is an int or an array without zeros."""
    if isinstance(divisor, int) and (divisor >= 2**62 or values.dtype == object):
        values = values.astype(object)
    magnitude = abs(values)
    size = abs(divisor)
    quotient, rest = magnitude // size, magnitude % size
    quotient = quotient + (rest >= size - rest)
    negative = np.asarray((values < 0) != (divisor < 0), np.bool_)
    return np.where(negative, -quotient, quotient)


def _checked(call: Call, values: Values) -> Any:
    values, far = fit(values, call.type)
    if not far.any():
        return values
    return Out(
        values,
        (
            (
                far,
                "NUMERIC_VALUE_OUT_OF_RANGE",
                lambda _: f"the result of `{call.text}` does not fit {T.type_name(call.type)}",
            ),
        ),
    )


def _aligned(call: Call, a: Values, b: Values) -> tuple[Values, Values, int]:
    """Both operands at the greater scale, wide enough for a sum."""
    left, right = call.args[0].type, call.args[1].type
    scale = max(left.scale, right.scale)
    digits = max(left.precision - left.scale, right.precision - right.scale) + scale + 1
    if digits > _INT64_DIGITS:
        a, b = a.astype(object), b.astype(object)
    return rescale(a, left.scale, scale, left.precision), rescale(b, right.scale, scale, right.precision), scale


def add(call: Call, a: Values, b: Values) -> Any:
    """Sum at the result's scale."""
    a, b, scale = _aligned(call, a, b)
    return _checked(call, rescale(a + b, scale, call.type.scale))


def subtract(call: Call, a: Values, b: Values) -> Any:
    """Difference at the result's scale."""
    a, b, scale = _aligned(call, a, b)
    return _checked(call, rescale(a - b, scale, call.type.scale))


def multiply(call: Call, a: Values, b: Values) -> Any:
    """Product at the result's scale."""
    left, right = call.args[0].type, call.args[1].type
    if left.precision + right.precision > _INT64_DIGITS:
        a, b = a.astype(object), b.astype(object)
    return _checked(call, rescale(a * b, left.scale + right.scale, call.type.scale))


def divide(call: Call, a: Values, b: Values) -> Any:
    """Quotient at the result's scale, rounded half up; ``b`` has no zeros."""
    left, right = call.args[0].type, call.args[1].type
    shift = call.type.scale + right.scale - left.scale
    numerator = a.astype(object) * 10 ** max(shift, 0)
    denominator = b.astype(object) * 10 ** max(-shift, 0)
    return _checked(call, divide_half_up(numerator, denominator))


def whole_divide(call: Call, a: Values, b: Values) -> tuple[Values, Mask]:
    """Quotient rounded towards zero as int64, and where it does not fit."""
    left, right = call.args[0].type, call.args[1].type
    scale = max(left.scale, right.scale)
    numerator = a.astype(object) * 10 ** (scale - left.scale)
    denominator = b.astype(object) * 10 ** (scale - right.scale)
    quotient = abs(numerator) // abs(denominator)
    quotient = np.where(np.asarray((numerator < 0) != (denominator < 0), np.bool_), -quotient, quotient)
    far = np.asarray((quotient >= 2**63) | (quotient < -(2**63)), np.bool_)
    return np.where(far, 0, quotient).astype(np.int64), far


def remainder(call: Call, a: Values, b: Values) -> Values:
    """Remainder with the sign of the dividend; ``b`` has no zeros."""
    a, b, scale = _aligned(call, a, b)
    rest = abs(a) % abs(b)
    rest = np.where(np.asarray(a < 0, np.bool_), -rest, rest)
    return fit(rescale(rest, scale, call.type.scale), call.type)[0]


def pmod(call: Call, a: Values, b: Values) -> Any:
    """Remainder, moved up by the divisor where it is negative."""
    a, b, scale = _aligned(call, a, b)
    rest = abs(a) % abs(b)
    negative = np.asarray((a < 0) & (rest != 0), np.bool_)
    rest = np.where(negative, -rest, rest)
    moved = rest + b
    again = abs(moved) % abs(b)
    again = np.where(np.asarray(moved < 0, np.bool_), -again, again)
    return _checked(call, rescale(np.where(negative, again, rest), scale, call.type.scale))
