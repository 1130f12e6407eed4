"""A session as of a commit, which can be read while the session continues."""

from __future__ import annotations

import threading
from functools import cached_property

from altneu.engine.engine import Engine
from altneu.engine.reading import Known, least_readable
from altneu.plan import ir
from altneu.plan.physical import ViewPorts
from altneu.streams import Streams

TEMPORARY = "#"  # views of this beginning are a statement's own


class Snapshot:
    """What a session keeps as of a commit: the state of its views, from which contents and errors are read.

    States of arrangements are immutable, so a snapshot refers to them without copies. It is taken under the session's
    lock and read under its own, because reading opens states that it only names.

    Cost:   an entry for each arrangement and shard.
    """

    def __init__(self, engine: Engine, streams: Streams) -> None:
        journal, catalogue = engine.journal, engine.catalogue
        self.lock = threading.RLock()
        self.mark = mark_of(engine)
        self.lower, self.shards = journal.lower, engine.shards
        self.errors: dict[str, int] = {}  # of views, as they were counted
        self.plan, self.table = engine.plan, journal.table.copy()
        self.filled = frozenset(journal.filled)
        self.sources, self.place = dict(catalogue.sources), place_of(engine)
        self.streams = {name: (stream, stream.record) for name, stream in streams.followed.items()}
        self.since, self._events, self._began = journal.since, journal.events, journal.began
        self._nodes = {n: node for n, node in catalogue.nodes.items() if not n.startswith(TEMPORARY)}
        self._views = {n: least_readable(told, journal.since, journal.lower) for n, told in journal.views.items()}

    @property
    def views(self) -> list[str]:
        """Names of the views that are maintained."""
        return list(self._nodes)

    def ports(self, name: str) -> ViewPorts:
        """Where a view's contents and errors are kept.

        Raises:
            KeyError: there is no such view.
        """
        if name not in self._nodes:
            raise KeyError(name)
        return self.plan.views[name]

    def arrangements(self, name: str) -> tuple[str, ...]:
        """The arrangements that have all rows of a view, its contents first."""
        return self.plan.arrangements_alike(self.ports(name).contents)

    def coordinates(self, name: str) -> tuple[str, ...] | None:
        """What the two times of a view are called, None when it has one."""
        return ir.coordinates(self._nodes[name])

    def known(self, name: str) -> Known:
        """At which times a view can be read."""
        since, coordinates = self._views[name], self.coordinates(name)
        alike = max(since, self.since)
        return Known(name, self.lower, since, self._began, self._events, coordinates, "", alike=alike)

    @cached_property
    def sizes(self) -> dict[str, tuple[int, int]]:
        """Updates and bytes that each arrangement keeps."""
        with self.lock:
            return self.table.sizes()

    @property
    def retained(self) -> tuple[int, int]:
        """Updates and bytes that all arrangements keep together."""
        return sum(rows for rows, _ in self.sizes.values()), sum(size for _, size in self.sizes.values())


def place_of(engine: Engine) -> str:
    """Where a session's store is."""
    directory = engine.store.segment_directory
    return (
        directory.where().removesuffix("/segments") if engine.store.durable and directory is not None else "in memory"
    )


def mark_of(engine: Engine) -> tuple[object, ...]:
    """What is another one when a snapshot is out of date."""
    return engine.steps, engine.lower, engine.shards, tuple(engine.views)
