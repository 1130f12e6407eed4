"""WITH: names for queries, and queries that are defined by themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pyarrow as pa
from sqlglot import exp

from altneu.collections.collection import Collection
from altneu.collections.joining import project
from altneu.collections.loops import MAX_ROUNDS, OnLimit, loop
from altneu.errors import PlanError, SchemaError, UnknownColumnError
from altneu.expressions import cast, has_window, parse
from altneu.plan import ir
from altneu.sql.binding import QueryBinder
from altneu.sql.dialect import LEVELS, MUTUAL
from altneu.sql.parentheses import opened
from altneu.sql.scope import Field, Relation, bound
from altneu.sql.trees import has_aggregate
from altneu.types import arrow_type, type_name

B = TypeVar("B", bound=QueryBinder)
_MANY = 32  # names of WITH from which on each is bound before those that read it, so that no chain is too long


def with_recursive(binder: B, tree: exp.Expr) -> B:
    """A binder that knows the names of a query's WITH."""
    clause = tree.args["with_"]
    names = [cte.alias.lower() for cte in clause.expressions]
    for cte in clause.expressions:
        if names.count(cte.alias.lower()) > 1:
            raise PlanError(f"WITH names {cte.alias!r} twice; give one of the queries another name")
    if MUTUAL in clause.meta:
        return _mutual(binder, clause)
    named: dict[str, Callable[[], Relation]] = {}
    for cte in clause.expressions:
        named[cte.alias.lower()] = _named(binder, cte, recursive=bool(clause.recursive))
        binder = binder.naming({cte.alias.lower(): named[cte.alias.lower()]})
    if len(clause.expressions) > _MANY:
        for name in _read_in_order(tree, clause):
            named[name]()
    return binder


def inlined(binder: QueryBinder, tree: exp.Expr) -> exp.Expr:
    """A query inside another one, with those queries of its WITH that read the outer one where their names stand.

    Raises:
        PlanError: a table that one reads has the name of another query of the WITH there.
    """
    if MUTUAL in tree.args["with_"].meta:
        return tree
    tree = tree.copy()
    clause = tree.args["with_"]
    rest, known = list(clause.expressions), binder
    for cte in clause.expressions:
        loops = bool(clause.recursive) and _reads(cte.this, cte.alias)
        relation = _named(known, cte, recursive=loops)
        try:
            relation()
        except UnknownColumnError:
            if loops:
                raise
            later = {other.alias.lower() for other in rest[rest.index(cte) + 1 :]}
            if captured := sorted(later & _tables_in(cte.this)):
                raise PlanError(
                    f"not supported: {cte.alias} reads {captured[0]}, which WITH names again; rename one"
                ) from None
            rest = [other for other in rest if other is not cte]
            _inline(tree, cte)
        else:
            known = known.naming({cte.alias.lower(): relation})
    if rest:
        clause.set("expressions", rest)
    else:
        tree.set("with_", None)
    return tree


def _inline(tree: exp.Expr, cte: exp.CTE) -> None:
    """Put a query of a WITH in the place of its name."""
    for table in [t for t in tree.find_all(exp.Table) if t.name.lower() == cte.alias.lower() and not t.db]:
        if _is_hidden(table, tree, cte):
            continue
        alias = table.args.get("alias")
        columns = (alias.columns if alias else None) or cte.args["alias"].columns
        name = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True), columns=columns)
        more = {key: value for key, value in table.args.items() if key not in ("this", "alias")}
        table.replace(exp.Subquery(this=cte.this.copy(), alias=name, **more))


def _is_hidden(table: exp.Expr, tree: exp.Expr, cte: exp.CTE) -> bool:
    """Whether the name of a WITH means another query here: of a WITH inside; or it stands in its own query."""
    node = table.parent
    while node is not None and node is not tree:
        if node is cte:
            return True
        inside = node.args.get("with_")
        if inside is not None and any(other.alias.lower() == cte.alias.lower() for other in inside.expressions):
            return True
        node = node.parent
    return False


def _read_in_order(tree: exp.Expr, clause: exp.With) -> list[str]:
    """The names of WITH that a query reads, directly or through others, each after those that it reads."""
    bodies = {cte.alias.lower(): cte.this for cte in clause.expressions}
    queries = [part for key, part in tree.args.items() if key != "with_"]
    read = {n for part in queries for p in (part if isinstance(part, list) else [part]) for n in _tables_in(p)}
    for name in reversed(bodies):
        if name in read:
            read |= _tables_in(bodies[name])
    return [name for name in bodies if name in read]


def _tables_in(tree: object) -> set[str]:
    return {t.name.lower() for t in tree.find_all(exp.Table) if not t.db} if isinstance(tree, exp.Expr) else set()


def _named(binder: QueryBinder, cte: exp.CTE, *, recursive: bool) -> Callable[[], Relation]:
    """The relation of a name of WITH, bound when it is first read."""
    cache: list[Relation] = []

    def relation() -> Relation:
        if not cache:
            loop_of = _recursive(binder, cte) if recursive and _reads(cte.this, cte.alias) else None
            cache.append(_titled(loop_of or binder.query(cte.this).relation, cte))
        return cache[0]

    return relation


def _titled(relation: Relation, cte: exp.CTE) -> Relation:
    names = [c.name for c in cte.args["alias"].columns or ()] or [f.name for f in relation.shown]
    if len(names) != len(relation.shown):
        raise SchemaError(f"{cte.alias} names {len(names)} columns, and its query has {len(relation.shown)}")
    fields = tuple(Field(cte.alias, n, f.column) for n, f in zip(names, relation.shown, strict=True))
    return Relation(relation.node, fields)


def _reads(tree: exp.Expr, name: str) -> bool:
    return any(t.name.lower() == name.lower() and not t.db for t in tree.find_all(exp.Table))


# WITH RECURSIVE -------------------------------------------------------------------------------------------------------


def _recursive(binder: QueryBinder, cte: exp.CTE) -> Relation:
    """A query that begins with one side of a UNION and repeats the other until it adds no row."""
    union = opened(cte.this)
    if not isinstance(union, exp.Union) or _reads(union.this, cte.alias):
        raise PlanError(
            f"WITH RECURSIVE {cte.alias}: the query must be the initial rows, UNION [ALL], and the recursive query; "
            "WITH MUTUALLY RECURSIVE accepts any query"
        )
    if any(union.args.get(k) for k in ("limit", "offset")):
        raise PlanError(
            f"not supported: LIMIT of WITH RECURSIVE {cte.alias}; use it in the query that reads {cte.alias}"
        )
    if union.args.get("with_"):  # that of both sides
        binder = with_recursive(binder, union)
    step = union.expression
    _check_linear(step, cte.alias)
    begin = _titled(binder.query(union.this).relation, cte)
    first = _columns(begin)

    def body(variable: Collection) -> Collection:
        fields = tuple(Field(cte.alias, f.name, n) for f, n in zip(begin.shown, variable.columns, strict=True))
        inside = binder.naming({cte.alias.lower(): lambda: Relation(variable.node, fields)})
        more = first.concat(_as(inside.query(step).relation, variable.schema, f"WITH RECURSIVE {cte.alias}"))
        return more.distinct() if union.args.get("distinct") else more

    (collection,) = loop(
        Collection, lambda x: (body(x),), {cte.alias: first}, cte.meta.get(LEVELS, MAX_ROUNDS), "error"
    )
    return Relation(collection.node, tuple(Field(cte.alias, f.name, f.column) for f in begin.shown))


def _check_linear(step: exp.Expr, name: str) -> None:
    """Refuse operations that are not linear: SQL applies them to each round's rows, a loop to those of all rounds.

    Raises:
        PlanError: naming it.
    """
    remedy = f"in the recursive part of {name}; WITH MUTUALLY RECURSIVE says what that means"
    if sum(t.name.lower() == name.lower() for t in step.find_all(exp.Table)) > 1:
        raise PlanError(f"not supported: {name} more than once {remedy}")
    for select in step.find_all(exp.Select):
        if not _reads(select, name):
            continue
        grouped = select.args.get("group") or select.args.get("distinct") or any(map(has_aggregate, select.expressions))
        if grouped or select.args.get("limit"):
            raise PlanError(f"not supported: GROUP BY, DISTINCT, aggregates and LIMIT {remedy}")
        if select.args.get("qualify") or any(map(has_window, select.expressions)):
            raise PlanError(f"not supported: window functions {remedy}")
        for join in select.find_all(exp.Join):
            if join.side.upper() in ("RIGHT", "FULL") or (join.side and _reads(join.this, name)):
                raise PlanError(f"not supported: an outer join that {name} may be missing from {remedy}")
            if join.kind.upper() == "ANTI" and _reads(join.this, name):
                raise PlanError(f"not supported: an anti join with {name} {remedy}")
    if any(isinstance(node, exp.Except | exp.Intersect) for node in step.walk()):
        raise PlanError(f"not supported: EXCEPT and INTERSECT {remedy}")
    for node in step.find_all(exp.Exists, exp.In):
        if _reads(node, name):
            raise PlanError(f"not supported: a subquery that reads {name} {remedy}")


def _columns(relation: Relation) -> Collection:
    """The shown columns of a relation, as a collection."""
    schema = relation.node.schema
    return Collection(project(relation.node, [(f.column, parse(bound(f.column), schema)) for f in relation.shown]))


def _as(relation: Relation, schema: pa.Schema, what: str) -> Collection:
    """A relation with the names and types of a schema.

    Raises:
        SchemaError: a different number of columns, or one that cannot be cast.
    """
    if len(relation.shown) != len(schema):
        columns = ", ".join(f.name for f in relation.shown)
        raise SchemaError(f"{what} has {len(schema)} columns, and a query for it has {len(relation.shown)}: {columns}")
    outputs = []
    for f, field in zip(relation.shown, schema, strict=True):
        value = parse(bound(f.column), relation.node.schema)
        try:
            outputs.append((field.name, cast(value, field.type)))
        except PlanError as error:
            raise SchemaError(
                f"{what}: column {field.name!r} is {type_name(field.type)}, and a query for it gives "
                f"{type_name(value.type)}: {error}"
            ) from None
    return Collection(project(relation.node, outputs))


# WITH MUTUALLY RECURSIVE ----------------------------------------------------------------------------------------------


def _mutual(binder: B, clause: exp.With) -> B:
    """Queries that read each other: all begin empty, and each round computes them in order, until nothing changes."""
    limit, error = clause.meta[MUTUAL]
    ctes = list(clause.expressions)
    schemas = {cte.alias: _declared(cte) for cte in ctes}
    cache: list[tuple[Collection, ...]] = []

    def body(*variables: Collection) -> list[Collection]:
        inside, results = binder, []
        current = dict(zip(schemas, variables, strict=True))
        for cte in ctes:
            names = {n.lower(): _reading(n, c) for n, c in current.items()}
            inside = binder.naming(names)
            what = f"WITH MUTUALLY RECURSIVE {cte.alias}"
            current[cte.alias] = _as(inside.query(cte.this).relation, schemas[cte.alias], what)
            results.append(current[cte.alias])
        return results

    def bound_now(place: int, name: str) -> Relation:
        if not cache:
            initial = {n: Collection(ir.Constant((), s)) for n, s in schemas.items()}
            on_limit: OnLimit = "error" if error else "stop"
            cache.append(loop(Collection, body, initial, MAX_ROUNDS if limit is None else limit, on_limit))
        return _reading(name, cache[0][place])()

    names = {n.lower(): (lambda i=i, n=n: bound_now(i, n)) for i, n in enumerate(schemas)}
    return binder.naming(names)


def _reading(name: str, collection: Collection) -> Callable[[], Relation]:
    return lambda: Relation(collection.node, tuple(Field(name, c, c) for c in collection.columns))


def _declared(cte: exp.CTE) -> pa.Schema:
    columns = cte.args["alias"].columns or ()
    if not columns or not all(isinstance(c, exp.ColumnDef) and c.args.get("kind") for c in columns):
        raise PlanError(
            f"WITH MUTUALLY RECURSIVE {cte.alias} must declare its columns with their types: "
            f"{cte.alias} (name type, ...) AS (...)"
        )
    constrained = next((c for c in columns if c.args.get("constraints")), None)
    if constrained is not None:
        raise PlanError(
            f"{cte.alias}: `{constrained.sql('spark')}`: a query's column has a name and a type, but no constraint"
        )
    return pa.schema([pa.field(c.name, arrow_type(c.args["kind"])) for c in columns])
