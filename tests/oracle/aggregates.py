"""Aggregates beyond sums and extremes, recomputed in fractions and in lists.

Variances and their kin are quotients of whole numbers that are rounded as altneu says it rounds them: numerator and
denominator to 53 bits, then one operation after another. How near that is to the truth is for
tests/operators/test_moments.py to say.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import chain
from typing import Any

from altneu.plan import ir
from tests.oracle.recompute import FailureError, in_order, rank

Values = Counter[tuple[Any, ...]]  # of the arguments, none of them null

NEGATIVE = "NEGATIVE_MULTIPLICITY"
BITS = {
    "bit_and": lambda count, n: count == n,
    "bit_or": lambda count, _: count > 0,
    "bit_xor": lambda count, _: count % 2 == 1,
}


def further(call: ir.Aggregate, values: Values) -> Any:
    """An aggregate of values of which none is null."""
    if call.function in BITS:
        return _bits(BITS[call.function], values)
    if call.function in PLACES:
        return PLACES[call.function](call, values) if values.total() else None
    return moment(call.function, values)


def listed(call: ir.Aggregate, picked: Values) -> Any:
    """Values in an order: rows of the value and what it is ordered by."""
    *options, last = call.options
    columns = [(i + 1, descending, nulls_first) for i, (descending, nulls_first) in enumerate(options)]
    ranked = in_order([row for row in picked if row[0] is not None], [*columns, (0, last, True)])
    return tuple(chain.from_iterable([row[0]] * picked[row] for row in ranked))


def _bits(holds: Callable[[int, int], bool], values: Values) -> int | None:
    n = values.total()
    if not n:
        return None
    counts = [sum(count for (value,), count in values.items() if value >> bit & 1) for bit in range(64)]
    if any(count < 0 or count > n for count in counts):
        raise FailureError(NEGATIVE)
    word = sum(1 << bit for bit, count in enumerate(counts) if holds(count, n))
    return word - (1 << 64) if word >> 63 else word


def _sorted(values: Values, *, descending: bool = False) -> list[Any]:
    ranked = sorted((value for (value,) in values), key=rank, reverse=descending)
    return list(chain.from_iterable([value] * values[value,] for value in ranked))


def _percentile(call: ir.Aggregate, values: Values) -> float:
    fraction, descending = call.options
    actual = _sorted(values, descending=descending)
    place = (len(actual) - 1) * fraction
    low, high = actual[math.floor(place)], actual[math.ceil(place)]
    if low == high or (math.isnan(low) and math.isnan(high)):
        return low
    return low + (high - low) * (place - math.floor(place))


def _percentile_disc(call: ir.Aggregate, values: Values) -> Any:
    fraction, descending = call.options
    actual = _sorted(values, descending=descending)
    return actual[max(math.ceil(fraction * len(actual)) - 1, 0)]


def _mode(call: ir.Aggregate, values: Values) -> Any:
    most = [value for (value,), count in values.items() if count == max(values.values())]
    return sorted(most, key=rank)[-1 if call.options[0] else 0]


PLACES = {"percentile": _percentile, "percentile_disc": _percentile_disc, "mode": _mode}


# moments --------------------------------------------------------------------------------------------------------------


def moment(function: str, values: Values) -> float | None:
    """A function of sums of products of deviations."""
    n = values.total()
    if n == 0 or (n == 1 and function in ("var_samp", "stddev_samp", "covar_samp", "corr")):
        return None
    width = max(map(len, values))
    odd = [any(not math.isfinite(row[i]) for row in values) for i in range(width)]
    sums = _Sums(values, n)
    if function in ("regr_r2", "regr_slope", "regr_intercept"):
        return _regression(function, sums, *odd)
    if function == "corr":
        left, right = (None if odd[i] else sums.squares(i) for i in (0, 1))
        if 0 in (left, right):
            return None
    if any(odd):
        return math.nan
    if function in ("covar_pop", "covar_samp", "regr_sxy"):
        return _mean(function, sums.central(0, 1), n)
    if function == "corr":
        return _correlation(sums.central(0, 1), left, right)
    squares = sums.squares(0)
    if function in ("var_pop", "var_samp", "regr_sxx"):
        return _mean(function, squares, n)
    if function in ("stddev_pop", "stddev_samp"):
        under, e = even(squares)
        return scale(math.sqrt(under / n / (n - 1 if function == "stddev_samp" else n)), e // 2)
    if not squares:
        return None
    under, low = even(squares)
    if function == "skewness":
        upper, high = parted(sums.third())
        return scale(upper / (under * math.sqrt(under)), high - low // 2 * 3)
    upper, high = parted(sums.fourth() - 3 * squares**2)
    return scale(upper / under / under, high - 2 * low)


class _Sums:
    def __init__(self, values: Values, n: int) -> None:
        self.values, self.n = values, n

    def of(self, *factors: int) -> Fraction:
        """The sum of a product; of values that are not finite it is not asked for."""
        finite = ((row, count) for row, count in self.values.items() if all(math.isfinite(row[i]) for i in factors))
        return sum((math.prod(Fraction(row[i]) for i in factors) * count for row, count in finite), Fraction(0))

    def central(self, i: int, j: int) -> Fraction:
        return self.n * self.of(i, j) - self.of(i) * self.of(j)

    def squares(self, i: int) -> Fraction:
        result = self.central(i, i)
        if result < 0:
            raise FailureError(NEGATIVE)
        return result

    def third(self) -> Fraction:
        n, x, xx, xxx = self.n, self.of(0), self.of(0, 0), self.of(0, 0, 0)
        return n**2 * xxx - 3 * n * x * xx + 2 * x**3

    def fourth(self) -> Fraction:
        n, x, xx, xxx, xxxx = self.n, self.of(0), self.of(0, 0), self.of(0, 0, 0), self.of(0, 0, 0, 0)
        return n**3 * xxxx - 4 * n**2 * x * xxx + 6 * n * x**2 * xx - 3 * x**4


def _regression(function: str, sums: _Sums, odd_y: bool, odd_x: bool) -> float | None:
    across = None if odd_x else sums.squares(1)
    along = None if odd_y or function != "regr_r2" else sums.squares(0)
    if across == 0:
        return None
    if along == 0:
        return 1.0
    if odd_x or odd_y:
        return math.nan
    if function == "regr_r2":
        return _correlation(sums.central(0, 1), along, across) ** 2
    under, low = parted(across)
    if function == "regr_slope":
        upper, high = parted(sums.central(0, 1))
        return scale(upper / under, high - low)
    upper, high = parted((sums.of(0) * across - sums.central(0, 1) * sums.of(1)) / sums.n)
    return scale(upper / under, high - low)


def _mean(function: str, central: Fraction, n: int) -> float:
    if function.startswith("var") and central < 0:
        raise FailureError(NEGATIVE)
    upper, e = parted(central)
    value = upper / n
    if not function.startswith("regr"):
        value /= n - 1 if function.endswith("samp") else n
    return scale(value, e)


def _correlation(mixed: Fraction, left: Fraction, right: Fraction) -> float:
    upper, high = parted(mixed)
    (a, a_e), (b, b_e) = parted(left), parted(right)
    if (a_e + b_e) % 2:
        a, a_e = a * 2, a_e - 1
    return max(-1.0, min(scale(upper / math.sqrt(a * b), high - (a_e + b_e) // 2), 1.0))


def parted(value: Fraction) -> tuple[float, int]:
    """The nearest double of any exponent: (m, e) with the value near m * 2^e."""
    e = abs(value.numerator).bit_length() - value.denominator.bit_length()
    return float(value / Fraction(2) ** e), e


def even(value: Fraction) -> tuple[float, int]:
    """``parted`` with an even exponent."""
    upper, e = parted(value)
    return (upper * 2, e - 1) if e % 2 else (upper, e)


def scale(value: float, e: int) -> float:
    """value * 2^e, infinite beyond the range."""
    try:
        return math.ldexp(value, e) + 0.0
    except OverflowError:
        return math.copysign(math.inf, value)
