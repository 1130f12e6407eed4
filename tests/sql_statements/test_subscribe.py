"""SUBSCRIBE: Materialize's rules of what comes when, and its envelopes."""

from __future__ import annotations

import pytest

import altneu as an
from altneu.errors import HistoryGoneError, ReadError, StatementError
from tests.sql_statements.cases import ORDERS, rows


@pytest.fixture
def session():
    with an.Session(retain="all") as session:
        session.sql(ORDERS)
        yield session


def test_a_snapshot_and_then_what_changes(session):
    subscribed = session.sql("SUBSCRIBE TO totals")
    assert subscribed.columns == ["mz_timestamp", "mz_diff", "item", "total"]
    assert sorted(subscribed.to_pylist()) == [(0, 1, "jam", 5), (0, 1, "tea", 7)]
    assert subscribed.to_pylist() == []
    session.sql("INSERT INTO orders VALUES ('tea', 1); DELETE FROM orders WHERE item = 'jam'")
    assert [tuple(row) for row in subscribed] == [(1, -1, "tea", 7), (1, 1, "tea", 8), (2, -1, "jam", 5)]
    assert [row.mz_diff for row in session.sql("SUBSCRIBE totals AS OF 1")] == [1, 1, -1]
    subscribed.close()
    session.sql("INSERT INTO orders VALUES ('tea', 1)")
    assert (subscribed.to_pylist(), subscribed.closed) == ([], True)


def test_from_when_and_up_to_when(session):
    session.sql("INSERT INTO orders VALUES ('tea', 1); INSERT INTO orders VALUES ('tea', 1)")
    assert session.sql("SUBSCRIBE totals AS OF 1 UP TO 1").to_pylist() == []  # equal: nothing, and it ends
    until = session.sql("SUBSCRIBE totals AS OF 0 UP TO 2")
    assert sorted({row[0] for row in until.to_pylist()}) == [0, 1]  # the one in, the other out
    assert until.closed
    with pytest.raises(ReadError, match="is before"):
        session.sql("SUBSCRIBE totals AS OF 2 UP TO 1")
    later = session.sql("SUBSCRIBE totals AS OF 5 WITH (SNAPSHOT = false)")
    session.sql("ADVANCE TO 6; INSERT INTO orders VALUES ('oil', 1)")
    assert later.to_pylist() == [(6, 1, "oil", 1)]


def test_progress(session):
    subscribed = session.sql("SUBSCRIBE totals WITH (PROGRESS)")
    assert subscribed.columns == ["mz_timestamp", "mz_progressed", "mz_diff", "item", "total"]
    first, *rest, last = subscribed.to_pylist()
    assert first == (0, True, None, None, None)  # at AS OF, before the snapshot
    assert [row[:3] for row in rest] == [(0, False, 1)] * 2
    assert last == (1, True, None, None, None)
    session.sql("ADVANCE TO 5")
    assert subscribed.to_pylist() == [(5, True, None, None, None)]
    session.sql("INSERT INTO orders VALUES ('oil', 1)")
    assert subscribed.to_pylist() == [(5, False, 1, "oil", 1), (6, True, None, None, None)]
    assert subscribed.to_pylist() == []
    times = [row[0] for row in session.sql("SUBSCRIBE totals AS OF 0 WITH (PROGRESS)").to_pylist()]
    assert times == sorted(times)


def test_an_envelope_of_upserts(session):
    subscribed = session.sql("SUBSCRIBE totals ENVELOPE UPSERT (KEY (item)) AS OF 0")
    assert subscribed.columns == ["mz_timestamp", "mz_state", "item", "total"]
    assert sorted(subscribed.to_pylist()) == [(0, "upsert", "jam", 5), (0, "upsert", "tea", 7)]
    session.sql(
        "BEGIN; DELETE FROM orders WHERE item = 'jam'; INSERT INTO orders VALUES ('tea', 1), ('oil', 2); COMMIT"
    )
    assert sorted(subscribed.to_pylist()) == [
        (1, "delete", "jam", None),
        (1, "upsert", "oil", 2),
        (1, "upsert", "tea", 8),
    ]
    violated = session.sql("SUBSCRIBE orders ENVELOPE UPSERT (KEY (item))").to_pylist()
    assert sorted(violated, key=str) == [(1, "key_violation", "tea", None), (1, "upsert", "oil", 2)]


def test_an_envelope_of_debezium(session):
    subscribed = session.sql("SUBSCRIBE totals ENVELOPE DEBEZIUM (KEY (item)) WITH (SNAPSHOT = false, PROGRESS)")
    assert subscribed.columns == ["mz_timestamp", "mz_progressed", "mz_state", "item", "before_total", "after_total"]
    session.sql(
        "BEGIN; DELETE FROM orders WHERE item = 'jam'; INSERT INTO orders VALUES ('tea', 1), ('oil', 2); COMMIT"
    )
    first, second, *rest, last = subscribed.to_pylist()
    assert [row[:2] for row in (first, second, last)] == [(0, True), (1, True), (2, True)]
    assert sorted(rest) == [
        (1, False, "delete", "jam", 5, None),
        (1, False, "insert", "oil", None, 2),
        (1, False, "upsert", "tea", 7, 8),
    ]


def test_a_query_is_maintained_as_long_as_it_is_subscribed_to(session):
    with session.sql("SUBSCRIBE (SELECT count(*) AS n FROM orders)") as subscribed:
        assert subscribed.to_pylist() == [(0, 1, 3)]
        session.sql("INSERT INTO orders VALUES ('tea', 1)")
        assert subscribed.to_pylist() == [(1, -1, 3), (1, 1, 4)]
        assert [row[0] for row in rows(session, "SHOW MATERIALIZED VIEWS")] == ["totals"]
    assert session.views == ["orders", "totals"]
    with pytest.raises(StatementError, match="inside a transaction"):
        session.sql("BEGIN; SUBSCRIBE totals")


def test_a_view_that_is_not_maintained_and_a_source_that_is_not_kept(session):
    session.sql("CREATE VIEW dear AS SELECT item FROM totals WHERE total > 5; CREATE SOURCE s (k INT)")
    subscribed = [session.sql("SUBSCRIBE dear"), session.sql("SUBSCRIBE s")]
    session.sql("INSERT INTO s VALUES (1); INSERT INTO orders VALUES ('jam', 1)")
    assert [found.to_pylist() for found in subscribed] == [[(0, 1, "tea"), (2, 1, "jam")], [(1, 1, 1)]]


def test_history_that_is_gone():
    with an.Session() as session:
        session.sql(ORDERS)
        session.sql("ADVANCE TO 9")
        with pytest.raises(HistoryGoneError):
            session.sql("SUBSCRIBE totals AS OF 2")
        with pytest.raises(StatementError, match="two times"):
            session.sql("CREATE SOURCE d (k INT) TIME (NULL AS known, day) KEEP; SUBSCRIBE d ENVELOPE UPSERT (KEY (k))")
