"""``logical_now()`` in predicates: what becomes a bound, what is refused and how that is said."""

from __future__ import annotations

import itertools
import random
import re

import numpy as np
import pyarrow as pa
import pytest

from altneu import types as T
from altneu.columnar.rows import Rows
from altneu.errors import NonDeterministicError, TemporalPredicateError, TypeMismatchError
from altneu.expressions import (
    Bound,
    call,
    col,
    fn,
    literal,
    parse,
    parse_aggregate,
    parse_order,
    parse_predicate,
    parse_projection,
    registry,
    split_temporal,
)

SCHEMA = T.parse_schema(
    "v int, x int, start long, stop long, i long, h short, ts timestamp, ntz timestamp_ntz, day date, d double, "
    "f float, n decimal(10,2), t string, b boolean, c boolean, xs array<int>"
)


def split(text):
    return split_temporal(text, SCHEMA)


def expr(text):
    return parse(text, SCHEMA)


def bounds(text):
    result = split(text)
    return [e.sql for e in result.row], [
        (b.kind, b.value.sql, b.after, b.unless and b.unless.sql) for b in result.bounds
    ]


LOWER, AFTER = ("lower", "start", False, None), ("lower", "start", True, None)
UPPER, UNTIL = ("upper", "start", False, None), ("upper", "start", True, None)
TABLE = {"=": [LOWER, UNTIL], "<": [UPPER], "<=": [UNTIL], ">": [AFTER], ">=": [LOWER]}
TURNED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
OPPOSITE = {"!=": "=", ">=": "<", ">": "<=", "<=": ">", "<": ">="}


@pytest.mark.parametrize("symbol", TABLE)
def test_each_comparison_is_its_bounds(symbol):
    assert bounds(f"logical_now() {symbol} start") == ([], TABLE[symbol])
    assert bounds(f"start {TURNED[symbol]} logical_now()") == ([], TABLE[symbol])
    assert split(f"logical_now() {symbol} start").bounds[0] == Bound(
        TABLE[symbol][0][0], expr("start"), TABLE[symbol][0][2]
    )


@pytest.mark.parametrize("symbol", OPPOSITE)
def test_not_turns_a_comparison_into_its_opposite(symbol):
    assert bounds(f"NOT logical_now() {symbol} start") == ([], TABLE[OPPOSITE[symbol]])
    assert bounds(f"NOT NOT NOT (logical_now() {symbol} start)") == ([], TABLE[OPPOSITE[symbol]])


def now(kind, value, after=False, unless=None):
    return (kind, value, after, unless)


@pytest.mark.parametrize(
    ("text", "row", "bound"),
    [
        ("logical_now() BETWEEN start AND stop", [], [LOWER, now("upper", "stop", True)]),
        ("logical_now() >= start AND logical_now() < stop", [], [LOWER, now("upper", "stop")]),
        (
            "v > 0 AND (logical_now() >= start AND x = 1) AND (b AND logical_now() < stop)",
            ["v > 0", "x = 1", "b"],
            [LOWER, now("upper", "stop")],
        ),
        ("start BETWEEN logical_now() AND stop", ["start <= stop"], [UNTIL]),
        ("start NOT BETWEEN 5 AND 7 AND logical_now() = 3", None, [now("lower", "3L"), now("upper", "3L", True)]),
        ("NOT (logical_now() < start OR v = 1)", ["NOT (v = 1)"], [LOWER]),
        ("NOT (v = 1 OR (x = 2 AND b) OR logical_now() >= start)", ["NOT ((v = 1) OR ((x = 2) AND b))"], [UPPER]),
        ("logical_now() < NULL", [], [now("upper", "CAST(NULL AS bigint)")]),
        ("logical_now() < v + x", [], [now("upper", "CAST(v + x AS bigint)")]),
        ("logical_now() < h", [], [now("upper", "CAST(h AS bigint)")]),
        ("logical_now() < 9223372036854775807", [], [now("upper", "9223372036854775807L")]),
        ("CAST(logical_now() AS bigint) < start", [], [UPPER]),
        ("Logical_Now() < start", [], [UPPER]),
        (
            "logical_now() >= unix_seconds(ts) AND logical_now() < unix_seconds(ts) + 3600",
            [],
            [now("lower", "unix_seconds(ts)"), now("upper", "unix_seconds(ts) + 3600L")],
        ),
    ],
)
def test_a_conjunction_is_conditions_of_the_row_and_bounds(text, row, bound):
    rows, actual = bounds(text)
    assert row is None or rows == row
    assert actual == bound


@pytest.mark.parametrize(
    ("text", "row", "bound"),
    [
        ("logical_now() < start OR x IS NULL", [], [now("upper", "start", False, "x IS NULL")]),
        ("x IS NULL OR logical_now() < start", [], [now("upper", "start", False, "x IS NULL")]),
        (
            "x IS NULL OR logical_now() BETWEEN start AND stop",
            [],
            [now("lower", "start", False, "x IS NULL"), now("upper", "stop", True, "x IS NULL")],
        ),
        (
            "v > 0 AND (logical_now() = start OR b OR c)",
            ["v > 0"],
            [now("lower", "start", False, "b OR c"), now("upper", "start", True, "b OR c")],
        ),
        ("b OR (logical_now() < start OR c)", [], [now("upper", "start", False, "b OR c")]),
        ("(b OR logical_now() < start) OR c", [], [now("upper", "start", False, "b OR c")]),
        (
            "b OR (logical_now() < start AND (logical_now() >= stop OR c))",
            [],
            [now("upper", "start", False, "b"), now("lower", "stop", False, "b OR c")],
        ),
        ("(v > 0 AND logical_now() < start) OR b", ["(v > 0) OR b"], [now("upper", "start", False, "b")]),
        ("NOT (b AND logical_now() >= start)", [], [now("upper", "start", False, "NOT b")]),
        ("logical_now() < start OR NULL", [], [now("upper", "start", False, "CAST(NULL AS boolean)")]),
    ],
)
def test_a_bound_unless_a_condition_of_the_row_is_true(text, row, bound):
    assert bounds(text) == (row, bound)


@pytest.mark.parametrize("text", ["v > 0", "v > 0 AND x > 0 AND b", "NOT (b OR c)", "NULL", "v BETWEEN 1 AND 2", "b"])
def test_without_logical_now_it_is_the_whole_predicate(text):
    result = split(text)
    assert result.row == (parse_predicate(text, SCHEMA),)
    assert result.bounds == ()
    assert split_temporal(parse_predicate(text, SCHEMA), SCHEMA) == result


def test_python_expressions_may_say_it_too():
    written = (fn.logical_now() >= col("start")) & (fn.logical_now().between(col("i"), 7) | col("x").is_null())
    assert split(written) == split("logical_now() >= start AND (logical_now() BETWEEN i AND 7 OR x IS NULL)")


def test_what_is_wrong_without_logical_now_is_said_as_ever():
    with pytest.raises(TypeMismatchError, match="`v` is int; a condition must be boolean"):
        split("v")
    with pytest.raises(TypeMismatchError, match=r"AND: argument 1 \(`v`\) must be boolean"):
        split("v AND logical_now() < start")
    with pytest.raises(NonDeterministicError, match=r"logical_now\(\), the session's own time, in a filter"):
        split("now() < ts")


SPANS = "it is true in several spans of time, but a row exists in one span of time. Filter for each"
ALONE = "must be alone on its side; write"


@pytest.mark.parametrize(
    ("text", "term", "why"),
    [
        ("v > 0 AND logical_now() != start", "logical_now() != start", SPANS),
        ("NOT logical_now() = start", "NOT (logical_now() = start)", SPANS),
        ("logical_now() <=> start", "logical_now() <=> start", "use =, and"),
        ("logical_now() IS DISTINCT FROM start", "NOT (logical_now() <=> start)", "use =, and"),
        ("logical_now() < start OR logical_now() >= stop", "(logical_now() < start) OR (logical_now() >= stop)", SPANS),
        (
            "logical_now() < 3 OR logical_now() < stop",
            "logical_now() < 3",
            "one decides: write `logical_now() < greatest(",
        ),
        ("logical_now() < start OR b OR logical_now() >= stop", "OR (logical_now() >= stop)", SPANS),
        ("NOT logical_now() BETWEEN 1 AND 3", "NOT ((logical_now() >= 1) AND (logical_now() <= 3))", SPANS),
        (
            "logical_now() IN (1, 2)",
            "logical_now() IN (1, 2)",
            "a list of times is several spans, but a row exists in one",
        ),
        ("NOT logical_now() IN (1, 2)", "NOT (logical_now() IN (1, 2))", "all times but some are several spans"),
        ("3 IN (logical_now(), start)", "3 IN (logical_now(), start)", "stands inside `3 IN (logical_now(), start)`"),
        ("i >= logical_now() - v", "i >= (logical_now() - v)", f"{ALONE} `logical_now() <= i + v`"),
        ("logical_now() + v < i", "(logical_now() + v) < i", f"{ALONE} `logical_now() < i - v`"),
        ("v + logical_now() = i", "(v + logical_now()) = i", f"{ALONE} `logical_now() = i - v`"),
        ("i - logical_now() > 3 + v", "(i - logical_now()) > (3 + v)", f"{ALONE} `logical_now() < i - (3 + v)`"),
        ("NOT i - logical_now() < v", "NOT ((i - logical_now()) < v)", f"{ALONE} `logical_now() <= i - v`"),
        ("i <= (logical_now() - v) + x", "i <= ((logical_now() - v) + x)", f"{ALONE} `logical_now() >= (i - x) + v`"),
        ("ts >= logical_now() - interval 1 day", "ts >= (logical_now() -", f"{ALONE} `logical_now() <= ts + INTERVAL"),
        ("logical_now() * 2 < i", "(logical_now() * 2) < i", "logical_now() stands inside `logical_now() * 2`"),
        ("logical_now() + logical_now() < i", "(logical_now() + logical_now()) < i", "stands inside"),
        ("-logical_now() < i", "(-logical_now()) < i", "logical_now() stands inside `-logical_now()`"),
        ("abs(logical_now()) < i", "abs(logical_now()) < i", "logical_now() stands inside `abs(logical_now())`"),
        ("abs(logical_now() - 1) < i", "abs(logical_now() - 1) < i", "stands inside"),
        ("CAST(logical_now() AS double) < d", "CAST(logical_now() AS double) < d", "stands inside"),
        ("CASE WHEN logical_now() < 3 THEN b END", "CASE WHEN logical_now() < 3 THEN b END", "stands inside"),
        ("if(b, logical_now() < 3, c)", "if(b, logical_now() < 3, c)", "stands inside"),
        ("coalesce(logical_now() < stop, true)", "coalesce(logical_now() < stop, true)", "stands inside"),
        (
            "(logical_now() < stop) = b",
            "(logical_now() < stop) = b",
            "logical_now() stands inside `logical_now() < stop`",
        ),
        ("(logical_now() < stop) IS TRUE", "(logical_now() < stop) <=> true", "use =, and"),
        ("logical_now() IS NULL", "logical_now() IS NULL", "stands inside"),
        ("logical_now() < logical_now()", "logical_now() < logical_now()", "with itself"),
        ("logical_now() - start < logical_now()", "(logical_now() - start) < logical_now()", "with itself"),
        ("logical_now()", "logical_now()", "it is a bigint, not a condition"),
        ("logical_now() AND b", "logical_now()", "not a condition; compare it, as in logical_now() < stop"),
        ("b OR (c OR logical_now())", "logical_now()", "not a condition; compare it, as in logical_now() < stop"),
        ("b AND NOT logical_now()", "logical_now()", "not a condition; compare it, as in logical_now() < stop"),
        ("logical_now() < stop AND logical_now() + v", "logical_now() + v", "it is a bigint, not a condition; compare"),
        (
            "NOT b AND logical_now() < d",
            "logical_now() < d",
            "`d` is double: write `logical_now() < CAST(ceil(d) AS bigint)`",
        ),
        ("logical_now() < f", "logical_now() < f", "`f` is float: write `logical_now() < CAST(ceil(f) AS bigint)`"),
        ("logical_now() < n", "logical_now() < n", "`n` is decimal(10,2): write `logical_now() < CAST(ceil(n) AS"),
        ("logical_now() < t", "logical_now() < t", "`t` is string: write CAST(t AS bigint)"),
        ("logical_now() < '5'", "logical_now() < '5'", "`'5'` is string: write CAST('5' AS bigint)"),
        ("logical_now() < 1.5", "logical_now() <", "write `logical_now() < 2`"),
        ("logical_now() = -1.5", "logical_now() =", "write `logical_now() BETWEEN -1 AND -2`"),
        ("logical_now() < 9223372036854775808", "logical_now() <", "compare it with a whole number below 2^63"),
        ("logical_now() < ts", "logical_now() < ts", "unix_seconds(ts), unix_millis(ts) or unix_micros(ts)"),
        ("logical_now() < ntz", "logical_now() < ntz", "unix_seconds(ntz), unix_millis(ntz) or unix_micros(ntz)"),
        ("logical_now() < day", "logical_now() < day", "unix_date(day)"),
        ("logical_now() < b", "logical_now() < b", "`b` is boolean: compare it with a number"),
        ("logical_now() < xs", "logical_now() < xs", "`xs` is array<int>: compare it with a number"),
    ],
)
def test_what_is_no_bound_is_refused_with_the_term_and_the_reason(text, term, why):
    with pytest.raises(TemporalPredicateError) as caught:
        split(text)
    message = str(caught.value)
    assert re.match(r"`.*` cannot bound the times at which a row exists: ", message)
    assert term in message.partition("` cannot bound")[0]
    assert why in message
    assert text in message


@pytest.mark.parametrize("name", ["seconds", "millis", "micros"])
def test_remedies_name_functions_that_exist(name):
    assert split(f"logical_now() < unix_{name}(ts) AND logical_now() >= unix_{name}(ntz)").bounds
    assert split("logical_now() < unix_date(day) AND logical_now() >= CAST(n AS bigint)").bounds


ELSEWHERE = r"logical_now\(\) belongs in the predicate of a filter"


@pytest.mark.parametrize("compile_", [parse, parse_predicate, parse_projection, parse_order, parse_aggregate])
@pytest.mark.parametrize("text", ["logical_now()", "logical_now() < start", "logical_now() + v", "LOGICAL_NOW(1)"])
def test_it_stands_in_a_filter_only(compile_, text):
    with pytest.raises(TemporalPredicateError, match=ELSEWHERE) as caught:
        compile_(text, SCHEMA)
    assert "a column that holds the time; filter before" in str(caught.value)


@pytest.mark.parametrize("text", ["sum(logical_now())", "count(*) FILTER (WHERE logical_now() < start)"])
def test_it_stands_in_no_aggregate(text):
    with pytest.raises(TemporalPredicateError, match=ELSEWHERE):
        parse_aggregate(text, SCHEMA)


def test_it_stands_in_no_lambda_and_takes_no_argument():
    with pytest.raises(TemporalPredicateError, match=ELSEWHERE):
        split("exists(xs, e -> logical_now() < e)")
    with pytest.raises(TemporalPredicateError, match=r"logical_now\(\) takes no argument"):
        split("logical_now(v) < start")


def test_it_is_never_folded_or_evaluated_by_itself():
    assert not registry.function("logical_now").fold
    with pytest.raises(TemporalPredicateError):
        call("logical_now", [])


# The oracle: at every time, the predicate with that time in the place of logical_now() is true where the parts are.

ATOMS = ["logical_now()", "start", "stop", "v", "3", "v + x", "v % x", "NULL"]
CONDITIONS = ["b", "c", "x IS NULL", "v > 1", "v % x = 0", "start < stop", "true", "NULL"]
SYMBOLS = ["=", "!=", "<", "<=", ">", ">="]


def random_predicate(draw: random.Random, depth: int) -> str:
    kind = draw.random()
    if depth == 0 or kind < 0.3:
        if draw.random() < 0.4:
            return draw.choice(CONDITIONS)
        if draw.random() < 0.2:
            return f"logical_now() BETWEEN {draw.choice(ATOMS[1:])} AND {draw.choice(ATOMS[1:])}"
        sides = ["logical_now()", draw.choice(ATOMS[1:])]
        draw.shuffle(sides)
        return f"{sides[0]} {draw.choice(SYMBOLS)} {sides[1]}"
    if kind < 0.45:
        return f"NOT ({random_predicate(draw, depth - 1)})"
    word = "AND" if kind < 0.8 else "OR"
    return f"({random_predicate(draw, depth - 1)}) {word} ({random_predicate(draw, depth - 1)})"


RANGE = [None, 0, 1, 2, 3, 4]


def random_rows(draw: random.Random, count: int = 120) -> Rows:
    def drawn(values, type_):
        return pa.array([draw.choice(values) for _ in range(count)], type_)

    kinds = {"v": pa.int32(), "x": pa.int32(), "start": pa.int64(), "stop": pa.int64()}
    columns = {n: drawn(RANGE, k) for n, k in kinds.items()} | {n: drawn([None, True, False], pa.bool_()) for n in "bc"}
    return Rows.from_batch(pa.table(columns))


def truth(expr, rows):
    """Rows on which it is true, and rows on which it fails."""
    result = expr.evaluate(rows)
    true = np.asarray(result.values.fill_null(False))
    return true, np.zeros(rows.count, bool) if result.failed is None else result.failed


def holds(predicate, rows, time):
    """Rows that exist at a time, and rows on which some part fails."""
    exists, failed = np.ones(rows.count, bool), np.zeros(rows.count, bool)
    for part in predicate.row:
        true, bad = truth(part, rows)
        failed |= bad & exists
        exists &= true
    for bound in predicate.bounds:
        value = bound.value
        compared = call({"lower": ">=", "upper": "<"}[bound.kind], [literal(time, T.LONG), value])
        if bound.after:
            compared = call({"lower": ">", "upper": "<="}[bound.kind], [literal(time, T.LONG), value])
        true, bad = truth(compared if bound.unless is None else call("or", [bound.unless, compared]), rows)
        failed |= bad & exists
        exists &= true
    return exists & ~failed, failed


def test_parts_say_what_the_predicate_says_at_every_time():
    draw = random.Random(11)
    rows = random_rows(draw)
    split_up = bounded = 0
    for _ in range(400):
        text = random_predicate(draw, 3)
        try:
            predicate = split(text)
        except TemporalPredicateError:
            continue
        split_up += 1
        bounded += len(predicate.bounds)
        for time in range(-1, 6):
            wanted, wrong = truth(parse_predicate(text.replace("logical_now()", f"{time}L"), SCHEMA), rows)
            actual, failed = holds(predicate, rows, time)
            clean = ~wrong & ~failed
            assert (actual == wanted)[clean].all(), f"{text} at {time}"
    assert split_up > 150
    assert bounded > 150


def test_the_times_of_a_row_are_those_between_its_bounds():
    """The vectors of Materialize: the intervals (a, b) of ``logical_now() BETWEEN a AND b``."""
    top = 2**63 - 2
    pairs = [(1, 10), (1, 2), (2, 13), (3, 1), (0, 10), (5, top)]
    rows = Rows.from_batch(pa.table({"start": [a for a, _ in pairs], "stop": [b for _, b in pairs]}))
    predicate = split("logical_now() BETWEEN start AND stop")
    seen = {
        2: [(1, 10), (1, 2), (2, 13), (0, 10)],
        3: [(1, 10), (2, 13), (0, 10)],
        11: [(2, 13), (5, top)],
        14: [(5, top)],
        top: [(5, top)],
    }
    for time, there in seen.items():
        actual, failed = holds(predicate, rows, time)
        assert not failed.any()
        assert list(itertools.compress(pairs, actual)) == there, time
