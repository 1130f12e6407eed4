"""ALTER TABLE and ALTER SOURCE: the columns of a source change, in one commit with its definition."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from sqlglot import exp

from altneu import sql
from altneu.engine.engine import Engine
from altneu.errors import StatementError, UnknownColumnError
from altneu.plan.rewrite import optimise
from altneu.plan.versions import Versions, read_of
from altneu.sql.statements.defined import Defined, Definitions
from altneu.sql.statements.tree import (
    AddColumn,
    Alter,
    CreateSource,
    DropColumn,
    RenameColumn,
    WidenColumn,
)
from altneu.types import parse_schema, parse_type, type_name
from altneu.views.peek import peek


def altered(engine: Engine, known: Definitions, defined: Defined, statement: Alter) -> Versions | None:
    """The columns of a source after a change; None where it has them already, as after a script that is run again.

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
    versions = engine.catalogue.versions.get(defined.name) or Versions.of(parse_schema(defined.columns))
    changed = _changed(engine, versions, statement, f"{defined.kind} {defined.name}")
    if changed is None:
        return None
    _refuse_readers(known, defined, versions, changed)
    return changed


def _changed(engine: Engine, versions: Versions, statement: Alter, what: str) -> Versions | None:
    change, present = statement.change, versions.present.schema
    if isinstance(change, AddColumn):
        return _added(engine, versions, change, what)
    if isinstance(change, DropColumn):
        name = _named(present, change.name)
        if name is None:
            if change.if_exists or versions.had(change.name):
                return None
            raise UnknownColumnError(change.name, present.names)
        return versions.dropped(name)
    if isinstance(change, RenameColumn):
        to, name = _named(present, change.to), _named(present, change.name)
        if to == change.to and versions.was(to, change.name) and name is None:
            return None
        return versions.renamed(name or change.name, change.to)
    assert isinstance(change, WidenColumn)
    name, kind = _named(present, change.name) or change.name, parse_type(change.type)
    if name in present.names and present.field(name).type == kind:
        return None
    return versions.widened(name, kind)


def _added(engine: Engine, versions: Versions, change: AddColumn, what: str) -> Versions | None:
    columns, present = parse_schema(change.columns), versions.present.schema
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
    for column in new:
        default = None if change.default is None else _value(engine, change.default, column)
        versions = versions.added(column, default)
    return versions if new else None


def _named(schema: pa.Schema, name: str) -> str | None:
    """A column by its name in any case."""
    return next((known for known in schema.names if known.lower() == name.lower()), None)


def _value(engine: Engine, default: exp.Expr, column: pa.Field) -> Any:
    """The value of a constant expression, in the type of a column."""
    tree = exp.select(exp.alias_(exp.cast(default.copy(), type_name(column.type), dialect="spark"), "value"))
    try:
        table = peek(engine, sql.query(tree, {}))
    except UnknownColumnError as error:
        raise StatementError(f"the DEFAULT of column {column.name!r} must be a constant: {error}") from error
    return table.column("value")[0].as_py()


def _refuse_readers(known: Definitions, defined: Defined, before: Versions, after: Versions) -> None:
    """Refuse to take away a column, or to change its type, while a definition reads it.

    Raises:
        StatementError: naming what reads it.
    """
    now = after.present.by_number
    gone = {n for n, f in before.present.by_number.items() if n not in now or now[n].type != f.type}
    for other in known.all.values():
        if not gone or other is defined or other.collection is None or other.kind in ("SOURCE", "TABLE"):
            continue
        for source, columns in read_of(optimise(other.collection.node)).values():
            version = before.find(source.schema) if source.name == defined.name else None
            read = [] if version is None else [f.name for n, f in version.by_number.items() if n in gone]
            if wrong := [column for column in read if column in columns]:
                raise StatementError(
                    f"column {wrong[0]!r} of {defined.kind} {defined.name} is read by {other.kind} {other.name}; "
                    f"CREATE OR REPLACE it without that column, or DROP it first"
                )
