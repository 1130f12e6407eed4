"""JSON read one text at a time with Python's ``json``: what ``parse_json`` is judged against."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.expressions import text_in
from altneu.linear.steps import JsonField

INVALID, WRONG = "INVALID_JSON", "JSON_TYPE"
SPACE = " \t\n\r"
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "+Infinity": math.inf, "INF": math.inf, "+INF": math.inf}


class WrongTypeError(Exception):
    """A value that a type cannot hold."""


def _refuse(name: str) -> None:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_int=str, parse_float=str)


def is_json(text: str) -> bool:
    try:
        _DECODER.decode(text)
    except ValueError:
        return False
    return True


def parse(text: str | None, fields: list[JsonField]) -> tuple[Any, ...] | str:
    """A value for each field, or the code of the failure."""
    if text is not None and not is_json(text):
        return INVALID
    try:
        return tuple(read(_walk(text, f.path), f.type, f.unit) for f in fields)
    except WrongTypeError:
        return WRONG


def _walk(text: str | None, path: tuple[str, ...]) -> str | None:
    for name in path:
        if _is_null(text):
            return None
        text = dict(members(text)).get(name)
    return text


def _is_null(text: str | None) -> bool:
    return text is None or text.strip(SPACE) == "null"


def _skip(text: str, at: int) -> int:
    while text[at] in SPACE:
        at += 1
    return at


def members(text: str) -> Iterator[tuple[str, str]]:
    """Names and the JSON of the members of an object, as it is written."""
    at = _skip(text, 0)
    if text[at] != "{":
        raise WrongTypeError
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        first = _skip(text, _skip(text, at) + 1)
        _, at = _DECODER.raw_decode(text, first)
        yield name, text[first:at]
        at = _skip(text, at)
        if text[at] == ",":
            at = _skip(text, at + 1)


def elements(text: str) -> Iterator[str]:
    """The JSON of the elements of an array."""
    at = _skip(text, 0)
    if text[at] != "[":
        raise WrongTypeError
    at = _skip(text, at + 1)
    while text[at] != "]":
        _, end = _DECODER.raw_decode(text, at)
        yield text[at:end]
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def read(text: str | None, kind: pa.DataType, unit: str) -> Any:
    """A value of a type; times as integers.

    Raises:
        WrongTypeError: there is none.
    """
    if _is_null(text):
        return None
    text = text.strip(SPACE)
    if pt.is_struct(kind):
        actual = dict(members(text))
        return {f.name: read(actual.get(f.name), f.type, unit) for f in kind}
    if pt.is_map(kind):
        actual = {}
        for name, value in members(text):
            actual[_text(name)] = value
        return [(name, read(value, kind.item_type, unit)) for name, value in sorted(actual.items())]
    if pt.is_list(kind):
        return [read(e, kind.value_type, unit) for e in elements(text)]
    return _read_flat(text, kind, unit)


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise WrongTypeError from None
    return value


def _check(good: object) -> None:
    if not good:
        raise WrongTypeError


def _read_flat(text: str, kind: pa.DataType, unit: str) -> Any:
    value = _DECODER.decode(text)
    is_string, is_number = text[0] == '"', text[0] in "-0123456789"
    if kind == T.STRING:
        return _text(value) if is_string else re.sub(r'("(?:[^"\\]|\\.)*")|[ \t\n\r]+', r"\1", text)
    if kind == T.BOOLEAN:
        _check(isinstance(value, bool))
        return value
    if kind == T.BINARY:
        _check(is_string)
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:
            raise WrongTypeError from None
    if pt.is_integer(kind):
        _check(is_number)
        return _whole(text, kind.bit_width)
    if pt.is_floating(kind):
        return _float(value, kind, is_number=is_number)
    if pt.is_decimal(kind):
        _check(is_number or is_string)
        return _decimal(value, kind)
    return _time(text, value, kind, unit)


def _whole(text: str, bits: int) -> int:
    _check(re.fullmatch("-?[0-9]{1,40}", text))
    _check(-(2 ** (bits - 1)) <= int(text) < 2 ** (bits - 1))
    return int(text)


def _float(value: str, kind: pa.DataType, *, is_number: bool) -> float:
    if not is_number:
        _check(isinstance(value, str) and value.removeprefix("-") in _WORDS and value not in ("-NaN", "-+INF"))
        _check(not value.startswith("-+"))
        return -_WORDS[value[1:]] if value.startswith("-") else _WORDS[value]
    result = float(value) if kind == T.DOUBLE else _nearest_float32(Fraction(Decimal(value)))
    _check(math.isfinite(result))
    return result + 0.0


def _nearest_float32(exact: Fraction) -> float:
    """The nearest number with 24 bits; of two as near, the even one."""
    if exact == 0:
        return 0.0
    size = abs(exact)
    power = size.numerator.bit_length() - size.denominator.bit_length()
    power = max(power if size >= Fraction(2) ** power else power - 1, -126) - 23
    result = round(size / Fraction(2) ** power) * Fraction(2) ** power
    if result >= 2**128:
        return math.inf
    return float(result) if exact > 0 else -float(result)


def _decimal(value: str, kind: pa.DataType) -> Decimal:
    _check(re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", value))
    wide = Context(prec=500)
    _check(Decimal(value).adjusted() <= 40)  # casts refuse even a zero that is written with more
    result = Decimal(value).quantize(Decimal(1).scaleb(-kind.scale), ROUND_HALF_UP, wide)
    _check(abs(result.scaleb(kind.scale, wide)) < 10**kind.precision)
    return result


def _time(text: str, value: str, kind: pa.DataType, unit: str) -> int:
    """Strings as a cast reads them."""
    if text[0] == '"':
        result, bad = text_in.parse_values(pa.array([_text(value)]), kind)
        _check(not bad[0])
        return int(result[0])
    if kind == T.DATE:
        _check(unit == "d")
        return _whole(text, 32)
    _check(unit in _PER_SECOND)
    return _whole(str(_whole(text, 64) * 1_000_000 // _PER_SECOND[unit]), 64)
