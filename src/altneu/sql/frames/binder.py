"""Operations of DataFrames over bound relations; names in them mean what the SQL front end says.

A DataFrame remembers more of its columns than a query in FROM does: of which DataFrame a column was (``df.name``), its
old qualifiers, columns that were dropped (which ``filter`` and ``orderBy`` may still read), and its order, which a
``limit`` reads. All of this is kept as hidden fields of the relation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Self, TypeVar

import pyarrow as pa
from sqlglot import exp

from altneu.collections.collection import Collection
from altneu.errors import PlanError, TypeMismatchError, UnknownColumnError
from altneu.errors.nearest import did_you_mean
from altneu.expressions import Expr, has_window, parse
from altneu.expressions.collations import collation_of
from altneu.expressions.construct import key_of_order
from altneu.expressions.pyspark import forms
from altneu.expressions.pyspark.connect import REGEX, STAR, TAG, name_parts
from altneu.expressions.pyspark.names import name_of, shown
from altneu.sql import tables
from altneu.sql.binder import Binder
from altneu.sql.binding import Answer
from altneu.sql.fromclause import FromClause
from altneu.sql.grouped import Stage
from altneu.sql.quantified import spelled_out
from altneu.sql.scope import Around, Field, Relation, Scope, bound, extended, fresh, is_bound, projected
from altneu.sql.spans import with_spans
from altneu.sql.subqueries import distinct
from altneu.sql.times import with_times
from altneu.sql.trees import has_aggregate, has_subquery, with_collation_keys
from altneu.types import is_struct, uncompared

FRAME = "frame"
"""The key of a SELECT tree's ``meta`` for one that stands for a DataFrame, by its number."""
ORDER = "#order"
"""The table of the hidden fields that are the keys of a DataFrame's order: ``"<place> asc first"`` and so on."""
SOURCE = "#altneu "
"""What the alias of a DataFrame begins with that stands for a source or a view (``Session.frame``)."""
WAS = "#was "
"""What the name of a table begins with in the fields of dropped columns."""
_PLAIN = "plain"  # marks an output that is a column as it was, and not a new one of the same value
_GENERATORS = frozenset(("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "inline_outer"))
_SEVERAL = frozenset((*_GENERATORS, "stack", "json_tuple", "variant_explode", "variant_explode_outer"))
Bind = Callable[["Frames", Around | None], Answer]
T = TypeVar("T")


@dataclass
class _Known:
    """The DataFrames of one plan, and what those that read nothing around them are bound to."""

    binds: list[Bind] = field(default_factory=list)
    bound: dict[int, Answer | UnknownColumnError] = field(default_factory=dict)


class Frames(Binder):
    """A binder of queries in which a SELECT tree may stand for a DataFrame."""

    def __init__(
        self,
        known: Callable[[exp.Table], Relation],
        names: Mapping[str, Callable[[], Relation]] = MappingProxyType({}),
        frames: _Known | None = None,
    ) -> None:
        super().__init__(known, names)
        self._frames = frames or _Known()

    def naming(self, names: Mapping[str, Callable[[], Relation]]) -> Self:
        """A binder that knows more names, which hide those that it knew."""
        return type(self)(self._known, {**self._names, **names}, self._frames)

    def item(self, bind: Bind) -> exp.Select:
        """A tree that stands for a DataFrame, which ``bind`` binds when it is read."""
        tree = exp.Select(expressions=[exp.Star()])
        tree.meta[FRAME] = len(self._frames.binds)
        self._frames.binds.append(bind)
        return tree

    def query(self, tree: exp.Expr, around: Around | None = None) -> Answer:
        """Any query, or a DataFrame.

        Raises:
            PlanError: something that is not supported, by name.
        """
        number = tree.meta.get(FRAME)
        if number is None:
            return super().query(tree, around)
        if around is not None:
            return self._frames.binds[number](self, around)
        if number not in self._frames.bound:
            try:
                self._frames.bound[number] = self._frames.binds[number](self, None)
            except UnknownColumnError as error:  # a column of the query around it, perhaps: not to be tried again
                self._frames.bound[number] = error
        found = self._frames.bound[number]
        if isinstance(found, UnknownColumnError):
            raise found
        return found

    # rows -----------------------------------------------------------------------------------------------------------

    def filtered(self, item: exp.Select, condition: exp.Expr, around: Around | None) -> Answer:
        """The rows on which a condition is true, of a DataFrame or of joined ones (``joined``)."""
        tree = item if item.args.get("from_") else select_from(exp.Subquery(this=item))

        def rows(condition: exp.Expr) -> Answer:
            whole = tree.copy()
            whole.set("where", exp.Where(this=condition.copy()))
            relation = FromClause(self, spelled_out(whole), around).relation()
            return Answer(_joined(relation) if whole.args.get("joins") else relation)

        return self._with_dropped(rows, condition, item)

    def joined(self, tree: exp.Select, around: Around | None) -> Answer:
        """The rows of a FROM with one join; its order is that of no side."""
        return Answer(_joined(FromClause(self, spelled_out(tree.copy()), around).relation()))

    def sorted(self, item: exp.Select, keys: Sequence[exp.Ordered], around: Around | None) -> Answer:
        """The same rows with an order."""
        relation = FromClause(self, select_from(exp.Subquery(this=item)), around).relation()
        scope = Scope(replace(relation, fields=tuple(f for f in relation.fields if f.table != ORDER)), around)
        fields = list(scope.relation.fields)
        columns: list[tuple[str, Expr]] = []
        for place, key in enumerate(keys):
            if has_aggregate(key) or has_window(key):
                shown = key.this.sql("spark")
                raise PlanError(f"orderBy({shown}): an aggregate or a window belongs into agg or withColumn before it")

            def value(tree: exp.Expr, scope: Scope = scope) -> tuple[Scope, exp.Expr]:
                return self.value(tree.copy(), scope)

            scope, resolved = self._with_dropped(value, key.this, item)
            column = fresh(f"^order {place}", [*scope.relation.node.schema.names, *(n for n, _ in columns)])
            columns.append((column, parse(resolved, scope.relation.node.schema)))
            how = "desc" if key.args.get("desc") else "asc"
            nulls = "first" if key.args.get("nulls_first") else "last"
            fields.append(Field(ORDER, f"{place} {how} {nulls}", column, hidden=True))
        extended = scope.relation.extended(columns)
        return Answer(replace(extended, fields=tuple(fields)))

    def limited(self, item: exp.Select, count: int | None, offset: int, around: Around | None) -> Answer:
        """The first rows in the order of a DataFrame, after the first ``offset``; without an order, by all columns."""
        answer = self._answer(item, around)
        if answer.empties is not None and not offset and count != 0:
            return answer  # an aggregate without keys has one row
        relation = narrowed(answer.relation, order=True)
        keys = _order(relation) or _by_all(relation)
        per = list(dict.fromkeys(relation.carried.values()))
        rows = Collection(relation.node)

        def first(count: int) -> Collection:
            return rows.top_k(count, keys, per) if count else rows.filter("false")  # type: ignore[arg-type]

        chosen = rows if count is None else first(offset + count)
        if offset:
            chosen = chosen.concat(first(offset).negate())
        return Answer(relation.with_node(chosen.node))

    def first_of_keys(self, item: exp.Select, names: Sequence[str], around: Around | None) -> Answer:
        """One row of each value of some columns: the first in the DataFrame's order, then by all columns.

        Raises:
            UnknownColumnError: one of them is not a column.
            TypeMismatchError: one has values that are not compared.
        """
        relation = narrowed(self._answer(item, around).relation, order=True)
        chosen = [c for name in names for c in _named(relation, name, "dropDuplicates")]
        for f in chosen:
            if what := uncompared(relation.node.schema.field(f.column).type):
                raise TypeMismatchError(f"dropDuplicates({f.name!r}): {what} cannot be compared; use map_entries of it")
        keys = [*_order(relation), *_by_all(relation)]
        per = list(dict.fromkeys((*relation.carried.values(), *(f.column for f in chosen))))
        schema = relation.node.schema
        texts = [(c, e) for c in per if collation_of(e := parse(bound(c), schema)) is not None]
        named = {c: fresh(f"^key {c}", schema.names) for c, _ in texts}
        keyed = Collection(extended(relation.node, [(named[c], key_of_order(e)) for c, e in texts]))
        first = keyed.top_k(1, keys, [named.get(c, c) for c in per]).node  # type: ignore[arg-type]
        return Answer(relation.with_node(projected(first, [(n, parse(bound(n), first.schema)) for n in schema.names])))

    def distinct(self, item: exp.Select, around: Around | None) -> Answer:
        """One copy of every row.

        Raises:
            TypeMismatchError: a column has values that are not compared.
        """
        relation = narrowed(self._answer(item, around).relation)
        _compared(relation, "distinct")
        return Answer(relation.with_node(distinct(relation.node)))

    def set_operation_of(
        self, kind: type[exp.SetOperation], sides: Sequence[exp.Select], *, all_: bool, around: Around | None
    ) -> Answer:
        """UNION, EXCEPT or INTERSECT of two DataFrames, by the places of their columns."""
        left, right = (
            exp.Select(expressions=[exp.Star()], from_=select_from(exp.Subquery(this=side)).args["from_"])
            for side in sides
        )
        if kind is not exp.Union:
            for side in sides:
                _compared(self._answer(side, around).relation, kind.__name__.lower())
        answer = self.set_operations(kind(this=left, expression=right, distinct=not all_), around)
        first = self._answer(sides[0], around).relation
        return Answer(_inheriting(answer.relation, first, tags=kind is not exp.Union))

    # columns --------------------------------------------------------------------------------------------------------

    def selected(
        self,
        item: exp.Select,
        outputs: Sequence[exp.Expr],
        around: Around | None,
        *,
        group: exp.Group | None = None,
        grouped: bool = False,
    ) -> Answer:
        """Expressions over the rows of a DataFrame, or with ``grouped`` over its groups, or over all rows as one."""
        tree = exp.Select(
            expressions=[o.copy() for o in outputs],
            from_=select_from(exp.Subquery(this=item)).args["from_"],
            group=group,
        )
        if grouped and group is None and not any(map(has_aggregate, outputs)):
            tree.set("having", exp.Having(this=exp.true()))
        tree = with_collation_keys(with_times(with_spans(spelled_out(tree))))
        scope = Scope(FromClause(self, tree, around).relation(), around)
        items = [i for output in tree.expressions for i in _expanded(output, scope.relation)]
        if not items:
            raise PlanError("select: no column is left; name at least one")
        scope, items = tables.generated(self, scope, items)
        if grouped:
            scope = Scope(
                replace(scope.relation, fields=tuple(f for f in scope.relation.fields if f.table != ORDER)), around
            )
        stage = Stage.of(self, tree, scope, items)
        plain = [bool(i.meta.get(_PLAIN)) for i in items]
        return Answer(_shaped(stage, plain, keeps=not grouped), stage.empties)

    def replaced(
        self, item: exp.Select, change: Callable[[Field, pa.DataType], exp.Expr | None], around: Around | None
    ) -> Answer:
        """Each column as it is, or, where ``change`` gives an expression, as that under the same name."""
        relation = self._answer(item, around).relation
        outputs: list[exp.Expr] = []
        for f in relation.shown:
            new = change(f, relation.node.schema.field(f.column).type)
            outputs.append(kept(f) if new is None else forms.named(new, f.name))
        return self.selected(item, outputs, around)

    def relation_of(self, item: exp.Select, around: Around | None = None) -> Relation:
        """The relation of a DataFrame."""
        return self._answer(item, around).relation

    def type_of(self, tree: exp.Expr, relation: Relation) -> pa.DataType:
        """The type of an expression over a relation."""
        return parse(Scope(relation).resolve(tree), relation.node.schema).type

    def _answer(self, item: exp.Select, around: Around | None) -> Answer:
        """A DataFrame as it is bound here: with the columns around it where it reads some."""
        try:
            return self.query(item)
        except UnknownColumnError:
            if around is None:
                raise
            return self.query(item, around)

    def _with_dropped(self, made: Callable[[exp.Expr], T], tree: exp.Expr, item: exp.Select) -> T:
        """What is made of an expression that may read dropped columns, as those of ``filter`` and ``orderBy`` may.

        Raises:
            UnknownColumnError: it reads others.
        """
        try:
            return made(tree)
        except UnknownColumnError:
            if item.args.get("from_"):
                raise
            relation = self.query(item).relation
            again = _undropped(tree, relation)
            if again == tree:
                raise
            return made(again)


def kept(f: Field) -> exp.Expr:
    """A column as it is, as an output."""
    tree = forms.named(bound(f.column), f.name)
    tree.meta[_PLAIN] = True
    return tree


def select_from(item: exp.Expr) -> exp.Select:
    """``SELECT * FROM`` an item of FROM."""
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=item))


def narrowed(relation: Relation, *, order: bool = False) -> Relation:
    """A relation with those columns of its plan alone that are shown, carried, or with ``order`` keys of its order."""
    shown = {f.column for f in relation.shown}
    wanted = shown | set(relation.carried.values())
    if order:
        wanted |= {f.column for f in relation.fields if f.table == ORDER}
    fields = tuple(
        f for f in relation.fields if f.column in wanted and not f.table.startswith(WAS) and (order or f.table != ORDER)
    )
    schema = relation.node.schema
    node = projected(relation.node, [(n, parse(bound(n), schema)) for n in schema.names if n in wanted])
    return replace(relation, node=node, fields=fields)


class _Within(Field):
    """A column of a table that is within a DataFrame: it has the names of both, and none under one of them alone."""

    def is_of(self, qualifier: Sequence[str]) -> bool:
        """Whether a qualifier names both."""
        return [part.lower() for part in (*self.path, self.table)] == list(qualifier)


def tagged(relation: Relation, table: str) -> Relation:
    """A relation whose columns are found under the name of a table too, also before their own table's."""
    more = [Field(table, f.name, f.column, hidden=True) for f in relation.shown]
    more += [_Within(f.table, f.name, f.column, hidden=True, path=(table,)) for f in relation.shown if f.table]
    return replace(relation, fields=(*relation.fields, *more))


def under(relation: Relation, alias: str) -> Relation:
    """A relation under another name; which DataFrame a column was of, and its order, stay known."""

    def renamed(f: Field) -> Field:
        if not f.hidden:
            return replace(f, table=alias)
        dropped = f.table.startswith(WAS) and not f.table.startswith(WAS + TAG)
        return replace(f, table=f"{WAS}{alias}") if dropped else f

    known = (f for f in relation.fields if not f.hidden or f.table.startswith((TAG, WAS)) or f.table == ORDER)
    return replace(relation, fields=tuple(map(renamed, known)))


def _named(relation: Relation, name: str, verb: str) -> list[Field]:
    found = [f for f in relation.fields if not f.hidden and f.name.lower() == name.lower()]
    if not found:
        raise UnknownColumnError(name, [f.name for f in relation.shown], verb)
    return found


def _compared(relation: Relation, verb: str) -> None:
    """Refuse rows that Spark does not compare: those with maps or variants, also within other values."""
    for f in relation.shown:
        if what := uncompared(relation.node.schema.field(f.column).type):
            raise TypeMismatchError(f"{verb}: {what} cannot be compared ({f.name!r}); use map_entries of it")


def _joined(relation: Relation) -> Relation:
    """What is known of a joined relation's columns: neither an order nor those that a side has dropped."""
    fields = tuple(f for f in relation.fields if f.table != ORDER and not f.table.startswith(WAS))
    return replace(relation, fields=fields)


def _inheriting(relation: Relation, first: Relation, *, tags: bool) -> Relation:
    """A relation of the columns of another one, in their places, that are known as those were.

    With ``tags`` they are also those of the DataFrames that they are from: in Spark those of a union are not.
    """
    new = {f.column: g.column for f, g in zip(first.shown, relation.shown, strict=True)}
    fields = tuple(
        replace(f, column=new[f.column])
        for f in first.fields
        if f.column in new and (not f.hidden or (tags and f.table.startswith(TAG)))
    )
    return replace(relation, fields=fields)


def _ascending(column: str) -> exp.Ordered:
    return exp.Ordered(this=bound(column), desc=False, nulls_first=True)


def _by_all(relation: Relation) -> list[exp.Ordered]:
    """An order by all columns from left to right; of those without an order, as maps, by whether they are null."""
    schema = relation.node.schema
    return [
        exp.Ordered(this=exp.Is(this=bound(f.column), expression=exp.Null()), desc=False, nulls_first=True)
        if uncompared(schema.field(f.column).type)
        else _ascending(f.column)
        for f in relation.shown
    ]


def _order(relation: Relation) -> list[exp.Ordered]:
    keys = []
    for f in relation.fields:
        if f.table == ORDER:
            place, how, nulls = f.name.split()
            ordered = exp.Ordered(this=bound(f.column), desc=how == "desc", nulls_first=nulls == "first")
            keys.append((int(place), ordered))
    return [key for _, key in sorted(keys, key=lambda k: k[0])]


def _expanded(output: exp.Expr, relation: Relation) -> list[exp.Expr]:
    """An output under its name, or the columns that a star stands for."""
    if isinstance(output, exp.Star):
        return _starred(output, relation)
    if isinstance(output, exp.Alias | exp.Aliases):
        return [output]
    inner = output.unnest()
    if isinstance(inner, exp.Anonymous) and inner.name.lower() in _SEVERAL:
        return [output]
    item = forms.named(output, _member_name(inner, relation) or name_of(output))
    item.meta[_PLAIN] = isinstance(inner, exp.Column)
    return [item]


def _member_name(tree: exp.Expr, relation: Relation) -> str | None:
    """The name of ``getField("x")`` of a struct, which is ``s.x``, while that of an element of a map is ``m[x]``."""
    index = tree.expressions[0] if isinstance(tree, exp.Bracket) else None
    if not isinstance(index, exp.Literal) or not index.is_string or has_aggregate(tree) or has_subquery(tree):
        return None
    of = Scope(relation).resolve(tree.this)
    of_struct = is_struct(parse(of, relation.node.schema).type)
    return f"{shown(tree.this)}.{index.name}" if of_struct else None


def _starred(star: exp.Star, relation: Relation) -> list[exp.Expr]:
    table, pattern = star.meta.get(STAR), star.meta.get(REGEX)
    if table is None or table == "":
        fields = relation.shown
    else:
        fields = [f for f in relation.fields if f.is_of([table.lower()])]
        if not fields and not table.startswith(TAG):
            return _members(table, relation)
        fields = _whole(fields) if table.startswith(TAG) else fields
    if pattern is not None:
        fields = [f for f in fields if re.fullmatch(pattern, f.name, re.IGNORECASE)]
    elif not fields:
        known = sorted({f.table for f in relation.shown if f.table})
        what = "the columns of another DataFrame" if str(table).startswith(TAG) else f"{table}.*"
        there_are = f"{', '.join(known) or 'no names'}{did_you_mean(str(table), known)}"
        raise PlanError(f"{what}: not among what is selected from; there are: {there_are}")
    return [kept(f) for f in fields]


def _whole(fields: list[Field]) -> list[Field]:
    """The columns of a DataFrame where it is whole, and not those of a side of a join that kept some of them."""
    groups: list[list[Field]] = []
    for f in fields:
        if not groups or any(f.name == g.name and f.column != g.column for g in groups[-1]):
            groups.append([])
        groups[-1].append(f)
    names = {f.name for f in fields}
    whole = [group for group in groups if {f.name for f in group} == names]
    if len(groups) > 1 and len(whole) > 1:
        raise PlanError("* of a DataFrame that both sides of a join are derived from; give the sides names, df.alias()")
    return whole[0] if len(whole) == 1 else fields


def _members(name: str, relation: Relation) -> list[exp.Expr]:
    """The fields of a struct, ``s.*``."""
    found = relation.find(name_parts(name))
    tree: exp.Expr | None = None if found is None else bound(found[0].column)
    for part in () if found is None else found[1]:
        tree = exp.Dot(this=tree, expression=exp.to_identifier(part, quoted=True))
    column = None if tree is None else parse(tree, relation.node.schema).type
    if tree is None or column is None or not is_struct(column):
        raise PlanError(f"{name}.*: {name!r} is neither a DataFrame's alias nor a column that is a struct")
    members = [column.field(i).name for i in range(column.num_fields)]
    return [forms.named(exp.Dot(this=tree.copy(), expression=exp.to_identifier(m, quoted=True)), m) for m in members]


def _undropped(tree: exp.Expr, relation: Relation) -> exp.Expr:
    """An expression in which names that are not found stand for columns that were dropped."""
    dropped = [f for f in relation.fields if f.table.startswith(WAS)]

    def visit(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or is_bound(node):
            return node
        parts = [p.name for p in node.parts]
        if relation.find(parts) is not None:
            return node
        lowered = [p.lower() for p in parts]
        whole = [f for f in dropped if [f.table.lower(), f.name.lower()] == [f"{WAS}{lowered[0]}", *lowered[1:2]]]
        plain = [f for f in dropped if f.name.lower() == lowered[0] and not f.table.startswith(WAS + TAG)]
        found, rest = (whole, parts[2:]) if whole else (plain, parts[1:])
        if len({f.column for f in found}) != 1:
            return node
        result: exp.Expr = bound(found[0].column)
        for name in rest:
            result = exp.Dot(this=result, expression=exp.to_identifier(name, quoted=True))
        return result

    return tree.copy().transform(visit, copy=False)


def _shaped(stage: Stage, plain: Sequence[bool], *, keeps: bool) -> Relation:
    """The relation of outputs; plain columns are known as before, and with ``keeps`` the others as dropped ones."""
    relation = stage.relation
    columns: list[tuple[str, Expr]] = []
    fields: list[Field] = []
    carried: dict[str, str] = {}
    now: dict[str, str] = {}  # the columns that stay, by their old names

    def add(name: str, value: Expr) -> str:
        column = fresh(name, (n for n, _ in columns))
        columns.append((column, value))
        return column

    schema = relation.node.schema
    for outer, column in relation.carried.items():
        carried[outer] = add(column, parse(bound(column), schema))
    for (name, value), stays in zip(stage.outputs, plain, strict=True):
        if not (stays and value.is_column):
            fields.append(Field("", name, add(name, value)))
            continue
        old = value.column_name
        now[old] = now.get(old) or add(name, value)
        table = next((f.table for f in relation.fields if f.column == old and not f.hidden), "")
        fields.append(Field(table, name, now[old]))
    shown = frozenset(now)
    for f in relation.fields:
        stays = f.column in shown
        if (
            f.table.startswith("^")
            or (not keeps and not (stays and f.table.startswith(TAG)))
            or (stays and not f.hidden)
        ):
            continue
        column = now.get(f.column) or add(f.column, parse(bound(f.column), schema))
        now.setdefault(f.column, column)
        old_name = f.table == ORDER or f.table.startswith(WAS) or stays
        fields.append(replace(f, table=f.table if old_name else WAS + f.table, column=column, hidden=True))
    return Relation(projected(relation.node, columns), tuple(fields), carried, relation.plain)


__all__ = ["FRAME", "ORDER", "SOURCE", "Frames", "kept", "narrowed", "select_from", "tagged", "under"]
