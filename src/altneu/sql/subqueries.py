"""Subqueries, decorrelated: each becomes a relation for all rows of the outer query, joined back to them.

The columns that a subquery reads of the outer query are carried through it: by the inner expression that they are
equal to, where that is how they are used, and else by the distinct values that they have around (Neumann and Kemper,
Unnesting Arbitrary Queries, BTW 2015).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from altneu.collections.collection import Collection
from altneu.collections.grouping import aggregate_node
from altneu.collections.joining import project
from altneu.columnar.rows import Rows
from altneu.errors import PlanError, SchemaError
from altneu.expressions import Expr, cast, literal, parse, parse_aggregate
from altneu.expressions.aggregate import shown_text
from altneu.expressions.collations import collation_of
from altneu.expressions.construct import key_of_order
from altneu.plan import ir
from altneu.sql.binding import Answer, QueryBinder
from altneu.sql.joins import Part, meet, outer, partners
from altneu.sql.parentheses import opened
from altneu.sql.quantified import COMPARISONS, compared, open_pairs, quantified
from altneu.sql.scope import Around, Discovered, Relation, Scope, bound, conjuncts, extended, filtered, fresh, projected
from altneu.sql.trees import has_aggregate, is_subquery
from altneu.types import mark_of, quote_name

Pair = tuple[exp.Expr, exp.Expr, bool]  # here, there, and whether null is null


def bind_inside(binder: QueryBinder, tree: exp.Expr, scope: Scope) -> tuple[Answer, list[str]]:
    """A query inside another one, and the columns of the latter that it reads."""
    around = Around(scope)
    while True:
        try:
            return binder.query(tree, around), around.taken
        except Discovered as found:
            if found.around is not around:
                raise
            around.taken.append(found.column)


class Subqueries:
    """Takes subqueries out of expressions; ``scope`` is what these are about, with what that adds to it."""

    def __init__(self, binder: QueryBinder, scope: Scope) -> None:
        self.binder, self.scope = binder, scope
        self.taken: set[str] = set()  # the columns here that the subqueries read

    # conditions -----------------------------------------------------------------------------------------------------

    def where(self, condition: exp.Expr) -> None:
        """Keep the rows on which a condition is true, whatever is in it."""
        for part in conjuncts(condition):
            inner, negated = part, False
            while isinstance(inner, exp.Not | exp.Paren):
                negated ^= isinstance(inner, exp.Not)
                inner = inner.this
            if isinstance(inner, exp.Exists):
                self._exists(inner, keep=not negated)
            elif isinstance(inner, exp.In) and inner.args.get("query") is not None:
                self._not_in(inner) if negated else self._in(inner)
            else:
                strict = isinstance(part, COMPARISONS)
                value = self.value(part, strict=strict)
                self.take(filtered(self.scope.relation.node, self.scope.resolve(value)))

    def _exists(self, tree: exp.Exists, *, keep: bool) -> None:
        answer, taken = self.inside(_rows_only(tree.this))
        if answer.empties is not None:  # aggregates without GROUP BY have a row in any case
            self.take(self.scope.relation.node if keep else filtered(self.scope.relation.node, exp.false()))
            return
        right, pairs = self._other(answer, taken)
        self._restrict(Part.of(self.scope.relation.node), right, pairs, keep=keep)

    def _in(self, tree: exp.In) -> None:
        answer, taken = self.inside(tree.args["query"])
        if answer.empties is not None:
            self.where(_equals(tree))
            return
        right, pairs = self._other(answer, taken)
        values = self._tested(tree)
        if len(values) != len(answer.relation.shown):
            raise _columns(len(values), answer, "IN")
        pairs += [
            (value, bound(right_name(f.column)), False) for value, f in zip(values, answer.relation.shown, strict=True)
        ]
        self._restrict(Part.of(self.scope.relation.node), right, pairs, keep=True)

    def _not_in(self, tree: exp.In) -> None:
        """NOT IN as SQL has it: a null on either side makes it null, unless the subquery has no rows."""
        answer, taken = self.inside(tree.args["query"])
        if answer.empties is not None:
            self.where(exp.Not(this=_equals(tree)))
            return
        values = self._tested(tree)
        if len(values) != len(answer.relation.shown):
            raise _columns(len(values), answer, "NOT IN")
        right, around = self._other(answer, taken)
        if len(values) > 1:
            self._not_in_rows(values, answer, right, around)
            return
        value, inner = values[0], answer.relation.shown[0].column
        left = Part.of(self.scope.relation.node)
        tested = left.expr(value)
        self._restrict(left, right, [*around, (value, bound(right_name(inner)), False)], keep=False)
        if answer.relation.node.schema.field(inner).nullable:
            nulls = right.where([exp.Is(this=bound(right_name(inner)), expression=exp.Null())])
            self._restrict(Part.of(self.scope.relation.node), nulls, around, keep=False)
        if tested.nullable:
            relation = self.scope.relation
            absent = exp.Is(this=value, expression=exp.Null())
            known = filtered(relation.node, exp.Not(this=absent))
            self.take(filtered(relation.node, absent))
            self._restrict(Part.of(self.scope.relation.node), right, around, keep=False)
            self.take(ir.Concat((known, self.scope.relation.node)))

    def _not_in_rows(self, values: Sequence[exp.Expr], answer: Answer, right: Part, around: list[Pair]) -> None:
        """NOT IN of rows: without those that equal one of the subquery's, or might if nulls were known."""
        left, shown = Part.of(self.scope.relation.node), [f.column for f in answer.relation.shown]
        here = [left.expr(value).nullable for value in values]
        pairs = open_pairs(here, [answer.relation.node.schema.field(c).nullable for c in shown])
        parts = []
        for absent in dict.fromkeys(absent for absent, _ in pairs):
            nulls = [exp.Is(this=v.copy(), expression=exp.Null()) for v in values]
            known = [n if i in absent else exp.Not(this=n) for i, n in enumerate(nulls) if here[i]]
            self.take(filtered(left.node, *known))
            for nulled in (nulled for other, nulled in pairs if other == absent):
                there = right.where([exp.Is(this=bound(right_name(shown[i])), expression=exp.Null()) for i in nulled])
                rest = [i for i in range(len(values)) if i not in (*absent, *nulled)]
                equal: list[Pair] = [(values[i].copy(), bound(right_name(shown[i])), False) for i in rest]
                self._restrict(Part.of(self.scope.relation.node), there, [*around, *equal], keep=False)
            parts.append(self.scope.relation.node)
        self.take(ir.Concat(tuple(parts)))

    def _tested(self, tree: exp.In) -> list[exp.Expr]:
        """The left side of IN: one value, or several in parentheses."""
        inner = tree.this
        while isinstance(inner, exp.Paren):  # a scalar subquery keeps its own
            inner = inner.this
        values = inner.expressions if isinstance(inner, exp.Tuple) else [inner]
        return [self.scope.resolve(self.value(value)) for value in values]

    def _restrict(self, left: Part, right: Part, pairs: Sequence[Pair], *, keep: bool) -> None:
        self.take(partners(left, right, _conditions(pairs), keep=keep).node)

    # values ---------------------------------------------------------------------------------------------------------

    def value(self, tree: exp.Expr, *, strict: bool = False) -> exp.Expr:
        """An expression with a column in the place of each subquery; ``strict``: it is not true where one is null."""

        def visit(node: exp.Expr) -> exp.Expr:
            comparison = quantified(node)
            if comparison is not None:
                return compared(self, *comparison)
            if not is_subquery(node):
                return node
            if isinstance(node, exp.Exists):
                return self._exists_mark(node)
            if isinstance(node, exp.In):
                return self._in_mark(node)
            if isinstance(node, exp.Any | exp.All):
                raise PlanError(f"`{node.sql('spark')[:60]}` stands beside =, <>, <, <=, > or >=: x > ALL (SELECT ...)")
            return self._scalar(node, strict=strict and node.parent is tree_copy)

        tree_copy = tree.copy()
        return tree_copy.transform(visit, copy=False)

    def _scalar(self, tree: exp.Expr, *, strict: bool) -> exp.Expr:
        answer, taken = self.inside(tree)
        if len(answer.relation.shown) != 1:
            raise _columns(1, answer, "a scalar subquery")
        column, node = answer.relation.shown[0].column, answer.relation.node
        if answer.empties is None:
            node = _one_row(answer, column, tree)
        left = Part.of(self.scope.relation.node)
        names = {fresh(right_name(c), left.names): c for c in (*answer.relation.carried.values(), column)}
        by_column = {c: n for n, c in names.items()}
        right, conditions = Part(node, names), _conditions(self._pairs(answer, taken, by_column))
        empty = answer.empties[0] if answer.empties else None
        if not taken:
            joined = meet(left, right, [])
        elif empty is not None:
            joined = with_empties(left, right, conditions, {by_column[column]: empty}, answer)
        else:
            joined = meet(left, right, conditions) if strict else outer(left, right, conditions, "left")
        self.take(joined.node)
        return bound(by_column[column])

    def _exists_mark(self, tree: exp.Exists) -> exp.Expr:
        answer, taken = self.inside(_rows_only(tree.this))
        return exp.true() if answer.empties is not None else self._mark(answer, taken, [])

    def _in_mark(self, tree: exp.In) -> exp.Expr:
        """Whether a value is in a subquery's result, or null where SQL leaves that open."""
        answer, taken = self.inside(tree.args["query"])
        if answer.empties is not None:
            return self.value(_equals(tree))
        values = self._tested(tree)
        inner = [f.column for f in answer.relation.shown]
        if len(values) != len(inner):
            raise _columns(len(values), answer, "IN")
        if len(values) > 1:
            return self._in_rows_mark(values, answer, taken)
        there = self._mark(answer, taken, [(values[0], inner[0])])
        some = self._mark(answer, taken, [])
        nulls = filtered(answer.relation.node, exp.Is(this=bound(inner[0]), expression=exp.Null()))
        unknown = self._mark(replace(answer, relation=answer.relation.with_node(nulls)), taken, [])
        null = exp.and_(some, exp.or_(exp.Is(this=values[0].copy(), expression=exp.Null()), unknown))
        ifs = [exp.If(this=there, true=exp.true()), exp.If(this=null, true=exp.cast(exp.Null(), "boolean"))]
        return exp.Paren(this=exp.Case(ifs=ifs, default=exp.false()))

    def _in_rows_mark(self, values: Sequence[exp.Expr], answer: Answer, taken: list[str]) -> exp.Expr:
        """Whether a row is one of a subquery's, in a column: those that are, those that are not, and the rest."""
        before, (right, around) = self.scope, self._other(answer, taken)
        shown = [f.column for f in answer.relation.shown]
        equal = [(v.copy(), bound(right_name(c)), False) for v, c in zip(values, shown, strict=True)]
        self._restrict(Part.of(before.relation.node), right, [*around, *equal], keep=True)
        there, self.scope = Collection(self.scope.relation.node), before
        self._not_in_rows(values, answer, right, around)
        absent, self.scope = Collection(self.scope.relation.node), before
        rest = Collection(before.relation.node).concat(there.negate(), absent.negate())
        name = fresh("^in", before.relation.node.schema.names)
        parts = [
            extended(part.node, [(name, parse(f"CAST({truth} AS BOOLEAN)", part.schema))])
            for part, truth in ((there, "true"), (absent, "false"), (rest, "NULL"))
        ]
        self.take(ir.Concat(tuple(parts)))
        return bound(name)

    def _mark(self, answer: Answer, taken: list[str], tests: list[tuple[exp.Expr, str]]) -> exp.Expr:
        """A column that is true in the rows for which the subquery has rows, and null in the others."""
        left = Part.of(self.scope.relation.node)
        columns = [*answer.relation.carried.values(), *(c for _, c in tests)]
        schema = answer.relation.node.schema
        outputs = [(c, parse(quote_name(c), schema)) for c in dict.fromkeys(columns)] or [("^there", literal(True))]
        marked = distinct(project(answer.relation.node, outputs))
        if columns:
            marked = extended(marked, [("^there", literal(True))])
        names = {fresh(right_name(c), left.names): c for c in marked.schema.names}
        by_column = {c: n for n, c in names.items()}
        pairs = [*self._pairs(answer, taken, by_column), *((v.copy(), bound(by_column[c]), False) for v, c in tests)]
        self.take(outer(left, Part(marked, names), _conditions(pairs), "left").node)
        there = bound(by_column["^there"])
        return exp.Paren(this=exp.Not(this=exp.Is(this=there, expression=exp.Null())))

    # plumbing -------------------------------------------------------------------------------------------------------

    def inside(self, tree: exp.Expr) -> tuple[Answer, list[str]]:
        """A subquery, and the columns of the outer query that it reads."""
        answer, taken = bind_inside(self.binder, opened(tree), self.scope)
        self.taken.update(taken)
        return answer, taken

    def take(self, node: ir.Node) -> None:
        """Continue with another plan, which has the columns of the one before."""
        self.scope = Scope(self.scope.relation.with_node(node), self.scope.around)

    def _other(self, answer: Answer, taken: list[str]) -> tuple[Part, list[Pair]]:
        """The rows of a subquery under names of their own, and what they have in common with those here."""
        node = answer.relation.node
        right = Part(node, {right_name(c): c for c in node.schema.names})
        return right, self._pairs(answer, taken, {c: right_name(c) for c in node.schema.names})

    def conditions(self, answer: Answer, taken: list[str], names: Mapping[str, str]) -> list[exp.Expr]:
        """What rows here and those of a subquery have in common, of which columns have other ``names`` here."""
        return _conditions(self._pairs(answer, taken, names))

    def _pairs(self, answer: Answer, taken: list[str], names: Mapping[str, str]) -> list[Pair]:
        carried = answer.relation.carried
        return [(bound(c), bound(names[carried[c]]), not answer.relation.plain) for c in taken]


def right_name(column: str) -> str:
    """What a column of a subquery is called beside those of the outer query."""
    return f"^sub {column}"


def _rows_only(tree: exp.Expr) -> exp.Expr:
    """A query whose rows are only tested for existence, without its outputs."""
    inner = opened(tree)
    clauses = ("group", "having", "distinct", "qualify", "limit", "offset")
    if not isinstance(inner, exp.Select) or any(inner.args.get(k) for k in clauses):
        return inner
    if any(has_aggregate(item) for item in inner.expressions):
        return inner
    copy = inner.copy()
    copy.set("expressions", [exp.alias_(exp.Literal.number(1), "^one", quoted=True)])
    return copy


def _one_row(answer: Answer, column: str, tree: exp.Expr) -> ir.Node:
    """The one row of a scalar subquery for each outer row; where there are several, an error row.

    Raises:
        PlanError: its value is of a type that has no order.
    """
    relation = answer.relation
    schema = relation.node.schema
    keys = [(c, parse(quote_name(c), schema)) for c in relation.carried.values()]
    results = [(n, parse_aggregate(t, schema)) for n, t in (("^n", "count(*)"), ("^v", f"min({quote_name(column)})"))]
    grouped = aggregate_node(relation.node, keys, results)
    shown = tree.sql("spark")[:60].replace("'", "")
    text = f"CASE WHEN `^n` > 1 THEN raise_error('a scalar subquery has more than one row: {shown}') ELSE `^v` END"
    outputs = [(n, parse(quote_name(n), grouped.schema)) for n, _ in keys]
    return project(grouped, [*outputs, (column, parse(text, grouped.schema))])


def distinct(node: ir.Node) -> ir.Node:
    """One copy of every row: of those that collations do not tell apart, the least texts by their bytes."""
    schema = node.schema
    columns = [(n, parse(bound(n), schema)) for n in schema.names]
    if all(collation_of(e) is None for _, e in columns):
        return Collection(node).distinct().node
    keys = [(f"^key {n}" if collation_of(e) is not None else n, key_of_order(e)) for n, e in columns]
    texts = [(n, shown_text(e)) for n, e in columns if collation_of(e) is not None]
    grouped = aggregate_node(node, keys, texts)
    return projected(grouped, [(n, parse(bound(n), grouped.schema)) for n in schema.names])


def _conditions(pairs: Sequence[Pair]) -> list[exp.Expr]:
    return [(exp.NullSafeEQ if safe else exp.EQ)(this=a, expression=b) for a, b, safe in pairs]


def _equals(tree: exp.In) -> exp.Expr:
    """IN a query that always has one row."""
    return exp.EQ(this=tree.this.copy(), expression=exp.Subquery(this=opened(tree.args["query"]).copy()))


def with_empties(
    left: Part,
    right: Part,
    conditions: Sequence[exp.Expr],
    empties: Mapping[str, Expr | None],
    answer: Answer,
) -> Part:
    """Left rows with the aggregates of their partners; where there are none, with those over no rows."""
    if all(value is None for value in empties.values()):
        return outer(left, right, conditions, "left")
    there = fresh("^there", (*left.names, *right.names))
    marked = extended(right.node, [(there, literal(True))])
    joined = outer(left, Part(marked, {**right.names, there: there}), conditions, "left")
    back = {inner: around for around, inner in answer.relation.carried.items()}
    schema = joined.node.schema
    outputs = []
    for name in schema.names:
        value, empty = parse(bound(name), schema), empties.get(name)
        if name == there:
            continue
        if empty is not None:
            around = {c: parse(bound(back[c]), schema) for c in empty.columns if c in back}
            both = pa.schema([pa.field("t", pa.bool_()), pa.field("v", value.type), pa.field("e", value.type)])
            choice = parse("CASE WHEN t THEN v ELSE e END", both)
            other = cast(empty.substitute(around), value.type)
            value = choice.substitute({"t": parse(bound(there), schema), "v": value, "e": other})
        outputs.append((name, value))
    return Part.of(project(joined.node, outputs))


def completed(relation: Relation, empties: Mapping[str, Expr | None], around: Around) -> Relation:
    """Aggregates without GROUP BY, by columns of the query ``around``: with a row also where they have none.

    ``empties`` are their values over no rows, by column.

    Raises:
        PlanError: one of the columns around has a collation.
    """
    schema = around.scope.relation.node.schema
    collated = next((c for c in relation.carried if mark_of(schema.field(c)).startswith("collate")), None)
    if collated is not None:
        raise PlanError(
            f"not supported: in a set operation or with HAVING, aggregates without GROUP BY that read {collated!r} of "
            "the outer query, which has a collation; join with them in FROM"
        )
    here = [(c, parse(bound(c), schema)) for c in relation.carried]
    left = Part.of(distinct(project(around.scope.relation.node, here)))
    right = Part(relation.node, {right_name(c): c for c in relation.node.schema.names})
    pairs = [(bound(c), bound(right_name(inner)), not relation.plain) for c, inner in relation.carried.items()]
    values = {right_name(column): value for column, value in empties.items()}
    joined = with_empties(left, right, _conditions(pairs), values, Answer(relation))
    back = {inner: c for c, inner in relation.carried.items()}
    outputs = [(n, parse(bound(back.get(n, right_name(n))), joined.node.schema)) for n in relation.node.schema.names]
    return replace(relation, node=projected(joined.node, outputs), plain=False)


def is_false_or_null(value: Expr) -> bool:
    """Whether a condition without columns is not true."""
    return value.evaluate(Rows(pa.schema([]), (), 1)).values[0].as_py() is not True


def is_null(value: Expr) -> bool:
    """Whether a value without columns is null."""
    nothing = pa.schema([])
    return not value.columns and value.evaluate(Rows(nothing, (), 1)).values[0].as_py() is None


def _columns(count: int, answer: Answer, what: str) -> SchemaError:
    names = [f.name for f in answer.relation.shown]
    return SchemaError(f"{what} needs a query of {count} column(s), got {len(names)}: {', '.join(names)}")
