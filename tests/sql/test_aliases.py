"""Aliases that items of the same SELECT read, also those whose items are too large to be written out."""

import sys

import pytest
from pyspark.errors import AnalysisException, ArithmeticException
from pyspark.sql import Row

import altneu as an
from altneu.errors import PlanError, ViewHasErrorsError
from altneu.sql import aliases, functions

ROWS = "(1, 1), (1, 2), (1, -7), (2, 6), (2, NULL), (3, 9), (4, 4), (NULL, 2), (5, 0)"


def large(x: str) -> str:
    """An expression over x that is a column for those who read it."""
    choice = f"CASE WHEN {x} > 3 THEN {x} + 1 WHEN {x} < -3 THEN {x} - 1 ELSE {x} * 2 END"
    return f"({choice} + CASE WHEN {x} > 5 THEN {x} ELSE 0 END)"


def chain(count: int) -> str:
    """Items of which each reads the one before three times."""
    return ", ".join(["v AS a0"] + [f"(a{i} + a{i}) % (a{i} + {i + 2}) AS a{i + 1}" for i in range(count)])


QUERIES = [
    f"SELECT k, {large('v')} AS a, {large('a')} AS b, a + b AS c FROM t",
    f"SELECT k, {large('sum(v)')} AS a, {large('a')} AS b, a + b AS c FROM t GROUP BY k",
    f"SELECT {large('k')} AS a, {large('a')} AS b, count(*) AS n FROM t GROUP BY a, b",
    f"SELECT {large('k')} AS a, {large('a')} AS b, count(*) AS n FROM t GROUP BY ALL",
    f"SELECT {large('k')} AS a, {large('count(*)')} AS n, {large('n')} AS m FROM t GROUP BY ALL",
    f"SELECT {large('count(v)')} AS a, {large('a')} AS b FROM t",
    f"SELECT {large('count(v)')} AS a, {large('a')} AS b FROM t WHERE v > 1000",
    f"SELECT k, (SELECT {large('count(v)')} + 7 AS a FROM t WHERE t.k = u.k) AS a, {large('a')} AS b FROM t AS u",
    (
        f"SELECT k, (SELECT max(b) FROM (SELECT {large('count(v)')} AS a, {large('a')} AS b FROM t WHERE t.k = u.k)) "
        "AS m FROM t AS u"
    ),
    (
        f"SELECT k FROM t AS u WHERE 3 < (SELECT {large('a')} AS b FROM (SELECT {large('count(v)')} AS a FROM t "
        "WHERE t.k = u.k))"
    ),
    (
        f"SELECT k, v FROM t AS u WHERE EXISTS (SELECT {large('count(v)')} AS a, {large('a')} AS b FROM t "
        "WHERE t.k = u.k HAVING b > 2)"
    ),
    f"SELECT k, {large('sum(v)')} AS a, {large('a')} AS b FROM t GROUP BY k HAVING b > 4",
    f"SELECT k, {large('sum(v)')} AS a, {large('a')} AS b FROM t GROUP BY k HAVING b > 4 ORDER BY b DESC, a LIMIT 3",
    (
        f"SELECT k, {large('v')} AS a, {large('a')} AS b, row_number() OVER (PARTITION BY k ORDER BY b, v) AS r, "
        f"{large('r')} AS c, {large('c')} AS d FROM t QUALIFY c < 9 AND d > 1"
    ),
    f"SELECT k, {large('rank() OVER (ORDER BY k)')} AS r, {large('r')} AS s FROM t QUALIFY k > 1",
    (
        f"SELECT k, {large('v')} AS a, {large('a')} AS b, coalesce(a IN (SELECT v FROM t), false) AS i, "
        f"coalesce(b IN (SELECT k FROM t), false) AS j, "
        f"IF(j, {large('b')}, 0) AS l FROM t"
    ),
    f"SELECT DISTINCT {large('k')} AS a, {large('a')} AS b FROM t ORDER BY b DESC LIMIT 2",
    f"SELECT DISTINCT ON (b) {large('k')} AS a, {large('a')} AS b, v FROM t ORDER BY b, v DESC",
    f"SELECT {large('k')} AS k, {large('k')} AS b FROM t",
    f"SELECT {large('k')} AS a, {large('a')} AS b, sum(v) AS s, {large('s')} AS c FROM t GROUP BY ROLLUP (a, b)",
    f"SELECT named_struct('x', {large('k')}, 'y', 1) AS st, {large('st.x')} AS b, {large('b')} AS c FROM t",
    (
        f"SELECT 1 / IF({large('k')} = 0, 1, k) AS q, {large('q')} AS b, {large('b')} AS d FROM t QUALIFY k <> 0 "
        "AND row_number() OVER (ORDER BY k, v) > 1"
    ),
    f"SELECT (SELECT max(v) + {large('max(v)')} FROM t) AS m, {large('m')} AS d, {large('d')} AS e FROM t",
    f"SELECT {large('k')} AS a, {large('a')} AS b FROM t UNION ALL SELECT {large('v')} AS a, {large('a')} FROM t",
    # a row that fails in what QUALIFY drops has not failed
    (
        f"SELECT k, 100 / (k - 1) + {large('k')} AS q, {large('q')} AS b, {large('b')} AS c FROM t "
        "QUALIFY row_number() OVER (ORDER BY k) > 0 AND k > 1"
    ),
]


@pytest.mark.parametrize("query", QUERIES)
def test_columns_give_what_the_items_written_out_give(query, monkeypatch):
    answers = []
    for most in (aliases._WRITTEN, 1_000_000):
        monkeypatch.setattr(aliases, "_WRITTEN", most)
        with an.Session() as session:
            session.sql(f"CREATE TABLE t (k BIGINT, v BIGINT); CREATE MATERIALIZED VIEW w AS {query}")
            rows = []
            for statement in (
                f"INSERT INTO t VALUES {ROWS}",
                "DELETE FROM t WHERE v = 6",
                "INSERT INTO t VALUES (1, 1), (7, -8)",
            ):
                session.sql(statement)
                rows.append(sorted(map(repr, session.sql(query).to_pylist())))
                if "ORDER BY b DESC" not in query:  # which has no LIMIT in a view
                    assert sorted(map(repr, session.view("w").to_pylist())) == rows[-1]
            answers.append(rows)
    assert answers[0] == answers[1]


def test_as_spark_has_them(spark):
    """Those that Spark takes: it has no aliases of others in GROUP BY, and few of them beside subqueries."""
    compared = 0
    for query in QUERIES:
        try:
            rows = spark.sql(f"WITH t AS (SELECT * FROM VALUES {ROWS} AS t(k, v)) {query}").collect()
        except (AnalysisException, ArithmeticException):  # of the row that has not failed here
            continue
        with an.Session() as session:
            session.sql(f"CREATE TABLE t (k BIGINT, v BIGINT); INSERT INTO t VALUES {ROWS}")
            ours = session.sql(query).to_pylist()
        assert sorted(map(repr, ours)) == sorted(repr(_plain(row)) for row in rows), query
        compared += 1
    assert compared >= 12


def _plain(row):
    return tuple(value.asDict() if isinstance(value, Row) else value for value in row)


def test_what_is_bound_does_not_double_with_each_alias():
    def calls(count: int) -> int:
        with an.Session() as session:
            session.sql("CREATE TABLE t (v BIGINT); INSERT INTO t VALUES (1)")
            session.sql("SELECT v, v + 1 AS a, a + 1 FROM t")  # what is imported at first use
            made = 0

            def profiled(frame, event, argument):
                nonlocal made
                made += event == "call"

            sys.setprofile(profiled)
            try:
                (row,) = session.sql(f"SELECT {chain(count)} FROM t").to_pylist()
            finally:
                sys.setprofile(None)
        value, values = 1, [1]
        for i in range(count):
            value = (value + value) % (value + i + 2)
            values.append(value)
        assert row == tuple(values)
        return made

    assert calls(32) < 20 * calls(8)


def test_an_error_behind_many_aliases_is_told_in_some_words():
    with an.Session() as session:
        session.sql("CREATE TABLE t (v BIGINT); INSERT INTO t VALUES (1)")
        with pytest.raises(ViewHasErrorsError, match="1 / ") as error:
            session.sql(f"SELECT {chain(40)}, 1 / (a40 - a40) AS x FROM t")
        assert "#" not in str(error.value)
        assert len(str(error.value)) < 5_000


def test_calls_of_functions_of_functions_have_a_bound(monkeypatch):
    monkeypatch.setattr(functions, "LARGEST", 5_000)
    with an.Session() as session:
        session.sql("CREATE FUNCTION f0(x BIGINT) RETURNS BIGINT RETURN x % 7")
        texts = [f"CREATE FUNCTION f{i + 1}(x BIGINT) RETURNS BIGINT RETURN f{i}(x) + f{i}(x + 1)" for i in range(20)]
        with pytest.raises(PlanError, match=r"function f\d+: a call of f\d+ must stand for .* at most 5,000 parts"):
            session.sql("; ".join(texts))
        session.sql("CREATE TABLE t (v BIGINT); INSERT INTO t VALUES (1)")
        assert session.sql("SELECT f3(v) FROM t").to_pylist() == [(20,)]
