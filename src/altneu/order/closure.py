"""Interesting times: where the output of a group can change, found without trying what is not one.

What a group holds can change only at joins of times of its updates; and when new updates arrive, only at those at or
above a new one. docs/formalism.md has the theorem, its proof and the algorithms, which are chosen here:

====================================== ===================================== ==================
lattice                                algorithm                             cost
====================================== ===================================== ==================
columnwise, one or two columns         sweep of the plane                    n + out
columnwise, three columns              sweep of the space                    (n + out) log n
columnwise, d columns                  one such sweep for each value of the  (n^(d-2) + out) log n
                                       first column, and so on
AltNeu over a partial order, in any    walk along k chains                   (n + out) k log n
position
====================================== ===================================== ==================
"""

from __future__ import annotations

from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from altneu.order import chains, sweeps
from altneu.order.antichain import Antichain
from altneu.order.lattice import AltNeu, Lattice, Mask, Product, Times
from altneu.order.sweeps import Coordinate, Ints, Masks

Scalar = TypeVar("Scalar", bound=np.generic)
Grouped: TypeAlias = tuple[Ints, Times]
"""Times with the numbers of their groups, sorted by group and, within one, by the linear extension."""

BLOCK = 1 << 21  # points that are laid out at a time when a first column is taken off


def interesting_times(lattice: Lattice, groups: Ints, times: Times, new: Mask) -> Grouped:
    """All joins of times of one group that are at or above a new time of that group, each once.

    All updates of the groups concerned are given, those that were there and those that are new, in any order and with
    repeats; a group without a new one has no interesting time. Group numbers are any numbers. Times that were pended
    (``due_and_pended``) and are due are given as new ones.

    Shape:  n updates in: groups int64 ``(n,)``, times int64 ``(width, n)``, new bool ``(n,)``; m times out, sorted by
            (group, linear extension), each pair once.
    Cost:   linear in n + m for one and two columns; see the module. All groups at once: no Python for each of them.
            Sorting by group, when it is to be done, is not counted.
    Law:    the joins of all subsets with a new element, and no others (tests/laws/test_closure.py).
    Source: McSherry, *What I'm stuck on* (2017), where this is "determine all the times".

    >>> from altneu.order import Epoch, Product
    >>> plane = Product(Epoch(), Epoch())
    >>> times = plane.from_pylist([(1, 3), (2, 2), (0, 7), (5, 5)])
    >>> groups, found = interesting_times(
    ...     plane, np.array([8, 8, 8, 9]), times, np.array([True, False, False, False])
    ... )
    >>> groups.tolist(), plane.to_pylist(found)
    ([8, 8, 8, 8], [(1, 3), (1, 7), (2, 3), (2, 7)])
    """
    groups, times, new = _grouped(groups, times, new)
    if not len(groups):
        return groups, times
    bounds = _bounds(groups)
    if lattice.is_columnwise:
        counts, interesting = _sweep(bounds, times, _plain(new[None]))
    else:
        order = np.lexsort((*lattice.sort_keys(times)[::-1], groups))
        counts, rows = chains.walk(_inner(lattice), bounds, _rows(times[:, order]), new[order])
        interesting = np.ascontiguousarray(rows.T)
    return np.repeat(groups[bounds[:-1]], counts), interesting


def due_and_pended(lattice: Lattice, groups: Ints, times: Times, upper: Antichain) -> tuple[Grouped, Grouped]:
    """Part interesting times into those that can be settled before ``upper``, and seeds of all others.

    Of the times at or beyond ``upper`` only the least of each group are kept. They, given as new when they are due,
    bring the others back: each is the join of one of them and of the times below it.

    Shape:  sorted by (group, linear extension) in, and both parts out.
    Cost:   O(n + p^2) to O(n p) for the p that a group has to keep.
    Law:    parted at one frontier after the other, a history has the interesting times it has as a whole
            (tests/laws/test_closure.py).
    """
    beyond = upper.less_equal(times)
    groups_beyond, times_beyond = groups[beyond], times[:, beyond]
    minimal = chains.least(_inner(lattice), _bounds(groups_beyond), _rows(times_beyond))
    return (groups[~beyond], times[:, ~beyond]), (groups_beyond[minimal], times_beyond[:, minimal])


def chain_joins(lattice: Lattice, a: Times, b: Times) -> Times:
    """All joins of a time of ``a`` and a time of ``b``, each once, for two chains in any lattice.

    Shape:  ``(width, n)`` and ``(width, m)`` in, each ascending: every time <= the next. Out in an order in which a
            lesser time comes before a greater one.
    Cost:   n + out joins are made, and a binary search for each that is kept.
    Law:    the joins of all pairs, each once, lesser ones first (tests/laws/test_closure.py).
    Source: McSherry, *What I'm stuck on* (2017), "an elemental problem".

    Raises:
        ValueError: a time of ``a`` or ``b`` is not <= the next.

    >>> from altneu.order import Epoch, Product
    >>> plane = Product(Epoch(), Epoch())
    >>> old = plane.from_pylist([(0, 0), (0, 1), (0, 2)])
    >>> plane.to_pylist(chain_joins(plane, old, plane.from_pylist([(1, 0), (1, 1), (1, 2)])))
    [(1, 0), (1, 1), (1, 2)]
    >>> len(chain_joins(plane, old, plane.from_pylist([(0, 0), (1, 0), (2, 0)]))[0])
    9
    """
    for chain in (a, b):
        ascending = lattice.less_equal(chain[:, :-1], chain[:, 1:])
        if not ascending.all():
            at = int(ascending.argmin())
            pair = f"{lattice.format(chain[:, at])}, {lattice.format(chain[:, at + 1])}"
            raise ValueError(f"a chain is given in ascending order, and here {pair} come after each other")
    return np.ascontiguousarray(chains.chain_joins(_inner(lattice), _rows(a), _rows(b)).T)


def _grouped(groups: Ints, times: Times, new: Mask) -> tuple[Ints, Times, Mask]:
    if (groups[1:] >= groups[:-1]).all():
        return groups, times, new
    order = np.argsort(groups, kind="stable")
    return groups[order], times[:, order], new[order]


def _bounds(*keys: Ints) -> Ints:
    """Where runs of equal keys start, and the end of the last."""
    if not len(keys[0]):
        return np.zeros(1, np.int64)
    starts = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    return np.concatenate([[0], np.flatnonzero(starts) + 1, [len(keys[0])]])


def _rows(times: Times) -> Ints:
    return _plain(times.T)


def _plain(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """Contiguous and writable, for Numba compiles a kernel anew for every other kind of array."""
    return np.require(array, requirements=("C", "W"))


def _inner(lattice: Lattice, start: int = 0) -> Ints:
    """The order of a lattice as ``chains`` is told it."""
    if lattice.is_columnwise:
        return np.arange(start, start + lattice.width)
    if isinstance(lattice, AltNeu):
        return np.append(_inner(lattice.inner, start), start)
    if not isinstance(lattice, Product):
        raise TypeError(f"{lattice!r} is not built of Epoch, Product and AltNeu")
    starts = start + np.cumsum([0, *(factor.width for factor in lattice.factors)])
    return np.concatenate([_inner(factor, int(at)) for factor, at in zip(lattice.factors, starts[:-1], strict=True)])


def _sweep(bounds: Ints, times: Times, need: Masks) -> tuple[Ints, Times]:
    """The wanted times of each group in a product of chains (``sweeps``): how many, and which."""
    width = len(times)
    if width > 3:
        return _sweep_each(bounds, times, need)
    if width == 1:
        counts, swept = _sweep(bounds, np.concatenate([times, np.zeros_like(times)]), need)
        return counts, swept[:1]
    coordinates = tuple(_coordinate(bounds, column) for column in times)
    _, values, starts = coordinates[0]
    kernel, lines = (sweeps.sweep_plane, sweeps.PLANE) if width == 2 else (sweeps.sweep_space, sweeps.SPACE)
    longest = max(np.diff(c[2]).max() for c in coordinates)
    scratch = np.empty((lines + len(need), longest + 1), np.int32)
    places = np.zeros(len(values), np.int64)
    kernel(bounds, coordinates, need, places, False, np.empty((width - 1, 0), np.int64), scratch)
    ends = np.cumsum(places)
    swept = np.empty((width, ends[-1]), np.int64)
    kernel(bounds, coordinates, need, ends, True, swept[1:], scratch)
    swept[0] = np.repeat(values, places)
    return np.add.reduceat(places, starts[:-1]), swept


def _coordinate(bounds: Ints, column: Ints) -> Coordinate:
    numbers, values = np.empty(len(column), np.int32), np.empty(len(column), np.int64)
    starts = sweeps.ranks(bounds, _plain(column), numbers, values)
    return numbers, values[: starts[-1]], starts


def _sweep_each(bounds: Ints, times: Times, need: Masks) -> tuple[Ints, Times]:
    """Take off the first column: for each of its values a group of the points up to it, one of those at it needed."""
    group = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    order = np.lexsort((times[0], group))
    times, need = times[:, order], need[:, order]
    runs = _bounds(group, times[0])
    first, last = bounds[group[runs[:-1]]], runs[1:]
    counts, swept = [], []
    for some in np.split(np.arange(len(last)), np.flatnonzero(np.diff(np.cumsum(last - first) // BLOCK)) + 1):
        sizes = last[some] - first[some]
        inner = np.concatenate([[0], np.cumsum(sizes)])
        points = np.arange(inner[-1]) + np.repeat(first[some] - inner[:-1], sizes)
        at_value = points >= np.repeat(runs[some], sizes)
        count, rest = _sweep(inner, times[1:, points], np.concatenate([need[:, points], at_value[None]]))
        counts.append(count)
        swept.append(np.concatenate([np.repeat(times[:1, runs[some]], count, axis=1), rest]))
    return np.add.reduceat(np.concatenate(counts), np.searchsorted(runs, bounds[:-1])), np.concatenate(swept, axis=1)
