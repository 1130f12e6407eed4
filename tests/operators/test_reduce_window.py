"""Window functions over random histories, at every time against what they mean row by row."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.hashing import hash_bits
from altneu.errors import PlanError, StepFailedError, TypeMismatchError, UnknownColumnError
from altneu.operators.reduce import lined_up
from altneu.operators.reduce.lowering import spec_of
from altneu.plan import ir
from altneu.trace.batch import Layout
from tests.operators.support import LATTICE, NAN, Expected, Run, check, comparable, history, undone, updates_of
from tests.oracle.recompute import FailureError, plain
from tests.oracle.windows import with_windows

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("k", pa.string()),
        ("x", pa.float64()),
        ("s", pa.string()),
        ("d", pa.decimal128(8, 2)),
        ("low", pa.int64()),
        ("high", pa.int64()),
    ]
)
SOURCE = ir.Source("t", SCHEMA)
KEY = ("k",)
ORDERS: dict[str, tuple[tuple[str, bool, bool], ...]] = {
    "none": (),
    "n": (("n", False, True),),
    "n desc": (("n", True, False),),
    "x, nulls last": (("x", False, False),),
    "s desc, n": (("s", True, True), ("n", False, False)),
    "k": (("k", False, True),),
}
FRAMES = {
    "all": ir.Frame(False, None, None),
    "to peers": ir.Frame(False, None, 0),
    "peers": ir.Frame(False, 0, 0),
    "from peers": ir.Frame(False, 0, None),
    "to row": ir.Frame(True, None, 0),
    "around": ir.Frame(True, -1, 2),
    "before": ir.Frame(True, -3, -1),
    "after": ir.Frame(True, 2, None),
    "far": ir.Frame(True, -(2**31), 2**31),
    "nothing": ir.Frame(True, 1, 0),
}
VALUES = {
    "near": ir.Frame(False, "low", "high"),
    "below": ir.Frame(False, None, "low"),
    "above": ir.Frame(False, "high", None),
}
BIGINT, DOUBLE, INT = pa.int64(), pa.float64(), pa.int32()


def _of(
    function: str, *arguments: str, type_: pa.DataType = BIGINT, distinct: bool = False, **rest: Any
) -> ir.WindowCall:
    return ir.WindowCall(ir.Aggregate(function, arguments, type_, distinct), **rest)


AWAY = [
    ("lag", 1, False),
    ("lead", 2, False),
    ("lag", 2, True),
    ("lead", 1, True),
    ("lag", 0, True),
    ("lead", -1, True),
]


def places(order) -> list[ir.WindowCall]:
    ints, doubles = ("row_number", "rank", "dense_rank"), ("percent_rank", "cume_dist")
    return [
        *(_of(f, type_=INT, order=order) for f in ints),
        *(_of(f, type_=DOUBLE, order=order) for f in doubles),
        *(_of("ntile", type_=INT, order=order, number=n) for n in (1, 3)),
        *(_of(f, "s", type_=pa.string(), order=order, number=n, ignore_nulls=i) for f, n, i in AWAY),
        _of("lag", type_=pa.bool_(), order=order, number=1),
        _of("lead", "k", type_=pa.string(), order=order),
    ]  # fmt: skip


def aggregates(order, frame) -> list[ir.WindowCall]:
    wide, mean = pa.decimal128(18, 2), pa.decimal128(12, 6)
    picks = [("first", 1, False), ("last", 1, True), ("nth_value", 2, False), ("nth_value", 2, True)]
    return [
        *(_of(f, *a, type_=t, order=order, frame=frame) for f, a, t in [
            ("count", (), BIGINT), ("count", ("s",), BIGINT), ("count", ("s", "x"), BIGINT), ("sum", ("n",), BIGINT),
            ("avg", ("n",), DOUBLE), ("sum", ("x",), DOUBLE), ("sum", ("d",), wide), ("avg", ("d",), mean),
            ("min", ("x",), DOUBLE), ("max", ("s",), pa.string()), ("max", ("d",), pa.decimal128(8, 2)),
            ("collect_list", ("s",), pa.list_(pa.field("element", pa.string()))),
            ("collect_set", ("n",), pa.list_(pa.field("element", BIGINT)))]),
        _of("count", "s", "n", distinct=True, order=order, frame=frame),
        _of("sum", "n", distinct=True, order=order, frame=frame),
        *(_of(f, "x", type_=DOUBLE, order=order, frame=frame, number=n, ignore_nulls=i) for f, n, i in picks),
    ]  # fmt: skip


CASES = {f"by {name}: places": places(order) for name, order in ORDERS.items()}
CASES |= {f"{name}: aggregates": aggregates(ORDERS["n"], frame) for name, frame in FRAMES.items()}
CASES |= {
    f"{name}, {by}: values": aggregates(ORDERS[by], frame) for name, frame in VALUES.items() for by in ("n", "n desc")
}
CASES["all by x"] = aggregates(ORDERS["x, nulls last"], FRAMES["to peers"])
CASES["all by nothing"] = aggregates((), FRAMES["all"])
CASES["several orders"] = [
    *places(ORDERS["n"])[:4],
    *places(ORDERS["s desc, n"]),
    *aggregates((), FRAMES["all"])[:6],
    *aggregates(ORDERS["n desc"], VALUES["near"])[:8],
]


def value(rng: random.Random) -> tuple[Any, ...]:
    n = rng.choice([None, -2, 0, 0, 1, 3])
    low, high = (None, None) if n is None else (n - 1, n + 2)
    x, s = rng.choice([None, 1.0, -2.5, NAN, 0.0, 1e300, float("inf")]), rng.choice([None, "x", "y", ""])
    return n, rng.choice(["a", "b", None]), x, s, rng.choice([None, Decimal("1.25"), Decimal("-7.00")]), low, high


def judge(calls: list[ir.WindowCall]) -> Any:
    def oracle(held: Counter[tuple[Any, ...]]) -> Expected:
        oks: Counter[tuple[Any, ...]] = Counter()
        errs: Counter[tuple[str, str, str]] = Counter()
        for key in {row[1] for row in held}:
            group = Counter({plain(row): n for row, n in held.items() if row[1] == key})
            shown = f"k={'null' if key is None else key}"
            if any(n < 0 for n in group.values()):
                errs["NEGATIVE_MULTIPLICITY", "the group holds a row more often retracted than inserted", shown] += 1
                continue
            for row, n in with_windows(tuple(calls), group, SCHEMA).items():
                oks[comparable(row)] += n
        return oks, errs

    return oracle


def make(calls: list[ir.WindowCall], *, merged: bool = False) -> Run:
    spec = spec_of(ir.Reduce(SOURCE, KEY, ir.WindowFunctions(tuple(calls))))
    return Run(Layout(SCHEMA, KEY, LATTICE), lambda arranged: spec.reduce(arranged, "reduce"), merged=merged)


@pytest.mark.parametrize("case", CASES)
def test_they_are_what_they_mean_at_every_time(case):
    rng = random.Random(case)
    for merged, diffs in ((False, (1, 1, 2)), (True, (1, 3, -1)), (False, (1, 2))):
        steps = history(rng, value, 4, 10, diffs=diffs)
        check(make(CASES[case], merged=merged), SCHEMA, [*steps, undone(steps)], judge(CASES[case]))


def test_one_step_of_many_times_and_one_step_a_time_agree():
    rng = random.Random(2)
    calls = CASES["several orders"]
    for _ in range(5):
        whole = [u for step in history(rng, value, 5, 8, diffs=(1, 2, -1)) for u in step]
        check(make(calls), SCHEMA, [whole], judge(calls))
        each = [[u for u in whole if u[1] == time] for time in sorted({time for _, time, _ in whole})]
        check(make(calls), SCHEMA, each, judge(calls))


@pytest.mark.parametrize("most", [1, 7])
def test_few_places_at_once_and_collisions_change_nothing(most, monkeypatch):
    monkeypatch.setattr(lined_up, "MOST_PLACES", most)
    rng = random.Random(most)
    calls = CASES["several orders"]
    with hash_bits(2):
        for _ in range(3):
            check(make(calls), SCHEMA, history(rng, value, 4, 12, diffs=(1, 2, -1)), judge(calls))


def test_retracting_everything_leaves_no_state():
    steps = history(random.Random(3), value, 4, 8, diffs=(1, 2))
    run = make(CASES["around: aggregates"])
    check(run, SCHEMA, [*steps, undone(steps)], judge(CASES["around: aggregates"]))
    assert not run.state


def _row(n: int | None, key: str = "a") -> tuple[Any, ...]:
    return n, key, None, None, None, None, None


def test_what_stays_the_same_has_no_update():
    """A row behind all others changes the number of none of them."""
    run = make([_of("row_number", type_=INT, order=ORDERS["n"])])
    run.step(updates_of(SCHEMA, [(_row(n), 0, 1) for n in range(100)]), 1)
    result = run.step(updates_of(SCHEMA, [(_row(100), 1, 1)]), 2)
    assert [(row[0], row[-1]) for row in result.oks.rows.to_pylist()] == [(100, 101)]


def test_a_sum_out_of_range_is_an_error_of_its_group_until_it_is_not():
    call = _of("sum", "n", order=ORDERS["n"], frame=FRAMES["to row"])
    count = _of("count", order=(), frame=FRAMES["all"])
    run = make([count, call])
    most = 2**63 - 1
    steps = [[(_row(most), 0, 1), (_row(1), 1, 1), (_row(5, "b"), 1, 1)], [(_row(-1), 2, 1)], [(_row(most), 3, -1)]]

    def oracle(held: Counter[tuple[Any, ...]]) -> Expected:
        try:
            return judge([count, call])(held)
        except FailureError:
            good = Counter({row: n for row, n in held.items() if row[1] != "a"})
            left = "sum(n) left the range of its type; cast its argument to a wider one"
            return judge([count, call])(good)[0], Counter([("ARITHMETIC_OVERFLOW", left, "k=a")])

    check(run, SCHEMA, [*steps, undone(steps)], oracle)


def test_more_rows_than_can_be_numbered_are_refused():
    run = make([_of("row_number", type_=INT)])
    with pytest.raises(StepFailedError, match="holds more than 2,147,483,647 rows"):
        run.step(updates_of(SCHEMA, [(_row(1), 0, 2**40)]), 1)


def test_what_does_not_fit_is_refused_when_the_plan_is_built():
    maps = pa.schema([("m", pa.map_(pa.string(), pa.int64())), ("n", pa.int64())])
    by_map, unknown = (ir.WindowFunctions((_of("rank", order=((c, False, True),)),)) for c in "mz")
    with pytest.raises(TypeMismatchError, match="maps have no order"):
        spec_of(ir.Reduce(ir.Source("t", maps), (), by_map))
    with pytest.raises(UnknownColumnError):
        spec_of(ir.Reduce(SOURCE, (), unknown))
    two = _of("sum", "n", order=ORDERS["s desc, n"], frame=VALUES["near"])
    with pytest.raises(PlanError, match="one order column"):
        spec_of(ir.Reduce(SOURCE, KEY, ir.WindowFunctions((two,))))


def test_a_large_partition_costs_no_more_than_some_sorts():
    """Sums and extremes move along: quadratic work would take minutes."""
    many = 200_000
    rows = [(_row(int(n)), 0, 1) for n in np.random.default_rng(1).integers(0, many, many)]
    calls = aggregates(ORDERS["n"], ir.Frame(True, -many // 2, 0))
    run = make([c for c in calls if not c.call.function.startswith("collect") and not c.call.distinct])
    result = run.step(updates_of(SCHEMA, rows), 1)
    assert sum(result.oks.diffs.tolist()) == many
