"""The rows of a group around those that a step touches: all that window functions over near rows have to read.

A function that looks r rows back and on changes for rows that are at most r rows from one that is touched, and reads
what is at most 2 r rows from it. So let old rows be read on both sides of each touched row until 2 r units of
multiplicity come from rows that the step does not touch: whatever happens at any of its times, these are there. What
was read, one stretch after another, is as good as the group: a row in it that is farther than r from every touched
row may look across a gap at rows that are not its neighbours, but at all times at the same ones, and so its value,
right or wrong, does not change; and no other row is in doubt. That holds where no row's count is below zero: groups
that have such a row are read whole.

A function that ignores nulls does not see the rows on which its argument is null: r counts the others. One whose frame
ends at a value of the order sees rows up to some distance (``within``), and one whose frame ends at the peers of its
row sees these. Where there are several functions, a row may change for one of them, and what the others make of it must
be right then too. So from each touched row on as far is read as it matters to any of them, and from there as far again
as any of them sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from altneu.columnar.columns import Mask, valid_mask
from altneu.columnar.lookup import LAST_WORD
from altneu.columnar.ranking import Order, Words
from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.kernels.in_order import in_order
from altneu.operators.kernels.located import (
    NewRows,
    OldRows,
    Ranked,
    next_batch,
    places_in,
    put_run,
    twice,
)
from altneu.operators.kernels.within import farthest
from altneu.operators.reduce.node import Around
from altneu.trace.batch import Layout, Matches

_MORE = 4


def around_of(around: Around, new: NewRows, old: OldRows) -> Matches:
    """The old updates near those that are new, by key; ``new`` has all that is new.

    Cost:   O(d r log n) rows for d new updates of a group of n, and r units on each side; the rows of frames; and where
            rows count on which a column is not null, those between them that are null too.
    Law:    a function of near rows changes of these as of the whole groups (tests/operators/test_around.py).
    """
    located, count = old.located, new.keys.count
    take = np.full(count, around.units + 1)
    whole = old.whole_up_to(_MORE * np.bincount(new.number, minlength=count) * take)
    points = _Points.of(new, old.layout)
    far = farthest(around.bounds, new, old) if around.bounds else None
    spans = np.empty((0, 4), np.int64)
    if not whole.all():
        spans = located.spans_of(points.owner, new.words[points.at], new.values.take(points.at), old.layout)
    while not whole.all():
        runs, cuts = _cut_around(located.hits, located.batch, spans, points.owner, take, whole)
        runs = old.with_whole(runs, whole)
        cuts = cuts[np.lexsort((cuts[:, 4], cuts[:, 3], cuts[:, 2]))]
        read = _Read.of(Ranked.of(old.read(runs), new, old.layout), points)
        read.leave(cuts[:, 0], places_in(runs, cuts[:, 2:]), cuts[:, 1])
        short = read.short(around, old.layout.order, far) & ~whole
        if not short.any():
            return read.needed(whole)
        take = np.where(short, _MORE * take, take)
        whole |= take >= old.size
    return old.all()


@dataclass(frozen=True)
class _Points:
    """The distinct rows of what is new, by key and order: the key of each, and which of what is new it is."""

    owner: Ints
    at: Ints

    @classmethod
    def of(cls, new: NewRows, layout: Layout) -> _Points:
        """Of new updates."""
        _, first = in_order(new.values, new.number, layout.order, new.words)
        return cls(new.number[first], first)


@dataclass
class _Read:
    """What was read of old batches, ranked, and which of it is around the points.

    Shape:  point p is at the rank ``at[p]``, and all rows of its group were read whose rank is above ``low[p]`` and
            below ``high[p]``.
    """

    ranked: Ranked
    points: _Points
    at: Ints
    low: Ints
    high: Ints

    @classmethod
    def of(cls, ranked: Ranked, points: _Points) -> _Read:
        """Find the points."""
        at = ranked.ranks[len(ranked.old) :][points.at]
        return cls(ranked, points, at, np.full(len(at), -1), np.full(len(at), len(ranked.owner)))

    def leave(self, point: Ints, at: Ints, behind: Ints) -> None:
        """Say at which of the old updates batches were left before points (``behind`` 0), and behind them (1)."""
        before = behind == 0
        np.maximum.at(self.low, point[before], self.ranked.rank[at[before]])
        np.minimum.at(self.high, point[~before], self.ranked.rank[at[~before]])

    def short(self, around: Around, order: Sequence[Order], far: Words | None) -> Mask:
        """In which groups too few rows were read beside some point that stay whatever is new."""
        some = _Some.of(self.ranked, around, order, None if far is None else far[self.ranked.owner])
        start, stop = (np.searchsorted(self.ranked.owner, self.points.owner, side=side) for side in ("left", "right"))
        before = some.before(np.maximum(some.before(self.at), start))
        after = some.after(np.minimum(some.after(self.at), stop - 1))
        wrong = (before <= self.low) & (self.low >= 0)
        wrong |= (after >= self.high) & (self.high < len(self.ranked.owner))
        short = np.zeros(int(self.points.owner.max()) + 1 if len(self.points.owner) else 0, np.bool_)
        short[self.points.owner[wrong]] = True
        return short

    def needed(self, whole: Mask) -> Matches:
        """The old updates of groups that were read ``whole``, and those around the points."""
        owner = self.ranked.owner
        edges = np.zeros(len(owner) + 1, np.int64)
        starts, stops = (np.searchsorted(owner, self.points.owner, side=side) for side in ("left", "right"))
        np.add.at(edges, np.maximum(self.low + 1, starts), 1)
        np.add.at(edges, np.minimum(self.high, stops), -1)
        return self.ranked.chosen((np.cumsum(edges)[:-1] > 0) | whole[owner])


@dataclass(frozen=True)
class _Some:
    """How far rows reach that were read, and are ranked.

    Shape:  of V ranks the sums ``upto`` (V + 1,) of the units before each that stay and count, once for each number of
            ``units``; the first of its ``peers``, or none; ``far`` (V,) how far in words its frame may reach, or none.
    """

    ranked: Ranked
    upto: Sequence[Ints]
    units: Sequence[int]
    peers: Ints | None
    far: Words | None

    @classmethod
    def of(cls, ranked: Ranked, around: Around, order: Sequence[Order], far: Words | None) -> _Some:
        """Half of the units are of rows that change, half of what these are made of."""
        staying = np.where(ranked.is_touched, 0, np.maximum(ranked.copies, 0))
        valid = [valid_mask(ranked.rows.column_at(name, ranked.first)) for name, _ in around.values]
        units = [around.units // 2, *(units // 2 for _, units in around.values)]
        counted = [staying, *(np.where(some, staying, 0) for some in valid)]
        upto = [np.append(0, np.cumsum(np.minimum(n, most))) for n, most in zip(counted, units, strict=True)]
        return cls(ranked, upto, units, ranked.peers(order) if around.with_ties else None, far)

    def before(self, at: Ints) -> Ints:
        """The first row that one at each rank reaches, or one before it."""
        result = at
        for upto, units in zip(self.upto, self.units, strict=True):
            result = np.minimum(result, np.searchsorted(upto, upto[at] - units, side="right") - 1)
        if self.peers is not None:
            result = np.minimum(result, self.peers[at] - 1)
        if self.far is not None:
            word = self.ranked.word[at]
            low = word - np.minimum(word, self.far[at])
            result = np.minimum(result, _first_words(self.ranked.owner, self.ranked.word, at, low, False) - 1)
        return result

    def after(self, at: Ints) -> Ints:
        """The last row that one at each rank reaches, or one behind it."""
        result = at
        for upto, units in zip(self.upto, self.units, strict=True):
            result = np.maximum(result, np.searchsorted(upto, upto[at + 1] + units, side="left") - 1)
        if self.peers is not None:
            result = np.maximum(result, np.searchsorted(self.peers, self.peers[at], side="right"))
        if self.far is not None:
            word = self.ranked.word[at]
            high = word + np.minimum(LAST_WORD - word, self.far[at])
            result = np.maximum(result, _first_words(self.ranked.owner, self.ranked.word, at, high, True))
        return result


@compiled()
def _first_words(owner: Ints, words: Words, at: Ints, wanted: Words, above: bool) -> Ints:
    """The first rank of the group of another that has at least a word (``above``: a greater one), or its end."""
    result = np.empty(len(at), np.int64)
    for p in range(len(at)):
        low, high = 0, len(owner)
        while low < high:
            middle = (low + high) >> 1
            before = owner[middle] < owner[at[p]]
            if owner[middle] == owner[at[p]]:
                before = words[middle] <= wanted[p] if above else words[middle] < wanted[p]
            if before:
                low = middle + 1
            else:
                high = middle
        result[p] = low
    return result


@compiled()
def _cut_around(hits: Ints, batch: Ints, spans: Ints, owner: Ints, take: Ints, whole: Mask) -> tuple[Ints, Ints]:
    """The rows that each batch has around points, as runs; and where it was left: (point, behind, key, block, row)."""
    out, left = np.empty((len(hits) + 8, 4), np.int64), np.empty((len(hits) + 8, 5), np.int64)
    count, early = 0, 0
    first, low, at = 0, 0, np.zeros(len(owner), np.int64)  # of each point the next of its spans
    for s in range(len(spans) - 1, -1, -1):
        at[spans[s, 0]] = s
    while first < len(hits):
        key, last = hits[first, 0], next_batch(hits, batch, first)
        while low < len(owner) and owner[low] < key:
            low += 1
        p = low
        while p < len(owner) and owner[p] == key and not whole[key]:
            before, upto, size = 0, 0, 0
            for h in range(first, last):
                start, stop, begin, end = hits[h, 2], hits[h, 3], spans[at[p], 2], spans[at[p], 3]
                at[p] += 1
                before, upto, size = before + begin - start, upto + end - start, size + stop - start
            begin, end = max(before - take[key], 0), min(upto + take[key], size)
            passed = 0
            for h in range(first, last):
                start, stop = hits[h, 2], hits[h, 3]
                low_at, high_at = max(begin - passed, 0), min(end - passed, stop - start)
                if low_at < high_at:
                    out, count = put_run(out, count, key, hits[h, 1], start + low_at, start + high_at)
                    if early + 2 > len(left):
                        left = twice(left)
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
