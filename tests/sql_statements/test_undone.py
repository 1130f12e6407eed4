"""A statement that fails has not happened, and what would break a table is refused."""

import threading

import pytest

import altneu as an
from altneu.engine.inserting import insert
from altneu.errors import AltneuError, HydrationError, StatementError


@pytest.fixture
def session():
    with an.Session() as opened:
        opened.sql("CREATE TABLE t (id INT NOT NULL, n INT); INSERT INTO t VALUES (1, 2), (2, 3)")
        yield opened


def rows(session):
    return sorted(session.sql("SELECT * FROM t").to_pylist())


@pytest.mark.parametrize("before", ["", "BEGIN;"])
def test_an_update_that_fails_takes_nothing_away(session, before):
    with pytest.raises(AltneuError):
        session.sql(f"{before} UPDATE t SET id = NULL WHERE id = 1")
    if before:
        assert session.sql("COMMIT").message.startswith("ROLLBACK: nothing of the transaction counts")
    session.sql("INSERT INTO t VALUES (3, 4)")
    assert rows(session) == [(1, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET id = NULL WHERE id = 1",
        "MERGE INTO t USING (VALUES (1)) AS new (id) ON t.id = new.id WHEN MATCHED THEN UPDATE SET id = NULL",
        "INSERT INTO t REPLACE WHERE n = 2 SELECT CAST(NULL AS INT), 2",
    ],
)
def test_what_fails_takes_nothing_away_where_rows_of_a_program_were_pending(session, statement):
    session.insert("t", [(3, 4)])  # the statement first takes a step for these
    with pytest.raises(AltneuError, match="NOT NULL"):
        session.sql(statement)
    assert rows(session) == [(1, 2), (2, 3), (3, 4)]


def test_an_update_that_is_interrupted_between_its_halves_has_not_happened(session, monkeypatch):
    calls = iter(range(9))

    def interrupted(*args):
        if next(calls) == 1:  # the old row is retracted, the new one not inserted yet
            raise KeyboardInterrupt
        return insert(*args)

    monkeypatch.setattr("altneu.engine.engine.insert", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.sql("UPDATE t SET n = 9 WHERE id = 1")
    assert rows(session) == [(1, 2), (2, 3)]


def test_a_statement_whose_step_is_interrupted_has_not_happened_and_says_so(session, monkeypatch):
    session.sql("CREATE MATERIALIZED VIEW c AS SELECT count(*) AS n FROM t")

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("altneu.engine.stepping.step_limit", interrupted)
        with pytest.raises(KeyboardInterrupt) as caught:
            session.sql("INSERT INTO t VALUES (3, 4)")
        with pytest.raises(KeyboardInterrupt):
            session.sql("BEGIN; INSERT INTO t VALUES (5, 6); COMMIT")
    assert caught.value.__notes__ == [
        "altneu: nothing of the step is committed, lower is 1, and the statement has not happened"
    ]
    session.sql("INSERT INTO t VALUES (7, 8)")  # not that of before again
    assert session.sql("SELECT * FROM c").to_pylist() == [(3,)]


def test_an_insert_that_a_view_fails_on_is_forgotten(session):
    session.sql("""
        CREATE TABLE s (k INT);
        CREATE MATERIALIZED VIEW m AS WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 3)
            r (k INT) AS (SELECT k FROM s UNION SELECT k + 1 FROM r) SELECT * FROM r
    """)
    with pytest.raises(AltneuError):
        session.sql("INSERT INTO s VALUES (1)")
    session.sql("DROP MATERIALIZED VIEW m")
    assert session.sql("SELECT * FROM s").to_pylist() == []


@pytest.mark.parametrize("twice", ["DELETE FROM t WHERE id = 1", "UPDATE t SET n = n + 1"])
def test_rows_that_wait_for_commit_are_not_changed_again(session, twice):
    with pytest.raises(StatementError, match="not committed yet"):
        session.sql(f"BEGIN; {twice}; {twice}")
    session.sql("ROLLBACK")
    assert rows(session) == [(1, 2), (2, 3)]


def test_a_view_does_not_come_to_read_itself(session):
    session.sql("CREATE VIEW v AS SELECT * FROM t")
    with pytest.raises(StatementError, match="would read itself"):
        session.sql("CREATE OR REPLACE VIEW v AS SELECT * FROM v")
    assert sorted(session.sql("SELECT * FROM v").to_pylist()) == [(1, 2), (2, 3)]


def test_a_source_that_nothing_keeps_is_not_taken_for_empty(session, tmp_path):
    (tmp_path / "a.csv").write_text("id\n1\n")
    session.sql(f"CREATE SOURCE a FROM FILE '{tmp_path / 'a.csv'}' FORMAT CSV OPTIONS (header = true)")
    with pytest.raises(HydrationError, match="declare it with KEEP"):
        session.sql("SELECT count(*) FROM a")


# transactions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong", ["INSERT INTO nosuch VALUES (1)", "SELEC 1", "UPDATE t SET n = 1 div 0", "DROP TABLE t"]
)
def test_an_error_gives_a_transaction_up(session, wrong):
    session.sql("BEGIN; INSERT INTO t VALUES (3, 4)")
    with pytest.raises(AltneuError):
        session.sql(wrong)
    for more in ("INSERT INTO t VALUES (5, 6)", "SELECT * FROM t", "BEGIN", "SHOW TABLES"):
        with pytest.raises(StatementError, match="was aborted by an error"):
            session.sql(more)
    assert "ROLLBACK" in session.sql("COMMIT").message
    assert rows(session) == [(1, 2), (2, 3)]
    session.sql("BEGIN; INSERT INTO t VALUES (3, 4); COMMIT")
    assert rows(session) == [(1, 2), (2, 3), (3, 4)]


def test_rollback_ends_a_transaction_that_was_given_up(session):
    with pytest.raises(StatementError) as caught:
        session.sql("BEGIN; INSERT INTO t VALUES (3, 4); INSERT INTO nosuch VALUES (1)")
    assert any("so the transaction is aborted" in note for note in caught.value.__notes__)
    assert session.sql("ROLLBACK").message == "ROLLBACK"
    assert rows(session) == [(1, 2), (2, 3)]


def test_a_commit_that_a_view_fails_on_is_rolled_back(session):
    session.sql("""
        CREATE TABLE s (k INT);
        CREATE MATERIALIZED VIEW m AS WITH MUTUALLY RECURSIVE (ERROR AT RECURSION LIMIT 3)
            r (k INT) AS (SELECT k FROM s UNION SELECT k + 1 FROM r) SELECT * FROM r
    """)
    with pytest.raises(AltneuError):
        session.sql("BEGIN; INSERT INTO s VALUES (1); INSERT INTO t VALUES (3, 4); COMMIT")
    assert rows(session) == [(1, 2), (2, 3)]
    with pytest.raises(StatementError, match="there was no BEGIN"):
        session.sql("ROLLBACK")


# what a program inserts -----------------------------------------------------------------------------------------------


def test_what_was_inserted_and_committed_counts_in_the_next_query(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.sql("CREATE TABLE t (n INT)")
        session.insert("t", [(1,)])
        session.commit()
        assert session.sql("SELECT * FROM t").to_pylist() == [(1,)]
        assert session.sql("SELECT count(*) FROM t").to_pylist() == [(1,)]
        assert session.lower == 1
        session.insert("t", [(2,)])
        session.commit()
    with an.Session(path=tmp_path) as session:
        assert sorted(session.sql("SELECT * FROM t").to_pylist()) == [(1,), (2,)]
        assert session.sql("SELECT count(*) FROM t").to_pylist() == [(2,)]
        assert session.lower == 2


# threads --------------------------------------------------------------------------------------------------------------


def test_statements_of_several_threads_do_not_mix(session):
    session.sql("CREATE TABLE counts (k INT, n INT); INSERT INTO counts VALUES (0, 0), (1, 0)")
    failed, seen = [], []

    def work(k):
        try:
            for _ in range(8):
                session.sql("UPDATE counts SET n = n + 1")
                seen.append(len(session.sql("SELECT k, n FROM counts ORDER BY k")))
                session.sql(f"CREATE VIEW v{k} AS SELECT * FROM counts; DROP VIEW v{k}")
        except AltneuError as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failed, seen) == ([], [2] * 24)
    assert session.sql("SELECT n FROM counts").to_pylist() == [(24,), (24,)]


@pytest.mark.parametrize(
    "statement", ["UPDATE users SET v = 1", "DELETE FROM users", "INSERT INTO users VALUES (1, 2)"]
)
def test_a_source_declared_in_python_is_changed_in_python(statement):
    with an.Session() as session:
        session.maintain("view", an.source("users", "k long, v long", key="k"))
        with pytest.raises(StatementError, match=r"'users' was declared in Python.* session\.insert\('users', rows\)"):
            session.sql(statement)
