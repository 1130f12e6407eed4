"""What names mean inside a query: the columns of its relations, and those of the outer queries it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from altneu.collections.collection import Collection
from altneu.collections.joining import columns_of, project
from altneu.collections.remembering import linear
from altneu.errors import PlanError, SchemaError, UnknownColumnError
from altneu.errors.nearest import listed
from altneu.expressions import Expr, parse, parse_predicate
from altneu.expressions.pyspark.forms import OUTER
from altneu.linear import BoundLogic, Filter
from altneu.plan import ir
from altneu.types import is_struct, mark_of
from altneu.types.syntax import place_of

MOST_PARTS = 3  # of the name of a table: catalog, schema, name
Path = tuple[str, str]
"""A catalog and a schema."""
DEFAULT: Path = ("spark_catalog", "default")  # what is before a name that has one part, unless USE says another
BYTES_OF = "^bytes of outer "
"""Before the name of a column with a collation that a subquery carries: its rows are told apart by all of the text."""
_BOUND = "bound"  # marks a column of a tree that has been resolved already


@dataclass(frozen=True)
class Within:
    """Where names are written: the catalog and the schema of those that have none.

    ``alone`` are names that have none at all, in lower case: those of temporary views.
    """

    path: Path = DEFAULT
    alone: frozenset[str] = frozenset()

    def of(self, parts: Sequence[str]) -> Path:
        """The catalog and schema of a name that does not say them all."""
        return DEFAULT if len(parts) == 1 and parts[0].lower() in self.alone else self.path


ANYWHERE = Within()


def path_of(parts: Sequence[str], within: Within = ANYWHERE) -> tuple[str, ...]:
    """The catalog and the schema of a table's name: where it has none, those ``within`` which it is written.

    >>> path_of(["t"]), path_of(["db", "t"]), path_of(["main", "db", "t"])
    (('spark_catalog', 'default'), ('spark_catalog', 'db'), ('main', 'db'))
    >>> path_of(["t"], Within(("main", "db")))
    ('main', 'db')
    """
    given = tuple(parts[:-1])
    return (*within.of(parts)[: max(len(DEFAULT) - len(given), 0)], *given)


def full_name(parts: Sequence[str], within: Within = ANYWHERE) -> str:
    """The name by which definitions are known: with dots, and without Spark's own catalog and schema.

    >>> full_name(["spark_catalog", "default", "t"]), full_name(["default", "t"]), full_name(["db", "t"])
    ('t', 't', 'db.t')
    >>> (
    ...     full_name(["t"], Within(("main", "db"))),
    ...     full_name(["default", "t"], Within(("spark_catalog", "db"))),
    ... )
    ('main.db.t', 't')
    """
    path = path_of(parts, within)
    catalog, schema = (part.lower() for part in path[-2:])
    if catalog != DEFAULT[0]:
        return ".".join((*path, parts[-1]))
    return parts[-1] if schema == DEFAULT[1] else ".".join((path[-1], parts[-1]))


def table_named(name: str, alias: str | None = None) -> exp.Table:
    """The item of a FROM that reads a definition, wherever it is written.

    >>> table_named("db.t", "x").sql()
    '"spark_catalog"."db"."t" AS "x"'
    """
    parts = name.split(".") if name.count(".") < MOST_PARTS else [name]
    parts = [*path_of(parts), parts[-1]]
    names = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
    table = exp.Table(**{key: exp.to_identifier(part, quoted=True) for key, part in names.items()})
    if alias is not None:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
    return table


@dataclass(frozen=True)
class Field:
    """A column that a name stands for: ``column`` is its name in the plan.

    One that is ``hidden`` is not part of ``*`` and has to be qualified; one that is not ``starred`` is not part of
    ``*`` either, and may be written as any other. ``path`` are the catalog and the schema of the table.
    """

    table: str
    name: str
    column: str
    hidden: bool = False
    starred: bool = True
    path: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The field with the schema of its table, if that is not Spark's default."""
        return ".".join((full_name((*self.path, self.table)), self.name))

    def is_of(self, qualifier: Sequence[str]) -> bool:
        """Whether a qualifier, in lower case, means the table of this field: its name, or with what is before it."""
        return [part.lower() for part in (*self.path, self.table)][-len(qualifier) :] == list(qualifier)


@dataclass(frozen=True)
class Relation:
    """Rows of a plan with what names mean in them.

    ``carried`` are the columns that identify the row of the outer query to which a row belongs, by the outer column's
    name. They are ``plain`` where they come from equalities, so that none is null.
    """

    node: ir.Node
    fields: tuple[Field, ...]
    carried: Mapping[str, str] = field(default_factory=dict)
    plain: bool = True

    @property
    def shown(self) -> list[Field]:
        """The fields of ``*``."""
        return [f for f in self.fields if f.starred and not f.hidden]

    def find(self, parts: Sequence[str]) -> tuple[Field, Sequence[str]] | None:
        """The field that a dotted name stands for, and the rest of the name: fields of a struct.

        Raises:
            PlanError: there are several.
        """
        lowered = [p.lower() for p in parts]
        for n in range(min(len(parts) - 1, MOST_PARTS), 0, -1):
            mine = [f for f in self.fields if f.name.lower() == lowered[n] and f.is_of(lowered[:n])]
            if mine:
                return _one(self._nearest(mine), parts[: n + 1]), parts[n + 1 :]
        mine = [f for f in self.fields if not f.hidden and f.name.lower() == lowered[0]]
        return (_one(mine, parts[:1]), parts[1:]) if mine else None

    def _nearest(self, matches: list[Field]) -> list[Field]:
        """Of several columns with a hidden name those that are shown: USING shows one of two."""
        if len({f.column for f in matches}) == 1 or not all(f.hidden for f in matches):
            return matches
        shown = {f.column for f in self.shown}
        return [f for f in matches if f.column in shown] or matches

    def with_node(self, node: ir.Node) -> Relation:
        """The same names over another plan."""
        return replace(self, node=node)

    def filtered(self, *conditions: exp.Expr) -> Relation:
        """The rows on which resolved conditions are true."""
        return self.with_node(filtered(self.node, *conditions))

    def extended(self, outputs: Iterable[tuple[str, Expr]]) -> Relation:
        """With more columns."""
        return self.with_node(extended(self.node, outputs))


def _one(matches: list[Field], parts: Sequence[str]) -> Field:
    if len({f.column for f in matches}) > 1:
        alike = len({f.table.lower() for f in matches}) == 1 and matches[0].table != ""
        several = ", ".join(f.full_name if alike else f"{f.table}.{f.name}" if f.table else f.name for f in matches)
        raise PlanError(f"column {'.'.join(parts)!r} may be one of several: {several}; say which one, or rename one")
    return matches[0]


class Discovered(Exception):  # noqa: N818 -- no error: a subquery turned out to read a column of the outer query it
    """A subquery reads a column of the outer query that it does not carry yet."""

    def __init__(self, around: Around, column: str) -> None:
        super().__init__(column)
        self.around, self.column = around, column


class Around:
    """The outer query a subquery, as the subquery sees it; ``taken`` are the columns that it reads."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.taken: list[str] = []

    def column(self, name: exp.Column) -> tuple[str, Sequence[str]]:
        """The outer column of a name, and the rest of the name.

        Raises:
            UnknownColumnError: nothing around has it.
        """
        if name.name.startswith(OUTER):
            name = exp.column(name.name.removeprefix(OUTER), quoted=True)
        column, rest = self.scope.column(name)
        if column not in self.taken:
            raise Discovered(self, column)
        return column, rest


@dataclass(frozen=True)
class Scope:
    """Where a name is looked up: a relation first, then the outer query."""

    relation: Relation
    around: Around | None = None

    def column(self, name: exp.Column) -> tuple[str, Sequence[str]]:
        """The column of the relation that a name means, and the fields of a struct that follow.

        Raises:
            UnknownColumnError: it means none; with its place in the text.
        """
        parts = [p.name for p in name.parts]
        match = self.relation.find(parts)
        if match is not None:
            return match[0].column, match[1]
        if self.around is None:
            raise _unknown(name, self.relation)
        try:
            outer, rest = self.around.column(name)
        except UnknownColumnError:
            raise _unknown(name, self.relation) from None
        if outer not in self.relation.carried:
            shown = name.sql("spark")
            raise PlanError(
                f"not supported: {shown} of the outer query beside a RIGHT or FULL JOIN; put the condition into WHERE"
            )
        return self.relation.carried[outer], rest

    def _with_collation(self, column: str) -> exp.Expr:
        """A column; one that is carried as its bytes, with the collation that it has in the outer query."""
        if not column.startswith(BYTES_OF) or self.around is None:
            return bound(column)
        schema = self.around.scope.relation.node.schema
        name = column.removeprefix(BYTES_OF)
        mark = mark_of(schema.field(name)) if name in schema.names else ""
        if not mark.startswith("collate "):
            return bound(column)
        collation = exp.Literal.string(mark.removeprefix("collate "))
        return exp.Anonymous(this="collated", expressions=[bound(column), collation])

    def is_local(self, name: exp.Column) -> bool:
        """Whether a name is one of the relation's own, and not of the outer query."""
        return is_bound(name) or self.relation.find([p.name for p in name.parts]) is not None

    def resolve(self, tree: exp.Expr) -> exp.Expr:
        """A tree whose columns are those of the relation's plan."""

        def visit(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Anonymous) and node.name.lower() != "count":
                return self._without_stars(node)
            if not isinstance(node, exp.Column) or is_bound(node):
                return node
            if isinstance(node.this, exp.Star):
                raise PlanError(f"`{node.sql('spark')}` is only allowed in a SELECT list or in count(*)")
            column, rest = self.column(node)
            result: exp.Expr = self._with_collation(column)
            for name in rest:
                result = exp.Dot(this=result, expression=exp.to_identifier(name, quoted=True))
            return result

        return tree.copy().transform(visit, copy=False)

    def _without_stars(self, call: exp.Anonymous) -> exp.Anonymous:
        """A call with the columns that each ``*`` among its arguments stands for; those of a struct have names."""
        if not any(isinstance(a.this if isinstance(a, exp.Column) else a, exp.Star) for a in call.expressions):
            return call
        named = call.name.lower() == "struct"
        arguments: list[exp.Expr] = []
        for argument in call.expressions:
            columns = starred(argument, self.relation)
            is_star = isinstance(argument.this if isinstance(argument, exp.Column) else argument, exp.Star)
            arguments += [c.this if is_star and not named and isinstance(c, exp.Alias) else c for c in columns]
        return exp.Anonymous(this=call.this, expressions=arguments)


def starred(item: exp.Expr, relation: Relation, around: Around | None = None) -> list[exp.Expr]:
    """An item of a list, or the columns that its ``*`` stands for: of all tables, of one, or the fields of a struct.

    Where the query has no such table, they are those of that table of the query ``around``.

    Raises:
        PlanError: there is no such table or struct.
        UnknownColumnError: EXCEPT or REPLACE names a column that is not among them.
    """
    star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
    if not isinstance(star, exp.Star):
        return [item]
    of = [p.name.lower() for p in item.parts[:-1]] if isinstance(item, exp.Column) else None
    fields = relation.shown if of is None else [f for f in relation.fields if f.is_of(of)]
    if of is not None:  # as in Spark, the columns of USING come first
        places = {f.name.lower(): i for i, f in reversed([*enumerate(relation.fields)]) if not f.hidden}
        fields = sorted(fields, key=lambda f: places.get(f.name.lower(), 0) if f.hidden else len(relation.fields))
    columns = [(f.name, bound(f.column)) for f in fields] or _members(of, relation)
    if not columns and of is not None and around is not None:  # as names, which are looked up there
        fields = [f for f in around.scope.relation.fields if f.is_of(of)]
        columns = [(f.name, exp.column(f.name, table=f.table, quoted=True)) for f in fields]
    if not columns:
        if of is None:
            return []  # there is no FROM
        known = listed(".".join(of), sorted({f.table for f in relation.fields if f.table}))
        place = f"{item.sql('spark')} ({place_of(item)})"
        raise PlanError(f"{place}: there is no {'.'.join(of)!r} in FROM; there are: {known}")
    names = [name for name, _ in columns]
    left_out = {c.name.lower() for c in star.args.get("except_") or ()}
    instead = {c.alias.lower(): c.this for c in star.args.get("replace") or ()}
    for what, some in (("EXCEPT", left_out), ("REPLACE", instead.keys())):
        if unknown := some - {name.lower() for name in names}:
            raise UnknownColumnError(min(unknown), names, what)
    return [
        exp.alias_(instead.get(name.lower(), column).copy(), name, quoted=True)
        for name, column in columns
        if name.lower() not in left_out
    ]


def _members(parts: Sequence[str] | None, relation: Relation) -> list[tuple[str, exp.Expr]]:
    """The fields of a struct, by its name."""
    match = relation.find(parts) if parts else None
    if match is None:
        return []
    tree: exp.Expr = bound(match[0].column)
    for name in match[1]:
        tree = exp.Dot(this=tree, expression=exp.to_identifier(name, quoted=True))
    kind = parse(tree, relation.node.schema).type
    if not is_struct(kind):
        return []
    names = [kind.field(i).name for i in range(kind.num_fields)]
    return [(n, exp.Dot(this=tree.copy(), expression=exp.to_identifier(n, quoted=True))) for n in names]


def _unknown(name: exp.Column, relation: Relation) -> UnknownColumnError:
    qualified = len({f.table for f in relation.shown if f.table}) > 1  # outputs, which ORDER BY reads, are of none
    known = [f"{f.table}.{f.name}" if qualified and f.table else f.name for f in relation.shown]
    return UnknownColumnError(".".join(p.name for p in name.parts), known, place_of(name))


def bound(column: str) -> exp.Column:
    """A column of a plan, as a tree that ``resolve`` leaves alone."""
    tree = exp.Column(this=exp.Identifier(this=column, quoted=True))
    tree.meta[_BOUND] = True
    return tree


def is_bound(tree: exp.Expr) -> bool:
    """Whether a column has been resolved."""
    return bool(tree.meta.get(_BOUND))


def columns_in(tree: exp.Expr) -> set[str]:
    """The columns of the plan that a resolved tree reads."""
    return {str(c.name) for c in tree.find_all(exp.Column)}


def renamed(tree: exp.Expr, names: Mapping[str, str]) -> exp.Expr:
    """A resolved tree over other columns."""

    def visit(node: exp.Expr) -> exp.Expr:
        return bound(names.get(node.name, node.name)) if isinstance(node, exp.Column) else node

    return tree.copy().transform(visit, copy=False)


def conjuncts(tree: exp.Expr | None) -> list[exp.Expr]:
    """The parts of a conjunction; what all branches of an OR have in common is a part of its own."""
    if tree is None:
        return []
    tree = tree.unnest()
    if isinstance(tree, exp.And):
        return [part for side in (tree.this, tree.expression) for part in conjuncts(side)]
    if isinstance(tree, exp.Or):
        return _factored(tree)
    return [tree]


def _factored(tree: exp.Or) -> list[exp.Expr]:
    parts_of = [conjuncts(branch) for branch in branches(tree)]
    common = [part for part in parts_of[0] if all(part in other for other in parts_of[1:])]
    if not common:
        return [tree]
    rest = [[part for part in branch if part not in common] for branch in parts_of]
    if not all(rest):
        return common
    return [*common, exp.or_(*(exp.and_(*parts, copy=False) for parts in rest), copy=False)]


def branches(tree: exp.Expr) -> list[exp.Expr]:
    """The parts of a disjunction."""
    tree = tree.unnest()
    if isinstance(tree, exp.Or):
        return [*branches(tree.this), *branches(tree.expression)]
    return [tree]


# plans ----------------------------------------------------------------------------------------------------------------


def fresh(name: str, taken: Iterable[str]) -> str:
    """A name that is not taken: ``name`` itself or with a number; names that begin with ``#`` are left to plans."""
    known = set(taken)
    name = f"^{name}" if name.startswith("#") else name
    candidate, number = name, 1
    while candidate in known:
        number += 1
        candidate = f"{name}_{number}"
    return candidate


def projected(node: ir.Node, outputs: list[tuple[str, Expr]]) -> ir.Node:
    """A projection, unless it changes nothing."""
    plain = all(e.is_column and e.column_name == n for n, e in outputs)
    return node if plain and [n for n, _ in outputs] == node.schema.names else project(node, outputs)


def filtered(node: ir.Node, *conditions: exp.Expr) -> ir.Node:
    """The rows on which resolved conditions are true; such as bound a row's times are temporal filters."""
    plain = [c for c in conditions if not _is_temporal(c)]
    if plain:
        node = linear(node, BoundLogic(tuple(Filter(parse_predicate(c, node.schema)) for c in plain)))
    temporal = [c for c in conditions if _is_temporal(c)]
    if temporal:
        node = Collection(node).filter(exp.and_(*temporal)).node  # type: ignore[arg-type]
    return node


def _is_temporal(tree: exp.Expr) -> bool:
    return any(call.name.lower() == "logical_now" for call in tree.find_all(exp.Anonymous))


def extended(node: ir.Node, outputs: Iterable[tuple[str, Expr]]) -> ir.Node:
    """A plan with more columns."""
    more = list(outputs)
    return project(node, [*columns_of(node.schema, node.schema.names), *more]) if more else node


def common_type(types: Sequence[pa.DataType], what: Callable[[], str]) -> pa.DataType:
    """The common type in which values of several types are compared or concatenated.

    Raises:
        SchemaError: there is none.
    """
    if all(t == types[0] for t in types[1:]):
        return types[0]
    schema = pa.schema([pa.field(f"c{i}", t) for i, t in enumerate(types)])
    try:
        return parse(f"coalesce({', '.join(schema.names)})", schema).type
    except PlanError as error:
        raise SchemaError(f"{what()}: {error}") from None
