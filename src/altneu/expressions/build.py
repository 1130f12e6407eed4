"""From sqlglot trees to typed expressions: names resolved, functions and operators looked up."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from altneu import types as T
from altneu.errors import (
    ExpressionSyntaxError,
    TypeMismatchError,
    UnknownColumnError,
    UnsupportedFunctionError,
)
from altneu.expressions import intervals, registry
from altneu.expressions.collations import mark_of, plain
from altneu.expressions.construct import call, cast, get_field, literal
from altneu.expressions.dialect import shallow
from altneu.expressions.expr import Column, Expr
from altneu.expressions.functions.higher_order import LAMBDAS, parameter_types
from altneu.expressions.lambdas import Lambda, Variable
from altneu.expressions.names import AGGREGATES, WINDOWS
from altneu.expressions.nodes import NODES, SPECIAL
from altneu.expressions.rules import expect_count

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "<=>",
    exp.And: "and",
    exp.Or: "or",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.RegexpLike: "rlike",
    exp.DPipe: "concat",
}
_UNARY: dict[type[exp.Expr], str] = {exp.Not: "not", exp.BitwiseNot: "~"}
_CONVERSIONS = {
    **{
        n: T.parse_type(n)
        for n in (
            "boolean",
            "tinyint",
            "smallint",
            "int",
            "bigint",
            "float",
            "double",
            "string",
            "binary",
            "date",
            "timestamp",
            "time",
        )
    },
    "decimal": pa.decimal128(10, 0),
}
"""Functions named as the type that they cast to."""


def _made_interval(node: exp.Expr) -> Sequence[exp.Expr] | None:
    """The arguments of a call of ``make_interval``."""
    called = isinstance(node, exp.Anonymous) and node.name.lower() == "make_interval"
    return list(node.expressions) if called else None


class Builder:
    """Builds expressions over one schema."""

    def __init__(self, schema: pa.Schema, variables: dict[str, Expr] | None = None) -> None:
        self.schema = schema
        self.variables = variables or {}

    def build(self, node: exp.Expr) -> Expr:
        """The typed expression of a tree."""
        kind = type(node)
        symbol = _BINARY.get(kind)
        if symbol is not None:
            return self.binary(symbol, node)
        symbol = _UNARY.get(kind)
        if symbol is not None:
            return self._negated(node) if kind is exp.Not else call(symbol, [self.build(node.this)])
        method = NODES.get(kind)
        if method is not None:
            return method(self, node)
        if isinstance(node, (exp.Subquery, exp.Select, exp.Exists)):
            raise UnsupportedFunctionError(
                f"a subquery is not an expression here ({node.sql('spark')}): write it as a join or a semijoin"
            )
        if isinstance(node, exp.Window):
            raise UnsupportedFunctionError(
                f"an expression cannot contain a window function ({node.sql('spark')}): window(name=...) makes "
                "a column of it, in SQL a query in FROM; QUALIFY tests one"
            )
        if isinstance(node, exp.Star):
            raise ExpressionSyntaxError("`*` is not an expression here; it is only allowed in count(*)")
        if isinstance(node, exp.Func):
            return self.function(node.sql_name().lower(), list(node.iter_expressions()))
        raise UnsupportedFunctionError(f"{node.sql('spark')!r} is not supported ({kind.__name__})")

    def binary(self, symbol: str, node: exp.Expr) -> Expr:
        """An operator on two sides; chains of one operator are walked, not recursed into."""
        kind = type(node)
        rights = []
        while type(node) is kind:
            rights.append(node.args["expression"])
            node = node.this
        if symbol == "+" and rights and _made_interval(node) is not None:  # it may stand first
            node, rights[-1] = rights[-1], node
        result = self.build(node)
        for right in reversed(rights):
            parts = _made_interval(right) if symbol in "+-" else None
            result = (
                self.operate(symbol, result, self.build(right)) if parts is None else self._moved(symbol, result, parts)
            )
        return result

    def _moved(self, symbol: str, moved: Expr, parts: Sequence[exp.Expr]) -> Expr:
        """A time plus or minus ``make_interval(…)``: first its months, then its days, then the rest."""
        given = [self.build(part) for part in parts]
        expect_count("make_interval", given, 0, 7)
        if moved.type not in (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ):
            raise TypeMismatchError(
                f"make_interval moves dates and timestamps, not {T.type_name(moved.type)} (`{moved.text}`); cast it"
            )
        if moved.type == T.DATE and len(given) > 4:
            raise TypeMismatchError(
                f"make_interval moves a date (`{moved.text}`) by years, months, weeks and days; cast the date to a "
                "timestamp, which takes hours, minutes and seconds"
            )
        given += [literal(0) for _ in range(4 - len(given))]
        years, months, weeks, rest = given[0], given[1], given[2], given[4:]
        days = call("+", [call("*", [weeks, literal(7)]), given[3]])
        moved = self.operate(symbol, moved, call("make_ym_interval", [years, months]))
        if moved.type == T.DATE:
            return call("date_add" if symbol == "+" else "date_sub", [moved, days])
        return self.operate(symbol, moved, call("make_dt_interval", [days, *rest]))

    def operate(self, symbol: str, left: Expr, right: Expr) -> Expr:
        """One operator on two typed sides."""
        if symbol in "+-*/":
            special = intervals.arithmetic(symbol, left, right, call)
            if special is not None:
                return special
        return call(symbol, [left, right])

    def _negated(self, node: exp.Expr) -> Expr:
        inner = node.this
        if isinstance(inner, exp.Is) and isinstance(inner.expression, exp.Null):
            return call("isnotnull", [self.build(inner.this)])
        return self.negate(self.build(inner))

    def negate(self, value: Expr) -> Expr:
        """NOT of a typed value."""
        return call("not", [value])

    def function(self, name: str, nodes: Sequence[exp.Expr]) -> Expr:
        """A function by name on argument trees."""
        name = name.lower()
        if name not in registry.FUNCTIONS:
            if name in AGGREGATES:
                raise UnsupportedFunctionError(
                    f"{name}() is an aggregate: use it in group_by(...).agg(...), in SQL in SELECT or HAVING"
                )
            if name in WINDOWS:
                raise UnsupportedFunctionError(
                    f"{name}() is a window function: write {name}(…) OVER (…), in Python in window(name=...)"
                )
        special = SPECIAL.get(name)
        if special is not None:
            return special(self, nodes)
        if name in _CONVERSIONS and len(nodes) == 1 and name not in registry.FUNCTIONS:
            return cast(self.build(nodes[0]), _CONVERSIONS[name], implicit=False)
        registry.function(name)  # an unknown function is reported before its arguments are
        places = LAMBDAS.get(name, ())
        if any(isinstance(n, exp.Lambda) or i in places for i, n in enumerate(nodes)):
            return self.higher_order(name, nodes)
        if any(isinstance(n, exp.Distinct) for n in nodes):
            raise ExpressionSyntaxError(f"DISTINCT is only allowed in aggregates, not in {name}()")
        return call(name, [self.build(n) for n in nodes])

    def higher_order(self, name: str, nodes: Sequence[exp.Expr]) -> Expr:
        """A function that takes lambdas: their parameters have the types of the array's elements.

        In the place of a lambda another expression is one that reads no parameter.
        """
        args: list[Expr] = []
        for place, node in enumerate(nodes):
            is_lambda = isinstance(node, exp.Lambda)
            if not is_lambda and place not in LAMBDAS.get(name, ()):
                args.append(self.build(node))
                continue
            names = [p.name for p in node.expressions] if is_lambda else []
            types = parameter_types(name, [None if isinstance(a, Lambda) else a for a in args], place)
            fewer = is_lambda and name not in ("transform", "filter")
            if len(names) > len(types) or (len(names) < len(types) and fewer):
                raise TypeMismatchError(f"{name}: the lambda `{node.sql('spark')}` takes {len(types)} parameters")
            mark = mark_of(args[0]) if args else ""
            bound = {
                n.lower(): Variable(n, kind, mark=mark if kind == T.STRING and place == 1 else "")
                for n, kind in zip(names, types, strict=False)
            }
            body = plain(Builder(self.schema, {**self.variables, **bound}).build(node.this if is_lambda else node))
            args.append(Lambda(tuple(names), body))
        return call("array_sort_by" if name == "array_sort" else name, args)

    def resolve(self, parts: Sequence[str], shown: str) -> Expr:
        """A dotted name: a column so named, a column after ``left.`` or ``right.``, or a field of a struct."""
        variable = self.variables.get(parts[0].lower())
        if variable is not None:
            return self.fields(variable, parts[1:])
        for length in range(len(parts), 0, -1):
            column = self.find(".".join(parts[:length]))
            rest = parts[length:]
            if column is None and length == 2 and parts[0].lower() in ("left", "right"):
                column = self.find(parts[1])
            if column is not None and (
                not rest or pt.is_struct(column.type) or pt.is_list(column.type) or pt.is_map(column.type)
            ):
                return self.fields(column, rest)
        raise UnknownColumnError(shown, self.schema.names)

    def find(self, name: str) -> Expr | None:
        """The column of a name, exactly or whatever its case; None when there is none."""
        index = self.schema.get_field_index(name)
        if index < 0:
            matches = [i for i, n in enumerate(self.schema.names) if n.lower() == name.lower()]
            if len(matches) > 1:
                raise UnknownColumnError(
                    name,
                    [self.schema.names[i] for i in matches],
                    remedy="write one of them as it is, since they differ by case alone",
                )
            if not matches:
                return None
            index = matches[0]
        field = self.schema.field(index)
        return Column(field.name, field.type, field.nullable, T.mark_of(field))

    def fields(self, expr: Expr, names: Sequence[str]) -> Expr:
        """Fields of a struct, one after another."""
        for name in names:
            expr = get_field(expr, name)
        return expr


def build(tree: exp.Expr, schema: pa.Schema, builder: type[Builder] = Builder) -> Expr:
    """Compile a tree over a schema; errors name the expression that they are in.

    Chains of ORs are as deep as they are long, by which stored views are found; where that is too deep, least deep.
    """
    try:
        try:
            return builder(schema).build(tree)
        except ExpressionSyntaxError:
            if (less := shallow(tree)) is tree:
                raise
            return builder(schema).build(less)
    except RecursionError:
        raise ExpressionSyntaxError("an expression is nested too deeply; split it over several select()") from None
