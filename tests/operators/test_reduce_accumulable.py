import math
import random
from collections import Counter
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.hashing import hash_bits
from altneu.columnar.rows import Rows
from altneu.errors import DiffOverflowError, PlanError
from altneu.operators.reduce.accumulable import (
    AggregatesSpec,
    CountOfSpec,
    DistinctSpec,
    ThresholdSpec,
    counter,
    default_row,
    reduce_accumulable,
)
from altneu.operators.reduce.accumulate import Accumulator
from altneu.operators.reduce.calls import Aggregate
from altneu.order import Epoch, Product
from altneu.trace.batch import Arranged, Batch, Description, Layout
from tests.operators.support import (
    LATTICE,
    NAN,
    Expected,
    Run,
    call,
    check,
    comparable,
    history,
    is_nan,
    undone,
    updates_of,
)

SCHEMA = pa.schema([
    ("k", pa.string()), ("i", pa.int64()), ("s", pa.int16()), ("d", pa.decimal128(20, 3)),
    ("f", pa.float64()), ("g", pa.float32()),
])  # fmt: skip
CALLS = (
    call("count", ()),
    call("count", ("i",)),
    call("sum", ("i",)),
    call("avg", ("i",)),
    call("sum", ("s",)),
    call("sum", ("d",)),
    call("avg", ("d",)),
    call("sum", ("f",)),
    call("avg", ("f",)),
    call("sum", ("g",)),
)


def total(values: list[tuple[Any, int]]) -> Any:
    """The exact sum of finite values, or what IEEE 754 makes of the others."""
    if any(is_nan(v) for v, n in values if n) or {math.inf, -math.inf} <= {v for v, n in values if n}:
        return NAN
    infinite = [v for v, n in values if n and isinstance(v, float) and math.isinf(v)]
    return infinite[0] if infinite else sum((Fraction(v) * n for v, n in values), Fraction(0))


def as_double(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def shown_as_negative(column: list[tuple[Any, int]]) -> bool:
    """Whether the accumulations of one column show a negative count: the sums are all there is to judge by."""
    kinds: Counter[str] = Counter()
    for v, n in column:
        special = v is None or (isinstance(v, float) and not math.isfinite(v))
        kinds[repr(v) if special else "finite"] += n
    finite = [(v, n) for v, n in column if v is not None and not (isinstance(v, float) and not math.isfinite(v))]
    return min(kinds.values(), default=0) < 0 or (kinds["finite"] == 0 and total(finite) != 0)


NEGATIVE = "the group holds a row more often retracted than inserted"


class SumOverflowError(Exception):
    pass


def aggregate(call: Aggregate, column: list[tuple[Any, int]], kind: pa.DataType) -> Any:
    values = [(v, n) for v, n in column if v is not None]
    count = sum(n for _, n in values)
    if call.function == "count":
        return count
    if count == 0:
        return None
    exact = total(values)
    if pa.types.is_decimal(kind):
        if abs(exact) >= 10 ** (min(kind.precision + 10, 38) - kind.scale):
            raise SumOverflowError(call)
        with localcontext(prec=200):
            number = Decimal(exact.numerator) / Decimal(exact.denominator)
            return number if call.function == "sum" else (number / count).quantize(Decimal("1e-7"), ROUND_HALF_UP)
    if pa.types.is_integer(kind) and call.function == "sum":
        if not -(2**63) <= exact < 2**63:
            raise SumOverflowError(call)
        return int(exact)
    return as_double(exact) if call.function == "sum" else as_double(exact) / count


def oracle(held: Counter[tuple[Any, ...]]) -> Expected:
    oks: Counter[tuple[Any, ...]] = Counter()
    errs: Counter[tuple[str, str, str]] = Counter()
    for key in {row[0] for row in held}:
        group = [(row, n) for row, n in held.items() if row[0] == key]
        shown = f"k={'null' if key is None else key}"
        columns = {name: [(row[i], n) for row, n in group] for i, name in enumerate(SCHEMA.names)}
        count = sum(n for _, n in group)
        if count < 0 or any(shown_as_negative(columns[name]) for name in "isdfg"):
            errs["NEGATIVE_MULTIPLICITY", NEGATIVE, shown] += 1
        elif count > 0:
            try:
                finals = [
                    aggregate(c, columns[c.arguments[0]], SCHEMA.field(c.arguments[0]).type) if c.arguments else count
                    for c in CALLS
                ]
            except SumOverflowError as overflow:
                message = f"{overflow} left the range of its type; cast its argument to a wider one"
                errs["ARITHMETIC_OVERFLOW", message, shown] += 1
            else:
                oks[comparable((key, *finals))] += 1
    return oks, errs


def modest(rng: random.Random) -> tuple[Any, ...]:
    return (
        rng.choice(["a", "b", None]),
        rng.choice([None, 1, -2, 3, 2**40]),
        rng.choice([None, 7, -7]),
        rng.choice([None, Decimal("1.005"), Decimal("-2.000")]),
        rng.choice([None, 0.1, 0.2, -0.3, 1e16, 0.0]),
        rng.choice([None, 0.5, 1.25]),
    )


def extreme(rng: random.Random) -> tuple[Any, ...]:
    return (
        rng.choice(["a", None]),
        rng.choice([None, 2**63 - 1, -(2**63), rng.randint(-(2**63), 2**63 - 1), 2**32, -(2**32)]),
        rng.choice([None, 2**15 - 1, -(2**15)]),
        rng.choice([None, Decimal(10**20 - 1).scaleb(-3), -Decimal(10**20 - 1).scaleb(-3), Decimal("0.001")]),
        rng.choice(
            [
                None,
                NAN,
                math.inf,
                -math.inf,
                5e-324,
                1.7976931348623157e308,
                -1e308,
                rng.uniform(-1, 1) * 10.0 ** rng.randint(-300, 300),
            ]
        ),
        rng.choice([None, NAN, 1.5, math.inf]),
    )


def make(merged: bool) -> Run:
    accumulator = Accumulator(("k",), CALLS, SCHEMA)
    layout = Layout(accumulator.slot_schema, accumulator.key, LATTICE)
    spec = AggregatesSpec(accumulator)
    return Run(
        layout, lambda arranged: reduce_accumulable(arranged, spec), lambda u: accumulator.explode(u, LATTICE), merged
    )


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize(
    ("value", "diffs"), [(modest, (1, 1, 2, -1)), (extreme, (1, 1, 3)), (extreme, (1, -1, 2**40, -(2**40)))]
)
def test_aggregates_equal_recomputation_at_every_time(merged, value, diffs):
    rng = random.Random(5)
    for _ in range(60):
        check(make(merged), SCHEMA, history(rng, value, rng.randint(1, 6), rng.randint(1, 12), diffs=diffs), oracle)


def test_one_step_of_many_times_and_one_step_a_time_agree():
    rng = random.Random(6)
    for _ in range(30):
        steps = history(rng, modest, 6, 8)
        whole = [u for step in steps for u in step]
        times = sorted({time for _, time, _ in whole})
        check(make(merged=False), SCHEMA, [whole], oracle)
        check(make(merged=False), SCHEMA, [[u for u in whole if u[1] == time] for time in times], oracle)


def test_retracting_everything_leaves_no_state():
    rng = random.Random(7)
    for value in (modest, extreme):
        for _ in range(30):
            steps = history(rng, value, 4, 8, diffs=(1, 2, 3))
            run = make(merged=False)
            check(run, SCHEMA, [*steps, undone(steps)], oracle)
            assert not run.state


def test_retraction_one_by_one_of_what_one_update_inserted_leaves_no_state():
    row = ("a", -(2**63), -5, Decimal("-1.005"), -0.1, 1.5)
    run = make(merged=False)
    check(run, SCHEMA, [[(row, 0, 5)], [(row, 1, -2)], [(row, 2, -3)]], oracle)
    assert not run.state


def test_aggregates_are_exact_when_hashes_collide():
    rng = random.Random(8)
    with hash_bits(2):
        for _ in range(20):
            steps = history(rng, lambda r: (r.choice("abcdefghij"), *modest(r)[1:]), 4, 20)
            check(make(merged=False), SCHEMA, steps, oracle)


def test_an_overflowing_sum_is_an_error_of_its_group_and_heals():
    big = ("a", 2**63 - 1, None, None, None, None)
    small = ("b", 1, None, None, None, None)
    run = make(merged=False)
    check(run, SCHEMA, [[(big, 0, 1), (small, 0, 1)], [(big, 1, 1)], [(small, 2, 1)], [(big, 3, -1)]], oracle)
    result = make(merged=False).step(updates_of(SCHEMA, [(big, 0, 2)]), 1)
    assert result.errs.rows.to_pylist() == [
        ("reduce", "ARITHMETIC_OVERFLOW", "sum(i) left the range of its type; cast its argument to a wider one", "k=a")
    ]


ROWS = pa.schema([("a", pa.string()), ("b", pa.int32())])


def pair(rng: random.Random) -> tuple[Any, ...]:
    return rng.choice(["x", "y", None]), rng.choice([1, 2, None])


def shown(row: tuple[Any, ...]) -> str:
    return ", ".join(f"{n}={'null' if v is None else v}" for n, v in zip(ROWS.names, row, strict=True))


def row_run(spec: Any, merged: bool) -> Run:
    accumulator = counter(ROWS)
    layout = Layout(accumulator.slot_schema, accumulator.key, LATTICE)
    return Run(
        layout, lambda arranged: reduce_accumulable(arranged, spec), lambda u: accumulator.explode(u, LATTICE), merged
    )


def distinct_oracle(held: Counter[tuple[Any, ...]]) -> Expected:
    negative = Counter(
        {
            ("NEGATIVE_MULTIPLICITY", "the row is more often retracted than inserted", shown(row)): 1
            for row, n in held.items()
            if n < 0
        }
    )
    return Counter({row: 1 for row, n in held.items() if n > 0}), negative


def count_oracle(held: Counter[tuple[Any, ...]]) -> Expected:
    return Counter({(*row, n): 1 for row, n in held.items()}), Counter()


def odd_or_fail(count: int) -> int:
    if count == 3:
        raise ValueError("three")
    return count % 2 if count > 0 else 5 * count


def first_or_fail(row, count):
    if count == 3:
        raise ValueError(row.b)
    return count * len(row.a or "")


def threshold_by_row_oracle(held: Counter[tuple[Any, ...]]) -> Expected:
    failed = {("PYTHON_EXCEPTION", f"ValueError: {row[1]}", shown(row)): 1 for row, n in held.items() if n == 3}
    return Counter({row: n * len(row[0]) for row, n in held.items() if n != 3 and row[0]}), Counter(failed)


def threshold_oracle(held: Counter[tuple[Any, ...]]) -> Expected:
    failed = Counter({("PYTHON_EXCEPTION", "ValueError: three", shown(row)): 1 for row, n in held.items() if n == 3})
    return Counter({row: odd_or_fail(n) for row, n in held.items() if n != 3 and odd_or_fail(n)}), failed


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("bits", [2, 64])
@pytest.mark.parametrize(
    ("spec", "judge"),
    [
        (DistinctSpec(ROWS), distinct_oracle),
        (CountOfSpec(ROWS, "n"), count_oracle),
        (ThresholdSpec(ROWS, odd_or_fail), threshold_oracle),
        (ThresholdSpec(ROWS, first_or_fail, with_row=True), threshold_by_row_oracle),
    ],
)
def test_counts_of_rows_equal_recomputation_at_every_time(spec, judge, bits, merged):
    rng = random.Random(9)
    with hash_bits(bits):
        for _ in range(40):
            check(row_run(spec, merged), ROWS, history(rng, pair, rng.randint(1, 5), 10, diffs=(1, 2, -1, -2)), judge)


def test_a_threshold_function_is_called_once_per_count_and_its_results_are_checked():
    asked = []

    def function(count):
        asked.append(count)
        return "many" if count == 2 else 2**62 if count == 4 else True

    run = row_run(ThresholdSpec(ROWS, function), merged=False)
    result = run.step(updates_of(ROWS, [(("x", i), 0, n) for i, n in enumerate([1, 1, 2, 4])]), 1)
    assert sorted(asked) == [1, 2, 4]
    assert sorted(result.oks.rows.to_pylist()) == [("x", 0), ("x", 1)]
    messages = sorted(message for _, _, message, _ in result.errs.rows.to_pylist())
    assert messages == [
        "the function returned 'many' for 2, not an int",
        "the function returned 4611686018427387904, which is beyond 2^62, for 4",
    ]


def test_a_global_aggregate_always_has_a_row_if_asked_for():
    calls = (call("count", ()), call("sum", ("b",)))
    accumulator = Accumulator((), calls, ROWS)
    layout = Layout(accumulator.slot_schema, (), LATTICE)
    for spec in (AggregatesSpec(accumulator), AggregatesSpec(accumulator, default_row=True)):

        def judge(held, spec=spec):
            count, values = sum(held.values()), [(row[1], n) for row, n in held.items() if row[1] is not None]
            row = (count, sum(v * n for v, n in values) if values else None)
            empty = Counter({(0, None): 1}) if spec.default_row else Counter()
            return (Counter({row: 1}) if count else empty), Counter()

        run = Run(layout, lambda a, spec=spec: reduce_accumulable(a, spec), lambda u: accumulator.explode(u, LATTICE))
        steps = [[(("x", 1), 0, 2), (("x", None), 1, 1)], [(("x", 1), 2, -2), (("x", None), 2, -1)], [(("y", 4), 3, 1)]]
        if spec.default_row:  # the caller has emitted the default row at the least time
            result = run.step(updates_of(ROWS, steps[0]), 2)
            assert default_row(spec).to_pylist() == [(0, None)]
            assert ((0, None), -1) in zip(result.oks.rows.to_pylist(), result.oks.diffs.tolist(), strict=True)
            result = run.step(updates_of(ROWS, steps[1]), 3)
            assert ((0, None), 1) in zip(result.oks.rows.to_pylist(), result.oks.diffs.tolist(), strict=True)
        else:
            check(run, ROWS, steps, judge)


def test_partially_ordered_times_are_refused():
    spec = DistinctSpec(ROWS)
    accumulator = counter(ROWS)
    lattice = Product(Epoch(), Epoch())
    layout = Layout(accumulator.slot_schema, accumulator.key, lattice)
    empty = Batch.empty(layout, Description.interval(lattice, (0, 0), (1, 1)))
    with pytest.raises(PlanError, match="totally ordered"):
        reduce_accumulable(Arranged(layout, (), empty), spec)


def test_a_count_that_leaves_int64_is_fatal():
    spec = CountOfSpec(ROWS)
    run = row_run(spec, merged=False)
    run.step(updates_of(ROWS, [(("x", 1), 0, 2**62)]), 1)
    with pytest.raises(DiffOverflowError):
        run.step(updates_of(ROWS, [(("x", 1), 1, 2**62)]), 2)


def test_floats_are_summed_as_if_rounded_once():
    values = np.random.default_rng(3).normal(size=2_000) * 10.0 ** np.random.default_rng(4).integers(-30, 30, 2_000)
    schema = pa.schema([("k", pa.int64()), ("f", pa.float64())])
    accumulator = Accumulator(("k",), (call("sum", ("f",)),), schema)
    rows = Rows(schema, (pa.array(np.zeros(2_000, np.int64)), pa.array(values)), 2_000)
    layout = Layout(accumulator.slot_schema, accumulator.key, LATTICE)
    updates = updates_of(schema, [])
    updates = type(updates)(rows, np.zeros((1, 2_000), np.int64), np.ones(2_000, np.int64))
    new = Batch.build(accumulator.explode(updates, LATTICE), layout, Description.interval(LATTICE, 0, 1))
    result = reduce_accumulable(Arranged(layout, (), new), AggregatesSpec(accumulator))
    assert result.oks.rows.to_pylist() == [(0, math.fsum(values.tolist()))]
