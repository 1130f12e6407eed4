"""What is defined lasts: a store that is opened again knows it, wherever the process before was killed."""

from __future__ import annotations

import signal

import pytest

import altneu as an
from altneu.errors import PlanError, SchemaError, StatementError, StorePlanError
from tests.fate import forking
from tests.sql_statements import killable
from tests.sql_statements.cases import ORDERS, rows
from tests.store.support import CHILD


@pytest.fixture
def path(quick):
    return quick / "state"


def test_a_store_knows_what_is_defined(path):
    with an.Session(path=path) as session:
        session.sql(ORDERS)
        session.sql("CREATE VIEW dear AS SELECT * FROM totals WHERE total > 5; CREATE INDEX i ON orders (item)")
        shown = [rows(session, f"SHOW {what}") for what in ("TABLES", "VIEWS", "MATERIALIZED VIEWS", "INDEXES")]
    with an.Session(path=path) as session:
        assert [rows(session, f"SHOW {what}") for what in ("TABLES", "VIEWS", "MATERIALIZED VIEWS", "INDEXES")] == shown
        assert rows(session, "SELECT * FROM dear") == [("tea", 7)]
        session.sql("INSERT INTO orders VALUES ('jam', 90)")
        assert rows(session, "SELECT * FROM dear ORDER BY 1") == [("jam", 95), ("tea", 7)]


def test_the_same_script_again_goes_on(path):
    definitions = ORDERS.rpartition("INSERT")[0]
    for n in (1, 2, 3):
        with an.Session(path=path) as session:
            session.sql(definitions.lower() if n == 2 else definitions)
            session.sql("INSERT INTO orders VALUES ('tea', 1)")
            assert rows(session, "SELECT total FROM totals") == [(n,)]
            commits = session.store.number
            assert str(session.sql(definitions)) == "Result(MATERIALIZED VIEW totals exists already)"
            assert session.store.number == commits


def test_a_definition_is_the_same_whatever_is_to_happen_where_it_is_there(path):
    with an.Session(path=path) as session:
        session.sql("CREATE TABLE t (k INT); CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT k FROM t")
        for text in (
            "CREATE TABLE IF NOT EXISTS t (k INT)",
            "CREATE MATERIALIZED VIEW m AS SELECT k FROM t",
            "CREATE OR REFRESH MATERIALIZED VIEW m AS SELECT k FROM t",
            "CREATE MATERIALIZED VIEW IF NOT EXISTS m AS SELECT k FROM t",
        ):
            assert session.sql(text).message.endswith("exists already")


def test_another_definition_is_reported(path):
    with an.Session(path=path) as session:
        session.sql(ORDERS)
    with an.Session(path=path) as session:
        with pytest.raises(StatementError, match="definition; DROP MATERIALIZED VIEW totals, or CREATE OR REPLACE"):
            session.sql("CREATE MATERIALIZED VIEW totals AS SELECT item, max(price) AS total FROM orders GROUP BY item")
        assert "another definition: CREATE TABLE orders" in str(
            session.sql("CREATE TABLE IF NOT EXISTS orders (k INT)")
        )
        with pytest.raises(StatementError, match="'orders' is a TABLE with another definition; DROP TABLE orders"):
            session.sql("CREATE VIEW orders AS SELECT 1")


def test_a_view_is_replaced(path):
    with an.Session(path=path) as session:
        session.sql(ORDERS)
        session.sql("CREATE VIEW v AS SELECT 1 AS x; CREATE OR REPLACE VIEW v AS SELECT 2 AS x")
        assert rows(session, "SELECT x FROM v") == [(2,)]
        most = "SELECT item, max(price) AS m FROM orders GROUP BY item"
        session.sql(f"CREATE OR REPLACE MATERIALIZED VIEW totals AS {most}")
        assert rows(session, "SELECT m FROM totals ORDER BY m") == [(4,), (5,)]
        with pytest.raises(PlanError):
            session.sql("CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT nope FROM orders")
        session.sql("CREATE VIEW upon AS SELECT * FROM totals")
        with pytest.raises(StatementError, match="with other columns or options, while it is read by VIEW upon"):
            session.sql("CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT 1 AS one FROM orders")
        with pytest.raises(StatementError, match="is a VIEW with another definition"):
            session.sql("CREATE OR REPLACE MATERIALIZED VIEW upon AS SELECT 1 AS one FROM orders")
    with an.Session(path=path) as session:
        assert rows(session, "SELECT m FROM upon ORDER BY m") == [(4,), (5,)]
        assert session.views == ["orders", "totals"]


def test_what_is_dropped_takes_its_dependants_along(path):
    with an.Session(path=path) as session:
        session.sql(ORDERS)
        session.sql("CREATE VIEW dear AS SELECT * FROM totals")
        session.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM dear")
        with pytest.raises(StatementError, match="MATERIALIZED VIEW totals is dropped while it is read by VIEW dear"):
            session.sql("DROP MATERIALIZED VIEW totals")
        dropped = str(session.sql("DROP MATERIALIZED VIEW totals CASCADE"))
        assert dropped == "Result(MATERIALIZED VIEW n dropped, VIEW dear dropped, MATERIALIZED VIEW totals dropped)"
        assert "there is no VIEW dear" in str(session.sql("DROP VIEW IF EXISTS dear"))
        assert session.views == ["orders"]
    with an.Session(path=path) as session:
        session.sql("DROP TABLE orders")
        assert not [key for key in session.store.state if key.startswith(("sql/", "view/", "arrangement/"))]
        session.sql("CREATE TABLE orders (item STRING, more INT); INSERT INTO orders VALUES ('x', 1)")
        assert rows(session, "TABLE orders") == [("x", 1)]  # a table of this name was never there


def test_a_definition_that_cannot_be_taken_up_says_so_and_can_be_dropped(path):
    with an.Session(path=path) as session:
        session.sql(ORDERS)
        session.maintain("prices", an.source("prices", "item string, n long"))
        session.sql("CREATE MATERIALIZED VIEW both AS SELECT n FROM prices JOIN totals ON prices.item = totals.item")
        session.sql("CREATE VIEW plain AS SELECT * FROM prices")
    with an.Session(path=path) as session:
        assert rows(session, "SHOW VIEWS")[0][1].startswith("waits: no table or view 'prices'")
        with pytest.raises(PlanError, match="prices") as raised:
            session.sql("INSERT INTO orders VALUES ('x', 1)")
        assert raised.value.__notes__ == [
            "altneu: MATERIALIZED VIEW both of this store could not be restored",
        ]
        session.maintain("prices", an.source("prices", "item string, n long"))
        session.insert("prices", [("tea", 3)])
        assert rows(session, "SELECT * FROM both") == [(3,)]
    with an.Session(path=path) as session:
        session.sql("DROP MATERIALIZED VIEW both; DROP VIEW plain")
        session.drop("prices")
        session.sql("INSERT INTO orders VALUES ('x', 1)")


def test_a_file_that_is_gone_holds_up_a_step_and_can_be_dropped(path, tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("1\n")
    with an.Session(path=path) as session:
        session.sql(f"CREATE TABLE t (k INT); CREATE SOURCE s (k INT) FROM FILE '{file}' FORMAT CSV KEEP")
    file.unlink()
    with an.Session(path=path) as session:
        assert "waits: there is no file" in rows(session, "SHOW SOURCES")[0][-1]
        with pytest.raises(StatementError, match="there is no file"):
            session.sql("INSERT INTO t VALUES (1)")
        file.write_text("2\n")
        assert rows(session, "TABLE s") == [(2,)]
        session.sql("DROP SOURCE s; INSERT INTO t VALUES (1)")


def test_a_plan_that_python_has_under_the_name(path):
    with an.Session(path=path) as session:
        session.sql(ORDERS)
        session.maintain("mine", session.collections["orders"].select("item"))
    with an.Session(path=path) as session:
        with pytest.raises(StorePlanError, match="another plan for view 'mine'"):
            session.sql("CREATE MATERIALIZED VIEW mine AS SELECT price FROM orders")
        session.sql("DROP MATERIALIZED VIEW mine")
        session.sql("CREATE MATERIALIZED VIEW mine AS SELECT price FROM orders")
        assert sorted(rows(session, "TABLE mine")) == [(3,), (4,), (5,)]


def test_what_a_subscription_maintained_goes_with_its_process(path):
    with an.Session(path=path) as session:
        session.sql(ORDERS)
        session.sql("SUBSCRIBE (SELECT count(*) AS n FROM orders)")
        assert session.views[-1] == "#subscribe 1"
    with an.Session(path=path) as session:
        session.sql("INSERT INTO orders VALUES ('x', 1)")
        assert session.views_stored == ["orders", "totals"]


@pytest.fixture(scope="module")
def runs():
    with forking(killable.__file__, CHILD) as run:
        yield run


def state_of(folder):
    with an.Session(path=folder / "state") as session:
        views = {name: sorted(rows(session, f"SELECT * FROM {name}")) for name in ("events", "names", "named", "last")}
        shown = {what: rows(session, f"SHOW {what}") for what in ("TABLES", "VIEWS", "INDEXES")}
        assert session.lower == killable.STEPS
        return views, shown


def test_killed_anywhere(runs, quick):
    def prepared(name):
        (quick / name).mkdir()
        (quick / name / "names.csv").write_text("id,name\n0,zero\n1,one\n2,two\n")
        return quick / name

    assert runs(0, prepared("undisturbed")) == 0
    wanted = state_of(quick / "undisturbed")
    kills = 0
    for seed in (1, 2):
        folder, at = prepared(str(seed)), seed
        while (ended := runs(at, folder)) == -signal.SIGKILL:
            kills += 1
            at += 1000
        assert ended == 0
        assert state_of(folder) == wanted
    assert kills > 2


def test_a_view_that_statements_defined_is_there_when_its_store_is_opened(path):
    with an.Session(path=path) as session:
        session.sql(ORDERS)
    with an.Session(path=path) as session:
        view = session.view("totals")
        assert view.explain_row(view.to_pylist()[0]).sufficient is True


def test_a_view_names_the_columns_of_a_query_with_two_of_one_name(path):
    query = "SELECT p.a, q.a, q.b FROM pairs p JOIN pairs q ON p.a <= q.a"
    with an.Session(path=path) as session:
        session.sql("CREATE TABLE pairs (a BIGINT, b BIGINT)")
        session.sql("INSERT INTO pairs VALUES (1, 2), (3, 4)")
        session.sql(f"CREATE MATERIALIZED VIEW named (x, y, z) AS {query}")
        assert rows(session, "SELECT * FROM named ORDER BY ALL") == [(1, 1, 2), (1, 3, 4), (3, 3, 4)]
        with pytest.raises(SchemaError, match="two columns are called 'a'"):
            session.sql(f"CREATE MATERIALIZED VIEW unnamed AS {query}")
        with pytest.raises(StatementError, match="names 1 columns, and its query has 3"):
            session.sql(f"CREATE MATERIALIZED VIEW short (x) AS {query}")
    with an.Session(path=path) as session:
        session.sql("INSERT INTO pairs VALUES (5, 6)")
        assert rows(session, "SELECT x, z FROM named WHERE y = 5 ORDER BY x") == [(1, 6), (3, 6), (5, 6)]
