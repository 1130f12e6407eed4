"""Variance and its kin: near the truth whatever cancels, whatever the order of arrival, and gone when retracted."""

from __future__ import annotations

import math
import random
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

from altneu.operators.kernels.exact_number import number_at, parted, plus, product, whole
from altneu.operators.kernels.order_tree import grow, place_of
from altneu.operators.reduce.accumulable import AggregatesSpec
from altneu.operators.reduce.accumulate import Accumulator
from altneu.operators.reduce.moments import PRODUCTS
from altneu.operators.reduce.ranked import GeneralSpec
from altneu.trace.batch import Layout
from tests.operators.support import LATTICE, Run, call, updates_of

SCHEMA = pa.schema([("k", pa.int64()), ("x", pa.float64()), ("y", pa.float64())])
TWO = ("covar_pop", "covar_samp", "regr_sxy", "corr", "regr_r2", "regr_slope", "regr_intercept")
CALLS = tuple(call(f, ("x", "y") if f in TWO else ("x",)) for f in PRODUCTS)
ULPS = {"corr": 4, "regr_r2": 8, "skewness": 6, "kurtosis": 6}


def accumulable() -> Run:
    result = Accumulator(("k",), CALLS, SCHEMA)
    return Run(
        Layout(result.slot_schema, ("k",), LATTICE),
        lambda arranged: AggregatesSpec(result).reduce(arranged, "reduce"),
        lambda updates: result.explode(updates, LATTICE),
    )


def general() -> Run:
    spec = GeneralSpec(("k",), (*CALLS, call("min", ("x",))), SCHEMA)
    return Run(Layout(SCHEMA, ("k",), LATTICE), lambda arranged: spec.reduce(arranged, "reduce"))


def shown(run: Run, updates, upper: int) -> dict[str, float | None]:
    """What the one group comes to."""
    result = run.step(updates_of(SCHEMA, updates), upper)
    assert len(result.errs) == 0
    rows = [row for row, diff in zip(result.oks.rows.to_pylist(), result.oks.diffs.tolist(), strict=True) if diff > 0]
    return dict(zip(PRODUCTS, rows[0][1 : 1 + len(PRODUCTS)], strict=True)) if rows else {}


def truth(pairs: list[tuple[float, float]]) -> dict[str, Fraction | Decimal | None]:
    """Each function from deviations, which are fractions; roots are taken with many digits."""
    n = len(pairs)
    xs, ys = ([Fraction(p[i]) for p in pairs] for i in (0, 1))
    dx, dy = ([v - sum(vs) / n for v in vs] for vs in (xs, ys))
    xx, yy = (sum(d * d for d in ds) for ds in (dx, dy))
    xy = sum(a * b for a, b in zip(dx, dy, strict=True))

    def root(value: Fraction) -> Fraction:
        with localcontext(prec=400, Emax=10**6, Emin=-(10**6)):
            return Fraction((Decimal(value.numerator) / Decimal(value.denominator)).sqrt())

    return {
        "var_pop": xx / n,
        "var_samp": xx / (n - 1),
        "stddev_pop": root(xx / n),
        "stddev_samp": root(xx / (n - 1)),
        "regr_sxx": xx,
        "skewness": sum(d**3 for d in dx) * root(Fraction(n)) / root(xx) ** 3 if xx else None,
        "kurtosis": n * sum(d**4 for d in dx) / xx**2 - 3 if xx else None,
        "covar_pop": xy / n,
        "covar_samp": xy / (n - 1),
        "regr_sxy": xy,
        "corr": xy / (root(xx) * root(yy)) if xx and yy else None,
        "regr_r2": xy**2 / (xx * yy) if xx and yy else 1 if yy else None,
        "regr_slope": xy / yy if yy else None,
        "regr_intercept": sum(xs) / n - xy / yy * sum(ys) / n if yy else None,
    }


def some(rng: random.Random) -> list[tuple[float, float]]:
    """Pairs that are near each other, or far apart, or of any size."""
    far = rng.choice([0.0, 1.0, 1e8, 1e15, -3e150])
    wide = rng.choice([1e-3, 1.0, 1e9]) * max(abs(far) * 1e-13, 1e-9)
    one = rng.choice([lambda: far + rng.gauss(0, wide), lambda: math.ldexp(rng.gauss(0, 1), rng.randint(-240, 240))])
    pairs = [(one(), one()) for _ in range(rng.randint(2, 12))]
    return pairs + pairs[: rng.randint(0, 2)]


def near(found: float | None, true: Fraction | None, ulps: int) -> bool:
    if found is None or true is None:
        return found is true
    if abs(true) >= 2**1024:
        return math.isinf(found)
    if abs(true) < Fraction(2) ** -1022:
        return abs(found) < 2.0**-1021
    return not math.isinf(found) and abs(Fraction(found) - true) <= ulps * Fraction(math.ulp(float(true)))


@pytest.mark.parametrize("make", [accumulable, general])
def test_results_are_near_the_truth_in_any_order_and_after_retractions(make):
    rng = random.Random(1)
    for _ in range(60):
        pairs, passing = some(rng), some(rng)
        first = [((1, *p), 0, 1) for p in passing + pairs[::2]]
        then = [((1, *p), 1, 1) for p in pairs[1::2]] + [((1, *p), 1, -1) for p in passing]
        rng.shuffle(first)
        rng.shuffle(then)
        run = make()
        run.step(updates_of(SCHEMA, first), 1)
        actual = shown(run, then, 2)
        at_once = shown(make(), [((1, *p), 0, 1) for p in sorted(pairs)], 1)
        assert actual == at_once or not actual
        for function, true in truth(pairs).items():
            assert near(at_once[function], true, ULPS.get(function, 4)), (function, pairs)


def test_what_is_retracted_leaves_no_state():
    rng = random.Random(2)
    for _ in range(10):
        pairs, run = some(rng), accumulable()
        run.step(updates_of(SCHEMA, [((1, *p), 0, 3) for p in pairs]), 1)
        run.step(updates_of(SCHEMA, [((1, *p), 1, -3) for p in pairs]), 2)
        assert not run.state


def test_huge_multiplicities_count():
    many = 2**40
    actual = shown(accumulable(), [((1, 1.0, 2.0), 0, many), ((1, 3.0, 5.0), 0, many)], 1)
    assert (actual["var_pop"], actual["covar_pop"], actual["corr"], actual["kurtosis"]) == (1.0, 1.5, 1.0, -2.0)


def test_sums_that_no_rows_have_are_an_error():
    result = accumulable().step(updates_of(SCHEMA, [((1, 1.0, 2.0), 0, 3), ((1, 3.0, 5.0), 0, -1)]), 1)
    assert [error[1] for error in result.errs.rows.to_pylist()] == ["NEGATIVE_MULTIPLICITY"]


def test_numbers_add_and_multiply_exactly():
    rng = random.Random(3)
    for _ in range(300):
        a, b, c = (rng.randint(-(2**62), 2**62) >> rng.choice([0, 20, 61]) for _ in range(3))
        value, exact = whole(a), a
        for _ in range(rng.randint(0, 4)):
            value, exact = plus(product(value, whole(b)), whole(c)), exact * b + c
        digits, place, sign = value
        assert sign * sum(int(d) << 32 * (place + i) for i, d in enumerate(digits)) == exact
        mantissa, e = parted(value)
        assert Fraction(mantissa) * Fraction(2) ** e == _rounded(exact)


def _rounded(exact: int) -> Fraction:
    more = max(abs(exact).bit_length() - 53, 0)
    return Fraction(round(Fraction(exact, 2**more))) * 2**more


def test_digits_of_any_sign_are_carried():
    rng = random.Random(4)
    for _ in range(200):
        slots = np.array([rng.randint(-(2**62), 2**62) for _ in range(rng.randint(1, 6))], np.int64)
        digits, place, sign = number_at(slots, 0, len(slots))
        assert sign * sum(int(d) << 32 * (place + i) for i, d in enumerate(digits)) == sum(
            int(s) << 32 * i for i, s in enumerate(slots)
        )


def test_a_tree_finds_the_nth():
    rng = random.Random(5)
    for size in (1, 2, 3, 7, 8, 33):
        tree, counts, start = np.zeros(size + 9, np.int64), Counter(), 4
        for _ in range(200):
            at = rng.randrange(size)
            amount = rng.choice([1, 2, -counts[at]])
            counts[at] += amount
            grow(tree, start, start + size, start + at, amount)
            held = sorted(counts.elements())
            for n in rng.sample(range(len(held)), min(len(held), 4)):
                assert place_of(tree, start, start + size, n) == start + held[n]
        assert not tree[:start].any()
        assert not tree[start + size :].any()
