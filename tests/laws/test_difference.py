"""Laws of diffs: every operation equals Python's integers or raises, at the ends of int64 and in between."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from altneu.errors import DiffOverflowError
from altneu.order.difference import Diffs, add, multiply, negate, sum_runs

LEAST, LARGEST = -(2**63), 2**63 - 1
EDGES = (
    LEAST,
    LEAST + 1,
    -(2**62),
    -(2**32),
    -(2**31) - 1,
    -3,
    -1,
    0,
    1,
    2,
    2**31,
    3037000499,
    3037000500,
    2**62,
    LARGEST,
)
diff = st.one_of(st.sampled_from(EDGES), st.integers(-5, 5), st.integers(LEAST, LARGEST))
modest = st.one_of(st.integers(-5, 5), st.integers(-(2**33), 2**33))
many = settings(max_examples=300, deadline=None)


def fits(value: int) -> bool:
    return LEAST <= value <= LARGEST


def agree(compute: Callable[[], Diffs], expected: list[int], operation: str) -> None:
    """The exact answer where every value of it fits, else the error, which names the operation and the remedy."""
    if all(map(fits, expected)):
        result = compute()
        assert result.dtype == np.int64
        assert result.tolist() == expected
    else:
        with pytest.raises(DiffOverflowError, match=f"{operation}.*64-bit.*keep large quantities in a column"):
            compute()


pairwise = st.integers(0, 40).flatmap(
    lambda n: st.tuples(*[st.lists(st.one_of(modest, diff) if n < 10 else modest, min_size=n, max_size=n)] * 2)
)


@many
@given(sides=pairwise)
def test_add_equals_integers(sides: tuple[list[int], list[int]]) -> None:
    a, b = sides
    agree(lambda: add(np.array(a, np.int64), np.array(b, np.int64)), list(map(operator.add, a, b)), "adding")


@many
@given(sides=pairwise)
def test_multiply_equals_integers(sides: tuple[list[int], list[int]]) -> None:
    a, b = sides
    agree(lambda: multiply(np.array(a, np.int64), np.array(b, np.int64)), list(map(operator.mul, a, b)), "multiplying")


@pytest.mark.parametrize("padding", [0, 100], ids=["few", "many"])
def test_multiply_decides_every_pair_of_edges(padding: int) -> None:
    for a in EDGES:
        for b in EDGES:
            left, right = np.array([1] * padding + [a]), np.array([1] * padding + [b])
            agree(lambda: multiply(left, right), [1] * padding + [a * b], "multiplying")  # noqa: B023 -- called at once


@many
@given(a=diff, b=st.lists(diff, max_size=20))
def test_one_diff_meets_many(a: int, b: list[int]) -> None:
    one, others = np.array([a], np.int64), np.array(b, np.int64)
    agree(lambda: multiply(one, others), [a * x for x in b], "multiplying")
    agree(lambda: multiply(others, one), [a * x for x in b], "multiplying")
    agree(lambda: add(one, others), [a + x for x in b], "adding")


@many
@given(a=st.lists(diff, max_size=10))
def test_negate_equals_integers(a: list[int]) -> None:
    agree(lambda: negate(np.array(a, np.int64)), [-x for x in a], "negating")


runs = st.lists(st.lists(diff, min_size=1, max_size=6), max_size=6)


@many
@given(runs=runs)
def test_sum_runs_equals_integers(runs: list[list[int]]) -> None:
    flat = np.array([x for run in runs for x in run], np.int64)
    starts = np.cumsum([0, *map(len, runs)])[:-1].astype(np.int64)
    agree(lambda: sum_runs(flat, starts), list(map(sum, runs)), "summing")


@many
@given(run=st.lists(diff, min_size=1, max_size=12), data=st.data())
def test_sum_runs_does_not_depend_on_the_order_within_a_run(run: list[int], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(run))
    agree(lambda: sum_runs(np.array(shuffled, np.int64), np.array([0])), [sum(run)], "summing")


def test_partial_sums_may_leave_int64_and_come_back() -> None:
    flat = np.array([LARGEST, LARGEST, -LARGEST, 1, LEAST, LEAST, LARGEST, LARGEST])
    assert sum_runs(flat, np.array([0, 3, 4])).tolist() == [LARGEST, 1, -2]
    with pytest.raises(DiffOverflowError, match="summing"):
        sum_runs(np.array([LARGEST, LARGEST, LARGEST, -LARGEST]), np.array([0]))


def test_a_sum_that_wraps_all_the_way_round_is_seen() -> None:
    with pytest.raises(DiffOverflowError, match="summing"):
        sum_runs(np.full(4, 2**62), np.array([0]))
    with pytest.raises(DiffOverflowError, match="multiplying"):
        multiply(np.full(20, 2**62), np.full(20, 4))
