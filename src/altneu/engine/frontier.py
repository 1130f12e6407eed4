"""The times of sessions and views: from which on something may still change, and from which on they are retained."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Literal

import numpy as np

from altneu.engine.catalogue import Catalogue
from altneu.engine.reading import least_readable
from altneu.engine.subscribers import Subscribers
from altneu.errors import InputError, PlanError, TimeRangeError
from altneu.operators.base import Region
from altneu.order import LARGEST, Antichain, Epoch, Lattice, Product
from altneu.plan import ir
from altneu.runtime.inputs import whole_number
from altneu.runtime.journal import Journal
from altneu.runtime.state import FutureSummary
from altneu.store import least_since

_FRONTIERS = 16  # that are remembered


@dataclass(frozen=True)
class Closed:
    """What is closed for good: session times before ``lower``, rows' own times not at or beyond ``own``, some sources.

    Shape:  ``own`` is empty while none of rows' own times is closed.
    """

    lower: int
    own: tuple[int, ...] = ()
    sources: Collection[str] = ()

    def own_of(self, coordinates: int) -> tuple[int, ...]:
        """The least of rows' own times that are not closed, of a source with so many times; empty if none is closed."""
        return self.own if len(self.own) == coordinates - 1 else ()

    def at(self, coordinates: int) -> tuple[int, ...]:
        """The least time at which a source with so many times takes rows."""
        return self.lower, *(self.own_of(coordinates) or (0,) * (coordinates - 1))

    def frontier(self, coordinates: int) -> Antichain:
        """The times at which a source with so many times takes rows.

        >>> Closed(5, (3,)).frontier(2)
        Antichain({(5, 3)})
        """
        return Antichain(_times(coordinates), np.array(self.at(coordinates), np.int64)[:, None])

    def frontier_of(self, coordinates: int, sources: Mapping[str, int], waiting: Iterable[int]) -> Antichain:
        """The frontier of what has so many times and is computed from some sources, each with as many or one.

        An output has the join of times of the inputs that it comes from, so it is at or beyond one of those that are
        still to come: a source's, or that of an update that waits for its time in some state. Of what waits ``waiting``
        has the least session times, so that nothing is opened to tell; it may be about any event time.

        Law:    nothing changes at a time that is not at or beyond it (tests/oracle/test_closed_events.py).

        >>> Closed(5, (3,)).frontier_of(2, {"a": 2}, waiting=[7])
        Antichain({(5, 3), (7, 0)})
        >>> Closed(5, (3,)).frontier_of(2, {"a": 2, "b": 1}, waiting=[])
        Antichain({(5, 0)})
        >>> Closed(5, (3,), sources=["b"]).frontier_of(2, {"a": 2, "b": 1}, waiting=[])
        Antichain({(5, 3)})
        """
        least = [self.at(own) for name, own in sources.items() if name not in self.sources]
        least += [(max(time, self.lower),) for time in waiting]
        times = np.zeros((coordinates, len(least)), np.int64)
        for i, time in enumerate(least):
            times[: len(time), i] = time
        return Antichain(_times(coordinates), times)


class Times:
    """The times of a session: up to where they are closed, from where on they are retained, and those of a step."""

    def __init__(
        self,
        journal: Journal,
        catalogue: Catalogue,
        subscribers: Subscribers,
        lattice: Lattice,
        retain: int | Literal["all"] | None,
        retain_events: int | None,
    ) -> None:
        self._journal, self._catalogue, self._subscribers, self._lattice = journal, catalogue, subscribers, lattice
        self.retain, self.retain_events = retain, retain_events
        self._frontiers: dict[int, Antichain] = {}

    def region(self, lower: int, upper: int, since: int, events: int, compacted: int | None = None) -> Region:
        """The times of a step from ``lower`` up to ``upper``, and the times that are retained while it runs.

        ``compacted`` is the least that is retained after it, if that is another.
        """
        at = self.at
        first = at(lower)
        retained = first if since == lower else at(since)
        final = retained if compacted is None or compacted == since else at(compacted)
        after = since if compacted is None else compacted
        return Region(first, at(upper), retained, compacted=final, events=events, kept=self._kept(after, upper))

    def _kept(self, since: int, upper: int) -> dict[str, int] | None:
        """The arrangements of contents and errors that views retain longer than the session, and from when on."""
        kept: dict[str, int] = {}
        for name, view in self._journal.views.items():
            if "retain" in view and name in self._catalogue.plan.views:
                ports, least = self._catalogue.plan.views[name], least_readable(view, since, upper)
                kept |= {a: min(least, kept.get(a, least)) for a in (ports.contents, *ports.errors) if least < since}
        return kept or None

    def since_of_arrangements(self, names: Iterable[str]) -> int:
        """The least time at which all of these arrangements can be read."""
        since = self._journal.since
        kept = self._kept(since, self._journal.lower) or {}
        return max((kept.get(name, since) for name in names), default=since)

    def since_after(self, upper: int) -> int:
        """The least time that is retained after a step, for ``retain`` and for readers."""
        known = self._journal.since
        if self.retain == "all":
            return known
        since = upper - 1 - (self.retain or 0)
        for requested in (least_since(self._journal.store.leases()), self._subscribers.since):
            if requested is not None and requested < since:
                since = requested
        return max(known, since)

    def events_after(self, upper: int, own: tuple[int, ...]) -> int:
        """The least event time that is retained after a step, for ``retain_events``.

        It counts back from the last closed event time, and from the last closed time as long as none is closed.
        """
        known = self._journal.events
        return known if self.retain_events is None else max(known, (own[0] if own else upper) - 1 - self.retain_events)

    def since_of(self, name: str) -> int:
        """The least time at which a view can be read."""
        return least_readable(self._journal.views[name], self._journal.since, self._journal.lower)

    @property
    def closed(self) -> Closed:
        """What is closed for good: times, event times and sources."""
        journal = self._journal
        return Closed(journal.lower, journal.own, journal.closed)

    @property
    def open_times(self) -> Antichain:
        """The times at which sources take rows: pairs, if a source has two times."""
        return self.closed.frontier(len(self.names))

    def frontier_of(self, name: str, closed: Closed, future: Mapping[tuple[str, int], FutureSummary]) -> Antichain:
        """The times at which a view may change again, if so much is closed and there are such future updates."""
        self._catalogue.ports(name)
        theirs = {*self._catalogue.plan.arrangements_of(name)}
        waiting = [summary.least for (state, _), summary in future.items() if state in theirs]
        coordinates = self.coordinates(name) or ("time",)
        return closed.frontier_of(len(coordinates), self._catalogue.plan.sources_of(name), waiting)

    def coordinates(self, name: str) -> tuple[str, ...] | None:
        """The names of a view's two times; None if it has one."""
        self._catalogue.ports(name)
        return ir.coordinates(self._catalogue.nodes[name])

    def closing(self, event: int | tuple[int, ...]) -> tuple[int, ...]:
        """Up to where rows' own times are to be closed, checked.

        Raises:
            InputError: they are closed further already, or are others, or no source has any.
            TimeRangeError: one is beyond 64 bits.
        """
        names = self.names
        if len(names) == 1:
            raise InputError(
                f"advance(event={event}) closes event times, and no source has any; an.source(..., "
                'time=("system", "event")) declares a source with two times'
            )
        own = tuple(whole_number(time, "event") for time in (event if isinstance(event, tuple) else (event,)))
        if len(own) != len(names) - 1:
            raise InputError(
                f"advance(event={event!r}) must say where each of {', '.join(names[1:])} is closed, as a tuple of "
                f"{len(names) - 1}"
            )
        known = self.closed.own_of(len(names)) or (0,) * len(own)
        if any(time < least for time, least in zip(own, known, strict=True)):
            before = known if len(known) > 1 else known[0]
            raise InputError(f"advance(event={event}) would go back: event times before {before} are closed already")
        if max(own) > LARGEST:
            raise TimeRangeError(f"event={event} is beyond 64 bits")
        return own if any(own) else self._journal.own

    @property
    def names(self) -> tuple[str, ...]:
        """What the times of the sources are called that have most of them."""
        several = (source.coordinates for source in self._catalogue.sources.values() if source.coordinates)
        return next(several, ("time",))

    def at(self, time: int) -> Antichain:
        """The frontier at a time: the same one while a step and the inserts around it ask for it."""
        frontiers = self._frontiers
        if time in frontiers:
            return frontiers[time]
        if len(frontiers) >= _FRONTIERS:
            frontiers.clear()
        known = frontiers[time] = Antichain.of(self._lattice, time)
        return known


def checked_retain(retain: int | Literal["all"] | None) -> int | Literal["all"] | None:
    """A number of times to retain, of any type of whole numbers.

    Raises:
        PlanError: it is neither a number of at least 0 nor "all".
    """
    if retain is None or retain == "all":
        return retain
    if isinstance(retain, bool) or not isinstance(retain, Integral) or retain < 0:
        raise PlanError(f'retain must be a whole number of at least 0, or "all", got {retain!r}')
    return int(retain)


def _times(coordinates: int) -> Lattice:
    return Epoch() if coordinates == 1 else Product(*[Epoch()] * coordinates)
