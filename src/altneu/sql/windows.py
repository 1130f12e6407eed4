"""Window functions in a SELECT, and QUALIFY."""

from __future__ import annotations

from sqlglot import exp

from altneu.errors import PlanError
from altneu.sql.scope import Scope


def computed(tree: exp.Select, scope: Scope, items: list[exp.Expr]) -> tuple[Scope, list[exp.Expr]]:
    """The scope with the windows of a SELECT computed, and its items over that."""
    if tree.args.get("qualify") or any(item.find(exp.Window) for item in items):
        raise PlanError("not supported: window functions; use ORDER BY with LIMIT, or GROUP BY")
    return scope, items
