"""ALTER TABLE and CREATE OR REPLACE: what is defined upon a table goes on, wherever the process is killed."""

from __future__ import annotations

import signal
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import altneu as an
from altneu.errors import (
    AltneuError,
    HydrationError,
    PlanError,
    SchemaError,
    StatementError,
    StreamError,
    UnknownColumnError,
)
from altneu.sql.statements.starting import Starter
from tests.fate import forking
from tests.sql_statements import evolving
from tests.sql_statements.cases import ORDERS, rows
from tests.store.support import CHILD


@pytest.fixture
def session(tmp_path):
    with an.Session(path=tmp_path / "state") as session:
        session.sql(ORDERS)
        yield session


def test_columns_come_and_go(session):
    session.sql("CREATE MATERIALIZED VIEW whole AS SELECT * FROM orders")
    assert str(session.sql("ALTER TABLE orders ADD COLUMN shop STRING DEFAULT 'ma' || 'in'")) == (
        "Result(TABLE orders altered)"
    )
    session.sql("INSERT INTO orders VALUES ('oil', 7, 'fair'); INSERT INTO orders (item) VALUES ('ink')")
    assert rows(session, "SELECT item, shop FROM orders WHERE price IS NULL OR price > 4 ORDER BY item") == [
        ("ink", "main"),
        ("jam", "main"),
        ("oil", "fair"),
    ]
    assert ("oil", 7) in rows(session, "TABLE whole")  # its columns are those of then
    session.sql("ALTER TABLE orders ADD COLUMNS (n INT, at DATE)")
    session.sql("ALTER TABLE orders RENAME COLUMN shop TO place")
    session.sql("ALTER TABLE orders DROP COLUMN n")
    assert [name for name, *_ in rows(session, "SHOW COLUMNS FROM orders")] == ["item", "price", "place", "at"]
    session.sql("DELETE FROM orders WHERE place = 'main'")
    assert rows(session, "TABLE totals") == rows(session, "TABLE whole") == [("oil", 7)]


def test_what_nothing_reads_is_left_alone(session):
    """Views over the columns of before compute nothing again, however many rows there are."""
    for n in (100, 10_000):
        session.sql(f"CREATE SOURCE s{n} (k INT, v INT)")
        session.sql(f"CREATE MATERIALIZED VIEW v{n} AS SELECT k, sum(v) AS v FROM s{n} GROUP BY k")
        session.insert(f"s{n}", [(i, i) for i in range(n)])
        session.advance()
        before = {name: value for name, value in session.store.state.items() if name.startswith("arrangement/")}
        session.sql(f"ALTER SOURCE s{n} ADD COLUMN w INT")
        after = {name: value for name, value in session.store.state.items() if name.startswith("arrangement/")}
        assert before == after  # every batch is the one that was there
        session.insert(f"s{n}", [(0, 5, None)])
        session.advance()
        assert (0, 5) in rows(session, f"TABLE v{n}")


def test_what_is_refused(session):
    session.sql("CREATE VIEW named AS SELECT price FROM orders")
    for text, error, match in [
        ("ALTER TABLE nowhere ADD COLUMN a INT", StatementError, "there is no 'nowhere'"),
        ("ALTER VIEW named ADD COLUMN a INT", StatementError, "CREATE OR REPLACE VIEW gives it another definition"),
        ("ALTER TABLE orders ADD COLUMN price INT", StatementError, "has a column 'price' already, which is bigint"),
        ("ALTER TABLE orders ADD COLUMN a INT NOT NULL", SchemaError, "'a' is NOT NULL, and rows .* DEFAULT"),
        ("ALTER TABLE orders ADD COLUMN a INT DEFAULT price", AltneuError, "price"),
        ("ALTER TABLE orders DROP COLUMN nope", UnknownColumnError, "nope"),
        ("ALTER TABLE orders DROP COLUMN price", StatementError, "'price' of TABLE orders is read by .* totals"),
        ("ALTER TABLE orders RENAME COLUMN item TO price", SchemaError, "there is a column 'price' already"),
        ("ALTER TABLE orders RENAME COLUMN nope TO x", UnknownColumnError, "nope"),
        ("ALTER TABLE orders ALTER COLUMN price TYPE INT", SchemaError, "is bigint, and int does not widen that"),
        ("ALTER TABLE orders", StatementError, "expected ADD COLUMN, DROP COLUMN, RENAME COLUMN or ALTER COLUMN"),
        ("BEGIN; ALTER TABLE orders ADD COLUMN a INT", StatementError, "ALTER cannot run inside a transaction"),
    ]:
        columns = session.collections["orders"].columns
        with pytest.raises(error, match=match):
            session.sql(text)
        session.statements.rolled_back()
        assert session.collections["orders"].columns == columns
    session.sql("DROP MATERIALIZED VIEW totals")
    with pytest.raises(StatementError, match="'price' of TABLE orders is read by VIEW named"):
        session.sql("ALTER TABLE orders DROP COLUMN price")
    session.sql("DROP VIEW named; ALTER TABLE orders DROP COLUMN price")
    assert sorted(rows(session, "TABLE orders")) == [("jam",), ("tea",), ("tea",)]


def test_a_sink_of_the_table_itself_is_in_the_way(session, tmp_path):
    session.sql(f"CREATE SINK out FROM orders INTO PARQUET '{tmp_path}/out'")
    with pytest.raises(StatementError, match=r"has the sink\(s\) out"):
        session.sql("ALTER TABLE orders ADD COLUMN a INT")


def test_a_subscription_to_the_table_itself_ends(session):
    whole, totals = session.sql("SUBSCRIBE orders"), session.sql("SUBSCRIBE totals")
    assert len(whole.to_pylist()) == 3
    assert len(totals.to_pylist()) == 2
    session.sql("ALTER TABLE orders ADD COLUMN a INT; INSERT INTO orders VALUES ('oil', 1, 1)")
    assert whole.to_pylist() == []
    assert len(totals.to_pylist()) == 1


def test_a_script_is_run_again(tmp_path):
    script = (
        "CREATE TABLE t (a INT); ALTER TABLE t ADD COLUMN b INT DEFAULT 1; ALTER TABLE t RENAME COLUMN b TO c; "
        "ALTER TABLE t ADD COLUMN b STRING; ALTER TABLE t DROP COLUMN a;"
    )
    for _ in range(3):
        with an.Session(path=tmp_path / "state") as session:
            session.sql(script)
            assert session.collections["t"].columns == ["c", "b"]
    with an.Session(path=tmp_path / "state") as session:
        session.sql(f"{script} ALTER TABLE t ADD COLUMN IF NOT EXISTS b INT; ALTER TABLE t DROP COLUMN IF EXISTS a")
        assert session.collections["t"].columns == ["c", "b"]


def test_a_type_is_widened_with_what_reads_it(session):
    session.sql("CREATE TABLE t (k INT, v INT); INSERT INTO t VALUES (1, 2), (1, 3)")
    session.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v) AS v FROM t GROUP BY k")
    session.sql("CREATE MATERIALIZED VIEW whole AS SELECT * FROM t")
    session.sql("CREATE MATERIALIZED VIEW ks AS SELECT k, count(*) AS n FROM t GROUP BY k")
    session.sql("ALTER TABLE t RENAME COLUMN v TO w")
    sums, whole = session.sql("SUBSCRIBE sums"), session.sql("SUBSCRIBE whole")
    assert len([*sums.to_pylist(), *whole.to_pylist()]) == 3
    kept = session.store.state["view/ks"]["arrangements"]
    session.sql("ALTER TABLE t ALTER COLUMN w TYPE BIGINT; INSERT INTO t VALUES (1, 5000000000)")
    assert session.store.state["view/ks"]["arrangements"] == kept  # it does not read the column
    assert sorted(row[1:] for row in sums.to_pylist()) == [(-1, 1, 5), (1, 1, 5_000_000_005)]
    assert whole.to_pylist() == []  # its columns are others, so that it ended
    assert rows(session, "SHOW COLUMNS FROM whole") == [("k", True, "int"), ("v", True, "bigint")]
    assert sorted(rows(session, "TABLE whole")) == [(1, 2), (1, 3), (1, 5_000_000_000)]
    assert rows(session, "TABLE ks") == [(1, 3)]
    sums.close()
    session.sql("CREATE SOURCE s (k INT, v INT); CREATE MATERIALIZED VIEW some AS SELECT sum(v) AS v FROM s")
    session.insert("s", [(1, 2)])
    session.advance()
    with pytest.raises(HydrationError, match="backfill"):
        session.sql("ALTER SOURCE s ALTER COLUMN v TYPE BIGINT")
    assert rows(session, "SHOW COLUMNS FROM s")[1] == ("v", True, "int")  # nothing has happened
    session.backfill("s", [(1, 2)])
    session.sql("ALTER SOURCE s ALTER COLUMN v TYPE BIGINT")
    session.insert("s", [(1, 5_000_000_000)])
    assert rows(session, "TABLE some") == [(5_000_000_002,)]


def test_rows_that_no_state_has_are_given_again(tmp_path):
    with an.Session(path=tmp_path / "state") as session:
        session.sql("CREATE SOURCE s (k INT, v INT)")
        session.sql("CREATE MATERIALIZED VIEW sums AS SELECT k, sum(v) AS v FROM s GROUP BY k")
        session.insert("s", [(1, 2), (1, 3)])
        session.advance()
        session.sql("ALTER SOURCE s ADD COLUMN w INT")
        with pytest.raises(HydrationError, match="backfill"):
            session.sql("CREATE MATERIALIZED VIEW w AS SELECT w, count(*) AS n FROM s GROUP BY w")
        session.backfill("s", [(1, 2, None), (1, 3, None)])
        session.sql("CREATE MATERIALIZED VIEW w AS SELECT w, count(*) AS n FROM s GROUP BY w")
        assert rows(session, "TABLE w") == [(None, 2)]
        session.sql("ALTER SOURCE s ADD COLUMN x INT DEFAULT 4")
        session.sql("CREATE MATERIALIZED VIEW x AS SELECT x, count(*) AS n FROM s GROUP BY x")
        assert rows(session, "TABLE x") == [(4, 2)]


def test_a_view_is_replaced_and_what_follows_it_goes_on(session, tmp_path):
    session.sql("CREATE VIEW dear AS SELECT item FROM totals WHERE total > 6")
    session.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM dear")
    session.sql("CREATE INDEX by_item ON totals (item)")
    session.sql("CREATE MATERIALIZED VIEW joined AS SELECT o.price, t.total FROM orders o JOIN totals t USING (item)")
    session.sql(f"CREATE SINK out FROM totals INTO PARQUET '{tmp_path}/out' MODE UPSERT KEY (item)")
    changes, counts = session.sql("SUBSCRIBE totals"), session.sql("SUBSCRIBE n")
    assert len(changes.to_pylist()) == 2
    assert counts.to_pylist()[-1][-1] == 1
    session.sql(
        "CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT item, max(price) AS total FROM orders GROUP BY item"
    )
    assert sorted(rows(session, "TABLE totals")) == [("jam", 5), ("tea", 4)]
    assert sorted(row[1:] for row in changes.to_pylist()) == [(-1, "tea", 7), (1, "tea", 4)]
    assert sorted(row[1:] for row in counts.to_pylist()) == [(-1, 1), (1, 0)]
    assert sorted(rows(session, "TABLE joined")) == [(3, 4), (4, 4), (5, 5)]
    assert in_files(tmp_path / "out") == [("jam", 5), ("tea", 4)]
    session.sql("CREATE OR REPLACE VIEW dear AS SELECT item FROM totals WHERE total > 3")
    assert sorted(row[1:] for row in counts.to_pylist()) == [(-1, 0), (1, 2)]
    with pytest.raises(StatementError, match="would read itself"):
        session.sql("CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT item, 1L AS total FROM dear")
    with pytest.raises(StatementError, match="other columns or options, while it is read by"):
        session.sql("CREATE OR REPLACE MATERIALIZED VIEW totals AS SELECT item FROM orders")
    session.sql("INSERT INTO orders VALUES ('tea', 9)")
    assert sorted(rows(session, "TABLE joined")) == [(3, 9), (4, 9), (5, 5), (9, 9)]
    state = {name: rows(session, f"TABLE {name}") for name in ("totals", "n")}
    session.close()
    with an.Session(path=tmp_path / "state") as again:
        assert {name: rows(again, f"TABLE {name}") for name in ("totals", "n")} == state
        again.sql("INSERT INTO orders VALUES ('ink', 1)")
        assert rows(again, "SELECT total FROM totals WHERE item = 'ink'") == [(1,)]


def of_python(source, aggregate):
    return source.group_by("k").agg(n=aggregate)


def test_a_view_of_the_program_is_replaced_with_what_statements_define_over_it(tmp_path):
    source = an.source("xs", "k string, x long", keep=True)
    with an.Session(path=tmp_path) as session:
        session.maintain("v", of_python(source, "sum(x)"))
        session.sql("""
            CREATE MATERIALIZED VIEW w AS SELECT * FROM v WHERE n > 2;
            CREATE VIEW plain AS SELECT k, n + 1 AS m FROM v;
            CREATE MATERIALIZED VIEW both AS SELECT * FROM plain JOIN w USING (k);
            CREATE INDEX v_by_k ON v (k);
            CREATE INDEX both_by_k ON both (k);
        """)
        session.insert("xs", [("a", 1), ("a", 5), ("b", 2)])
        session.advance()
        for _ in range(3):  # from the third time on a plan is kept
            assert rows(session, "SELECT m, n FROM both WHERE k = 'a'") == [(7, 6)]
        changes = session.sql("SUBSCRIBE both WITH (SNAPSHOT = false)")
        session.maintain("v", of_python(source, "max(x)"), replace=True)
        session.advance()
        assert sorted(row[1:] for row in changes) == [(-1, "a", 7, 6), (1, "a", 6, 5)]
        assert rows(session, "SELECT m, n FROM both WHERE k = 'a'") == [(6, 5)]
        assert sorted(rows(session, "TABLE plain")) == [("a", 6), ("b", 3)]
        with pytest.raises(StatementError, match="MATERIALIZED VIEW w, which reads it, would have other columns"):
            session.maintain("v", of_python(source, "max(cast(x as int))"), replace=True)
        assert rows(session, "TABLE both") == [("a", 6, 5)]
    with an.Session(path=tmp_path) as session:  # whose definitions are not restored when it replaces the view
        session.maintain("v", of_python(source, "min(x)"), replace=True)
        assert rows(session, "TABLE both") == []
        session.insert("xs", [("c", 8)])
        session.advance()
        assert rows(session, "TABLE both") == [("c", 9, 8)]
        assert rows(session, "SELECT n FROM v WHERE k = 'a'") == [(1,)]
    with an.Session(path=tmp_path) as session:
        session.maintain("v", of_python(source, "min(x)"), replace=True)
        assert rows(session, "TABLE both") == [("c", 9, 8)]


AS_OF = (
    "SELECT * FROM total",
    "SELECT total FROM total WHERE item = 'tea'",
    "SELECT sum(total) AS s, count(*) AS n FROM total",
    "SELECT item, total, n FROM total CROSS JOIN items",
    "SELECT t.item, price, total FROM total t JOIN orders o ON t.item = o.item",
)


def test_queries_of_earlier_times_see_what_a_replaced_view_had_then(tmp_path):
    def asked(session, time):
        return [sorted(rows(session, f"{text} AS OF {time}"), key=str) for text in AS_OF]

    with an.Session(path=tmp_path / "state", retain="all") as session:
        session.sql("CREATE TABLE orders (item STRING, price BIGINT)")
        session.sql("CREATE MATERIALIZED VIEW total AS SELECT item, sum(price) AS total FROM orders GROUP BY item")
        session.sql("CREATE MATERIALIZED VIEW items AS SELECT count(*) AS n FROM total WHERE total > 4")
        session.sql("INSERT INTO orders VALUES ('tea', 3), ('tea', 4), ('jam', 5)")
        session.sql("INSERT INTO orders VALUES ('oil', 1)")
        before = [asked(session, time) for time in range(session.lower)]
        for made in ("max(price)", "min(price)"):
            session.sql(
                f"CREATE OR REPLACE MATERIALIZED VIEW total AS SELECT item, {made} AS total FROM orders GROUP BY item"
            )
            assert [asked(session, time) for time in range(len(before))] == before
            now = session.lower - 1
            assert asked(session, now)[0] == sorted(session.sql("SELECT * FROM total").to_pylist(), key=str)
            before = [asked(session, time) for time in range(session.lower)]
    with an.Session(path=tmp_path / "state", retain="all") as session:
        assert [asked(session, time) for time in range(len(before))] == before
        assert before[0][0] != before[-1][0]


def test_the_past_of_a_replaced_view_is_not_that_of_its_query(tmp_path):
    """Another view, a table and a query that are made alike now were so then, too."""
    asked = [
        *("SELECT * FROM positive", "SELECT * FROM of_positive", "SELECT id, n FROM some WHERE n > 0"),
        *("SELECT n FROM positive WHERE id = 1 AND n = 1", "SELECT n FROM changed WHERE id = 1 AND n = 1"),
        *(
            "SELECT * FROM changed",
            "SELECT * FROM of_changed",
            "SELECT p.id FROM positive p JOIN changed c ON p.n = c.n",
        ),
    ]
    with an.Session(path=tmp_path / "state", retain="all") as session:
        session.sql("""
            CREATE TABLE some (id BIGINT, n BIGINT);
            CREATE MATERIALIZED VIEW positive AS SELECT id, n FROM some WHERE n > 0;
            CREATE MATERIALIZED VIEW changed AS SELECT id, n FROM some WHERE n > 5;
            CREATE VIEW of_positive AS SELECT * FROM positive;
            CREATE VIEW of_changed AS SELECT * FROM changed;
            INSERT INTO some VALUES (1, 1), (2, 9);
        """)
        then = session.lower - 1
        before = [sorted(rows(session, f"{text} AS OF {then}")) for text in asked]
        assert before[0] == [(1, 1), (2, 9)]
        assert before[5] == [(2, 9)]
        session.sql("CREATE OR REPLACE MATERIALIZED VIEW changed AS SELECT id, n FROM some WHERE n > 0")
        session.sql("CREATE MATERIALIZED VIEW late AS SELECT id, n FROM some WHERE n > 0")
        for _ in range(3):  # the third time from a plan that is kept
            assert [sorted(rows(session, f"{text} AS OF {then}")) for text in asked] == before
    with an.Session(path=tmp_path / "state", retain="all") as session:
        assert [sorted(rows(session, f"{text} AS OF {then}")) for text in asked] == before


def test_a_program_does_not_replace_what_a_statement_created(session):
    table = session.collections["orders"]
    with pytest.raises(StatementError, match="'totals' is a MATERIALIZED VIEW that a statement created; CREATE OR"):
        session.maintain("totals", table.group_by("item").agg(total="cast(max(price) as bigint)"), replace=True)
    assert sorted(rows(session, "TABLE totals")) == [("jam", 5), ("tea", 7)]


def test_what_is_read_is_not_dropped_whoever_reads_it(tmp_path):
    def program(session):
        orders = session.collections["orders"]
        session.maintain("cheap", orders.filter("price < 5").select("item"))

    with an.Session(path=tmp_path) as session:
        session.sql(ORDERS)
        program(session)
        session.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM cheap; DROP MATERIALIZED VIEW totals")
        with pytest.raises(PlanError, match="view 'cheap' is read by MATERIALIZED VIEW n; DROP these first"):
            session.drop("cheap")
        with pytest.raises(StatementError, match="MATERIALIZED VIEW cheap is dropped while it is read by MATERIALIZED"):
            session.sql("DROP MATERIALIZED VIEW cheap")
    with an.Session(path=tmp_path) as session:  # which has not maintained its view yet
        for drop in ("DROP TABLE orders", "DROP TABLE orders CASCADE"):
            with pytest.raises(StatementError, match="TABLE orders is read by 'cheap' of the program"):
                session.sql(drop)
        program(session)
        session.sql("INSERT INTO orders VALUES ('ink', 1)")
        assert rows(session, "TABLE n") == [(3,)]
        dropped = session.sql("DROP MATERIALIZED VIEW cheap CASCADE; DROP TABLE orders; SHOW VIEWS")
        assert (dropped.to_pylist(), session.views) == ([], [])


def test_an_index_is_made_again_if_a_session_ended_before_it_was(tmp_path, monkeypatch):
    with an.Session(path=tmp_path) as session:
        session.sql(f"{ORDERS}; CREATE INDEX by_total ON totals (total)")
        monkeypatch.setattr(Starter, "index_again", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.sql(
                "CREATE OR REPLACE MATERIALIZED VIEW totals AS "
                "SELECT item, max(price) AS total FROM orders GROUP BY item"
            )
        monkeypatch.undo()
    with an.Session(path=tmp_path) as session:
        assert rows(session, "SELECT item FROM totals WHERE total = 4") == [("tea",)]
        session.sql("INSERT INTO orders VALUES ('tea', 9)")
        assert rows(session, "SELECT item FROM totals WHERE total = 9") == [("tea",)]


def interrupted(*_):
    raise KeyboardInterrupt


def lookups(session, text):
    return [line for (line,) in session.sql(f"EXPLAIN {text}").to_pylist() if line.startswith(("lookup:", "scan:"))]


@pytest.mark.parametrize("shards", [1, 3])
def test_an_index_of_a_table_goes_on_when_its_columns_change(tmp_path, shards):
    path = tmp_path / "store"
    with an.Session(path=path, shards=shards) as session:
        session.sql("CREATE TABLE t (k INT, v INT, gone INT); INSERT INTO t VALUES (1, 10, 0), (1, 11, 0), (2, 20, 0)")
        session.sql("CREATE MATERIALIZED VIEW m AS SELECT sum(v) AS v FROM t")
        session.sql("CREATE INDEX by_k ON t (K)")
        session.sql("CREATE MATERIALIZED VIEW j AS SELECT a.v FROM t a JOIN t b ON a.k = b.k WHERE b.v = 11")
        for change in (
            "ADD COLUMN more STRING DEFAULT 'x'",
            "RENAME COLUMN k TO key",
            "ALTER COLUMN KEY TYPE BIGINT",
            "ADD COLUMN k INT",  # another one that is called as the index has it in its text
        ):
            session.sql(f"ALTER TABLE t {change}")
            key = "k" if "more" in change else "key"
            assert lookups(session, f"SELECT * FROM t WHERE {key} = 1") == [f"lookup: view by_k by {key} = 1"]
            session.sql("UPDATE t SET v = v + 1 WHERE v > 11")
        assert session.sql("SHOW INDEXES").to_pylist() == [("by_k", "t", "key")]
        session.sql("DROP MATERIALIZED VIEW j; ALTER TABLE t DROP COLUMN gone")
        with pytest.raises(StatementError, match="column 'key' of TABLE t is read by INDEX by_k"):
            session.sql("ALTER TABLE t DROP COLUMN key")
    wanted = [(1, 10, "x", None), (1, 11, "x", None)]
    with an.Session(path=path) as session:
        for _ in range(3):
            assert sorted(rows(session, "SELECT * FROM t WHERE key = 1")) == wanted
        assert lookups(session, "SELECT * FROM t WHERE key = 1") == ["lookup: view by_k by key = 1"]
        assert session.sql("CREATE INDEX by_k ON t (K)").message == "INDEX by_k exists already"
        session.sql("INSERT INTO t VALUES (1, 12, 'y', 3); DELETE FROM t WHERE v = 10")
        assert sorted(rows(session, "SELECT * FROM t WHERE key = 1")) == [wanted[1], (1, 12, "y", 3)]
        assert rows(session, "TABLE m") == [(47,)]
        session.sql("DROP INDEX by_k")
        assert lookups(session, "SELECT * FROM t WHERE key = 1") == ["scan: whole arrangements are read"]
        assert rows(session, "TABLE m") == [(47,)]


def test_an_index_of_a_source_whose_rows_are_not_kept_stays_as_it_is():
    with an.Session() as session:
        session.sql("CREATE SOURCE s (k INT); CREATE INDEX by_k ON s (k)")
        session.insert("s", [(1,), (2,)])
        session.advance()
        session.sql("ALTER SOURCE s ADD COLUMN v INT")
        session.insert("s", [(1, 5)])
        session.advance()
        assert session.sql("SHOW INDEXES").to_pylist() == [("by_k", "s", "k")]


def test_a_view_of_all_of_an_indexed_view_is_no_index(session):
    session.sql("CREATE INDEX by_item ON totals (item); CREATE MATERIALIZED VIEW all_of AS SELECT * FROM totals")
    pytest.importorskip("grpc", reason="Spark Connect's client is not installed")
    session.maintain("frame", session.frame("totals"))
    replaced = "SELECT item, max(price) AS total FROM orders GROUP BY item"
    session.sql(f"CREATE OR REPLACE MATERIALIZED VIEW totals AS {replaced}")
    assert sorted(rows(session, "TABLE all_of")) == [("jam", 5), ("tea", 4)]
    session.maintain("frame", session.frame("totals"), replace=True)
    assert sorted(rows(session, "TABLE frame")) == [("jam", 5), ("tea", 4)]
    session.sql("CREATE OR REPLACE MATERIALIZED VIEW all_of AS SELECT item, total + 1L AS total FROM totals")
    assert sorted(rows(session, "TABLE all_of")) == [("jam", 6), ("tea", 5)]


def test_a_table_of_a_schema_changes_its_columns(session):
    session.sql("CREATE TABLE sales.t (k STRING, x INT); INSERT INTO sales.t VALUES ('a', 1)")
    session.sql("ALTER TABLE sales.t ADD COLUMN y INT DEFAULT 4; ALTER TABLE sales.t RENAME COLUMN y TO z")
    assert rows(session, "SELECT * FROM sales.t WHERE z = 4") == [("a", 1, 4)]


def in_files(path):
    files = an.sinks.parquet_files(path)
    return sorted(tuple(row.values()) for file in files for row in pq.ParquetFile(file).read().to_pylist())


def test_a_table_of_deltas_changes_its_columns(tmp_path):
    """The stream stops where the table has other columns, and goes on when the source has them too."""
    place = str(tmp_path / "table")
    write_deltalake(place, pa.table({"k": pa.array([1, 2], pa.int32()), "old": [0, 0]}))
    with an.Session(path=tmp_path / "state") as session:
        session.sql(f"CREATE SOURCE t FROM DELTA '{place}' KEEP")
        session.sql("CREATE MATERIALIZED VIEW ks AS SELECT k, count(*) AS n FROM t GROUP BY k")
        assert sorted(rows(session, "TABLE ks")) == [(1, 1), (2, 1)]
        more = pa.table({"k": pa.array([3], pa.int32()), "old": [0], "w": [0.5]})
        write_deltalake(place, more, mode="append", schema_mode="merge")
        with pytest.raises(StreamError, match=r"(?s)version 1 of .* has 'w', .*ALTER SOURCE"):
            session.sql("REFRESH t")
        with pytest.raises(StatementError, match="leave out DEFAULT"):
            session.sql("ALTER SOURCE t ADD COLUMN w DOUBLE DEFAULT 1")
        session.sql("ALTER SOURCE t ADD COLUMN w DOUBLE")
        session.sql("REFRESH t")
        assert sorted(rows(session, "TABLE t"), key=str) == [(1, 0, None), (2, 0, None), (3, 0, 0.5)]
        DeltaTable(place).update(updates={"w": "2.0"}, predicate="k = 1")  # retracts the row as the source has it
        session.sql("REFRESH t")
        assert sorted(rows(session, "TABLE t"), key=str) == [(1, 0, 2.0), (2, 0, None), (3, 0, 0.5)]
        assert sorted(rows(session, "TABLE ks")) == [(1, 1), (2, 1), (3, 1)]
    with an.Session(path=tmp_path / "other") as session:
        session.sql(f"CREATE SOURCE t (k INT) FROM DELTA '{place}' KEEP; SELECT * FROM t")
        with pytest.raises(StatementError, match="may have had the column 'w' when"):
            session.sql("ALTER SOURCE t ADD COLUMN w DOUBLE")


# killed ---------------------------------------------------------------------------------------------------------------


VIEWS = ("orders", "cheap", "total", "n", "places", "copied")


def shown(session):
    return {name: Counter(rows(session, f"SELECT * FROM {name}")) for name in VIEWS}


@pytest.fixture(scope="module")
def runs():
    with forking(evolving.__file__, CHILD) as run:
        yield run


def test_a_pipeline_whose_table_changed_four_times_is_killed_anywhere(runs, quick):
    with an.Session() as fresh:
        fresh.sql(evolving.FINAL)
        wanted = shown(fresh)
    kills = 0
    for seed in (0, 1, 2):
        folder = quick / f"evolving {seed}"
        folder.mkdir()
        at = seed
        while (ended := runs(at, folder)) == -signal.SIGKILL:
            kills += 1
            at += 1000
        assert ended == 0
        with an.Session(path=folder / "state") as session:
            assert shown(session) == wanted
            session.sql("INSERT INTO orders VALUES ('tea', 1, 'fair')")
            assert Counter(rows(session, "TABLE n")) == {(5,): 1}
    assert kills > 2


@pytest.mark.parametrize("columns", ["", " (k STRING, v INT)"])
def test_a_source_keeps_a_column_that_its_table_still_has(tmp_path, columns):
    place = tmp_path / "table"
    write_deltalake(place, pa.table({"k": ["a"], "v": pa.array([1], pa.int32())}))
    with an.Session(path=tmp_path / "store") as session:
        session.sql(f"CREATE SOURCE t{columns} FROM DELTA '{place}' KEEP; SELECT * FROM t")
        with pytest.raises(StatementError, match=r"still has the column 'v'.* CREATE a VIEW over it that shows v AS w"):
            session.sql("ALTER SOURCE t RENAME COLUMN v TO w")
        if columns:
            session.sql("ALTER SOURCE t DROP COLUMN v")
        else:
            with pytest.raises(StatementError, match=r"still has the column 'v'.* change the table first"):
                session.sql("ALTER SOURCE t DROP COLUMN v")
        write_deltalake(place, pa.table({"k": ["b"], "v": pa.array([2], pa.int32())}), mode="append")
    with an.Session(path=tmp_path / "store") as session:
        assert rows(session, "SELECT k FROM t ORDER BY k") == [("a",), ("b",)]
        assert session.sql("SELECT * FROM t").to_pylist()[0][1:] in ([(), ()] if columns else [(1,), (2,)])


@pytest.mark.parametrize(
    "change", ["ADD COLUMN z INT", "DROP COLUMN v", "RENAME COLUMN v TO w", "ALTER COLUMN v TYPE BIGINT"]
)
@pytest.mark.parametrize(
    ("kind", "row"),
    [
        ("ENVELOPE DEBEZIUM", '{"op": "c", "after": {"k": "a", "v": 1}}'),
        ("ENVELOPE UPSERT (KEY (k), ORDER BY (n))", ("a", 1, 2)),
        ("TIME (v)", ("a", 1)),
        ("DIFF v", ("a", 1)),
    ],
)
def test_a_source_that_decodes_its_rows_keeps_its_columns(session, kind, row, change):
    more = ", n INT" if "UPSERT" in kind else ""
    session.sql(f"CREATE SOURCE s (k STRING, v INT{more}) {kind} KEEP; CREATE MATERIALIZED VIEW n AS SELECT k FROM s")
    session.insert("s", [row])
    session.advance(3)
    before = rows(session, "TABLE s"), rows(session, "TABLE n")
    assert before[1] == [("a",)]
    with pytest.raises(StatementError, match=r"SOURCE s decodes its rows .* CREATE it under another name"):
        session.sql(f"ALTER SOURCE s {change}")
    assert (rows(session, "TABLE s"), rows(session, "TABLE n")) == before


REFUSED = {
    "ADD COLUMN c INT AFTER k": "a new column is the last one: leave AFTER out",
    "ADD COLUMN c INT FIRST": "a new column is the last one: leave FIRST out",
    "RENAME TO u": "a table keeps its name: CREATE another one AS SELECT",
    "DROP COLUMN key": "column 'key' of TABLE t is read by MATERIALIZED VIEW ks",
}


@pytest.mark.parametrize("change", REFUSED)
def test_what_a_newcomer_writes_is_refused_with_a_reason(change):
    with an.Session() as session:
        session.sql("CREATE TABLE t (k INT, `to` INT); CREATE MATERIALIZED VIEW ks AS SELECT k FROM t")
        session.sql("ALTER TABLE t RENAME COLUMN k TO key; ALTER TABLE t RENAME to TO v")
        with pytest.raises(StatementError, match=REFUSED[change]):
            session.sql(f"ALTER TABLE t {change}")
        assert rows(session, "SHOW COLUMNS FROM t") == [("key", True, "int"), ("v", True, "int")]
