"""Columns with a collation: altneu answers or refuses by name what Spark answers, and refuses what Spark refuses."""

from __future__ import annotations

import random

import pytest

import altneu as an
from altneu.errors import PlanError, TypeMismatchError, UnsupportedFunctionError, ViewHasErrorsError
from altneu.sql import query

DDL = "k STRING COLLATE UTF8_LCASE, u STRING COLLATE UNICODE_CI, p STRING, r STRING COLLATE UTF8_BINARY_RTRIM, i INT"
ROWS = [
    ("Abc", "Abc", "abc", "abc ", 1),
    ("aBC", "aBC", "ABC", "abc", 2),
    ("b", "b", "B", "b  ", 3),
    (None, None, None, None, 4),
]
ANSWERED = [
    "SELECT k = 'ABC' FROM c1",
    "SELECT k = upper('abc') FROM c1",
    "SELECT k = cast(i as string) FROM c1",
    "SELECT k = concat('ABC', '') FROM c1",
    "SELECT k = (p COLLATE UTF8_LCASE) FROM c1",
    "SELECT k = (p COLLATE UNICODE_CI) FROM c1",
    "SELECT CAST(p AS STRING COLLATE UTF8_LCASE) = 'ABC' FROM c1",
    "SELECT CAST(p AS STRING COLLATE UTF8_LCASE) = k FROM c1",
    "SELECT CAST(i AS STRING COLLATE UTF8_LCASE) = k, collation(CAST(k AS STRING)) FROM c1",
    "SELECT nullif('ABC', k) FROM c1",
    "SELECT collation(nullif('ABC', k)), collation(nullif(k, 'ABC')), collation(nullif('ABC', p)) FROM c1 limit 1",
    "SELECT max(k), min(k), max(u), collation(max(k)), max(r) FROM c1",
    "SELECT DISTINCT k FROM c1",
    "SELECT k, count(*) FROM c1 GROUP BY k",
    "SELECT k FROM c1 UNION SELECT k FROM c1",
    "SELECT count(DISTINCT k), count(DISTINCT u), count(DISTINCT r) FROM c1",
    "SELECT a.k, b.k FROM c1 a JOIN c1 b ON a.k = b.k",
    "SELECT k FROM c1 ORDER BY k",
    "SELECT k IN ('ABC', 'x') FROM c1",
    "SELECT rank() OVER (ORDER BY k), count(*) OVER (PARTITION BY k), lag(k) OVER (ORDER BY i) FROM c1",
    "SELECT CAST(p AS STRING COLLATE UTF8_LCASE) = 'ABC', CAST(p AS STRING COLLATE UTF8_LCASE) = k FROM c1",
    "SELECT locate('', p, 0), locate('', p, 3), locate('', p, 9), locate('', k, 3), locate('', k, 0) FROM c1",
    "SELECT k FROM c1 WHERE k IN (SELECT k FROM c1 WHERE i = 1)",
    "SELECT k FROM c1 a WHERE EXISTS (SELECT 1 FROM c1 b WHERE a.k = b.k AND a.i < b.i)",
    "SELECT a.i, (SELECT max(b.i) FROM c1 b WHERE a.k = b.k) m FROM c1 a",
    "SELECT k = (SELECT max(k) FROM c1) FROM c1",
    "SELECT x.k, y.i FROM c1 x LEFT JOIN c1 y ON x.k = y.k AND y.i = 2",
    "SELECT k, i FROM c1 JOIN (SELECT k, count(*) n FROM c1 GROUP BY k) USING (k)",
    "SELECT k, u, count(*), max(i) FROM c1 GROUP BY k, u HAVING k = 'ABC'",
    "SELECT upper(k), count(*) FROM c1 GROUP BY upper(k)",
    "SELECT k COLLATE UNICODE AS z, count(*) FROM c1 GROUP BY k COLLATE UNICODE",
    "SELECT collation(z), z = 'ABC' FROM (SELECT k AS z FROM c1 UNION ALL SELECT k FROM c1)",
    "SELECT typeof(z), z FROM (SELECT p COLLATE UTF8_LCASE AS z FROM c1) WHERE z = 'ABC'",
    "SELECT i, k FROM c1 ORDER BY k DESC, i LIMIT 2",
    "SELECT k, r, i FROM c1 WHERE r = 'abc'",
    "SELECT * FROM c1 PIVOT (count(i) FOR k IN ('ABC', 'b'))",
    "SELECT concat_ws('-', k, 'x'), trim(k), k || 'X' = 'abcx' FROM c1",
    "WITH q AS (SELECT DISTINCT k FROM c1) SELECT count(*) FROM q WHERE k = 'abc'",
    "SELECT first_value(k) OVER (PARTITION BY k ORDER BY i) = 'ABC', count(k) OVER (ORDER BY k) FROM c1",
    "SELECT nullif(k, 'ABC'), coalesce(k, 'zz') = 'ZZ', CASE WHEN i > 1 THEN k ELSE 'Q' END = 'q' FROM c1",
    "SELECT k = 'ABC' AND u = 'ABC' AND k COLLATE UNICODE_CI = u FROM c1",
    "SELECT count(DISTINCT k, i), count(DISTINCT upper(k)) FROM c1",
    "SELECT k BETWEEN 'AA' AND 'AC', k NOT IN ('x', 'ABC'), k <> 'ABC', k > 'ABB' FROM c1",
    "SELECT a.i FROM c1 a WHERE NOT EXISTS (SELECT 1 FROM c1 b WHERE a.k = b.k AND length(a.k) + a.i > b.i + 4)",
    "SELECT a.i, (SELECT count(*) FROM c1 b WHERE a.k = b.k AND a.i < b.i + 5) m FROM c1 a",
    "SELECT a.i, x.m FROM c1 a, LATERAL (SELECT max(b.k) m FROM c1 b WHERE b.k >= a.k) x",
    "SELECT k, count(*) FROM c1 GROUP BY ROLLUP(k)",
    "SELECT upper(k), grouping(k), count(*), sum(i) FROM c1 GROUP BY CUBE(k, p)",
    "SELECT lower(k), grouping_id(), count(*) FROM c1 GROUP BY GROUPING SETS ((k), (k, r), ())",
    "SELECT lower(k) FROM c1 EXCEPT SELECT lower(k) FROM c1 WHERE i < 3",
    "SELECT lower(k), p FROM c1 EXCEPT SELECT lower(k), p FROM c1 WHERE i < 2",
    "SELECT lower(k) FROM c1 INTERSECT SELECT lower(k) FROM c1 WHERE i = 2 OR i = 4",
    "SELECT k FROM c1 WHERE i = 1 INTERSECT SELECT k FROM c1 WHERE i = 2",
    "SELECT k FROM c1 EXCEPT SELECT k FROM c1",
    "SELECT r FROM c1 WHERE i = 1 EXCEPT SELECT r FROM c1 WHERE i = 2",
    "SELECT 'a' COLLATE UTF8_LCASE AS x EXCEPT SELECT 'A' COLLATE UTF8_LCASE",
    "SELECT x = 'A' FROM (SELECT 'a' COLLATE UTF8_LCASE AS x)",
    "SELECT x = 'A', collation(x) FROM (SELECT CAST('a' AS STRING COLLATE UTF8_LCASE) AS x)",
    "SELECT collation(x), x='AB' FROM (SELECT concat('a' COLLATE UTF8_LCASE, 'b') AS x)",
    "SELECT collation(x), x='A' FROM (SELECT if(true, 'a' COLLATE UTF8_LCASE, 'b') AS x)",
    "SELECT collation(x), x='A' FROM (SELECT coalesce('a' COLLATE UTF8_LCASE, 'b') AS x)",
    "SELECT collation(x), x='A' FROM (SELECT CASE WHEN 1=1 THEN 'a' COLLATE UTF8_LCASE END AS x)",
    "SELECT collation(x), x FROM (SELECT CAST(NULL AS STRING COLLATE UTF8_LCASE) AS x)",
    "SELECT collation(x), x FROM (SELECT NULL COLLATE UTF8_LCASE AS x)",
    "SELECT collation(x), x='A' FROM (SELECT max('a' COLLATE UTF8_LCASE) AS x FROM c1)",
    (
        "SELECT collation(x), x='A' FROM (SELECT upper('a' COLLATE UTF8_LCASE) AS x UNION ALL SELECT 'b' "
        "COLLATE UTF8_LCASE)"
    ),
    (
        "SELECT count(*) FROM (SELECT DISTINCT x FROM (SELECT 'a' COLLATE UTF8_LCASE AS x UNION ALL SELECT "
        "'A' COLLATE UTF8_LCASE))"
    ),
    "SELECT collation(x), x='A' FROM VALUES ('a' COLLATE UTF8_LCASE) t(x)",
    "SELECT x='A' FROM VALUES ('a' COLLATE UTF8_LCASE), ('B' COLLATE UTF8_LCASE) t(x)",
    "WITH q AS (SELECT 'a' COLLATE UTF8_LCASE AS x) SELECT count(*) FROM q JOIN c1 ON q.x < c1.k",
    "SELECT collation((SELECT 'a' COLLATE UTF8_LCASE)), (SELECT 'a' COLLATE UTF8_LCASE) = 'A'",
    "SELECT collation(x), x='B' FROM (SELECT substr('ab' COLLATE UTF8_LCASE, 2) x)",
    "SELECT collation(first_value('a' COLLATE UTF8_LCASE) OVER ()) FROM c1",
    "SELECT i FROM c1 WHERE k LIKE 'A%'",
    "SELECT i FROM c1 WHERE k RLIKE '^a.C$'",
    "SELECT i FROM c1 WHERE k NOT LIKE '%b%'",
    "SELECT greatest(k, 'ABC'), least(k, 'ABC'), greatest(u, 'abc') FROM c1",
    "SELECT regexp_replace(k, 'B', 'z'), collation(regexp_replace(k, 'B', 'z')) FROM c1",
    "SELECT contains(r, 'bc '), endswith(r, 'c'), startswith(k, 'AB') FROM c1",
    "SELECT md5(k), hash(k), encode(u, 'utf-8') FROM c1",
    "SELECT k, i FROM c1 ORDER BY greatest(k, 'AZ'), i",
    "SELECT date_format(to_date('2024-01-01' COLLATE UTF8_LCASE), 'yyyy' COLLATE UTF8_LCASE)",
    "SELECT count(DISTINCT replace(k, 'B', '')), max(left(k, 1)) = 'X' FROM c1",
    "SELECT k FROM c1 LATERAL VIEW explode(array(1, 2)) AS n WHERE k = 'ABC'",
    "SELECT elt(1, k, 'z'), collation(elt(1, k, 'z')), nvl2(i, k, 'z') = 'X', decode(k, 'ABC', 1, 2) FROM c1",
    "SELECT i, 'ABC' IN (SELECT k FROM c1 WHERE i < 3), k IN (SELECT k FROM c1 WHERE i = 1) FROM c1 WHERE i < 4",
    "SELECT mode(k), mode(k, true), mode(u), collation(mode(r)) FROM c1",
    "SELECT p, mode(k), mode(k) FILTER (WHERE i < 2) FROM c1 GROUP BY p",
    "SELECT mode() WITHIN GROUP (ORDER BY k), mode() WITHIN GROUP (ORDER BY k DESC) FROM c1 WHERE i < 3",
    "SELECT i, mode(k) OVER (PARTITION BY u) FROM c1",
    "SELECT initcap(r), collation(initcap(r)), initcap(k COLLATE UTF8_BINARY) FROM c1",
    "SELECT lower(k) FROM c1 EXCEPT ALL SELECT lower(k) FROM c1 WHERE i = 2",
    "SELECT lower(k), i FROM c1 EXCEPT ALL SELECT upper(k), i FROM c1 WHERE i > 3",
    "SELECT lower(k) FROM c1 INTERSECT ALL SELECT upper(k) FROM c1 WHERE i <> 3",
    (
        "SELECT lower(k) FROM (SELECT * FROM c1 UNION ALL SELECT * FROM c1) INTERSECT ALL "
        "SELECT lower(k) FROM c1 WHERE i > 1"
    ),
    "SELECT array(lower(k)) FROM c1 EXCEPT ALL SELECT array(k) FROM c1 WHERE i = 1",
    "SELECT * FROM c1 UNPIVOT (v FOR n IN (k, k AS q))",
    "SELECT v = 'ABC', n FROM c1 UNPIVOT INCLUDE NULLS (v FOR n IN (k))",
    "SELECT x = 'ABC', y FROM (SELECT stack(2, k, 1, k, 2) AS (x, y) FROM c1)",
    "SELECT c1.i, s.x = 'ABC' FROM c1, LATERAL stack(2, k, 'q' COLLATE UTF8_LCASE) AS s(x)",
    "SELECT a = 'ABC' FROM (SELECT inline(array(named_struct('a', k, 'b', 1), named_struct('a', k, 'b', 2))) FROM c1)",
]
ARRAYS = [
    "SELECT collect_list(k), collation(collect_list(u)[0]) FROM c1",
    "SELECT array_agg(k) OVER (PARTITION BY p ORDER BY i) FROM c1",
    "SELECT collect_list(k)[0] = 'ABC' FROM c1 WHERE i = 1",
    "SELECT split(k, 'B'), split(k, '[B]', 2), split(k, ''), split(k, 'x*'), size(split(k, 'b')) FROM c1",
    "SELECT e, collation(e), e = 'A' FROM c1 LATERAL VIEW explode(split(k, 'B')) AS e",
    "SELECT n, e = 'ABC' FROM c1 LATERAL VIEW posexplode(array(k, 'X')) t AS n, e",
    "SELECT array(k COLLATE UTF8_LCASE) = array(u), array('a' COLLATE UTF8_LCASE) = array('A') FROM c1",
    "SELECT array(k)[0] = 'ABC', get(array(k), 0) = 'ABC', element_at(array(k), -1) = 'ABC' FROM c1",
    "SELECT array_contains(array(k), 'ABC'), array_contains(array('ABC'), k), array_contains(array(u), 'abc') FROM c1",
    "SELECT array_position(array(k, 'x'), 'ABC'), arrays_overlap(array(k), array('ABC')) FROM c1",
    "SELECT array(k) IN (array('ABC')), array(k) < array('ABD'), array(k) <=> array('ABC') FROM c1",
    "SELECT array(k) <> array('ABC'), array(k) BETWEEN array('A') AND array('AZZ') FROM c1",
    "SELECT max(array(k)), min(array(k, 'z')), count(DISTINCT array(k)), count(DISTINCT array(u)) FROM c1",
    "SELECT DISTINCT array(k) FROM c1",
    "SELECT array(k), count(*) FROM c1 GROUP BY array(k)",
    "SELECT array(k), count(*) FROM c1 GROUP BY ROLLUP(array(k))",
    "SELECT a.i, b.i FROM c1 a JOIN c1 b ON array(a.k) = array(b.k)",
    "SELECT i FROM c1 WHERE array(k) IN (SELECT array(k) FROM c1 WHERE i = 1)",
    "SELECT array(k) FROM c1 UNION SELECT array(k) FROM c1",
    "SELECT i FROM c1 ORDER BY array(k) DESC, i LIMIT 2",
    "SELECT rank() OVER (ORDER BY array(k)), count(*) OVER (PARTITION BY array(k)) FROM c1",
    "SELECT lag(array(k)) OVER (ORDER BY i) = array('ABC') FROM c1",
    "SELECT array_append(array(k), 'Q'), concat(array(k), array('x')), slice(array(k, 'b'), 1, 1) FROM c1",
    "SELECT reverse(array(k, 'x')), array_compact(array(k)), array_repeat(k, 2), array_prepend(array(k), k) FROM c1",
    "SELECT array_join(array(k, 'x'), ',') = 'ABC,X', collation(array_join(array('x'), k)) FROM c1",
    "SELECT concat_ws(',', array(k), 'x') = 'ABC,X', collation(concat_ws(',', split(k, 'q'))) FROM c1",
    "SELECT CAST(array(k) AS STRING), CAST(array(k) AS ARRAY<STRING>) = array('ABC') FROM c1",
    "SELECT CAST(array(p) AS ARRAY<STRING COLLATE UTF8_LCASE>) = array('ABC') FROM c1",
    "SELECT hash(array(k)), to_json(array(k)), size(array(k)), array_size(array(k)), array(k) IS NULL FROM c1",
    "SELECT coalesce(array(k), array('x')), if(i = 1, array(k), array('z')), nullif(array(k), array('ABC')) FROM c1",
    "SELECT greatest(array(k), array('ABC')), least(array(k), array('B')) FROM c1",
    "SELECT x = array('ABC') FROM (SELECT array(k) AS x FROM c1)",
    "SELECT array(p, p COLLATE UTF8_LCASE) = array('ABC', 'ABC') FROM c1",
    "SELECT transform(array(k), x -> x = 'ABC'), transform(array(k), x -> upper(x) COLLATE UTF8_BINARY) FROM c1",
    "SELECT exists(array(k), x -> x = 'ABC'), forall(array(u), x -> x = 'ABC') FROM c1",
    "SELECT filter(split(k, 'B'), x -> x = 'A'), filter(array(k, 'q'), (x, i) -> i = 0 AND x < 'ABD') FROM c1",
]
REFUSED_BY_BOTH = [
    "SELECT k = p FROM c1",
    "SELECT k = u FROM c1",
    "SELECT k = upper(p) FROM c1",
    "SELECT k = CAST('ABC' AS STRING COLLATE UNICODE) FROM c1",
    "SELECT 'a' COLLATE UTF8_LCASE = 'A' COLLATE UNICODE",
    "SELECT CAST(p AS STRING COLLATE UTF8_LCASE) = p FROM c1",
    "SELECT concat(k, u) = 'x' FROM c1",
    "SELECT u LIKE 'a%' FROM c1",
    "SELECT u RLIKE 'a%' FROM c1",
    "SELECT r LIKE 'abc' FROM c1",
    "SELECT collect_set(k) FROM c1",
    "SELECT k FROM c1 UNION SELECT p FROM c1",
    "SELECT k IN ('ABC', 'x'), k IN (p) FROM c1",
    "SELECT p IN (SELECT k FROM c1) FROM c1",
    "SELECT contains(k, p) FROM c1",
    "SELECT k FROM c1 EXCEPT SELECT 'ABC'",
    "SELECT k FROM c1 INTERSECT SELECT 'ABC'",
    "SELECT x FROM (VALUES ('a' COLLATE UTF8_LCASE), ('b')) t(x)",
    "SELECT translate(k, p, 'x') FROM c1",
    "SELECT trim(p FROM k) FROM c1",
    "SELECT greatest(k, p) FROM c1",
    "SELECT i FROM c1 WHERE k IN (SELECT p FROM c1)",
    "SELECT array(k) = array(p) FROM c1",
    "SELECT array_contains(array(k), p) FROM c1",
    "SELECT array('a' COLLATE UTF8_LCASE, 'b' COLLATE UNICODE)",
    "SELECT filter(array('ABC'), x -> x = k) FROM c1",
    "SELECT map_filter(map('a', 1), (x, v) -> x = k) FROM c1",
    "SELECT split(u, 'b') FROM c1",
    "SELECT split(r, 'b') FROM c1",
]
REFUSED = [
    "SELECT concat(k, u) FROM c1",
    "SELECT array(array(k)) FROM c1",
    "SELECT array(k, p) FROM c1",
    "SELECT stack(2, k, 'ABC') FROM c1",
    "SELECT struct(k) FROM c1",
    "SELECT map('a', k) FROM c1",
    "SELECT map(k, 1) FROM c1",
    "SELECT collect_list(array(k)) FROM c1",
    "SELECT array_agg(DISTINCT k) FROM c1",
    "SELECT array_distinct(array(k)) FROM c1",
    "SELECT array_sort(array(k)) FROM c1",
    "SELECT array_union(array(k), array('A')) FROM c1",
    "SELECT transform(array(k), x -> upper(x)) FROM c1",
    "SELECT zip_with(array(k), array('A'), (a, b) -> a) FROM c1",
    "SELECT from_json(p, 'a STRING COLLATE UTF8_LCASE') FROM c1",
    "SELECT from_csv(p, 'a STRING COLLATE UTF8_LCASE') FROM c1",
    "SELECT CAST(struct(p) AS STRUCT<a: STRING COLLATE UTF8_LCASE>) FROM c1",
    "SELECT CAST(array(array(p)) AS ARRAY<ARRAY<STRING COLLATE UTF8_LCASE>>) FROM c1",
    "SELECT contains(u, 'BC') FROM c1",
    "SELECT split_part(r, 'b', 1) FROM c1",
    "SELECT trim(TRAILING 'c' FROM r) FROM c1",
    "SELECT initcap(k) FROM c1",
    "SELECT u LIKE 'a%' FROM c1",
    "SELECT k RLIKE '[à-ü]' FROM c1",
]


@pytest.fixture(scope="module")
def session():
    with an.Session() as made:
        made.sql(f"CREATE TABLE c1 ({DDL})")
        made.insert("c1", ROWS)
        made.advance()
        yield made


@pytest.fixture(scope="module")
def there(spark):
    spark.createDataFrame(ROWS, DDL).createOrReplaceTempView("c1")
    return spark


def shown(rows):
    return sorted(map(repr, map(tuple, rows)))


@pytest.mark.parametrize("text", ANSWERED + ARRAYS)
def test_a_query_of_collated_columns_shows_what_spark_gives(session, there, text):
    assert shown(session.sql(text).to_pylist()) == shown(there.sql(text).collect())


@pytest.mark.parametrize("text", REFUSED_BY_BOTH)
def test_what_spark_refuses_is_refused(session, there, text):
    with pytest.raises(PlanError, match=r"collation|COLLATE"):
        session.sql(text)
    with pytest.raises(Exception, match=r"(?i)collat|CANNOT_PARSE|INCOMPATIBLE|MISMATCH"):  # of Java's some are raw
        there.sql(text).collect()


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_supported_is_refused_by_name(session, text):
    with pytest.raises(PlanError, match=r"collat|COLLATE"):
        session.sql(text)


def test_messages_name_the_function_that_was_written(session):
    with pytest.raises(ViewHasErrorsError, match=r"`split_part\(k, 'b', i - 1\)`: parts are counted") as raised:
        session.sql("SELECT split_part(k, 'b', i - 1) FROM c1")
    assert "INVALID_INDEX_OF_ZERO" in str(raised.value)
    with pytest.raises(TypeMismatchError, match=r"^translate\b"):
        session.sql("SELECT translate(k, 'a') FROM c1")
    with pytest.raises(UnsupportedFunctionError, match=r"^rlike by the collation UTF8_LCASE: '\\\\p'"):
        session.sql("SELECT k RLIKE '\\\\pL' FROM c1")


def test_descriptions_have_the_collation(session):
    described = session.sql("DESCRIBE c1").to_pylist()
    assert [row[1] for row in described] == [
        "string collate UTF8_LCASE",
        "string collate UNICODE_CI",
        "string",
        "string collate UTF8_BINARY_RTRIM",
        "int",
    ]


def test_of_equal_texts_the_least_is_shown_as_often_as_all_of_them_are_there(session):
    twice = "(SELECT k FROM c1 UNION ALL SELECT k FROM c1)"
    assert shown(session.sql(f"SELECT k FROM {twice} EXCEPT ALL SELECT k FROM c1 WHERE i IN (2, 3)").to_pylist()) == (
        shown([("Abc",)] * 3 + [("b",)] + [(None,)] * 2)
    )
    assert shown(session.sql(f"SELECT k FROM {twice} INTERSECT ALL SELECT lower(k) FROM c1").to_pylist()) == (
        shown([("Abc",)] * 2 + [("b",), (None,)])
    )
    assert session.sql("SELECT mode(r), mode(k) FROM c1").to_pylist() == [("abc", "Abc")]


def test_a_column_of_arrays_has_the_collation_of_their_texts():
    with an.Session() as session:
        session.sql("CREATE TABLE t (xs ARRAY<STRING COLLATE unicode_ci>, n INT)")
        session.sql("INSERT INTO t VALUES (array('a', 'B'), 1), (array('A', 'b'), 2), (NULL, 3)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT xs, sum(n) AS s FROM t GROUP BY xs")
        assert shown(session.sql("SELECT * FROM v").to_pylist()) == shown([(["A", "b"], 3), (None, 3)])
        assert [row[1] for row in session.sql("DESCRIBE v").to_pylist()] == [
            "array<string collate UNICODE_CI>",
            "bigint",
        ]
        assert session.sql("SELECT typeof(xs), collation(xs[0]) FROM t WHERE n = 1").to_pylist() == [
            ("array<string collate UNICODE_CI>", "SYSTEM.BUILTIN.UNICODE_CI")
        ]
        session.sql("DELETE FROM t WHERE n = 2")
        assert shown(session.sql("SELECT * FROM v").to_pylist()) == shown([(["a", "B"], 1), (None, 3)])


def test_an_array_with_a_character_of_unknown_place_is_an_error_row_that_names_it(session):
    with pytest.raises(ViewHasErrorsError, match=r"COLLATION_UNKNOWN_CHARACTER.*U\+1FAE0"):
        session.sql("SELECT array('x', p || '\U0001fae0') = array('x' COLLATE UNICODE, 'y') FROM c1 WHERE i = 1")


def test_a_store_keeps_the_collations_of_its_columns(tmp_path):
    path = str(tmp_path / "state")
    with an.Session(path=path) as first:
        first.sql("CREATE TABLE t (k STRING COLLATE utf8_lcase, i INT)")
        first.sql("INSERT INTO t VALUES ('a', 1), ('A', 2)")
        first.sql("CREATE TABLE xs (x ARRAY<STRING COLLATE UTF8_LCASE>)")
        first.sql("INSERT INTO xs VALUES (array('a')), (array('A'))")
        first.sql("CREATE MATERIALIZED VIEW v AS SELECT k, count(*) AS n FROM t GROUP BY k")
        first.sql("ALTER TABLE t ADD COLUMN z STRING COLLATE UNICODE")
        first.sql("ALTER TABLE t RENAME COLUMN k TO kk")
    with an.Session(path=path) as again:
        again.sql("INSERT INTO t VALUES ('A', 3, 'x')")
        assert again.sql("SELECT * FROM v WHERE k = 'a'").to_pylist() == [("A", 3)]
        assert again.sql("SELECT DISTINCT x FROM xs WHERE x = array('A')").to_pylist() == [(["A"],)]
        assert again.sql("SELECT collation(kk), collation(z) FROM t LIMIT 1").to_pylist() == [
            ("SYSTEM.BUILTIN.UTF8_LCASE", "SYSTEM.BUILTIN.UNICODE")
        ]


@pytest.mark.parametrize(
    "verb",
    [
        lambda rows: rows.group_by("k").agg(n="count(*)"),
        lambda rows: rows.distinct(),
        lambda rows: rows.join(rows, on=["k"]),
        lambda rows: rows.semijoin(rows, on=["k"]),
    ],
)
def test_verbs_refuse_a_column_with_a_collation_as_a_key(verb):
    with an.Session() as session, pytest.raises(UnsupportedFunctionError, match="not supported in a key here"):
        session.maintain("v", verb(an.source("r", "k string collate UTF8_LCASE, i int")))


def test_a_key_of_a_source_has_no_collation():
    with pytest.raises(PlanError, match="keys are compared by their bytes"):
        an.source("r", "k string collate UTF8_LCASE, i int", key="k")
    with pytest.raises(UnsupportedFunctionError, match="the collation NOPE is not supported"):
        an.source("r", "k string collate NOPE")


def test_expressions_and_orders_of_python_obey_the_collation():
    rows = an.source("r", "k string collate UTF8_LCASE, i int")
    with an.Session() as session:
        same = session.maintain("same", rows.filter("k = 'A'").select("i"))
        first = session.maintain("first", rows.top_k(1, "k desc, i"))
        numbered = session.maintain("numbered", rows.window(n="count(*) over (partition by k)").select("i", "n"))
        session.insert("r", [("A", 1), ("a", 2), ("B", 3)])
        session.advance()
        assert sorted(same.to_pylist()) == [(1,), (2,)]
        assert first.to_pylist() == [("B", 3)]
        assert sorted(numbered.to_pylist()) == [(1, 2), (2, 2), (3, 1)]


_VIEWS = [
    "SELECT k, count(*) AS n, min(k) AS a, max(k) AS z FROM c1 GROUP BY k",
    "SELECT DISTINCT k, r FROM c1",
    "SELECT k FROM c1 UNION SELECT k FROM c1 WHERE i > 2",
    "SELECT x.i, y.i AS j FROM c1 x LEFT JOIN c1 y ON x.k = y.k AND x.i < y.i",
    "SELECT i FROM c1 a WHERE EXISTS (SELECT 1 FROM c1 b WHERE a.k = b.k AND a.i < b.i)",
    "SELECT i, rank() OVER (ORDER BY k) AS n FROM c1",
    "SELECT k, r FROM c1 WHERE i > 1 EXCEPT SELECT k, r FROM c1 WHERE i < 3",
    "SELECT k, i FROM c1 INTERSECT SELECT k, i FROM c1 WHERE r = 'a'",
    "SELECT k, p, count(*) AS n, grouping_id() AS g FROM c1 GROUP BY CUBE(k, p)",
    "SELECT i, k IN (SELECT k FROM c1 WHERE i = 2) AS x FROM c1",
    "SELECT greatest(k, 'AB', r COLLATE UTF8_LCASE) AS g, k LIKE 'A%' AS l FROM c1",
    "SELECT p, mode(k) AS m, mode() WITHIN GROUP (ORDER BY k DESC) AS l, collect_list(k) AS x FROM c1 GROUP BY p",
    "SELECT k, i FROM c1 EXCEPT ALL SELECT k, i FROM c1 WHERE i < 3",
    "SELECT k, r FROM c1 INTERSECT ALL SELECT k, r FROM c1 WHERE i > 1",
    "SELECT x, count(*) AS n FROM (SELECT array(k, r COLLATE UTF8_LCASE) AS x FROM c1) GROUP BY x",
    "SELECT e, count(*) AS n FROM c1 LATERAL VIEW explode(split(k, 'b')) AS e GROUP BY e",
    "SELECT v, count(*) AS n FROM (SELECT k, k AS q FROM c1) UNPIVOT (v FOR c IN (k, q)) GROUP BY v",
]


def test_views_are_what_recomputation_gives():
    rng = random.Random(5)
    words = ["a", "A", "b", "B ", "b", "aB", "AB", None]
    with an.Session() as session:
        rows = an.source("c1", DDL)
        views = [session.maintain(f"v{n}", query(text, {"c1": rows})) for n, text in enumerate(_VIEWS)]
        standing = []
        for step in range(6):
            for _ in range(5):
                if standing and rng.random() < 0.4:
                    session.retract("c1", [standing.pop(rng.randrange(len(standing)))])
                else:
                    standing.append((*(rng.choice(words) for _ in range(4)), rng.randrange(5)))
                    session.insert("c1", standing[-1:])
            session.advance()
            with an.Session() as fresh:
                again = [fresh.maintain(f"v{n}", query(text, {"c1": rows})) for n, text in enumerate(_VIEWS)]
                fresh.insert("c1", standing)
                fresh.advance()
                for text, view, other in zip(_VIEWS, views, again, strict=True):
                    assert shown(view.to_pylist()) == shown(other.to_pylist()), (step, text)


def test_a_column_of_a_table_has_a_collation_a_default_and_a_comment():
    with an.Session() as session:
        session.sql("CREATE TABLE t (a STRING COLLATE UTF8_LCASE DEFAULT 'x' COMMENT 'letters', b INT)")
        session.sql("INSERT INTO t (b) VALUES (1)")
        assert session.sql("SELECT a, a = 'X' FROM t").to_pylist() == [("x", True)]
        assert session.sql("DESCRIBE t").to_pylist()[0] == ("a", "string collate UTF8_LCASE", "letters")
        session.sql(
            "MERGE INTO t USING (SELECT 'X' COLLATE UTF8_LCASE AS a, 5 AS b) s ON t.a = s.a "
            "WHEN MATCHED THEN UPDATE SET b = s.b"
        )
        assert session.sql("SELECT * FROM t").to_pylist() == [("x", 5)]
        session.sql("DELETE FROM t WHERE a = 'X'")
        assert session.sql("SELECT count(*) FROM t").to_pylist() == [(0,)]
