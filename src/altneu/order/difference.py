"""Diffs: signed 64-bit counts, with every overflow seen.

NumPy wraps int64 silently (2^62 * 4 is 0), and a wrapped count is a wrong answer that looks right. Every sum, product
and negation of diffs therefore goes through this module, and one that leaves int64 raises ``DiffOverflowError``; the
step that asked for it is not committed.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as np
import numpy.typing as npt

from altneu.errors import DiffOverflowError

Diffs = npt.NDArray[np.int64]

LEAST, LARGEST = -(2**63), 2**63 - 1
# Below this many diffs, exact Python integers are faster than reducing arrays to see whether they may overflow.
FEW = 8


def add(a: Diffs, b: Diffs) -> Diffs:
    """Add diffs pairwise.

    Shape:  (n,) and (n,), or either of length 1; (n,) out.
    Cost:   O(n).
    Law:    equals Python's integers, or raises (tests/laws/test_difference.py).

    Raises:
        DiffOverflowError: a sum leaves the signed 64-bit range.

    >>> add(np.array([2, -3]), np.array([1, 3])).tolist()
    [3, 0]
    """
    total = a + b
    # A sum overflows exactly when both addends have the sign that the sum lacks.
    if (((a ^ total) & (b ^ total)) < 0).any():
        _overflow("adding two diffs")
    return total


def negate(diffs: Diffs) -> Diffs:
    """Change the sign of diffs.

    Raises:
        DiffOverflowError: a diff is -2^63, which has no negative in int64.

    >>> negate(np.array([2, -3])).tolist()
    [-2, 3]
    """
    if (diffs == LEAST).any():
        _overflow("negating a diff")
    return np.negative(diffs)


def multiply(a: Diffs, b: Diffs) -> Diffs:
    """Multiply diffs pairwise: the diff of a match is the product of the diffs that met.

    Shape:  (n,) and (n,), or either of length 1; (n,) out.
    Cost:   O(n); a second exact pass only over pairs whose product comes near 2^63.
    Law:    equals Python's integers, or raises (tests/laws/test_difference.py).

    Raises:
        DiffOverflowError: a product leaves the signed 64-bit range.

    >>> multiply(np.array([2, -3]), np.array([5, 7])).tolist()
    [10, -21]
    """
    product = a * b
    if product.size == 0:
        return product
    if len(a) <= FEW and len(b) <= FEW:
        fits = product.tolist() == [x * y for x, y in zip(*_stretch(a.tolist(), b.tolist()), strict=True)]
    else:
        fits = _magnitude(a) * _magnitude(b) <= LARGEST or _products_fit(a, b, product)
    if not fits:
        _overflow("multiplying diffs (of rows that match, or of a row and how often it is repeated)")
    return product


def sum_runs(diffs: Diffs, starts: npt.NDArray[np.integer]) -> Diffs:
    """Sum consecutive runs: run i reaches from ``starts[i]`` to ``starts[i + 1]``, the last one to the end.

    Only the final sum of a run must fit int64; what a part of a run adds up to does not matter, so the order of the
    diffs within a run never decides between an answer and an error.

    Shape:  diffs (n,), starts (m,) strictly increasing from 0, below n; (m,) out, ``diffs`` itself when m = n.
    Cost:   O(n); a few times that when the diffs are so large that a sum might overflow.
    Law:    equals Python's integers, or raises (tests/laws/test_difference.py).

    Raises:
        DiffOverflowError: the sum of a run leaves the signed 64-bit range.

    >>> sum_runs(np.array([1, 1, -1, 5]), np.array([0, 1, 3])).tolist()
    [1, 0, 5]
    """
    if len(starts) == len(diffs):
        return diffs
    if len(starts) == 0:
        return np.empty(0, np.int64)
    if _magnitude(diffs) * len(diffs) <= LARGEST:
        return np.asarray(np.add.reduceat(diffs, starts))
    return _sum_runs_wide(diffs, starts)


def _sum_runs_wide(diffs: Diffs, starts: npt.NDArray[np.integer]) -> Diffs:
    """Sum high and low halves of 32 bits apart, which is exact for runs below 2^31 diffs, then put them together."""
    low = np.add.reduceat(diffs & 0xFFFFFFFF, starts)
    high = np.add.reduceat(diffs >> 32, starts) + (low >> 32)
    if ((high < -(2**31)) | (high >= 2**31)).any():
        _overflow("summing the diffs of equal updates")
    return np.asarray((high << 32) | (low & 0xFFFFFFFF))


def _magnitude(diffs: Diffs) -> int:
    """The greatest absolute value, as a Python integer (``np.abs`` has no answer for -2^63)."""
    return max(int(diffs.max()), -int(diffs.min()))


def _stretch(a: list[int], b: list[int]) -> tuple[list[int], list[int]]:
    """Broadcast the side of length 1 to the length of the other."""
    return (a * len(b) if len(a) == 1 else a), (b * len(a) if len(b) == 1 else b)


def _products_fit(a: Diffs, b: Diffs, product: Diffs) -> bool:
    """Whether wrapped products are the true ones, decided exactly.

    Doubles rule out the pairs well below 2^63. For the rest: a true product that differs from the wrapped one does so
    by at least 2^64, so wrapped / a differs from b by at least 2 and its floor cannot be b. Only a = -1 is apart,
    because dividing -2^63 by it overflows in turn.
    """
    near = np.flatnonzero(np.abs(a.astype(np.float64) * b) >= 2.0**62)
    a, b = (np.broadcast_to(side, product.shape)[near] for side in (a, b))
    minus = a == -1
    quotient = product[near] // np.where(minus, 1, a)
    return bool(np.where(minus, b != LEAST, quotient == b).all())


def _overflow(operation: str) -> NoReturn:
    raise DiffOverflowError(
        f"{operation} left the signed 64-bit range; nothing of this step is committed. "
        "A diff counts how often a row is there: keep large quantities in a column and sum them with group_by().agg, "
        "and retract or consolidate rows whose counts are this large before they meet"
    )
