"""Variance and its kin from exact sums of products: the differences in whole numbers, one quotient rounded.

Sums are digits on a grid of 2^-1074 to the power of the number of factors. With n values, A = n * sum(x^2) - sum(x)^2
is n times the sum of squared deviations; the other central moments are made of sums likewise. Nothing cancels in
doubles, nothing depends on the order of arrival, and what is retracted leaves nothing behind.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from altneu.compiled import compiled
from altneu.expressions.names import MOMENTS
from altneu.operators.kernels.exact_number import number_at, parted, plus, product, whole
from altneu.operators.kernels.exact_sum import (
    DIGITS,
    DOUBLE_DIGITS,
    MINUS_INFINITIES,
    NANS,
    PLUS_INFINITIES,
    Ints,
    product_digits,
)

Doubles = npt.NDArray[np.float64]

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

# Differences that cancel, as polynomials of n and the sums; a line a term: its polynomial, coefficient and factors.
_N = WIDTH
_VARIANCE_X, _VARIANCE_Y, _COVARIANCE, _THIRD, _FOURTH, _INTERCEPT = range(6)
_TERMS = np.array(
    [
        # n times the sum of products of deviations
        (_VARIANCE_X, 1, _N, _XX, -1, -1),
        (_VARIANCE_X, -1, _X, _X, -1, -1),
        (_VARIANCE_Y, 1, _N, _YY, -1, -1),
        (_VARIANCE_Y, -1, _Y, _Y, -1, -1),
        (_COVARIANCE, 1, _N, _XY, -1, -1),
        (_COVARIANCE, -1, _X, _Y, -1, -1),
        # n^2 times the sum of cubes of deviations
        (_THIRD, 1, _N, _N, _XXX, -1),
        (_THIRD, -3, _N, _X, _XX, -1),
        (_THIRD, 2, _X, _X, _X, -1),
        # n^3 times the sum of fourth powers of deviations, less 3 times the square of n times that of squares
        (_FOURTH, 1, _N, _N, _N, _XXXX),
        (_FOURTH, -4, _N, _N, _X, _XXX),
        (_FOURTH, -3, _N, _N, _XX, _XX),
        (_FOURTH, 12, _N, _X, _X, _XX),
        (_FOURTH, -6, _X, _X, _X, _X),
        # where the line of x by y begins, times n times the sum of squared deviations of y
        (_INTERCEPT, 1, _X, _YY, -1, -1),
        (_INTERCEPT, -1, _XY, _Y, -1, -1),
    ],
    np.int64,
)
_NEEDS = {
    "skewness": (_VARIANCE_X, _THIRD),
    "kurtosis": (_VARIANCE_X, _FOURTH),
    "covar_pop": (_COVARIANCE,),
    "covar_samp": (_COVARIANCE,),
    "regr_sxy": (_COVARIANCE,),
    "corr": (_VARIANCE_X, _VARIANCE_Y, _COVARIANCE),
    "regr_r2": (_VARIANCE_X, _VARIANCE_Y, _COVARIANCE),
    "regr_slope": (_VARIANCE_Y, _COVARIANCE),
    "regr_intercept": (_VARIANCE_Y, _INTERCEPT),
}
_NEEDED = np.array([[p in _NEEDS.get(f, (_VARIANCE_X,)) for p in range(6)] for f in MOMENTS])
_GRID = 1074


@compiled()
def _special(sums: Ints, base: int) -> bool:
    return sums[base + NANS] != 0 or sums[base + PLUS_INFINITIES] != 0 or sums[base + MINUS_INFINITIES] != 0


@compiled()
def _polynomial(which: int, bases: Ints, sums: Ints, n: int) -> tuple[float, int]:
    """The value of a polynomial as (m, e): rounded once, it is near m * 2^e, on the grid of its factors."""
    total = whole(0)
    for term in _TERMS:
        if term[0] == which:
            value = whole(term[1])
            for place in term[2:]:
                if place == _N:
                    value = product(value, whole(n))
                elif place >= 0:
                    factors = 1 if place < _XX else 2 if place < _XXX else place - _XXX + 3
                    count = DOUBLE_DIGITS if factors == 1 else product_digits(factors)
                    value = product(value, number_at(sums, bases[place] + DIGITS, count))
            total = plus(total, value)
    return parted(total)


@compiled()
def moment(how: int, bases: Ints, sums: Ints, n: int) -> tuple[bool, bool, float]:
    """One final of ``n`` values or pairs: whether the sums are those of no rows, whether it is not null, and the value.

    A negative sum of squared deviations shows that a row is more often retracted than inserted.
    """
    if n == 0 or (n == 1 and how in (VAR_SAMP, STDDEV_SAMP, COVAR_SAMP, CORR)):
        return False, False, 0.0
    odd_x, odd_y = _special(sums, bases[_X]), how >= COVAR_POP and _special(sums, bases[_Y])
    if (odd_x or odd_y) and how < CORR:
        return False, True, np.nan
    m, e = np.zeros(6), np.zeros(6, np.int64)
    for which in range(6):
        if _NEEDED[how, which]:
            m[which], e[which] = _polynomial(which, bases, sums, n)
    if (m[_VARIANCE_X] < 0 and not odd_x) or (m[_VARIANCE_Y] < 0 and not odd_y):
        return True, False, 0.0
    if how >= CORR:
        return _of_pairs(how, m, e, odd_x, odd_y)
    if how in (COVAR_POP, COVAR_SAMP, REGR_SXY):
        return False, True, _mean(m[_COVARIANCE], e[_COVARIANCE], n, how == COVAR_POP, how == COVAR_SAMP)
    if how in (VAR_POP, VAR_SAMP, REGR_SXX):
        return False, True, _mean(m[_VARIANCE_X], e[_VARIANCE_X], n, how == VAR_POP, how == VAR_SAMP)
    if how in (STDDEV_POP, STDDEV_SAMP):
        under, low = _even(m[_VARIANCE_X], e[_VARIANCE_X])
        value = math.sqrt(under / float(n) / float(n - 1 if how == STDDEV_SAMP else n))
        return False, True, math.ldexp(value, low // 2 - _GRID)
    if m[_VARIANCE_X] == 0:
        return False, False, 0.0
    under, low = _even(m[_VARIANCE_X], e[_VARIANCE_X])
    if how == SKEWNESS:
        return False, True, math.ldexp(m[_THIRD] / (under * math.sqrt(under)), e[_THIRD] - low // 2 * 3)
    return False, True, math.ldexp(m[_FOURTH] / under / under, e[_FOURTH] - 2 * low)


@compiled()
def _even(mantissa: float, e: int) -> tuple[float, int]:
    """The same value with an even exponent."""
    return (mantissa * 2.0, e - 1) if e & 1 else (mantissa, e)


@compiled()
def _mean(mantissa: float, e: int, n: int, squared: bool, sample: bool) -> float:
    """A sum of products of deviations, which is n times as large as it is, divided by nothing more, n or n - 1."""
    value = mantissa / float(n)
    if squared or sample:
        value /= float(n - 1 if sample else n)
    return math.ldexp(value, e - 2 * _GRID)


@compiled()
def _correlation(m: Doubles, e: Ints) -> float:
    """The coefficient of correlation, which doubles would round beyond 1."""
    left, low = m[_VARIANCE_X], e[_VARIANCE_X] + e[_VARIANCE_Y]
    if low & 1:
        left, low = left * 2.0, low - 1
    value = math.ldexp(m[_COVARIANCE] / math.sqrt(left * m[_VARIANCE_Y]), e[_COVARIANCE] - low // 2)
    return max(-1.0, min(value, 1.0))


@compiled()
def _of_pairs(how: int, m: Doubles, e: Ints, odd_x: bool, odd_y: bool) -> tuple[bool, bool, float]:
    """Correlation, and the line that explains the first argument, x, by the second, y.

    What does not vary at all is told first, whatever the other argument is.
    """
    if m[_VARIANCE_Y] == 0 and not odd_y:
        return False, False, 0.0
    if how <= REGR_R2 and m[_VARIANCE_X] == 0 and not odd_x:
        return False, how == REGR_R2, 1.0
    if odd_x or odd_y:
        return False, True, np.nan
    if how <= REGR_R2:
        value = _correlation(m, e)
        return False, True, value if how == CORR else value * value
    under, low = m[_VARIANCE_Y], e[_VARIANCE_Y]
    if how == REGR_SLOPE:
        return False, True, math.ldexp(m[_COVARIANCE] / under, e[_COVARIANCE] - low)
    return False, True, math.ldexp(m[_INTERCEPT] / under, e[_INTERCEPT] - low - _GRID)
