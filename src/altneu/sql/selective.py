"""Which rows a query asks for: what conditions imply of one part of a join, and how few of its rows they leave.

Sizes are not known when a query is bound, and change afterwards; what is written is. A condition that asks for one
value leaves few rows, and joins that begin there have small intermediate results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

from altneu.sql.scope import branches, columns_in, conjuncts

_TESTS = (exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between, exp.Like, exp.Is)
_PLAIN = (*_TESTS, exp.And, exp.Or, exp.Not, exp.Paren, exp.Column, exp.Identifier, exp.Literal, exp.Null, exp.Boolean)
_FEW, _FEWER, _ALL = range(3)


def implied(condition: exp.Expr, reads: Callable[[exp.Expr], bool]) -> exp.Expr | None:
    """What an OR says of one part, of which ``reads`` tells whether a tree reads nothing else; None: nothing.

    Every branch has to say something of it. Only tests that cannot fail are taken, as a branch may guard them by what
    it says of another part.
    """
    if not isinstance(condition, exp.Or):
        return None
    said = []
    for branch in branches(condition):
        mine = [c.copy() for c in conjuncts(branch) if columns_in(c) and reads(c) and _cannot_fail(c)]
        if not mine:
            return None
        said.append(exp.and_(*mine, copy=False))
    return exp.or_(*said, copy=False)


def _cannot_fail(tree: exp.Expr) -> bool:
    return all(isinstance(node, _PLAIN) for node in tree.walk())


def left_by(conditions: Iterable[exp.Expr]) -> int:
    """How many rows conditions leave, the fewer the less: those with some values, those within bounds, or all."""
    return min((_FEW if _asks_for_values(c) else _FEWER for c in conditions), default=_ALL)


def _asks_for_values(condition: exp.Expr) -> bool:
    condition = condition.unnest()
    if isinstance(condition, exp.Or | exp.And):
        found = [_asks_for_values(side) for side in (condition.this, condition.expression)]
        return all(found) if isinstance(condition, exp.Or) else any(found)
    if isinstance(condition, exp.EQ | exp.In | exp.NullSafeEQ):
        return isinstance(condition.this, exp.Column) or isinstance(condition.expression, exp.Column)
    return isinstance(condition, exp.Like) and isinstance(condition.this, exp.Column)
