"""Comparison: NaN equals NaN and is greatest, strings compare by their bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import nested
from altneu.expressions.coercion import comparable_type, is_decimal, is_nested, literal_decimal, wider_decimal
from altneu.expressions.registry import Typing, register
from altneu.expressions.rules import all_common, expect_count, takes
from altneu.expressions.vector import Failures, Mask, Values, Vector, both_valid, has_numpy, restrict

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr, Scope

GROUP = "Comparison"


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
    valid = both_valid(left.valid, right.valid)
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
        TypeMismatchError: they do not mix, or are maps.
    """
    found = comparable_type(left.type, right.type)
    if found is not None and is_decimal(found) and T.NULL not in (left.type, right.type):
        found = wider_decimal(literal_decimal(left), literal_decimal(right))
    if found is None:
        raise TypeMismatchError(
            f"`{left.text} {name} {right.text}`: {T.type_name(left.type)} and {T.type_name(right.type)} "
            "cannot be compared; cast one of them"
        )
    if contains_map(found):
        raise TypeMismatchError(f"`{left.text} {name} {right.text}`: maps cannot be compared")
    return found


def contains_map(data_type: pa.DataType) -> bool:
    """Whether a type has a map anywhere in it."""
    if pa.types.is_map(data_type):
        return True
    return is_nested(data_type) and any(contains_map(data_type.field(i).type) for i in range(data_type.num_fields))


def _rule(symbol: str, nullable: bool | None = None) -> Callable[[Sequence[Expr]], Typing]:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(symbol, args, 2)
        found = comparable(symbol, args[0], args[1])
        return Typing((found, found), T.BOOLEAN, nullable)

    return rule


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
    register(
        _symbol, *_aliases, rule=_rule(_symbol), style="lazy", group=GROUP, usage=f"a {_symbol} b", doc=_doc, infix=True
    )(_comparison(_symbol))


@register(
    "<=>",
    "equal_null",
    rule=_rule("<=>", False),
    style="vector",
    group=GROUP,
    usage="a <=> b",
    doc="Equal, or both null: never null itself.",
    infix=True,
)
def null_safe_equal(call: Call, count: int, left: Vector, right: Vector) -> Values:
    """Equal, or both null."""
    truth, valid = compare("=", left, right, count)
    if valid is None:
        return truth
    both_null = ~(_present(left, count) | _present(right, count))
    return (truth & valid) | both_null


def _present(vector: Vector, count: int) -> Mask:
    return np.ones(count, np.bool_) if vector.valid is None else vector.valid


@register(
    "isnull",
    rule=takes("isnull", None, returns=T.BOOLEAN, nullable=False),
    style="vector",
    group=GROUP,
    usage="a IS NULL, isnull(a)",
    doc="Whether it is null.",
    infix=True,
)
def is_null(call: Call, count: int, a: Vector) -> Values:
    """Whether it is null."""
    return ~_present(a, count)


@register(
    "isnotnull",
    rule=takes("isnotnull", None, returns=T.BOOLEAN, nullable=False),
    style="vector",
    group=GROUP,
    usage="a IS NOT NULL, isnotnull(a)",
    doc="Whether it is not null.",
    infix=True,
)
def is_not_null(call: Call, count: int, a: Vector) -> Values:
    """Whether it is not null."""
    return _present(a, count)


def _is_float(args: Sequence[Expr]) -> Typing:
    expect_count("isnan", args, 1)
    return Typing([args[0].type if args[0].type == T.FLOAT else T.DOUBLE], T.BOOLEAN, False)


@register(
    "isnan", rule=_is_float, style="vector", group=GROUP, usage="isnan(a)", doc="Whether it is NaN; false for null."
)
def is_nan(call: Call, count: int, a: Vector) -> Values:
    """Whether it is NaN."""
    return np.isnan(a.values) & _present(a, count)


def _in_rule(args: Sequence[Expr]) -> Typing:
    expect_count("IN", args, 2, 1_000_000)
    typing = all_common("IN", returns=T.BOOLEAN)(args)
    if typing.args[0] is not None and contains_map(typing.args[0]):
        raise TypeMismatchError(f"`{args[0].text} IN (…)`: maps cannot be compared")
    return typing


_FEW = 8


@register(
    "in",
    rule=_in_rule,
    style="lazy",
    group=GROUP,
    usage="a IN (b, c, …)",
    doc="Whether it equals one of them; null when it equals none and one is null.",
    infix=True,
)
def is_in(call: Call, scope: Scope) -> Vector:
    """Whether the first argument equals one of the others."""
    value = call.args[0].vector(scope)
    items = call.args[1:]
    if len(items) > _FEW and all(i.is_literal for i in items) and not is_nested(value.type) and value.type != T.NULL:
        return _in_set(value, [i.vector(scope) for i in items])
    vectors = [i.vector(scope) for i in items]
    constant = value.constant and all(v.constant for v in vectors)
    count = 1 if constant else scope.count
    found = np.zeros(count, np.bool_)
    unknown = ~_present(value, count)
    unknown = np.repeat(unknown, count) if len(unknown) != count else unknown
    reachable, failures = ~unknown, value.failures
    for item in vectors:
        if item.failures:
            failures = failures + restrict(item.failures, reachable & ~found)
        truth, valid = compare("=", value, item, count)
        found = found | (truth if valid is None else truth & valid)
        if item.valid is not None:
            unknown = unknown | ~item.valid
    return Vector(T.BOOLEAN, found, ~unknown | found if unknown.any() else None, failures=failures, constant=constant)


def _in_set(value: Vector, items: list[Vector]) -> Vector:
    known = [i.arrow for i in items if i.valid is None]
    value_set = pa.concat_arrays(known) if known else pa.array([], value.type)
    found = Vector(T.BOOLEAN, arrow=pc.is_in(value.arrow, value_set=value_set, skip_nulls=True)).values
    valid = value.valid
    if len(known) < len(items):
        valid = found if valid is None else valid & found
    return Vector(T.BOOLEAN, found, valid, failures=value.failures, constant=value.constant)


def _extreme(symbol: str) -> Callable[..., Any]:
    def kernel(call: Call, count: int, *vectors: Vector) -> Vector:
        from altneu.expressions.functions.conditional import choose

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

    return kernel


def _extreme_rule(name: str) -> Callable[[Sequence[Expr]], Typing]:
    def rule(args: Sequence[Expr]) -> Typing:
        typing = all_common(name, least=2)(args)
        return typing._replace(nullable=all(a.nullable for a in args))

    return rule


register(
    "greatest",
    rule=_extreme_rule("greatest"),
    style="vector",
    group=GROUP,
    usage="greatest(a, b, …)",
    doc="The greatest that is not null.",
)(_extreme(">"))
register(
    "least",
    rule=_extreme_rule("least"),
    style="vector",
    group=GROUP,
    usage="least(a, b, …)",
    doc="The least that is not null.",
)(_extreme("<"))
