"""Calls of Spark's operators and functions as the trees that SQL has for them.

Both a Connect plan and Catalyst write ``a + 1`` as a function of two arguments; SQL's parser makes a node of it. Here
such calls become these nodes, so that everything after them is the same for SQL and for DataFrames.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.errors import PlanError
from altneu.expressions import dialect
from altneu.expressions.literals import literal_sql
from altneu.expressions.nodes import FUNCTION

OUTER = "^of outer "
"""Before the name of a column that is one of the outer query, whatever columns the subquery has."""
_BINARY: dict[str, type[exp.Expr]] = {
    "+": exp.Add,
    "-": exp.Sub,
    "*": exp.Mul,
    "/": exp.Div,
    "%": exp.Mod,
    "div": exp.IntDiv,
    "=": exp.EQ,
    "==": exp.EQ,
    "!=": exp.NEQ,
    "<>": exp.NEQ,
    "<=>": exp.NullSafeEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "and": exp.And,
    "or": exp.Or,
    "&": exp.BitwiseAnd,
    "|": exp.BitwiseOr,
    "^": exp.BitwiseXor,
    "rlike": exp.RegexpLike,
    "regexp": exp.RegexpLike,
    "regexp_like": exp.RegexpLike,
}
_UNARY: dict[str, type[exp.Expr]] = {"not": exp.Not, "!": exp.Not, "~": exp.BitwiseNot, "negative": exp.Neg}
_LEVELS = ("this", "table", "db", "catalog")
_PARENTHESISED = (exp.Binary, exp.Unary, exp.Between, exp.In, exp.Is, exp.Like, exp.ILike, exp.RegexpLike)


def operand(tree: exp.Expr) -> exp.Expr:
    """A tree as it may stand beside an operator."""
    wraps = isinstance(tree, _PARENTHESISED) and not isinstance(tree, exp.Paren | exp.Dot)
    return exp.Paren(this=tree) if wraps else tree


def unnamed(tree: exp.Expr) -> exp.Expr:
    """An expression without its name, which inside of another one says nothing."""
    return tree.this if isinstance(tree, exp.Alias) else tree


def column(parts: Sequence[str]) -> exp.Expr:
    """A dotted name.

    >>> column(["a", "b"]).sql("spark"), column(["a b"]).sql("spark")
    ('a.b', '`a b`')
    """
    names = [exp.to_identifier(part, quoted=not part.isidentifier()) for part in parts]
    head, rest = names[: len(_LEVELS)], names[len(_LEVELS) :]
    tree: exp.Expr = exp.Column(**dict(zip(_LEVELS, reversed(head), strict=False)))
    for name in rest:
        tree = exp.Dot(this=tree, expression=name)
    return tree


def named(tree: exp.Expr, name: str) -> exp.Alias:
    """An expression under a name."""
    return exp.Alias(this=tree, alias=exp.to_identifier(name, quoted=True))


def constant(value: Any, kind: pa.DataType) -> exp.Expr:
    """A constant: dates, moments and intervals by their counts of days, microseconds and months."""
    if isinstance(value, str):
        return exp.Literal.string(value)  # not through a text, which the tokenizer would have to read back
    return dialect.parse_tree(literal_sql(value, kind))


def data_type(text: str) -> exp.Expr:
    """A type as DDL writes it.

    Raises:
        SchemaError: altneu has no such type.
    """
    T.parse_type(text)
    node: exp.Expr = dialect.parse_tree(f"CAST(NULL AS {text})").args["to"]
    return node


def call(name: str, arguments: Sequence[exp.Expr], *, distinct: bool = False) -> exp.Expr:
    """A function applied to arguments.

    >>> [call(name, [column(["a"]), column(["b"])]).sql("spark") for name in ("<=>", "pmod", "startsWith")]
    ['a IS NOT DISTINCT FROM b', 'PMOD(a, b)', 'STARTSWITH(a, b)']
    """
    lowered = name.lower()
    args = list(arguments) if lowered == "struct" else [unnamed(a) for a in arguments]
    if distinct:
        return exp.Anonymous(this=lowered, expressions=[exp.Distinct(expressions=args)])
    if lowered in _BINARY and len(args) == 2:
        return _BINARY[lowered](this=operand(args[0]), expression=operand(args[1]))
    if lowered in ("negative", "-") and len(args) == 1:
        return exp.Neg(this=operand(args[0]))
    if lowered in _UNARY and len(args) == 1:
        return _UNARY[lowered](this=operand(args[0]))
    form = _FORMS.get(lowered)
    if form is not None:
        return form(args)
    return exp.Anonymous(this=_NAMES.get(lowered, lowered), expressions=args)


class PythonFunctions(Protocol):
    """What makes calls of functions that are a user's."""

    def call(self, name: str, arguments: Sequence[exp.Expr]) -> exp.Expr | None:
        """A call by name; None if no function of a user has it."""

    def made(
        self, name: str, command: bytes, kind: int, returns: str, arguments: Sequence[exp.Expr], *, deterministic: bool
    ) -> exp.Expr:
        """A call of what PySpark has pickled, of a kind (``evalType``), and of a type as DDL."""


def call_of(function: Any, arguments: Sequence[exp.Expr]) -> exp.Expr:
    """A function of a user applied to arguments."""
    return exp.Anonymous(this=function.title, expressions=[unnamed(a) for a in arguments], **{FUNCTION: function})


def _when(args: list[exp.Expr]) -> exp.Expr:
    branches = [exp.If(this=c, true=v) for c, v in zip(args[0::2], args[1::2], strict=False)]
    return exp.Case(ifs=branches, default=args[-1] if len(args) % 2 else None)


def _like(node: type[exp.Expr]) -> Callable[[list[exp.Expr]], exp.Expr]:
    def made(args: list[exp.Expr]) -> exp.Expr:
        tree = node(this=operand(args[0]), expression=operand(args[1]))
        return exp.Escape(this=tree, expression=args[2]) if len(args) > 2 else tree

    return made


def _is_null(args: list[exp.Expr]) -> exp.Expr:
    return exp.Is(this=operand(args[0]), expression=exp.Null())


_FORMS: dict[str, Callable[[list[exp.Expr]], exp.Expr]] = {
    "isnull": _is_null,
    "isnotnull": lambda args: exp.Not(this=_is_null(args)),
    "in": lambda args: exp.In(this=operand(args[0]), expressions=args[1:]),
    "when": _when,
    "casewhen": _when,
    "like": _like(exp.Like),
    "ilike": _like(exp.ILike),
    "outer": lambda args: args[0],
}
_NAMES = {"substr": "substring", "position": "locate"}
"""Functions under the names that SQL's parser gives them."""


def window(
    function: exp.Expr,
    partition: Sequence[exp.Expr],
    order: Sequence[exp.Expr],
    frame: exp.WindowSpec | None,
) -> exp.Window:
    """A function over a window."""
    return exp.Window(
        this=function,
        partition_by=list(partition),
        order=exp.Order(expressions=list(order)) if order else None,
        spec=frame,
        over="OVER",
    )


def frame(kind: str, low: exp.Expr | str | None, high: exp.Expr | str | None) -> exp.WindowSpec:
    """Which rows a window has: ROWS or RANGE from a bound to another.

    A bound is None without one, "CURRENT ROW", or an expression, which counts before the row where it is negative.

    >>> frame("ROWS", constant(-1, T.INT), "CURRENT ROW").sql("spark")
    'ROWS BETWEEN 1 PRECEDING AND CURRENT ROW'
    """
    start, start_side = _bound(low, "PRECEDING")
    end, end_side = _bound(high, "FOLLOWING")
    return exp.WindowSpec(kind=kind, start=start, start_side=start_side, end=end, end_side=end_side)


def _bound(bound: exp.Expr | str | None, open_side: str) -> tuple[exp.Expr | str, str | None]:
    if bound is None:
        return "UNBOUNDED", open_side
    if isinstance(bound, str):
        return bound, None
    tree = bound.unnest()
    if isinstance(tree, exp.Neg):
        return tree.this, "PRECEDING"
    if isinstance(tree, exp.Literal) and not tree.is_string and not float(tree.this):
        return "CURRENT ROW", None
    if isinstance(tree, exp.Interval) and str(tree.this.name).startswith("-"):
        positive = tree.copy()
        positive.set("this", exp.Literal.string(tree.this.name[1:]))
        return positive, "PRECEDING"
    return bound, "FOLLOWING"


def ordered(tree: exp.Expr, *, descending: bool, nulls_first: bool) -> exp.Ordered:
    """A sort key."""
    return exp.Ordered(this=tree, desc=descending, nulls_first=nulls_first)


def present(value: exp.Expr, *, floating: bool) -> exp.Expr:
    """Whether a value is there: NaN is not."""
    test: exp.Expr = exp.Not(this=exp.Is(this=value.copy(), expression=exp.Null()))
    if floating:
        nan = exp.Anonymous(this="isnan", expressions=[value.copy()])
        test = exp.And(this=test, expression=exp.Not(this=nan))
    return test


def at_least(number: int, tests: Sequence[exp.Expr]) -> exp.Expr:
    """Whether so many tests are true."""
    if number == len(tests):
        return exp.and_(*tests, copy=False) if tests else exp.true()
    total: exp.Expr = exp.Literal.number(0)
    for test in tests:
        total = exp.Add(this=total, expression=call("when", [test, exp.Literal.number(1), exp.Literal.number(0)]))
    return exp.GTE(this=exp.Paren(this=total), expression=exp.Literal.number(number))


def pivot_of_rows(column: str) -> PlanError:
    """The error for a pivot whose values are not given."""
    return PlanError(
        f"pivot({column}): which columns there are would depend on the rows; give the values, "
        f"pivot({column!r}, [value, ...])"
    )


def sessions_of_before(column: str) -> PlanError:
    """The error for groups by a session_window that an earlier step made a column."""
    return unsupported(
        f"groups by {column!r}, a session_window of an earlier step", "group by session_window(time, gap) itself"
    )


COLLATED = "cast it to string, and write collate where it is compared"
"""What to do about a column with a collation."""


def unsupported(what: str, remedy: str) -> PlanError:
    """The error for a part of a DataFrame that a view cannot maintain."""
    return PlanError(f"not supported: {what}; {remedy}")
