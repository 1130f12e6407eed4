"""How selective conditions are: what they imply about one part of a join, and how few of its rows they select.

Sizes are not known when a query is bound, and change afterwards; what is written is. A condition on one
value selects few rows, and joins that begin there have small intermediate results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

from altneu.sql.scope import branches, columns_in, conjuncts

_TESTS = (exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like, exp.Is)
_PLAIN = (*_TESTS, exp.And, exp.Or, exp.Not, exp.Paren, exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean)
_FEW, _FEWER, _ALL = range(3)


def implied(condition: exp.Expr, reads: Callable[[exp.Expr], bool]) -> exp.Expr | None:
    """The condition that an OR implies about one part, or None; ``reads``: whether a tree reads this part alone.

    Every branch must have a condition on it. Only tests that cannot fail are taken, as a branch may guard them by a
    condition on another part.
    """
    if not isinstance(condition, exp.Or):
        return None
    parts = []
    for branch in branches(condition):
        mine = [c.copy() for c in conjuncts(branch) if columns_in(c) and reads(c) and _cannot_fail(c)]
        if not mine:
            return None
        parts.append(exp.and_(*mine, copy=False))
    return exp.or_(*parts, copy=False)


def _cannot_fail(tree: exp.Expr) -> bool:
    return all(isinstance(node, _PLAIN) for node in tree.walk())


def left_by(conditions: Iterable[exp.Expr]) -> int:
    """A rank of how many rows conditions select, least first: those with some values, those within bounds, or all."""
    return min((_FEW if _tests_values(c) else _FEWER for c in conditions), default=_ALL)


def _tests_values(condition: exp.Expr) -> bool:
    condition = condition.unnest()
    if isinstance(condition, exp.Or | exp.And):
        sides = [_tests_values(side) for side in (condition.this, condition.expression)]
        return all(sides) if isinstance(condition, exp.Or) else any(sides)
    if isinstance(condition, exp.EQ | exp.In | exp.NullSafeEQ):
        return isinstance(condition.this, exp.Column) or isinstance(condition.expression, exp.Column)
    return isinstance(condition, exp.Like) and isinstance(condition.this, exp.Column)
