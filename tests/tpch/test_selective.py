"""Joins begin where few rows are asked for, and an OR filters each part by what it implies of it, whatever may fail."""

from __future__ import annotations

from collections import Counter

import pytest

import altneu as an
from altneu import sql

CATALOG = {
    "a": an.source("a", "i bigint, x bigint, s string"),
    "b": an.source("b", "i bigint, y bigint, s string"),
    "c": an.source("c", "y bigint, z bigint"),
}
ROWS = {
    "a": [(i, i % 5, "pqr"[i % 3]) for i in range(30)] + [(None, None, None)],
    "b": [(i % 7, i % 4, "pqr"[i % 3]) for i in range(30)] + [(3, None, "p")],
    "c": [(i % 4, i) for i in range(10)] + [(None, 3)],
}


def kept(text):
    with an.Session() as session:
        view = session.maintain("v", sql.query(text, CATALOG))
        for name in session.sources:
            session.insert(name, ROWS[name])
        session.advance()
        return view.to_pylist(), session.explain("v")


def test_the_part_that_is_asked_for_a_value_comes_first():
    rows, plan = kept("SELECT a.i, z FROM a, b, c WHERE a.i = b.i AND b.y = c.y AND c.z = 5")
    assert Counter(rows) == Counter(
        (i, z) for i, *_ in ROWS["a"] for j, y, _ in ROWS["b"] for w, z in ROWS["c"] if i == j and y == w and z == 5
    )
    deepest = max(plan.splitlines(), key=lambda line: len(line) - len(line.lstrip()))
    assert deepest.strip() in ("source b", "source c")


@pytest.mark.parametrize(
    "condition",
    [
        "(a.x = 1 AND b.y = 2 OR a.x = 3 AND b.y = 1)",
        "(a.x = 1 AND b.y = 2 AND a.s <> b.s OR a.x IN (2, 3) AND b.y IS NULL)",
        "(a.x IN (0, 4) AND b.y = 3 OR a.s LIKE 'q%' AND b.y BETWEEN 1 AND 2)",
        "(a.x = 1 OR b.y = 2)",
        "(a.x = 1 AND b.y = 2 OR NOT a.s = 'p')",
        "((a.x = 1 OR a.x = 2) AND b.y = 2 OR (a.x = 4 OR b.y = 3) AND a.s = 'r')",
    ],
)
def test_what_an_or_implies_changes_no_answer(spark, condition):
    text = f"SELECT a.i, a.x, a.s, b.y, b.s AS t FROM a, b WHERE a.i = b.i AND {condition}"
    rows, _ = kept(text)
    for name, columns in (("a", "i long, x long, s string"), ("b", "i long, y long, s string")):
        spark.createDataFrame(ROWS[name], columns).createOrReplaceTempView(name)
    assert Counter(rows) == Counter(map(tuple, spark.sql(text).collect()))
    for name in ("a", "b"):
        spark.catalog.dropTempView(name)


def test_an_or_says_of_each_part_what_it_implies():
    _, plan = kept("SELECT a.i FROM a, b WHERE a.i = b.i AND (a.x = 1 AND b.y = 2 OR a.x = 3 AND b.y = 1)")
    assert plan.count("filter (x = 1L) OR (x = 3L)") == 1
    assert plan.count("filter (y = 2L) OR (y = 1L)") == 1


def test_what_a_branch_guards_is_not_evaluated_without_its_guard():
    text = "SELECT a.i FROM a, b WHERE a.i = b.i AND (b.y = 1 AND 10 / a.x > 3 OR b.y = 2 AND 10 / (a.x - 1) > 3)"
    rows = [(1, 0, "p"), (2, 1, "p"), (3, 2, "p")]
    with an.Session() as session:
        view = session.maintain("v", sql.query(text, CATALOG))
        session.insert("a", rows)
        session.insert("b", [(1, 2, "p"), (2, 1, "p"), (3, 1, "p")])
        session.advance()
        assert sorted(view.to_pylist()) == [(2,), (3,)]
