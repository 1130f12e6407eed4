"""Programs of whole numbers: what they make of rows is what the expressions make of them, node by node."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

import altneu as an
from altneu.columnar.rows import Rows
from altneu.expressions.parse import parse
from altneu.linear import BoundLogic, Extend, Filter, Project
from altneu.operators.linear import logic as evaluation
from altneu.operators.linear.words import program_of, run_program
from altneu.trace.update import Updates

SCHEMA = pa.schema(
    [("t", pa.int8()), ("s", pa.int16()), ("i", pa.int32()), ("n", pa.int64()), ("d", pa.date32()), ("x", pa.string())]
)
NUMBERS = ["t", "s", "i", "n", "0", "1", "-1", "3", "cast(i as bigint)", "9223372036854775807L", "2147483647"]
ENDS = [0, 1, -1, 2, -3, 7]


def number(rng, depth):
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(NUMBERS)
    if rng.random() < 0.1:
        return f"(- {number(rng, depth - 1)})"
    if rng.random() < 0.1:
        return f"{rng.choice(['least', 'greatest'])}({number(rng, depth - 1)}, {number(rng, depth - 1)}, n)"
    return f"({number(rng, depth - 1)} {rng.choice(['+', '-', '*', '%', 'div'])} {number(rng, depth - 1)})"


def truth(rng, depth):
    if depth == 0 or rng.random() < 0.4:
        if rng.random() < 0.1:
            return f"({number(rng, depth)} is {rng.choice(['null', 'not null'])})"
        if rng.random() < 0.1:
            return f"(d {rng.choice(['<', '='])} date'1970-01-02')"
        return f"({number(rng, depth)} {rng.choice(['=', '!=', '<', '<=', '>', '>=', '<=>'])} {number(rng, depth)})"
    if rng.random() < 0.2:
        return f"(not {truth(rng, depth - 1)})"
    return f"({truth(rng, depth - 1)} {rng.choice(['and', 'or'])} {truth(rng, depth - 1)})"


def filled(rng, name):
    """A column, or what a column is where another has a value."""
    return name if rng.random() < 0.7 else f"case when {rng.choice(SCHEMA.names)} is not null then {name} end"


def logic_of(rng):
    steps, schema = [], SCHEMA
    for place in range(rng.randint(1, 3)):
        match rng.randrange(3):
            case 0:
                step = Filter(parse(truth(rng, 2), schema))
            case 1:
                step = Extend(((f"e{place}", parse(number(rng, 2), schema)),))
            case _:
                kept = [(name, parse(filled(rng, name), schema)) for name in SCHEMA.names]
                step = Project((*kept, (f"p{place}", parse(number(rng, 2), schema))))
        steps.append(step)
        schema = step.output(schema)
    return BoundLogic(tuple(steps))


def rows_of(rng, *, nulls, far):
    columns = []
    count = rng.choice([1, 2, 9])
    for field in SCHEMA:
        if field.type == pa.string():
            columns.append(pa.array([None if nulls and rng.random() < 0.1 else str(i) for i in range(count)]))
            continue
        limit = 1 << (field.type.bit_width - 1)
        some = [*ENDS, limit - 1, -limit] if far and field.name != "d" else ENDS
        values = [None if nulls and rng.random() < 0.1 else rng.choice(some) for _ in range(count + 2)]
        whole = pa.array(values, pa.int64()).cast(pa.int32() if field.name == "d" else field.type)
        columns.append(whole.cast(field.type)[2:])
    times = np.arange(2 * count, dtype=np.int64).reshape(2, count)
    return Updates(Rows(SCHEMA, tuple(columns), count), times, np.arange(1, count + 1, dtype=np.int64))


def shown(updates):
    return updates.rows.schema, updates.rows.to_pylist(), updates.times.tolist(), updates.diffs.tolist()


@pytest.mark.parametrize(("nulls", "far"), [(False, False), (False, True), (True, False)])
def test_a_program_makes_what_expressions_make(nulls, far, monkeypatch):
    rng, answered = random.Random(f"{nulls}{far}"), 0
    for _ in range(200):
        logic, updates = logic_of(rng), rows_of(rng, nulls=nulls, far=far)
        made = run_program(logic, updates)
        if made is None:
            continue
        answered += 1
        with monkeypatch.context() as patch:
            patch.setattr(evaluation, "run_program", lambda *_: None)
            wanted, errors = evaluation.run_logic(logic, updates)
        assert not len(errors), logic
        assert shown(made) == shown(wanted), logic
    assert answered > 30


def test_what_is_not_of_whole_numbers_has_no_program():
    for text in ("length(x) = 1", "n / 2 > 1", "coalesce(n, i) = 1", "x is null", "n = null", "x = '1'"):
        assert program_of(BoundLogic((Filter(parse(text, SCHEMA)),)), SCHEMA) is None
    assert program_of(BoundLogic((Project((("n", parse("n", SCHEMA)),)),)), SCHEMA) is None
    assert program_of(BoundLogic((Filter(parse("n % 2 = 0", SCHEMA)),)), SCHEMA) is not None


def test_columns_that_are_chosen_where_others_have_values_are_chosen_at_once():
    outputs = [("x", parse("case when n is not null then x end", SCHEMA)), ("n", parse("n", SCHEMA))]
    logic, values = BoundLogic((Project(tuple(outputs)),)), {"x": ["a", None, "c"], "n": [1, 2, 3]}
    nothing = {name: [None] * 3 for name in SCHEMA.names}
    for n, wanted in (([1, 2, 3], [("a", 1), (None, 2), ("c", 3)]), ([1, None, 3], None)):
        rows = Rows.from_pydict({**nothing, **values, "n": n}, SCHEMA)
        made = run_program(logic, Updates(rows, np.zeros((1, 3), np.int64), np.ones(3, np.int64)))
        assert (None if made is None else made.rows.to_pylist()) == wanted


def test_a_row_that_fails_is_an_error_row_and_one_that_was_rejected_before_is_not():
    rows = an.source("rows", "n bigint, m bigint")
    with an.Session() as session:
        view = session.maintain("view", rows.filter("m <> 0").select("n", q="n div m"))
        failing = session.maintain("failing", rows.select("n", q="n div m"))
        session.insert("rows", [(7, 2), (7, 0), (-7, 2)])
        session.advance()
        assert sorted(view.to_pylist()) == [(-7, -3), (7, 3)]
        assert len(failing.errors().to_pylist()) == 1
