"""The state of a session as it was before the step that is running, which other threads read meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

from altneu.columnar.immutable import immutable
from altneu.engine.frontier import Closed
from altneu.engine.reading import Known, Lock, StateOfViews
from altneu.order import Antichain
from altneu.plan.physical import ViewPorts
from altneu.runtime.state import FutureSummary
from altneu.trace.batch import Layout


class FrontierOf(Protocol):
    """The frontier of a view, if so much is closed and there are such future updates."""

    def __call__(self, name: str, closed: Closed, future: Mapping[tuple[str, int], FutureSummary]) -> Antichain:
        """The frontier of the view of this name."""


@immutable(frozen=True)
class Mark:
    """What there was when a step began: the states, as ``StateTable.mark`` names them, and the times of the session.

    ``retained`` are the frontier, and the least time and event time that can be read; ``closed`` says up to where rows'
    own times were closed, and which sources were.
    """

    states: tuple[Any, ...]
    layouts: Mapping[str, Layout]
    retained: tuple[int, int, int]
    began: int
    closed: tuple[tuple[int, ...], frozenset[str]]


class Before:
    """What views hold before a step; no view is added or dropped while it runs.

    States are immutable, and a step puts others in their places only when it commits, so they are named, not copied.

    Cost:   an entry for each arrangement and shard.
    """

    def __init__(self, engine: StateOfViews, mark: Mark, frontier_of: FrontierOf) -> None:
        self.lock: Lock = threading.RLock()
        self._engine, self._began, self.retained = engine, mark.began, mark.retained
        self.table = engine.table.as_of(mark.states, mark.layouts)
        closed = Closed(self.retained[0], *mark.closed)
        self._frontier = partial(frontier_of, closed=closed, future=self.table.future)

    def ports(self, name: str) -> ViewPorts:
        """Where a view's contents and errors are kept."""
        return self._engine.ports(name)

    def arrangements(self, name: str) -> tuple[str, ...]:
        """The arrangements that have all rows of a view, its contents first."""
        return tuple(self._engine.arrangements(name))

    def known(self, name: str) -> Known:
        """The times at which a view can be read, and what its errors say."""
        lower, _, events = self.retained
        frontier = partial(self._frontier, name)
        return replace(self._engine.known(name), lower=lower, began=self._began, events=events, frontier=frontier)
