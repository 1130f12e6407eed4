"""Statements as written for Spark and Databricks: names with a schema, DESCRIBE, INSERT, materialized views."""

from __future__ import annotations

from collections import Counter

import pytest

import altneu as an
from altneu.errors import AltneuError, StatementError
from tests.sql_statements.cases import ORDERS, rows


@pytest.fixture
def session():
    with an.Session() as session:
        session.sql(ORDERS)
        yield session


# names ----------------------------------------------------------------------------------------------------------------


def test_a_name_may_have_a_schema_and_a_catalog(quick):
    with an.Session(path=quick / "state") as session:
        session.sql("CREATE TABLE db.t (k INT); CREATE TABLE main.db.t (k INT); CREATE TABLE `default`.t (k INT)")
        session.sql("INSERT INTO DB.T VALUES (1); INSERT INTO main.db.t VALUES (2); INSERT INTO t VALUES (3)")
        session.sql("CREATE MATERIALIZED VIEW db.v AS SELECT t.k + db.t.k AS k FROM db.t")
        session.sql("CREATE INDEX db.i ON db.v (k)")
        text = "SELECT main.db.t.k, spark_catalog.db.t.k, default.t.k, x.k FROM main.db.t, db.t, t, db.v AS x"
        assert rows(session, text) == [(2, 1, 3, 2)]
        assert rows(session, "SELECT db.t.*, spark_catalog.default.t.* FROM db.t, spark_catalog.default.t") == [(1, 3)]
    with an.Session(path=quick / "state") as session:
        assert rows(session, "SHOW TABLES IN db") == [("db.t", "ready")]
        assert rows(session, "SHOW TABLES FROM default LIKE 't*'") == [("t", "ready")]
        assert Counter(rows(session, "SHOW TABLES")) == Counter((n, "ready") for n in ("db.t", "main.db.t", "t"))
        session.sql("UPDATE db.t SET db.t.k = 5 WHERE t.k = 1; DELETE FROM main.db.t; TRUNCATE TABLE default.t")
        assert rows(session, "SELECT * FROM db.v") == session.view("db.v").to_pylist() == [(10,)]
        assert rows(session, "SELECT count(*) FROM main.db.t, t") == [(0,)]
        session.sql("DROP MATERIALIZED VIEW db.v CASCADE; DROP TABLE db.t")
        with pytest.raises(AltneuError, match=r"no table or view 'db.t' .* There are: main.db.t, t"):
            session.sql("SELECT * FROM db.t")


def test_names_that_are_not_clear_are_refused():
    with an.Session() as session:
        session.sql("CREATE TABLE a.t (k INT); CREATE TABLE b.t (k INT)")
        for text, message in {
            "SELECT t.k FROM a.t, b.t": "may be one of several: a.t.k, b.t.k",
            "SELECT c.t.k FROM a.t": "no column 'c.t.k'",
            "SELECT a.t.k FROM a.t AS x": "no column 'a.t.k'",
            "CREATE TABLE a.b.c.d (k INT)": "at most 3 parts, catalog.schema.name",
            "USE a.b.c": "must have at most 2 parts, catalog.schema",
        }.items():
            with pytest.raises(AltneuError) as caught:
                session.sql(text)
            assert message in str(caught.value)


# DESCRIBE -------------------------------------------------------------------------------------------------------------


def test_describe_is_as_in_spark(session, spark):
    spark.sql("CREATE OR REPLACE TEMP VIEW described AS SELECT 'a' AS item, 1L AS price, array(1.5) AS other")
    there = [tuple(row) for row in spark.sql("DESCRIBE described").collect()]
    session.sql("CREATE VIEW described AS SELECT 'a' AS item, 1L AS price, array(1.5) AS other")
    for text in ("DESCRIBE described", "DESC TABLE described", "DESCRIBE QUERY SELECT * FROM described"):
        result = session.sql(text)
        assert result.to_pylist() == there, text
        assert result.columns == ["col_name", "data_type", "comment"]
    of_one = [("col_name", "price"), ("data_type", "bigint"), ("comment", None)]
    assert rows(session, "DESCRIBE described price") == of_one


def test_describe_extended_has_what_was_said(session):
    session.sql(
        "CREATE MATERIALIZED VIEW m (item STRING NOT NULL COMMENT 'which', n BIGINT) COMMENT 'per item' "
        "TBLPROPERTIES ('team' = 'shop') TRIGGER ON UPDATE AS SELECT item, count(*) FROM orders GROUP BY item"
    )
    found = rows(session, "DESCRIBE EXTENDED m")
    assert found[:3] == [("item", "string", "which"), ("n", "bigint", None), ("", "", "")]
    assert {("Name", "m", ""), ("Type", "MATERIALIZED VIEW", ""), ("Comment", "per item", "")} <= {*found}
    assert ("Table Properties", "[team=shop]", "") in found
    assert ("Type", "TABLE", "") in rows(session, "DESCRIBE TABLE FORMATTED orders")
    with pytest.raises(AltneuError, match="no column 'q'"):
        session.sql("DESCRIBE m q")
    with pytest.raises(StatementError, match="SHOW FUNCTIONS LIKE"):
        session.sql("DESCRIBE FUNCTION upper")


# INSERT, UPDATE, DELETE -----------------------------------------------------------------------------------------------


def test_insert_by_name_takes_columns_by_their_names(session):
    session.sql("INSERT INTO orders BY NAME SELECT 9L AS Price, 'oil' AS item")
    session.sql("INSERT INTO orders BY NAME SELECT 'ink' AS item")
    found = Counter(rows(session, "SELECT * FROM orders WHERE item IN ('oil', 'ink')"))
    assert found == {("oil", 9): 1, ("ink", None): 1}
    with pytest.raises(StatementError, match="'orders' has no column 'q'"):
        session.sql("INSERT INTO orders BY NAME SELECT 1 AS q")


def test_insert_replace_where_takes_the_place_of_what_meets_it(session):
    message = session.sql("INSERT INTO orders REPLACE WHERE item = 'tea' VALUES ('tea', 1)").message
    assert message == "INSERT 1 in the place of 2"
    assert Counter(rows(session, "SELECT * FROM orders")) == {("tea", 1): 1, ("jam", 5): 1}
    with pytest.raises(StatementError, match="must meet the condition, but 1 of 2 do not"):
        session.sql("INSERT INTO orders REPLACE WHERE item = 'tea' VALUES ('tea', 2), ('oil', 1)")
    assert Counter(rows(session, "SELECT * FROM totals")) == {("tea", 1): 1, ("jam", 5): 1}


def test_a_with_before_insert_and_aliases_of_the_table(session):
    more = "WITH more AS (SELECT item, price + 1 AS p FROM orders WHERE item = 'jam')"
    session.sql(f"{more} INSERT INTO orders SELECT * FROM more")
    session.sql("UPDATE orders AS o SET o.price = o.price * 10 WHERE o.item = 'jam'")
    session.sql("DELETE FROM orders o WHERE o.price < 4")
    assert sorted(rows(session, "SELECT * FROM orders")) == [("jam", 50), ("jam", 60), ("tea", 4)]
    with pytest.raises(StatementError, match="a table has no partitions"):
        session.sql("INSERT INTO orders PARTITION (item = 'tea') VALUES (1)")


# materialized views ---------------------------------------------------------------------------------------------------


def test_refresh_reads_what_is_below_a_view(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("k\n1\n")
    with an.Session() as session:
        for name in ("a", "b"):
            origin = f"FILE '{tmp_path}/{name}.csv' FORMAT CSV OPTIONS (header true)"
            session.sql(f"CREATE SOURCE {name} (k INT) FROM {origin} KEEP")
        session.sql("CREATE VIEW v AS SELECT k + 1 AS k FROM a")
        session.sql("CREATE OR REFRESH MATERIALIZED VIEW m AS SELECT * FROM v")
        for name in ("a", "b"):
            (tmp_path / f"{name}.csv").write_text("k\n2\n3\n")
        assert session.sql("REFRESH MATERIALIZED VIEW m").message == "REFRESH MATERIALIZED VIEW m: a"
        assert sorted(rows(session, "SELECT * FROM m")) == [(3,), (4,)]
        assert rows(session, "SELECT * FROM b") == [(1,)]  # m does not read it
        with pytest.raises(StatementError, match="'v' is a VIEW"):
            session.sql("REFRESH MATERIALIZED VIEW v")


REFUSED = {
    "CREATE MATERIALIZED VIEW m PARTITIONED BY (item) AS SELECT * FROM orders": "PARTITIONED BY is not supported:",
    "CREATE MATERIALIZED VIEW m CLUSTER BY (item) AS SELECT * FROM orders": "CLUSTER BY is not supported: leave it out",
    "CREATE MATERIALIZED VIEW m SCHEDULE EVERY 1 HOUR AS SELECT * FROM orders": "each step keeps the view right",
    "CREATE MATERIALIZED VIEW m TRIGGER ON UPDATE AT MOST EVERY INTERVAL 1 HOUR AS SELECT 1": "updated by each step",
    "CREATE MATERIALIZED VIEW m (item INT, p) AS SELECT * FROM orders": "must be INT, but the query returns string",
    "CREATE MATERIALIZED VIEW m (item, p NOT NULL) AS SELECT * FROM orders": "must be NOT NULL",
    "CREATE VIEW m SCHEDULE EVERY 1 HOUR AS SELECT * FROM orders": "expected AS, not 'SCHEDULE'",
    "CREATE OR REFRESH VIEW m AS SELECT * FROM orders": "OR REFRESH is for a MATERIALIZED VIEW",
    "REFRESH MATERIALIZED VIEW totals FULL": "nothing is computed again",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_obeyed_is_refused(session, text):
    with pytest.raises(StatementError) as caught:
        session.sql(text)
    assert REFUSED[text] in str(caught.value)
