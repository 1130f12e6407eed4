"""Iceberg tables in statements: sources that follow one, sinks that keep one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

import altneu as an
from altneu.errors import InputError, StatementError
from faults.iceberg_tables import properties


@pytest.fixture
def shop(tmp_path):
    """A catalog with a table, and the catalog as statements name it."""
    said = properties(tmp_path / "tables")
    with load_catalog("default", **said) as catalog:
        catalog.create_namespace("shop")
        rows = pa.table({"item": ["tea", "jam", "tea"], "price": pa.array([3, 5, 4], pa.int64())})
        catalog.create_table("shop.orders", rows.schema).append(rows)
        yield catalog, ", ".join(f"'{name}' = '{value}'" for name, value in said.items())


def kept(catalog, name):
    return sorted(catalog.load_table(name).scan().to_arrow().to_pylist(), key=str)


def test_a_table_is_followed_and_one_is_kept(shop, tmp_path):
    catalog, options = shop
    with an.Session(path=tmp_path / "state") as session:
        session.sql(
            f"CREATE SOURCE orders FROM ICEBERG 'shop.orders' OPTIONS ({options}) KEEP WITH (MAX_BYTES = '1m');"
            "CREATE MATERIALIZED VIEW total AS SELECT item, sum(price) AS total FROM orders GROUP BY item;"
            f"CREATE SINK kept FROM total INTO ICEBERG 'shop.total' KEY (item) OPTIONS ({options})"
            " WITH (PARTITION_BY = item, PROPERTIES = 'owner=us');"
            f"CREATE SINK log FROM total INTO ICEBERG 'shop.log' MODE APPEND OPTIONS ({options})"
        )
        assert session.sql("SELECT * FROM total ORDER BY item").to_pylist() == [("jam", 5), ("tea", 7)]
        catalog.load_table("shop.orders").delete("price = 3")
        session.sql("REFRESH orders")
        assert kept(catalog, "shop.total") == [{"item": "jam", "total": 5}, {"item": "tea", "total": 4}]
        table = catalog.load_table("shop.total")
        assert (table.properties["owner"], len(table.spec().fields)) == ("us", 1)
    catalog.load_table("shop.orders").append(pa.table({"item": ["oil"], "price": pa.array([8], pa.int64())}))
    with an.Session(path=tmp_path / "state") as session:  # what has come since is there without a word
        assert session.sql("SELECT * FROM total ORDER BY item").to_pylist() == [("jam", 5), ("oil", 8), ("tea", 4)]
        assert [row[1] for row in session.sql("SHOW SOURCES").to_pylist()] == ["ICEBERG shop.orders"]
    assert sum(row["diff"] for row in kept(catalog, "shop.log")) == 3


def test_where_it_begins_and_what_is_refused(shop):
    catalog, options = shop
    table = catalog.load_table("shop.orders")
    first = table.metadata.current_snapshot_id
    table.append(pa.table({"item": ["oil"], "price": pa.array([8], pa.int64())}))
    with an.Session() as session:
        session.sql(
            f"CREATE SOURCE new (price BIGINT) FROM ICEBERG 'shop.orders' OPTIONS ({options}) KEEP"
            f" WITH (FROM_SNAPSHOT = {first}, SNAPSHOT = false)"
        )
        assert session.sql("SELECT * FROM new").to_pylist() == [(8,)]
        for text, match in {
            "CREATE SOURCE x FROM ICEBERG 'shop.orders' WITH (FROM_VERSION = 5)": "no option FROM_VERSION",
            "CREATE TABLE x USING ICEBERG LOCATION 'x'": "expected DELTA: .* CREATE SOURCE … FROM ICEBERG",
        }.items():
            with pytest.raises(StatementError, match=match):
                session.sql(text)
        with pytest.raises(InputError, match=r"there is no Iceberg table 'shop\.none'"):
            session.sql(f"CREATE SOURCE x FROM ICEBERG 'shop.none' OPTIONS ({options})")
