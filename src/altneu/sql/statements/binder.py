"""What definitions mean: the queries of views, what indexes arrange, functions, and the views that sinks follow.

Binding reads the names that are known and notes in the definition what it depends on; it starts nothing.
"""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from altneu import sql
from altneu.collections.collection import Collection
from altneu.engine.engine import Engine
from altneu.engine.reading import Time
from altneu.errors import StatementError
from altneu.errors.nearest import listed
from altneu.linear.user_function import UserFunction
from altneu.sql.functions import SqlFunction
from altneu.sql.queries import unarranged
from altneu.sql.statements.assigning import check_types
from altneu.sql.statements.defined import Defined, Definitions, columns_named, function_of
from altneu.sql.statements.origins import collection_of, rows_of
from altneu.sql.statements.tree import CreateFunction, CreateIndex, CreateSink, CreateSource, CreateView
from altneu.streams import late_rows
from altneu.types import NULL, quote_name, to_ddl


class DefinitionBinder:
    """Binds queries and definitions to the names that a session knows."""

    def __init__(self, engine: Engine, known: Definitions) -> None:
        self._engine, self._known = engine, known

    def query(self, tree: exp.Expr) -> Collection:
        """A query's collection."""
        return sql.query(tree, self._known, self._known, within=self._known.within)

    def shown(self, tree: exp.Expr, at: Time = None) -> sql.Shown:
        """A query whose rows are shown, as they were at a time.

        Raises:
            StatementError: it reads a view that has no contents.
        """
        first = at[0] if isinstance(at, tuple) else at
        reading = self._known.reading(then=self._engine.lower - 1 if first is None else first)
        query = sql.shown(tree, reading, reading, within=reading.within)
        self._known.refuse_without_contents(reading.names_read)
        return query

    def columns_of(self, name: str, query: exp.Expr) -> str:
        """The columns of a query, as those of a table.

        Raises:
            StatementError: two have one name, or one has no type.
        """
        shown = self.shown(query)
        schema = shown.collection.schema
        fields = [schema.field(c).with_name(n) for c, n in zip(shown.columns, shown.names, strict=True)]
        for field in fields:
            if sum(f.name.lower() == field.name.lower() for f in fields) > 1:
                raise StatementError(f"table {name!r} would have the column {field.name!r} twice; name one AS another")
            if field.type == NULL:
                raise StatementError(f"column {field.name!r} of table {name!r} has no type; CAST it in the query")
        return to_ddl(pa.schema([f.with_nullable(True) for f in fields]))

    def bind(self, defined: Defined) -> None:
        """Set what a definition means: its collection, its function, or what it depends on."""
        statement = defined.statement
        if isinstance(statement, CreateSource):
            defined.collection = collection_of(statement, defined.columns, defined.raw)
            if statement.options.get("LATE") == "error":
                defined.late = late_rows(rows_of(statement, defined.raw))
        elif isinstance(statement, CreateView):
            defined.collection = self.view(defined)
        elif isinstance(statement, CreateIndex):
            self.indexed(defined)
        elif isinstance(statement, CreateFunction):
            defined.function = self._function(defined)
        elif isinstance(statement, CreateSink):
            self.maintained(statement.view, "CREATE SINK")
            defined.depends = (statement.view.lower(),)

    def view(self, defined: Defined) -> Collection:
        """A view's query, with the column names of the statement."""
        statement = defined.stated(CreateView)
        reading = self._known.reading(defined.indexes, defined.versions, path=defined.path)
        named = bool(statement.columns)
        found = sql.query(statement.query, reading, reading, within=reading.within, renamed=named)
        collection = unarranged(found)
        defined.depends, defined.indexes = reading.names_read, reading.indexes_read
        self._refuse_temporary(defined)
        if defined.versions is None:
            defined.versions = reading.versions_read
        if statement.columns:
            if len(statement.columns) != len(collection.columns):
                raise StatementError(
                    f"view {statement.name!r} names {len(statement.columns)} columns, and its query has "
                    f"{len(collection.columns)}"
                )
            renamed = zip(statement.columns, collection.columns, strict=True)
            collection = collection.select(**{new: quote_name(old) for new, old in renamed})
        check_types(statement.name, statement.types, collection.schema)
        return collection

    def indexed(self, defined: Defined) -> Collection:
        """What an index arranges."""
        statement = defined.stated(CreateIndex)
        plain = self._known.reading({}, defined.versions)
        if statement.of not in plain:
            raise StatementError(
                f"cannot index {statement.of!r}, which does not exist; there are: {listed(statement.of, plain)}"
            )
        collection = plain[statement.of]
        defined.depends = plain.names_read
        self._refuse_temporary(defined)
        if defined.versions is None:
            defined.versions = plain.versions_read
        defined.arranged = collection.arrange_by(*columns_named(collection, defined.indexed))
        return defined.arranged

    def _function(self, defined: Defined) -> UserFunction | SqlFunction:
        reading = self._known.reading()
        function = function_of(defined.stated(CreateFunction), reading)
        defined.depends = reading.names_read
        self._refuse_temporary(defined)
        return function

    def maintained(self, name: str, what: str) -> str:
        """The maintained view that a name stands for.

        Raises:
            StatementError: the store has no view of that name.
        """
        defined = self._known.get_defined(name)
        if defined is None:
            if name in self._engine.views:
                return name
            known = [d.view for d in self._known.all.values() if d.view is not None and d.kind != "INDEX"]
            views = dict.fromkeys([*known, *self._engine.views])
            raise StatementError(f"there is no view {name!r}; the maintained views are: {listed(name, views)}")
        if defined.error is not None:
            raise defined.error
        if defined.view is None or defined.kind == "INDEX":
            remedy = {
                "VIEW": f"CREATE MATERIALIZED VIEW stores its rows; {name} is only a name for a query",
                "SOURCE": f"CREATE SOURCE {name} … KEEP stores its rows",
            }.get(defined.kind, "name a materialized view, or a table")
            raise StatementError(f"{what} needs a maintained view, but {name!r} is a {defined.kind}: {remedy}")
        return defined.view

    def _refuse_temporary(self, defined: Defined) -> None:
        """Refuse to store what reads something that this session alone has.

        Raises:
            StatementError: naming it.
        """
        read = [self._known.all[name] for name in defined.depends if name in self._known.all]
        for one in read if defined.is_stored else []:
            if not one.is_stored:
                raise StatementError(
                    f"{defined.kind} {defined.name} is stored, and reads the temporary {one.kind} {one.name}, which is "
                    f"not: CREATE {one.kind} {one.name.removesuffix('()')} without TEMPORARY"
                )
