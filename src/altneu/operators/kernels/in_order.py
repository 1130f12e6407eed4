"""Rows of groups ranked by an order: by its words, and by columns only where words are equal and rows are not.

Most rows have a word that no other of their group has, or are the same row as the one beside them. So few columns are
read, and of few rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from altneu.columnar.gathered import Gathered
from altneu.columnar.hashing import Hashes, hash_rows
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
    place = _by_word(group, words, int(group.max()) + 1 if len(group) else 0)
    tied = _tied(group, words, place)
    fresh = np.ones(len(place), np.bool_)
    if len(tied):
        same = some.equal(place[tied - 1], place[tied])
        fresh[tied[same]] = False
        if not same.all():
            columns = {name: partial(some.column_at, name) for name in some.schema.names}
            sort_ties(columns, order, place, _runs(tied, tied[~same]), fresh)
    rank = np.empty(len(place), np.int64)
    rank[place] = np.cumsum(fresh) - 1
    return InOrder(rank, place[fresh])


def _words(rows: Gathered, order: Sequence[Order]) -> Words:
    if not order:
        return np.zeros(rows.count, np.uint64)
    name, descending, nulls_first = order[0]
    return order_words(rows.column(name), descending=descending, nulls_first=nulls_first)


class GroupsInOrder(Groups):
    """Groups of an arrangement in an order; their rows are ranked, and hashed, only where that is asked for.

    Shape:  as of any groups; ``words`` of all updates, the old ones first, are those of the first column of the order.
    """

    def __init__(
        self,
        layout: Layout,
        keys: Rows,
        new: tuple[Ints, Rows, Words, Ints, Ints],
        old: Matches,
        skipped: Skipped | None = None,
    ) -> None:
        group, values, words, times, diffs = new
        attributes = {"layout": layout, "keys": keys, "new_group": group, "new_times": times, "new_diffs": diffs}
        attributes |= {"old_start": np.searchsorted(old.probe, np.arange(keys.count + 1)), "old_diffs": old.diffs}
        attributes |= {"_words": np.concatenate([old.value_hash, words]), "_old": old, "_values": values}
        self.__dict__.update(attributes | {"skipped": skipped})

    def picked(self) -> Picked:
        """As of any groups; nothing is gathered."""
        both, count = self._both, len(self.old_diffs)
        return Picked(both, self._diffs, np.arange(count), np.arange(count, both.count))

    @cached_property
    def _both(self) -> Gathered:
        return Gathered.both(self.__dict__["_old"].values, self.__dict__["_values"])

    @cached_property
    def _diffs(self) -> Ints:
        return np.concatenate([self.old_diffs, self.new_diffs])

    @cached_property
    def in_order(self) -> InOrder:
        """The ranks of all rows, the old ones first."""
        group = np.concatenate([self.__dict__["_old"].probe, self.new_group])
        return in_order(self._both, group, self.layout.order, self.__dict__["_words"])

    @cached_property
    def new_values(self) -> Rows:
        """Of the new updates."""
        values: Rows = self.__dict__["_values"]
        return values

    @cached_property
    def old_values(self) -> Rows:
        """Of the old updates."""
        old: Matches = self.__dict__["_old"]
        return old.values

    @cached_property
    def new_hashes(self) -> Hashes:
        """Of the values of the new updates."""
        return hash_rows(self.new_values)

    @cached_property
    def old_hashes(self) -> Hashes:
        """Of the values of the old updates."""
        return hash_rows(self.old_values)


@compiled()
def _by_word(group: Ints, words: Words, count: int) -> Ints:
    """Positions by group and word, equal ones as they stand."""
    place, starts = bucketed(group, count)
    for g in range(count):
        sort_by(place[starts[g] : starts[g + 1]], words)
    return place


@compiled()
def _tied(group: Ints, words: Words, place: Ints) -> Ints:
    """The places whose group and word are those of the place before."""
    tied, count = np.empty(len(place), np.int64), 0
    for p in range(1, len(place)):
        if words[place[p]] == words[place[p - 1]] and group[place[p]] == group[place[p - 1]]:
            tied[count] = p
            count += 1
    return tied[:count].copy()


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
