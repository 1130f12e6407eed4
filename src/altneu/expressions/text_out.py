"""Values as text, as Spark and Java print them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.columnar.python_values import date_text, timestamp_text
from altneu.expressions.lists import explode, implode
from altneu.expressions.literals import day_time_text, time_text
from altneu.expressions.vector import Values, Vector

_FAR_DATE = 2_932_897  # 10000-01-01
_FIRST_DATE = -719_528  # 0000-01-01


def to_text(array: pa.Array) -> pa.Array:
    """The text of every value.

    >>> to_text(pa.array([1.0, 1e10, 1e-5, float("nan"), None])).to_pylist()
    ['1.0', '1.0E10', '1.0E-5', 'NaN', None]
    >>> to_text(pa.array([[1, None], [], None])).to_pylist()
    ['[1, null]', '[]', None]
    """
    kind = array.type
    if kind == T.STRING:
        return array
    if kind == T.NULL:
        return pa.nulls(len(array), T.STRING)
    if kind in (T.FLOAT, T.DOUBLE):
        return _floats(array)
    if pt.is_decimal128(kind):
        return _decimals(array)
    if kind == T.DATE:
        return _dates(array)
    if kind in (T.TIMESTAMP, T.TIMESTAMP_NTZ):
        return _timestamps(array)
    if kind == T.BINARY:
        return _binary(array)
    if kind == T.TIME:
        return _by_distinct(array, time_text)
    if kind == T.DAY_TIME:
        return _by_distinct(array, lambda v: f"INTERVAL '{_trim_zeros(day_time_text(v))}' DAY TO SECOND")
    if pt.is_nested(kind):
        return _nested(array)
    return pc.cast(array, T.STRING)


def _trim_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def shortest(array: pa.Array) -> pa.Array:
    """Shortest digits that read back as the same float, in any notation."""
    return pc.cast(array, T.STRING)


def _floats(array: pa.Array) -> pa.Array:
    """Java's notation: plain from 1e-3 up to 1e7 with a digit after the point, scientific with ``E`` elsewhere."""
    text = pc.cast(array, T.STRING)
    values = np.nan_to_num(array.to_numpy(zero_copy_only=False), nan=0.0)
    size = np.abs(values)
    plain = (size >= 1e-3) & (size < 1e7) | (size == 0)
    dotted = pc.if_else(pc.match_substring(text, "."), text, pc.binary_join_element_wise(text, ".0", ""))
    if plain.all() and not pc.any(pc.is_nan(array)).as_py():
        return dotted
    result = pc.if_else(pa.array(plain), dotted, _scientific(text))
    for value, name in ((np.inf, "Infinity"), (-np.inf, "-Infinity")):
        result = pc.if_else(pc.equal(array, value), name, result)
    return pc.if_else(pc.is_nan(array), "NaN", result)


_PARTS = r"^(?P<sign>-?)(?P<whole>\d+)(?:\.(?P<fraction>\d+))?(?:e(?P<exponent>[+-]?\d+))?$"


def _scientific(text: pa.Array) -> pa.Array:
    parts = pc.extract_regex(text, _PARTS)
    sign, whole, fraction, exponent = (parts.field(i) for i in range(4))
    digits = pc.binary_join_element_wise(whole, fraction, "")
    stripped = pc.utf8_ltrim(digits, "0")
    leading = np.asarray(pc.subtract(pc.utf8_length(digits), pc.utf8_length(stripped)).fill_null(0))
    moved = pc.cast(pc.if_else(pc.equal(exponent, ""), "0", pc.utf8_ltrim(exponent, "+")), T.INT)
    power = np.asarray(moved.fill_null(0)) + np.asarray(pc.utf8_length(whole).fill_null(0)) - 1 - leading
    head = pc.utf8_slice_codeunits(stripped, 0, 1)
    tail = pc.utf8_rtrim(pc.utf8_slice_codeunits(stripped, 1), "0")
    tail = pc.if_else(pc.equal(tail, ""), "0", tail)
    return pc.binary_join_element_wise(sign, head, ".", tail, "E", pc.cast(pa.array(power), T.STRING), "")


def _decimals(array: pa.Array) -> pa.Array:
    """Always plain notation with every digit of the scale."""
    scale = array.type.scale
    if scale <= 6:
        return pc.cast(array, T.STRING)
    text = pc.cast(pc.cast(array, pa.decimal256(76, scale)), T.STRING)
    if not pc.any(pc.match_substring(text, "E")).as_py():
        return text
    vector = Vector(array.type, arrow=array)
    unscaled = pa.array([str(abs(int(v))).rjust(scale + 1, "0") for v in vector.values])
    sign = pc.if_else(pa.array(np.asarray(vector.values < 0, np.bool_)), "-", "")
    whole, fraction = pc.utf8_slice_codeunits(unscaled, 0, -scale), pc.utf8_slice_codeunits(unscaled, -scale)
    plain = pc.binary_join_element_wise(sign, whole, ".", fraction, "")
    return pc.if_else(pc.match_substring(text, "E"), plain, text)


def _dates(array: pa.Array) -> pa.Array:
    days = array.cast(T.INT)
    if _all_within(days, _FIRST_DATE, _FAR_DATE):
        return pc.cast(array, T.STRING)
    return _by_distinct(array, date_text)


def _timestamps(array: pa.Array) -> pa.Array:
    micros = array.cast(T.LONG)
    if not _all_within(micros, _FIRST_DATE * 86_400_000_000, _FAR_DATE * 86_400_000_000):
        return _by_distinct(array, timestamp_text)
    text = pc.cast(micros.cast(T.TIMESTAMP_NTZ), T.STRING)
    return pc.replace_substring_regex(pc.replace_substring_regex(text, r"\.0+$", ""), r"(\.\d*[1-9])0+$", r"\1")


def _all_within(numbers: pa.Array, low: int, high: int) -> bool:
    bounds = pc.min_max(numbers)
    least, most = bounds["min"].as_py(), bounds["max"].as_py()
    return least is None or (least >= low and most < high)


def _by_distinct(array: pa.Array, text: Any) -> pa.Array:
    """Values that Arrow does not print as Spark does, one call per distinct value."""
    integers = array.cast(T.INT if array.type == T.DATE else T.LONG).dictionary_encode()
    words = pa.array([text(v) for v in integers.dictionary.to_pylist()], T.STRING)
    return words.take(integers.indices)


def _binary(array: pa.Array) -> pa.Array:
    """Bytes read as UTF-8; invalid bytes become the replacement character."""
    try:
        return pc.cast(array, T.STRING)
    except pa.ArrowInvalid:
        encoded = array.dictionary_encode()
        words = pa.array([v.decode("utf-8", "replace") for v in encoded.dictionary.to_pylist()], T.STRING)
        return words.take(encoded.indices)


def _nested(array: pa.Array) -> pa.Array:
    """Arrays, maps and structs: ``[1, null]``, ``{a -> 1}``, ``{1, x}``."""
    if pt.is_struct(array.type):
        fields = [_element_text(child) for child in array.flatten()]
        body = pc.binary_join_element_wise(*fields, ", ") if fields else pa.repeat("", len(array))
        return _wrapped("{", body, "}", np.asarray(array.is_valid()))
    lists = explode(array)
    if pt.is_map(array.type):
        keys, items = (_element_text(lists.elements.field(i)) for i in (0, 1))
        elements, brackets = pc.binary_join_element_wise(keys, items, " -> "), ("{", "}")
    else:
        elements, brackets = _element_text(lists.elements), ("[", "]")
    body = pc.binary_join(implode(lists.lengths, elements, None), ", ")
    return _wrapped(brackets[0], body, brackets[1], np.asarray(array.is_valid()))


def _element_text(array: pa.Array) -> pa.Array:
    return pc.fill_null(to_text(array), "null")


def _wrapped(start: str, body: pa.Array, end: str, valid: Values) -> pa.Array:
    return pc.if_else(pa.array(valid), pc.binary_join_element_wise(start, body, end, ""), None)
