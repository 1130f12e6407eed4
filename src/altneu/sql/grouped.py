"""From FROM to the outputs of a SELECT: groups and their aggregates, HAVING, windows, QUALIFY."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from altneu.collections.grouping import aggregate_node, grouping_sets
from altneu.errors import PlanError, TypeMismatchError, UnknownColumnError
from altneu.expressions import AggregateCall, AggregateExpr, Expr, cast, has_window, literal, parse, parse_aggregate
from altneu.expressions.aggregate import shown_text
from altneu.expressions.collations import collation_of
from altneu.expressions.construct import key_of_order
from altneu.expressions.names import UPDATE_TIME
from altneu.expressions.sharing import simplify
from altneu.sql import windows
from altneu.sql.aliases import Aliases
from altneu.sql.binding import QueryBinder
from altneu.sql.ordering import all_of_them, computed_keys, first_of_keys
from altneu.sql.scope import Field, Relation, Scope, bound, fresh, is_bound
from altneu.sql.sets import FUNCTIONS, ID, Sets, sets_of
from altneu.sql.spans import is_session, with_sessions
from altneu.sql.subqueries import Subqueries, completed, is_false_or_null, is_null
from altneu.sql.trees import AROUND_CALL, has_aggregate, has_subquery, is_aggregate, is_subquery, name_of, unaliased
from altneu.types.syntax import in_text

_AGGREGATES = "^aggregates"  # the table under which a subquery reads aggregates of the outer query


@dataclass(frozen=True)
class Stage:
    """The relation over which the outputs of a SELECT are computed, and the outputs."""

    relation: Relation
    outputs: list[tuple[str, Expr]]
    empties: tuple[Expr | None, ...] | None = None

    @classmethod
    def of(cls, binder: QueryBinder, tree: exp.Select, scope: Scope, items: Sequence[exp.Expr]) -> Stage:
        """Bind what a SELECT computes.

        Raises:
            PlanError: a column that is neither grouped nor aggregated; what else is not supported.
        """
        names = [name_of(item) for item in items]
        all_of_them(tree.args.get("order"), names)
        trees = [windows.named(tree, item.this if isinstance(item, exp.Alias) else item) for item in items]
        aliases, trees = Aliases.of(items, trees, scope)
        named = list(zip(names, trees, strict=True))
        qualify = [unaliased(windows.named(tree, c), named, scope.is_local) for c in _qualify(tree)]
        qualify += first_of_keys(tree, named)
        group, having = tree.args.get("group"), tree.args.get("having")
        order = list(tree.args["order"].expressions) if tree.args.get("order") else []
        groups = group is not None or having is not None or any(map(has_aggregate, [*trees, *order, *qualify]))
        grouping = Groups(binder, scope, trees, names, group, aliases) if groups else None
        translate = grouping.translated if grouping else _copied
        keys = computed_keys(tree, named, groups=groups)
        trees = [translate(t) for t in (*trees, *(windows.named(tree, t) for _, t in keys))]
        conditions = [translate(unaliased(having.this, named, grouping.is_key))] if having and grouping else []
        qualify = [translate(c) for c in qualify]
        aliases = aliases.over(trees)
        tested, whole = having is not None or bool(qualify), False
        if grouping:
            scope = grouping.grouped()
            whole = group is None and bool(scope.relation.carried) and (tested or any(map(has_window, trees)))
            if whole and (qualify or not conditions or grouping.may_meet_nothing(conditions, scope, aliases)):
                scope = grouping.completed(scope)
        if conditions:
            scope = aliases.computed(binder, scope, conditions)
            scope = _having(binder, scope, conditions, dict(zip(names, trees, strict=False)))
        trees = aliases.read(trees)
        scope = aliases.computed(binder, scope, aliases.before_rows_are_chosen(trees))
        resolved = []
        for place, one in enumerate(trees):
            with nullcontext() if place < len(names) else _reading_outputs(one, names):
                scope, value = binder.value(one, scope)
            resolved.append(value)
        scope, resolved = windows.computed(scope, resolved)
        for condition in qualify:
            scope = aliases.computed(binder, scope, [condition])
            scope, value = binder.value(condition, scope)
            scope, (value,) = windows.computed(scope, [value])
            scope = Scope(scope.relation.filtered(value), scope.around)
        scope = aliases.computed(binder, scope, resolved)
        for (key, _), value in zip(keys, resolved[len(names) :], strict=True):
            key.set("this", value)
        resolved = resolved[: len(names)]
        outputs = [(n, parse(t, scope.relation.node.schema)) for n, t in zip(names, resolved, strict=True)]
        empties = None
        if grouping and group is None and not tested and not whole:
            empties = tuple(grouping.over_nothing(value, aliases.values) for _, value in outputs)
        return cls(scope.relation, outputs, empties)


@contextmanager
def _reading_outputs(key: exp.Expr, names: Sequence[str]) -> Iterator[None]:
    """Let an unknown column of a key of ORDER BY say that outputs, of which the key was rid before, may stand there."""
    try:
        yield
    except UnknownColumnError as error:
        if has_subquery(key):
            raise  # it may be about the columns of that
        raise UnknownColumnError(error.name, [*names, *error.columns], error.where) from None


def _having(
    binder: QueryBinder, scope: Scope, conditions: Sequence[exp.Expr], outputs: Mapping[str, exp.Expr]
) -> Scope:
    """The groups on which conditions are true; subqueries in them read ``outputs`` that are keys or aggregates, too."""
    fields = scope.relation.fields
    known = {f.name.lower() for f in fields}
    more = [
        Field("", name, tree.name)
        for name, tree in outputs.items()
        if is_bound(tree) and isinstance(tree, exp.Column) and name.lower() not in known
    ]
    scope = Scope(replace(scope.relation, fields=(*fields, *more)), scope.around)
    for condition in conditions:
        lifted = Subqueries(binder, scope)
        lifted.where(condition)
        scope = lifted.scope
    return Scope(replace(scope.relation, fields=fields), scope.around)


def _shown(column: exp.Column) -> str:
    """A column as it was written."""
    return "update_time()" if column.name == UPDATE_TIME else str(column.sql("spark"))


def _qualify(tree: exp.Select) -> list[exp.Expr]:
    clause = tree.args.get("qualify")
    return [clause.this] if clause else []


def _without_parentheses(tree: exp.Expr) -> exp.Expr:
    """What an expression is compared by: of a tree, which says without them what belongs together."""
    if tree.find(exp.Paren) is None:
        return tree
    bare = tree.unnest().copy()
    for around in [*bare.find_all(exp.Paren)]:
        around.replace(around.this)
    return bare


def _copied(tree: exp.Expr) -> exp.Expr:
    return tree.copy()


class Groups:
    """GROUP BY: ``translated`` collects the aggregates of expressions, ``grouped`` then computes them."""

    def __init__(
        self,
        binder: QueryBinder,
        scope: Scope,
        items: Sequence[exp.Expr],
        names: Sequence[str],
        group: exp.Group | None,
        aliases: Aliases,
    ) -> None:
        self.binder, self.scope = binder, scope
        self.calls: list[tuple[exp.Expr, str]] = []
        self.keys: list[tuple[exp.Expr, str]] = []
        several = sets_of(group) if group else None
        self.sets = Sets(tuple(several[1]), len(several[0])) if several else None
        self.subqueries: list[tuple[exp.Expr, str]] = []  # keys that are or have one, as they are written
        if several:
            keys = [self._key(k, items, names) for k in several[0]]
        else:
            keys = self._keys(group, items, names, aliases) if group else []
        places: list[int] = []  # of the keys as they are written; several may be one
        for tree in sorted(keys, key=is_session):  # which are sessions of rows with equal other keys
            if is_session(tree):
                if several:
                    raise PlanError("not supported: session_window() in ROLLUP, CUBE or GROUPING SETS; nest it in FROM")
                self.scope = with_sessions(self.scope, [known for known, _ in self.keys])
            self.scope, resolved = binder.value(tree, aliases.computed(binder, self.scope, [tree]))
            if (place := self._place_of(resolved)) is None:
                place = len(self.keys)
                self.keys.append((resolved, self._name(resolved)))
            places.append(place)
            if any(is_subquery(node) for node in tree.walk()):
                self.subqueries.append((tree.copy(), self.keys[place][1]))
        if several:
            chosen = tuple(frozenset(places[number] for number in one) for one in several[1])
            self.sets = Sets(chosen, len(self.keys))

    def _keys(
        self, group: exp.Group, items: Sequence[exp.Expr], names: Sequence[str], aliases: Aliases
    ) -> list[exp.Expr]:
        if group.args.get("all"):
            return [item for item in items if not aliases.aggregate(item)]
        return [self._key(key, items, names) for key in group.expressions]

    def _key(self, key: exp.Expr, items: Sequence[exp.Expr], names: Sequence[str]) -> exp.Expr:
        """A key as it is written, or the item that it stands for, by place or alias."""
        bare = key.unnest()
        if isinstance(bare, exp.Literal) and not bare.is_string:
            place = int(bare.this) - 1
            if not 0 <= place < len(items):
                raise PlanError(f"GROUP BY {bare.this}: there are {len(items)} columns")
            return items[place]
        if isinstance(bare, exp.Column) and not bare.table and self.scope.relation.find([bare.name]) is None:
            lowered = [n.lower() for n in names]
            if bare.name.lower() in lowered:
                return items[lowered.index(bare.name.lower())]
        return key

    def _place_of(self, resolved: exp.Expr) -> int | None:
        """Which key an expression is; parentheses make none another."""
        bare = _without_parentheses(resolved)
        return next((i for i, (tree, _) in enumerate(self.keys) if _without_parentheses(tree) == bare), None)

    def _name(self, key: exp.Expr) -> str:
        if isinstance(key, exp.Column) and not self.sets:
            return str(key.name)
        known = [*self.scope.relation.node.schema.names, *(n for _, n in self.keys)]
        return fresh(f"^{key.sql('spark')}", known)

    # expressions ----------------------------------------------------------------------------------------------------

    def translated(self, tree: exp.Expr) -> exp.Expr:
        """A tree over the groups: keys and aggregates are columns; subqueries are left for later."""
        calls: set[int] = set()  # the calls of windows, which aggregate no group

        def visit(node: exp.Expr) -> exp.Expr:
            for written, name in self.subqueries:
                if written == node:
                    return bound(name)
            if is_subquery(node):
                return self._subquery(node)
            if isinstance(node, exp.Window):
                call = node.this
                calls.add(id(call))
                while isinstance(call, AROUND_CALL):
                    call = call.this
                    calls.add(id(call))
                return node
            if self.sets and isinstance(node, exp.Anonymous) and node.name.lower() in FUNCTIONS:
                return self.sets.translated(node, [self._place(key) for key in node.expressions])
            if id(node) not in calls and is_aggregate(node):
                return bound(self._call(node))
            key = self._name_of_key(node)
            if key is not None:
                return bound(key)
            if isinstance(node, exp.Column) and not is_bound(node) and self.scope.is_local(node):
                if (part := self._part_of_key(node)) is not None:
                    return part
                if (collation := self._collation_of_key(node)) is not None:
                    shown = _shown(node)
                    raise TypeMismatchError(
                        f"the column {shown!r} may have several values in a group of equal {shown} COLLATE "
                        f"{collation}; show min({shown}) or max({shown}), or what is compared, "
                        f"collation_key({shown}, '{collation}'){in_text(node)}"
                    )
                raise TypeMismatchError(
                    f"the column {_shown(node)!r} is neither in GROUP BY nor inside an aggregate; group by it, or "
                    f"take its max or min{in_text(node)}"
                )
            return node

        copy = tree.copy()
        return copy.transform(visit, copy=False)

    def _collation_of_key(self, column: exp.Column) -> str | None:
        """The collation by which the texts of a column are a key."""
        own = self.scope.resolve(column)
        for key, _ in self.keys:
            if isinstance(key, exp.Anonymous) and key.name == "collate" and key.expressions[0] == own:
                return str(key.expressions[1].name)
        return None

    def _subquery(self, node: exp.Expr) -> exp.Expr:
        """A subquery as it is, for later; what its IN tests belongs to the groups.

        So does an aggregate inside of what stands here, of columns with the name of a table here.
        """
        if isinstance(node, exp.In):
            return exp.In(this=self.translated(node.this), query=self._subquery(node.args["query"]))
        copy = node.copy()
        inside = {t.alias_or_name.lower() for t in copy.find_all(exp.Table, exp.Subquery, exp.Lateral, exp.CTE)}
        mine = {f.table.lower() for f in self.scope.relation.fields} - inside - {""}
        for call in [n for n in copy.walk() if is_aggregate(n)]:
            columns = list(call.find_all(exp.Column))
            if columns and all(c.table.lower() in mine for c in columns) and not isinstance(call.parent, AROUND_CALL):
                call.replace(exp.column(self._call(call), _AGGREGATES, quoted=True))
        return copy

    def _name_of_key(self, node: exp.Expr) -> str | None:
        kind = {type(one) for tree, _ in self.keys for one in (tree, tree.unnest())}
        if not isinstance(node, exp.Column | exp.Dot) and type(node) not in kind:
            return None
        if any(is_subquery(n) or is_aggregate(n) for n in node.walk()):
            return None
        if not all(self.scope.is_local(c) for c in node.find_all(exp.Column)):
            return None
        place = self._place_of(self.scope.resolve(node))
        return None if place is None else self.keys[place][1]

    def is_key(self, node: exp.Column) -> bool:
        """Whether a name is that of a key, as HAVING has it before that of an alias."""
        return self._name_of_key(node) is not None

    def _part_of_key(self, node: exp.Column) -> exp.Expr | None:
        """A field of a struct that is a key."""
        resolved = self.scope.resolve(node)
        base = resolved
        while isinstance(base, exp.Dot):
            base = base.this
        return resolved if any(tree == base for tree, _ in self.keys) else None

    def _place(self, key: exp.Expr) -> int | None:
        """Which key an argument of grouping() is."""
        name = self._name_of_key(key)
        return next((i for i, (_, known) in enumerate(self.keys) if known == name), None)

    def _with_grouping(self, node: exp.Expr) -> exp.Expr:
        """An aggregate whose grouping() and grouping_id() say of each row for which set it is there."""
        sets = self.sets
        if sets is None:
            return node

        def visit(part: exp.Expr) -> exp.Expr:
            if isinstance(part, exp.Anonymous) and part.name.lower() in FUNCTIONS:
                found = sets.translated(part, [self._place(key) for key in part.expressions])
                return found.transform(lambda n: bound(f"#{ID}") if is_bound(n) and n.name == ID else n)
            return part

        return node.transform(visit)

    def _call(self, node: exp.Expr) -> str:
        columns = list(node.find_all(exp.Column))
        if columns and self.scope.around and not any(self.scope.is_local(c) for c in columns):
            raise PlanError(
                f"`{node.sql('spark')}` aggregates the rows of the outer query, so it belongs there: compute it in a "
                "query in FROM, or in HAVING by the name of its table"
            )
        self.scope, resolved = self.binder.value(self._with_grouping(node), self.scope)
        for tree, name in self.calls:
            if tree == resolved:
                return name
        name = f"^{len(self.calls)} {resolved.sql('spark')}"
        self.calls.append((resolved, name))
        return name

    # groups ---------------------------------------------------------------------------------------------------------

    def grouped(self) -> Scope:
        """The scope of expressions over the groups."""
        relation, schema = self.scope.relation, self.scope.relation.node.schema
        fields = {f.column: f for f in relation.fields}
        keyed = [(n, parse(t, schema)) for t, n in self.keys]
        if self.sets:  # names of columns mean the keys, null where they are not in the set
            node, keyed = grouping_sets(relation.node, keyed, [sorted(chosen) for chosen in self.sets.sets], ID)
            relation, schema = relation.with_node(node), node.schema
            shown = {str(t.name): n for t, n in self.keys if isinstance(t, exp.Column)}
            fields = {n: replace(fields[c], column=n) for c, n in shown.items() if c in fields}
        carried = [(c, parse(bound(c), schema)) for c in dict.fromkeys(relation.carried.values())]
        keys = carried + [(n, e) for n, e in keyed if n not in dict(carried)]
        names = {n for n, _ in keys}
        self.compiled = [(name, parse_aggregate(tree, schema)) for tree, name in self.calls]
        texts = [(n, shown_text(e)) for n, e in keys if collation_of(e) is not None]
        keys = [(n if collation_of(e) is None else fresh(f"^key {n}", names), key_of_order(e)) for n, e in keys]
        node = aggregate_node(relation.node, keys, [*texts, *self.compiled])
        outputs = tuple(f for f in relation.fields if f.column in names) if not self.sets else tuple(fields.values())
        outputs += tuple(Field(_AGGREGATES, n, n, hidden=True) for n, _ in self.compiled)
        return Scope(Relation(node, outputs, relation.carried, relation.plain), self.scope.around)

    def may_meet_nothing(self, conditions: Sequence[exp.Expr], scope: Scope, aliases: Aliases) -> bool:
        """Whether conditions may be true of aggregates over no rows."""
        if aliases.behind(conditions) or any(map(has_subquery, conditions)):
            return True
        values = [self._at_nothing(parse(scope.resolve(c), scope.relation.node.schema), {}) for c in conditions]
        return not any(not value.columns and is_false_or_null(value) for value in values)

    def completed(self, scope: Scope) -> Scope:
        """The scope over the groups, with that of no rows for each row of the outer query that has no other."""
        assert scope.around is not None
        empties = {name: _of_nothing(aggregate) for name, aggregate in self.compiled}
        return Scope(completed(scope.relation, empties, scope.around), scope.around)

    def over_nothing(self, output: Expr, aliases: Mapping[str, Expr]) -> Expr | None:
        """The value of an output over no rows; None where that is null. Of ``aliases`` it may read each column."""
        value = self._at_nothing(output, aliases)
        return None if is_null(value) else value

    def _at_nothing(self, value: Expr, aliases: Mapping[str, Expr]) -> Expr:
        """A value over the groups, as it is over no rows."""
        known = {name: _of_nothing(aggregate) for name, aggregate in self.compiled}
        for name, one in aliases.items():
            known[name] = simplify(one.substitute(known))
        return value.substitute(known)


def _of_nothing(aggregate: AggregateExpr) -> Expr:
    schema = aggregate.schema
    values = {f"#{i}": _value_of_nothing(call) for i, call in enumerate(aggregate.calls)}
    return aggregate.result.substitute({n: v for n, v in values.items() if n in schema.names})


def _value_of_nothing(call: AggregateCall) -> Expr:
    if not call.nullable:
        empty = parse("array()", pa.schema([])) if pa.types.is_list(call.type) else literal(0)
        return cast(empty, call.type)
    return cast(literal(None), call.type)
