import random
from collections import Counter
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pytest

from altneu.columnar.hashing import hash_bits
from altneu.errors import DiffOverflowError, PlanError, TypeMismatchError, UnknownColumnError
from altneu.operators.reduce.top_k import TopKSpec
from altneu.trace.batch import Layout
from tests.operators.support import LATTICE, NAN, Expected, Run, check, comparable, history, is_nan, undone, updates_of

SCHEMA = pa.schema([("x", pa.float64()), ("k", pa.string()), ("s", pa.string())])
ORDERS = [
    (),
    (("x", False, True),),
    (("x", True, False),),
    (("s", True, True), ("x", False, False)),
    (("k", True, True), ("s", False, False)),
]


def compare_values(a: Any, b: Any, descending: bool, nulls_first: bool) -> int:
    if a is None or b is None:
        return 0 if a is b else (-1 if (a is None) == nulls_first else 1)
    keys = [(is_nan(v), 0 if is_nan(v) else v) for v in (a, b)]
    return 0 if keys[0] == keys[1] else (1 if (keys[0] > keys[1]) != descending else -1)


def sort_key(order):
    whole = [*order, *((name, False, True) for name in SCHEMA.names)]

    def compare(a, b):
        for name, descending, nulls_first in whole:
            i = SCHEMA.names.index(name)
            result = compare_values(a[i], b[i], descending, nulls_first)
            if result:
                return result
        return 0

    return cmp_to_key(compare)


def judge(k: int, order: Any) -> Any:
    def oracle(held: Counter[tuple[Any, ...]]) -> Expected:
        oks: Counter[tuple[Any, ...]] = Counter()
        errs: Counter[tuple[str, str, str]] = Counter()
        for key in {row[1] for row in held}:
            group = [(row, n) for row, n in held.items() if row[1] == key]
            if any(n < 0 for _, n in group):
                shown = f"k={'null' if key is None else key}"
                errs["NEGATIVE_MULTIPLICITY", "the group holds a row more often retracted than inserted", shown] += 1
                continue
            left = k
            for row, n in sorted(group, key=lambda g: sort_key(order)(g[0])):
                if min(n, left):
                    oks[comparable(row)] += min(n, left)
                left -= min(n, left)
        return oks, errs

    return oracle


def value(rng: random.Random) -> tuple[Any, ...]:
    return rng.choice([None, 1.0, -2.5, NAN, 0.0]), rng.choice(["a", "b", None]), rng.choice([None, "x", "y", ""])


def make(k: int, order: Any, *, merged: bool = False) -> Run:
    spec = TopKSpec(("k",), k, order, SCHEMA)
    return Run(Layout(SCHEMA, ("k",), LATTICE), lambda arranged: spec.reduce(arranged, "reduce"), merged=merged)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("k", [0, 1, 2, 5])
def test_the_first_k_equal_recomputation_at_every_time(k, order, merged):
    rng = random.Random(1)
    for diffs in ((1, 1, 2), (1, 3, -1)):
        for _ in range(8):
            check(make(k, order, merged=merged), SCHEMA, history(rng, value, 4, 12, diffs=diffs), judge(k, order))


def test_one_step_of_many_times_and_one_step_a_time_agree():
    rng = random.Random(2)
    for _ in range(20):
        steps = history(rng, value, 5, 8, diffs=(1, 2, -1))
        whole = [u for step in steps for u in step]
        check(make(2, ORDERS[1]), SCHEMA, [whole], judge(2, ORDERS[1]))
        times = sorted({time for _, time, _ in whole})
        each = [[u for u in whole if u[1] == time] for time in times]
        check(make(2, ORDERS[1]), SCHEMA, each, judge(2, ORDERS[1]))


def test_retracting_everything_leaves_no_state():
    rng = random.Random(3)
    for _ in range(10):
        steps = history(rng, value, 4, 8, diffs=(1, 2, 3))
        run = make(2, ORDERS[3])
        check(run, SCHEMA, [*steps, undone(steps)], judge(2, ORDERS[3]))
        assert not run.state


def test_the_first_k_are_exact_when_hashes_collide():
    rng = random.Random(4)
    with hash_bits(2):
        for _ in range(15):
            steps = history(rng, lambda r: (r.choice([1.0, None]), r.choice("abcdefgh"), r.choice("xyz")), 4, 20)
            check(make(2, ORDERS[2]), SCHEMA, steps, judge(2, ORDERS[2]))


def test_all_rows_are_one_group_without_key_columns():
    spec = TopKSpec((), 2, (("x", True, False),), SCHEMA)
    run = Run(Layout(SCHEMA, (), LATTICE), lambda arranged: spec.reduce(arranged, "reduce"))
    rows = [((float(i), "a", "x"), i, 1) for i in range(5)]
    result = run.step(updates_of(SCHEMA, rows), 5)
    held: Counter[float] = Counter()
    for row, diff in zip(result.oks.rows.to_pylist(), result.oks.diffs.tolist(), strict=True):
        held[row[0]] += diff
    assert +held == {4.0: 1, 3.0: 1}


def test_ties_between_rows_of_maps_are_decided_by_their_entries():
    schema = pa.schema([("x", pa.int64()), ("m", pa.map_(pa.string(), pa.int64()))])
    spec = TopKSpec((), 2, (("x", False, False),), schema)
    run = Run(Layout(schema, (), LATTICE), lambda arranged: spec.reduce(arranged, "reduce"))
    rows = [(1, [("b", 1)]), (1, [("a", 2)]), (1, [("a", 2), ("b", 1)])]
    result = run.step(updates_of(schema, [(row, 0, 1) for row in rows]), 1)
    assert result.oks.rows.to_pylist() == [rows[1], rows[2]]


def test_large_counts_and_a_large_k():
    result = make(2**50, ()).step(updates_of(SCHEMA, [((1.0, "a", "x"), 0, 2**40), ((2.0, "a", "x"), 0, 2**55)]), 1)
    assert result.oks.diffs.tolist() == [2**40, 2**50 - 2**40]
    with pytest.raises(DiffOverflowError):
        make(1, ()).step(updates_of(SCHEMA, [((1.0, "a", "x"), 0, 2**62), ((1.0, "a", "x"), 1, 2**62)]), 2)


def test_what_does_not_fit_is_refused_when_the_plan_is_built():
    with pytest.raises(PlanError, match="not negative"):
        TopKSpec(("k",), -1, (), SCHEMA)
    maps = pa.schema([("m", pa.map_(pa.string(), pa.int64()))])
    with pytest.raises(TypeMismatchError, match="maps have no order"):
        TopKSpec((), 1, (("m", False, False),), maps)
    with pytest.raises(UnknownColumnError):
        TopKSpec(("k",), 1, (("y", False, False),), SCHEMA)
