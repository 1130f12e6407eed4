"""CREATE and DROP, and the restoring of the definitions of a store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
from sqlglot import exp

from altneu import sql
from altneu.collections.collection import Collection
from altneu.engine.columns import change_columns
from altneu.engine.engine import Engine
from altneu.engine.reading import Time
from altneu.engine.redefine import alike, redefine
from altneu.errors import AltneuError, StatementError, StorePlanError
from altneu.linear.user_function import UserFunction
from altneu.plan.rewrite import Joins
from altneu.sql.functions import SqlFunction, check_name
from altneu.sql.queries import unarranged
from altneu.sql.statements.altering import altered, defaults_of, reading_anew, versions_of
from altneu.sql.statements.assigning import check_types
from altneu.sql.statements.defined import Defined, Definitions, columns_named, function_of, same, schema_of, shown_name
from altneu.sql.statements.feeding import Feeds
from altneu.sql.statements.files import check_files
from altneu.sql.statements.origins import collection_of, columns_of, frame_of, needs_spark, rows_of, table_of
from altneu.sql.statements.targets import sink_of
from altneu.sql.statements.tree import (
    TABLES,
    Alter,
    Change,
    Comment,
    CreateFunction,
    CreateIndex,
    CreateSchema,
    CreateSink,
    CreateSource,
    CreateView,
    Creation,
    Drop,
    DropColumn,
    Kind,
    RenameColumn,
)
from altneu.streams import Streams, late_rows
from altneu.types import NULL, parse_schema, quote_name, to_ddl
from altneu.views.view import View

TEMPORARY = "#"  # views whose names begin so belong to a statement that has ended


class Definer:
    """Creates, drops and restores what statements define; each in one commit of the store."""

    def __init__(self, engine: Engine, streams: Streams, known: Definitions, feeds: Feeds) -> None:
        self._streams = streams
        self._engine, self.known, self._feeds = engine, known, feeds
        self._restored = False

    def bind(self, tree: exp.Expr) -> Collection:
        """A query's collection."""
        return sql.query(tree, self.known, self.known, within=self.known.within)

    def shown(self, tree: exp.Expr, at: Time = None) -> sql.Shown:
        """A query whose rows are shown, as they were at a time.

        Raises:
            StatementError: it reads a view that has no contents.
        """
        first = at[0] if isinstance(at, tuple) else at
        reading = self.known.reading(then=self._engine.lower - 1 if first is None else first)
        query = sql.shown(tree, reading, reading, within=reading.within)
        self.known.refuse_without_contents(reading.names_read)
        return query

    # what a store knows ---------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Restore the definitions of the store: each once, and again those that could not be restored."""
        definitions = sorted(self._engine.definitions.items(), key=lambda item: item[1]["order"])
        for key, value in definitions:
            existing = self.known.all.get(key)
            if existing is not None and existing.error is None:
                continue
            defined = Defined.from_json(value)
            self.known.put(defined)
            if defined.unfilled:  # CREATE TABLE … AS did not come to its end, so it has not happened
                self._drop(defined)
                continue
            try:
                self._restore(defined)
            except AltneuError as error:
                error.add_note(f"altneu: {defined.kind} {defined.name} of this store could not be restored")
                defined.error = error
        self._feeds.insert(noted=True)
        if not self._restored:
            self._restored = True
            for name in [n for n in self._engine.views_stored if n.startswith(TEMPORARY)]:
                self._engine.drop(name)

    def check(self) -> None:
        """Refuse to continue while a definition is not restored that a step would leave out.

        Raises:
            AltneuError: the reason for which it could not be restored.
        """
        for defined in self.known.all.values():
            if defined.error is not None and defined.kind in ("SINK", "INDEX", "MATERIALIZED VIEW", "TABLE", "SOURCE"):
                raise defined.error

    # create ---------------------------------------------------------------------------------------------------------

    def create(self, statement: Creation) -> str:
        """Execute a CREATE statement; returns a message.

        Raises:
            StatementError: the name is taken, or something that it reads does not exist.
        """
        kind = _kind_of(statement)
        if statement.name.startswith(TEMPORARY):
            raise StatementError(
                f"{statement.name!r}: names that begin with {TEMPORARY} are reserved for altneu; choose another"
            )
        if statement.name == "":
            return "SCHEMA default exists already"
        if kind == "FUNCTION":
            self._check_function(statement.name.removesuffix("()"))
        existing = self.known.get_defined(statement.name)
        if existing is not None and (message := self._is_there(existing, kind, statement)):
            return message
        replaced = None
        temporary = getattr(statement, "temporary", False)
        if existing is not None:
            if statement.unless:
                name = shown_name(existing.name)
                return f"{kind} {name} exists already, with another definition: {existing.statement.text}"
            if not statement.replace or existing.kind != kind:
                remedy = f"DROP {existing.kind} {shown_name(existing.name)}" + (
                    f", or CREATE OR REPLACE {kind}"
                    if existing.kind == kind and ("VIEW" in kind or kind == "FUNCTION")
                    else ""
                )
                raise StatementError(
                    f"{shown_name(existing.name)!r} is a {existing.kind} with another definition; {remedy}"
                )
            if existing.is_stored is temporary:
                raise StatementError(
                    f"{existing.name!r} is a {kind} {'of the store' if temporary else 'of this session alone'}; "
                    f"DROP {kind} {existing.name.removesuffix('()')} first, or choose another name"
                )
            replaced = existing
        elif statement.name in self._engine.collections and kind != "MATERIALIZED VIEW":
            raise StatementError(
                f"{statement.name!r} is a view or source that the program defines; choose another name"
            )
        defined = Defined(statement.name, kind, statement, self.known.next_order, path=self.known.path)
        if isinstance(statement, CreateSource):
            self._set_columns(defined, statement)
        if replaced is not None:
            self._replace(replaced, defined)
            return f"{kind} {defined.name} replaced"
        self._put(defined)
        return f"{kind} {shown_name(defined.name)} created"

    def _is_there(self, existing: Defined, kind: Kind, statement: Creation) -> str:
        """What is said if a definition is there already; empty if it is another one."""
        if existing.kind != kind or (existing.path != self.known.path and _reads_names(statement)):
            return ""
        message = f"{kind} {shown_name(existing.name)} exists already"
        if not same(existing.statement.text, statement.text):
            said = _but_for_restart(statement)
            if said is None or said != _but_for_restart(existing.statement):
                return ""
            existing.statement = statement  # in this session: RESTART is about one state of the store
            message += ", and takes RESTART"
        if existing.error is not None:
            raise existing.error
        return message

    def _set_columns(self, defined: Defined, statement: CreateSource) -> None:
        if statement.query is not None:
            statement = replace(statement, columns=self._columns_of(statement.name, statement.query))
            defined.unfilled = True
        defined.columns, defined.raw = columns_of(statement, self._engine.spark)
        self._check_origin(defined)
        defined.defaults = defaults_of(self._engine, defined, parse_schema(defined.columns))

    def _columns_of(self, name: str, query: exp.Expr) -> str:
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

    def fill(self, name: str, rows: Callable[[], pa.Table], step: Callable[[], object]) -> int | None:
        """Let a table that has just been created have the rows of its query, unless it has been filled before.

        The step that counts them is the commit by which it is there; the number of the rows, None if it was there.
        """
        defined = self.known.defined(name, "TABLE")
        if not defined.unfilled:
            return None
        try:
            first = rows()
            self._engine.insert(defined.name, first)
            defined.unfilled = False
            with self._engine.defining({defined.name.lower(): defined.to_json()}):
                step()
        except BaseException:
            if self._engine.definitions[defined.name.lower()].get("unfilled"):
                self._engine.discard(defined.name)
                self._drop(defined)
            raise
        return first.num_rows

    def _put(self, defined: Defined) -> None:
        self._bind(defined)
        if not defined.is_stored:
            self.known.put(defined)
            return
        with self._engine.defining({defined.name.lower(): defined.to_json()}):
            self._start(defined)
        self.known.put(defined)
        self._feeds.insert()

    def _check_origin(self, defined: Defined) -> None:
        """Refuse at once an origin that cannot be read."""
        statement = defined.stated(CreateSource)
        if statement.origin.kind == "insert":
            return
        if statement.origin.kind in TABLES:
            table_of(statement).schema()
        elif self._engine.spark is not None:
            frame_of(statement, defined.raw, self._engine.spark)
        elif statement.origin.kind == "file":
            check_files(statement.origin)
        else:
            raise StatementError(needs_spark(statement))

    def _replace(self, old: Defined, new: Defined) -> None:
        """Replace a view, which stays if the new one cannot be computed; what reads it is defined anew with it.

        Materialized views go on with their rows, and the differences are changes at the next time. One that has other
        columns than before is another view: nothing may read it then.

        Raises:
            StatementError: it would read itself, or it has other columns and is read.
        """
        if new.kind == "FUNCTION":
            self._refuse_dependants(old, "is replaced")
            self._put(new)
            return
        collection = self._view(new)
        around = {old.name.lower(), *(d.name.lower() for d in self._with_dependants(old))} & {*new.depends}
        if around:
            raise StatementError(f"{new.kind} {new.name} would read itself, by {', '.join(sorted(around))}")
        if not new.is_stored:
            self._replace_temporary(old, new)
            return
        assert old.collection is not None
        goes_on = old.error is None and alike(old.collection.schema, collection.schema) and self._goes_on(old, new)
        if not goes_on:
            self._refuse_dependants(old, "is replaced by one with other columns or options,")
            self._replace_anew(old, new, collection)
            return
        new.view = old.view
        again = [new, *(d for d in reversed(self._with_dependants(old)) if d is not old)]
        self._redefine(old, new, again)

    def _replace_temporary(self, old: Defined, new: Defined) -> None:
        """Replace a view of this session alone, and bind those that read it anew."""
        known, order = dict(self.known.all), self.known.next_order
        try:
            for place, defined in enumerate([new, *(d for d in reversed(self._with_dependants(old)) if d is not old)]):
                one = replace(defined, order=order + place, collection=None)
                one.collection = self._view(one)
                self.known.all[one.name.lower()] = one
        except BaseException:
            self.known.all = known
            raise
        self.known.version += 1

    def _goes_on(self, old: Defined, new: Defined) -> bool:
        """Whether what a view keeps can be brought up to date."""
        before, now = old.stated(CreateView), new.stated(CreateView)
        if not before.materialized:
            return True
        contents = before.options.get("CONTENTS", True) and now.options.get("CONTENTS", True)
        return bool(contents) and not now.options.get("STRICT", False)

    def _redefine(self, old: Defined, new: Defined, again: list[Defined]) -> None:
        """Bind definitions anew, the first one instead of another, and maintain what they say now."""
        engine, known = self._engine, dict(self.known.all)
        order, bound = self.known.next_order, list[Defined]()
        try:
            for place, defined in enumerate(again):
                one = replace(defined, order=order + place, collection=None)
                self._bind_again(one)
                self.known.all[one.name.lower()] = one
                bound.append(one)
            views = {d.name: d.collection for d in bound if d.kind == "MATERIALIZED VIEW" and d.collection is not None}
            options = new.stated(CreateView).options
            with engine.defining({d.name.lower(): d.to_json() for d in bound if d.is_stored}):
                redefine(engine, views, str(options.get("JOINS", "auto")).lower())  # type: ignore[arg-type]
        except BaseException:
            if engine.definitions[old.name.lower()]["order"] == old.order:
                self.known.all = known
            raise
        self.known.version += 1
        for index in [d for d in bound if d.kind == "INDEX"]:
            self._index_again(index)
        if new.kind == "MATERIALIZED VIEW" and (retain := options.get("RETAIN")) is not None:
            engine.retain_view(new.name, "all" if isinstance(retain, str) else retain)
        if new.kind == "MATERIALIZED VIEW" and (refresh := options.get("REFRESH")) is not None:
            engine.refresh_view(new.name, _lower(refresh))
        self._feeds.insert()

    def redefine(self, name: str, collection: Collection, joins: Joins) -> None:
        """Give a view of the program another query; what statements define over it is defined anew with it.

        So are definitions of the store that the program has not restored, because they read this view.

        Raises:
            as ``redefine`` of the engine, and StatementError: a statement created it, or what reads it would have other
                columns.
        """
        engine = self._engine
        if not engine.catalogue.is_other(name, collection, joins):
            return
        self.restore()
        if (created := self.known.get_defined(name)) is not None:
            raise StatementError(
                f"{name!r} is a {created.kind} that a statement created; CREATE OR REPLACE {created.kind} gives it "
                "another query, or give this one another name"
            )
        known, order = dict(self.known.all), self.known.next_order
        above, bound = {name.lower()}, list[Defined]()
        self.known.replacing[name] = collection
        try:
            for defined in sorted(known.values(), key=lambda d: d.order):
                if defined.error is None and above.isdisjoint(defined.depends):
                    continue
                one = replace(defined, order=order + len(bound), collection=None, error=None)
                try:
                    (self._bind_again if defined.error is None else self._bind)(one)
                except AltneuError:
                    if defined.error is None:
                        raise
                    continue  # what could not be restored for another reason says it
                if above.isdisjoint(one.depends) or one.kind == "SINK":
                    continue  # a sink follows its view, by what that is called
                one.view = one.name if one.kind in ("MATERIALIZED VIEW", "INDEX") else None
                self.known.all[one.name.lower()] = one
                above.add(one.name.lower())
                bound.append(one)
            views = {d.name: d.collection for d in bound if d.kind == "MATERIALIZED VIEW" and d.collection is not None}
            with engine.defining({d.name.lower(): d.to_json() for d in bound if d.is_stored}):
                redefine(engine, {name: collection, **views}, joins)
        except BaseException:
            if not any(engine.definitions[d.name.lower()]["order"] == d.order for d in bound if d.is_stored):
                self.known.all = known
            raise
        finally:
            del self.known.replacing[name]
        self.known.version += 1
        for index in [d for d in bound if d.kind == "INDEX"]:
            self._index_again(index)

    def _bind_again(self, defined: Defined) -> None:
        """Bind a definition anew over what its names mean now; an index or a sink is of the same view as before."""
        if defined.kind in ("VIEW", "MATERIALIZED VIEW"):
            before = defined.collection
            defined.collection = self._view(defined)
            columns = self.known.all[defined.name.lower()].collection
            if columns is not None and not alike(columns.schema, defined.collection.schema):
                raise StatementError(
                    f"{defined.kind} {defined.name}, which reads it, would have other columns; DROP it first"
                )
            assert before is None

    def _index_again(self, defined: Defined) -> None:
        """Arrange what an indexed view is made of now."""
        self._engine.drop(defined.name)
        self._engine.maintain(defined.name, self._indexed(defined))

    def _replace_anew(self, old: Defined, new: Defined, collection: Collection) -> None:
        """Maintain another view in the place of one."""
        if new.kind == "VIEW":
            self._put(new)
            return
        while_new = f"{TEMPORARY}{new.name}"
        self._maintain(while_new, collection, new.stated(CreateView))
        self._engine.drop(old.view or old.name)
        self._put(new)
        self._engine.drop(while_new)

    def _restore(self, defined: Defined) -> None:
        """Restore a definition: bind it, and maintain its view, index or sink."""
        self._bind(defined)
        self._start(defined)

    def _bind(self, defined: Defined) -> None:
        statement = defined.statement
        if isinstance(statement, CreateSource):
            defined.collection = collection_of(statement, defined.columns, defined.raw)
            if statement.options.get("LATE") == "error":
                defined.late = late_rows(rows_of(statement, defined.raw))
        elif isinstance(statement, CreateView):
            defined.collection = self._view(defined)
        elif isinstance(statement, CreateIndex):
            self._indexed(defined)
        elif isinstance(statement, CreateFunction):
            defined.function = self._function(defined)
        elif isinstance(statement, CreateSink):
            self.maintained(statement.view, "CREATE SINK")
            defined.depends = (statement.view.lower(),)

    def _start(self, defined: Defined) -> None:
        statement, engine = defined.statement, self._engine
        if isinstance(statement, CreateSink):
            view = View(engine, self.maintained(statement.view, "CREATE SINK"))
            defined.attached = sink_of(statement, view, engine.spark).attach()
        elif isinstance(statement, CreateIndex):
            indexed = self._indexed(defined)
            try:
                engine.maintain(defined.name, indexed)
            except StorePlanError:  # a session ended after what it is of was redefined, and before it was
                self._index_again(defined)
        elif isinstance(statement, CreateView) and statement.materialized:
            assert defined.collection is not None
            self._maintain(defined.name, defined.collection, statement)
        elif isinstance(statement, CreateSource) and statement.keep:
            assert defined.collection is not None
            engine.maintain(defined.name, defined.collection)
        else:
            return
        defined.view = None if isinstance(statement, CreateSink) else defined.name

    def _view(self, defined: Defined) -> Collection:
        """A view's query, with the column names of the statement."""
        statement = defined.stated(CreateView)
        reading = self.known.reading(defined.indexes, defined.versions, path=defined.path)
        collection = unarranged(sql.query(statement.query, reading, reading, within=reading.within))
        defined.depends, defined.indexes = reading.names_read, reading.indexes_read
        self._refuse_temporary(defined)
        if defined.versions is None:
            defined.versions = reading.versions_read
        if statement.columns:
            if len(statement.columns) != len(collection.columns):
                raise StatementError(
                    f"view {statement.name!r} names {len(statement.columns)} columns, and its query has "
                    f"{len(collection.columns)}: {', '.join(collection.columns)}"
                )
            renamed = zip(statement.columns, collection.columns, strict=True)
            collection = collection.select(**{new: quote_name(old) for new, old in renamed})
        check_types(statement.name, statement.types, collection.schema)
        return collection

    def _refuse_temporary(self, defined: Defined) -> None:
        """Refuse to store what reads something that this session alone has.

        Raises:
            StatementError: naming it.
        """
        read = [self.known.all[name] for name in defined.depends if name in self.known.all]
        for one in read if defined.is_stored else []:
            if not one.is_stored:
                raise StatementError(
                    f"{defined.kind} {defined.name} is stored, and reads the temporary {one.kind} {one.name}, which is "
                    f"not: CREATE {one.kind} {one.name.removesuffix('()')} without TEMPORARY"
                )

    def _check_function(self, name: str) -> None:
        check_name(name)
        if name.lower() in self.known.registered:
            raise StatementError(f"{name!r} is a function that the program registers; choose another name")

    def _function(self, defined: Defined) -> UserFunction | SqlFunction:
        reading = self.known.reading()
        function = function_of(defined.stated(CreateFunction), reading)
        defined.depends = reading.names_read
        self._refuse_temporary(defined)
        return function

    def _maintain(self, name: str, collection: Collection, statement: CreateView) -> None:
        options: dict[str, Any] = {"joins": str(statement.options.get("JOINS", "auto")).lower()}
        options["strict"] = bool(statement.options.get("STRICT", False))
        retain = statement.options.get("RETAIN")
        options["retain"] = retain.lower() if isinstance(retain, str) else retain
        options["refresh"] = _lower(statement.options.get("REFRESH"))
        self._engine.maintain(name, collection, **options, contents=statement.options.get("CONTENTS", True))

    def _indexed(self, defined: Defined) -> Collection:
        """What an index arranges."""
        statement = defined.stated(CreateIndex)
        plain = self.known.reading({}, defined.versions)
        if statement.of not in plain:
            raise StatementError(
                f"cannot index {statement.of!r}, which does not exist; there are: {', '.join(plain) or '(none)'}"
            )
        collection = plain[statement.of]
        defined.depends = plain.names_read
        self._refuse_temporary(defined)
        if defined.versions is None:
            defined.versions = plain.versions_read
        defined.arranged = collection.arrange_by(*columns_named(collection, defined.indexed))
        return defined.arranged

    def maintained(self, name: str, what: str) -> str:
        """The maintained view that a name stands for.

        Raises:
            StatementError: there is no such view.
        """
        defined = self.known.get_defined(name)
        if defined is None:
            if name in self._engine.views:
                return name
            known = [d.view for d in self.known.all.values() if d.view is not None and d.kind != "INDEX"]
            views = dict.fromkeys([*known, *self._engine.views])
            raise StatementError(f"there is no view {name!r}; the maintained views are: {', '.join(views) or '(none)'}")
        if defined.error is not None:
            raise defined.error
        if defined.view is None or defined.kind == "INDEX":
            remedy = {
                "VIEW": f"CREATE MATERIALIZED VIEW stores its rows; {name} is only a name for a query",
                "SOURCE": f"CREATE SOURCE {name} … KEEP stores its rows",
            }.get(defined.kind, "name a materialized view, or a table")
            raise StatementError(f"{what} needs a maintained view, but {name!r} is a {defined.kind}: {remedy}")
        return defined.view

    # alter ----------------------------------------------------------------------------------------------------------

    def alter(self, statement: Alter) -> str:
        """Execute an ALTER statement; returns a message.

        Raises:
            StatementError: there is no such source, or what changes is read.
        """
        defined = self.known.defined(statement.name, statement.kind)
        if defined.error is not None:
            raise defined.error
        done = defined.altered[defined.repeated :]
        if done and same(done[0], statement.text):
            defined.repeated += 1
            return f"{defined.kind} {defined.name} is altered so already"
        changed = altered(self._engine, self.known, defined, statement)
        if changed is None:
            return f"{defined.kind} {defined.name} has these columns already"
        versions, again = changed
        if sinks := [d.name for d in self.known.dependants(defined.name) if d.kind == "SINK"]:
            raise StatementError(
                f"{defined.kind} {defined.name} has the sink(s) {', '.join(sinks)}, whose target has its columns: DROP "
                "SINK first, and CREATE it again into a target with the new columns"
            )
        known, was = dict(self.known.all), self._engine.catalogue.versions.get(defined.name)
        was = was or versions_of(self._engine, defined)
        before = defined.columns, defined.raw, defined.collection, defined.altered, defined.told
        defined.told = _told(defined, statement.change)
        defined.columns = defined.raw = to_ddl(versions.present.schema)
        defined.altered = (*defined.altered, statement.text)
        try:
            self._bind(defined)
            assert defined.collection is not None
            views = {} if defined.view is None else {defined.view: defined.collection}
            self.known.changed = {defined.name: versions}
            for reader in again:
                views |= self._bind_wider(reading_anew(reader, defined, was, versions))
            told = [defined, *(self.known.all[reader.name.lower()] for reader in again)]
            with self._engine.defining({d.name.lower(): d.to_json() for d in told if d.is_stored}):
                change_columns(self._engine, defined.name, versions, views)
        except BaseException:
            stored = self._engine.definitions[defined.name.lower()]
            if stored.get("columns") != defined.columns:
                defined.columns, defined.raw, defined.collection, defined.altered, defined.told = before
                self.known.all = known
            raise
        finally:
            self.known.changed = {}
        defined.repeated = len(defined.altered)
        self.known.put(defined)
        return f"{defined.kind} {defined.name} altered"

    def _bind_wider(self, defined: Defined) -> dict[str, Collection]:
        """Bind what reads a column that has a wider type; its view, if it is maintained, and what that is then.

        Raises:
            StatementError: its columns have other types then, and a sink has its rows.
        """
        before = self.known.all[defined.name.lower()].collection
        self.known.all[defined.name.lower()] = defined
        if defined.kind == "INDEX":
            return {defined.name: self._indexed(defined)}
        defined.collection = self._view(defined)
        sinks = [d.name for d in self.known.dependants(defined.name) if d.kind == "SINK"]
        if sinks and before is not None and not alike(before.schema, defined.collection.schema):
            raise StatementError(
                f"{defined.kind} {defined.name} would have wider columns, which the target of the sink(s) "
                f"{', '.join(sinks)} does not have: DROP SINK first, and CREATE it again into another target"
            )
        return {} if defined.view is None else {defined.view: defined.collection}

    def comment(self, statement: Comment) -> str:
        """Execute a COMMENT ON statement; returns a message.

        Raises:
            StatementError: there is no such definition.
            UnknownColumnError: it has no such column.
        """
        kinds: tuple[Kind, ...] = ("TABLE", "SOURCE", "VIEW", "MATERIALIZED VIEW")
        if statement.kind is not None:
            kinds = ("VIEW", "MATERIALIZED VIEW") if statement.kind == "VIEW" else (statement.kind,)
        if statement.name == "":
            raise StatementError("the schema default is not a definition, so it has no comment")
        defined, column = self.known.defined(statement.name, *kinds), statement.column
        if defined.error is not None:
            raise defined.error
        if column is not None:
            assert defined.collection is not None
            (column,) = columns_named(defined.collection, [column])
        told = dict(defined.told) | {"" if column is None else column.lower(): statement.text_of}
        self._tell(defined, told)
        return f"COMMENT ON {shown_name(defined.name)}" + ("" if column is None else f".{column}")

    def _tell(self, defined: Defined, told: dict[str, str | None]) -> None:
        """Let a definition have other comments."""
        if defined.is_stored:
            with self._engine.defining({defined.name.lower(): replace(defined, told=told).to_json()}):
                pass
        defined.told = told

    # drop -----------------------------------------------------------------------------------------------------------

    def drop(self, statement: Drop) -> str:
        """Drop a definition, with ``CASCADE`` also those that read it.

        Raises:
            StatementError: there is no such definition, or others read it.
        """
        if statement.kind == "SCHEMA":
            return self._drop_schema(statement)
        existing = self.known.get_defined(statement.name)
        if existing is None and statement.if_exists:
            return f"there is no {statement.kind} {statement.name}"
        if existing is None and statement.kind == "MATERIALIZED VIEW" and statement.name in self._engine.views_stored:
            return self._drop_of_program(statement)
        dropped = self.dropped(statement)
        for defined in dropped:
            self._drop(defined)
        return ", ".join(f"{d.kind} {d.name} dropped" for d in dropped)

    def _drop_schema(self, statement: Drop) -> str:
        """Drop a schema, with ``CASCADE`` also what is in it and reads that.

        Raises:
            StatementError: there is no such schema, it is the default one, or something is in it.
        """
        name = shown_name(statement.name)
        if statement.name.lower() not in self.known.schemas():
            if statement.if_exists:
                return f"there is no SCHEMA {name}"
            self.known.check_schema(statement.name)
        dropped = self.dropped(statement)
        for defined in dropped:
            self._drop(defined)
        return ", ".join(f"{d.kind} {shown_name(d.name)} dropped" for d in dropped) or f"SCHEMA {name} dropped"

    def _in_schema(self, statement: Drop) -> list[Defined]:
        """What is dropped with a schema, last first, and itself if it was created.

        Raises:
            StatementError: it is the default one, or something is in it and is not to be dropped.
        """
        name = shown_name(statement.name)
        if statement.name == "":
            raise StatementError("the schema default is always there")
        prefix, found = statement.name.lower(), dict[str, Defined]()
        inside = [d for n, d in self.known.all.items() if schema_of(n) == prefix and d.kind != "SCHEMA"]
        if inside and not statement.cascade:
            shown = ", ".join(f"{d.kind} {d.name}" for d in inside)
            raise StatementError(
                f"SCHEMA {name} has {shown}; drop these first, or DROP SCHEMA {name} CASCADE with all of them"
            )
        for defined in inside:
            found |= {d.name.lower(): d for d in self._with_dependants(defined)}
        own = self.known.get_defined(statement.name)
        return [*sorted(found.values(), key=lambda d: -d.order), *([own] if own is not None else [])]

    def _drop_of_program(self, statement: Drop) -> str:
        """Drop a view of the program, with ``CASCADE`` also the definitions that read it."""
        readers = self.known.dependants(statement.name)
        if readers and not statement.cascade:
            raise StatementError(_read_by(f"MATERIALIZED VIEW {statement.name}", "is dropped", readers))
        found = {d.name: d for reader in readers for d in self._with_dependants(reader)}
        above = sorted(found.values(), key=lambda d: -d.order)
        for defined in above:
            self._drop(defined)
        self._engine.drop(statement.name)
        dropped = [f"{d.kind} {d.name}" for d in above] + [f"MATERIALIZED VIEW {statement.name}"]
        return ", ".join(f"{one} dropped" for one in dropped)

    def dropped(self, statement: Drop) -> list[Defined]:
        """The definitions that a DROP removes, in order; none where there is no definition of that name.

        Raises:
            StatementError: it is of another kind, or others read it.
        """
        if statement.kind == "SCHEMA":
            dropped = self._in_schema(statement)
            for source in [d for d in dropped if d.kind in ("SOURCE", "TABLE")]:
                self._refuse_readers(source)
            return dropped
        defined = self.known.get_defined(statement.name)
        of_program = statement.kind == "MATERIALIZED VIEW" and statement.name in self._engine.views_stored
        if defined is None and (statement.if_exists or of_program):
            return []
        if defined is None or defined.kind != statement.kind:
            defined = self.known.defined(statement.name, statement.kind)
        if not statement.cascade:
            self._refuse_dependants(defined, "is dropped")
        dropped = self._with_dependants(defined)
        for source in [d for d in dropped if d.kind in ("SOURCE", "TABLE")]:
            self._refuse_readers(source)
        return dropped

    def _refuse_readers(self, source: Defined) -> None:
        """Refuse to drop a source that views of the program read, also those of the store that it has not maintained.

        Raises:
            StatementError: naming them.
        """
        engine, own = self._engine, {d.name for d in self.known.all.values()}
        views = [v for v in engine.catalogue.reading(source.name) if v not in own and not v.startswith(TEMPORARY)]
        if views:
            raise StatementError(
                f"{source.kind} {source.name} is read by {', '.join(map(repr, views))} of the program; "
                f"session.drop({views[0]!r}) first"
            )

    def _refuse_dependants(self, defined: Defined, what: str) -> None:
        dependants = self.known.dependants(defined.name)
        if dependants:
            raise StatementError(_read_by(f"{defined.kind} {defined.name}", what, dependants))

    def _with_dependants(self, first: Defined) -> list[Defined]:
        """The definitions that read a definition, last first, then itself."""
        reached = {first.name.lower(): first}
        todo = [first]
        while todo:
            for defined in self.known.dependants(todo.pop().name):
                if defined.name.lower() not in reached:
                    reached[defined.name.lower()] = defined
                    todo.append(defined)
        return sorted(reached.values(), key=lambda d: -d.order)

    def _drop(self, defined: Defined) -> None:
        if not defined.is_stored:
            self.known.remove(defined)
            return
        is_source = defined.kind in ("SOURCE", "TABLE")
        if is_source:
            self._feeds.stop(defined.name)
            self._engine.discard(defined.name)
            self._streams.forget(defined.name)
        if defined.attached is not None:
            defined.attached.close()
        if is_source and self._engine.is_backfilled(defined.name):
            self._engine.keep_no_more(defined.name)
        with self._engine.defining({defined.name.lower(): None}, [defined.name] if is_source else []):
            view = defined.view or (defined.name if defined.name in self._engine.views_stored else None)
            if view is not None and defined.kind not in ("VIEW", "SINK"):
                self._engine.drop(view)
        self.known.remove(defined)


def _read_by(name: str, what: str, readers: list[Defined]) -> str:
    shown = ", ".join(f"{d.kind} {d.name}" for d in readers)
    return f"{name} {what} while it is read by {shown}; drop these first, or DROP {name} CASCADE with all of them"


def _kind_of(statement: Creation) -> Kind:
    match statement:
        case CreateSource(table=table):
            return "TABLE" if table else "SOURCE"
        case CreateView(materialized=materialized):
            return "MATERIALIZED VIEW" if materialized else "VIEW"
        case CreateIndex():
            return "INDEX"
        case CreateFunction():
            return "FUNCTION"
        case CreateSchema():
            return "SCHEMA"
        case _:
            return "SINK"


def _told(defined: Defined, change: Change) -> dict[str, str | None]:
    """What is said of the columns of a source after a change of these."""
    told, comments = dict(defined.told), defined.comments
    if isinstance(change, DropColumn | RenameColumn) and change.name.lower() in comments:
        told[change.name.lower()] = None
        if isinstance(change, RenameColumn):
            told[change.to.lower()] = comments[change.name.lower()]
    return told


def _but_for_restart(statement: Creation) -> Creation | None:
    """What a statement says of a source that is followed, but for how it is restarted; None of any other."""
    if not isinstance(statement, CreateSource) or not statement.origin.is_followed:
        return None
    options = {name: value for name, value in statement.options.items() if name != "RESTART"}
    return replace(statement, text="", options=options)


def _reads_names(statement: Creation) -> bool:
    """Whether what a statement says depends on where it is written, beside its own name."""
    return not isinstance(statement, CreateSchema | CreateSource) or getattr(statement, "query", None) is not None


def _lower(word: Any) -> Any:
    """A word of an option in lower case."""
    return word.lower() if isinstance(word, str) else word
