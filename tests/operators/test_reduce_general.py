import math
import random
from collections import Counter
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import pyarrow as pa
import pytest

from altneu.columnar.hashing import hash_bits
from altneu.errors import DiffOverflowError, PlanError, TypeMismatchError, UnsupportedFunctionError
from altneu.operators.kernels.groups import ReduceOutput, touched
from altneu.operators.reduce.calls import Aggregate
from altneu.operators.reduce.extremes import reduce_extremes
from altneu.operators.reduce.ranked import GeneralSpec, reduce_general
from altneu.trace.batch import Arranged, Layout
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

SCHEMA = pa.schema(
    [("k", pa.string()), ("i", pa.int64()), ("f", pa.float64()), ("s", pa.string()), ("d", pa.decimal128(12, 2))]
)
COLUMNS = ("i", "f", "s", "d")
NEGATIVE = ("NEGATIVE_MULTIPLICITY", "the group holds a row more often retracted than inserted")
CALLS = (
    call("count", ()),
    *(call(f, (c,)) for f in ("min", "max", "collect_list", "collect_set") for c in COLUMNS),
    *(call("count", (c,), distinct=True) for c in COLUMNS),
    call("count", ("i", "s"), distinct=True),
    call("sum", ("i",)),
    call("sum", ("i",), distinct=True),
    call("avg", ("i",), distinct=True),
    call("sum", ("f",), distinct=True),
    call("sum", ("d",), distinct=True),
    call("count", ("s",)),
)


def compare(a: Any, b: Any) -> int:
    """The order of values: NaN greatest."""
    if a == b or (is_nan(a) and is_nan(b)):
        return 0
    return 1 if is_nan(a) else -1 if is_nan(b) else 1 if a > b else -1


ascending = cmp_to_key(compare)


def aggregate(call: Aggregate, group: list[tuple[tuple[Any, ...], int]]) -> Any:
    if not call.arguments:
        return sum(n for _, n in group)
    places = [SCHEMA.names.index(a) for a in call.arguments]
    tuples = [(tuple(row[p] for p in places), n) for row, n in group]
    tuples = [(values, n) for values, n in tuples if None not in values]
    if call.function == "count":
        return len({comparable(v) for v, _ in tuples}) if call.distinct else sum(n for _, n in tuples)
    values = sorted((v for (v,), n in tuples for _ in range(n)), key=ascending)
    unique = [v for i, v in enumerate(values) if i == 0 or compare(values[i - 1], v) != 0]
    if call.function.startswith("collect"):
        return unique if call.function == "collect_set" else values
    if not values:
        return None
    if call.function in ("min", "max"):
        return values[0] if call.function == "min" else values[-1]
    summed = unique if call.distinct else values
    exact = math.fsum(summed) if isinstance(summed[0], float) else sum(summed)
    if isinstance(exact, int) and call.function == "sum" and not -(2**63) <= exact < 2**63:
        raise OverflowError(f"{call} left the range of its type; cast its argument to a wider one")
    return exact if call.function == "sum" else float(exact) / len(summed)


def judge(calls: tuple[Aggregate, ...]) -> Any:
    def oracle(held: Counter[tuple[Any, ...]]) -> Expected:
        oks: Counter[tuple[Any, ...]] = Counter()
        errs: Counter[tuple[str, str, str]] = Counter()
        for key in {row[0] for row in held}:
            group = [(row, n) for row, n in held.items() if row[0] == key]
            if any(n < 0 for _, n in group):
                errs[*NEGATIVE, f"k={'null' if key is None else key}"] += 1
                continue
            try:
                oks[comparable((key, *(aggregate(c, group) for c in calls)))] += 1
            except OverflowError as overflow:
                errs["ARITHMETIC_OVERFLOW", str(overflow), f"k={'null' if key is None else key}"] += 1
        return oks, errs

    return oracle


def value(rng: random.Random) -> tuple[Any, ...]:
    return (
        rng.choice(["a", "b", None]),
        rng.choice([None, 3, -4, 2**62, -(2**63), 0]) if rng.random() < 0.3 else rng.randint(0, 3),
        rng.choice([None, 0.1, -0.5, NAN, 1e300, 2.0]),
        rng.choice([None, "x", "yy", ""]),
        rng.choice([None, Decimal("1.05"), Decimal("-3.10")]),
    )


def infinite(rng: random.Random) -> tuple[Any, ...]:
    return "a", rng.randint(-3, 3), rng.choice([math.inf, -math.inf, 1.0, None]), rng.choice("ab"), None


def make(calls: tuple[Aggregate, ...], *, merged: bool = False) -> Run:
    spec = GeneralSpec(("k",), calls, SCHEMA)
    return Run(Layout(SCHEMA, ("k",), LATTICE), lambda arranged: spec.reduce(arranged, "reduce"), merged=merged)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("diffs", [(1, 1, 2), (1, -1, 2, -2)])
def test_aggregates_equal_recomputation_at_every_time(diffs, merged):
    rng = random.Random(1)
    for _ in range(50):
        check(make(CALLS, merged=merged), SCHEMA, history(rng, value, rng.randint(1, 5), 12, diffs=diffs), judge(CALLS))


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_each_aggregate_alone_tells_only_its_own_changes(call):
    rng = random.Random(2)
    for _ in range(15):
        check(make((call,)), SCHEMA, history(rng, value, 4, 10, diffs=(1, 2, -1)), judge((call,)))


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("diffs", [(1, 1, 2), (1, -1, 2, -2)])
@pytest.mark.parametrize("column", COLUMNS)
def test_extremes_of_the_only_column_equal_recomputation(column, diffs, nulls):
    at = SCHEMA.get_field_index(column)
    schema, calls = pa.schema([SCHEMA.field(0), SCHEMA.field(at)]), (call("min", (column,)), call("max", (column,)))
    spec, told = GeneralSpec(("k",), calls, schema), Counter()

    def reduced(arranged: Arranged) -> ReduceOutput:
        if len(arranged.new):
            told[reduce_extremes(touched(arranged), spec.greatest, spec.schema) is not None] += 1
        return spec.reduce(arranged, "reduce")

    def oracle(rows: Counter[tuple[Any, ...]]) -> Expected:
        whole = {tuple({0: k, at: v}.get(i) for i in range(len(SCHEMA))): n for (k, v), n in rows.items()}
        return judge(calls)(Counter(whole))

    def drawn(rng: random.Random) -> tuple[Any, ...]:
        row = next(row for row in iter(lambda: value(rng), None) if nulls or row[at] is not None)
        return row[0], row[at]

    rng = random.Random(column)
    for _ in range(15):
        check(Run(Layout(schema, ("k",), LATTICE), reduced), schema, history(rng, drawn, 4, 12, diffs=diffs), oracle)
    assert told[True] or nulls, "the kernel for extremes was never used"
    assert told[False] or not (nulls or -1 in diffs), "the kernel for extremes was used where it does not serve"


def test_infinities_are_values():
    rng = random.Random(3)
    for _ in range(20):
        calls = tuple(c for c in CALLS if c != call("sum", ("f",), distinct=True))
        check(make(calls), SCHEMA, history(rng, infinite, 3, 8, diffs=(1, 2)), judge(calls))


def test_one_step_of_many_times_and_one_step_a_time_agree():
    rng = random.Random(4)
    for _ in range(20):
        steps = history(rng, value, 5, 8, diffs=(1, 2, -1))
        whole = [u for step in steps for u in step]
        times = sorted({time for _, time, _ in whole})
        check(make(CALLS), SCHEMA, [whole], judge(CALLS))
        check(make(CALLS), SCHEMA, [[u for u in whole if u[1] == time] for time in times], judge(CALLS))


def test_retracting_everything_leaves_no_state():
    rng = random.Random(5)
    for _ in range(20):
        steps = history(rng, value, 4, 8, diffs=(1, 2, 3))
        run = make(CALLS)
        check(run, SCHEMA, [*steps, undone(steps)], judge(CALLS))
        assert not run.state


def test_aggregates_are_exact_when_hashes_collide():
    rng = random.Random(6)
    with hash_bits(2):
        for _ in range(15):
            steps = history(rng, lambda r: (r.choice("abcdefghij"), *value(r)[1:]), 4, 20)
            check(make(CALLS), SCHEMA, steps, judge(CALLS))


def test_many_values_of_one_group_toggled_at_many_times():
    rng = random.Random(7)
    calls = (
        call("min", ("i",)),
        call("max", ("i",)),
        call("count", ("i",), distinct=True),
    )
    spec = GeneralSpec(("k",), calls, SCHEMA)
    run = Run(Layout(SCHEMA, ("k",), LATTICE), lambda arranged: reduce_general(arranged, spec))
    alive: Counter[int] = Counter()
    step, expected, shown = [], {}, None
    for time in range(3_000):
        i = rng.randrange(20_000) - 10_000
        if len(alive) > 5 and rng.random() < 0.55:
            i, diff = rng.choice([min(alive), max(alive), next(iter(alive))]), -1
        else:
            diff = 1
        step.append((("a", i, None, None, None), time, diff))
        alive[i] += diff
        if not alive[i]:
            del alive[i]
        row = ("a", min(alive), max(alive), len(alive))
        if row != shown:
            expected[time], shown = row, row
    result = run.step(updates_of(SCHEMA, step), 3_000)
    added = {
        time: row
        for row, time, diff in zip(
            result.oks.rows.to_pylist(), result.oks.times[0].tolist(), result.oks.diffs.tolist(), strict=True
        )
        if diff == 1
    }
    assert added == expected


def test_huge_multiplicities_are_counted_and_lists_of_them_refused():
    calls = (call("count", ()), call("max", ("i",)), call("sum", ("i",)))
    row = ("a", 3, None, None, None)
    run = make(calls)
    result = run.step(updates_of(SCHEMA, [(row, 0, 2**40)]), 1)
    assert result.oks.rows.to_pylist() == [("a", 2**40, 3, 3 * 2**40)]
    result = make((call("collect_list", ("i",)),)).step(updates_of(SCHEMA, [(row, 0, 2**40)]), 1)
    assert [error[1] for error in result.errs.rows.to_pylist()] == ["ARITHMETIC_OVERFLOW"]
    with pytest.raises(DiffOverflowError):
        make(calls).step(updates_of(SCHEMA, [(row, 0, 2**62), (row, 1, 2**62)]), 2)


def test_an_error_of_all_rows_says_so():
    spec = GeneralSpec((), (call("max", ("i",)),), SCHEMA)
    run = Run(Layout(SCHEMA, (), LATTICE), lambda arranged: reduce_general(arranged, spec, "the maximum"))
    result = run.step(updates_of(SCHEMA, [(("a", 3, None, None, None), 0, -1)]), 1)
    assert result.errs.rows.to_pylist() == [("the maximum", *NEGATIVE, "all rows")]


def test_a_global_aggregate_has_a_row_for_nothing_if_asked_for():
    calls = (call("count", ()), call("max", ("i",)), call("collect_list", ("i",)))
    spec = GeneralSpec((), calls, SCHEMA, default_row=True)
    run = Run(Layout(SCHEMA, (), LATTICE), lambda arranged: reduce_general(arranged, spec))
    row = ("a", 3, None, None, None)
    first = run.step(updates_of(SCHEMA, [(row, 0, 1)]), 1)
    assert list(zip(first.oks.rows.to_pylist(), first.oks.diffs.tolist(), strict=True)) == [
        ((0, None, []), -1),
        ((1, 3, [3]), 1),
    ]
    then = run.step(updates_of(SCHEMA, [(row, 1, -1)]), 2)
    assert list(zip(then.oks.rows.to_pylist(), then.oks.diffs.tolist(), strict=True)) == [
        ((1, 3, [3]), -1),
        ((0, None, []), 1),
    ]


NESTED = pa.schema([
    ("k", pa.int64()), ("p", pa.struct([("a", pa.int64()), ("b", pa.string())])), ("l", pa.list_(pa.int64())),
    ("b", pa.bool_()),
    ("t", pa.timestamp("us", tz="UTC")), ("y", pa.binary()), ("z", pa.date32()),
])  # fmt: skip


def test_nested_and_temporal_values_have_an_order():
    calls = tuple(call(f, (c,)) for f in ("min", "max", "collect_set") for c in "plbyz")
    spec = GeneralSpec(("k",), calls, NESTED)
    run = Run(Layout(NESTED, ("k",), LATTICE), lambda arranged: reduce_general(arranged, spec))
    rows = [
        (1, {"a": 1, "b": None}, [1, 2], True, 5, b"b", 3),
        (1, {"a": 1, "b": "x"}, [1], False, -5, b"", -3),
        (1, {"a": None, "b": "x"}, [None, 7], None, None, None, None),
        (1, None, None, True, 7, b"bb", 4),
    ]
    result = run.step(updates_of(NESTED, [(row, 0, 1) for row in rows]), 1)
    got = dict(zip(result.oks.schema.names, result.oks.rows.to_pylist()[0], strict=True))
    assert got["#0"] == {"a": None, "b": "x"}
    assert got["#5"] == {"a": 1, "b": "x"}
    assert got["#1"] == [None, 7]
    assert got["#6"] == [1, 2]
    assert got["#11"] == [[None, 7], [1], [1, 2]]
    assert (got["#2"], got["#7"], got["#12"]) == (False, True, [False, True])
    assert (got["#3"], got["#8"]) == (b"", b"bb")


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (call("median", ("i",)), UnsupportedFunctionError),
        (call("sum", ("s",)), TypeMismatchError),
        (call("max", ("i", "f")), TypeMismatchError),
        (call("count", (), distinct=True), TypeMismatchError),
        (call("max", ("k",)), PlanError),
    ],
)
def test_what_does_not_fit_is_refused_when_the_plan_is_built(call, error):
    with pytest.raises(error):
        GeneralSpec(("k",), (call,), SCHEMA)


def test_columns_of_one_name_are_refused():
    with pytest.raises(PlanError, match="two output columns are named '#0'"):
        GeneralSpec(("#0",), (call("max", ("i",)),), pa.schema([("#0", pa.string()), ("i", pa.int64())]))
