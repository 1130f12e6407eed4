"""Frontiers of sessions and views: from which times on something may still change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from altneu.order import Antichain, Epoch, Lattice, Product


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


def _times(coordinates: int) -> Lattice:
    return Epoch() if coordinates == 1 else Product(*[Epoch()] * coordinates)
