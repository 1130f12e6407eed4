"""AND, OR and NOT over three truth values; the right side is evaluated only where the left leaves it open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from altneu import types as T
from altneu.expressions.registry import Group
from altneu.expressions.vector import Mask, Values, Vector, restrict

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Scope

scalar = Group("Logic")


def _connect(call: Call, scope: Scope, decided: bool) -> Vector:
    """AND (``decided`` False) or OR (True): one side with that value settles the result."""
    left, right = call.args[0].vector(scope), call.args[1].vector(scope)
    a, b = left.values, right.values
    values = a | b if decided else a & b
    failures = left.failures
    if right.failures:
        left_open = ~_is(left, decided)
        failures = failures + restrict(right.failures, left_open)
    valid: Mask | None = None
    if left.valid is not None or right.valid is not None:
        settled = _is(left, decided) | _is(right, decided)
        valid = settled | (_known(left) & _known(right))
        values = np.where(settled, decided, values)
    return Vector(T.BOOLEAN, values, valid, failures=failures, constant=left.constant and right.constant)


def _is(vector: Vector, truth: bool) -> Mask:
    mask = vector.values if truth else ~vector.values
    return mask if vector.valid is None else mask & vector.valid


def _known(vector: Vector) -> Mask:
    return np.ones(len(vector), np.bool_) if vector.valid is None else vector.valid


@scalar("and(a boolean, b boolean) -> boolean", usage="a AND b", message_name="AND", infix=True)
def conjunction(call: Call, scope: Scope) -> Vector:
    """Whether both are true; b is not evaluated if a is false."""
    return _connect(call, scope, False)


@scalar("or(a boolean, b boolean) -> boolean", usage="a OR b", message_name="OR", infix=True)
def disjunction(call: Call, scope: Scope) -> Vector:
    """Whether at least one is true; b is not evaluated if a is true."""
    return _connect(call, scope, True)


@scalar("not(a boolean) -> boolean", "!", usage="NOT a, !a", message_name="NOT", infix=True)
def negation(a: Values) -> Values:
    """False for true, true for false."""
    return ~a
