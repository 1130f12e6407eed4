"""Where a step is computed: by the rows that come, whatever Spark expects of a DataFrame."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import functions as sf

import altneu as an
from altneu.runtime.spark import executor as spark_executor
from altneu.runtime.spark import frames as spark_frames
from altneu.runtime.spark.frames import _first_rows, few_rows, is_dear, surely_more
from altneu.runtime.spark.versions import partitions_of, share_of_files, to_arrow
from faults.stream_files import Files

MOST = 1000
ROWS = an.source("rows", "i long")
COUNT = ROWS.group_by().agg(n="count(*)", total="sum(i)")


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(spark_executor, "FETCH_ROWS", MOST)
    monkeypatch.setattr("altneu.streams.batch.HERE_ROWS", 100)


@pytest.fixture
def session(spark):
    with an.Session(spark) as session:
        yield session


@pytest.fixture(scope="module")
def large(spark, tmp_path_factory):
    """A table that Spark expects much of, in several files: numbers that do not compress."""
    path = str(tmp_path_factory.mktemp("large") / "table")
    frame = spark.range(0, 400_000, 1, 4).selectExpr("id AS i", "xxhash64(id) AS h")
    frame.write.parquet(path)
    return spark.read.parquet(path)


def taken(session, frame, plan=COUNT):
    view = session.maintain("view", plan)
    session.insert("rows", frame)
    return session.advance().placement, view.to_pylist()


def test_what_makes_many_rows_of_few_bytes_is_not_fetched(spark, session):
    frame = spark.range(1).selectExpr("explode(sequence(1L, 60000L)) AS i")
    assert taken(session, frame) == ("spark", [(60_000, 1_800_030_000)])
    assert few_rows(frame, MOST) is None
    assert few_rows(frame, 60_000).num_rows == 60_000


def test_nor_is_a_small_file_of_many_rows(spark, session, tmp_path):
    spark.range(0, 300_000, 1, 1).selectExpr("7L AS i").write.parquet(str(tmp_path / "same"))
    frame = spark.read.parquet(str(tmp_path / "same"))
    assert taken(session, frame) == ("spark", [(300_000, 2_100_000)])


def test_few_rows_of_a_large_table_stay_in_the_driver(session, large):
    frame = large.where("i % 4000 = 3").select("i")
    assert taken(session, frame) == ("driver", [(100, sum(range(3, 400_000, 4000)))])
    assert session.jobs.read == {"rows": 100}
    assert session.jobs.count == 1


def test_of_a_large_table_little_is_read_in_vain(session, large):
    actual = _first_rows(large.select("i"), MOST)
    assert MOST < actual.num_rows <= 2 * MOST
    assert taken(session, large.select("i")) == ("spark", [(400_000, sum(range(400_000)))])


def test_no_row_of_a_much_larger_table_is_looked_at(session, large):
    assert surely_more(large.select("i"), MOST)
    assert surely_more(large, 20 * MOST)
    assert not surely_more(large, 400 * MOST)
    assert taken(session, large.select("i")) == ("spark", [(400_000, sum(range(400_000)))])
    assert session.jobs.count == 1  # the step's


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_nor_of_large_texts(spark, session, tmp_path, suffix):
    path = str(tmp_path / suffix)
    getattr(spark.range(0, 100_000, 1, 2).selectExpr("id AS i", "xxhash64(id) AS h").write, suffix)(path)
    frame = spark.read.schema("i long, h long").format(suffix).load(path)
    assert surely_more(frame, MOST)
    assert taken(session, frame.select("i")) == ("spark", [(100_000, sum(range(100_000)))])
    assert session.jobs.count == 1


def test_a_large_table_is_filtered_once(session, large, monkeypatch):
    """To see that a filter leaves few rows would take a scan of the files, one part after the other."""
    monkeypatch.setattr(spark_frames, "_SCANNED_ROWS", 100_000)
    frame = large.where("h % 4000 = 3").select("i")
    assert surely_more(frame, MOST)
    assert not surely_more(large.where("h % 4000 = 3").coalesce(1), MOST)
    assert not surely_more(large.groupBy("i").count(), MOST)
    wanted = [(frame.count(), frame.agg(sf.sum("i")).collect()[0][0])]
    assert taken(session, frame) == ("spark", wanted)
    assert session.jobs.count == 1
    monkeypatch.setattr(spark_frames, "_SCANNED_ROWS", 1_000_000)
    assert not surely_more(frame, MOST)


def test_of_a_partitioned_table_what_is_left_counts(spark, session, tmp_path, monkeypatch):
    """A day of four files, as Spark would read them in several parts, has few rows although the table has many."""
    monkeypatch.setattr(spark_frames, "_SCANNED_ROWS", 100_000)
    path = str(tmp_path / "days")
    rows = spark.range(0, 400_000, 1, 4).selectExpr("id AS i", "xxhash64(id) AS h", "int(id % 20) AS day")
    rows.write.partitionBy("day").parquet(path)
    days = spark.read.parquet(path)
    assert surely_more(days.where("day > 7 AND i % 4000 = 8"), MOST)
    one = days.where("day = 3 AND i % 8 = 3").select("i")
    assert partitions_of(one) > 1
    assert not surely_more(one, MOST)
    wanted = [i for i in range(400_000) if i % 20 == 3 and i % 8 == 3]
    monkeypatch.setattr(spark_executor, "FETCH_ROWS", 2 * len(wanted))
    assert taken(session, one) == ("driver", [(len(wanted), sum(wanted))])
    assert share_of_files(days) == 1
    assert 0 < share_of_files(days.where("day = 3")) < 0.06
    assert share_of_files(days.where("day = 300")) == 0


def test_of_one_part_is_seen_how_many_rows_a_filter_leaves(spark, session, large, monkeypatch):
    monkeypatch.setattr(spark_frames, "_SCANNED_ROWS", 100_000)
    sizes = {"spark.sql.files.maxPartitionBytes": str(1 << 30), "spark.sql.files.openCostInBytes": "0"}
    sizes["spark.sql.files.minPartitionNum"] = "1"
    before = {key: spark.conf.get(key, None) for key in sizes}
    try:
        for key, value in sizes.items():
            spark.conf.set(key, value)
        assert taken(session, large.where("i % 4000 = 3").select("i"))[0] == "driver"
    finally:
        for key, value in before.items():
            spark.conf.unset(key) if value is None else spark.conf.set(key, value)


def persisted(spark) -> set[int]:
    """The numbers of what is cached in this process, by other tests too."""
    return set(spark.sparkContext._jsc.getPersistentRDDs())


@pytest.mark.parametrize("rows", [MOST - 1, MOST, MOST + 1])
def test_where_few_ends(spark, session, rows):
    placement, shown = taken(session, spark.range(rows).selectExpr("id AS i"), ROWS)
    assert (placement, len(shown)) == ("driver" if rows <= MOST else "spark", rows)


def test_rows_of_chance_are_taken_as_they_were_at_one_time(spark, session):
    """Every view sees the same ones, whether they were brought here or read by tasks."""
    for rows in (50, 5 * MOST):
        with an.Session(session.spark) as one:
            all_rows = one.maintain("all", ROWS)
            count = one.maintain("count", COUNT)
            one.insert("rows", spark.range(rows).selectExpr("cast(rand() * 1000000 AS long) AS i"))
            assert one.advance().placement == ("driver" if rows <= MOST else "spark")
            actual = [i for (i,) in all_rows.to_pylist()]
            assert count.to_pylist() == [(rows, sum(actual))]


def test_what_is_shuffled_first_is_computed_once(spark, session, large):
    calls = spark.sparkContext.accumulator(0)

    @sf.udf("long")
    def counted(i):
        calls.add(1)
        return i

    before = persisted(spark)
    spread = large.where("i < 20000").select(counted("i").alias("i")).repartition(3)
    grouped = spread.groupBy((sf.col("i") % 5000).alias("i")).agg(sf.count("*").alias("n")).select("i")
    assert is_dear(grouped)
    assert taken(session, grouped) == ("spark", [(5000, sum(range(5000)))])
    assert calls.value == 20_000
    assert persisted(spark) <= before


def test_each_dataframe_goes_its_own_way(spark, session):
    view = session.maintain("view", COUNT)
    for frame in (spark.range(10), spark.range(3 * MOST), spark.range(20)):
        session.insert("rows", frame.selectExpr("id AS i"))
    session.insert("rows", [(1,)])
    assert session.advance().placement == "spark"
    assert view.to_pylist() == [(3 * MOST + 31, sum(range(3 * MOST)) + 45 + 190 + 1)]
    assert session.jobs.read == {"rows": 3 * MOST + 30}


def test_rows_that_are_there_leave_less_room(spark, session, monkeypatch):
    monkeypatch.setattr(spark_executor, "DRIVER_ROWS", MOST)
    session.maintain("view", ROWS)
    session.insert("rows", [(i,) for i in range(MOST - 10)])
    session.insert("rows", spark.range(11).selectExpr("id AS i"))
    assert session.advance().placement == "spark"


def test_together_they_are_no_more_than_the_driver_takes(spark, session):
    view = session.maintain("view", COUNT)
    for _ in range(3):
        session.insert("rows", spark.range(MOST // 2 - 10).selectExpr("id AS i"))
    assert session.advance().placement == "spark"
    assert view.to_pylist()[0][0] == 3 * (MOST // 2 - 10)


def test_columns_that_nobody_reads_are_not_fetched(spark, session, large):
    wide = an.source("rows", "i long, h long not null")
    frame = large.where("i < 100").withColumn("h", sf.expr("raise_error('read')").cast("long"))
    with pytest.raises(an.errors.SourceFailedError, match="read"):
        taken(session, frame, wide.select("i"))  # it may be null, and must not be
    session.discard()
    with an.Session(session.spark) as other:
        loose = an.source("rows", "i long, h long")
        other.maintain("view", loose.group_by().agg(n="count(*)", total="sum(i)"))
        other.insert("rows", frame)
        other.insert("rows", [(7, 8)])
        assert other.advance().placement == "driver"
        assert other.view("view").to_pylist() == [(101, 4957)]


def test_every_type_comes_as_it_is(spark, large):
    columns = """i; cast(i AS string) s; cast(i AS decimal(20,3)) d; timestamp_seconds(i * 100000) t; i > 3 AS yes;
        date_add(date'2020-01-01', cast(i AS int)) day; cast(timestamp_seconds(i) AS timestamp_ntz) n; array(i, null) a;
        named_struct('x', i, 'y', map('k', i)) m; cast(cast(i AS string) AS binary) b; if(i % 2 = 0, null, i / 7) f;
        make_dt_interval(i) v"""
    frame = large.where("i < 30").selectExpr(*columns.split(";"))
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        actual = _first_rows(frame, 1000)
        assert actual.sort_by("i").equals(to_arrow(frame).sort_by("i"))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_rows_that_are_too_wide_for_the_driver_are_many(spark, monkeypatch):
    def failing(*_):
        raise RuntimeError("is bigger than spark.driver.maxResultSize (1024.0 MiB)")

    monkeypatch.setattr("altneu.runtime.spark.frames.expected_bytes", failing)
    assert few_rows(spark.range(1), 10) is None


def test_micro_batches_go_by_their_rows_too(spark, tmp_path):
    files, placed = Files(spark, tmp_path / "in"), []
    files.put((0, 1))
    stream = files.stream().selectExpr("explode(sequence(1L, 5000L)) AS i")
    with an.Session(spark, tmp_path / "state") as session:
        view = session.maintain("view", COUNT)
        on_step = lambda _, step: placed.append(step.placement)  # noqa: E731
        session.follow(rows=stream, available_now=True, on_step=on_step).wait()
        assert (placed, view.to_pylist()) == (["spark"], [(5000, 12_502_500)])


def test_what_is_asked_for_is_done(spark):
    frame = spark.range(3 * MOST).selectExpr("id AS i")
    with an.Session(spark, placement="driver") as session:
        assert taken(session, frame)[0] == "driver"
    with an.Session(spark, placement="spark") as session:
        placement, shown = taken(session, frame.where("i < 3"))
        assert (placement, Counter(shown)) == ("spark", Counter([(3, 3)]))
