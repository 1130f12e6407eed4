"""SELECT DISTINCT ON (...): of the rows of each key the first in the order of the query."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu.errors import PlanError
from altneu.sql import query

T = an.source("t", "a int, b int, x double, s string")
SAME = {
    "SELECT DISTINCT ON (a) a, b, s FROM t ORDER BY a, b DESC, s": "a ORDER BY a, b DESC, s",
    "SELECT DISTINCT ON (1, b) a AS k, b, s FROM t ORDER BY b, k, 3 DESC": "a, b ORDER BY b, a, s DESC",
    "SELECT DISTINCT ON (a) a, b, s FROM t": "a ORDER BY a",
    "SELECT DISTINCT ON (abs(b)) a, b, s FROM t WHERE b < 3 ORDER BY abs(b), x DESC NULLS LAST": (
        "abs(b) ORDER BY x DESC NULLS LAST"
    ),
}


def row(rng):
    return (
        rng.choice([None, 1, 2]),
        rng.choice([None, -2, -1, 1, 2, 3]),
        rng.choice([None, 0.5, float("nan"), -0.0, 0.0]),
        rng.choice([None, "", "u", "v"]),
    )


@pytest.mark.parametrize("shards", [1, 2])
def test_it_is_the_first_row_number_of_each_key(shards):
    rng, rows = random.Random(shards), Counter()
    with an.Session(shards=shards) as session:
        views = []
        for i, (text, window) in enumerate(SAME.items()):
            where = "WHERE b < 3" if "WHERE" in text else ""
            numbered = f"SELECT a, b, s FROM t {where} QUALIFY row_number() OVER (PARTITION BY {window}) = 1"
            pair = [session.maintain(f"{name}{i}", query(q, {"t": T})) for name, q in (("on", text), ("n", numbered))]
            assert "top 1 by" in str(session.explain(f"on{i}"))
            views.append(pair)
        for _ in range(12):
            for _ in range(rng.randint(1, 6)):
                there = [one for one, n in rows.items() if n]
                one, diff = (rng.choice(there), -1) if there and rng.random() < 0.4 else (row(rng), rng.randint(1, 2))
                rows[one] += diff
                session.insert("t", [one], diff=diff)
            session.advance()
            for on, numbered in views:
                assert Counter(map(repr, on.to_pylist())) == Counter(map(repr, numbered.to_pylist()))
            keys = Counter(one[0] for one, n in rows.items() if n > 0)
            assert sorted(map(repr, keys)) == sorted(repr(one[0]) for one in views[0][0].to_pylist())


def test_it_is_the_first_in_order():
    with an.Session() as session:
        session.maintain("t", T)
        session.insert("t", [(1, 2, 0.5, "u"), (1, 1, 0.7, "v"), (2, 5, 1.0, "x"), (None, 3, None, "y")])
        session.advance()
        assert session.sql("SELECT DISTINCT ON (a) a, b FROM t ORDER BY a DESC, b").to_pylist() == [
            (2, 5),
            (1, 1),
            (None, 3),
        ]
        assert session.sql("SELECT DISTINCT ON (a) s FROM t ORDER BY a, b LIMIT 2").to_pylist() == [("y",), ("v",)]
        counts = "SELECT DISTINCT ON (a > 1) a > 1 AS big, a, count(*) AS n FROM t GROUP BY a ORDER BY big, n DESC, a"
        assert session.sql(counts).to_pylist() == [(None, None, 1), (False, 1, 2), (True, 2, 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT DISTINCT ON (a) a, s FROM t ORDER BY s", "ORDER BY must begin with the keys, got `s`"),
        ("SELECT DISTINCT ON (a, b) a, s FROM t ORDER BY a, s, b", "ORDER BY must begin with the keys, got `s`"),
        ("SELECT DISTINCT ON (3) a, s FROM t", "3 must be the number of an output, 1 to 2"),
    ],
)
def test_keys_that_do_not_fit_are_refused(text, message):
    with pytest.raises(PlanError, match=message.replace("(", r"\(")):
        query(text, {"t": T})
