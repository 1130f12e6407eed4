"""What CREATE and DROP do, and how what a store knows is taken up again."""

from __future__ import annotations

from typing import Any

from sqlglot import exp

from altneu import sql
from altneu.collections.collection import Collection
from altneu.engine.engine import Engine
from altneu.errors import AltneuError, StatementError
from altneu.sql.statements.defined import Defined, Definitions, columns_named, same
from altneu.sql.statements.feeding import Feeds
from altneu.sql.statements.files import check_files
from altneu.sql.statements.origins import collection_of, columns_of, frame_of, needs_spark, rows_of
from altneu.sql.statements.targets import sink_of
from altneu.sql.statements.tree import CreateIndex, CreateSink, CreateSource, CreateView, Creation, Drop, Kind
from altneu.streams import Streams, late_rows
from altneu.types import quote_name
from altneu.views.view import View

TEMPORARY = "#"  # views of this beginning are of a statement that is gone


class Definer:
    """Makes, drops and takes up again what statements define; each in one commit of the store."""

    def __init__(self, engine: Engine, streams: Streams, known: Definitions, feeds: Feeds) -> None:
        self._streams = streams
        self._engine, self.known, self._feeds = engine, known, feeds
        self._restored = False

    def bind(self, tree: exp.Expr) -> Collection:
        """A query's collection."""
        return sql.query(tree, self.known)

    def shown(self, tree: exp.Expr) -> sql.Shown:
        """A query whose rows are shown.

        Raises:
            StatementError: it reads a view that has no contents.
        """
        reading = self.known.reading()
        found = sql.shown(tree, reading)
        self.known.refuse_without_contents(reading.names_read)
        return found

    # what a store knows ---------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Take up what the store knows and this session does not: once, and again what could not be taken up."""
        definitions = sorted(self._engine.definitions.items(), key=lambda item: item[1]["order"])
        for key, value in definitions:
            found = self.known.all.get(key)
            if found is not None and found.error is None:
                continue
            defined = Defined.from_json(value)
            self.known.put(defined)
            try:
                self._take_up(defined)
            except AltneuError as error:
                error.add_note(f"altneu: {defined.kind} {defined.name} of this store could not be taken up again")
                defined.error = error
        self._feeds.insert(noted=True)
        if not self._restored:
            self._restored = True
            for name in [n for n in self._engine.views_stored if n.startswith(TEMPORARY)]:
                self._engine.drop(name)

    def check(self) -> None:
        """Refuse to go on while something could not be taken up that a step would pass by.

        Raises:
            AltneuError: why it could not.
        """
        for defined in self.known.all.values():
            if defined.error is not None and defined.kind in ("SINK", "INDEX", "MATERIALIZED VIEW", "TABLE", "SOURCE"):
                raise defined.error

    # create ---------------------------------------------------------------------------------------------------------

    def create(self, statement: Creation) -> str:
        """Define what a statement says; what was done, in words.

        Raises:
            StatementError: the name is taken, or what it is made of is not there.
        """
        kind = _kind_of(statement)
        if statement.name.startswith(TEMPORARY):
            raise StatementError(
                f"{statement.name!r}: names that begin with {TEMPORARY} are of what passes; choose another"
            )
        found = self.known.get_defined(statement.name)
        if found is not None and found.kind == kind and same(found.statement.text, statement.text):
            if found.error is not None:
                raise found.error
            return f"{kind} {found.name} is there already"
        replaced = None
        if found is not None:
            if statement.unless:
                return f"{kind} {found.name} is there already, defined otherwise: {found.statement.text}"
            if not statement.replace or found.kind != kind:
                remedy = f"DROP {found.kind} {found.name}" + (
                    f", or CREATE OR REPLACE {kind}" if found.kind == kind and "VIEW" in kind else ""
                )
                raise StatementError(f"{found.name!r} is a {found.kind} with another definition; {remedy}")
            self._refuse_dependants(found, "is replaced")
            replaced = found
        elif statement.name in self._engine.collections and kind != "MATERIALIZED VIEW":
            raise StatementError(f"{statement.name!r} is a view or source of the program's; choose another name")
        defined = Defined(statement.name, kind, statement, self.known.next_order)
        if kind in ("SOURCE", "TABLE"):
            defined.columns, defined.raw = columns_of(statement, self._engine.spark)  # type: ignore[arg-type]
            self._check_origin(defined)
        if replaced is not None:
            self._replace(replaced, defined)
            return f"{kind} {defined.name} replaced"
        self._put(defined)
        return f"{kind} {defined.name} created"

    def _put(self, defined: Defined) -> None:
        self._mean(defined)
        with self._engine.defining({defined.name.lower(): defined.to_json()}):
            self._keep(defined)
        self.known.put(defined)
        self._feeds.insert()

    def _check_origin(self, defined: Defined) -> None:
        """Refuse at once what could not be read later."""
        statement: CreateSource = defined.statement
        if statement.origin.kind == "insert":
            return
        if self._engine.spark is not None:
            frame_of(statement, defined.raw, self._engine.spark)
        elif statement.origin.kind == "file":
            check_files(statement.origin)
        else:
            raise StatementError(needs_spark(statement))

    def _replace(self, old: Defined, new: Defined) -> None:
        """Put a view in the place of another, which stays if the new one cannot be computed."""
        collection = self._view(new)
        around = {old.name.lower(), *(d.name.lower() for d in self._with_dependants(old))} & {*new.depends}
        if around:
            raise StatementError(f"{new.kind} {new.name} would read itself, by {', '.join(sorted(around))}")
        if new.kind == "VIEW":
            self._put(new)
            return
        while_new = f"{TEMPORARY}{new.name}"
        self._maintain(while_new, collection, new.statement)
        self._engine.drop(old.view or old.name)
        self._put(new)
        self._engine.drop(while_new)

    def _take_up(self, defined: Defined) -> None:
        """Find what a definition means, and keep what it says."""
        self._mean(defined)
        self._keep(defined)

    def _mean(self, defined: Defined) -> None:
        statement = defined.statement
        if isinstance(statement, CreateSource):
            defined.collection = collection_of(statement, defined.columns, defined.raw)
            if statement.options.get("LATE") == "error":
                defined.late = late_rows(rows_of(statement, defined.raw))
        elif isinstance(statement, CreateView):
            defined.collection = self._view(defined)
        elif isinstance(statement, CreateSink):
            self.maintained(statement.view, "CREATE SINK")
            defined.depends = (statement.view.lower(),)

    def _keep(self, defined: Defined) -> None:
        statement, engine = defined.statement, self._engine
        if isinstance(statement, CreateSink):
            view = View(engine, self.maintained(statement.view, "CREATE SINK"))
            defined.attached = sink_of(statement, view, engine.spark).attach()
        elif isinstance(statement, CreateIndex):
            self._index(defined)
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
        """A view's query, its columns called as the statement says."""
        statement: CreateView = defined.statement
        reading = self.known.reading(defined.indexes)
        collection = sql.query(statement.query, reading)
        defined.depends, defined.indexes = reading.names_read, reading.indexes_read
        if statement.columns:
            if len(statement.columns) != len(collection.columns):
                raise StatementError(
                    f"view {statement.name!r} names {len(statement.columns)} columns, and its query has "
                    f"{len(collection.columns)}: {', '.join(collection.columns)}"
                )
            renamed = zip(statement.columns, collection.columns, strict=True)
            collection = collection.select(**{new: quote_name(old) for new, old in renamed})
        return collection

    def _maintain(self, name: str, collection: Collection, statement: CreateView) -> None:
        options: dict[str, Any] = {"joins": str(statement.options.get("JOINS", "auto")).lower()}
        options["strict"] = bool(statement.options.get("STRICT", False))
        self._engine.maintain(name, collection, **options, contents=statement.options.get("CONTENTS", True))

    def _index(self, defined: Defined) -> None:
        statement: CreateIndex = defined.statement
        plain = self.known.reading({})
        if statement.of not in plain:
            raise StatementError(
                f"cannot index {statement.of!r}, which does not exist; there are: {', '.join(plain) or '(none)'}"
            )
        collection = plain[statement.of]
        defined.depends = plain.names_read
        self._engine.maintain(defined.name, collection.arrange_by(*columns_named(collection, statement.columns)))

    def maintained(self, name: str, what: str) -> str:
        """The maintained view that a name stands for.

        Raises:
            StatementError: it stands for none.
        """
        found = self.known.get_defined(name)
        if found is None:
            if name in self._engine.views:
                return name
            known = [d.view for d in self.known.all.values() if d.view is not None and d.kind != "INDEX"]
            views = dict.fromkeys([*known, *self._engine.views])
            raise StatementError(f"there is no {name!r}; maintained are: {', '.join(views) or '(none)'}")
        if found.error is not None:
            raise found.error
        if found.view is None or found.kind == "INDEX":
            remedy = {
                "VIEW": f"CREATE MATERIALIZED VIEW keeps what it has; {name} is a name for a query",
                "SOURCE": f"CREATE SOURCE {name} … KEEP keeps its rows",
            }.get(found.kind, "name a materialized view, or a table")
            raise StatementError(f"{what} needs what is maintained, and {name!r} is a {found.kind}: {remedy}")
        return found.view

    # drop -----------------------------------------------------------------------------------------------------------

    def drop(self, statement: Drop) -> str:
        """Let go of a definition, with ``CASCADE`` of what is made of it too.

        Raises:
            StatementError: there is none, or something is made of it.
        """
        found = self.known.get_defined(statement.name)
        if found is None and statement.if_exists:
            return f"there is no {statement.kind} {statement.name}"
        if found is None and statement.kind == "MATERIALIZED VIEW" and statement.name in self._engine.views_stored:
            self._engine.drop(statement.name)
            return f"MATERIALIZED VIEW {statement.name} dropped"
        dropped = self.dropped(statement)
        for defined in dropped:
            self._let_go(defined)
        return ", ".join(f"{d.kind} {d.name} dropped" for d in dropped)

    def dropped(self, statement: Drop) -> list[Defined]:
        """What a DROP lets go of, in order; nothing where there is no definition of that name.

        Raises:
            StatementError: it is of another kind, or something is made of it.
        """
        found = self.known.get_defined(statement.name)
        of_program = statement.kind == "MATERIALIZED VIEW" and statement.name in self._engine.views_stored
        if found is None and (statement.if_exists or of_program):
            return []
        if found is None or found.kind != statement.kind:
            found = self.known.defined(statement.name, statement.kind)
        if not statement.cascade:
            self._refuse_dependants(found, "is dropped")
        return self._with_dependants(found)

    def _refuse_dependants(self, found: Defined, what: str) -> None:
        dependants = self.known.dependants(found.name)
        if dependants:
            shown = ", ".join(f"{d.kind} {d.name}" for d in dependants)
            raise StatementError(
                f"{found.kind} {found.name} {what} while it is read by {shown}; drop these first, "
                f"or DROP {found.kind} {found.name} CASCADE with all of them"
            )

    def _with_dependants(self, found: Defined) -> list[Defined]:
        """What is made of a definition, last first, then itself."""
        reached = {found.name.lower(): found}
        todo = [found]
        while todo:
            for defined in self.known.dependants(todo.pop().name):
                if defined.name.lower() not in reached:
                    reached[defined.name.lower()] = defined
                    todo.append(defined)
        return sorted(reached.values(), key=lambda d: -d.order)

    def _let_go(self, defined: Defined) -> None:
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


def _kind_of(statement: Creation) -> Kind:
    match statement:
        case CreateSource(table=table):
            return "TABLE" if table else "SOURCE"
        case CreateView(materialized=materialized):
            return "MATERIALIZED VIEW" if materialized else "VIEW"
        case CreateIndex():
            return "INDEX"
        case _:
            return "SINK"
