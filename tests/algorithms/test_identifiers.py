"""Numbers for rows: one for each, no two the same, and the same whatever was there before."""

from __future__ import annotations

import random

import numpy as np
import pytest

import altneu as an
from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Rows
from altneu.errors import NoFixpointError, PlanError, SchemaError

ROWS = an.source("rows", "a long, b string, x double", keep=True)
NUMBERED = an.algorithms.identifiers(ROWS, bits=4)
OPTIONS = [{}, {"shards": 3}, {"durable": True}]


def assigned(rows, bits):
    """By its definition, attempt after attempt; the hash of a row and an attempt is the one that they share."""
    schema = ROWS.select("*", attempt="0L").schema
    numbers, waiting, attempt = {}, sorted(rows, key=lambda r: [(v is not None, v) for v in r]), 0
    while waiting:
        hashes = hash_rows(Rows.from_pylist([(*row, attempt) for row in waiting], schema)) & np.uint64(2**bits - 1)
        lost = []
        for row, number in zip(waiting, hashes.tolist(), strict=True):
            if number in numbers:
                lost.append(row)
            else:
                numbers[number] = row
        waiting, attempt = lost, attempt + 1
    return {row: number for number, row in numbers.items()}


def some_row(rng):
    return rng.choice([1, 2, None]), rng.choice(["x", "y", None]), rng.choice([0.5, 1.5])


@pytest.mark.parametrize("options", OPTIONS, ids=["memory", "shards", "durable"])
@pytest.mark.parametrize("seed", range(3))
def test_numbers_are_what_the_rows_that_are_there_define(tmp_path, options, seed):
    rng, held = random.Random(seed), dict[tuple, int]()
    where = {"path": tmp_path} if options.get("durable") else {"shards": options.get("shards")}
    session = an.Session(**where)
    view = session.maintain("numbered", NUMBERED)
    for step in range(12):
        for time in range(session.lower, session.lower + rng.randint(1, 3)):
            for _ in range(rng.randint(0, 4)):
                row = some_row(rng)
                if held.get(row) and rng.random() < 0.6:
                    session.retract("rows", [row], time=time, diff=held[row])
                    held[row] = 0
                elif sum(map(bool, held.values())) < 12:
                    n = rng.randint(1, 2)
                    session.insert("rows", [row], time=time, diff=n)
                    held[row] = held.get(row, 0) + n
        session.advance(to=time + 1)
        there = [row for row, n in held.items() if n]
        found = {tuple(row[:-1]): row[-1] for row in view.to_pylist()}
        assert found == assigned(there, 4)
        assert len({*found.values()}) == len(view.to_pylist()) == len(there)
        if options.get("durable") and step % 4 == 3:
            session.close()
            session = an.Session(**where)
            view = session.maintain("numbered", NUMBERED)
    for row, n in held.items():
        if n:
            session.retract("rows", [row], diff=n)
    session.advance()
    assert view.to_pylist() == []
    session.close()


@pytest.mark.spark
def test_numbers_on_spark_are_those_of_a_local_session(spark):
    rows = [(i % 5, str(i), i / 2) for i in range(14)]
    with an.Session(spark, shards=2, placement="spark") as session:
        view = session.maintain("numbered", NUMBERED)
        session.insert("rows", rows)
        session.advance()
        assert {tuple(row[:-1]): row[-1] for row in view.to_pylist()} == assigned(rows, 4)


def test_a_row_more_reads_and_changes_no_more_of_many_than_of_few():
    costs = []
    for n in (1_000, 100_000):
        with an.Session() as session:
            view = session.maintain("numbered", an.algorithms.identifiers(an.source("rows", "a long")))
            session.insert("rows", [(i,) for i in range(n)])
            session.advance()
            session.insert("rows", [(n,)])
            step = session.advance()
            last = session._engine.measured._last
            costs.append(sum(a + b for _, one in last for a, b, *_ in one.counts.values()))
            assert step.changes_out == {"numbered": 1}
            assert len({number for _, number in view.to_pylist()}) == n + 1
    assert costs[0] == costs[1] < 100


def test_more_rows_than_numbers_are_refused_and_columns_may_be_called_anything():
    source = an.source("rows", "attempt long, attempt1 long, `a b` string")
    with an.Session() as session:
        view = session.maintain("numbered", an.algorithms.identifiers(source, "n o", bits=1))
        session.insert("rows", [(1, 2, "x"), (2, 1, "y")])
        session.advance()
        assert sorted(row[-1] for row in view.to_pylist()) == [0, 1]
        session.insert("rows", [(3, 3, "z")])
        with pytest.raises(NoFixpointError):
            session.advance()
    for bits in (0, 64, 1.5, True):
        with pytest.raises(PlanError, match="bits must be a whole number from 1 to 63"):
            an.algorithms.identifiers(source, bits=bits)
    with pytest.raises(SchemaError, match="two columns are called 'attempt'"):
        an.algorithms.identifiers(source, "attempt")
