"""The rows of a group that decide what a function of its first or last rows makes of it: few, however large the group.

Let N be the new updates of a group, and P rows from the front of its order, as far as k units of multiplicity come from
rows that N does not touch. Whatever N does at any of its times, these k units are there; so no row behind P is among
the first k at any of them. A function of the first k rows then makes of P, N and the old updates of the rows of N what
it makes of the group. That holds where no row's count is below zero: groups that have such a row are read whole.

Each batch has its rows of a group in order. So many are read from the front (or the back) of every batch that the rows
before the least place at which a batch was left are enough; where they are not, as where updates of several batches
cancel, four times as many are read, and what cancels is noted (``dead_rows``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from altneu.columnar.columns import Mask, encode, valid_mask
from altneu.columnar.lookup import first_at
from altneu.columnar.ranking import Words, whole_order
from altneu.columnar.rows import Ints, Rows
from altneu.operators.kernels.compiled import compiled
from altneu.operators.kernels.dead_rows import BEHIND, LEAST, MOST_KEYS, DeadRows
from altneu.operators.reduce.node import Ends
from altneu.trace.batch import Arranged, Batch, Block, Layout, Matches, chains_of, find_in, matches_of

_LAST_WORD = np.uint64(2**64 - 1)
_ONE = np.uint64(1)
_SMALL = 64  # groups of so many old updates, and of few for each that is needed, are read whole
_MORE = 4


@dataclass(frozen=True)
class NewRows:
    """The new updates of some distinct keys: the key of each, ascending, its value, its word, and its diff.

    There may be keys that have none.
    """

    hashes: Words
    keys: Rows
    number: Ints
    values: Rows
    words: Words
    diffs: Ints


def ends_of(given: Arranged, ends: Ends, negative: Arranged, new: NewRows) -> Matches:
    """The old updates that ``ends`` needs of some keys, by key; ``new`` has all that is new of them.

    Shape:  ``given`` in an order of columns; ``negative`` has the number of rows of each key whose count is
            below zero, arranged by the key.
    Cost:   O((k + d) log n) rows for d new updates of a group of n, k needed; and once what cancels at its ends.
    Law:    a function of the first and last rows makes the same of it as of the whole groups
            (tests/operators/test_ends.py).
    """
    layout = given.layout
    if not any(len(batch) for batch in given.old):
        return no_matches(layout)
    result = Located.of(given.old, new.hashes, new.keys)
    dead = DeadRows.of(given)
    old = _old_of(result, layout, ends, new, has_below_zero(negative, new.hashes, new.keys), dead)
    dead.close(given, new.keys, new.number, new.words)
    return old


def no_matches(layout: Layout) -> Matches:
    """No old updates."""
    none = np.empty(0, np.int64)
    times = np.empty((layout.lattice.width, 0), np.int64)
    return Matches(none, Rows.empty(layout.value_schema), np.empty(0, np.uint64), times, none)


@dataclass(frozen=True)
class Located:
    """Where some keys are in batches: runs of rows as lines (key, block, start, stop).

    Of each block ``batch`` says which it is of, and ``words`` is the address of its words.
    """

    hits: Ints
    used: Sequence[Block]
    batch: Ints
    words: Ints

    @classmethod
    def of(cls, batches: Sequence[Batch], hashes: Words, keys: Rows) -> Located:
        """Look keys up."""
        hits, used, batch = chains_of(batches, hashes, keys)
        return cls(hits, used, batch, np.array([b.addresses[0, 0] for b in used], np.int64))

    def with_words(self, number: Ints, words: Words) -> Ints:
        """The rows that have the word of a value of their key, as runs; keys ``number`` ascend."""
        return joined_runs(_runs_of_words(self.hits, self.words, number, words))


def _old_of(located: Located, layout: Layout, ends: Ends, new: NewRows, broken: Mask, dead: DeadRows) -> Matches:
    """The old updates that are needed, by group."""
    count = new.keys.count
    size = np.zeros(count, np.int64)
    np.add.at(size, located.hits[:, 0], located.hits[:, 3] - located.hits[:, 2])
    take = max(ends.first, ends.last) + np.bincount(new.number, minlength=count)
    whole = broken | (size <= np.maximum(_MORE * take, _SMALL))
    if whole.all():
        return matches_of(located.hits, located.used, layout)
    names = encode(new.keys) if count <= MOST_KEYS else []
    hits = dead.passed_over(names, located.hits, located.words)
    behind = _behind_nulls(located, hits, layout.order[0][0]) if ends.valued else hits
    some = ~whole[new.number]
    touched = located.with_words(new.number[some], new.words[some])
    while True:
        front, fronts = _cut_ends(behind, located.batch, np.where(whole, 0, take if ends.first else 0), False)
        back, backs = _cut_ends(hits, located.batch, np.where(whole, 0, take if ends.last else 0), True)
        runs = joined_runs(np.concatenate([front, back, touched, located.hits[whole[located.hits[:, 0]]]]))
        read = _Read.of(matches_of(runs, located.used, layout), new, layout, valued=ends.valued)
        read.leave(ends, places_in(runs, fronts), places_in(runs, backs))
        short = read.short(ends) & ~whole
        if not short.any():
            read.note(dead, [(key, name) for key, name in enumerate(names) if not whole[key]])
            return read.needed(whole)
        take = np.where(short, _MORE * take, take)
        whole |= take >= size


@dataclass
class _Read:
    """What was read of old batches, and the distinct rows of it and of what is new, ranked by group and order.

    Shape:  ``rank`` of each of the ``old``; of each rank its group ``owner``, its ``word``, how many ``updates`` it has
            among the old and what they sum up to, ``copies``, whether it ``is_new``, and whether it is of any value.
            ``front`` and ``back`` say which ranks are before, or behind, the places at which the batches were left, and
            ``first_word`` where the front begins.
    """

    old: Matches
    rank: Ints
    owner: Ints
    word: Words
    updates: Ints
    copies: Ints
    is_new: Mask
    valued: Mask
    first_word: int
    count: int
    front: Mask
    back: Mask
    left: tuple[Mask, Mask]

    @classmethod
    def of(cls, old: Matches, new: NewRows, layout: Layout, *, valued: bool) -> _Read:
        """Rank what was read."""
        group = np.concatenate([old.probe, new.number])
        both = Rows.concat([old.values, new.values], layout.value_schema)
        rank, owner = ranked(both, group, layout)
        mine, many = rank[: len(old)], len(owner)
        word, some = np.empty(many, np.uint64), np.ones(many, np.bool_)
        word[rank] = np.concatenate([old.value_hash, new.words])
        if valued:
            some[rank] = valid_mask(both.column(layout.order[0][0]))
        copies, is_new = np.zeros(many, np.int64), np.zeros(many, np.bool_)
        np.add.at(copies, mine, old.diffs)
        is_new[rank[len(old) :]] = True
        nothing, nobody = np.zeros(many, np.bool_), np.zeros(new.keys.count, np.bool_)
        updates = np.bincount(mine, minlength=many)
        rest = (new.keys.count, nothing, nothing, (nobody, nobody))
        return cls(old, mine, owner, word, updates, copies, is_new, some, int(valued), *rest)

    def leave(self, ends: Ends, fronts: Ints, backs: Ints) -> None:
        """Say at which of the old updates batches were left, from the front and from the back."""
        places = np.arange(len(self.owner))
        first, last = np.full(self.count, len(places)), np.full(self.count, -1)
        np.minimum.at(first, self.old.probe[fronts], self.rank[fronts])
        np.maximum.at(last, self.old.probe[backs], self.rank[backs])
        self.left = first < len(places), last >= 0
        if ends.first:
            self.front = (places < first[self.owner]) & self.valued
        if ends.last:
            self.back = places > last[self.owner]

    def short(self, ends: Ends) -> Mask:
        """Of which groups too few rows were read that stay whatever is new."""
        return self._too_few(self.front, ends.first) & self.left[0] | self._too_few(self.back, ends.last) & self.left[1]

    def _too_few(self, inside: Mask, wanted: int) -> Mask:
        staying = inside & ~self.is_new
        total = np.zeros(self.count, np.int64)
        np.add.at(total, self.owner[staying], np.clip(self.copies[staying], 0, wanted))
        return total < wanted

    def needed(self, whole: Mask) -> Matches:
        """The old updates of groups that were read ``whole``, of rows that are new, and at the ends."""
        old = self.old
        index = np.flatnonzero((self.is_new | self.front | self.back)[self.rank] | whole[old.probe])
        values = old.values.take(index)
        return Matches(old.probe[index], values, old.value_hash[index], old.times.take(index, axis=1), old.diffs[index])

    def note(self, dead: DeadRows, names: Sequence[tuple[int, bytes]]) -> None:
        """Note where much was read of which nothing is left, of groups with these numbers and names."""
        removed = np.where(self.copies == 0, self.updates, 0)
        for inside, at_front in ((self.front, True), (self.back, False)):
            if np.sum(removed[inside]) >= LEAST:
                for key, name in names:
                    ranks = np.flatnonzero(inside & (self.owner == key))
                    self._note(dead, name, ranks, removed, at_front=at_front)

    def _note(self, dead: DeadRows, name: bytes, ranks: Ints, cancelled: Ints, *, at_front: bool) -> None:
        """Between two rows of which something is left; before the first at the front, behind the last at the back."""
        live = np.flatnonzero(self.copies[ranks] != 0)
        sums = np.concatenate([[0], np.cumsum(cancelled[ranks])])
        edges = np.concatenate([[0], live, [len(ranks)]])
        words = [self.word[ranks[at]].item() for at in live]
        for i in np.flatnonzero(np.diff(sums[edges]) >= LEAST).tolist():
            low = words[i - 1] + 1 if i else self.first_word
            high = words[i] if i < len(words) else BEHIND
            known = (i > 0 or at_front) and (i < len(words) or not at_front)
            if known and low < high:
                dead.note(name, (low, high))


def ranked(rows: Rows, group: Ints, layout: Layout) -> tuple[Ints, Ints]:
    """The rank of each row among the distinct rows of all groups, by group and order; and the group of each rank."""
    lines = [*whole_order(rows, layout.order)[::-1], group]
    place = np.lexsort(lines)
    fresh = np.ones(len(place), np.bool_)
    fresh[1:] = np.logical_or.reduce([line[place[1:]] != line[place[:-1]] for line in lines])
    rank = np.empty(len(place), np.int64)
    rank[place] = np.cumsum(fresh) - 1
    return rank, group[place[fresh]]


def has_below_zero(negative: Arranged, hashes: Words, keys: Rows) -> Mask:
    """Of which of some distinct keys a row has a count below zero before the step, or at one of its times."""
    result = np.zeros(keys.count, np.int64)
    for batches, is_new in ((negative.old, False), ((negative.new,), True)):
        if any(len(batch) for batch in batches):
            matches = find_in(batches, hashes, keys)
            np.add.at(result, matches.probe, 1 if is_new else matches.diffs)
    return result > 0


def _behind_nulls(located: Located, hits: Ints, column: str) -> Ints:
    """Runs without the rows at their front that have a null in the first column of the order."""
    hits = hits.copy()
    hits[:, 2] = null_ends(located, hits, column)
    return hits[hits[:, 2] < hits[:, 3]]


def null_ends(located: Located, hits: Ints, column: str) -> Ints:
    """Where, in each run, the rows end that have a null in the first column of the order."""
    start, ends = hits[:, 2].copy(), _first_words(hits, located.words)
    for h in np.flatnonzero(ends > start).tolist():
        values = located.used[hits[h, 1]].values.column(column)
        start[h] += values.slice(
            int(start[h]), int(ends[h] - start[h])
        ).null_count  # a value may have the word of nulls
    return start


@compiled
def _first_words(hits: Ints, addresses: Ints) -> Ints:
    """Where, in each run, the rows end that have the first of all words."""
    ends = np.empty(len(hits), np.int64)
    for h in range(len(hits)):
        ends[h] = first_at(addresses[hits[h, 1]], hits[h, 2], hits[h, 3], _ONE)
    return ends


@compiled
def _cut_ends(hits: Ints, batch: Ints, take: Ints, from_back: bool) -> tuple[Ints, Ints]:
    """The first (or last) rows that each batch has of each key, as runs; and (key, block, row) where it was left early.

    Runs are by key, and a batch's blocks follow each other.
    """
    out, left = np.empty_like(hits), np.empty((len(hits), 3), np.int64)
    count, early = 0, 0
    first = 0
    while first < len(hits):
        last = first + 1
        key, of = hits[first, 0], batch[hits[first, 1]]
        while last < len(hits) and hits[last, 0] == key and batch[hits[last, 1]] == of:
            last += 1
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


@compiled
def _runs_of_words(hits: Ints, addresses: Ints, number: Ints, words: Words) -> Ints:
    """The rows of old batches that have the word of a new update of their key, as runs; ``number`` ascends."""
    out = np.empty((len(words) + 8, 4), np.int64)
    count, low = 0, 0
    for n in range(len(words)):
        while low < len(hits) and hits[low, 0] < number[n]:
            low += 1
        h = low
        while h < len(hits) and hits[h, 0] == number[n]:
            address = addresses[hits[h, 1]]
            start = first_at(address, hits[h, 2], hits[h, 3], words[n])
            stop = hits[h, 3]
            if words[n] < _LAST_WORD:
                stop = first_at(address, start, hits[h, 3], words[n] + _ONE)
            if start < stop:
                if count == len(out):
                    more = np.empty((2 * count, 4), np.int64)
                    more[:count] = out
                    out = more
                out[count, 0], out[count, 1], out[count, 2], out[count, 3] = number[n], hits[h, 1], start, stop
                count += 1
            h += 1
    return out[:count].copy()


def joined_runs(runs: Ints) -> Ints:
    """Runs by key and block, those that overlap or meet as one."""
    return _merge_runs(runs[np.lexsort((runs[:, 2], runs[:, 1], runs[:, 0]))])


@compiled
def _merge_runs(runs: Ints) -> Ints:
    count = 0
    for r in range(len(runs)):
        last = count - 1
        if count and runs[last, 0] == runs[r, 0] and runs[last, 1] == runs[r, 1] and runs[r, 2] <= runs[last, 3]:
            runs[last, 3] = max(runs[last, 3], runs[r, 3])
            continue
        for c in range(4):
            runs[count, c] = runs[r, c]
        count += 1
    return runs[:count].copy()


@compiled
def places_in(runs: Ints, rows: Ints) -> Ints:
    """Where rows, lines (key, block, row), are among all rows of runs, in which each is."""
    result = np.empty(len(rows), np.int64)
    at, before = 0, 0
    for r in range(len(rows)):
        while not (runs[at, 0] == rows[r, 0] and runs[at, 1] == rows[r, 1] and runs[at, 3] > rows[r, 2]):
            before += runs[at, 3] - runs[at, 2]
            at += 1
        result[r] = before + rows[r, 2] - runs[at, 2]
    return result
