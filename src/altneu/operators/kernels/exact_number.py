"""Whole numbers of any size, made of exact sums: digits of 32 bits from a place on, and a sign.

Variances, correlations and their kin are quotients of differences that cancel: computed in whole numbers, the
differences are exact, and only the quotient is rounded.
"""

from __future__ import annotations

import numpy as np

from altneu.compiled import compiled
from altneu.operators.kernels.exact_sum import Ints, normalised, top_bits

Number = tuple[Ints, int, int]
"""Digits, the least first, all of them from 0 to 2^32 - 1; the place of the first; the sign, 0 of zero."""

_MASK = 0xFFFFFFFF


@compiled()
def _trimmed(digits: Ints, length: int, place: int, sign: int) -> Number:
    """A number without the zeros around it, in an array of its own."""
    start = 0
    while length > 0 and digits[length - 1] == 0:
        length -= 1
    while start < length and digits[start] == 0:
        start += 1
    return digits[start:length].copy(), place + start, sign if length > start else 0


@compiled()
def number_at(sums: Ints, start: int, count: int) -> Number:
    """The number whose digits, not yet carried and of any sign, are the ``count`` sums from ``start`` on."""
    magnitude = np.empty(count + 2, np.int64)
    length, negative = normalised(sums, start, count, magnitude)
    return _trimmed(magnitude, length, 0, -1 if negative else 1)


@compiled()
def product(left: Number, right: Number) -> Number:
    """Left times right."""
    a, b = left[0], right[0]
    digits = np.zeros(len(a) + len(b), np.int64)
    for i in range(len(a)):
        carry = 0
        for j in range(len(b)):
            total = a[i] * b[j] + digits[i + j] + carry  # below 2^64: its bits are right
            digits[i + j] = total & _MASK
            carry = (total >> 32) & _MASK
        digits[i + len(b)] = carry
    return _trimmed(digits, len(digits), left[1] + right[1], left[2] * right[2])


@compiled()
def whole(value: int) -> Number:
    """A whole number of 64 bits."""
    digits = np.empty(2, np.int64)
    magnitude = abs(value)
    digits[0], digits[1] = magnitude & _MASK, (magnitude >> 32) & _MASK
    return _trimmed(digits, 2, 0, -1 if value < 0 else 1)


@compiled()
def plus(left: Number, right: Number) -> Number:
    """Left and right added."""
    place = min(left[1], right[1])
    digits = np.zeros(max(left[1] + len(left[0]), right[1] + len(right[0])) - place, np.int64)
    for i in range(len(left[0])):
        digits[left[1] - place + i] += left[2] * left[0][i]
    for i in range(len(right[0])):
        digits[right[1] - place + i] += right[2] * right[0][i]
    result = number_at(digits, 0, len(digits))
    return result[0], result[1] + place, result[2]


@compiled()
def parted(number: Number) -> tuple[float, int]:
    """The double nearest to a number that may be beyond the range of doubles, as (m, e): it is near m * 2^e."""
    if number[2] == 0:
        return 0.0, 0
    mantissa, e = top_bits(number[0], len(number[0]))
    return float(mantissa) * number[2], e + 32 * number[1]
