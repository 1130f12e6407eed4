"""What statements say, as values: the parser makes them, the session does them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from sqlglot import exp

from altneu.explain import Form

Kind = Literal["SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW", "INDEX", "SINK", "FUNCTION", "SCHEMA"]
Options = Mapping[str, Any]


@dataclass(frozen=True)
class Statement:
    """One statement; ``text`` is what was written, ``line`` where it begins."""

    text: str = field(default="", kw_only=True, compare=False)
    line: int = field(default=1, kw_only=True, compare=False)

    @property
    def title(self) -> str:
        """The statement's first words, for messages."""
        words = self.text.split()
        return " ".join(words[:6]) + (" …" if len(words) > 6 else "")

    def within(self, common: exp.With) -> Self:
        """The statement whose queries may read the names of a WITH before it."""
        raise NotImplementedError(type(self).__name__)


# definitions ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Creation(Statement):
    """Something gets a name; ``unless`` says that it may be there already, ``replace`` that it takes its place."""

    name: str
    unless: bool = field(default=False, kw_only=True)
    replace: bool = field(default=False, kw_only=True)


TABLES = ("delta", "iceberg")  # with versions, which are followed without Spark
FOLLOWED = ("stream", *TABLES)


@dataclass(frozen=True)
class Origin:
    """Where a source's rows come from.

    ``kind`` is "table", "file", "stream", "delta", "iceberg", or "insert" for rows that a program
    inserts.
    """

    kind: Literal["table", "file", "stream", "delta", "iceberg", "insert"] = "insert"
    places: tuple[str, ...] = ()
    form: str = ""
    options: Options = field(default_factory=dict)

    @property
    def is_followed(self) -> bool:
        """Whether rows come again and again, and ``session.follow`` takes them."""
        return self.kind in FOLLOWED

    def __str__(self) -> str:
        where = ", ".join(self.places)
        if self.kind == "insert":
            return "INSERT"
        return " ".join(part for part in (self.kind.upper(), where, self.form.upper()) if part)


@dataclass(frozen=True)
class Envelope:
    """How rows say what changed: ``kind`` is "none", or a decoder of ``altneu.cdc`` with spaces in its name."""

    kind: str = "none"
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class CreateSource(Creation):
    """``CREATE SOURCE``, and with ``table`` ``CREATE TABLE``.

    ``columns`` are those of the source, ``raw`` those of its rows before they are decoded, both as DDL; ``times`` pairs
    of an expression (None: when the row comes) and the name of a time. With ``static`` its first rows close it, with
    ``append_only`` none is retracted. A table's columns may have ``defaults`` and ``comments``, and under "" it has one
    itself; or it has the columns and first the rows of a ``query``.
    """

    columns: str | None = None
    origin: Origin = Origin()
    envelope: Envelope = Envelope()
    raw: str | None = None
    times: tuple[tuple[str | None, str], ...] = ()
    diff: str | None = None
    keep: bool = False
    options: Options = field(default_factory=dict)
    table: bool = False
    static: bool = False
    append_only: bool = False
    defaults: Mapping[str, exp.Expr] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)
    properties: Options = field(default_factory=dict)
    query: exp.Expr | None = None


@dataclass(frozen=True)
class CreateView(Creation):
    """``CREATE [MATERIALIZED] VIEW``.

    ``types`` are those that some ``columns`` must have, as DDL by name, with NOT NULL; ``comments`` what is said of
    some, and under "" of the view; ``properties`` those of TBLPROPERTIES. A ``temporary`` one is not stored.
    """

    query: exp.Expr
    columns: tuple[str, ...] = ()
    materialized: bool = False
    options: Options = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    comments: Mapping[str, str] = field(default_factory=dict)
    properties: Options = field(default_factory=dict)
    temporary: bool = False


@dataclass(frozen=True)
class CreateIndex(Creation):
    """``CREATE INDEX name ON of (columns)``."""

    of: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class CreateSink(Creation):
    """``CREATE SINK name FROM view INTO …``; ``kind`` is "parquet", "delta", "iceberg", "jdbc" or "sqlite"."""

    view: str
    kind: str
    place: str
    table: str | None = None
    mode: str | None = None
    key: tuple[str, ...] = ()
    connection: Options = field(default_factory=dict)
    options: Options = field(default_factory=dict)


@dataclass(frozen=True)
class CreateFunction(Creation):
    """``CREATE FUNCTION name(parameters) RETURNS type RETURN expression | LANGUAGE PYTHON AS $$ … $$``.

    Its ``name`` ends in ``()``, so that a table may have the name as well. ``parameters`` have a name, a type as DDL,
    and perhaps a default. ``body`` is an expression, or a text in Python. A ``temporary`` one is not stored.
    """

    parameters: tuple[tuple[str, str, exp.Expr | None], ...]
    returns: str | None
    body: exp.Expr | str
    temporary: bool = False


@dataclass(frozen=True)
class CreateSchema(Creation):
    """``CREATE SCHEMA name [COMMENT 'text'] [WITH DBPROPERTIES (…)]``.

    Its ``name`` ends in a dot, as the names begin that are in it. ``comments`` has one under "".
    """

    comments: Mapping[str, str] = field(default_factory=dict)
    properties: Options = field(default_factory=dict)


@dataclass(frozen=True)
class Comment(Statement):
    """``COMMENT ON kind name IS 'text' | NULL``; of a ``column``, without a kind."""

    kind: Kind | None
    name: str
    column: str | None
    text_of: str | None


@dataclass(frozen=True)
class Use(Statement):
    """``USE [SCHEMA] name``: the catalog and the schema of names that do not say them."""

    path: tuple[str, str]


@dataclass(frozen=True)
class Drop(Statement):
    """``DROP kind [IF EXISTS] name [CASCADE]``."""

    kind: Kind
    name: str
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True)
class AddColumn:
    """``ADD COLUMN [IF NOT EXISTS] name type [NOT NULL] [DEFAULT value]``; ``columns`` are names and types, as DDL."""

    columns: str
    default: exp.Expr | None = None
    unless: bool = False


@dataclass(frozen=True)
class DropColumn:
    """``DROP COLUMN [IF EXISTS] name``."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    """``RENAME COLUMN name TO name``."""

    name: str
    to: str


@dataclass(frozen=True)
class WidenColumn:
    """``ALTER COLUMN name TYPE type``."""

    name: str
    type: str


Change = AddColumn | DropColumn | RenameColumn | WidenColumn


@dataclass(frozen=True)
class Alter(Statement):
    """``ALTER TABLE name`` or ``ALTER SOURCE name``, and what changes of its columns."""

    kind: Kind
    name: str
    change: Change


# queries --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Select(Statement):
    """A query that is answered once; ``at`` is the time of ``AS OF``, a tuple where a view has several."""

    query: exp.Expr
    at: int | tuple[int | None, ...] | None = None


@dataclass(frozen=True)
class Show(Statement):
    """``SHOW what [FROM name]``; ``like`` is a pattern of names.

    Of lists ``name`` is what their names begin with: the schema and a dot, or nothing for those without one.
    """

    what: str
    name: str | None = None
    like: str | None = None


@dataclass(frozen=True)
class Describe(Statement):
    """``DESCRIBE [EXTENDED] name [column]``, or of a query: the columns and their types."""

    name: str | None
    query: exp.Expr | None
    column: str | None = None
    extended: bool = False


@dataclass(frozen=True)
class Explain(Statement):
    """``EXPLAIN`` of a view by name, or of a query; ``ANALYZE`` adds measurements."""

    name: str | None
    query: exp.Expr | None
    analyze: bool = False
    form: Form = "text"


@dataclass(frozen=True)
class Subscribe(Statement):
    """``SUBSCRIBE [TO] view | (query)``."""

    name: str | None
    query: exp.Expr | None
    as_of: int | None = None
    up_to: int | None = None
    snapshot: bool | None = None
    progress: bool = False
    envelope: str = "none"
    key: tuple[str, ...] = ()


# actions --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Insert(Statement):
    """``INSERT INTO table [(columns) | BY NAME] query``; the rows replace all others, or those ``instead`` of which.

    With ``overwrite`` they replace all, with ``instead`` those that meet it.
    """

    name: str
    columns: tuple[str, ...]
    query: exp.Expr
    overwrite: bool = False
    by_name: bool = False
    instead: exp.Expr | None = None

    def within(self, common: exp.With) -> Self:
        """The statement whose query may read the names of a WITH before it."""
        query = self.query.copy()
        if own := query.args.get("with_"):
            common = common.copy()
            common.set("expressions", [*common.expressions, *own.expressions])
            common.set("recursive", common.recursive or own.recursive)
        query.set("with_", common)
        return replace(self, query=query)


MergeWhen = Literal["matched", "not matched", "not matched by source"]


@dataclass(frozen=True)
class MergeClause:
    """``WHEN …: [AND condition] THEN UPDATE | INSERT | DELETE``; without ``values`` ``*``: columns by their names."""

    when: MergeWhen
    condition: exp.Expr | None
    action: Literal["update", "insert", "delete"]
    values: tuple[tuple[str, exp.Expr], ...] | None = None


@dataclass(frozen=True)
class Merge(Statement):
    """``MERGE INTO table [AS alias] USING source ON condition WHEN …``; both sides as items of a FROM."""

    name: str
    target: exp.Expr
    source: exp.Expr
    on: exp.Expr
    clauses: tuple[MergeClause, ...]
    common: exp.With | None = None

    def within(self, common: exp.With) -> Self:
        """The statement whose source and conditions may read the names of a WITH before it."""
        return replace(self, common=common)

    def with_values(self, of: Callable[[str, exp.Expr], exp.Expr]) -> Self:
        """The statement with other values in the places of those that its clauses give columns."""
        clauses = [c if c.values is None else replace(c, values=_each(c.values, of)) for c in self.clauses]
        return replace(self, clauses=tuple(clauses))

    def select(self, item: exp.Expr | str) -> exp.Select:
        """A query of the source alone."""
        query = exp.select(item).from_(self.source.copy())
        query.set("with_", None if self.common is None else self.common.copy())
        return query

    @property
    def alias(self) -> str:
        """What the table is called in expressions."""
        return str(self.target.alias_or_name)


def _each(
    values: tuple[tuple[str, exp.Expr], ...], of: Callable[[str, exp.Expr], exp.Expr]
) -> tuple[tuple[str, exp.Expr], ...]:
    return tuple((name, of(name, tree)) for name, tree in values)


@dataclass(frozen=True)
class Truncate(Statement):
    """``TRUNCATE TABLE table``."""

    name: str


@dataclass(frozen=True)
class Delete(Statement):
    """``DELETE FROM table [AS alias] [WHERE condition]``."""

    name: str
    where: exp.Expr | None
    alias: str | None = None
    common: exp.With | None = None

    def within(self, common: exp.With) -> Self:
        """The statement whose condition may read the names of a WITH before it."""
        return replace(self, common=common)


@dataclass(frozen=True)
class Update(Statement):
    """``UPDATE table [AS alias] SET column = expression, … [WHERE condition]``."""

    name: str
    values: tuple[tuple[str, exp.Expr], ...]
    where: exp.Expr | None
    alias: str | None = None
    common: exp.With | None = None

    def within(self, common: exp.With) -> Self:
        """The statement whose values and condition may read the names of a WITH before it."""
        return replace(self, common=common)


@dataclass(frozen=True)
class Transaction(Statement):
    """``BEGIN``, ``COMMIT`` or ``ROLLBACK``."""

    word: Literal["BEGIN", "COMMIT", "ROLLBACK"]


@dataclass(frozen=True)
class Advance(Statement):
    """``ADVANCE [TO time] [EVENT time | EVENT (time, …)]``."""

    to: int | None = None
    event: int | tuple[int, ...] | None = None


@dataclass(frozen=True)
class Refresh(Statement):
    """``REFRESH [SOURCE] name``, or of all with ``REFRESH ALL``; with ``view`` of those below a materialized view."""

    name: str | None
    view: bool = False


@dataclass(frozen=True)
class Follow(Statement):
    """``FOLLOW`` of streams by name, or of all."""

    names: tuple[str, ...] = ()
    options: Options = field(default_factory=dict)
