"""DROP: a definition goes with its view, its rows and its stream, and with CASCADE what reads it."""

from __future__ import annotations

from altneu.engine.engine import Engine
from altneu.errors import StatementError
from altneu.sql.statements.defined import TEMPORARY, Defined, Definitions, read_by, schema_of, shown_name
from altneu.sql.statements.feeding import Feeds
from altneu.sql.statements.tree import Drop
from altneu.streams import Streams


class Dropper:
    """Drops definitions, each in one commit of the store."""

    def __init__(self, engine: Engine, streams: Streams, known: Definitions, feeds: Feeds) -> None:
        self._engine, self._streams, self._known, self._feeds = engine, streams, known, feeds

    def drop(self, statement: Drop) -> str:
        """Drop a definition, with ``CASCADE`` also those that read it.

        Raises:
            StatementError: there is no such definition, or others read it.
        """
        if statement.kind == "SCHEMA":
            return self._drop_schema(statement)
        existing = self._known.get_defined(statement.name)
        if existing is None and statement.if_exists:
            return f"there is no {statement.kind} {statement.name}"
        if existing is None and statement.kind == "MATERIALIZED VIEW" and statement.name in self._engine.views_stored:
            return self._drop_of_program(statement)
        dropped = self.dropped(statement)
        for defined in dropped:
            self.remove(defined)
        return ", ".join(f"{d.kind} {d.name} dropped" for d in dropped)

    def _drop_schema(self, statement: Drop) -> str:
        """Drop a schema, with ``CASCADE`` also what is in it and reads that.

        Raises:
            StatementError: there is no such schema, it is the default one, or something is in it.
        """
        name = shown_name(statement.name)
        if statement.name.lower() not in self._known.schemas():
            if statement.if_exists:
                return f"there is no SCHEMA {name}"
            self._known.check_schema(statement.name)
        dropped = self.dropped(statement)
        for defined in dropped:
            self.remove(defined)
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
        inside = [d for n, d in self._known.all.items() if schema_of(n) == prefix and d.kind != "SCHEMA"]
        if inside and not statement.cascade:
            shown = ", ".join(f"{d.kind} {d.name}" for d in inside)
            raise StatementError(
                f"SCHEMA {name} has {shown}; drop these first, or DROP SCHEMA {name} CASCADE with all of them"
            )
        for defined in inside:
            found |= {d.name.lower(): d for d in self._known.with_dependants(defined)}
        own = self._known.get_defined(statement.name)
        return [*sorted(found.values(), key=lambda d: -d.order), *([own] if own is not None else [])]

    def _drop_of_program(self, statement: Drop) -> str:
        """Drop a view of the program, with ``CASCADE`` also the definitions that read it."""
        readers = self._known.dependants(statement.name)
        if readers and not statement.cascade:
            raise StatementError(read_by(f"MATERIALIZED VIEW {statement.name}", "is dropped", readers))
        found = {d.name: d for reader in readers for d in self._known.with_dependants(reader)}
        above = sorted(found.values(), key=lambda d: -d.order)
        for defined in above:
            self.remove(defined)
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
        defined = self._known.get_defined(statement.name)
        of_program = statement.kind == "MATERIALIZED VIEW" and statement.name in self._engine.views_stored
        if defined is None and (statement.if_exists or of_program):
            return []
        if defined is None or defined.kind != statement.kind:
            defined = self._known.defined(statement.name, statement.kind)
        if not statement.cascade:
            self._known.refuse_dependants(defined, "is dropped")
        dropped = self._known.with_dependants(defined)
        for source in [d for d in dropped if d.kind in ("SOURCE", "TABLE")]:
            self._refuse_readers(source)
        return dropped

    def _refuse_readers(self, source: Defined) -> None:
        """Refuse to drop a source that views of the program read, also those of the store that it has not maintained.

        Raises:
            StatementError: naming them.
        """
        engine, own = self._engine, {d.name for d in self._known.all.values()}
        views = [v for v in engine.catalogue.reading(source.name) if v not in own and not v.startswith(TEMPORARY)]
        if views:
            raise StatementError(
                f"{source.kind} {source.name} is read by {', '.join(map(repr, views))} of the program; "
                f"session.drop({views[0]!r}) first"
            )

    def remove(self, defined: Defined) -> None:
        """Remove a definition, with its view and its rows, in one commit."""
        if not defined.is_stored:
            self._known.remove(defined)
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
        self._known.remove(defined)
