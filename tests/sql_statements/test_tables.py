"""Defaults of columns, tables that begin with the rows of a query, and views of one session alone."""

import pytest

from altneu import Session
from altneu.errors import AltneuError, PlanError, StatementError
from tests.sql_statements import cases


def rows(session, text):
    return sorted(cases.rows(session, text), key=str)


@pytest.fixture
def session(tmp_path):
    with Session(path=tmp_path / "state") as session:
        session.sql("CREATE TABLE t (a BIGINT DEFAULT 5, b STRING DEFAULT concat('x', 'y') COMMENT 'the b', c INT)")
        yield session


# defaults -------------------------------------------------------------------------------------------------------------


def test_defaults_stand_wherever_a_value_is_missing_or_said_to_be_one(session):
    session.sql("INSERT INTO t (c) VALUES (1); INSERT INTO t VALUES (DEFAULT, 'b', 2), (3, DEFAULT, DEFAULT)")
    session.sql("INSERT INTO t BY NAME SELECT 4 AS c")
    assert rows(session, "SELECT * FROM t") == [(3, "xy", None), (5, "b", 2), (5, "xy", 1), (5, "xy", 4)]
    session.sql("UPDATE t SET a = a + 1, b = DEFAULT, c = DEFAULT WHERE c = 2")
    session.sql("UPDATE t SET a = DEFAULT WHERE a = 3")
    assert rows(session, "SELECT * FROM t") == [(5, "xy", 1), (5, "xy", 4), (5, "xy", None), (6, "xy", None)]


def test_merge_has_them_too(session):
    session.sql("INSERT INTO t VALUES (1, 'one', 1), (2, 'two', 2)")
    session.sql(
        "MERGE INTO t USING (SELECT 1 AS a UNION ALL SELECT 9) s ON t.a = s.a "
        "WHEN MATCHED THEN UPDATE SET b = DEFAULT, c = DEFAULT "
        "WHEN NOT MATCHED THEN INSERT (a, b) VALUES (DEFAULT, 'new') "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET a = DEFAULT"
    )
    assert rows(session, "SELECT * FROM t") == [(1, "xy", None), (5, "new", None), (5, "two", 2)]


def test_they_stay_with_their_columns(session, tmp_path):
    session.sql(
        "ALTER TABLE t RENAME COLUMN b TO d; ALTER TABLE t DROP COLUMN a; ALTER TABLE t ADD COLUMN e INT DEFAULT 7"
    )
    session.sql("INSERT INTO t (c) VALUES (1)")
    assert rows(session, "SELECT * FROM t") == [("xy", 1, 7)]
    session.close()
    with Session(path=tmp_path / "state") as again:
        again.sql("INSERT INTO t (c) VALUES (2)")
        assert rows(again, "SELECT * FROM t") == [("xy", 1, 7), ("xy", 2, 7)]


@pytest.mark.parametrize(
    ("default", "said"),
    [
        ("'x'", "must be a constant of type int"),
        ("b", "no column 'b'"),
        ("rand()", "returns another answer each time"),
        ("(SELECT 1)", "must be a constant, got a query"),
    ],
)
def test_a_default_that_is_no_value_of_its_column_is_refused(session, default, said):
    with pytest.raises(AltneuError, match=said):
        session.sql(f"CREATE TABLE u (a INT DEFAULT {default})")
    assert [name for name, _ in session.sql("SHOW TABLES").to_pylist()] == ["t"]


def test_a_column_is_not_added_again_with_another_default(session):
    session.sql("ALTER TABLE t ADD COLUMN d INT DEFAULT 3")
    with pytest.raises(StatementError, match="already, whose DEFAULT is 3"):
        session.sql("ALTER TABLE t ADD COLUMN d INT DEFAULT 4")
    assert "already" in session.sql("ALTER TABLE t ADD COLUMN d INT DEFAULT 3").message


def test_describe_shows_what_is_said_of_a_table(session):
    session.sql("CREATE TABLE u (a INT COMMENT 'of a') COMMENT 'all of it' TBLPROPERTIES ('owner' = 'me')")
    shown = session.sql("DESCRIBE EXTENDED u").to_pylist()
    assert ("a", "int", "of a") in shown
    assert ("Comment", "all of it", "") in shown
    assert ("Table Properties", "[owner=me]", "") in shown


# WITH -----------------------------------------------------------------------------------------------------------------


def test_delete_and_update_read_what_stands_in_with(session):
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)")
    assert "DELETE 1" in session.sql("WITH x AS (SELECT 2 AS k) DELETE FROM t WHERE a IN (SELECT k FROM x)").message
    session.sql("WITH x AS (SELECT 3 AS k, 30 AS v) UPDATE t SET c = (SELECT v FROM x) WHERE a IN (SELECT k FROM x)")
    assert rows(session, "SELECT * FROM t") == [(1, "a", 1), (3, "c", 30)]


# CREATE TABLE AS ------------------------------------------------------------------------------------------------------


def test_a_table_begins_with_the_rows_of_a_query_and_goes_on_alone(session, tmp_path):
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (1, 'b', 2)")
    text = "CREATE TABLE n AS SELECT a, count(*) AS n, CAST(sum(c) AS DECIMAL(9, 2)) AS s FROM t GROUP BY a"
    assert session.sql(text).message == "TABLE n created, with 1 rows"
    session.sql("INSERT INTO t VALUES (2, 'c', 3); INSERT INTO n VALUES (7, 0, 1.5)")
    session.sql("DROP TABLE t")
    assert session.sql(text).message == "TABLE n exists already"
    session.close()
    with Session(path=tmp_path / "state") as again:
        assert [(a, n, str(s)) for a, n, s in rows(again, "SELECT * FROM n")] == [(1, 2, "3.00"), (7, 0, "1.50")]


def test_a_table_of_no_rows_is_there_and_stays_empty(session):
    text = "CREATE TABLE n AS SELECT a FROM t"
    session.sql(text)
    session.sql("INSERT INTO t (c) VALUES (1)")
    session.sql(text)
    assert rows(session, "SELECT * FROM n") == []


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT NULL AS a", "has no type; CAST"),
        ("SELECT 1 AS a, 2 AS A", "twice"),
        ("SELECT a / (a - 5) AS a FROM t", "error"),
        ("SELECT nothing FROM t", "no column 'nothing'"),
    ],
)
def test_a_query_that_makes_no_table_leaves_none(session, query, said):
    session.sql("INSERT INTO t (c) VALUES (1)")
    with pytest.raises(AltneuError, match=said):
        session.sql(f"CREATE TABLE n AS {query}")
    assert [name for name, _ in session.sql("SHOW TABLES").to_pylist()] == ["t"]
    session.sql("CREATE TABLE n (a INT); INSERT INTO n VALUES (1)")
    assert rows(session, "SELECT * FROM n") == [(1,)]


def test_what_stopped_before_its_rows_were_in_it_has_not_happened(session, tmp_path, monkeypatch):
    session.sql("INSERT INTO t (c) VALUES (1)")
    statements = session.statements

    def interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(statements, "_step", interrupt)
    monkeypatch.setattr(statements.dropper, "remove", lambda _: None)  # as if the process had ended there
    with pytest.raises(KeyboardInterrupt):
        session.sql("CREATE TABLE n AS SELECT a FROM t")
    session.close()
    with Session(path=tmp_path / "state") as again:
        assert [name for name, _ in again.sql("SHOW TABLES").to_pylist()] == ["t"]
        again.sql("CREATE TABLE n AS SELECT c FROM t")
        assert rows(again, "SELECT * FROM n") == [(1,)]


# temporary views ------------------------------------------------------------------------------------------------------


def test_a_temporary_view_ends_with_its_session(session, tmp_path):
    session.sql("INSERT INTO t VALUES (1, 'a', 1), (9, 'b', 2); CREATE TEMPORARY VIEW v AS SELECT a FROM t")
    session.sql("CREATE TEMP VIEW w AS SELECT a FROM v WHERE a > 5")
    assert rows(session, "SELECT * FROM w") == [(9,)]
    session.sql("CREATE OR REPLACE TEMP VIEW v AS SELECT a + 1 AS a FROM t")
    assert rows(session, "SELECT * FROM w") == [(10,)]
    assert rows(session, "SHOW VIEWS") == [("v", "ready"), ("w", "ready")]
    session.close()
    with Session(path=tmp_path / "state") as again:
        assert rows(again, "SHOW VIEWS") == []
        with pytest.raises(PlanError, match="no table or view 'v'"):
            again.sql("SELECT * FROM v")
        again.sql("CREATE VIEW v AS SELECT 1 AS a")


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("CREATE MATERIALIZED VIEW m AS SELECT * FROM v", "reads the temporary VIEW v"),
        ("CREATE VIEW m AS SELECT * FROM v", "reads the temporary VIEW v"),
        ("CREATE INDEX i ON v (a)", "reads the temporary VIEW v"),
        ("CREATE OR REPLACE VIEW v AS SELECT 1 AS a", "of this session alone"),
        ("CREATE OR REPLACE TEMP VIEW v AS SELECT * FROM v", "would read itself"),
        ("CREATE TEMP VIEW u WITH (STRICT) AS SELECT 1 AS a", "keeps nothing"),
        ("CREATE TEMP TABLE u (a INT)", "expected VIEW or FUNCTION"),
        ("DROP TABLE t", "is read by VIEW v"),
    ],
)
def test_what_is_stored_reads_nothing_temporary(session, statement, said):
    session.sql("CREATE TEMP VIEW v AS SELECT a FROM t")
    with pytest.raises(AltneuError, match=said):
        session.sql(statement)
    session.sql("INSERT INTO t (c) VALUES (1)")
    assert rows(session, "SELECT * FROM v") == [(5,)]


def test_alter_and_replace_bind_temporary_views_and_store_none(session, tmp_path):
    session.sql("CREATE VIEW below AS SELECT a, c FROM t; CREATE TEMP VIEW v AS SELECT a, c FROM below")
    session.sql("ALTER TABLE t ALTER COLUMN c TYPE BIGINT; INSERT INTO t (c) VALUES (5000000000)")
    assert rows(session, "SELECT * FROM v") == [(5, 5000000000)]
    session.sql("CREATE OR REPLACE VIEW below AS SELECT a + 1 AS a, c FROM t")
    assert rows(session, "SELECT * FROM v") == [(6, 5000000000)]
    session.close()
    with Session(path=tmp_path / "state") as again:
        assert rows(again, "SHOW VIEWS") == [("below", "ready")]


@pytest.mark.parametrize("word", ["glob", "xor", "returning"])
def test_words_of_other_databases_are_names(word):
    with Session() as session:
        session.sql(f"CREATE TABLE {word} (k INT); INSERT INTO {word} VALUES (1)")
        assert session.sql(f"SELECT {word}.k AS {word} FROM {word}").to_pylist() == [(1,)]
        assert session.sql(f"SELECT x.k {word} FROM `{word}` x JOIN {word} ON x.k = {word}.k").to_pylist() == [(1,)]


@pytest.mark.parametrize("what", ["TABLE {} (k INT)", "VIEW {} AS SELECT 1 AS k", "TEMPORARY VIEW {} AS SELECT 1 AS k"])
@pytest.mark.parametrize("word", ["notnull", "select", "having", "lateral"])
def test_names_that_from_does_not_read_are_refused_unless_they_are_quoted(word, what):
    with Session() as session:
        said = rf"line 1, column \d+: FROM reads no table of this name; quote it: `{word}`"
        with pytest.raises(StatementError, match=said):
            session.sql(f"CREATE {what.format(word)}")
        session.sql(f"CREATE {what.format(f'`{word}`')}")
        assert session.sql(f"SELECT k FROM `{word}`").schema.names == ["k"]


def test_a_store_has_such_a_name_from_before(tmp_path, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr("altneu.sql.statements.words.read_by_from", lambda _: True)
        with Session(path=tmp_path) as session:
            session.sql("CREATE TABLE select (k INT); INSERT INTO select VALUES (1)")
    with Session(path=tmp_path) as session:
        assert session.sql("SELECT k FROM `select`").to_pylist() == [(1,)]
