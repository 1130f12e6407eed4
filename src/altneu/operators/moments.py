"""Variance and its kin from exact sums of products: the differences in whole numbers, one quotient rounded.

Sums are digits on a grid of 2^-1074 to the power of the number of factors. With n values, A = n * sum(x^2) - sum(x)^2
is n times the sum of squared deviations; the other central moments are made of sums likewise. Nothing cancels in
doubles, nothing depends on the order of arrival, and what is retracted leaves nothing behind.
"""

from __future__ import annotations

import math

import numpy as np

from altneu.expressions.names import MOMENTS
from altneu.operators.compiled import compiled
from altneu.operators.exact_number import Number, negated, number_at, parted, plus, product, scaled
from altneu.operators.exact_sum import (
    DIGITS,
    DOUBLE_DIGITS,
    MINUS_INFINITIES,
    NANS,
    PLUS_INFINITIES,
    Ints,
    bits_of,
    product_digits,
)

_OF_ONE = {
    "var_pop": ((0, 0),),
    "var_samp": ((0, 0),),
    "stddev_pop": ((0, 0),),
    "stddev_samp": ((0, 0),),
    "regr_sxx": ((0, 0),),
    "skewness": ((0, 0), (0, 0, 0)),
    "kurtosis": ((0, 0), (0, 0, 0), (0, 0, 0, 0)),
}
_OF_TWO = {
    "covar_pop": ((0, 1),),
    "covar_samp": ((0, 1),),
    "regr_sxy": ((0, 1),),
    "corr": ((0, 0), (0, 1), (1, 1)),
    "regr_r2": ((0, 0), (0, 1), (1, 1)),
    "regr_slope": ((0, 1), (1, 1)),
    "regr_intercept": ((0, 1), (1, 1)),
}
PRODUCTS: dict[str, tuple[tuple[int, ...], ...]] = {**_OF_ONE, **_OF_TWO}
"""The products of its arguments that each function sums, as positions of arguments."""

_PLACES = ((0,), (1,), (0, 0), (0, 1), (1, 1), (0, 0, 0), (0, 0, 0, 0))
WIDTH = len(_PLACES)
_X, _Y, _XX, _XY, _YY, _XXX, _XXXX = range(WIDTH)
PLACE = {factors: place for place, factors in enumerate(_PLACES)}
"""Where a line of ``moment`` tells the slots of a sum."""

(
    VAR_POP,
    VAR_SAMP,
    STDDEV_POP,
    STDDEV_SAMP,
    REGR_SXX,
    SKEWNESS,
    KURTOSIS,
    COVAR_POP,
    COVAR_SAMP,
    REGR_SXY,
    CORR,
    REGR_R2,
    REGR_SLOPE,
    REGR_INTERCEPT,
) = range(len(MOMENTS))
NUMBER = {function: number for number, function in enumerate(MOMENTS)}

_GRID = 1074


@compiled
def _special(sums: Ints, base: int) -> bool:
    return sums[base + NANS] != 0 or sums[base + PLUS_INFINITIES] != 0 or sums[base + MINUS_INFINITIES] != 0


@compiled
def _sum(sums: Ints, bases: Ints, place: int, factors: int) -> Number:
    count = DOUBLE_DIGITS if factors == 1 else product_digits(factors)
    return number_at(sums, bases[place] + DIGITS, count)


@compiled
def _central(n: int, products: Number, x: Number, y: Number) -> Number:
    """N * sum(xy) - sum(x) * sum(y)."""
    return plus(scaled(products, n), negated(product(x, y)))


@compiled
def _third(n: int, x: Number, xx: Number, xxx: Number) -> Number:
    """n^2 times the sum of cubed deviations."""
    cubes = plus(scaled(scaled(xxx, n), n), negated(scaled(scaled(product(x, xx), n), 3)))
    return plus(cubes, scaled(product(product(x, x), x), 2))


@compiled
def _fourth(n: int, x: Number, xx: Number, xxx: Number, xxxx: Number) -> Number:
    """n^3 times the sum of the fourth powers of deviations."""
    square = product(x, x)
    made = plus(scaled(scaled(scaled(xxxx, n), n), n), negated(scaled(scaled(scaled(product(x, xxx), n), n), 4)))
    made = plus(made, scaled(scaled(product(square, xx), n), 6))
    return plus(made, negated(scaled(product(square, square), 3)))


@compiled
def _even(number: Number) -> tuple[float, int]:
    """``parted`` with an even exponent."""
    mantissa, e = parted(number)
    return (mantissa * 2.0, e - 1) if e & 1 else (mantissa, e)


@compiled
def moment(how: int, bases: Ints, sums: Ints, n: int) -> tuple[bool, bool, int]:
    """One final of ``n`` values or pairs: whether the sums are those of no rows, whether it is not null, its bits.

    A negative sum of squared deviations shows that a row is more often retracted than inserted.
    """
    if n == 0 or (n == 1 and how in (VAR_SAMP, STDDEV_SAMP, COVAR_SAMP, CORR)):
        return False, False, 0
    odd_x, odd_y = _special(sums, bases[_X]), how >= COVAR_POP and _special(sums, bases[_Y])
    if how >= REGR_R2:
        return _regression(how, bases, sums, n, odd_x, odd_y)
    if odd_x or odd_y:
        return False, True, bits_of(np.nan)
    x = _sum(sums, bases, _X, 1)
    if how < COVAR_POP:
        return _of_one(how, bases, sums, n, x)
    y = _sum(sums, bases, _Y, 1)
    mixed = _central(n, _sum(sums, bases, _XY, 2), x, y)
    if how != CORR:
        return False, True, _mean(mixed, n, how == COVAR_POP, how == COVAR_SAMP)
    xx, yy = _central(n, _sum(sums, bases, _XX, 2), x, x), _central(n, _sum(sums, bases, _YY, 2), y, y)
    if xx[2] < 0 or yy[2] < 0:
        return True, False, 0
    if xx[2] == 0 or yy[2] == 0:
        return False, False, 0
    return False, True, bits_of(_correlation(mixed, xx, yy))


@compiled
def _regression(how: int, bases: Ints, sums: Ints, n: int, odd_y: bool, odd_x: bool) -> tuple[bool, bool, int]:
    """A line through pairs (y, x): the first argument is explained by the second."""
    y, x = _sum(sums, bases, _X, 1), _sum(sums, bases, _Y, 1)
    xx = _central(n, _sum(sums, bases, _YY, 2), x, x)
    if not odd_x and xx[2] <= 0:
        return xx[2] < 0, False, 0
    mixed = _central(n, _sum(sums, bases, _XY, 2), x, y)
    if how == REGR_R2:
        yy = _central(n, _sum(sums, bases, _XX, 2), y, y)
        if not odd_y and yy[2] <= 0:
            return yy[2] < 0, True, bits_of(1.0)
        value = np.nan if odd_x or odd_y else _correlation(mixed, xx, yy)
        return False, True, bits_of(value * value)
    if odd_x or odd_y:
        return False, True, bits_of(np.nan)
    under, low = parted(xx)
    if how == REGR_SLOPE:
        upper, high = parted(mixed)
        return False, True, bits_of(math.ldexp(upper / under, high - low))
    upper, high = parted(plus(product(y, xx), negated(product(mixed, x))))
    return False, True, bits_of(math.ldexp(upper / under / float(n), high - low - _GRID))


@compiled
def _mean(number: Number, n: int, squared: bool, sample: bool) -> int:
    """The bits of a sum of n products of deviations, n times as large as it is, divided by nothing more, n or n - 1."""
    mantissa, e = parted(number)
    value = mantissa / float(n)
    if squared or sample:
        value /= float(n - 1 if sample else n)
    return bits_of(math.ldexp(value, e - 2 * _GRID))


@compiled
def _of_one(how: int, bases: Ints, sums: Ints, n: int, x: Number) -> tuple[bool, bool, int]:
    squares = _sum(sums, bases, _XX, 2)
    xx = _central(n, squares, x, x)
    if xx[2] < 0:
        return True, False, 0
    if how in (STDDEV_POP, STDDEV_SAMP):
        mantissa, e = _even(xx)
        value = math.sqrt(mantissa / float(n) / float(n - 1 if how == STDDEV_SAMP else n))
        return False, True, bits_of(math.ldexp(value, e // 2 - _GRID))
    if how in (VAR_POP, VAR_SAMP, REGR_SXX):
        return False, True, _mean(xx, n, how == VAR_POP, how == VAR_SAMP)
    if xx[2] == 0:
        return False, False, 0
    cubes = _sum(sums, bases, _XXX, 3)
    under, low = _even(xx)
    if how == SKEWNESS:
        upper, high = parted(_third(n, x, squares, cubes))
        return False, True, bits_of(math.ldexp(upper / (under * math.sqrt(under)), high - low // 2 * 3))
    fourth = _fourth(n, x, squares, cubes, _sum(sums, bases, _XXXX, 4))
    upper, high = parted(plus(fourth, negated(scaled(product(xx, xx), 3))))
    return False, True, bits_of(math.ldexp(upper / under / under, high - 2 * low))


@compiled
def _correlation(mixed: Number, xx: Number, yy: Number) -> float:
    """The coefficient of correlation, which doubles would round beyond 1."""
    upper, high = parted(mixed)
    left, left_e = parted(xx)
    right, right_e = parted(yy)
    if (left_e + right_e) & 1:
        left, left_e = left * 2.0, left_e - 1
    return max(-1.0, min(math.ldexp(upper / math.sqrt(left * right), high - (left_e + right_e) // 2), 1.0))
