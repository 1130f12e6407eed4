"""Reduce where times have two coordinates, an epoch and an event time: along chains that cover the interesting times.

Let T be the interesting times of a group, F(t) what the function makes of its input at t, and G(t) that less what it
made of the input before this step. G changes at times of T only, so what must come out at t = (x, y) is

    G(t) - G(left) - G(down) + G(diag)

where *left* is the greatest time of T at or below (x-, y), with x- just before x; *down* is that of (x, y-), and *diag*
that of (x-, y-). T is closed under join, so each is unique; where there is none, nothing is new, and G is 0.

T is covered by the fewest chains. A kernel goes along a chain and tells the changes of F on it. Where the difference
of two of these values is one change on a chain, as it nearly always is, this change is used; elsewhere what stands at
both.

Before this step a group held the same at every epoch. That is one more chain for a group, of one point for each event
time at which some time of T has nothing of T at its left: F at this point is what was there. Above and right of the
points of T that have something at their left and below them, what was before cancels.
"""

from __future__ import annotations

import numpy as np

from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.kernels.groups import Groups, ReduceOutput
from altneu.operators.reduce.along import Lines, Requests, Spread, reduce_along
from altneu.operators.reduce.spec import ReduceSpec
from altneu.operators.reduce.touched_history import History
from altneu.order import Epoch, Product, interesting_times
from altneu.trace.update import Updates

_PLANE = Product(Epoch(), Epoch())
_BEFORE = -1  # the epoch of all that was before this step


def reduce_on_plane(history: History, spec: ReduceSpec, operator: str) -> ReduceOutput:
    """Bring groups up to date whose times are (epoch, event[, rounds]).

    Cost:   O(n) where the interesting times of a group are one chain, as they are in a step of one epoch, and where
            updates come in the order of their event times; for k chains O(k n + interesting times). A function in
            Python is called once for each interesting time of a group, and once for each event time before the step.
    Law:    at every time the output accumulates to the function of what the input accumulates to
            (tests/operators/test_reduce_at_partial_times.py, tests/oracle/test_two_times.py).
    """
    return reduce_along(history, _Chains(history), spec, operator)


class _Chains(Lines):
    """The interesting times of each group as chains; behind these one more a group, for what was before."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.times = history.times[:2].copy()
        self.times[0, history.known] = _BEFORE
        groups, result = self._interesting()
        bounds = np.append(np.flatnonzero(np.append(True, groups[1:] != groups[:-1])), len(groups))
        left, down, diag = _neighbours(bounds, *result)
        had = np.zeros(history.keys.count, np.bool_)
        had[history.group[history.known & history.within]] = True
        leftmost = np.flatnonzero((left < 0) & had[groups])
        leftmost = leftmost[np.lexsort((result[1, leftmost], groups[leftmost]))]

        chain = _cover(bounds, result[1])
        order = np.argsort(chain, kind="stable")
        line = np.concatenate([chain[order], len(groups) + groups[leftmost]])
        starts = np.flatnonzero(np.append(True, line[1:] != line[:-1]))[: len(line)]
        self.owner = np.concatenate([groups[order], groups[leftmost]])[starts]
        self.bounds = np.append(starts, len(line))
        self.points = result.take(np.concatenate([order, leftmost]), axis=1)
        self.points[0, len(order) :] = _BEFORE

        point, before = np.full((2, len(order) + 1), -1)  # the last stands for none, which -1 finds
        point[order] = np.arange(len(order))
        before[leftmost] = len(order) + np.arange(len(leftmost))
        corners = (
            point[:-1],
            np.where(left < 0, before[:-1], point[left]),
            point[down],
            np.where(diag < 0, before[down], point[diag]),
        )
        at = np.repeat(history.at, len(groups), axis=1)
        self.out = Spread(self.bounds, np.concatenate([result, at]), *_requests(corners, self.bounds))

    def _interesting(self) -> tuple[Ints, Ints]:
        inside, (seeds, seeded) = self.history.within, self.history.seeds
        return interesting_times(
            _PLANE,
            np.concatenate([seeds, self.history.group[inside]]),
            np.concatenate([seeded[:2], self.times[:, inside]], axis=1),
            np.arange(len(seeds) + np.count_nonzero(inside)) < len(seeds),
        )

    def sizes(self, rows: Ints) -> Ints:
        return _sizes(self.owner, self.bounds, self.points, *self._by_group(rows))

    def groups(self, rows: Ints, low: int, high: int) -> Groups:
        lines = self.owner[low:high], self.bounds[low : high + 1], self.points
        which, line, moments = _fill(*lines, *self._by_group(rows))
        none = np.empty(0, np.int64)
        return self.history.groups(lines[0], (rows[which], line, moments), (none, np.zeros(high - low + 1, np.int64)))

    def spread(self, result: Updates, low: int, high: int) -> Updates:
        return self.out(result, low, high)

    def _by_group(self, rows: Ints) -> tuple[Ints, Ints]:
        """Where the updates of each group start, and their times."""
        starts = np.searchsorted(self.history.group[rows], np.arange(self.history.keys.count + 1))
        return starts, self.times.take(rows, axis=1)


def _requests(corners: tuple[Ints, Ints, Ints, Ints], bounds: Ints) -> tuple[Requests, Requests]:
    """What of F makes up each time's output: changes on chains, and what stands at points.

    The four corners come in pairs whose difference is a change, one way or the other: (t, down) and (left, diag), or
    (t, left) and (down, diag). For each time the way is taken in which fewer are not.
    """
    at, left, down, diag = corners
    starts = np.zeros(bounds[-1] + 1, np.bool_)
    starts[bounds] = True
    ways = [[(at, down, 1), (left, diag, -1)], [(at, left, 1), (down, diag, -1)]]
    kinds = np.array([[_kind(a, b, starts) for a, b, _ in way] for way in ways])
    second = np.greater(*(kinds == _STANDS).sum(axis=1))
    changes: list[tuple[Ints, Ints, int]] = []
    stands: list[tuple[Ints, Ints, int]] = []
    for way, kind_of, taken in zip(ways, kinds, (~second, second), strict=True):
        for (a, b, factor), kind in zip(way, kind_of, strict=True):
            change, both = (np.flatnonzero(taken & (kind == k)) for k in (_CHANGE, _STANDS))
            changes.append((a[change], change, factor))
            stands += [(a[both], both, factor), (b[both], both, -factor)]
    return _sorted(changes), _sorted(stands)


_SAME, _CHANGE, _STANDS = range(3)


def _kind(a: Ints, b: Ints, starts: Ints) -> Ints:
    """What F(a) - F(b) is: nothing, the change at ``a``, or what stands at both; -1 is no point, where F is 0."""
    change = (a >= 0) & np.where(starts[a], b < 0, b == a - 1)
    return np.where(a == b, _SAME, np.where(change, _CHANGE, _STANDS))


def _sorted(requested: list[tuple[Ints, Ints, int]]) -> Requests:
    points, targets = (np.concatenate([a[i] for a in requested]) for i in range(2))
    factors = np.repeat([a[2] for a in requested], [len(a[0]) for a in requested])
    order = np.argsort(points, kind="stable")
    order = order[np.searchsorted(points[order], 0) :]
    return points[order], targets[order], factors[order]


@compiled()
def _cover(bounds: Ints, ys: Ints) -> Ints:
    """The chain of each time; times are sorted by group, epoch and event, and chains numbered through the groups.

    Each goes on the chain that ends least below it. The ends of chains fall from one chain to the next.
    """
    chain, ends = np.empty(len(ys), np.int64), np.empty(len(ys), np.int64)
    first = 0
    for g in range(len(bounds) - 1):
        used = 0
        for i in range(bounds[g], bounds[g + 1]):
            low, high = 0, used
            while low < high:
                middle = (low + high) >> 1
                if ends[middle] <= ys[i]:
                    high = middle
                else:
                    low = middle + 1
            used = max(used, low + 1)
            ends[low], chain[i] = ys[i], first + low
        first += used
    return chain


@compiled()
def _neighbours(bounds: Ints, xs: Ints, ys: Ints) -> tuple[Ints, Ints, Ints]:
    """For each time (x, y) the greatest at or below (x-, y), (x, y-) and (x-, y-); -1 where there is none.

    Epochs to the left whose least event time is above that of a later one are never the nearest that has something
    below; the others are on a stack, the nearest on top, and what a search passes by is what the epoch removes.

    Cost:   O(n log n).
    """
    left, down, diag = np.empty(len(xs), np.int64), np.empty(len(xs), np.int64), np.empty(len(xs), np.int64)
    start, stop = np.empty(len(xs), np.int64), np.empty(len(xs), np.int64)
    for g in range(len(bounds) - 1):
        size, i = 0, bounds[g]
        while i < bounds[g + 1]:
            j = i + 1
            while j < bounds[g + 1] and xs[j] == xs[i]:
                j += 1
            at, below = size, size
            for p in range(j - 1, i - 1, -1):
                while at > 0 and ys[start[at - 1]] > ys[p]:
                    at -= 1
                while below > 0 and ys[start[below - 1]] >= ys[p]:
                    below -= 1
                left[p] = diag[p] = -1
                if at > 0:
                    left[p] = _last(ys, start[at - 1], stop[at - 1], ys[p])
                if below > 0:
                    diag[p] = _last(ys, start[below - 1], stop[below - 1], ys[p] - 1)
                down[p] = p - 1 if p > i else diag[p]
            size = below
            start[size], stop[size] = i, j
            size += 1
            i = j
    return left, down, diag


@compiled()
def _last(ys: Ints, low: int, high: int, most: int) -> int:
    """The last of ``low`` to ``high`` that is not above ``most``; the first is not."""
    while high - low > 1:
        middle = (low + high) >> 1
        if ys[middle] <= most:
            low = middle
        else:
            high = middle
    return low


@compiled()
def _sizes(owner: Ints, bounds: Ints, points: Ints, starts: Ints, times: Ints) -> Ints:
    """How many updates of its group each line has: those at or below its last point."""
    sizes = np.zeros(len(owner), np.int64)
    for line in range(len(owner)):
        x, y = points[0, bounds[line + 1] - 1], points[1, bounds[line + 1] - 1]
        for i in range(starts[owner[line]], starts[owner[line] + 1]):
            sizes[line] += times[0, i] <= x and times[1, i] <= y
    return sizes


@compiled()
def _fill(owner: Ints, bounds: Ints, points: Ints, starts: Ints, times: Ints) -> tuple[Ints, Ints, Ints]:
    """The updates of each line, the line and, ascending, the point of each: the first that it is at or below."""
    sizes = _sizes(owner, bounds, points, starts, times)
    which, line_of, point = (
        np.empty(np.sum(sizes), np.int64),
        np.empty(np.sum(sizes), np.int64),
        np.empty(np.sum(sizes), np.int64),
    )
    first, result, counts = 0, np.empty(times.shape[1], np.int64), np.zeros(bounds[-1] - bounds[0] + 1, np.int64)
    for line in range(len(owner)):
        low, high = bounds[line], bounds[line + 1]
        group = range(starts[owner[line]], starts[owner[line] + 1])
        for i in group:
            result[i] = _first(points, low, high, times[0, i], times[1, i])
            counts[result[i] - bounds[0]] += result[i] < high
        for p in range(low, high):  # where the updates of each point begin
            first, counts[p - bounds[0]] = first + counts[p - bounds[0]], first
        for i in group:
            if result[i] < high:
                place = counts[result[i] - bounds[0]]
                which[place], line_of[place], point[place] = i, line, result[i]
                counts[result[i] - bounds[0]] += 1
    return which, line_of, point


@compiled()
def _first(points: Ints, low: int, high: int, x: int, y: int) -> int:
    """The first point of a chain from ``low`` up to ``high`` that (x, y) is at or below; ``high`` if there is none."""
    while low < high:
        middle = (low + high) >> 1
        if points[0, middle] >= x and points[1, middle] >= y:
            high = middle
        else:
            low = middle + 1
    return low
