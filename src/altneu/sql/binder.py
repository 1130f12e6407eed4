"""From the tree of a query to a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Self

from sqlglot import exp

from altneu.collections.collection import Collection
from altneu.collections.grouping import aggregate_node
from altneu.collections.joining import project
from altneu.errors import NonDeterministicError, PlanError, SchemaError, TypeMismatchError, UnknownColumnError
from altneu.expressions import Expr, cast, literal, parse, parse_aggregate
from altneu.expressions.aggregate import shown_text
from altneu.expressions.catalogue import NON_DETERMINISTIC
from altneu.expressions.collations import collation_of
from altneu.expressions.construct import in_common_units, key_of_order
from altneu.plan import ir
from altneu.sql import grouped, ordering, tables
from altneu.sql.binding import Answer
from altneu.sql.dialect import CALCULUS
from altneu.sql.fromclause import FromClause
from altneu.sql.parentheses import FIELDS, is_parenthesised
from altneu.sql.quantified import spelled_out
from altneu.sql.recursion import inlined, with_recursive
from altneu.sql.scope import (
    Around,
    Field,
    Relation,
    Scope,
    bound,
    columns_in,
    common_type,
    filtered,
    fresh,
    projected,
    starred,
)
from altneu.sql.sets import with_grouping_id
from altneu.sql.spans import with_spans
from altneu.sql.subqueries import Subqueries, completed, distinct
from altneu.sql.times import with_times
from altneu.sql.trees import clocked, with_collation_keys
from altneu.types import mark_of, type_name


class Binder:
    """Binds queries; ``known`` looks up the tables in FROM that are not among ``names``."""

    def __init__(
        self, known: Callable[[exp.Table], Relation], names: Mapping[str, Callable[[], Relation]] = MappingProxyType({})
    ) -> None:
        self._known, self._names = known, names

    # queries --------------------------------------------------------------------------------------------------------

    def query(self, tree: exp.Expr, around: Around | None = None) -> Answer:
        """Any query.

        Raises:
            PlanError: something that is not supported, by name.
        """
        if around is not None and tree.args.get("with_"):
            tree = inlined(self, tree)
        binder = with_recursive(self, tree) if tree.args.get("with_") else self
        match tree:
            case exp.Select() if tree.meta.get(FIELDS):
                return Answer(FromClause(binder, spelled_out(tree.copy()), around).relation())
            case exp.Select():
                return binder.select(tree, around)
            case exp.SetOperation():
                return binder.set_operations(tree, around)
            case exp.Subquery() if tree.args.get("joins") or is_parenthesised(tree):
                shown = tree.sql("spark")[:80]
                raise PlanError(f"a join in parentheses is not a query: `{shown}`; write SELECT * before it, and FROM")
            case exp.Subquery():
                inner = binder.query(tree.this, around)
                return binder.ordered(tree, inner, Scope(inner.relation, around))
            case exp.Values():
                relation = tables.values(tree)
                return binder.ordered(tree, Answer(relation), Scope(relation, around))
            case exp.Table():
                return Answer(binder.table(tree))
        raise PlanError(f"{tree.key.upper()} is not a query that a view can maintain: `{tree.sql('spark')[:80]}`")

    def table(self, tree: exp.Table) -> Relation:
        """A name in FROM."""
        relation = self._names.get(tree.name.lower()) if not tree.db else None
        return relation() if relation is not None else self._known(tree)

    def naming(self, names: Mapping[str, Callable[[], Relation]]) -> Self:
        """A binder that knows more names, which hide those that it knew."""
        return type(self)(self._known, {**self._names, **names})

    # SELECT ---------------------------------------------------------------------------------------------------------

    def select(self, tree: exp.Select, around: Around | None) -> Answer:
        """SELECT ... FROM ... WHERE ... GROUP BY ... HAVING ... QUALIFY ... ORDER BY ... LIMIT."""
        if not tree.expressions:
            raise PlanError("SELECT names no column; SELECT * selects all of them")
        _refuse_clock(tree)
        tree = tables.after_groups(with_grouping_id(clocked(spelled_out(tree.copy()))))
        tree = with_collation_keys(with_times(with_spans(tree)))
        clause = FromClause(self, ordering.with_named_order(tree), around)
        scope = Scope(clause.relation(), around)
        tables.numbered(tree, scope.relation)
        ordering.inherited(tree, clause.order)
        items = [item for part in tree.expressions for item in starred(part, scope.relation, around)]
        if not items and around is None:
            raise PlanError("`*` needs a FROM clause")
        scope, items = tables.generated(self, scope, items)
        if tree.args.get("order") and not ordering.counts(tree):
            self._check_order(tree, scope, items)
        return self._of_items(tree, scope, items)

    def _check_order(self, tree: exp.Select, scope: Scope, items: list[exp.Expr]) -> None:
        """Refuse an ORDER BY of unknown or ungrouped columns also in a SELECT whose order has no effect.

        Raises:
            UnknownColumnError: neither its outputs nor what they are computed from has it.
            TypeMismatchError: it is neither grouped nor aggregated, or its types do not go together.
        """
        ordered = tree.copy()
        ordered.meta[ordering.SHOWN] = True
        try:
            self._of_items(ordered, scope, items)
        except (UnknownColumnError, TypeMismatchError):
            raise
        except PlanError:
            return  # what is not supported there does no harm

    def _of_items(self, tree: exp.Select, scope: Scope, items: list[exp.Expr]) -> Answer:
        """A SELECT of items over what its FROM and WHERE give."""
        around = scope.around
        stage = grouped.Stage.of(self, tree, scope, items)
        relation, outputs = stage.relation, stage.outputs
        shown = _outputs(relation, outputs)
        if (verb := tree.meta.get(CALCULUS)) is not None:
            return _of_moments(verb, shown)
        answer = Answer(shown, stage.empties)
        if ordering.is_distinct(tree):
            answer = replace(answer, relation=answer.relation.with_node(distinct(answer.relation.node)))
            return self.ordered(tree, answer, Scope(answer.relation, around))
        return self.ordered(tree, answer, Scope(_with_source(relation, shown, outputs), around))

    def ordered(self, tree: exp.Expr, answer: Answer, scope: Scope) -> Answer:
        """ORDER BY with LIMIT and OFFSET: the first rows, for each row of the outer query; else no order.

        A query that is shown and has no LIMIT returns its order beside the rows.
        """
        limit = ordering.count_of(tree.args.get("limit"), "LIMIT")
        offset = ordering.count_of(tree.args.get("offset"), "OFFSET")
        if not ordering.counts(tree) or (answer.empties is not None and not offset and limit != 0):
            if not isinstance(tree, exp.Select):  # of which all keys are checked before
                ordering.check_names(tree.args.get("order"), scope)
            return answer  # an aggregate without GROUP BY has one row
        order = tree.args.get("order")
        outputs = [f.column for f in scope.relation.fields[: len(answer.relation.shown)]]
        keys = [ordering.key_of(key, scope, outputs) for key in order.expressions] if order else []
        columns = [(answer.relation.carried[o], c) for o, c in scope.relation.carried.items()]
        columns += [(f.column, c) for f, c in zip(answer.relation.shown, outputs, strict=True)]
        if limit is None and not offset:
            return _with_order(answer, scope, columns, keys)
        if not keys:
            keys = [exp.Ordered(this=bound(column), desc=False, nulls_first=True) for column in outputs]
        per = list(dict.fromkeys(scope.relation.carried.values()))
        read = dict.fromkeys([*per, *outputs, *sorted(c for key in keys for c in columns_in(key))])
        schema = scope.relation.node.schema
        rows = Collection(projected(scope.relation.node, [(c, parse(bound(c), schema)) for c in read]))

        def first(count: int) -> Collection:
            return rows.top_k(count, keys, per) if count else rows.filter("false")  # type: ignore[arg-type]

        skipped = offset or 0
        chosen = rows if limit is None else first(skipped + limit)
        if skipped:
            chosen = chosen.concat(first(skipped).negate())
        if tree.meta.get(ordering.CHOSEN):
            return _with_order(answer, Scope(Relation(chosen.node, ()), scope.around), columns, keys)
        node = projected(chosen.node, [(n, parse(bound(c), chosen.schema)) for n, c in columns])
        return Answer(answer.relation.with_node(node))

    # set operations -------------------------------------------------------------------------------------------------

    def set_operations(self, tree: exp.SetOperation, around: Around | None) -> Answer:
        """UNION, EXCEPT and INTERSECT, with and without ALL, of any number of queries one after the other."""
        spine = [tree]
        while isinstance(below := spine[-1].this, exp.SetOperation) and not below.args.get("with_"):
            spine.append(below)
        answer = self.query(spine[-1].this, around)
        for operation in reversed(spine):
            answer = self.set_operation(operation, answer, around)
        return answer

    def set_operation(self, tree: exp.SetOperation, first_answer: Answer, around: Around | None) -> Answer:
        """One set operation of a query that is bound already and another one."""
        answers = [first_answer, self.query(tree.expression, around)]
        sides = [_with_row_of_nothing(a, around) for a in answers]
        first, second = _aligned(*_equally_carried(*sides), tree.key.upper())
        left, right = Collection(first.node), Collection(second.node)
        collated = not isinstance(tree, exp.Union) and any(mark_of(f).startswith("collate") for f in left.schema)
        if tree.args.get("distinct") and not isinstance(tree, exp.Union) and not collated:
            left, right = left.distinct(), right.distinct()
        match tree:
            case exp.Except() | exp.Intersect() if collated:
                result = Collection(_by_keys(left.node, right.node, tree))
            case exp.Union():
                result = left.concat(right)
                if tree.args.get("distinct"):
                    result = Collection(distinct(result.node))
            case exp.Except():
                result = _less(left, right)
            case _:
                result = left.concat(_less(left, right).negate())
        relation = first.with_node(result.node)
        ordering.all_of_them(tree.args.get("order"), [f.name for f in relation.shown])
        return self.ordered(tree, Answer(relation), Scope(relation, around))

    # expressions ----------------------------------------------------------------------------------------------------

    def value(self, tree: exp.Expr, scope: Scope) -> tuple[Scope, exp.Expr]:
        """An expression over a relation, with what its subqueries add to that."""
        lifted = Subqueries(self, scope)
        value = lifted.value(tree)
        return lifted.scope, lifted.scope.resolve(value)


def _of_moments(verb: str, relation: Relation) -> Answer:
    """All rows of a query, differentiated, integrated, delayed or shown with their moments in a further column.

    Raises:
        PlanError: the query reads the one around it; or it was not differentiated, and is to be integrated.
    """
    if relation.carried:
        raise PlanError(f"not supported: {verb.upper()} of a query that reads columns of the query around it")
    node: ir.Node = getattr(Collection(relation.node), verb)().node
    added = [name for name in node.schema.names if name not in relation.node.schema.names]
    return Answer(replace(relation, node=node, fields=(*relation.fields, *(Field("", n, n) for n in added))))


def _by_keys(left: ir.Node, right: ir.Node, tree: exp.Except | exp.Intersect) -> ir.Node:
    """The rows of the left side that collations find on the right one, or do not find: one copy, or all of them.

    Of those that collations do not tell apart, each text is the least of the left side by its bytes.
    """
    schema = left.schema
    columns = [(n, parse(bound(n), schema)) for n in schema.names]
    side = fresh("^side", schema.names)
    there = bound(side)
    sides = [project(node, [*columns, (side, literal(is_left))]) for node, is_left in ((left, True), (right, False))]
    keys = [(fresh(f"^key {n}", schema.names) if collation_of(e) else n, key_of_order(e)) for n, e in columns]
    counts = [fresh(f"^{which}", schema.names) for which in ("left", "right")]
    node = aggregate_node(
        Collection(sides[0]).concat(Collection(sides[1])).node,
        keys,
        [
            *((n, shown_text(e, parse(there, sides[0].schema))) for n, e in columns if collation_of(e)),
            (counts[0], parse_aggregate(exp.Anonymous(this="count_if", expressions=[there]), sides[0].schema)),
            (
                counts[1],
                parse_aggregate(exp.Anonymous(this="count_if", expressions=[exp.Not(this=there)]), sides[0].schema),
            ),
        ],
    )
    (here, other), none, found = map(bound, counts), exp.Literal.number(0), isinstance(tree, exp.Intersect)
    if tree.args.get("distinct"):
        kept = filtered(
            node,
            exp.GT(this=here, expression=none),
            (exp.GT if found else exp.EQ)(this=other, expression=none),
        )
    else:
        name, values = ("least", [here, other]) if found else ("greatest", [exp.Sub(this=here, expression=other), none])
        kept = Collection(node).repeat_row(exp.Anonymous(this=name, expressions=values)).node  # type: ignore[arg-type]
    return projected(kept, [(n, parse(bound(n), kept.schema)) for n in schema.names])


def _less(left: Collection, right: Collection) -> Collection:
    return left.concat(right.negate()).threshold(positive)


def positive(count: int) -> int:
    """A count, or 0 in place of a negative one."""
    return max(count, 0)


def _refuse_clock(tree: exp.Expr) -> None:
    for call in tree.find_all(exp.Anonymous):
        if call.name.lower() in ("rand", "uuid", "shuffle", "monotonically_increasing_id"):
            raise NonDeterministicError(
                f"{call.name}() returns another answer each time, but a view must depend on its rows alone; "
                f"{NON_DETERMINISTIC[call.name.lower()]}"
            )


def _outputs(relation: Relation, outputs: Sequence[tuple[str, Expr]]) -> Relation:
    """The relation of what a SELECT gives, with the columns that are carried."""
    columns: list[tuple[str, Expr]] = []
    fields: list[Field] = []
    carried: dict[str, str] = {}
    for outer, column in relation.carried.items():
        name = fresh(column, (n for n, _ in columns))
        columns.append((name, parse(bound(column), relation.node.schema)))
        carried[outer] = name
    for name, value in outputs:
        column = fresh(name, (n for n, _ in columns))
        columns.append((column, value))
        fields.append(Field("", name, column))
    return Relation(projected(relation.node, columns), tuple(fields), carried, relation.plain)


def _with_source(relation: Relation, shown: Relation, outputs: Sequence[tuple[str, Expr]]) -> Relation:
    """Outputs and the columns that they are computed from, for ORDER BY; names of outputs come first."""
    schema = relation.node.schema
    columns = [(n, parse(bound(n), schema)) for n in schema.names]
    fields: list[Field] = []
    plain: dict[str, str] = {}  # a column that is output twice is not ambiguous
    for field, (_, value) in zip(shown.shown, outputs, strict=True):
        column = plain.get(value.column_name) if value.is_column else None
        if column is None:
            column = fresh(f"^out {field.column}", (n for n, _ in columns))
            columns.append((column, value))
        if value.is_column:
            plain[value.column_name] = column
        fields.append(Field("", field.name, column))
    names = {f.name.lower() for f in fields}
    fields += [replace(f, hidden=f.hidden or f.name.lower() in names) for f in relation.fields]
    return Relation(project(relation.node, columns), tuple(fields), relation.carried)


def _with_order(
    answer: Answer, scope: Scope, columns: Sequence[tuple[str, str]], keys: Sequence[exp.Ordered]
) -> Answer:
    """An answer with a column for each key of its order."""
    schema = scope.relation.node.schema
    outputs = [(name, parse(bound(c), schema)) for name, c in columns]
    order = []
    for i, key in enumerate(keys):
        name = fresh(f"^key {i}", (n for n, _ in outputs))
        outputs.append((name, key_of_order(parse(key.this, schema))))
        descending, first = bool(key.args.get("desc")), key.args.get("nulls_first")
        order.append((name, descending, not descending if first is None else bool(first)))
    node = projected(scope.relation.node, outputs)
    return replace(answer, relation=answer.relation.with_node(node), order=tuple(order))


def _with_row_of_nothing(answer: Answer, around: Around | None) -> Relation:
    """The rows of an answer; of aggregates without GROUP BY one for each row of the outer query, which they read."""
    relation = answer.relation
    if answer.empties is None or not relation.carried or around is None:
        return relation
    return completed(relation, {f.column: e for f, e in zip(relation.shown, answer.empties, strict=True)}, around)


def _equally_carried(left: Relation, right: Relation) -> tuple[Relation, Relation]:
    """Both sides with nulls among the carried columns, or neither: columns carried by an equality have none."""
    if left.plain == right.plain:
        return left, right
    sides = []
    for side in (left, right):
        nulls = [exp.Is(this=bound(c), expression=exp.Null()) for c in side.carried.values()] if side.plain else []
        sides.append(replace(side.filtered(*(exp.Not(this=null) for null in nulls)), plain=False))
    return sides[0], sides[1]


def _aligned(left: Relation, right: Relation, what: str) -> tuple[Relation, Relation]:
    """Two relations with columns of equal names and types, in one order; the names are the left side's.

    Raises:
        SchemaError: they have not as many columns, or of types that do not go together.
    """
    if len(left.shown) != len(right.shown):
        raise SchemaError(
            f"{what}: one side has {len(left.shown)} columns ({', '.join(f.name for f in left.shown)}), "
            f"the other {len(right.shown)} ({', '.join(f.name for f in right.shown)})"
        )
    pairs = [(left.carried[o], right.carried[o], left.carried[o]) for o in left.carried]
    pairs += [(f.column, g.column, f.column) for f, g in zip(left.shown, right.shown, strict=True)]
    outputs: tuple[list[tuple[str, Expr]], list[tuple[str, Expr]]] = ([], [])
    for a, b, name in pairs:
        one, other = parse(bound(a), left.node.schema), parse(bound(b), right.node.schema)

        def types_of_both(name: str = name, one: Expr = one, other: Expr = other) -> str:
            types = f"{type_name(one.type)} on one side and {type_name(other.type)} on the other"
            return f"{what}: column {name!r} is {types}"

        if (collation_of(one) or "UTF8_BINARY") != (collation_of(other) or "UTF8_BINARY"):
            kinds = [collation_of(e) or "UTF8_BINARY" for e in (one, other)]
            raise SchemaError(
                f"{what}: column {name!r} has the collation {kinds[0]} on one side and {kinds[1]} on the other; cast "
                "one of them"
            )
        kind = common_type((one.type, other.type), types_of_both)
        for side, value in zip(outputs, in_common_units(cast(one, kind), cast(other, kind)), strict=True):
            side.append((name, value))
    aligned = [r.with_node(projected(r.node, o)) for r, o in zip((left, right), outputs, strict=True)]
    return aligned[0], left.with_node(aligned[1].node)


__all__ = ["Binder"]
