"""Logic is a value: it composes, has an identity, and one slot for delays; both forms of ``join_function`` are one."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import altneu as an
from altneu import types as T
from altneu.collections.logic import Logic
from altneu.columnar.rows import Rows
from altneu.expressions.failing import never_fails
from altneu.linear import NEVER, BoundLogic, Delay, DelayFunction, Function, NotDelayed
from altneu.linear.asked import required_of
from altneu.plan.rewrite import optimise

SCHEMA = "a long, b long, at long"


def double(row):
    return (row.a, 2 * (row.b or 0), row.at)


def twice(row):
    return [(row.a, row.b, row.at)] * 2


def signed(row):
    return [((row.a, row.b, row.at), row.b or 0), ((0, 0, 0), -1)]


def timed(row):
    return [((row.a, row.b, row.at), row.at, 2), ((row.a, 1, row.at), (row.at or 0) + 3, -1)]


@an.arrow
def timed_batch(batch):
    """What ``timed`` says, for whole batches."""
    a, b, at = (batch.column(name) for name in ("a", "b", "at"))
    n = batch.num_rows
    ones = pa.array([1] * n, pa.int64())
    both = pa.table({"a": pa.concat_arrays([a, a]), "b": pa.concat_arrays([b, ones]), "at": pa.concat_arrays([at, at])})
    start = np.asarray(at.fill_null(0))
    return both, list(range(n)) * 2, [*start, *(start + 3)], [2] * n + [-1] * n


def late(time):
    return time + time // 4


PIECES = {
    "filter": an.logic.filter("b > 1"),
    "filter a function": an.logic.filter(lambda r: r.a is not None),
    "select": an.logic.select("a", "at", b="b + 1").select("a", "b", "at"),
    "map": an.logic.map(double, SCHEMA),
    "flat_map": an.logic.flat_map(twice, SCHEMA),
    "explode": an.logic.explode(signed, SCHEMA),
    "join_function": an.logic.join_function(timed, SCHEMA),
    "join_function of batches": an.logic.join_function(timed_batch, SCHEMA),
    "triples": an.logic.join_function(
        [({"a": "a", "b": "b", "at": "at"}, "at", "b"), ({"a": "b", "b": "a", "at": "at"}, None, -1)]
    ),
    "temporal": an.logic.temporal("at", "at + 4"),
    "temporal, never": an.logic.temporal(upper="b", null_upper="never"),
    "logical_now": an.logic.filter("a >= 0 and logical_now() > at and (logical_now() <= b or b is null)"),
    "delay by": an.logic.delay(by=2),
    "delay every": an.logic.delay(every=4),
    "delay with": an.logic.delay(late),
    "generate_series": an.logic.generate_series("a", "b", as_="s").select("a", "at", b="s").select("a", "b", "at"),
    "unnest": an.logic.unnest("array(a, b)", as_="x").select("a", "at", b="x").select("a", "b", "at"),
    "repeat_row": an.logic.repeat_row("b"),
    "repeat_row_non_negative": an.logic.repeat_row_non_negative("a"),
    "negate": an.logic.negate(),
    "fails": an.logic.select("a", "b", at="at div a").select("a", "b", "at"),
}


def random_logic(rng: random.Random, most: int = 4) -> Logic:
    result = Logic()
    for _ in range(rng.randint(0, most)):
        result = result.followed_by(PIECES[rng.choice(list(PIECES))])
    return result


def random_rows(rng: random.Random) -> list[tuple[int | None, ...]]:
    return [tuple(rng.choice([None, -1, 0, 1, 2, 3, 5]) for _ in range(3)) for _ in range(rng.randint(1, 4))]


def run_on(logic: Logic, rows, time: int, diff: int = 1):
    """The updates and the errors that rows become, each as counts."""
    updates, errors = logic.run(rows, SCHEMA, time=time, diff=diff)
    counts: Counter = Counter()
    for row, t, d in updates:
        counts[row, t] += d
    wrong: Counter = Counter()
    for row, t, d in errors:
        wrong[row["operator"], row["code"], row["row"], t] += d
    return {k: v for k, v in counts.items() if v}, {k: v for k, v in wrong.items() if v}


@pytest.mark.parametrize("seed", range(40))
def test_composition_is_associative_and_has_an_identity(seed):
    rng = random.Random(seed)
    a, b, c = (random_logic(rng) for _ in range(3))
    rows, time = random_rows(rng), rng.randint(0, 6)
    assert a.followed_by(b).followed_by(c) == a.followed_by(b.followed_by(c))
    assert Logic().followed_by(a) == a == a.followed_by(Logic())
    bound = [x.bind(SCHEMA) for x in (a, b, c)]
    left = bound[0].followed_by(bound[1]).followed_by(bound[2])
    assert left == bound[0].followed_by(bound[1].followed_by(bound[2]))
    assert BoundLogic().followed_by(left) == left == left.followed_by(BoundLogic())
    assert run_on(a.followed_by(b).followed_by(c), rows, time) == run_on(a.followed_by(b.followed_by(c)), rows, time)


@pytest.mark.parametrize("seed", range(60))
def test_logics_in_a_row_do_what_each_does_in_turn(seed):
    """The delay slot included: what the second one delays is what the first one has said of times."""
    rng = random.Random(seed)
    first, second = random_logic(rng), random_logic(rng)
    rows, time, diff = random_rows(rng), rng.randint(0, 6), rng.choice([1, 2, -1])
    updates, _ = first.run(rows, SCHEMA, time=time, diff=diff)
    parts: Counter = Counter()
    for row, t, d in updates:
        for one, n in run_on(second, [row], t, d)[0].items():
            parts[one] += n
    assert run_on(first.followed_by(second), rows, time, diff)[0] == {k: v for k, v in parts.items() if v}


@pytest.mark.parametrize("name", PIECES)
@pytest.mark.parametrize("seed", range(5))
def test_every_piece_is_linear(name, seed):
    """An update at a time with a diff is the same update at the first time and once, joined and multiplied."""
    rng = random.Random(seed)
    rows, time = random_rows(rng), rng.randint(0, 6)
    many = run_on(PIECES[name], rows, time, 3)
    parts: list[Counter] = [Counter(), Counter()]
    for row in rows:
        for total, found in zip(parts, run_on(PIECES[name], [row], time), strict=True):
            for key, n in found.items():
                total[key] += 3 * n
    assert many == tuple({k: v for k, v in total.items() if v} for total in parts)


def test_both_forms_of_join_function_give_the_same_updates():
    """By rows, by batches and by expressions."""
    later = ({"a": "a", "b": "1L", "at": "at"}, "coalesce(at, 0) + 3", -1)
    written = an.logic.join_function([({"a": "a", "b": "b", "at": "at"}, "coalesce(at, 0)", 2), later])
    for seed in range(30):
        rng = random.Random(seed)
        rows, time, diff = random_rows(rng), rng.randint(0, 6), rng.choice([1, -2])
        by_row = run_on(PIECES["join_function"], rows, time, diff)
        assert (
            by_row == run_on(PIECES["join_function of batches"], rows, time, diff) == run_on(written, rows, time, diff)
        )


def test_copies_from_a_time_until_another():
    """x copies of 2x from time 3x until 4x, for x from 0 to 9."""
    function = an.logic.join_function(lambda r: [(2 * r.x, 3 * r.x, r.x), (2 * r.x, 4 * r.x, -r.x)], "y long")
    written = an.logic.join_function([({"y": "2 * x"}, "3 * x", "x"), ({"y": "2 * x"}, "4 * x", "-x")])
    x = an.source("x", "x long")
    with an.Session(retain="all") as session:
        views = [session.maintain(str(i), x.join_function(logic)) for i, logic in enumerate((function, written))]
        session.insert("x", range(10))
        session.advance(to=40)
        for time in range(40):
            wanted = sorted([(2 * i,)] * i for i in range(10) if 3 * i <= time < 4 * i)
            for view in views:
                assert sorted(view.to_pylist(at=time)) == sorted(row for rows in wanted for row in rows)


TESTS = {
    "two": an.logic.filter("a > 0 and b < 3"),
    "may fail after": an.logic.filter("a >= 1 and at div b > 0"),
    "may fail before": an.logic.filter("at div b > 0 and a >= 1"),
    "either": an.logic.filter("(a > 1 or b is null) and not (at = 2 or at = 3)"),
    "one that fails": an.logic.filter("at div b > 0"),
    "a column": an.logic.select("a", "at", b="coalesce(b, a)").select("a", "b", "at"),
    "computed": an.logic.select("at", a="case when b > 1 then a end", b="a").select("a", "b", "at"),
    "until": an.logic.filter("a is not null and logical_now() < at"),
    "until and with it": an.logic.filter("logical_now() <= b and logical_now() < at + 1"),
    "until, or never": an.logic.temporal(upper="at", null_upper="never"),
    "until or": an.logic.filter("logical_now() < b or a = 1"),
}


@pytest.mark.parametrize("seed", range(200))
def test_of_rows_on_which_a_required_test_is_not_true_nothing_comes(seed):
    """No rows and no errors: Spark reads what passes alone."""
    rng = random.Random(seed)
    logic, values = Logic(), [None, -1, 0, 1, 2, 3, 5]
    if seed % 2:
        values.append(NEVER)  # up to which no series is made
    for _ in range(rng.randint(1, 3)):
        pieces = TESTS if seed % 2 or rng.random() < 0.6 else PIECES
        logic = logic.followed_by(pieces[rng.choice(list(pieces))])
    schema, time = T.parse_schema(SCHEMA), rng.randint(0, 4)
    required = required_of(logic.bind(SCHEMA), schema, rng.choice([time, None]))
    assert all(map(never_fails, required))
    rows = [tuple(rng.choice(values) for _ in range(3)) for _ in range(40)]
    passing = rows
    for test in required:
        kept = test.evaluate(Rows.from_pylist(passing, schema)).values.to_pylist()
        passing = [row for row, is_kept in zip(passing, kept, strict=True) if is_kept]
    assert run_on(logic, passing, time) == run_on(logic, rows, time)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("two", ["a > 0", "b < 3"]),
        ("may fail after", ["(a >= 1) OR (a IS NULL)"]),
        ("may fail before", []),
        ("either", ["(a > 1) OR (b IS NULL)", "NOT (at = 2)", "NOT (at = 3)"]),
        ("until", ["a IS NOT NULL", "at > 3L"]),
        ("until, or never", ["(at > 3L) OR (at IS NULL)"]),
        ("until or", ["(a = 1) OR (b > 3L)"]),
    ],
)
def test_what_is_required(name, wanted):
    found = required_of(TESTS[name].bind(SCHEMA), T.parse_schema(SCHEMA), 3)
    assert [test.text for test in found] == wanted


def test_what_is_required_of_columns_that_double_is_bounded():
    """Each column is computed of the one before twice: as text the last one would have 2^60 parts."""
    logic = Logic()
    for _ in range(60):
        logic = logic.followed_by(an.logic.select("b", "at", a="case when a > 1 then a else b end"))
    logic = logic.followed_by(an.logic.filter("a > 2 and at > 1"))
    found = required_of(logic.bind("a long, b long, at long"), T.parse_schema(SCHEMA))
    assert [test.text for test in found] == ["at > 1"]


def test_delays_compose():
    function = DelayFunction(Function.of(late))
    parts = [Delay(), Delay.by(3), Delay.by(0), Delay.every(5), Delay.every(1), Delay((function,))]
    times = np.array([0, 1, 4, 5, 9, NEVER])
    for a in parts:
        assert a.then(Delay()) == a == Delay().then(a)
        for b in parts:
            assert a.then(b).apply(times).tolist() == b.apply(a.apply(times)).tolist()
            for c in parts:
                assert a.then(b).then(c) == a.then(b.then(c))
    assert Delay.by(3).then(Delay.by(4)) == Delay.by(7)


@pytest.mark.parametrize(
    "delay",
    [
        Delay.by(NEVER - 3),
        Delay.every(NEVER - 1).then(Delay.by(2)),
        Delay((DelayFunction(Function.of(lambda t: t - 1)),)),
        Delay((DelayFunction(Function.of(lambda t: 10 - t)),)),
        Delay((DelayFunction(Function.of(lambda t: f"soon after {t}")),)),
        Delay((DelayFunction(Function.of(lambda t: 1 // (t - 4))),)),
    ],
)
def test_a_value_that_is_not_a_delay_is_refused(delay):
    with pytest.raises(NotDelayed):
        delay.apply(np.array([0, 4, 7]))


def test_a_delay_that_goes_back_is_an_error_row():
    updates, errors = an.logic.delay(lambda t: t if t < 3 else 0).run([(1, 1, 1)], SCHEMA, time=4)
    assert updates == []
    assert [(e["code"], t) for e, t, _ in errors] == [("DELAY", 4)]


def test_a_logic_acts_on_a_collection_as_its_verbs_do():
    events = an.source("events", SCHEMA)
    logic = an.logic.filter("b > 1").temporal("at", "at + 4").delay(by=1)
    chained = events.filter("b > 1").temporal("at", "at + 4").delay(by=1)
    applied = events.join_function(logic)
    assert optimise(applied.node).fingerprint == optimise(chained.node).fingerprint


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda e: e.temporal(), an.errors.PlanError),
        (lambda e: e.temporal("word"), an.errors.TypeMismatchError),
        (lambda e: e.temporal("at", null_upper="maybe"), an.errors.PlanError),
        (lambda e: e.delay(), an.errors.PlanError),
        (lambda e: e.delay(by=1, every=2), an.errors.PlanError),
        (lambda e: e.delay(by=-1), an.errors.PlanError),
        (lambda e: e.delay(every=0), an.errors.PlanError),
        (lambda e: e.delay(by=1.5), an.errors.PlanError),
        (lambda e: e.repeat_row("word"), an.errors.TypeMismatchError),
        (lambda e: e.unnest("at"), an.errors.TypeMismatchError),
        (lambda e: e.unnest("array(at)", as_="word"), an.errors.SchemaError),
        (lambda e: e.unnest("map(word, at)", as_=["k"]), an.errors.SchemaError),
        (lambda e: e.generate_series("word", 3), an.errors.TypeMismatchError),
        (lambda e: e.generate_series("date'2021-01-01'", "date'2021-02-01'", 3), an.errors.TypeMismatchError),
        (lambda e: e.generate_series(1, 3, as_="at"), an.errors.SchemaError),
        (lambda e: e.explode(enumerate), an.errors.PlanError),
        (lambda e: e.join_function(list), an.errors.PlanError),
        (lambda e: e.join_function([]), an.errors.PlanError),
        (lambda e: e.join_function([({"x": "at"}, "word", 1)]), an.errors.TypeMismatchError),
        (lambda e: e.join_function([({"x": "at"}, 1, 1), ({"y": "at"}, 1, 1)]), an.errors.SchemaError),
        (lambda e: e.join_function([({"x": "at"}, 1, 1), ({"x": "word"}, 1, 1)]), an.errors.TypeMismatchError),
        (lambda e: e.json("at", "x long"), an.errors.TypeMismatchError),
        (lambda e: e.json("none", "x long"), an.errors.UnknownColumnError),
        (lambda e: e.json("word", "at long"), an.errors.SchemaError),
        (lambda e: e.json("word", "x long", paths={"z": "a.b"}), an.errors.PlanError),
        (lambda e: e.map("at + 1", "x long"), an.errors.PlanError),
        (lambda e: e.join_function([({"y": "at"}, "at")]), an.errors.PlanError),
        (lambda e: e.join_function([("at", 0, 1)]), an.errors.PlanError),
        (lambda e: e.join_function({"y": "at"}), an.errors.PlanError),
        (lambda e: e.join_function("at"), an.errors.PlanError),
        (lambda e: e.join_function(7), an.errors.PlanError),
        (lambda e: e.generate_series(1, 3, as_=["n"]), an.errors.PlanError),
        (lambda _: an.logic.identity.followed_by("word"), an.errors.PlanError),
        (lambda _: an.windows.session_windows(an.logic.identity, "at", 5), an.errors.PlanError),
    ],
)
def test_what_makes_no_sense_is_refused_when_the_plan_is_built(make, error):
    with pytest.raises(error):
        make(an.source("events", "at long, word string"))


@pytest.mark.parametrize(
    ("fields", "unit", "error", "words"),
    [
        ("x long, late timestamp", "min", "PlanError", r"unit='min' .* field 'late' of type timestamp: .* 's', 'ms'"),
        (
            "late timestamp",
            {"late": "d"},
            "PlanError",
            r"unit='d' .* field 'late' of type timestamp: .* 's', 'ms', 'us'",
        ),
        (
            "days array<date>",
            {"days": "ms"},
            "PlanError",
            r"unit='ms' .* field 'days' of type array<date>: its units are 'd'",
        ),
        ("x long", "min", "PlanError", r"unit='min' .* field 'x' of type bigint: only dates .* leave it out"),
        ("x long, late timestamp", {"x": "ms"}, "PlanError", r"unit='ms' .* field 'x' of type bigint"),
        ("late timestamp", {"later": "ms"}, "UnknownColumnError", r"no column 'later' \(in unit\); .*: late"),
        ("x long, a interval day", "", "TypeMismatchError", r"field 'a': JSON is not read as interval.* as a string"),
        ("s struct<b: interval day>", "", "TypeMismatchError", r"field 's': JSON is not read as interval.* a string"),
        ("m map<int, int>", "", "TypeMismatchError", r"field 'm': JSON is not read as map.* a string"),
    ],
)
def test_fields_that_cannot_be_read_from_json_are_refused_by_name(fields, unit, error, words):
    with pytest.raises(getattr(an.errors, error), match=words):
        an.logic.json("word", fields, unit=unit)


def test_a_unit_is_that_of_the_fields_it_fits():
    every = an.logic.json("word", "day date, at timestamp, all struct<d: date>", unit="d")
    named = an.logic.json("word", "day date, at timestamp, all struct<d: date>", unit={"day": "d", "all": "d"})
    rows = ['{"day": 1, "at": "1970-01-02", "all": {"d": 2}}']
    assert every.run(rows, "word string") == named.run(rows, "word string")
    [((_, day, at, inner), _, _)] = every.run(rows, "word string")[0]
    assert (str(day), at.isoformat(), str(inner["d"])) == ("1970-01-02", "1970-01-02T00:00:00+00:00", "1970-01-03")


@pytest.mark.parametrize(
    ("rows", "schema", "words"),
    [
        ([("x",)], "x long", "row 0 for source 'run' has 'x' in column 'x', which is bigint"),
        ([1, {"x": 5}, {"y": 5}], "x long", "row 2 for source 'run' has 'y', which is not a column"),
        ([(1, 2)], "x long", "row 0 for source 'run' has 2 values for the 1 columns x"),
        ([(1,), 2], "x long, y long", "row 0 for source 'run' has 1 values for the 2 columns x, y"),
        ([None], "x long NOT NULL", "column 'x' of source 'run' is NOT NULL, but row 0 has a null there"),
    ],
)
def test_rows_that_do_not_fit_are_refused_as_inserts_are(rows, schema, words):
    with pytest.raises(an.errors.SchemaError, match=re.escape(words)):
        an.logic.identity.run(rows, schema)


def test_rows_to_run_on_take_every_form_of_a_row():
    oks, errors = an.logic.select("x", "-x as y").run([1, (2,), {"x": 3}, {}], "x long")
    assert ([row for row, _, _ in oks], errors) == ([(1, -1), (2, -2), (3, -3), (None, None)], [])
    assert an.logic.select("size(xs) as n").run([[1, 2], ([3],)], "xs array<long>")[0] == [((2,), 0, 1), ((1,), 0, 1)]


@pytest.mark.parametrize(
    ("function", "verb"),
    [("explode(xs)", '.explode("xs"'), ("posexplode(xs)", "ordinality="), ("inline(xs)", ".unnest(")],
)
def test_a_function_that_makes_rows_is_a_verb(function, verb):
    with pytest.raises(an.errors.UnsupportedFunctionError, match=re.escape(verb)):
        an.logic.select(function).bind("xs array<int>")
