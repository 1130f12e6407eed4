"""What differs between versions of Spark; a store that goes from one to the next (``make spark-matrix``)."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime
from decimal import Decimal
from types import SimpleNamespace

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import altneu as an
from altneu.errors import ReadError, SetupError
from altneu.runtime.spark import versions

SCHEMA = pa.schema(
    [
        pa.field("b", pa.bool_()),
        pa.field("i", pa.int32()),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("x", pa.float64()),
        pa.field("d", pa.decimal128(12, 2)),
        pa.field("s", pa.string()),
        pa.field("y", pa.binary()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("there", pa.timestamp("us")),
        pa.field("l", pa.list_(pa.int64())),
        pa.field("t", pa.struct([("a", pa.string())])),
    ]
)
MOMENT = datetime(2024, 2, 29, 12, 30, 0, 1)  # noqa: DTZ001
ROWS = [
    (True, 1, 2, 0.5, Decimal("1.25"), "ä", b"y", MOMENT.date(), MOMENT.replace(tzinfo=UTC), MOMENT, [1], {"a": "b"}),
    (None, None, 3, None, None, None, None, None, None, None, None, None),
]


def test_rows_of_every_type_go_to_spark_and_come_back(spark):
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in ROWS], schema=SCHEMA)
    frame = versions.from_arrow(spark, table, versions.spark_schema(SCHEMA))
    assert dict(frame.dtypes)["at"] == "timestamp"
    assert dict(frame.dtypes)["there"] == "timestamp_ntz"
    assert versions.to_arrow(frame).to_pylist() == table.to_pylist()
    assert versions.to_arrow(frame.where("false")).num_rows == 0
    assert versions.arrow_schema(frame.schema).types == SCHEMA.types


@pytest.mark.parametrize("shards", [1, 2, 7, 64])
def test_rows_are_placed_by_their_shard_with_and_without_the_function_for_it(spark, shards):
    rows = spark.range(0, 500, 1, 3).select((sf.col("id") % shards).cast("int").alias("shard"))
    without = SimpleNamespace(sparkSession=spark, repartition=rows.repartition)  # a DataFrame before 4.1
    for placed in (versions.by_shard(rows, shards), versions.by_shard(without, shards)):
        assert placed.where(sf.spark_partition_id() != sf.col("shard")).count() == 0
        assert placed.count() == 500


def test_a_spark_that_is_too_old_is_refused_by_name():
    with pytest.raises(SetupError, match=r"Spark must be 3.5 or newer, got 3.4.1"):
        versions.check_version(SimpleNamespace(version="3.4.1"))


def test_spark_connect_has_to_be_newer(monkeypatch):
    monkeypatch.setattr(versions, "is_connect", lambda _: True)
    with pytest.raises(SetupError, match=r"Spark Connect must be 4.0 or newer, got 3.5.6"):
        versions.check_version(SimpleNamespace(version="3.5.6"))


def test_streams_of_the_data_source_are_refused_where_spark_lacks_what_they_need(monkeypatch):
    monkeypatch.setattr("pyspark.__version__", "4.0.1")
    with pytest.raises(ReadError, match=r"must be run by Spark 4.2 or newer, this is 4.0.1"):
        versions.check_streams()


def test_a_store_goes_from_version_to_version(spark, tmp_path):
    folder = os.environ.get("ALTNEU_MATRIX_STORE")  # which other versions may have written already
    path = f"{folder}/store" if folder else tmp_path / "store"
    orders = an.source("orders", "item string, price decimal(10, 2), at timestamp", keep=True)
    for placement in ("spark", "driver"):
        with an.Session(spark, path=path, shards=2, placement=placement) as session:
            totals = session.maintain("totals", orders.group_by("item").agg("count(*) AS n", "sum(price) AS s"))
            before = totals.to_pylist()
            frame = spark.range(0, 300, 1, 2).selectExpr(
                "concat('item ', id % 10) AS item", "cast(id AS decimal(10, 2)) AS price", "timestamp_seconds(id) AS at"
            )
            session.insert("orders", frame)
            session.advance()
            steps = (before[0][1] if before else 0) // 30 + 1
            expected = {(f"item {k}", 30 * steps, Decimal(steps * sum(range(k, 300, 10)))) for k in range(10)}
            assert set(totals.to_pylist()) == expected
            assert Counter(map(tuple, totals.df().collect())) == Counter(expected)
