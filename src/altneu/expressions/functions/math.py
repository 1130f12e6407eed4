"""Mathematical functions, on doubles unless they say otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import decimals
from altneu.expressions.casts import saturated
from altneu.expressions.coercion import INTEGRAL, is_decimal, is_numeric
from altneu.expressions.functions.arithmetic import may_overflow, overflow
from altneu.expressions.registry import Group, Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Values, dtype_of

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("Mathematics")


def _cot(x: Values) -> Values:
    return 1.0 / np.tan(x)


def _acosh(x: Values) -> Values:
    return np.where(x < 1, np.nan, np.arccosh(np.maximum(x, 1.0)))


def _signed(x: Values) -> Values:
    return np.sign(x)


_ONE: tuple[tuple[str, tuple[str, ...], Callable[[Values], Values], str], ...] = (
    ("sqrt", (), np.sqrt, "Square root; NaN if x is negative."),
    ("cbrt", (), np.cbrt, "Cube root."),
    ("exp", (), np.exp, "e to the power x."),
    ("expm1", (), np.expm1, "exp(x) - 1, exact near zero."),
    ("sin", (), np.sin, "Sine."),
    ("cos", (), np.cos, "Cosine."),
    ("tan", (), np.tan, "Tangent."),
    ("cot", (), _cot, "Cotangent."),
    ("sec", (), lambda x: 1.0 / np.cos(x), "Secant."),
    ("csc", (), lambda x: 1.0 / np.sin(x), "Cosecant."),
    ("asin", (), np.arcsin, "Arc sine."),
    ("acos", (), np.arccos, "Arc cosine."),
    ("atan", (), np.arctan, "Arc tangent."),
    ("sinh", (), np.sinh, "Hyperbolic sine."),
    ("cosh", (), np.cosh, "Hyperbolic cosine."),
    ("tanh", (), np.tanh, "Hyperbolic tangent."),
    ("asinh", (), np.arcsinh, "Inverse hyperbolic sine."),
    ("acosh", (), _acosh, "Inverse hyperbolic cosine."),
    ("atanh", (), np.arctanh, "Inverse hyperbolic tangent."),
    ("degrees", (), lambda x: x * (180.0 / math.pi), "Radians as degrees."),
    ("radians", (), lambda x: x / 180.0 * math.pi, "Degrees as radians."),
    ("rint", (), np.rint, "The nearest whole number, ties to even, as a double."),
    ("signum", ("sign",), _signed, "-1.0, 0.0 or 1.0."),
)


def _plain(function: Callable[[Values], Values]) -> Callable[[Values], Values]:
    def kernel(x: Values) -> Values:
        return function(x) + 0.0  # -0.0 becomes 0.0

    return kernel


for _name, _aliases, _function, _doc in _ONE:
    scalar(f"{_name}(x double) -> double", *_aliases, doc=_doc)(_plain(_function))


def _logarithm(function: Callable[[Values], Values], least: float) -> Callable[[Values], Any]:
    def kernel(x: Values) -> Any:
        below = x <= least
        return Out(function(np.where(below, 1.0, x)) + 0.0, (), below) if below.any() else function(x) + 0.0

    return kernel


for _name, _function, _least, _doc in (
    ("ln", np.log, 0.0, "Natural logarithm; NULL at zero and below."),
    ("log10", np.log10, 0.0, "Logarithm to base 10; NULL at zero and below."),
    ("log2", np.log2, 0.0, "Logarithm to base 2; NULL at zero and below."),
    ("log1p", np.log1p, -1.0, "ln(1 + x), exact near zero; NULL at -1 and below."),
):
    scalar(f"{_name}(x double) -> double?", doc=_doc)(_logarithm(_function, _least))


@scalar("log(base double[, x double]) -> double?", usage="log([base, ]x)")
def log(base: Values, x: Values | None = None) -> Any:
    """Logarithm, to base e if none is given; NULL at zero and below."""
    if x is None:
        return _logarithm(np.log, 0.0)(base)
    below = (base <= 0) | (x <= 0)
    return Out(np.log(np.where(below, 1.0, x)) / np.log(np.where(below, 2.0, base)) + 0.0, (), below)


@scalar("pow(x double, y double) -> double", "power", doc="x to the power y.")
def power(x: Values, y: Values) -> Values:
    """As Java has it: a base of one to NaN or an infinity is NaN."""
    result = np.power(x, y)
    odd = (np.abs(x) == 1) & ~np.isfinite(y)
    return np.where(odd, np.nan, result) + 0.0


@scalar("atan2(y double, x double) -> double")
def atan2(y: Values, x: Values) -> Values:
    """Angle of the point (x, y)."""
    return np.arctan2(y + 0.0, x + 0.0) + 0.0


@scalar("hypot(x double, y double) -> double")
def hypot(x: Values, y: Values) -> Values:
    """Square root of x² + y²."""
    return np.hypot(x, y)


@scalar("pi() -> double!")
def pi() -> Values:
    """3.141592653589793."""
    return np.full(1, math.pi)


@scalar("e() -> double!")
def e() -> Values:
    """2.718281828459045."""
    return np.full(1, math.e)


@scalar("factorial(n int) -> bigint?")
def factorial(n: Values) -> Out:
    """n!; NULL if n is not between 0 and 20."""
    table = np.array([math.factorial(i) for i in range(21)], np.int64)
    out = (n < 0) | (n > 20)
    return Out(table[np.where(out, 0, n)], (), out)


def _ceil_rule(args: Arguments) -> Typing:
    if len(args) == 2:
        return _scaled_ceil(args)
    kind = args[0].type
    if is_decimal(kind):
        return Typing([kind], pa.decimal128(min(38, kind.precision - kind.scale + (kind.scale > 0)), 0))
    if kind in INTEGRAL:
        return Typing([T.LONG], T.LONG)
    args.number()
    return Typing([T.DOUBLE], T.LONG)


def _scaled_ceil(args: Arguments) -> Typing:
    scale = _scale_of(args)
    kind = args[0].type
    if not is_decimal(kind):
        digits = {T.BYTE: (3, 0), T.SHORT: (5, 0), T.INT: (10, 0), T.LONG: (20, 0), T.FLOAT: (14, 7)}.get(
            kind, (30, 15)
        )
        kind = pa.decimal128(*digits)
    whole = kind.precision - kind.scale + 1
    places = max(min(kind.scale, scale), 0)
    precision = max(whole, 1 - scale) if scale < 0 else whole + places
    return Typing([kind, T.INT], pa.decimal128(min(38, precision), places))


def _scale_of(args: Arguments) -> int:
    arg = args[1]
    value = getattr(arg, "value", None)
    if not arg.is_literal or not isinstance(value, int):
        raise TypeMismatchError(f"{args.name}: the number of digits (`{arg.text}`) must be a whole constant")
    return value


def _ceil_kernel(up: bool) -> Callable[..., Any]:
    def kernel(call: Call, x: Values, scale: Values | None = None) -> Any:
        kind = call.args[0].type
        if is_decimal(kind):
            return _decimal_ceil(call, x, kind.scale, int(scale[0]) if scale is not None else 0, up)
        if x.dtype.kind == "i":
            return x
        whole = np.ceil(x) if up else np.floor(x)
        return overflow(call, saturated(whole), (whole >= 2.0**63) | (whole < -(2.0**63)))

    return kernel


def _decimal_ceil(call: Call, x: Values, scale: int, wanted: int, up: bool) -> Any:
    drop = scale - wanted
    if drop > 0:
        unit = 10**drop
        wide = x.astype(object) if unit >= 2**62 or x.dtype == object else x
        x = -((-wide) // unit) if up else wide // unit
    else:
        wanted = scale
    if wanted < 0:
        x = x.astype(object) * 10**-wanted
        wanted = 0
    values, far = decimals.fit(decimals.rescale(x, wanted, call.type.scale), call.type)
    return overflow(call, values, far)


for _name, _aliases, _up, _doc in (
    ("ceil", ("ceiling",), True, "The least whole number (or multiple of 10^-digits) that is not below x."),
    ("floor", (), False, "The greatest whole number (or multiple of 10^-digits) that is not above x."),
):
    scalar(f"{_name}(x[, digits])", *_aliases, rule=_ceil_rule, doc=_doc, fails=True)(_ceil_kernel(_up))


def _round_rule(args: Arguments) -> Typing:
    scale = _scale_of(args) if len(args) == 2 else 0
    kind = args[0].type
    kind = T.DOUBLE if kind in (T.STRING, T.NULL) else kind
    if not is_numeric(kind):
        raise TypeMismatchError(f"{args.name} takes a number, not {T.type_name(kind)} (`{args[0].text}`)")
    result = kind
    if is_decimal(kind):
        whole = kind.precision - kind.scale + 1
        digits = max(min(kind.scale, scale), 0)
        result = pa.decimal128(min(38, max(whole, 1 - scale) if scale < 0 else whole + digits), digits)
    return Typing([kind, T.INT][: len(args)], result)


def _round_kernel(even: bool) -> Callable[..., Any]:
    def kernel(call: Call, x: Values, digits: Values | None = None) -> Any:
        scale = 0 if digits is None else int(digits[0])
        kind = call.args[0].type
        if is_decimal(kind):
            return _round_decimal(call, x, kind.scale, scale, even)
        if x.dtype.kind == "i":
            return x if scale >= 0 else _round_whole(call, x, -scale, even)
        if x.dtype == np.float32:
            return round_float32(x, scale, even)
        return round_double(x, scale, even)

    return kernel


def round_double(x: Values, scale: int, even: bool = False) -> Values:
    """Doubles rounded at a decimal digit, half away from zero (or to even), as if written out in decimal first.

    The tie between two neighbours is the double nearest to it, so one comparison decides; 2.675 is a tie although it
    lies below.

    >>> round_double(np.array([2.675, 2.665, -0.125, 1e300]), 2).tolist()
    [2.68, 2.67, -0.13, 1e+300]
    """
    if abs(scale) > 22:
        return x + 0.0 if scale > 0 else x * 0.0 + 0.0
    size, power = np.abs(x), 10.0 ** abs(scale)
    scaled = size * power if scale >= 0 else size / power
    small = scaled < 2.0**52
    below = np.floor(np.where(small, scaled, 0.0))
    tie = (2 * below + 1) / (2 * power) if scale >= 0 else (2 * below + 1) * power / 2
    up = size >= tie
    if even:
        up = up & ((size != tie) | (below % 2 == 1))
    whole = below + up
    nearest = whole / power if scale >= 0 else whole * power
    return np.where(small, np.copysign(nearest, x), x) + 0.0


def round_float32(x: Values, scale: int, even: bool) -> Values:
    """Floats rounded at a decimal digit: their own shortest decimal form decides ties."""
    import pyarrow.compute as pc

    finite = np.isfinite(x)
    shortest = pc.cast(pc.cast(pa.array(np.where(finite, x, np.float32(0))), T.STRING), T.DOUBLE).to_numpy()
    return np.where(finite, round_double(shortest, scale, even).astype(np.float32), x)


_MOST_DIGITS = 40  # more than a decimal has


def _round_decimal(call: Call, x: Values, scale: int, wanted: int, even: bool) -> Any:
    digits = max(min(scale, wanted), 0)
    wanted = max(wanted, -_MOST_DIGITS)  # where nothing is left of any decimal
    drop = scale - min(wanted, scale)
    if drop > 0:
        x = _divided(x, 10**drop, even)
        if wanted < 0:
            x = x.astype(object) * 10**-wanted
    values, far = decimals.fit(decimals.rescale(x, digits, call.type.scale), call.type)
    return overflow(call, values, far)


def _divided(x: Values, unit: int, even: bool) -> Values:
    if unit >= 2**62 or x.dtype == object:
        x = x.astype(object)
    if not even:
        return decimals.divide_half_up(x, unit)
    size = abs(x)
    quotient, rest = size // unit, size % unit
    quotient = quotient + np.asarray((rest > unit - rest) | ((rest == unit - rest) & (quotient % 2 == 1)), np.bool_)
    return np.where(np.asarray(x < 0, np.bool_), -quotient, quotient)


def _round_whole(call: Call, x: Values, drop: int, even: bool) -> Any:
    limits = np.iinfo(dtype_of(call.type))
    unit = 10 ** min(drop, len(str(limits.max)) + 1)  # more than twice any of them, so that all are nothing of it
    exact = _divided(x.astype(object), unit, even) * unit
    far = np.asarray((exact > limits.max) | (exact < limits.min), np.bool_)
    return overflow(call, np.where(far, 0, exact).astype(x.dtype), far)


for _name, _even, _doc in (
    ("round", False, "The number rounded to this many digits (default 0), ties away from zero."),
    ("bround", True, "The number rounded to this many digits (default 0), ties to even."),
):
    scalar(f"{_name}(x[, digits])", rule=_round_rule, doc=_doc, fails=may_overflow)(_round_kernel(_even))


@scalar("width_bucket(x double, low double, high double, n bigint) -> bigint?")
def width_bucket(x: Values, low: Values, high: Values, n: Values) -> Out:
    """The number of the bucket that x is in, of n buckets of equal width from low to high; 0 or n + 1 outside."""
    bad = (n <= 0) | (n == 2**63 - 1) | np.isnan(x) | (low == high) | ~np.isfinite(low) | ~np.isfinite(high)
    width = np.where(bad, 1.0, high - low)
    inside = saturated(n * ((np.where(np.isfinite(x), x, 0) - low) / width)) + 1
    upward = low < high
    under, over = np.where(upward, x < low, x > low), np.where(upward, x >= high, x <= high)
    return Out(np.where(under, 0, np.where(over, n + 1, inside)), (), bad)
