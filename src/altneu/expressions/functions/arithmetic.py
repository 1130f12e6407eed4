"""Arithmetic with every overflow seen: ``+ - * / div %`` and signs.

Whole numbers are looked at row by row only where their bounds leave room for a failure.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from altneu import types as T
from altneu.expressions import decimals
from altneu.expressions.coercion import INTEGRAL, arithmetic_type, is_decimal
from altneu.expressions.registry import Group, Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Bounded, Bounds, Mask, Values

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("Arithmetic")
Kernel = Callable[["Call", Bounded, Bounded], Any]
OVERFLOW, BINARY_OVERFLOW = "ARITHMETIC_OVERFLOW", "BINARY_ARITHMETIC_OVERFLOW"
OUT_OF_RANGE, DIVIDE_BY_ZERO = "NUMERIC_VALUE_OUT_OF_RANGE", "DIVIDE_BY_ZERO"
_NAMES = {T.BYTE: "tinyint", T.SHORT: "smallint", T.INT: "integer", T.LONG: "long"}
_TRIES = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}


def overflow(call: Call, values: Values, mask: Mask) -> Any:
    """The values, with an overflow error where ``mask`` is true."""
    if not mask.any():
        return values
    if is_decimal(call.type):
        return Out(
            values,
            ((mask, OUT_OF_RANGE, lambda _: f"the result of `{call.text}` does not fit {T.type_name(call.type)}"),),
        )
    code = BINARY_OVERFLOW if call.type in (T.BYTE, T.SHORT) and call.name in _TRIES else OVERFLOW
    hint = _TRIES.get(call.name)
    tail = f"; {hint} gives NULL instead" if hint else ""
    kind = _NAMES.get(call.type, T.type_name(call.type))
    return Out(values, ((mask, code, lambda _: f"{kind} overflow in `{call.text}`{tail}"),))


def by_zero(call: Call, values: Values, zero: Mask, also: Sequence[Any] = ()) -> Out:
    """The values, with a division by zero where ``zero`` is true."""
    return Out(values, ((zero, DIVIDE_BY_ZERO, lambda _: f"Division by zero in `{call.text}`"), *also))


def _binary_rule(args: Arguments) -> Typing:
    left, right, result = arithmetic_type(args.name, args[0], args[1])
    return Typing((left, right), result)


def _is_whole(call: Call) -> bool:
    return call.type in INTEGRAL


def may_overflow(call: Call) -> bool:
    """Whether the type of a call has an end that a row could pass: whole numbers and decimals."""
    return _is_whole(call) or is_decimal(call.type)


def _bounds(operation: Callable[[int, int], int], a: Bounded, b: Bounded) -> Bounds | None:
    """Bounds of ``+``, ``-`` or ``*`` of whole numbers, which are extreme where both arguments are.

    None when they leave the type, so that some row may overflow: then each has to be looked at.
    """
    corners = [operation(x, y) for x in a.bounds for y in b.bounds]
    least, greatest = min(corners), max(corners)
    limit = 1 << (8 * a.values.itemsize - 1)
    return (least, greatest) if -limit <= least and greatest < limit else None


def _plus(call: Call, a: Bounded, b: Bounded) -> Any:
    x, y = a.values, b.values
    if x.dtype.kind == "f":
        return x + y
    if is_decimal(call.type):
        return decimals.add(call, x, y)
    result = x + y
    if bounds := _bounds(operator.add, a, b):
        return Out(result, bounds=bounds)
    return overflow(call, result, ((x ^ result) & (y ^ result)) < 0)


def _minus(call: Call, a: Bounded, b: Bounded) -> Any:
    x, y = a.values, b.values
    if x.dtype.kind == "f":
        return x - y
    if is_decimal(call.type):
        return decimals.subtract(call, x, y)
    result = x - y
    if bounds := _bounds(operator.sub, a, b):
        return Out(result, bounds=bounds)
    return overflow(call, result, ((x ^ y) & (x ^ result)) < 0)


def _times(call: Call, a: Bounded, b: Bounded) -> Any:
    x, y = a.values, b.values
    if x.dtype.kind == "f":
        return x * y
    if is_decimal(call.type):
        return decimals.multiply(call, x, y)
    if bounds := _bounds(operator.mul, a, b):
        return Out(x * y, bounds=bounds)
    if call.type == T.LONG:
        return _times_long(call, x, y)
    wide = x.astype(np.int64) * y
    result = wide.astype(x.dtype)
    return overflow(call, result, result != wide)


def _times_long(call: Call, a: Values, b: Values) -> Any:
    result = a * b
    # A product that left int64 differs from the double product by a multiple of 2^64, far above the double's own error
    far = np.abs(a.astype(np.float64) * b - result.astype(np.float64)) > 2.0**62
    return overflow(call, result, far)


def _divide(call: Call, dividend: Bounded, divisor: Bounded) -> Any:
    a, b = dividend.values, divisor.values
    zero = b == 0
    if is_decimal(call.type):
        result = decimals.divide(call, a, np.where(zero, 1, b))
        if type(result) is Out:
            return by_zero(call, result.values, zero, [(m & ~zero, c, t) for m, c, t in result.failures])
        return by_zero(call, result, zero) if zero.any() else result
    if zero.any():
        return by_zero(call, a / np.where(zero, 1.0, b), zero)
    return a / b


def _quotient(dividend: Bounded, divisor: Bounded) -> Values:
    """Quotient of whole numbers rounded towards zero; every divisor is above zero, so no row can fail."""
    a, b = dividend.values, divisor.values
    if dividend.bounds[0] >= 0:
        return a // b
    raised = a >> (8 * a.itemsize - 1)  # -1 where negative: what is rounded down has the divisor less one added there
    raised = raised & (b - 1)
    raised += a
    return np.floor_divide(raised, b, out=raised)


def _whole_divide(call: Call, dividend: Bounded, divisor: Bounded) -> Any:
    a, b = dividend.values, divisor.values
    decimal = is_decimal(call.args[0].type)
    if not decimal and divisor.bounds[0] > 0:
        least, greatest = (limit // divisor.bounds[0] for limit in dividend.bounds)
        return Out(_quotient(dividend, divisor), bounds=(min(least, 0), max(greatest, 0)))
    zero = b == 0
    safe = np.where(zero, 1, b) if zero.any() else b
    if decimal:
        result, far = decimals.whole_divide(call, a, safe)
    else:
        if not (safe == -1).any():  # only -1 overflows
            result = truncated(a, safe)
            return by_zero(call, result, zero) if zero.any() else result
        far = (a == np.iinfo(np.int64).min) & (safe == -1)
        result = truncated(a, np.where(far, 1, safe))
    out = overflow(call, result, far & ~zero)
    if zero.any():
        return by_zero(call, result, zero, out.failures if type(out) is Out else ())
    return out


def truncated(a: Values, b: Values) -> Values:
    """Quotient of whole numbers rounded towards zero (``b`` has no zeros)."""
    quotient = a // b
    negative = quotient < 0
    return quotient + (negative & (quotient * b != a)) if negative.any() else quotient


def remainder(a: Values, b: Values) -> Values:
    """Remainder with the sign of the dividend (``b`` has no zeros)."""
    if a.dtype.kind == "f":
        return np.fmod(a, b)
    if a.dtype == object:
        rest = abs(a) % abs(b)
        return np.where(a < 0, -rest, rest)
    minus = b == -1
    if not minus.any():
        return _without(truncated(a, b), a, b)
    return np.where(minus, 0, np.fmod(a, np.where(minus, 1, b)))


def _without(quotient: Values, a: Values, b: Values) -> Values:
    """``a - quotient * b`` in the quotient's place; NumPy's ``//`` by one number is many times faster than ``%``."""
    quotient *= b
    return np.subtract(a, quotient, out=quotient)


def _modulo(call: Call, dividend: Bounded, divisor: Bounded) -> Any:
    a, b = dividend.values, divisor.values
    if _is_whole(call) and divisor.bounds[0] > 0:
        most = divisor.bounds[1] - 1
        return Out(_without(_quotient(dividend, divisor), a, b), bounds=(-most if dividend.bounds[0] < 0 else 0, most))
    zero = b == 0
    any_zero = zero.any()
    if any_zero:
        b = np.where(zero, np.ones(1, b.dtype), b)
    result = decimals.remainder(call, a, b) if is_decimal(call.type) else remainder(a, b).astype(a.dtype, copy=False)
    if any_zero:
        return Out(result, ((zero, "REMAINDER_BY_ZERO", lambda _: f"Remainder by zero in `{call.text}`"),))
    return result


def _pmod(call: Call, dividend: Bounded, divisor: Bounded) -> Any:
    """Remainder that is never negative if b is positive."""
    a, b = dividend.values, divisor.values
    if _is_whole(call) and divisor.bounds[0] > 0:
        return Out(_without(a // b, a, b), bounds=(0, divisor.bounds[1] - 1))  # what is left when rounded down
    zero = b == 0
    if zero.any():
        b = np.where(zero, np.ones(1, b.dtype), b)
    if is_decimal(call.type):
        out = decimals.pmod(call, a, b)
        result, others = (out.values, out.failures) if type(out) is Out else (out, ())
    else:
        result, others = remainder(a, b), ()
        negative = result < 0
        if negative.any():
            kind = np.promote_types(a.dtype, np.int32) if a.dtype.kind == "i" else a.dtype  # bytes and shorts as ints
            raised = result.astype(kind) + b
            result = np.where(negative, remainder(raised, b), result)
        result = result.astype(a.dtype, copy=False)
    return Out(result, ((zero, "REMAINDER_BY_ZERO", lambda _: f"Remainder by zero in `{call.text}`"), *others))


def _nulls_for_failures(kernel: Kernel) -> Kernel:
    def tolerant(call: Call, dividend: Bounded, divisor: Bounded) -> Any:
        out = kernel(call, dividend, divisor)
        if type(out) is not Out or not out.failures:
            return out
        null = out.failures[0][0]
        for mask, _, _ in out.failures[1:]:
            null = null | mask
        return Out(out.values, (), null)

    return tolerant


def _null_possible(args: Arguments) -> Typing:
    return _binary_rule(args)._replace(nullable=True)


def _register(usage: str, kernel: Kernel, doc: str, *aliases: str, fails: bool | Callable[[Call], bool] = True) -> None:
    """An operator, and the function that gives NULL where it fails."""
    symbol, last = usage.split(" ")[1], kernel not in (_plus, _minus, _times)
    scalar(
        f"{symbol}(a, b)",
        *aliases,
        rule=_binary_rule,
        usage=usage,
        doc=doc,
        fails=fails,
        infix=True,
        right_first=last,
    )(kernel)
    if symbol in _TRIES:
        scalar(
            f"{_TRIES[symbol]}(a, b)",
            rule=_null_possible,
            message_name=symbol,
            doc=f"`{usage}`, NULL if that is an error.",
            right_first=last,
        )(_nulls_for_failures(kernel))


_register("a + b", _plus, "Sum. Overflow of a whole number or decimal is an error.", fails=may_overflow)
_register("a - b", _minus, "Difference.", fails=may_overflow)
_register("a * b", _times, "Product.", fails=may_overflow)
_register(
    "a / b", _divide, "Quotient: a decimal for decimals, else a double. Division by zero is an error, for doubles too."
)
_register("a % b", _modulo, "Remainder, with the sign of the dividend; division by zero is an error.", "mod")
_register("a div b", _whole_divide, "Quotient rounded towards zero, as a bigint.")
scalar("pmod(a, b)", rule=_binary_rule, message_name="%", fails=True, right_first=True)(_pmod)


def _signed_rule(args: Arguments) -> Typing:
    interval = args[0].type in (T.DAY_TIME, T.YEAR_MONTH)
    result = args[0].type if interval else args.number()
    return Typing([None if interval else result], result)


@scalar(
    "negative(a)", rule=_signed_rule, message_name="-", usage="-a", fails=lambda call: call.type in INTEGRAL, infix=True
)
def negative(call: Call, a: Values) -> Any:
    """The negated number."""
    if a.dtype.kind == "f":
        return 0.0 - a  # never -0.0
    if is_decimal(call.type):
        return -a
    return overflow(call, -a, a == np.iinfo(a.dtype).min)


@scalar("positive(a)", rule=_signed_rule, message_name="+", usage="+a")
def positive(a: Values) -> Values:
    """The number itself."""
    return a


@scalar("abs(a)", rule=_signed_rule, fails=lambda call: call.type in INTEGRAL)
def absolute(call: Call, a: Values) -> Any:
    """Absolute value."""
    if a.dtype.kind == "i" and not is_decimal(call.type):
        return overflow(call, np.abs(a), a == np.iinfo(a.dtype).min)
    return abs(a)
