"""What SHOW lists."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from altneu.engine.engine import Engine
from altneu.errors import StatementError, UnknownColumnError
from altneu.errors.nearest import listed
from altneu.expressions.reference import listing
from altneu.sql.functions import usage_of
from altneu.sql.queries import Shown
from altneu.sql.statements.defined import Defined, Definitions, schema_of, shown_name
from altneu.sql.statements.tree import CreateIndex, CreateSink, CreateSource, CreateView, Describe, Kind, Show
from altneu.types import shown_type

Row = tuple[Any, ...]


def show(statement: Show, engine: Engine, known: Definitions) -> pa.Table:
    """The rows of a SHOW."""
    if statement.what == "COLUMNS":
        return _columns(str(statement.name), known)
    if statement.what == "CREATE":
        return _create(str(statement.name), engine, known)
    if statement.what.endswith("FUNCTIONS"):
        found = [] if statement.what == "SYSTEM FUNCTIONS" else sorted(known.function_names())
        own = [usage_of(name, f) for name in found if (f := known.function(name)) is not None]
        built_in = [] if statement.what == "USER FUNCTIONS" else listing()
        return _table(("name", "group", "usage", "result"), [*own, *built_in], statement.like)
    if statement.what == "SCHEMAS":
        schemas = [(name, "") if d is None else (d.name, d.comments.get("", "")) for name, d in known.schemas().items()]
        schemas.sort(key=lambda schema: schema[0].lower())
        named = [(shown_name(name), comment or None) for name, comment in schemas]
        return _table(("namespace", "comment"), named, statement.like)
    kind, columns, row = _LISTS[statement.what]
    rows = [row(d, engine) for d in sorted(known.all.values(), key=lambda d: d.order) if d.kind == kind]
    if kind == "MATERIALIZED VIEW":
        defined = {d.view for d in known.all.values()}
        mine = [name for name in engine.views if name not in defined and not name.startswith("#")]
        rows += [(name, engine.table.rows(engine.ports(name).contents)) for name in mine]
    if statement.name is not None:  # the schema with a dot, or nothing
        prefix = statement.name.lower()
        rows = [row for row in rows if schema_of(row[0].lower()) == prefix]
    return _table(columns, rows, statement.like, lambda name: (name, name[len(schema_of(name)) :]))


def _table(
    columns: Sequence[str],
    rows: Sequence[Row],
    like: str | None,
    names_of: Callable[[str], tuple[str, ...]] = lambda name: (name,),
) -> pa.Table:
    """Rows as a table: with a pattern those whose first value has a name that it fits."""
    if like is not None:
        pattern = re.compile(_pattern(like), re.IGNORECASE | re.DOTALL)
        rows = [row for row in rows if any(map(pattern.fullmatch, names_of(row[0])))]
    fields = [pa.field(name, pa.int64() if name == "updates" else pa.string()) for name in columns]
    arrays = [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(fields)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _pattern(like: str) -> str:
    """SQL's ``%`` and ``_``, and Spark's ``*`` and ``|``."""
    return "".join({"%": ".*", "_": ".", "*": ".*", "|": "|"}.get(c, re.escape(c)) for c in like)


def _source(defined: Defined, engine: Engine) -> Row:
    statement = defined.stated(CreateSource)
    envelope = statement.envelope.kind
    return defined.name, str(statement.origin), envelope, "yes" if defined.view else "no", _state(defined)


def _plain(defined: Defined, engine: Engine) -> Row:
    return defined.name, _state(defined)


def _materialized(defined: Defined, engine: Engine) -> Row:
    rows = 0 if defined.error else engine.table.rows(engine.ports(defined.view or defined.name).contents)
    return defined.name, rows


def _index(defined: Defined, engine: Engine) -> Row:
    statement = defined.stated(CreateIndex)
    return defined.name, statement.of, ", ".join(defined.indexed)


def _sink(defined: Defined, engine: Engine) -> Row:
    statement = defined.stated(CreateSink)
    target = f"{statement.kind.upper()} {statement.place}" + (f" TABLE {statement.table}" if statement.table else "")
    return defined.name, statement.view, target, _state(defined)


def _state(defined: Defined) -> str:
    return "ready" if defined.error is None else f"waits: {defined.error}"


_LISTS: dict[str, tuple[Kind, tuple[str, ...], Callable[[Defined, Engine], Row]]] = {
    "SOURCES": ("SOURCE", ("name", "from", "envelope", "keep", "state"), _source),
    "TABLES": ("TABLE", ("name", "state"), _plain),
    "VIEWS": ("VIEW", ("name", "state"), _plain),
    "MATERIALIZED VIEWS": ("MATERIALIZED VIEW", ("name", "updates"), _materialized),
    "INDEXES": ("INDEX", ("name", "on", "key"), _index),
    "SINKS": ("SINK", ("name", "from", "into", "state"), _sink),
}


def describe(statement: Describe, known: Definitions, query: Shown | None) -> pa.Table:
    """The rows of a DESCRIBE, as Spark has them: a column's name, type and comment; more of a name with EXTENDED."""
    if query is not None:
        schema = query.collection.schema
        fields = [(n, shown_type(schema.field(c))) for n, c in zip(query.names, query.columns, strict=True)]
        return _described([(n, kind, None) for n, kind in fields])
    name = str(statement.name)
    if name not in known:
        raise StatementError(f"there is no {name!r}; there are: {listed(name, known)}")
    defined = known.get_defined(name)
    made = None if defined is None else defined.statement
    told = made if isinstance(made, CreateView | CreateSource) else None
    comments = {} if defined is None else defined.comments
    rows = [(f.name, shown_type(f), comments.get(f.name.lower())) for f in known[name].schema]
    if statement.column is not None:
        chosen = [row for row in rows if row[0].lower() == statement.column.lower()]
        if not chosen:
            raise UnknownColumnError(statement.column, [row[0] for row in rows])
        of_column = zip(("col_name", "data_type", "comment"), chosen[0], strict=True)
        return _table(("info_name", "info_value"), [*of_column], None)
    if statement.extended:
        rows += [("", "", ""), ("# Detailed Table Information", "", ""), ("Name", name, "")]
        if defined is None:
            rows += [("Type", "VIEW or source of the program", "")]
        else:
            rows += [("Type", defined.kind, ""), ("Definition", defined.text, "")]
        if "" in comments:
            rows += [("Comment", comments[""], "")]
        if told is not None and told.properties:
            shown = ", ".join(f"{key}={value}" for key, value in told.properties.items())
            rows += [("Table Properties", f"[{shown}]", "")]
    return _described(rows)


def _described(rows: Sequence[Row]) -> pa.Table:
    return _table(("col_name", "data_type", "comment"), rows, None)


def _columns(name: str, known: Definitions) -> pa.Table:
    if name not in known:
        raise StatementError(f"there is no {name!r}; there are: {listed(name, known)}")
    schema = known[name].schema
    return pa.table(
        {
            "name": pa.array(schema.names, pa.string()),
            "nullable": pa.array([f.nullable for f in schema], pa.bool_()),
            "type": pa.array([shown_type(f) for f in schema], pa.string()),
        }
    )


def _create(name: str, engine: Engine, known: Definitions) -> pa.Table:
    defined = known.get_defined(name)
    if defined is None and name in engine.views:
        raise StatementError(
            f"{name!r} is a view that a program defines, not a statement; EXPLAIN VIEW {name} shows it"
        )
    defined = known.defined(name)
    return pa.table({"name": [defined.name], "create_sql": [defined.text]})
