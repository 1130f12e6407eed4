"""The three as-of joins and the calculus in SQL: each spelling is the verb that it says it is, step by step."""

from __future__ import annotations

import random
import re
from collections import Counter
from datetime import UTC, datetime

import pytest

import altneu as an
from altneu.errors import ExpressionSyntaxError, PlanError, SchemaError
from altneu.sql import query

A = an.source("a", "k string, id long, at timestamp")
B = an.source("b", "k string, price long, since timestamp")
SOURCES = {"a": A, "b": B}
COLUMNS = ("k", "id", "at", "price", "since")
PAIRED = {"left_time": "at", "right_time": "since"}
DELAYED = A.differentiate().join(B.delay_to_neu(), "k").integrate()
SPELLED = {
    "a ASOF JOIN b ON a.k = b.k AND a.at >= b.since": A.asof_join(B, "k", mode="revising", **PAIRED),
    "a ASOF JOIN b ON a.k = b.k AND a.at >= b.since REVISING": A.asof_join(B, "k", mode="revising", **PAIRED),
    "a JOIN b FOR SYSTEM_TIME AS OF a.at ON a.k = b.k": A.asof_join(B, "k", mode="revising", **PAIRED),
    "a JOIN b FOR SYSTEM_TIME AS OF a.at AS b USING (k)": A.asof_join(B, "k", mode="revising", **PAIRED),
    "a LEFT JOIN b FOR SYSTEM_TIME AS OF a.at ON b.k = a.k": A.asof_join(B, "k", mode="revising", how="left", **PAIRED),
    "a ASOF JOIN b ON a.k = b.k LOCKED": A.asof_join(B, "k", mode="locked"),
    "a ASOF JOIN b USING (k) LOCKED": A.asof_join(B, "k", mode="locked"),
    "a ASOF JOIN b ON a.k = b.k AND a.at > b.since LOCKED": A.asof_join(
        B, "k", mode="locked", allow_exact_matches=False, **PAIRED
    ),
    "a ASOF LEFT JOIN b ON a.k = b.k AND a.at >= b.since LOCKED": A.asof_join(
        B, "k", mode="locked", how="left", **PAIRED
    ),
    "a ASOF JOIN (SELECT * FROM b ORDER BY price DESC) b ON a.k = b.k AND a.at >= b.since LOCKED": A.asof_join(
        B, "k", mode="locked", ties="price desc", **PAIRED
    ),
    "a JOIN b FOR SYSTEM_TIME AS OF PROCTIME() ON a.k = b.k": A.asof_join(B, "k", mode="locked"),
    "a LEFT JOIN b FOR SYSTEM_TIME AS OF update_time() AS b ON a.k = b.k": A.asof_join(
        B, "k", mode="locked", how="left"
    ),
    "a ASOF JOIN b ON a.k = b.k AND b.price > 2 LOCKED": A.asof_join(B.filter("price > 2"), "k", mode="locked"),
    "a ASOF JOIN b ON a.k = b.k LOGICAL": A.asof_join(B, "k", mode="logical"),
    "INTEGRATE(SELECT a.*, price, since FROM DIFFERENTIATE(a) a JOIN b ON a.k = b.k)": A.asof_join(
        B, "k", mode="logical"
    ),
    "integrate((SELECT x.*, price, since FROM differentiate(a) AS x JOIN delay_to_neu(b) y ON x.k = y.k)) q": DELAYED,
    "(SELECT * FROM INTEGRATE(SELECT a.*, price, since FROM DIFFERENTIATE(SELECT * FROM a) a, b WHERE a.k = b.k)) q": (
        A.asof_join(B, "k", mode="logical")
    ),
}


def moment(number):
    return datetime(2024, 1, 1, number, tzinfo=UTC)


def steps(seed):
    """Changes of both sides, step by step: late rows, retractions of what is there, several changes at once."""
    rng, held = random.Random(seed), {"a": Counter(), "b": Counter()}
    for _ in range(7):
        changes = []
        for name, count in (("a", 2), ("b", 2)):
            for _ in range(rng.randint(0, count)):
                there = sorted(held[name].elements())
                row = (rng.choice("xy"), rng.randrange(4), moment(rng.randrange(5)))
                diff = -1 if there and rng.random() < 0.35 else 1
                row = rng.choice(there) if diff < 0 else row
                held[name][row] += diff
                changes.append((name, row, diff))
        yield changes


@pytest.mark.parametrize("seed", range(3))
def test_each_spelling_is_the_verb_that_it_says_it_is(seed):
    with an.Session(shards=1 + seed) as session:
        views = {}
        for i, (text, verb) in enumerate(SPELLED.items()):
            k = "k" if re.search("integrate|using", text, re.IGNORECASE) else "a.k"
            sql = query(f"SELECT {k}, id, at, price, since FROM {text}", SOURCES)
            views[text] = session.maintain(f"sql {i}", sql), session.maintain(f"verb {i}", verb.select(*COLUMNS))
        for changes in steps(seed):
            for name, row, diff in changes:
                session.insert(name, [row], diff=diff)
            session.advance()
            for text, both in views.items():
                mine, other = (Counter(map(str, view.changes().to_pylist())) for view in both)
                assert mine == other, text
        assert any(len(both[1].to_pylist(errors="ignore")) for both in views.values())


def test_the_modes_differ_as_they_say():
    with an.Session() as session:
        modes = {
            "REVISING": "a ASOF JOIN b ON a.k = b.k AND a.at >= b.since",
            "LOCKED": "a ASOF JOIN b ON a.k = b.k AND a.at >= b.since LOCKED",
            "LOGICAL": "a ASOF JOIN b ON a.k = b.k LOGICAL",
        }
        views = {
            mode: session.maintain(mode, query(f"SELECT id, price FROM {text}", SOURCES))
            for mode, text in modes.items()
        }
        session.insert("b", [("x", 5, moment(0))])
        session.insert("a", [("x", 1, moment(3))])
        session.advance()
        assert {mode: view.to_pylist() for mode, view in views.items()} == {mode: [(1, 5)] for mode in modes}
        session.insert("b", [("x", 7, moment(2))])
        session.advance()
        session.retract("a", [("x", 1, moment(3))])
        session.advance()
        changes = {mode: [(r["price"], r["diff"]) for r in view.changes().to_pylist()] for mode, view in views.items()}
        assert {mode: sorted(c) for mode, c in changes.items()} == {
            "REVISING": [(7, -1)],
            "LOCKED": [(5, -1)],
            "LOGICAL": [(5, -1), (7, -1)],
        }


def test_views_that_are_defined_by_them_are_stored(tmp_path):
    defined = {
        "locked": "SELECT a.id, b.price FROM a ASOF JOIN b ON a.k = b.k LOCKED",
        "flink": "SELECT a.id, b.price FROM a JOIN b FOR SYSTEM_TIME AS OF PROCTIME() AS b ON a.k = b.k",
        "sums": "SELECT * FROM INTEGRATE(SELECT d.id, b.price FROM DIFFERENTIATE(a) d JOIN b ON d.k = b.k)",
    }
    with an.Session(path=tmp_path) as session:
        session.sql("CREATE TABLE a (k STRING, id BIGINT); CREATE TABLE b (k STRING, price BIGINT)")
        for name, text in defined.items():
            session.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}")
        session.sql("INSERT INTO b VALUES ('x', 5); INSERT INTO a VALUES ('x', 1)")
        session.sql("UPDATE b SET price = 6")
    with an.Session(path=tmp_path) as session:
        session.sql("INSERT INTO a VALUES ('x', 2)")
        for name in defined:
            assert sorted(session.sql(f"SELECT * FROM {name}").to_pylist()) == [(1, 5), (2, 6)], name


REFUSED = {
    "a ASOF JOIN b ON a.k = b.k": "one comparison of timestamps",
    "a ASOF JOIN b ON a.k = b.k AND a.at >= TIMESTAMP '2020-01-01'": "must have a timestamp of each side",
    "a ASOF JOIN b ON a.k = b.k AND a.at - b.since >= INTERVAL '0' SECOND": "got at - since >= INTERVAL",
    "a ASOF JOIN b ON a.k = b.k AND CAST(a.at AS STRING) >= b.since": r"ASOF JOIN: CAST\(at AS STRING\) is string",
    "a ASOF JOIN b ON a.at >= b.since LOGICAL": "no comparison of timestamps",
    "a ASOF LEFT JOIN b ON a.k = b.k LOGICAL": "no LEFT",
    "a ASOF JOIN b ON b.price > 1 LOCKED": "needs an equality",
    "a ASOF JOIN (SELECT * FROM b ORDER BY price) b ON a.k = b.k LOCKED": "add a comparison of timestamps",
    "a ASOF RIGHT JOIN b ON a.k = b.k LOCKED": "ASOF LEFT JOIN",
    "a RIGHT JOIN b FOR SYSTEM_TIME AS OF a.at ON a.k = b.k": "ASOF LEFT JOIN",
    "a JOIN b FOR SYSTEM_TIME AS OF a.id ON a.k = b.k": "must be a DATE or TIMESTAMP of the left side, or PROCTIME",
    "a JOIN b FOR SYSTEM_TIME AS OF TIMESTAMP '2024-01-01' ON a.k = b.k": "must be a DATE or TIMESTAMP of the left",
    "a JOIN b FOR SYSTEM_TIME AS OF b.since ON a.k = b.k": "must be a DATE or TIMESTAMP of the left side",
    "a JOIN a b FOR SYSTEM_TIME AS OF a.at ON a.k = b.k": "(?i)FOR|SYSTEM_TIME",
    "b c JOIN b FOR SYSTEM_TIME AS OF date(c.since) ON c.k = b.k": "one column of type date .* it has none",
    "a NATURAL JOIN b FOR SYSTEM_TIME AS OF a.at": "the past of one table",
    "a JOIN b TIMESTAMP AS OF '2024-01-01' ON a.k = b.k": "the past of one table",
    "a FOR SYSTEM_TIME AS OF PROCTIME()": "the past of one table",
    "DIFFERENTIATE(a, b)": "takes a table or a query",
    "DIFFERENTIATE(1)": "takes a table or a query",
    "INTEGRATE(a)": "integrate needs a differentiated collection",
    "a, LATERAL (SELECT * FROM DIFFERENTIATE(SELECT * FROM b WHERE b.price = a.id) x) y": "reads columns of the query",
    "DIFFERENTIATE(nobody)": "nobody",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_obeyed_is_refused(text):
    with pytest.raises((PlanError, ExpressionSyntaxError), match=REFUSED[text]):
        query(f"SELECT * FROM {text}", SOURCES)


def test_moments_are_a_column():
    text = "SELECT m.moment, q FROM MOMENTS(SELECT id AS q FROM DIFFERENTIATE(a)) m WHERE moment = 'neu'"
    with an.Session(retain="all") as session:
        view = session.maintain("v", query(text, SOURCES), contents=False)
        session.insert("a", [("x", 1, None)])
        session.advance()
        session.retract("a", [("x", 1, None)])
        session.advance()
        assert view.changes(since=-1).to_pylist() == [
            {"moment": "neu", "q": 1, "time": 0, "diff": -1},
            {"moment": "neu", "q": 1, "time": 1, "diff": 1},
        ]
    with pytest.raises(SchemaError, match="moment"):
        query("SELECT * FROM MOMENTS(SELECT id AS moment FROM DIFFERENTIATE(a))", SOURCES)


def test_changes_that_are_not_integrated_are_no_view():
    with an.Session() as session, pytest.raises(PlanError, match="integrate"):
        session.maintain("v", query("SELECT * FROM DIFFERENTIATE(a)", SOURCES))
