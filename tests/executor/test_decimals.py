"""Short decimals come from Spark as whole numbers: the same values, in half of the bytes."""

from __future__ import annotations

import random
from collections import Counter
from decimal import Context, Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import altneu as an
from altneu.runtime.spark.decimals import DIGITS, as_decimals, as_numbers
from altneu.runtime.spark.versions import arrow_schema, to_arrow

KINDS = [(1, 0), (3, 3), (9, 2), (12, 2), (18, 0), (18, 2), (18, 18), (19, 2), (38, 10)]
NAMES = [f"p{p}_{s}" for p, s in KINDS]
_EXACT = Context(prec=50)


def _values(precision: int, scale: int, rng: random.Random, count: int) -> list[Decimal | None]:
    most = 10**precision - 1
    some = [0, 1, -1, most, -most, most // 3]
    numbers = [*some, *(rng.randint(-most, most) for _ in range(count - len(some) - 1))]
    return [None, *(Decimal(number).scaleb(-scale, _EXACT) for number in numbers)]


@pytest.fixture(scope="module")
def rows() -> list[tuple[object, ...]]:
    rng = random.Random("decimals")
    columns = [_values(p, s, rng, 300) for p, s in KINDS]
    for column in columns:
        rng.shuffle(column)
    return [(number, *values) for number, values in enumerate(zip(*columns, strict=True))]


def _schema(kinds: list[tuple[int, int]]) -> str:
    return ", ".join(["id bigint", *(f"{n} decimal({p},{s})" for n, (p, s) in zip(NAMES, kinds, strict=True))])


def _loaded(spark, source: str, frame) -> Counter[tuple[object, ...]]:
    with an.Session(spark, placement="spark") as session:
        view = session.maintain("v", an.source("rows", source))
        session.insert("rows", frame)
        assert session.advance().placement == "spark"
        return Counter(view.to_pylist())


def test_every_precision_scale_and_null_is_what_spark_has(spark, rows):
    frame = spark.createDataFrame(rows, _schema(KINDS)).repartition(3)
    assert set(as_numbers(frame)[1]) == {i for i, (p, _) in enumerate(KINDS, 1) if p <= DIGITS}
    assert _loaded(spark, _schema(KINDS), frame) == Counter(tuple(row) for row in frame.collect()) == Counter(rows)


def test_of_parquet_files_written_with_each_width(spark, rows, tmp_path):
    kinds = [pa.int64(), *(pa.decimal128(p, s) for p, s in KINDS)]
    table = pa.table(
        [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)],
        names=["id", *NAMES],
    )
    for number, as_integers in enumerate((False, True)):
        pq.write_table(table, tmp_path / f"{number}.parquet", store_decimal_as_integer=as_integers)
        frame = spark.read.parquet(str(tmp_path / f"{number}.parquet"))
        assert _loaded(spark, _schema(KINDS), frame) == Counter(rows)


def test_a_source_with_wider_decimals_takes_them(spark, rows):
    wider = [(38, s) for _, s in KINDS]
    frame = spark.createDataFrame(rows, _schema(KINDS))
    assert _loaded(spark, _schema(wider), frame) == Counter(rows)


def test_a_value_too_wide_for_its_source_is_refused_by_name(spark):
    frame = spark.createDataFrame([(Decimal("1234.5"),)], "price decimal(9,2)")
    with an.Session(spark, placement="spark") as session:
        session.maintain("v", an.source("rows", "price decimal(5,2)"))
        session.insert("rows", frame)
        with pytest.raises(an.errors.AltneuError, match=r"column 'price' of source 'rows' is decimal\(5,2\)"):
            session.advance()


def test_a_decimal_takes_the_bytes_of_a_whole_number(spark):
    frame = spark.range(10_000).selectExpr("CAST(id AS decimal(12,2)) AS price", "id")
    handed, there = as_numbers(frame)
    assert to_arrow(frame).nbytes >= 10_000 * (16 + 8)
    assert to_arrow(handed).nbytes <= 10_000 * (8 + 8) * 1.1  # and a bit a value where there may be nulls
    assert as_decimals(to_arrow(handed), there).equals(to_arrow(frame).cast(arrow_schema(frame.schema)))


def test_digits_become_decimals_again():
    kind = pa.decimal128(18, 4)
    digits = pa.chunked_array([[10**18 - 1, None], [-(10**18) + 1, 5]])
    found = as_decimals(pa.table({"a": ["x"] * 4, "d": digits}), {1: kind})
    assert found.schema.field("d").type == kind
    assert found["d"].to_pylist() == [
        Decimal("99999999999999.9999"),
        None,
        Decimal("-99999999999999.9999"),
        Decimal("0.0005"),
    ]
