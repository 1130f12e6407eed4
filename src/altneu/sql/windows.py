"""Window functions in a SELECT, and QUALIFY."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from altneu.errors import PlanError
from altneu.expressions.window import WindowExpr, has_window, parse_window
from altneu.sql.scope import Scope, bound, fresh
from altneu.windowing import with_windows


def named(tree: exp.Select, item: exp.Expr) -> exp.Expr:
    """An expression with the windows of the WINDOW clause in the place of their names.

    Raises:
        PlanError: a name that is none of theirs.
    """
    known = {window.name.lower(): window for window in tree.args.get("windows") or ()}

    def visit(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Window) or not node.alias:
            return node
        found = known.get(node.alias.lower())
        if found is None:
            raise PlanError(f"no window {node.alias!r}; WINDOW names {', '.join(known) or 'none'}")
        made = found.copy()
        made.set("this", node.this)
        made.set("over", "OVER")
        return made

    return item.copy().transform(visit, copy=False) if has_window(item) else item


def computed(scope: Scope, items: Sequence[exp.Expr]) -> tuple[Scope, list[exp.Expr]]:
    """A scope with columns for those of some resolved expressions that have windows, and the expressions over that."""
    relation, made = scope.relation, list(items)
    places = [i for i, item in enumerate(items) if has_window(item)]
    if not places:
        return scope, made
    carried = list(dict.fromkeys(relation.carried.values()))
    schema = relation.node.schema
    expressions: list[tuple[str, WindowExpr]] = []
    for i in places:
        name = fresh(f"^{items[i].sql('spark')}", (*schema.names, *(n for n, _ in expressions)))
        expressions.append((name, parse_window(_apart(items[i], carried), schema)))
        made[i] = bound(name)
    node = with_windows(relation.node, expressions, schema.names)
    return Scope(relation.with_node(node), scope.around), made


def _apart(item: exp.Expr, carried: Sequence[str]) -> exp.Expr:
    """An expression whose windows are those of one row of the query around."""
    if not carried:
        return item
    made = item.copy()
    for window in made.find_all(exp.Window):
        window.set("partition_by", [*(bound(c) for c in carried), *window.args.get("partition_by", [])])
    return made
