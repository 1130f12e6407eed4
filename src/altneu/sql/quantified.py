"""Comparisons with ANY and ALL of a query's rows, and of several values at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

from sqlglot import exp

from altneu.collections.grouping import aggregate_node
from altneu.collections.joining import project
from altneu.errors import PlanError, SchemaError
from altneu.expressions import Expr, cast, parse, parse_aggregate
from altneu.expressions.dialect import any_of
from altneu.plan import ir
from altneu.sql.binding import Answer
from altneu.sql.joins import Part, meet, outer
from altneu.sql.parentheses import opened
from altneu.sql.scope import Scope, bound, common_type, fresh
from altneu.types import quote_name, type_name

_OPPOSITE: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.LT: exp.GTE,
    exp.LTE: exp.GT,
    exp.GT: exp.LTE,
    exp.GTE: exp.LT,
    exp.EQ: exp.NEQ,
    exp.NEQ: exp.EQ,
}
_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
COMPARISONS = tuple(_OPPOSITE)
_EQUALITIES = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)
_MOST = 32  # antijoins that NOT IN of several columns may need


# before anything is bound ---------------------------------------------------------------------------------------------


def spelled_out(tree: exp.Select) -> exp.Select:
    """A query, changed in place: rows are compared by their values or as structs; ``= ANY`` is IN, ``<> ALL`` NOT IN.

    As in Spark a row is a struct, so it is never null, and values in it are equal as ``<=>`` has it.

    Raises:
        SchemaError: rows of different length.
    """
    for node in list(tree.find_all(exp.In, *_EQUALITIES, *COMPARISONS)):
        if isinstance(node, exp.In):
            replacement = _in_list(node)
        elif (comparison := quantified(node)) is not None:
            replacement = _membership(*comparison)
        else:
            replacement = _equal_rows(node)
        if replacement is not None:
            node.replace(replacement)
    for node in list(tree.find_all(exp.Tuple)):
        if _is_value(node):
            node.replace(as_struct(node))
    return tree


def _is_value(node: exp.Tuple) -> bool:
    """Whether a row is an output, an argument or an operand, so that it is a struct."""
    parent: exp.Expr | None = node.parent
    while isinstance(parent, exp.Paren | exp.Alias):
        node, parent = parent, parent.parent  # type: ignore[assignment]
    if isinstance(parent, exp.Select | exp.In):  # the left side of IN (SELECT ...) is several columns
        return node.arg_key == "expressions"
    if isinstance(parent, exp.Distinct):
        return node.arg_key == "expressions" and isinstance(parent.parent, exp.Func)
    return isinstance(parent, (exp.Func, exp.Lambda, exp.Between, exp.Is, *_EQUALITIES, *COMPARISONS))


def quantified(node: exp.Expr) -> tuple[exp.Expr, type[exp.Expr], exp.Any | exp.All] | None:
    """What is compared, how, and with ANY or ALL of which query; None where a comparison is of another kind."""
    if not isinstance(node, COMPARISONS):
        return None
    one, kind, other = node.this, type(node), node.expression
    if _query_of(one) is not None:
        one, kind, other = other, _TURNED.get(kind, kind), one
    query = _query_of(other)
    return None if query is None else (one, kind, query)


def _query_of(node: exp.Expr) -> exp.Any | exp.All | None:
    if isinstance(node, exp.Any | exp.All):
        return node
    if isinstance(node, exp.Anonymous) and node.name.lower() in ("any", "some", "all") and len(node.expressions) == 1:
        (inner,) = node.expressions
        if isinstance(inner, exp.Values):
            return (exp.All if node.name.lower() == "all" else exp.Any)(this=inner.copy())
    return None


def _membership(one: exp.Expr, kind: type[exp.Expr], other: exp.Any | exp.All) -> exp.Expr | None:
    query = exp.Subquery(this=opened(other.this).copy())
    if kind is exp.EQ and isinstance(other, exp.Any):
        return exp.In(this=one.copy(), query=query)
    if kind is exp.NEQ and isinstance(other, exp.All):
        return exp.Not(this=exp.In(this=one.copy(), query=query))
    return None


def _in_list(node: exp.In) -> exp.Expr | None:
    row = node.this.unnest()
    if not isinstance(row, exp.Tuple) or node.args.get("query") is not None:
        return None
    comparisons = [
        _equal(row, other, node)
        if isinstance(other, exp.Tuple)
        else exp.EQ(this=as_struct(row), expression=other.copy())
        for other in (other.unnest() for other in node.expressions)
    ]
    return exp.Paren(this=any_of(comparisons))


def _equal_rows(node: exp.Expr) -> exp.Expr | None:
    row, other = node.this.unnest(), node.expression.unnest()
    if not (isinstance(node, _EQUALITIES) and isinstance(row, exp.Tuple) and isinstance(other, exp.Tuple)):
        return None
    equal = exp.Paren(this=_equal(row, other, node))
    return exp.Not(this=equal) if isinstance(node, exp.NEQ | exp.NullSafeNEQ) else equal


def _equal(one: exp.Expr, other: exp.Expr, node: exp.Expr) -> exp.Expr:
    if not (isinstance(one, exp.Tuple) and isinstance(other, exp.Tuple)):
        return exp.NullSafeEQ(this=one.copy(), expression=other.copy())
    if len(one.expressions) != len(other.expressions):
        raise SchemaError(
            f"`{node.sql('spark')[:80]}` compares {len(one.expressions)} values with {len(other.expressions)}: "
            f"`{other.sql('spark')}`"
        )
    pairs = zip(one.expressions, other.expressions, strict=True)
    return exp.Paren(this=exp.and_(*(_equal(a.unnest(), b.unnest(), node) for a, b in pairs), copy=False))


def as_struct(tree: exp.Expr) -> exp.Expr:
    """A tree in which a row of values, if it is one, is a struct, and so are those in it."""
    if not isinstance(tree, exp.Tuple):
        return tree.copy()
    return exp.Anonymous(this="struct", expressions=[as_struct(value) for value in tree.expressions])


# ANY and ALL ----------------------------------------------------------------------------------------------------------


class Lifter(Protocol):
    """What a comparison needs of ``Subqueries``, which takes subqueries out of the expression that contains it."""

    scope: Scope

    def value(self, tree: exp.Expr) -> exp.Expr:
        """An expression with a column in the place of each subquery."""

    def inside(self, tree: exp.Expr) -> tuple[Answer, list[str]]:
        """A subquery, and the columns of the outer query that it reads."""

    def take(self, node: ir.Node) -> None:
        """Continue with another plan, which has the columns of the one before."""

    def conditions(self, answer: Answer, taken: list[str], names: Mapping[str, str]) -> list[exp.Expr]:
        """What rows here and those of a subquery have in common, of which columns have other ``names`` here."""


def compared(lifted: Lifter, one: exp.Expr, kind: type[exp.Expr], other: exp.Any | exp.All) -> exp.Expr:
    """A comparison with some, or with all, of a query's rows, as SQL has it: null where nulls leave it open.

    It is decided by the minimum and the maximum of the rows, so that a change costs as much as a change of these.

    Raises:
        PlanError: the query has values that have no order.
        SchemaError: it has several columns.
    """
    if isinstance(other, exp.All):
        some = compared(lifted, one, _OPPOSITE[kind], exp.Any(this=other.this))
        return exp.Paren(this=exp.Not(this=some))
    query = exp.Subquery(this=opened(other.this).copy())
    if kind is exp.EQ:
        return lifted.value(exp.In(this=one.copy(), query=query))
    answer, taken = lifted.inside(query)
    if answer.empties is not None:  # one row in any case
        return lifted.value(kind(this=one.copy(), expression=query))
    if len(answer.relation.shown) != 1:
        names = ", ".join(f.name for f in answer.relation.shown)
        raise SchemaError(f"ANY and ALL need a query of 1 column, got {len(answer.relation.shown)}: {names}")
    value = lifted.scope.resolve(lifted.value(one))
    extremes = _Extremes.of(lifted, answer, taken, value)
    least, greatest, rows, known = map(bound, extremes.columns)
    if kind is exp.NEQ:
        met: exp.Expr = exp.or_(*(exp.NEQ(this=value.copy(), expression=e) for e in (least, greatest)), copy=False)
    else:
        met = kind(this=value.copy(), expression=greatest if kind in (exp.LT, exp.LTE) else least)
    none = exp.or_(exp.Is(this=rows, expression=exp.Null()), exp.EQ(this=rows.copy(), expression=exp.Literal.number(0)))
    open_ = exp.or_(
        exp.Is(this=value.copy(), expression=exp.Null()), exp.LT(this=known, expression=rows.copy()), copy=False
    )
    ifs = [
        exp.If(this=none, true=exp.false()),
        exp.If(this=met, true=exp.true()),
        exp.If(this=open_, true=exp.cast(exp.Null(), "boolean")),
    ]
    return exp.Paren(this=exp.Case(ifs=ifs, default=exp.false()))


@dataclass(frozen=True)
class _Extremes:
    """Beside the rows around: the least and the greatest of a query, how many rows it has, and how many not null."""

    columns: tuple[str, str, str, str]

    @classmethod
    def of(cls, lifted: Lifter, answer: Answer, taken: list[str], value: exp.Expr) -> _Extremes:
        relation = answer.relation
        inner, schema = relation.shown[0].column, relation.node.schema
        left = Part.of(lifted.scope.relation.node)
        tested = left.expr(value)
        mine = schema.field(inner).type
        kind = common_type(
            (tested.type, mine), lambda: f"a {type_name(tested.type)} is compared with ANY or ALL of {type_name(mine)}"
        )
        carried = list(relation.carried.values())
        cast_to = fresh("^of", carried)
        outputs: list[tuple[str, Expr]] = [(c, parse(quote_name(c), schema)) for c in dict.fromkeys(carried)]
        node = project(relation.node, [*outputs, (cast_to, cast(parse(quote_name(inner), schema), kind))])
        schema = node.schema
        texts = {"^least": "min({})", "^greatest": "max({})", "^rows": "count(*)", "^known": "count({})"}
        keys = [(c, parse(quote_name(c), schema)) for c in dict.fromkeys(carried)]
        results = [(n, parse_aggregate(text.format(quote_name(cast_to)), schema)) for n, text in texts.items()]
        grouped = aggregate_node(node, keys, results)
        names = {fresh(f"^sub {c}", left.names): c for c in (*dict.fromkeys(carried), *texts)}
        by_column = {c: n for n, c in names.items()}
        conditions = lifted.conditions(answer, taken, by_column)
        right = Part(grouped, names)
        lifted.take((outer(left, right, conditions, "left") if taken else meet(left, right, [])).node)
        least, greatest, rows, known = (by_column[n] for n in texts)
        return cls((least, greatest, rows, known))


# NOT IN of several values ---------------------------------------------------------------------------------------------


def subsets(places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All choices of some places, the fewest first."""
    for count in range(len(places) + 1):
        yield from combinations(places, count)


def open_pairs(here: Sequence[bool], there: Sequence[bool]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The ways in which two rows with nulls, here and there, are equal or may be.

    Each pair has the places that are null here, and among the others those that are null there; the rest is equal.

    Raises:
        PlanError: there are too many.
    """
    places = range(len(here))
    pairs = [
        (absent, removed)
        for absent in subsets([i for i in places if here[i]])
        for removed in subsets([i for i in places if there[i] and i not in absent])
    ]
    if len(pairs) > _MOST:
        raise PlanError(
            f"not supported: NOT IN of {len(here)} columns that may all be null; coalesce them, or filter nulls out"
        )
    return pairs


__all__ = ["COMPARISONS", "as_struct", "compared", "open_pairs", "quantified", "spelled_out", "subsets"]
