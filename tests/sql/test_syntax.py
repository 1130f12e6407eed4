"""Every argument of sqlglot's classes is read or refused by name, and what is said to be read makes a difference."""

from __future__ import annotations

import functools
import re

import pytest
import sqlglot
from sqlglot import exp

import altneu as an
from altneu import types
from altneu.errors import PlanError
from altneu.sql import parse_query, query, shown
from altneu.types import syntax
from altneu.types.syntax import _VALUES, OF_DIALECT, READ, refuse_unread

CATALOG = {
    "t": an.source("t", "a int, b string, x bigint, at timestamp, s struct<f: int>, xs array<int>", keep=True),
    "u": an.source("u", "a int, y bigint", keep=True),
    "d.u": an.source("du", "a int, z bigint", keep=True),
    "c.d.u": an.source("cdu", "a int, z bigint, w int", keep=True),
    "e.d.u": an.source("edu", "a int, z bigint, w int", keep=True),
}
INERT = {
    (exp.Identifier, "quoted"): "names are found in any case, quoted or not",
    (exp.Select, "hint"): "how Spark is to compute it, which changes no answer",
    (exp.CTE, "materialized"): "how often it is computed",
    (exp.Lateral, "view"): "LATERAL VIEW f() is LATERAL f()",
    (exp.Window, "over"): "OVER, which every window has",
    (exp.Fetch, "direction"): "FIRST and NEXT are one",
    (exp.Fetch, "limit_options"): "ROWS",
    (exp.LimitOptions, "rows"): "ROWS",
    (exp.Limit, "limit_options"): "ROWS",
    (exp.Hint, "expressions"): "as the hint",
    (exp.CommentColumnConstraint, "this"): "a comment",
    (exp.ColumnConstraint, "this"): "the name of a constraint",
}
"""What may be left out without changing an answer."""

QUERIES = [
    "SELECT CAST('10:00:00' AS TIME(6)) AS x FROM t",
    "SELECT * EXCEPT (a), x + 1 AS n FROM t",
    "SELECT -x, x - 1, x * 2, x / 2, x DIV 2, x % 2, ~x, x & 1, x | 1, x ^ 1, x << 1, x >> 1, b || 'z' FROM t",
    "SELECT x = 1, x <> 1, x < 1, x <= 1, x > 1, x >= 1, x <=> 1, NOT x <=> 1, x = 1 AND x = 2, x = 1 OR x = 2 FROM t",
    "SELECT x IS DISTINCT FROM 1, b RLIKE 'z', b IS NULL, NOT (x > 1), b LIKE 'z%' ESCAPE '/' FROM t",
    "SELECT b NOT LIKE 'z%', b NOT ILIKE 'z', b LIKE ANY ('y', 'z'), b LIKE ALL ('y', 'z') FROM t",
    "SELECT s.f, xs[0], t.a, d.u.z FROM t CROSS JOIN d.u",
    "SELECT c.d.u.w FROM c.d.u CROSS JOIN e.d.u",
    "SELECT * REPLACE (x + 1 AS x) FROM t",
    "SELECT * FROM t PIVOT (sum(x) FOR a IN (1, 2)) AS q",
    "SELECT q.* FROM (SELECT a, b, x FROM t) PIVOT (sum(x) AS s, count(*) AS n FOR (a, b) IN ((1, 'z') AS one)) AS q",
    "SELECT * FROM (SELECT CAST(a AS BIGINT) AS a, x FROM t) UNPIVOT INCLUDE NULLS (v FOR n IN (a, x AS z)) AS q",
    "SELECT * FROM (SELECT a, x FROM t) UNPIVOT (v FOR n IN (a, x))",
    "SELECT a, x, count(*) FROM t GROUP BY a, x WITH ROLLUP",
    "SELECT a, x, count(*) FROM t GROUP BY a, x WITH CUBE",
    "SELECT a, x, count(*) FROM t GROUP BY a, x GROUPING SETS ((a), (x))",
    "SELECT (s).f, array(s)[0].f, `A` FROM `T`",
    "SELECT x'1F', n'z', r'z', true, false, null, DATE '2020-01-01', INTERVAL '1-2' YEAR TO MONTH, INTERVAL 3 DAY",
    "SELECT EXTRACT(YEAR FROM at), TRIM(LEADING 'z' FROM b), SUBSTRING(b FROM 2 FOR 3), POSITION('z', b, 2) FROM t",
    "SELECT OVERLAY(b PLACING 'z' FROM 2 FOR 3), 'a' 'b', CAST(x AS DECIMAL(7, 2)), TRY_CAST(b AS INT) FROM t",
    "SELECT CASE x WHEN 1 THEN 2 ELSE 3 END, x BETWEEN 1 AND 2, x IN (1, 2), transform(xs, v -> v + 1) FROM t",
    "SELECT f.f FROM t, LATERAL (SELECT s.f) AS f",
    "SELECT sum(x) FILTER (WHERE a > 1), count(DISTINCT a, x), listagg(b, ',') WITHIN GROUP (ORDER BY x DESC) FROM t",
    "SELECT first_value(x) IGNORE NULLS OVER (PARTITION BY a ORDER BY x DESC NULLS LAST) FROM t",
    "SELECT sum(x) RESPECT NULLS FROM t",
    "SELECT sum(x) OVER (w ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING) FROM t WINDOW w AS (PARTITION BY a ORDER BY x)",
    "SELECT sum(x) OVER (ORDER BY x RANGE BETWEEN 2 FOLLOWING AND 3 FOLLOWING) FROM t",
    "SELECT /*+ BROADCAST(t) */ DISTINCT a FROM t WHERE x > 1 GROUP BY a HAVING count(*) > 1",
    "SELECT a, x FROM t QUALIFY row_number() OVER (PARTITION BY a ORDER BY x) = 1 ORDER BY x LIMIT 2 OFFSET 1",
    "SELECT a FROM t FETCH FIRST 2 ROWS ONLY",
    "SELECT a, sum(x) FROM t GROUP BY ALL",
    "SELECT a, x, count(*) FROM t GROUP BY ROLLUP (a, x)",
    "SELECT a, x, count(*) FROM t GROUP BY CUBE (a, x)",
    "SELECT a, x, count(*) FROM t GROUP BY GROUPING SETS ((a, x), ())",
    "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) AND a IN (SELECT a FROM u)",
    "SELECT a FROM t WHERE a = ANY (SELECT a FROM u) AND x > ALL (SELECT y FROM u)",
    "SELECT (SELECT max(y) FROM u) AS m FROM t ORDER BY 1",
    "WITH q AS MATERIALIZED (SELECT a FROM t), r (k) AS (SELECT a FROM u) SELECT * FROM q JOIN r ON q.a = r.k",
    "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
    "WITH MUTUALLY RECURSIVE r (n DECIMAL(5, 1)) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 5) SELECT n FROM r",
    "(SELECT a FROM t) UNION (SELECT a FROM u) ORDER BY a DESC LIMIT 3 OFFSET 1",
    "(SELECT a FROM t) EXCEPT (SELECT a FROM u) ORDER BY a DESC LIMIT 3 OFFSET 1",
    "(SELECT a FROM t) INTERSECT (SELECT a FROM u) ORDER BY a DESC LIMIT 3 OFFSET 1",
    "WITH q AS (SELECT 1 AS a) SELECT a FROM q UNION ALL SELECT a FROM q",
    "WITH q AS (SELECT 1 AS a) SELECT a FROM q EXCEPT SELECT a FROM q",
    "WITH q AS (SELECT 1 AS a) SELECT a FROM q INTERSECT SELECT a FROM q",
    "SELECT * FROM ((SELECT a FROM t ORDER BY a LIMIT 4) ORDER BY a DESC LIMIT 3 OFFSET 1) q",
    "WITH q AS (SELECT 1 AS a) (SELECT a FROM q)",
    "SELECT m.x FROM ((t JOIN u ON t.a = u.a) CROSS JOIN (SELECT 1 AS one) k) AS m",
    "SELECT * FROM u JOIN ((SELECT 1 AS one) p CROSS JOIN t) ON u.a = t.a",
    "SELECT * FROM t NATURAL JOIN u",
    "SELECT * FROM t LEFT JOIN u USING (a)",
    "SELECT * FROM t LEFT SEMI JOIN u ON t.a = u.a",
    "SELECT t.a, y FROM t ASOF JOIN u ON t.a = u.a AND x >= y",
    "SELECT DISTINCT ON (a) a, x FROM t ORDER BY a, x DESC",
    "SELECT * FROM t LATERAL VIEW OUTER posexplode(xs) v AS p, e",
    "SELECT * FROM t, LATERAL unnest(xs) WITH ORDINALITY AS v (e, o)",
    "SELECT * FROM t, LATERAL explode(xs) WITH ORDINALITY AS v (e, o)",
    "SELECT a FROM t LIMIT 2 ROWS",
    "SELECT * FROM t, UNNEST(xs) WITH ORDINALITY AS v (e, o)",
    "SELECT * FROM explode(array(1, 2)) WITH ORDINALITY AS v (e, o)",
    "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS v (p, q)",
    "VALUES (2), (1) ORDER BY col1 DESC LIMIT 2 OFFSET 1",
    "SELECT posexplode(xs) AS (p, e) FROM t",
    "SELECT CAST(b AS STRING COLLATE UTF8_LCASE) = 'z' FROM t",
    "SELECT CAST(xs AS ARRAY<STRING COLLATE UTF8_LCASE>) = array('z') FROM t",
    "SELECT current_date",
    "SELECT current_timestamp",
    "SELECT current_user",
]
SCHEMAS = [
    "a int CONSTRAINT z NOT NULL COMMENT 'key', b decimal(7, 2), c struct<d: array<int>, e: int>",
    "a int NULL, b int",
    "a string COLLATE UTF8_LCASE",
    "a array<string COLLATE UTF8_LCASE>",
]


def classes(of=exp.Expression):
    for one in of.__subclasses__():
        yield one
        yield from classes(one)


def arguments():
    return [(one, name) for one in set(classes()) for name in one.arg_types]


def is_read(one, name):
    return one in READ and (name in READ[one] or (one, name) in OF_DIALECT)


def test_every_argument_of_every_class_is_read_or_refused(monkeypatch):
    """What sqlglot may learn to parse is refused until somebody reads it."""
    monkeypatch.setattr(syntax, "_shown", lambda node: node.key)  # nodes made of one argument have no text
    actual = arguments()
    assert len(actual) > 2500
    for one, name in actual:
        value = exp.Identifier(this="z") if one is exp.TableAlias else exp.Null()
        if (one, name) in _VALUES:
            value = min(_VALUES[one, name])
        assert refused(one, name, value) != is_read(one, name), (one, name)


def refused(one, name, value):
    """Whether a node with one argument is."""
    try:
        refuse_unread(one(**{name: value}))
    except PlanError as error:
        return "not supported: " in str(error)
    return False


@pytest.mark.parametrize(("one", "name"), _VALUES)
def test_a_word_that_is_not_obeyed_is_refused(one, name):
    with pytest.raises(PlanError, match="not supported: ELSEWHERE"):
        refuse_unread(one(**{name: "ELSEWHERE"}))


def test_the_table_names_arguments_that_there_are():
    for one, names in READ.items():
        assert set(names) <= set(one.arg_types), one
    for one, name in [*OF_DIALECT, *_VALUES, *INERT]:
        assert name in one.arg_types


def meaning_of_query(tree):
    """What a query comes to; an error is a meaning too."""
    try:
        actual = shown(tree, CATALOG)
    except (AttributeError, TypeError, KeyError, IndexError, ValueError, PlanError) as error:
        return type(error).__name__, re.sub(r"\d+", "", str(error))
    return actual.collection.node.fingerprint, actual.names, actual.order


def meaning_of_schema(tree):
    try:
        fields = [types._field(d, "") for d in tree.this.expressions]
        return str([(f, f.metadata) for f in fields])
    except (AttributeError, TypeError, KeyError, IndexError, ValueError, PlanError) as error:
        return str(error)


@functools.cache
def arguments_that_matter():
    """The arguments that make a difference in some example, and those that stand in one."""
    differing, standing = set(), set()
    trees = [(parse_query(text), meaning_of_query) for text in QUERIES]
    trees += [(sqlglot.parse_one(f"CREATE TABLE t ({s})", dialect="spark"), meaning_of_schema) for s in SCHEMAS]
    for tree, meaning in trees:
        whole = meaning(tree.copy())
        if meaning is meaning_of_query:
            refuse_unread(tree)
        for place, node in enumerate(tree.walk()):
            for name, value in node.args.items():
                if value is None or value is False or value == []:
                    continue
                standing.add((type(node), name))
                if (type(node), name) in differing:
                    continue
                result = tree.copy()
                list(result.walk())[place].set(name, None)
                if meaning(result) != whole:
                    differing.add((type(node), name))
    return differing, standing


def test_what_is_said_to_be_read_makes_a_difference():
    """Taking it out of a parsed query changes the plan, or what is said to be wrong with it."""
    differing, standing = arguments_that_matter()
    read = {(one, name) for one, names in READ.items() for name in names}
    assert not {(one.__name__, name) for one, name in read - standing}, "no example has these"
    assert {(one.__name__, name) for one, name in read - differing} == {(one.__name__, name) for one, name in INERT}


IGNORED_ELSEWHERE = {
    "SELECT a FROM t LIMIT 50 PERCENT": "LIMIT n PERCENT",
    "SELECT a FROM t ORDER BY a FETCH FIRST 1 ROWS WITH TIES": "WITH TIES",
    "SELECT a FROM t ORDER BY a LIMIT 1 WITH TIES": "WITH TIES",
    "SELECT a FROM t LIMIT 1 BY a": "LIMIT n BY",
    "SELECT a FROM t WHERE a BETWEEN SYMMETRIC 2 AND 1": "BETWEEN SYMMETRIC",
    "SELECT * RENAME (a AS k) FROM t": "* RENAME",
    "SELECT * ILIKE 'a' FROM t": "* ILIKE",
    "WITH RECURSIVE r (i) USING KEY (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < 5) SELECT * FROM r": (
        "USING KEY"
    ),
    "SELECT a FROM t CHANGES (INFORMATION => DEFAULT) AT (OFFSET => 1)": "CHANGES",
    "SELECT a FROM t@v1": "`@v1` after the name of a table",
    "SELECT a FROM t TIMESTAMP AS OF '2020-01-01'": "the past of one table",
    "SELECT a FROM t VERSION AS OF 1": "the past of one table",
    "SELECT a FROM (SELECT a FROM t VERSION AS OF 1) q": "the past of one table",
    "SELECT t.a FROM t JOIN u FOR SYSTEM_TIME AS OF t.at AS u ON t.a = u.a": "ASOF JOIN",
    "SELECT a FROM t AT (TIMESTAMP => 1)": "the past of one table",
    "SELECT * FROM t ANY JOIN u USING (a)": "ANY after the name of a table",
    "SELECT * FROM t GLOBAL JOIN u USING (a)": "GLOBAL after the name of a table",
    "SELECT * FROM t FINAL": "FINAL after the name of a table",
    "SELECT * FROM t WITH (NOLOCK)": "hints of a table",
    "SELECT * FROM t STRAIGHT_JOIN u": "STRAIGHT_JOIN",
    "SELECT a FROM t UNION BY NAME SELECT a FROM u": "UNION BY NAME",
    "SELECT CAST(array(xs) AS ARRAY<ARRAY<STRING COLLATE UTF8_LCASE>>) FROM t": "COLLATE",
    "SELECT array_agg(a ORDER BY x) FROM t": "WITHIN GROUP",
    "SELECT * FROM t TABLESAMPLE (1 ROWS)": "TABLESAMPLE",
    "SELECT * FROM t WHERE EXISTS ((SELECT a FROM u) LIMIT 0)": "THIS of LIMIT",
    "SELECT * FROM t RIGHT SEMI JOIN u ON t.a = u.a": "RIGHT SEMI JOIN",
    "SELECT * FROM t NATURAL JOIN u ON t.a = u.a": "NATURAL JOIN does not accept ON",
    "SELECT * FROM ((SELECT 1 x) WHERE x = 1)": "WHERE of SUBQUERY",
    "SELECT sum(x) OVER (w PARTITION BY a) FROM t WINDOW w AS (ORDER BY x)": "PARTITION BY may not be added",
    "SELECT sum(x) OVER (w ORDER BY a) FROM t WINDOW w AS (ORDER BY x)": "ORDER BY may not be added",
    "SELECT sum(x) OVER (ORDER BY x ROWS BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE TIES) FROM t": "EXCLUDE of",
    "WITH q AS (SELECT 1), q AS (SELECT 2) SELECT * FROM q": "WITH names 'q' twice",
    "WITH MUTUALLY RECURSIVE r (n INT NOT NULL) AS (SELECT 1) SELECT * FROM r": "no constraint",
}


@pytest.mark.parametrize("text", IGNORED_ELSEWHERE)
def test_a_clause_that_nothing_obeys_is_refused_by_name(text):
    with pytest.raises(PlanError) as caught:
        query(text, CATALOG)
    assert IGNORED_ELSEWHERE[text] in str(caught.value)


@pytest.mark.parametrize(
    "text", ["a BETWEEN SYMMETRIC 1 AND 2", "CAST(array(xs) AS ARRAY<ARRAY<STRING COLLATE UTF8_LCASE>>)", "b -> 'z'"]
)
def test_the_same_holds_for_expressions(text):
    with pytest.raises(PlanError, match="not supported: "):
        an.source("t", "a int, b string").select(c=text)


def test_the_same_holds_for_statements():
    with an.Session() as session:
        session.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)")
        for text in (
            "DELETE FROM t WHERE a BETWEEN SYMMETRIC 2 AND 1",
            "UPDATE t SET a = 5 WHERE a BETWEEN SYMMETRIC 2 AND 1",
            "UPDATE t SET a = CASE WHEN a BETWEEN SYMMETRIC 2 AND 1 THEN 1 END",
            "INSERT INTO t SELECT a FROM t LIMIT 50 PERCENT",
            "CREATE MATERIALIZED VIEW v AS SELECT * RENAME (a AS k) FROM t",
            "SUBSCRIBE (SELECT a FROM t@v1)",
            "EXPLAIN SELECT a FROM t LIMIT 1 BY a",
            "SELECT a FROM t ORDER BY a LIMIT 1 WITH TIES",
            "CREATE SOURCE z (a INT DEFAULT 1)",
            "CREATE TABLE z (a INT) PARTITIONED BY (a)",
        ):
            with pytest.raises(PlanError):
                session.sql(text)
        assert session.sql("SELECT a FROM t ORDER BY a").to_pylist() == [(1,), (2,)]
        with pytest.raises(PlanError, match="cannot read the schema"):
            an.source("z", "a int) PARTITIONED BY (a")
