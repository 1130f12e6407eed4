"""Window functions in a SELECT, and QUALIFY."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from altneu.collections.windowing import with_windows
from altneu.errors import PlanError
from altneu.expressions.window import WindowExpr, has_window, parse_window
from altneu.sql.scope import Scope, bound, fresh


def named(tree: exp.Select, item: exp.Expr) -> exp.Expr:
    """An expression with the windows of the WINDOW clause in the place of their names.

    Raises:
        PlanError: a name that is none of theirs.
    """
    known: dict[str, exp.Window] = {}
    for window in tree.args.get("windows") or ():
        known[window.name.lower()] = _based(window, known)

    def visit(node: exp.Expr) -> exp.Expr:
        return _based(node, known) if isinstance(node, exp.Window) else node

    return item.copy().transform(visit, copy=False) if has_window(item) else item


def _based(window: exp.Window, known: Mapping[str, exp.Window]) -> exp.Window:
    """A window with what the one that it names says: its partitions, and its order unless it has none.

    Raises:
        PlanError: there is no window of this name, or both say the same thing.
    """
    if not window.alias:
        return window
    found = known.get(window.alias.lower())
    if found is None:
        raise PlanError(f"no window {window.alias!r}; WINDOW names {', '.join(known) or 'none'}")
    added = [name for name in ("partition_by", "order", "spec") if window.args.get(name)]
    wrong = [name for name in added if name == "partition_by" or found.args.get(name)]
    if not wrong and added and found.args.get("spec"):
        wrong = ["spec"]
    if wrong:
        said = {"partition_by": "PARTITION BY", "order": "ORDER BY", "spec": "a frame"}[wrong[0]]
        raise PlanError(f"`{window.sql('spark')}`: {said} may not be added to the window {window.alias!r}")
    made = window.copy()
    made.set("alias", None)
    for name in ("partition_by", "order", "spec"):
        value = found.args.get(name)
        if value:
            made.set(name, [v.copy() for v in value] if isinstance(value, list) else value.copy())
    return made


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
