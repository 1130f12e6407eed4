"""Groups at every moment of a step, each with its rows lined up in an order: what functions of a row's place read.

A *line* is a group at a moment, or as it was before the step. A row that is there n times is n *places* of its line.
Lines are made in pieces of a bounded number of places, all of which are computed at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.immutable import lazy
from altneu.columnar.ranking import Order, Words, codes, dense, sort_lines
from altneu.columnar.rows import Ints, taken
from altneu.compiled import compiled
from altneu.errors import DiffOverflowError, StepFailedError
from altneu.operators.kernels.contents import Contents
from altneu.operators.kernels.exact_sum import bump
from altneu.operators.kernels.in_order import GroupsInOrder
from altneu.operators.reduce.aggregates import DATA, NEGATIVE

MOST_PLACES = 1 << 21  # that are computed at once; a line that has more is computed by itself
_MOST_COPIES = 2**31 - 1
_BEFORE = -1
_NO_UNITS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Places:
    """A piece of lines, one after another.

    Shape:  n places: ``rank`` (n,) of the row, an index into ``Ordered.row``; ``copy`` (n,) which of its copies it is.
            L lines: ``bounds`` (L + 1,) where each begins; ``group`` (L,) of each; ``moment`` (L,), -1 where it stands
            for what was before; ``state`` (L,) DATA, or why the group is an error, which then has no places.
    """

    ordered: Ordered
    rank: Ints
    copy: Ints
    bounds: Ints
    group: Ints
    moment: Ints
    state: Ints

    def __len__(self) -> int:
        return len(self.rank)

    @lazy
    def row(self) -> Ints:
        """The row at each place, an index into the contents' values."""
        return self.ordered.row[self.rank]

    @lazy
    def line(self) -> Ints:
        """The line of each place."""
        return _line_of(self.bounds)

    @lazy
    def start(self) -> Ints:
        """Where the line of each place begins."""
        return self.bounds[self.line]

    @lazy
    def end(self) -> Ints:
        """Where the line of each place ends."""
        return self.bounds[self.line + 1]

    @lazy
    def skipped(self) -> Ints | int:
        """How many places of its line are before those that are here."""
        some = self.ordered.held.groups.skipped
        return 0 if some is None else some.units[self.group][self.line]

    @lazy
    def skipped_peers(self) -> Ints | int:
        """How many distinct values of the order are before those that are here."""
        some = self.ordered.held.groups.skipped
        return 0 if some is None else some.peers[self.group][self.line]

    @lazy
    def at(self) -> Ints:
        """The places."""
        return np.arange(self.rank.size)

    @lazy
    def _fresh(self) -> Ints:
        """Where peers begin, and the end."""
        return _fresh_of(self.ordered.peer, self.rank, self.line)

    @lazy
    def peers(self) -> Ints:
        """Peers numbered through all lines."""
        return _line_of(self._fresh)

    @lazy
    def peers_start(self) -> Ints:
        """Where the peers of each place begin."""
        return self._fresh[self.peers]

    @lazy
    def peers_end(self) -> Ints:
        """Where the peers of each place end."""
        return self._fresh[self.peers + 1]

    def places_in(self, other: Places) -> Ints:
        """For each place that of the same row and copy in another order of the same lines."""
        return _places_in(self.bounds, self.row, self.copy, other.row, other.copy, len(self.ordered.row))

    def first_at(self, rank: Ints) -> Ints:
        """For each place the first of its line whose rank is not below ``rank``; the line's end if there is none."""
        return _first_at(self.rank, self.start, self.end, rank)


@dataclass(frozen=True)
class Ordered:
    """The distinct values of the groups in an order, what the order leaves undecided by all of their columns.

    Shape:  V ranks: ``row`` (V,) the value of each, ``peer`` (V,) a number that peers of a group share; group g has the
            ranks from ``starts[g]`` up to ``starts[g + 1]``.
    """

    held: Contents
    order: tuple[Order, ...]
    row: Ints
    peer: Ints
    starts: Ints
    computed: dict[tuple[object, ...], Ints] = field(default_factory=dict)

    @classmethod
    def of(cls, held: Contents, order: Sequence[Order]) -> Ordered:
        """Put values in order. Within a group all values of a key column are equal."""
        key, count = held.groups.layout.key, held.values.count
        row, starts = held.in_order(order)
        if isinstance(held.groups, GroupsInOrder) and order[:1] == held.groups.layout.order[:1]:
            peer, ties = _told_apart(held.groups.words_in_order, held.group, row)
            if not ties:  # else columns are read
                return cls(held, tuple(order), row, peer, starts)
        differs, lines = np.ones(count, np.bool_), [held.group[row]]
        for name, descending, nulls_first in order:
            if name not in key:
                column = held.values.column_at(name, row)
                lines += sort_lines(column, descending=descending, nulls_first=nulls_first)
        differs[1:] = np.logical_or.reduce([line[1:] != line[:-1] for line in lines])
        return cls(held, tuple(order), row, np.cumsum(differs), starts)

    def column(self, name: str) -> pa.Array:
        """A column of the values, or of their groups' keys."""
        if name in self.held.groups.layout.key:
            return taken(self.held.groups.keys.column(name), pa.array(self.held.group))
        return self.held.values.column(name)

    def codes(self, name: str) -> Ints:
        """One number a value of a column, ordered as its values are; what stands at a null means nothing."""
        return self._once((name,), lambda: codes(self.column(name)))

    def bound(self, name: str, *, after: bool) -> Ints:
        """For each value the first rank of its group that is not before, or is ``after``, what a column holds there."""
        return self._once((name, after), lambda: self._bound(name, after=after))

    def _once(self, key: tuple[object, ...], make: Callable[[], Ints]) -> Ints:
        """What every piece asks for is made for the first one."""
        if key not in self.computed:
            self.computed[key] = make()
        return self.computed[key]

    def _bound(self, name: str, *, after: bool) -> Ints:
        ((order, descending, nulls_first),) = self.order
        bounds = self.column(name)
        both = pa.concat_arrays([self.column(order).cast(bounds.type), bounds])
        lines = sort_lines(both, descending=descending, nulls_first=nulls_first)
        code = dense(lines, len(both)) if lines[1:] else lines[0]
        count = len(bounds)
        return _bounded(code[:count][self.row], self.starts, self.held.group, code[count:], after)

    def pieces(self) -> Iterator[Places]:
        """Every line, in pieces; a line of a group is in the piece of the next one too.

        Raises:
            DiffOverflowError: a count leaves the signed 64-bit range.
            StepFailedError: a line has more places than can be numbered.
        """
        held = self.held
        starts, skipped = (held.moments, held.groups.old_start, self.starts), held.groups.skipped
        new, old = (held.new_value, held.new_diffs), (held.old_value, held.groups.old_diffs)
        units = _NO_UNITS if skipped is None else skipped.units
        group, moment, rank, sizes, most, overflow = _lines(held.moment_group, self.row, starts, new, old, units)
        if overflow:
            raise DiffOverflowError("the count of a row left the signed 64-bit range; the step is not committed")
        if most > _MOST_COPIES:
            raise StepFailedError(
                f"a partition holds more than {_MOST_COPIES:,} rows, each counted as often as it is there, and a "
                "window function has a result for each; partition by one column more, or make the rows distinct first"
            )
        counts, groups = np.zeros(rank.size, np.int64), (group, moment, rank, *starts)
        for first, last in cut(sizes):
            again = int(moment[first] != _BEFORE)
            filled = _fill(groups, new, old, counts, (first, last, again), sizes)
            yield Places(self, *filled[:3], group[first - again : last], *filled[3:])


def cut(sizes: Ints) -> Iterator[tuple[int, int]]:
    """Runs of things that together have at most ``MOST_PLACES``, or are one; a size below zero counts as none."""
    upto, first, before = np.maximum(sizes, 0).cumsum(), 0, 0
    if upto.size and upto[-1] <= MOST_PLACES:
        first = upto.size
        yield 0, first
    while first < len(upto):
        last = max(first + 1, int(np.searchsorted(upto, before + MOST_PLACES, side="right")))
        yield first, last
        first, before = last, int(upto[last - 1])


@compiled()
def _told_apart(words: Words, group: Ints, row: Ints) -> tuple[Ints, int]:
    """Rows of equal group and word numbered through, in their order; and how many share both with the one before."""
    peer, ties = np.zeros(len(row), np.int64), 0
    for p in range(1, len(row)):
        ties += words[row[p]] == words[row[p - 1]] and group[row[p]] == group[row[p - 1]]
        peer[p] = p - ties
    return peer, ties


@compiled()
def _lines(
    groups: Ints, row: Ints, starts: Any, new: Any, old: Any, skipped: Ints
) -> tuple[Ints, Ints, Ints, Ints, int, bool]:
    """The group and the moment of each line, where ``groups`` are those of the moments; the rank of each row.

    And what ``_sizes`` gives. The first line of a group is what there was before its moments.
    """
    group, moment, count = np.empty(2 * len(groups), np.int64), np.empty(2 * len(groups), np.int64), 0
    for m in range(len(groups)):
        if m == 0 or groups[m] != groups[m - 1]:
            group[count], moment[count] = groups[m], _BEFORE
            count += 1
        group[count], moment[count] = groups[m], m
        count += 1
    rank = np.empty(len(row), np.int64)
    for place in range(len(row)):
        rank[row[place]] = place
    group, moment = group[:count].copy(), moment[:count].copy()
    sizes, most, overflow = _sizes((group, moment, rank, starts[0], starts[1], starts[2]), new, old, skipped)
    return group, moment, rank, sizes, most, overflow


@compiled()
def _apply(begin: int, end: int, updates: Any, rank: Ints, counts: Ints) -> tuple[int, int, int, bool]:
    """Add updates to counts: by how much there are more copies, negative counts, and too large ones; overflow."""
    values, diffs = updates
    copies, negatives, large = 0, 0, 0
    overflow = False
    for p in range(begin, end):
        at = rank[values[p]]
        before = counts[at]
        overflow |= bump(counts, at, diffs[p])
        after = counts[at]
        copies += max(after, 0) - max(before, 0)
        negatives += (1 if after < 0 else 0) - (1 if before < 0 else 0)
        large += (1 if after > _MOST_COPIES else 0) - (1 if before > _MOST_COPIES else 0)
    return copies, negatives, large, overflow


@compiled()
def _updates(line: int, groups: Any) -> tuple[int, int]:
    """Which updates make a line of the one before: those of its moment, or the old ones of its group."""
    group, moment, _, moments, old_starts, _ = groups
    if moment[line] < 0:
        return old_starts[group[line]], old_starts[group[line] + 1]
    return moments[moment[line]], moments[moment[line] + 1]


@compiled()
def _sizes(groups: Any, new: Any, old: Any, skipped: Ints) -> tuple[Ints, int, bool]:
    """The places of each line, -1 where a count is below zero; the most with those that are skipped; overflow."""
    group, moment, rank = groups[0], groups[1], groups[2]
    sizes, counts = np.empty(len(moment), np.int64), np.zeros(len(rank), np.int64)
    total, below, many, most = 0, 0, 0, 0
    overflow = False
    for line in range(len(moment)):
        begin, end = _updates(line, groups)
        if moment[line] < 0:
            total, below, many = 0, 0, 0
            copies, negatives, large, over = _apply(begin, end, old, rank, counts)
        else:
            copies, negatives, large, over = _apply(begin, end, new, rank, counts)
        total, below, many = total + copies, below + negatives, many + large
        overflow |= over
        sizes[line] = -1 if below > 0 else _MOST_COPIES + 1 if many > 0 else total
        most = max(most, sizes[line] + (skipped[group[line]] if len(skipped) else 0))
    return sizes, most, overflow


@compiled()
def _fill(
    groups: Any, new: Any, old: Any, counts: Ints, lines: Any, sizes: Ints
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Ranks, copies, bounds, moments and states of some lines.

    ``counts`` are those of the line before the first, which may come again, as what was before the others.
    """
    group, moment, rank_of, _, _, starts = groups
    first, last, again = lines
    start = first - again
    bounds, state = np.zeros(last - start + 1, np.int64), np.full(last - start, DATA)
    for line in range(start, last):
        bounds[line - start + 1] = bounds[line - start] + max(sizes[line], 0)
        if sizes[line] < 0:
            state[line - start] = NEGATIVE
    at = moment[start:last].copy()
    if len(at):
        at[0] = _BEFORE
    ranks, copies = np.empty(bounds[-1], np.int64), np.empty(bounds[-1], np.int64)
    count = 0
    for line in range(start, last):
        if line >= first:
            begin, end = _updates(line, groups)
            if moment[line] < 0:
                _apply(begin, end, old, rank_of, counts)
            else:
                _apply(begin, end, new, rank_of, counts)
        if sizes[line] <= 0:
            continue
        for rank in range(starts[group[line]], starts[group[line] + 1]):
            for copy in range(counts[rank]):
                ranks[count], copies[count] = rank, copy
                count += 1
    return ranks, copies, bounds, at, state


@compiled()
def _fresh_of(peer: Ints, rank: Ints, line: Ints) -> Ints:
    """The places whose peer or line is not that of the one before, and how many places there are."""
    result, count = np.empty(len(rank) + 1, np.int64), 0
    for p in range(len(rank)):
        if p == 0 or line[p] != line[p - 1] or peer[rank[p]] != peer[rank[p - 1]]:
            result[count] = p
            count += 1
    result[count] = len(rank)
    return result[: count + 1].copy()


@compiled()
def _line_of(bounds: Ints) -> Ints:
    """The line, or run, of each place, where these begin and end."""
    result = np.empty(bounds[-1], np.int64)
    for line in range(len(bounds) - 1):
        result[bounds[line] : bounds[line + 1]] = line
    return result


@compiled()
def _places_in(bounds: Ints, rows: Ints, copies: Ints, other: Ints, other_copies: Ints, values: int) -> Ints:
    """Copies of a row are together in any order."""
    result, first = np.empty(len(rows), np.int64), np.empty(values, np.int64)
    for line in range(len(bounds) - 1):
        for i in range(bounds[line], bounds[line + 1]):
            first[other[i]] = i - other_copies[i]
        for i in range(bounds[line], bounds[line + 1]):
            result[i] = first[rows[i]] + copies[i]
    return result


@compiled()
def _first_at(ranks: Ints, start: Ints, end: Ints, wanted: Ints) -> Ints:
    result = np.empty(len(start), np.int64)
    for i in range(len(start)):
        low, high = start[i], end[i]
        while low < high:
            middle = (low + high) >> 1
            if ranks[middle] >= wanted[i]:
                high = middle
            else:
                low = middle + 1
        result[i] = low
    return result


@compiled()
def _bounded(codes: Ints, starts: Ints, groups: Ints, bounds: Ints, after: bool) -> Ints:
    """For each value the first rank of its group whose code is not below its bound (``after``: is above it)."""
    result = np.empty(len(bounds), np.int64)
    for v in range(len(bounds)):
        low, high = starts[groups[v]], starts[groups[v] + 1]
        while low < high:
            middle = (low + high) >> 1
            if codes[middle] > bounds[v] or (codes[middle] == bounds[v] and not after):
                high = middle
            else:
                low = middle + 1
        result[v] = low
    return result
