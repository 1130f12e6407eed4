"""What follows CREATE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from altneu.sql.scope import full_name
from altneu.sql.statements.options import options
from altneu.sql.statements.tree import (
    CreateFunction,
    CreateIndex,
    CreateSchema,
    CreateSink,
    CreateSource,
    CreateView,
    Creation,
    Envelope,
    Origin,
)

FORMATS = ("PARQUET", "CSV", "JSON", "ORC", "TEXT")
STREAMING = ("WATERMARK", "LATE", "MAX_ROWS", "CHECKPOINT", "RESTART")
TABULAR = ("WATERMARK", "LATE", "RESTART", "FROM_VERSION", "FROM_TIMESTAMP", "SNAPSHOT", "MAX_BYTES")
_FOLLOWING = {
    "delta": TABULAR,
    "iceberg": tuple(word if word != "FROM_VERSION" else "FROM_SNAPSHOT" for word in TABULAR),
}
VIEW_OPTIONS = ("STRICT", "JOINS", "CONTENTS", "RETAIN", "REFRESH")


def create(p: Any) -> Creation:
    """``CREATE [OR REPLACE] kind …``."""
    replace = p.word("OR", "REPLACE")
    refresh = not replace and p.word("OR", "REFRESH")  # as it is said of views that are maintained
    temporary = p.word("TEMPORARY", "FUNCTION") or p.word("TEMP", "FUNCTION")
    if temporary or p.word("FUNCTION"):
        unless = p.word("IF", "NOT", "EXISTS")
        return function(p, {"unless": unless, "replace": replace, "temporary": temporary})
    if p.word("TEMPORARY", "VIEW") or p.word("TEMP", "VIEW"):
        unless = p.word("IF", "NOT", "EXISTS")
        return view(p, {"name": p.new("a name", p.name), "unless": unless, "replace": replace, "temporary": True})
    if not (replace or refresh) and p.one_of("SCHEMA", "DATABASE") is not None:
        return schema(p, {"unless": p.word("IF", "NOT", "EXISTS")})
    kind = p.one_of(*_KINDS)
    if refresh and kind != "MATERIALIZED VIEW":
        p.fail("OR REFRESH is for a MATERIALIZED VIEW", p.last)
    if kind is None:
        if p.one_of("TEMPORARY", "TEMP") is not None:
            p.expected("VIEW or FUNCTION, which may be temporary")
        p.expected("SOURCE, TABLE, [MATERIALIZED | TEMPORARY] VIEW, INDEX, SINK, [TEMPORARY] FUNCTION or SCHEMA")
    if replace and kind not in ("VIEW", "MATERIALIZED VIEW"):
        p.fail(f"OR REPLACE is for views and functions; DROP {kind} first")
    unless = p.word("IF", "NOT", "EXISTS")
    if kind == "INDEX" and p.word("ON", advance=False):
        p.fail("an index needs a name, by which it is dropped: CREATE INDEX name ON view (columns)")
    return _KINDS[kind](p, {"name": p.new("a name", p.table), "unless": unless, "replace": replace or refresh})


def view(p: Any, head: dict[str, Any], *, materialized: bool = False) -> CreateView:
    """``name [(column [type] [COMMENT 'text'], …)] [WITH (…)] [COMMENT 'text'] [TBLPROPERTIES (…)] AS query``."""
    columns, types, comments = _view_columns(p) if p.word("(", advance=False) else ((), {}, {})
    clauses: dict[str, Any] = {"comments": comments, "types": types}
    while not p.word("AS"):
        token = p.token
        if p.word("WITH"):
            clauses["options"] = options(p, VIEW_OPTIONS)
        elif p.word("COMMENT"):
            comments[""] = p.string("a comment")
        elif p.word("TBLPROPERTIES"):
            clauses["properties"] = options(p)
        elif materialized and p.word("TRIGGER"):
            p.expect("ON", "UPDATE")  # which a view that is maintained is
            if p.word("AT", advance=False):
                p.fail("a view is updated by each step, so there is no MOST EVERY; session.advance says when")
        elif materialized and (instead := _OF_LAYOUT.get(str(token.text).split()[0].upper()) if token else None):
            p.fail(f"{token.text.upper()} is not supported: {instead}")
        else:
            p.expected("AS")
    if head.get("temporary") and "options" in clauses:
        p.fail("a temporary view keeps nothing: leave WITH out", p.last)
    return CreateView(query=p.query(), columns=columns, materialized=materialized, **clauses, **head)


_OF_LAYOUT = {
    "CLUSTER": "leave it out, as a view's rows are found by its keys, and by those of CREATE INDEX",
    "PARTITIONED": "leave it out, as a view's rows are divided by hashes of its keys",
    "SCHEDULE": "leave it out, as each step keeps the view right; a program decides when it calls session.advance",
}


def _view_columns(p: Any) -> tuple[tuple[str, ...], dict[str, str], dict[str, str]]:
    """The names, and what is said of some: their types as DDL, and comments."""
    names, types, comments = list[str](), dict[str, str](), dict[str, str]()
    p.opening()
    while True:
        name = p.name("a column")
        names.append(name)
        if kind := p.column_type():
            types[name] = kind
        if p.word("COMMENT"):
            comments[name] = p.string("a comment")
        if not p.word(","):
            break
    p.closing()
    return tuple(names), types, comments


def materialized(p: Any, head: dict[str, Any]) -> CreateView:
    """As a view, and maintained."""
    return view(p, head, materialized=True)


def table(p: Any, head: dict[str, Any]) -> CreateSource:
    """``name (column type [DEFAULT value] [COMMENT 'text'], …)`` and clauses, or ``name … AS query``.

    The clauses are ``STATIC``, ``APPEND ONLY``, ``COMMENT 'text'`` and ``TBLPROPERTIES (…)``. Another form is ``name
    [(…)] USING DELTA LOCATION 'path' [WITH (…)]``.
    """
    columns, defaults, comments = p.columns() if p.word("(", advance=False) else (None, {}, {})
    if p.word("USING"):
        if defaults:
            p.fail("a Delta table's columns have their own values: leave DEFAULT out", p.last)
        return _located(p, {"columns": columns, "comments": comments, **head})
    clauses: dict[str, Any] = {}
    while not p.at_end() and not p.word("AS", advance=False):
        token = p.token
        if p.word("STATIC"):
            clauses["static"] = True
        elif p.word("APPEND", "ONLY"):
            clauses["append_only"] = True
        elif p.word("COMMENT"):
            comments[""] = p.string("a comment")
        elif p.word("TBLPROPERTIES"):
            clauses["properties"] = options(p)
        elif instead := _OF_LAYOUT.get(str(token.text).split()[0].upper()):
            p.fail(f"{token.text.upper()} is not supported: {instead}")
        else:
            p.expected("AS" if columns is None else "STATIC, APPEND ONLY, COMMENT or TBLPROPERTIES")
    query = None
    if columns is None:
        p.expect("AS")
        query = p.query()
    elif p.word("AS"):
        p.fail("the query says what the columns are: leave them out, and name and CAST them in the query", p.last)
    head = {"keep": True, "table": True, "comments": comments, **head}
    return CreateSource(columns=columns, defaults=defaults, query=query, **clauses, **head)


def _located(p: Any, head: dict[str, Any]) -> CreateSource:
    """``DELTA LOCATION 'path' [OPTIONS (…)] [WITH (…)]``: a source with kept rows, as Spark's statement is written."""
    if not p.word("DELTA"):
        p.expected(
            "DELTA: other formats are sources, CREATE SOURCE … FROM ICEBERG 'namespace.table' KEEP, or FROM FILE "
            "'path' FORMAT …"
        )
    p.expect("LOCATION")
    place = (p.string("a path"),)
    origin = Origin("delta", place, options=options(p) if p.word("OPTIONS") else {})
    settings = options(p, TABULAR) if p.word("WITH") else {}
    return CreateSource(origin=origin, options=settings, keep=True, **head)


def source(p: Any, head: dict[str, Any]) -> CreateSource:
    """``name [(columns)] [FROM …]``, then clauses in any order: ``COLUMNS (…)``, ``ENVELOPE …``, ``KEEP`` and so on."""
    clauses: dict[str, Any] = {}
    if p.word("(", advance=False):
        clauses["columns"] = p.in_parentheses()
    if p.word("FROM"):
        clauses["origin"] = origin(p)
    while not p.at_end():
        token = p.token
        known = _FOLLOWING.get(clauses["origin"].kind if "origin" in clauses else "", STREAMING)
        clause, read = _clause(p, known)
        if clause in clauses:
            p.fail(f"{token.text.upper()} comes twice", token)
        if clause == "static" and "origin" in clauses and clauses["origin"].is_followed:
            p.fail("a stream goes on, so it cannot be STATIC", token)
        clauses[clause] = read
    return CreateSource(**head, **clauses)


def _clause(p: Any, known: tuple[str, ...]) -> tuple[str, Any]:
    if p.word("COLUMNS"):
        return "raw", p.in_parentheses()
    if p.word("ENVELOPE"):
        return "envelope", envelope(p)
    if p.word("TIME"):
        return "times", times(p)
    if p.word("DIFF"):
        return "diff", p.expression_text("a count, a column or an expression")
    if p.word("KEEP"):
        return "keep", True
    if p.word("STATIC"):
        return "static", True
    if p.word("APPEND", "ONLY"):
        return "append_only", True
    if p.word("WITH"):
        return "options", options(p, known)
    return p.expected("FROM, COLUMNS (…), ENVELOPE, TIME (…), DIFF, KEEP, STATIC, APPEND ONLY or WITH (…)")


def origin(p: Any) -> Origin:
    """``TABLE name``, ``FILE 'path', … FORMAT f [OPTIONS (…)]``, ``STREAM …``, ``DELTA 'path'``, ``ICEBERG 'a.b'``."""
    kind = p.one_of("TABLE", "FILES", "FILE", "STREAM", "DELTA", "ICEBERG")
    if kind is None:
        p.expected("TABLE name, FILE 'path' FORMAT …, STREAM …, DELTA 'path' or ICEBERG 'namespace.table'")
    place: tuple[str, ...]
    if kind in ("DELTA", "ICEBERG"):
        place = (p.string("a path" if kind == "DELTA" else "a table"),)
        return Origin(kind.lower(), place, options=options(p) if p.word("OPTIONS") else {})
    if kind == "TABLE" or (kind == "STREAM" and p.word("TABLE")):
        form = "TABLE" if kind == "STREAM" else ""
        place = (p.dotted("the name of a Spark table"),)
    else:
        place = paths(p) if kind != "STREAM" or p.is_string() else ()
        p.expect("FORMAT")
        form = p.string("a format") if p.is_string() else p.dotted("a format")
        if kind != "STREAM" and form.upper() not in FORMATS:
            p.fail(f"no format {form}; the formats of files are: {', '.join(FORMATS)}", p.last)
    settings = options(p) if p.word("OPTIONS") else {}
    name: Any = {"STREAM": "stream", "TABLE": "table"}.get(kind, "file")
    return Origin(name, place, form.lower() if form.upper() in (*FORMATS, "TABLE") else form, settings)


def paths(p: Any) -> tuple[str, ...]:
    """One path or several."""
    strings = [p.string("a path")]
    while p.word(","):
        strings.append(p.string("a path"))
    return tuple(strings)


def times(p: Any) -> tuple[tuple[str | None, str], ...]:
    """``(column)`` or ``(expression AS name, NULL AS name)``: one time or two."""
    p.opening()
    columns = [_time(p)]
    while p.word(","):
        columns.append(_time(p))
    p.closing()
    if len(columns) > 2:
        p.fail("TIME takes one time, or the system's and the event's")
    return tuple(columns)


def _time(p: Any) -> tuple[str | None, str]:
    null = p.word("NULL")
    text = None if null else p.expression_text("a column or an expression")
    if p.word("AS"):
        return text, p.name("the name of a time")
    if null:
        p.expected("AS and the name of the time")
    return text, str(text).strip("`")


def envelope(p: Any) -> Envelope:
    """``NONE``, or a kind with its options in parentheses."""
    kind = p.one_of(*sorted(_ENVELOPES, key=len, reverse=True))  # DEBEZIUM UPSERT before DEBEZIUM
    if kind is None:
        p.expected(", ".join(_ENVELOPES))
    parts: dict[str, Any] = {}
    if p.word("("):
        while True:
            token = p.token
            word = p.one_of(*_ENVELOPES[kind])
            if word is None:
                p.expected(" or ".join(_ENVELOPES[kind]) or ")")
            if word in parts:
                p.fail(f"{word} comes twice", token)
            parts[word] = _PARTS[word](p)
            if not p.word(","):
                break
        p.closing()
    for word in _NEEDED.get(kind, ()):
        if word not in parts:
            p.fail(f"ENVELOPE {kind} needs {word}: ENVELOPE {kind} ({word} (column))", p.last)
    return Envelope(kind.lower(), parts)


def _column(p: Any) -> str:
    return str(p.name("a column"))


def _columns(p: Any) -> tuple[str, ...]:
    return p.names("a column") if p.word("(", advance=False) else (p.name("a column"),)


def _unit(p: Any) -> Any:
    return options(p) if p.word("(", advance=False) else p.string("a unit")


def _text(p: Any) -> str:
    return str(p.string("a table's name"))


def _condition(p: Any) -> str:
    return str(p.expression_text("a condition"))


_PARTS: dict[str, Callable[[Any], Any]] = {
    "KEY COLUMN": _column,
    "KEY": _columns,
    "VALUE": _columns,
    "ORDER BY": _columns,
    "DELETED WHEN": _condition,
    "COLUMN": _column,
    "UNIT": _unit,
    "TABLE": _text,
    "DATA": _column,
    "TIME": _column,
    "DIFF": _column,
}
_ENVELOPES: dict[str, tuple[str, ...]] = {
    "NONE": (),
    "DEBEZIUM": ("COLUMN", "UNIT"),
    "DEBEZIUM UPSERT": ("KEY COLUMN", "KEY", "ORDER BY", "COLUMN", "UNIT"),
    "MAXWELL": ("COLUMN", "TABLE", "UNIT"),
    "CANAL": ("COLUMN", "TABLE"),
    "OGG": ("COLUMN", "TABLE", "UNIT"),
    "MONGODB": ("COLUMN", "TABLE"),
    "MONGODB UPSERT": ("KEY", "ORDER BY", "COLUMN", "TABLE"),
    "UPSERT": ("KEY", "VALUE", "ORDER BY", "DELETED WHEN", "UNIT"),
    "UPDATES": ("DATA", "TIME", "DIFF", "UNIT"),
}
_NEEDED = {"DEBEZIUM UPSERT": ("KEY",), "UPSERT": ("KEY",)}


def schema(p: Any, head: dict[str, Any]) -> CreateSchema:
    """``[catalog.]name [COMMENT 'text'] [WITH DBPROPERTIES (…)]``."""
    name, clauses = full_name((*p.schema(), "")), dict[str, Any]()
    while not p.at_end():
        if p.word("COMMENT"):
            clauses["comments"] = {"": p.string("a comment")}
        elif p.word("WITH"):
            p.one_of("DBPROPERTIES", "PROPERTIES") or p.expected("DBPROPERTIES")
            clauses["properties"] = options(p)
        elif p.word("LOCATION") or p.word("MANAGED"):
            p.fail("a schema has no place of its own: the rows of its tables are in the store of the session", p.last)
        else:
            p.expected("COMMENT 'text' or WITH DBPROPERTIES (…)")
    return CreateSchema(name, **clauses, **head)


def index(p: Any, head: dict[str, Any]) -> CreateIndex:
    """``name ON view (columns)``."""
    p.expect("ON")
    return CreateIndex(of=p.table("a view's name"), columns=p.names("a column"), **head)


def sink(p: Any, head: dict[str, Any]) -> CreateSink:
    """``name FROM view INTO target [MODE …] [KEY (…)] [OPTIONS (…)] [WITH (…)]``."""
    p.expect("FROM")
    clauses: dict[str, Any] = {"view": p.table("a view's name")}
    p.expect("INTO")
    kind = p.one_of("PARQUET", "DELTA", "ICEBERG", "JDBC", "SQLITE")
    if kind is None:
        p.expected(
            "PARQUET 'path', DELTA 'path', ICEBERG 'namespace.table', JDBC 'url' TABLE 'name' or SQLITE 'path' TABLE "
            "'name'"
        )
    clauses |= {"kind": kind.lower(), "place": p.string("a path" if kind != "JDBC" else "an address")}
    if kind not in ("PARQUET", "DELTA", "ICEBERG"):
        p.expect("TABLE")
        clauses["table"] = p.string("a table") if p.is_string() else p.dotted("a table")
    while not p.at_end():
        if p.word("MODE"):
            clauses["mode"] = (
                p.one_of("APPEND", "MERGE", "ROWS", "UPSERT") or p.expected("APPEND, MERGE, ROWS or UPSERT")
            ).lower()
        elif p.word("KEY"):
            clauses["key"] = p.names("a column")
        elif p.word("OPTIONS"):
            clauses["connection"] = options(p)
        elif p.word("WITH"):
            clauses["options"] = options(p, _SINK_OPTIONS[kind])
        else:
            p.expected("MODE, KEY (…), OPTIONS (…) or WITH (…)")
    return CreateSink(**head, **clauses)


def function(p: Any, head: dict[str, Any]) -> CreateFunction:
    """``name([parameter type [DEFAULT expression], …]) [RETURNS type] … RETURN expression | AS $$ … $$``."""
    name = p.name("a name")
    parameters: list[tuple[str, str, Any]] = []
    p.opening()
    while not p.word(")"):
        if parameters:
            p.expect(",")
        parameters.append((p.name("a parameter"), p.type("the type of the parameter"), _default(p)))
    clauses: dict[str, Any] = {"returns": None}
    language = "SQL"
    while not p.word("RETURN") and not p.word("AS"):
        if p.word("RETURNS"):
            if p.word("TABLE", advance=False):
                p.fail("a function that returns a table is not supported; CREATE VIEW gives a query a name")
            clauses["returns"] = p.type("a type")
        elif p.word("LANGUAGE"):
            language = p.one_of("SQL", "PYTHON") or p.expected("SQL or PYTHON")
        elif p.word("NOT", "DETERMINISTIC"):
            p.fail("a function must be DETERMINISTIC: a retraction calls it again", p.last)
        elif p.word("COMMENT"):
            p.string("a comment")
        elif p.one_of("DETERMINISTIC", "CONTAINS SQL", "READS SQL DATA") is None:
            p.expected("RETURNS type, LANGUAGE PYTHON, COMMENT 'text', RETURN expression or AS $$ … $$")
    is_body = p.last.text.upper() == "AS"
    if is_body != (language == "PYTHON"):
        p.fail("LANGUAGE PYTHON goes with AS $$ … $$, and SQL with RETURN expression", p.last)
    if is_body and clauses["returns"] is None:
        p.fail("a function in Python needs RETURNS and a type", p.last)
    body = p.code("the body of the function, between $$ and $$") if is_body else p.expression("an expression")
    return CreateFunction(f"{name}()", tuple(parameters), clauses["returns"], body, **head)


def _default(p: Any) -> Any:
    return p.expression("an expression") if p.word("DEFAULT") else None


_SINK_OPTIONS = {
    "PARQUET": ("BUCKETS", "KEEP", "ERRORS", "LEASE"),
    "DELTA": ("PARTITION_BY", "PROPERTIES", "ERRORS", "LEASE"),
    "ICEBERG": ("PARTITION_BY", "PROPERTIES", "ERRORS", "LEASE"),
    "JDBC": ("DIALECT", "TYPES", "ERRORS", "LEASE"),
    "SQLITE": ("TYPES", "ERRORS", "LEASE"),
}

_KINDS: dict[str, Callable[[Any, dict[str, Any]], Creation]] = {
    "SOURCE": source,
    "TABLE": table,
    "MATERIALIZED VIEW": materialized,
    "VIEW": view,
    "INDEX": index,
    "SINK": sink,
}
