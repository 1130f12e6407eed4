"""The first and last rows of groups in order, before a step and after it, by one call of a kernel that reads in place.

``ends`` reads what decides a function of these rows, and the function then makes of it what it makes of a group. Where
a step has few new rows of one time, this walks through each group from its end instead, in all blocks at once, and adds
up how often each row is there with what is new and without, until as many rows are found both ways as are wanted.

Four cases are left to ``ends``: different rows that are equal in the word of the order's first column, more than
``MOST_READ`` updates of a group, many rows that cancel (``ends`` notes them), and counts below zero. (And rows that are
there so often that they have no rank, which the function refuses.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from altneu.columnar import few
from altneu.columnar.columns import Mask, Stack, column_of_words, encode
from altneu.columnar.hashing import NULL_HASH, Hashes, is_injective, unmixed
from altneu.columnar.lookup import LAST_WORD, ONE, first_word, word_stretch
from altneu.columnar.ranking import SIGN
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.operators.kernels.dead_rows import LEAST, MOST_KEYS, DeadRows
from altneu.operators.kernels.groups import number_new
from altneu.operators.kernels.small_groups import (
    LARGEST_DIFF,
    NO_PLACES,
    compared_keys,
    key_hash_at,
    lines_of_all,
    may_be_null,
    places_of_all,
    run_of,
    runs_at,
    word_at,
)
from altneu.trace.batch import Arranged, Block
from altneu.trace.update import Updates

MOST_READ = 256  # updates of a group
MOST_WANTED = 64  # rows from an end
MOST_COPIES = 2**31 - 1  # of a row that has a rank
_Work: TypeAlias = tuple[Ints, Ints, Ints, Mask]
_BLOCK, _ROW, _BEFORE, _AFTER = range(4)  # of what is found: where a row is, how often it is there
_CHANGE = 2  # of what changes
NEXT, END, WORD = range(3)  # of a block
_NO_GAPS = np.empty((0, 3), np.int64)
_NO_VALUES = np.empty((0, 6), np.int64)
FRONT, BACK, RANKS, PLACES = range(4)  # from where rows are read; which first ones: copies, or by a rank, or dense one
_NULLS = -2  # updates read where there are nulls, and places are needed


def is_small(given: Arranged) -> bool:
    """Whether what is new is few rows in one block."""
    return given.new.count <= few.MOST and not given.new.blocks[1:] and given.layout.lattice.width == 1


def _known(given: Arranged) -> DeadRows | None:
    """The rows of old batches that are known to cancel; None if none are known."""
    if not given.old or not any([batch.count for batch in given.old]):  # noqa: C419  # a generator takes longer
        return None
    dead = DeadRows.of(given)
    return dead if dead.gaps else None


def _gaps(dead: DeadRows | None, given: Arranged) -> Ints:
    """The gaps of keys that have new rows: the hash of the key, and the first word and the last."""
    if dead is None:
        return _NO_GAPS
    hashes, keys = given.new.distinct_keys()
    if keys.count > MOST_KEYS:
        return _NO_GAPS
    gaps = [
        (key, low, high - 1)
        for key, name in zip(hashes.tolist(), encode(keys), strict=True)
        for low, high, _ in dead.gaps.get(name, ())
    ]
    return np.array(gaps, np.uint64).reshape(-1, 3).view(np.int64)


def _close(dead: DeadRows | None, given: Arranged) -> None:
    """Nothing new is in a gap."""
    if dead is not None:
        dead.close(given, given.new.distinct_keys()[1], number_new(given), given.new.updates_by_key()[1])


def first_rows(given: Arranged, wanted: int, way: int = FRONT) -> tuple[Updates, int] | None:
    """What changes in the first rows of the groups that have new rows, counted with their copies; None of the rest.

    With ``RANKS`` those whose rank is at most ``wanted``, with ``PLACES`` whose dense rank is, with all of their
    copies.

    Shape:  ``given``, which ``is_small``, in an order, and no row of a touched group has a count below zero; updates of
            its columns come out, and how many updates were read.
    Cost:   O(b) for b blocks that have rows of a group, for each row that is read: those wanted, and those that are new
            before them.
    Law:    what ``reduce_top_k`` makes of the groups (tests/operators/test_small_ends.py).
    """
    layout, places = given.layout, places_of_all(given)
    if wanted > MOST_WANTED or places is None:
        return None
    (table, addresses, old), dead = lines_of_all(given), _known(given)
    by, gaps = len(layout.key), _gaps(dead, given)
    made, read, time = _first_rows(table, addresses, places, old, by, gaps, wanted, way)
    if read < 0:
        return None
    _close(dead, given)
    if not made.shape[1]:
        return Updates.empty(layout.schema, 1), read
    blocks = [block for batch in (*given.old, given.new) for block in batch.blocks]
    keys, values = _taken(blocks, places, made[_BLOCK], made[_ROW])
    times = np.full((1, keys.count), time)
    return Updates(layout.join(keys, values), times, made[_CHANGE].copy()), read


def stacked(blocks: Sequence[Block], block: Ints, row: Ints) -> tuple[list[int], list[Block], Ints, Ints]:
    """The blocks that some rows lie in: their numbers, they themselves, where each begins, and where the rows are."""
    numbers = sorted({*block.tolist()})
    parts = [blocks[i] for i in numbers]
    starts = np.zeros(len(numbers) + 1, np.int64)
    np.cumsum([len(part) for part in parts], out=starts[1:])
    return numbers, parts, starts, starts[np.searchsorted(numbers, block)] + row


def _taken(blocks: Sequence[Block], places: Ints, block: Ints, row: Ints) -> tuple[Rows, Rows]:
    """Rows of some blocks, as keys and values."""
    numbers, parts, starts, index = stacked(blocks, block, row)
    layout = blocks[0].layout
    columns = few.gathered(places[numbers], starts, index, layout.key_schema.types + layout.value_schema.types)
    if columns is not None:
        first = len(layout.key)
        keys = Rows(layout.key_schema, tuple(columns[:first]), index.size)
        return keys, Rows(layout.value_schema, tuple(columns[first:]), index.size)
    keys = Stack([part.keys for part in parts], layout.key_schema).take(index)
    return keys, Stack([part.values for part in parts], layout.value_schema).take(index)


def none_is_below(given: Arranged) -> bool:
    """Whether for certain none of the new rows' counts is, or was, below zero at any time of the step.

    Cost:   O(log n) in each block for each new row; nothing is gathered.
    Law:    if so, ``below_zero`` finds no change (tests/operators/test_small_ends.py).
    """
    if not is_small(given) or (places := places_of_all(given)) is None:
        return False
    told: bool = _none_is_below(*lines_of_all(given), places, len(given.layout.key))
    return told


def extremes(given: Arranged, greatest: Mask) -> tuple[Rows, Ints, Ints, Ints, int] | None:
    """What changes in extremes of the groups that have new rows, each the least or the ``greatest``; None of the rest.

    Shape:  as of ``first_rows``; ``given`` has one value, which its word tells. Of each change the key, the words of
            the extremes, the time and the diff; and how many updates were read.
    Law:    what ``reduce_extremes`` makes of the groups (tests/operators/test_small_ends.py).
    """
    layout = given.layout
    told = is_injective(layout.key_schema)
    places = NO_PLACES if told else places_of_all(given)
    if places is None:
        return None
    (table, addresses, old), dead = lines_of_all(given), _known(given)
    keys, gaps, descending = 0 if told else len(layout.key), _gaps(dead, given), layout.order[0][1]
    made, words, read, time = _extremes(table, addresses, places, _NO_VALUES, old, keys, gaps, descending, greatest)
    if read == _NULLS and (values := _values_of(given)) is not None:
        made, words, read, time = _extremes(table, addresses, places, values, old, keys, gaps, descending, greatest)
    if read < 0:
        return None
    _close(dead, given)
    schema, count = layout.key_schema, made.shape[1]
    if told and layout.has_number:
        rows = Rows(schema, (column_of_words(schema.types[0], made[2]),), count)
    else:
        rows = given.new.blocks[0].keys.take(made[0])
    return rows, words, np.full((1, count), time), made[1], read


def history_of_extremes(
    given: Arranged, greatest: Mask, touched: tuple[Hashes, Rows], before: int
) -> tuple[Ints, Ints] | None:
    """The same of groups with keys, of which these are the hashes: what there was, and what changes.

    Shape:  lines of the number of a key, a time and a diff, and the words of the extremes: what there was at
            ``before``, and changes one later, when all that is new is.
    """
    compared = compared_keys(given, touched[1])
    if compared is None or _known(given) is not None:
        return None
    descending = given.layout.order[0][1]
    lines, hashes = (*lines_of_all(given), *compared), touched[0]
    made, words, read = _history(*lines, _NO_VALUES, hashes, before, descending, greatest)
    if read == _NULLS and (values := _values_of(given)) is not None:
        made, words, read = _history(*lines, values, hashes, before, descending, greatest)
    return None if read < 0 else (made, words)


def _values_of(given: Arranged) -> Ints | None:
    """The places of the one value column of all blocks, which say where it has nulls."""
    places = places_of_all(given)
    return None if places is None else places[:, len(given.layout.key)].copy()


@compiled()
def _first_rows(
    table: Ints, addresses: Ints, places: Ints, old: int, keys: int, gaps: Ints, wanted: int, way: int
) -> tuple[Ints, int, int]:
    """Lines of changes: the block and the row of one that changes, and by how much.

    And how many updates were read, -1 where that does not do; and the time of all that is new.
    """
    size, time = table[old, 1], word_at(addresses, old, 2, 0)
    out, count, read = np.empty((3, 2 * wanted * size), np.int64), 0, 0
    runs, cursors = np.empty((old + 1, 2), np.int64), np.empty((3, old + 1), np.int64)
    found = np.empty((4, 2 * wanted + 2), np.int64)
    first = 0
    while first < size:
        last = rows_of_key(table, addresses, places, old, keys, first, time, runs)
        if last < 0:
            return out[:, :0].copy(), -1, time
        own = _of_key(gaps, key_hash_at(table, old, first))
        many, updates = _walk(addresses, places, runs, old, keys, way, wanted, own, cursors, found)
        if many < 0:
            return out[:, :0].copy(), -1, time
        read += updates
        for i in range(many):
            if found[_BEFORE, i] != found[_AFTER, i]:
                out[_BLOCK, count], out[_ROW, count] = found[_BLOCK, i], found[_ROW, i]
                out[_CHANGE, count] = found[_AFTER, i] - found[_BEFORE, i]
                count += 1
        first = last
    return out[:, :count].copy(), read, time


@compiled()
def _none_is_below(table: Ints, addresses: Ints, old: int, places: Ints, keys: int) -> bool:
    """For each new row, at its word in all blocks, whether its count is told and not below zero."""
    size, time = table[old, 1], word_at(addresses, old, 2, 0)
    runs, cursors = np.empty((old + 1, 2), np.int64), np.empty((3, old + 1), np.int64)
    first = 0
    while first < size:
        last = rows_of_key(table, addresses, places, old, keys, first, time, runs)
        if last < 0:
            return False
        while first < last:
            word = np.uint64(word_at(addresses, old, 0, first))
            for block in range(old + 1):
                start, stop = runs[block]
                if start < stop:
                    start, stop = word_stretch(addresses[:, 0], block, start, stop, word, word)
                cursors[NEXT, block], cursors[END, block], cursors[WORD, block] = start, stop, np.int64(word)
            nearest = nearest_of(cursors, False)
            was, now, read = add_up(addresses, places, cursors, nearest, old, keys, 1, MOST_READ)
            if read < 0 or was < 0 or now < 0:
                return False
            while first < last and np.uint64(word_at(addresses, old, 0, first)) == word:
                first += 1
    return True


@compiled()
def _extremes(
    table: Ints,
    addresses: Ints,
    places: Ints,
    values: Ints,
    old: int,
    keys: int,
    gaps: Ints,
    descending: bool,
    greatest: Mask,
) -> tuple[Ints, Ints, int, int]:
    """Lines of changes: where its key is new, by how much, the number of its key; and the values.

    And how many updates were read, -1 where that does not do; and the time of all that is new.
    """
    size, time, ends = table[old, 1], word_at(addresses, old, 2, 0), len(greatest)
    out, made, count, read = np.empty((3, 2 * size), np.int64), np.empty((ends, 2 * size), np.int64), 0, 0
    runs, work = np.empty((old + 1, 2), np.int64), _work_for(old + 1, ends)
    _, _, both, there = work
    first, updates = 0, 0
    while first < size:
        key = key_hash_at(table, old, first)
        last = rows_of_key(table, addresses, places, old, keys, first, time, runs)
        if last >= 0:
            own = _of_key(gaps, key)
            updates = _ends_of(addresses, places, values, runs, old, keys, own, descending, greatest, work)
        if last < 0 or updates < 0:
            return out[:, :0].copy(), made[:, :0].copy(), min(last, updates), time
        read += updates
        if there[0] != there[1] or (there[0] and (both[0] != both[1]).any()):
            for which in range(2):
                if there[which]:
                    out[0, count], out[1, count], out[2, count] = first, 2 * which - 1, np.int64(unmixed(key))
                    made[:, count] = both[which]
                    count += 1
        first = last
    return out[:, :count].copy(), made[:, :count].copy(), read, time


@compiled()
def _history(
    table: Ints,
    addresses: Ints,
    old: int,
    places: Ints,
    keys: Ints,
    values: Ints,
    hashes: Hashes,
    before: int,
    descending: bool,
    greatest: Mask,
) -> tuple[Ints, Ints, int]:
    """Lines of what there was of each key and what changes: its number, the time, the diff; and the values.

    And how many updates were read, -1 where that does not do.
    """
    many, ends, time, count, read = len(hashes), len(greatest), before + 1, 0, 0
    out, made = np.empty((3, 3 * many), np.int64), np.empty((ends, 3 * many), np.int64)
    runs, work, updates = np.empty((len(table), 2), np.int64), _work_for(len(table), ends), 0
    _, _, both, there = work
    none = np.empty((0, 3), np.int64)
    for key in range(many):
        told = runs_at(table, addresses, places, old, hashes, keys, key, time, runs)
        if told:
            some = addresses, places, values, runs, old, len(keys), none
            updates = _ends_of(*some, descending, greatest, work)
        if not told or updates < 0:
            return out[:, :0].copy(), made[:, :0].copy(), updates if told else -1
        read += updates
        changes = there[0] != there[1] or (there[0] and (both[0] != both[1]).any())
        for line in range(3 if changes else 1):
            which = 1 if line == 2 else 0
            if there[which]:
                out[0, count], out[1, count] = key, before if line == 0 else time
                out[2, count], made[:, count] = -1 if line == 1 else 1, both[which]
                count += 1
    return out[:, :count].copy(), made[:, :count].copy(), read


@compiled()
def _work_for(blocks: int, ends: int) -> _Work:
    """Cursors, what is found, extremes before and after, and whether there are any: to be written to."""
    room = np.empty((3, blocks), np.int64), np.empty((4, 4), np.int64)
    return room[0], room[1], np.zeros((2, ends), np.int64), np.zeros(2, np.bool_)


@compiled()
def _ends_of(  # arrays are given: memory of its own takes longer than the rest
    addresses: Ints,
    places: Ints,
    values: Ints,
    runs: Ints,
    old: int,
    keys: int,
    gaps: Ints,
    descending: bool,
    greatest: Mask,
    work: _Work,
) -> int:
    """The extremes of a group before the step and after it, and whether there are any; how many updates were read.

    -1 where that does not do, and ``_NULLS`` where it needs the places of the ``values``.
    """
    cursors, found, both, there = work
    read, nulls = 0, _behind_nulls(addresses, values, runs)
    if nulls < 0:
        return nulls
    there[:] = False
    for e in range(len(greatest)):
        way = BACK if greatest[e] != descending else FRONT
        many, updates = _walk(addresses, places, runs, old, keys, way, 1, gaps, cursors, found)
        if many < 0 or not _tell(addresses, found, many, descending, both[:, e], there):
            return -1
        read += updates
    return -1 if nulls and not (there[0] and there[1]) else read  # a group of nulls has a row too


@compiled()
def _behind_nulls(addresses: Ints, values: Ints, runs: Ints) -> int:
    """Take from runs the nulls at their front; how many runs have any, or as of ``_ends_of``."""
    count = 0
    for block in range(len(runs)):
        start, stop = runs[block]
        if start == stop or word_at(addresses, block, 0, start) != 0:
            continue
        if len(values) == 0:
            return _NULLS
        end = first_word(addresses[:, 0], block, start, stop, ONE)
        if few.has_value(values[block], end - 1):
            return -1
        runs[block, 0] = end
        count += 1
    return count


@compiled()
def _tell(addresses: Ints, found: Ints, many: int, descending: bool, values: Ints, there: Mask) -> bool:
    """The values that rows have before the step and after it, and whether there is one; whether words tell them."""
    for i in range(many):
        word = np.uint64(word_at(addresses, found[_BLOCK, i], 0, found[_ROW, i]))
        if may_be_null(word):
            return False
        for which in range(2):
            if found[_BEFORE + which, i] > 0:
                values[which], there[which] = np.int64((~word if descending else word) ^ SIGN), True
    return True


@compiled()
def rows_of_key(
    table: Ints, addresses: Ints, places: Ints, old: int, keys: int, first: int, time: int, runs: Ints
) -> int:
    """Where the rows of a new row's key begin and end in each block; where its new rows end, -1 where that is not told.

    So many ``keys`` are compared; if that is 0, hashes tell keys, but for null.
    """
    key, last = key_hash_at(table, old, first), first
    if keys == 0 and key == NULL_HASH:
        return -1
    while last < table[old, 1] and key_hash_at(table, old, last) == key:
        if word_at(addresses, old, 2, last) != time:
            return -1
        last += 1
    for block in range(old):
        start, stop = run_of(table, block, key)
        if start < stop and keys > 0 and not few.is_equal(places[old], first, places[block], start, 0, keys):
            return -1
        runs[block, 0], runs[block, 1] = start, stop
    runs[old, 0], runs[old, 1] = first, last
    return last


@compiled()
def _of_key(gaps: Ints, key: np.uint64) -> Ints:
    """The gaps of one key, which lie together."""
    first = 0
    while first < len(gaps) and np.uint64(gaps[first, 0]) != key:
        first += 1
    last = first
    while last < len(gaps) and np.uint64(gaps[last, 0]) == key:
        last += 1
    return gaps[first:last]


@compiled()
def _is_passed_over(addresses: Ints, gaps: Ints, cursors: Ints, nearest: int, old: int, step: int) -> bool:
    """Whether there were old rows in the gap in which the next row is: all cursors that are in it go past it."""
    word, found = np.uint64(cursors[WORD, nearest]), False
    for gap in range(len(gaps)):
        low, last = np.uint64(gaps[gap, 1]), np.uint64(gaps[gap, 2])
        if not low <= word <= last:
            continue
        for block in range(old):
            at, end = cursors[NEXT, block], cursors[END, block]
            if at == end or not low <= np.uint64(cursors[WORD, block]) <= last:
                continue
            if step < 0:
                at = first_word(addresses[:, 0], block, end + 1, at + 1, low) - 1
            else:
                at = end if last == LAST_WORD else first_word(addresses[:, 0], block, at, end, last + ONE)
            cursors[NEXT, block], found = at, True
            if at != end:
                cursors[WORD, block] = word_at(addresses, block, 0, at)
    return found


@compiled()
def _walk(  # arrays are given: memory of its own takes longer than the rest
    addresses: Ints,
    places: Ints,
    runs: Ints,
    old: int,
    keys: int,
    way: int,
    wanted: int,
    gaps: Ints,
    cursors: Ints,
    found: Ints,
) -> tuple[int, int]:
    """The first ``wanted`` rows of a group, or the last, with how often each is one without what is new and with it.

    As different rows never share a word here, a row's rank is one more than how many copies come before it, and its
    dense rank one more than how many rows do; if one of its copies is among the first, all are.

    Of old rows in ``gaps`` nothing is left.

    How many were ``found``, -1 where that does not do; and how many updates were read. Of a block the ``cursors`` are
    the row that is next and its word, and the row behind the last. Without ``places`` words tell values, but for null.
    """
    from_back, ranked = way == BACK, way >= RANKS
    step = -1 if from_back else 1
    for block in range(len(runs)):
        start, stop = runs[block]
        cursors[NEXT, block], cursors[END, block] = (stop - 1, start - 1) if from_back else (start, stop)
        if start < stop:
            cursors[WORD, block] = word_at(addresses, block, 0, cursors[NEXT, block])
        else:
            cursors[NEXT, block] = cursors[END, block]
    many, read, dead, before, after = 0, 0, 0, wanted, wanted  # ``before`` and ``after``: how many are wanted still
    while before > 0 or after > 0:
        nearest = nearest_of(cursors, from_back)
        if nearest < 0:
            break
        if len(gaps) > 0 and _is_passed_over(addresses, gaps, cursors, nearest, old, step):
            continue
        row = cursors[NEXT, nearest]
        was, now, updates = add_up(addresses, places, cursors, nearest, old, keys, step, MOST_READ - read)
        if updates < 0 or was < 0 or now < 0 or (ranked and max(was, now) > MOST_COPIES):
            return -1, read
        read += updates
        was, now = _of_wanted(was, before, ranked), _of_wanted(now, after, ranked)
        if was > 0 or now > 0:
            found[_BLOCK, many], found[_ROW, many], found[_BEFORE, many], found[_AFTER, many] = nearest, row, was, now
            many += 1
        else:
            dead += updates
            if dead >= LEAST:  # what ``ends`` notes, so that no step reads them again
                return -1, read
        before -= min(was, 1) if way == PLACES else was
        after -= min(now, 1) if way == PLACES else now
    return many, read


@compiled(inline="always")
def _of_wanted(copies: int, wanted: int, ranked: bool) -> int:
    """How many copies of a row are among the first, where so many are wanted still, or none if that is not above 0."""
    if wanted <= 0:
        return 0
    return copies if ranked else min(copies, wanted)


@compiled()
def nearest_of(cursors: Ints, from_back: bool) -> int:
    """The first block whose next row has the least word, or the greatest; -1 where none has one."""
    nearest = -1
    for block in range(cursors.shape[1]):
        if cursors[NEXT, block] == cursors[END, block]:
            continue
        word, best = np.uint64(cursors[WORD, block]), np.uint64(cursors[WORD, nearest])
        if nearest < 0 or (word > best if from_back else word < best):
            nearest = block
    return nearest


@compiled()
def add_up(
    addresses: Ints, places: Ints, cursors: Ints, first: int, old: int, keys: int, step: int, most: int
) -> tuple[int, int, int]:
    """How often the next row of a block is there, without what is new and with it, from there on and in later blocks.

    And how many updates that takes, with which cursors go on; -1 where they are more than ``most``, very often there,
    or of different rows.
    """
    word, row, was, now, read = cursors[WORD, first], cursors[NEXT, first], 0, 0, 0
    if places.shape[1] == 0 and may_be_null(np.uint64(word)):
        return 0, 0, -1
    for block in range(first, cursors.shape[1]):
        while cursors[NEXT, block] != cursors[END, block] and cursors[WORD, block] == word:
            at = cursors[NEXT, block]
            diff = word_at(addresses, block, 1, at)
            same = places.shape[1] == 0 or (block == first and at == row)
            same = same or few.is_equal(places[first], row, places[block], at, keys, places.shape[1])
            read += 1
            if not same or read > most or not -LARGEST_DIFF <= diff <= LARGEST_DIFF:
                return 0, 0, -1
            now += diff
            was += diff if block < old else 0
            cursors[NEXT, block] = at + step
            if at + step != cursors[END, block]:
                cursors[WORD, block] = word_at(addresses, block, 0, at + step)
    return was, now, read
