"""Comparison: NaN equals NaN and is greatest, strings compare by their bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import nested
from altneu.expressions.coercion import (
    comparable_type,
    is_decimal,
    is_nested,
    literal_decimal,
    wider_decimal,
)
from altneu.expressions.functions.conditional import choose
from altneu.expressions.registry import Group
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Failures, Mask, Values, Vector, has_numpy, restrict

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr, Scope

scalar = Group("Comparison")


def less(a: Values, b: Values) -> Mask:
    """``a < b`` with NaN greatest."""
    result = np.asarray(a < b, np.bool_)
    if a.dtype.kind == "f":
        result = result | (np.isnan(b) & ~np.isnan(a))
    return result


def equal(a: Values, b: Values) -> Mask:
    """``a = b`` with NaN equal to itself."""
    result = np.asarray(a == b, np.bool_)
    if a.dtype.kind == "f":
        result = result | (np.isnan(a) & np.isnan(b))
    return result


_NUMPY: dict[str, Callable[[Values, Values], Mask]] = {
    "=": equal,
    "!=": lambda a, b: ~equal(a, b),
    "<": less,
    ">": lambda a, b: less(b, a),
    "<=": lambda a, b: ~less(b, a),
    ">=": lambda a, b: ~less(a, b),
}
_ARROW = {"=": pc.equal, "!=": pc.not_equal, "<": pc.less, ">": pc.greater, "<=": pc.less_equal, ">=": pc.greater_equal}


def compare(symbol: str, left: Vector, right: Vector, count: int) -> tuple[Mask, Mask | None]:
    """Truth and validity of a comparison of two vectors of one type."""
    valid, other = left.valid, right.valid
    if other is not None:
        valid = other if valid is None else valid & other
    if has_numpy(left.type):
        return _NUMPY[symbol](left.values, right.values), valid
    if is_nested(left.type):
        a, b = (v.expand(count).arrow for v in (left, right))
        return _NUMPY[symbol](*nested.ranks(a, b)), valid
    if left.type == T.NULL:
        return np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    a, b = (
        v.arrow[0] if v.constant and not both else v.arrow
        for v, both in ((left, right.constant), (right, left.constant))
    )
    result = _ARROW[symbol](a, b)
    return Vector(T.BOOLEAN, arrow=result).values, valid


def comparable(name: str, left: Expr, right: Expr) -> pa.DataType:
    """The type in which two expressions are compared.

    Raises:
        TypeMismatchError: they do not mix, or are maps or variants.
    """
    result = comparable_type(left.type, right.type)
    if result is not None and is_decimal(result) and T.NULL not in (left.type, right.type):
        result = wider_decimal(literal_decimal(left), literal_decimal(right))
    if result is None:
        raise TypeMismatchError(
            f"`{left.text} {name} {right.text}`: {T.type_name(left.type)} and {T.type_name(right.type)} "
            "cannot be compared; cast one of them"
        )
    if what := T.uncompared(result):
        raise TypeMismatchError(f"`{left.text} {name} {right.text}`: {what} cannot be compared")
    return result


def _rule(args: Arguments) -> Typing:
    result = comparable(args.name, args[0], args[1])
    return Typing((result, result), T.BOOLEAN)


def _null_safe_rule(args: Arguments) -> Typing:
    return _rule(args)._replace(nullable=False)


def _comparison(symbol: str) -> Callable[..., Vector]:
    def kernel(call: Call, scope: Scope) -> Vector:
        left, right = call.args[0].vector(scope), call.args[1].vector(scope)
        constant = left.constant and right.constant
        truth, valid = compare(symbol, left, right, 1 if constant else scope.count)
        if valid is not None:
            valid = np.broadcast_to(valid, truth.shape)  # of a constant null and values without a null
        failures: Failures = left.failures
        if right.failures:
            failures = failures + (right.failures if left.valid is None else restrict(right.failures, left.valid))
        return Vector(T.BOOLEAN, truth, valid, failures=failures, constant=constant)

    return kernel


for _symbol, _aliases, _doc in (
    ("=", ("==",), "Equal."),
    ("!=", ("<>",), "Not equal."),
    ("<", (), "Less."),
    ("<=", (), "Less or equal."),
    (">", (), "Greater."),
    (">=", (), "Greater or equal."),
):
    scalar(f"{_symbol}(a, b)", *_aliases, rule=_rule, usage=f"a {_symbol} b", doc=_doc, infix=True)(
        _comparison(_symbol)
    )


@scalar("<=>(a, b)", "equal_null", rule=_null_safe_rule, usage="a <=> b", infix=True)
def null_safe_equal(count: int, left: Vector, right: Vector) -> Values:
    """Equal, or both null; the result is never null."""
    truth, valid = compare("=", left, right, count)
    if valid is None:
        return truth
    both_null = ~(_present(left, count) | _present(right, count))
    return (truth & valid) | both_null


def _present(vector: Vector, count: int) -> Mask:
    return np.ones(count, np.bool_) if vector.valid is None else vector.valid


@scalar("isnull(a any) -> boolean!", usage="a IS NULL, isnull(a)", infix=True)
def is_null(count: int, a: Vector) -> Values:
    """Whether it is null."""
    return ~_present(a, count)


@scalar("isnotnull(a any) -> boolean!", usage="a IS NOT NULL, isnotnull(a)", infix=True)
def is_not_null(count: int, a: Vector) -> Values:
    """Whether it is not null."""
    return _present(a, count)


@scalar("isnan(a as double|float) -> boolean!")
def is_nan(count: int, a: Vector) -> Values:
    """Whether it is NaN; false for null."""
    return np.isnan(a.values) & _present(a, count)


def _in_rule(args: Arguments) -> Typing:
    result = args.common()
    if what := T.uncompared(result):
        raise TypeMismatchError(f"`{args[0].text} IN (…)`: {what} cannot be compared")
    return Typing([result] * len(args), T.BOOLEAN)


_FEW = 8


@scalar("in(a, b, …)", rule=_in_rule, message_name="IN", usage="a IN (b, c, …)", infix=True)
def is_in(call: Call, scope: Scope) -> Vector:
    """Whether a equals one of the values; null if it equals none of them and one is null."""
    value = call.args[0].vector(scope)
    items = call.args[1:]
    if len(items) > _FEW and all(i.is_literal for i in items) and not is_nested(value.type) and value.type != T.NULL:
        return _in_set(value, [i.vector(scope) for i in items])
    vectors = [i.vector(scope) for i in items]
    constant = value.constant and all(v.constant for v in vectors)
    count = 1 if constant else scope.count
    result = np.zeros(count, np.bool_)
    unknown = ~_present(value, count)
    unknown = np.repeat(unknown, count) if len(unknown) != count else unknown
    reachable, failures = ~unknown, value.failures
    for item in vectors:
        if item.failures:
            failures = failures + restrict(item.failures, reachable & ~result)
        truth, valid = compare("=", value, item, count)
        result = result | (truth if valid is None else truth & valid)
        if item.valid is not None:
            unknown = unknown | ~item.valid
    return Vector(T.BOOLEAN, result, ~unknown | result if unknown.any() else None, failures=failures, constant=constant)


def _in_set(value: Vector, items: list[Vector]) -> Vector:
    known = [i.arrow for i in items if i.valid is None]
    value_set = pa.concat_arrays(known) if known else pa.array([], value.type)
    result = Vector(T.BOOLEAN, arrow=pc.is_in(value.arrow, value_set=value_set, skip_nulls=True)).values
    valid = value.valid
    if len(known) < len(items):
        valid = result if valid is None else valid & result
    return Vector(T.BOOLEAN, result, valid, failures=value.failures, constant=value.constant)


def _extreme_rule(args: Arguments) -> Typing:
    result = args.common()
    if T.contains(result, T.VARIANT.equals):
        raise TypeMismatchError(f"{args.name}: variants cannot be compared")
    return Typing([result] * len(args), result, all(a.nullable for a in args))


@scalar("greatest(a, b, …)", rule=_extreme_rule)
def greatest(count: int, *vectors: Vector) -> Vector:
    """The greatest value that is not null."""
    return _extreme(">", count, vectors)


@scalar("least(a, b, …)", rule=_extreme_rule)
def least(count: int, *vectors: Vector) -> Vector:
    """The least value that is not null."""
    return _extreme("<", count, vectors)


def _extreme(symbol: str, count: int, vectors: Sequence[Vector]) -> Vector:
    best = vectors[0]
    for vector in vectors[1:]:
        truth, valid = compare(symbol, vector, best, count)
        better = truth if valid is None else truth & valid
        if best.valid is not None:
            better = better | ~best.valid
        if vector.valid is not None:
            better = better & vector.valid
        best = choose(better, vector, best, count)
    constant = all(v.constant for v in vectors)
    return Vector(best.type, arrow=best.arrow, constant=True) if constant else best
