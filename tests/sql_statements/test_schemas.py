"""Schemas: what USE makes of names, what a store keeps of them, and comments."""

from __future__ import annotations

from collections import Counter

import pytest

import altneu as an
from altneu.cli.offline import Names
from altneu.errors import AltneuError, StatementError, UnknownColumnError, UnknownTableError
from tests.sql_statements.cases import rows


@pytest.fixture
def session():
    with an.Session() as session:
        session.sql("CREATE TABLE t (k INT); INSERT INTO t VALUES (0)")
        session.sql("CREATE SCHEMA sales; USE sales; CREATE TABLE t (k INT, v STRING); INSERT INTO t VALUES (1, 'a')")
        yield session


def test_names_without_a_schema_are_of_the_one_in_use(session):
    assert rows(session, "SELECT * FROM t") == [(1, "a")]
    assert rows(session, "SELECT sales.t.v, spark_catalog.sales.t.k FROM t") == [("a", 1)]
    assert rows(session, "SELECT * FROM default.t") == [(0,)]
    assert rows(session, "WITH t AS (SELECT 7 AS n) SELECT * FROM t") == [(7,)]
    assert rows(session, "TABLE t") == [(1, "a")]
    session.sql(
        "INSERT INTO t VALUES (2, 'b'), (3, 'c'); UPDATE t SET sales.t.v = 'd' WHERE t.k = 2; DELETE FROM t WHERE k = 3"
    )
    session.sql(
        "WITH t AS (SELECT 9 AS k) MERGE INTO t AS x USING t AS s ON x.k = s.k "
        "WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)"
    )
    assert Counter(rows(session, "SELECT * FROM t")) == Counter([(1, "a"), (2, "d"), (9, None)])
    session.sql("CREATE SCHEMA main.db; USE main.db; CREATE TABLE t AS SELECT k + 100 AS k FROM spark_catalog.sales.t")
    assert Counter(rows(session, "SELECT t.k FROM t")) == Counter([(109,), (101,), (102,)])
    with pytest.raises(UnknownTableError, match=r"main\.sales\.t"):  # the catalog is that in use, too
        session.sql("SELECT * FROM sales.t")
    session.sql("USE spark_catalog.default")
    assert rows(session, "SELECT * FROM t") == [(0,)]


def test_a_query_that_is_asked_again_follows_use(session):
    texts = ["SELECT * FROM t WHERE k = 0", "SELECT * FROM t WHERE k = 1", "SELECT count(*) FROM t"] * 4
    both = [(1, "a")], [(0,)]
    for text in texts:
        for schema in ("sales", "default"):
            session.sql(f"USE SCHEMA {schema}")
            here, there = both if schema == "sales" else both[::-1]
            wanted = [(1,)] if "count" in text else [row for row in here if f"= {row[0]}" in text]
            assert rows(session, text) == wanted, (text, schema)
            assert there != here


def test_use_counts_in_the_statements_behind_it_and_after_an_error_not(session):
    assert rows(session, "USE default; SELECT * FROM t") == [(0,)]
    with pytest.raises(
        StatementError, match="there is no schema 'nowhere': CREATE SCHEMA nowhere first; there are: default, sales"
    ):
        session.sql("USE nowhere; SELECT * FROM t")
    assert rows(session, "SELECT * FROM t") == [(0,)]


def test_temporary_views_functions_and_views_of_programs_have_no_schema(session):
    session.maintain("everything", an.source("u", "k long", keep=True))
    session.sql("CREATE TEMPORARY VIEW some AS SELECT k FROM t; CREATE FUNCTION twice(x INT) RETURN x * 2")
    assert rows(session, "SELECT twice(k) FROM some") == [(2,)]
    session.sql("USE default")
    assert rows(session, "SELECT twice(k) FROM some") == [(2,)]
    session.sql("USE sales; DROP VIEW some")
    with pytest.raises(UnknownTableError):
        session.sql("SELECT * FROM everything")
    assert rows(session, "SELECT * FROM default.everything") == []


def test_definitions_mean_the_names_of_where_they_were_written(tmp_path):
    path = tmp_path / "store"
    with an.Session(path=path) as session:
        session.sql("CREATE SCHEMA sales; USE sales; CREATE TABLE t (k INT); INSERT INTO t VALUES (1), (2)")
        session.sql("CREATE VIEW odd AS SELECT * FROM t WHERE k % 2 = 1; CREATE INDEX by_k ON t (k)")
        session.sql("CREATE MATERIALIZED VIEW sum AS SELECT sum(k) AS k FROM odd")
        session.sql(
            "USE default; CREATE TABLE t (k INT); CREATE VIEW odd AS SELECT 5 AS k; CREATE VIEW both AS TABLE sales.odd"
        )
    with an.read(path) as reader:
        names = Names(reader)
        assert names["sales.odd"].node.fingerprint != names["odd"].node.fingerprint
    with an.Session(path=path) as session:
        assert rows(session, "SELECT * FROM sales.odd") == rows(session, "SELECT * FROM both") == [(1,)]
        session.sql("INSERT INTO sales.t VALUES (7)")
        assert rows(session, "SELECT * FROM sales.sum") == [(8,)]
        made = session.sql("SHOW CREATE MATERIALIZED VIEW sales.sum").to_pylist()[0][1]
        assert made.startswith("USE spark_catalog.sales; CREATE")
        assert session.sql("SHOW SCHEMAS").to_pylist() == [("default", None), ("sales", None)]
        again = "USE sales; CREATE VIEW odd AS SELECT * FROM t WHERE k % 2 = 1"
        assert session.sql(again).message == "VIEW sales.odd exists already"
        session.sql("CREATE OR REPLACE VIEW odd AS SELECT k FROM t WHERE k > 1; USE default")
        assert rows(session, "SELECT * FROM sales.sum") == [(9,)]
        with pytest.raises(StatementError, match="another definition"):  # the same words, of another table
            session.sql("CREATE MATERIALIZED VIEW sales.sum AS SELECT sum(k) AS k FROM odd")


def test_a_schema_goes_with_what_is_in_it_only_if_that_is_said(session):
    session.sql("CREATE VIEW default.w AS SELECT v FROM t; CREATE MATERIALIZED VIEW m AS SELECT k FROM t; USE default")
    with pytest.raises(
        StatementError, match=r"has TABLE sales\.t, MATERIALIZED VIEW sales\.m; drop these first, or DROP SCHEMA"
    ):
        session.sql("DROP SCHEMA sales")
    session.maintain("program", an.source("t", "k int", keep=True).select("k"))
    with pytest.raises(StatementError, match="the schema default is always there"):
        session.sql("DROP SCHEMA default CASCADE")
    message = session.sql("DROP SCHEMA sales CASCADE").message
    assert message == "MATERIALIZED VIEW sales.m dropped, VIEW w dropped, TABLE sales.t dropped, SCHEMA sales dropped"
    assert session.sql("SHOW DATABASES").to_pylist() == [("default", None)]
    assert session.sql("DROP DATABASE IF EXISTS sales RESTRICT").message == "there is no SCHEMA sales"
    with pytest.raises(StatementError, match="there is no schema 'sales'"):
        session.sql("DROP SCHEMA sales")


def test_a_pattern_is_of_a_name_with_its_schema_or_without(session):
    session.sql("CREATE TABLE main.shop.orders (k INT); CREATE TABLE default.oranges (k INT)")
    for text, found in [
        ("SHOW TABLES LIKE 'or*'", ["main.shop.orders", "oranges"]),
        ("SHOW TABLES IN main.shop LIKE 'or*'", ["main.shop.orders"]),
        ("SHOW TABLES LIKE 'main.*'", ["main.shop.orders"]),
    ]:
        assert [name for name, *_ in session.sql(text).to_pylist()] == found


def test_a_schema_is_there_as_long_as_a_name_has_it(session):
    session.sql("CREATE TABLE main.shop.x (k INT); CREATE SCHEMA IF NOT EXISTS sales COMMENT 'again'")
    session.sql("CREATE SCHEMA Sold COMMENT 'what is' WITH DBPROPERTIES (owner = 'me')")
    shown = [("default", None), ("main.shop", None), ("sales", None), ("Sold", "what is")]
    assert session.sql("SHOW NAMESPACES").to_pylist() == shown
    assert session.sql("SHOW SCHEMAS LIKE 's*'").to_pylist() == shown[2:]
    assert session.sql("USE sold; CREATE SCHEMA IF NOT EXISTS default").message == "SCHEMA default exists already"
    session.sql("DROP TABLE main.shop.x; DROP SCHEMA SOLD")
    assert session.sql("SHOW SCHEMAS").to_pylist() == [("default", None), ("sales", None)]


def described(session, name):
    return {column: comment for column, _, comment in session.sql(f"DESCRIBE {name}").to_pylist()}


def test_comments_are_kept_and_go_with_their_columns(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.sql("CREATE TABLE db.t (a INT COMMENT 'first', b INT, c INT COMMENT 'gone') COMMENT 'old'")
        session.sql(
            "CREATE VIEW v (x COMMENT 'of v') AS SELECT a FROM db.t; CREATE MATERIALIZED VIEW m AS SELECT a FROM db.t"
        )
        session.sql(
            "COMMENT ON COLUMN db.t.B IS 'it''s'; COMMENT ON TABLE db.t IS 'new'; COMMENT ON COLUMN v.x IS NULL"
        )
        session.sql(
            "COMMENT ON VIEW m IS 'kept'; COMMENT ON MATERIALIZED VIEW m IS 'kept still'; "
            "COMMENT ON COLUMN m.a IS 'one'"
        )
        session.sql(
            "ALTER TABLE db.t RENAME COLUMN a TO z; ALTER TABLE db.t DROP COLUMN c; ALTER TABLE db.t ADD COLUMN c INT"
        )
        assert described(session, "db.t") == {"z": "first", "b": "it's", "c": None}
    with an.Session(path=tmp_path) as session:
        assert described(session, "db.t") == {"z": "first", "b": "it's", "c": None}
        assert described(session, "v") == {"x": None}
        assert described(session, "m") == {"a": "one"}
        assert ("Comment", "kept still", "") in session.sql("DESCRIBE EXTENDED m").to_pylist()
        assert ("Comment", "new", "") in session.sql("DESCRIBE EXTENDED db.t").to_pylist()
        session.sql("COMMENT ON TABLE db.t IS NULL")
        assert not [row for row in session.sql("DESCRIBE EXTENDED db.t").to_pylist() if row[0] == "Comment"]


REFUSED = {
    "COMMENT ON COLUMN t.q IS 'x'": (UnknownColumnError, "no column 'q'"),
    "COMMENT ON VIEW t IS 'x'": (StatementError, "'sales.t' is a TABLE; the statement needs a VIEW"),
    "COMMENT ON TABLE nothing IS 'x'": (StatementError, "there is no 'sales.nothing'"),
    "COMMENT ON INDEX i IS 'x'": (StatementError, "expected TABLE, SOURCE, VIEW"),
    "COMMENT ON COLUMN k IS 'x'": (StatementError, "write the column behind its table"),
    "COMMENT ON TABLE t IS 5": (StatementError, "a comment, or NULL in quotes"),
    "CREATE SCHEMA sales COMMENT 'other'": (
        StatementError,
        "'sales' is a SCHEMA with another definition; DROP SCHEMA sales",
    ),
    "CREATE SCHEMA s LOCATION '/tmp'": (StatementError, "a schema has no place of its own"),
    "CREATE SCHEMA a.b.c": (StatementError, "must have at most 2 parts"),
    "USE CATALOG main": (StatementError, "USE catalog.schema"),
    "BEGIN; COMMENT ON TABLE t IS 'x'": (StatementError, "cannot run inside a transaction"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused(session, text):
    kind, reason = REFUSED[text]
    with pytest.raises(AltneuError, match=reason) as raised:
        session.sql(text)
    assert isinstance(raised.value, kind)
