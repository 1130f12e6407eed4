"""The values that a predicate requires of a column: of ``=``, ``<=>``, ``IN``, ``IS NULL``, and of OR of these."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.columnar.canonical import canonical
from altneu.expressions.expr import Call, Expr, Literal
from altneu.expressions.vector import constant_vector

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EXACT_IN_DOUBLE = 32  # bits of whole numbers that a double distinguishes


def required_values(predicate: Expr) -> tuple[str, pa.Array] | None:
    """A column, and values of which it has one on every row on which a predicate is true; None if none are known.

    Shape:  canonical values of the column's type, of which some may be equal; null is a value like the others.

    >>> from altneu.expressions.parse import parse
    >>> schema = T.parse_schema("a int, b string")
    >>> [
    ...     (name, values.to_pylist())
    ...     for name, values in [required_values(parse("a = 5L OR a IN (6, NULL)", schema))]
    ... ]
    [('a', [5, 6])]
    >>> required_values(parse("a = 5 OR b = 'x'", schema)), required_values(parse("a > 5", schema))
    (None, None)
    """
    if predicate.is_column and predicate.type == T.BOOLEAN:
        return predicate.column_name, pa.array([True])
    if not isinstance(predicate, Call):
        return None
    match predicate.name, predicate.args:
        case "=", (a, b):
            return _among(a, [b]) or _among(b, [a])
        case "<=>", (a, b):
            return _among(a, [b], null=True) or _among(b, [a], null=True)
        case "in", (value, *items):
            return _among(value, items)
        case "isnull", (value,):
            return (value.column_name, pa.nulls(1, value.type)) if value.is_column else None
        case "not", (value,):
            known = required_values(value) if value.is_column else None
            return None if known is None else (known[0], pa.array([False]))
        case "or", (a, b):
            return _either(required_values(a), required_values(b))
    return None


def _either(a: tuple[str, pa.Array] | None, b: tuple[str, pa.Array] | None) -> tuple[str, pa.Array] | None:
    if a is None or b is None or a[0] != b[0]:
        return None
    return a[0], pa.concat_arrays([a[1], b[1]])


def _among(value: Expr, items: Iterable[Expr], *, null: bool = False) -> tuple[str, pa.Array] | None:
    """The column that a value is, or is cast from, and the values of it that are equal to one of some literals."""
    column = value
    if isinstance(value, Call) and value.name == "cast" and _distinguishes(value.args[0].type, value.type):
        column = value.args[0]
    if not column.is_column:
        return None
    parts = [pa.array([], column.type)]
    for item in items:
        if not isinstance(item, Literal) or item.type != value.type:
            return None
        if item.nullable:
            parts += [pa.nulls(1, column.type)] if null else []
        elif column is value:
            parts.append(canonical(constant_vector(item.value, item.type).arrow))
        else:
            parts.append(_cast_back(item, column.type))
    return column.column_name, pa.concat_arrays(parts)


def _distinguishes(before: pa.DataType, after: pa.DataType) -> bool:
    """Whether a cast gives different values for different values; one that fails or gives null gives no value."""
    if pa.types.is_signed_integer(before):
        if pa.types.is_signed_integer(after):
            return bool(before.bit_width <= after.bit_width)
        return pa.types.is_decimal(after) or (pa.types.is_float64(after) and before.bit_width <= _EXACT_IN_DOUBLE)
    return pa.types.is_float32(before) and pa.types.is_float64(after)


def _cast_back(item: Literal, before: pa.DataType) -> pa.Array:
    """The value whose cast is a literal, if there is one."""
    value = item.value
    if pa.types.is_float32(before):
        with np.errstate(over="ignore"):
            narrow = np.float32(value)
        return canonical(pa.array([narrow] if narrow == value or np.isnan(value) else [], before))
    if isinstance(value, float) and not value.is_integer():
        return pa.array([], before)
    if isinstance(value, Decimal) and value != value.to_integral_value():
        return pa.array([], before)
    bound = 1 << (before.bit_width - 1)
    return pa.array([int(value)] if -bound <= value < bound else [], before)


def required_bound(predicate: Expr) -> tuple[str, str, pa.Array] | None:
    """A column, a comparison and the value with which every row compares so on which a predicate is true; or None.

    >>> from altneu.expressions.parse import parse
    >>> schema = T.parse_schema("a int, b string")
    >>> [
    ...     required_bound(parse(text, schema)) is not None
    ...     for text in ("a > 5", "5 >= a", "b < 'x'", "a > 5L", "a = 5")
    ... ]
    [True, True, True, False, False]
    """
    if not isinstance(predicate, Call) or predicate.name not in _TURNED:
        return None
    (left, right), name = predicate.args, predicate.name
    if right.is_column:
        left, right, name = right, left, _TURNED[name]
    if not left.is_column or not isinstance(right, Literal) or right.nullable or right.type != left.type:
        return None
    return left.column_name, name, canonical(constant_vector(right.value, right.type).arrow)
