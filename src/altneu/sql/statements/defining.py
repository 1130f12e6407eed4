"""CREATE, and the restoring of the definitions of a store.

The modules below this one say what a definition means (``binder``), start it (``starting``), replace it (``replacing``)
and drop it (``dropping``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.engine.engine import Engine
from altneu.errors import AltneuError, StatementError
from altneu.plan.rewrite import Joins
from altneu.sql.functions import check_name
from altneu.sql.statements.altering import defaults_of
from altneu.sql.statements.binder import DefinitionBinder
from altneu.sql.statements.defined import TEMPORARY, Defined, Definitions, same, shown_name
from altneu.sql.statements.dropping import Dropper
from altneu.sql.statements.feeding import Feeds
from altneu.sql.statements.files import check_files
from altneu.sql.statements.origins import columns_of, frame_of, needs_spark, table_of
from altneu.sql.statements.replacing import Replacer
from altneu.sql.statements.starting import Starter
from altneu.sql.statements.tree import (
    TABLES,
    CreateFunction,
    CreateIndex,
    CreateSchema,
    CreateSource,
    CreateView,
    Creation,
    Kind,
)
from altneu.types import parse_schema


class Definer:
    """Creates and restores what statements define; each in one commit of the store."""

    def __init__(
        self, engine: Engine, known: Definitions, binder: DefinitionBinder, dropper: Dropper, feeds: Feeds
    ) -> None:
        self._engine, self.known, self._binder, self._dropper, self._feeds = engine, known, binder, dropper, feeds
        self._starter = Starter(engine, known, binder, feeds)
        self._replacer = Replacer(engine, known, binder, self._starter, feeds)
        self._restored = False

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
                self._dropper.remove(defined)
                continue
            try:
                self._binder.bind(defined)
                self._starter.start(defined)
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
            self._replacer.replace(replaced, defined)
            return f"{kind} {defined.name} replaced"
        self._put(defined)
        return f"{kind} {shown_name(defined.name)} created"

    def _put(self, defined: Defined) -> None:
        """Start a new definition; one by which rows that cannot be read would be read is not there afterwards.

        If it stayed, every later statement would read these rows first, and fail.
        """
        try:
            self._starter.put(defined)
        except BaseException:
            if self.known.all.get(defined.name.lower()) is defined:
                self._dropper.remove(defined)
            raise

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
            statement = replace(statement, columns=self._binder.columns_of(statement.name, statement.query))
            defined.unfilled = True
        defined.columns, defined.raw = columns_of(statement, self._engine.spark)
        self._check_origin(defined)
        defined.defaults = defaults_of(self._engine, defined, parse_schema(defined.columns))

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
                self._dropper.remove(defined)
            raise
        return first.num_rows

    def redefine(self, name: str, collection: Collection, joins: Joins) -> None:
        """Give a view of the program another query; what statements define over it is defined anew with it.

        So are definitions of the store that the program has not restored, because they read this view.

        Raises:
            as ``Replacer.redefine``.
        """
        if self._engine.catalogue.planner.is_other(name, collection, joins):
            self.restore()
            self._replacer.redefine(name, collection, joins)

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

    def _check_function(self, name: str) -> None:
        check_name(name)
        if name.lower() in self.known.registered:
            raise StatementError(f"{name!r} is a function that the program registers; choose another name")


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


def _but_for_restart(statement: Creation) -> Creation | None:
    """What a statement says of a source that is followed, but for how it is restarted; None of any other."""
    if not isinstance(statement, CreateSource) or not statement.origin.is_followed:
        return None
    options = {name: value for name, value in statement.options.items() if name != "RESTART"}
    return replace(statement, text="", options=options)


def _reads_names(statement: Creation) -> bool:
    """Whether what a statement says depends on where it is written, beside its own name."""
    return not isinstance(statement, CreateSchema | CreateSource) or getattr(statement, "query", None) is not None
