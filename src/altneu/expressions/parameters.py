"""Parameters: constants whose values are given each time that an expression is evaluated.

An expression with parameters is typed, coerced and rewritten once, for all values: a parameter is a call that no rule
folds or looks into. ``with_values`` puts constants in their places, and folds what is constant then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from altneu.expressions.construct import cast, folded
from altneu.expressions.expr import Call, Expr, Literal, Scope
from altneu.expressions.vector import Vector

PARAMETER = "parameter"
"""The entry in the ``meta`` of a sqlglot literal that makes it a parameter, and says which one, of which type."""


@dataclass(frozen=True)
class _Parameter:
    """The function of a call that stands for a constant."""

    number: int
    style: str = "lazy"
    infix: bool = False
    right_first: bool = False
    fold: bool = False

    @property
    def name(self) -> str:
        return f"{PARAMETER} {self.number}"

    def can_fail(self, call: Call) -> bool:
        return False

    def can_grow(self, call: Call) -> bool:
        return False

    def render(self, call: Call, texts: list[str]) -> str:
        return marked(self.number)

    def evaluate(self, call: Call, scope: Scope) -> Vector:
        raise TypeError(f"{self.name} has no value")  # with_values comes first


def marked(number: int) -> str:
    """The text of a parameter, as descriptions of plans show it."""
    return f":{PARAMETER}{number}:"


def parameter(number: int, data_type: pa.DataType) -> Call:
    """A constant of a type that is not null and is given later."""
    return Call(_Parameter(number), (), data_type, False)


def with_values(expr: Expr, values: Sequence[Literal]) -> Expr:
    """An expression with constants, of the same types, for its parameters; itself if it has none.

    >>> from altneu import types as T
    >>> from altneu.expressions.construct import call
    >>> from altneu.expressions.expr import Column
    >>> test = call("=", [Column("k", T.LONG), parameter(0, T.INT)])
    >>> with_values(test, [Literal(7, T.INT)])
    <k = 7L: boolean>
    """
    if not isinstance(expr, Call):
        return expr
    if isinstance(expr.function, _Parameter):
        return values[expr.function.number]
    args = tuple(with_values(arg, values) for arg in expr.args)
    if all(new is old for new, old in zip(args, expr.args, strict=True)):
        return expr
    if expr.implicit:
        return cast(args[0], expr.type)
    return folded(Call(expr.function, args, expr.type, expr.nullable, expr.implicit))
