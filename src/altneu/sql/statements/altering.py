"""ALTER TABLE, ALTER SOURCE and COMMENT ON: columns of a source change, in one commit with its definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from altneu import sql
from altneu.collections.collection import Collection
from altneu.engine.columns import change_columns
from altneu.engine.engine import Engine
from altneu.engine.redefine import alike
from altneu.errors import AltneuError, StatementError, UnknownColumnError
from altneu.plan.rewrite import optimise, without_indexes
from altneu.plan.versions import Versions, read_of
from altneu.sql.statements.binder import DefinitionBinder
from altneu.sql.statements.defined import Defined, Definitions, columns_named, same, shown_name
from altneu.sql.statements.origins import table_of
from altneu.sql.statements.tree import (
    TABLES,
    AddColumn,
    Alter,
    Change,
    Comment,
    CreateIndex,
    CreateSource,
    DropColumn,
    Kind,
    RenameColumn,
    WidenColumn,
)
from altneu.streams import Delta
from altneu.types import parse_schema, parse_type, to_ddl, type_name
from altneu.views.peek import peek


def alter(engine: Engine, known: Definitions, binder: DefinitionBinder, statement: Alter) -> str:
    """Execute an ALTER statement; returns a message.

    Raises:
        StatementError: no source has that name, or a view reads a column that the statement changes.
    """
    defined = known.defined(statement.name, statement.kind)
    if defined.error is not None:
        raise defined.error
    done = defined.altered[defined.repeated :]
    if done and same(done[0], statement.text):
        defined.repeated += 1
        return f"{defined.kind} {defined.name} is altered so already"
    changed = altered(engine, known, defined, statement)
    if changed is None:
        return f"{defined.kind} {defined.name} has these columns already"
    versions, again = changed
    if sinks := [d.name for d in known.dependants(defined.name) if d.kind == "SINK"]:
        raise StatementError(
            f"{defined.kind} {defined.name} has the sink(s) {', '.join(sinks)}, whose target has its columns: DROP "
            "SINK first, and CREATE it again into a target with the new columns"
        )
    before_all, was = dict(known.all), engine.catalogue.columns.versions.get(defined.name)
    was = was or versions_of(engine, defined)
    before = defined.columns, defined.raw, defined.collection, defined.altered, defined.told
    defined.told = _told(defined, statement.change)
    defined.columns = defined.raw = to_ddl(versions.present.schema)
    defined.altered = (*defined.altered, statement.text)
    try:
        binder.bind(defined)
        assert defined.collection is not None
        views = {} if defined.view is None else {defined.view: defined.collection}
        known.changed = {defined.name: versions}
        for reader in again:
            views |= _bind_wider(known, binder, reading_anew(reader, defined, was, versions))
        told = [defined, *(known.all[reader.name.lower()] for reader in again)]
        with engine.defining({d.name.lower(): d.to_json() for d in told if d.is_stored}):
            change_columns(engine, defined.name, versions, views)
    except BaseException:
        stored = engine.definitions[defined.name.lower()]
        if stored.get("columns") != defined.columns:
            defined.columns, defined.raw, defined.collection, defined.altered, defined.told = before
            known.all = before_all
        raise
    finally:
        known.changed = {}
    defined.repeated = len(defined.altered)
    known.put(defined)
    return f"{defined.kind} {defined.name} altered"


def _bind_wider(known: Definitions, binder: DefinitionBinder, defined: Defined) -> dict[str, Collection]:
    """Bind what reads a column that has a wider type; its view, if it is maintained, and what that is then.

    Raises:
        StatementError: its columns have other types then, and a sink has its rows.
    """
    before = known.all[defined.name.lower()].collection
    known.all[defined.name.lower()] = defined
    if defined.kind == "INDEX":
        return {defined.name: binder.indexed(defined)}
    defined.collection = binder.view(defined)
    sinks = [d.name for d in known.dependants(defined.name) if d.kind == "SINK"]
    if sinks and before is not None and not alike(before.schema, defined.collection.schema):
        raise StatementError(
            f"{defined.kind} {defined.name} would have wider columns, which the target of the sink(s) "
            f"{', '.join(sinks)} does not have: DROP SINK first, and CREATE it again into another target"
        )
    return {} if defined.view is None else {defined.view: defined.collection}


def _told(defined: Defined, change: Change) -> dict[str, str | None]:
    """What is said of the columns of a source after a change of these."""
    told, comments = dict(defined.told), defined.comments
    if isinstance(change, DropColumn | RenameColumn) and change.name.lower() in comments:
        told[change.name.lower()] = None
        if isinstance(change, RenameColumn):
            told[change.to.lower()] = comments[change.name.lower()]
    return told


def comment(engine: Engine, known: Definitions, statement: Comment) -> str:
    """Execute a COMMENT ON statement; returns a message.

    Raises:
        StatementError: the store has no definition of that name.
        UnknownColumnError: it has no such column.
    """
    kinds: tuple[Kind, ...] = ("TABLE", "SOURCE", "VIEW", "MATERIALIZED VIEW")
    if statement.kind is not None:
        kinds = ("VIEW", "MATERIALIZED VIEW") if statement.kind == "VIEW" else (statement.kind,)
    if statement.name == "":
        raise StatementError("the schema default is not a definition, so it has no comment")
    defined, column = known.defined(statement.name, *kinds), statement.column
    if defined.error is not None:
        raise defined.error
    if column is not None:
        assert defined.collection is not None
        (column,) = columns_named(defined.collection, [column])
    told = dict(defined.told) | {"" if column is None else column.lower(): statement.text_of}
    _tell(engine, defined, told)
    return f"COMMENT ON {shown_name(defined.name)}" + ("" if column is None else f".{column}")


def _tell(engine: Engine, defined: Defined, told: dict[str, str | None]) -> None:
    """Let a definition have other comments."""
    if defined.is_stored:
        with engine.defining({defined.name.lower(): replace(defined, told=told).to_json()}):
            pass
    defined.told = told


def altered(
    engine: Engine, known: Definitions, defined: Defined, statement: Alter
) -> tuple[Versions, list[Defined]] | None:
    """The columns of a source after a change, and the definitions that read what has another type then.

    Its indexes are among these, so that they have its rows with the present columns, if the rows are kept. None where
    it has these columns already.

    Raises:
        StatementError: the source cannot have other columns, or a view reads one that goes.
        SchemaError, UnknownColumnError: the change is none of these columns.
    """
    source = defined.stated(CreateSource)
    if source.envelope.kind != "none" or source.times or source.diff:
        raise StatementError(
            f"{defined.kind} {defined.name} decodes its rows (ENVELOPE, TIME or DIFF), and ALTER is for those that are "
            "taken as they come: CREATE it under another name, and CREATE OR REPLACE the views that read it"
        )
    versions = versions_of(engine, defined)
    changed = _changed(engine, defined, versions, statement)
    if changed is None:
        return None
    now = changed.present.by_number
    gone = {n for n in versions.present.numbers if n not in now}
    indexes = _indexes(known, defined)
    for other, _ in _readers(known, defined, versions, gone):
        if other in indexes and gone.isdisjoint(_numbers_of_key(other, defined, versions)):
            continue
        (number,) = gone
        name = versions.present.by_number[number].name  # a view may know the column by an earlier one
        raise StatementError(
            f"column {name!r} of {defined.kind} {defined.name} is read by {other.kind} {other.name}; CREATE OR "
            "REPLACE it without that column, or DROP it first"
        )
    wider = {n for n, f in versions.present.by_number.items() if n in now and now[n].type != f.type}
    again = [other for other, _ in _readers(known, defined, versions, wider) if other not in indexes]
    if again:
        places = sorted({_place(other, defined) for other in again if defined.name.lower() in other.depends})
        (number,) = wider
        name = versions.present.by_number[number].name
        changed = versions.widened(name, now[number].type, [p for p in places if p < len(versions.all) - 1])
    return changed, sorted((*again, *indexes), key=lambda d: d.order)


def _indexes(known: Definitions, source: Defined) -> list[Defined]:
    """The indexes of a source itself that can be made again, because its rows are kept."""
    indexes = [d for d in known.all.values() if d.kind == "INDEX" and d.error is None and source.view is not None]
    return [d for d in indexes if d.stated(CreateIndex).of.lower() == source.name.lower()]


def _place(reader: Defined, source: Defined) -> int:
    """Which columns of a source a definition reads, among all that it has had."""
    return (reader.versions or {}).get(source.name.lower(), 0)


def versions_of(engine: Engine, defined: Defined) -> Versions:
    """The versions of the columns of a source, with the defaults that it was created with, too."""
    known = engine.catalogue.columns.versions.get(defined.name) or Versions.of(parse_schema(defined.columns))
    if defined.defaults is None:
        defined.defaults = defaults_of(engine, defined, known.all[0].schema)
    return replace(known, defaults={**defined.defaults, **known.defaults})


def defaults_of(engine: Engine, defined: Defined, schema: pa.Schema) -> dict[int, Any]:
    """The values of columns that INSERT does not name, by their places at first, where they are not null.

    Raises:
        StatementError: one is no constant, or no value of the column's type.
    """
    given = defined.stated(CreateSource).defaults
    values = {schema.names.index(name): _value(engine, tree, schema.field(name)) for name, tree in given.items()}
    return {number: value for number, value in values.items() if value is not None}


def _numbers_of_key(index: Defined, source: Defined, versions: Versions) -> list[int]:
    """The numbers of the columns by which an index has the rows of a source."""
    version = versions.all[_place(index, source)]
    return [version.number_of(_named(version.schema, name) or name) for name in index.indexed]


def reading_anew(reader: Defined, source: Defined, before: Versions, after: Versions) -> Defined:
    """A definition as it reads a source that has other columns: an index all of them, with their present names."""
    if reader.kind == "INDEX" and reader.stated(CreateIndex).of.lower() == source.name.lower():
        key = tuple(after.present.by_number[number].name for number in _numbers_of_key(reader, source, before))
        last = {source.name.lower(): len(after.all) - 1}
        return replace(reader, key=key, versions={**(reader.versions or {}), **last})
    return replace(reader, versions=_widened_versions(reader, source, before, after))


def _widened_versions(reader: Defined, source: Defined, before: Versions, after: Versions) -> dict[str, int]:
    """Which columns of its sources a definition reads when a source has a column of a wider type."""
    versions = dict(reader.versions or {})
    if source.name.lower() in reader.depends:
        now, old = after.present.by_number, before.all[_place(reader, source)]
        copy = old
        for number in old.numbers:
            if number in now and number in before.present.numbers:
                copy = copy.with_type(number, now[number].type) if _widens(before, after, number) else copy
        versions[source.name.lower()] = after.all.index(copy)
    return versions


def _widens(before: Versions, after: Versions, number: int) -> bool:
    return before.present.by_number[number].type != after.present.by_number[number].type


def _changed(engine: Engine, defined: Defined, versions: Versions, statement: Alter) -> Versions | None:
    change, present = statement.change, versions.present.schema
    if isinstance(change, AddColumn):
        return _added(engine, defined, versions, change)
    if isinstance(change, DropColumn):
        name = _named(present, change.name)
        if name is None:
            if change.if_exists or versions.had(change.name):
                return None
            raise UnknownColumnError(change.name, present.names)
        _refuse_before_the_table(defined, name)
        return versions.dropped(name)
    if isinstance(change, RenameColumn):
        to, name = _named(present, change.to), _named(present, change.name)
        if to == change.to and versions.was(to, change.name) and name is None:
            return None
        if name is not None:
            _refuse_before_the_table(defined, name, change.to)
        return versions.renamed(name or change.name, change.to)
    assert isinstance(change, WidenColumn)
    name, kind = _named(present, change.name) or change.name, parse_type(change.type)
    if name in present.names and present.field(name).type == kind:
        return None
    return versions.widened(name, kind)


def _added(engine: Engine, defined: Defined, versions: Versions, change: AddColumn) -> Versions | None:
    what = f"{defined.kind} {defined.name}"
    columns, present = parse_schema(change.columns), versions.present.schema
    if defined.stated(CreateSource).origin.kind in TABLES:
        _refuse_left_out(engine, defined, columns, change)
    if change.default is not None and len(columns) != 1:
        raise StatementError(f"{what}: a DEFAULT is of one column")
    new = [c for c in columns if _named(present, c.name) is None]
    for column in columns:
        there = _named(present, column.name)
        if there is not None and not change.unless and not present.field(there).equals(column):
            raise StatementError(
                f"{what} has a column {there!r} already, which is {type_name(present.field(there).type)}; DROP COLUMN "
                "removes it, ALTER COLUMN … TYPE widens it"
            )
        if there is not None and not change.unless and change.default is not None:
            known = versions.defaults.get(versions.present.number_of(there))
            if _value(engine, change.default, column) != known:
                raise StatementError(
                    f"{what} has a column {there!r} already, whose DEFAULT is {'NULL' if known is None else known!r}; "
                    "DROP COLUMN removes it"
                )
    for column in new:
        default = None if change.default is None else _value(engine, change.default, column)
        versions = versions.added(column, default)
    return versions if new else None


def _refuse_left_out(engine: Engine, defined: Defined, columns: pa.Schema, change: AddColumn) -> None:
    """Refuse a column that the table had already when its rows were taken, without that column.

    Raises:
        StatementError: it had, or the rows before would have another value than the table gives them, null.
    """
    position = engine.streams_stored.get(defined.name)
    if position is None or position["query"] is None:
        return
    if change.default is not None:
        raise StatementError(
            f"rows of SOURCE {defined.name} that were taken have null in a column that its table got later; leave out "
            "DEFAULT, and use coalesce where the column is read"
        )
    statement = defined.stated(CreateSource)
    if statement.columns is None:  # it had all of them, and stops where one comes
        return
    table = table_of(statement)
    there = table.schema(position["batch"]).names if isinstance(table, Delta) else columns.names
    if known := [name for name in columns.names if name in there]:
        raise StatementError(
            f"the table that SOURCE {defined.name} follows may have had the column {known[0]!r} when rows of it "
            "were taken, and their values are not known: CREATE another SOURCE with that column, and CREATE OR "
            "REPLACE the views over it"
        )


def _refuse_before_the_table(defined: Defined, name: str, to: str | None = None) -> None:
    """Refuse to leave out or rename a column that a followed table still has: no row of it could be taken then.

    Raises:
        StatementError: it has.
    """
    statement = defined.stated(CreateSource)
    if statement.origin.kind not in TABLES:
        return
    there = table_of(statement).schema()
    chosen = to is None and statement.columns is not None  # of these columns it goes on with fewer
    if chosen or _named(there, name) is None or (to is not None and _named(there, to) is not None):
        return
    raise StatementError(
        f"the table that SOURCE {defined.name} follows still has the column {name!r}, and its rows would not fit: "
        "change the table first, or leave the source as it is and CREATE a VIEW over it that "
        + ("has no such column" if to is None else f"shows {name} AS {to}")
    )


def _named(schema: pa.Schema, name: str) -> str | None:
    """A column by its name in any case."""
    return next((known for known in schema.names if known.lower() == name.lower()), None)


def _value(engine: Engine, default: exp.Expr, column: pa.Field) -> Any:
    """The value of a constant expression, in the type of a column."""
    if default.find(exp.Query) is not None:
        raise StatementError(f"the DEFAULT of column {column.name!r} must be a constant, got a query")
    tree = exp.select(exp.alias_(exp.cast(default.copy(), type_name(column.type), dialect="spark"), "value"))
    try:
        table = peek(engine, sql.query(tree, {}))
    except AltneuError as error:
        reason = str(error).partition("\n")[0]
        raise StatementError(
            f"the DEFAULT of column {column.name!r} must be a constant of type {type_name(column.type)}: {reason}"
        ) from error
    return table.column("value")[0].as_py()


def _readers(
    known: Definitions, defined: Defined, versions: Versions, numbers: set[int]
) -> Iterator[tuple[Defined, list[str]]]:
    """The definitions that read some columns of a source, in the order of their creation, with these columns."""
    for other in sorted(known.all.values(), key=lambda d: d.order) if numbers else ():
        collection = other.arranged if other.kind == "INDEX" else other.collection
        if other is defined or collection is None or other.kind in ("SOURCE", "TABLE"):
            continue
        read = list[str]()
        for source, columns in read_of(without_indexes(optimise(collection.node))).values():
            version = versions.find(source.schema) if source.name == defined.name else None
            if version is not None:
                read += [f.name for n, f in version.by_number.items() if n in numbers and f.name in columns]
        if read:
            yield other, read
