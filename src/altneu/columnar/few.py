"""A few rows, seen by one kernel: hashed, put into batch order and added up at once, in one block of words.

Of a few rows nearly all of the time goes into the calls that a kernel is surrounded with. What ``hash_rows`` and
``settle`` do column by column and array by array is therefore done here by one kernel, which is told where the columns
lie in memory. What it does not decide, different rows with equal hashes and sums that may leave 64 bits, is left to
those.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from altneu.columnar.columns import (
    KINDS,
    Kind,
    column_of_words,
    is_valid,
    load8,
    load_int8,
    load_int16,
    load_int32,
    load_int64,
    load_narrow,
)
from altneu.columnar.hashing import EMPTY_HASH, NULL_HASH, SETTING, WORDS, Hashes, combine, hash_at, xxh64
from altneu.columnar.narrow import Narrow, is_word
from altneu.columnar.rows import Ints
from altneu.columnar.sorting import SMALL, merge_runs
from altneu.compiled import compiled

MOST = 512  # rows: of more, columns and arrays are as quick one by one
STARTS = tuple(np.stack([np.zeros(MOST + 1, np.int64), np.arange(MOST + 1)], axis=1))
"""Where so many rows of one part begin, and where they end."""
_NO_PLACES = np.empty((0, 6), np.int64)
NO_WORDS = np.empty(0, np.uint64)
_LARGE = (1 << 62) // MOST  # diffs up to this do not overflow where ``MOST`` are added up
_BYTES, _NARROW, _NARROW_DECIMAL = 5, 6, 7  # how strings and narrow columns are read; the others are ``hashing``'s
_READ = {**WORDS, **{code: (0, _BYTES) for code, (kind, _) in KINDS.items() if kind is Kind.BYTES}}
_VALID, _FIRST, _WIDTH, _HOW = 1, 3, 4, 5  # of the places of a column
_KEY, _VALUE, _DIFF, _ORDER, _TIMES = range(5)  # lines of what is settled


def places_of(columns: Sequence[pa.Array]) -> Ints | None:
    """For kernels: where columns lie, and how they are read; None where one is nested or has no values at all.

    Shape:  (columns, 6): the addresses of data, validity and offsets, the first row, the width, how it is read. The
            columns own the memory.
    """
    lines: list[tuple[int, ...]] = []
    for column in columns:
        if (code := column.type.id) not in _READ:
            return None
        valid, first, *others = column.buffers()
        data = others[0] if others else first
        lines += (
            (
                0 if data is None else data.address,
                0 if valid is None else valid.address,
                0 if first is None else first.address,
                column.offset,
                *_READ[code],
            ),
        )
    return np.array(lines, np.int64) if lines else _NO_PLACES


Settled: TypeAlias = tuple[Ints | None, tuple[Hashes, Hashes, Ints, Ints], Ints, Ints]
"""A few updates in the order of batches, added up: their positions in what was given, or None if they are all as they
were; their key hashes, value hashes, times and diffs; and for kernels the table and the addresses of their block."""


def settled(
    places: Ints, starts: Ints, keys: int, times: Ints, diffs: Ints, words: Hashes = NO_WORDS
) -> Settled | None:
    """At most ``MOST`` updates settled; None where different rows have equal hashes, or a sum may leave 64 bits.

    Rows lie in parts, numbered through. Their first columns are the ``keys``, the others the value; with ``words``
    these order the values in the place of their hashes.

    Shape:  ``places`` of each part as ``places_of`` gives them, (parts, columns, 6); ``starts`` (parts + 1,), where
            each begins; ``times`` (width, n), ``diffs`` (n,).
    Law:    what ``settle`` gives otherwise (tests/laws/test_few.py).
    """
    width, count = times.shape
    if not times.flags.carray or not diffs.flags.carray:  # for which Numba has other types
        times, diffs = np.array(times, order="C"), np.array(diffs)
    out = np.empty((_TIMES + width, count), np.int64)
    table, addresses = np.empty((1, 4), np.int64), np.empty((2 + width, 3), np.int64)
    left, moved = _settle(places, starts, keys, times, diffs, words, SETTING.kept, out, table, addresses)
    if left < 0:
        return None
    if left < count:
        out = out[:, :left].copy()
        if left:
            point(out, table, addresses)
    hashes = out[:_DIFF].view(np.uint64)
    return out[_ORDER] if moved else None, (hashes[0], hashes[1], out[_TIMES:], out[_DIFF]), table, addresses


def gathered(places: Ints, starts: Ints, index: Ints, types: Sequence[pa.DataType]) -> list[pa.Array] | None:
    """Columns at some positions of all parts; None where one has nulls, or values that are no whole numbers."""
    words = np.empty((len(types), index.size), np.int64)
    if not _gather(places, starts, index, words):
        return None
    return [column_of_words(data_type, line) for data_type, line in zip(types, words, strict=True)]


@compiled(inline="always")
def load_word(address: int, width: int, row: int) -> int:
    """The whole number of some bytes in a row."""
    if width == 8:
        return load_int64(address + 8 * row)
    if width == 4:
        return load_int32(address + 4 * row)
    if width == 2:
        return load_int16(address + 2 * row)
    return load_int8(address + row)


@compiled()
def _part_of(starts: Ints, row: int) -> int:
    part = 0
    while starts[part + 1] <= row:
        part += 1
    return part


def stored_places(columns: Sequence[pa.Array | Narrow], types: Sequence[pa.DataType]) -> Ints | None:
    """As ``places_of``, of columns of some types that may be narrow, for ``gathered``, ``chosen`` and ``is_equal``."""
    lines: list[Any] = []
    for column, dtype in zip(columns, types, strict=True):
        if column.__class__ is Narrow:
            address, width, least = column.line
            lines += (np.array(((address, 0, least, 0, width, _NARROW if is_word(dtype) else _NARROW_DECIMAL),)),)
        elif (place := places_of((column,))) is None:
            return None
        else:
            lines += (place,)
    return np.concatenate(lines) if lines else _NO_PLACES


def chosen(
    mine: Ints, at: Ints, theirs: Ints, ends: Ints, choice: Ints, flipped: bool, types: Sequence[pa.DataType]
) -> list[pa.Array] | None:
    """Columns of pairs of rows: one of the columns ``mine``, and one in a part of ``theirs``; None as of ``gathered``.

    Shape:  ``at`` (2, n), the rows of each pair, those of a part before those of the next: the pairs of a part, of
            which the places are ``theirs``, end at ``ends[part, 1]``; ``choice`` (columns, 2), the side and the column
            there; side 0 is mine, or if it is ``flipped`` theirs.
    """
    words = np.empty((len(types), at.shape[1]), np.int64)
    if not _choose(mine, at, theirs, ends, choice, flipped, words):
        return None
    return [column_of_words(data_type, line) for data_type, line in zip(types, words, strict=True)]


@compiled()
def _choose(mine: Ints, at: Ints, theirs: Ints, ends: Ints, choice: Ints, flipped: bool, out: Ints) -> bool:
    """Write the words of all chosen columns; whether they are words."""
    for column in range(len(choice)):
        part, place = 0, choice[column, 1]
        is_mine = (choice[column, 0] == 0) != flipped
        for k in range(at.shape[1]):
            while ends[part, 1] <= k:
                part += 1
            line = mine[place] if is_mine else theirs[part, place]
            if not _is_word(line):
                return False
            out[column, k] = _word(line, at[0, k] if is_mine else at[1, k])
    return True


@compiled()
def _is_word(line: Ints) -> bool:
    """Whether a column has no nulls, and values that are words or parts of one."""
    how = line[_HOW]
    return how == _NARROW or (how != _NARROW_DECIMAL and line[_VALID] == 0 and line[_WIDTH] in (1, 2, 4, 8))


@compiled()
def _word(line: Ints, row: int) -> int:
    data, _, least, offset, width, how = line
    if how == _NARROW:
        return load_narrow(data, width, least, row)
    return load_word(data, width, offset + row)


@compiled()
def _decimal(line: Ints, row: int) -> tuple[int, int]:
    """The low and the high word of a decimal."""
    data, _, least, offset, width, how = line
    if how == _NARROW_DECIMAL:
        low = load_narrow(data, width, least, row)
        return low, low >> 63
    at = data + width * (offset + row)
    return load_int64(at), load_int64(at + 8)


@compiled()
def _gather(places: Ints, starts: Ints, index: Ints, out: Ints) -> bool:
    """Write the words of all columns; whether they are words."""
    for part in range(len(places)):
        for column in range(len(out)):
            if not _is_word(places[part, column]):
                return False
    for k in range(len(index)):
        part = _part_of(starts, index[k])
        for column in range(len(out)):
            out[column, k] = _word(places[part, column], index[k] - starts[part])
    return True


@compiled()
def _hash(places: Ints, first: int, last: int, row: int) -> np.uint64:
    """The hash of a row over the columns from ``first`` up to ``last``."""
    result = EMPTY_HASH
    for column in range(first, last):
        data, valid, offsets, offset, width, how = places[column]
        i = offset + row
        if how != _BYTES:
            h = hash_at(data, valid, i, width, how)
        elif is_valid(valid, i):
            start = load_int32(offsets + 4 * i)
            h = xxh64(data + start, load_int32(offsets + 4 * i + 4) - start)
        else:
            h = NULL_HASH
        result = h if column == first else combine(result, h)
    return result


@compiled()
def is_equal(places: Ints, i: int, others: Ints, j: int, first: int, last: int) -> bool:
    """Whether two rows are equal in the columns from ``first`` up to ``last``, bit by bit; null equals null."""
    for column in range(first, last):
        one, other = places[column], others[column]
        valid = has_value(one, i)
        if valid != has_value(other, j):
            return False
        if valid and not _is_equal_value(one, i, other, j):
            return False
    return True


@compiled()
def has_value(line: Ints, row: int) -> bool:
    """Whether a row of a column is not null."""
    return line[_HOW] in (_NARROW, _NARROW_DECIMAL) or is_valid(line[_VALID], line[_FIRST] + row)


@compiled()
def _is_equal_value(one: Ints, i: int, other: Ints, j: int) -> bool:
    """Whether two values of one type are equal; neither is null."""
    if _NARROW in (one[_HOW], other[_HOW]):
        return _word(one, i) == _word(other, j)
    if _NARROW_DECIMAL in (one[_HOW], other[_HOW]):
        return _decimal(one, i) == _decimal(other, j)
    data, _, offsets, offset, width, how = one
    data2, _, offsets2, offset2, _, _ = other
    at, at2, size = offset + i, offset2 + j, width
    if how != _BYTES and width == 0:
        return is_valid(data, at) == is_valid(data2, at2)
    p, q = width * at, width * at2
    if how == _BYTES:
        p, q = np.int64(load_int32(offsets + 4 * at)), np.int64(load_int32(offsets2 + 4 * at2))
        size = load_int32(offsets + 4 * at + 4) - p
        if size != load_int32(offsets2 + 4 * at2 + 4) - q:
            return False
    byte = 0
    while byte < size and load8(data + p + byte) == load8(data2 + q + byte):
        byte += 1
    return bool(byte == size)


@compiled()
def _is_before(out: Ints, i: int, j: int) -> bool:
    """Whether the update at place ``i`` sorts strictly before that at ``j``, by hashes and time."""
    for line in (_KEY, _VALUE):
        if out[line, i] != out[line, j]:
            return bool(np.uint64(out[line, i]) < np.uint64(out[line, j]))
    for line in range(_TIMES, len(out)):
        if out[line, i] != out[line, j]:
            return bool(out[line, i] < out[line, j])
    return False


@compiled()
def _settle(  # arrays one by one: taking tuples of them apart costs more than the rest
    places: Ints,
    starts: Ints,
    keys: int,
    times: Ints,
    diffs: Ints,
    words: Hashes,
    mask: int,
    out: Ints,
    table: Ints,
    addresses: Ints,
) -> tuple[int, bool]:
    """How many updates are left, -1 where that is not decided; and whether they are others than those given."""
    count, part, moved = len(diffs), 0, False
    for i in range(count):
        if not -_LARGE <= diffs[i] <= _LARGE:
            return -1, False
        while starts[part + 1] <= i:
            part += 1
        row = i - starts[part]
        out[_KEY, i] = np.int64(_hash(places[part], 0, keys, row)) & mask
        if len(words) > 0:
            out[_VALUE, i] = np.int64(words[i])
        else:
            out[_VALUE, i] = np.int64(_hash(places[part], keys, places.shape[1], row)) & mask
        out[_DIFF, i], out[_ORDER, i] = diffs[i], i
        for line in range(len(times)):
            out[_TIMES + line, i] = times[line, i]
        moved |= i > 0 and _is_before(out, i, i - 1)
    if moved and not _sort(out):
        return -1, False
    left = _add_up(places, starts, keys, out)
    point(out, table, addresses)
    return left, moved or left < count


@compiled()
def _sort(out: Ints) -> bool:
    """Sort updates by their hashes and times in place; not where very many of equal hashes are in no order of time."""
    if out.shape[1] > SMALL:
        k, v, order = _by_hashes(out[_KEY].view(np.uint64), out[_VALUE].view(np.uint64))
        before = out[_DIFF:].copy()
        for at in range(len(order)):
            out[_KEY, at], out[_VALUE, at] = np.int64(k[at]), np.int64(v[at])
            for line in range(len(before)):
                out[_DIFF + line, at] = before[line, order[at]]
    for i in range(1, out.shape[1]):
        for at in range(i, 0, -1):
            if not _is_before(out, at, at - 1):
                break
            if i - at == SMALL:
                return False
            for line in range(len(out)):
                out[line, at - 1], out[line, at] = out[line, at], out[line, at - 1]
    return True


@compiled()
def _by_hashes(k: Hashes, v: Hashes) -> tuple[Hashes, Hashes, Ints]:
    """The hashes in order and the order, from the runs in which they ascend: few, where batches are put together."""
    bounds, count = np.empty(len(k) + 1, np.int64), 1
    bounds[0] = 0
    for i in range(1, len(k)):
        if k[i] < k[i - 1] or (k[i] == k[i - 1] and v[i] < v[i - 1]):
            bounds[count] = i
            count += 1
    bounds[count] = len(k)
    return merge_runs(k, v, bounds[: count + 1])


@compiled()
def _add_up(places: Ints, starts: Ints, keys: int, out: Ints) -> int:
    """Add up the diffs of equal updates, which are sorted, and move those that remain to the front; how many they are.

    -1 where different rows have equal hashes.
    """
    left = 0
    for i in range(out.shape[1]):
        if i > 0 and out[_KEY, i] == out[_KEY, i - 1]:
            one, other = _part_of(starts, out[_ORDER, i]), _part_of(starts, out[_ORDER, i - 1])
            row, before = out[_ORDER, i] - starts[one], out[_ORDER, i - 1] - starts[other]
            same = out[_VALUE, i] == out[_VALUE, i - 1]
            if not is_equal(places[one], row, places[other], before, 0, places.shape[1] if same else keys):
                return -1
            for line in range(_TIMES, len(out)):
                same &= out[line, i] == out[line, i - 1]
            if same:
                out[_DIFF, i] += out[_DIFF, i - 1]
                out[_DIFF, i - 1] = 0
    for i in range(out.shape[1]):
        if out[_DIFF, i] != 0:
            for line in range(len(out) if left < i else 0):
                out[line, left] = out[line, i]
            left += 1
    return left


@compiled()
def point(out: Ints, table: Ints, addresses: Ints) -> None:
    """Write where the lines of settled updates are, for kernels."""
    count, line = out.shape[1], 8 * out.shape[1]
    base = out.ctypes.data
    table[0, 0], table[0, 1] = base + line * _KEY, count
    table[0, 2], table[0, 3] = out[_KEY, 0], out[_KEY, count - 1]
    for column in range(len(addresses)):
        place = _VALUE if column == 0 else _DIFF if column == 1 else _TIMES + column - 2
        addresses[column, 0], addresses[column, 1], addresses[column, 2] = base + line * place, 8, 0
