"""A statement that fails has not happened, and what would break a table is refused."""

import pytest

import altneu as an
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
        session.sql("COMMIT")
    session.sql("INSERT INTO t VALUES (3, 4)")
    assert rows(session) == [(1, 2), (2, 3), (3, 4)]


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
    with pytest.raises(StatementError, match="wait for COMMIT"):
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
