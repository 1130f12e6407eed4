"""Counts of ordered places, and which of them holds the n-th: a Fenwick tree in a part of an array.

Source: Fenwick, A New Data Structure for Cumulative Frequency Tables, 1994.
"""

from __future__ import annotations

from altneu.columnar.rows import Ints
from altneu.compiled import compiled


@compiled()
def grow(tree: Ints, start: int, stop: int, at: int, amount: int) -> None:
    """Add to the count of place ``at`` of those from ``start`` up to ``stop``.

    Cost:   O(log n).
    """
    i = at - start + 1
    while i <= stop - start:
        tree[start + i - 1] += amount
        i += i & -i


@compiled()
def place_of(tree: Ints, start: int, stop: int, n: int) -> int:
    """The place that holds the n-th, from 0 on, when no count is negative and they add up to more than n.

    Cost:   O(log n).

    >>> import numpy as np
    >>> tree = np.zeros(5, np.int64)
    >>> for at, amount in ((1, 2), (4, 1)):
    ...     grow(tree, 1, 5, at, amount)
    >>> [place_of(tree, 1, 5, n) for n in range(3)]
    [1, 1, 4]
    """
    size = stop - start
    step = 1
    while 2 * step <= size:
        step *= 2
    i = 0
    while step > 0:
        if i + step <= size and tree[start + i + step - 1] <= n:
            i += step
            n -= tree[start + i - 1]
        step >>= 1
    return start + i
