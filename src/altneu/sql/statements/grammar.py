"""What follows the first word of each statement; ``p`` is the parser, whose methods take what comes next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from altneu.explain import FORMS
from altneu.sql.scope import MOST_PARTS, full_name
from altneu.sql.statements.alterations import alter
from altneu.sql.statements.creations import create
from altneu.sql.statements.merges import assignments, merge
from altneu.sql.statements.options import options
from altneu.sql.statements.tree import (
    Advance,
    Comment,
    Delete,
    Describe,
    Drop,
    Explain,
    Follow,
    Insert,
    Kind,
    Refresh,
    Show,
    Statement,
    Subscribe,
    Transaction,
    Truncate,
    Update,
    Use,
)

KINDS: tuple[Kind, ...] = ("SOURCE", "TABLE", "MATERIALIZED VIEW", "VIEW", "INDEX", "SINK", "FUNCTION", "SCHEMA")
SHOWN = ("SOURCES", "TABLES", "MATERIALIZED VIEWS", "VIEWS", "INDEXES", "SINKS", "FUNCTIONS", "SCHEMAS")
_SCHEMA = ("SCHEMA", "DATABASE", "NAMESPACE")


def drop(p: Any) -> Drop:
    """``DROP kind [IF EXISTS] name [CASCADE | RESTRICT]``."""
    kind = _kind(p, "TEMPORARY FUNCTION")
    if kind is None:
        return p.expected(", ".join(KINDS[:-1]) + f" or {KINDS[-1]}")
    if_exists = p.word("IF", "EXISTS")
    name = _named(p, kind)
    cascade = p.word("CASCADE")
    if not cascade:
        p.word("RESTRICT")
    return Drop(kind, name, if_exists, cascade)


def _kind(p: Any, *more: str) -> Kind | None:
    """The kind of a definition, by any of its names."""
    word = p.one_of(*more, *KINDS, *_SCHEMA)
    return None if word is None else "SCHEMA" if word in _SCHEMA else word.removeprefix("TEMPORARY ")


def _named(p: Any, kind: str) -> str:
    """The name of a definition; that of a function has parentheses, written or not, and that of a schema a dot."""
    if kind == "SCHEMA":
        return full_name((*p.schema(), ""))
    if kind != "FUNCTION":
        return str(p.table("a name"))
    name = str(p.name("a name"))
    if p.word("("):
        p.closing()
    return f"{name}()"


def show(p: Any) -> Show:
    """``SHOW SOURCES | … [IN schema] [LIKE 'pattern']``, ``SHOW COLUMNS FROM name``, ``SHOW CREATE kind name``."""
    if p.word("CREATE"):
        kind = _kind(p)
        if kind is None:
            return p.expected("what was created: SHOW CREATE VIEW name")
        return Show("CREATE", _named(p, kind))
    if p.word("COLUMNS"):
        if not p.word("IN"):
            p.expect("FROM")
        return Show("COLUMNS", p.table("a name"))
    whose = next((one for one in ("USER", "SYSTEM", "ALL") if p.word(one, "FUNCTIONS")), "")
    what = f"{whose} FUNCTIONS".removeprefix("ALL ") if whose else p.one_of(*SHOWN, "DATABASES", "NAMESPACES")
    if what in ("DATABASES", "NAMESPACES"):
        what = "SCHEMAS"
    if what is None:
        p.expected(", ".join(SHOWN) + ", COLUMNS FROM name or CREATE VIEW name")
    schema = None
    if not what.endswith("FUNCTIONS") and what != "SCHEMAS" and (p.word("IN") or p.word("FROM")):
        schema = full_name((*p.schema(), ""))
    like = p.string("a pattern") if p.word("LIKE") or p.is_string() else None
    return Show(what, schema, like)


def explain(p: Any) -> Explain:
    """``EXPLAIN [ANALYZE] [AS TEXT | JSON | SVG | HTML] [PLAN FOR] [MATERIALIZED] VIEW name | INDEX name | query``."""
    analyze, form = p.word("ANALYZE"), "TEXT"
    if p.word("AS"):
        form = p.one_of(*map(str.upper, FORMS)) or p.expected(", ".join(map(str.upper, FORMS)))
    if p.word("PLAN"):
        p.expect("FOR")
    how: dict[str, Any] = {"analyze": analyze, "form": form.lower()}
    if p.one_of("MATERIALIZED VIEW", "VIEW", "INDEX", "TABLE", "SOURCE") is not None:
        return Explain(p.table("a name"), None, **how)
    return Explain(None, p.query(), **how)


def subscribe(p: Any) -> Subscribe:
    """``SUBSCRIBE [TO] name | (query) [ENVELOPE …] [AS OF t] [UP TO t] [WITH (SNAPSHOT, PROGRESS)]``."""
    p.word("TO")
    name = query = None
    if p.word("("):
        query = p.query()
        p.closing()
    else:
        name = p.table("a view or (a query)")
    clauses: dict[str, Any] = {}
    while True:
        if p.word("AS", "OF"):
            clauses["as_of"] = p.whole("a time")
        elif p.word("UP", "TO"):
            clauses["up_to"] = p.whole("a time")
        elif p.word("WITH"):
            known = ("SNAPSHOT", "PROGRESS")
            clauses |= {name.lower(): bool(value) for name, value in options(p, known).items()}
        elif p.word("ENVELOPE"):
            clauses |= _envelope_out(p)
        else:
            return Subscribe(name, query, **clauses)


def _envelope_out(p: Any) -> dict[str, Any]:
    kind = p.one_of("NONE", "UPSERT", "DEBEZIUM")
    if kind is None:
        p.expected("NONE, UPSERT (KEY (…)) or DEBEZIUM (KEY (…))")
    if kind == "NONE":
        return {}
    p.opening()
    p.expect("KEY")
    key = p.names("a column")
    p.closing()
    return {"envelope": kind.lower(), "key": key}


def insert(p: Any) -> Insert:
    """``INSERT INTO | OVERWRITE [TABLE] name [(columns) | BY NAME | REPLACE WHERE condition] query``."""
    overwrite = p.word("OVERWRITE")
    if not overwrite:
        p.expect("INTO")
    p.word("TABLE")
    name = p.table("a table's name")
    if p.word("PARTITION", advance=False):
        p.fail("a table has no partitions: SELECT all columns, and INSERT INTO name REPLACE WHERE condition query")
    columns = p.names("a column") if p.word("(", advance=False) and not p.word("(", "SELECT", advance=False) else ()
    by_name = not columns and p.word("BY", "NAME")
    instead = None
    if not overwrite and p.word("REPLACE"):
        p.expect("WHERE")
        instead = p.expression("a condition")
    query = p.query()
    if p.word("ON", "CONFLICT", advance=False) or p.word("ON", "DUPLICATE", advance=False):
        p.fail(
            "INSERT … ON CONFLICT is not supported: a table has no key. Use CREATE SOURCE … ENVELOPE UPSERT, or a "
            "source that is declared in Python with key=..., and session.insert_or_update"
        )
    return Insert(name, columns, query, overwrite, by_name, instead)


def truncate(p: Any) -> Truncate:
    """``TRUNCATE [TABLE] name``."""
    p.word("TABLE")
    return Truncate(p.table("a table's name"))


def delete(p: Any) -> Delete:
    """``DELETE FROM table [AS alias] [WHERE condition]``."""
    p.expect("FROM")
    name, alias = p.table("a table's name"), p.alias("WHERE")
    return Delete(name, p.condition(), alias)


def update(p: Any) -> Update:
    """``UPDATE table [AS alias] SET column = expression, … [WHERE condition]``."""
    parts, name = p.table_parts("a table's name")
    alias = p.alias("SET")
    p.expect("SET")
    values = assignments(p, parts, alias)
    return Update(name, values, p.condition(), alias)


def describe(p: Any) -> Describe:
    """``DESCRIBE [TABLE] [EXTENDED | FORMATTED] name [column]``, ``DESCRIBE [QUERY] query``."""
    of_table = p.word("TABLE")
    if not of_table and (p.word("QUERY") or p.is_query()):
        return Describe(None, p.query())
    if p.one_of("FUNCTION", "SCHEMA", "DATABASE", "CATALOG") is not None:
        p.fail("DESCRIBE is of a table, a view or a query; SHOW FUNCTIONS LIKE 'name' shows functions", p.last)
    extended = p.word("EXTENDED") or p.word("FORMATTED")
    name = p.table("a name")
    return Describe(name, None, None if p.at_end() else p.name("a column"), extended)


def use(p: Any) -> Use:
    """``USE [SCHEMA | DATABASE] [catalog.]schema``."""
    if p.word("CATALOG"):
        p.fail("write the schema behind the catalog: USE catalog.schema", p.last)
    p.one_of(*_SCHEMA)
    return Use(p.schema())


def comment(p: Any) -> Comment:
    """``COMMENT ON TABLE | SOURCE | [MATERIALIZED] VIEW | SCHEMA name IS …``, ``COMMENT ON COLUMN name.of IS …``."""
    p.expect("ON")
    if p.word("COLUMN"):
        first = p.token
        *table, column = p.parts("a column behind its table")
        if not 0 < len(table) <= MOST_PARTS:
            p.fail("write the column behind its table: COMMENT ON COLUMN name.column", first)
        return Comment(None, full_name(table, p.within), column, _comment(p))
    kind = _kind(p)
    if kind not in ("TABLE", "SOURCE", "VIEW", "MATERIALIZED VIEW", "SCHEMA"):
        p.expected("TABLE, SOURCE, VIEW, MATERIALIZED VIEW, SCHEMA or COLUMN")
    return Comment(kind, _named(p, str(kind)), None, _comment(p))


def _comment(p: Any) -> str | None:
    p.expect("IS")
    return None if p.word("NULL") else p.string("a comment, or NULL")


def begin(p: Any) -> Transaction:
    """``BEGIN [TRANSACTION]``."""
    p.word("TRANSACTION")
    return Transaction("BEGIN")


def start(p: Any) -> Transaction:
    """``START TRANSACTION``."""
    p.expect("TRANSACTION")
    return Transaction("BEGIN")


def commit(p: Any) -> Transaction:
    """``COMMIT [TRANSACTION]``."""
    p.word("TRANSACTION")
    return Transaction("COMMIT")


def rollback(p: Any) -> Transaction:
    """``ROLLBACK [TRANSACTION]``."""
    p.word("TRANSACTION")
    return Transaction("ROLLBACK")


def advance(p: Any) -> Advance:
    """``ADVANCE [TO time] [EVENT time | EVENT (time, …)]``."""
    to = p.whole("a time") if p.word("TO") else None
    return Advance(to, p.event() if p.word("EVENT") else None)


def refresh(p: Any) -> Refresh:
    """``REFRESH [SOURCE] name``, ``REFRESH MATERIALIZED VIEW name`` or ``REFRESH ALL``."""
    if p.word("ALL"):
        return Refresh(None)
    if p.word("MATERIALIZED", "VIEW"):
        name = p.table("a view's name")
        p.word("SYNC")
        if p.word("FULL") or p.word("ASYNC"):
            p.fail("a view is maintained: nothing is computed again. REFRESH MATERIALIZED VIEW name waits", p.last)
        return Refresh(name, view=True)
    p.word("SOURCE")
    return Refresh(p.table("a source's name, or ALL"))


def follow(p: Any) -> Follow:
    """``FOLLOW [ALL | name, …] [WITH (TRIGGER = '10 seconds')]``."""
    names: list[str] = []
    if not p.word("ALL") and not p.at_end() and not p.word("WITH", advance=False):
        names.append(p.table("a source's name"))
        while p.word(","):
            names.append(p.table("a source's name"))
    return Follow(tuple(names), options(p, ("TRIGGER", "AVAILABLE_NOW")) if p.word("WITH") else {})


WORDS: dict[str, Callable[[Any], Statement]] = {
    "ADVANCE": advance,
    "ALTER": alter,
    "BEGIN": begin,
    "COMMENT": comment,
    "COMMIT": commit,
    "CREATE": create,
    "DELETE": delete,
    "DESC": describe,
    "DESCRIBE": describe,
    "DROP": drop,
    "EXPLAIN": explain,
    "FOLLOW": follow,
    "INSERT": insert,
    "MERGE": merge,
    "REFRESH": refresh,
    "ROLLBACK": rollback,
    "SHOW": show,
    "START": start,
    "SUBSCRIBE": subscribe,
    "TRUNCATE": truncate,
    "UPDATE": update,
    "USE": use,
}
