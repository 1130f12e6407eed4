"""Walks along chains: the kernels that find joins in any lattice (altneu.order.closure, docs/formalism.md).

Only ``<=`` and join are used of the lattice. They are told to a kernel by ``inner``, one number a column: the first of
the columns that hold the time whose flag this column is, and for the column of a chain its own number, so that there
are none. Points are rows here, one time each, int64 ``(n, width)``.
"""

from __future__ import annotations

import numpy as np

from altneu.compiled import compiled
from altneu.order.sweeps import Ints, Masks


@compiled()
def less_equal(inner: Ints, a: Ints, b: Ints) -> bool:
    """``a <= b`` for two rows: no column is greater, but for flags of times that differ."""
    for c in range(len(inner)):  # noqa: SIM110 -- Numba takes no generator here
        if a[c] > b[c] and _same(a, b, inner[c], c):
            return False
    return True


@compiled()
def join(inner: Ints, a: Ints, b: Ints, into: Ints) -> None:
    """The least upper bound: the greater of each column, a flag only from the side that has the joined time."""
    for c in range(len(inner)):
        mine, theirs = _same(into, a, inner[c], c), _same(into, b, inner[c], c)
        into[c] = max(a[c], b[c]) if mine and theirs else a[c] if mine else b[c] if theirs else 0


@compiled()
def _same(a: Ints, b: Ints, first: int, last: int) -> bool:
    for c in range(first, last):  # noqa: SIM110 -- Numba takes no generator here
        if a[c] != b[c]:
            return False
    return True


@compiled()
def _first_not_below(inner: Ints, chain: Ints, low: int, high: int, time: Ints) -> int:
    """The first of the rows ``low`` to ``high`` of a chain that is not <= ``time``; ``high`` when all are."""
    while low < high:
        middle = (low + high) >> 1
        if less_equal(inner, chain[middle], time):
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def _grown(rows: Ints) -> Ints:
    more = np.empty((2 * len(rows), rows.shape[1]), np.int64)
    more[: len(rows)] = rows
    return more


@compiled()
def chain_joins(inner: Ints, a: Ints, b: Ints) -> Ints:
    """Every ``join(a[i], b[j])`` of two ascending chains, once, a lesser time before a greater.

    The row of ``a[i]`` is walked upwards, from each join to the first ``b`` that is not below it, and left when it
    meets the row of ``a[i + 1]``: what is at or above ``a[i + 1]`` is found there.

    Cost:   O((len(a) + joins) log len(b)).
    """
    joins = np.empty((len(a) + len(b), a.shape[1]), np.int64)
    count = 0
    for i in range(len(a)):
        j = 0
        while j < len(b):
            if count == len(joins):
                joins = _grown(joins)
            join(inner, a[i], b[j], joins[count])
            if i + 1 < len(a) and less_equal(inner, a[i + 1], joins[count]):
                break
            j = _first_not_below(inner, b, j + 1, len(b), joins[count])
            count += 1
    return joins[:count].copy()


@compiled()
def _chain_cover(inner: Ints, points: Ints) -> tuple[Ints, Ints]:
    """Points, sorted by the linear extension, as chains: the points chain by chain, and where each chain starts.

    Each goes to the first chain whose last point is below it. Cost: O(n k) for k chains.
    """
    last = np.empty(len(points), np.int64)
    chain = np.empty(len(points), np.int64)
    starts = np.zeros(len(points) + 1, np.int64)
    chains = 0
    for i in range(len(points)):
        c = 0
        while c < chains and not less_equal(inner, points[last[c]], points[i]):
            c += 1
        chains = max(chains, c + 1)
        last[c], chain[i] = i, c
        starts[c + 1] += 1
    for c in range(chains):
        starts[c + 1] += starts[c]
    ordered = np.empty_like(points)
    filled = starts.copy()
    for i in range(len(points)):
        ordered[filled[chain[i]]] = points[i]
        filled[chain[i]] += 1
    return ordered, starts[: chains + 1]


@compiled()
def walk(inner: Ints, bounds: Ints, points: Ints, new: Masks) -> tuple[Ints, Ints]:
    """All joins of a group's points that are at or above a new one: how many in each group, and all of them.

    Shape:  the points of group ``g`` are ``bounds[g]`` to ``bounds[g + 1]``, sorted by the linear extension, and so is
            what is found.
    Cost:   O(joins k log n) for the k chains that cover a group, and O(n k) to find these.
    """
    counts = np.zeros(len(bounds) - 1, np.int64)
    joins = np.empty((len(points) + 1, points.shape[1]), np.int64)
    heap = np.empty((len(points) + 1, points.shape[1]), np.int64)
    time = np.empty(points.shape[1], np.int64)
    total = 0
    for g in range(len(bounds) - 1):
        ordered, starts = _chain_cover(inner, points[bounds[g] : bounds[g + 1]])
        waiting = 0
        for i in range(bounds[g], bounds[g + 1]):
            if new[i]:
                heap, waiting = _push(heap, waiting, points[i])
        while waiting > 0:
            time[:] = heap[0]
            waiting = _pop(heap, waiting)
            if counts[g] > 0 and _same(time, joins[total - 1], 0, len(time)):
                continue
            if total == len(joins):
                joins = _grown(joins)
            joins[total] = time
            total += 1
            counts[g] += 1
            for c in range(len(starts) - 1):
                at = _first_not_below(inner, ordered, starts[c], starts[c + 1], time)
                if at < starts[c + 1]:
                    join(inner, joins[total - 1], ordered[at], time)
                    heap, waiting = _push(heap, waiting, time)
                    time[:] = joins[total - 1]
    return counts, joins[:total].copy()


@compiled()
def _before(a: Ints, b: Ints) -> bool:
    """Whether a row comes before another in the linear extension."""
    for c in range(len(a)):
        if a[c] != b[c]:
            return bool(a[c] < b[c])
    return False


@compiled()
def _push(heap: Ints, size: int, time: Ints) -> tuple[Ints, int]:
    """Put a row into a heap whose least row is the first; a full heap is doubled."""
    if size == len(heap):
        heap = _grown(heap)
    at = size
    while at > 0 and _before(time, heap[(at - 1) >> 1]):
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = time
    return heap, size + 1


@compiled()
def _pop(heap: Ints, size: int) -> int:
    """Take the least row out of a heap."""
    size -= 1
    last = heap[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(heap[child + 1], heap[child]):
            child += 1
        if not _before(heap[child], last):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last
    return size


@compiled()
def least(inner: Ints, bounds: Ints, points: Ints) -> Ints:
    """Which points have no other point of their group below them, as their numbers.

    Cost:   O(n + m^2) to O(n m) for the m that a group has; a point is compared with the nearest first.
    """
    minimal = np.empty(len(points), np.int64)
    count = 0
    for g in range(len(bounds) - 1):
        first = count
        for i in range(bounds[g], bounds[g + 1]):
            k = count - 1
            while k >= first and not less_equal(inner, points[minimal[k]], points[i]):
                k -= 1
            if k < first:
                minimal[count] = i
                count += 1
    return minimal[:count]
