"""The rows around those that a step touches, before it and after it, by one call of a kernel that reads in place.

``around`` reads what decides functions of near rows and ranks it together with what is new, and what it read is then
taken apart. Where a step has few new rows of one time, this walks through each group from the first of them to both
sides, in all blocks at once, and adds up how often each row is there with what is new and without: what comes out are
rows in their order, of which all of that is known.

To ``around`` are left groups whose new rows lie far apart, different rows that are equal in the word of the order's
first column, and what counts other than rows: those that are not null, peers, and frames of values.
"""

from __future__ import annotations

import numpy as np

from altneu.columnar import few
from altneu.columnar.columns import Stack
from altneu.columnar.gathered import Gathered
from altneu.columnar.lookup import first_word
from altneu.columnar.ranking import Words
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.operators.kernels.contents import KNOWN, Contents
from altneu.operators.kernels.in_order import GroupsInOrder
from altneu.operators.kernels.small_ends import END, MOST_READ, NEXT, WORD, add_up, nearest_of, rows_of_key, stacked
from altneu.operators.kernels.small_groups import lines_of_all, places_of_all, word_at
from altneu.operators.reduce.node import Around
from altneu.trace.batch import Arranged, Block, Layout

MOST_ROWS = 1024  # of all groups together
_BLOCK, _ROW, _WORD, _GROUP = range(4)  # of what is found


class Stretches(GroupsInOrder):
    """Stretches of groups, of which is known what they contain."""

    def __init__(self, layout: Layout, keys: Rows, values: Rows, found: list[Ints], time: int) -> None:
        rows, old, new, starts = found
        attributes = {"layout": layout, "keys": keys, "skipped": None, "_of_ranks": rows[_WORD].view(np.uint64)}
        attributes |= {"old_start": starts[0], "old_diffs": old[1], "new_group": new[0]}
        attributes |= {"new_times": np.array([time]), "new_diffs": new[1]}
        self.__dict__.update(attributes)
        groups = np.arange(keys.count)
        nowhere = np.zeros(keys.count, np.int64)  # all that is new has one time
        self.__dict__[KNOWN] = Contents(
            self, values, rows[_GROUP], old[0], new[0], new[1], starts[1], groups, nowhere, layout.order
        )

    @property
    def words_in_order(self) -> Words:
        """The word of each row."""
        words: Words = self.__dict__["_of_ranks"]
        return words


def stretches(given: Arranged, around: Around) -> Stretches | None:
    """The rows around those that are new, in the groups that have new rows; None where that needs more than this has.

    Shape:  ``given``, which is small (``small_ends.is_small``), in an order, and no row of a touched group has a count
            below zero.
    Cost:   O(log n) in each block for each group, and O(b) for b blocks for each row on both sides.
    Law:    functions of near rows change of these as of the whole groups (tests/operators/test_small_around.py).
    """
    if around.values or around.with_ties or around.bounds or around.sums_of_wide:
        return None
    if (places := places_of_all(given)) is None:
        return None
    layout = given.layout
    keys = given.new.distinct_keys()[1]
    *found, time, read = _stretches(*lines_of_all(given), places, len(layout.key), around.units, keys.count, MOST_ROWS)
    if read < 0:
        return None
    blocks = [block for batch in (*given.old, given.new) for block in batch.blocks]
    values = _values(blocks, places[:, len(layout.key) :], found[0], layout)
    return Stretches(layout, keys, values, found, time)


def _values(blocks: list[Block], places: Ints, rows: Ints, layout: Layout) -> Rows:
    """The values of rows of some blocks."""
    numbers, parts, starts, index = stacked(blocks, rows[_BLOCK], rows[_ROW])
    columns = few.gathered(np.ascontiguousarray(places[numbers]), starts, index, layout.value_schema.types)
    if columns is not None:
        return Rows(layout.value_schema, tuple(columns), index.size)
    return Gathered(Stack([part.values for part in parts], layout.value_schema), index)


@compiled()
def _stretches(
    table: Ints, addresses: Ints, old: int, places: Ints, keys: int, units: int, groups: int, most: int
) -> tuple[Ints, Ints, Ints, Ints, int, int]:
    """Lines of rows by group and order: block, row, word and group; lines of those that were there, and how often.

    And of those that change, and by how much; of both where each group begins; the time of all that is new; and how
    many updates were read, -1 where that does not do.
    """
    size, time = table[old, 1], word_at(addresses, old, 2, 0)
    rows, copies = np.empty((4, most), np.int64), np.empty((2, most), np.int64)
    was_there, changed = np.empty((2, most), np.int64), np.empty((2, most), np.int64)
    starts = np.zeros((2, groups + 1), np.int64)
    runs, cursors = np.empty((old + 1, 2), np.int64), np.empty((3, old + 1), np.int64)
    first, count, group, olds, news, read = 0, 0, 0, 0, 0, 0
    while first < size:
        last = rows_of_key(table, addresses, places, old, keys, first, time, runs)
        many, updates = -1, 0
        if last >= 0:
            many, updates = _stretch(addresses, places, runs, old, keys, units, cursors, rows, copies, count)
        if many < 0:
            return rows[:, :0].copy(), was_there[:, :0].copy(), changed[:, :0].copy(), starts, time, -1
        for at in range(count, many):
            rows[_GROUP, at] = group
            if copies[0, at] != 0:
                was_there[0, olds], was_there[1, olds] = at, copies[0, at]
                olds += 1
            if copies[1, at] != copies[0, at]:
                changed[0, news], changed[1, news] = at, copies[1, at] - copies[0, at]
                news += 1
        group, read = group + 1, read + updates
        starts[0, group], starts[1, group] = olds, news
        first, count = last, many
    return rows[:, :count].copy(), was_there[:, :olds].copy(), changed[:, :news].copy(), starts, time, read


@compiled()
def _stretch(  # arrays are given: memory of its own takes longer than the rest
    addresses: Ints,
    places: Ints,
    runs: Ints,
    old: int,
    keys: int,
    units: int,
    cursors: Ints,
    rows: Ints,
    copies: Ints,
    count: int,
) -> tuple[int, int]:
    """Write the rows of a group from before its first new row to behind its last, in order, with the copies of each.

    Where they end among ``rows``, -1 where that does not do; and how many updates were read.
    """
    begin = count
    _put(addresses, runs, old, cursors, back=True)
    seen, read = 0, 0
    while seen <= units:
        nearest = nearest_of(cursors, True)
        if nearest < 0:
            break
        row, word = cursors[NEXT, nearest], cursors[WORD, nearest]
        was, now, updates = add_up(addresses, places, cursors, nearest, old, keys, -1, MOST_READ - read)
        if updates < 0 or was < 0 or now < 0 or count == rows.shape[1]:
            return -1, read
        read += updates
        if was > 0:
            rows[_BLOCK, count], rows[_ROW, count], rows[_WORD, count] = nearest, row, word
            copies[0, count], copies[1, count] = was, now
            count, seen = count + 1, seen + min(was, units + 1)
    _reverse(rows, copies, begin, count)
    _put(addresses, runs, old, cursors, back=False)
    seen = 0
    while seen <= units or cursors[NEXT, old] != cursors[END, old]:
        nearest = nearest_of(cursors, False)
        if nearest < 0:
            break
        row, word, new = cursors[NEXT, nearest], cursors[WORD, nearest], cursors[NEXT, old]
        was, now, updates = add_up(addresses, places, cursors, nearest, old, keys, 1, MOST_READ - read)
        if updates < 0 or was < 0 or now < 0 or count == rows.shape[1]:
            return -1, read
        read += updates
        if cursors[NEXT, old] != new:
            seen = 0
        elif was > 0:
            seen += min(was, units + 1)
        if was > 0 or now > 0:
            rows[_BLOCK, count], rows[_ROW, count], rows[_WORD, count] = nearest, row, word
            copies[0, count], copies[1, count] = was, now
            count += 1
    return count, read


@compiled()
def _put(addresses: Ints, runs: Ints, old: int, cursors: Ints, back: bool) -> None:
    """Put cursors before the first new row of a group, to go ``back`` from there, or on it."""
    first = np.uint64(word_at(addresses, old, 0, runs[old, 0]))
    for block in range(len(runs)):
        start, stop = runs[block]
        at = first_word(addresses[:, 0], block, start, stop, first) if start < stop else start
        cursors[NEXT, block], cursors[END, block] = (at - 1, start - 1) if back else (at, stop)
        if cursors[NEXT, block] != cursors[END, block]:
            cursors[WORD, block] = word_at(addresses, block, 0, cursors[NEXT, block])


@compiled()
def _reverse(rows: Ints, copies: Ints, start: int, stop: int) -> None:
    """Turn a run of rows around."""
    for i in range((stop - start) // 2):
        a, b = start + i, stop - 1 - i
        for line in range(len(rows)):
            rows[line, a], rows[line, b] = rows[line, b], rows[line, a]
        for line in range(len(copies)):
            copies[line, a], copies[line, b] = copies[line, b], copies[line, a]
