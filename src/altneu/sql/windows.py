"""Window functions in a SELECT, and QUALIFY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from altneu.collections.windowing import with_windows
from altneu.errors import PlanError
from altneu.expressions.window import WindowExpr, has_window, parse_window
from altneu.sql.scope import Scope, bound, fresh


def named(tree: exp.Select, item: exp.Expr) -> exp.Expr:
    """An expression in which names of the WINDOW clause are replaced by their windows.

    Raises:
        PlanError: the WINDOW clause does not define a name.
    """
    known: dict[str, exp.Window] = {}
    for window in tree.args.get("windows") or ():
        known[window.name.lower()] = _based(window, known)

    def visit(node: exp.Expr) -> exp.Expr:
        return _based(node, known) if isinstance(node, exp.Window) else node

    return item.copy().transform(visit, copy=False) if has_window(item) else item


def _based(window: exp.Window, known: Mapping[str, exp.Window]) -> exp.Window:
    """A window with the partitions, the order and the frame of the window that it names.

    Raises:
        PlanError: there is no window of this name, or both have the same clause.
    """
    if not window.alias:
        return window
    base = known.get(window.alias.lower())
    if base is None:
        raise PlanError(f"no window {window.alias!r}; WINDOW names {', '.join(known) or 'none'}")
    added = [name for name in ("partition_by", "order", "spec") if window.args.get(name)]
    wrong = [name for name in added if name == "partition_by" or base.args.get(name)]
    if not wrong and added and base.args.get("spec"):
        wrong = ["spec"]
    if wrong:
        clause = {"partition_by": "PARTITION BY", "order": "ORDER BY", "spec": "a frame"}[wrong[0]]
        raise PlanError(f"`{window.sql('spark')}`: {clause} may not be added to the window {window.alias!r}")
    copy = window.copy()
    copy.set("alias", None)
    for name in ("partition_by", "order", "spec"):
        value = base.args.get(name)
        if value:
            copy.set(name, [v.copy() for v in value] if isinstance(value, list) else value.copy())
    return copy


def computed(scope: Scope, items: Sequence[exp.Expr]) -> tuple[Scope, list[exp.Expr]]:
    """A scope with columns for those of some resolved expressions that have windows, and the expressions over that."""
    relation, results = scope.relation, list(items)
    places = [i for i, item in enumerate(items) if has_window(item)]
    if not places:
        return scope, results
    carried = list(dict.fromkeys(relation.carried.values()))
    schema = relation.node.schema
    expressions: list[tuple[str, WindowExpr]] = []
    for i in places:
        name = fresh(f"^{items[i].sql('spark')}", (*schema.names, *(n for n, _ in expressions)))
        expressions.append((name, parse_window(_partitioned(items[i], carried), schema)))
        results[i] = bound(name)
    node = with_windows(relation.node, expressions, schema.names)
    return Scope(relation.with_node(node), scope.around), results


def _partitioned(item: exp.Expr, carried: Sequence[str]) -> exp.Expr:
    """An expression whose windows are partitioned by row of the outer query."""
    if not carried:
        return item
    copy = item.copy()
    for window in copy.find_all(exp.Window):
        window.set("partition_by", [*(bound(c) for c in carried), *window.args.get("partition_by", [])])
    return copy
