"""Exact sums: every number as digits of 32 bits at fixed places, so that adding is exact and order means nothing.

A value's magnitude is cut into 32-bit digits, each digit carries the value's sign, and a diff multiplies each digit.
The digits of a group are plain int64 sums: they commute, they cancel exactly when a row is retracted however
retractions are grouped, and 2^31 rows fit before a digit could leave int64. Floats use one grid of places for every
exponent (a superaccumulator, of which only the few digits a group touches exist). Only a diff of 2^24 or more is
carried over into higher digits at once; the sum stays exact, and emptiness is judged by the normalised sum and never
by single digits.

Slots of one argument, relative to its base: number of nulls, of NaN, of +inf, of -inf, then the digits.

Source: Kulisch, Computer Arithmetic and Validity, 2008 (the long accumulator); Neal, Fast Exact Summation, 2015.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from altneu.compiled import compiled

Ints = npt.NDArray[np.int64]

INTEGER, DECIMAL, DOUBLE, ANYTHING, PRODUCT, BIT_COUNTS = 0, 1, 2, 3, 4, 5
NULLS, NANS, PLUS_INFINITIES, MINUS_INFINITIES, DIGITS = 0, 1, 2, 3, 4
STRIDE = 80
BITS = 64
INTEGER_DIGITS, DECIMAL_DIGITS, DOUBLE_DIGITS = 4, 6, 68
SCRATCH = DOUBLE_DIGITS + 4

_MASK = 0xFFFFFFFF
_EXPONENT = 2047
_FRACTION = (1 << 52) - 1
_NAN_BITS = 0x7FF8000000000000
_PLUS_INFINITY_BITS = 0x7FF0000000000000
_SMALL_DIFF = 1 << 24


@compiled()
def bump(sums: Ints, slot: int, amount: int) -> bool:
    """Add to one slot; whether it left int64."""
    old = sums[slot]
    new = old + amount
    sums[slot] = new
    return ((old ^ new) & (amount ^ new)) < 0


@compiled()
def add_product(sums: Ints, start: int, factors: Ints, diff: int) -> bool:
    """Add ``diff`` times the product of doubles to the digits from ``start`` on; ``factors`` are their bits.

    Digits are those of ``product_digits``, at places from 2^-1074 to the power of the number of factors on. A product
    with a factor that is not finite adds nothing. Returns whether any slot left int64.
    """
    digits = np.zeros(2 * len(factors) + 6, np.int64)
    digits[0] = 1
    count, place, negative = 1, 0, diff < 0
    for bits in factors:
        exponent = (bits >> 52) & _EXPONENT
        if exponent == _EXPONENT:
            return False
        place += max(exponent - 1, 0)
        negative ^= bits < 0
        count = _multiply(digits, count, (bits & _FRACTION) | ((1 << 52) if exponent > 0 else 0))
    count = _multiply(digits, count, 1 << (place & 31))
    factor = -1 if negative else 1
    if -_SMALL_DIFF < diff < _SMALL_DIFF:
        factor *= abs(diff)
    else:
        count = _multiply(digits, count, diff)
    overflow = False
    for i in range(count):
        if digits[i] != 0:
            overflow |= bump(sums, start + (place >> 5) + i, digits[i] * factor)
    return overflow


@compiled()
def product_digits(factors: int) -> int:
    """How many digits a sum of products of so many doubles may use."""
    return factors * (DOUBLE_DIGITS - 2) + 2


@compiled()
def slots_of_extra(kind: int, factors: int) -> int:
    """How many slots a sum of products or the counts of bits have."""
    return product_digits(factors) if kind == PRODUCT else BITS


@compiled()
def add_bits(sums: Ints, start: int, word: int, diff: int) -> bool:
    """Let each bit of a word that is set count: ``BITS`` slots from ``start`` on. Returns whether one left int64."""
    overflow = False
    for i in range(BITS):
        if (word >> i) & 1:
            overflow |= bump(sums, start + i, diff)
    return overflow


@compiled()
def _split(kind: int, low: int, high: int, digits: Ints) -> tuple[int, int, bool]:
    """Cut a finite value's magnitude into digits: (place of the first, how many, whether the value is negative)."""
    if kind == INTEGER:
        magnitude = -low if low < 0 else low  # -2^63 stays itself, and its bits are the magnitude's
        digits[0] = magnitude & _MASK
        digits[1] = (magnitude >> 32) & _MASK
        return 0, 2, low < 0
    if kind == DECIMAL:
        if high < 0:
            low_part, high_part = -low, ~high + (1 if low == 0 else 0)
        else:
            low_part, high_part = low, high
        digits[0] = low_part & _MASK
        digits[1] = (low_part >> 32) & _MASK
        digits[2] = high_part & _MASK
        digits[3] = (high_part >> 32) & _MASK
        return 0, 4, high < 0
    exponent = (low >> 52) & _EXPONENT
    mantissa = low & _FRACTION
    place = 0
    if exponent > 0:
        mantissa |= 1 << 52
        place = exponent - 1
    shift = place & 31
    shifted = mantissa << shift
    digits[0] = shifted & _MASK
    digits[1] = (shifted >> 32) & _MASK
    digits[2] = mantissa >> (64 - shift) if shift > 0 else 0
    return place >> 5, 3, low < 0


@compiled()
def _multiply(digits: Ints, count: int, diff: int) -> int:
    """Multiply a magnitude in place by ``|diff|``, carrying; returns the new number of digits."""
    magnitude = -diff if diff < 0 else diff
    low, high = magnitude & _MASK, (magnitude >> 32) & _MASK
    product = np.zeros(count + 2, np.int64)
    for i in range(count):
        carry = 0
        for j in range(2):
            total = digits[i] * (low if j == 0 else high) + product[i + j] + carry  # below 2^64: its bits are right
            product[i + j] = total & _MASK
            carry = (total >> 32) & _MASK
        product[i + 2] = carry
    digits[: count + 2] = product
    return count + 2


@compiled()
def add_value(sums: Ints, base: int, kind: int, low: int, high: int, diff: int, digits: Ints) -> bool:
    """Add ``diff`` times a non-null value to the slots from ``base`` on; ``low`` and ``high`` are its bits.

    Returns whether any slot left int64. ``digits`` is scratch of eight.
    """
    if kind == ANYTHING:
        return False
    small = -_SMALL_DIFF < diff < _SMALL_DIFF
    if kind == INTEGER and small and -_MASK <= low <= _MASK:
        return bump(sums, base + DIGITS, low * diff)
    if kind == DOUBLE and (low >> 52) & _EXPONENT == _EXPONENT:
        special = NANS if low & _FRACTION else (MINUS_INFINITIES if low < 0 else PLUS_INFINITIES)
        return bump(sums, base + special, diff)
    if kind == DOUBLE and small:
        return _add_double(sums, base + DIGITS, low, diff)
    first, count, negative = _split(kind, low, high, digits)
    factor = -diff if negative else diff
    if not small:
        count = _multiply(digits, count, diff)
        factor = -1 if (diff < 0) != negative else 1
    overflow = False
    for i in range(count):
        if digits[i] != 0:
            overflow |= bump(sums, base + DIGITS + first + i, digits[i] * factor)
    return overflow


@compiled()
def _add_double(sums: Ints, base: int, bits: int, diff: int) -> bool:
    """The everyday case of ``add_value`` without scratch: a finite float, its three digits times a small diff."""
    exponent = (bits >> 52) & _EXPONENT
    mantissa = bits & _FRACTION
    if exponent > 0:
        mantissa |= 1 << 52
        exponent -= 1
    factor = -diff if bits < 0 else diff
    at, shift = base + (exponent >> 5), exponent & 31
    shifted = mantissa << shift
    overflow = bump(sums, at, (shifted & _MASK) * factor)
    overflow |= bump(sums, at + 1, ((shifted >> 32) & _MASK) * factor)
    if shift > 11:  # 53 bits moved by 12 or more reach the third digit
        overflow |= bump(sums, at + 2, (mantissa >> (64 - shift)) * factor)
    return overflow


@compiled()
def digit_count(kind: int) -> int:
    """How many digits a sum of this kind may use."""
    if kind == INTEGER:
        return INTEGER_DIGITS
    if kind == DECIMAL:
        return DECIMAL_DIGITS
    return DOUBLE_DIGITS if kind == DOUBLE else 0


@compiled()
def magnitude_of(sums: Ints, base: int, kind: int, magnitude: Ints) -> tuple[int, bool]:
    """Normalise the sum at ``base`` into digits of ``magnitude``: (how many up to the last nonzero one, negative)."""
    return normalised(sums, base + DIGITS, digit_count(kind), magnitude)


@compiled()
def normalised(sums: Ints, start: int, count: int, magnitude: Ints) -> tuple[int, bool]:
    """Carry the ``count`` digits from ``start`` on: (how many up to the last nonzero one, whether it is negative)."""
    carry = 0
    for i in range(count):
        digit = sums[start + i]
        total = (digit & _MASK) + carry
        magnitude[i] = total & _MASK
        carry = (digit >> 32) + (total >> 32)
    magnitude[count] = carry & _MASK
    magnitude[count + 1] = (carry >> 32) & _MASK
    negative = carry < 0
    if negative:
        carry = 1
        for i in range(count + 2):
            total = (magnitude[i] ^ _MASK) + carry
            magnitude[i] = total & _MASK
            carry = total >> 32
    length = count + 2
    while length > 0 and magnitude[length - 1] == 0:
        length -= 1
    return length, negative


@compiled()
def top_bits(magnitude: Ints, length: int) -> tuple[int, int]:
    """Round a magnitude half to even: ``(m, e)`` with m of at most 53 bits (or 2^53) and the value near ``m * 2^e``."""
    top = magnitude[length - 1]
    width = 0
    while top >> width:
        width += 1
    position = 32 * (length - 1) + width - 1
    e = max(position - 52, 0)
    mantissa = 0
    for i in range(length - 1, -1, -1):
        shift = 32 * i - e
        if shift >= 0:
            mantissa |= magnitude[i] << shift
        elif shift > -32:
            mantissa |= magnitude[i] >> -shift
    if e == 0:
        return mantissa, 0
    half = (magnitude[(e - 1) >> 5] >> ((e - 1) & 31)) & 1
    if half:
        rest = (magnitude[(e - 1) >> 5] & ((1 << ((e - 1) & 31)) - 1)) != 0
        for i in range((e - 1) >> 5):
            rest |= magnitude[i] != 0
        if rest or mantissa & 1:
            mantissa += 1
    return mantissa, e


@compiled()
def to_double(magnitude: Ints, length: int, negative: bool, kind: int) -> float:
    """The double nearest to a normalised sum, ties to even; floats beyond the range are infinite."""
    if length == 0:
        return 0.0
    mantissa, e = top_bits(magnitude, length)
    if kind == DOUBLE:  # the grid begins at 2^-1074, so exponent and mantissa are the bits themselves
        bits = _PLUS_INFINITY_BITS if e >= _EXPONENT - 1 else (e << 52) + mantissa
        value: float = np.int64(bits).view(np.float64)
    else:
        value = float(mantissa) * 2.0**e
    return -value if negative else value


@compiled()
def bits_of(value: float) -> int:
    """The bits of a double, with one NaN and no -0.0."""
    if value != value:  # noqa: PLR0124 -- NaN, in a kernel
        return _NAN_BITS
    return np.float64(value + 0.0).view(np.int64)  # type: ignore[return-value]


@compiled()
def double_sum(sums: Ints, base: int, kind: int, magnitude: Ints) -> float:
    """The sum at ``base`` as a double, NaN and infinities as IEEE 754 adds them; one taken away is its negative."""
    if kind == DOUBLE:
        pluses, minuses = sums[base + PLUS_INFINITIES], sums[base + MINUS_INFINITIES]
        plus, minus = pluses > 0 or minuses < 0, minuses > 0 or pluses < 0
        if sums[base + NANS] != 0 or (plus and minus):
            return np.nan
        if plus or minus:
            return np.inf if plus else -np.inf
    length, negative = magnitude_of(sums, base, kind, magnitude)
    return to_double(magnitude, length, negative, kind)


@compiled()
def beyond(magnitude: Ints, length: int, limit: Ints) -> bool:
    """Whether a normalised magnitude is ``limit`` (four digits) or more."""
    if length > 4:
        return True
    for i in range(3, -1, -1):
        digit = magnitude[i] if i < length else 0
        if digit != limit[i]:
            return digit > limit[i]
    return True


@compiled()
def scale_divide(magnitude: Ints, length: int, factor: int, divisor: int) -> int:
    """Make a magnitude ``magnitude * factor / divisor``, rounded half up; returns its length. ``factor`` < 2^31."""
    carry = 0
    for i in range(length):
        total = magnitude[i] * factor + carry
        magnitude[i] = total & _MASK
        carry = total >> 32
    magnitude[length] = carry
    rest = 0
    for i in range(length, -1, -1):
        quotient = 0
        for bit in range(31, -1, -1):
            low = (magnitude[i] >> bit) & 1
            # rest < divisor < 2^63: compare 2 * rest + low with the divisor without leaving int64
            quotient <<= 1
            if rest >= divisor - rest - low:
                rest = rest - (divisor - rest - low)
                quotient |= 1
            else:
                rest = 2 * rest + low
        magnitude[i] = quotient
    if rest >= divisor - rest:
        i = 0
        while magnitude[i] == _MASK:
            magnitude[i] = 0
            i += 1
        magnitude[i] += 1
    length += 1
    while length > 0 and magnitude[length - 1] == 0:
        length -= 1
    return length


@compiled()
def int128_of(magnitude: Ints, length: int, negative: bool) -> tuple[int, int]:
    """Two's complement words (low, high) of a magnitude below 2^127; of a smaller integer the low word is the value."""
    for i in range(length, 4):
        magnitude[i] = 0
    low = magnitude[0] | (magnitude[1] << 32)
    high = magnitude[2] | (magnitude[3] << 32)
    if negative:
        return -low, ~high + (1 if low == 0 else 0)
    return low, high
