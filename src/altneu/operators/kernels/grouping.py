"""Group equal rows exactly, by hash first and by value where hashes meet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from altneu.columnar.columns import Stack
from altneu.columnar.hashing import hash_rows
from altneu.columnar.ranking import dense, whole_order
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled

_ODD = np.uint64(0x9E3779B97F4A7C15)

Hashes = npt.NDArray[np.uint64]


def group_rows(rows: Rows, extra: Ints, hashes: Hashes | None = None) -> tuple[Ints, Ints]:
    """Number the distinct (row, extra) pairs in order of first appearance.

    Shape:  n rows and ``extra`` int64 (w, n) in; for each row its group, and for each group the position of its first
            row.
    Cost:   O(n): one hash, one table as large as the number of groups, one comparison of each row with its group's
            first. One sort of the rows that are unlike the first one of their hash.
    Law:    two rows share a group exactly if they are equal, whatever their hashes
            (tests/operators/test_accumulate.py).

    >>> import pyarrow as pa
    >>> rows = Rows.from_pydict({"k": ["a", "b", "a"]}, pa.schema([("k", pa.string())]))
    >>> [x.tolist() for x in group_rows(rows, np.zeros((0, 3), np.int64))]
    [[0, 1, 0], [0, 1]]
    """
    if rows.count == 1:
        return np.zeros(1, np.int64), np.zeros(1, np.int64)
    extra = extra[(extra != extra[:, :1]).any(axis=1)] if len(extra) else extra
    groups, first = _assign(hash_rows(rows) if hashes is None else hashes, extra)
    if len(first) == rows.count:
        return groups, first
    stack = Stack([rows], rows.schema)
    unlike = _unlike(stack, extra, np.arange(rows.count), first[groups])
    if not len(unlike):
        return groups, first
    # a collision: those unlike their group's first row are told apart by their order; none is like another group's row
    ranks = dense([*whole_order(rows.take(unlike)), *extra[:, unlike]], len(unlike))
    _, seconds = np.unique(ranks, return_index=True)
    groups[unlike] = ranks + len(first)
    return _by_first(groups, np.concatenate([first, unlike[seconds]]))


def _by_first(groups: Ints, first: Ints) -> tuple[Ints, Ints]:
    """Groups numbered again in order of first appearance, which collisions have upset."""
    order = np.argsort(first)
    number = np.empty(len(order), np.int64)
    number[order] = np.arange(len(order))
    return number[groups], first[order]


def _unlike(stack: Stack, extra: Ints, left: Ints, right: Ints) -> Ints:
    same = stack.equal(left, right)
    for line in extra:
        same &= line[left] == line[right]
    return left[~same]


def bucket(groups: Ints, count: int) -> tuple[Ints, Ints]:
    """Positions ordered by group, stable, and where each of ``count`` groups starts (``count + 1`` entries).

    >>> [x.tolist() for x in bucket(np.array([1, 0, 1]), 2)]
    [[1, 0, 2], [0, 1, 3]]
    """
    return bucketed(groups, count)


def order_within_groups(lines: Sequence[Ints], groups: Ints, count: int) -> tuple[Ints, Ints]:
    """Positions by (group, keys), and where each of ``count`` groups starts (one more at the end)."""
    order = np.argsort(lines[0]) if len(lines) == 1 else np.lexsort(lines[::-1])
    by_group, starts = bucket(groups[order], count)
    return order[by_group], starts


@compiled()
def bucketed(groups: Ints, count: int) -> tuple[Ints, Ints]:
    """What ``bucket`` gives, for kernels."""
    starts = np.zeros(count + 1, np.int64)
    for g in groups:
        starts[g + 1] += 1
    for g in range(count):
        starts[g + 1] += starts[g]
    at = starts[:count].copy()
    order = np.empty(len(groups), np.int64)
    for i in range(len(groups)):
        g = groups[i]
        order[at[g]] = i
        at[g] += 1
    return order, starts


@compiled()
def _place(table: Ints, mixed: np.uint64, group: int) -> None:
    mask = np.uint64(len(table) - 1)
    at = mixed & mask
    while table[at] >= 0:
        at = (at + np.uint64(1)) & mask
    table[at] = group


@compiled()
def _assign(hashes: Hashes, extra: Ints) -> tuple[Ints, Ints]:
    """Groups by a mix of (hash, extra), in an open table that grows with the number of groups."""
    n, width = len(hashes), extra.shape[0]
    groups = np.empty(n, np.int64)
    first = np.empty(64, np.int64)
    mixes = np.empty(64, np.uint64)
    table = np.full(128, -1, np.int64)
    used = 0
    for i in range(n):
        mixed = hashes[i]
        for w in range(width):
            mixed = (mixed ^ np.uint64(extra[w, i])) * _ODD
            mixed ^= mixed >> np.uint64(32)
        mask = np.uint64(len(table) - 1)
        at = mixed & mask
        while table[at] >= 0 and mixes[table[at]] != mixed:
            at = (at + np.uint64(1)) & mask
        if table[at] >= 0:
            groups[i] = table[at]
            continue
        if used == len(first):
            first = np.concatenate((first, np.empty(used, np.int64)))
            mixes = np.concatenate((mixes, np.empty(used, np.uint64)))
            table = np.full(4 * used, -1, np.int64)
            for g in range(used):
                _place(table, mixes[g], g)
            _place(table, mixed, used)
        else:
            table[at] = used
        groups[i], first[used], mixes[used] = used, i, mixed
        used += 1
    return groups, first[:used].copy()
