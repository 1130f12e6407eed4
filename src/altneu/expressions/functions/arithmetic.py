"""Arithmetic with every overflow seen: ``+ - * / div %``, signs and bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import decimals
from altneu.expressions.coercion import INTEGRAL, arithmetic_type, common_type, describe, is_decimal
from altneu.expressions.registry import Out, Typing, register
from altneu.expressions.rules import expect_count, numeric
from altneu.expressions.vector import Mask, Values

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr

GROUP = "Arithmetic"
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


def _binary_rule(symbol: str) -> Callable[[Sequence[Expr]], Typing]:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(symbol, args, 2)
        left, right, result = arithmetic_type(symbol, args[0], args[1])
        return Typing((left, right), result)

    return rule


def _may_overflow(call: Call) -> bool:
    return call.type in INTEGRAL or is_decimal(call.type)


def _plus(call: Call, a: Values, b: Values) -> Any:
    if a.dtype.kind == "f":
        return a + b
    if is_decimal(call.type):
        return decimals.add(call, a, b)
    result = a + b
    return overflow(call, result, ((a ^ result) & (b ^ result)) < 0)


def _minus(call: Call, a: Values, b: Values) -> Any:
    if a.dtype.kind == "f":
        return a - b
    if is_decimal(call.type):
        return decimals.subtract(call, a, b)
    result = a - b
    return overflow(call, result, ((a ^ b) & (a ^ result)) < 0)


def _times(call: Call, a: Values, b: Values) -> Any:
    if a.dtype.kind == "f":
        return a * b
    if is_decimal(call.type):
        return decimals.multiply(call, a, b)
    if call.type == T.LONG:
        return _times_long(call, a, b)
    wide = a.astype(np.int64) * b
    result = wide.astype(a.dtype)
    return overflow(call, result, result != wide)


def _times_long(call: Call, a: Values, b: Values) -> Any:
    result = a * b
    # A product that left int64 differs from the double product by a multiple of 2^64, far above the double's own error
    far = np.abs(a.astype(np.float64) * b - result.astype(np.float64)) > 2.0**62
    return overflow(call, result, far)


def _divide(call: Call, a: Values, b: Values) -> Any:
    zero = b == 0
    if is_decimal(call.type):
        result = decimals.divide(call, a, np.where(zero, 1, b))
        if type(result) is Out:
            return by_zero(call, result.values, zero, [(m & ~zero, c, t) for m, c, t in result.failures])
        return by_zero(call, result, zero) if zero.any() else result
    if zero.any():
        return by_zero(call, a / np.where(zero, 1.0, b), zero)
    return a / b


def _whole_divide(call: Call, a: Values, b: Values) -> Any:
    zero = b == 0
    safe = np.where(zero, 1, b) if zero.any() else b
    if is_decimal(call.args[0].type):
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
        return a - truncated(a, b) * b  # a division by one number for all rows is many times faster than NumPy's fmod
    return np.where(minus, 0, np.fmod(a, np.where(minus, 1, b)))


def _modulo(call: Call, a: Values, b: Values) -> Any:
    zero = b == 0
    any_zero = zero.any()
    if any_zero:
        b = np.where(zero, np.ones(1, b.dtype), b)
    result = decimals.remainder(call, a, b) if is_decimal(call.type) else remainder(a, b).astype(a.dtype, copy=False)
    if any_zero:
        return Out(result, ((zero, "REMAINDER_BY_ZERO", lambda _: f"Remainder by zero in `{call.text}`"),))
    return result


def _numeric_or_interval(symbol: str) -> Callable[[Sequence[Expr]], Typing]:
    return _binary_rule(symbol)


def _pmod(call: Call, a: Values, b: Values) -> Any:
    zero = b == 0
    if zero.any():
        b = np.where(zero, np.ones(1, b.dtype), b)
    if is_decimal(call.type):
        out = decimals.pmod(call, a, b)
        result, others = (out.values, out.failures) if type(out) is Out else (out, ())
    else:
        first = remainder(a, b)
        result, others = np.where(first < 0, remainder(first + b, b), first).astype(a.dtype, copy=False), ()
    return Out(result, ((zero, "REMAINDER_BY_ZERO", lambda _: f"Remainder by zero in `{call.text}`"), *others))


def _nulls_for_failures(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def tolerant(call: Call, *arguments: Values) -> Any:
        out = kernel(call, *arguments)
        if type(out) is not Out:
            return out
        null = out.failures[0][0]
        for mask, _, _ in out.failures[1:]:
            null = null | mask
        return Out(out.values, (), null)

    return tolerant


def _null_possible(rule: Callable[[Sequence[Expr]], Typing]) -> Callable[[Sequence[Expr]], Typing]:
    def nullable(args: Sequence[Expr]) -> Typing:
        return rule(args)._replace(nullable=True)

    return nullable


def _register_binary() -> None:
    rows: tuple[tuple[str, str, Any, Any, str], ...] = (
        ("+", "add", _plus, _may_overflow, "Sum. Overflow of a whole number or decimal is an error."),
        ("-", "subtract", _minus, _may_overflow, "Difference."),
        ("*", "multiply", _times, _may_overflow, "Product."),
        (
            "/",
            "divide",
            _divide,
            True,
            "Quotient: a double, or a decimal of decimals. Division by zero is an error, of doubles too.",
        ),
        ("%", "mod", _modulo, True, "Remainder, with the sign of the dividend; by zero it is an error."),
    )
    for symbol, word, kernel, fails, doc in rows:
        rule = _numeric_or_interval(symbol)
        aliases = ("mod",) if symbol == "%" else ()
        last = symbol in "/%"
        register(
            symbol,
            *aliases,
            rule=rule,
            style="numpy",
            group=GROUP,
            usage=f"a {symbol} b",
            doc=doc,
            fails=fails,
            infix=True,
            right_first=last,
        )(kernel)
        register(
            f"try_{word}",
            rule=_null_possible(rule),
            style="numpy",
            group=GROUP,
            usage=f"try_{word}(a, b)",
            doc=f"`a {symbol} b`, NULL where that is an error.",
            right_first=last,
        )(_nulls_for_failures(kernel))


_register_binary()
register(
    "div",
    rule=_binary_rule("div"),
    style="numpy",
    group=GROUP,
    usage="a div b",
    doc="Quotient rounded towards zero, a bigint.",
    fails=True,
    infix=True,
    right_first=True,
)(_whole_divide)
register(
    "pmod",
    rule=_binary_rule("%"),
    style="numpy",
    group=GROUP,
    usage="pmod(a, b)",
    doc="Remainder that is never negative for positive b.",
    fails=True,
    right_first=True,
)(_pmod)


def _signed_rule(name: str) -> Callable[[Sequence[Expr]], Typing]:
    of_number = numeric(name)

    def rule(args: Sequence[Expr]) -> Typing:
        if len(args) == 1 and args[0].type in (T.DAY_TIME, T.YEAR_MONTH):
            return Typing([None], args[0].type)
        return of_number(args)

    return rule


@register(
    "negative",
    rule=_signed_rule("-"),
    style="numpy",
    group=GROUP,
    usage="-a",
    doc="The negative.",
    fails=lambda call: call.type in INTEGRAL,
    infix=True,
)
def negative(call: Call, a: Values) -> Any:
    """Negate; the least whole number has no negative."""
    if a.dtype.kind == "f":
        return 0.0 - a  # never -0.0
    if is_decimal(call.type):
        return -a
    return overflow(call, -a, a == np.iinfo(a.dtype).min)


@register("positive", rule=_signed_rule("+"), style="numpy", group=GROUP, usage="+a", doc="The number itself.")
def positive(call: Call, a: Values) -> Values:
    """Return the number."""
    return a


@register(
    "abs",
    rule=_signed_rule("abs"),
    style="numpy",
    group=GROUP,
    usage="abs(a)",
    doc="Absolute value.",
    fails=lambda call: call.type in INTEGRAL,
)
def absolute(call: Call, a: Values) -> Any:
    """Absolute value; the least whole number has none."""
    if a.dtype.kind == "i" and not is_decimal(call.type):
        return overflow(call, np.abs(a), a == np.iinfo(a.dtype).min)
    return abs(a)


def _bits_rule(symbol: str) -> Callable[[Sequence[Expr]], Typing]:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(symbol, args, 1 if symbol == "~" else 2)
        found = common_type((a.type for a in args), f"`{symbol}`")
        found = T.INT if found == T.NULL else found
        if found not in INTEGRAL:
            raise TypeMismatchError(f"`{symbol}` takes whole numbers, not {T.type_name(found)}; cast it")
        return Typing([found] * len(args), found)

    return rule


@register("&", rule=_bits_rule("&"), style="numpy", group="Bits", usage="a & b", doc="Bits set in both.", infix=True)
def bit_and(call: Call, a: Values, b: Values) -> Values:
    """Bits set in both."""
    return a & b


@register("|", rule=_bits_rule("|"), style="numpy", group="Bits", usage="a | b", doc="Bits set in either.", infix=True)
def bit_or(call: Call, a: Values, b: Values) -> Values:
    """Bits set in either."""
    return a | b


@register(
    "^", rule=_bits_rule("^"), style="numpy", group="Bits", usage="a ^ b", doc="Bits set in one of the two.", infix=True
)
def bit_xor(call: Call, a: Values, b: Values) -> Values:
    """Bits set in one of the two."""
    return a ^ b


@register("~", rule=_bits_rule("~"), style="numpy", group="Bits", usage="~a", doc="Every bit turned.", infix=True)
def bit_not(call: Call, a: Values) -> Values:
    """Every bit turned."""
    return ~a


def _shift_rule(args: Sequence[Expr]) -> Typing:
    expect_count("a shift", args, 2)
    kind = {T.BYTE: T.INT, T.SHORT: T.INT, T.NULL: T.INT}.get(args[0].type, args[0].type)
    if kind not in (T.INT, T.LONG) or args[1].type not in (*INTEGRAL[:3], T.NULL):
        raise TypeMismatchError(f"a shift takes an int or bigint and an int, not {describe(a.type for a in args)}")
    return Typing((kind, T.INT), kind)


def _distance(a: Values, b: Values) -> Values:
    return b.astype(a.dtype) & (a.dtype.itemsize * 8 - 1)


@register(
    "<<", "shiftleft", rule=_shift_rule, style="numpy", group="Bits", usage="a << n", doc="Bits moved left.", infix=True
)
def shift_left(call: Call, a: Values, b: Values) -> Values:
    """Bits moved left."""
    return a << _distance(a, b)


@register(
    ">>",
    "shiftright",
    rule=_shift_rule,
    style="numpy",
    group="Bits",
    usage="a >> n",
    doc="Bits moved right, the sign kept.",
    infix=True,
)
def shift_right(call: Call, a: Values, b: Values) -> Values:
    """Bits moved right, the sign kept."""
    return a >> _distance(a, b)


@register(
    ">>>",
    "shiftrightunsigned",
    rule=_shift_rule,
    style="numpy",
    group="Bits",
    usage="a >>> n",
    doc="Bits moved right, zeros moved in.",
    infix=True,
)
def shift_right_unsigned(call: Call, a: Values, b: Values) -> Values:
    """Bits moved right, zeros moved in."""
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return (a.view(unsigned) >> _distance(a, b).astype(unsigned)).view(a.dtype)


@register(
    "bit_count",
    rule=numeric("bit_count", T.INT),
    style="numpy",
    group="Bits",
    usage="bit_count(a)",
    doc="Number of bits set (of a bigint's 64).",
)
def bit_count(call: Call, a: Values) -> Values:
    """Number of bits set."""
    return np.bitwise_count(a.astype(np.int64).view(np.uint64)).astype(np.int32)


def unscaled_limit(data_type: pa.DataType) -> int:
    """The first unscaled value beyond a decimal's precision."""
    return int(10**data_type.precision)
