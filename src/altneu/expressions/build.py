"""From sqlglot trees to typed expressions: names resolved, types coerced, constants folded."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from altneu import types as T
from altneu.errors import (
    AltneuError,
    ExpressionSyntaxError,
    NonDeterministicError,
    SchemaError,
    TypeMismatchError,
    UnknownColumnError,
    UnsupportedFunctionError,
)
from altneu.expressions import intervals, registry
from altneu.expressions.expr import Call, Column, Expr, Literal, Scope
from altneu.expressions.names import AGGREGATES, WINDOWS
from altneu.expressions.registry import constant_value

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
        )
    },
    "decimal": pa.decimal128(10, 0),
}
"""Functions named as the type that they cast to."""


def literal(value: Any, data_type: pa.DataType | None = None) -> Literal:
    """A constant expression from a Python value.

    >>> literal(5), literal(None, pa.string())
    (<5: int>, <CAST(NULL AS string): string>)

    Raises:
        TypeMismatchError: the value has no type here.
    """
    if data_type is None:
        if value is None:
            return Literal(None, T.NULL)
        if isinstance(value, bool):
            return Literal(value, T.BOOLEAN)
        if isinstance(value, int):
            return integer(value)
        if isinstance(value, Decimal):
            return Literal(value, decimal_type(value))
        try:
            data_type = T.normalise_type(pa.scalar(value).type)
        except (pa.ArrowInvalid, SchemaError) as error:
            raise TypeMismatchError(f"{value!r} has no SQL type: {error}") from None
    if pt.is_nested(data_type):
        raise TypeMismatchError(
            f"a constant of type {T.type_name(data_type)} is written as array(…), map(…) or struct(…)"
        )
    scalar = pa.scalar(value, data_type)
    if data_type in (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ, T.DAY_TIME):
        return Literal(scalar.value, data_type)
    return Literal(scalar.as_py(), data_type)


def integer(value: int) -> Literal:
    """A whole number in the least of int, bigint and decimal that holds it."""
    for kind, bits in ((T.INT, 31), (T.LONG, 63)):
        if -(1 << bits) <= value < 1 << bits:
            return Literal(value, kind)
    return Literal(Decimal(value), decimal_type(Decimal(value)))


def decimal_type(value: Decimal) -> pa.DataType:
    """The decimal type that a decimal constant has.

    >>> decimal_type(Decimal("1.50")), decimal_type(Decimal("0.01"))
    (Decimal128Type(decimal128(3, 2)), Decimal128Type(decimal128(2, 2)))
    """
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > 38:
        raise TypeMismatchError(f"the number {value} has more than 38 digits")
    return pa.decimal128(precision, scale)


def cast(expr: Expr, data_type: pa.DataType, *, implicit: bool = True, name: str = "cast") -> Expr:
    """The expression cast to a type; itself when it has it already."""
    if expr.type == data_type and (implicit or name == "cast"):
        return expr
    if isinstance(expr, Literal) and expr.value is None:
        return Literal(None, data_type)
    function = registry.function(name)
    typing = function.rule((expr, Literal(None, data_type)))
    made = folded(Call(name, (expr,), data_type, bool(typing.nullable) or expr.nullable, implicit))
    return Literal(made.value, made.type, expr.text) if implicit and isinstance(made, Literal) else made


def call(name: str, args: Sequence[Expr]) -> Expr:
    """A function applied to arguments: checked, coerced, and folded when it is constant.

    Raises:
        UnsupportedFunctionError: altneu does not evaluate it.
        TypeMismatchError: the arguments do not fit.
    """
    function = registry.function(name)
    typing = function.rule(args)
    coerced = tuple(a if t is None else cast(a, t) for a, t in zip(args, typing.args, strict=True))
    nullable = any(a.nullable for a in coerced) if typing.nullable is None else typing.nullable
    return folded(Call(function.name, coerced, typing.type, nullable))


class _NoRows:
    count = 1


def folded(made: Call) -> Expr:
    """A call of constants as the constant it gives, unless it fails or is of a nested type."""
    if not made.function.fold or pt.is_nested(made.type) or not all(a.is_literal for a in made.args):
        return made
    with np.errstate(all="ignore"):
        vector = made.vector(Scope(_NoRows()))  # type: ignore[arg-type]
    if vector.failures:
        return made
    value = constant_value(vector)
    if value is not None and pt.is_decimal128(made.type):
        value = Decimal(value).scaleb(-made.type.scale)
    return Literal(value, made.type)


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
        method = _NODES.get(kind)
        if method is not None:
            return method(self, node)
        if isinstance(node, (exp.Subquery, exp.Select, exp.Exists)):
            raise UnsupportedFunctionError(
                f"a subquery is not an expression here ({node.sql('spark')}): write it as a join or a semijoin"
            )
        if isinstance(node, exp.Window):
            raise UnsupportedFunctionError(
                f"a window function is no scalar expression ({node.sql('spark')}): "
                "use top_k or a join with group_by().agg()"
            )
        if isinstance(node, exp.Star):
            raise ExpressionSyntaxError("`*` is not an expression here; it stands in count(*) only")
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
        result = self.build(node)
        for right in reversed(rights):
            result = self.operate(symbol, result, self.build(right))
        return result

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
        return call("not", [self.build(inner)])

    def function(self, name: str, nodes: Sequence[exp.Expr]) -> Expr:
        """A function by name on argument trees."""
        name = name.lower()
        if name not in registry.FUNCTIONS:
            if name in AGGREGATES:
                raise UnsupportedFunctionError(f"{name}() is an aggregate: use it in group_by(...).agg(...)")
            if name in WINDOWS:
                raise UnsupportedFunctionError(
                    f"{name}() is a window function: use top_k or a join with group_by().agg()"
                )
        special = _SPECIAL.get(name)
        if special is not None:
            return special(self, nodes)
        if name in _CONVERSIONS and len(nodes) == 1 and name not in registry.FUNCTIONS:
            return cast(self.build(nodes[0]), _CONVERSIONS[name], implicit=False)
        registry.function(name)  # an unknown function is reported before its arguments are
        if any(isinstance(n, exp.Lambda) for n in nodes):
            return self.higher_order(name, nodes)
        if any(isinstance(n, exp.Distinct) for n in nodes):
            raise ExpressionSyntaxError(f"DISTINCT stands in aggregates only, not in {name}()")
        return call(name, [self.build(n) for n in nodes])

    def higher_order(self, name: str, nodes: Sequence[exp.Expr]) -> Expr:
        """A function that takes lambdas: their parameters have the types of the array's elements."""
        from altneu.expressions.functions.higher_order import parameter_types
        from altneu.expressions.lambdas import Lambda, Variable

        args: list[Expr] = []
        for place, node in enumerate(nodes):
            if not isinstance(node, exp.Lambda):
                args.append(self.build(node))
                continue
            names = [p.name for p in node.expressions]
            types = parameter_types(name, [None if isinstance(a, Lambda) else a for a in args] or [None], place)
            if len(names) > len(types) or (len(names) < len(types) and place == 2):
                raise TypeMismatchError(f"{name}: the lambda `{node.sql('spark')}` takes {len(types)} parameters")
            bound = {n.lower(): Variable(n, kind) for n, kind in zip(names, types, strict=False)}
            body = Builder(self.schema, {**self.variables, **bound}).build(node.this)
            args.append(Lambda(tuple(names), body))
        return call(name, args)

    def resolve(self, parts: Sequence[str], shown: str) -> Expr:
        """A dotted name: a column so named, a column after ``left.`` or ``right.``, or a field of a struct."""
        variable = self.variables.get(parts[0].lower())
        if variable is not None:
            return self.fields(variable, parts[1:])
        for length in range(len(parts), 0, -1):
            found = self.find(".".join(parts[:length]))
            rest = parts[length:]
            if found is None and length == 2 and parts[0].lower() in ("left", "right"):
                found = self.find(parts[1])
            if found is not None and (
                not rest or pt.is_struct(found.type) or pt.is_list(found.type) or pt.is_map(found.type)
            ):
                return self.fields(found, rest)
        raise UnknownColumnError(shown, self.schema.names)

    def find(self, name: str) -> Expr | None:
        """The column of a name, exactly or whatever its case; None when there is none."""
        index = self.schema.get_field_index(name)
        if index < 0:
            matches = [i for i, n in enumerate(self.schema.names) if n.lower() == name.lower()]
            if len(matches) > 1:
                raise UnknownColumnError(
                    name, [self.schema.names[i] for i in matches], "several differ from it by case"
                )
            if not matches:
                return None
            index = matches[0]
        field = self.schema.field(index)
        return Column(field.name, field.type, field.nullable)

    def fields(self, expr: Expr, names: Sequence[str]) -> Expr:
        """Fields of a struct, one after another."""
        for name in names:
            expr = get_field(expr, name)
        return expr


def get_field(expr: Expr, name: str) -> Expr:
    """A field of a struct (of every struct, in an array), or the value at a key of a map."""
    if pt.is_map(expr.type):
        return call("[]", [expr, Literal(name, T.STRING)])
    inner = expr.type.value_type if pt.is_list(expr.type) else expr.type
    if not pt.is_struct(inner):
        raise TypeMismatchError(f"`{expr.text}` is {T.type_name(expr.type)} and has no field {name!r}")
    matches = [f.name for f in inner if f.name == name] or [f.name for f in inner if f.name.lower() == name.lower()]
    if len(matches) != 1:
        raise UnknownColumnError(name, [f.name for f in inner], f"fields of `{expr.text}`")
    return call(".", [expr, Literal(matches[0], T.STRING)])


def _column(self: Builder, node: exp.Expr) -> Expr:
    parts = [p.name for p in node.parts]  # type: ignore[attr-defined]
    return self.resolve(parts, ".".join(parts))


def _identifier(self: Builder, node: exp.Expr) -> Expr:
    return self.resolve([node.name], node.name)


def _dot(self: Builder, node: exp.Expr) -> Expr:
    return get_field(self.build(node.this), node.expression.name)


def _literal(self: Builder, node: exp.Expr) -> Expr:
    text = node.this
    if node.is_string:
        return Literal(text, T.STRING)
    return number(text)


def number(text: str) -> Literal:
    """A number as written: int, bigint or decimal; a double when it has an exponent."""
    if re.fullmatch(r"\d+", text):
        return integer(int(text))
    if "e" in text.lower():
        return Literal(float(text), T.DOUBLE)
    return Literal(Decimal(text), decimal_type(Decimal(text)))


def _negative(self: Builder, node: exp.Expr) -> Expr:
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.is_string and re.fullmatch(r"\d+", inner.this):
        return integer(-int(inner.this))
    if isinstance(inner, exp.Cast) and isinstance(inner.this, exp.Literal) and not inner.this.is_string:
        target = T.arrow_type(inner.to)
        if target in (T.BYTE, T.SHORT, T.LONG):
            return cast(integer(-int(inner.this.this)), target, implicit=False)
    return call("negative", [self.build(inner)])


def _cast(self: Builder, node: exp.Expr) -> Expr:
    if node.args.get("format") or node.args.get("default"):
        raise UnsupportedFunctionError(
            f"{node.sql('spark')!r}: CAST takes a type only; use to_date or to_timestamp with a format"
        )
    target = _target_type(node)
    inner = node.this
    name = "try_cast" if isinstance(node, exp.TryCast) else "cast"
    if (
        isinstance(inner, exp.Literal)
        and not inner.is_string
        and pt.is_decimal128(target)
        and "e" not in inner.this.lower()
    ):
        return (
            Literal(Decimal(inner.this), target)
            if decimal_type(Decimal(inner.this)) == target
            else cast(number(inner.this), target, implicit=False, name=name)
        )
    if isinstance(inner, exp.Literal) and not inner.is_string and target in (T.FLOAT, T.DOUBLE):
        return cast(Literal(inner.this, T.STRING), target, implicit=False, name=name)
    return cast(self.build(inner), target, implicit=False, name=name)


def _target_type(node: exp.Expr) -> pa.DataType:
    try:
        return T.arrow_type(node.args["to"])
    except SchemaError as error:
        raise TypeMismatchError(f"{node.sql('spark')}: {error}") from None


def _case(self: Builder, node: exp.Expr) -> Expr:
    subject = self.build(node.this) if node.this else None
    args: list[Expr] = []
    for branch in node.args["ifs"]:
        condition = self.build(branch.this)
        args.append(condition if subject is None else call("=", [subject, condition]))
        args.append(self.build(branch.args["true"]))
    if node.args.get("default") is not None:
        args.append(self.build(node.args["default"]))
    return call("case", args)


def _between(self: Builder, node: exp.Expr) -> Expr:
    value, low, high = self.build(node.this), self.build(node.args["low"]), self.build(node.args["high"])
    return call("and", [call(">=", [value, low]), call("<=", [value, high])])


def _in(self: Builder, node: exp.Expr) -> Expr:
    if node.args.get("query") is not None or node.args.get("unnest") is not None or node.args.get("field") is not None:
        raise UnsupportedFunctionError("IN with a subquery is not an expression here: write it as a semijoin")
    return call("in", [self.build(node.this), *(self.build(n) for n in node.expressions)])


def _is(self: Builder, node: exp.Expr) -> Expr:
    value = self.build(node.this)
    if isinstance(node.expression, exp.Null):
        return call("isnull", [value])
    if isinstance(node.expression, exp.Boolean):
        return call("<=>", [value, Literal(node.expression.this, T.BOOLEAN)])
    if node.expression.name.upper() == "UNKNOWN":
        return call("isnull", [cast(value, T.BOOLEAN)])
    raise ExpressionSyntaxError(f"{node.sql('spark')!r}: IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")


def _like(self: Builder, node: exp.Expr) -> Expr:
    escape: list[Expr] = []
    if isinstance(node, exp.Escape):
        escape, node = [self.build(node.expression)], node.this
    name = "ilike" if isinstance(node, exp.ILike) else "like"
    if isinstance(node.expression, (exp.Any, exp.All, exp.Tuple)):
        raise UnsupportedFunctionError(
            f"{node.sql('spark')!r}: LIKE ANY and LIKE ALL are not supported; write several LIKE"
        )
    made = call(name, [self.build(node.this), self.build(node.expression), *escape])
    return call("not", [made]) if node.args.get("negate") else made


def _bracket(self: Builder, node: exp.Expr) -> Expr:
    if len(node.expressions) != 1:
        raise ExpressionSyntaxError(f"{node.sql('spark')!r}: one index is wanted between brackets")
    inner, index = self.build(node.this), self.build(node.expressions[0])
    if pt.is_struct(inner.type) and isinstance(index, Literal) and isinstance(index.value, str):
        return get_field(inner, index.value)
    return call("[]", [inner, index])


def _interval(self: Builder, node: exp.Expr) -> Expr:
    return intervals.literal(node)


def _extract(self: Builder, node: exp.Expr) -> Expr:
    return call("extract", [Literal(node.this.name, T.STRING), self.build(node.expression)])


def _trim(self: Builder, node: exp.Expr) -> Expr:
    position = (node.args.get("position") or "BOTH").upper()
    name = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}[position]
    what = node.args.get("expression")
    return call(name, [self.build(node.this), *([self.build(what)] if what is not None else [])])


def _one_sided_trim(name: str) -> Callable[[Builder, Sequence[exp.Expr]], Expr]:
    """``ltrim(characters, s)``: the other way round than ``btrim``."""

    def method(self: Builder, nodes: Sequence[exp.Expr]) -> Expr:
        return call(name, [self.build(n) for n in (nodes[::-1] if len(nodes) == 2 else nodes)])

    return method


def _args_in_order(name: str, *keys: str) -> Callable[[Builder, exp.Expr], Expr]:
    def method(self: Builder, node: exp.Expr) -> Expr:
        return self.function(name, [node.args[k] for k in keys if node.args.get(k) is not None])

    return method


def _refused_alias(self: Builder, node: exp.Expr) -> Expr:
    raise ExpressionSyntaxError(f"{node.sql('spark')!r}: an alias stands outside an expression only")


_NODES: dict[type[exp.Expr], Callable[[Builder, Any], Expr]] = {
    exp.Column: _column,
    exp.Identifier: _identifier,
    exp.Dot: _dot,
    exp.Paren: lambda self, node: self.build(node.this),
    exp.Literal: _literal,
    exp.RawString: lambda self, node: Literal(node.this, T.STRING),
    exp.National: lambda self, node: Literal(node.this, T.STRING),
    exp.HexString: lambda self, node: Literal(
        bytes.fromhex(node.this if len(node.this) % 2 == 0 else "0" + node.this), T.BINARY
    ),
    exp.Boolean: lambda self, node: Literal(bool(node.this), T.BOOLEAN),
    exp.Null: lambda self, node: Literal(None, T.NULL),
    exp.Neg: _negative,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Case: _case,
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    exp.NullSafeNEQ: lambda self, node: call(
        "not", [call("<=>", [self.build(node.this), self.build(node.expression)])]
    ),
    exp.Like: _like,
    exp.ILike: _like,
    exp.Escape: _like,
    exp.Bracket: _bracket,
    exp.Interval: _interval,
    exp.Extract: _extract,
    exp.Trim: _trim,
    exp.Concat: lambda self, node: call("concat", [self.build(n) for n in node.expressions]),
    exp.Substring: _args_in_order("substring", "this", "start", "length"),
    exp.StrPosition: _args_in_order("locate", "substr", "this", "position"),
    exp.Overlay: _args_in_order("overlay", "this", "expression", "from_", "for_"),
    exp.Anonymous: lambda self, node: self.function(node.name, node.expressions),
    exp.Alias: _refused_alias,
}


def _nullif(self: Builder, nodes: Sequence[exp.Expr]) -> Expr:
    if len(nodes) != 2:
        raise TypeMismatchError(f"nullif takes 2 arguments, not {len(nodes)}")
    left, right = self.build(nodes[0]), self.build(nodes[1])
    return call("case", [call("=", [left, right]), Literal(None, left.type), left])


def _distinct_from(name: str) -> Callable[[Builder, Sequence[exp.Expr]], Expr]:
    def method(self: Builder, nodes: Sequence[exp.Expr]) -> Expr:
        return call(name, [self.build(n) for n in nodes])

    return method


def _struct(self: Builder, nodes: Sequence[exp.Expr]) -> Expr:
    args: list[Expr] = []
    for i, node in enumerate(nodes):
        inner = node.this if isinstance(node, exp.Alias) else node
        name = (
            node.alias
            if isinstance(node, exp.Alias)
            else inner.name
            if isinstance(inner, (exp.Column, exp.Dot))
            else f"col{i + 1}"
        )
        args += [Literal(name, T.STRING), self.build(inner)]
    return call("named_struct", args)


def _operator(symbol: str) -> Callable[[Builder, Sequence[exp.Expr]], Expr]:
    def method(self: Builder, nodes: Sequence[exp.Expr]) -> Expr:
        if len(nodes) != 2:
            raise TypeMismatchError(f"{symbol} takes 2 arguments, not {len(nodes)}")
        return self.operate(symbol, self.build(nodes[0]), self.build(nodes[1]))

    return method


def _locate(self: Builder, nodes: Sequence[exp.Expr]) -> Expr:
    """A null start finds nothing: it gives 0, not null."""
    args = [self.build(n) for n in nodes]
    if len(args) == 3 and args[2].nullable:
        args[2] = call("coalesce", [args[2], integer(0)])
    return call("locate", args)


_SPECIAL: dict[str, Callable[[Builder, Sequence[exp.Expr]], Expr]] = {
    "nullif": _nullif,
    "locate": _locate,
    "position": _locate,
    "struct": _struct,
    "ltrim": _one_sided_trim("ltrim"),
    "rtrim": _one_sided_trim("rtrim"),
}


def build(tree: exp.Expr, schema: pa.Schema) -> Expr:
    """Compile a tree over a schema; errors name the expression that they are in."""
    try:
        return Builder(schema).build(tree)
    except RecursionError:
        raise ExpressionSyntaxError("an expression is nested too deeply; split it over several select()") from None


__all__ = ["AltneuError", "Builder", "NonDeterministicError", "build", "call", "cast", "folded", "literal"]
