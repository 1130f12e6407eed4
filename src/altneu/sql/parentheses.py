"""Parentheses in FROM and around queries: their contents, and the names that they hide."""

from __future__ import annotations

from sqlglot import exp

FIELDS = "fields"
"""The key of a SELECT tree's ``meta`` for one that stands for a FROM: names in it are those of its items."""


def opened(tree: exp.Expr) -> exp.Expr:
    """A query without its parentheses, unless they have a name, a join or a LIMIT."""
    while isinstance(tree, exp.Paren | exp.Subquery) and not any(v for k, v in tree.args.items() if k != "this"):
        tree = tree.this
    return tree


def is_parenthesised(item: exp.Expr) -> bool:
    """Whether an item of FROM is a relation in parentheses, and not a query: ``(a)``, ``(a JOIN b ON ...) AS c``."""
    inside = item.this if isinstance(item, exp.Subquery) else None
    if isinstance(inside, exp.Table):
        return True
    return isinstance(inside, exp.Subquery) and bool(
        inside.args.get("alias") or inside.args.get("joins") or is_parenthesised(inside)
    )


def unwrapped(item: exp.Expr) -> tuple[exp.Expr, list[exp.Join]]:
    """The first item of FROM without parentheses that give no name, and the joins that follow it inside of them.

    ``((a JOIN b ON x) JOIN c ON y) JOIN d`` is ``a JOIN b ON x JOIN c ON y JOIN d``: what stands first sees the same
    names in both, and conditions of WHERE may choose the order of all four.
    """
    joins = list(item.args.get("joins") or ())
    while is_parenthesised(item) and not item.args.get("alias") and not item.args.get("pivots"):
        item = item.this
        joins = [*(item.args.get("joins") or ()), *joins]
    return alone(item), joins


def alone(item: exp.Expr) -> exp.Expr:
    """An item of FROM without the joins that follow it."""
    if not item.args.get("joins"):
        return item
    copy = item.copy()
    copy.set("joins", None)
    return copy


def as_query(item: exp.Expr) -> exp.Select | None:
    """Items of FROM in parentheses, or joined before the rest, as a query of ``FIELDS``; None for other items."""
    if item.args.get("joins"):
        inside = item
    elif is_parenthesised(item):
        inside = item.this
    else:
        return None
    query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=inside.copy()))
    query.meta[FIELDS] = True
    return query


__all__ = ["FIELDS", "alone", "as_query", "is_parenthesised", "opened", "unwrapped"]
