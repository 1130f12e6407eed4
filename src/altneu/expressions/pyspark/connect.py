"""Expressions of Spark Connect's protocol as trees.

The messages are read by the names of their fields, so that this needs neither pyspark nor protobuf; they are described
in Spark's ``expressions.proto`` and ``types.proto``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.errors import AltneuError, ExpressionSyntaxError, PlanError, SchemaError
from altneu.expressions import dialect
from altneu.expressions.pyspark import forms
from altneu.types import quote_name

TAG = "#frame "
"""What the name of a table begins with that stands for the DataFrame of this number, as in ``df.name``."""
STAR = "frame star"
"""The key of a star's ``meta``: the name of the table whose columns it is, or None."""
REGEX = "frame regex"
"""The key of a star's ``meta``: a pattern that the names of its columns match."""

_NUMBERS = {"byte": T.BYTE, "short": T.SHORT, "integer": T.INT, "long": T.LONG, "double": T.DOUBLE, "float": T.FLOAT}
_PLAIN = {
    **_NUMBERS,
    "boolean": T.BOOLEAN,
    "string": T.STRING,
    "binary": T.BINARY,
    "date": T.DATE,
    "timestamp": T.TIMESTAMP,
    "timestamp_ntz": T.TIMESTAMP_NTZ,
    "year_month_interval": T.YEAR_MONTH,
    "day_time_interval": T.DAY_TIME,
}
_TYPES = {
    "null": "void",
    "binary": "binary",
    "boolean": "boolean",
    "byte": "tinyint",
    "short": "smallint",
    "integer": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp_ntz",
    "year_month_interval": "interval year to month",
    "day_time_interval": "interval day to second",
    "variant": "variant",
}
_TIMES = "nanoseconds"


def name_parts(text: str) -> list[str]:
    """The parts of a dotted name, of which those in backquotes may have dots.

    >>> name_parts("a.`b.c`.d")
    ['a', 'b.c', 'd']

    Raises:
        ExpressionSyntaxError: it is not a name.
    """
    if not re.fullmatch(r"(`(?:[^`]|``)*`|[^`.]+)(\.(`(?:[^`]|``)*`|[^`.]+))*", text):
        raise ExpressionSyntaxError(f"{text!r} is not the name of a column")
    parts = re.findall(r"`(?:[^`]|``)*`|[^`.]+", text)
    return [p[1:-1].replace("``", "`") if p.startswith("`") else p for p in parts]


def has(message: Any, name: str) -> bool:
    """Whether a field is set; one that the protocol of an older Spark does not have is not."""
    return name in message.DESCRIPTOR.fields_by_name and message.HasField(name)


def field(message: Any, name: str) -> Any:
    """The value of a field, None where the protocol of an older Spark does not have it."""
    return getattr(message, name, None)


def type_text(message: Any) -> str:
    """A type as DDL writes it.

    Raises:
        PlanError: altneu has no such type.
    """
    kind = message.WhichOneof("kind")
    inner: Any = getattr(message, kind) if kind else None
    if kind == "string" and getattr(inner, "collation", "").upper() not in ("", "UTF8_BINARY"):
        raise forms.unsupported(f"the type string collate {inner.collation}", forms.COLLATED)
    if kind in _TYPES:
        return _TYPES[kind]
    if kind == "time":
        return f"time({message.time.precision if message.time.HasField('precision') else 6})"
    match kind:
        case "decimal":
            precision, scale = (inner.precision if inner.HasField("precision") else 10), inner.scale
            return f"decimal({precision},{scale})"
        case "char" | "var_char":
            raise forms.unsupported(f"the type {kind}({inner.length})", "use string")
        case "array":
            return f"array<{type_text(inner.element_type)}>"
        case "map":
            return f"map<{type_text(inner.key_type)},{type_text(inner.value_type)}>"
        case "struct":
            fields = (f"{quote_name(f.name)}:{type_text(f.data_type)}" for f in inner.fields)
            return f"struct<{','.join(fields)}>"
        case "unparsed":
            return str(inner.data_type_string)
    raise forms.unsupported(f"the type {kind}", "cast to another one before altneu reads it")


class Columns:
    """Makes trees of expressions.

    With ``tagged`` the columns of a DataFrame, ``df.name``, keep which one that is, as the name of a table that begins
    with ``TAG``; else they are columns of that name. ``subquery`` gives the query that a plan's number stands for, and
    ``functions`` makes functions of what PySpark keeps of them; without, they are refused.
    """

    def __init__(
        self,
        *,
        tagged: bool = False,
        subquery: Callable[[int], exp.Expr] | None = None,
        functions: forms.PythonFunctions | None = None,
    ) -> None:
        self._tagged, self._subquery, self._functions = tagged, subquery, functions
        self._variables: dict[str, str] = {}  # of the lambdas around, by the names that PySpark counts on and on

    def tree(self, message: Any) -> exp.Expr:
        """One expression.

        Raises:
            PlanError: altneu does not evaluate it; with the place in the program, where Spark has noted it.
        """
        kind = message.WhichOneof("expr_type")
        made = self.literal if kind == "literal" else getattr(self, f"_{kind}", None)
        try:
            if made is None:
                what = (kind or "nothing").replace("_", " ")
                raise forms.unsupported(f"the expression {what}", "compute the column before altneu reads it")
            result: exp.Expr = made(getattr(message, kind))
        except AltneuError as error:
            place = origin(message)
            if place and place not in str(error):
                error.args = (f"{error} [{place}]",)
            raise
        return result

    def trees(self, messages: Any) -> list[exp.Expr]:
        """Several expressions."""
        return [self.tree(m) for m in messages]

    # constants ------------------------------------------------------------------------------------------------------

    def literal(self, message: Any) -> exp.Expr:
        """A constant."""
        kind = message.WhichOneof("literal_type")
        value = getattr(message, kind)
        if kind in _PLAIN:
            return forms.constant(float(value) if kind in ("float", "double") else value, _PLAIN[kind])
        match kind:
            case "null":
                text = type_text(value if value.WhichOneof("kind") else message.data_type)
                return exp.Null() if text == "void" else exp.Cast(this=exp.Null(), to=forms.data_type(text))
            case "decimal":
                return _decimal(value)
            case "time" if value.nano % 1000 == 0:
                return forms.constant(value.nano // 1000, T.TIME)
            case "array":
                return self._array(value, message)
            case "specialized_array":
                return _specialised(value)
            case "map":
                pairs = [part for pair in zip(value.keys, value.values, strict=True) for part in pair]
                return exp.Anonymous(this="map", expressions=[self.literal(p) for p in pairs])
            case "struct":
                return self._struct(value, message)
            case "calendar_interval":
                return _calendar_interval(value)
        raise forms.unsupported(f"a constant that is {_TIMES}" if "n" in str(kind) else f"a {kind}", "use a timestamp")

    def _array(self, value: Any, message: Any) -> exp.Expr:
        array = exp.Anonymous(this="array", expressions=[self.literal(e) for e in value.elements])
        if value.elements:
            return array
        typed = value.element_type.WhichOneof("kind")
        kind = f"array<{type_text(value.element_type)}>" if typed else type_text(message.data_type)
        return exp.Cast(this=array, to=forms.data_type(kind))

    def _struct(self, value: Any, message: Any) -> exp.Expr:
        kind = value.struct_type if value.struct_type.WhichOneof("kind") else message.data_type
        pairs = zip(kind.struct.fields, value.elements, strict=True)
        parts = [part for f, e in pairs for part in (exp.Literal.string(f.name), self.literal(e))]
        return exp.Anonymous(this="named_struct", expressions=parts)

    # names ----------------------------------------------------------------------------------------------------------

    def _unresolved_attribute(self, message: Any) -> exp.Expr:
        if field(message, "is_metadata_column"):
            raise forms.unsupported(f"the metadata column {message.unparsed_identifier}", "read it into a column")
        return forms.column([*self._tag(message), *name_parts(message.unparsed_identifier)])

    def _tag(self, message: Any) -> list[str]:
        return [f"{TAG}{message.plan_id}"] if self._tagged and has(message, "plan_id") else []

    def _unresolved_star(self, message: Any) -> exp.Expr:
        star = exp.Star()
        target = message.unparsed_target.removesuffix(".*") if message.HasField("unparsed_target") else None
        tag = self._tag(message)
        star.meta[STAR] = tag[0] if tag else target
        return star

    def _unresolved_regex(self, message: Any) -> exp.Expr:
        star = exp.Star()
        tag = self._tag(message)
        star.meta[STAR] = tag[0] if tag else None
        star.meta[REGEX] = message.col_name.strip("`")
        return star

    def _unresolved_named_lambda_variable(self, message: Any) -> exp.Expr:
        name = ".".join(message.name_parts)
        return exp.to_identifier(self._variables.get(name, name), quoted=True)

    # calls ----------------------------------------------------------------------------------------------------------

    def _unresolved_function(self, message: Any) -> exp.Expr:
        if message.is_user_defined_function:
            return self._refused_function(message.function_name)
        return self._called(message.function_name, self.trees(message.arguments), distinct=message.is_distinct)

    def _call_function(self, message: Any) -> exp.Expr:
        return self._called(name_parts(message.function_name)[-1], self.trees(message.arguments), distinct=False)

    def _called(self, name: str, arguments: list[exp.Expr], *, distinct: bool) -> exp.Expr:
        """A call by name: of a function of the user's, whose names are none of Spark's, or of Spark's."""
        if name in _WITH_SCHEMA and len(arguments) > 1 and arguments[1].is_string:
            arguments[1] = exp.Literal.string(_ddl_of(arguments[1].name))
        if name == "nth_value" and len(arguments) == 3:  # as PySpark calls it, and no text of SQL
            *arguments, ignored = arguments
            made = forms.call(name, arguments)
            return exp.IgnoreNulls(this=made) if ignored == exp.true() else made
        own = None if self._functions is None or distinct else self._functions.call(name, arguments)
        return forms.call(name, arguments, distinct=distinct) if own is None else own

    def _common_inline_user_defined_function(self, message: Any) -> exp.Expr:
        made = message.python_udf
        if self._functions is None or message.WhichOneof("function") != "python_udf":
            return self._refused_function(message.function_name)
        kind, returns = int(made.eval_type), type_text(made.output_type)
        arguments, name = self.trees(message.arguments), message.function_name
        return self._functions.made(
            name, bytes(made.command), kind, returns, arguments, deterministic=message.deterministic
        )

    def _refused_function(self, name: str) -> exp.Expr:
        raise forms.unsupported(
            f"the function {name}() of PySpark or Java in a DataFrame",
            "an.udf(...) takes functions of PySpark in expressions; of others use SQL's",
        )

    def _named_argument_expression(self, message: Any) -> exp.Expr:
        raise forms.unsupported(f"the named argument {message.key}", "give arguments by their places")

    def _expression_string(self, message: Any) -> exp.Expr:
        trees = dialect.parse_trees(message.expression, exactly=1)
        return _starred(trees[0])

    def _alias(self, message: Any) -> exp.Expr:
        tree = self.tree(message.expr)
        inner = tree.this if isinstance(tree, exp.Alias) else tree
        names = list(message.name)
        if len(names) == 1:
            return forms.named(inner, names[0])
        return exp.Aliases(this=inner, expressions=[exp.to_identifier(n, quoted=True) for n in names])

    def _cast(self, message: Any) -> exp.Expr:
        text = message.type_str if message.WhichOneof("cast_to_type") == "type_str" else type_text(message.type)
        node = exp.TryCast if field(message, "eval_mode") == 3 else exp.Cast  # EVAL_MODE_TRY
        try:
            return node(this=forms.unnamed(self.tree(message.expr)), to=forms.data_type(text))
        except SchemaError as error:
            raise PlanError(f"cast to {text}: {error}") from None

    def _lambda_function(self, message: Any) -> exp.Expr:
        """A lambda whose variables are numbered from the outermost one on, so that equal ones are one plan."""
        around, given = self._variables, [".".join(a.name_parts) for a in message.arguments]
        self._variables = around | {name: f"x_{len(around) + i}" for i, name in enumerate(given)}
        try:
            names = [exp.to_identifier(self._variables[name], quoted=True) for name in given]
            return exp.Lambda(this=self.tree(message.function), expressions=names)
        finally:
            self._variables = around

    def _unresolved_extract_value(self, message: Any) -> exp.Expr:
        return exp.Bracket(
            this=forms.operand(forms.unnamed(self.tree(message.child))), expressions=[self.tree(message.extraction)]
        )

    def _update_fields(self, message: Any) -> exp.Expr:
        given = [self.tree(message.value_expression)] if message.HasField("value_expression") else []
        value = [forms.unnamed(tree) for tree in given]
        return _updated(forms.unnamed(self.tree(message.struct_expression)), name_parts(message.field_name), value)

    # orders and windows ---------------------------------------------------------------------------------------------

    def _sort_order(self, message: Any) -> exp.Expr:
        return self.ordered(message)

    def ordered(self, message: Any) -> exp.Ordered:
        """A sort key."""
        descending = message.direction == 2  # SORT_DIRECTION_DESCENDING
        nulls = message.null_ordering
        return forms.ordered(
            forms.unnamed(self.tree(message.child)),
            descending=descending,
            nulls_first=nulls == 1 if nulls else not descending,
        )

    def _window(self, message: Any) -> exp.Expr:
        frame = None
        if message.HasField("frame_spec"):
            spec = message.frame_spec
            kind = "ROWS" if spec.frame_type == 1 else "RANGE"
            frame = forms.frame(kind, self._bound(spec.lower), self._bound(spec.upper))
        partition = [forms.unnamed(t) for t in self.trees(message.partition_spec)]
        order = [self.ordered(o) for o in message.order_spec]
        return forms.window(self.tree(message.window_function), partition, order, frame)

    def _bound(self, message: Any) -> exp.Expr | str | None:
        kind = message.WhichOneof("boundary")
        if kind == "value":
            return self.tree(message.value)
        return "CURRENT ROW" if kind == "current_row" else None

    # subqueries -----------------------------------------------------------------------------------------------------

    def _subquery_expression(self, message: Any) -> exp.Expr:
        if self._subquery is None:
            raise PlanError("a subquery is not an expression here: write it as a join or a semijoin")
        query = self._subquery(message.plan_id)
        match message.subquery_type:
            case 1:
                return exp.Subquery(this=query)
            case 2:
                return exp.Exists(this=query)
            case 4:
                values = self.trees(message.in_subquery_values)
                tested = values[0] if len(values) == 1 else exp.Tuple(expressions=values)
                return exp.In(this=tested, query=exp.Subquery(this=query))
        raise forms.unsupported("a table as the argument of a function", "use the verbs of a collection")


_WITH_SCHEMA = ("from_json", "from_csv", "from_xml")


_DDL = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}


def _ddl_of(schema: str) -> str:
    """A schema as in DDL, also one that PySpark has written as JSON.

    >>> _ddl_of(
    ...     '{"type": "struct", "fields": [{"name": "a b", "type": {"type": "array", "elementType": "long"}}]}'
    ... )
    'struct<`a b`: array<bigint>>'
    """
    return _type_of(json.loads(schema)) if schema.lstrip().startswith("{") else schema


def _type_of(said: Any) -> str:
    if not isinstance(said, dict):
        return _DDL.get(said, str(said))
    match said["type"]:
        case "struct":
            fields = (f"{quote_name(f['name'])}: {_type_of(f['type'])}" for f in said["fields"])
            return f"struct<{', '.join(fields)}>"
        case "array":
            return f"array<{_type_of(said['elementType'])}>"
        case "map":
            return f"map<{_type_of(said['keyType'])}, {_type_of(said['valueType'])}>"
    raise forms.unsupported(f"a schema with the type {said['type']}", "give the schema as a text, 'a INT, b STRING'")


def _updated(struct: exp.Expr, path: Sequence[str], value: list[exp.Expr]) -> exp.Expr:
    """A struct with another value of a field, or without it if there is none; the field may be in structs within it."""
    name, *rest = path
    if rest:
        inner = exp.Bracket(this=forms.operand(struct.copy()), expressions=[exp.Literal.string(name)])
        value = [_updated(inner, rest, value)]
    return exp.Anonymous(this="#update_field", expressions=[struct, exp.Literal.string(name), *value])


def origin(message: Any) -> str:
    """Where in the program an expression was written, if Spark has noted it; else nothing."""
    if not has(message, "common") or not has(message.common, "origin"):
        return ""
    python = message.common.origin.python_origin
    place = python.call_site.strip().splitlines()[-1].strip() if python.call_site.strip() else ""
    return f"{python.fragment} at {place}" if place else str(python.fragment)


def _decimal(message: Any) -> exp.Expr:
    value = Decimal(message.value)
    scale = max(-int(value.as_tuple().exponent), message.scale, 0)
    precision = max(len(value.as_tuple().digits), message.precision, scale)
    return forms.constant(value, pa.decimal128(precision, scale))


def _specialised(message: Any) -> exp.Expr:
    kind = message.WhichOneof("value_type")
    of = {"bools": T.BOOLEAN, "ints": T.INT, "longs": T.LONG, "floats": T.FLOAT, "doubles": T.DOUBLE}
    values = getattr(message, kind).values
    array = exp.Anonymous(this="array", expressions=[forms.constant(v, of.get(kind, T.STRING)) for v in values])
    kind_of = T.type_name(of.get(kind, T.STRING))
    return array if values else exp.Cast(this=array, to=forms.data_type(f"array<{kind_of}>"))


def _calendar_interval(message: Any) -> exp.Expr:
    if message.months and not message.days and not message.microseconds:
        return forms.constant(message.months, T.YEAR_MONTH)
    if message.months:
        raise forms.unsupported("an interval of months and days", "add one after the other")
    return forms.constant(message.days * 86_400_000_000 + message.microseconds, T.DAY_TIME)


def _starred(tree: exp.Expr) -> exp.Expr:
    """A parsed expression, in which ``*`` and ``t.*`` are written as a DataFrame has them."""
    star = tree if isinstance(tree, exp.Star) else tree.this if isinstance(tree, exp.Column) else None
    if isinstance(star, exp.Star):
        names = [p.name for p in tree.parts[:-1]] if isinstance(tree, exp.Column) else [""]
        star = star.copy()
        star.meta[STAR] = names[0] if len(names) == 1 else ".".join(map(quote_name, names))
        return star
    return tree
