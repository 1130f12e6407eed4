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

from dataclasses import dataclass
from typing import Any

import numpy as np

from altneu.columnar.columns import Mask, valid_mask
from altneu.columnar.lookup import LAST_WORD
from altneu.columnar.ranking import Words
from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.kernels.in_order import InPart, in_order
from altneu.operators.kernels.located import (
    NewRows,
    OldRows,
    Ranked,
    by_columns,
    next_batch,
    places_in,
    put_run,
    twice,
)
from altneu.operators.kernels.within import farthest
from altneu.operators.reduce.node import Around
from altneu.trace.batch import Layout

_MORE = 4
_NOWHERE = np.empty((0, 0), np.bool_)
_NO_INTS, _NO_WORDS = np.empty(0, np.int64), np.empty(0, np.uint64)


def around_of(around: Around, new: NewRows, old: OldRows) -> InPart:
    """The old updates near those that are new, by key; ``new`` has all that is new.

    Where they were ranked with it to find them, their order is known with that of what is new.

    Cost:   O(d r log n) rows for d new updates of a group of n, and r units on each side; the rows of frames; and where
            rows count on which a column is not null, those between them that are null too.
    Law:    a function of near rows changes of these as of the whole groups (tests/operators/test_around.py).
    """
    located, count = old.located, new.keys.count
    take = np.array([around.units + 1] * count)
    whole = old.whole_up_to(_MORE * np.bincount(new.number, minlength=count) * take)
    if whole.all():
        return InPart(old.all())
    layout, points = old.layout, _Points.of(new, old.layout)
    far = farthest(around.bounds, new, old) if around.bounds else None
    spans = located.spans_of(points.owner, new.words[points.at], new.values.take(points.at), layout)
    while True:
        runs, cuts = _cut_around(located.hits, located.batch, spans, points.owner, take, whole)
        runs, cuts = old.with_whole(runs, whole), by_columns(cuts, 2)
        ranked = Ranked.of(old.read(runs), new, layout)
        left = cuts, places_in(runs, cuts, 2)
        seen = _seen(around, ranked, layout, far)
        some, short, needed = _around(_read(ranked), points.of_ranks(ranked), left, seen, whole)
        if not some:
            return InPart(*ranked.chosen_in_order(needed))
        take = np.where(short, _MORE * take, take)
        whole |= take >= old.size
        if whole.all():
            return InPart(old.all())


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

    def of_ranks(self, ranked: Ranked) -> tuple[Ints, Ints]:
        """The key of each point, and its rank among the rows that were read."""
        return self.owner, ranked.ranks[ranked.rank.size :][self.at]


def _read(ranked: Ranked) -> tuple[Any, ...]:
    """For kernels: the rank of each old update; of each rank its group, word and copies, and whether it changes."""
    return ranked.rank, ranked.owner, ranked.word, ranked.copies, ranked.is_touched


def _seen(around: Around, ranked: Ranked, layout: Layout, far: Words | None) -> tuple[Ints, Any, Ints, Words]:
    """What says how far a row sees, for kernels.

    Shape:  the units that it counts, of all rows and, for each of some columns, of those on which it is not null, with
            a mask for each of these columns; the first peer of each rank, or none; how far in words frames of each key
            reach, or none. A row sees half of the units: what is half of them from a row that changes may change, too,
            and sees as far again.
    """
    units = np.array([around.units // 2, *[units // 2 for _, units in around.values]], np.int64)
    valid = _NOWHERE
    if around.values:
        valid = np.array([valid_mask(ranked.rows.column_at(name, ranked.first)) for name, _ in around.values])
    peers = ranked.peers(layout.order) if around.with_ties else _NO_INTS
    return units, valid, peers, _NO_WORDS if far is None else far


@compiled()
def _around(read: Any, points: Any, left: Any, seen: Any, whole: Mask) -> tuple[bool, Mask, Mask]:
    """Whether, and in which groups, too few of the rows that stay were read beside a point; which ranks are needed.

    ``points`` have a key and a rank. ``left`` are lines that begin with a point, and with 0 before it or 1 behind it,
    and for each the old update at which batches were left there. Of the group of a point all rows were read whose rank
    is above that of the last one left before it, and below that of the first one left behind it. Needed are these, and
    groups that are read ``whole``.
    """
    rank, owner, words, _, _ = read
    keys, at = points
    cuts, places = left
    many = len(owner)
    low, high = np.full(len(at), -1, np.int64), np.full(len(at), many, np.int64)
    for c in range(len(cuts)):
        p = cuts[c, 0]
        if cuts[c, 1] == 0:
            low[p] = max(low[p], rank[places[c]])
        else:
            high[p] = min(high[p], rank[places[c]])
    upto = _units_before(read, seen)
    some, short, edges = False, np.zeros(len(whole), np.bool_), np.zeros(many + 1, np.int64)
    for p in range(len(at)):
        start = np.searchsorted(owner, keys[p], side="left")
        stop = np.searchsorted(owner, keys[p], side="right")
        before = _before(_before(at[p], start, owner, words, upto, seen), start, owner, words, upto, seen)
        if low[p] >= 0 and before <= low[p]:
            short[keys[p]] = not whole[keys[p]]
            some |= short[keys[p]]
        after = _after(_after(at[p], stop, owner, words, upto, seen), stop, owner, words, upto, seen)
        if high[p] < many and after >= high[p]:
            short[keys[p]] = not whole[keys[p]]
            some |= short[keys[p]]
        edges[max(low[p] + 1, start)] += 1
        edges[min(high[p], stop)] -= 1
    needed, inside = np.empty(many, np.bool_), 0
    for r in range(many):
        inside += edges[r]
        needed[r] = inside > 0 or whole[owner[r]]
    return some, short, needed


@compiled()
def _units_before(read: Any, seen: Any) -> Ints:
    """How many units before each rank stay and count, one line for each number of units."""
    _, owner, _, copies, touched = read
    units, valid, _, _ = seen
    upto = np.zeros((len(units), len(owner) + 1), np.int64)
    for u in range(len(units)):
        for r in range(len(owner)):
            counts = not touched[r] and copies[r] > 0 and (u == 0 or valid[u - 1, r])
            upto[u, r + 1] = upto[u, r] + (min(copies[r], units[u]) if counts else 0)
    return upto


@compiled()
def _before(at: int, start: int, owner: Ints, words: Words, upto: Ints, seen: Any) -> int:
    """The first row of a group, which begins at ``start``, that the one at a rank reaches, or one before it."""
    units, _, peers, far = seen
    at = max(at, start)
    result = at
    for u in range(len(units)):
        result = min(result, np.searchsorted(upto[u], upto[u, at] - units[u], side="right") - 1)
    if len(peers):
        result = min(result, peers[at] - 1)
    if len(far):
        low = words[at] - min(words[at], far[owner[at]])
        result = min(result, _first_word(owner, words, at, low, False) - 1)
    return result


@compiled()
def _after(at: int, stop: int, owner: Ints, words: Words, upto: Ints, seen: Any) -> int:
    """The last row of a group, which ends at ``stop``, that the one at a rank reaches, or one behind it."""
    units, _, peers, far = seen
    at = min(at, stop - 1)
    result = at
    for u in range(len(units)):
        result = max(result, np.searchsorted(upto[u], upto[u, at + 1] + units[u], side="left") - 1)
    if len(peers):
        result = max(result, np.searchsorted(peers, peers[at], side="right"))
    if len(far):
        high = words[at] + min(LAST_WORD - words[at], far[owner[at]])
        result = max(result, _first_word(owner, words, at, high, True))
    return result


@compiled()
def _first_word(owner: Ints, words: Words, at: int, wanted: np.uint64, above: bool) -> int:
    """The first rank of the group of another that has at least a word (``above``: a greater one), or its end."""
    low, high = 0, len(owner)
    while low < high:
        middle = (low + high) >> 1
        before = owner[middle] < owner[at]
        if owner[middle] == owner[at]:
            before = words[middle] <= wanted if above else words[middle] < wanted
        if before:
            low = middle + 1
        else:
            high = middle
    return low


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
