"""Times of one scope as another one has them.

A time inside loops and moments is nested: it has the rounds of the loops and the flags of the moments around it, in the
order of these scopes. A step goes through rounds one by one, so a time is often wanted in two parts: its rounds, and
*the time at fixed rounds*, which is what is left of it and has the flags.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from altneu.order.antichain import Antichain
from altneu.order.lattice import AltNeu, Epoch, Lattice, Product, Rounds, Times


def lifted(times: Times, below: Lattice, above: Lattice) -> Times:
    """Times as they are in a scope further in: at round 0 of its loops, at the earlier of two moments.

    >>> from altneu.order import Epoch
    >>> inner = Rounds(AltNeu(Epoch()), 1)
    >>> inner.to_pylist(lifted(np.array([[3, 4]]), Epoch(), inner))
    [(alt(3), 0), (alt(4), 0)]
    """
    if below is above or below == above:
        return times
    if isinstance(above, AltNeu):
        return above.alt(lifted(times, below, above.inner))
    if isinstance(above, Rounds):
        if isinstance(below, Rounds) and below.outer == above.outer:
            return _padded(times, above.depth - below.depth)
        return _padded(lifted(times, below, above.outer), above.depth)
    if isinstance(above, Product):
        return _padded(lifted(times, below, above.factors[0]), above.width - above.factors[0].width)
    raise TypeError(f"{above!r} is not inside {below!r}")


def _padded(times: Times, lines: int) -> Times:
    return np.concatenate([times, np.zeros((lines, times.shape[1]), np.int64)])


@lru_cache(maxsize=64)
def lifted_frontier(frontier: Antichain, lattice: Lattice) -> Antichain:
    """A frontier as it is in a scope further in.

    Law:    a time is at or beyond it when what it was lifted from, or is a moment or a round of, is at or beyond
            ``frontier`` (tests/laws/test_scopes.py).
    """
    return Antichain(lattice, lifted(frontier.elements, frontier.lattice, lattice))


def fixed(lattice: Lattice) -> Lattice:
    """The times of a scope at fixed rounds of all its loops.

    >>> from altneu.order import Epoch
    >>> fixed(AltNeu(Rounds(Epoch(), 2)))
    AltNeu(Epoch())
    """
    inner: Lattice | None = lattice.__dict__.get("_fixed")
    if inner is None:
        inner = lattice.__dict__["_fixed"] = _fixed(lattice)
    return inner


def _fixed(lattice: Lattice) -> Lattice:
    if isinstance(lattice, Rounds):
        return fixed(lattice.outer)
    return AltNeu(fixed(lattice.inner)) if isinstance(lattice, AltNeu) and not lattice.is_total else lattice


def parted(lattice: Lattice, times: Times) -> tuple[Times, Times]:
    """Times at fixed rounds, and the rounds, one line a loop, the outermost first.

    Law:    ``placed`` puts both together again (tests/laws/test_scopes.py).
    """
    if isinstance(lattice, Rounds):
        width = lattice.outer.width
        if lattice.outer.__class__ is Epoch or not isinstance(lattice.outer, AltNeu):
            return times[:width], times[width:]
        outer, rounds = parted(lattice.outer, times[:width])
        return outer, np.concatenate([rounds, times[width:]])
    if isinstance(lattice, AltNeu) and not lattice.is_total:
        outer, rounds = parted(lattice.inner, lattice.unwrap(times))
        return AltNeu(fixed(lattice.inner)).moments(outer, times[-1]), rounds
    return times, times[:0]


def placed(lattice: Lattice, times: Times, rounds: Times) -> Times:
    """Times at fixed rounds, at these rounds."""
    if lattice.__class__ is Epoch:
        return times
    if isinstance(lattice, Rounds):
        split = len(rounds) - lattice.depth
        return np.concatenate([placed(lattice.outer, times, rounds[:split]), rounds[split:]])
    if isinstance(lattice, AltNeu) and not lattice.is_total:
        flat = AltNeu(fixed(lattice.inner))
        return lattice.moments(placed(lattice.inner, flat.unwrap(times), rounds), flat.is_neu(times))
    return times


def epochs(lattice: Lattice, times: Times) -> Times:
    """The first coordinate of times, outside of all scopes: the session's clock, ``(n,)``."""
    if isinstance(lattice, AltNeu):
        return epochs(lattice.inner, lattice.unwrap(times))
    if isinstance(lattice, Product):
        return epochs(lattice.factors[0], times[: lattice.factors[0].width])
    return times[0]


def has_moments(lattice: Lattice) -> bool:
    """Whether times have flags."""
    result: bool | None = lattice.__dict__.get("_has_moments")
    if result is None:
        inner = lattice
        while isinstance(inner, Product):
            inner = inner.factors[0]
        result = lattice.__dict__["_has_moments"] = isinstance(inner, AltNeu)
    return result
