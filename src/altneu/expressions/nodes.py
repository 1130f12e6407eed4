"""How each kind of sqlglot node becomes an expression."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import types as pt
from sqlglot import exp

from altneu import types as T
from altneu.errors import (
    ExpressionSyntaxError,
    SchemaError,
    TypeMismatchError,
    UnsupportedFunctionError,
    UpdateTimeError,
)
from altneu.expressions import intervals
from altneu.expressions.collations import collation_of, has_texts, name_of, plain, text_of
from altneu.expressions.construct import call, cast, decimal_type, get_field, integer, literal, number
from altneu.expressions.expr import Expr, Literal
from altneu.expressions.intervals import mark_of_units, name_of_units, units_named, units_of
from altneu.expressions.names import UPDATE_TIME
from altneu.expressions.parameters import PARAMETER, parameter


class TreeBuilder(Protocol):
    """What the parts of a tree are built with: names and types of one place (``build.Builder``)."""

    def build(self, node: exp.Expr) -> Expr:
        """The typed expression of a tree."""

    def operate(self, symbol: str, left: Expr, right: Expr) -> Expr:
        """One operator on two typed sides."""

    def function(self, name: str, nodes: Sequence[exp.Expr]) -> Expr:
        """A function by name on argument trees."""

    def resolve(self, parts: Sequence[str], shown: str) -> Expr:
        """A dotted name: a column so named, a column after ``left.`` or ``right.``, or a field of a struct."""

    def find(self, name: str) -> Expr | None:
        """The column of a name, exactly or whatever its case; None when there is none."""


def _column(self: TreeBuilder, node: exp.Expr) -> Expr:
    parts = [p.name for p in node.parts]  # type: ignore[attr-defined]
    return self.resolve(parts, ".".join(parts))


def _identifier(self: TreeBuilder, node: exp.Expr) -> Expr:
    return self.resolve([node.name], node.name)


def _dot(self: TreeBuilder, node: exp.Expr) -> Expr:
    return get_field(self.build(node.this), node.expression.name)


def _literal(self: TreeBuilder, node: exp.Expr) -> Expr:
    place = node.meta.get(PARAMETER)
    if place is not None:
        return parameter(*place)
    return Literal(node.this, T.STRING) if node.is_string else number(node.this)


def _negative(self: TreeBuilder, node: exp.Expr) -> Expr:
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.is_string and re.fullmatch(r"\d+", inner.this):
        return integer(-int(inner.this))
    if isinstance(inner, exp.Cast) and isinstance(inner.this, exp.Literal) and not inner.this.is_string:
        target = T.arrow_type(inner.to)
        if target in (T.BYTE, T.SHORT, T.LONG):
            return cast(integer(-int(inner.this.this)), target, implicit=False)
    return call("negative", [self.build(inner)])


def _cast(self: TreeBuilder, node: exp.Expr) -> Expr:
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
    value = text_of(self.build(inner))
    if target in (T.DAY_TIME, T.YEAR_MONTH) and value.type == target:
        units = units_named(node.args["to"].this.args["unit"].sql())
        if units_of(value) == units:
            return value
        return call("interval_as", [value, Literal(name_of_units(units), T.STRING)])
    made = cast(value, target, implicit=False, name=name)
    collation = node.args["to"].args.get("collate") or T.collation_inside(node.args["to"])
    if has_texts(target) and collation is not None:
        return call("collated", [made, Literal(name_of(collation.name), T.STRING)])
    return made


def _target_type(node: exp.Expr) -> pa.DataType:
    kind = node.args["to"].this
    if isinstance(kind, exp.Interval) and kind.args.get("unit") is not None:
        units = kind.args["unit"].sql().upper()
        if units in ("YEAR", "MONTH", "YEAR TO MONTH"):
            return T.YEAR_MONTH
    try:
        to = T.without_collation(node.args["to"]).copy()
        to.set("collate", None)  # ``_cast`` reads it
        return T.arrow_type(to)
    except SchemaError as error:
        raise TypeMismatchError(f"{node.sql('spark')}: {error}") from None


def _case(self: TreeBuilder, node: exp.Expr) -> Expr:
    subject = self.build(node.this) if node.this else None
    args: list[Expr] = []
    for branch in node.args["ifs"]:
        condition = self.build(branch.this)
        args.append(condition if subject is None else call("=", [subject, condition]))
        args.append(self.build(branch.args["true"]))
    if node.args.get("default") is not None:
        args.append(self.build(node.args["default"]))
    return call("case", args)


def _between(self: TreeBuilder, node: exp.Expr) -> Expr:
    value, low, high = self.build(node.this), self.build(node.args["low"]), self.build(node.args["high"])
    return call("and", [self.operate(">=", value, low), self.operate("<=", value, high)])


def _in(self: TreeBuilder, node: exp.Expr) -> Expr:
    if node.args.get("query") is not None or node.args.get("unnest") is not None or node.args.get("field") is not None:
        raise UnsupportedFunctionError("IN with a subquery is not an expression here: write it as a semijoin")
    if not node.expressions:
        return literal(value=False)
    return call("in", [self.build(node.this), *(self.build(n) for n in node.expressions)])


def _is(self: TreeBuilder, node: exp.Expr) -> Expr:
    value = self.build(node.this)
    if isinstance(node.expression, exp.Null):
        return call("isnull", [value])
    if isinstance(node.expression, exp.Boolean):
        return call("<=>", [value, Literal(node.expression.this, T.BOOLEAN)])
    if node.expression.name.upper() == "UNKNOWN":
        return call("isnull", [cast(value, T.BOOLEAN)])
    raise ExpressionSyntaxError(f"{node.sql('spark')!r}: IS takes NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")


def _like(self: TreeBuilder, node: exp.Expr) -> Expr:
    escape: list[Expr] = []
    if isinstance(node, exp.Escape):
        escape, node = [self.build(node.expression)], node.this
    name = "ilike" if isinstance(node, exp.ILike) else "like"
    if isinstance(node.expression, (exp.Any, exp.All)):
        return _like_several(self, node, name, escape)
    result = call(name, [self.build(node.this), self.build(node.expression), *escape])
    return call("not", [result]) if node.args.get("negate") else result


def _like_several(self: TreeBuilder, node: exp.Expr, name: str, escape: Sequence[Expr]) -> Expr:
    """``LIKE ANY (patterns)``: that or that; ``LIKE ALL``: that and that; with NOT each of them is negated."""
    inner = node.expression.this
    patterns = inner.expressions if isinstance(inner, exp.Tuple) else [inner]
    value = self.build(node.this)
    if isinstance(inner, exp.Query) or escape or not patterns:
        shown = node.sql("spark")
        raise UnsupportedFunctionError(f"{shown!r}: LIKE ANY and LIKE ALL take patterns, without ESCAPE")
    results = [call(name, [value, self.build(pattern)]) for pattern in patterns]
    results = [call("not", [one]) for one in results] if node.args.get("negate") else results
    symbol = "or" if isinstance(node.expression, exp.Any) else "and"
    return reduce(lambda one, other: call(symbol, [one, other]), results)


def _bracket(self: TreeBuilder, node: exp.Expr) -> Expr:
    if len(node.expressions) != 1:
        raise ExpressionSyntaxError(f"{node.sql('spark')!r}: brackets take one index")
    inner, index = self.build(node.this), self.build(node.expressions[0])
    of = inner.type.value_type if pt.is_list(inner.type) else inner.type  # of an array the fields of its structs
    if T.is_struct(of) and isinstance(index, Literal) and isinstance(index.value, str):
        return get_field(inner, index.value)
    return call("[]", [inner, index])


def _interval(self: TreeBuilder, node: exp.Expr) -> Expr:
    return intervals.literal(node)


def _extract(self: TreeBuilder, node: exp.Expr) -> Expr:
    return call("extract", [Literal(node.this.name, T.STRING), self.build(node.expression)])


def _trim(self: TreeBuilder, node: exp.Expr) -> Expr:
    position = (node.args.get("position") or "BOTH").upper()
    name = {"BOTH": "btrim", "LEADING": "ltrim", "TRAILING": "rtrim"}[position]
    what = node.args.get("expression")
    return call(name, [self.build(node.this), *([self.build(what)] if what is not None else [])])


def _one_sided_trim(name: str) -> Callable[[TreeBuilder, Sequence[exp.Expr]], Expr]:
    """``ltrim(characters, s)``: the other way round than ``btrim``."""

    def method(self: TreeBuilder, nodes: Sequence[exp.Expr]) -> Expr:
        return call(name, [self.build(n) for n in (nodes[::-1] if len(nodes) == 2 else nodes)])

    return method


def _args_in_order(name: str, *keys: str) -> Callable[[TreeBuilder, exp.Expr], Expr]:
    def method(self: TreeBuilder, node: exp.Expr) -> Expr:
        return self.function(name, [node.args[k] for k in keys if node.args.get(k) is not None])

    return method


def _anonymous(self: TreeBuilder, node: exp.Expr) -> Expr:
    """A call by name, or of the function of a user that the node carries."""
    own = node.args.get(FUNCTION)
    if own is None:
        return self.function(node.name, node.expressions)
    result: Expr = own.over([plain(self.build(argument)) for argument in node.expressions])
    return result


def _refused_alias(self: TreeBuilder, node: exp.Expr) -> Expr:
    raise ExpressionSyntaxError(f"{node.sql('spark')!r}: an alias is not allowed inside an expression")


FUNCTION = "function"
"""The argument of a call in a tree that is the function of a user: its ``over`` makes the call's expression."""

MOMENT = "#moment"
"""A function that is not a name that a text can call: a time as window functions of time take it, and give it."""


def _refused_nulls(_self: TreeBuilder, node: exp.IgnoreNulls) -> Expr:
    name = node.this.name.lower() if isinstance(node.this, exp.Anonymous) else node.this.key
    raise UnsupportedFunctionError(f"{name}() takes no IGNORE NULLS; leave it out")


NODES: dict[type[exp.Expr], Callable[[TreeBuilder, Any], Expr]] = {
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
    exp.RespectNulls: lambda self, node: self.build(node.this),
    exp.IgnoreNulls: _refused_nulls,
    exp.Anonymous: _anonymous,
    exp.Alias: _refused_alias,
}


def _nullif(self: TreeBuilder, nodes: Sequence[exp.Expr]) -> Expr:
    if len(nodes) != 2:
        raise TypeMismatchError(f"nullif takes 2 arguments, not {len(nodes)}")
    left, right = self.build(nodes[0]), self.build(nodes[1])
    return call("case", [call("=", [left, right]), Literal(None, left.type), left])


def _struct(self: TreeBuilder, nodes: Sequence[exp.Expr]) -> Expr:
    args: list[Expr] = []
    for i, node in enumerate(nodes):
        inner = node.this if isinstance(node, exp.Alias) else node
        name = (
            node.alias
            if isinstance(node, exp.Alias)
            else inner.name
            if isinstance(inner, (exp.Column, exp.Dot, exp.Identifier))
            else f"col{i + 1}"
        )
        args += [Literal(name, T.STRING), self.build(inner)]
    return call("named_struct", args)


def _locate(self: TreeBuilder, nodes: Sequence[exp.Expr]) -> Expr:
    """A null start finds nothing: it gives 0, not null."""
    args = [self.build(n) for n in nodes]
    if len(args) == 3 and args[2].nullable:
        args[2] = call("coalesce", [args[2], integer(0)])
    return call("locate", args)


def _update_time(self: TreeBuilder, nodes: Sequence[exp.Expr]) -> Expr:
    """The column that a plan has of it beside the rows.

    Raises:
        UpdateTimeError: it has none.
    """
    if nodes:
        raise TypeMismatchError(f"update_time() takes no argument, got {len(nodes)}: it belongs to the row")
    result = self.find(UPDATE_TIME)
    if result is None:
        raise UpdateTimeError
    return result


def _wants(name: str, args: Sequence[object], least: int, most: int) -> None:
    if not least <= len(args) <= most:
        shown = str(least) if least == most else f"{least} to {most}"
        raise TypeMismatchError(f"{name} takes {shown} argument(s), not {len(args)}")


def _written_as(
    name: str, least: int, most: int, made: Callable[[Sequence[Expr]], Expr]
) -> Callable[[TreeBuilder, Sequence[exp.Expr]], Expr]:
    """A function that is another expression of its arguments."""

    def method(self: TreeBuilder, nodes: Sequence[exp.Expr]) -> Expr:
        _wants(name, nodes, least, most)
        return made([self.build(n) for n in nodes])

    return method


def _decode(args: Sequence[Expr]) -> Expr:
    """``decode(a, b, c, …, d)``: c where a is b, null being null, and so on, else d; with two, of a character set."""
    if len(args) == 2:
        return call("decode", args)
    value, *rest = args
    branches: list[Expr] = []
    for sought, result in zip(rest[::2], rest[1::2], strict=False):
        branches += [call("<=>", [value, sought]), result]
    return call("case", [*branches, *(rest[-1:] if len(rest) % 2 else [])])


def _elt(args: Sequence[Expr]) -> Expr:
    """The text at a place, which is an error where there is none."""
    place, *texts = args
    kind = T.BINARY if {t.type for t in texts} == {T.BINARY} else T.STRING
    branches: list[Expr] = [call("isnull", [place]), Literal(None, kind)]
    for number_, text in enumerate(texts, 1):
        branches += [call("=", [place, integer(number_)]), cast(text, kind)]
    shown = [
        Literal("elt: there is no text at ", T.STRING),
        cast(place, T.STRING),
        Literal(f" of {len(texts)}", T.STRING),
    ]
    failed = call("raise_error", [Literal("INVALID_ARRAY_INDEX", T.STRING), call("concat", shown)])
    return call("case", [*branches, failed])


def _made_timestamp(name: str) -> Callable[[TreeBuilder, Sequence[exp.Expr]], Expr]:
    """``make_timestamp`` of a date and a time of day, with or without a zone, or of six parts."""

    def method(self: TreeBuilder, nodes: Sequence[exp.Expr]) -> Expr:
        args = [self.build(n) for n in nodes]
        if not 2 <= len(args) <= (2 if name.endswith("_ntz") else 3):
            return call(name, args)
        date, time = cast(args[0], T.DATE), cast(args[1], T.TIME)
        clock = call("time_subtract", [time, Literal(0, T.TIME)])
        moment = call("add_interval", [cast(date, T.TIMESTAMP), clock])
        if name.endswith("_ntz"):
            return cast(moment, T.TIMESTAMP_NTZ)
        return moment if len(args) == 2 else call("to_utc_timestamp", [moment, args[2]])

    return method


def _collate(args: Sequence[Expr]) -> Expr:
    text, name = args
    if not isinstance(name, Literal) or not isinstance(name.value, str):
        raise TypeMismatchError(f"collate: the name `{name.text}` must be a constant text, such as 'UTF8_LCASE'")
    if text.type not in (T.STRING, T.NULL):
        raise TypeMismatchError(f"collate takes a text, not {T.type_name(text.type)} (`{text.text}`); cast it")
    return call("collate", [cast(text_of(text), T.STRING), Literal(name_of(name.value), T.STRING)])


def _collation(args: Sequence[Expr]) -> Expr:
    return Literal(f"SYSTEM.BUILTIN.{collation_of(args[0]) or 'UTF8_BINARY'}", T.STRING)


def _typeof(args: Sequence[Expr]) -> Expr:
    name = collation_of(args[0])
    return Literal(mark_of_units(args[0]) or T.type_with_collation(args[0].type, name or ""), T.STRING)


def _moment(args: Sequence[Expr]) -> Expr:
    """A timestamp without a time zone as it is, anything else as a timestamp; or one by its micros."""
    value = args[0] if len(args) == 1 else call("timestamp_micros", args[1:])
    return cast(value, T.TIMESTAMP_NTZ if args[0].type == T.TIMESTAMP_NTZ else T.TIMESTAMP)


def _assert_true(args: Sequence[Expr]) -> Expr:
    message = args[1] if len(args) > 1 else Literal(f"{args[0].text!r} is not true!", T.STRING)
    return call("case", [args[0], Literal(None, T.NULL), call("raise_error", [message])])


def _to_char(args: Sequence[Expr]) -> Expr:
    """Moments by a pattern, bytes by the name of an encoding, numbers by a format."""
    value, form = args
    if value.type in (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ):
        return call("date_format", args)
    if value.type != T.BINARY:
        return call("to_char", args)
    encoding = form.value.lower() if isinstance(form, Literal) and isinstance(form.value, str) else ""
    if encoding in ("utf-8", "utf8"):
        return call("decode", [value, Literal("UTF-8", T.STRING)])
    if encoding not in ("base64", "hex"):
        raise TypeMismatchError(f"to_char: the format `{form.text}` of bytes must be 'base64', 'hex' or 'utf-8'")
    return call(encoding, [value])


def _arrays_zip(self: TreeBuilder, nodes: Sequence[exp.Expr]) -> Expr:
    """The names of the fields are those of columns and fields, else their places."""
    _wants("arrays_zip", nodes, 1, 1000)
    args: list[Expr] = []
    for i, node in enumerate(nodes):
        name = node.name if isinstance(node, (exp.Column, exp.Dot, exp.Identifier)) else str(i)
        args += [Literal(name, T.STRING), self.build(node)]
    return call("named_arrays_zip", args)


def _update_field(self: TreeBuilder, nodes: Sequence[exp.Expr]) -> Expr:
    """A struct with another value, or with two arguments without one, of a field; names that are not there are added.

    PySpark's ``withField`` and ``dropFields``; a null stays null.
    """
    value, name = self.build(nodes[0]), nodes[1].name
    if not T.is_struct(value.type):
        raise TypeMismatchError(f"`{value.text}` is {T.type_name(value.type)} and has no field {name!r}")
    members = [value.type.field(i).name for i in range(value.type.num_fields)]
    parts = {m: get_field(value, m) for m in members}
    same = [m for m in members if m.lower() == name.lower()]
    if len(nodes) > 2:
        new = self.build(nodes[2])
        parts.update(dict.fromkeys(same or [name], new))
    else:
        parts = {m: part for m, part in parts.items() if m not in same}
    if not parts:
        raise TypeMismatchError(f"`{value.text}` without {name!r} has no field; leave it out as a whole")
    made = call("named_struct", [one for m, part in parts.items() for one in (Literal(m, T.STRING), part)])
    return call("case", [call("isnotnull", [value]), made]) if value.nullable else made


def _constant(value: str) -> Callable[[Sequence[Expr]], Expr]:
    return lambda _args: Literal(value, T.STRING)


_MANY = 1000


def _make_interval(_: TreeBuilder, __: Sequence[exp.Expr]) -> Expr:
    raise UnsupportedFunctionError(
        "make_interval() stands beside a time, as in at + make_interval(0, 1): an interval of months, days and "
        "microseconds together has neither equality nor order; make_ym_interval and make_dt_interval give values"
    )


SPECIAL: dict[str, Callable[[TreeBuilder, Sequence[exp.Expr]], Expr]] = {
    "nullif": _nullif,
    "locate": _locate,
    "position": _locate,
    "struct": _struct,
    "make_interval": _make_interval,
    "#update_field": _update_field,  # not a name that a text can call
    MOMENT: _written_as(MOMENT, 1, 2, _moment),
    "update_time": _update_time,
    "ltrim": _one_sided_trim("ltrim"),
    "rtrim": _one_sided_trim("rtrim"),
    "arrays_zip": _arrays_zip,
    "decode": _written_as("decode", 2, _MANY, _decode),
    "to_char": _written_as("to_char", 2, 2, _to_char),
    "to_varchar": _written_as("to_varchar", 2, 2, _to_char),
    "elt": _written_as("elt", 2, _MANY, _elt),
    "assert_true": _written_as("assert_true", 1, 2, _assert_true),
    "between": _written_as(
        "between", 3, 3, lambda args: call("and", [call(">=", args[:2]), call("<=", [args[0], args[2]])])
    ),
    **{
        f"{attempt}make_timestamp{kind}": _made_timestamp(f"{attempt}make_timestamp{kind}")
        for attempt in ("", "try_")
        for kind in ("", "_ltz", "_ntz")
    },
    "nullifzero": _written_as(
        "nullifzero",
        1,
        1,
        lambda args: call("case", [call("=", [args[0], integer(0)]), Literal(None, args[0].type), args[0]]),
    ),
    "zeroifnull": _written_as("zeroifnull", 1, 1, lambda args: call("coalesce", [args[0], integer(0)])),
    "typeof": _written_as("typeof", 1, 1, _typeof),
    "collate": _written_as("collate", 2, 2, _collate),
    "collation": _written_as("collation", 1, 1, _collation),
    "current_timezone": _written_as("current_timezone", 0, 0, _constant("UTC")),
}
