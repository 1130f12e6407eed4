"""Starting what is defined: views and indexes are maintained from then on, and sinks follow their views."""

from __future__ import annotations

from typing import Any

from altneu.collections.collection import Collection
from altneu.engine.engine import Engine
from altneu.errors import StorePlanError
from altneu.sql.statements.binder import DefinitionBinder
from altneu.sql.statements.defined import Defined, Definitions
from altneu.sql.statements.feeding import Feeds
from altneu.sql.statements.targets import sink_of
from altneu.sql.statements.tree import CreateIndex, CreateSink, CreateSource, CreateView
from altneu.views.view import View


class Starter:
    """Starts definitions over an engine."""

    def __init__(self, engine: Engine, known: Definitions, binder: DefinitionBinder, feeds: Feeds) -> None:
        self._engine, self._known, self._binder, self._feeds = engine, known, binder, feeds

    def put(self, defined: Defined) -> None:
        """Bind a new definition and start it, in the commit that records it."""
        self._binder.bind(defined)
        if not defined.is_stored:
            self._known.put(defined)
            return
        with self._engine.defining({defined.name.lower(): defined.to_json()}):
            self.start(defined)
        self._known.put(defined)
        self._feeds.insert()

    def start(self, defined: Defined) -> None:
        """Maintain what a bound definition is of: its view or index, or attach its sink."""
        statement, engine = defined.statement, self._engine
        if isinstance(statement, CreateSink):
            view = View(engine, self._binder.maintained(statement.view, "CREATE SINK"))
            defined.attached = sink_of(statement, view, engine.spark).attach()
        elif isinstance(statement, CreateIndex):
            indexed = self._binder.indexed(defined)
            try:
                engine.maintain(defined.name, indexed)
            except StorePlanError:  # a session ended after what it is of was redefined, and before it was
                self.index_again(defined)
        elif isinstance(statement, CreateView) and statement.materialized:
            assert defined.collection is not None
            self.maintain(defined.name, defined.collection, statement)
        elif isinstance(statement, CreateSource) and statement.keep:
            assert defined.collection is not None
            engine.maintain(defined.name, defined.collection)
        else:
            return
        defined.view = None if isinstance(statement, CreateSink) else defined.name

    def maintain(self, name: str, collection: Collection, statement: CreateView) -> None:
        """Maintain a view under a name, with the options of its statement."""
        options: dict[str, Any] = {"joins": str(statement.options.get("JOINS", "auto")).lower()}
        options["strict"] = bool(statement.options.get("STRICT", False))
        retain = statement.options.get("RETAIN")
        options["retain"] = retain.lower() if isinstance(retain, str) else retain
        options["refresh"] = in_lower_case(statement.options.get("REFRESH"))
        self._engine.maintain(name, collection, **options, contents=statement.options.get("CONTENTS", True))

    def index_again(self, defined: Defined) -> None:
        """Arrange what an indexed view is made of now."""
        self._engine.drop(defined.name)
        self._engine.maintain(defined.name, self._binder.indexed(defined))


def in_lower_case(word: Any) -> Any:
    """A word of an option in lower case."""
    return word.lower() if isinstance(word, str) else word
