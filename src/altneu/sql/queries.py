"""Entry points: a query's text or tree, bound over named collections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from altneu.collections.collection import Collection
from altneu.collections.functions import Udf
from altneu.collections.grouping import check_names
from altneu.errors import PlanError, SchemaError, TypeMismatchError, UnknownTableError
from altneu.errors.nearest import nearest
from altneu.errors.texts import as_meant, meant
from altneu.expressions import parse
from altneu.plan import ir
from altneu.sql.binder import Binder
from altneu.sql.binding import Answer
from altneu.sql.dialect import parse_query
from altneu.sql.functions import Functions, Given, with_functions
from altneu.sql.ordering import SHOWN
from altneu.sql.scope import ANYWHERE, Field, Relation, Within, bound, fresh, full_name, path_of, projected
from altneu.types import uncompared
from altneu.types.syntax import place_of, refuse_unread


def query(
    text: str | exp.Expr,
    catalog: Mapping[str, Collection],
    functions: Functions | Mapping[str, Udf] | None = None,
    *,
    within: Within = ANYWHERE,
    renamed: bool = False,
) -> Collection:
    """The collection that a SQL query describes, over named collections.

    ``functions`` are those that it may call beside SQL's own, by name: results of ``an.udf``. Names without a catalog
    and a schema have those ``within`` which the query is written. Of a query whose columns get other names, which is
    ``renamed``, several may have the same one; the later ones have some other name.

    Spark's dialect in ANSI mode: types, nulls and errors are Spark's. ORDER BY without LIMIT has no effect, as a
    collection has no order. docs/queries.md says what there is.

    Raises:
        ExpressionSyntaxError: it does not parse; with the place.
        UnknownColumnError: a name that is not a column, or is ambiguous.
        PlanError: something that is not supported, by name.

    >>> import altneu as an
    >>> flights = an.source("flights", "carrier string, delay long")
    >>> from altneu.sql import query
    >>> query("SELECT carrier, count(*) AS n FROM flights GROUP BY carrier", {"flights": flights})
    Collection(carrier: string, n: bigint)
    """
    tree = parse_query(text) if isinstance(text, str) else text.copy()
    answer = _answer(
        tree, catalog, functions if functions is None or isinstance(functions, Functions) else Given(functions), within
    )
    return collection_of(answer.relation, renamed=renamed)


def unarranged(collection: Collection) -> Collection:
    """A query's collection as a view has it: of all columns of an indexed view it is an arrangement, but no index."""
    while isinstance(collection.node, ir.ArrangedBy):
        collection = Collection(collection.node.input)
    return collection


def collection_of(relation: Relation, *, renamed: bool = False) -> Collection:
    """The shown columns of a relation, where these are ``renamed`` with a name for each.

    Raises:
        SchemaError: several have the same name.
    """
    names: list[str] = []
    for f in relation.shown:
        names.append(fresh(f.name, names) if renamed else f.name)
    trees = (bound(f.column) for f in relation.shown)
    outputs = [(n, parse(tree, relation.node.schema)) for n, tree in zip(names, trees, strict=True)]
    try:
        check_names([n for n, _ in outputs])
    except SchemaError as error:
        raise SchemaError(f"{error}: SELECT ... AS name") from None
    return Collection(projected(relation.node, outputs))


@dataclass(frozen=True)
class Shown:
    """A query whose rows are shown: its collection, and the names of its columns, which may be equal.

    ``columns`` are those of the collection that are shown, ``order`` keys among all of them: name, descending, nulls
    first.
    """

    collection: Collection
    columns: tuple[str, ...]
    names: tuple[str, ...]
    order: tuple[tuple[str, bool, bool], ...]


def shown(
    tree: exp.Expr, catalog: Mapping[str, Collection], functions: Functions | None = None, *, within: Within = ANYWHERE
) -> Shown:
    """A query whose rows are shown in its order; with LIMIT or OFFSET those that are chosen, in any.

    Raises:
        UnknownColumnError, PlanError: as ``query``.
    """
    tree = tree.copy()
    tree.meta[SHOWN] = True
    answer = _answer(tree, catalog, functions, within)
    schema = answer.relation.node.schema
    keys = [name for name, _, _ in answer.order]
    written = tree.args["order"].expressions if tree.args.get("order") else []
    for i, name in enumerate(keys):
        if what := uncompared(schema.field(name).type):
            shown = written[i].this.sql("spark") if len(written) == len(keys) else meant(name) or name
            raise TypeMismatchError(f"ORDER BY {shown}: {what} have no order")
    outputs = [(name, parse(bound(name), schema)) for name in keys]
    columns: list[str] = []
    for f in answer.relation.shown:
        columns.append(fresh(f.name, (n for n, _ in outputs)))
        outputs.append((columns[-1], parse(bound(f.column), schema)))
    collection = Collection(projected(answer.relation.node, outputs))
    return Shown(collection, tuple(columns), tuple(f.name for f in answer.relation.shown), answer.order)


def _answer(tree: exp.Expr, catalog: Mapping[str, Collection], functions: Functions | None, within: Within) -> Answer:
    refuse_unread(tree)
    known = tables_of(catalog, within)
    try:
        if functions is None:
            return Binder(known).query(tree)
        return with_functions(lambda one: Binder(known).query(one), tree, functions)
    except PlanError as error:
        if error.args:
            error.args = (as_meant(str(error.args[0])), *error.args[1:])
        raise
    except RecursionError:
        raise PlanError("a query is nested too deeply; WITH or CREATE VIEW give a part of it a name") from None


_DEFAULT = ("default.", "spark_catalog.default.")


def _shown(names: Iterable[str]) -> list[str]:
    """The names to show: without those that begin with #, and each once, without the default schema.

    >>> _shown(["t", "default.t", "spark_catalog.default.t", "other.t", "#1"])
    ['t', 'other.t']
    """
    written = [name for name in names if not name.startswith("#")]
    again = {f"{schema}{name}" for name in written for schema in _DEFAULT}
    return [name for name in written if name not in again]


_FILES = ("csv", "json", "orc", "parquet", "text")
_TABLES = ("delta", "iceberg")


def _of_files(parts: Sequence[str]) -> str:
    """How to read what Spark reads by a format and a path; empty if the parts of a name are not these.

    >>> _of_files(["orders"]), _of_files(["db", "orders"])
    ('', '')
    """
    form, path = parts[0].lower(), ".".join(parts[1:])
    if not path or form not in (*_FILES, *_TABLES):
        return ""
    origin = f"{form.upper()} '{path}'" if form in _TABLES else f"FILE '{path}' FORMAT {form.upper()}"
    return (
        f"a query reads files by the name of a source: CREATE SOURCE name FROM {origin} KEEP, and then FROM name; "
        f"a program may insert the rows instead, session.insert(name, spark.read.format({form!r}).load({path!r}))"
    )


def tables_of(catalog: Mapping[str, Collection], within: Within = ANYWHERE) -> Callable[[exp.Table], Relation]:
    """What the names of tables mean: named collections, whatever the case of the names."""
    names = {name.lower(): name for name in catalog}

    def known(table: exp.Table) -> Relation:
        parts = [part.name for part in table.parts]
        name = full_name(parts, within)
        if name.lower() not in names:
            shown = _shown(names)
            close = nearest(name, shown)
            meant = f"; did you mean {' or '.join(close)}?" if close else ";"
            there = "There are:" if close else "there are:"
            place = place_of(table)
            where = f" ({place})" if place else ""
            all_of_them = f"{there} {', '.join(shown) or '(none)'}"
            if read := _of_files([part.name for part in table.parts]):
                raise UnknownTableError(f"no table or view {name!r}{where}: {read}")
            error = UnknownTableError(f"no table or view {name!r}{where}{meant} {all_of_them}")
            error.table = name
            raise error
        collection = catalog[names[name.lower()]]
        path = path_of(parts, within)
        return Relation(collection.node, tuple(Field(table.name, n, n, path=path) for n in collection.columns))

    return known
