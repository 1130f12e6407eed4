"""ANY and ALL, rows of values in IN and NOT IN, and what reads the outer query from further inside."""

import pytest

import altneu as an
from altneu.errors import AltneuError

ORDERS = "ORDER BY x"


@pytest.fixture(scope="module")
def session():
    with an.Session() as opened:
        opened.sql("""
            CREATE TABLE t (a INT, b STRING, x BIGINT);
            CREATE TABLE u (a INT, y BIGINT, c STRING);
            INSERT INTO t VALUES (1, 'p', 10), (2, 'q', 20), (2, 'p', 5), (NULL, 'q', 7);
            INSERT INTO u VALUES (1, 3, 'p'), (1, 12, 'p'), (2, NULL, 'q');
        """)
        yield opened


ANSWERS = {  # SQL's standard for queries; rows of values compare as structs do, as in Spark
    "x > ANY (SELECT y FROM u WHERE y IS NOT NULL)": [5, 7, 10, 20],
    "x > ALL (SELECT y FROM u WHERE y IS NOT NULL)": [20],
    "x > ALL (SELECT y FROM u)": [],
    "NOT x > ALL (SELECT y FROM u)": [5, 7, 10],
    "(x > ALL (SELECT y FROM u)) IS NULL": [20],
    "x > ALL (SELECT y FROM u WHERE y > 100)": [5, 7, 10, 20],
    "x > ANY (SELECT y FROM u WHERE y > 100)": [],
    "x <> ALL (SELECT y * 2 - 4 FROM u WHERE y IS NOT NULL)": [5, 7, 10],
    "x = ANY (SELECT y * 2 - 4 FROM u)": [20],
    "x <> ANY (SELECT y FROM u WHERE c = 'p')": [5, 7, 10, 20],
    "12 <> SOME (SELECT y FROM u WHERE y = 12)": [],
    "x <= ALL (SELECT y FROM u WHERE u.a = t.a)": [7],
    "x > ANY (SELECT y FROM u WHERE u.a = t.a)": [10],
    "(SELECT max(y) FROM u) < ANY (SELECT x FROM t)": [5, 7, 10, 20],
    "x >= ANY (SELECT CAST(y AS STRING) FROM u WHERE c = 'p')": [5, 7, 10, 20],
    "x >= ANY (SELECT max(x) FROM t)": [20],
    "a = ANY (VALUES (1), (7))": [10],
    "(a, b) IN ((1, 'p'), (2, 'z'))": [10],
    "(a, b) NOT IN ((1, 'p'), (2, 'q'))": [5, 7],
    "(a, b) NOT IN ((1, 'p'), (2, 'p'))": [7, 20],
    "((a, b) NOT IN ((1, 'q'), (2, 'z'))) IS NULL": [],
    "(a, b) IN ((CAST(NULL AS INT), 'q'), (2, 'p'))": [5, 7],
    "(a, b) = (CAST(NULL AS INT), 'q')": [7],
    "(a, b) <=> (CAST(NULL AS INT), 'q')": [7],
    "NOT (a, b) <=> (CAST(NULL AS INT), 'q')": [5, 10, 20],
    "(a, (b, x)) = (CAST(NULL AS INT), ('q', 7))": [7],
    "(a, b) = struct(2, 'q')": [20],
    "struct(2, 'q') = (a, b)": [20],
    "(a, b) IN (struct(2, 'q'), (1, 'p'))": [10, 20],
    "(a, b) < (2, 'p')": [7, 10],
    "(2, 'p') >= (a, b)": [5, 7, 10],
    "(a, b) BETWEEN (CAST(NULL AS INT), 'q') AND (1, 'z')": [7, 10],
    "CASE (a, b) WHEN (2, 'q') THEN true ELSE false END": [20],
    "(a, b) = (2, 'p')": [5],
    "(a, b) <> (2, 'p')": [7, 10, 20],
    "(a, b) NOT IN (SELECT a, c FROM u)": [5],
    "(a, x) NOT IN (SELECT a, y FROM u)": [10],
    "(a, x) NOT IN (SELECT a, y FROM u WHERE c = 'p')": [5, 7, 10, 20],
    "(a, x) NOT IN (SELECT a, y FROM u WHERE c = 'z')": [5, 7, 10, 20],
    "(b, x) NOT IN (SELECT c, y FROM u WHERE u.a = t.a)": [5, 7, 10],
    "x = 7 OR (a, x) NOT IN (SELECT a, y FROM u)": [7, 10],
    "((a, x) IN (SELECT a, y FROM u)) IS NULL": [5, 7, 20],
    "x < (SELECT max(s) FROM (SELECT sum(y) AS s FROM u WHERE u.a = t.a GROUP BY c))": [10],
    "x > (SELECT max(n) FROM (SELECT count(*) AS n FROM u WHERE u.a = t.a))": [5, 7, 10, 20],
    "0 = (SELECT max(n) FROM (SELECT count(*) AS n FROM u WHERE u.a = t.a))": [7],
    "EXISTS (SELECT 1 FROM (SELECT y FROM u WHERE u.a = t.a) q JOIN u v ON q.y = v.y WHERE v.a = t.a)": [10],
    "EXISTS (SELECT 1 FROM u LEFT JOIN (SELECT c FROM u w WHERE w.a = t.a) q ON q.c = u.c WHERE q.c IS NULL)": (
        [5, 7, 10, 20]
    ),
    "1 = (SELECT rank() OVER (ORDER BY count(*)) FROM u WHERE u.a = t.a)": [5, 7, 10, 20],
    "1 = (SELECT max(r) FROM (SELECT rank() OVER (ORDER BY count(*)) AS r FROM u WHERE u.a = t.a GROUP BY c))": (
        [5, 10, 20]
    ),
}


@pytest.mark.parametrize("condition", ANSWERS)
def test_conditions(session, condition):
    assert [x for (x,) in session.sql(f"SELECT x FROM t WHERE {condition} {ORDERS}")] == ANSWERS[condition]


GROUPS = {
    "SELECT b FROM t GROUP BY b HAVING EXISTS (SELECT 1 FROM u WHERE u.y * 2 < sum(t.x)) ORDER BY b": [("p",), ("q",)],
    "SELECT b, (SELECT count(*) FROM u WHERE u.y < min(t.x)) AS n FROM t GROUP BY b ORDER BY b": [("p", 1), ("q", 1)],
    "SELECT b FROM t GROUP BY b HAVING max(x) >= ALL (SELECT x FROM t v WHERE v.b = t.b AND v.x > 15)": [
        ("p",),
        ("q",),
    ],
    "SELECT DISTINCT rank() OVER (ORDER BY count(*)) AS r FROM t GROUP BY b": [(1,)],
    "SELECT t.b, q.c FROM t JOIN LATERAL (SELECT a, c FROM u WHERE y = 3) q USING (a)": [("p", "p")],
}


@pytest.mark.parametrize("text", GROUPS)
def test_groups(session, text):
    assert sorted(session.sql(text).to_pylist()) == GROUPS[text]


def test_rows_of_values_with_nulls_meet_in_joins(session):
    session.sql("""
        CREATE TABLE here (a INT, b INT); CREATE TABLE there (a INT, b INT);
        CREATE MATERIALIZED VIEW met AS SELECT h.a, h.b FROM here h JOIN there t ON (h.a, h.b) = (t.a, t.b);
        CREATE MATERIALIZED VIEW below AS SELECT h.b, t.b AS c FROM here h LEFT JOIN there t ON (h.a, h.b) < (t.a, t.b);
        INSERT INTO here VALUES (1, NULL), (1, 2); INSERT INTO there VALUES (1, NULL), (1, 2);
    """)

    def seen():
        return [sorted(session.sql(f"TABLE {v}").to_pylist(), key=str) for v in ("met", "below")]

    assert seen() == [[(1, 2), (1, None)], [(2, None), (None, 2)]]
    session.sql("DELETE FROM there WHERE b IS NULL")
    assert seen() == [[(1, 2)], [(2, None), (None, 2)]]
    session.sql("DELETE FROM there")
    assert seen() == [[], [(2, None), (None, None)]]


def test_they_are_maintained(session):
    session.sql("""
        CREATE TABLE l (n INT); CREATE TABLE r (n INT);
        CREATE MATERIALIZED VIEW most AS SELECT n FROM l WHERE n >= ALL (SELECT n FROM r);
        CREATE MATERIALIZED VIEW apart AS SELECT n FROM l WHERE (n, n) NOT IN (SELECT n, n FROM r);
        INSERT INTO l VALUES (1), (5), (NULL); INSERT INTO r VALUES (3);
    """)

    def seen():
        return [sorted(session.sql(f"TABLE {v}").to_pylist(), key=str) for v in ("most", "apart")]

    assert seen() == [[(5,)], [(1,), (5,)]]
    session.sql("INSERT INTO r VALUES (NULL)")
    assert seen() == [[], []]
    session.sql("DELETE FROM r")
    assert seen() == [[(1,), (5,), (None,)], [(1,), (5,), (None,)]]


REFUSED = {
    "SELECT (SELECT sum(t.x) FROM u) FROM t": "aggregates the rows of the outer query",
    "SELECT x FROM t WHERE (a, b) IN ((1, 'p', 2))": "compares 2 values with 3",
    "SELECT x FROM t WHERE (a, b) = (1, 'p', 2)": "compares 2 values with 3",
    "SELECT x FROM t WHERE x > ALL (SELECT a, y FROM u)": "ANY and ALL need a query of 1 column",
    "SELECT x FROM t, (SELECT * FROM u WHERE u.a = t.a) q": "no column 't.a'",
    "SELECT t.b FROM t LEFT JOIN LATERAL (SELECT a FROM u) q USING (a)": "needs ON, not USING",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(session, text):
    with pytest.raises(AltneuError) as caught:
        session.sql(text)
    assert REFUSED[text] in str(caught.value)
