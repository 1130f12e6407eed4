"""The names that Spark gives the columns of a DataFrame whose expressions have none."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from altneu import types as T
from altneu.expressions.pyspark.connect import TAG

_SYMBOLS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "div",
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "AND",
    exp.Or: "OR",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}


def name_of(tree: exp.Expr) -> str:
    """The name of the column that an expression gives: its alias, a column's own, or what Spark shows of it.

    >>> from altneu.expressions.dialect import parse_tree
    >>> [name_of(parse_tree(text)) for text in ("a.b", "a + 1", "count(DISTINCT a)", "CAST(a AS INT)")]
    ['b', '(a + 1)', 'count(DISTINCT a)', 'a']
    """
    if isinstance(tree, exp.Alias):
        return tree.alias
    inner = tree.unnest()
    if isinstance(inner, exp.Column | exp.Dot):
        return str(inner.parts[-1].name) if isinstance(inner, exp.Column) else str(inner.expression.name)
    if isinstance(inner, exp.Cast) and isinstance(inner.this.unnest(), exp.Column | exp.Alias):
        return name_of(inner.this.unnest())
    return shown(inner)


def shown(tree: exp.Expr) -> str:
    """An expression as Spark shows it in the name of a column."""
    tree = tree.unnest() if isinstance(tree, exp.Paren) else tree
    symbol = _SYMBOLS.get(type(tree))
    if symbol is not None:
        return f"({shown(tree.this)} {symbol} {shown(tree.expression)})"
    form = _FORMS.get(type(tree))
    return form(tree) if form is not None else str(tree.sql("spark"))


def _list(trees: list[exp.Expr]) -> str:
    return ", ".join(shown(t) for t in trees)


def _column(tree: exp.Expr) -> str:
    parts = [str(p.name) for p in tree.parts]  # type: ignore[attr-defined]
    return ".".join(parts[1:] if parts[0].startswith(TAG) else parts)


def _not(tree: exp.Expr) -> str:
    inner = tree.this.unnest()
    if isinstance(inner, exp.Is):
        return f"({shown(inner.this)} IS NOT NULL)"
    return f"(NOT {shown(inner)})"


def _negative(tree: exp.Expr) -> str:
    inner = tree.this.unnest()
    return f"-{shown(inner)}" if isinstance(inner, exp.Literal | exp.Cast) else f"(- {shown(inner)})"


def _case(tree: exp.Expr) -> str:
    branches = "".join(f" WHEN {shown(b.this)} THEN {shown(b.args['true'])}" for b in tree.args["ifs"])
    default = tree.args.get("default")
    subject = f" {shown(tree.this)}" if tree.this else ""
    return f"CASE{subject}{branches}{f' ELSE {shown(default)}' if default is not None else ''} END"


def _cast(tree: exp.Expr) -> str:
    kind = T.type_name(T.arrow_type(tree.args["to"]))
    inner = tree.this
    if isinstance(inner, exp.Literal):
        if not inner.is_string:
            return str(inner.this)
        if kind in ("date", "timestamp", "timestamp_ntz"):
            return f"{kind.upper()} '{inner.this}'"
        if kind.startswith(("decimal", "float")):
            return str(inner.this)
    if isinstance(inner, exp.Null):
        return "NULL"
    return f"{'TRY_CAST' if isinstance(tree, exp.TryCast) else 'CAST'}({shown(inner)} AS {kind.upper()})"


def _call(tree: exp.Expr) -> str:
    name = str(tree.name).lower()
    args = tree.expressions
    if name == "count" and len(args) == 1 and isinstance(args[0], exp.Star):
        return "count(1)"
    return f"{_SHOWN.get(name, name)}({_list(args)})"


def _lambda(tree: exp.Expr) -> str:
    variables = {p.name for p in tree.expressions}

    def visit(node: exp.Expr) -> exp.Expr:
        of_lambda = isinstance(node, exp.Column | exp.Identifier) and node.name in variables
        return exp.Anonymous(this="namedlambdavariable") if of_lambda else node

    body = shown(tree.this.copy().transform(visit, copy=False))
    return f"lambdafunction({', '.join([body, *['namedlambdavariable()'] * len(tree.expressions)])})"


def _ordered(tree: exp.Expr) -> str:
    nulls = "FIRST" if tree.args.get("nulls_first") else "LAST"
    return f"{shown(tree.this)} {'DESC' if tree.args.get('desc') else 'ASC'} NULLS {nulls}"


def _window(tree: exp.Expr) -> str:
    partition, order, spec = tree.args.get("partition_by"), tree.args.get("order"), tree.args.get("spec")
    parts = [f"PARTITION BY {_list(partition)}"] if partition else []
    parts += [f"ORDER BY {_list(order.expressions)}"] if order else []
    parts.append(spec.sql("spark") if spec else "unspecifiedframe$()")
    return f"{shown(tree.this)} OVER ({' '.join(parts)})"


_SHOWN = {"mean": "avg"}
_FORMS: dict[type[exp.Expr], Callable[[exp.Expr], str]] = {
    exp.Column: _column,
    exp.Identifier: lambda tree: str(tree.name),
    exp.NEQ: lambda tree: f"(NOT ({shown(tree.this)} = {shown(tree.expression)}))",
    exp.Not: _not,
    exp.Neg: _negative,
    exp.Is: lambda tree: f"({shown(tree.this)} IS NULL)",
    exp.In: lambda tree: f"({shown(tree.this)} IN ({_list(tree.expressions)}))",
    exp.Like: lambda tree: f"{shown(tree.this)} LIKE {shown(tree.expression)}",
    exp.RegexpLike: lambda tree: f"RLIKE({shown(tree.this)}, {shown(tree.expression)})",
    exp.Literal: lambda tree: str(tree.this),
    exp.Null: lambda _: "NULL",
    exp.Boolean: lambda tree: "true" if tree.this else "false",
    exp.Case: _case,
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Anonymous: _call,
    exp.Distinct: lambda tree: f"DISTINCT {_list(tree.expressions)}",
    exp.Alias: lambda tree: f"{shown(tree.this)} AS {tree.alias}",
    exp.Lambda: _lambda,
    exp.Bracket: lambda tree: f"{shown(tree.this)}[{_list(tree.expressions)}]",
    exp.Subquery: lambda _: "scalarsubquery()",
    exp.Window: _window,
    exp.Ordered: _ordered,
}
