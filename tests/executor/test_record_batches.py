"""What Spark hands to Python at a time: so many rows, whose bytes it does not count."""

from __future__ import annotations

import random
from itertools import accumulate

import pytest

import altneu as an
from altneu.runtime.spark import executor
from altneu.runtime.spark.versions import record_batches
from altneu.runtime.spark.wire import FILLER, META, RECORD_BYTES, RECORD_ROWS, pack, unpack

ROWS = an.source("rows", "i long, v string")


def messages(rng, count, longest):
    return [(rng.randrange(4), rng.choice([META, 0, 3]), rng.randbytes(rng.randrange(longest))) for _ in range(count)]


@pytest.mark.parametrize("longest", [1, 100, 9_000, 300_000])
def test_messages_come_as_they_were_packed(longest):
    rows = messages(random.Random(longest), 200, longest)
    assert list(unpack(pack(rows))) == rows
    assert list(unpack(pack([]))) == []


@pytest.mark.parametrize(("count", "longest"), [(100_000, 50), (6_000, 20_000), (60, 4_000_000)])
def test_so_many_rows_of_messages_in_a_row_are_bounded_in_bytes(count, longest):
    packed = list(pack(messages(random.Random(count), count, longest)))
    sizes = [len(payload) for batch in packed for payload in batch.column("payload").to_pylist()]
    ends = [0, *accumulate(sizes)]
    most = max(ends[min(i + RECORD_ROWS, len(sizes))] - ends[i] for i in range(len(sizes)))
    assert most <= 2 * RECORD_BYTES + longest
    fillers = sum(batch.column("port").to_pylist().count(FILLER) for batch in packed)
    assert fillers <= sum(sizes) * RECORD_ROWS / RECORD_BYTES


@pytest.fixture
def chosen(monkeypatch):
    """The settings of jobs that read DataFrames."""
    result = []

    def noted(*bounds):
        result.append(record_batches(*bounds))
        return result[-1]

    monkeypatch.setattr(executor, "record_batches", noted)
    return result


@pytest.fixture(scope="module")
def tables(spark, tmp_path_factory):
    """Rows of numbers, of short texts, and of texts of some 100 kB that do not compress."""
    folder = tmp_path_factory.mktemp("tables")
    numbers = spark.range(0, 100_000, 1, 2).selectExpr("id AS i", "xxhash64(id) AS v")
    texts = numbers.selectExpr("i", "hex(v) AS v")
    digits = "array_join(transform(sequence(1, 6000), n -> hex(xxhash64(i, n))), '')"
    made = {"numbers": numbers, "texts": texts, "long": texts.where("i % 500 = 0").selectExpr("i", f"{digits} AS v")}
    for name, frame in made.items():
        frame.write.parquet(str(folder / name))
    return {name: spark.read.parquet(str(folder / name)) for name in made}


def loaded(spark, frame, **options):
    with an.Session(spark, placement="spark", **options) as session:
        view = session.maintain("view", ROWS.group_by("i").agg(n="count(*)", v="max(length(v))", w="min(v)"))
        session.insert("rows", frame)
        session.advance()
        return tuple(view.df().selectExpr("sum(n)", "max(v)").first())


def test_numbers_are_not_looked_at(spark, tables, chosen):
    source = an.source("numbers", "i long, v long")
    with an.Session(spark, placement="spark") as session:
        view = session.maintain("view", source.group_by("i").agg(v="max(v)"))
        session.insert("numbers", tables["numbers"])
        session.advance()
        assert view.df().count() == 100_000
    assert chosen == [record_batches(RECORD_ROWS)]


@pytest.mark.parametrize(("name", "least", "most"), [("texts", RECORD_ROWS, RECORD_ROWS), ("long", 80, 200)])
def test_texts_come_by_the_length_of_a_sample(spark, tables, chosen, name, least, most):
    frame = tables[name]
    assert loaded(spark, frame) == tuple(frame.selectExpr("count(*)", "max(length(v))").first())
    (settings,) = chosen
    rows = int(settings["spark.sql.execution.arrow.maxRecordsPerBatch"])
    assert least <= rows <= most
    assert settings == record_batches(rows)


def test_where_memory_is_given_bytes_are_counted(spark, tables, chosen, monkeypatch):
    assert loaded(spark, tables["texts"], memory="1g") == (100_000, 16)
    monkeypatch.setattr(executor, "_TASK_MEMORY", "spark.app.name")  # as a setting that Spark was started with
    assert loaded(spark, tables["texts"]) == (100_000, 16)
    assert chosen == 2 * [record_batches(RECORD_ROWS, RECORD_BYTES)]


def test_a_session_has_its_own_settings_afterwards(spark, tables):
    names = list(record_batches(1))
    before = [spark.conf.get(name, None) for name in names]
    loaded(spark, tables["texts"])
    assert [spark.conf.get(name, None) for name in names] == before
