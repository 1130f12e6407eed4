"""Expressions for the optimiser: what is split, shared and simplified gives the same values and the same failures."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from altneu import types as T
from altneu.columnar.rows import Rows
from altneu.expressions import (
    Call,
    Column,
    Expr,
    Literal,
    conjuncts,
    literal,
    parse,
    parse_predicate,
    replace_subexpressions,
    shared_subexpressions,
    simplify,
)
from altneu.expressions.sharing import rebuilt
from tests.expressions import cases, values

SCHEMA = T.parse_schema(
    "a int, b int, c int not null, l long, p boolean, q boolean, r boolean not null, t string, "
    "xs array<int>, ys array<int> not null"
)
TOP = 2**31 - 1


def expr(text):
    return parse(text, SCHEMA)


def shared(*texts, unsure=()):
    return [e.sql for e in shared_subexpressions([expr(t) for t in texts], unsure)]


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["c + 1", "c + 1"], ["c + 1"]),
        (["(c + 1) * (c + 1)"], ["c + 1"]),
        (["c + 1", "c + 2"], []),
        (["c", "c", "5", "5"], []),
        (["l + c", "l - c"], []),  # the cast of c is no work
        (["array(1, 2)", "array(1, 2)"], []),
        (["upper(t)", "length(upper(t))", "upper(t) = 'X'"], ["upper(t)"]),
        # the greatest only, unless a part occurs elsewhere; inner ones first
        (["(c + 1) * 2", "(c + 1) * 2"], ["(c + 1) * 2"]),
        (["(c + 1) * 2", "(c + 1) * 2 - 1", "c + 1"], ["c + 1", "(c + 1) * 2"]),
        (["(c + 1) * (c + 1)", "-((c + 1) * (c + 1))"], ["c + 1", "(c + 1) * (c + 1)"]),
        # a branch that a row may not take
        (["if(p, c + 1, 0)", "if(p, c + 1, 1)"], []),
        (["if(p, c + 1, 0)", "c + 1"], []),
        (["c + 1", "if(p, c + 1, 0)"], ["c + 1"]),
        (["case when a > 0 then 1 end", "case when a > 0 then 2 end"], ["a > 0"]),
        (["if(c + 1 > 0, c + 1, 0)"], ["c + 1"]),
        (["coalesce(a, c + 1)", "coalesce(b, c + 1)"], []),
        (["coalesce(a + 1, 0)", "coalesce(a + 1, 1)"], ["a + 1"]),
        (["p and c % b > 1", "q and c % b > 1"], []),
        (["c % b > 1 and p", "c % b > 1 and q"], ["(c % b) > 1"]),
        (["p or c % b > 1", "q or c % b > 1"], []),
        (["nvl2(a, c + 1, 0)", "nvl2(b, c + 1, 0)"], []),
        # what cannot fail may stand anywhere
        (["if(p, upper(t), 'x')", "if(p, upper(t), 'y')"], ["upper(t)"]),
        (["if(p, upper(cast(c + 1 as string)), t)", "if(q, upper(cast(c + 1 as string)), t)"], []),
        # a null hides what is evaluated after it
        (["a * (b + 1)", "c * (b + 1)"], []),
        (["c * (b + 1)", "a * (b + 1)"], ["b + 1"]),
        (["(b + 1) * a", "(b + 1) * c"], ["b + 1"]),
        (["a < b + 1", "c < b + 1"], []),
        (["c < b + 1", "a < b + 1"], ["b + 1"]),
        (["a in (b + 1, 2)", "c in (b + 1, 2)"], []),
        (["c in (b + 1, 2)", "a in (b + 1, 2)"], ["b + 1"]),
        (["c in (2, b + 1)", "a in (2, b + 1)"], []),
        (["(b + 1) % a", "(b + 1) % c"], []),  # the divisor is evaluated first
        (["(b + 1) % c", "(b + 1) % a"], ["b + 1"]),
        (["b % (a + 1)", "c % (a + 1)"], ["a + 1"]),
        (["greatest(a, b + 1)", "greatest(b + 1, c)"], ["b + 1"]),
        # lambdas
        (["transform(xs, x -> x + (b + 1))", "transform(ys, x -> x + (b + 1))"], []),
        (["transform(xs, x -> x + b)", "size(transform(xs, x -> x + b))"], ["transform(xs, x -> x + b)"]),
        (["aggregate(xs, b + 1, (s, x) -> s + x)", "aggregate(ys, b + 1, (s, x) -> s - x)"], []),
        (["aggregate(ys, b + 1, (s, x) -> s + x)", "aggregate(xs, b + 1, (s, x) -> s - x)"], ["b + 1"]),
    ],
)
def test_what_is_shared(texts, found):
    assert shared(*texts) == found


def test_an_expression_that_some_rows_do_not_evaluate_shares_what_cannot_fail():
    texts = ("upper(t) = 'A' and c + 1 > 2", "upper(t) = 'B'", "c + 1")
    assert shared(*texts) == ["upper(t)"]
    assert shared("c + 1 > 2", "c + 1", unsure={0}) == []
    assert shared("c + 1 > 2", "c + 1", unsure={1}) == ["c + 1"]
    assert shared("upper(t) = 'B'", "upper(t)", unsure={0, 1}) == ["upper(t)"]


def test_the_outermost_part_is_replaced_also_inside_lambdas():
    new = {expr("b + 1"): Column("#0", T.INT), expr("(b + 1) * 2"): Column("#1", T.INT)}
    for text, after in (
        ("(b + 1) * 2 + (b + 1)", "`#1` + `#0`"),
        ("transform(xs, x -> x + (b + 1))", "transform(xs, x -> x + `#0`)"),
        ("if(p, b + 1, (b + 1) * 2)", "if(p, `#0`, `#1`)"),
        ("l + (b + 1)", "l + CAST(`#0` AS bigint)"),
    ):
        assert replace_subexpressions(expr(text), new).sql == after


def test_what_is_not_touched_is_the_same_object():
    for text in ("a + l", "transform(xs, x -> x + b)", "p and a > 0"):
        whole = expr(text)
        assert replace_subexpressions(whole, {expr("b * 3"): expr("b")}) is whole
        assert simplify(whole) is whole


def test_replacing_keeps_track_of_nulls():
    whole = expr("c + 1")
    assert not whole.nullable
    assert replace_subexpressions(whole, {expr("c"): expr("a")}).nullable
    assert not rebuilt(whole, whole.args).nullable


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a > 0", ["a > 0"]),
        ("a > 0 and (b > 0 and p) and q", ["a > 0", "b > 0", "p", "q"]),
        ("a between 1 and 2", ["a >= 1", "a <= 2"]),
        ("a > 0 or b > 0", ["(a > 0) OR (b > 0)"]),
        ("not (p or q or not r)", ["NOT p", "NOT q", "r"]),
        ("not not (p and q)", ["p", "q"]),
        ("not (p and q)", ["NOT (p AND q)"]),
        ("true", []),
        ("p and true and not false", ["p"]),
        ("p and false", ["p", "false"]),
        ("if(p, q, r) and p", ["if(p, q, r)", "p"]),
    ],
)
def test_conjuncts(text, parts):
    assert [e.sql for e in conjuncts(expr(text))] == parts


SIMPLER = [
    ("true and p", "p"),
    ("p and true", "p"),
    ("false and c % b > 0", "false"),
    ("c % b > 0 and false", "((c % b) > 0) AND false"),  # the failures of the left side stay
    ("c % b > 0 and false and a % b > 0", "((c % b) > 0) AND false"),
    ("p and false", "false"),
    ("p and q and false and c % b > 0", "false"),
    ("p and p", "p"),
    ("p and (q and (p and q))", "p AND q"),
    ("p and c % b > 0 and p and c % b > 0", "p AND ((c % b) > 0)"),
    ("p and null", "p AND CAST(NULL AS boolean)"),
    ("null and false", "false"),
    ("false or p", "p"),
    ("p or true", "true"),
    ("true or c % b > 0", "true"),
    ("c % b > 0 or true", "((c % b) > 0) OR true"),
    ("p or q or p or false", "p OR q"),
    ("p and (q or q) and (true or r)", "p AND q"),
    ("not not p", "p"),
    ("not not not p", "NOT p"),
    ("not not (p and q) and p", "p AND q"),
    ("not true", "false"),
    ("if(true, a, c % b)", "a"),
    ("if(false, c % b, a)", "a"),
    ("if(null, c % b, a)", "a"),
    ("if(1 > 2 or not true, c % b, a)", "a"),
    ("case when false then a when p then b end", "CASE WHEN p THEN b END"),
    ("case when p then a when true then b else c end", "CASE WHEN p THEN a ELSE b END"),
    ("case when p then a when true then b when q then c end", "CASE WHEN p THEN a ELSE b END"),
    ("case when false then a end", "CAST(NULL AS int)"),
    ("case when false then xs end", "CAST(NULL AS array<int>)"),
    ("coalesce(null, a, null, b)", "coalesce(a, b)"),
    ("coalesce(a, 1, b)", "coalesce(a, 1)"),
    ("coalesce(null, a)", "a"),
    ("coalesce(c, a)", "c"),
    ("coalesce(a, c, b)", "coalesce(a, c)"),
    ("c is null", "false"),
    ("c is not null and p", "p"),
    ("c % b is null", "(c % b) IS NULL"),
    ("c + 1 is null", "(c + 1) IS NULL"),
    ("transform(xs, x -> if(true, x, b))", "transform(xs, x -> x)"),
    ("1 / 0 > 1", "(1.0D / 0.0D) > 1.0D"),
    ("a + b", "a + b"),
]


@pytest.mark.parametrize(("text", "after"), SIMPLER)
def test_simplify(text, after):
    whole = expr(text)
    simple = simplify(whole)
    assert simple.sql == after
    assert simple.type == whole.type
    assert simplify(simple) == simple


def test_constants_are_folded_after_substitution():
    whole = expr("if(b > 3, upper(t), lower(t)) = concat('x', cast(b + 1 as string))")
    assert simplify(whole.substitute({"b": literal(5)})).sql == "upper(t) = 'x6'"
    assert simplify(whole.substitute({"b": Literal(TOP, T.INT)})).can_fail, "b + 1 fails, and must go on to do so"
    assert simplify(expr("l + b").substitute({"b": literal(5)})).text == "l + 5"


# Laws, over random expressions.

INTS, BOOLS = ["a", "b", "c", "1", "0", "null", str(TOP)], ["p", "q", "r", "true", "false", "null"]


def random_int(draw: random.Random, depth: int) -> str:
    if depth == 0 or draw.random() < 0.15:
        return draw.choice(INTS)

    def i():
        return random_int(draw, depth - 1)

    def b():
        return random_bool(draw, depth - 1)

    kind = draw.randrange(14)
    if kind < 6:
        return f"({i()} {draw.choice(['+', '-', '*', '%', '&'])} {i()})"
    return [
        lambda: f"if({b()}, {i()}, {i()})",
        lambda: f"case when {b()} then {i()} when {b()} then {i()} end",
        lambda: f"case when {b()} then {i()} else {i()} end",
        lambda: f"coalesce({i()}, {i()}, {i()})",
        lambda: f"nvl2({i()}, {i()}, {i()})",
        lambda: f"greatest({i()}, {i()})",
        lambda: f"cast(({i()} + l) as int)",
        lambda: f"aggregate({draw.choice(['xs', 'ys'])}, cast({i()} as int), (s, x) -> s + x % cast({i()} as int))",
    ][kind - 6]()


def random_bool(draw: random.Random, depth: int) -> str:
    if depth == 0 or draw.random() < 0.15:
        return draw.choice(BOOLS)

    def i():
        return random_int(draw, depth - 1)

    def b():
        return random_bool(draw, depth - 1)

    kind = draw.randrange(11)
    if kind < 5:
        return f"({b()} {draw.choice(['and', 'or'])} {b()})"
    return [
        lambda: f"not ({b()})",
        lambda: f"({i()} {draw.choice(['=', '<', '>=', '!=', '<=>'])} {i()})",
        lambda: f"({i()} {draw.choice(['=', '<', '>=', '!=', '<=>'])} {i()})",
        lambda: f"({i()} in ({i()}, {i()}))",
        lambda: f"({i()} is {draw.choice(['', 'not'])} null)",
        lambda: f"if({b()}, {b()}, {b()})",
    ][kind - 5]()


def random_rows(draw: random.Random, count: int = 60) -> Rows:
    def drawn(values, type_):
        return pa.array([draw.choice(values) for _ in range(count)], type_)

    some = [0, 1, 2, -1, TOP]
    lists = [[], [1], [0, 2], [None, 3], [TOP, 1]]
    return Rows.from_batch(
        pa.table(
            {
                "a": drawn([None, *some], pa.int32()),
                "b": drawn([None, *some], pa.int32()),
                "c": drawn(some, pa.int32()),
                "l": drawn([None, 0, 5, 2**40], pa.int64()),
                "p": drawn([None, True, False], pa.bool_()),
                "q": drawn([None, True, False], pa.bool_()),
                "r": drawn([True, False], pa.bool_()),
                "t": drawn([None, "a", "B"], pa.string()),
                "xs": drawn([None, *lists], T.list_type(T.INT)),
                "ys": drawn(lists, T.list_type(T.INT)),
            }
        )
    )


def outcome(expr, rows):
    result = expr.evaluate(rows)
    failed = np.zeros(rows.count, bool) if result.failed is None else result.failed
    array = result.values
    if pa.types.is_temporal(array.type):  # Python's own dates end with the year 9999
        array = array.view(pa.int32() if array.type == T.DATE else pa.int64())
    return array.to_pylist(), failed


def random_expressions(draw, count):
    """Expressions that share parts: some are made of the text of others."""
    texts = []
    for _ in range(count):
        text = draw.choice([random_int, random_bool])(draw, draw.randrange(1, 5))
        numbers = [t for t in texts if expr(t).type == T.INT]
        if numbers and draw.random() < 0.6:
            text = f"({draw.choice(numbers)} {draw.choice(['+', '=', '%'])} {random_int(draw, 2)})"
        texts.append(text)
    return [expr(t) for t in texts]


def with_column(rows: Rows, name: str, part: Expr) -> tuple[Rows, np.ndarray]:
    """The rows with one more column, and those on which it failed."""
    result = part.evaluate(rows)
    table = {n: rows.column(n) for n in rows.schema.names} | {name: result.values}
    return Rows.from_batch(pa.table(table)), outcome(part, rows)[1]


def test_sharing_changes_no_value_and_no_failure():
    draw = random.Random(3)
    actual = failing = 0
    for _ in range(200):
        expressions = random_expressions(draw, 4)
        rows = random_rows(draw)
        before = [outcome(e, rows) for e in expressions]
        wrong = np.any([failed for _, failed in before], axis=0)
        columns, extended, failed = {}, rows, np.zeros(rows.count, bool)
        for number, part in enumerate(shared_subexpressions(expressions)):
            name = f"#{number}"
            extended, bad = with_column(extended, name, replace_subexpressions(part, columns))
            failed |= bad
            columns[part] = Column(name, part.type, part.nullable)
            actual += 1
            failing += part.can_fail
        after = [outcome(replace_subexpressions(e, columns), extended) for e in expressions]
        failed |= np.any([bad for _, bad in after], axis=0)
        shown = [e.sql for e in expressions]
        assert (failed == wrong).all(), shown
        for (old, _), (new, _), text in zip(before, after, shown, strict=True):
            assert [v for v, bad in zip(old, wrong, strict=True) if not bad] == [
                v for v, bad in zip(new, wrong, strict=True) if not bad
            ], text
    assert actual > 130
    assert failing > 80


def test_in_the_end_nothing_is_left_to_share():
    """Progress beside preservation: sharing again and again ends, and then no call that may be shared occurs twice."""
    draw = random.Random(4)
    for _ in range(100):
        expressions, names = random_expressions(draw, 4), iter(range(10_000))
        while parts := shared_subexpressions(expressions):
            columns = {}
            for part in parts:
                expressions = [*expressions, replace_subexpressions(part, columns)]
                columns[part] = Column(f"#{next(names)}", part.type, part.nullable)
            expressions = [replace_subexpressions(e, columns) for e in expressions]
        calls = [e for whole in expressions for e in calls_of(whole)]
        assert all(calls.count(c) == 1 or c.can_fail or not c.columns or c.implicit for c in calls)


def calls_of(expr):
    return [expr, *(c for a in expr.args for c in calls_of(a))] if isinstance(expr, Call) else []


CONSTANTS = {
    T.INT: [Literal(v, T.INT) for v in (None, 0, 1, -1, TOP)],
    T.LONG: [Literal(v, T.LONG) for v in (None, 0, 2**40)],
    T.BOOLEAN: [Literal(v, T.BOOLEAN) for v in (None, True, False)],
}


def test_simplify_keeps_every_value_and_every_failure():
    draw = random.Random(5)
    smaller = 0
    for _ in range(400):
        whole = draw.choice([random_int, random_bool])(draw, 4)
        result = expr(whole)
        names = draw.sample(["a", "b", "c", "l", "p", "q", "r"], draw.randrange(4))
        result = result.substitute({n: draw.choice(CONSTANTS[SCHEMA.field(n).type]) for n in names})
        simple = simplify(result)
        rows = random_rows(draw)
        (old, wrong), (new, failed) = outcome(result, rows), outcome(simple, rows)
        assert old == new, result.sql
        assert (wrong == failed).all(), result.sql
        assert simple.type == result.type
        assert result.nullable or not simple.nullable, result.sql
        assert not simple.can_fail or result.can_fail, result.sql
        assert simplify(simple) == simple, result.sql
        smaller += simple.sql != result.sql
    assert smaller > 130


def test_conjuncts_as_filters_keep_the_same_rows():
    draw = random.Random(6)
    parts_seen = 0
    for _ in range(300):
        text = " and ".join(f"({random_bool(draw, 3)})" for _ in range(draw.randrange(1, 4)))
        text = f"not (({text}) or {random_bool(draw, 2)})" if draw.random() < 0.3 else text
        result = parse_predicate(text, SCHEMA)
        rows = random_rows(draw)
        old, wrong = outcome(result, rows)
        passes, failed = np.ones(rows.count, bool), np.zeros(rows.count, bool)
        for part in conjuncts(result):
            values, bad = outcome(part, rows)
            failed |= bad & passes
            passes &= np.array([v is True for v in values]) & ~bad
            parts_seen += 1
        assert not (failed & ~wrong).any(), text
        assert ([v is True for v in old] == passes)[~wrong].all(), text
        assert not (passes & wrong).any(), "a row that failed is not kept"
    assert parts_seen > 500


def constant(draw: random.Random, field: pa.Field) -> tuple[object, Literal]:
    """A value of a column, as rows hold it and as a constant."""
    kept = values.special(field.type, field.name) if field.name != "small" else range(-4, 9)
    value = draw.choice([None, *kept])
    return value, Literal(None, field.type) if value is None else literal(value, field.type)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("group", cases.GROUPS)
def test_a_constant_gives_what_a_column_that_holds_it_gives(group):
    draw, table = random.Random(7), values.table(64)
    for number, text in enumerate(cases.GROUPS[group]):
        whole = parse(text, values.SCHEMA)
        if not whole.columns:
            continue
        chosen = draw.sample(sorted(whole.columns), draw.randint(1, len(whole.columns)))
        constants = {n: constant(draw, values.SCHEMA.field(n)) for n in chosen}
        columns = {n: table.column(n).combine_chunks() for n in table.schema.names}
        if number % 2:  # without nulls elsewhere
            columns = {n: c.take(pa.array([c.is_valid().index(True).as_py()] * 64)) for n, c in columns.items()}
        columns |= {n: pa.array([v] * 64, values.SCHEMA.field(n).type) for n, (v, _) in constants.items()}
        rows = Rows.from_batch(pa.table(columns, schema=values.SCHEMA))
        old, wrong = outcome(whole, rows)
        result = whole.substitute({n: c for n, (_, c) in constants.items()})
        for other in (result, simplify(result)):
            new, failed = outcome(other, rows)
            assert (failed == wrong).all(), f"{text} is not {other.sql}"
            assert repr(new) == repr(old), f"{text} is not {other.sql}"


def test_a_null_constant_beside_values_without_a_null():
    rows = Rows.from_pydict(
        {"c": [1, 2, 3], "ys": [[1], [], [2]]}, T.parse_schema("c int not null, ys array<int> not null")
    )
    for text in ("c >= cast(null as int)", "ys = cast(null as array<int>)", "(c is null) = cast(null as boolean)"):
        assert outcome(expr(text), rows)[0] == [None] * 3, text


def test_a_constant_that_fails_may_stand_anywhere():
    rows = Rows.from_pydict({"ys": [[1], [], [2, 3]]}, T.parse_schema("ys array<int> not null"))
    assert outcome(expr("aggregate(ys, greatest(1 % 0, 2), (s, x) -> s + x)"), rows)[1].all()


def test_folding_keeps_every_digit_of_a_decimal():
    nines = "9" * 28
    folded = expr(f"cast('{nines}.99' as decimal(38,2)) - cast('0.01' as decimal(38,2))")
    assert folded.value == Decimal(f"{nines}.98")
