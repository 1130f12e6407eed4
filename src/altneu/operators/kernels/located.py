"""Where the rows of some keys are in ordered batches, and the parts of them that a step reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from altneu.columnar.columns import Mask, Stack
from altneu.columnar.gathered import Gathered
from altneu.columnar.immutable import lazy
from altneu.columnar.lookup import LAST_WORD, ONE, first_word, word_stretch
from altneu.columnar.ranking import Order, Words, sort_lines, whole_order
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.operators.kernels.in_order import InOrder, in_order
from altneu.order import Rounds
from altneu.trace.batch import Arranged, Batch, Block, Chains, Layout, Matches, chains_of, find_in, matches_of, reaches

_TIED = 256  # rows that share a word with a new one and are not compared with it
_READ_FOR = 64  # rows that are read rather than to find the place of another
_LOCATED = "#located"
_FEW_LINES = 32  # that are sorted by insertion
SMALL = 64  # groups of so many old updates are read whole


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

    def some(self, index: Ints) -> NewRows:
        """Some of the updates, in order; keys stay as they are."""
        if len(index) == len(self.number):
            return self
        some = self.number[index], self.values.take(index), self.words[index], self.diffs[index]
        return NewRows(self.hashes, self.keys, *some)


@dataclass(frozen=True)
class Located:
    """Where some keys are in batches: runs of rows as lines (key, block, start, stop).

    Of each block ``batch`` says which it is of, and ``words`` is the line of its words.
    """

    hits: Ints
    used: Sequence[Block]
    chains: Chains

    @classmethod
    def of(cls, batches: Sequence[Batch], hashes: Words, keys: Rows) -> Located:
        """Look keys up."""
        return cls(*chains_of(batches, hashes, keys))

    @classmethod
    def of_new(cls, given: Arranged) -> Located:
        """The keys that have something new, in the old batches; remembered, as several operations may look them up."""
        known: Located | None = given.__dict__.get(_LOCATED)
        if known is None:
            known = given.__dict__[_LOCATED] = cls(*chains_of(given.old, *given.new.distinct_keys()))
        return known

    @lazy
    def batch(self) -> Ints:
        """The number of the batch that each block is of."""
        return self.chains.batch()

    @lazy
    def words(self) -> Ints:
        """Of each block, (blocks, 3), as ``Block.addresses``."""
        return self.chains.words()

    @lazy
    def counted(self) -> Ints:
        """Of each block, (blocks, 2), as ``Block.counted``."""
        return self.chains.counted()

    def words_of(self, block: int, start: int, stop: int) -> list[int]:
        """The words of some rows of a block."""
        words: list[int] = self.used[block].value_hash_at(slice(start, stop)).tolist()
        return words

    def with_rows(self, number: Ints, words: Words, values: Rows, layout: Layout) -> Ints:
        """The rows that equal a value of their key, as runs, and some that share its word; keys ``number`` ascend."""
        runs = _word_runs(self.hits, self.words, number, words)
        if not len(runs) or (runs[:, 3] - runs[:, 2]).max() <= _TIED:
            return runs
        return self._runs(self.spans_of(number, words, values, layout), number)

    def spans_of(self, number: Ints, words: Words, values: Rows, layout: Layout) -> Ints:
        """Where the rows that equal some values begin and end in the runs of their keys.

        Shape:  of n values, by key, lines (value, run, begin, end), by value and run. Between these there may be rows
                that share the value's word.
        Cost:   O(log n) words for each line, and where many rows share them, O(log n) rows.
        """
        lines = _word_spans(self.hits, self.words, number, words)
        tied = (lines[:, 3] - lines[:, 2] > _TIED).nonzero()[0]
        if not tied.size:
            return lines
        _, first = np.unique(lines[tied, 1:3], axis=0, return_index=True)
        if _READ_FOR * len(tied) > np.sum(lines[tied[first], 3] - lines[tied[first], 2]):
            return lines
        wanted, block = values.take(lines[tied, 0]), self.hits[lines[tied, 1], 1]
        stack = Stack([b.values for b in self.used], layout.value_schema)
        for side, upto in ((2, False), (3, True)):
            lines[tied, side] = _bisected(stack, block, lines[tied, 2], lines[tied, 3], wanted, layout, upto)
        return lines

    def _runs(self, lines: Ints, number: Ints) -> Ints:
        """Spans that have rows, as runs."""
        lines = lines[lines[:, 2] < lines[:, 3]]
        return joined_runs(np.stack([number[lines[:, 0]], self.hits[lines[:, 1], 1], *lines[:, 2:].T], axis=1))

    def with_words(self, number: Ints, words: Words) -> Ints:
        """The rows that have the word of a value of their key, as runs; keys ``number`` ascend."""
        return _word_runs(self.hits, self.words, number, words)


@dataclass(frozen=True)
class OldRows:
    """The old updates of some keys, of which a part is read.

    Shape:  of K keys ``size`` (K,) how many updates each has, and ``whole`` (K,) which have to be read whole, because
            nothing less is sure to be enough: those that have a row whose count is below zero. Where all keys have few
            updates these are read anyway, and nobody asks.
    """

    given: Arranged
    located: Located
    size: Ints
    whole: Mask

    @classmethod
    def of(cls, given: Arranged, negative: Arranged, hashes: Words, keys: Rows) -> OldRows:
        """Those of some keys.

        Shape:  ``given`` in an order of columns; ``negative`` has the number of rows of each key whose count is
                below zero, arranged by the key.
        """
        is_new = keys is given.new.distinct_keys()[1]
        located = Located.of_new(given) if is_new else Located.of(given.old, hashes, keys)
        size, most = _sizes(located.hits, keys.count)
        if most <= SMALL:
            return cls(given, located, size, np.ones(keys.count, np.bool_))
        return cls(given, located, size, _has_below_zero(negative, hashes, keys))

    def in_step(self) -> Ints:
        """The runs in batches that have updates of earlier rounds of this step."""
        start = start_of(self.given)
        recent = [reaches(batch.description.upper.elements, start) for batch in self.given.old if len(batch)]
        if not any(recent):
            return self.located.hits[:0]
        return self.located.hits[np.array(recent)[self.located.batch[self.located.hits[:, 1]]]]

    @property
    def layout(self) -> Layout:
        """That of the batches."""
        return self.given.layout

    def and_whole(self, groups: Mask) -> OldRows:
        """The same, of which some more groups are read whole."""
        return OldRows(self.given, self.located, self.size, self.whole | groups)

    def whole_up_to(self, sizes: Ints | int = 0) -> Mask:
        """Which groups are read whole if those are that have no more updates than this, or few."""
        return self.whole | (self.size <= np.maximum(sizes, SMALL))

    def with_whole(self, runs: Ints, whole: Mask) -> Ints:
        """Some runs and all of the groups that are read whole, by key and block, those that overlap or meet as one."""
        if whole.any():
            hits = self.located.hits
            runs = np.concatenate([runs, hits[whole[hits[:, 0]]]])
        return joined_runs(runs)

    def read(self, runs: Ints) -> Matches:
        """The updates in some runs; of their values a column is gathered when it is read."""
        return matches_of(runs, self.located.used, self.layout, as_read=True)

    def all(self) -> Matches:
        """All of them."""
        return self.read(self.located.hits)


def no_matches(layout: Layout) -> Matches:
    """No old updates."""
    none = np.empty(0, np.int64)
    times = np.empty((layout.lattice.width, 0), np.int64)
    return Matches(none, Rows.empty(layout.value_schema), np.empty(0, np.uint64), times, none)


def column_of(block: Block, name: str, start: int, stop: int) -> pa.Array:
    """A column of some rows of a block, of its keys or values."""
    return (block.keys if name in block.layout.key else block.values).column_slice(name, start, stop)


def by_key(one: Matches, other: Matches) -> Matches:
    """The updates of both, by key."""
    if not len(one) or not len(other):
        return one if len(one) else other
    order = np.argsort(np.concatenate([one.probe, other.probe]), kind="stable")
    both = Matches(
        np.concatenate([one.probe, other.probe]),
        Gathered.both(one.values, other.values),
        np.concatenate([one.value_hash, other.value_hash]),
        np.concatenate([one.times, other.times], axis=1),
        np.concatenate([one.diffs, other.diffs]),
    )
    return chosen(both, order)


def chosen(matches: Matches, index: Ints) -> Matches:
    """Some of the updates."""
    return Matches(
        matches.probe[index],
        matches.values.take(index),
        matches.value_hash[index],
        matches.times.take(index, axis=1),
        matches.diffs[index],
    )


def _has_below_zero(negative: Arranged, hashes: Words, keys: Rows) -> Mask:
    """Of which of some distinct keys a row has a count below zero before the step, or at one of its times.

    If times are not totally ordered, only before the step: the rows that the step changes are read anyway.
    """
    result = np.zeros(keys.count, np.int64)
    lattice = negative.layout.lattice
    for batches, is_new in ((negative.old, False), ((negative.new,) if lattice.is_total else (), True)):
        if some := [batch for batch in batches if batch.blocks]:
            matches = find_in(some, hashes, keys)
            diffs = matches.diffs
            if isinstance(lattice, Rounds):
                diffs = np.where(matches.times[0] < start_of(negative), diffs, 0)
            np.add.at(result, matches.probe, 1 if is_new else diffs)
    return result > 0


def start_of(given: Arranged) -> int:
    """The first epoch of a step."""
    return int(given.new.description.lower.elements[0].min())


@dataclass(frozen=True)
class Ranked:
    """The distinct rows of old updates that were read and of what is new, ranked by group and order.

    Shape:  ``rank`` of each of the ``old``; of each rank its group ``owner``, its ``word``, what its old updates sum up
            to, ``copies``, whether it ``is_touched`` by what is new, and its ``first`` row. ``rows`` are the old ones
            and then the new ones, with ``ranks``.
    """

    old: Matches
    rank: Ints
    owner: Ints
    word: Words
    copies: Ints
    is_touched: Mask
    rows: Gathered
    ranks: Ints
    first: Ints

    @classmethod
    def of(cls, old: Matches, new: NewRows, layout: Layout) -> Ranked:
        """Rank what was read, and what is new and touches it."""
        group = np.concatenate([old.probe, new.number])
        words = np.concatenate([old.value_hash, new.words])
        both = Gathered.both(old.values, new.values)
        ranks, first = in_order(both, group, layout.order, words)
        summed = _summed(group, words, old.diffs, ranks, first)
        return cls(old, ranks[: old.diffs.size], *summed, both, ranks, first)

    def peers(self, order: Sequence[Order]) -> Ints:
        """For each rank the first of its group that is equal to it in an order by which they are ranked."""
        fresh = np.ones(len(self.owner), np.bool_)
        lines = [self.owner]
        for name, descending, nulls_first in order:
            column = self.rows.column_at(name, self.first)
            lines += sort_lines(column, descending=descending, nulls_first=nulls_first)
        fresh[1:] = np.logical_or.reduce([line[1:] != line[:-1] for line in lines])
        return np.maximum.accumulate(np.where(fresh, np.arange(len(fresh)), 0))

    def chosen(self, ranks: Mask) -> Matches:
        """The old updates of some ranks."""
        return chosen(self.old, ranks[self.rank].nonzero()[0])

    def chosen_in_order(self, ranks: Mask) -> tuple[Matches, Gathered, InOrder]:
        """The old updates of some ranks; the rows of these and of what is new; and the order of these rows."""
        index, *order = _chosen(ranks, self.rank, self.ranks, len(self.first))
        both = self.rows.at(index)
        index = index[: index.size - (self.ranks.size - self.rank.size)]
        old = self.old
        values = both.slice(0, index.size)
        matches = Matches(
            old.probe[index], values, old.value_hash[index], old.times.take(index, axis=1), old.diffs[index]
        )
        return matches, both, InOrder(*order)


def null_ends(located: Located, hits: Ints, column: str) -> Ints:
    """Where, in each run, the rows end that have a null in the first column of the order."""
    start, ends = hits[:, 2].copy(), _first_words(hits, located.words)
    for h in (ends > start).nonzero()[0].tolist():  # a value may have the word of nulls
        values = located.used[hits[h, 1]].values
        start[h] += values.column_slice(column, int(start[h]), int(ends[h])).null_count
    return start


def null_starts(located: Located, hits: Ints, column: str) -> Ints:
    """Where, in each run, the rows begin that have a null in the first column of an order in which nulls are last."""
    stop, starts = hits[:, 3].copy(), _last_words(hits, located.words)
    for h in (starts < stop).nonzero()[0].tolist():
        values = located.used[hits[h, 1]].values
        stop[h] -= values.column_slice(column, int(starts[h]), int(stop[h])).null_count
    return stop


@compiled()
def _summed(group: Ints, words: Words, diffs: Ints, ranks: Ints, first: Ints) -> tuple[Ints, Words, Ints, Mask]:
    """Of each rank its group and word, the sum of the ``diffs`` of old updates, and whether anything is new."""
    owner, word = np.empty(len(first), np.int64), np.empty(len(first), np.uint64)
    copies, touched = np.zeros(len(first), np.int64), np.zeros(len(first), np.bool_)
    for r in range(len(first)):
        owner[r], word[r] = group[first[r]], words[first[r]]
    for i in range(len(ranks)):
        if i < len(diffs):
            copies[ranks[i]] += diffs[i]
        else:
            touched[ranks[i]] = True
    return owner, word, copies, touched


@compiled()
def _chosen(wanted: Mask, old: Ints, ranks: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """The old positions whose rank is wanted, and all new ones; the rank of each among these, and a place of each."""
    number, kept = np.full(count, -1, np.int64), 0
    index, many = np.empty(len(ranks), np.int64), 0
    for i in range(len(ranks)):
        if i >= len(old) or wanted[ranks[i]]:
            index[many] = i
            number[ranks[i]] = 0
            many += 1
    for r in range(count):
        if number[r] == 0:
            number[r] = kept
            kept += 1
    rank, first = np.empty(many, np.int64), np.full(kept, -1, np.int64)
    for i in range(many):
        rank[i] = number[ranks[index[i]]]
        if first[rank[i]] < 0:
            first[rank[i]] = i
    return index[:many].copy(), rank, first


@compiled()
def _sizes(hits: Ints, count: int) -> tuple[Ints, int]:
    """How many rows each key has in runs, and the most that one has."""
    sizes, most = np.zeros(count, np.int64), 0
    for h in range(len(hits)):
        sizes[hits[h, 0]] += hits[h, 3] - hits[h, 2]
        most = max(most, sizes[hits[h, 0]])
    return sizes, most


@compiled()
def _last_words(hits: Ints, lines: Ints) -> Ints:
    """Where, in each run, the rows begin that have the last of all words."""
    starts = np.empty(len(hits), np.int64)
    for h in range(len(hits)):
        starts[h] = first_word(lines, hits[h, 1], hits[h, 2], hits[h, 3], LAST_WORD)
    return starts


@compiled()
def _first_words(hits: Ints, lines: Ints) -> Ints:
    """Where, in each run, the rows end that have the first of all words."""
    ends = np.empty(len(hits), np.int64)
    for h in range(len(hits)):
        ends[h] = first_word(lines, hits[h, 1], hits[h, 2], hits[h, 3], ONE)
    return ends


def _bisected(stack: Stack, block: Ints, low: Ints, high: Ints, values: Rows, layout: Layout, upto: bool) -> Ints:
    """Where, in ordered stretches of blocks, the rows begin that are not before a value (``upto``: that are behind)."""
    low, high = low.copy(), high.copy()
    while len(some := np.flatnonzero(low < high)):
        middle = (low[some] + high[some]) >> 1
        both = Rows.concat([stack.take(stack.starts[block[some]] + middle), values.take(some)], layout.value_schema)
        sign = np.zeros(len(some), np.int64)
        for line in reversed(whole_order(both, layout.order)):
            row, value = line[: len(some)], line[len(some) :]
            sign = np.where(row == value, sign, np.where(row < value, -1, 1))
        before = sign < int(upto)
        low[some], high[some] = np.where(before, middle + 1, low[some]), np.where(before, high[some], middle)
    return low


@compiled()
def twice(lines: Ints) -> Ints:
    """The same lines, with room for as many more."""
    more = np.empty((2 * len(lines), lines.shape[1]), np.int64)
    more[: len(lines)] = lines
    return more


@compiled()
def put_run(runs: Ints, count: int, key: int, block: int, start: int, stop: int) -> tuple[Ints, int]:
    """Append a run to those that there are, if it has rows."""
    if start >= stop:
        return runs, count
    if count == len(runs):
        runs = twice(runs)
    runs[count, 0], runs[count, 1], runs[count, 2], runs[count, 3] = key, block, start, stop
    return runs, count + 1


@compiled()
def _word_spans(hits: Ints, lines: Ints, number: Ints, words: Words) -> Ints:
    """Where the rows with some words begin and end in the runs of their keys, which ascend: (word, run, begin, end)."""
    out, count, low = np.empty((len(words) + 8, 4), np.int64), 0, 0
    for n in range(len(words)):
        while low < len(hits) and hits[low, 0] < number[n]:
            low += 1
        h = low
        while h < len(hits) and hits[h, 0] == number[n]:
            start, stop = word_stretch(lines, hits[h, 1], hits[h, 2], hits[h, 3], words[n], words[n])
            if count == len(out):
                out = twice(out)
            out[count, 0], out[count, 1], out[count, 2], out[count, 3] = n, h, start, stop
            count += 1
            h += 1
    return out[:count].copy()


@compiled()
def _word_runs(hits: Ints, lines: Ints, number: Ints, words: Words) -> Ints:
    """The rows with some words, as runs by key and block, those that overlap or meet as one."""
    spans = _word_spans(hits, lines, number, words)
    count = 0
    for s in range(len(spans)):
        if spans[s, 2] < spans[s, 3]:
            spans[count, 0], spans[count, 1] = number[spans[s, 0]], hits[spans[s, 1], 1]
            spans[count, 2], spans[count, 3] = spans[s, 2], spans[s, 3]
            count += 1
    return joined_runs(spans[:count])


@compiled()
def by_columns(lines: Ints, first: int) -> Ints:
    """Lines by three of their columns, from ``first`` on, equal ones as they stand."""
    order = np.arange(len(lines))
    if len(lines) <= _FEW_LINES:
        for i in range(1, len(lines)):
            j, one = i, order[i]
            while j > 0 and _is_before(lines, one, order[j - 1], first):
                order[j] = order[j - 1]
                j -= 1
            order[j] = one
    else:
        for column in (first + 2, first + 1, first):
            order = order[np.argsort(lines[:, column][order], kind="mergesort")]
    return lines[order]


@compiled()
def _is_before(lines: Ints, one: int, other: int, first: int) -> bool:
    for column in range(first, first + 3):
        if lines[one, column] != lines[other, column]:
            return lines[one, column] < lines[other, column]
    return False


@compiled()
def joined_runs(runs: Ints) -> Ints:
    """Runs by key and block, those that overlap or meet as one."""
    runs = by_columns(runs, 0)
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


@compiled()
def places_in(runs: Ints, rows: Ints, first: int) -> Ints:
    """Where rows are among all rows of runs, in which each is; lines are (key, block, row) from ``first`` on.

    Give all columns of the lines: a slice of columns is not contiguous, and Numba would compile this a second time.
    """
    result = np.empty(len(rows), np.int64)
    at, before = 0, 0
    for r in range(len(rows)):
        key, block, row = rows[r, first], rows[r, first + 1], rows[r, first + 2]
        while not (runs[at, 0] == key and runs[at, 1] == block and runs[at, 3] > row):
            before += runs[at, 3] - runs[at, 2]
            at += 1
        result[r] = before + row - runs[at, 2]
    return result


@compiled()
def next_key(hits: Ints, first: int) -> int:
    """Where the runs of the key of run ``first`` end."""
    last = first + 1
    while last < len(hits) and hits[last, 0] == hits[first, 0]:
        last += 1
    return last


@compiled()
def next_batch(hits: Ints, batch: Ints, first: int) -> int:
    """Where the runs end that one batch has of the key of run ``first``: runs of one batch follow each other."""
    last = first + 1
    while last < len(hits) and hits[last, 0] == hits[first, 0] and batch[hits[last, 1]] == batch[hits[first, 1]]:
        last += 1
    return last
