"""Delta tables in statements: sources that follow one, sinks that keep one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import altneu as an
from altneu.errors import InputError, SinkError, StatementError, StreamError


@pytest.fixture
def orders(tmp_path):
    path = str(tmp_path / "orders")
    write_deltalake(path, pa.table({"item": ["tea", "jam", "tea"], "price": pa.array([3, 5, 4], pa.int64())}))
    return path


def kept(path):
    return sorted(DeltaTable(path).to_pyarrow_table().to_pylist(), key=str)


@pytest.mark.parametrize("source", ["SOURCE orders FROM DELTA '{}' KEEP", "TABLE orders USING DELTA LOCATION '{}'"])
def test_a_table_is_followed_and_one_is_kept(source, orders, tmp_path):
    total = f"{tmp_path}/total"
    with an.Session(path=tmp_path / "state") as session:
        session.sql(
            f"CREATE {source.format(orders)} WITH (MAX_BYTES = '1m');"
            "CREATE MATERIALIZED VIEW total AS SELECT item, sum(price) AS total FROM orders GROUP BY item;"
            f"CREATE SINK kept FROM total INTO DELTA '{total}' KEY (item)"
            " WITH (PARTITION_BY = item, PROPERTIES = 'delta.enableChangeDataFeed=true');"
            f"CREATE SINK log FROM total INTO DELTA '{tmp_path}/log' MODE APPEND"
        )
        assert session.sql("SELECT * FROM total ORDER BY item").to_pylist() == [("jam", 5), ("tea", 7)]
        DeltaTable(orders).delete("price = 3")
        assert kept(total)[1] == {"item": "tea", "total": 7}
        session.sql("REFRESH orders")
        assert kept(total) == [{"item": "jam", "total": 5}, {"item": "tea", "total": 4}]
        metadata = DeltaTable(total).metadata()
        assert metadata.configuration["delta.enableChangeDataFeed"] == "true"
        assert metadata.partition_columns == ["item"]
        with pytest.raises(StatementError, match="'orders' is fed from DELTA"):
            session.sql("INSERT INTO orders VALUES ('oil', 1)")
    DeltaTable(orders).update(updates={"price": "9"}, predicate="item = 'jam'")
    with an.Session(path=tmp_path / "state") as session:  # what has come since is there without a word
        assert session.sql("SELECT * FROM total ORDER BY item").to_pylist() == [("jam", 9), ("tea", 4)]
        assert [row[1] for row in session.sql("SHOW SOURCES").to_pylist()] == [f"DELTA {orders}"]
        with session.sql("FOLLOW orders WITH (AVAILABLE_NOW = true)") as following:
            assert following.wait(100)
    assert sum(row["diff"] for row in kept(f"{tmp_path}/log")) == 2


def test_where_it_begins_and_what_is_refused(orders, tmp_path):
    write_deltalake(orders, pa.table({"item": ["oil"], "price": pa.array([8], pa.int64())}), mode="append")
    with an.Session() as session:
        session.sql(
            f"CREATE TABLE new (price BIGINT) USING DELTA LOCATION '{orders}' WITH (FROM_VERSION = 0, SNAPSHOT = false)"
        )
        assert session.sql("SELECT * FROM new").to_pylist() == [(8,)]
        for text, match in {
            f"CREATE SOURCE x FROM DELTA '{orders}' WITH (MAX_ROWS = 5)": "no option MAX_ROWS; the options are: WATER",
            f"CREATE SOURCE x FROM DELTA '{orders}' STATIC": "a stream goes on, so it cannot be STATIC",
            "CREATE TABLE x USING PARQUET LOCATION 'x'": "expected DELTA: other formats are sources",
            f"CREATE SINK x FROM new INTO DELTA '{orders}2' WITH (PROPERTIES = 'odd')": "PROPERTIES needs texts",
        }.items():
            with pytest.raises(StatementError, match=match):
                session.sql(text)
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT price FROM new")
        session.sql(f"CREATE SINK exact FROM v INTO DELTA '{orders}3' MODE ROWS")
        assert kept(f"{orders}3") == [{"price": 8}]
        with pytest.raises(SinkError, match="mode must be one of 'append', 'upsert', 'merge', got 'rows'"):
            session.sql(f"CREATE SINK y FROM v INTO PARQUET '{orders}4' MODE ROWS")
        with pytest.raises(InputError, match="there is no Delta table at"):
            session.sql(f"CREATE SOURCE x FROM DELTA '{tmp_path}/nowhere'")


def test_a_source_that_is_there_takes_restart(orders, tmp_path):
    """The remedy that the error names: without it the versions that vacuum took could never be passed over."""
    state, create = tmp_path / "state", f"CREATE TABLE orders USING DELTA LOCATION '{orders}'"
    view = "CREATE MATERIALIZED VIEW total AS SELECT sum(price) AS total FROM orders"
    with an.Session(path=state) as session:
        session.sql(f"{create}; {view}")
        assert session.sql("SELECT * FROM total").to_pylist() == [(12,)]
    for price in (1, 2):
        write_deltalake(orders, pa.table({"item": ["tea"], "price": pa.array([price], pa.int64())}), mode="overwrite")
    DeltaTable(orders).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with an.Session(path=state) as session:
        with pytest.raises(StreamError, match=r"vacuum removed it.*WITH \(RESTART = …\)") as raised:
            session.sql("SELECT * FROM total")
        mark = str(raised.value).split("restart=")[1].split("'")[1]
        with pytest.raises(StatementError, match="is a SOURCE with another definition"):
            session.sql(f"{create} WITH (RESTART = '{mark}', MAX_BYTES = '1m')")
        again = f"{create} WITH (RESTART = '{mark}')"
        assert session.sql(again).message == "SOURCE orders exists already, and takes RESTART"
        assert session.sql("SELECT * FROM total").to_pylist() == [(2,)]
    write_deltalake(orders, pa.table({"item": ["jam"], "price": pa.array([4], pa.int64())}), mode="append")
    for text in (again, create, again):  # which is of that state alone, so it may stay in a file
        with an.Session(path=state) as session:
            session.sql(f"{text}; {view}")
            assert session.sql("SELECT * FROM total").to_pylist() == [(6,)]
