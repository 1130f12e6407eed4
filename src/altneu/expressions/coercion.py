"""Type coercion: the implicit casts of Spark's ANSI mode."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError

if TYPE_CHECKING:
    from altneu.expressions.expr import Expr

INTEGRAL = (T.BYTE, T.SHORT, T.INT, T.LONG)
_PRECEDENCE = (*INTEGRAL, T.FLOAT, T.DOUBLE)
_INTEGRAL_DIGITS = {T.BYTE: 3, T.SHORT: 5, T.INT: 10, T.LONG: 20}
_DATETIME = (T.DATE, T.TIMESTAMP_NTZ, T.TIMESTAMP)
MAX_PRECISION = 38
_MIN_ADJUSTED_SCALE = 6


def is_decimal(data_type: pa.DataType) -> bool:
    """Whether a type is a decimal."""
    return bool(pt.is_decimal128(data_type))


def is_numeric(data_type: pa.DataType) -> bool:
    """Whether a type is a number."""
    return data_type in _PRECEDENCE or is_decimal(data_type)


def is_fractional(data_type: pa.DataType) -> bool:
    """Whether a type is float, double or decimal."""
    return data_type in (T.FLOAT, T.DOUBLE) or is_decimal(data_type)


def is_nested(data_type: pa.DataType) -> bool:
    """Whether a type is an array, a map or a struct."""
    return bool(pt.is_nested(data_type)) and data_type != T.VARIANT


def is_atomic(data_type: pa.DataType) -> bool:
    """Whether a type is neither nested nor void, nor a variant."""
    return not pt.is_nested(data_type) and data_type != T.NULL


def as_decimal(data_type: pa.DataType) -> pa.DataType:
    """The decimal that holds every value of an integral type; a decimal itself."""
    digits = _INTEGRAL_DIGITS.get(data_type)
    return data_type if digits is None else pa.decimal128(digits, 0)


def literal_decimal(expr: Expr) -> pa.DataType:
    """The decimal type of an operand: for an integral literal just wide enough for its value."""
    value = getattr(expr, "value", None)
    if value is not None and expr.type in INTEGRAL:
        return pa.decimal128(len(Decimal(value).as_tuple().digits), 0)
    return as_decimal(expr.type)


def adjusted(precision: int, scale: int) -> pa.DataType:
    """A decimal type cut to 38 digits, giving up scale (down to 6) before whole digits.

    >>> adjusted(40, 20)
    Decimal128Type(decimal128(38, 18))
    """
    if precision <= MAX_PRECISION:
        return pa.decimal128(precision, scale)
    whole = precision - scale
    return pa.decimal128(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, _MIN_ADJUSTED_SCALE)))


def wider_decimal(left: pa.DataType, right: pa.DataType) -> pa.DataType:
    """The decimal that holds the values of two, whole digits first when 38 are not enough."""
    scale = max(left.scale, right.scale)
    whole = max(left.precision - left.scale, right.precision - right.scale)
    if whole + scale <= MAX_PRECISION:
        return pa.decimal128(whole + scale, scale)
    return pa.decimal128(MAX_PRECISION, max(0, min(scale, MAX_PRECISION - whole)))


def wider(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """The type both are cast to where they meet without an operator's own rule; None when they do not mix.

    >>> wider(pa.int32(), pa.string()), wider(pa.int64(), pa.float32()), wider(pa.date32(), pa.int32())
    (DataType(int64), DataType(double), None)
    """
    if left == right:
        return left
    if T.NULL in (left, right):
        return right if left == T.NULL else left
    if T.VARIANT in (left, right):
        return T.VARIANT if T.STRING in (left, right) else None
    if T.STRING in (left, right):
        return _with_string(right if left == T.STRING else left)
    if left in _PRECEDENCE and right in _PRECEDENCE:
        widest = max(left, right, key=_PRECEDENCE.index)
        return T.DOUBLE if widest == T.FLOAT else widest
    if is_numeric(left) and is_numeric(right):
        if {left, right} & {T.FLOAT, T.DOUBLE}:
            return T.DOUBLE
        return wider_decimal(as_decimal(left), as_decimal(right))
    if left in _DATETIME and right in _DATETIME:
        return max(left, right, key=_DATETIME.index)
    return _wider_nested(left, right)


def _with_string(other: pa.DataType) -> pa.DataType | None:
    if other in INTEGRAL:
        return T.LONG
    if is_fractional(other):
        return T.DOUBLE
    if is_atomic(other) and other not in (T.DAY_TIME, T.YEAR_MONTH):
        return other
    return None


def comparable_type(left: pa.DataType, right: pa.DataType) -> pa.DataType | None:
    """``wider`` for comparison, in which the names of a struct's fields do not matter."""
    if pt.is_struct(left) and pt.is_struct(right):
        return _wider_nested(left, right, named=False)
    return wider(left, right)


def _wider_nested(left: pa.DataType, right: pa.DataType, *, named: bool = True) -> pa.DataType | None:
    if pt.is_list(left) and pt.is_list(right):
        element = wider(left.value_type, right.value_type)
        return None if element is None else T.list_type(element)
    if pt.is_map(left) and pt.is_map(right):
        key, item = wider(left.key_type, right.key_type), wider(left.item_type, right.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if pt.is_struct(left) and pt.is_struct(right) and left.num_fields == right.num_fields:
        fields = []
        for a, b in zip(left, right, strict=True):
            field_type = wider(a.type, b.type)
            if field_type is None or (named and a.name.lower() != b.name.lower()):
                return None
            fields.append(pa.field(a.name, field_type, a.nullable or b.nullable))
        return pa.struct(fields)
    return None


def common_type(types: Iterable[pa.DataType], what: str) -> pa.DataType:
    """The type that all are cast to.

    Raises:
        TypeMismatchError: some two do not mix.
    """
    types = list(types)
    # Strings go last: string meets int as bigint, and bigint then meets double, whatever their order
    ordered = sorted(types, key=lambda t: t == T.STRING)
    common = reduce(lambda a, b: None if a is None else wider(a, b), ordered, T.NULL)
    if common is None:
        raise TypeMismatchError(
            f"{what}: the types {', '.join(T.type_name(t) for t in types)} do not mix; cast them to one type"
        )
    return common


def can_implicitly_cast(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a function that wants ``target`` takes ``source``."""
    if source in (target, T.NULL):
        return True
    if is_numeric(source):
        if is_numeric(target):
            if source in INTEGRAL and target in INTEGRAL:
                return INTEGRAL.index(source) <= INTEGRAL.index(target)
            return not (is_fractional(source) and target in INTEGRAL) and not (source == T.DOUBLE and target == T.FLOAT)
        return target == T.STRING
    if source == T.STRING:
        return is_atomic(target) and target not in (T.DAY_TIME, T.YEAR_MONTH)
    if target == T.STRING:
        return is_atomic(source) or source == T.VARIANT
    if source in _DATETIME and target in _DATETIME:
        return True
    if pt.is_list(source) and pt.is_list(target):
        return can_implicitly_cast(source.value_type, target.value_type)
    return False


def arithmetic_type(symbol: str, left: Expr, right: Expr) -> tuple[pa.DataType, pa.DataType, pa.DataType]:
    """Operand types and result type of ``+ - * / %`` and ``div`` on numbers.

    Raises:
        TypeMismatchError: an operand is not a number.
    """
    met = wider(left.type, right.type)
    if met == T.NULL:
        met = T.DOUBLE if symbol == "/" else T.INT
    if met is None or not is_numeric(met):
        names = f"{T.type_name(left.type)} {symbol} {T.type_name(right.type)}"
        raise TypeMismatchError(
            f"`{left.text} {symbol} {right.text}`: {names} is not defined; cast the operands to numbers"
        )
    if is_decimal(met):
        a, b = _decimal_operands(left, right)
        return a, b, decimal_result(symbol, a, b)
    if symbol == "/":
        return T.DOUBLE, T.DOUBLE, T.DOUBLE
    if symbol == "div":
        if met not in INTEGRAL:
            raise TypeMismatchError(
                f"`{left.text} div {right.text}`: div takes whole numbers and decimals, not {T.type_name(met)}"
            )
        return T.LONG, T.LONG, T.LONG
    return met, met, met


def _decimal_operands(left: Expr, right: Expr) -> tuple[pa.DataType, pa.DataType]:
    a, b = left.type, right.type
    if T.NULL in (a, b):
        known = as_decimal(b if a == T.NULL else a)
        return known, known
    return literal_decimal(left), literal_decimal(right)


def decimal_result(symbol: str, a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """Spark's result type of arithmetic on two decimals."""
    whole = max(a.precision - a.scale, b.precision - b.scale)
    scale = max(a.scale, b.scale)
    if symbol in "+-":
        return adjusted(whole + scale + 1, scale)
    if symbol == "*":
        return adjusted(a.precision + b.precision + 1, a.scale + b.scale)
    if symbol == "/":
        scale = max(_MIN_ADJUSTED_SCALE, a.scale + b.precision + 1)
        return adjusted(a.precision - a.scale + b.scale + scale, scale)
    if symbol == "div":
        return T.LONG
    return adjusted(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def describe(types: Iterable[pa.DataType]) -> str:
    """Names of types, for messages."""
    return ", ".join(T.type_name(t) for t in types)
