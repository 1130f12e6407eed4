"""Spark SQL scalar expressions with Spark's ANSI meaning, compiled once and evaluated over columns.

``parse(text, schema)`` gives an ``Expr``; ``Expr.evaluate(rows)`` a ``Result``: values, and the rows that failed with
their reasons. No row is ever evaluated by itself.

Imports run one way: ``expr``, what an expression is; ``registry``, the table of functions, empty; ``functions``, whose
modules fill it; ``construct``, which looks functions up; ``build`` and ``parse``, from texts to expressions.
"""

from altneu.expressions import functions  # noqa: F401 -- fills the registry
from altneu.expressions.aggregate import AggregateCall, AggregateExpr, aggregate_in, parse_aggregate
from altneu.expressions.column import Col, col, fn, lit, update_time
from altneu.expressions.construct import call, cast, literal, may_be_null
from altneu.expressions.expr import Call, Column, Expr, Literal, Result, Scope, parts_of
from altneu.expressions.parse import OrderKey, conjunction, parse, parse_order, parse_predicate, parse_projection
from altneu.expressions.sharing import conjuncts, replace_subexpressions, shared_subexpressions, simplify
from altneu.expressions.temporal import Bound, TemporalPredicate, split_temporal
from altneu.expressions.window import WindowExpr, has_window, parse_window

__all__ = [
    "AggregateCall",
    "AggregateExpr",
    "Bound",
    "Call",
    "Col",
    "Column",
    "Expr",
    "Literal",
    "OrderKey",
    "Result",
    "Scope",
    "TemporalPredicate",
    "WindowExpr",
    "aggregate_in",
    "call",
    "cast",
    "col",
    "conjunction",
    "conjuncts",
    "fn",
    "has_window",
    "lit",
    "literal",
    "may_be_null",
    "parse",
    "parse_aggregate",
    "parse_order",
    "parse_predicate",
    "parse_projection",
    "parse_window",
    "parts_of",
    "replace_subexpressions",
    "shared_subexpressions",
    "simplify",
    "split_temporal",
    "update_time",
]
