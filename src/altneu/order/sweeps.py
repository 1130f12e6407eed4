"""Sweeps over products of chains: the kernels under ``interesting_times`` (altneu.order.closure, docs/formalism.md).

Points come group by group: those of group ``g`` are at positions ``bounds[g]`` to ``bounds[g + 1]``, in any order. Of a
coordinate a sweep knows the number of each value among those of its group (``ranks``). ``places`` has a place for each
value of the first coordinate in each group, for the times that have it. A sweep is run twice: to count these times, and
to write each run of them up to its end.

``need`` is one mask of the points, or more: sets. A time is *wanted* when each of its coordinates is that of a point at
or below it, and each set has a point at or below it. Numbers begin with 1; 0 is where a linked list begins and ends.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from altneu.compiled import compiled

Ints: TypeAlias = npt.NDArray[np.int64]

Numbers: TypeAlias = npt.NDArray[np.int32]
"""Numbers of values within a group, which has fewer than 2^31 points: half the memory to go through."""
Masks: TypeAlias = npt.NDArray[np.bool_]
Coordinate: TypeAlias = tuple[Numbers, Ints, Ints]
"""Of each point the number of its value; the values, group by group; where those of each group start, and the end."""

PLANE, SPACE = 5, 10  # lines of scratch beside one for each of ``need``; as long as the most numbers of a group, and 0
DENSE = 2  # a table is used for values that fill at least one place in so many


@compiled()
def ranks(bounds: Ints, column: Ints, numbers: Numbers, values: Ints) -> Ints:
    """Number the values of each group from 1, in their order, into ``numbers``, and write each once into ``values``.

    Shape:  where the values of each group start, and the end of the last.
    Cost:   O(n) where values lie close, as rounds and epochs do; O(n log n) where they are far apart.
    """
    starts = np.zeros(len(bounds), np.int64)
    table = np.empty(0, np.int32)
    end = 0
    for g in range(len(bounds) - 1):
        mine = column[bounds[g] : bounds[g + 1]]
        least = np.min(mine)
        span = np.max(mine) - least + 1  # wraps below 0 when the values fill more than half of int64
        if 0 < span <= DENSE * len(mine):
            if len(table) < span:
                table = np.empty(span, np.int32)
            table[:span] = 0
            for value in mine:
                table[value - least] = 1
            for i in range(span):
                if table[i]:
                    values[end] = least + i
                    end += 1
                    table[i] = end - starts[g]
            for i in range(len(mine)):
                numbers[bounds[g] + i] = table[mine[i] - least]
        else:
            ordered = np.sort(mine)
            for i in range(len(ordered)):
                if i == 0 or ordered[i] != ordered[i - 1]:
                    values[end] = ordered[i]
                    end += 1
            distinct = values[starts[g] : end]
            for i in range(len(mine)):
                numbers[bounds[g] + i] = np.searchsorted(distinct, mine[i]) + 1
        starts[g + 1] = end
    return starts


@compiled()
def sweep_plane(
    bounds: Ints,
    coordinates: tuple[Coordinate, ...],
    need: Masks,
    places: Ints,
    write: bool,
    out: Ints,
    scratch: Numbers,
) -> None:
    """All wanted times of the plane: their number for each x into ``places``, then their y into ``out``.

    A y is *live* at x while a point with this y is at or left of x. As x goes down, ``floor[x]`` tells the least y that
    is wanted; from it upwards every live y is. A y that stops being live is met on the way, so the list of live ones
    needs no other walk, and every step of the walk is one wanted time.

    Cost:   O(n + wanted).
    """
    (xs, _, x_starts), (ys, y_values, y_starts) = coordinates
    floor, first_x, below, removed, bars = scratch[0], scratch[1], scratch[2], scratch[3:PLANE], scratch[PLANE:]
    for g in range(len(bounds) - 1):
        right, top = x_starts[g + 1] - x_starts[g], y_starts[g + 1] - y_starts[g]
        floor[: right + 1] = top + 1
        bars[:, : right + 1] = top + 1
        first_x[: top + 1] = right + 1
        for i in range(bounds[g], bounds[g + 1]):
            x, y = xs[i], ys[i]
            floor[x] = min(floor[x], y)
            first_x[y] = min(first_x[y], x)
            for j in range(len(need)):
                if need[j, i]:
                    bars[j, x] = min(bars[j, x], y)
        for x in range(1, right + 1):
            for j in range(len(need)):
                bars[j, x] = min(bars[j, x], bars[j, x - 1])
                floor[x] = max(floor[x], bars[j, x])
        below[0] = top
        for y in range(1, top + 1):
            below[y] = y - 1
        x, mine = right, y_values[y_starts[g] : y_starts[g + 1]]
        while x > 0 and floor[x] <= top:
            place = x_starts[g] + x - 1
            count, _ = _walk(x, floor[x], first_x, below, removed, 0, mine, write, out[0], places[place])
            if not write:
                places[place] = count
            x -= 1


@compiled()
def _walk(
    x: int,
    floor: int,
    first_x: Numbers,
    below: Numbers,
    removed: Numbers,
    left: int,
    values: Ints,
    write: bool,
    out: Ints,
    end: int,
) -> tuple[int, int]:
    """Go down the live y to ``floor``, write them up to ``end``, and unlink those that no lesser x has.

    Shape:  how many there are, and how many columns of ``removed`` are used: each y that was unlinked, and the y above.
    """
    count, above, y = 0, 0, below[0]
    while y >= floor:
        count += 1
        if write:
            out[end - count] = values[y - 1]
        if first_x[y] < x:
            above = y
        else:
            below[above] = below[y]
            removed[0, left], removed[1, left] = y, above
            left += 1
        y = below[y]
    return count, left


@compiled()
def sweep_space(
    bounds: Ints,
    coordinates: tuple[Coordinate, ...],
    need: Masks,
    places: Ints,
    write: bool,
    out: Ints,
    scratch: Numbers,
) -> None:
    """All wanted times of three coordinates: their number for each z, the first, into ``places``; then x and y.

    For each z upwards the sweep of the plane, over the points up to z. One more set has to have a point at or below:
    the points at z itself. Only x and y that have appeared are in the lists: all are unlinked, the last to appear
    first, and each takes its old place again when it appears. What the sweep of one z unlinks, it links again.

    Cost:   O((n + wanted) log n); the logarithm is that of the least y at or left of x, kept for each set as z goes up.
    """
    (zs, _, z_starts), (xs, x_values, x_starts), (ys, y_values, y_starts) = coordinates
    least_y, first_x, x_below, x_above = scratch[0], scratch[1], scratch[2], scratch[3]
    y_below, y_above, edge, removed, bars = scratch[4], scratch[5], scratch[6:8], scratch[8:SPACE], scratch[SPACE:]
    for g in range(len(bounds) - 1):
        depth, right = z_starts[g + 1] - z_starts[g], x_starts[g + 1] - x_starts[g]
        mine = y_values[y_starts[g] : y_starts[g + 1]]
        top = len(mine)
        order = _by_number(zs, _by_number(xs, np.arange(bounds[g], bounds[g + 1]), right), depth)
        _link(x_below, x_above, right, xs, order)
        _link(y_below, y_above, top, ys, order)
        least_y[: right + 1] = top + 1
        first_x[: top + 1] = right + 1
        bars[:, : right + 1] = top + 1
        at = 0
        for z in range(1, depth + 1):
            edges = 0
            while at < len(order) and zs[order[at]] == z:
                i = order[at]
                x, y = xs[i], ys[i]
                _appear(x, y, least_y, first_x, right, top, (x_below, x_above, y_below, y_above))
                for j in range(len(need)):
                    if need[j, i]:
                        _lower(bars[j], x, right, y)
                if edges == 0 or y < edge[1, edges - 1]:
                    edge[0, edges], edge[1, edges] = x, y
                    edges += 1
                at += 1
            place = z_starts[g] + z - 1
            end, left, x = places[place], 0, x_below[0]
            while True:
                while edges > 0 and edge[0, edges - 1] > x:
                    edges -= 1
                floor = max(least_y[x], edge[1, edges - 1]) if edges > 0 else top + 1
                for j in range(len(need)):
                    floor = max(floor, _least(bars[j], x, top + 1))
                if floor > top:  # and so at every lesser x
                    break
                count, left = _walk(x, floor, first_x, y_below, removed, left, mine, write, out[1], end)
                if write:
                    out[0, end - count : end] = x_values[x_starts[g] + x - 1]
                end -= count
                x = x_below[x]
            for k in range(left - 1, -1, -1):
                y_below[removed[1, k]] = removed[0, k]
            if not write:
                places[place] -= end


@compiled()
def _appear(
    x: int,
    y: int,
    least_y: Numbers,
    first_x: Numbers,
    right: int,
    top: int,
    links: tuple[Numbers, Numbers, Numbers, Numbers],
) -> None:
    """Take up a point, and link its x and its y if it is the first to have them."""
    x_below, x_above, y_below, y_above = links
    if least_y[x] > top:
        x_below[x_above[x]] = x
    if first_x[y] > right:
        y_below[y_above[y]] = y
    least_y[x] = min(least_y[x], y)
    first_x[y] = min(first_x[y], x)


@compiled()
def _by_number(numbers: Numbers, order: Ints, largest: int) -> Ints:
    """Positions sorted by their number; those of one number stay in their order."""
    ends = np.zeros(largest + 1, np.int64)
    for i in order:
        ends[numbers[i]] += 1
    for r in range(largest):
        ends[r + 1] += ends[r]
    moved = np.empty(len(order), np.int64)
    for k in range(len(order) - 1, -1, -1):
        r = numbers[order[k]]
        ends[r] -= 1
        moved[ends[r]] = order[k]
    return moved


@compiled()
def _link(below: Numbers, above: Numbers, largest: int, numbers: Numbers, order: Ints) -> None:
    """A list of all numbers from which each has been unlinked, the last to appear in ``order`` first."""
    for r in range(largest + 1):
        below[r], above[r] = r - 1, r + 1
    below[0], above[largest] = largest, 0
    first = np.empty(largest, np.int64)
    seen = np.zeros(largest + 1, np.bool_)
    rank = 0
    for i in order:
        r = numbers[i]
        if not seen[r]:
            seen[r], first[rank] = True, r
            rank += 1
    for k in range(rank - 1, -1, -1):
        r = first[k]
        below[above[r]], above[below[r]] = below[r], above[r]


@compiled()
def _lower(bar: Numbers, x: int, right: int, y: int) -> None:
    """Lower the least y at or left of ``x``, and of all beyond it, to ``y``: a Fenwick tree of minima."""
    while x <= right:
        bar[x] = min(bar[x], y)
        x += x & -x


@compiled()
def _least(bar: Numbers, x: int, none: int) -> int:
    """The least y at or left of ``x``."""
    least = none
    while x > 0:
        least = min(least, bar[x])
        x -= x & -x
    return least
