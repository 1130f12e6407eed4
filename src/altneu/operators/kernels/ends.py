"""The rows of a group that decide what a function of its first or last rows makes of it: few, however large the group.

Let N be the new updates of a group, and P rows from the front of its order, as far as k units of multiplicity come from
rows of which N takes none away. Whatever N does at any of its times, these k units are there; so no row behind P is
among the first k at any of them. A function of the first k rows then makes of P, N and the old updates of the rows from
which N takes what it makes of the group: of other rows of N that are behind P, it does not matter how often they are
there. Where rows that are equal in the order to one of the first are needed too, P has all that are equal to its last;
where the first k distinct places are, rows from which N does not take have k of them. That holds where no row's count
is below zero: groups that have such a row are read whole.

Where times are not totally ordered, rows are counted as often as they stand at all times at which the step computes the
group (``Standing``), and the old updates of all rows of N are read.

Each batch has its rows of a group in order. So many are read from the front (or the back) of every batch that the rows
before the least place at which a batch was left are enough; where they are not, as where updates of several batches
cancel, four times as many are read, and what cancels is noted (``dead_rows``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from altneu.columnar.columns import Mask, encode, valid_mask
from altneu.columnar.lookup import LAST_WORD
from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.kernels.dead_rows import BEHIND, LEAST, MOST_KEYS, DeadRows
from altneu.operators.kernels.located import (
    NewRows,
    OldRows,
    Ranked,
    by_key,
    joined_runs,
    next_batch,
    null_ends,
    null_starts,
    places_in,
)
from altneu.operators.reduce.node import Ends
from altneu.trace.batch import Layout, Matches

_MORE = 4
_SPARE = 3  # more rows than are needed, as some may cancel, and to read again costs more
Units: TypeAlias = npt.NDArray[Any]  # counts of rows, which may be sums of doubles


class Standing(Protocol):
    """How many units of rows stand throughout a step, whatever comes in it."""

    def units(self, ranked: Ranked) -> Sequence[tuple[Units, Mask]]:
        """Of each rank, at some of the times of a step; and for which groups these times matter."""

    def dead(self, ranked: Ranked) -> tuple[Mask, Ints]:
        """Of which ranks no old update is left from some event time on, and which; where there are none, 0."""

    @property
    def events(self) -> Ints | None:
        """The first event time that matters of each key, if there are event times."""


def ends_of(
    ends: Ends, new: NewRows, old: OldRows, standing: Standing | None = None, dead: DeadRows | None = None
) -> Matches:
    """The old updates that ``ends`` needs, by key; ``new`` has all that is new.

    Without ``standing`` times are totally ordered, and rows stand that are not touched. With it the caller knows what
    is ``dead`` of the old batches, and closes its gaps at what is new.

    Cost:   O((k + d) log n) rows for d retractions from a group of n, k needed; and once what cancels at its ends.
    Law:    a function of the first and last rows makes the same of it as of the whole groups
            (tests/operators/test_ends.py).
    """
    if standing is not None and dead is not None:
        return _read(ends, new, old, dead, standing, np.ones(len(new.diffs), np.bool_))
    dead = DeadRows.of(old.given)
    result = _read(ends, new, old, dead, _Untouched(), new.diffs < 0)
    dead.close(old.given, new.keys, new.number, new.words)
    return result


class _Untouched:
    """The rows that are there before a step and from which it does not take."""

    def units(self, ranked: Ranked) -> Sequence[tuple[Units, Mask]]:
        """At the one time there is."""
        return [(np.where(ranked.is_touched, 0, ranked.copies), np.ones(1, np.bool_))]

    def dead(self, ranked: Ranked) -> tuple[Mask, Ints]:
        """Those whose updates cancel."""
        return ranked.copies == 0, np.zeros(len(ranked.copies), np.int64)

    @property
    def events(self) -> None:
        """There are none."""


def _read(ends: Ends, new: NewRows, old: OldRows, dead: DeadRows, standing: Standing, touching: Mask) -> Matches:
    """The same; the old updates are read of the rows of those new ones that are ``touching``."""
    count, located = new.keys.count, old.located
    take = max(ends.first, ends.last) + np.bincount(new.number[touching], minlength=count)
    whole = old.whole_up_to(_MORE * take)
    take += _SPARE
    if whole.all():
        return old.all()
    names = encode(new.keys) if count <= MOST_KEYS and dead.gaps else []
    hits = dead.passed_over(names, located.hits, located.words, standing.events)
    front_hits, back_hits = hits, hits
    if ends.valued and ends.nulls_last:
        back_hits = _before_nulls(old, hits)
    elif ends.valued:
        front_hits = _behind_nulls(old, hits)
    mine = new.some(touching.nonzero()[0])
    looked_up = mine.some((~whole[mine.number]).nonzero()[0])
    touched = located.with_rows(looked_up.number, looked_up.words, looked_up.values, old.layout)
    while True:
        front, fronts = _cut_ends(front_hits, located.batch, np.where(whole, 0, take if ends.first else 0), False)
        back, backs = _cut_ends(back_hits, located.batch, np.where(whole, 0, take if ends.last else 0), True)
        runs = joined_runs(np.concatenate([front, back, touched]))
        read = _Read.of(Ranked.of(old.read(runs), mine, old.layout), count, old.layout, ends)
        read.leave(ends, places_in(runs, fronts, 0), places_in(runs, backs, 0))
        short = read.short(ends, standing.units(read.ranked)) & ~whole
        if not short.any():
            if read.is_long() and count <= MOST_KEYS:
                names = names or encode(new.keys)
                named = [(key, name) for key, name in enumerate(names) if not whole[key]]
                read.note(dead, named, *standing.dead(read.ranked))
            inside = read.ranked.is_touched | read.front | read.back
            if not whole.any():
                return read.ranked.chosen(inside)
            rest = old.read(located.hits[whole[located.hits[:, 0]]])
            return by_key(read.ranked.chosen(inside & ~whole[read.ranked.owner]), rest)
        take = np.where(short, _MORE * take, take)
        whole |= take >= old.size


@dataclass
class _Read:
    """What was read of old batches, ranked, and how much of it is at the ends.

    Shape:  of each rank how many old ``updates`` it has, whether it is of any value, and the first of its ``peers``.
            ``front`` and ``back`` say which ranks are before, or behind, the places at which the batches were left, and
            ``words`` at which word the front begins and before which the back ends.
    """

    ranked: Ranked
    updates: Ints
    valued: Mask
    peers: Ints
    words: tuple[int, int]
    count: int
    front: Mask
    back: Mask
    left: tuple[Mask, Mask]

    @classmethod
    def of(cls, ranked: Ranked, count: int, layout: Layout, ends: Ends) -> _Read:
        """Of ``count`` groups; if only values count, nulls of the first column of the order are of none."""
        many = len(ranked.owner)
        some, peers = np.ones(many, np.bool_), np.arange(many)
        if ends.valued:
            name, _, nulls_first = layout.order[0]
            some = ranked.word != (np.uint64(0) if nulls_first else LAST_WORD)
            if not some.all():  # a value may have the word of nulls
                some = valid_mask(ranked.rows.column_at(name, ranked.first))
        if ends.with_ties:
            peers = ranked.peers(layout.order)
        nothing, nobody = np.zeros(many, np.bool_), np.zeros(count, np.bool_)
        updates = np.bincount(ranked.rank, minlength=many)
        words = (0, BEHIND - 1) if ends.nulls_last else (int(ends.valued), BEHIND)
        return cls(ranked, updates, some, peers, words, count, nothing, nothing, (nobody, nobody))

    def leave(self, ends: Ends, fronts: Ints, backs: Ints) -> None:
        """Say at which of the old updates batches were left, from the front and from the back."""
        ranked = self.ranked
        read = ranked.old.probe, ranked.rank, ranked.owner, self.peers
        front, back, *left = _left_at(*read, fronts, backs, self.count)
        if ends.first:
            self.front = front if ends.nulls_last else front & self.valued
        if ends.last:
            self.back = back & self.valued if ends.nulls_last else back
        self.left = left[0], left[1]

    def short(self, ends: Ends, standing: Sequence[tuple[Units, Mask]]) -> Mask:
        """Of which groups too few rows were read that stay whatever is new."""
        short = np.zeros(self.count, np.bool_)
        for units, groups in standing:
            few = self._too_few(self.front, ends.first, units, distinct=ends.distinct)
            few_last = self._too_few(self.back, ends.last, units)
            if ends.either and ends.nulls_last:
                few &= few_last
            elif ends.either:
                few_last &= few
            short |= groups & (few & self.left[0] | few_last & self.left[1])
        return short

    def _too_few(self, inside: Mask, wanted: int, units: Units, *, distinct: bool = False) -> Mask:
        few: Mask = _too_few(self.ranked.owner, inside, units, self.peers, self.count, wanted, distinct)
        return few

    def is_long(self) -> bool:
        """Whether so much was read that some of it may be worth a note."""
        return bool(_is_long(self.updates, self.front, self.back, LEAST))

    def note(self, dead: DeadRows, names: Sequence[tuple[int, bytes]], gone: Mask, events: Ints) -> None:
        """Note where much was read of which nothing is left, of groups with these numbers and names.

        Shape:  ``gone`` (ranks,) are those of which nothing is left from ``events`` on.
        """
        removed = np.where(gone, self.updates, 0)
        for inside, at_front in ((self.front, True), (self.back, False)):
            if np.sum(removed[inside]) >= LEAST:
                for key, name in names:
                    ranks = np.flatnonzero(inside & (self.ranked.owner == key))
                    self._note(dead, name, ranks, (removed[ranks], gone[ranks], events[ranks]), at_front=at_front)

    def _note(
        self, dead: DeadRows, name: bytes, ranks: Ints, cancelled: tuple[Ints, Mask, Ints], *, at_front: bool
    ) -> None:
        """Between two rows of which something is left; before the first at the front, behind the last at the back."""
        removed, gone, events = cancelled
        live = np.flatnonzero(~gone)
        sums = np.concatenate([[0], np.cumsum(removed)])
        edges = np.concatenate([[0], live, [len(ranks)]])
        words = [self.ranked.word[ranks[at]].item() for at in live]
        for i in np.flatnonzero(np.diff(sums[edges]) >= LEAST).tolist():
            low = words[i - 1] + 1 if i else self.words[0]
            high = words[i] if i < len(words) else self.words[1]
            known = (i > 0 or at_front) and (i < len(words) or not at_front)
            if known and low < high:
                dead.note(name, (low, high, int(events[edges[i] : edges[i + 1]][gone[edges[i] : edges[i + 1]]].max())))


def _behind_nulls(old: OldRows, hits: Ints) -> Ints:
    """Runs without the rows at their front that have a null in the first column of the order."""
    hits = hits.copy()
    hits[:, 2] = null_ends(old.located, hits, old.layout.order[0][0])
    return hits[hits[:, 2] < hits[:, 3]]


def _before_nulls(old: OldRows, hits: Ints) -> Ints:
    """Runs without the rows at their back that have a null in the first column of the order."""
    hits = hits.copy()
    hits[:, 3] = null_starts(old.located, hits, old.layout.order[0][0])
    return hits[hits[:, 2] < hits[:, 3]]


@compiled()
def _left_at(
    probe: Ints, rank: Ints, owner: Ints, peers: Ints, fronts: Ints, backs: Ints, count: int
) -> tuple[Mask, Mask, Mask, Mask]:
    """Which ranks are before, and behind, the old updates at which batches were left; and which groups were left."""
    many = len(owner)
    first, last = np.full(count, many, np.int64), np.full(count, -1, np.int64)
    for i in fronts:
        first[probe[i]] = min(first[probe[i]], rank[i])
    for i in backs:
        last[probe[i]] = max(last[probe[i]], rank[i])
    front, back = np.empty(many, np.bool_), np.empty(many, np.bool_)
    for r in range(many):
        end = first[owner[r]]
        front[r] = end == many or r < peers[end]
        back[r] = r > last[owner[r]]
    return front, back, first < many, last >= 0


@compiled()
def _too_few(owner: Ints, inside: Mask, units: Any, peers: Ints, count: int, wanted: int, distinct: bool) -> Mask:
    """In which groups fewer units are inside than are wanted, or ``distinct`` peers."""
    found = np.zeros(count, np.float64)
    seen = -1
    for r in range(len(owner)):
        if inside[r] and units[r] > 0:
            if not distinct:
                found[owner[r]] += min(units[r], wanted)
            elif peers[r] != seen:
                found[owner[r]] += 1
                seen = peers[r]
    return found < wanted


@compiled()
def _is_long(updates: Ints, front: Mask, back: Mask, many: int) -> bool:
    """Whether so many updates were read at an end."""
    at_front, at_back = 0, 0
    for r in range(len(updates)):
        if front[r]:
            at_front += updates[r]
        if back[r]:
            at_back += updates[r]
    return at_front >= many or at_back >= many


@compiled()
def _cut_ends(hits: Ints, batch: Ints, take: Ints, from_back: bool) -> tuple[Ints, Ints]:
    """The first (or last) rows that each batch has of each key, as runs; and (key, block, row) where it was left."""
    out, left = np.empty_like(hits), np.empty((len(hits), 3), np.int64)
    count, early = 0, 0
    first = 0
    while first < len(hits):
        key, last = hits[first, 0], next_batch(hits, batch, first)
        wanted = take[key]
        for i in range(last - first):
            h = last - 1 - i if from_back else first + i
            if wanted <= 0:
                break
            start, stop = hits[h, 2], hits[h, 3]
            many = min(wanted, stop - start)
            wanted -= many
            start, stop = (stop - many, stop) if from_back else (start, start + many)
            out[count, 0], out[count, 1], out[count, 2], out[count, 3] = key, hits[h, 1], start, stop
            count += 1
            more = (start > hits[h, 2] or h > first) if from_back else (stop < hits[h, 3] or h < last - 1)
            if wanted == 0 and more:
                left[early, 0], left[early, 1], left[early, 2] = key, hits[h, 1], start if from_back else stop - 1
                early += 1
        first = last
    return out[:count].copy(), left[:early].copy()
