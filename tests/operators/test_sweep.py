"""The sweep under joins: every pair of values while both are there, in portions of any size, and no other pair."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from altneu.operators.join.sweep import sweep

# By key: values, each with its changes (time, diff) of distinct times.
changes = st.dictionaries(st.integers(0, 9), st.sampled_from([-2, -1, 1, 2]), min_size=1, max_size=5)
side = st.lists(changes, max_size=5)
keys = st.lists(st.tuples(side, side), min_size=1, max_size=4)


def flat(sides):
    """Rows of a block: keys, runs of equal value, times and diffs, and where each key starts and ends."""
    rows = [
        (value, time, diff)
        for value, changes in enumerate(c for values in sides for c in values)
        for time, diff in sorted(changes.items())
    ]
    many = np.cumsum([0, *(sum(map(len, values)) for values in sides)])
    runs, times, diffs = (np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else ([], [], [])))
    return (runs, times, diffs), many[:-1].astype(np.int64), many[1:].astype(np.int64)


def swept(mine, theirs, limit):
    (left, starts, ends), (right, first, last) = flat(mine), flat(theirs)
    some = ends > starts  # as a block has them
    actual = (
        starts[some],
        ends[some],
        (last - first)[some],
        np.concatenate(
            [np.arange(a, b) for a, b in zip(first[some], last[some], strict=True)] or [np.empty(0, np.int64)]
        ),
    )
    cursor, pairs = np.zeros(5, np.int64), []
    while cursor[0] < len(actual[0]):
        (a, b, times, diffs), fits = sweep(actual, left, right, cursor, limit)
        assert fits
        assert len(a) <= limit
        pairs += zip(left[0][a].tolist(), right[0][b].tolist(), times.tolist(), diffs.tolist(), strict=True)
    return pairs


def joined(mine, theirs):
    """Every change with every change, at the later of their times."""
    result, a, b = Counter(), 0, 0
    for left, right in zip(mine, theirs, strict=True):
        for i, one in enumerate(left):
            for j, other in enumerate(right):
                for s, d in one.items():
                    for t, e in other.items():
                        result[a + i, b + j, max(s, t)] += d * e
        a, b = a + len(left), b + len(right)
    return {pair: n for pair, n in result.items() if n}


@given(keys=keys, limit=st.sampled_from([1, 2, 3, 7, 1000]))
def test_it_gives_the_products_of_all_changes(keys, limit):
    mine, theirs = [k[0] for k in keys], [k[1] for k in keys]
    pairs = swept(mine, theirs, limit)
    total = Counter()
    for a, b, time, diff in pairs:
        total[a, b, time] += diff
    assert {pair: n for pair, n in total.items() if n} == joined(mine, theirs)
    assert pairs == swept(mine, theirs, 1000), "portions change nothing, not even the order"


def test_values_that_are_never_there_together_cost_nothing_together():
    """Two hundred thousand values a side: looking at every pair would not come to an end."""
    count = 200_000
    mine = [{3 * t: 1, 3 * t + 1: -1} for t in range(count)]
    theirs = [{3 * t + 2: 1, 3 * t + 3: -1} for t in range(count)]
    assert swept([mine], [theirs], 10) == []  # what goes at a time does not meet what comes then


def test_a_product_beyond_64_bits_is_seen():
    history = (np.array([0]), np.array([4]), np.array([2**62]))
    actual = np.array([0]), np.array([1]), np.array([1]), np.array([0])
    _, fits = sweep(actual, history, history, np.zeros(5, np.int64), 10)
    assert not fits


def test_a_count_beyond_64_bits_is_seen():
    """Three times 2^62 of a value, and then one to meet it: each product fits, and the count does not."""
    often = np.array([0, 0, 0]), np.array([0, 1, 2]), np.array([2**62] * 3)
    once = np.array([0]), np.array([2]), np.array([1])
    actual = np.array([0]), np.array([3]), np.array([1]), np.array([0])
    _, fits = sweep(actual, often, once, np.zeros(5, np.int64), 10)
    assert not fits
