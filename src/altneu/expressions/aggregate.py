"""Aggregates: calls over rows, and what is computed from their results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from altneu import types as T
from altneu.errors import ExpressionSyntaxError, PlanError, TypeMismatchError, UnsupportedFunctionError
from altneu.expressions.aggregate_calls import ALIASES, HANDLERS, WITH_ORDER, AggregateCall, Written, refusal
from altneu.expressions.build import Builder
from altneu.expressions.collations import collation_of, plain, text_of
from altneu.expressions.construct import call, get_field, key_of_order, with_collation
from altneu.expressions.expr import Column, Expr, Literal
from altneu.expressions.intervals import name_of_units, units_of_call
from altneu.expressions.lambdas import Lambda, Variable
from altneu.expressions.names import AGGREGATES, COLLECTED, NULLS, PICKED
from altneu.expressions.parse import OrderKey, Source, explained, tree_of


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


def aggregate_in(node: exp.Expr) -> tuple[exp.Anonymous, exp.Order | None, exp.Expr | None] | None:
    """The call of an aggregate that a tree is, its WITHIN GROUP and the condition of its FILTER; None if it is none.

    >>> [part.sql() for part in aggregate_in(tree_of("sum(x) FILTER (WHERE y)")) if part]
    ['SUM(x)', 'y']
    """
    condition = order = nulls = None
    while isinstance(node, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        if isinstance(node, exp.Filter):
            condition = node.expression.this
        elif isinstance(node, exp.WithinGroup):
            order = node.expression
        else:
            nulls = type(node)
        node = node.this
    if isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATES:
        return node if nulls is None else with_nulls(node, nulls), order, condition
    return None


def with_nulls(node: exp.Anonymous, nulls: type[exp.IgnoreNulls | exp.RespectNulls]) -> exp.Anonymous:
    """A call with IGNORE NULLS or RESPECT NULLS; to those for which nulls are never values the second says nothing.

    Raises:
        UnsupportedFunctionError: IGNORE NULLS of a function that takes none, as in Spark.
    """
    if nulls is exp.IgnoreNulls and node.name.lower() not in NULLS:
        raise UnsupportedFunctionError(f"{node.name.lower()}() takes no IGNORE NULLS; leave it out")
    if node.name.lower() not in (*PICKED, *COLLECTED) or not node.expressions:
        return node
    first, rest = node.expressions[0], [] if node.name.lower() in PICKED else node.expressions[1:]
    return exp.Anonymous(this=node.name, expressions=[nulls(this=first), *rest])


def mark_of_call(call: AggregateCall) -> str:
    """What is to be said of an aggregate's result beside its type: an interval has the units of what is aggregated."""
    whole = (0, 3)
    units = units_of_call(call.function, call.args[:1], call.type) if call.type == T.DAY_TIME else whole
    return "" if units == whole else f"interval {name_of_units(units).lower()}"


class _Aggregating(Builder):
    """Builds what stands outside aggregates; each aggregate becomes a column, and ``inside`` builds its arguments."""

    inside: Builder
    calls: list[AggregateCall]

    def build(self, node: exp.Expr) -> Expr:
        result = aggregate_in(node)
        if result is not None:
            return aggregate_expr(*result, self.inside, self.add)
        if isinstance(node, exp.Filter):
            raise ExpressionSyntaxError(f"{node.sql(dialect='spark')}: FILTER must follow an aggregate")
        return super().build(node)

    def add(self, call: AggregateCall) -> Column:
        """The column of a call."""
        if call not in self.calls:
            self.calls.append(call)
        return Column(f"#{self.calls.index(call)}", call.type, call.nullable, mark_of_call(call))

    def find(self, name: str) -> Expr | None:
        result = super().find(name)
        if result is None and self.inside.find(name) is not None:
            raise TypeMismatchError(f"the column {name!r} is neither a key of the group nor inside an aggregate")
        return result


def _aggregating(builder: type[Builder]) -> type[_Aggregating]:
    """The class that builds expressions of aggregates as ``builder`` builds expressions."""
    return type(f"Aggregating{builder.__name__}", (_Aggregating, builder), {})


_COUNTS = ("count", "approx_count_distinct")
"""Aggregates that give none of their values, so that texts may be told apart by their collation."""


def aggregate_expr(
    node: exp.Anonymous,
    order: exp.Order | None,
    condition: exp.Expr | None,
    builder: Builder,
    add: Callable[[AggregateCall], Expr],
) -> Expr:
    """What one aggregate is, over the results of the calls that ``add`` gives an expression of each.

    ``order`` is that of its WITHIN GROUP, ``condition`` its FILTER's; ``builder`` builds its arguments.
    """
    name = ALIASES.get(node.name.lower(), node.name.lower())
    if name not in HANDLERS:
        raise refusal(node.name.lower())
    if order is not None and name not in WITH_ORDER:
        raise ExpressionSyntaxError(f"{name}() takes no WITHIN GROUP; {', '.join(WITH_ORDER)} do")
    if name in PICKED and any(isinstance(n, exp.IgnoreNulls) for n in node.expressions):
        node = exp.Anonymous(this=node.name, expressions=[node.expressions[0].this, exp.true()])
    respected = name in COLLECTED and any(isinstance(n, exp.RespectNulls) for n in node.expressions)
    nodes, distinct = (
        [n.this if isinstance(n, exp.IgnoreNulls | exp.RespectNulls) else n for n in node.expressions],
        False,
    )
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
            raise TypeMismatchError(
                f"`*` is only allowed in count(*), not in {name}({'DISTINCT ' if distinct else ''}*)"
            )
        return add(AggregateCall("count", False, (), predicate, T.LONG))
    given = [builder.build(n) for n in nodes]
    by = [] if order is None else [builder.build(k.this) for k in order.expressions]
    args, collation = _without_collation(name, given, distinct=distinct)
    ordered = tuple(
        OrderKey(key_of_order(key), bool(k.args["desc"]), bool(k.args["nulls_first"]))
        for key, k in zip(by, order.expressions if order else (), strict=True)
    )
    written = Written(name, args, distinct, ordered, predicate, add, respected)
    result = HANDLERS[name](written)
    if name == "mode" and (collation := collation_of((given or by)[0])) is not None:
        result = _text_of_mode(written, (given or by)[0], result)
    elif collation is not None and name in _EXTREMES:
        result = get_field(result, "text")
    return with_collation(result, collation)


def _text_of_mode(written: Written, text: Expr, key: Expr) -> Expr:
    """Of the texts with the most frequent key, the least by its bytes."""
    found = HANDLERS["collect_set"](replace(written, name="collect_set", args=(_keyed(text),), order=()))
    pair = Variable("pair", found.type.value_type)
    same = Lambda((pair.name,), call("=", [get_field(pair, "key"), key]))
    return get_field(call("array_min", [call("filter", [found, same])]), "text")


def _keyed(text: Expr) -> Expr:
    """What a collation compares a text by, and the text; null if that is."""
    bare = text_of(text)
    parts = [Literal("key", T.STRING), key_of_order(text), Literal("text", T.STRING), bare]
    return call("case", [call("isnotnull", [bare]), call("named_struct", parts)])


_EXTREMES = ("min", "max")
_PASSING = ("any_value", "first", "last", "max_by", "min_by", "listagg", "collect_list")
"""Aggregates that give texts of their first argument, which have its collation."""


def _without_collation(name: str, args: Sequence[Expr], *, distinct: bool) -> tuple[tuple[Expr, ...], str | None]:
    """The arguments of an aggregate without collations, and the collation of its result.

    Of equal texts ``min`` gives the least by its bytes and ``max`` the greatest, so that which one does not depend on
    the order in which they arrive.
    """
    collation = collation_of(args[0]) if args else None
    if name in _COUNTS:
        return tuple(map(key_of_order, args)), None
    if name in ("max_by", "min_by"):
        return (text_of(args[0]), *map(key_of_order, args[1:])), collation
    if collation is not None and name in _EXTREMES:
        return (_keyed(args[0]),), collation
    if name == "mode":
        return (*map(key_of_order, args[:1]), *map(plain, args[1:])), None
    if name in _PASSING and not distinct and not (name == "collect_list" and pt.is_list(args[0].type)):
        return (*map(text_of, args[:1]), *map(plain, args[1:])), collation
    return tuple(map(plain, args)), None


def shown_text(expr: Expr, among: Expr | None = None) -> AggregateExpr:
    """Of a group of texts that a collation does not tell apart, the one that is shown: the least by its bytes.

    ``among`` says which rows of the group it is taken from.
    """
    call = AggregateCall("min", False, (text_of(expr),), among, expr.type)
    return AggregateExpr((call,), with_collation(Column("#0", expr.type), collation_of(expr)))


__all__ = [
    "AggregateCall",
    "AggregateExpr",
    "aggregate_expr",
    "aggregate_in",
    "mark_of_call",
    "parse_aggregate",
    "shown_text",
    "with_nulls",
]
