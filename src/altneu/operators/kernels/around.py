"""The rows of a group around those that a step touches: all that window functions over near rows have to read.

A function that looks r rows back and on changes for rows that are at most r rows from one that is touched, and reads
what is at most 2 r rows from it. So let old rows be read on both sides of each touched row until 2 r units of
multiplicity come from rows that the step does not touch: whatever happens at any of its times, these are there. What
was read, one stretch after another, is as good as the group: a row in it that is farther than r from every touched
row may look across a gap at rows that are not its neighbours, but at all times at the same ones, and so its value,
right or wrong, does not change; and no other row is in doubt. That holds where no row's count is below zero: groups
that have such a row are read whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from altneu.columnar.columns import Mask
from altneu.columnar.lookup import first_at
from altneu.columnar.ranking import Words
from altneu.columnar.rows import Ints, Rows
from altneu.operators.kernels.block_sums import may_leave_range
from altneu.operators.kernels.compiled import compiled
from altneu.operators.kernels.ends import Located, NewRows, has_below_zero, joined_runs, no_matches, places_in, ranked
from altneu.operators.reduce.node import Around
from altneu.trace.batch import Arranged, Layout, Matches, matches_of

_LAST_WORD = np.uint64(2**64 - 1)
_ONE = np.uint64(1)
_SMALL = 64  # groups of so many old updates, and of few for each that is needed, are read whole
_MORE = 4


def around_of(given: Arranged, around: Around, negative: Arranged, new: NewRows) -> Matches:
    """The old updates near those that are new, by key; ``new`` has all that is new of them.

    Shape:  ``given`` in an order of columns; ``negative`` has the number of rows of each key whose count is
            below zero, arranged by the key.
    Cost:   O(d r log n) rows for d new updates of a group of n, and r units on each side.
    Law:    a function of near rows changes of these as of the whole groups (tests/operators/test_around.py).
    """
    layout = given.layout
    if not any(len(batch) for batch in given.old):
        return no_matches(layout)
    result = Located.of(given.old, new.hashes, new.keys)
    count = new.keys.count
    size = np.zeros(count, np.int64)
    np.add.at(size, result.hits[:, 0], result.hits[:, 3] - result.hits[:, 2])
    touched = np.bincount(new.number, minlength=count)
    take = np.full(count, around.units + 1)
    whole = has_below_zero(negative, new.hashes, new.keys) | (size <= np.maximum(_MORE * touched * take, _SMALL))
    if around.sums_of_wide:
        whole |= may_leave_range(result, new, around.sums_of_wide)
    points = _Points.of(new)
    while not whole.all():
        runs, cuts = _cut_around(result.hits, result.batch, result.words, points.owner, points.word, take, whole)
        runs = joined_runs(np.concatenate([runs, result.hits[whole[result.hits[:, 0]]]]))
        cuts = cuts[np.lexsort((cuts[:, 4], cuts[:, 3], cuts[:, 2]))]
        read = _Read.of(matches_of(runs, result.used, layout), new, layout, points)
        read.leave(cuts[:, 0], places_in(runs, cuts[:, 2:]), cuts[:, 1])
        short = read.short(around.units) & ~whole
        if not short.any():
            return read.needed(whole)
        take = np.where(short, _MORE * take, take)
        whole |= take >= size
    return matches_of(result.hits, result.used, layout)


@dataclass(frozen=True)
class _Points:
    """The distinct words of what is new, by key: the key of each, ascending, and the word."""

    owner: Ints
    word: Words

    @classmethod
    def of(cls, new: NewRows) -> _Points:
        """Of new updates, which lie by key and word within the runs of a batch."""
        order = np.lexsort((new.words, new.number))
        owner, word = new.number[order], new.words[order]
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (owner[1:] != owner[:-1]) | (word[1:] != word[:-1])
        return cls(owner[fresh], word[fresh])


@dataclass
class _Read:
    """What was read of old batches, and the distinct rows of it and of what is new, ranked by group and order.

    Shape:  ``rank`` of each of the ``old``; of each rank its group ``owner``, what its old updates sum up to,
            ``copies``, and whether it ``is_new``. Point p is at the ranks from ``first[p]`` up to ``last[p]``, and all
            rows of its group were read whose rank is above ``low[p]`` and below ``high[p]``.
    """

    old: Matches
    rank: Ints
    owner: Ints
    copies: Ints
    is_new: Mask
    points: _Points
    first: Ints
    last: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, old: Matches, new: NewRows, layout: Layout, points: _Points) -> _Read:
        """Rank what was read."""
        group = np.concatenate([old.probe, new.number])
        both = Rows.concat([old.values, new.values], layout.value_schema)
        rank, owner = ranked(both, group, layout)
        many = len(owner)
        word = np.empty(many, np.uint64)
        word[rank] = np.concatenate([old.value_hash, new.words])
        copies, is_new = np.zeros(many, np.int64), np.zeros(many, np.bool_)
        np.add.at(copies, rank[: len(old)], old.diffs)
        is_new[rank[len(old) :]] = True
        first, last = _places_of(points.owner, points.word, owner, word)
        nothing = np.full(len(first), -1), np.full(len(first), many)
        return cls(old, rank[: len(old)], owner, copies, is_new, points, first, last, *nothing)

    def leave(self, point: Ints, at: Ints, behind: Ints) -> None:
        """Say at which of the old updates batches were left before points (``behind`` 0), and behind them (1)."""
        before = behind == 0
        np.maximum.at(self.low, point[before], self.rank[at[before]])
        np.minimum.at(self.high, point[~before], self.rank[at[~before]])

    def short(self, units: int) -> Mask:
        """In which groups too few rows were read beside some point that stay whatever is new."""
        staying = np.where(self.is_new, 0, np.clip(self.copies, 0, units))
        upto = np.concatenate([[0], np.cumsum(staying)])
        many = len(self.owner)
        before = upto[self.first] - upto[np.minimum(self.low + 1, self.first)]
        after = upto[np.maximum(self.high, self.last)] - upto[self.last]
        wrong = ((self.low >= 0) & (before < units)) | ((self.high < many) & (after < units))
        short = np.zeros(int(self.points.owner.max()) + 1 if len(self.points.owner) else 0, np.bool_)
        short[self.points.owner[wrong]] = True
        return short

    def needed(self, whole: Mask) -> Matches:
        """The old updates of groups that were read ``whole``, and those around the points."""
        old, many = self.old, len(self.owner)
        edges = np.zeros(many + 1, np.int64)
        starts = np.searchsorted(self.owner, self.points.owner)
        stops = np.searchsorted(self.owner, self.points.owner, side="right")
        np.add.at(edges, np.maximum(self.low + 1, starts), 1)
        np.add.at(edges, np.minimum(self.high, stops), -1)
        index = np.flatnonzero((np.cumsum(edges)[:-1] > 0)[self.rank] | whole[old.probe])
        values = old.values.take(index)
        return Matches(old.probe[index], values, old.value_hash[index], old.times.take(index, axis=1), old.diffs[index])


@compiled
def _places_of(owner: Ints, word: Words, owners: Ints, words: Words) -> tuple[Ints, Ints]:
    """For each point the first rank of its group with its word, and that behind the last."""
    first, last = np.empty(len(owner), np.int64), np.empty(len(owner), np.int64)
    at = 0
    for p in range(len(owner)):
        while owners[at] != owner[p] or words[at] != word[p]:
            at += 1
        first[p] = at
        while at < len(owners) and owners[at] == owner[p] and words[at] == word[p]:
            at += 1
        last[p] = at
    return first, last


@compiled
def _cut_around(
    hits: Ints, batch: Ints, addresses: Ints, owner: Ints, word: Words, take: Ints, whole: Mask
) -> tuple[Ints, Ints]:
    """The rows that each batch has around points, as runs; and where it was left: (point, behind, key, block, row).

    Runs are by key, and a batch's blocks follow each other.
    """
    out, left = np.empty((len(hits) + 8, 4), np.int64), np.empty((len(hits) + 8, 5), np.int64)
    count, early = 0, 0
    first, low = 0, 0
    while first < len(hits):
        key, of = hits[first, 0], batch[hits[first, 1]]
        last = first + 1
        while last < len(hits) and hits[last, 0] == key and batch[hits[last, 1]] == of:
            last += 1
        while low < len(owner) and owner[low] < key:
            low += 1
        p = low
        while p < len(owner) and owner[p] == key and not whole[key]:
            before, upto, size = 0, 0, 0
            for h in range(first, last):
                address, start, stop = addresses[hits[h, 1]], hits[h, 2], hits[h, 3]
                begin = first_at(address, start, stop, word[p])
                end = stop if word[p] == _LAST_WORD else first_at(address, begin, stop, word[p] + _ONE)
                before, upto, size = before + begin - start, upto + end - start, size + stop - start
            begin, end = max(before - take[key], 0), min(upto + take[key], size)
            passed = 0
            for h in range(first, last):
                start, stop = hits[h, 2], hits[h, 3]
                low_at, high_at = max(begin - passed, 0), min(end - passed, stop - start)
                if low_at < high_at:
                    if count == len(out):
                        out = _twice(out)
                    out[count, 0], out[count, 1] = key, hits[h, 1]
                    out[count, 2], out[count, 3] = start + low_at, start + high_at
                    count += 1
                    if early + 2 > len(left):
                        left = _twice(left)
                    if begin > 0 and passed + low_at == begin:
                        left[early, 0], left[early, 1], left[early, 2] = p, 0, key
                        left[early, 3], left[early, 4] = hits[h, 1], start + low_at
                        early += 1
                    if end < size and passed + high_at == end:
                        left[early, 0], left[early, 1], left[early, 2] = p, 1, key
                        left[early, 3], left[early, 4] = hits[h, 1], start + high_at - 1
                        early += 1
                passed += stop - start
            p += 1
        first = last
    return out[:count].copy(), left[:early].copy()


@compiled
def _twice(lines: Ints) -> Ints:
    more = np.empty((2 * len(lines), lines.shape[1]), np.int64)
    more[: len(lines)] = lines
    return more
