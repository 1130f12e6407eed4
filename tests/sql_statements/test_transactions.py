"""What is inserted between BEGIN and COMMIT counts at COMMIT, whoever takes steps in between."""

from threading import Thread

import pytest

from altneu import Session
from altneu.errors import StatementError

TABLE = "CREATE TABLE t (a BIGINT, b STRING); CREATE TABLE u (a BIGINT)"


@pytest.fixture
def session():
    with Session() as session:
        session.sql(TABLE)
        session.sql("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
        yield session


def rows(session, table="t"):
    return sorted(map(tuple, session.sql(f"SELECT * FROM {table}").to_pylist()))


def test_a_step_of_the_program_does_not_commit_them(session):
    session.sql("BEGIN; INSERT INTO t VALUES (3, 'z')")
    session.insert("u", [(7,)])
    lower = session.advance().upper
    assert rows(session) == [(1, "x"), (2, "y")]
    assert rows(session, "u") == [(7,)]
    assert session.lower == lower
    session.sql("ROLLBACK")
    assert rows(session) == [(1, "x"), (2, "y")]
    session.sql("BEGIN; INSERT INTO t VALUES (3, 'z'); DELETE FROM u")
    session.advance()
    session.advance(to=session.lower + 5)
    session.sql("COMMIT")
    assert (rows(session), rows(session, "u")) == ([(1, "x"), (2, "y"), (3, "z")], [])


def test_a_rollback_leaves_what_the_program_inserted(session):
    session.sql("BEGIN; INSERT INTO t VALUES (3, 'z')")
    session.insert("t", [(4, "p")])
    session.sql("ROLLBACK")
    assert rows(session) == [(1, "x"), (2, "y"), (4, "p")]


def test_what_another_thread_inserts_counts_before(session):
    session.sql("BEGIN; INSERT INTO t VALUES (3, 'z')")

    def other():
        session.insert("t", [(5, "q")])
        session.advance()

    thread = Thread(target=other)
    thread.start()
    thread.join()
    assert rows(session) == [(1, "x"), (2, "y"), (5, "q")]
    session.sql("COMMIT")
    assert rows(session) == [(1, "x"), (2, "y"), (3, "z"), (5, "q")]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET b = 'other' WHERE a = 1",
        "DELETE FROM t WHERE a = 1",
        "MERGE INTO t USING (SELECT 1 AS a) s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "TRUNCATE TABLE t",
        "INSERT OVERWRITE t VALUES (9, 'r')",
    ],
)
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_rows_that_were_found_and_are_changed_since_are_not_changed_twice(session, statement, steps):
    session.sql(f"BEGIN; {statement}")
    session.retract("t", [(1, "x")])
    for _ in range(steps):
        session.advance()
    with pytest.raises(StatementError, match="COMMIT: t was changed from outside of the transaction"):
        session.sql("COMMIT")
    assert rows(session) == [(2, "y")]
    session.sql("BEGIN; DELETE FROM t; COMMIT")
    assert rows(session) == []


def test_changes_of_other_tables_do_not_matter(session):
    session.sql("BEGIN; UPDATE t SET b = 'other' WHERE a = 1")
    session.insert("u", [(7,)])
    session.advance()
    session.sql("COMMIT")
    assert rows(session) == [(1, "other"), (2, "y")]


def test_what_cannot_be_inserted_aborts_and_leaves_the_rest(session):
    session.sql("BEGIN; INSERT INTO t VALUES (3, 'z')")
    session.insert("t", [(4, "p")])
    with pytest.raises(StatementError):
        session.sql("INSERT INTO t VALUES ('no number', 'z')")
    assert "nothing of the transaction counts" in str(session.sql("COMMIT"))
    assert rows(session) == [(1, "x"), (2, "y"), (4, "p")]


def test_a_closed_session_has_lost_them(tmp_path):
    with Session(path=tmp_path) as session:
        session.sql(TABLE)
        session.sql("BEGIN; INSERT INTO t VALUES (3, 'z')")
        session.advance()
    with Session(path=tmp_path) as session:
        assert rows(session) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET b = 'other' WHERE a = 3",
        "DELETE FROM t WHERE a = 3",
        "MERGE INTO t USING (SELECT 3 AS a) s ON t.a = s.a WHEN MATCHED THEN DELETE",
        "INSERT INTO t REPLACE WHERE a = 3 VALUES (3, 'p')",
        "TRUNCATE TABLE t",
    ],
)
def test_what_would_overlook_rows_of_its_own_transaction_is_refused(session, statement):
    with pytest.raises(StatementError, match=r"'t' has changes that are not committed yet, which .* see; COMMIT"):
        session.sql(f"BEGIN; INSERT INTO t VALUES (3, 'z'); {statement}")
    session.sql("ROLLBACK")
    session.sql(
        "BEGIN; INSERT INTO u VALUES (3); UPDATE t SET b = 'z' WHERE a = 1; INSERT INTO t VALUES (3, 'z'); COMMIT"
    )
    assert rows(session) == [(1, "z"), (2, "y"), (3, "z")]
