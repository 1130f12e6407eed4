"""Indexes: named arrangements, which views that are made later read instead of their own."""

from __future__ import annotations

import random

import pytest

import altneu as an
from tests.sql_statements.cases import rows

TABLES = "CREATE TABLE people (id BIGINT, name STRING, age INT); CREATE TABLE orders (pid BIGINT, amount BIGINT);"
QUERIES = {
    "joined": "SELECT name, amount FROM orders JOIN people ON pid = id",
    "turned": "SELECT age, sum(amount) AS s FROM people JOIN orders ON orders.pid = people.id GROUP BY age",
    "filtered": "SELECT name, amount FROM orders LEFT JOIN people ON pid = id WHERE amount > 1",
    "twice": "SELECT a.name AS a, b.name AS b FROM people a JOIN people b ON a.id = b.id AND a.age = b.age",
    "grouped": "SELECT id, count(*) AS n FROM people GROUP BY id",
    "not there": "SELECT id FROM people WHERE NOT EXISTS (SELECT 1 FROM orders WHERE pid = id)",
}


def arrangements(session, view):
    return set(session._engine.journal.views[view]["arrangements"])


def index_of(session, name):
    return session._engine.ports(name).contents


def test_a_later_view_reads_it_and_it_stays_as_long_as_it_is_read():
    with an.Session() as session:
        session.sql(TABLES)
        session.sql("INSERT INTO people VALUES (1, 'ada', 10), (2, 'bob', 20)")
        session.sql("INSERT INTO orders VALUES (1, 5), (2, 7)")
        session.sql("CREATE INDEX by_id ON people (ID)")
        session.sql(f"CREATE MATERIALIZED VIEW joined AS {QUERIES['joined']}")
        index = index_of(session, "by_id")
        assert index in arrangements(session, "joined")
        assert session.explain("joined").count("arrangement (id, name, age), 2 updates, shared with by_id;") == 1
        assert sorted(rows(session, "TABLE joined")) == [("ada", 5), ("bob", 7)]
        session.sql("DROP INDEX by_id")
        assert session._engine.table.rows(index)  # the view reads it
        session.sql("DROP MATERIALIZED VIEW joined")
        assert not session._engine.table.rows(index)


def test_without_it_a_view_arranges_what_it_reads():
    with an.Session() as session:
        session.sql(TABLES)
        session.sql(f"CREATE MATERIALIZED VIEW joined AS {QUERIES['joined']}; CREATE INDEX by_id ON people (id)")
        assert index_of(session, "by_id") not in arrangements(session, "joined")
        session.sql("CREATE INDEX by_pid ON orders (pid); CREATE INDEX by_all ON orders (amount, pid)")
        both = "SELECT 1 AS x FROM orders a JOIN orders b ON a.pid = b.pid AND a.amount = b.amount"
        session.sql(f"CREATE MATERIALIZED VIEW j AS {both}")
        assert index_of(session, "by_all") in arrangements(session, "j")
        assert index_of(session, "by_pid") not in arrangements(session, "j")


def test_views_are_taken_up_again_whatever_indexes_there_are(quick):
    with an.Session(path=quick / "state") as session:
        session.sql(TABLES)
        session.sql("INSERT INTO people VALUES (1, 'ada', 10); INSERT INTO orders VALUES (1, 5)")
        session.sql("CREATE INDEX by_id ON people (id)")
        for name, query in QUERIES.items():
            session.sql(f"CREATE MATERIALIZED VIEW `{name}` AS {query}")
        session.sql("DROP INDEX by_id; CREATE INDEX by_age ON people (age)")
    for n in (1, 2):
        with an.Session(path=quick / "state") as session:
            session.sql("INSERT INTO orders VALUES (1, 6)")
            assert sorted(rows(session, "TABLE joined")) == [("ada", 5), *[("ada", 6)] * n]


@pytest.mark.parametrize("seed", range(3))
def test_every_view_is_as_it_is_without(seed):
    rng = random.Random(seed)
    keys = [("people", key) for key in ("id", "id, age", "age, id", "name", "id")] + [("orders", "pid")]
    chosen = rng.sample(list(enumerate(keys)), 3)
    with an.Session() as plain, an.Session() as indexed:
        for session in (plain, indexed):
            session.sql(TABLES)
        for i, (table, key) in chosen:
            indexed.sql(f"CREATE INDEX i{i} ON {table} ({key})")
        steps = [step(rng) for _ in range(3)]
        for session in (plain, indexed):
            for name, query in QUERIES.items():
                session.sql(f"CREATE MATERIALIZED VIEW `{name}` AS {query}")
            for taken in steps[:1]:
                session.sql(taken)
        for i, _ in chosen[:2]:
            indexed.sql(f"DROP INDEX i{i}")
        for taken in steps[1:]:
            plain.sql(taken), indexed.sql(taken)
            for name in QUERIES:
                actual, wanted = (sorted(rows(s, f"TABLE `{name}`"), key=str) for s in (indexed, plain))
                assert actual == wanted


def step(rng):
    people = ", ".join(
        f"({rng.choice([1, 2, 3, 'NULL'])}, '{rng.choice('ab')}', {rng.choice([10, 20, 'NULL'])})" for _ in range(3)
    )
    orders = ", ".join(f"({rng.choice([1, 2, 3])}, {rng.randint(0, 3)})" for _ in range(3))
    return (
        f"BEGIN; DELETE FROM people WHERE id = {rng.randint(1, 3)} AND name = '{rng.choice('ab')}'; "
        f"DELETE FROM orders WHERE amount = {rng.randint(0, 3)}; "
        f"INSERT INTO people VALUES {people}; INSERT INTO orders VALUES {orders}; COMMIT"
    )
