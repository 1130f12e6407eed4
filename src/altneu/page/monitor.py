"""The page's view of a session: its last snapshot, its last changes, and counts for Prometheus, updated by steps."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from altneu.engine.engine import Engine
from altneu.engine.history import Past
from altneu.errors import ReadError
from altneu.explain import Facts
from altneu.page.counts import Counts
from altneu.page.rows import Windows
from altneu.page.snapshot import Snapshot, mark_of
from altneu.sql.statements import Statements
from altneu.streams import Streams
from altneu.trace.update import Updates

STEPS_KEPT = 200  # of which the changes of a view are kept
CHANGES_KEPT = 500  # of a view in one step
WANTED = 60.0  # seconds after somebody has asked what operators did


@dataclass(frozen=True)
class Change:
    """The changes of a view in a step: ``total`` updates, the first of which are ``shown``."""

    past: Past
    total: int
    shown: Updates


class Monitor:
    """Follows a session; any thread may ask it.

    The session tells it after each step, under its lock. What happens outside of steps, as when a view is added, is
    found when somebody asks and the session is not busy.
    """

    def __init__(self, engine: Engine, streams: Streams, statements: Statements) -> None:
        self.engine, self.streams, self.statements = engine, streams, statements
        self.windows = Windows()
        self.registry = CollectorRegistry()
        self.counts = Counts(self.registry)
        self.started, self.trouble = time.time(), ""
        self.on_change: Callable[[], object] = _nothing
        self._changes: dict[str, deque[Change]] = {}
        self._seen = 0
        with engine.lock:
            self._snapshot, self._facts, self._in_use_until = Snapshot(engine, streams), engine.facts(), 0.0
            for past in engine.past.last():
                self.counts.step(past.step)
            self._seen = engine.past.count
            self._end = engine.past.listen(self._on_step)

    def close(self) -> None:
        """Hear nothing more of the session."""
        self._end()
        self.on_change = _nothing

    @property
    def snapshot(self) -> Snapshot:
        """The session as of its last commit, or, while it is busy, as of the one before."""
        if mark_of(self.engine) != self._snapshot.mark and self.engine.lock.acquire(blocking=False):
            try:
                self._snapshot = Snapshot(self.engine, self.streams)
            finally:
                self.engine.lock.release()
        return self._snapshot

    def facts(self) -> Facts:
        """What operators did, by the last step; steps tell it for a while after somebody has asked."""
        self._in_use_until = time.monotonic() + WANTED
        if self.engine.lock.acquire(blocking=False):
            try:
                self._facts = self.engine.facts()
            finally:
                self.engine.lock.release()
        return self._facts

    @contextmanager
    def locked(self, patience: float) -> Iterator[None]:
        """Have the session's lock inside.

        Raises:
            ReadError: it is still taken after so many seconds; says by what.
        """
        if not self.engine.lock.acquire(timeout=patience):
            doing = self.engine.past.doing
            what = "something else" if doing is None else f"{doing.text}, {doing.seconds:.0f} s so far"
            raise ReadError(f"the session is busy ({what}); waited {patience:.0f} s, ask again")
        try:
            yield
        finally:
            self.engine.lock.release()

    def changes(self, name: str) -> list[Change]:
        """The last changes of a view, the latest first."""
        return [*self._changes.get(name, ())][::-1]

    def _on_step(self) -> None:
        """A step has ended; the session waits for this, so that nothing that goes wrong here may reach it."""
        try:
            self._snapshot = Snapshot(self.engine, self.streams)
            if time.monotonic() < self._in_use_until:
                self._facts = self.engine.facts()
            for past in self.engine.past.last(1):
                if past.number != self._seen:
                    self._seen = past.number
                    self.counts.step(past.step)
                    self._note_changes(past)
            self.trouble = ""
        except Exception as error:  # noqa: BLE001  # shown on the page
            self.trouble = f"the changes of the last step could not be read: {type(error).__name__}: {error}"
        self.on_change()

    def _note_changes(self, past: Past) -> None:
        for name, total in past.step.changes_out.items():
            if not total or name not in self._snapshot.views:
                continue
            contained = self._snapshot.ports(name).contents
            layout = self._snapshot.table.layouts[contained]
            shown = self.engine.journal.first_outputs(contained, layout, CHANGES_KEPT)
            self._changes.setdefault(name, deque(maxlen=STEPS_KEPT)).append(Change(past, total, shown))


def _nothing() -> None:
    """Nobody is told."""
