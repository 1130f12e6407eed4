"""Parentheses in FROM and around queries: what is inside of them, and what of it they hide."""

from __future__ import annotations

from sqlglot import exp

FIELDS = "fields"
"""Under this name a SELECT's tree says that it stands for a FROM: names in it are those of its items."""


def opened(tree: exp.Expr) -> exp.Expr:
    """A query without the parentheses around it, unless something is said of them: a name, a join, a LIMIT."""
    while isinstance(tree, exp.Paren | exp.Subquery) and not any(v for k, v in tree.args.items() if k != "this"):
        tree = tree.this
    return tree


def holds_joins(item: exp.Expr) -> bool:
    """Whether an item of FROM is a relation in parentheses, and not a query: ``(a)``, ``(a JOIN b ON ...) AS c``."""
    inside = item.this if isinstance(item, exp.Subquery) else None
    if isinstance(inside, exp.Table):
        return True
    return isinstance(inside, exp.Subquery) and bool(
        inside.args.get("alias") or inside.args.get("joins") or holds_joins(inside)
    )


def unwrapped(item: exp.Expr) -> tuple[exp.Expr, list[exp.Join]]:
    """The first item of FROM without parentheses that give no name, and the joins that follow it inside of them.

    ``((a JOIN b ON x) JOIN c ON y) JOIN d`` is ``a JOIN b ON x JOIN c ON y JOIN d``: what stands first sees the same
    names in both, and conditions of WHERE may choose the order of all four.
    """
    joins = list(item.args.get("joins") or ())
    while holds_joins(item) and not item.args.get("alias"):
        item = item.this
        joins = [*(item.args.get("joins") or ()), *joins]
    return alone(item), joins


def alone(item: exp.Expr) -> exp.Expr:
    """An item of FROM without the joins that follow it."""
    if not item.args.get("joins"):
        return item
    made = item.copy()
    made.set("joins", None)
    return made


def as_query(item: exp.Expr) -> exp.Select | None:
    """What several items of FROM in parentheses, or joined before the rest is, are as a query of ``FIELDS``.

    None: the item is no such thing.
    """
    if item.args.get("joins"):
        inside = item
    elif holds_joins(item):
        inside = item.this
    else:
        return None
    made = exp.Select(expressions=[exp.Star()], from_=exp.From(this=inside.copy()))
    made.meta[FIELDS] = True
    return made


__all__ = ["FIELDS", "alone", "as_query", "holds_joins", "opened", "unwrapped"]
