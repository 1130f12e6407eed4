"""The grammar: sqlglot's Spark dialect with Spark's operator precedence and function calls left as they are written.

sqlglot is made to translate between dialects, so its Spark parser folds ``nvl`` into ``COALESCE``, rewrites date
formats and forgets that ``CAST`` is strict. Here every call stays ``Anonymous(name, arguments)``: the registry
decides what a name means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Token, TokenType

from altneu.errors import ExpressionSyntaxError, PlanError
from altneu.expressions.variants.paths import written
from altneu.types import time_digits
from altneu.types.syntax import WithTypes, refuse_unread, with_quotes

_SPECIAL_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "POSITION", "SUBSTRING", "SUBSTR", "TRIM", "OVERLAY")
"""Calls whose arguments are not just separated by commas."""


UNITS_OF_TIME = (
    "YEAR",
    "QUARTER",
    "MONTH",
    "WEEK",
    "DAY",
    "DAYOFYEAR",
    "HOUR",
    "MINUTE",
    "SECOND",
    "MILLISECOND",
    "MICROSECOND",
)
_WITH_UNIT = {
    **dict.fromkeys(("TIMESTAMPADD", "DATEADD", "DATE_ADD"), "timestampadd"),
    **dict.fromkeys(("TIMESTAMPDIFF", "DATEDIFF", "DATE_DIFF"), "timestampdiff"),
}
"""Calls that may begin with a word that is a unit of time, and what they are then."""
_Base: Any = WithTypes


def _call_with_unit(name: str) -> Callable[[Any], exp.Expr]:
    """Parse a call of three arguments, of which the first is a unit and not a column; or one of others."""

    def parse(parser: Any) -> exp.Expr:
        arguments = parser._parse_csv(parser._parse_assignment)
        unit = arguments[0] if len(arguments) == 3 else None
        if isinstance(unit, exp.Column) and len(unit.parts) == 1 and unit.name.upper() in UNITS_OF_TIME:
            if unit.name.upper() == "DAYOFYEAR" and _WITH_UNIT[name] == "timestampdiff":
                parser.raise_error(f"{name} has no unit DAYOFYEAR; use DAY")
            return exp.Anonymous(
                this=_WITH_UNIT[name], expressions=[exp.Literal.string(unit.name.upper()), *arguments[1:]]
            )
        return exp.Anonymous(this=name, expressions=arguments)

    return parse


_LONGEST_CHAIN = 200
"""Parts of a chain of ORs that is a tree as deep as it is long; stores have no longer ones."""


def any_of(parts: Sequence[exp.Expr]) -> exp.Expr:
    """Conditions connected by OR, in their order; many of them as a tree of the least depth.

    >>> any_of([exp.column(name) for name in "abc"]).sql()
    'a OR b OR c'
    """
    if len(parts) <= _LONGEST_CHAIN:
        return reduce(lambda one, other: exp.Or(this=one, expression=other), parts)
    return _balanced(parts)


def shallow(tree: exp.Expr) -> exp.Expr:
    """A tree in which each chain of ORs is a tree of the least depth; the same one if it has no chain."""
    chains = [node for node in tree.find_all(exp.Or) if isinstance(node.this, exp.Or) and not _is_inside_chain(node)]
    if not chains:
        return tree
    root = exp.Paren(this=tree.copy())
    for node in [node for node in root.find_all(exp.Or) if not _is_inside_chain(node)]:
        node.replace(_balanced(_parts_of(node)))
    return root.this.pop()


def _is_inside_chain(node: exp.Or) -> bool:
    return isinstance(node.parent, exp.Or) and node.parent.this is node


def _parts_of(tree: exp.Expr) -> list[exp.Expr]:
    """The conditions of a chain of ORs that is as deep as it is long, in their order."""
    parts = []
    while isinstance(tree, exp.Or):
        parts.append(tree.expression)
        tree = tree.this
    return [tree, *reversed(parts)]


def _balanced(parts: Sequence[exp.Expr]) -> exp.Expr:
    level = list(parts)
    while level[1:]:
        pairs = [exp.Or(this=one, expression=other) for one, other in zip(level[0::2], level[1::2], strict=False)]
        level = [*pairs, *level[len(pairs) * 2 :]]
    return level[0]


class SparkExpressions(Spark):
    """Spark SQL, faithful to what was written."""

    class Parser(_Base):  # type: ignore[misc]  # sqlglot makes it an attribute, not a type
        """The Spark parser without its translation of functions, with Spark's precedence of ``|| << & ^ |``."""

        STRICT_CAST = True
        FUNC_TOKENS: ClassVar[set[TokenType]] = {*Spark.Parser.FUNC_TOKENS, TokenType.BETWEEN}
        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            **{name: Spark.Parser.FUNCTION_PARSERS[name] for name in _SPECIAL_SYNTAX},
            **{name: _call_with_unit(name) for name in _WITH_UNIT},
        }
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}  # array(1, 2)[0] is no ARRAY[0]
        COLON_IS_VARIANT_EXTRACT = True
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            "CASE": Spark.Parser.NO_PAREN_FUNCTION_PARSERS["CASE"]
        }

        def _parse(self, parse_method: Callable[..., Any], raw_tokens: list[Token], sql: str | None = None) -> Any:
            """Whatever is parsed, of tokens in which a text with a doubled quote is one."""
            return super()._parse(parse_method, with_quotes(raw_tokens, sql or ""), sql)

        def _parse_csv(self, parse_method: Callable[[], Any], sep: TokenType = TokenType.COMMA) -> list[Any]:
            """A list, in which nothing may be missing before or after a comma."""
            items = [parse_method()]
            while self._match(sep):
                comma = self._prev
                items.append(parse_method())
                if None in (items[-2], items[-1]):
                    self.raise_error("something is missing beside a comma", comma)
            return [item for item in items if item is not None]

        def _parse_disjunction(self) -> exp.Expr | None:
            """Conditions; a long chain of them is made a tree of little depth."""
            tree = super()._parse_disjunction()
            if not isinstance(tree, exp.Or):
                return tree
            parts = _parts_of(tree)
            return any_of(parts) if len(parts) > _LONGEST_CHAIN else tree

        def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            """A type; a time of day as what is written again as one."""
            found: exp.Expr | None = super()._parse_types(*args, **kwargs)
            kind = found.args.get("to") if isinstance(found, exp.Cast) else found  # ``TIME '12:00'`` is a cast
            types = exp.DataType, exp.CollateColumnConstraint
            for one in kind.find_all(*types) if isinstance(kind, exp.DataType) else ():
                key = "collate" if isinstance(one, exp.DataType) else "this"
                if isinstance(one.args.get(key), exp.Column):
                    one.set(key, exp.Var(this=".".join(part.name for part in one.args[key].parts)))
            digits = time_digits(kind) if isinstance(kind, exp.DataType) else None
            if kind is not None and digits is not None:
                name = "TIME" if digits == 6 else f"TIME({digits})"
                for key, value in (("this", exp.DType.USERDEFINED), ("kind", name), ("expressions", None)):
                    kind.set(key, value)
            return found

        def _parse_type(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            """What an operator stands beside, with the collation that follows it."""
            this: exp.Expr | None = super()._parse_type(*args, **kwargs)
            while this is not None and self._match(TokenType.COLLATE):
                name = self._parse_table_parts()
                text = ".".join(part.name for part in name.parts)
                this = self.expression(exp.Anonymous(this="collate", expressions=[this, exp.Literal.string(text)]))
            return this

        def _build_json_extract(
            self, this: exp.Expr | None, path_parts: list[exp.JSONPathPart]
        ) -> tuple[exp.Expr | None, list[exp.JSONPathPart]]:
            """A path behind a colon, ``v:a[0]``, which is a call of ``variant_get``."""
            if len(path_parts) < 2:
                return this, path_parts
            steps: list[str | int] = []
            for part in path_parts[1:]:
                if not isinstance(part.this, str | int):
                    self.raise_error("a path behind a colon has names and indices only")
                steps.append(part.this)
            path = exp.Literal.string(written(tuple(steps)))
            call = self.expression(exp.Anonymous(this="variant_get", expressions=[this, path]))
            return call, [exp.JSONPathRoot()]

        def _parse_bitwise(self) -> exp.Expr | None:
            return self._parse_levels(0)

        def _parse_levels(self, level: int) -> exp.Expr | None:
            """Parse ``|`` over ``^`` over ``&`` over shifts over terms, each from left to right."""
            if level == len(_LEVELS):
                return self._parse_shift()
            this = self._parse_levels(level + 1)
            token, node = _LEVELS[level]
            while this is not None and self._match(token):
                this = self.expression(node(this=this, expression=self._parse_levels(level + 1)))
            return this

        def _parse_shift(self) -> exp.Expr | None:
            this = self._parse_term()
            while this is not None:
                if self._match_pair(TokenType.LT, TokenType.LT):
                    this = self.expression(exp.BitwiseLeftShift(this=this, expression=self._parse_term()))
                elif not self._match_pair(TokenType.GT, TokenType.GT):
                    break
                elif self._match(TokenType.GT):
                    arguments = [this, self._parse_term()]
                    this = self.expression(exp.Anonymous(this="shiftrightunsigned", expressions=arguments))
                else:
                    this = self.expression(exp.BitwiseRightShift(this=this, expression=self._parse_term()))
            return this

        def _parse_term(self, parse_mod: bool = True) -> exp.Expr | None:
            this = self._parse_factor(parse_mod=parse_mod)
            while this is not None:
                if self._match(TokenType.PLUS):
                    node: type[exp.Expr] = exp.Add
                elif self._match(TokenType.DASH):
                    node = exp.Sub
                elif self._match(TokenType.DPIPE):
                    node = exp.DPipe
                else:
                    break
                this = self.expression(node(this=this, expression=self._parse_factor(parse_mod=parse_mod)))
            return this

        def _parse_ordered(self, parse_method: Callable[[], exp.Expr | None] | None = None) -> exp.Ordered | None:
            """Parse one sort key; nulls are first ascending and last descending unless the text says otherwise."""
            this = parse_method() if parse_method else self._parse_disjunction()
            if this is None:
                return None
            descending = bool(self._match(TokenType.DESC))
            if not descending:
                self._match(TokenType.ASC)
            nulls_first = not descending
            if self._match_text_seq("NULLS", "FIRST"):
                nulls_first = True
            elif self._match_text_seq("NULLS", "LAST"):
                nulls_first = False
            return self.expression(exp.Ordered(this=this, desc=descending, nulls_first=nulls_first))


_LEVELS: tuple[tuple[TokenType, type[exp.Expr]], ...] = (
    (TokenType.PIPE, exp.BitwiseOr),
    (TokenType.CARET, exp.BitwiseXor),
    (TokenType.AMP, exp.BitwiseAnd),
)


def parse_tree(text: str) -> exp.Expr:
    """Parse one expression.

    >>> parse_tree("a + nvl(b, 0)").sql()
    'a + NVL(b, 0)'

    Raises:
        ExpressionSyntaxError: the text is not an expression; the message shows where.
    """
    return parse_trees(text, exactly=1)[0]


def parse_trees(text: str, exactly: int | None = None, *, ordered: bool = False) -> list[exp.Expr]:
    """Parse a comma-separated list of expressions (of sort keys when ``ordered``)."""
    prefix = "SELECT 1 ORDER BY " if ordered else "SELECT "
    if not text.strip():
        raise ExpressionSyntaxError("an expression is empty")
    try:
        query = sqlglot.parse_one(prefix + text, dialect=SparkExpressions)
    except sqlglot.errors.SqlglotError as error:
        raise ExpressionSyntaxError(f"cannot parse {text!r}: {_reason(error)}") from None
    except RecursionError:
        raise ExpressionSyntaxError("an expression is nested too deeply; split it over several select()") from None
    allowed = {"expressions", "hint", "distinct", "limit"}
    if not isinstance(query, exp.Select):
        raise ExpressionSyntaxError(f"cannot parse {text!r}: it is not one expression")
    extra = [k for k, v in query.args.items() if v and k not in allowed | ({"order"} if ordered else set())]
    if extra or query.args.get("distinct") or query.args.get("limit"):
        raise ExpressionSyntaxError(
            f"cannot parse {text!r}: it is not one expression (it has a {(extra or ['modifier'])[0]} clause)"
        )
    trees: list[exp.Expr] = list(query.args["order"].expressions if ordered else query.expressions)
    for tree in trees:
        _refuse_unread(tree, text)
    if exactly is not None and len(trees) != exactly:
        raise ExpressionSyntaxError(f"cannot parse {text!r}: it must be one expression, got {len(trees)}")
    return trees


def _refuse_unread(tree: exp.Expr, text: str) -> None:
    try:
        refuse_unread(tree)
    except PlanError as error:
        error.args = (f"{error} [in `{text}`]",)
        raise


def _reason(error: sqlglot.errors.SqlglotError) -> str:
    details = getattr(error, "errors", None)
    if details:
        first = details[0]
        near = first.get("highlight") or ""
        reason = str(first.get("description", "syntax error"))
        if reason.startswith("Required keyword"):  # sqlglot goes on with the names of its own classes
            reason = "an operand or argument is missing"
        return reason + (f" near {near!r}" if near else "")
    return str(error).split("\n")[0]
