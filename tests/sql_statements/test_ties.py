"""A query with ORDER BY and LIMIT that is answered once has the rows of a view with the same text, also among ties."""

from __future__ import annotations

import random

import pytest

import altneu as an

QUERIES = [
    "SELECT * FROM t ORDER BY k LIMIT 3",
    "SELECT w, v FROM t ORDER BY k DESC LIMIT 3",
    "SELECT v, w, v AS again FROM t ORDER BY k NULLS LAST LIMIT 4 OFFSET 2",
    "SELECT w, x FROM t ORDER BY x DESC, k LIMIT 5",
    "SELECT k, struct(w, v) AS s, w FROM t ORDER BY k DESC NULLS FIRST LIMIT 6",
    "SELECT x FROM t WHERE v > 1 ORDER BY k OFFSET 3",
    "SELECT k, count(*) AS n FROM t GROUP BY k, v ORDER BY n DESC LIMIT 2",
    "SELECT w FROM t ORDER BY k LIMIT 0",
    "SELECT k FROM t ORDER BY k LIMIT 100",
]


@pytest.mark.parametrize("shards", [1, 3])
def test_ties_of_an_order_are_decided_by_values(shards):
    rng = random.Random(shards)
    with an.Session(shards=shards) as session:
        session.sql("CREATE TABLE t (v INT, x DOUBLE, k INT, w STRING)")
        for i, text in enumerate(QUERIES):
            session.sql(f"CREATE MATERIALIZED VIEW v{i} AS {text}")
        for _ in range(4):
            rows = [
                (rng.choice([None, *range(5)]), rng.choice([0.5, float("nan"), None]), rng.choice([None, 1, 2]), w)
                for w in rng.choices(["", "a", "b", None], k=9)
            ]
            session.insert("t", rows)
            session.advance()
            for i, text in enumerate(QUERIES):
                answer, view = session.sql(text).to_pylist(), session.view(f"v{i}").to_pylist()
                assert sorted(map(repr, answer)) == sorted(map(repr, view)), text


def test_only_rows_that_may_be_shown_are_sorted(monkeypatch):
    sorted_rows = []
    with an.Session() as session:
        session.sql("CREATE TABLE t (k INT, w STRING)")
        session.insert("t", [(n % 1000, str(n)) for n in range(10_000)])
        take = an.sql.statements.ordered.pl.DataFrame
        monkeypatch.setattr(
            "altneu.sql.statements.ordered.pl.DataFrame", lambda given: sorted_rows.append(len(given)) or take(given)
        )
        assert session.sql("SELECT k, w FROM t ORDER BY k LIMIT 2").to_pylist() == [(0, "0"), (0, "1000")]
    assert sorted_rows == [10]
