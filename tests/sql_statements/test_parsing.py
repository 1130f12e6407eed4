"""What parses, and what an error says: where, what is there, what was expected or what works instead."""

from __future__ import annotations

import pytest

from altneu.errors import StatementError
from altneu.sql.statements import parse
from altneu.sql.statements.tree import (
    CreateIndex,
    CreateSink,
    CreateSource,
    Drop,
    Envelope,
    Explain,
    Insert,
    Origin,
    Select,
    Show,
    Subscribe,
)


def one(text):
    (statement,) = parse(text)
    return statement


def test_statements_are_parted_where_semicolons_are_none_of_a_text_or_a_comment():
    actual = parse("SELECT 'a;b' -- c; d\n; /* e; f */ SHOW TABLES;\n;; SELECT \"x;y\" AS `p;q` ;")
    assert [type(s).__name__ for s in actual] == ["Select", "Show", "Select"]
    assert [s.line for s in actual] == [1, 2, 3]
    assert actual[2].text == 'SELECT "x;y" AS `p;q`'
    assert parse("") == parse(" ; -- nothing\n ;") == []


def test_a_source_with_everything():
    source = one(
        "create source if not exists s (id BIGINT, `at time` TIMESTAMP NOT NULL) FROM FILE 'a/*.json', 'b' FORMAT JSON "
        "OPTIONS (multiLine true, 'x.y' = 5, path.glob \"*\") COLUMNS (value STRING) "
        "ENVELOPE DEBEZIUM (COLUMN value, UNIT (`at time` = 'us')) TIME (unix_seconds(at) AS known, day) "
        "DIFF if(op = 'd', -1, 1) KEEP WITH (watermark = 60, LATE 'drop')"
    )
    assert source == CreateSource(
        "s",
        unless=True,
        columns="id BIGINT, `at time` TIMESTAMP NOT NULL",
        origin=Origin("file", ("a/*.json", "b"), "json", {"multiLine": True, "x.y": 5, "path.glob": "*"}),
        raw="value STRING",
        envelope=Envelope("debezium", {"COLUMN": "value", "UNIT": {"at time": "us"}}),
        times=(("unix_seconds(at)", "known"), ("day", "day")),
        diff="if(op = 'd', -1, 1)",
        keep=True,
        options={"WATERMARK": 60, "LATE": "drop"},
    )


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("CREATE INDEX i ON v (a, `b c`)", CreateIndex("i", "v", ("a", "b c"))),
        (
            "CREATE SINK s FROM v INTO JDBC 'jdbc:x' TABLE a.b KEY (id) OPTIONS (user 'me') WITH (ERRORS = 'ignore')",
            CreateSink(
                "s",
                "v",
                "jdbc",
                "jdbc:x",
                "a.b",
                key=("id",),
                connection={"user": "me"},
                options={"ERRORS": "ignore"},
            ),
        ),
        ("DROP MATERIALIZED VIEW IF EXISTS v CASCADE", Drop("MATERIALIZED VIEW", "v", if_exists=True, cascade=True)),
        ("DROP TABLE t RESTRICT", Drop("TABLE", "t")),
        ("SHOW MATERIALIZED VIEWS LIKE 'a%'", Show("MATERIALIZED VIEWS", None, "a%")),
        ("SHOW CREATE VIEW v", Show("CREATE", "v")),
        ("SHOW COLUMNS IN v", Show("COLUMNS", "v")),
        ("EXPLAIN PLAN FOR MATERIALIZED VIEW v", Explain("v", None)),
        (
            "SUBSCRIBE v AS OF 5 UP TO 9 WITH (SNAPSHOT = false, PROGRESS) ENVELOPE DEBEZIUM (KEY (a, b))",
            Subscribe("v", None, 5, 9, False, True, "debezium", ("a", "b")),
        ),
    ],
)
def test_a_statement(text, statement):
    assert one(text) == statement


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("SELECT * FROM v AS OF 5", 5),
        ("SELECT * FROM v AS OF -1", -1),
        ("SELECT a AS of FROM v ORDER BY a LIMIT 3 AS OF (7, NULL)", (7, None)),
        ("SELECT a AS of FROM v", None),
        ("SELECT * FROM v AS of (a, b)", None),
        ("WITH v AS (SELECT 1 AS of) SELECT * FROM v", None),
        ("VALUES (1)", None),
        ("TABLE v AS OF 0", 0),
    ],
)
def test_as_of_a_time_and_columns_that_are_called_so(text, at):
    actual = one(text)
    assert isinstance(actual, Select)
    assert actual.at == at


def test_columns_of_an_insert_and_a_query_in_parentheses():
    assert one("INSERT INTO t (a, b) VALUES (1, 2)").columns == ("a", "b")
    actual = one("INSERT INTO TABLE t (SELECT 1)")
    assert isinstance(actual, Insert)
    assert actual.columns == ()


@pytest.mark.parametrize(
    ("text", "where", "told"),
    [
        ("CREATE VEIW v AS SELECT 1", (1, 8), "VIEW, INDEX, SINK, [TEMPORARY] FUNCTION or SCHEMA, not 'VEIW'"),
        ("\n  SELECT a\n FROM t WHERE x = = 3", (3, 19), "an operand or argument is missing"),
        ("SELECT 1;\nCREATE VIEW v AS", (2, 17), "expected a query, and the text ends"),
        ("DROP VIEW a.b.c.d", (1, 11), "at most 3 parts"),
        ("CREATE SOURCE s FROM FILE 'x' FORMAT AVRO", (1, 38), "PARQUET, CSV, JSON, ORC, TEXT"),
        ("CREATE SOURCE s FROM FILE x FORMAT CSV", (1, 27), "expected a path in quotes, not 'x'"),
        ("CREATE SOURCE s (a INT) KEEP KEEP", (1, 30), "KEEP comes twice"),
        (
            "CREATE SOURCE s (a INT) FROM STREAM 'x' FORMAT CSV STATIC",
            (1, 52),
            "it cannot be STATIC",
        ),
        ("CREATE SOURCE s (a INT) ENVELOPE UPSERT", (1, 34), "needs KEY"),
        ("CREATE SOURCE s (a INT) ENVELOPE DEBEZIUM (KEY (a))", (1, 44), "expected COLUMN or UNIT"),
        ("CREATE SOURCE s (a INT) WITH (SPEED = 5)", (1, 31), "no option SPEED; the options are: WATERMARK"),
        ("CREATE SOURCE s (a INT", (1, 23), "expected )"),
        ("CREATE OR REPLACE TABLE t (a INT)", (1, 25), "OR REPLACE is for views"),
        ("CREATE TABLE t (a INT) AS SELECT 1", (1, 24), "the query says what the columns are"),
        ("CREATE TABLE t STATIC", (1, 22), "expected AS, and the text ends"),
        ("CREATE TABLE t (a INT) PARTITIONED BY (a)", (1, 24), "PARTITIONED BY is not supported"),
        ("CREATE TABLE t (a INT DEFAULT 1) USING DELTA LOCATION 'x'", (1, 34), "leave DEFAULT out"),
        ("CREATE TEMPORARY INDEX i ON v (a)", (1, 18), "expected VIEW or FUNCTION, which may be temporary"),
        ("CREATE SINK s FROM v INTO KAFKA 'x'", (1, 27), "ICEBERG 'namespace.table', JDBC 'url'"),
        ("SUBSCRIBE v ENVELOPE UPSERT", (1, 28), "expected (, and the text ends"),
        ("SELECT * FROM v AS OF 5 6", (1, 25), "unexpected '6'"),
        ("SHOW PARTITIONS", (1, 6), "expected SOURCES, TABLES"),
        ("ADVANCE TO soon", (1, 12), "expected a time, not 'soon'"),
        ("MERGE INTO t USING u", (1, 21), "expected ON, and the text ends"),
        ("TRUNCATE TABLE", (1, 15), "expected a table's name"),
        ("INSERT OVERWRITE DIRECTORY 'x' SELECT 1", (1, 28), "expected"),
        ("frobnicate", (1, 1), "statements begin with ADVANCE"),
        ("'SELECT 1'", (1, 1), "statements begin with"),
    ],
)
def test_what_is_wrong_and_where(text, where, told):
    with pytest.raises(StatementError) as raised:
        parse(text)
    said = str(raised.value)
    assert told in said
    assert said.startswith(f"line {where[0]}, column {where[1]}:"), said


@pytest.mark.parametrize("text", ["SELECT 'abc", "SELECT 1 /* and on", 'CREATE VIEW v AS SELECT "x', "SELECT `a"])
def test_what_is_not_closed(text):
    with pytest.raises(StatementError, match="inside quotes or a comment"):
        parse(text)


def test_what_is_nested_too_deeply_is_refused():
    with pytest.raises(StatementError, match="nested too deeply"):
        parse("SELECT " + "(" * 20_000 + "1" + ")" * 20_000)


def test_a_statement_is_a_text():
    with pytest.raises(StatementError, match="needs a text"):
        parse(7)
