"""What CREATE and DROP do, and how what a store knows is taken up again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from altneu import sql
from altneu.collection import Collection
from altneu.errors import AltneuError, StatementError
from altneu.statements.defined import Defined, Definitions, same
from altneu.statements.feeding import Feeds
from altneu.statements.files import check_files
from altneu.statements.origins import collection_of, columns_of, frame_of
from altneu.statements.targets import sink_of
from altneu.statements.tree import CreateIndex, CreateSink, CreateSource, CreateView, Creation, Drop, Kind
from altneu.types import quote_name

if TYPE_CHECKING:
    from altneu.session import Session

TEMPORARY = "#"  # views of this beginning are of a statement that is gone


class Definer:
    """Makes, drops and takes up again what statements define; each in one commit of the store."""

    def __init__(self, session: Session, known: Definitions, feeds: Feeds) -> None:
        self._session, self.known, self._feeds = session, known, feeds
        self._restored = False

    def bind(self, tree: exp.Expr) -> tuple[Collection, tuple[str, ...]]:
        """A query's collection, and the definitions that it reads."""
        reading = self.known.reading()
        return sql.query(tree, reading), reading.names_read

    # what a store knows ---------------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Take up what the store knows and this session does not: once, and again what could not be taken up."""
        told = sorted(self._session.definitions.items(), key=lambda item: item[1]["order"])
        for key, value in told:
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
        if not self._restored:
            self._restored = True
            for name in [n for n in self._session.views_stored if n.startswith(TEMPORARY)]:
                self._session.drop(name)
            self._feeds.insert()

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
        kind = _KINDS[type(statement)](statement)
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
        elif statement.name in self._session.collections and kind != "MATERIALIZED VIEW":
            raise StatementError(f"{statement.name!r} is a view or source that the program maintains; choose another name")
        defined = Defined(statement.name, kind, statement, self.known.next_order)
        if kind in ("SOURCE", "TABLE"):
            defined.columns, defined.raw = columns_of(statement, self._session.spark)  # type: ignore[arg-type]
            self._check_origin(defined)
        if replaced is not None:
            self._replace(replaced, defined)
            return f"{kind} {defined.name} replaced"
        self._put(defined)
        return f"{kind} {defined.name} created"

    def _put(self, defined: Defined) -> None:
        with self._session.defining({defined.name.lower(): defined.to_json()}):
            self._take_up(defined)
        self.known.put(defined)
        self._feeds.insert()

    def _check_origin(self, defined: Defined) -> None:
        """Refuse at once what could not be read later."""
        statement: CreateSource = defined.statement
        if self._session.spark is not None and statement.origin.kind != "insert":
            frame_of(statement, defined.raw, self._session.spark)
        elif statement.origin.kind == "file":
            check_files(statement.origin)

    def _replace(self, old: Defined, new: Defined) -> None:
        """Put a view in the place of another, which stays if the new one cannot be computed."""
        if new.kind == "VIEW":
            self._put(new)
            return
        collection, new.depends = self._view(new.statement)
        while_new = f"{TEMPORARY}{new.name}"
        self._maintain(while_new, collection, new.statement)
        self._session.drop(old.view or old.name)
        self._put(new)
        self._session.drop(while_new)

    def _take_up(self, defined: Defined) -> None:
        _TAKE_UP[defined.kind](self, defined)

    def _source(self, defined: Defined) -> None:
        statement: CreateSource = defined.statement
        defined.collection = collection_of(statement, defined.columns, defined.raw)
        if statement.keep:
            defined.view = defined.name
            self._session.maintain(defined.name, defined.collection)

    def _plain_view(self, defined: Defined) -> None:
        defined.collection, defined.depends = self._view(defined.statement)

    def _materialized(self, defined: Defined) -> None:
        defined.collection, defined.depends = self._view(defined.statement)
        self._maintain(defined.name, defined.collection, defined.statement)
        defined.view = defined.name

    def _view(self, statement: CreateView) -> tuple[Collection, tuple[str, ...]]:
        """A view's query, its columns called as the statement says."""
        collection, depends = self.bind(statement.query)
        if statement.columns:
            if len(statement.columns) != len(collection.columns):
                raise StatementError(
                    f"view {statement.name!r} names {len(statement.columns)} columns, and its query has "
                    f"{len(collection.columns)}: {', '.join(collection.columns)}"
                )
            renamed = zip(statement.columns, collection.columns, strict=True)
            collection = collection.select(**{new: quote_name(old) for new, old in renamed})
        return collection, depends

    def _maintain(self, name: str, collection: Collection, statement: CreateView) -> None:
        joins = str(statement.options.get("JOINS", "auto")).lower()
        self._session.maintain(name, collection, strict=bool(statement.options.get("STRICT", False)), joins=joins)  # type: ignore[arg-type]

    def _index(self, defined: Defined) -> None:
        statement: CreateIndex = defined.statement
        of = self.known.reading()
        collection = of[statement.of] if statement.of in of else None
        if collection is None:
            raise StatementError(f"there is no {statement.of!r} to index; there are: {', '.join(of) or '(none)'}")
        defined.depends = of.names_read
        self._session.maintain(defined.name, collection.arrange_by(*statement.columns))
        defined.view = defined.name

    def _sink(self, defined: Defined) -> None:
        statement: CreateSink = defined.statement
        view = self.maintained(statement.view, "CREATE SINK")
        defined.depends = (statement.view.lower(),)
        defined.attached = sink_of(statement, self._session.view(view), self._session.spark).attach()

    def maintained(self, name: str, what: str) -> str:
        """The maintained view that a name stands for.

        Raises:
            StatementError: it stands for none.
        """
        found = self.known.get_defined(name)
        if found is None:
            if name in self._session.views:
                return name
            known = [d.view for d in self.known.all.values() if d.view is not None and d.kind != "INDEX"]
            views = dict.fromkeys([*known, *self._session.views])
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
        if found is None and statement.kind == "MATERIALIZED VIEW" and statement.name in self._session.views_stored:
            self._session.drop(statement.name)
            return f"MATERIALIZED VIEW {statement.name} dropped"
        if found is None or found.kind != statement.kind:
            found = self.known.defined(statement.name, statement.kind)
        if not statement.cascade:
            self._refuse_dependants(found, "is dropped")
        dropped = self._with_dependants(found)
        for defined in dropped:
            self._let_go(defined)
        return ", ".join(f"{d.kind} {d.name} dropped" for d in dropped)

    def _refuse_dependants(self, found: Defined, what: str) -> None:
        dependants = self.known.dependants(found.name)
        if dependants:
            shown = ", ".join(f"{d.kind} {d.name}" for d in dependants)
            cascade = f", or DROP {found.kind} {found.name} CASCADE with all of them"
            raise StatementError(f"{found.kind} {found.name} {what} while it is read by {shown}; drop these first{cascade}")

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
            self._session.discard(defined.name)
            self._session.streams.forget(defined.name)
        if defined.attached is not None:
            defined.attached.close()
        with self._session.defining({defined.name.lower(): None}, [defined.name] if is_source else []):
            view = defined.view or (defined.name if defined.name in self._session.views_stored else None)
            if view is not None and defined.kind not in ("VIEW", "SINK"):
                self._session.drop(view)
        self.known.remove(defined)


def _kind_of_source(statement: Any) -> Kind:
    return "TABLE" if statement.table else "SOURCE"


def _kind_of_view(statement: Any) -> Kind:
    return "MATERIALIZED VIEW" if statement.materialized else "VIEW"


def _kind_of_index(statement: Any) -> Kind:
    return "INDEX"


def _kind_of_sink(statement: Any) -> Kind:
    return "SINK"


_KINDS: dict[type[Creation], Callable[[Any], Kind]] = {
    CreateSource: _kind_of_source,
    CreateView: _kind_of_view,
    CreateIndex: _kind_of_index,
    CreateSink: _kind_of_sink,
}
_TAKE_UP: dict[Kind, Callable[[Definer, Defined], None]] = {
    "SOURCE": Definer._source,
    "TABLE": Definer._source,
    "VIEW": Definer._plain_view,
    "MATERIALIZED VIEW": Definer._materialized,
    "INDEX": Definer._index,
    "SINK": Definer._sink,
}
