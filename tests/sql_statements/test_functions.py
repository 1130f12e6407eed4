"""Functions in statements: created, registered, written out, dropped, restored, refused."""

from __future__ import annotations

import random
from itertools import count

import pytest

import altneu as an
from altneu.errors import (
    AltneuError,
    NonDeterministicError,
    PlanError,
    StatementError,
    StorePlanError,
    TypeMismatchError,
    UnknownColumnError,
    UnsupportedFunctionError,
)
from altneu.sql.statements.parser import parse
from altneu.sql.statements.tree import CreateFunction, Drop, Show

DIGITS = """CREATE FUNCTION digits(s STRING) RETURNS INT LANGUAGE PYTHON AS $$
  import re
  if s is None:  # it's "nothing"; \\d below is no escape
      return 0
  return len(re.findall(r'\\d', s))
$$"""
TWICE = "CREATE FUNCTION twice(x INT, factor INT DEFAULT 2) RETURNS BIGINT RETURN x * factor"
BOTH = "CREATE FUNCTION both(x INT) RETURNS ARRAY<BIGINT> RETURN transform(array(1, 2), k -> twice(k + x))"


def score(k: int | None) -> int | None:
    if k == 13:
        raise ValueError("thirteen")
    return None if k is None else k * 10


@pytest.fixture
def session():
    with an.Session() as session:
        session.udf.register("score", score, "bigint")
        session.sql("CREATE TABLE t (k BIGINT, s STRING); INSERT INTO t VALUES (1, 'a1'), (2, 'b22'), (NULL, NULL)")
        session.sql(f"{TWICE}; {DIGITS}; {BOTH}")
        yield session


def rows(session, text):
    return sorted(session.sql(text).to_pylist(), key=str)


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (
            "SELECT k, twice(k), twice(k, 5) AS b, digits(s) AS d FROM t",
            [(1, 2, 5, 1), (2, 4, 10, 2), (None, None, None, 0)],
        ),
        ("SELECT both(k) AS b FROM t WHERE k = 1", [([4, 6],)]),
        ("SELECT k FROM t WHERE score(k) > 15 OR digits(s) = 0", [(2,), (None,)]),
        (
            "SELECT digits(s) AS d, max(score(k)) AS m FROM t GROUP BY digits(s) HAVING max(score(k)) > 1",
            [(1, 10), (2, 20)],
        ),
        ("SELECT twice(k) AS d, count(*) AS n FROM t GROUP BY twice(k)", [(2, 1), (4, 1), (None, 1)]),
        ("SELECT sum(twice(k)) AS s, count(DISTINCT score(k)) AS n FROM t", [(6, 2)]),
        ("SELECT a.k FROM t a JOIN t b ON score(a.k) = score(b.k) AND digits(a.s) < 2", [(1,)]),
        ("SELECT a.k, b.k AS j FROM t a LEFT JOIN t b ON twice(a.k) = b.k", [(1, 2), (2, None), (None, None)]),
        (
            "SELECT k, rank() OVER (PARTITION BY digits(s) > 0 ORDER BY score(k) DESC) AS r FROM t",
            [(1, 2), (2, 1), (None, 1)],
        ),
        ("SELECT k FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE score(u.k) = twice(t.k, 10))", [(1,), (2,)]),
        ("SELECT k FROM t WHERE k IN (SELECT twice(k) FROM t)", [(2,)]),
        (
            "SELECT transform(array(10, 20), k -> twice(k)) AS x, transform(array(3), x -> both(x)) AS y",
            [([20, 40], [[8, 10]])],
        ),
        ("SELECT transform(array(k), x -> score(x)) AS x FROM t WHERE k = 2", [([20],)]),
        ("WITH d AS (SELECT twice(k) AS k FROM t) SELECT max(k) AS m FROM d UNION ALL SELECT twice(7)", [(14,), (4,)]),
        ("SELECT CASE WHEN k = 1 THEN twice(k) ELSE score(k) END AS c FROM t", [(2,), (20,), (None,)]),
        ("SELECT twice('4') AS a, twice(2.7) AS b, twice(true) AS c, Twice(NULL) AS d", [(8, 4, 2, None)]),
        ("VALUES (twice(2))", [(4,)]),
    ],
)
def test_functions_stand_in_every_clause(session, query, answer):
    assert rows(session, query) == answer


def test_columns_without_a_name_are_called_as_the_call_is(session):
    assert session.sql("SELECT twice(k), 1 + twice(k) FROM t").columns == ["twice(k)", "1 + twice(k)"]


def test_statements_that_change_rows_may_call_them(session):
    session.sql("DELETE FROM t WHERE score(k) = 10; UPDATE t SET s = concat(s, '7'), k = twice(k) WHERE digits(s) = 2")
    session.sql("INSERT INTO t SELECT score(k), s FROM t WHERE k IS NOT NULL")
    assert rows(session, "SELECT * FROM t") == [(4, "b227"), (40, "b227"), (None, None)]


def test_a_row_on_which_a_function_raises_is_an_error_row(session):
    session.sql("CREATE MATERIALIZED VIEW v AS SELECT score(k) AS s FROM t")
    session.sql("INSERT INTO t VALUES (13, 'x')")
    (error,) = session.view("v").errors().to_pylist()
    assert (error["code"], error["message"]) == ("PYTHON_EXCEPTION", "ValueError: thirteen")
    session.sql("DELETE FROM t WHERE k = 13")
    assert rows(session, "SELECT * FROM v") == [(10,), (20,), (None,)]


def test_an_argument_named_like_a_parameter_of_a_lambda_is_not_captured(session):
    session.sql("CREATE FUNCTION plus(y INT) RETURN transform(array(1, 2), x -> x + y)")
    session.sql("CREATE TABLE u (x INT); INSERT INTO u VALUES (10)")
    assert rows(session, "SELECT plus(x) AS p, transform(array(100), x -> plus(x)) AS q FROM u") == [
        ([11, 12], [[101, 102]])
    ]
    assert rows(session, "SELECT plus(plus(x)[0]) AS p FROM u") == [([12, 13],)]


def test_results_are_kept_for_a_registered_function_with_memo():
    calls: list[int] = []
    with an.Session() as session:
        session.udf.register("dear", lambda k: calls.append(k) or random.random(), "double", memo=True)
        session.sql("CREATE TABLE t (k INT, s STRING); INSERT INTO t VALUES (1, 'a'), (1, 'b'), (2, 'c')")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT s, dear(k) AS x FROM t WHERE dear(k) < 2")
        assert sorted(calls) == [1, 2]
        session.sql("DELETE FROM t WHERE s <> 'b'; INSERT INTO t VALUES (2, 'd')")
        assert sorted(calls) == [1, 2]
        assert [s for s, _ in rows(session, "SELECT * FROM v")] == ["b", "d"]


def test_functions_are_listed_shown_and_dropped(session):
    listed = session.sql("SHOW USER FUNCTIONS").to_pylist()
    assert [name for name, *_ in listed] == ["both", "digits", "score", "twice"]
    assert listed[3] == ("twice", "Functions of users", "twice(x int, factor int)", "bigint: x * factor")
    assert listed[2] == ("score", "Functions of users", "score(…)", "bigint: Python")
    assert [name for name, *_ in session.sql("SHOW FUNCTIONS LIKE 'twi%'").to_pylist()] == ["twice"]
    assert session.sql("SHOW CREATE FUNCTION twice").to_pylist() == [("twice()", TWICE)]
    with pytest.raises(StatementError, match=r"FUNCTION twice\(\) is dropped while it is read by FUNCTION both\(\)"):
        session.sql("DROP FUNCTION twice")
    with pytest.raises(StatementError, match=r"FUNCTION twice\(\) is replaced while it is read by FUNCTION both\(\)"):
        session.sql("CREATE OR REPLACE FUNCTION twice(x INT) RETURN x")
    session.sql("CREATE VIEW w AS SELECT both(k) AS b FROM t; DROP FUNCTION both() CASCADE")
    with pytest.raises(PlanError, match="no table or view 'w'"):
        session.sql("SELECT * FROM w")
    session.sql("CREATE OR REPLACE FUNCTION twice(x INT) RETURN x + x; CREATE TABLE twice (x INT)")
    assert rows(session, "SELECT twice(4) AS x UNION ALL SELECT x FROM twice") == [(8,)]
    session.sql("DROP FUNCTION IF EXISTS twice; DROP FUNCTION IF EXISTS twice")
    with pytest.raises(UnsupportedFunctionError, match="there is no function 'twice'"):
        session.sql("SELECT twice(1)")


def test_a_temporary_function_ends_with_its_session(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.sql("CREATE TEMPORARY FUNCTION f(x INT) RETURN x + 1; CREATE FUNCTION g(x INT) RETURN x + 2")
        assert rows(session, "SELECT f(1) AS f, g(1) AS g") == [(2, 3)]
    with an.Session(path=tmp_path) as session:
        assert rows(session, "SELECT g(1) AS g") == [(3,)]
        with pytest.raises(UnsupportedFunctionError, match="there is no function 'f'"):
            session.sql("SELECT f(1)")
        session.sql("CREATE TEMPORARY FUNCTION f(x INT) RETURN x; DROP TEMPORARY FUNCTION f")


def test_views_over_functions_go_on_when_a_store_is_opened_again(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.udf.register("score", score, "bigint")
        session.sql(f"CREATE TABLE t (k BIGINT, s STRING); {TWICE}; {DIGITS}; {BOTH}")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT score(k) AS a, digits(s) AS d, both(k) AS b FROM t")
        session.sql("INSERT INTO t VALUES (1, 'a1')")
    with an.Session(path=tmp_path) as session:
        with pytest.raises(UnsupportedFunctionError, match="there is no function 'score'"):
            session.sql("SELECT * FROM v")
        session.udf.register("score", score, "bigint")
        session.sql("INSERT INTO t VALUES (2, '22'); DELETE FROM t WHERE k = 1")
        assert rows(session, "SELECT * FROM v") == [(20, 2, [6, 8])]
    with an.Session(path=tmp_path) as session:
        session.udf.register("score", lambda k: k and k * 11, "bigint")
        with pytest.raises(
            StorePlanError, match=r"functions of view 'v' have changed since it was stored.*it was .*score"
        ):
            session.sql("SELECT * FROM v")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (
            "SELECT scor(1)",
            UnsupportedFunctionError,
            r"there is no function 'scor'.*of your own functions, did you mean score\?",
        ),
        (
            "SELECT score(1, 2)",
            TypeMismatchError,
            r"score is the function score\(k: .*\) -> .*, which cannot be called with 2",
        ),
        ("SELECT twice()", TypeMismatchError, "twice takes 1 to 2 arguments, not 0"),
        ("SELECT digits(1, 2)", TypeMismatchError, "digits takes 1 argument, not 2"),
        ("SELECT digits(array(1))", TypeMismatchError, "digits: argument 1 .* must be string, not array<int>"),
        ("SELECT twice(array(1))", TypeMismatchError, "cannot be cast to int"),
        ("SELECT twice(x => 1)", UnsupportedFunctionError, "not supported: `x => 1`"),
        ("SELECT score(k) OVER () FROM t", UnsupportedFunctionError, r"score\(\) is not a window function"),
        ("SELECT * FROM score(1)", PlanError, r"the table function score\(\)"),
        (
            "CREATE FUNCTION upper(x INT) RETURN x",
            StatementError,
            r"upper\(\) is a function of SQL; choose another name",
        ),
        ("CREATE FUNCTION count_if(x INT) RETURN x", StatementError, "is a function of SQL"),
        ("CREATE FUNCTION score(x INT) RETURN x", StatementError, "'score' is a function that the program registers"),
        (
            "CREATE FUNCTION twice(x INT) RETURN x",
            StatementError,
            "with another definition; DROP FUNCTION twice, or CREATE OR",
        ),
        ("CREATE FUNCTION r(x INT) RETURN r(x)", UnsupportedFunctionError, "function r: there is no function 'r'"),
        ("CREATE FUNCTION r(x INT) RETURN y", UnknownColumnError, "function r: no column 'y'; the columns are: x"),
        ("CREATE FUNCTION r(x INT, X INT) RETURN x", StatementError, "two of its parameters have the same name"),
        ("CREATE FUNCTION r(x INT) RETURN rand()", NonDeterministicError, r"function r: rand\(\) gives another value"),
        (
            "CREATE FUNCTION r(x INT) RETURN (SELECT max(k) FROM t)",
            UnsupportedFunctionError,
            "a subquery is not an expression",
        ),
        ("CREATE FUNCTION r(x INT) RETURN sum(x)", UnsupportedFunctionError, "function r: sum"),
        ("CREATE FUNCTION r(x INT) RETURN NULL", TypeMismatchError, "its value is NULL without a type; write RETURNS"),
        (
            "CREATE FUNCTION r(x INT) RETURNS INT RETURN array(x)",
            TypeMismatchError,
            "function r: .* cannot be cast to int",
        ),
        (
            "CREATE FUNCTION r(x INT DEFAULT array(1)) RETURN x",
            TypeMismatchError,
            "function r: .* cannot be cast to int",
        ),
        ("CREATE FUNCTION r(x INT) NOT DETERMINISTIC RETURN x", StatementError, "a function must be DETERMINISTIC"),
        (
            "CREATE FUNCTION r(x INT) RETURNS TABLE (y INT) RETURN SELECT 1",
            StatementError,
            "returns a table is not supported",
        ),
        ("CREATE FUNCTION r(x INT) LANGUAGE PYTHON RETURN x", StatementError, "LANGUAGE PYTHON goes with AS"),
        ("CREATE FUNCTION r(x INT) LANGUAGE PYTHON AS $$ return x $$", StatementError, "needs RETURNS and a type"),
        ("CREATE FUNCTION r(x INT) RETURNS INT LANGUAGE SCALA AS 'x'", StatementError, "expected SQL or PYTHON"),
        ("CREATE FUNCTION r(x INT) RETURNS INT LANGUAGE PYTHON AS $$ return ( $$", StatementError, "r is not Python: "),
        (
            "CREATE FUNCTION r(x INT) RETURNS INT LANGUAGE PYTHON AS $$ x + 1 $$",
            StatementError,
            "must have a return statement",
        ),
        (
            "CREATE FUNCTION r(x INT) RETURNS DOUBLE LANGUAGE PYTHON AS $$\nimport random\nreturn random.random()\n$$",
            NonDeterministicError,
            "r calls random.random, which answers differently",
        ),
        ("DROP FUNCTION nothing", StatementError, r"there is no 'nothing\(\)'; the statement needs a FUNCTION"),
        ("CREATE FUNCTION r x INT RETURN x", StatementError, "expected \\("),
    ],
)
def test_what_no_function_can_be_is_refused(session, text, error, message):
    with pytest.raises(error, match=message):
        session.sql(text)
    own = ["both", "digits", "score", "twice"]
    assert [name for name, *_ in session.sql("SHOW USER FUNCTIONS").to_pylist()] == own
    system, everything = (
        {name for name, *_ in session.sql(f"SHOW {which} FUNCTIONS").to_pylist()} for which in ("SYSTEM", "ALL")
    )
    assert "md5" in system
    assert everything == system | set(own)


def test_a_name_is_registered_for_one_function(session):
    with pytest.raises(StatementError, match=r"twice\(\) is a FUNCTION that a statement created; DROP FUNCTION twice"):
        session.udf.register("twice", score, "int")
    with pytest.raises(StatementError, match=r"lower\(\) is a function of SQL"):
        session.udf.register("lower", score, "int")
    with pytest.raises(StatementError, match="the name of a function must be letters, digits and _, got 'a b'"):
        session.udf.register("a b", score, "int")
    with pytest.raises(AltneuError, match=r"random\.random, which answers differently"):
        session.udf.register("chance", lambda: random.random() + 1, "double")
    session.udf.register("score", lambda k: k, "bigint")
    assert rows(session, "SELECT score(4) AS s") == [(4,)]


def test_a_plan_that_was_asked_again_is_not_of_an_older_function(session):
    for n in (1, 2, 3, 4):
        session.udf.register("plus", lambda k, n=n: k + n, "bigint")
        for _ in range(4):
            assert rows(session, "SELECT plus(k) AS p FROM t WHERE k = 2") == [(2 + n,)]


def test_functions_are_parsed():
    text = (
        "CREATE OR REPLACE TEMPORARY FUNCTION IF NOT EXISTS f(x INT, y ARRAY<STRING> DEFAULT array('a')) "
        "RETURNS DECIMAL(10,2) LANGUAGE SQL DETERMINISTIC CONTAINS SQL COMMENT 'c' RETURN x + size(y)"
    )
    (made,) = parse(text)
    assert isinstance(made, CreateFunction)
    assert (made.name, made.unless, made.replace, made.temporary, made.returns) == (
        "f()",
        True,
        True,
        True,
        "DECIMAL(10,2)",
    )
    assert [(name, kind, default is not None) for name, kind, default in made.parameters] == [
        ("x", "INT", False),
        ("y", "ARRAY<STRING>", True),
    ]
    assert [
        (s.kind, s.name) for s in parse("DROP FUNCTION f; DROP TEMPORARY FUNCTION IF EXISTS f()") if isinstance(s, Drop)
    ] == [("FUNCTION", "f()")] * 2
    assert [s.what for s in parse("SHOW SYSTEM FUNCTIONS; SHOW ALL FUNCTIONS LIKE 'a*'")] == [
        "SYSTEM FUNCTIONS",
        "FUNCTIONS",
    ]
    assert [s.what for s in parse("SHOW USER FUNCTIONS; SHOW CREATE FUNCTION f") if isinstance(s, Show)] == [
        "USER FUNCTIONS",
        "CREATE",
    ]


def test_a_query_beside_the_session_calls_the_functions_of_its_store(tmp_path):
    from altneu.cli.offline import ask

    with an.Session(path=tmp_path) as session:
        session.sql(f"CREATE TABLE t (k BIGINT, s STRING); {TWICE}; {DIGITS}; {BOTH}; INSERT INTO t VALUES (1, 'a1')")
        session.sql("CREATE VIEW w AS SELECT both(k) AS b FROM t")
        with an.read(tmp_path) as reader:
            assert ask(reader, "SELECT twice(k) AS k, digits(s) AS d FROM t").table.to_pylist() == [{"k": 2, "d": 1}]
            assert ask(reader, "SELECT * FROM w").table.to_pylist() == [{"b": [4, 6]}]
            with pytest.raises(UnsupportedFunctionError, match=r"of your own functions, did you mean twice\?"):
                ask(reader, "SELECT twics(k) FROM t")


def test_views_of_an_indexed_view_read_its_results_whatever_the_function_answers():
    answers = count()
    with an.Session() as session:
        session.udf.register("chance", an.udf(lambda _: next(answers), "int", memo=True, version="1"))
        session.sql("""
            CREATE TABLE t (k STRING, x INT);
            CREATE TABLE u (x INT, z INT);
            CREATE MATERIALIZED VIEW v AS SELECT k, t.x, z, chance(t.x) AS y FROM t JOIN u ON t.x = u.x WHERE z > 0;
            CREATE INDEX v_by_k ON v (k);
            CREATE MATERIALIZED VIEW some AS SELECT x, y FROM v WHERE y > 1;
            CREATE MATERIALIZED VIEW summed AS SELECT sum(y) AS y FROM v;
            INSERT INTO u VALUES (1, 1), (2, 2), (2, 3), (4, 4), (5, 0);
            INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 2), ('d', 4), ('e', 5);
        """)
        session.sql("CREATE MATERIALIZED VIEW late AS SELECT k, y FROM v WHERE x = 2")
        for change in ("SELECT 1", "INSERT INTO t VALUES ('f', 1), ('g', 5); UPDATE u SET z = 1 WHERE x = 5"):
            session.sql(change)
            all_rows = rows(session, "TABLE v")
            assert sorted(rows(session, "TABLE some")) == sorted((x, y) for _, x, _, y in all_rows if y > 1)
            assert rows(session, "TABLE summed") == [(sum(y for *_, y in all_rows),)]
            assert sorted(rows(session, "TABLE late")) == sorted((k, y) for k, x, _, y in all_rows if x == 2)
        assert next(answers) == len({x for _, x, _, _ in all_rows})
