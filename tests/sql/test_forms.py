"""Forms of SQL that have a meaning of their own, each with its answer; Spark or DuckDB says which."""

from __future__ import annotations

import pytest

import altneu as an
from altneu.errors import PlanError
from altneu.sql import query

ROWS = """
    CREATE TABLE d (k STRING, n BIGINT, xs ARRAY<INT>);
    CREATE TABLE t (k INT, v INT, s STRING);
    CREATE TABLE e (k INT, at TIMESTAMP);
    INSERT INTO d VALUES ('a', 2, array()), ('b', 3, array(7, 8)), ('c', 0, null), ('d', null, array(9));
    INSERT INTO t VALUES (1, 1, 'ab'), (1, 2, 'b'), (2, 2, 'cd'), (3, 2, null);
    INSERT INTO e VALUES (1, TIMESTAMP '2021-01-01 10:15:00');
"""


@pytest.fixture(scope="module")
def session():
    with an.Session(retain="all") as made:
        made.sql(ROWS)
        yield made


ANSWERS = {
    # a row without elements stays
    "SELECT k, g FROM d LEFT JOIN LATERAL generate_series(3, n) AS g ON true": [
        ("a", None), ("b", 3), ("c", None), ("d", None),
    ],
    "SELECT k, g FROM d LEFT JOIN LATERAL range(1, n) AS r(g) ON true": [
        ("a", 1), ("b", 1), ("b", 2), ("c", None), ("d", None),
    ],
    "SELECT k FROM d LEFT JOIN LATERAL repeat_row(n) ON true": [
        ("a",), ("a",), ("b",), ("b",), ("b",), ("c",), ("d",),
    ],
    "SELECT k, g FROM d LATERAL VIEW OUTER range(2, n) r AS g": [("a", None), ("b", 2), ("c", None), ("d", None)],
    "SELECT k, x FROM d LEFT JOIN LATERAL unnest(xs) AS u(x) ON true": [
        ("a", None), ("b", 7), ("b", 8), ("c", None), ("d", 9),
    ],
    "SELECT k FROM d LEFT JOIN LATERAL generate_series(1, n) AS g ON true WHERE g IS NULL": [("c",), ("d",)],
    "SELECT k FROM d LEFT JOIN generate_series(1, 0) AS g ON true WHERE g IS NULL": [("a",), ("b",), ("c",), ("d",)],
    # windows that add to a named one
    "SELECT k, v, count(*) OVER (w ORDER BY v) AS n FROM t WINDOW w AS (PARTITION BY k)": [
        (1, 1, 1), (1, 2, 2), (2, 2, 1), (3, 2, 1),
    ],
    "SELECT sum(k) OVER (w ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) n FROM t WHERE v > 1 WINDOW w AS (ORDER BY k)": [
        (1,), (3,), (5,),
    ],
    "SELECT k, v, sum(v) OVER b AS n FROM t WINDOW a AS (PARTITION BY k), b AS (a ORDER BY v)": [
        (1, 1, 1), (1, 2, 3), (2, 2, 2), (3, 2, 2),
    ],
    # generators of what was aggregated
    "SELECT k, explode(collect_list(v)) AS x FROM t GROUP BY 1": [(1, 1), (1, 2), (2, 2), (3, 2)],
    "SELECT posexplode(collect_set(v)) AS (p, x), k + 1 AS j, k FROM t GROUP BY k HAVING k > 1": [
        (0, 2, 3, 2), (0, 2, 4, 3),
    ],
    "SELECT max(k) AS m, explode(array(1, count(*))) AS x FROM t ORDER BY x DESC LIMIT 1": [(3, 4)],
    # VALUES as a side of a set operation in FROM
    "SELECT * FROM (VALUES (1), (2) UNION VALUES (2), (3)) AS q(a)": [(1,), (2,), (3,)],
    "SELECT a + 1 AS b FROM (VALUES (1) UNION ALL SELECT k FROM t WHERE k > 1) AS q(a)": [(2,), (3,), (4,)],
    # WITH before both sides of a recursive query
    "WITH RECURSIVE r(j) AS (WITH s(i) AS (VALUES (1)) SELECT i FROM s UNION ALL SELECT j + i FROM r, s WHERE j < 3) "
    "SELECT j FROM r": [(1,), (2,), (3,)],
    # aggregates without GROUP BY have one row, which QUALIFY leaves out
    "SELECT k FROM t WHERE EXISTS (SELECT count(*) AS n FROM e QUALIFY n > 5)": [],
    "SELECT k FROM t WHERE k > 2 AND NOT EXISTS (SELECT count(*) AS n FROM e QUALIFY n > 5)": [(3,)],
    # patterns
    "SELECT s FROM t WHERE s LIKE ANY ('a%', 'c%')": [("ab",), ("cd",)],
    "SELECT s FROM t WHERE s LIKE ALL ('a%', '%b')": [("ab",)],
    "SELECT s FROM t WHERE s NOT LIKE ANY ('a%', '%b')": [("b",), ("cd",)],
    "SELECT s FROM t WHERE NOT s LIKE ANY ('a%', '%b')": [("cd",)],
    "SELECT s FROM t WHERE s NOT LIKE ALL ('a%', '%b')": [("cd",)],
    # keys that are subqueries, and grouping() in an order
    "SELECT (SELECT max(v) FROM t WHERE t.k = d.n) AS m, count(*) AS c FROM d GROUP BY m": [(2, 2), (None, 2)],
    "SELECT EXISTS (SELECT 1 FROM t WHERE t.k = d.n) AS m, count(*) AS c FROM d GROUP BY 1": [(False, 2), (True, 2)],
    "SELECT count(*) AS c FROM d GROUP BY GROUPING SETS ((), ())": [(4,), (4,)],
    # one key, however it is written
    "SELECT k, v, count(*) AS c FROM t GROUP BY GROUPING SETS ((k), (K, v)) HAVING k < 2": [
        (1, 1, 1), (1, 2, 1), (1, None, 2),
    ],
    "SELECT k, v, grouping_id() AS g FROM t GROUP BY GROUPING SETS ((t.k), (k, v), (1)) HAVING k > 2": [
        (3, 2, 0), (3, None, 1), (3, None, 1),
    ],
    "SELECT k + 1 AS m, v FROM t GROUP BY GROUPING SETS (((k + 1)), ((k) + 1, v)) HAVING m > 3": [(4, 2), (4, None)],
    "SELECT k > 1 AS m, s IS NULL AS z, count(*) AS c FROM t GROUP BY ROLLUP (k > 1, s IS NULL)": [
        (False, False, 2), (False, None, 2), (True, False, 1), (True, True, 1), (True, None, 2), (None, None, 4),
    ],
    "SELECT k > 1 AS m, count(*) AS c FROM t GROUP BY (k > 1)": [(False, 2), (True, 2)],
    "SELECT k > 1 AS m, count(*) AS c FROM t GROUP BY (1)": [(False, 2), (True, 2)],
    "SELECT k * 2 + v AS m FROM t WHERE s = 'cd' GROUP BY (k * 2) + v": [(6,)],
    # names of columns further left; what FROM has comes first
    "SELECT k + 1 AS z, z * 2 AS w, w + z AS u FROM t WHERE v = 1": [(2, 4, 6)],
    "SELECT k + 1 AS v, v * 2 AS w FROM t WHERE v = 1": [(2, 2)],
    "SELECT k AS z, z + 1 AS y, count(*) AS c FROM t GROUP BY k": [(1, 2, 2), (2, 3, 1), (3, 4, 1)],
    # nulls of no type
    "SELECT k FROM t WHERE k IN (SELECT NULL)": [],
    "SELECT k IN (SELECT NULL) AS i FROM t WHERE v = 1": [(None,)],
    # the id of a grouping set as a column
    "SELECT k, grouping__id AS g FROM t WHERE k > 1 GROUP BY CUBE (k) HAVING grouping__id >= 0": [
        (2, 0), (3, 0), (None, 1),
    ],
    # where rows are changes nothing
    "SELECT k, v FROM t WHERE k > 1 DISTRIBUTE BY k SORT BY v DESC": [(2, 2), (3, 2)],
    "SELECT k FROM t WHERE k > 1 CLUSTER BY v": [(2,), (3,)],
    "SELECT k FROM t WHERE k > 2 UNION ALL SELECT n FROM d WHERE n > 2 SORT BY 1": [(3,), (3,)],
    "FROM t |> WHERE k > 1 |> SORT BY v DISTRIBUTE BY k |> CLUSTER BY k |> SELECT k": [(2,), (3,)],
    # TABLE and pipes wherever a query stands
    "SELECT k FROM t WHERE k > 2 UNION ALL (TABLE t |> SELECT v |> WHERE v < 2)": [(1,), (3,)],
    "SELECT count(*) AS n FROM (TABLE t UNION TABLE t)": [(4,)],
    "FROM t |> WHERE k > 1 |> EXCEPT ALL TABLE t |> SELECT k": [],
    "SELECT (VALUES (7) AS q(c) |> SELECT c + 1) AS x": [(8,)],
    "FROM t |> ORDER BY k |> SELECT k |> WHERE k > 1 ORDER BY k DESC LIMIT 1": [(3,)],
    # columns of a table of the outer query
    "SELECT q.* FROM t, LATERAL (SELECT t.*, d.k AS e FROM d WHERE d.n = t.k) AS q WHERE v = 2": [
        (2, 2, "cd", "a"), (3, 2, None, "b"),
    ],
    # values of PIVOT that are structs
    "SELECT * FROM (SELECT struct(k, v) AS p, s FROM t) PIVOT (count(s) FOR p IN ((1, 1) AS a, (2, 2) AS b))": [(1, 1)],
    "SELECT * FROM (SELECT k, struct(v, k) AS p, s FROM t) PIVOT (max(s) AS m FOR (k, p) IN ((1, (2, 1)) AS a))": [
        ("b",)
    ],
    # the limit of a query in parentheses
    "SELECT k FROM t WHERE v IN ((SELECT v FROM t ORDER BY v) LIMIT 1)": [(1,)],
}  # fmt: skip


@pytest.mark.parametrize("text", ANSWERS)
def test_a_form_has_its_answer_and_a_view_of_it_too(session, text):
    assert sorted(session.sql(text).to_pylist(), key=str) == sorted(ANSWERS[text], key=str)
    session.sql(f"CREATE MATERIALIZED VIEW form AS {text}")
    assert sorted(session.view("form").to_pylist(), key=str) == sorted(ANSWERS[text], key=str)
    session.sql("DROP MATERIALIZED VIEW form")


def test_rows_are_put_in_the_order_of_all_outputs(session):
    assert session.sql("SELECT v, k FROM t ORDER BY ALL DESC").to_pylist() == [(2, 3), (2, 2), (2, 1), (1, 1)]
    order = "SELECT k, count(*) AS c FROM t GROUP BY CUBE (k) ORDER BY grouping(k) DESC, k"
    assert session.sql(order).to_pylist() == [(None, 4), (1, 2), (2, 1), (3, 1)]


@pytest.mark.parametrize("star", ["*, {}", "e.*, {}", "{}, *"])
def test_a_span_of_time_is_one_column(session, star):
    outputs = star.format("window(at, '10 minutes') AS w")
    actual = session.sql(f"SELECT {outputs} FROM e")
    assert sorted(actual.columns) == ["at", "k", "w"]
    assert len(session.sql("SELECT *, window.end AS w FROM e WHERE window(at, '10 minutes').start < at").columns) == 3


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        (
            "session_window(at, concat(k, ' minutes'))",
            "a text such as '10 minutes', or a CASE with a text for each case",
        ),
        ("ROLLUP (k, session_window(at, '1 minute'))", "session_window.. in ROLLUP"),
        ("session_window(at)", "needs a time and a gap"),
        ("session_window(at, '1 minute'), window(at, '1 minute')", "several windows"),
    ],
)
def test_sessions_that_are_refused(session, keys, why):
    with pytest.raises(PlanError, match=why):
        session.sql(f"SELECT count(*) AS n FROM e GROUP BY {keys}")


def test_rows_without_elements_come_and_go():
    d = an.source("d", "k string, n bigint", keep=True)
    text = "SELECT k, g FROM d LEFT JOIN LATERAL generate_series(1, n) AS g ON true"
    with an.Session() as session:
        view = session.maintain("v", query(text, {"d": d}))
        session.insert("d", [("a", 0), ("a", 0), ("b", 2)])
        session.advance()
        assert sorted(view.to_pylist(), key=str) == [("a", None), ("a", None), ("b", 1), ("b", 2)]
        session.retract("d", [("a", 0), ("b", 2)])
        session.insert("d", [("b", None), ("a", 1)])
        session.advance()
        assert sorted(view.to_pylist(), key=str) == [("a", 1), ("a", None), ("b", None)]
        late = session.maintain("late", query(text.replace("SELECT k", "SELECT k AS j"), {"d": d}))
        assert sorted(late.to_pylist(), key=str) == [("a", 1), ("a", None), ("b", None)]


def test_a_past_version_of_the_only_table_is_the_past_of_the_query():
    with an.Session(retain="all") as session:
        session.sql(
            "CREATE TABLE t (k INT); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); DELETE FROM t WHERE k = 1"
        )
        rows = {text: session.sql(text).to_pylist() for text in ("SELECT k FROM t ORDER BY k AS OF 1",)}
        for text in (
            "SELECT k FROM t VERSION AS OF 1 ORDER BY k",
            "SELECT k FROM t FOR VERSION AS OF 1 WHERE k > 0 ORDER BY k",
            "SELECT k FROM (SELECT k FROM t VERSION AS OF 1) q ORDER BY k",
        ):
            assert session.sql(text).to_pylist() == rows["SELECT k FROM t ORDER BY k AS OF 1"] == [(1,), (2,)]
        for text in (
            "SELECT count(*) FROM t VERSION AS OF 1, t AS u",
            "SELECT count(*) FROM t JOIN t AS u VERSION AS OF 1",
            "SELECT count(*) FROM t TIMESTAMP AS OF 1",
            "SELECT count(*) FROM t FOR SYSTEM_TIME AS OF 1",
            "SELECT count(*) FROM t VERSION AS OF '1'",
            "SELECT count(*) FROM t VERSION AS OF 1 AS OF 2",
            "CREATE MATERIALIZED VIEW v AS SELECT k FROM t VERSION AS OF 1",
        ):
            with pytest.raises(PlanError):
                session.sql(text)


def test_a_name_of_several_columns_further_left_is_refused(session):
    with pytest.raises(PlanError, match="'z' is the name of several columns before it"):
        session.sql("SELECT k AS z, v AS z, z + 1 FROM t")


def test_a_tables_star_begins_with_the_columns_of_using(spark):
    tables = "(VALUES (1, 2, 'x')) AS a(i, d, n) {} JOIN (VALUES ('CA', 2)) AS b(st, d) USING (d)"
    for how in ("", "LEFT", "RIGHT", "FULL"):
        for shown in ("a.*", "b.*", "a.*, b.st"):
            text = f"SELECT {shown} FROM {tables.format(how)}"
            with an.Session() as session:
                assert session.sql(text).to_pylist() == [tuple(row) for row in spark.sql(text).collect()], text


@pytest.mark.parametrize(
    "text",
    [
        # a * without FROM stands for nothing
        "SELECT * FROM t, LATERAL (SELECT *)",
        "SELECT * FROM t, LATERAL (SELECT *, v + 1 AS z)",
        "SELECT t.k FROM t LEFT JOIN LATERAL (SELECT *) x ON t.v = 9",
        "SELECT * FROM t, LATERAL (SELECT * WHERE t.v > 1)",
        "SELECT k FROM t WHERE EXISTS (SELECT * WHERE t.v > 1)",
        "SELECT 1, *",
        # grouping sets that aggregates ask for
        "SELECT k, count(*) FILTER (WHERE grouping(k) = 1) FROM t GROUP BY ROLLUP(k)",
        "SELECT k, sum(grouping(k)), max(grouping_id()) FROM t GROUP BY ROLLUP(k)",
        (
            "SELECT s, k, sum(k + grouping(k)), count(DISTINCT grouping(s)), sum(v) FILTER (WHERE grouping_id(s, k) = "
            "1) FROM t GROUP BY CUBE(s, k)"
        ),
        # outputs of one name
        "SELECT x.k, y.k FROM t x, t y GROUP BY x.k, y.k HAVING count(*) > 1 AND x.k > 1",
        "SELECT x.k, y.k, count(*) FROM t x, t y GROUP BY x.k, y.k HAVING x.k > y.k",
        # nulls of no type, which Spark does not find in a hash table
        "SELECT NULL INTERSECT SELECT NULL",
        "SELECT NULL FROM t EXCEPT SELECT NULL FROM t",
    ],
)
def test_forms_have_sparks_answer(session, spark, text):
    rows = [(1, 1, "ab"), (1, 2, "b"), (2, 2, "cd"), (3, 2, None)]
    spark.createDataFrame(rows, "k int, v int, s string").createOrReplaceTempView("t")

    def shown(answer):
        return sorted(map(repr, map(tuple, answer)))

    assert shown(session.sql(text).to_pylist()) == shown(spark.sql(text).collect())


def test_nulls_of_no_type_are_found_whatever_spark_plans(session):
    assert session.sql("VALUES (NULL) INTERSECT VALUES (NULL)").to_pylist() == [(None,)]
    assert session.sql("VALUES (NULL) EXCEPT VALUES (NULL)").to_pylist() == []


def test_a_star_without_from_is_refused_where_nothing_is_left(session):
    for text in ("SELECT *", "SELECT * FROM (SELECT *)"):
        with pytest.raises(PlanError, match="needs a FROM clause"):
            session.sql(text)


def test_a_view_with_too_few_names_says_how_many_columns_there_are(session):
    with pytest.raises(PlanError, match=r"names 1 columns, and its query has 6$"):
        session.sql("CREATE MATERIALIZED VIEW v (x) AS SELECT * FROM t x, t y")
