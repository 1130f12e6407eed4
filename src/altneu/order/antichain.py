"""Antichains: sets of incomparable times, used as frontiers.

A frontier F stands for the times *at or beyond* it, ``{t : some f in F has f <= t}``. The frontier at the least time
holds everything; the empty frontier holds nothing and is called closed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from altneu.order.lattice import Lattice, Mask, Times

_Compare = Callable[[Times, Times], Mask]


class Antichain:
    """A minimal set of times of one lattice, used as a frontier. Immutable; equal when the sets are.

    ``least`` is the one element of a frontier over a total order as a plain int (the value of its column); it is None
    over a partial order and when the frontier is closed. Steps over a total order are served by it without an array.

    Shape:  ``elements`` is int64 ``(width, k)``, sorted by the linear extension, read-only.
    Cost:   built in O(n k); a total order costs O(n) to build and about a microsecond to ask.
    Law:    no element is <= another; every time given is at or beyond the result (tests/laws/test_order.py).

    >>> from altneu.order import Epoch, Product
    >>> plane = Product(Epoch(), Epoch())
    >>> frontier = Antichain.of(plane, (2, 0), (0, 2), (2, 2))
    >>> frontier
    Antichain({(0, 2), (2, 0)})
    >>> frontier.less_equal(plane.from_pylist([(1, 1), (1, 2), (2, 0)])).tolist()
    [False, True, True]
    """

    __slots__ = ("_elements", "_hash", "lattice", "least")

    lattice: Lattice
    least: int | None
    _elements: Times | None
    _hash: int | None

    def __init__(self, lattice: Lattice, elements: Times) -> None:
        if lattice.is_total:
            self._set(lattice, int(elements.min()) if elements.size else None, None)
        else:
            self._set(lattice, None, _minimal(lattice, elements))

    def _set(self, lattice: Lattice, least: int | None, elements: Times | None) -> None:
        object.__setattr__(self, "lattice", lattice)
        object.__setattr__(self, "least", least)
        object.__setattr__(self, "_elements", elements)
        object.__setattr__(self, "_hash", None)

    @classmethod
    def of(cls, lattice: Lattice, *values: object) -> Antichain:
        """The frontier at Python values; without values, the closed frontier.

        Raises:
            TimeRangeError: a value is not a time of the lattice.
        """
        if lattice.is_total:
            if values and not values[1:]:
                return cls._chain(lattice, lattice.encode(values[0])[0])
            return cls._chain(lattice, min([lattice.encode(value)[0] for value in values], default=None))
        return cls(lattice, lattice.from_pylist(values))

    @classmethod
    def minimum(cls, lattice: Lattice) -> Antichain:
        """The frontier at the least time: everything is at or beyond it."""
        return cls(lattice, lattice.minimum())

    @classmethod
    def _chain(cls, lattice: Lattice, least: int | None) -> Antichain:
        """A frontier over a total order from its ``least``, without an array."""
        antichain = cls.__new__(cls)
        antichain._set(lattice, least, None)
        return antichain

    @property
    def elements(self) -> Times:
        """The elements as times ``(width, k)``, sorted by the linear extension."""
        if self._elements is None:
            times = np.array([[]] if self.least is None else [[self.least]], np.int64)
            times.flags.writeable = False
            object.__setattr__(self, "_elements", times)
            return times
        return self._elements

    @property
    def is_empty(self) -> bool:
        """Whether this is the closed frontier: no time is at or beyond it."""
        return self.least is None and (self.lattice.is_total or self.elements.shape[1] == 0)

    def less_equal(self, times: Times) -> Mask:
        """Whether each time is at or beyond the frontier (some element is <= it), as bool ``(n,)``."""
        if self.least is not None:
            mask: Mask = times[0] >= self.least
            return mask
        return self._any(self.lattice.less_equal, times)

    def less_than(self, times: Times) -> Mask:
        """Whether each time is strictly beyond some element, as bool ``(n,)``."""
        if self.least is not None:
            mask: Mask = times[0] > self.least
            return mask
        return self._any(self.lattice.less_than, times)

    def less_equal_frontier(self, other: Antichain) -> bool:
        """Whether every time at or beyond ``other`` is at or beyond this frontier.

        Law:    a partial order of frontiers with ``join`` and ``meet``; least: ``minimum``; greatest: the closed one.
        """
        if self is other:
            return True
        if self.lattice.is_total:
            return other.least is None or (self.least is not None and self.least <= other.least)
        return bool(self.less_equal(other.elements).all())

    def join(self, other: Antichain) -> Antichain:
        """The frontier whose times are at or beyond both."""
        if self is other:
            return self
        if self.lattice.is_total:
            if self.least is None or other.least is None:
                return self if self.least is None else other
            return self if self.least >= other.least else other
        a, b = self.elements, other.elements
        if a.shape[1] != 1 or b.shape[1] != 1:
            a, b = a.repeat(b.shape[1], axis=1), np.tile(b, a.shape[1])
        return Antichain(self.lattice, self.lattice.join(a, b))

    def meet(self, other: Antichain) -> Antichain:
        """The frontier whose times are at or beyond either."""
        if self.lattice.is_total:
            if self.least is None or other.least is None:
                return other if self.least is None else self
            return self if self.least <= other.least else other
        return Antichain(self.lattice, np.concatenate([self.elements, other.elements], axis=1))

    def advance(self, times: Times) -> Times:
        """Move every time to one that stands for all times which readers at or beyond this frontier cannot tell apart.

        That is the meet over the frontier's elements f of ``join(time, f)``. It is canonical and idempotent in every
        lattice, distributive or not: if t and s compare alike with all u at or beyond the frontier, then s <= t v f
        (which is such a u, and t is below it), so s v f <= t v f, and by symmetry they are equal. In a lattice that is
        not distributive the join of two advanced times may need advancing again; joins are advanced as any other time.
        An empty frontier has no reader, so every time goes to ``maximum()``, the meet of nothing.

        Shape:  (width, n) in, (width, n) out, in the same places.
        Law:    for all u at or beyond the frontier: t <= u iff advanced(t) <= u (preservation); times that no such u
                tells apart advance to the same time (progress). tests/laws/test_order.py.
        """
        if self.least is not None:
            return np.maximum(times, np.int64(self.least))
        elements, lattice = self.elements, self.lattice
        if elements.shape[1] == 0:
            return np.broadcast_to(lattice.maximum(), times.shape).copy()
        advanced = lattice.join(times, elements[:, :1])
        for i in range(1, elements.shape[1]):
            advanced = lattice.meet(advanced, lattice.join(times, elements[:, i : i + 1]))
        return advanced

    def to_pylist(self) -> list[object]:
        """The elements as Python values."""
        return self.lattice.to_pylist(self.elements)

    def _any(self, compare: _Compare, times: Times) -> Mask:
        elements = self.elements
        reached = np.zeros(times.shape[1], np.bool_)
        for i in range(elements.shape[1]):
            reached |= compare(elements[:, i : i + 1], times)
        return reached

    def __len__(self) -> int:
        return int(self.least is not None) if self.lattice.is_total else self.elements.shape[1]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Antichain):
            return NotImplemented
        if self.least is not None or other.least is not None:
            return self.least == other.least and self.lattice == other.lattice
        return self.lattice == other.lattice and np.array_equal(self.elements, other.elements)

    def __hash__(self) -> int:
        if self._hash is None:
            value = hash((self.lattice, self.least if self.lattice.is_total else self.elements.tobytes()))
            object.__setattr__(self, "_hash", value)
        return self._hash  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"Antichain({{{', '.join(map(repr, self.to_pylist()))}}})"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"an Antichain is immutable; build another one to change {name!r}")

    def __reduce__(self) -> tuple[object, ...]:
        if self.lattice.is_total:
            return Antichain._chain, (self.lattice, self.least)
        return Antichain, (self.lattice, self.elements)


def _minimal(lattice: Lattice, times: Times) -> Times:
    """The minimal elements, without repeats, sorted by the linear extension.

    In that order nothing is above what comes after it, so the first time left is minimal: keep it, drop all beyond it.
    """
    if times.shape[1] == 1:
        elements = times.copy()
        elements.flags.writeable = False
        return elements
    left = times[:, np.lexsort(lattice.sort_keys(times)[::-1])]
    minimal = []
    while left.shape[1]:
        minimal.append(left[:, :1])
        left = left[:, ~lattice.less_equal(left[:, :1], left)]
    elements = np.concatenate(minimal, axis=1) if minimal else np.empty((lattice.width, 0), np.int64)
    elements.flags.writeable = False
    return elements
