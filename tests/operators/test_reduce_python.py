import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.hashing import hash_bits
from altneu.errors import DiffOverflowError, PlanError
from altneu.operators.reduce.python_reduce import PythonSpec
from altneu.trace.batch import Layout
from tests.operators.support import LATTICE, NAN, Expected, Run, check, comparable, history, is_nan, undone, updates_of

SCHEMA = pa.schema([("k", pa.string()), ("x", pa.int64()), ("y", pa.float64())])
RESULT = pa.schema([("what", pa.string()), ("total", pa.float64()), ("xs", pa.list_(pa.int64()))])


def describe(key: Any, rows: list[tuple[Any, int]]) -> Any:
    assert all(n > 0 for _, n in rows)
    if sum(n for _, n in rows) == 5:
        raise ValueError("five rows")
    xs = [row.x for row, n in rows for _ in range(n)]
    yield f"{key.k}:{rows[0][0]['x']}", sum(n * (row.y or 0.0) for row, n in rows), xs
    if len(rows) > 2:
        yield {"what": "many", "xs": [len(rows)]}
        yield {"what": "many", "xs": [len(rows)]}


def ordered(group: list[tuple[tuple[Any, ...], int]]) -> list[tuple[tuple[Any, ...], int]]:
    def line(value: Any) -> tuple[int, Any]:
        return (0, 0) if value is None else (2, 0) if is_nan(value) else (1, value)

    return sorted(group, key=lambda g: [line(v) for v in g[0]])


def oracle(held: Counter[tuple[Any, ...]]) -> Expected:
    oks: Counter[tuple[Any, ...]] = Counter()
    errs: Counter[tuple[str, str, str]] = Counter()
    for key in {row[0] for row in held}:
        group = ordered([(row[1:], n) for row, n in held.items() if row[0] == key])
        shown = f"k={'null' if key is None else key}"
        if any(n < 0 for _, n in group):
            errs["NEGATIVE_MULTIPLICITY", "the group holds a row more often retracted than inserted", shown] += 1
        elif sum(n for _, n in group) == 5:
            errs["PYTHON_EXCEPTION", "ValueError: five rows", shown] += 1
        else:
            xs = [row[0] for row, n in group for _ in range(n)]
            oks[
                comparable((key, f"{key}:{group[0][0][0]}", sum(n * (row[1] or 0.0) for row, n in group) + 0.0, xs))
            ] += 1
            if len(group) > 2:
                oks[key, "many", None, (len(group),)] += 2
    return oks, errs


def value(rng: random.Random) -> tuple[Any, ...]:
    return rng.choice(["a", "b", None]), rng.choice([None, 1, 2, -3]), rng.choice([None, -0.0 + 0.0, 1.5, NAN])


def make(
    function: Any = describe, result: pa.Schema = RESULT, *, merged: bool = False, with_diffs: bool = False
) -> Run:
    spec = PythonSpec(("k",), function, result, SCHEMA, with_diffs)
    return Run(Layout(SCHEMA, ("k",), LATTICE), lambda arranged: spec.reduce(arranged, "mine"), merged=merged)


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("bits", [2, 64])
@pytest.mark.parametrize("diffs", [(1, 1, 2), (1, 3, -1)])
def test_results_equal_recomputation_at_every_time(diffs, bits, merged):
    rng = random.Random(1)
    with hash_bits(bits):
        for _ in range(25):
            check(make(merged=merged), SCHEMA, history(rng, value, 4, 10, diffs=diffs), oracle)


def test_one_step_of_many_times_and_one_step_a_time_agree():
    rng = random.Random(2)
    for _ in range(10):
        whole = [u for step in history(rng, value, 5, 8, diffs=(1, 2, -1)) for u in step]
        check(make(), SCHEMA, [whole], oracle)
        times = sorted({time for _, time, _ in whole})
        check(make(), SCHEMA, [[u for u in whole if u[1] == time] for time in times], oracle)


def test_retracting_everything_leaves_no_state():
    rng = random.Random(3)
    for _ in range(10):
        steps = history(rng, value, 4, 8, diffs=(1, 2, 3))
        run = make()
        check(run, SCHEMA, [*steps, undone(steps)], oracle)
        assert not run.state


ROW = ("a", 1, 1.0)
NUMBER = pa.schema([("n", pa.int64())])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([("a", "b")], "the function returned 2 values for 1 columns: n"),
        (["x"], "Could not convert 'x' with type str"),
        ([2**70], "Python int too large|Value .* too large"),
        ([{"m": 1}], "the function returned 'm', which is not among its columns: n"),
    ],
)
def test_results_that_do_not_fit_are_errors_and_heal(answer, message):
    run = make(lambda _, rows: answer if rows[0][1] == 1 else [7], NUMBER)
    result = run.step(updates_of(SCHEMA, [(ROW, 0, 1)]), 1)
    (error,) = result.errs.rows.to_pylist()
    assert error[:2] == ("mine", "PYTHON_RESULT_TYPE")
    assert error[3] == "k=a"
    assert any(part in error[2] for part in message.split("|")) or "too large" in error[2]
    result = run.step(updates_of(SCHEMA, [(ROW, 1, 1)]), 2)
    assert result.errs.diffs.tolist() == [-1]
    assert result.oks.rows.to_pylist() == [("a", 7)]


def test_a_function_that_gives_nothing_to_iterate_over_is_an_error():
    result = make(lambda _key, _rows: None, NUMBER).step(updates_of(SCHEMA, [(ROW, 0, 1)]), 1)
    assert result.errs.rows.to_pylist() == [
        ("mine", "PYTHON_EXCEPTION", "TypeError: 'NoneType' object is not iterable", "k=a")
    ]


def test_with_diffs_results_carry_their_own_counts():
    def function(_key, rows):
        return [((row.x,), np.int64(n * 10)) for row, n in rows] + [((99,), -1)]

    run = make(function, NUMBER, with_diffs=True)
    result = run.step(updates_of(SCHEMA, [(ROW, 0, 2)]), 1)
    actual = sorted(zip(result.oks.rows.to_pylist(), result.oks.diffs.tolist(), strict=True))
    assert actual == [(("a", 1), 20), (("a", 99), -1)]
    result = make(lambda _key, _rows: [(1,)], NUMBER, with_diffs=True).step(updates_of(SCHEMA, [(ROW, 0, 1)]), 1)
    assert "pairs (row, diff)" in result.errs.rows.to_pylist()[0][2]


def test_a_count_that_leaves_int64_is_fatal():
    with pytest.raises(DiffOverflowError):
        make(lambda _key, rows: [rows[0][1]], NUMBER).step(updates_of(SCHEMA, [(ROW, 0, 2**62), (ROW, 1, 2**62)]), 2)


def test_a_result_column_named_as_a_key_column_is_refused():
    with pytest.raises(PlanError, match="two output columns are named 'k'"):
        make(result=pa.schema([("k", pa.int64())]))
