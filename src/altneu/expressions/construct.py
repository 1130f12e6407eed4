"""Typed expressions put together: constants, calls with their implicit casts, constant folding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import (
    SchemaError,
    TooWideError,
    TypeMismatchError,
    UnknownColumnError,
)
from altneu.expressions import collations, intervals, limits, registry
from altneu.expressions.expr import Call, Column, Expr, Literal, Scope
from altneu.expressions.registry import constant_value


def literal(value: Any, data_type: pa.DataType | None = None) -> Literal:
    """A constant expression from a Python value.

    >>> literal(5), literal(None, pa.string())
    (<5: int>, <CAST(NULL AS string): string>)

    Raises:
        TypeMismatchError: the value has no type here.
    """
    if data_type is None:
        if value is None:
            return Literal(None, T.NULL)
        if isinstance(value, bool):
            return Literal(value, T.BOOLEAN)
        if isinstance(value, int):
            return integer(value)
        if isinstance(value, Decimal):
            return Literal(value, decimal_type(value))
        try:
            data_type = T.normalise_type(pa.scalar(value).type)
        except (pa.ArrowInvalid, SchemaError) as error:
            raise TypeMismatchError(f"{value!r} has no SQL type: {error}") from None
    if pt.is_nested(data_type):
        raise TypeMismatchError(
            f"a constant of type {T.type_name(data_type)} is written as array(…), map(…) or struct(…)"
        )
    scalar = pa.scalar(value, data_type)
    if data_type in (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ, T.TIME, T.DAY_TIME):
        return Literal(scalar.value, data_type)
    return Literal(scalar.as_py(), data_type)


def integer(value: int) -> Literal:
    """A whole number in the least of int, bigint and decimal that holds it."""
    for kind, bits in ((T.INT, 31), (T.LONG, 63)):
        if -(1 << bits) <= value < 1 << bits:
            return Literal(value, kind)
    return Literal(Decimal(value), decimal_type(Decimal(value)))


def decimal_type(value: Decimal) -> pa.DataType:
    """The decimal type that a decimal constant has.

    >>> decimal_type(Decimal("1.50")), decimal_type(Decimal("0.01"))
    (Decimal128Type(decimal128(3, 2)), Decimal128Type(decimal128(2, 2)))

    Raises:
        TypeMismatchError: it is not finite, or has more than 38 digits.
    """
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise TypeMismatchError(f"a decimal must be a finite number, got {value}; float('{value}') is a double")
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > 38:
        raise TypeMismatchError(f"the number {value} has more than 38 digits")
    return pa.decimal128(precision, scale)


def cast(expr: Expr, data_type: pa.DataType, *, implicit: bool = True, name: str = "cast") -> Expr:
    """The expression cast to a type; itself when it has it already."""
    if expr.type == data_type and (implicit or name == "cast"):
        return expr
    if isinstance(expr, Literal) and expr.value is None:
        return Literal(None, data_type)
    if implicit and isinstance(expr, Literal) and (expr.type, data_type) == (T.INT, T.LONG):
        return Literal(expr.value, data_type, expr.text)
    if data_type == T.STRING and expr.type in (T.DAY_TIME, T.YEAR_MONTH):
        units = intervals.name_of_units(intervals.units_of(expr))
        if units != "DAY TO SECOND":
            return call("interval_text", [expr, Literal(units, T.STRING)])
    function = registry.function(name)
    typing = function.typing((expr, Literal(None, data_type)))
    result = folded(Call(function, (expr,), typing.type, bool(typing.nullable) or expr.nullable, implicit))
    return Literal(result.value, result.type, expr.text) if implicit and isinstance(result, Literal) else result


def call(name: str, args: Sequence[Expr]) -> Expr:
    """A function applied to arguments: checked, coerced, and folded when it is constant.

    Raises:
        UnsupportedFunctionError: altneu does not evaluate it.
        TypeMismatchError: the arguments do not fit.
    """
    function = registry.function(name)
    found = collations.searching(function.name, args)
    if found is not None:
        made = call(
            found.name,
            [call("rtrim", [a]) if i in found.trimmed and a.type == T.STRING else a for i, a in enumerate(found.args)],
        )
        return made if found.given is None else _with_strength(made, *found.given)
    given = args
    args, collation, passed = collations.compared(function.name, args)
    if collation is not None and passed is not None:
        return _with_strength(_chosen(function.name, args, collation), *passed)
    if collation is not None:
        args = [collation_key(a, collation) for a in args]
    typing = function.typing(args)
    coerced = tuple(a if t is None else cast(a, t) for a, t in zip(args, typing.args, strict=True))
    nullable = any(a.nullable for a in coerced) if typing.nullable is None else typing.nullable
    made = folded(Call(function, coerced, typing.type, nullable))
    if isinstance(made, Literal) and made.type in (T.DAY_TIME, T.YEAR_MONTH):
        made = intervals.Interval(made.value, made.type, intervals.units_of_call(function.name, coerced, made.type))
    if passed is None or passed == ("UTF8_BINARY", False):
        return made
    if collations.has_texts(made.type):
        return _with_strength(made, *passed)
    if pt.is_nested(made.type):
        raise collations.refused(function.name, given)
    return made


def may_be_null(expr: Expr, never: AbstractSet[str]) -> bool:
    """Whether an expression is null on some row, as far as its functions say, where some columns ``never`` are."""
    if isinstance(expr, Column):
        return expr.nullable and expr.name not in never
    if not isinstance(expr, Call) or not expr.nullable or not isinstance(expr.function, registry.Function):
        return expr.nullable
    args = [Column("", a.type, nullable=False) if a.nullable and not may_be_null(a, never) else a for a in expr.args]
    if expr.name in ("cast", "try_cast"):
        args.append(Literal(None, expr.type))
    nullable = expr.function.typing(args).nullable
    return any(a.nullable for a in args) if nullable is None else nullable


def _chosen(name: str, texts: Sequence[Expr], collation: str) -> Expr:
    """The greatest or the least of texts by a collation: of equal ones the first, as in Spark."""
    texts = [t for t in texts if t.type != T.NULL]
    if len(texts) == 1:
        return texts[0]
    places = range(len(texts)) if name == "least" else range(0, -len(texts), -1)
    numbered = [
        call(
            "case",
            [
                call("isnotnull", [text]),
                call(
                    "named_struct",
                    [
                        *(Literal("key", T.STRING), collation_key(text, collation)),
                        *(Literal("place", T.STRING), integer(place)),
                        *(Literal("text", T.STRING), text),
                    ],
                ),
            ],
        )
        for place, text in zip(places, texts, strict=True)
    ]
    return get_field(call(name, numbered), "text")


def _with_strength(text: Expr, collation: str, explicit: bool) -> Expr:
    """A text with a collation, explicitly or implicitly."""
    return call("collate" if explicit else "collated", [text, Literal(collation, T.STRING)])


def in_common_units(*values: Expr) -> list[Expr]:
    """Values of one type, which is to be that of one column: intervals with the units of all of them."""
    units = [intervals.units_of(v) for v in values]
    if len(set(units)) == 1 or values[0].type not in (T.DAY_TIME, T.YEAR_MONTH):
        return list(values)
    whole = intervals.name_of_units((min(first for first, _ in units), max(last for _, last in units)))
    return [call("interval_as", [v, Literal(whole, T.STRING)]) for v in values]


def collation_key(expr: Expr, collation: str) -> Expr:
    """The text by which a collation compares a text; the text itself where it is compared by its bytes."""
    if collation == "UTF8_BINARY" or expr.type == T.NULL:
        return expr
    return call("collation_key", [expr, Literal(collation, T.STRING)])


def with_collation(expr: Expr, collation: str | None) -> Expr:
    """A text with a collation that it has as a column has one."""
    if collation in (None, "UTF8_BINARY") or not collations.has_texts(expr.type):
        return expr
    return call("collated", [expr, Literal(collation, T.STRING)])


def key_of_order(expr: Expr) -> Expr:
    """What a key of an order or of groups is compared by: of a text with a collation its key."""
    collation = collations.collation_of(expr)
    return expr if collation is None else collation_key(collations.text_of(expr), collation)


_WIDE = Context(prec=80)  # Python's own context rounds to 28 digits


class _NoRows:
    count = 1


def folded(expr: Call) -> Expr:
    """A call of constants as its value, unless it fails or is of a nested type."""
    if not expr.function.fold or pt.is_nested(expr.type) or not all(a.is_literal for a in expr.args):
        return expr
    try:
        with np.errstate(all="ignore"), limits.bounded(limits.FOLDED_BYTES, alone=True):
            vector = expr.vector(Scope(_NoRows()))  # type: ignore[arg-type]
    except TooWideError:
        return expr
    if vector.failures:
        return expr
    value = constant_value(vector)
    if value is not None and pt.is_decimal128(expr.type):
        value = Decimal(value).scaleb(-expr.type.scale, _WIDE)
    return Literal(value, expr.type)


def decided(expr: Expr) -> Expr:
    """An expression of which what constants decide is decided: calls of them, and the branches of CASE.

    >>> from altneu.expressions import parse
    >>> from altneu import types as T
    >>> decided(parse("CASE WHEN 1 IN (1, 2) THEN k ELSE 0 END", T.parse_schema("k int")))
    <k: int>
    """
    if not isinstance(expr, Call):
        return expr
    args = [decided(arg) for arg in expr.args]
    if expr.name == "case":
        open_, branches, last = list[Expr](), args[: len(args) // 2 * 2], args[len(args) // 2 * 2 :]
        for test, value in zip(branches[::2], branches[1::2], strict=True):
            if not test.is_literal:
                open_ += [test, value]
            elif isinstance(test, Literal) and test.value:
                last = [value]
                break
        if not open_ and not last:
            return Literal(None, expr.type)
        if not open_ and last[0].type == expr.type:
            return last[0]
        if not open_:
            return expr
        args = [*open_, *last]
    nullable = expr.nullable or any(a.nullable for a in args)
    return folded(Call(expr.function, tuple(args), expr.type, nullable, expr.implicit))


def get_field(expr: Expr, name: str) -> Expr:
    """A field of a struct (of every struct, in an array), or the value at a key of a map."""
    if pt.is_map(expr.type):
        return call("[]", [expr, Literal(name, T.STRING)])
    inner = expr.type.value_type if pt.is_list(expr.type) else expr.type
    if not T.is_struct(inner):
        raise TypeMismatchError(f"`{expr.text}` is {T.type_name(expr.type)} and has no field {name!r}")
    matches = [f.name for f in inner if f.name == name] or [f.name for f in inner if f.name.lower() == name.lower()]
    if len(matches) != 1:
        raise UnknownColumnError(name, [f.name for f in inner], f"fields of `{expr.text}`")
    return call(".", [expr, Literal(matches[0], T.STRING)])


def number(text: str) -> Literal:
    """A number as written: int, bigint or decimal; a double when it has an exponent."""
    if re.fullmatch(r"\d+", text):
        return integer(int(text))
    if "e" in text.lower():
        return Literal(float(text), T.DOUBLE)
    return Literal(Decimal(text), decimal_type(Decimal(text)))
