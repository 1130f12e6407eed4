"""Pipe syntax, ``FROM t |> WHERE … |> AGGREGATE …``: each operator is a clause of the query before it, or around it.

The parser ``p`` reads what is in an operator; a query is ``open`` while it selects everything and clauses may be added
to it, so that names of its tables stay known. Around another one it gets a SELECT, under the name of its only table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

PLACE = "^place"
"""The name of a call that stands for the column with a number, of those that FROM gives."""
_CLOSING = ("distinct", "group", "having", "qualify", "windows", "order", "limit", "offset", "with_")


_PLACES = {TokenType.SORT_BY, TokenType.DISTRIBUTE_BY, TokenType.CLUSTER_BY}
_ENDS = {TokenType.ORDER_BY, *_PLACES}
_OF_SELECT = ("expressions", "distinct", "hint", "windows")


def piped(p: Any, query: exp.Expr) -> exp.Expr:
    """A query with the operators that follow it.

    Raises:
        sqlglot's ParseError: an operator that there is not, or a clause that does not belong to it.
    """
    while p._match(TokenType.PIPE_GT):
        word = p._curr.text.upper() if p._curr else ""
        step = _OPERATORS.get(word.split()[0] if word else "")
        if step is None:
            p.raise_error(f"no pipe operator {word or '(end of text)'}; there are: {', '.join(_OPERATORS)}", p._curr)
        else:
            query = step(p, query)
    if p._match_set(_ENDS, advance=False):  # of the whole query, as at the end of any other
        query = p._parse_query_modifiers(_without(query, "order", "limit", "offset"))
    return query


def _around(query: exp.Expr, *items: exp.Expr, alias: str | None = None, **more: Any) -> exp.Select:
    """A SELECT of a query, which keeps the name of its only table."""
    only = query.args.get("from_") if isinstance(query, exp.Select) else None
    if alias is None and only is not None and not query.args.get("joins") and not query.args.get("laterals"):
        alias = only.this.alias_or_name or None
    name = None if alias is None else exp.TableAlias(this=exp.to_identifier(alias))
    inside = query
    while isinstance(inside, exp.Subquery) and not any(v for k, v in inside.args.items() if k != "this"):
        inside = inside.this
    source = exp.Subquery(this=inside, alias=name, **more)
    return exp.Select(expressions=list(items) or [exp.Star()], from_=exp.From(this=source))


def _open(query: exp.Expr, *without: str) -> exp.Select:
    """A query that clauses may be added to, which has none of some."""
    stars = isinstance(query, exp.Select) and [*query.expressions] == [exp.Star()]
    if isinstance(query, exp.Select) and stars and not any(query.args.get(k) for k in (*_CLOSING, *without)):
        return query
    return _around(query)


def _without(query: exp.Expr, *clauses: str) -> exp.Expr:
    """A query that has none of some clauses: itself, or one around it."""
    return _around(query) if any(query.args.get(clause) for clause in clauses) else query


def _aliased(p: Any) -> exp.Expr | None:
    tree: exp.Expr | None = p._parse_alias(p._parse_disjunction())
    return tree


def _where(p: Any, query: exp.Expr) -> exp.Expr:
    target, clause = _open(query), p._parse_where()
    before = target.args.get("where")
    if before is not None:
        clause = exp.Where(this=exp.and_(before.this, clause.this, copy=False))
    target.set("where", clause)
    return target


def _select(p: Any, query: exp.Expr) -> exp.Expr:
    target, first = _open(query), p._curr
    select = p._parse_select(consume_pipe=False)
    extra = [k for k, v in select.args.items() if v and k not in _OF_SELECT]
    if extra:
        p.raise_error(f"|> SELECT takes a list alone, no {extra[0].strip('_').upper()}; write |> before it", first)
    for name in _OF_SELECT:
        target.set(name, select.args.get(name))
    return target


def _extend(p: Any, query: exp.Expr) -> exp.Expr:
    p._advance()
    target = _open(query)
    target.set("expressions", [exp.Star(), *p._parse_csv(lambda: _aliased(p))])
    return target


def _set(p: Any, query: exp.Expr) -> exp.Expr:
    """Each assignment sees those before it."""
    p._advance()
    while True:
        name = p._parse_id_var()
        if name is None or not p._match(TokenType.EQ):
            p.raise_error("|> SET takes column = expression, …", p._curr)
        star = exp.Star(replace=[exp.Alias(this=p._parse_disjunction(), alias=name)])
        query = _around(query, star)
        if not p._match(TokenType.COMMA):
            return query


def _drop(p: Any, query: exp.Expr) -> exp.Expr:
    p._advance()
    return _around(query, exp.Star(except_=p._parse_csv(p._parse_id_var)))


def _as(p: Any, query: exp.Expr) -> exp.Expr:
    p._advance()
    return _around(query, alias=p._parse_id_var().name)


def _aggregate(p: Any, query: exp.Expr) -> exp.Expr:
    p._advance()
    target, keys = _open(query), list[exp.Expr]()
    results = [] if p._match(TokenType.GROUP_BY, advance=False) else p._parse_csv(lambda: _aliased(p))
    if p._match(TokenType.GROUP_BY):
        keys = p._parse_csv(lambda: _aliased(p))
    keys = [_numbered(key) if isinstance(key, exp.Literal) and key.is_int else key for key in keys]
    trees = [key.this if isinstance(key, exp.Alias) else key for key in keys]
    if not results and not keys:
        p.raise_error("|> AGGREGATE needs an aggregate or GROUP BY", p._prev)
    target.set("expressions", [*keys, *results])
    if keys:
        target.set("group", exp.Group(expressions=[tree.copy() for tree in trees]))
    return target


def _numbered(key: exp.Literal) -> exp.Anonymous:
    """The column of a number, of those that come in."""
    return exp.Anonymous(this=PLACE, expressions=[key])


def _join(p: Any, query: exp.Expr) -> exp.Expr:
    target, first = _open(query, "where"), p._curr
    join = p._parse_join()
    if join is None:
        p.raise_error(f"no pipe operator {first.text.upper()}", first)
    target.append("joins", join)
    return target


def _set_operation(p: Any, query: exp.Expr) -> exp.Expr:
    """``UNION [ALL] (query), (query)``; the query before it is one of its sides as a whole."""
    first = p._curr
    operation = p.parse_set_operation(exp.Subquery(this=query))
    if not isinstance(operation, exp.SetOperation):
        p.raise_error(f"{first.text.upper()} is followed by (a query)", first)
    while p._match(TokenType.COMMA):
        other = p._parse_paren()
        rest = {k: v for k, v in operation.args.items() if k not in ("this", "expression")}
        operation = type(operation)(this=operation, expression=other, **rest)
    return operation


def _order(p: Any, query: exp.Expr) -> exp.Expr:
    """ORDER BY, or what orders rows within the places where they are."""
    query = _without(query, "order", "limit", "offset")
    if p._match_set(_PLACES, advance=False):
        while p._match_set(_PLACES, advance=False):
            name, clause = p.QUERY_MODIFIER_PARSERS[p._curr.token_type](p)
            query.set(name, clause)
        return _around(p.without_places(query))  # a LIMIT that follows takes no order from it
    query.set("order", p._parse_order())
    return query


def _limit(p: Any, query: exp.Expr) -> exp.Expr:
    query = _without(query, "limit", "offset")
    for name, parse in (("limit", p._parse_limit), ("offset", p._parse_offset)):
        query.set(name, parse())
    return query


def _pivot(p: Any, query: exp.Expr) -> exp.Expr:
    return _around(query, pivots=p._parse_pivots())


def _sample(p: Any, query: exp.Expr) -> exp.Expr:
    return _around(query, sample=p._parse_table_sample())  # which is refused by name


_OPERATORS: dict[str, Callable[[Any, exp.Expr], exp.Expr]] = {
    "WHERE": _where,
    "SELECT": _select,
    "EXTEND": _extend,
    "SET": _set,
    "DROP": _drop,
    "AS": _as,
    "AGGREGATE": _aggregate,
    **dict.fromkeys(("JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS", "NATURAL", "SEMI", "ANTI", "ASOF"), _join),
    **dict.fromkeys(("UNION", "EXCEPT", "MINUS", "INTERSECT"), _set_operation),
    **dict.fromkeys(("ORDER", "SORT", "DISTRIBUTE", "CLUSTER"), _order),
    "LIMIT": _limit,
    "OFFSET": _limit,
    "PIVOT": _pivot,
    "UNPIVOT": _pivot,
    "TABLESAMPLE": _sample,
}

__all__ = ["PLACE", "piped"]
