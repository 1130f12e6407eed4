"""``update_time()`` in SQL, and the order of right rows of one time in ASOF JOIN."""

from __future__ import annotations

import random

import pytest

import altneu as an
from altneu.errors import PlanError, TypeMismatchError
from altneu.sql import query

T = an.source("t", "k string, v long")
U = an.source("u", "k string, w long")
CATALOG = {"t": T, "u": U}


def shown(text: str) -> list[tuple]:
    """What a view shows in the end: of t (a, 1) came at 0 and at 2, (b, 2) at 1, of u (a, 9) at 1."""
    with an.Session() as session:
        view = session.maintain("v", query(text, CATALOG))
        inserts = [("t", ("a", 1), 0), ("t", ("b", 2), 1), ("t", ("a", 1), 2), ("u", ("a", 9), 1)]
        for name, row, time in inserts:
            if name in session.sources:
                session.insert(name, [row], time=time)
        session.advance(to=3)
        return sorted(view.to_pylist(), key=repr)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT *, update_time() AS came FROM t", [("a", 1, 0), ("a", 1, 2), ("b", 2, 1)]),
        ("SELECT x.k, UPDATE_TIME() + 1 AS c FROM t AS x WHERE v > 1", [("b", 2)]),
        ("SELECT k FROM t WHERE update_time() > 0 AND mz_now() < update_time() + 2", [("a",), ("b",)]),
        ("SELECT k, min(update_time()) AS since, count(*) AS n FROM t GROUP BY k", [("a", 0, 2), ("b", 1, 1)]),
        ("SELECT count(*) AS n FROM t GROUP BY update_time() HAVING update_time() > 0", [(1,), (1,)]),
        ("SELECT count(*) AS n FROM t GROUP BY update_time() % 2", [(1,), (2,)]),
        ("SELECT k FROM t ORDER BY update_time() DESC, k LIMIT 1", [("a",)]),
        ("SELECT k FROM t QUALIFY rank() OVER (PARTITION BY k ORDER BY update_time() DESC) = 1", [("a",), ("b",)]),
        ("SELECT c FROM (SELECT DISTINCT update_time() AS c FROM t) q", [(0,), (1,), (2,)]),
        ("WITH j AS (SELECT t.k, w FROM t JOIN u ON t.k = u.k) SELECT *, update_time() AS c FROM j",
         [("a", 9, 1), ("a", 9, 2)]),
        ("SELECT came, w FROM (SELECT *, update_time() AS came FROM t) x JOIN u ON x.k = u.k", [(0, 9), (2, 9)]),
        ("SELECT k, (SELECT max(update_time()) FROM u WHERE u.k = t.k AND update_time() > 0) AS m FROM t",
         [("a", 1), ("a", 1), ("b", None)]),
        ("SELECT k, c FROM t, LATERAL (SELECT update_time() AS c FROM u WHERE u.k = t.k) l", [("a", 1), ("a", 1)]),
        ("SELECT k, update_time() AS c FROM t UNION ALL SELECT k, update_time() FROM u",
         [("a", 0), ("a", 1), ("a", 2), ("b", 1)]),
        ("SELECT explode(array(update_time())) AS e FROM u", [(1,)]),
        ("SELECT p, update_time() AS c FROM (VALUES (7)) AS x(p)", [(7, 0)]),
    ],
)  # fmt: skip
def test_it_is_of_the_rows_of_from(text, wanted):
    assert shown(text) == wanted


def test_a_column_without_a_name_is_called_by_its_text():
    assert query("SELECT k, update_time() FROM t", CATALOG).columns == ["k", "update_time()"]


@pytest.mark.parametrize(
    ("text", "error", "match"),
    [
        ("SELECT update_time() FROM t JOIN u ON t.k = u.k", PlanError, r"FROM has several.*FROM \(SELECT"),
        ("SELECT update_time() FROM t, u", PlanError, "FROM has several"),
        ("SELECT e, update_time() FROM t LATERAL VIEW explode(array(1)) x AS e", PlanError, "FROM has several"),
        ("SELECT t.k FROM (t JOIN u ON t.k = u.k) WHERE update_time() > 1", PlanError, "FROM has several"),
        ("SELECT update_time()", PlanError, "there is no single one"),
        ("SELECT e, update_time() FROM explode(array(1)) AS x(e)", PlanError, "there is no single one"),
        ("SELECT update_time(k) FROM t", PlanError, r"takes no argument, got `UPDATE_TIME\(k\)`"),
        ("SELECT k, update_time() FROM t GROUP BY k", TypeMismatchError, r"'update_time\(\)' is neither in GROUP BY"),
        ("SELECT t.k FROM t JOIN u ON t.k = u.k AND update_time() > 1", PlanError, "several|cannot stand here"),
        ("SELECT k FROM t UNION SELECT k FROM u ORDER BY update_time() LIMIT 1", PlanError, "cannot stand here"),
    ],
)
def test_what_has_no_one_time_is_refused(text, error, match):
    with pytest.raises(error, match=match):
        query(text, CATALOG)


def test_statements_keep_it_and_ask_for_it():
    with an.Session() as session:
        session.sql("CREATE TABLE t (k STRING)")
        session.sql("CREATE MATERIALIZED VIEW since AS SELECT *, update_time() AS came FROM t")
        for k in "abc":
            session.sql(f"INSERT INTO t VALUES ('{k}')")
        first, *_, last = sorted(came for _, came in session.view("since").to_pylist())
        assert session.sql(f"SELECT k FROM since WHERE came = {last}").to_pylist() == [("c",)]
        session.sql(f"DELETE FROM t WHERE update_time() = {first}")
        assert sorted(session.sql("SELECT k FROM t").to_pylist()) == [("b",), ("c",)]
        session.sql("CREATE TABLE other (k STRING)")
        session.sql("INSERT INTO other VALUES ('x')")
        with pytest.raises(PlanError, match="CREATE MATERIALIZED VIEW … AS SELECT"):
            session.sql("SELECT k, update_time() AS came FROM other")


# as-of joins ----------------------------------------------------------------------------------------------------------

LEFT = an.source("l", "k long, at long")
RIGHT = an.source("r", "k long, at long, seq long, p long")
BOTH = {"l": LEFT, "r": RIGHT}
ORDERS = ["seq", "seq DESC", "seq NULLS LAST", "p DESC, seq", "at, seq DESC NULLS FIRST", "r.seq"]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("seed", range(2))
def test_an_order_on_the_right_says_which_row_of_one_time_is_met(order, seed):
    """The same as ``ties`` of the verb, step by step."""
    rng = random.Random(seed)
    on = "ON l.k = x.k AND l.at >= x.at"
    text = f"SELECT l.k, l.at, x.seq, x.p FROM l ASOF LEFT JOIN (SELECT * FROM r ORDER BY {order}) x {on}"
    verb = LEFT.asof_join(
        RIGHT, "k", time="at", mode="revising", how="left", ties=order.replace("r.", "")
    ).select("k", "at", "seq", "p")  # fmt: skip
    with an.Session(shards=2) as session:
        views = session.maintain("sql", query(text, BOTH)), session.maintain("verb", verb)
        kept: list[tuple] = []
        for _ in range(4):
            new = [
                (rng.randrange(2), rng.randrange(3), rng.choice([None, 1, 2, 3]), rng.randrange(9)) for _ in range(6)
            ]
            gone = rng.sample(kept, len(kept) // 3)
            session.insert("l", [(rng.randrange(2), rng.randrange(4)) for _ in range(3)])
            session.insert("r", new)
            session.retract("r", gone)
            kept = [*kept, *new]
            for row in gone:
                kept.remove(row)
            session.advance()
            sql, python = (sorted(view.to_pylist(), key=repr) for view in views)
            assert sql == python
        assert any(row[3] is not None for row in sql)


@pytest.mark.parametrize(
    ("right", "wanted"),
    [
        ("r", 70),  # no order: the greatest row
        ("(SELECT * FROM r ORDER BY p)", 90),
        ("(SELECT * FROM r ORDER BY -p)", 70),
        ("(SELECT k, at, seq, p AS q FROM r ORDER BY p)", 90),  # by what is not selected under this name
        ("(SELECT k, at, seq, max(p) AS q FROM r GROUP BY k, at, seq ORDER BY min(p))", 90),
        ("(SELECT * FROM r UNION ALL SELECT * FROM r ORDER BY p)", 90),
        ("(WITH z AS (SELECT * FROM r) SELECT * FROM z ORDER BY p)", 90),
        ("(SELECT * FROM r ORDER BY p LIMIT 2)", 70),  # which chooses rows, and leaves no order
        ("(SELECT q.* FROM (SELECT * FROM r ORDER BY p) q)", 70),  # of a query further in there is none
    ],
)
def test_what_has_an_order_on_the_right(right, wanted):
    text = f"SELECT x.{'q' if ' AS q' in right else 'p'} FROM l ASOF JOIN {right} x ON l.k = x.k AND l.at >= x.at"
    with an.Session() as session:
        view = session.maintain("v", query(text, BOTH))
        session.insert("l", [(1, 5)])
        session.insert("r", [(1, 4, 1, 90), (1, 4, 3, 70), (1, 4, 2, 80)])
        session.advance()
        assert view.to_pylist() == [(wanted,)]


def test_an_order_by_columns_keeps_no_column_more():
    text = "SELECT l.at, x.p FROM l ASOF JOIN (SELECT * FROM r ORDER BY seq) x ON l.k = x.k AND l.at >= x.at"
    with an.Session() as session:
        session.maintain("v", query(text, BOTH))
        result = session.explain("v")
    assert "ties by seq" in result
    assert "arrangement (k, at, seq, p), in order of at" in result


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT k, max(v) AS v FROM t GROUP BY k HAVING max(v) >= mz_now()", [[("a", 1), ("b", 2)], [("b", 2)], []]),
        ("SELECT t.k, w FROM t JOIN u ON t.k = u.k AND mz_now() <= v", [[("a", 9)], [], []]),
        (
            "SELECT t.k, w FROM t LEFT JOIN u ON t.k = u.k AND mz_now() <= v",
            [[("a", 9), ("b", None)], [("a", None), ("b", None)], [("a", None), ("b", None)]],
        ),
        (
            "SELECT t.k, w FROM t FULL JOIN u ON t.k = u.k AND mz_now() < w - 7",
            [
                [("a", 9), ("b", None)],
                [("a", None), ("b", None), (None, 9)],
                [("a", None), ("b", None), (None, 9)],
            ],
        ),
    ],
)
def test_the_sessions_time_in_having_and_in_joins(text, wanted):
    with an.Session() as session:
        view = session.maintain("v", query(text, CATALOG))
        session.insert("t", [("a", 1), ("b", 2)])
        if "u" in session.sources:
            session.insert("u", [("a", 9)])
        found = []
        for time in (1, 2, 3):
            session.advance(to=time + 1)
            found.append(sorted(view.to_pylist(), key=repr))
    assert found == wanted


@pytest.mark.parametrize(
    "text",
    [
        "SELECT mz_now() AS n FROM t",
        "SELECT k FROM t GROUP BY k, mz_now()",
        "SELECT k FROM t ORDER BY mz_now() LIMIT 1",
    ],
)
def test_the_sessions_time_elsewhere_is_refused_with_where_it_may_stand(text):
    with pytest.raises(
        PlanError, match=r"In SQL it is called mz_now\(\) as well, and may stand in WHERE, HAVING and ON"
    ):
        query(text, CATALOG)
