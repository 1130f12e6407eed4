"""Sort and consolidate: the one kernel under ``consolidate``, ``Batch.build`` and every merge.

The order is (key hash, key bytes, value hash, value bytes, linear extension of time). Bytes are looked at only within
runs of equal hash, and there almost always only to see that neighbours are equal; a run that holds different rows under
one hash is sorted again by bytes. A collision so costs time and never an answer.

Values in an order of columns have a word of the first in the place of their hash, and runs of equal words are sorted by
the columns, by each only where those before it are equal. Ties may be many there, and each time that they are merged
they are sorted again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar import threads
from altneu.columnar.columns import Mask, Stack
from altneu.columnar.hashing import NULL_HASH, Hashes, is_injective
from altneu.columnar.ranking import Order, dense, sort_lines, whole_order
from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.order import Lattice
from altneu.order.difference import sum_runs

SMALL = 48  # at most: insertion sort
BUCKET = 2048  # at most: quicksort; beyond: scattered by the next bits


@compiled(nogil=True)
def _insertion(k: Hashes, v: Hashes, p: Ints, low: int, high: int) -> None:
    for i in range(low + 1, high):
        a, b, c = k[i], v[i], p[i]
        j = i - 1
        while j >= low and (k[j] > a or (k[j] == a and v[j] > b)):
            k[j + 1], v[j + 1], p[j + 1] = k[j], v[j], p[j]
            j -= 1
        k[j + 1], v[j + 1], p[j + 1] = a, b, c


@compiled(nogil=True)
def _quick(k: Hashes, v: Hashes, p: Ints, low: int, high: int) -> None:
    """Quicksort by (k, v) with Hoare's partition; equal elements are shared out, so runs of them do no harm."""
    stack = np.empty(128, np.int64)
    top = 0
    while True:
        while high - low > SMALL:
            middle = (low + high) >> 1
            last = high - 1
            for a, b in ((low, middle), (middle, last), (low, middle)):  # median of three
                if k[a] > k[b] or (k[a] == k[b] and v[a] > v[b]):
                    k[a], k[b] = k[b], k[a]
                    v[a], v[b] = v[b], v[a]
                    p[a], p[b] = p[b], p[a]
            pk, pv = k[middle], v[middle]
            i, j = low - 1, high
            while True:
                i += 1
                while k[i] < pk or (k[i] == pk and v[i] < pv):
                    i += 1
                j -= 1
                while k[j] > pk or (k[j] == pk and v[j] > pv):
                    j -= 1
                if i >= j:
                    break
                k[i], k[j] = k[j], k[i]
                v[i], v[j] = v[j], v[i]
                p[i], p[j] = p[j], p[i]
            cut = j + 1
            if cut - low < high - cut:  # the smaller half first bounds the stack by log2 n
                stack[top], stack[top + 1] = cut, high
                high = cut
            else:
                stack[top], stack[top + 1] = low, cut
                low = cut
            top += 2
        _insertion(k, v, p, low, high)
        if top == 0:
            return
        top -= 2
        low, high = stack[top], stack[top + 1]


@compiled(nogil=True)
def _leading(low: np.uint64, high: np.uint64) -> int:
    """How many bits from the lowest up still differ within [low, high]."""
    bits, differ = 0, low ^ high
    while differ != 0:
        differ >>= np.uint64(1)
        bits += 1
    return bits


@compiled(nogil=True)
def _scatter(k: Hashes, v: Hashes, p: Ints, low: int, high: int, k2: Hashes, v2: Hashes, p2: Ints) -> Ints:
    """Scatter [low, high) by the highest bits that differ; return the bucket bounds, empty when all rows are equal."""
    none = np.empty(0, np.int64)
    least, most = k[low], k[low]
    for i in range(low, high):
        least, most = min(least, k[i]), max(most, k[i])
    by = k
    if least == most:
        by = v
        least, most = v[low], v[low]
        for i in range(low, high):
            least, most = min(least, v[i]), max(most, v[i])
        if least == most:
            return none
    bits = 1
    while (high - low) >> bits > BUCKET // 4 and bits < 11:
        bits += 1
    differ = _leading(least, most)
    shift = np.uint64(max(differ - bits, 0))
    mask = np.uint64((1 << min(bits, differ)) - 1)
    bounds = np.zeros(int(mask) + 2, np.int64)
    for i in range(low, high):
        bounds[int((by[i] >> shift) & mask) + 1] += 1
    bounds[0] = low
    for b in range(1, len(bounds)):
        bounds[b] += bounds[b - 1]
    at = bounds[:-1].copy()
    for i in range(low, high):
        b = int((by[i] >> shift) & mask)
        to = at[b]
        at[b] = to + 1
        k2[to], v2[to], p2[to] = k[i], v[i], p[i]
    k[low:high] = k2[low:high]
    v[low:high] = v2[low:high]
    p[low:high] = p2[low:high]
    return bounds


@compiled(nogil=True)
def _is_sorted(k: Hashes, v: Hashes) -> bool:
    for i in range(1, len(k)):  # noqa: SIM110 -- Numba compiles loops to better code than generators
        if k[i - 1] > k[i] or (k[i - 1] == k[i] and v[i - 1] > v[i]):
            return False
    return True


@compiled(nogil=True)
def _sort_buckets(k: Hashes, v: Hashes, p: Ints, k2: Hashes, v2: Hashes, p2: Ints, buckets: Ints) -> None:
    """Sort each bucket by itself; ``buckets`` are their bounds, and two calls for different buckets share no row."""
    pending = [buckets]
    while len(pending) > 0:
        bounds = pending.pop()
        for b in range(len(bounds) - 1):
            low, high = bounds[b], bounds[b + 1]
            if high - low > BUCKET:
                pending.append(_scatter(k, v, p, low, high, k2, v2, p2))
            else:
                _quick(k, v, p, low, high)


@compiled()
def _sort_few(key_hash: Hashes, value_hash: Hashes) -> tuple[Hashes, Hashes, Ints]:
    n = len(key_hash)
    p = np.arange(n)
    if _is_sorted(key_hash, value_hash):
        return key_hash, value_hash, p
    k, v = key_hash.copy(), value_hash.copy()
    if n <= BUCKET:
        _quick(k, v, p, 0, n)
    else:
        _sort_buckets(k, v, p, np.empty_like(k), np.empty_like(v), np.empty_like(p), np.array([0, n]))
    return k, v, p


def _sort(key_hash: Hashes, value_hash: Hashes) -> tuple[Hashes, Hashes, Ints]:
    """Sorted copies of both hashes and the permutation that sorts them, by (key hash, value hash)."""
    n = len(key_hash)
    parts = min(threads.count(), n // threads.LEAST)
    if parts < 2 or _is_sorted(key_hash, value_hash):
        return _sort_few(key_hash, value_hash)
    k, v, p = key_hash.copy(), value_hash.copy(), np.arange(n)
    buffers = np.empty_like(k), np.empty_like(v), np.empty_like(p)
    bounds = _scatter(k, v, p, 0, n, *buffers)
    cuts = [0, *np.searchsorted(bounds, [n * i // parts for i in range(1, parts)]).tolist(), len(bounds) - 1]
    threads.run(list(pairwise(cuts)), lambda start, stop: _sort_buckets(k, v, p, *buffers, bounds[start : stop + 1]))
    return k, v, p


@compiled()
def merge_runs(key_hash: Hashes, value_hash: Hashes, bounds: Ints) -> tuple[Hashes, Hashes, Ints]:
    """The same as sorting, of runs that are sorted by (key hash, value hash) already, run i from bounds[i] on."""
    n = len(key_hash)
    k, v, p = key_hash, value_hash, np.arange(n)
    runs = bounds
    while len(runs) > 2:
        k2, v2, p2 = np.empty_like(k), np.empty_like(v), np.empty_like(p)
        after = np.empty((len(runs) - 1 + 1) // 2 + 1, np.int64)
        count = 0
        for r in range(0, len(runs) - 1, 2):
            after[count] = runs[r]
            count += 1
            i, middle = runs[r], runs[r + 1]
            j, stop = middle, runs[min(r + 2, len(runs) - 1)]
            for to in range(i, stop):
                left = i < middle and (j >= stop or k[i] < k[j] or (k[i] == k[j] and v[i] <= v[j]))
                take = i if left else j
                k2[to], v2[to], p2[to] = k[take], v[take], p[take]
                if left:
                    i += 1
                else:
                    j += 1
        after[count] = n
        runs = after[: count + 1]
        k, v, p = k2, v2, p2
    return k, v, p


@compiled()
def _same(k: Hashes, v: Hashes) -> tuple[Ints, Ints]:
    """Positions whose key hash is that of the position before, and those where the value hash is, too."""
    keys, both = 0, 0
    for i in range(1, len(k)):
        if k[i] == k[i - 1]:
            keys += 1
            both += v[i] == v[i - 1]
    same_key, same_both = np.empty(keys, np.int64), np.empty(both, np.int64)
    keys, both = 0, 0
    for i in range(1, len(k)):
        if k[i] == k[i - 1]:
            same_key[keys] = i
            keys += 1
            if v[i] == v[i - 1]:
                same_both[both] = i
                both += 1
    return same_key, same_both


@dataclass(slots=True)
class Sorted:
    """What ``settle`` found: the updates that remain, in order.

    ``index`` numbers the rows of the payload given; ``collision_free`` says that every run of equal key hash holds one
    key (it may be false without need after rows have vanished, never true wrongly).
    """

    index: Ints
    key_hash: Hashes
    value_hash: Hashes
    times: Ints
    diffs: Ints
    collision_free: bool


@dataclass(slots=True)
class Unsorted:
    """Updates by their control columns, and the payload they index, position by position.

    With ``order``, value columns, values are sorted by these, and ``value_hash`` are their words.
    """

    keys: Stack
    values: Stack
    key_hash: Hashes
    value_hash: Hashes
    times: Ints
    diffs: Ints
    order: tuple[Order, ...] = ()


def settle(rows_in: Unsorted, lattice: Lattice, runs: Ints | None = None) -> Sorted:
    """Sort ``rows_in``, sum the diffs of equal (key, value, time), drop zeros.

    With ``runs`` (bounds of runs that are in batch order already, up to the times) they are merged, not sorted.

    Cost:   O(n log n) in registers and a few gathers; O(n) when merging two runs.

    Raises:
        DiffOverflowError: a summed diff leaves the signed 64-bit range.
    """
    if runs is None:
        k, v, order = _sort(rows_in.key_hash, rows_in.value_hash)
    else:
        # Within a run that holds collisions this is no merge, but it still leaves each hash in one run, which is then
        # found to hold different rows and sorted by bytes.
        k, v, order = merge_runs(rows_in.key_hash, rows_in.value_hash, runs)
    same_key, same_data = _same(k, v)
    order_of = (k, v, order)
    if not len(same_key):
        return _finish(order_of, rows_in.times.take(order, axis=1), rows_in.diffs[order], collision_free=True)
    differs = np.ones(len(order), np.bool_)
    differs[same_data] = False
    wrong_keys = _differing(rows_in.keys, order, k, same_key)
    wrong_values = _differing(rows_in.values, order, v, same_data, is_hash=not rows_in.order)
    if len(wrong_keys) or len(wrong_values):
        order_of = k, v.copy(), order.copy()
        within = _sort_by_bytes(rows_in, order_of, _widen(k, v, wrong_keys, by_value=False), differs)
        wrong_values = wrong_values[~within[wrong_values]]
        runs = _widen(k, v, wrong_values, by_value=True)
        if rows_in.order:
            _sort_by_columns(rows_in, order_of, runs, differs)
        else:
            _sort_by_bytes(rows_in, order_of, runs, differs)
    return _sum(rows_in, lattice, order_of, differs, collision_free=len(wrong_keys) == 0)


def _differing(payload: Stack, order: Ints, hashes: Hashes, positions: Ints, *, is_hash: bool = True) -> Ints:
    """The positions whose row differs from the row before, although their hashes (or words) are equal."""
    if is_hash and is_injective(payload.schema):
        if not payload.parts[0].columns:
            return positions[:0]
        positions = positions[hashes[positions] == NULL_HASH]
    if not positions.size:
        return positions
    return positions[~payload.equal(order[positions - 1], order[positions])]


@compiled()
def _widen(k: Hashes, v: Hashes, positions: Ints, by_value: bool) -> Ints:
    """The runs of equal hash that hold the positions, as lines of starts and stops."""
    runs = np.empty((2, len(positions)), np.int64)
    count, stop = 0, 0
    for at in positions:
        if at < stop:
            continue
        start, stop = at, at
        while start > 0 and k[start - 1] == k[at] and (not by_value or v[start - 1] == v[at]):
            start -= 1
        while stop < len(k) and k[stop] == k[at] and (not by_value or v[stop] == v[at]):
            stop += 1
        runs[0, count], runs[1, count] = start, stop
        count += 1
    return runs[:, :count].copy()


def _sort_by_columns(rows_in: Unsorted, order_of: tuple[Hashes, Hashes, Ints], runs: Ints, differs: Mask) -> None:
    """Sort runs of values with equal words in place by the order of all their columns, and note where rows differ."""
    if runs.size:
        values = rows_in.values
        column_of = {name: partial(values.take_column, i) for i, name in enumerate(values.schema.names)}
        sort_ties(column_of, rows_in.order, order_of[2], runs, differs)


def sort_ties(
    columns: Mapping[str, Callable[[Ints], pa.Array]], order: Sequence[Order], place: Ints, runs: Ints, fresh: Mask
) -> None:
    """Sort runs of rows in place, by ``order`` and then by every other column, ascending, nulls first.

    Shape:  ``columns`` give, by name, their values of some rows; ``place`` (n,) has rows, and ``runs`` (2, r) where
            some of these start and stop; ``fresh`` (n,) is set where a row differs from the one before it in its run.
    Cost:   a sort by each column of the rows that are equal in those before it.
    Law:    the order of ``whole_order`` (tests/laws/test_ordered.py, tests/operators/test_in_order.py).
    """
    named = {name for name, _, _ in order}
    rest = [(name, False, True) for name in columns if name not in named]
    at, run = _positions(runs)
    fresh[at] = False
    fresh[runs[0]] = True
    for name, descending, nulls_first in [*order, *rest]:
        lines = sort_lines(columns[name](place[at]), descending=descending, nulls_first=nulls_first)
        by = np.lexsort([*lines[::-1], run])
        place[at] = place[at[by]]
        differs = np.ones(len(at), np.bool_)
        differs[1:] = np.logical_or.reduce([line[by[1:]] != line[by[:-1]] for line in (run, *lines)])
        fresh[at[differs]] = True
        run = np.cumsum(differs)
        several = ~(differs & np.append(differs[1:], True))
        at, run = at[several], run[several]
        if not len(at):
            return


@compiled()
def _positions(runs: Ints) -> tuple[Ints, Ints]:
    """Every position of the runs, and the number of its run."""
    total = np.sum(runs[1] - runs[0])
    at, run = np.empty(total, np.int64), np.empty(total, np.int64)
    to = 0
    for r in range(runs.shape[1]):
        for position in range(runs[0, r], runs[1, r]):
            at[to], run[to] = position, r
            to += 1
    return at, run


def _sort_by_bytes(rows_in: Unsorted, order_of: tuple[Hashes, Hashes, Ints], runs: Ints, differs: Mask) -> Mask:
    """Sort runs by (key bytes, value hash, value bytes) in place, note where rows differ; return what is in a run.

    In an order of columns the ranks of values stand for their bytes.
    """
    _, v, order = order_of
    within = np.zeros(len(order), np.bool_)
    for start, stop in runs.T.tolist():
        rows, hashes = order[start:stop].copy(), v[start:stop].copy()
        values: list[Any] = (
            dense(whole_order(rows_in.values.take(rows), rows_in.order), len(rows)).tolist()
            if rows_in.order
            else rows_in.values.encode(rows)
        )
        content = list(zip(rows_in.keys.encode(rows), hashes.tolist(), values, strict=True))
        place = sorted(range(stop - start), key=content.__getitem__)
        order[start:stop], v[start:stop] = rows[place], hashes[place]
        differs[start + 1 : stop] = [content[a] != content[b] for a, b in pairwise(place)]
        within[start:stop] = True
    return within


def _sum(
    rows_in: Unsorted, lattice: Lattice, order_of: tuple[Hashes, Hashes, Ints], differs: Mask, *, collision_free: bool
) -> Sorted:
    """Bring equal rows into the order of time and sum what has one time."""
    k, v, order = order_of
    times = rows_in.times.take(order, axis=1)
    if differs.all():
        return _finish((k, v, order), times, rows_in.diffs[order], collision_free=collision_free)
    keys = lattice.sort_keys(times)
    if (~differs[1:] & _descends(keys)).any():
        order = _sort_times(keys, order, differs)
        times = rows_in.times.take(order, axis=1)
    differs[1:] |= (times[:, 1:] != times[:, :-1]).any(axis=0)
    starts = np.flatnonzero(differs)
    diffs = sum_runs(rows_in.diffs[order], starts)
    if len(starts) < len(order):
        k, v, order, times = k[starts], v[starts], order[starts], times.take(starts, axis=1)
    return _finish((k, v, order), times, diffs, collision_free=collision_free)


def _descends(keys: tuple[Ints, ...]) -> Mask:
    """Whether each position's time sorts strictly before the time of the position before it (from the second on)."""
    mask: Mask = keys[-1][1:] < keys[-1][:-1]
    for key in reversed(keys[:-1]):
        mask = (key[1:] < key[:-1]) | ((key[1:] == key[:-1]) & mask)
    return mask


def _sort_times(keys: tuple[Ints, ...], order: Ints, differs: Mask) -> Ints:
    """``order`` with each run of equal rows sorted by time."""
    if len(keys) == 1:
        return _sort_runs(keys[0], order, differs)
    several = np.flatnonzero(~differs | ~np.append(differs[1:], True))
    run = np.cumsum(differs)[several]
    order = order.copy()
    order[several] = order[several[np.lexsort((*(key[several] for key in reversed(keys)), run))]]
    return order


@compiled()
def _sort_runs(times: Ints, order: Ints, differs: Mask) -> Ints:
    """``order`` with each run that goes on where ``differs`` is false sorted by ``times``, equal ones as they stand."""
    order, times = order.copy(), times.copy()
    start, n = 0, len(order)
    while start < n:
        stop = start + 1
        while stop < n and not differs[stop]:
            stop += 1
        if stop - start > SMALL:
            place = np.argsort(times[start:stop], kind="mergesort")
            order[start:stop] = order[start:stop][place]
        else:
            for i in range(start + 1, stop):
                time, row = times[i], order[i]
                j = i - 1
                while j >= start and times[j] > time:
                    times[j + 1], order[j + 1] = times[j], order[j]
                    j -= 1
                times[j + 1], order[j + 1] = time, row
        start = stop
    return order


def _finish(order_of: tuple[Hashes, Hashes, Ints], times: Ints, diffs: Ints, *, collision_free: bool) -> Sorted:
    """Drop zeros."""
    k, v, order = order_of
    if not diffs.all():
        nonzero = np.flatnonzero(diffs)
        return Sorted(
            order[nonzero], k[nonzero], v[nonzero], times.take(nonzero, axis=1), diffs[nonzero], collision_free
        )
    return Sorted(order, k, v, times, diffs, collision_free)
