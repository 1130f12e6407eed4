"""Joins whose ON reads the outer query: for each outer row as with constants in the places of its columns."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an

JOINS = [
    "SELECT t.a, u.y FROM t RIGHT JOIN u ON t.a = u.a AND t.x > {n}",
    "SELECT t.a, u.y FROM t FULL JOIN u ON t.a = u.a AND (t.x > {n} OR u.y = {k})",
    "SELECT v.y, count(*) AS c FROM t FULL JOIN u USING (a) FULL JOIN u v ON v.a = {k} AND u.y = v.y GROUP BY v.y",
    "SELECT v.y FROM t RIGHT JOIN u ON t.a = u.a AND t.x > {n} LEFT JOIN u v ON v.a = u.a AND v.y > {n}",
    "SELECT t.x FROM t LEFT SEMI JOIN u ON t.a = u.a FULL JOIN u v ON v.y = {n}",
    "SELECT u.y FROM t RIGHT JOIN u ON t.a = u.a AND t.x IN (SELECT y + {n} FROM u)",
    "SELECT e, u.y FROM t RIGHT JOIN u ON t.a = u.a LATERAL VIEW explode(array({n}, y)) AS e",
    "SELECT q.z, u.y FROM u RIGHT JOIN t ON t.a = u.a, LATERAL (SELECT {n} + t.a AS z) q",
    "SELECT x FROM t NATURAL FULL JOIN u WHERE y = {n} OR y IS NULL",
]
TABLES = "CREATE TABLE o (k INT, n INT); CREATE TABLE t (a INT, x INT); CREATE TABLE u (a INT, y INT)"


def rows(session, text):
    return session.sql(text).to_pylist()


def constant(value):
    return f"CAST({'NULL' if value is None else value} AS INT)"


@pytest.mark.parametrize("shards", [2])
def test_as_for_each_outer_row_alone(shards):
    rng = random.Random(shards)
    number = lambda: rng.choice([None, 1, 1, 2, 3, 4])  # noqa: E731
    with an.Session(shards=shards) as session:
        session.sql(TABLES)
        for i, text in enumerate(JOINS):
            query = text.format(n="o.n", k="o.k")
            session.sql(f"CREATE MATERIALIZED VIEW v{i} AS SELECT o.k, o.n, q.* FROM o, LATERAL ({query}) q")
        kept: dict[str, list] = {name: [] for name in "otu"}
        for step in range(3):
            for name, there in kept.items():
                gone, come = there[::3], [(number(), number()) for _ in range(2 if name == "o" else 3)]
                session.retract(name, gone)
                session.insert(name, come)
                kept[name] = [row for i, row in enumerate(there) if i % 3] + come
            session.advance()
            for i, text in enumerate(JOINS if step else ()):
                wanted = Counter()
                for (k, n), count in Counter(kept["o"]).items():
                    for row in rows(session, text.format(n=constant(n), k=constant(k))):
                        wanted[(k, n, *row)] += count
                assert Counter(rows(session, f"TABLE v{i}")) == wanted, text
