"""Rows of groups ranked by an order: by its words, and by columns only where words are equal and rows are not.

Most rows have a word that no other of their group has, or are the same row as the one beside them. So few columns are
read, and of few rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from altneu.columnar.columns import Mask
from altneu.columnar.gathered import Gathered
from altneu.columnar.hashing import Hashes, hash_rows
from altneu.columnar.immutable import lazy
from altneu.columnar.ranking import Order, Words, order_words
from altneu.columnar.rows import Ints, Rows
from altneu.columnar.sorting import sort_ties
from altneu.compiled import compiled
from altneu.operators.kernels.grouping import bucketed
from altneu.operators.kernels.groups import Groups, Picked, Skipped, sort_by
from altneu.trace.batch import Layout, Matches


class InOrder(NamedTuple):
    """Rows by group and order: the ``rank`` of each among the distinct ones, and a row of each rank, its ``first``."""

    rank: Ints
    first: Ints


def in_order(rows: Rows, group: Ints, order: Sequence[Order], words: Words | None = None) -> InOrder:
    """Rank the distinct rows of all groups, by group and order, ties by every other column, ascending, nulls first.

    Shape:  n rows, and ``group`` (n,) of each; ``words`` are those of the first column of the order, if they are known.
    Cost:   O(n log n) words; one comparison for each row that shares its word with another of its group, and where
            these differ, a sort of them by one column after another, until they do.
    Law:    ranks are those of ``whole_order`` (tests/operators/test_in_order.py).
    """
    if rows.count == 1:
        return InOrder(np.zeros(1, np.int64), np.zeros(1, np.int64))
    some = Gathered.of(rows)
    if words is None:
        words = _words(some, order)
    place, rank, tied = _by_word(group, words)
    if not tied.size:
        return InOrder(rank, place)
    same, fresh = some.equal(place[tied - 1], place[tied]), np.ones(len(place), np.bool_)
    fresh[tied[same]] = False
    if not same.all():
        columns = {name: partial(some.column_at, name) for name in some.schema.names}
        sort_ties(columns, order, place, _runs(tied, tied[~same]), fresh)
    return InOrder(*_numbered(place, fresh))


def _words(rows: Gathered, order: Sequence[Order]) -> Words:
    if not order:
        return np.zeros(rows.count, np.uint64)
    name, descending, nulls_first = order[0]
    return order_words(rows.column(name), descending=descending, nulls_first=nulls_first)


class InPart(NamedTuple):
    """What was read of some groups: the old updates, by key.

    ``skipped`` are those in front of them that were not read, if their number or sum matters. ``both`` are the rows of
    the old and of the new updates, and ``order`` ranks these rows, where the reader has ranked them already.
    """

    old: Matches
    both: Gathered | None = None
    order: InOrder | None = None
    skipped: Skipped | None = None


class GroupsInOrder(Groups):
    """Groups of an arrangement in an order; their rows are ranked, and hashed, only where that is asked for.

    Shape:  as of any groups; ``words`` of all updates, the old ones first, are those of the first column of the order.
    """

    def __init__(
        self,
        layout: Layout,
        keys: Rows,
        new: tuple[Ints, Rows, Words, Ints, Ints],
        read: InPart,
    ) -> None:
        group, values, words, times, diffs = new
        old = read.old
        attributes = {"layout": layout, "keys": keys, "new_group": group, "new_times": times, "new_diffs": diffs}
        attributes |= {"old_start": old.probe.searchsorted(np.arange(keys.count + 1)), "old_diffs": old.diffs}
        attributes |= {"old_group": old.probe, "_new_words": words, "_old": old, "_values": values}
        if read.order is not None:
            attributes |= {"both": read.both, "in_order": read.order}
        self.__dict__.update(attributes | {"skipped": read.skipped})

    def picked(self) -> Picked:
        """As of any groups; nothing is gathered."""
        both, count = self.both, len(self.old_diffs)
        return Picked(both, self._diffs, np.arange(count), np.arange(count, both.count))

    @lazy
    def both(self) -> Gathered:
        """The rows of the old and then of the new updates."""
        return Gathered.both(self.__dict__["_old"].values, self.__dict__["_values"])

    @lazy
    def _diffs(self) -> Ints:
        return np.concatenate([self.old_diffs, self.new_diffs])

    @lazy
    def in_order(self) -> InOrder:
        """The ranks of all rows, the old ones first."""
        return in_order(self.both, np.concatenate([self.old_group, self.new_group]), self.layout.order, self._words)

    @lazy
    def _words(self) -> Words:
        old: Matches = self.__dict__["_old"]
        return np.concatenate([old.value_hash, self.__dict__["_new_words"]])

    @property
    def words_in_order(self) -> Words:
        """The word of each rank."""
        return self._words[self.in_order.first]

    @lazy
    def new_values(self) -> Rows:
        """Of the new updates."""
        values: Rows = self.__dict__["_values"]
        return values

    @lazy
    def old_values(self) -> Rows:
        """Of the old updates."""
        old: Matches = self.__dict__["_old"]
        return old.values

    @lazy
    def new_hashes(self) -> Hashes:
        """Of the values of the new updates."""
        return hash_rows(self.new_values)

    @lazy
    def old_hashes(self) -> Hashes:
        """Of the values of the old updates."""
        return hash_rows(self.old_values)


@compiled()
def _by_word(group: Ints, words: Words) -> tuple[Ints, Ints, Ints]:
    """Positions by group and word, equal ones as they stand; the place of each; which have those of the one before."""
    groups = 0
    for g in group:
        groups = max(groups, g + 1)
    place, starts = bucketed(group, groups)
    for g in range(groups):
        sort_by(place[starts[g] : starts[g + 1]], words)
    rank, tied, count = np.empty(len(place), np.int64), np.empty(len(place), np.int64), 0
    for p in range(len(place)):
        rank[place[p]] = p
        if p > 0 and words[place[p]] == words[place[p - 1]] and group[place[p]] == group[place[p - 1]]:
            tied[count] = p
            count += 1
    return place, rank, tied[:count].copy()


@compiled()
def _numbered(place: Ints, fresh: Mask) -> tuple[Ints, Ints]:
    """The rank of each position, where ``fresh`` places begin a rank; and the first position of each rank."""
    rank, first, count = np.empty(len(place), np.int64), np.empty(len(place), np.int64), 0
    for p in range(len(place)):
        if fresh[p]:
            first[count] = place[p]
            count += 1
        rank[place[p]] = count - 1
    return rank, first[:count].copy()


@compiled()
def _runs(tied: Ints, wanted: Ints) -> Ints:
    """The runs of ties that hold some of them: lines of where they start and where they stop."""
    runs, count, t = np.empty((2, len(wanted)), np.int64), 0, 0
    for w in wanted:
        if count and w < runs[1, count - 1]:
            continue
        while tied[t] < w:
            t += 1
        first = last = t
        while first > 0 and tied[first - 1] == tied[first] - 1:
            first -= 1
        while last + 1 < len(tied) and tied[last + 1] == tied[last] + 1:
            last += 1
        runs[0, count], runs[1, count] = tied[first] - 1, tied[last] + 1
        count += 1
    return runs[:, :count].copy()
