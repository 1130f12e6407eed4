"""Rows that wait apart from those that the next step counts, as those of a transaction of statements do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from altneu.engine.engine import Engine
from altneu.errors import BeforeFrontierError
from altneu.order import Antichain
from altneu.runtime.inputs import Inputs, Stamp
from altneu.trace.update import Updates


class Aside:
    """What one transaction has inserted so far.

    Other threads, streams and the program go on inserting and taking steps meanwhile: none of these counts its rows.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rows = Inputs()

    @contextmanager
    def inserting(self) -> Iterator[None]:
        """Within it, what is inserted is added to these rows; nothing of it after an error. The caller has the lock."""
        others = self._engine.waiting()
        self._engine.wait_again(self._rows.and_more(Inputs()))
        try:
            yield
            self._rows = self._engine.waiting()
        finally:
            self._engine.wait_again(others)

    @property
    def sources(self) -> set[str]:
        """The sources that something was inserted into."""
        return self._rows.sources

    def count(self) -> None:
        """Let the next step count these rows, at the present time if theirs is closed.

        Raises:
            BeforeFrontierError: an event time of a row was closed in between.
        """
        others, rows = self._engine.waiting(), self._rows
        now = Inputs(
            {name: [self._as_of_now(name, part) for part in parts] for name, parts in rows.updates.items()},
            {name: [(frame, self._stamp(stamp)) for frame, stamp in parts] for name, parts in rows.frames.items()},
            rows.threads,
        )
        self._engine.wait_again(others.and_more(now))
        self._rows = Inputs()

    def _as_of_now(self, source: str, updates: Updates) -> Updates:
        lower, times = self._engine.lower, updates.times
        for own, least in enumerate(self._engine.closed.own, 1):
            if own < len(times) and (times[own] < least).any():
                raise BeforeFrontierError(
                    f"event time {int(times[own].min())} was closed since BEGIN: rows of {source!r} can be about "
                    f"{least} or later"
                )
        if not (times[0] < lower).any():
            return updates
        later = times.copy()
        later[0] = np.maximum(times[0], lower)
        return replace(updates, times=later)

    def _stamp(self, stamp: Stamp) -> Stamp:
        lower = self._engine.lower
        if isinstance(stamp.time, str) or stamp.time >= lower:
            return stamp
        return replace(stamp, time=lower, lower=Antichain.of(self._engine.lattice, lower))
