"""What a syntax tree contains: subqueries, aggregates, the names of its outputs. Names are not resolved here."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from altneu.expressions.names import AGGREGATES

AROUND_CALL = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)
"""Nodes that may wrap the call of an aggregate and belong to it."""


def is_subquery(node: exp.Expr) -> bool:
    """Whether a node of an expression contains a query."""
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    if isinstance(node, exp.Any | exp.All):  # those of LIKE have patterns
        return not isinstance(node.parent, exp.Like | exp.ILike)
    return isinstance(node, exp.Subquery | exp.Exists)


def has_subquery(tree: exp.Expr) -> bool:
    """Whether there is a query anywhere in an expression."""
    return any(is_subquery(node) for node in tree.walk())


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call of an aggregate, with its FILTER or WITHIN GROUP if it has one."""
    while isinstance(node, AROUND_CALL):
        node = node.this
    return isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES


def has_aggregate(tree: exp.Expr) -> bool:
    """Whether an expression aggregates rows of its own query: not in a subquery of it, and not over a window."""
    found = False

    def visit(node: exp.Expr) -> exp.Expr:
        nonlocal found
        if isinstance(node, exp.In) and is_subquery(node):
            found = found or has_aggregate(node.this)
        elif isinstance(node, exp.Window):
            found = found or has_aggregate(_opened(node))
        if is_subquery(node) or isinstance(node, exp.Window):
            return exp.Null()
        found = found or is_aggregate(node)
        return node

    tree.copy().transform(visit, copy=False)
    return found


def _opened(window: exp.Window) -> exp.Expr:
    """What a window call is computed from: its arguments, its partitions and its order."""
    call = window.this
    while isinstance(call, AROUND_CALL):
        call = call.this
    order = window.args.get("order")
    keys = [key.this for key in order.expressions] if order else []
    return exp.Tuple(expressions=[*call.args.get("expressions", []), *window.args.get("partition_by", []), *keys])


def with_collation_keys(tree: exp.Select) -> exp.Select:
    """A SELECT whose keys of order, of groups and of joins are what collations compare by, where one is written.

    Joins take equalities apart before their sides have types.
    """
    for equality in list(tree.find_all(exp.EQ, exp.NullSafeEQ)):
        sides = equality.this.unnest(), equality.expression.unnest()
        names = {side.expressions[1].name for side in sides if _is_collated(side)}
        if len(names) == 1:
            name = exp.Literal.string(names.pop())
            texts = [s.expressions[0] if _is_collated(s) else s for s in sides]
            keys = [exp.Anonymous(this="collation_key", expressions=[t.copy(), name.copy()]) for t in texts]
            equality.set("this", keys[0])
            equality.set("expression", keys[1])
    for test in list(tree.find_all(exp.In)):
        query, side = test.args.get("query"), test.this.unnest()
        if query is not None and _is_collated(side):
            text, name = side.expressions
            key = exp.Anonymous(this="collation_key", expressions=[exp.column(_TEXT, quoted=True), name.copy()])
            alias = exp.TableAlias(this=exp.to_identifier(_TEXT), columns=[exp.to_identifier(_TEXT, quoted=True)])
            inner = exp.Subquery(this=query.unnest().copy(), alias=alias)
            test.set("this", exp.Anonymous(this="collation_key", expressions=[text.copy(), name.copy()]))
            test.set("query", exp.Subquery(this=exp.Select(expressions=[key], from_=exp.From(this=inner))))
    for call in tree.find_all(exp.Anonymous):
        above = call.parent
        while isinstance(above, exp.Paren | exp.Tuple):
            above = above.parent
        if _is_collated(call) and isinstance(above, exp.Ordered):
            call.set("this", "collation_key")
    return tree


_TEXT = "^text"  # the name of the column of a query whose texts a collation compares


def _is_collated(tree: exp.Expr) -> bool:
    """Whether it is a text with the collation that it is written with."""
    called = isinstance(tree, exp.Anonymous) and tree.name.lower() == "collate" and len(tree.expressions) == 2
    return called and isinstance(tree.expressions[1], exp.Literal)


def unaliased(
    tree: exp.Expr, items: Sequence[tuple[str, exp.Expr]], is_column: Callable[[exp.Column], bool]
) -> exp.Expr:
    """An expression in which aliases are replaced by their items, where no column has that name.

    Names inside an aggregate or a subquery are always columns.
    """
    known = {name.lower(): item for name, item in reversed(items)}

    def visit(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.In) and is_subquery(node):
            return exp.In(this=unaliased(node.this, items, is_column), query=node.args["query"].copy())
        if is_subquery(node) or is_aggregate(node):
            return node.copy()
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in known and not is_column(node):
            return exp.Paren(this=known[node.name.lower()].copy())
        if isinstance(node, exp.Column) and node.table and node.parts[0].name.lower() in known and not is_column(node):
            value: exp.Expr = exp.Paren(this=known[node.parts[0].name.lower()].copy())
            for name in node.parts[1:]:  # fields of a struct
                value = exp.Dot(this=value, expression=name.copy())
            return value
        return node

    return tree.copy().transform(visit, copy=False)


def name_of(item: exp.Expr) -> str:
    """The name of a SELECT item's column: its alias, a column's or a field's own name, else its text."""
    if isinstance(item, exp.Alias):
        return item.alias
    inner = item.unnest()
    if isinstance(inner, exp.Column):
        return str(inner.parts[-1].name)
    return inner.expression.name if isinstance(inner, exp.Dot) else str(item.sql("spark", normalize_functions="lower"))


def clocked(tree: exp.Select) -> exp.Select:
    """A query, changed in place, with ``mz_now()`` as ``logical_now()``, the name that expressions know."""
    for call in tree.find_all(exp.Anonymous):
        if call.name.lower() == "mz_now":
            call.set("this", "logical_now")
    return tree
