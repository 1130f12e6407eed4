"""The ways in: a text (or a ``Col``, or a sqlglot tree) and a schema give an expression, a projection, a sort key."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.errors import ExpressionSyntaxError, PlanError, TypeMismatchError
from altneu.errors.texts import shortened
from altneu.expressions.build import Builder, build
from altneu.expressions.column import Col
from altneu.expressions.construct import call, cast, key_of_order, literal
from altneu.expressions.dialect import parse_tree, parse_trees
from altneu.expressions.expr import Column, Expr
from altneu.expressions.pyspark.columns import column_tree, is_column

Source = str | Col | exp.Expr
_DEEPEST = 320  # nodes of a tree inside one another; parentheses are nodes too


@dataclass(frozen=True)
class OrderKey:
    """One key of an order: nulls first or last, NaN above every number."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = True


def tree_of(source: Source) -> exp.Expr:
    """The sqlglot tree of any way to write an expression."""
    if isinstance(source, str):
        return parse_tree(source)
    if isinstance(source, Col):
        return _checked(source.tree)
    if isinstance(source, exp.Expr):
        return source
    if is_column(source):
        return _checked(column_tree(source))
    raise ExpressionSyntaxError(f"an expression is a text, an.col(...) or a sqlglot tree, not {type(source).__name__}")


def _checked(tree: exp.Expr) -> exp.Expr:
    """A tree that operators on columns have made, unless it is too deep to be written as a text."""
    level, depth = [tree], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise ExpressionSyntaxError("an expression is nested too deeply; split it over several select()")
        level = [below for node in level for below in node.iter_expressions()]
    return tree


def explained(error: PlanError, source: Source) -> PlanError:
    """The error with the expression that it is in."""
    shown = source if isinstance(source, str) else tree_of(source).sql(dialect="spark")
    if shown in str(error):
        return error
    error.args = (f"{error} [in `{shortened(shown)}`]",)
    return error


def parse(source: Source | Expr, schema: pa.Schema) -> Expr:
    """Compile an expression over a schema.

    >>> schema = T.parse_schema("a int, b int")
    >>> parse("a + b * 2", schema)
    <a + (b * 2): int>

    Raises:
        ExpressionSyntaxError: it does not parse.
        UnknownColumnError: a name is not a column.
        TypeMismatchError: types do not fit.
        UnsupportedFunctionError: altneu does not evaluate a function.
        NonDeterministicError: a function's result would differ when a row is retracted.
    """
    if isinstance(source, Expr):
        return source
    tree = tree_of(source)
    if isinstance(tree, exp.Alias):
        tree = tree.this
    try:
        return build(tree, schema)
    except PlanError as error:
        raise explained(error, source) from None


def parse_predicate(source: Source | Expr, schema: pa.Schema) -> Expr:
    """Compile a condition.

    Raises:
        TypeMismatchError: it is not boolean.
    """
    expr = parse(source, schema)
    if expr.type == T.NULL:
        return cast(expr, T.BOOLEAN)
    if expr.type != T.BOOLEAN:
        raise TypeMismatchError(f"`{expr.text}` is {T.type_name(expr.type)}; a condition must be boolean")
    return expr


def parse_projection(source: Source, schema: pa.Schema) -> tuple[str, Expr]:
    """Compile an expression with the name that it gives a column.

    >>> schema = T.parse_schema("price double, qty int, `right.dst` long")
    >>> parse_projection("price * qty as total", schema)
    ('total', <price * CAST(qty AS double): double>)
    >>> parse_projection("right.dst", schema)
    ('dst', <`right.dst`: bigint>)
    """
    tree = tree_of(source)
    name = tree.alias if isinstance(tree, exp.Alias) else None
    inner = tree.this if isinstance(tree, exp.Alias) else tree
    expr = parse(inner, schema) if not isinstance(source, str) else _parse_named(source, inner, schema)
    return name or _name_of(inner, expr), expr


def _parse_named(source: str, inner: exp.Expr, schema: pa.Schema) -> Expr:
    try:
        return build(inner, schema)
    except PlanError as error:
        raise explained(error, source) from None


def _name_of(tree: exp.Expr, expr: Expr) -> str:
    """The name Spark gives: a column's or a field's own, else the text."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Column):
        if isinstance(expr, Column) and len(tree.parts) == 1:
            return expr.name.split(".", 1)[1] if expr.name.startswith(("right.", "left.")) else expr.name
        return str(tree.parts[-1].name)
    if isinstance(tree, exp.Dot):
        return str(tree.expression.name)
    return str(tree.sql(dialect="spark"))


def parse_order(source: Source | Sequence[Source], schema: pa.Schema) -> tuple[OrderKey, ...]:
    """Compile sort keys, from a text with commas or a list; nulls are first ascending and last descending, as in Spark.

    >>> schema = T.parse_schema("delay int, carrier string")
    >>> [
    ...     (k.expr.sql, k.descending, k.nulls_first)
    ...     for k in parse_order("delay desc, carrier nulls last", schema)
    ... ]
    [('delay', True, False), ('carrier', False, False)]

    Raises:
        TypeMismatchError: a key is a map, which has no order.
    """
    if isinstance(source, (str, Col, exp.Expr)) or is_column(source) or not isinstance(source, Iterable):
        source = [source]  # type: ignore[list-item]
    keys: list[OrderKey] = []
    for part in source:
        trees = parse_trees(part, ordered=True) if isinstance(part, str) else [tree_of(part)]
        keys += [_order_key(tree, part, schema) for tree in trees]
    if not keys:
        raise ExpressionSyntaxError("an order has no keys")
    return tuple(keys)


def _order_key(tree: exp.Expr, source: Source, schema: pa.Schema) -> OrderKey:
    try:
        return order_key(tree, Builder(schema))
    except RecursionError:
        raise ExpressionSyntaxError("an expression is nested too deeply; split it over several select()") from None
    except PlanError as error:
        raise explained(error, source) from None


def order_key(tree: exp.Expr, builder: Builder) -> OrderKey:
    """One sort key, built by ``builder``; nulls are first ascending and last descending, as in Spark.

    Raises:
        TypeMismatchError: it has a map or a variant, which have no order.
    """
    if not isinstance(tree, exp.Ordered):
        tree = exp.Ordered(this=tree, desc=False, nulls_first=True)
    expr = key_of_order(builder.build(tree.this))
    if T.uncompared(expr.type):
        raise TypeMismatchError(f"`{expr.text}` is {T.type_name(expr.type)}, which has no order")
    descending = bool(tree.args.get("desc"))
    nulls_first = tree.args.get("nulls_first")
    return OrderKey(expr, descending, (not descending) if nulls_first is None else bool(nulls_first))


def conjunction(parts: Sequence[Expr]) -> Expr:
    """All of the conditions, from the left; true when there is none."""
    if not parts:
        return literal(True)
    result = parts[0]
    for part in parts[1:]:
        result = call("and", [result, part])
    return result
