"""Variants as JSON, as Spark prints them."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.columnar.python_values import date_text, timestamp_text
from altneu.expressions.documents import quoted
from altneu.expressions.each import RowFailure
from altneu.expressions.lists import explode, implode, implode_map
from altneu.expressions.text_out import to_text
from altneu.expressions.variants.binary import ARRAY, DEEPEST, OBJECT, Reader, Scalar, too_deep


def json_text(reader: Reader, at: int = 0) -> str:
    """A value as a document without blanks; moments are texts in UTC.

    >>> from altneu.expressions.variants.binary import encoded
    >>> json_text(Reader(*encoded([1, "a", None, 1.5e300 and True])))
    '[1,"a",null,true]'

    Raises:
        RowFailure: the bytes are no variant.
    """
    return "".join(_pieces(reader, at, 0))


def column_text(array: pa.Array) -> tuple[pa.Array, dict[int, RowFailure]]:
    """The documents of a column of variants, null for a null, and the rows whose bytes are none."""
    texts: list[str | None] = []
    failures: dict[int, RowFailure] = {}
    for row, value in enumerate(array.to_pylist()):
        text = None
        try:
            text = None if value is None else json_text(Reader(value["value"], value["metadata"]))
        except RowFailure as error:
            failures[row] = error
        texts.append(text)
    return pa.array(texts, T.STRING), failures


def spelled(array: pa.Array) -> tuple[pa.Array, dict[int, RowFailure]]:
    """The same values with the documents of the variants in them, and the rows that have bytes that are no variant."""
    kind = array.type
    if not T.contains(kind, T.VARIANT.equals):
        return array, {}
    if kind == T.VARIANT:
        return column_text(array)
    if pt.is_struct(kind):
        found = [spelled(part) for part in array.flatten()]
        failures = {row: error for _, errors in reversed(found) for row, error in errors.items()}
        names = [field.name for field in kind]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays([part for part, _ in found], names=names, mask=mask), failures
    lists = explode(array)
    is_map = pt.is_map(kind)
    parts, errors = spelled(lists.elements.field(1) if is_map else lists.elements)
    rows = lists.rows
    failures = {int(rows[at]): error for at, error in reversed(errors.items())}
    if is_map:
        of_texts = pa.map_(kind.key_type, parts.type)
        return implode_map(lists.lengths, lists.elements.field(0), parts, lists.valid, of_texts), failures
    return implode(lists.lengths, parts, lists.valid), failures


def _pieces(reader: Reader, at: int, depth: int) -> Iterator[str]:
    if depth > DEEPEST:
        raise too_deep()
    kind = reader.kind(at)
    if kind == OBJECT:
        yield "{"
        for number, (name, place) in enumerate(reader.members(at)):
            yield f"{',' if number else ''}{quoted(name)}:"
            yield from _pieces(reader, place, depth + 1)
        yield "}"
    elif kind == ARRAY:
        yield "["
        for number, place in enumerate(reader.elements(at)):
            if number:
                yield ","
            yield from _pieces(reader, place, depth + 1)
        yield "]"
    else:
        yield scalar_text(reader.scalar(at))


def scalar_text(it: Scalar) -> str:
    """A value that is neither an object nor an array, as a document."""
    kind, value = it
    if value is None:
        return "null"
    if kind == T.BOOLEAN:
        return "true" if value else "false"
    if kind == T.LONG:
        return str(value)
    if kind == Decimal:
        return f"{stripped(value):f}"
    if kind in (T.DOUBLE, T.FLOAT):
        text = _float_text(kind == T.FLOAT, value, math.copysign(1.0, value))
        return text if math.isfinite(value) else f'"{text}"'
    return quoted(value) if kind == T.STRING else f'"{_quoted_text(kind, value)}"'


def _quoted_text(kind: Any, value: Any) -> str:
    if kind == T.DATE:
        return date_text(value)
    if kind in (T.TIMESTAMP, T.TIMESTAMP_NTZ):
        return timestamp_text(value) + ("+00:00" if kind == T.TIMESTAMP else "")
    return b64encode(value).decode() if kind == T.BINARY else str(value)


@lru_cache(maxsize=4096)
def _float_text(single: bool, value: float, sign: float) -> str:  # noqa: ARG001 -- 0.0 and -0.0 are one key without it
    return str(to_text(pa.array([value], T.FLOAT if single else T.DOUBLE))[0].as_py())


def stripped(number: Decimal) -> Decimal:
    """A decimal without zeros at its end, with no exponent above zero.

    >>> stripped(Decimal("1.500")), stripped(Decimal("100")), stripped(Decimal("0.00"))
    (Decimal('1.5'), Decimal('100'), Decimal('0'))
    """
    sign, digits, exponent = number.as_tuple()
    left, scale = list(digits), -int(exponent)
    while scale > 0 and left[-1] == 0 and len(left) > 1:
        left.pop()
        scale -= 1
    return Decimal((sign, tuple(left), -scale)) if any(left) else Decimal(0)
