"""The rows of a group from shortly before the first that a step touches up to its last, or to where results stay.

The rows before these are not touched, and what a running function makes of them stays as it is. What it makes of the
others rests on how many units those are, on their sums, on the first of them, and on the extremes of their columns.
Numbers and sums are looked up; for the rest some of these rows are read too, which stand for all: their own values may
be wrong, but are so at all times. If other functions look r rows back and on, 2 r units before the first touched row
are read too (``around``). A row whose frame ends at a value of the order may have the first touched one in its frame
and be before it, not farther than such frames reach (``within``): what is read begins at twice that distance. That
holds where no row's count is below zero: groups that have such a row are read whole.

Running extremes and the first rows settle. Let T be the greatest value of the touched rows of a group, whether they are
there or not. Behind a row that is not touched, is there, and whose value is at least T, the greatest value so far is
that of rows that are not touched, and the same at all times. So rows are read, four times as many each time, until they
contain such a row and all that are touched; it may also be one before these, and then nothing is read behind them. The
first k units are the same at all times if k that are not touched come before all that are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from altneu.columnar.columns import Mask, valid_mask
from altneu.columnar.lookup import LAST_WORD, ONE, first_word, word_stretch
from altneu.columnar.ranking import Words, codes
from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.kernels.around import around_of
from altneu.operators.kernels.block_extremes import rows_of_extremes
from altneu.operators.kernels.block_sums import SkippedRows
from altneu.operators.kernels.counted import counted_blocks, uncounted, units, units_before, word_at
from altneu.operators.kernels.in_order import InOrder, InPart
from altneu.operators.kernels.located import Located, NewRows, OldRows, Ranked, joined_runs, next_key, put_run
from altneu.operators.kernels.within import farthest
from altneu.operators.reduce.node import Suffix
from altneu.trace.batch import Arranged, Layout, Matches

_SEARCHED = 1024  # old updates; for extremes a group of at most so many is read whole, which costs no more
_READ_ON = 64  # units behind the last touched row, at first


def suffix_of(needed: Suffix, new: NewRows, old: OldRows, values: Arranged | None) -> InPart:
    """The old updates that are needed, by key, and what is skipped; ``new`` has all that is new.

    Shape:  ``values``, if peers are needed: the distinct values of the order, by the key and in the same order.
    Cost:   the rows from the first touched one on, and one bisection in each batch; 64 for each row before these that
            is read. 8 bytes a row where diffs differ, derived from the batch; for extremes what these cost. What
            settles is read in passes: the first up to the last touched row, each other one four times as far behind it
            as the one before, whose rows it reads again.
    Law:    running functions change of these rows, with what is known of those that are skipped, as of the whole groups
            (tests/operators/test_suffix.py).
    """
    located, count = old.located, new.keys.count
    blocks = counted_blocks(located)
    whole = old.whole_up_to(_SEARCHED if needed.extremes else 0) | uncounted(located, blocks[0], count)
    first = np.full(count, np.iinfo(np.uint64).max, np.uint64)
    np.minimum.at(first, new.number, new.words)
    if needed.bounds:
        far = farthest(needed.bounds, new, old)
        for _ in range(2):
            first -= np.minimum(far, first)
    if needed.beside is not None:
        near = around_of(needed.beside, new, old).old
        np.minimum.at(first, near.probe, near.value_hash)
    start, words, skipped = _starts(located.hits, blocks, first, whole, needed.units)
    read = [_first_rows(located.hits, start, skipped, blocks, needed.first)] if needed.first else []
    read += [rows_of_extremes(old, start, *extreme) for extreme in needed.extremes]
    kept = joined_runs(np.concatenate(read)) if read else np.empty((0, 4), np.int64)
    for key, number, low, high in kept.tolist():
        skipped[key] -= int(old.located.used[number].diffs_at(slice(low, high)).sum())
    runs = located.hits.copy()
    runs[:, 2] = start
    if needed.settles:
        found, ranked = _settled(needed, new, old, blocks, (kept, runs), skipped, whole)
        both, order = (None, None) if ranked is None else (ranked.rows, InOrder(ranked.ranks, ranked.first))
        return InPart(found, both, order, SkippedRows(located, start, kept, skipped, np.zeros(count, np.int64)))
    runs = joined_runs(np.concatenate([kept, runs[runs[:, 2] < runs[:, 3]]]))
    peers = _peers(values, new, words, located, kept) if needed.peers and values else np.zeros(count, np.int64)
    return InPart(old.read(runs), skipped=SkippedRows(located, start, kept, skipped, peers))


def _settled(
    needed: Suffix, new: NewRows, old: OldRows, blocks: Any, read: tuple[Ints, Ints], skipped: Ints, whole: Mask
) -> tuple[Matches, Ranked | None]:
    """The old updates in some runs, and in others up to where results stay; ranked if that had to be seen.

    Shape:  of each key ``skipped`` units come before, which are in none of the runs; ``whole`` are read to their end.
    """
    kept, behind = read
    hits, until, more = old.located.hits, np.zeros(len(whole), np.uint64), 0
    np.maximum.at(until, new.number, new.words)
    is_open = np.zeros(len(whole), np.bool_)
    is_open[new.number] = True
    is_open &= ~whole
    until[~is_open] = LAST_WORD
    last = until.copy()
    while True:
        ranked: Ranked | None = None
        runs = behind.copy()
        runs[:, 3], is_left = _stops(hits, blocks[1], until)
        found = old.read(joined_runs(np.concatenate([kept, runs[runs[:, 2] < runs[:, 3]]])))
        is_open &= is_left
        if is_open.any():
            ranked = Ranked.of(found, new, old.layout)
            is_open &= ~_is_settled(needed, ranked, old.layout, skipped)
        if not is_open.any():
            return found, ranked
        more = max(_READ_ON, 4 * more)
        until = _farther(hits, blocks, last, until, is_open, more)


def _is_settled(needed: Suffix, ranked: Ranked, layout: Layout, skipped: Ints) -> Mask:
    """Of which keys what was read contains all that may change."""
    owner, touched = ranked.owner, ranked.is_touched
    stays = ~touched & (ranked.copies > 0)
    result = np.ones(len(skipped), np.bool_)
    if needed.first:
        first = np.full(len(skipped), len(owner))
        np.minimum.at(first, owner[touched], np.flatnonzero(touched))
        before = np.flatnonzero(stays & (np.arange(len(owner)) < first[owner]))
        units_read = np.zeros(len(skipped), np.int64)
        np.add.at(units_read, owner[before], np.minimum(ranked.copies[before], needed.first))
        result &= skipped + units_read >= needed.first
    for name, greatest in needed.extremes:
        code, valid = np.zeros(len(owner), np.int64), np.ones(len(owner), np.bool_)
        if name not in layout.key:  # which is the same on all rows of a group
            column = ranked.rows.column_at(name, ranked.first)
            code, valid = codes(column), valid_mask(column)
        code = code if greatest else ~code
        some = touched & valid
        wanted = np.full(len(skipped), np.iinfo(np.int64).min)
        np.maximum.at(wanted, owner[some], code[some])
        is_short = np.zeros(len(skipped), np.bool_)
        is_short[owner[some]] = True
        is_short[owner[stays & valid & (code >= wanted[owner])]] = False
        result &= ~is_short
    return result


@compiled()
def _stops(hits: Ints, lines: Ints, until: Words) -> tuple[Ints, Mask]:
    """Where each run ends that is read up to a word of its key, with the rows that have it; which keys have more."""
    result, is_left = hits[:, 3].copy(), np.zeros(len(until), np.bool_)
    for h in range(len(hits)):
        word = until[hits[h, 0]]
        if word < LAST_WORD:
            result[h] = first_word(lines, hits[h, 1], hits[h, 2], hits[h, 3], word + ONE)
            is_left[hits[h, 0]] |= result[h] < hits[h, 3]
    return result, is_left


@compiled()
def _farther(hits: Ints, blocks: Any, last: Words, until: Words, is_open: Mask, more: int) -> Words:
    """The word of the unit so many behind the rows up to ``last``; the last word where there are not as many."""
    result = until.copy()
    first = 0
    while first < len(hits):
        key, stop = hits[first, 0], next_key(hits, first)
        if is_open[key]:
            total = 0
            for h in range(first, stop):
                total += units(blocks[0], hits[h, 1], hits[h, 2], hits[h, 3])
            place = units_before(hits, hits[:, 2], first, stop, blocks, last[key] + ONE) + more
            result[key] = LAST_WORD
            if place < total:
                result[key] = word_at(hits, hits[:, 2], first, stop, blocks, place)
        first = stop
    return result


def _peers(values: Arranged, new: NewRows, words: Words, located: Located, kept: Ints) -> Ints:
    """How many distinct values of the order are before a word of each key, but for those of rows that are read."""
    result = np.zeros(new.keys.count, np.int64)
    if not any(len(batch) for batch in values.old):
        return result
    found = Located.of(values.old, new.hashes, new.keys)
    blocks = counted_blocks(found)
    result += _units_before(found.hits, blocks, words)
    pairs = {(key, word) for key, number, low, high in kept.tolist() for word in located.words_of(number, low, high)}
    some = sorted(pairs)
    number, read = np.array([key for key, _ in some], np.int64), np.array([word for _, word in some], np.uint64)
    for key, block, low, high in found.with_words(number, read).tolist():
        result[key] -= int(found.used[block].diffs_at(slice(low, high)).sum())
    return result


@compiled()
def _units_before(hits: Ints, blocks: Any, words: Words) -> Ints:
    """How many units each key has before a word."""
    result = np.zeros(len(words), np.int64)
    first = 0
    while first < len(hits):
        last = next_key(hits, first)
        result[hits[first, 0]] = units_before(hits, hits[:, 2], first, last, blocks, words[hits[first, 0]])
        first = last
    return result


@compiled()
def _starts(hits: Ints, blocks: Any, words: Words, whole: Mask, before: int) -> tuple[Ints, Words, Ints]:
    """Where each run begins to be read, ``before`` units ahead of its key's word; that word, and how many come before.

    0 is the word where nothing comes before.
    """
    start, skipped, at_word = hits[:, 2].copy(), np.zeros(len(words), np.int64), np.zeros(len(words), np.uint64)
    counted, lines = blocks
    first = 0
    while first < len(hits):
        key, last = hits[first, 0], next_key(hits, first)
        word, total = words[key], 0
        for h in range(first, last if not whole[key] else first):
            at = first_word(lines, hits[h, 1], hits[h, 2], hits[h, 3], word)
            total += units(counted, hits[h, 1], hits[h, 2], at)
        if total > before:
            if before > 0:
                word = word_at(hits, hits[:, 2], first, last, blocks, total - before)
            at_word[key] = word
            for h in range(first, last):
                start[h] = first_word(lines, hits[h, 1], hits[h, 2], hits[h, 3], word)
                skipped[key] += units(counted, hits[h, 1], hits[h, 2], start[h])
        first = last
    return start, at_word, skipped


@compiled()
def _first_rows(hits: Ints, upto: Ints, skipped: Ints, blocks: Any, wanted: int) -> Ints:
    """Runs before ``upto`` with the first units of each key, of which so many are ``skipped``."""
    runs, count, first = np.empty((len(hits) + 8, 4), np.int64), 0, 0
    lines = blocks[1]
    while first < len(hits):
        key, last = hits[first, 0], next_key(hits, first)
        place = 0
        while place < min(wanted, skipped[key]):
            word = word_at(hits, hits[:, 2], first, last, blocks, place)
            for h in range(first, last):
                low, high = word_stretch(lines, hits[h, 1], hits[h, 2], upto[h], word, word)
                runs, count = put_run(runs, count, key, hits[h, 1], low, high)
            place = units_before(hits, hits[:, 2], first, last, blocks, word + ONE)
        first = last
    return runs[:count].copy()
