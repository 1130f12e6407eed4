"""FROM and WHERE: tables, joins, table functions and conditions, as one relation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from altneu.collections.collection import Collection
from altneu.collections.joining import JoinKind, columns_of, project
from altneu.errors import PlanError, SchemaError, UnknownColumnError
from altneu.expressions import has_window, parse
from altneu.expressions.collations import text_of
from altneu.linear import Project
from altneu.plan import ir
from altneu.sql import tables
from altneu.sql.asof import asof
from altneu.sql.binding import QueryBinder
from altneu.sql.dialect import MODE
from altneu.sql.joins import Part, around_pairs, in_pairs, inner, meet, outer, partners
from altneu.sql.onclause import Pairs, null_unless
from altneu.sql.ordering import CHOSEN, OWN, SHOWN, takes_order
from altneu.sql.parentheses import as_query, unwrapped
from altneu.sql.pivots import pivoted
from altneu.sql.scope import BYTES_OF, Around, Field, Relation, Scope, bound, columns_in, conjuncts, extended, fresh
from altneu.sql.spans import SPANS
from altneu.sql.subqueries import Subqueries, bind_inside, with_empties
from altneu.sql.times import TIMED, timed
from altneu.sql.trees import has_aggregate, has_subquery, is_subquery
from altneu.types import mark_of, quote_name

Order = Sequence[tuple[str, bool, bool]]
_KINDS: dict[str, JoinKind] = {"LEFT": "left", "RIGHT": "right", "FULL": "full"}


class FromClause:
    """Joins the items of a FROM as its conditions link them.

    ``parts`` are joined in any order, with ``conditions``; an outer join or a table function comes after both.
    Conditions of WHERE are applied as soon as their columns exist.
    """

    def __init__(self, binder: QueryBinder, tree: exp.Select, around: Around | None) -> None:
        self.binder, self.tree, self.around = binder, tree, around
        self.parts: list[Part] = []
        self.fields: list[Field] = []
        self.carried: dict[str, str] = {}
        self.merged: dict[str, tuple[str, str]] = {}  # columns of full joins by USING, each of two
        self.conditions: list[exp.Expr] = []
        clause = tree.args.get("where")
        parts = conjuncts(clause.this) if clause else []
        if any(has_aggregate(c) for c in parts):
            raise PlanError("WHERE tests each row, and an aggregate belongs to a group: test it in HAVING")
        if any(has_window(c) for c in parts):
            raise PlanError(
                "WHERE chooses the rows that window functions are computed over: test one in QUALIFY, or in the WHERE "
                "of a query that has this one in its FROM"
            )
        self.where = [c for c in parts if not has_subquery(c)]
        self.nested = [c for c in parts if has_subquery(c)]
        self.joins: list[exp.Join] = []
        self.orders: dict[int, Order] = {}  # of the queries in FROM whose order counts

    def relation(self) -> Relation:
        """The rows of FROM that WHERE selects.

        Raises:
            UnknownColumnError: none of its items has a column; if WHERE names an output of SELECT, it says what to do.
        """
        try:
            return self._relation()
        except UnknownColumnError as error:
            name, conditions = error.name.lower(), (*self.where, *self.nested)
            output = next((one for one in self.tree.expressions if one.alias.lower() == name), None)
            columns = (column for one in conditions for column in one.find_all(exp.Column))
            if output is None or not any(column.name.lower() == name for column in columns):
                raise
            instead = "test it in QUALIFY" if has_window(output) else "write what it is computed from"
            if has_aggregate(output) and not has_window(output):
                instead = "test it in HAVING"
            remedy = f"{error.name!r} is an output of SELECT, and WHERE chooses the rows that it is made of: {instead}"
            raise UnknownColumnError(error.name, error.columns, error.where, remedy) from None

    def _relation(self) -> Relation:
        first = self.tree.args.get("from_")
        items: list[exp.Expr] = []
        if first:
            item, self.joins = unwrapped(first.this)
            items = [item]
        self.joins = [*self.joins, *(self.tree.args.get("joins") or ())]
        plain = [item for item in (*items, *(j.this for j in self.joins)) if _is_plain(item)]
        relations = {id(item): self._item(item) for item in plain}
        bound_items = {place: relation for place, relation in relations.items() if relation is not None}
        if TIMED in self.tree.meta:
            others = len(self.joins) + len(self.tree.args.get("laterals") or ())
            alone = timed(bound_items.get(id(items[0])) if items else None, others)
            bound_items = {id(item): alone for item in items}
        equated = self._equated(bound_items) if len(bound_items) == len(relations) else None
        joins_around = bool(self.around and self.around.taken) and equated is None
        plain_joins = len(bound_items) == len(items) + len(self.joins) and not self.tree.args.get("laterals")
        at_end = joins_around and self._pads_left and plain_joins and not self._joins_by_around(bound_items)
        if joins_around and not at_end:
            self._put_around()
        for item in items:
            self._first(item, bound_items.get(id(item)))
        for join in self.joins:
            self._join(join, bound_items.get(id(join.this)))
        for lateral in self.tree.args.get("laterals") or ():
            self._lateral(lateral, "left" if lateral.args.get("outer") else "inner", [])
        if at_end:  # a right join would set it to null in the rows that it pads
            self._put_around()
        return self._finished(equated)

    @property
    def order(self) -> Order:
        """The order of the only query in FROM; nothing if there are several items, or if it has none."""
        first = self.tree.args.get("from_")
        return self.orders.get(id(unwrapped(first.this)[0]), ()) if first and not self.joins else ()

    @property
    def _pads_left(self) -> bool:
        """Whether a join keeps rows without what stands before it."""
        return any((join.side or "").upper() in ("RIGHT", "FULL") for join in self.joins)

    # joins ----------------------------------------------------------------------------------------------------------

    def _item(self, item: exp.Expr) -> Relation | None:
        """A table, a view or a query in FROM, under its alias; None: one that reads the outer query."""
        several = as_query(item)
        if item.args.get("pivots") and not item.args.get("joins"):
            return self._pivoted(item)
        if several is None and isinstance(item, exp.Table) and isinstance(item.this, exp.Values):
            relation = tables.values(item.this)
        elif several is None and isinstance(item, exp.Table):
            relation = self.binder.table(item)
        else:
            try:
                answer = self.binder.query(several or self._ordered(item))
                relation = answer.relation
                self.orders[id(item)] = _by_columns(relation.node, answer.order)
            except UnknownColumnError:
                if self.around is None:
                    raise
                return None
        return relation if item.args.get("joins") else _aliased(relation, item)

    def _pivoted(self, item: exp.Expr) -> Relation:
        plain = item.copy()
        plain.set("pivots", None)
        relation = self._item(plain)
        if relation is None:
            raise PlanError("not supported: PIVOT of a query that reads the one around it; pivot it in a query in FROM")
        for pivot in item.args["pivots"]:
            relation = _aliased(pivoted(self.binder, relation, pivot), pivot)
        return relation

    def _ordered(self, item: exp.Expr) -> exp.Expr:
        """The query of an item; on the right of an ASOF JOIN, one that returns its order."""
        tree = _query_in(item)
        asked = any(join.this is item and (join.args.get("method") or "").upper() == "ASOF" for join in self.joins)
        taken = not self.joins and takes_order(self.tree)
        if asked or taken:
            tree = tree.copy()
            tree.meta[SHOWN] = True
            tree.meta[CHOSEN if taken else OWN] = True
        return tree

    def _first(self, item: exp.Expr, relation: Relation | None) -> None:
        if relation is None:
            self._lateral(item, "inner", [])
        else:
            self._put(relation)

    def _put(self, relation: Relation) -> Part:
        """One more part, with names for its columns that nothing else has."""
        part, fields = self._named(relation)
        self.parts.append(part)
        self.fields += fields
        return part

    def _named(self, relation: Relation) -> tuple[Part, list[Field]]:
        taken = {n for part in self.parts for n in part.names}
        names: dict[str, str] = {}
        by_column: dict[str, str] = {}
        fields = []
        for f in relation.fields:
            if f.column not in by_column:
                name = f.column if f.column not in taken else f"{f.table or 'query'}.{f.name}"
                by_column[f.column] = fresh(name, taken)
                taken.add(by_column[f.column])
                names[by_column[f.column]] = f.column
            fields.append(replace(f, column=by_column[f.column]))
        return Part(relation.node, names), fields

    def _join(self, join: exp.Join, relation: Relation | None) -> None:
        side, kind = (join.side or "").upper(), (join.kind or "").upper()
        method = (join.args.get("method") or "").upper()
        _check_join(join, side, kind, method)
        conditions = conjuncts(join.args.get("on"))
        if relation is None:
            if side in ("RIGHT", "FULL") or kind in ("SEMI", "ANTI"):
                raise PlanError(
                    f"{side or kind} JOIN LATERAL: the right side is computed from a row of the left side and does not "
                    "exist without it; use LEFT"
                )
            before = len(self.fields)
            self._lateral(join.this, "left" if side == "LEFT" else "inner", conditions)
            if self._merge(join, before, "inner") and side == "LEFT":
                raise PlanError("LEFT JOIN LATERAL needs ON, not USING; put the condition into the query")
            return
        if kind in ("SEMI", "ANTI"):
            self._semi(join, relation, conditions, keep=kind == "SEMI")
        elif method == "ASOF":
            self._asof(join, relation, conditions, keeps=side == "LEFT")
        elif side in _KINDS:
            self._outer(join, relation, conditions, _KINDS[side])
        else:
            self._put(relation)
            self._merge(join, len(self.fields) - len(relation.fields), "inner")
            self._add_conditions(conditions)

    def _add_conditions(self, conditions: Sequence[exp.Expr]) -> None:
        """Add conditions of an inner join; those with subqueries are applied at the end, with the same result."""
        self.nested += [c for c in conditions if has_subquery(c)]
        self.conditions += [self.scope.resolve(c) for c in conditions if not has_subquery(c)]

    def _resolved(self, conditions: Sequence[exp.Expr], what: str) -> list[exp.Expr]:
        for condition in conditions:
            if has_subquery(condition):
                raise PlanError(f"not supported: a subquery in the ON of {what}; join with it as a query in FROM")
        return [self.scope.resolve(c) for c in conditions]

    def _divided(self, conditions: Sequence[exp.Expr]) -> tuple[list[exp.Expr], list[exp.Expr]]:
        """Conditions of ON, resolved, and those that have subqueries."""
        nested = [c for c in conditions if has_subquery(c)]
        return self._resolved([c for c in conditions if not has_subquery(c)], "a join"), nested

    def _outer(self, join: exp.Join, relation: Relation, conditions: Sequence[exp.Expr], how: JoinKind) -> None:
        left = self._closed(early=how == "left")
        right = self._put(relation)
        here = self.carried if how != "left" else {}
        there = {c: fresh(name, (*left.names, *right.names)) for c, name in here.items()}
        if there:  # the right side is padded for each of the values around
            right, _ = inner([right, self._values_around(there)], [])
        conditions_of_join, nested = self._divided(conditions)
        conditions_of_join += [exp.NullSafeEQ(this=bound(here[c]), expression=bound(there[c])) for c in here]
        conditions_of_join += self._merge(join, len(self.fields) - len(relation.fields), how)
        if not conditions_of_join and not nested:
            raise PlanError(f"{how.upper()} JOIN needs ON or USING; for all pairs of rows write CROSS JOIN")
        pairs = Pairs(self.binder, self.scope, left, right, conditions_of_join)
        pairs.test(nested, relation if how == "left" else None)
        if pairs.nested:
            self.parts = [around_pairs(left, right, pairs.met, pairs.read, how)]
        else:
            self.parts = [outer(left, pairs.right, conditions_of_join, how)]
        if there:
            self.carried = there
        if there and how == "full":
            self.carried = {c: fresh(f"^full {name}", self.parts[0].names) for c, name in here.items()}
            self.merged |= {self.carried[c]: (here[c], there[c]) for c in here}
        self._coalesced()

    def _semi(self, join: exp.Join, relation: Relation, conditions: Sequence[exp.Expr], *, keep: bool) -> None:
        left = self._closed(early=True)
        before = list(self.fields)
        right = self._put(relation)
        resolved, nested = self._divided(conditions)
        resolved += self._merge(join, len(before), "left")
        pairs = Pairs(self.binder, self.scope, left, right, resolved)
        pairs.test(nested, relation)
        shared = [f.name.lower() for f in self.fields[: len(self.fields) - len(before) - len(relation.fields)]]
        keys = [next(f for f in before if not f.hidden and f.name.lower() == name) for name in shared]
        self.fields = [*keys, *(f for f in before if f not in keys)]  # those of USING first, as Spark has them
        if pairs.nested:
            self.parts = [in_pairs(left, pairs.met, pairs.read, keep=keep)]
        else:
            self.parts = [partners(left, pairs.right, resolved, keep=keep)]

    def _asof(self, join: exp.Join, relation: Relation, conditions: list[exp.Expr], *, keeps: bool) -> None:
        left = self._closed(early=True)
        right = self._put(relation)
        resolved = self._resolved(conditions, "an ASOF JOIN")
        resolved += self._merge(join, len(self.fields) - len(relation.fields), "left")
        mode, ties = join.meta.get(MODE, "REVISING"), self.orders.get(id(join.this), ())
        self.parts = [asof(left, right, resolved, mode=mode, keeps=keeps, ties=ties)]

    def _merge(self, join: exp.Join, first: int, how: JoinKind) -> list[exp.Expr]:
        """USING and NATURAL: equalities, and one column for each pair; an inner join adds them to its conditions."""
        sides = [f for f in self.fields[:first] if not f.hidden], self.fields[first:]
        names = [c.name for c in join.args.get("using") or ()]
        if (join.args.get("method") or "").upper() == "NATURAL":
            names = [f.name for f in sides[0] if any(f.name.lower() == g.name.lower() for g in sides[1])]
        equalities: list[exp.Expr] = []
        merged: list[Field] = []
        for name in names:
            pair = [next((f for f in side if not f.hidden and f.name.lower() == name.lower()), None) for side in sides]
            for f, side in zip(pair, sides, strict=True):
                if f is None:
                    raise UnknownColumnError(name, [g.name for g in side], "USING")
            a, b = pair
            assert a is not None
            assert b is not None
            equalities.append(exp.EQ(this=bound(a.column), expression=bound(b.column)))
            shown = b.column if how == "right" else a.column
            if how == "full":
                shown = fresh(f"^using {a.column}", self.merged)
                self.merged[shown] = a.column, b.column
            merged.append(Field("", a.name, shown))
            self.fields = [replace(f, hidden=True) if f in (a, b) else f for f in self.fields]
        self.fields = [*merged, *self.fields]
        if how == "inner":
            self.conditions += equalities
        return equalities

    def _coalesced(self) -> None:
        """Compute the columns that a full join has merged."""
        part = self.parts[0]
        more = []
        for column in (*(f.column for f in self.fields), *self.carried.values()):
            if column in self.merged and column not in part.names:
                a, b = self.merged[column]
                text = f"coalesce({quote_name(a)}, {quote_name(b)})"
                more.append((column, parse(text, part.node.schema)))
        self.parts = [Part.of(extended(part.node, more))]

    # what depends on each row ---------------------------------------------------------------------------------------

    def _lateral(self, item: exp.Expr, how: JoinKind, conditions: Sequence[exp.Expr]) -> None:
        """A table function, or a query that reads the items before it, or without LATERAL the outer query alone."""
        scope = Scope(self._whole(), self.around)
        generator = _generator(item) if as_query(item) is None else None
        if isinstance(item, exp.Subquery | exp.Table) and generator is None:
            scope = Scope(replace(scope.relation, fields=()), self.around)
        if generator is not None:
            tests = [c for c in conditions if c != exp.true()]
            if how == "left" and not tests:
                generator = replace(generator, outer=True)
            relation = generator.applied(self.binder, scope)
            added = relation.fields[len(scope.relation.fields) :]
            self.fields += [replace(f, starred=False) for f in added] if item.meta.get(SPANS) else added
            self.parts = [Part.of(relation.node)]
            if how == "left" and tests:
                self._pad_generated(generator, scope, relation, tests)
                conditions = []
        else:
            self._lateral_query(item, how, conditions, scope)
            conditions = [] if how == "left" else conditions
        self._add_conditions([c for c in conditions if c != exp.true()])

    def _pad_generated(
        self, generator: tables.Generator, scope: Scope, relation: Relation, tests: Sequence[exp.Expr]
    ) -> None:
        """Keep the rows for which a table function returns nothing that meets the tests of ON."""
        resolved = self._resolved(tests, "LEFT JOIN LATERAL")
        names = scope.relation.node.schema.names
        met = Part.of(relation.node).where(resolved)
        added = Part(relation.node, {n: n for n in relation.node.schema.names if n not in names})
        read = {scope.column(c)[0] for a in generator.call.expressions for c in a.find_all(exp.Column)}
        read |= {n for c in resolved for n in columns_in(c)}
        self.parts = [around_pairs(Part.of(scope.relation.node), added, met, read, "left")]

    def _lateral_query(self, item: exp.Expr, how: JoinKind, conditions: Sequence[exp.Expr], scope: Scope) -> None:
        several = as_query(item)
        tree = several or _query_in(item if isinstance(item, exp.Subquery) else item.this)
        answer, taken = bind_inside(self.binder, tree, scope)
        relation = answer.relation if item.args.get("joins") else _aliased(answer.relation, item)
        left = Part.of(scope.relation.node)
        self.parts = [left]
        shown, fields = self._named(relation)
        carried = {c: fresh(f"^sub {c}", (*left.names, *shown.names)) for c in relation.carried.values()}
        right = Part(relation.node, {**shown.names, **{name: c for c, name in carried.items()}})
        equal = exp.EQ if relation.plain else exp.NullSafeEQ
        equalities: list[exp.Expr] = [
            equal(this=bound(c), expression=bound(carried[relation.carried[c]])) for c in taken
        ]
        self.fields += fields
        conditions = [c for c in conditions if c != exp.true()]
        if answer.empties is not None and taken:  # a row of aggregates for each row here, even over no rows
            columns = [f.column for f in fields if f.starred and not f.hidden]
            joined = with_empties(left, right, equalities, dict(zip(columns, answer.empties, strict=True)), answer)
            if how == "left" and conditions:
                joined = null_unless(joined, columns, self._resolved(conditions, "LEFT JOIN LATERAL"))
        elif how == "left":
            equalities += self._resolved(conditions, "LEFT JOIN LATERAL")
            joined = outer(left, right, equalities, "left")
        else:
            joined = meet(left, right, equalities)
        self.parts = [Part(joined.node, {n: n for n in joined.names if n not in carried.values()})]

    # what it comes to -----------------------------------------------------------------------------------------------

    @property
    def scope(self) -> Scope:
        """What names mean so far; the plan of its relation is not to be used."""
        node = self.parts[0].node if self.parts else tables.one_row()
        return Scope(Relation(node, tuple(self.fields), self.carried, plain=not self.carried), self.around)

    def _closed(self, *, early: bool) -> Part:
        """All parts joined; ``early``: with those conditions of WHERE whose columns exist by now."""
        if not self.parts:
            self.parts = [Part.of(tables.one_row())]
        ripe_conditions = list(self.conditions)
        if early and not self._pads_left:
            scope = self.scope
            ripe = [c for c in self.where if _reads(c) and all(scope.is_local(n) for n in c.find_all(exp.Column))]
            self.where = [c for c in self.where if not any(c is r for r in ripe)]
            ripe_conditions += [scope.resolve(c) for c in ripe]
        part, rest = inner(self.parts, ripe_conditions)
        self.conditions = []
        return part.where(rest) if rest else part

    def _whole(self) -> Relation:
        part = self._closed(early=True)
        node = part.node
        if any(n != c for n, c in part.names.items()):
            columns = dict(zip(part.names, columns_of(node.schema, part.names.values()), strict=True))
            node = project(node, [(name, value) for name, (_, value) in columns.items()])
        self.parts = [Part.of(node)]
        return Relation(node, tuple(self.fields), self.carried, plain=not self.carried)

    def _finished(self, equated: dict[str, exp.Expr] | None) -> Relation:
        scope = self.scope
        self.conditions += [scope.resolve(c) for c in self.where]
        self.where = []
        relation = self._whole()
        if equated:
            relation = _carrying(relation, {outer: scope.resolve(tree) for outer, tree in equated.items()})
        lifted = Subqueries(self.binder, Scope(relation, self.around))
        for condition in self.nested:
            lifted.where(condition)
        return lifted.scope.relation

    # the outer query -----------------------------------------------------------------------------------------------

    def _equated(self, items: dict[int, Relation]) -> dict[str, exp.Expr] | None:
        """The expression that each outer column is equal to, if equalities are its only uses; else None.

        These conditions are taken out of WHERE.
        """
        if not self.around or not self.around.taken:
            return None
        if any(not _is_plain(j.this) for j in self.joins) or self.tree.args.get("laterals") or not items:
            return None
        fields = tuple(f for relation in items.values() for f in relation.fields)
        local = Scope(Relation(tables.one_row(), fields), self.around)
        equal_to: dict[str, exp.Expr] = {}
        rest = []
        for condition in self.where:
            pair = self._equality(condition, local, items.values())
            if pair is None or pair[0] in equal_to:
                rest.append(condition)
            else:
                equal_to[pair[0]] = pair[1]
        others = [*rest, *(c for j in self.joins for c in conjuncts(j.args.get("on")))]
        if set(equal_to) != set(self.around.taken) or not all(_is_local(c, local) for c in others):
            return None
        if any(not _is_local(c, local) for c in self.nested if not any(is_subquery(n) for n in c.walk())):
            return None
        self.where = rest
        return equal_to

    def _equality(self, condition: exp.Expr, local: Scope, items: Iterable[Relation]) -> tuple[str, exp.Expr] | None:
        """An outer column and the expression that it is equal to, of the same type: another may have equal values."""
        if not isinstance(condition, exp.EQ) or self.around is None:
            return None
        for a, b in ((condition.this, condition.expression), (condition.expression, condition.this)):
            if isinstance(a, exp.Column) and not local.is_local(a) and _reads(b) and _is_local(b, local):
                column, rest = self.around.column(a)
                kind = self.around.scope.relation.node.schema.field(column).type
                return (column, b) if not rest and _type_of(b, items) == kind else None
        return None

    def _joins_by_around(self, items: dict[int, Relation]) -> bool:
        """Whether a condition of ON reads the outer query."""
        fields = tuple(f for relation in items.values() for f in relation.fields)
        local = Scope(Relation(tables.one_row(), fields), self.around)
        return not all(_is_local(c, local) for join in self.joins for c in conjuncts(join.args.get("on")))

    def _put_around(self) -> None:
        """The distinct values that the columns of the outer query have there, as a part to be joined."""
        assert self.around is not None
        schema = self.around.scope.relation.node.schema
        collated = {c for c in self.around.taken if mark_of(schema.field(c)).startswith("collate")}
        self.carried = {c: f"{BYTES_OF if c in collated else '^outer '}{c}" for c in self.around.taken}
        self.parts.append(self._values_around(self.carried))

    def _values_around(self, names: Mapping[str, str]) -> Part:
        assert self.around is not None
        outer_node = self.around.scope.relation.node
        outputs = [(name, text_of(parse(quote_name(c), outer_node.schema))) for c, name in names.items()]
        node: ir.Node = Collection(project(outer_node, outputs)).distinct().node
        return Part.of(node)


def _by_columns(node: ir.Node, order: Order) -> Order:
    """An order of a query's rows, by outputs in the place of keys that are equal to them."""
    last = node.logic.steps[-1] if isinstance(node, ir.Linear) and node.logic.steps else None
    outputs = dict(last.outputs) if isinstance(last, Project) else {}
    own = {name for name, _, _ in order}
    same = {key: n for n, value in outputs.items() if n not in own for key in own if outputs.get(key) == value}
    return [(same.get(key, key), descending, first) for key, descending, first in order]


def _type_of(tree: exp.Expr, items: Iterable[Relation]) -> pa.DataType | None:
    """The type of an expression over one of the items, None if it reads several."""
    for relation in items:
        scope = Scope(relation)
        if _is_local(tree, scope):
            return parse(scope.resolve(tree), relation.node.schema).type
    return None


def _carrying(relation: Relation, equated: dict[str, exp.Expr]) -> Relation:
    schema = relation.node.schema
    carried, more = {}, []
    for outer_column, tree in equated.items():
        if isinstance(tree, exp.Column):
            carried[outer_column] = str(tree.name)
        else:
            carried[outer_column] = fresh(f"^outer {outer_column}", schema.names)
            more.append((carried[outer_column], parse(tree, schema)))
    return replace(relation.extended(more), carried=carried, plain=True)


def _check_join(join: exp.Join, side: str, kind: str, method: str) -> None:
    """Refuse words of a join that do not go together.

    Raises:
        PlanError: naming them.
    """
    words = " ".join(word for word in (method, side, kind, "JOIN") if word)
    given_clauses = [name for name in ("on", "using") if join.args.get(name) not in (None, [], exp.true())]
    if kind in ("SEMI", "ANTI") and (side in ("RIGHT", "FULL") or method == "ASOF"):
        raise PlanError(
            f"not supported: {words}; put the side whose rows the result contains first, and write LEFT {kind} JOIN"
        )
    if method == "ASOF" and side in ("RIGHT", "FULL"):
        raise PlanError(f"not supported: {words}; put the side that keeps all its rows first, and write ASOF LEFT JOIN")
    if method == "NATURAL" and kind in ("SEMI", "ANTI"):
        raise PlanError(f"not supported: {words}; name the columns, LEFT {kind} JOIN … USING (…)")
    if method == "NATURAL" and given_clauses:
        raise PlanError(
            f"{words} does not accept {given_clauses[0].upper()}: it joins by the columns that both sides have"
        )
    if kind == "CROSS" and (side or method or "using" in given_clauses):
        raise PlanError(f"{words}: CROSS JOIN pairs everything with everything; leave CROSS out")


def _query_in(item: exp.Expr) -> exp.Expr:
    """The query that stands in FROM in brackets."""
    has_clauses = any(value for name, value in item.args.items() if name not in ("this", "alias"))
    return item.this if isinstance(item, exp.Subquery) and not has_clauses else item


def _is_local(tree: exp.Expr, scope: Scope) -> bool:
    return all(scope.is_local(c) for c in tree.find_all(exp.Column))


def _reads(tree: exp.Expr) -> bool:
    return tree.find(exp.Column) is not None


def _is_plain(item: exp.Expr) -> bool:
    """Whether an item of FROM stands by itself: no table function, and not LATERAL."""
    if as_query(item) is not None:
        return True
    if isinstance(item, exp.Lateral | exp.Unnest):
        return False
    return not (isinstance(item, exp.Table) and isinstance(item.this, exp.Anonymous | exp.Func))


def _generator(item: exp.Expr) -> tables.Generator | None:
    """The table function of an item, if it is one."""
    alias = item.args.get("alias")
    names = tuple(c.name for c in alias.columns) if alias and alias.columns else ()
    call = item.this
    unnest = item if isinstance(item, exp.Unnest) else call
    if isinstance(unnest, exp.Unnest):
        call = exp.Anonymous(this="unnest", expressions=list(unnest.expressions))
    if not isinstance(call, exp.Anonymous):
        return None
    ordinality = bool(item.args.get("ordinality") or item.args.get("offset"))
    return tables.Generator(call, alias.name if alias else "", names, bool(item.args.get("outer")), ordinality)


def _aliased(relation: Relation, item: exp.Expr) -> Relation:
    """A relation under the alias of an item, with the column names that the alias gives."""
    alias = item.args.get("alias")
    if not isinstance(alias, exp.TableAlias):
        return relation
    shown = relation.shown
    names = [c.name for c in alias.columns] if alias.columns else [f.name for f in shown]
    if len(names) != len(shown):
        raise SchemaError(
            f"{alias.name} names {len(names)} columns ({', '.join(names)}), and there are {len(shown)}: "
            f"{', '.join(f.name for f in shown)}"
        )
    table = alias.name
    fields = tuple(Field(table, n, f.column) for n, f in zip(names, shown, strict=True))
    return replace(relation, fields=fields)
