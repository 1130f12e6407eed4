"""PIVOT and UNPIVOT of an item of FROM: an aggregation with a FILTER for each value, and a table function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from altneu.columnar.rows import Rows
from altneu.errors import PlanError
from altneu.expressions import Expr, cast, parse
from altneu.sql.binding import QueryBinder
from altneu.sql.quantified import as_struct
from altneu.sql.scope import Relation, Scope, bound, columns_in, common_type
from altneu.sql.tables import Generator
from altneu.sql.trees import is_aggregate, name_of
from altneu.types import STRING, type_name

_NOTHING = pa.schema([])
_TABLE = "^pivot"


def pivoted(binder: QueryBinder, relation: Relation, pivot: exp.Pivot) -> Relation:
    """A relation after PIVOT or UNPIVOT.

    Raises:
        PlanError: a value is no constant, or an expression no aggregate.
        SchemaError: columns that become one have no common type.
    """
    return _unpivoted(binder, relation, pivot) if pivot.args.get("unpivot") else _pivoted(binder, relation, pivot)


def _columns(tree: exp.Expr) -> list[exp.Expr]:
    return list(tree.expressions) if isinstance(tree, exp.Tuple) else [tree.unnest()]


def _named(tree: exp.Expr) -> tuple[exp.Expr, str | None]:
    """An element of a list, and the alias that it has."""
    return (tree.this, tree.alias) if isinstance(tree, exp.Alias) else (tree, None)


# PIVOT ----------------------------------------------------------------------------------------------------------------


def _pivoted(binder: QueryBinder, relation: Relation, pivot: exp.Pivot) -> Relation:
    """Rows grouped by the columns that PIVOT does not name, with the aggregates of the rows of each value."""
    scope = Scope(relation)
    columns, *elements = pivot.args["fields"]
    keys = [scope.resolve(key) for key in _columns(columns)]
    aggregates = [_Aggregate.of(tree, scope) for tree in pivot.expressions]
    read = {name for tree in (*keys, *(a.tree for a in aggregates)) for name in columns_in(tree)}
    groups = [f for f in relation.shown if f.column not in read]
    values = [_Value.of(tree, keys) for tree in elements]
    names = [v.name if len(aggregates) == 1 else f"{v.name}_{a.name}" for v in values for a in aggregates]

    def bound_with(value_of: Callable[[exp.Expr, exp.Expr], exp.Expr]) -> Relation:
        items: list[exp.Expr] = [exp.alias_(bound(f.column), f.name, quoted=True) for f in groups]
        trees = [value_of(a.where(v.condition), v.condition) for v in values for a in aggregates]
        items += [exp.alias_(tree, name, quoted=True) for tree, name in zip(trees, names, strict=True)]
        query = exp.Select(
            expressions=items, from_=exp.From(this=exp.Table(this=exp.to_identifier(_TABLE, quoted=True)))
        )
        if groups:
            query.set("group", exp.Group(expressions=[bound(f.column) for f in groups]))
        return binder.naming({_TABLE: lambda: relation}).query(query).relation

    result = bound_with(lambda tree, _: tree)
    shown = result.shown
    if all(_is_plain(result.node.schema.field(f.column).type) for f in shown[len(groups) :]):
        result = bound_with(_null_without_rows)
        shown = result.shown
    kept = [replace(g, column=f.column) for g, f in zip(groups, shown, strict=False)]
    return replace(result, fields=(*kept, *(replace(f, table="") for f in shown[len(groups) :])))


def _is_plain(kind: pa.DataType) -> bool:
    """Whether Spark takes a result from the rows of its value alone, so that it is null where there are none."""
    return bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)) or bool(
        pa.types.is_decimal(kind)
    )


def _null_without_rows(tree: exp.Expr, condition: exp.Expr) -> exp.Expr:
    rows = _filtered(exp.Anonymous(this="count", expressions=[exp.Star()]), condition)
    there = exp.GT(this=rows, expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=there, true=tree)])


def _filtered(call: exp.Expr, condition: exp.Expr) -> exp.Expr:
    if isinstance(call, exp.Filter):
        condition = exp.and_(call.expression.this.copy(), condition.copy())
        call = call.this
    return exp.Filter(this=call.copy(), expression=exp.Where(this=condition.copy()))


class _Aggregate:
    """An expression over aggregates, resolved, and what it is called."""

    def __init__(self, tree: exp.Expr, name: str) -> None:
        self.tree, self.name = tree, name

    @classmethod
    def of(cls, tree: exp.Expr, scope: Scope) -> _Aggregate:
        """An element of PIVOT's list.

        Raises:
            PlanError: it reads a column outside of an aggregate, or has none.
        """
        inner, alias = _named(tree)
        found = cls(scope.resolve(inner), alias or name_of(inner))
        rest = found.where(exp.true(), lambda *_: exp.Null())
        if rest == found.tree or columns_in(rest):
            raise PlanError(f"PIVOT needs aggregates, got `{inner.sql('spark')}`: PIVOT (sum(x) FOR c IN (...))")
        return found

    def where(self, condition: exp.Expr, filtered: Callable[[exp.Expr, exp.Expr], exp.Expr] = _filtered) -> exp.Expr:
        """The expression over the rows that meet a condition."""

        def visit(node: exp.Expr) -> exp.Expr:
            return filtered(node, condition) if is_aggregate(node) else node

        if is_aggregate(self.tree):
            return filtered(self.tree, condition)
        copy = self.tree.copy()
        for node in [n for n in copy.walk(prune=is_aggregate) if is_aggregate(n)]:
            node.replace(visit(node))
        return copy


class _Value:
    """A value of PIVOT's columns: the condition that a row has it, and its name."""

    def __init__(self, condition: exp.Expr, name: str) -> None:
        self.condition, self.name = condition, name

    @classmethod
    def of(cls, tree: exp.Expr, keys: Sequence[exp.Expr]) -> _Value:
        """An element of PIVOT's IN.

        Raises:
            PlanError: it is no constant, or has not as many values as there are columns.
        """
        inner, alias = _named(tree)
        inner = inner.unnest()
        several = isinstance(inner, exp.Tuple) and len(keys) > 1  # of one column it is a struct
        trees = [as_struct(tree) for tree in (inner.expressions if several else [inner])]
        if len(trees) != len(keys):
            raise PlanError(f"PIVOT has {len(keys)} column(s), and `{inner.sql('spark')}` has {len(trees)} value(s)")
        texts = []
        for value in trees:
            if value.find(exp.Column, exp.Query) is not None:
                raise PlanError(f"PIVOT ... IN needs constants, got `{value.sql('spark')}`")
            texts.append(_text(parse(value, _NOTHING)))
        equal = [exp.NullSafeEQ(this=k.copy(), expression=v.copy()) for k, v in zip(keys, trees, strict=True)]
        text = texts[0] if len(texts) == 1 else "{" + ", ".join(texts) + "}"
        return cls(exp.and_(*equal, copy=False), alias or text)


def _text(value: Expr) -> str:
    """A constant as a text."""
    found = cast(value, STRING).evaluate(Rows(_NOTHING, (), 1))
    if found.failed is not None:
        raise PlanError(f"PIVOT ... IN: {found.error(0)[1]}")
    text = found.values[0].as_py()
    return "null" if text is None else str(text)


# UNPIVOT --------------------------------------------------------------------------------------------------------------


def _unpivoted(binder: QueryBinder, relation: Relation, pivot: exp.Pivot) -> Relation:
    """Each row once for each set of columns, whose name is in one column, and whose values are in others."""
    scope = Scope(relation)
    of_names, *fields = pivot.args["fields"]
    values = [str(column.name) for tree in pivot.expressions for column in _columns(tree)]
    elements = [_named(tree) for tree in fields]
    sets = [[scope.resolve(column) for column in _columns(tree)] for tree, _ in elements]
    names = [alias or "_".join(str(c.name) for c in _columns(tree)) for tree, alias in elements]
    for (tree, _), columns in zip(elements, sets, strict=True):
        if len(columns) != len(values):
            raise PlanError(f"UNPIVOT has {len(values)} value column(s), and `{tree.sql('spark')}` has {len(columns)}")
    schema = relation.node.schema
    structs: list[exp.Expr] = []
    columns_of_values = [
        _of_one_type(name, some, schema) for name, some in zip(values, zip(*sets, strict=True), strict=True)
    ]
    for name, chosen in zip(names, zip(*columns_of_values, strict=True), strict=True):
        parts: list[exp.Expr] = [exp.Literal.string("n"), exp.Literal.string(name)]
        parts += [part for i, c in enumerate(chosen) for part in (exp.Literal.string(f"v{i}"), c)]
        structs.append(exp.Anonymous(this="named_struct", expressions=parts))
    call = exp.Anonymous(this="inline", expressions=[exp.Anonymous(this="array", expressions=structs)])
    read = {name for columns in sets for tree in columns for name in columns_in(tree)}
    rest = [f for f in relation.shown if f.column not in read]
    result = Generator(call, columns=(str(of_names.name), *values)).applied(binder, scope)
    new = result.fields[len(relation.fields) :]
    if not pivot.args.get("include_nulls"):
        nulls = [exp.Is(this=bound(f.column), expression=exp.Null()) for f in new[1:]]
        result = result.filtered(exp.Not(this=exp.Paren(this=exp.and_(*nulls, copy=False))))
    return replace(result, fields=(*rest, *(replace(f, table="") for f in new)))


def _of_one_type(name: str, columns: Sequence[exp.Expr], schema: pa.Schema) -> list[exp.Expr]:
    """Columns as values of their common type.

    Raises:
        SchemaError: there is none.
    """
    types = [parse(column, schema).type for column in columns]
    kind = common_type(types, lambda: f"UNPIVOT: column {name!r} is made of {', '.join(map(type_name, types))}")
    to = exp.DataType.build(type_name(kind), dialect="spark")
    return [c if t == kind else exp.Cast(this=c, to=to.copy()) for c, t in zip(columns, types, strict=True)]


__all__ = ["pivoted"]
