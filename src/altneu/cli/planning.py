"""Sessions that only plan: they take no rows in and write nothing, so that EXPLAIN costs what planning costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from altneu.engine.engine import Engine
from altneu.session import Session, session_over
from altneu.sql.statements import parse
from altneu.sql.statements.tree import CreateSink, Creation, Drop, Use
from altneu.store import Folder, Location, Store, StoreReader

if TYPE_CHECKING:
    from altneu.sql.statements.tree import Statement


class Planned(Engine):
    """An engine in memory for definitions alone; what files and tables have is not read."""

    @property
    def sources_filled(self) -> frozenset[str]:
        """All of them: none is to be filled."""
        return frozenset(self.sources)


class Beside(Planned):
    """An engine upon one commit of a store that another process may be writing: it knows its views, and keeps nothing.

    What SQL has defined is taken up, but sinks are left alone; of views that Python has defined nothing tells the plan.
    """

    def __init__(self, folder: Folder) -> None:
        self._reader = StoreReader(folder)
        try:
            super().__init__(path=folder)
        except BaseException:
            self._reader.close()
            raise

    def _open_store(self, path: Location | None, storage_options: Mapping[str, Any], *, recover: bool) -> Store:
        return self._reader.snapshot

    @property
    def definitions(self) -> Mapping[str, Any]:
        """What statements have defined, without sinks."""
        return {name: definition for name, definition in super().definitions.items() if definition["kind"] != "SINK"}

    @property
    def views_stored(self) -> list[str]:
        """Names of the views that the store has, without those that the writer's own queries have just now."""
        return [name for name in super().views_stored if not name.startswith("#")]

    def close(self) -> None:
        """Let go of the store."""
        super().close()
        self._reader.close()


def planned() -> Session:
    """A session that only plans."""
    return session_over(Planned())


def define(session: Session, text: str) -> list[Statement]:
    """Do the statements of a text that define something; those that are left out.

    Sinks are left out too: they write files and tables.
    """
    left = []
    statements = session.statements
    for statement in parse(text):
        if isinstance(statement, Creation | Drop | Use) and not isinstance(statement, CreateSink):
            statements.run(statement.text)
        else:
            left.append(statement)
    return left
