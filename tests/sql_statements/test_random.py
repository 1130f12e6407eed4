"""Statements at random, over sessions that are closed and opened again, against lists of rows."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu.errors import ReadError
from tests.sql_statements.cases import rows

DEFINITIONS = """
CREATE TABLE t (k INT, v STRING);
CREATE TABLE u (k INT, w INT);
CREATE MATERIALIZED VIEW counted AS SELECT k, count(*) AS n FROM t GROUP BY k;
CREATE VIEW joined AS SELECT t.k, v, w FROM t JOIN u ON t.k = u.k;
"""


class Model:
    """The tables as lists, and what views of them are."""

    def __init__(self):
        self.t, self.u = [], []

    def answers(self):
        joined = [(k, v, w) for k, v in self.t for other, w in self.u if k == other]
        return {
            "SELECT k, v FROM t": [*self.t],
            "SELECT * FROM counted": [*Counter(k for k, _ in self.t).items()],
            "SELECT * FROM joined": joined,
            "SELECT k, sum(w) AS s FROM joined GROUP BY k": [
                (k, sum(w for other, _, w in joined if other == k)) for k in {k for k, *_ in joined}
            ],
        }


def change(rng, session, model):
    """One statement that changes rows, in both."""
    k, other = rng.randrange(4), rng.randrange(4)
    match rng.randrange(8):
        case 0 | 1:
            new = [(rng.randrange(4), rng.choice("xyz")) for _ in range(rng.randint(1, 3))]
            session.sql("INSERT INTO t VALUES " + ", ".join(f"({a}, '{b}')" for a, b in new))
            model.t += new
        case 2:
            new = [(rng.randrange(4), rng.randrange(5)) for _ in range(rng.randint(1, 3))]
            session.sql("INSERT INTO u (w, k) VALUES " + ", ".join(f"({b}, {a})" for a, b in new))
            model.u += new
        case 3:
            assert session.sql(f"DELETE FROM t WHERE k = {k}").message == f"DELETE {sum(a == k for a, _ in model.t)}"
            model.t = [row for row in model.t if row[0] != k]
        case 4:
            session.sql(f"UPDATE u SET k = {other}, w = w + k WHERE k = {k}")
            model.u = [(other, w + a) if a == k else (a, w) for a, w in model.u]
        case 5:
            session.sql("INSERT INTO u SELECT k, CAST(n AS INT) FROM counted")
            model.u += [(a, n) for a, n in Counter(a for a, _ in model.t).items()]
        case 6:
            session.sql(f"INSERT OVERWRITE t SELECT k, v FROM t WHERE k <> {k} UNION ALL SELECT {other}, 'w'")
            model.t = [*(row for row in model.t if row[0] != k), (other, "w")]
        case 7:
            session.sql("TRUNCATE TABLE u")
            model.u = []


@pytest.mark.parametrize("seed", range(6))
def test_statements_give_what_lists_give(quick, seed):
    rng, model, history = random.Random(seed), Model(), {}
    for _ in range(3):
        with an.Session(path=quick / "state", retain=3) as session:
            session.sql(DEFINITIONS if rng.random() < 0.7 or not history else "SELECT 1")
            for _ in range(3):
                change(rng, session, model)
                if session.lower == 0:
                    continue  # nothing was changed yet
                history[session.lower - 1] = model.answers()
                text = rng.choice(list(model.answers()))
                assert Counter(rows(session, text)) == Counter(model.answers()[text]), text
                past = rng.choice(list(history))
                try:
                    actual = rows(session, f"{text} AS OF {past}")
                except ReadError:  # no longer kept
                    assert past < session.lower - 4
                    continue
                assert Counter(actual) == Counter(history[past][text]), (text, past)
            for name in ("t", "u", "counted"):
                assert Counter(session.view(name).to_pylist()) == Counter(rows(session, f"SELECT * FROM {name}"))
