"""Queries that are answered once: their order, names and aliases, as Spark has them."""

import pytest

import altneu as an
from altneu.errors import AltneuError, PlanError, StatementError


@pytest.fixture(scope="module")
def session():
    with an.Session() as opened:
        opened.sql("""
            CREATE TABLE t (a INT, b STRING, x BIGINT);
            CREATE TABLE u (a INT, y BIGINT, c STRING);
            INSERT INTO t VALUES (1, 'p', 10), (2, 'q', 20), (2, 'p', 5), (NULL, 'q', 7);
            INSERT INTO u VALUES (1, 3, 'p'), (2, NULL, 'q');
        """)
        yield opened


IN_ORDER = {
    "SELECT b, sum(x) AS s FROM t GROUP BY ALL ORDER BY max(a), sum(x)": [("p", 15), ("q", 27)],
    "SELECT a, count(*) AS n FROM t GROUP BY ALL ORDER BY n DESC, t.a": [(2, 2), (None, 1), (1, 1)],
    "SELECT count(*) AS n FROM t GROUP BY b ORDER BY t.b DESC": [(2,), (2,)],
    "SELECT b, sum(x) AS x FROM t GROUP BY b ORDER BY sum(x) DESC": [("q", 27), ("p", 15)],
    "SELECT sum(x) FROM t GROUP BY a + 1 ORDER BY a + 1 DESC": [(25,), (10,), (7,)],
    "SELECT x FROM t ORDER BY (SELECT max(y) FROM u WHERE u.a = t.a) DESC, x": [(10,), (5,), (7,), (20,)],
    "SELECT b, sum(x) AS s FROM t GROUP BY b ORDER BY (SELECT max(y) FROM u WHERE u.c = t.b)": [("q", 27), ("p", 15)],
    "SELECT x FROM t ORDER BY row_number() OVER (ORDER BY x DESC)": [(20,), (10,), (7,), (5,)],
    "SELECT x, rank() OVER (ORDER BY b) AS r FROM t ORDER BY r DESC, x": [(7, 3), (20, 3), (5, 1), (10, 1)],
    "SELECT -a AS a, x FROM t ORDER BY a, x": [(None, 7), (-2, 5), (-2, 20), (-1, 10)],
    "SELECT -a AS a, x FROM t ORDER BY t.a, x": [(None, 7), (-1, 10), (-2, 5), (-2, 20)],
    "SELECT -a AS a, x FROM t ORDER BY a + x": [(None, 7), (-2, 5), (-1, 10), (-2, 20)],
    "SELECT DISTINCT b FROM t ORDER BY upper(b) DESC": [("q",), ("p",)],
    "SELECT DISTINCT t.b FROM t ORDER BY t.b DESC": [("q",), ("p",)],
    "(SELECT x FROM t ORDER BY x) LIMIT 2": [(5,), (7,)],
    "SELECT x FROM t ORDER BY x LIMIT ALL": [(5,), (7,), (10,), (20,)],
    "SELECT a, a FROM t ORDER BY a": [(None, None), (1, 1), (2, 2), (2, 2)],
    "VALUES (2), (1), (3) ORDER BY col1 DESC": [(3,), (2,), (1,)],
}


@pytest.mark.parametrize("text", IN_ORDER)
def test_the_order_that_is_asked_for(session, text):
    assert session.sql(text).to_pylist() == IN_ORDER[text]


def test_a_view_chooses_by_what_it_does_not_show(session):
    query = "SELECT x FROM t ORDER BY (SELECT max(y) FROM u WHERE u.a = t.a) DESC LIMIT 1"
    assert session.sql(f"SELECT * FROM ({query})").to_pylist() == [(10,)]
    query = "SELECT sum(x) AS s FROM t GROUP BY b ORDER BY row_number() OVER (ORDER BY max(x) DESC) LIMIT 1"
    assert session.sql(f"SELECT * FROM ({query})").to_pylist() == [(27,)]


HAVING = {
    "SELECT b, sum(x) AS x FROM t GROUP BY b HAVING sum(x) > 20": [("q", 27)],
    "SELECT b, sum(x) AS x FROM t GROUP BY b HAVING x > 20": [("q", 27)],
    "SELECT a AS b, b AS a, count(*) AS n FROM t GROUP BY a, b HAVING b = 'p' ORDER BY 1": [(1, "p", 1), (2, "p", 1)],
    "SELECT a + 1 AS a, count(*) AS n FROM t GROUP BY a HAVING a = 2": [(3, 2)],
    "SELECT a + 1 AS a FROM t GROUP BY a + 1 HAVING a = 3": [(3,)],
    "SELECT max(x) AS y FROM t GROUP BY b HAVING EXISTS (SELECT 1 FROM u WHERE y = 3) ORDER BY 1": [(10,), (20,)],
}


@pytest.mark.parametrize("text", HAVING)
def test_having_means_a_key_then_an_alias(session, text):
    assert session.sql(text).to_pylist() == HAVING[text]


def test_several_columns_of_one_name(session):
    result = session.sql("SELECT a, b AS a, x FROM t WHERE x = 5")
    assert (result.columns, result.to_pylist(), len(list(result))) == (["a", "a", "x"], [(2, "p", 5)], 1)
    assert session.sql("SELECT * FROM t, u WHERE t.a = u.a AND x = 10").columns == ["a", "b", "x", "a", "y", "c"]
    assert session.sql("EXPLAIN SELECT * FROM t, u WHERE t.a = u.a").to_pylist()[0] == ("view the query",)
    for text in ("CREATE VIEW v AS SELECT a, a FROM t", "CREATE MATERIALIZED VIEW v AS SELECT a, a FROM t"):
        with pytest.raises(AltneuError, match="two columns are called 'a'"):
            session.sql(text)


def test_insert_takes_columns_by_their_places(session):
    session.sql("CREATE TABLE copy (a INT, b INT); INSERT INTO copy SELECT a, a FROM t ORDER BY x LIMIT 2")
    assert session.sql("SELECT * FROM copy ORDER BY 1").to_pylist() == [(None, None), (2, 2)]


def test_numbers_are_stored_as_spark_stores_them(session):
    session.sql("CREATE TABLE n (i INT, d DECIMAL(4, 1)); INSERT INTO n VALUES (2.7, 12.37), (CAST(-2.7 AS DOUBLE), 1)")
    assert [(i, str(d)) for i, d in session.sql("SELECT * FROM n ORDER BY i").to_pylist()] == [(-2, "1.0"), (2, "12.4")]
    with pytest.raises(AltneuError, match="OVERFLOW"):
        session.sql("INSERT INTO n (i) VALUES (3000000000)")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT n, row_number() OVER (ORDER BY n) AS r FROM (SELECT a AS `#w0`, x AS n FROM t) ORDER BY n LIMIT 1",
        "SELECT `#w0` + 3, row_number() OVER (ORDER BY `#w0`) AS r FROM (VALUES (2), (3)) v(`#w0`) ORDER BY 2 LIMIT 1",
        "WITH c(`#w0`, n) AS (SELECT a, x FROM t) SELECT n, sum(1) OVER (PARTITION BY n) FROM c ORDER BY n LIMIT 1",
        "SELECT x, 1 FROM (SELECT a AS `#order0`, x FROM t) ORDER BY x + 1 LIMIT 1",
    ],
)
def test_names_inside_a_query_may_be_any(session, text):
    assert session.sql(text).to_pylist() == [(5, 1)]


REFUSED = {
    "CREATE MATERIALIZED VIEW `#x` AS SELECT 1": "names that begin with #",
    "SELECT a, FROM t": "line 1, column 9: something is missing beside a comma",
    "SELECT coalesce(a,) FROM t": "something is missing beside a comma",
    "SELECT FROM t": "SELECT names no column",
    "SELECT b, sum(x) FROM t GROUP BY ALL ORDER BY t.a": "'t.a' is neither in GROUP BY nor inside an aggregate",
    "SELECT DISTINCT a FROM t ORDER BY max(x) OVER ()": "nest the query in FROM",
    "SELECT a FROM t UNION SELECT a FROM u ORDER BY (SELECT 1)": "nest the query in FROM",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(session, text):
    with pytest.raises((StatementError, PlanError, AltneuError)) as caught:
        session.sql(text)
    assert REFUSED[text] in str(caught.value)
