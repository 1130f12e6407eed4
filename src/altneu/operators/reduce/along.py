"""Reduce along lines of times: chains, each of which the kernels for totally ordered times go through by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from altneu.columnar.rows import Ints
from altneu.errors import ERROR_SCHEMA
from altneu.operators.kernels.grouping import group_rows
from altneu.operators.kernels.groups import Groups, ReduceOutput
from altneu.operators.reduce.spec import ReduceSpec
from altneu.operators.reduce.touched_history import History
from altneu.order.difference import multiply, negate
from altneu.trace.update import Updates, consolidate

MOST_ROWS = 1 << 22  # that the kernels are given at once; a group that has many lines is read again for each

Requests: TypeAlias = tuple[Ints, Ints, Ints]
"""Points, ascending; for each a target and a factor."""


class Lines(ABC):
    """Chains of times, *points*, of the touched groups: how they are filled, and what comes of the changes on them."""

    owner: Ints
    """The group of each line."""

    @abstractmethod
    def sizes(self, rows: Ints) -> Ints:
        """How many of some updates, sorted by group, each line has."""

    @abstractmethod
    def groups(self, rows: Ints, low: int, high: int) -> Groups:
        """Lines ``low`` to ``high`` as groups for the kernels, filled with some updates, sorted by group."""

    @abstractmethod
    def spread(self, result: Updates, low: int, high: int) -> Updates:
        """The output that follows from what the kernels made of lines ``low`` to ``high``."""

    def pieces(self, rows: Ints) -> Iterator[tuple[int, int]]:
        """Runs of lines that together have at most ``MOST_ROWS`` of some updates, or are one line."""
        upto, first, before = np.cumsum(self.sizes(rows)), 0, 0
        while first < len(upto):
            last = max(first + 1, int(np.searchsorted(upto, before + MOST_ROWS, side="right")))
            yield first, last
            first, before = last, int(upto[last - 1])


def reduce_along(history: History, lines: Lines, spec: ReduceSpec, operator: str) -> ReduceOutput:
    """Run the kernels along all lines, for each set of rounds, and put together what they make.

    A group often is the same now and before, or with and without the rows of a round; a function in Python is then
    called once for both.
    """
    lattice = history.layout.lattice
    spec = spec.for_similar_groups()
    results: list[tuple[Updates, Updates]] = []
    for sign, rows in history.parts():
        for low, high in lines.pieces(rows):
            result = spec.reduce(lines.groups(rows, low, high), operator)
            oks, errs = (lines.spread(updates, low, high) for updates in (result.oks, result.errs))
            results.append((_signed(oks, sign), _signed(errs, sign)))
    oks, errs = (
        consolidate(Updates.concat([m[i] for m in results], schema, lattice.width), lattice)
        for i, schema in enumerate((spec.schema, ERROR_SCHEMA))
    )
    return ReduceOutput(oks, errs, history.later())


def _signed(updates: Updates, sign: int) -> Updates:
    return updates if sign > 0 else Updates(updates.rows, updates.times, negate(updates.diffs))


@dataclass(frozen=True)
class Spread:
    """Output as a sum of changes at points and of what stands at points, each with a factor, put at a target's time.

    Shape:  line l has the points from ``bounds[l]`` up to ``bounds[l + 1]``; ``times`` (width, T) of targets.
    """

    bounds: Ints
    times: Ints
    changes: Requests
    stands: Requests

    def __call__(self, result: Updates, low: int, high: int) -> Updates:
        """What comes of changes that the kernels made on lines ``low`` to ``high``; moments are points."""
        points = result.times[0]
        parts = [self._taken(result, np.arange(len(result)), result.diffs, self.changes, points, points + 1)]
        requested = np.searchsorted(self.stands[0], self.bounds[low : high + 1])
        if requested[-1] > requested[0] and len(result):
            line = np.searchsorted(self.bounds, points, side="right") - 1
            some = np.flatnonzero(requested[line + 1 - low] > requested[line - low])
            if len(some):
                parts.append(self._standing(result.take(some), line[some]))
        return Updates.concat(parts, result.schema, len(self.times))

    def _standing(self, result: Updates, line: Ints) -> Updates:
        """Rows as they stand at the points where that is asked: from a change on up to the next of the same row."""
        row, _ = group_rows(result.rows, line[None])
        order = np.lexsort((result.times[0], row))
        row, start = row[order], result.times[0, order]
        last = np.append(row[1:] != row[:-1], True)
        end = np.where(last, self.bounds[line[order] + 1], np.append(start[1:], 0))
        count = np.cumsum(result.diffs[order])  # of all rows together; what it was before a row is taken away
        first = np.flatnonzero(np.append(True, last[:-1]))
        count -= np.repeat(count[first] - result.diffs[order[first]], np.diff(np.append(first, len(order))))
        some = np.flatnonzero(count)
        return self._taken(result, order[some], count[some], self.stands, start[some], end[some])

    def _taken(self, result: Updates, rows: Ints, diffs: Ints, requested: Requests, start: Ints, end: Ints) -> Updates:
        """Each of ``rows`` for all requests of points from ``start`` up to ``end``."""
        points, targets, factors = requested
        low, high = np.searchsorted(points, start), np.searchsorted(points, end)
        many = high - low
        which = np.repeat(np.arange(len(rows)), many)
        request = np.arange(len(which)) + np.repeat(low - (np.cumsum(many) - many), many)
        times = self.times.take(targets[request], axis=1)
        return Updates(result.rows.take(rows[which]), times, multiply(diffs[which], factors[request]))
