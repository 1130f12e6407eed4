"""Small groups of whole numbers, read where they lie: one call of a kernel for all that a small step asks of them.

Where the rows of an arrangement have one column beside the key, a whole number by which they are ordered, the word of a
row is its value; and where the hash of a key tells the key, hashes and words are all that there is to know of a row.
They are in contiguous memory, whose addresses a block knows, so that nothing needs to be gathered, built or compared
before the answer is known. What a kernel here does not answer (large groups, nulls, counts below zero, several epochs)
is left to those that answer everything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.columns import column_of_words, load64, load_narrow
from altneu.columnar.few import is_equal, places_of
from altneu.columnar.hashing import NULL_HASH, Hashes, hash_rows, is_injective, unmixed
from altneu.columnar.lookup import LAST_WORD, ONE, gallop, hash_from, word_stretch
from altneu.columnar.ranking import SIGN
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.operators.kernels.groups import ReduceOutput, no_errors
from altneu.order import outside
from altneu.trace.batch import Arranged, Batch, Layout
from altneu.trace.update import Updates

MOST_NEW = 1 << 16  # updates that are looked at so
MOST_ROWS = 64  # updates of a group that is read
AHEAD_ROUNDS = 8  # later rounds of a group that are looked at ahead
LARGEST_DIFF = 1 << 40  # the sum of ``MOST_ROWS`` such diffs fits
NEVER = np.iinfo(np.int64).max
_LINES, _PLACES = "#lines", "#places"
NO_PLACES = np.empty((0, 0, 6), np.int64)
NO_KEYS = np.empty((0, 6), np.int64)
_NO_HASHES = np.empty(0, np.uint64)


def is_told_by_words(layout: Layout) -> bool:
    """Whether hashes of keys and words of values say all of the rows of a layout, but for nulls."""
    return layout.only_value is not None and is_injective(layout.key_schema)


def none_is_below(given: Arranged) -> bool:
    """Whether for certain none of the new rows' counts is, or was, below zero at any time of the step.

    Cost:   O(log n) for each new update of a key that has a retraction.
    Law:    if so, ``below_zero`` finds no change (tests/operators/test_small_groups.py).
    """
    if not 0 < given.new.count <= MOST_NEW or given.layout.lattice.width > 2 or not is_told_by_words(given.layout):
        return False
    table, addresses, old = lines_of_all(given)
    answer: bool = _none_is_below(table, addresses, old)
    return answer


def extreme_in_round(
    given: Arranged, rounds: tuple[int, ...], again: Updates, schema: pa.Schema, *, greatest: bool
) -> ReduceOutput | None:
    """Bring the least (``greatest``: the greatest) value of each touched group up to date, at a round of one loop.

    None where more is needed than this has: more than one epoch, groups of more than ``MOST_ROWS`` updates, nulls,
    counts below zero.

    Shape:  all as for ``reduce_in_round``; rows of ``schema`` out: the key's columns and the value.
    Cost:   O(log n) for each touched group, and its rows once for each of at most ``AHEAD_ROUNDS`` later rounds.
    Law:    what ``reduce_in_round`` makes of the groups otherwise (tests/operators/test_small_groups.py).
    """
    layout = given.layout
    outer, depth = outside(layout.lattice)
    count = given.new.count
    if depth != 1 or outer.width != 1 or not 0 < count + len(again) <= MOST_NEW or not is_told_by_words(layout):
        return None
    looked_at = looked_at_again(again)
    if looked_at is None:
        return None
    found, made, asked = _extremes(*lines_of_all(given), *looked_at, rounds[0], layout.order[0][1], greatest)
    if not found:
        return None
    source, number, code, diff, epoch = made

    def values() -> list[pa.Array]:
        buffer = pa.py_buffer(code.astype(layout.only_value))
        return [pa.Array.from_buffers(schema.types[-1], source.size, [None, buffer])]

    return told(given, again, schema, (source, number, diff, epoch), values, asked, rounds[0])


def looked_at_again(again: Updates) -> tuple[Hashes, int] | None:
    """The hashes of keys that are looked at again, and their epoch; None where they have several epochs."""
    if not len(again):
        return _NO_HASHES, NEVER
    epochs = again.times[0].tolist()
    return None if epochs.count(epochs[0]) < len(epochs) else (hash_rows(again.rows), epochs[0])


def told(
    given: Arranged,
    again: Updates,
    schema: pa.Schema,
    made: tuple[Ints, Ints, Ints, Ints],
    values: Callable[[], list[pa.Array]],
    asked: Ints,
    at: int,
) -> ReduceOutput:
    """What a kernel found, as rows of a key and ``values``, and when to look again.

    Of each row the position of its key, the number that this is (as the hash tells it), the diff and the epoch.
    """
    layout, (source, number, diff, epoch) = given.layout, made
    if source.size:
        keys = _keys(given, again, source, number)
        times = np.empty((2, source.size), np.int64)
        times[0], times[1] = epoch, at
        oks = Updates(Rows(schema, (*keys.columns, *values()), source.size), times, diff)
    else:
        oks = Updates.empty(schema, 2)
    if asked.shape[1]:
        keys = _keys(given, again, asked[0], asked[1])
        pended = Updates(keys, asked[2:], np.ones(keys.count, np.int64))
    else:
        pended = Updates.empty(layout.key_schema, 2)
    return ReduceOutput(oks, no_errors(2), pended)


def _keys(given: Arranged, again: Updates, source: Ints, number: Ints) -> Rows:
    """Keys by position among the new updates and, behind them, those that are looked at again; or by their numbers."""
    schema = given.layout.key_schema
    if given.layout.has_number:
        return Rows(schema, (column_of_words(schema.types[0], number),), number.size)
    parts = [block.keys for block in given.new.blocks]
    if len(again):
        parts.append(again.rows)
    return Rows.concat(parts, schema).take(source)


def lines_of_all(given: Arranged) -> tuple[Ints, Ints, int]:
    """For kernels: the lines of all blocks, as ``Batch.table`` and ``Batch.addresses``; those before this are old.

    They are remembered, as several operations may read an arrangement in a step.
    """
    known: tuple[Ints, Ints, int] | None = given.__dict__.get(_LINES)
    if known is None:
        some = [batch for batch in (*given.old, given.new) if batch.blocks]
        table, addresses = lines_of(some or [given.new])
        known = given.__dict__[_LINES] = table, addresses, table.shape[0] - len(given.new.blocks)
    return known


def lines_of(batches: Sequence[Batch]) -> tuple[Ints, Ints]:
    """The lines of all blocks of batches that have any, as ``Batch.table`` and ``Batch.addresses``."""
    if not batches[1:]:
        return batches[0].table, batches[0].addresses
    return np.concatenate([b.table for b in batches]), np.concatenate([b.addresses for b in batches])


def places_of_all(given: Arranged) -> Ints | None:
    """For kernels: where the columns of all blocks are, as ``Batch.places``, so that they can compare keys.

    None where they cannot: of nested columns, and of blocks that have several keys of one hash. Batches remember
    theirs, so that a step asks each batch, and not each block of it.
    """
    if _PLACES not in given.__dict__:
        lines = [batch.places for batch in (*given.old, given.new) if batch.blocks]
        found = [line for line in lines if line is not None]
        given.__dict__[_PLACES] = np.concatenate(found) if found and len(found) == len(lines) else None
    known: Ints | None = given.__dict__[_PLACES]
    return known


@compiled(inline="always")
def word_at(addresses: Ints, block: int, column: int, row: int) -> int:
    """A word of a block's control columns."""
    return load_narrow(addresses[block, column, 0], addresses[block, column, 1], addresses[block, column, 2], row)


@compiled()
def run_of(table: Ints, block: int, target: np.uint64) -> tuple[int, int]:
    """Where in a block the rows with a key hash begin and end."""
    size, first, last = table[block, 1], np.uint64(table[block, 2]), np.uint64(table[block, 3])
    if target < first or target > last:
        return 0, 0
    if first == last:  # all have this hash
        return 0, size
    address = table[block, 0]
    start = hash_from(address, size, first, last, target)
    if start == size or load64(address + 8 * start) != target:
        return 0, 0
    return start, size if target == LAST_WORD else gallop(address, start, size, target + ONE)


@compiled()
def runs_at(  # arrays one by one: taking tuples of them apart costs more than the rest
    table: Ints,
    addresses: Ints,
    places: Ints,
    old: int,
    hashes: Hashes,
    keys: Ints,
    i: int,
    time: int,
    runs: Ints,
) -> bool:
    """Write where the rows of a key begin and end in each block; whether that is told, and all new ones are of a time.

    ``keys`` are the places of the columns of all keys, whose rows are compared; if there are none, hashes tell keys,
    but for null.
    """
    if len(keys) == 0 and hashes[i] == NULL_HASH:
        return False
    for block in range(len(table)):
        start, stop = run_of(table, block, hashes[i])
        if start < stop and len(keys) > 0 and not is_equal(keys, i, places[block], start, 0, len(keys)):
            return False
        for row in range(start, stop if block >= old else start):
            if word_at(addresses, block, 2, row) != time:
                return False
        runs[block, 0], runs[block, 1] = start, stop
    return True


def compared_keys(given: Arranged, keys: Rows) -> tuple[Ints, Ints] | None:
    """For ``runs_at``: the places of all blocks and of keys, none where hashes tell these; None where it cannot be."""
    if is_injective(given.layout.key_schema):
        return NO_PLACES, NO_KEYS
    places, mine = places_of_all(given), places_of(keys.columns)
    return None if places is None or mine is None else (places, mine)


@compiled()
def key_hash_at(table: Ints, block: int, row: int) -> np.uint64:
    """The key hash of a row."""
    if table[block, 2] == table[block, 3]:
        return np.uint64(table[block, 2])
    return np.uint64(load64(table[block, 0] + 8 * row))


@compiled()
def may_be_null(word: np.uint64) -> bool:
    """Whether a null may have a word."""
    return word == np.uint64(0) or word == LAST_WORD


@compiled()
def _none_is_below(table: Ints, addresses: Ints, old: int) -> bool:
    times, diffs = np.empty((2, MOST_ROWS), np.int64), np.empty(MOST_ROWS, np.int64)
    is_new, runs = np.empty(MOST_ROWS, np.bool_), np.empty((len(table), 2), np.int64)
    for block in range(old, len(table)):
        size, first = table[block, 1], 0
        while first < size:
            key, last, retracts = key_hash_at(table, block, first), first, False
            while last < size and key_hash_at(table, block, last) == key:
                retracts |= word_at(addresses, block, 1, last) < 0
                last += 1
            if retracts or len(table) > old + 1:  # of several blocks a key may be in two
                if key == NULL_HASH:
                    return False
                for other in range(len(table)):
                    runs[other, 0], runs[other, 1] = run_of(table, other, key)
                row = first
                while row < last:
                    word = np.uint64(word_at(addresses, block, 0, row))
                    many = _gathered(addresses, runs, old, word, times, diffs, is_new)
                    if many < 0 or _is_ever_below(times, diffs, is_new, many):
                        return False
                    while row < last and np.uint64(word_at(addresses, block, 0, row)) == word:
                        row += 1
            first = last
    return True


@compiled()
def _gathered(addresses: Ints, runs: Ints, old: int, word: np.uint64, times: Ints, diffs: Ints, is_new: Any) -> int:
    """Put the updates of a row into arrays, by their second coordinate; how many, -1 if they are not few.

    ``runs`` are where the rows of its key begin and end in each block.
    """
    count = 0
    if may_be_null(word):
        return -1
    for block in range(len(runs)):
        start, stop = runs[block]
        if start == stop:
            continue
        start, stop = word_stretch(addresses[:, 0], block, start, stop, word, word)
        for row in range(start, stop):
            diff = word_at(addresses, block, 1, row)
            if count == MOST_ROWS or not -LARGEST_DIFF <= diff <= LARGEST_DIFF:
                return -1
            inner = word_at(addresses, block, 3, row) if addresses.shape[1] > 3 else 0
            to = count
            while to > 0 and times[1, to - 1] > inner:
                times[0, to], times[1, to], diffs[to], is_new[to] = (
                    times[0, to - 1],
                    times[1, to - 1],
                    diffs[to - 1],
                    is_new[to - 1],
                )
                to -= 1
            times[0, to], times[1, to], diffs[to], is_new[to] = (
                word_at(addresses, block, 2, row),
                inner,
                diff,
                block >= old,
            )
            count += 1
    return count


@compiled()
def _is_ever_below(times: Ints, diffs: Ints, is_new: Any, many: int) -> bool:
    """Whether sums of updates, by their second coordinate, are below zero anywhere, with what is new or without."""
    for i in range(many):
        for with_new in (False, True):
            total = 0
            for j in range(many):
                if times[0, j] <= times[0, i] and (with_new or not is_new[j]):
                    total += diffs[j]
                if total < 0 and (j + 1 == many or times[1, j + 1] != times[1, j]):
                    return True
    return False


@compiled()
def touched_keys(table: Ints, addresses: Ints, old: int, again: Hashes, epoch: int) -> tuple[Hashes, Ints, int]:
    """Key hashes of what is new and of what is looked at again, the order that sorts them, and an epoch of them."""
    count = 0
    for block in range(old, len(table)):
        count += table[block, 1]
    hashes, at_new = np.empty(count + len(again), np.uint64), 0
    for block in range(old, len(table)):
        for row in range(table[block, 1]):
            hashes[at_new] = key_hash_at(table, block, row)
            at_new += 1
            if epoch == NEVER:
                epoch = word_at(addresses, block, 2, row)
    hashes[count:] = again
    return hashes, np.argsort(hashes, kind="mergesort"), epoch


@compiled()
def _extremes(  # noqa: C901, PLR0912  # one loop over groups; what it needs is read once
    table: Ints,
    addresses: Ints,
    old: int,
    again: Hashes,
    epoch: int,
    at: int,
    descending: bool,
    greatest: bool,
) -> tuple[bool, Ints, Ints]:
    """If it is answered; lines of changes at the round and ahead, as ``told`` takes them, of changes with the value."""
    hashes, order, epoch = touched_keys(table, addresses, old, again, epoch)
    made, asked = np.empty((5, 4 * len(hashes)), np.int64), np.empty((4, len(hashes)), np.int64)
    nothing, made_count, asked_count = (False, made[:, :0].copy(), asked[:, :0].copy()), 0, 0
    rows = np.empty((4, MOST_ROWS), np.int64)  # value, round, diff, whether it is of this epoch
    values, signs = np.empty(4, np.int64), np.empty(4, np.int64)
    found, sums = np.empty((2, 4), np.int64), np.empty(4, np.int64)
    first = 0
    while first < len(order):
        key = hashes[order[first]]
        if key == NULL_HASH:
            return nothing
        many = 0
        for block in range(len(table)):
            start, stop = run_of(table, block, key)
            for row in range(start, stop):
                word, diff = np.uint64(word_at(addresses, block, 0, row)), word_at(addresses, block, 1, row)
                then = word_at(addresses, block, 2, row)
                if many == MOST_ROWS or not -LARGEST_DIFF <= diff <= LARGEST_DIFF or may_be_null(word):
                    return nothing
                if then > epoch or (block >= old and then != epoch):
                    return nothing
                value = np.int64((~word if descending else word) ^ SIGN)
                to = many
                while to > 0 and rows[0, to - 1] > value:
                    for line in range(4):
                        rows[line, to] = rows[line, to - 1]
                    to -= 1
                rows[0, to], rows[1, to], rows[2, to] = value, word_at(addresses, block, 3, row), diff
                rows[3, to] = then == epoch
                many += 1
        later, place = NEVER, at
        for ahead in range(AHEAD_ROUNDS + 2):
            if ahead:
                following = NEVER
                for i in range(many):
                    if rows[1, i] > place:
                        following = min(following, rows[1, i])
                if following == NEVER:
                    break
                place = following
                if ahead > AHEAD_ROUNDS:
                    later = place
                    break
            changes = _changes_at(rows, many, place, greatest, values, signs, found, sums)
            if changes < 0:
                return nothing
            if changes and ahead:
                later = place
                break
            for i in range(changes):
                made[0, made_count], made[1, made_count] = order[first], np.int64(unmixed(key))
                made[2, made_count], made[3, made_count], made[4, made_count] = values[i], signs[i], epoch
                made_count += 1
        if later != NEVER:
            asked[0, asked_count], asked[1, asked_count] = order[first], np.int64(unmixed(key))
            asked[2, asked_count], asked[3, asked_count] = epoch, later
            asked_count += 1
        while first < len(order) and hashes[order[first]] == key:
            first += 1
    return True, made[:, :made_count].copy(), asked[:, :asked_count].copy()


@compiled()
def _changes_at(  # what it writes to is given: memory of its own takes longer than the rest
    rows: Ints, many: int, place: int, greatest: bool, values: Ints, signs: Ints, found: Ints, sums: Ints
) -> int:
    """What changes in the output of a group at a round, as values and diffs; how many, -1 if a count is below zero.

    It is the extreme of all rows up to the round, less that of those before this epoch, less the same of lesser rounds.
    """
    found[1, :] = 0
    i = 0
    while i < many:
        value = rows[0, i]
        sums[:] = 0
        while i < many and rows[0, i] == value:
            diff, is_older = rows[2, i], rows[3, i] == 0
            if rows[1, i] <= place:  # with what is new and without, up to the round and before it
                sums[0] += diff
                sums[1] += diff if is_older else 0
                if rows[1, i] < place:
                    sums[2] += diff
                    sums[3] += diff if is_older else 0
            i += 1
        for which in range(4):
            if sums[which] < 0:
                return -1
            if sums[which] > 0 and (greatest or found[1, which] == 0):
                found[0, which], found[1, which] = value, 1
    count = 0
    for which in range(4):
        if found[1, which] == 0:
            continue
        sign, to = 1 if which in (0, 3) else -1, 0
        while to < count and values[to] != found[0, which]:
            to += 1
        if to == count:
            values[to], signs[to], count = found[0, which], 0, count + 1
        signs[to] += sign
    left = 0
    for i in range(count):
        if signs[i] != 0:
            values[left], signs[left], left = values[i], signs[i], left + 1
    return left
