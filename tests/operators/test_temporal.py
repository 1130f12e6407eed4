"""Temporal filters: known vectors, and at every time the filter with that time in the place of ``logical_now()``."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import TemporalPredicateError, ViewHasErrorsError

MAX = 2**63 - 1
LAST = MAX - 1  # the last time that can be closed

Updates = dict[tuple[tuple[object, ...], int], int]


def run(
    predicate: str, rows, schema: str, *, time: int = 0, diff: int = 1
) -> tuple[Updates, list[tuple[str, int, int]]]:
    """Consolidated updates, and the codes of errors with their times and diffs."""
    updates, errors = an.logic.filter(predicate).run(rows, schema, time=time, diff=diff)
    made: Counter = Counter()
    for row, at, n in updates:
        made[row, at] += n
    return {k: n for k, n in made.items() if n}, sorted((row["code"], at, n) for row, at, n in errors)


def at_time(updates: Updates, now: int) -> Counter:
    held: Counter = Counter()
    for (row, at), n in updates.items():
        if at <= now:
            held[row] += n
    return Counter({row: n for row, n in held.items() if n})


def changes(view) -> list[tuple[object, ...]]:
    return sorted((tuple(c.values()) for c in view.changes().to_pylist()), key=lambda c: (c[-2], str(c)))


# vectors --------------------------------------------------------------------------------------------------------------

INTERVALS = [(1, 10), (1, 2), (2, 13), (3, 1), (0, 10), (5, LAST)]
AS_OF = {
    2: [(0, 10), (1, 2), (1, 10), (2, 13)],
    3: [(0, 10), (1, 10), (2, 13)],
    11: [(2, 13), (5, LAST)],
    14: [(5, LAST)],
    LAST: [(5, LAST)],
}
BETWEEN = "logical_now() BETWEEN a AND b"


def test_the_table_of_intervals():
    updates, errors = run(BETWEEN, INTERVALS, "a long, b long")
    assert {now: sorted(at_time(updates, now)) for now in AS_OF} == AS_OF
    assert {row for row, _ in updates} == {*INTERVALS} - {(3, 1)}
    assert updates[(5, LAST), 5] == 1
    assert [at for row, at in updates if row == (5, LAST)] == [5]
    assert errors == []


def test_the_table_of_intervals_in_a_session():
    rows = an.source("rows", "a long, b long")
    with an.Session() as session:
        view = session.maintain("rows", rows.filter(BETWEEN))
        session.insert("rows", INTERVALS)
        for now, held in AS_OF.items():
            session.advance(to=now + 1)
            assert sorted(view.to_pylist()) == held


def test_an_interval_until_the_end_of_all_times_is_an_error_row():
    rows = an.source("rows", "a long, b long")
    assert run(BETWEEN, [(0, MAX), (0, LAST)], "a long, b long") == ({((0, LAST), 0): 1}, [("TIME_OVERFLOW", 0, 1)])
    with an.Session() as session:
        view = session.maintain("rows", rows.filter(BETWEEN))
        session.insert("rows", [(0, MAX), (0, 5)])
        session.advance(to=3)
        with pytest.raises(ViewHasErrorsError, match="TIME_OVERFLOW"):
            view.to_pylist()
        session.retract("rows", [(0, MAX)])
        session.advance(to=5)
        assert view.to_pylist() == [(0, 5)]
        session.advance(to=7)
        assert view.to_pylist() == []


@pytest.mark.parametrize(
    ("predicate", "updates", "errors"),
    [
        ("logical_now() < ts", {0: 1}, 0),  # never retracted
        ("logical_now() >= ts", {}, 0),  # never there: no frontier passes it
        ("logical_now() <= ts", {}, 1),
        ("logical_now() = ts", {}, 1),
        ("logical_now() > ts", {}, 1),
        ("ts >= logical_now()", {}, 1),
        ("ts > logical_now()", {0: 1}, 0),
    ],
)
def test_the_end_of_all_times(predicate, updates, errors):
    result, wrong = run(predicate, [(MAX,)], "ts long")
    assert at_time(result, LAST) == Counter({(MAX,): sum(updates.values())} if updates else {})
    assert {at: n for (_, at), n in result.items() if at < MAX} == updates
    assert wrong == [("TIME_OVERFLOW", 0, 1)] * errors


LATE = "logical_now() <= ts + 3600"


@pytest.mark.parametrize(
    ("time", "diff", "made"),
    [
        (0, 1, {0: 1, 3601: -1}),
        (3600, 1, {3600: 1, 3601: -1}),
        (3601, 1, {}),
        (10**9, 1, {}),
        (100, -1, {100: -1, 3601: 1}),
        (7, 3, {7: 3, 3601: -3}),
    ],
)
def test_what_comes_late_is_there_for_what_is_left(time, diff, made):
    updates, errors = run(LATE, [(0,)], "ts long", time=time, diff=diff)
    assert updates == {((0,), at): n for at, n in made.items()}
    assert errors == []


def test_late_rows_and_retractions_in_a_session():
    rows = an.source("rows", "name string, ts long")
    with an.Session() as session:
        view = session.maintain("rows", rows.filter(LATE))
        session.insert("rows", [("early", 0), ("taken back", 0), ("both", 0)])
        session.retract("rows", [("both", 0)])
        session.insert("rows", [("many", 0)], diff=3)
        session.advance(to=100)
        assert changes(view) == [("early", 0, 0, 1), ("many", 0, 0, 3), ("taken back", 0, 0, 1)]
        session.retract("rows", [("taken back", 0)])
        session.insert("rows", [("null", None)])
        session.insert("rows", [("in time", 0)], time=3600)
        session.insert("rows", [("too late", 0)], time=3601)
        session.advance(to=3601)
        assert changes(view) == [("taken back", 0, 100, -1), ("in time", 0, 3600, 1)]
        session.advance(to=4000)
        assert changes(view) == [("early", 0, 3601, -1), ("in time", 0, 3601, -1), ("many", 0, 3601, -3)]
        assert view.errors().num_rows == 0


def test_a_retraction_before_the_window_and_one_after_it():
    rows = an.source("rows", "a long, b long")
    with an.Session() as session:
        view = session.maintain("rows", rows.temporal("a", "b"))
        session.insert("rows", [(10, 20), (11, 20)])
        session.advance()
        session.retract("rows", [(10, 20)])
        session.advance(to=15)
        assert changes(view) == [(11, 20, 11, 1)]
        session.retract("rows", [(11, 20)], time=25)  # it has gone by itself
        session.advance(to=30)
        assert changes(view) == [(11, 20, 20, -1)]
        assert view.to_pylist() == []


def test_one_result_a_window_at_its_end():
    predicate = "logical_now() >= window_end AND logical_now() < window_end + 7"
    assert run(predicate, [(30,)], "window_end long") == ({((30,), 30): 1, ((30,), 37): -1}, [])


def test_future_changes_appear_at_their_time():
    rows = an.source("rows", "a long")
    with an.Session() as session:
        view = session.maintain("rows", rows.filter("logical_now() >= a and logical_now() < a + 10"))
        session.insert("rows", [5])
        answer = []
        for upper in (5, 6, 15, 16):
            session.advance(to=upper)
            answer.append(changes(view))
        assert answer == [[], [(5, 5, 1)], [], [(5, 15, -1)]]


@pytest.mark.parametrize("predicate", ["logical_now() < a", "logical_now() >= a", "logical_now() between 0 and a"])
def test_a_null_bound_excludes_the_row(predicate):
    assert run(predicate, [(None,)], "a long") == ({}, [])


def test_a_null_that_is_no_bound():
    rows, schema = [(0, None), (0, 5)], "a long, b long"
    wanted = {((0, None), 0): 1, ((0, 5), 0): 1, ((0, 5), 5): -1}
    assert run("logical_now() >= a and (logical_now() < b or b is null)", rows, schema) == (wanted, [])
    updates, errors = an.logic.temporal("a", "b", null_upper="never").run(rows, schema)
    assert ({(row, at): n for row, at, n in updates}, errors) == (wanted, [])


def test_expirations_after_a_long_pause_come_out_at_their_times():
    """Many distinct times, one step."""
    n = 100_000
    at = np.random.default_rng(1).permutation(n) * 7
    rows = an.source("rows", "at long, name string")
    with an.Session() as session:
        view = session.maintain("rows", rows.temporal("at", "at + 1000000"))
        session.insert("rows", pa.table({"at": at, "name": [f"row {i % 100}" for i in range(n)]}))
        session.advance(to=1)
        session.advance(to=10**15)
        result = view.changes()
    assert view.schema.names == ["at", "name"]
    assert result.num_rows == 2 * n - 1
    shift = np.where(result["diff"].to_numpy() > 0, 0, 1_000_000)
    assert (result["time"].to_numpy() == result["at"].to_numpy() + shift).all()
    assert result["diff"].to_numpy().sum() == -1


# the order in which things are asked ----------------------------------------------------------------------------------

FAILED = [("DIVIDE_BY_ZERO", 0, 1)]


@pytest.mark.parametrize(
    ("predicate", "row", "errors"),
    [
        ("logical_now() >= 10 div a", (0, 1), FAILED),
        ("logical_now() < 10 div a", (0, 1), FAILED),
        ("v > 5 and logical_now() >= 10 div a", (0, 1), []),  # a row that is rejected is asked nothing more
        ("logical_now() >= 10 div a and v > 5", (0, 1), []),
        ("logical_now() >= v and logical_now() >= 10 div a", (0, None), FAILED),  # a null excludes, yet asks on
        ("logical_now() < v and logical_now() < 10 div a", (0, None), FAILED),
        ("logical_now() >= v and logical_now() < 10 div a", (0, None), FAILED),
        ("logical_now() < 0 and logical_now() < 10 div a", (0, 1), []),  # closed: the others are not asked
        ("logical_now() < v and logical_now() < 10 div a", (0, 0), []),
        ("logical_now() < 10 div a and logical_now() < 0", (0, 1), FAILED),
        ("logical_now() < v and logical_now() < 10 div a and logical_now() >= 9223372036854775807", (0, 1), []),
        ("logical_now() >= 10 div a and logical_now() >= v + 9223372036854775807", (0, 1), FAILED),  # one error a row
        ("logical_now() < 10 div a or a = 0", (0, 1), []),
    ],
)
def test_which_errors_are_seen(predicate, row, errors):
    assert run(predicate, [row], "a long, v long")[1] == errors


def test_an_error_has_the_time_and_the_diff_of_its_row():
    predicate = "logical_now() >= 10 div a"
    assert run(predicate, [(0,)], "a long", time=7, diff=-2) == ({}, [("DIVIDE_BY_ZERO", 7, -2)])


# substitution ---------------------------------------------------------------------------------------------------------

SCHEMA = "a long, b long, v int"
VALUES = ["a", "b", "a + b", "3", "2 * a", "coalesce(b, 4)", "v", "cast(null as bigint)", "a - 6", "12 div v"]
CONDITIONS = ["v > 0", "a is null", "b <> 2", "a < b", "coalesce(v, 0) = 1", "12 div v > 3"]
OPERATORS = ["=", "<", "<=", ">", ">="]


def term(rng: random.Random) -> str:
    value, other, op = rng.choice(VALUES), rng.choice(VALUES), rng.choice(OPERATORS)
    comparison = rng.choice(
        [
            f"logical_now() {op} {value}",
            f"{value} {op} logical_now()",
            f"logical_now() between {value} and {other}",
            f"not (logical_now() {rng.choice(OPERATORS[1:])} {value})",
        ]
    )
    kind = rng.random()
    if kind < 0.25:
        return rng.choice(CONDITIONS)
    return f"({comparison} or {rng.choice(CONDITIONS)})" if kind < 0.4 else comparison


def random_row(rng: random.Random) -> tuple[int | None, ...]:
    return tuple(rng.choice([None, -3, -1, 0, 1, 2, 3, 5, 8, 13]) for _ in range(3))


def run_each(predicate: str, rows, *, time: int = 0, diff: int = 1) -> list[tuple[Updates, bool]]:
    """The updates of each of some rows, which are filtered together, and whether it is an error."""
    numbered = [(*row, i) for i, row in enumerate(rows)]
    updates, errors = an.logic.filter(predicate).run(numbered, f"{SCHEMA}, i int", time=time, diff=diff)
    made: list[Counter] = [Counter() for _ in rows]
    for (*row, i), at, n in updates:
        made[i][tuple(row), at] += n
    failed = {json.loads(error["row"])["i"] for error, _, _ in errors}
    return [({k: n for k, n in m.items() if n}, i in failed) for i, m in enumerate(made)]


@pytest.mark.parametrize("seed", range(150))
def test_at_every_time_it_is_the_filter_with_that_time(seed):
    """Of rows that make no error on either side: what is not evaluated for a row that has ended is not seen failing."""
    rng = random.Random(seed)
    predicate = " and ".join(term(rng) for _ in range(rng.randint(1, 4)))
    start, diff, compared = rng.randint(0, 6), rng.choice([1, 3, -1]), 0
    rows = [random_row(rng) for _ in range(6)]
    actual = run_each(predicate, rows, time=start, diff=diff)
    turns = {at for updates, _ in actual for _, at in updates}
    assert all(at >= start for at in turns)
    for now in sorted({t + d for t in turns for d in (-1, 0)} | {start, start + 1, 12, 40, LAST}):
        fixed = run_each(predicate.replace("logical_now()", f"{now}L"), rows, diff=diff)
        for row, (updates, errors), (substituted, failed) in zip(rows, actual, fixed, strict=True):
            if now >= start and not errors and not failed:
                assert at_time(updates, now) == at_time(substituted, 0), (predicate, row, now)
                compared += 1
    assert compared or "div" in predicate


@pytest.mark.parametrize("seed", range(8))
def test_so_it_is_in_a_session_at_every_time(seed):
    rng = random.Random(1_000 + seed)
    safe = [v for v in VALUES if "div" not in v]
    bounds = f"logical_now() >= {rng.choice(safe)} and {rng.choice(safe)} > logical_now()"
    predicate = f"{bounds} and {rng.choice(CONDITIONS[:5])}"
    history = [(*random_row(rng), rng.randint(0, 20), rng.choice([1, 1, 2, -1])) for _ in range(40)]
    rows = an.source("rows", SCHEMA)
    with an.Session(retain="all") as session:
        view = session.maintain("rows", rows.filter(predicate).count())
        for lower in range(0, 30, 10):
            part = [h for h in history if lower <= h[3] < lower + 10]
            session.insert("rows", part, time="time", diff="diff")
            session.advance(to=lower + 10)
        for now in range(30):
            wanted: Counter = Counter()
            there = Counter()
            for *row, at, diff in history:
                there[tuple(row)] += diff if at <= now else 0
            passed, _ = run(predicate.replace("logical_now()", f"{now}L"), [*there], SCHEMA)
            for kept, n in at_time(passed, 0).items():
                wanted[kept] += n * there[kept]
            assert {r[:-1]: r[-1] for r in view.to_pylist(at=now)} == {r: n for r, n in wanted.items() if n}


# what a refusal says to write instead ---------------------------------------------------------------------------------

WIDE = "a long, b long, c boolean, d double, n decimal(6,2)"
REFUSED = [
    *(f"logical_now() {op} {value}" for op in OPERATORS for value in ("d", "n", "1.5", "-0.5D", "CAST(d AS float)")),
    *(f"{value} {op} logical_now()" for op in OPERATORS for value in ("d", "n")),
    "NOT (logical_now() < d)",
    "NOT (logical_now() >= n)",
    *(f"logical_now() {op} a OR logical_now() {other} b" for op in OPERATORS for other in OPERATORS),
    "a > logical_now() OR c OR logical_now() <= b OR logical_now() < 3",
    "NOT (logical_now() < a AND c AND logical_now() <= b)",
    "logical_now() < a OR c OR logical_now() >= b",
    "logical_now() BETWEEN a AND b OR logical_now() BETWEEN 2 AND 5",
    "(logical_now() >= a AND c) OR logical_now() = 3",
    "logical_now() NOT BETWEEN a AND b",
    "NOT (logical_now() BETWEEN a AND b AND c)",
    "logical_now() != a",
    "logical_now() IN (a, b, 3, a)",
    "logical_now() IN (2, 2, 5)",
    "logical_now() NOT IN (3, 3, 5)",
]


def remedied(rows: an.Collection, predicate: str) -> an.Collection:
    """What the refusal of a filter says to write in its place."""
    try:
        return rows.filter(predicate)
    except TemporalPredicateError as error:
        remedy = str(error).partition(" cannot bound ")[2].partition(" [in ")[0]
    if found := re.search(r": (rows\.(?:filter|unnest|concat)\(.*\))", remedy):
        columns = ", ".join(map(repr, rows.columns))
        text = found[1].replace("select(…)", f"select({columns})")
        return eval(text, {"rows": rows})  # noqa: S307 -- of a message of ours
    return remedied(rows, re.search(r"write `(.*)`$", remedy)[1])


@pytest.mark.parametrize("predicate", REFUSED)
def test_the_remedy_of_a_refusal_is_the_filter_that_was_meant(predicate):
    with pytest.raises(TemporalPredicateError):
        an.logic.filter(predicate).bind(WIDE)
    rng = random.Random(predicate)
    numbers = [None, -3, 0, 1, 2, 3, 5, 8]
    parts = [None, -2.5, -0.5, 0.0, 1.5, 2.0, 3.25, 7.999]
    result = [
        (*rng.choices(numbers, k=2), rng.choice([None, True, False]), *rng.choices(parts, k=2), rng.choice([1, 2, -1]))
        for _ in range(60)
    ]
    result = [
        (a, b, c, d, None if n is None else Decimal(str(n)).quantize(Decimal("0.01")), k) for a, b, c, d, n, k in result
    ]
    rows = an.source("rows", WIDE)
    with an.Session(retain="all") as session:
        view = session.maintain("rows", remedied(rows, predicate).count("times"))
        session.insert("rows", [{**dict(zip("abcdn", r, strict=False)), "diff": r[-1]} for r in result], diff="diff")
        session.advance(to=12)
        for now in range(12):
            there = {
                row for row, _ in run(predicate.replace("logical_now()", f"{now}L"), [r[:-1] for r in result], WIDE)[0]
            }
            wanted: Counter = Counter()
            for *row, diff in result:
                wanted[tuple(row)] += diff * (tuple(row) in there)
            assert {r[:-1]: r[-1] for r in view.to_pylist(at=now)} == {r: n for r, n in wanted.items() if n}, now
