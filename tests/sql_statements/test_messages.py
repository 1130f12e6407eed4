"""What somebody is told who begins with SQL: the place, the reason, and what works instead."""

import sqlite3

import pytest
from click.testing import CliRunner

import altneu as an
from altneu.cli import main
from altneu.errors import AltneuError, SinkError, StatementError


@pytest.fixture
def session():
    with an.Session() as opened:
        opened.sql("CREATE TABLE t (k INT, n INT); INSERT INTO t VALUES (1, 0)")
        yield opened


TOLD = {
    "SELECT k FORM t": "is 'FORM' before it meant to be FROM?",
    "SELECT k FROM t WHER k = 1": "is 'WHER' before it meant to be WHERE?",
    "SELECT k FROM t GRUOP BY k": "is 'GRUOP' before it meant to be GROUP?",
    "SELECT k FROM t WHERE k = (SELECT k FORM t)": "meant to be FROM?",
    "CREATE INDEX ON t (k)": "an index needs a name, by which it is dropped: CREATE INDEX name ON view (columns)",
    "DROP INDEX nosuch": "the statement needs an INDEX",
    "SELECT 1 div n FROM t": "the query has 1 error(s)",
    "SELECT * FROM t AS OF 7": "at=7 is not closed yet",
    "SELECT * FROM t PIVOT (n FOR k IN (1))": "PIVOT needs aggregates, got `n`: PIVOT (sum(x) FOR c IN (...))",
    "SELECT * FROM t TABLESAMPLE (10 PERCENT)": "filter on a hash of a key",
    "SELECT k FROM t WHERE rank() OVER (ORDER BY k) = 1": (
        "test one in QUALIFY, or in the WHERE of a query that has this one in its FROM"
    ),
    "DELETE FROM t WHERE rank() OVER (ORDER BY k) = 1": "by a query with HAVING or QUALIFY: WHERE key IN (SELECT ...)",
    "UPDATE t SET n = 1 WHERE sum(n) > 1": "each row of 't' by itself, got an aggregate or a window function",
    "SELECT k, count(*) FROM t GROUP BY k HAVING rank() OVER (ORDER BY k) = 1": (
        "in SQL a query in FROM; QUALIFY tests one"
    ),
}


@pytest.mark.parametrize("text", TOLD)
def test_messages(session, text):
    with pytest.raises(AltneuError) as caught:
        session.sql(text)
    assert TOLD[text] in str(caught.value)
    assert "view 'the query'" not in str(caught.value)
    assert 'errors="ignore"' not in str(caught.value)


@pytest.mark.parametrize("text", ["SELECT * FROM sales WHERE", "UPDATE sales", "MERGE INTO sales"])
def test_a_name_is_no_misspelled_word(session, text):
    """As "sales" is not, which is close to VALUES."""
    with pytest.raises(AltneuError) as caught:
        session.sql(text)
    assert "meant to be" not in str(caught.value)


def test_schemas_are_not_among_what_has_a_definition(session):
    session.sql("CREATE SCHEMA shop")
    with pytest.raises(StatementError, match=r"there are: t\b(?!.*shop)"):
        session.sql("SHOW CREATE VIEW nosuch")


def test_the_error_of_a_loop_without_end_names_what_sql_has(session):
    with pytest.raises(AltneuError, match=r"RETURN AT RECURSION LIMIT n"):
        session.sql(
            "WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 3) "
            "r (k INT) AS (SELECT k FROM t UNION SELECT k + 1 FROM r) SELECT * FROM r"
        )


# files ----------------------------------------------------------------------------------------------------------------


def read(path, options="header true", columns="(k INT, s STRING)", form="CSV"):
    with an.Session() as session:
        session.sql(f"CREATE SOURCE s {columns} FROM FILE '{path}' FORMAT {form} OPTIONS ({options}) KEEP")
        return session.sql("SELECT * FROM s ORDER BY 1").to_pylist()


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ('1,"a ""b"" c"', "line 2: there is a quote inside quotes"),
        ('1,"a \\" c"', "line 2: there is a quote inside quotes"),
        ("x,a", "perhaps it has another FORMAT"),
        ("1", "perhaps it has another FORMAT"),
    ],
)
def test_what_spark_reads_otherwise_is_refused(tmp_path, rows, told):
    (tmp_path / "a.csv").write_text(f"k,s\n{rows}\n")
    with pytest.raises(StatementError, match=told):
        read(tmp_path / "a.csv")


def test_quotes_are_read_as_it_is_said(tmp_path):
    (tmp_path / "a.csv").write_text('k,s\n1,"a ""b"" c"\n2,""\n3,"x,y"\n')
    assert read(tmp_path / "a.csv", "header true, escape '\"'") == [(1, 'a "b" c'), (2, None), (3, "x,y")]
    (tmp_path / "b.csv").write_text('k,s\n1,"a \\"b"\n2,""\n')
    assert read(tmp_path / "b.csv", "header true, escape '\\\\'") == [(1, 'a "b'), (2, None)]


def test_files_that_are_not_there_or_of_another_format(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StatementError, match=f"there is no file 'nosuch.csv', from {tmp_path}"):
        read("nosuch.csv")
    with pytest.raises(StatementError, match="create it first, or correct the path"):
        read(tmp_path / "nosuch.csv")
    (tmp_path / "a.csv").write_bytes(b"\x00\xff")
    with pytest.raises(StatementError, match="another FORMAT"):
        read(tmp_path / "a.csv", columns="")


# elsewhere ------------------------------------------------------------------------------------------------------------


def test_a_row_that_a_database_refuses_is_named(session, tmp_path):
    session.sql(f"CREATE SINK out FROM t INTO SQLITE '{tmp_path / 'a.db'}' TABLE o")
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE UNIQUE INDEX one ON o (k)")
    database.close()
    with pytest.raises(
        SinkError, match=r"UNIQUE constraint failed: o.k, for the row \(1, 5.*GROUP BY them in the view"
    ):
        session.sql("INSERT INTO t VALUES (1, 5)")


def test_a_script_that_ends_inside_a_transaction(tmp_path):
    script = tmp_path / "a.sql"
    script.write_text("CREATE TABLE t (k INT); BEGIN; INSERT INTO t VALUES (1);")
    ran = CliRunner().invoke(main, ["run", str(script)])
    assert (ran.exit_code, "ends after BEGIN without COMMIT" in ran.stderr) == (1, True)


def test_a_script_that_is_no_text(tmp_path):
    script = tmp_path / "a.sql"
    script.write_bytes(b"\xff\xfe\x00")
    ran = CliRunner().invoke(main, ["run", str(script)])
    assert (ran.exit_code, f"{script} is not UTF-8 text" in ran.stderr.replace("\n", "")) == (1, True)
