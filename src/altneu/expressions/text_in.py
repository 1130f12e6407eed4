"""Text read as values, in the forms that Spark's ANSI casts accept; other text is a CAST_INVALID_INPUT."""

from __future__ import annotations

from decimal import Context, Decimal, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.expressions import decimals, time_in
from altneu.expressions.cast_failures import INVALID, OUT_OF_RANGE, UNSUPPORTED_RANGE, explain
from altneu.expressions.vector import Failure, Mask, Values, Vector, dtype_of

_EXACT = Context(prec=120)  # Python's own context rounds to 28 digits
_SPACE = "".join(chr(c) for c in range(33)) + "\x7f"
_DECIMAL = r"(?i)^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$"
_FLOAT = r"(?i)^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?[df]?$"
_SPECIAL = r"(?i)^[+-]?(inf|infinity)$|^nan$"
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def parse(vector: Vector, target: pa.DataType) -> Vector:
    """The values that texts stand for; Spark takes white space around all of them."""
    array = vector.arrow
    if target == T.BINARY:
        return Vector(T.BINARY, arrow=pc.cast(array, T.BINARY), constant=vector.constant)
    values, bad = parse_values(array, target)
    if vector.valid is not None:
        bad = bad & vector.valid
    failures: tuple[Failure, ...] = ()
    if bad.any():
        failures = _failures(vector, target, bad)
    return Vector(target, values, vector.valid, failures=failures, constant=vector.constant)


def _failures(vector: Vector, target: pa.DataType, bad: Mask) -> tuple[Failure, ...]:
    if not pt.is_decimal128(target):
        return (Failure(bad, INVALID, explain(vector, target, INVALID)),)
    text = trim(vector.arrow)
    shaped = _mask(pc.match_substring_regex(text, _DECIMAL))
    huge = shaped & _mask(pc.match_substring_regex(text, r"^[+-]?0*[1-9]\d{38}"))
    pairs = ((bad & ~shaped, INVALID), (bad & huge, UNSUPPORTED_RANGE), (bad & shaped & ~huge, OUT_OF_RANGE))
    return tuple(Failure(mask, code, explain(vector, target, code)) for mask, code in pairs if mask.any())


def parse_values(array: pa.Array, target: pa.DataType) -> tuple[Values, Mask]:
    """Values, and where the text is not one; arbitrary for nulls."""
    if pt.is_integer(target):
        return _integers(trim(array), target)
    if pt.is_floating(target):
        return _floats(trim(array), target)
    if pt.is_decimal128(target):
        return decimals_of(trim(array), target)
    if target == T.BOOLEAN:
        return _booleans(trim(array))
    if target == T.DATE:
        return time_in.dates(trim(array))
    if target == T.TIME:
        return time_in.times(trim(array))
    return time_in.timestamps(trim(array), zoned=target == T.TIMESTAMP)


def trim(array: pa.Array) -> pa.Array:
    """Without the white space and control characters around it."""
    return pc.ascii_trim(array, _SPACE)


def _mask(array: Any) -> Mask:
    return Vector(T.BOOLEAN, arrow=array.fill_null(False)).values


def _integers(text: pa.Array, target: pa.DataType) -> tuple[Values, Mask]:
    dtype = dtype_of(target)
    shaped = _mask(pc.match_substring_regex(text, r"^[+-]?0*\d{1,19}$"))
    digits = pc.if_else(pa.array(shaped), pc.utf8_ltrim(text, "+"), "0")
    digits = pc.replace_substring_regex(digits, r"^(-?)0+(\d)", r"\1\2")
    if bool(_mask(pc.match_substring_regex(digits, r"^-?\d{19}$")).any()):
        wide = pc.cast(digits, pa.decimal128(20, 0))
        big = Vector(wide.type, arrow=wide).values
        fits = np.asarray((big < 2**63) & (big >= -(2**63)), np.bool_)
        values = np.where(fits, big, 0).astype(np.int64)
        shaped = shaped & fits
    else:
        values = Vector(T.LONG, arrow=pc.cast(digits, T.LONG)).values
    narrow = values.astype(dtype)
    return narrow, ~shaped | (narrow != values)


def _floats(text: pa.Array, target: pa.DataType) -> tuple[Values, Mask]:
    shaped = _mask(pc.match_substring_regex(text, _FLOAT))
    special = _mask(pc.match_substring_regex(text, _SPECIAL)) if not shaped.all() else np.zeros(len(text), np.bool_)
    known = pc.if_else(pa.array(shaped | special), text, "0")
    known = (
        pc.utf8_rtrim(pc.ascii_lower(known), "d")
        if not special.any()
        else pc.replace_substring_regex(pc.ascii_lower(known), r"(\d|\.)[df]$", r"\1")
    )
    known = pc.utf8_ltrim(pc.replace_substring_regex(known, r"(\d|\.)f$", r"\1"), "+")
    values = Vector(target, arrow=pc.cast(known, target)).values
    return values + 0.0, ~(shaped | special)


def _booleans(text: pa.Array) -> tuple[Values, Mask]:
    lower = pc.ascii_lower(text)
    true = _mask(pc.is_in(lower, value_set=pa.array(_TRUE)))
    false = _mask(pc.is_in(lower, value_set=pa.array(_FALSE)))
    return true, ~(true | false)


def decimals_of(text: pa.Array, target: pa.DataType) -> tuple[Values, Mask]:
    """Unscaled values rounded half up, and where the text is not a decimal or has too many digits."""
    plain = _mask(pc.match_substring_regex(text, r"^[+-]?(\d{1,38}(\.\d{0,38})?|\.\d{1,38})$"))
    wide = pc.cast(pc.if_else(pa.array(plain), text, "0"), pa.decimal256(76, 38))
    bounded = (
        np.asarray([0 if v is None else int(v.scaleb(38, _EXACT)) for v in wide.to_pylist()], object)
        if len(text)
        else np.zeros(0, object)
    )
    values, bad = decimals.fit(decimals.rescale(bounded, 38, target.scale), target)
    if plain.all():
        return values, bad
    valid = np.asarray(text.is_valid())
    for row in np.flatnonzero(~plain & valid):
        values, bad = values.copy(), bad.copy()
        values[row], bad[row] = _unusual(text[int(row)].as_py(), target)
    return values, bad


def _unusual(text: str, target: pa.DataType) -> tuple[int, bool]:
    """A decimal with an exponent or very many digits."""
    try:
        if "_" in text:
            return 0, True
        value = Decimal(text)
        if not value.is_finite() or value.adjusted() > 40:
            return 0, True
        unscaled = int(value.scaleb(target.scale, _EXACT).quantize(Decimal(1), "ROUND_HALF_UP", _EXACT))
    except InvalidOperation:
        return 0, True
    return (0, True) if abs(unscaled) >= 10**target.precision else (unscaled, False)
