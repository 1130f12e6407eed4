"""The normal form of linear logic against the logic as it was written, row by row.

A row that the written logic passes or drops cleanly comes out the same; one that it makes an error may be anything.
"""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar.rows import Rows
from altneu.errors import DiffOverflowError
from altneu.expressions import parse
from altneu.expressions.temporal import Bound
from altneu.linear import (
    BoundLogic,
    Delay,
    Emit,
    Extend,
    Filter,
    FilterFunction,
    Function,
    GenerateSeries,
    JsonField,
    MapFunction,
    Negate,
    ParseJson,
    Project,
    RepeatRow,
    Temporal,
    Unnest,
    Update,
)
from altneu.linear.normal import normalise
from altneu.operators.linear.logic import run_logic
from altneu.trace.update import Updates
from altneu.types import parse_schema

LONG, TEXT, LIST = pa.int64(), pa.string(), pa.list_(pa.int64())
SCHEMA = parse_schema("a long, b long not null, s string, l array<bigint>")
NUMBERS = [None, 0, 1, 2, 3, -1, 7, 2**63 - 1, -(2**63)]
TEXTS = [None, "", "x", "7", "-1", '{"m": 1, "n": {"o": 2}, "t": "x"}', '{"m": 0, "t": null}', '{"m": "no"}', "{"]
LARGE = 2**62 + 1  # the product of two is no diff
LISTS = [None, [], [0], [1, None, 2]]


def row_of(rng):
    return (
        rng.choice(NUMBERS),
        rng.choice(NUMBERS[1:]),
        rng.choice(TEXTS),
        rng.choice(LISTS),
    )


# random logics ------------------------------------------------------------------------------------------------------


class Writer:
    """Writes random steps over the schema that the steps so far have made."""

    def __init__(self, rng, schema=SCHEMA):
        self.rng, self.schema, self.steps = rng, schema, []

    def names(self, kind):
        return [f"`{f.name}`" for f in self.schema if f.type == kind]

    def number(self, deep=2):
        leaves = [*self.names(LONG) * 2, "0L", "1L", "2L", "cast(null as bigint)", "5L"]
        if deep == 0 or self.rng.random() < 0.3:
            return self.rng.choice(leaves)
        x, y, p = self.number(deep - 1), self.number(deep - 1), self.condition(deep - 1)
        forms = [
            f"({x} + {y})",
            f"({x} * {y})",
            f"({x} div {y})",
            f"coalesce({x}, {y})",
            f"(case when {p} then {x} else {y} end)",
            f"pmod({x}, 5L)",
            f"nullif({x}, {y})",
        ]
        if self.names(TEXT):
            forms += [
                f"length({self.rng.choice(self.names(TEXT))})",
                f"cast({self.rng.choice(self.names(TEXT))} as bigint)",
            ]
        return f"cast({self.rng.choice(forms)} as bigint)"

    def factor(self):
        large = f"case when {self.condition(0)} then {LARGE}L else 1L end"
        return self.rng.choice([f"cast(pmod({self.number(1)}, 5L) - 2L as bigint)", large, "1L", "-1L", "0L", "3L"])

    def condition(self, deep=2):
        x, y = self.number(max(deep - 1, 0)), self.number(max(deep - 1, 0))
        if deep == 0 or self.rng.random() < 0.4:
            return self.rng.choice([f"({x} > {y})", f"({x} is null)", f"({x} <=> {y})", "true", f"({x} <= {y})"])
        p, q = self.condition(deep - 1), self.condition(deep - 1)
        return self.rng.choice([f"({p} and {q})", f"({p} or {q})", f"(not {p})", f"({p} and {q})"])

    def expression(self, text):
        return parse(text, self.schema)

    def outputs(self, most=4):
        kept = [(n, self.expression(f"`{n}`")) for n in self.schema.names if self.rng.random() < 0.5]
        result = [(f"c{i}", self.expression(self.number())) for i in range(self.rng.randint(0 if kept else 1, most))]
        taken = {n for n, _ in kept}
        return (*kept, *(o for o in result if o[0] not in taken))

    def free(self):
        return next(n for i in range(100) if (n := f"n{i}") not in self.schema.names)

    def bound(self):
        e = self.expression
        unless = e(self.condition(1)) if self.rng.random() < 0.2 else None
        kind = self.rng.choice(["lower", "upper"])
        return Bound(kind, e(self.number(1)), self.rng.random() < 0.3, unless, self.rng.random() < 0.3)

    def update(self):
        e, chance = self.expression, self.rng.random
        return Update(
            (("y", e(self.number())), ("z", e(self.number(1)))),
            e(self.number(1)) if chance() < 0.4 else None,
            e(self.factor()) if chance() < 0.4 else None,
            e(self.condition(1)) if chance() < 0.4 else None,
        )

    def step(self):
        e, rng = self.expression, self.rng
        delay = rng.choice([Delay(), Delay(), Delay.by(2)])
        match rng.choice(KINDS):
            case "filter":
                return Filter(e(self.condition()), tolerant=rng.random() < 0.15)
            case "project":
                return Project(self.outputs())
            case "extend":
                return Extend(((self.free(), e(self.number())),))
            case "temporal":
                return Temporal(tuple(self.bound() for _ in range(rng.randint(1, 2))), delay, rng.random() < 0.15)
            case "repeat":
                return RepeatRow(e(self.factor()), rng.random() < 0.3)
            case "negate":
                return Negate()
            case "emit":
                return Emit(tuple(self.update() for _ in range(rng.randint(1, 2))), delay)
            case "series":
                few = f"pmod(coalesce({self.number(1)}, 0L), 4L)"
                by = e(rng.choice(["1L", "1L", "pmod(7L, 2L)"]))
                return GenerateSeries(self.free(), e("1L"), e(few), by, rng.random() < 0.3)
            case "unnest" if self.names(LIST):
                return Unnest(
                    e(rng.choice(self.names(LIST))), (self.free(),), rng.choice([None, "o"]), rng.random() < 0.3
                )
            case "json" if self.names(TEXT):
                fields = [JsonField(self.free(), ("m",), LONG), JsonField("o", ("n", "o"), LONG)]
                return ParseJson(rng.choice(self.names(TEXT)).strip("`"), tuple(rng.sample(fields, rng.randint(1, 2))))
            case "function":
                return rng.choice([FilterFunction(EVEN), MapFunction(SWAP, parse_schema("a long, q long"))])
            case _:
                return Filter(e(self.condition(1)))

    def write(self, count):
        while len(self.steps) < count:
            step = self.step()
            result = step.output(self.schema)
            if len(set(result.names)) == len(result.names):
                self.steps.append(step)
                self.schema = result
        return BoundLogic(tuple(self.steps), self.rng.choice([Delay(), Delay(), Delay.by(3)]))


def even(row):
    return row[0] % 2 == 0


def swap(row):
    return row[0], len(row)


EVEN, SWAP = Function.of(even), Function.of(swap)
KINDS = ["filter"] * 5 + ["project"] * 5 + ["extend", "temporal", "temporal", "repeat", "negate"] + [
    "emit", "series", "unnest", "json", "function"
]  # fmt: skip


def outcome(logic, row, schema=SCHEMA, time=1):
    """What becomes of one row: its updates, or None when it is an error or there are too many of it."""
    rows = Rows.from_pylist([row], schema)
    try:
        oks, errors = run_logic(logic, Updates(rows, np.array([[time]]), np.array([1])))
    except DiffOverflowError:
        return None
    if len(errors):
        return None
    counts = Counter()
    for data, t, diff in zip(oks.rows.to_pylist(), oks.times[0].tolist(), oks.diffs.tolist(), strict=True):
        counts[repr(data), t] += diff
    return {key: n for key, n in counts.items() if n}


@pytest.mark.parametrize("seed", range(40))
def test_a_row_comes_out_as_it_did(seed):
    rng = random.Random(seed)
    for _ in range(8):
        logic = Writer(rng).write(rng.randint(1, 7))
        normal = normalise(logic, SCHEMA)
        assert normal.output(SCHEMA) == logic.output(SCHEMA)
        for _ in range(10):
            row = row_of(rng)
            wanted = outcome(logic, row)
            assert wanted is None or outcome(normal, row) == wanted, (str(logic), str(normal), row)


COUNT = RepeatRow(parse("b", SCHEMA))
DROPPING = {
    "an empty series": [GenerateSeries("i", *(parse(x, SCHEMA) for x in ["1L", "a", "1L"]))],
    "an empty list": [Unnest(parse("l", SCHEMA), ("i",))],
    "a filter on a member": [
        ParseJson("s", (JsonField("m", ("m",), LONG),)),
        Filter(parse("m > 0", parse_schema("a long, b long not null, s string, l array<bigint>, m long"))),
    ],
}


@pytest.mark.parametrize("name", DROPPING)
def test_counts_of_what_is_dropped_are_not_multiplied(name):
    """A product that is no diff is an error of the whole step, and not only of the row."""
    logic = BoundLogic((COUNT, *DROPPING[name], COUNT))
    row = (0, LARGE, '{"m": 0}', [])
    assert outcome(logic, row) == {}
    assert outcome(normalise(logic, SCHEMA), row) == {}
    assert outcome(normalise(logic, SCHEMA), (2, 3, '{"m": 4}', [5])) == outcome(logic, (2, 3, '{"m": 4}', [5])) != {}


@pytest.mark.parametrize("seed", range(40))
def test_what_is_in_normal_form_stays_as_it_is(seed):
    rng = random.Random(1000 + seed)
    for _ in range(8):
        normal = normalise(Writer(rng).write(rng.randint(1, 8)), SCHEMA)
        assert normalise(normal, SCHEMA).digest == normal.digest
