"""Aggregates: calls over rows, and what is computed from their results."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.errors import ExpressionSyntaxError, PlanError, TypeMismatchError, UnsupportedFunctionError
from altneu.expressions.build import Builder
from altneu.expressions.coercion import INTEGRAL, is_decimal, is_numeric
from altneu.expressions.construct import cast
from altneu.expressions.expr import Column, Expr
from altneu.expressions.functions.comparison import contains_map
from altneu.expressions.names import AGGREGATES as AGGREGATE_NAMES
from altneu.expressions.parse import Source, explained, tree_of
from altneu.expressions.rules import expect_count

_ALIASES = {"mean": "avg", "array_agg": "collect_list", "every": "bool_and", "any": "bool_or", "some": "bool_or"}
_SUPPORTED = ("count", "sum", "avg", "min", "max", "collect_list", "collect_set", "count_if", "bool_and", "bool_or")
AGGREGATES = (
    ("count(*)", "Number of rows, a bigint."),
    ("count(a)", "Number of rows on which it is not null; of `count(a, b)`, on which none is."),
    ("count(DISTINCT a, b)", "Number of distinct values without a null."),
    (
        "sum(a), sum(DISTINCT a)",
        "Sum: a bigint of whole numbers (an error beyond its range), a double, or a decimal of ten more digits.",
    ),
    ("avg(a), mean(a), avg(DISTINCT a)", "Mean: a double, or a decimal of four more digits on either side."),
    ("min(a), max(a)", "Least and greatest value."),
    ("collect_list(a), array_agg(a)", "Every value that is not null, in the order of the values."),
    ("collect_set(a)", "Every distinct value that is not null, in order."),
    ("count_if(a)", "Number of rows on which it is true."),
    ("bool_and(a), every(a)", "Whether it is true wherever it is not null."),
    ("bool_or(a), any(a), some(a)", "Whether it is true anywhere."),
)
"""How aggregates are written, for docs/functions.md."""

_ORDER_DEPENDENT = ("first", "first_value", "last", "last_value", "any_value")


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate over the rows of a group.

    ``function`` is one of count, sum, avg, min, max, collect_list, collect_set, count_if, bool_and, bool_or.
    ``count`` without arguments counts rows. Arguments have the types the function wants (a sum's are bigint, double
    or decimal); ``filter`` keeps rows that enter; ``type`` is the result's, and the result is null on no rows unless
    it is a count or a collection.
    """

    function: str
    distinct: bool
    args: tuple[Expr, ...]
    filter: Expr | None
    type: pa.DataType

    @property
    def nullable(self) -> bool:
        """Whether a group without values gives null."""
        return self.function not in ("count", "count_if", "collect_list", "collect_set")

    @property
    def sql(self) -> str:
        """Its text."""
        inside = ", ".join(a.sql for a in self.args) or "*"
        text = f"{self.function}({'DISTINCT ' if self.distinct else ''}{inside})"
        return text if self.filter is None else f"{text} FILTER (WHERE {self.filter.sql})"


@dataclass(frozen=True)
class AggregateExpr:
    """Aggregate calls, and an expression over the group's keys and columns ``#0``, ``#1`` … with their results."""

    calls: tuple[AggregateCall, ...]
    result: Expr

    @property
    def schema(self) -> pa.Schema:
        """Schema of the columns that hold the results of the calls."""
        return pa.schema([pa.field(f"#{i}", c.type, c.nullable) for i, c in enumerate(self.calls)])


def parse_aggregate(
    source: Source, schema: pa.Schema, keys: tuple[str, ...] = (), builder: type[Builder] = Builder
) -> AggregateExpr:
    """Compile an expression of aggregates; ``keys`` are columns that may stand outside of them.

    ``builder`` says how names are resolved, inside the aggregates and outside.

    >>> found = parse_aggregate("sum(price) / count(*)", T.parse_schema("price bigint"))
    >>> [c.sql for c in found.calls], found.result
    (['sum(price)', 'count(*)'], <CAST(`#0` AS double) / CAST(`#1` AS double): double>)

    Raises:
        UnsupportedFunctionError: an aggregate that altneu does not maintain, or one that depends on the order of
        arrival. TypeMismatchError: an argument does not fit.
    """
    tree = tree_of(source)
    if isinstance(tree, exp.Alias):
        tree = tree.this
    outside = _aggregating(builder)(pa.schema([f for f in schema if f.name in keys]))
    outside.inside = builder(schema)
    outside.calls = []
    try:
        result = outside.build(tree)
        if not outside.calls:
            raise TypeMismatchError(
                f"`{tree.sql(dialect='spark')}` has no aggregate in it; use count, sum, avg, min, max, collect_list …"
            )
    except PlanError as error:
        raise explained(error, source) from None
    return AggregateExpr(tuple(outside.calls), result)


class _Aggregating(Builder):
    """Builds what stands outside aggregates; each aggregate becomes a column, and ``inside`` builds its arguments."""

    inside: Builder
    calls: list[AggregateCall]

    def build(self, node: exp.Expr) -> Expr:
        if isinstance(node, exp.Filter):
            return self._aggregate(node.this, node.expression.this)
        if isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATE_NAMES:
            return self._aggregate(node, None)
        return super().build(node)

    def find(self, name: str) -> Expr | None:
        found = super().find(name)
        if found is None and self.inside.find(name) is not None:
            raise TypeMismatchError(f"the column {name!r} is neither a key of the group nor inside an aggregate")
        return found

    def _aggregate(self, node: exp.Expr, condition: exp.Expr | None) -> Expr:
        if not isinstance(node, exp.Anonymous) or node.name.lower() not in AGGREGATE_NAMES:
            raise ExpressionSyntaxError(f"{node.sql(dialect='spark')}: FILTER follows an aggregate")
        made = _call(node, condition, self.inside)
        if made not in self.calls:
            self.calls.append(made)
        return Column(f"#{self.calls.index(made)}", made.type, made.nullable)


def _aggregating(builder: type[Builder]) -> type[_Aggregating]:
    """The class that builds expressions of aggregates as ``builder`` builds expressions."""
    return type(f"Aggregating{builder.__name__}", (_Aggregating, builder), {})


def aggregate_call(node: exp.Anonymous, condition: exp.Expr | None, builder: Builder) -> AggregateCall:
    """One aggregate, of the rows on which ``condition`` is true; ``builder`` builds its arguments."""
    return _call(node, condition, builder)


def _call(node: exp.Anonymous, condition: exp.Expr | None, builder: Builder) -> AggregateCall:
    name = node.name.lower()
    name = _ALIASES.get(name, name)
    if name in _ORDER_DEPENDENT:
        raise UnsupportedFunctionError(
            f"{name}() depends on the order in which rows arrive; use min or max, which depend on values"
        )
    if name not in _SUPPORTED:
        raise UnsupportedFunctionError(
            f"the aggregate {name}() is not supported; use one of {', '.join(_SUPPORTED)}, or reduce(fn)"
        )
    nodes, distinct = list(node.expressions), False
    if len(nodes) == 1 and isinstance(nodes[0], exp.Distinct):
        nodes, distinct = list(nodes[0].expressions), True
    predicate = None
    if condition is not None:
        predicate = builder.build(condition)
        if predicate.type != T.BOOLEAN:
            raise TypeMismatchError(
                f"FILTER (WHERE {predicate.text}) must be boolean, not {T.type_name(predicate.type)}"
            )
    if len(nodes) == 1 and isinstance(nodes[0], exp.Star):
        if name != "count" or distinct:
            raise TypeMismatchError(f"`*` stands in count(*) only, not in {name}({'DISTINCT ' if distinct else ''}*)")
        return AggregateCall("count", False, (), predicate, T.LONG)
    args = tuple(builder.build(n) for n in nodes)
    expect_count(name, args, 1, 1000 if name == "count" else 1)
    if name == "count" and not distinct and all(a.is_literal and not a.nullable for a in args):
        return AggregateCall("count", False, (), predicate, T.LONG)
    typed, result = _typed(name, args, distinct)
    return AggregateCall(
        name, distinct and name not in ("min", "max", "bool_and", "bool_or", "collect_set"), typed, predicate, result
    )


def _typed(name: str, args: tuple[Expr, ...], distinct: bool) -> tuple[tuple[Expr, ...], pa.DataType]:
    """Arguments as the function wants them, and its result type."""
    if name == "count":
        if distinct and any(contains_map(a.type) for a in args):
            raise TypeMismatchError(f"count(DISTINCT {args[0].text}): maps cannot be compared")
        return args, T.LONG
    value = args[0]
    if name in ("sum", "avg"):
        return _summed(name, value)
    if name in ("count_if", "bool_and", "bool_or"):
        if value.type not in (T.BOOLEAN, T.NULL):
            raise TypeMismatchError(f"{name}({value.text}) takes a boolean, not {T.type_name(value.type)}")
        return (cast(value, T.BOOLEAN),), T.LONG if name == "count_if" else T.BOOLEAN
    if name == "collect_list":
        return args, T.list_type(value.type)
    if contains_map(value.type):
        raise TypeMismatchError(f"{name}({value.text}): maps cannot be compared")
    return args, T.list_type(value.type) if name == "collect_set" else value.type


def _summed(name: str, value: Expr) -> tuple[tuple[Expr, ...], pa.DataType]:
    kind = value.type
    if kind == T.NULL:
        value = cast(value, T.DOUBLE)
        kind = T.DOUBLE
    if is_decimal(kind):
        grown = (10, 0) if name == "sum" else (4, 4)
        return (value,), pa.decimal128(min(38, kind.precision + grown[0]), min(38, kind.scale + grown[1]))
    if not is_numeric(kind):
        raise TypeMismatchError(f"{name}({value.text}) takes numbers, not {T.type_name(kind)}; cast it")
    if kind in INTEGRAL:
        return (cast(value, T.LONG),), T.LONG if name == "sum" else T.DOUBLE
    return (cast(value, T.DOUBLE),), T.DOUBLE


__all__ = ["AggregateCall", "AggregateExpr", "parse_aggregate"]
