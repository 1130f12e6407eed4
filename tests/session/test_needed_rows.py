"""Of a DataFrame Spark reads the rows that the views need: the same answers and errors, and fewer files."""

from __future__ import annotations

import random
from collections import Counter
from datetime import date, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import altneu as an
from bench.spark_metrics import scanned
from tests.session.needed_rows_cases import SCHEMA, TESTS, rows_at_random, shown


def plan_at_random(rng: random.Random, rows: an.Collection) -> an.Collection:
    """Filters, computed columns and sums over the one source; some by two paths."""
    plan = rows
    for _ in range(rng.randint(1, 2)):
        plan = plan.filter(rng.choice(TESTS))
        if rng.random() < 0.3:
            plan = plan.select("s", "d", "t", "p", "b", "x", "y", "z", i="case when b then i else i end", n="n")
    end = rng.randrange(4)
    if end == 0:
        return plan.group_by("s").agg("count(*) as c", "sum(i) as total")
    if end == 1:
        return plan.select("i", "n", "s").concat(rows.filter(rng.choice(TESTS)).select("i", "n", "s"))
    if end == 2:
        return plan.select("i", "n").join(rows.filter(rng.choice(TESTS)).select("n", other="i"), on="n")
    return plan


@pytest.mark.sampled(2)
@pytest.mark.parametrize("settings", [("true", "UTC"), ("false", "America/New_York")])
@pytest.mark.parametrize("seed", range(2))
def test_the_answers_and_errors_are_those_of_all_rows(spark, tmp_path, seed, settings):
    """Whatever the settings of the user's session; the files' statistics are used."""
    rng = random.Random(seed)
    table, rows = rows_at_random(rng, 300), an.source("r", SCHEMA)
    plans = {f"v{i}": plan_at_random(rng, rows) for i in range(6)}
    names = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
    before = {name: spark.conf.get(name) for name in names}
    try:
        for name, value in zip(names, settings, strict=True):
            spark.conf.set(name, value)
        for part in range(3):
            pq.write_table(table.slice(100 * part, 100), tmp_path / f"{part}.parquet", row_group_size=10)
        frame = spark.read.parquet(str(tmp_path))
        for name, plan in plans.items():
            with an.Session() as here, an.Session(spark, placement="spark") as there:
                views = [session.maintain(name, plan) for session in (here, there)]
                here.insert("r", table)
                there.insert("r", frame)
                for session in (here, there):
                    session.advance()
                assert shown(views[0]) == shown(views[1]), plan
                there.retract("r", frame)
                there.advance()
                assert shown(views[1]) == (Counter(), Counter())
            with an.Session() as here, an.Session(spark, placement="spark") as there:
                views = [session.maintain(name, plan) for session in (here, there)]
                diffs = pa.array([rng.choice([-1, 1, 1, 0, 3, -5]) for _ in range(300)])
                pq.write_table(table.append_column("often", diffs), often := str(tmp_path / "often.tmp"))
                here.insert("r", pq.read_table(often), diff="often")
                there.insert("r", spark.read.parquet(often), diff="often")
                for session in (here, there):
                    session.advance()
                assert shown(views[0]) == shown(views[1]), plan
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)


@pytest.fixture
def days(spark, tmp_path) -> str:
    """A table in a folder for each of ten days, 1,000 rows each, in order of ``k``."""
    first = date(2024, 1, 1)
    rows = [(first + timedelta(days=day), 1000 * day + k, k % 7) for day in range(10) for k in range(1000)]
    frame = spark.createDataFrame(rows, "day date, k bigint, v int")
    path = str(tmp_path / "days")
    frame.repartition("day").sortWithinPartitions("k").write.partitionBy("day").parquet(path)
    return path


@pytest.mark.parametrize("placement", ["spark", "auto", "driver"])
def test_a_filter_on_a_partition_reads_the_files_of_that_partition(spark, days, placement):
    rows = an.source("rows", "day date, k bigint, v int")
    with an.Session(spark, placement=placement) as session:
        view = session.maintain("v", rows.filter("day >= date'2024-01-09' and v + 1 > 3").group_by("v").agg("count(*)"))
        session.insert("rows", spark.read.parquet(days))
        with scanned(spark) as found:
            session.advance()
        assert found.files == 2
        assert len(view.to_pylist()) == 4
        (said,) = (line for line in session.explain("v").splitlines() if "Spark was asked for" in line)
        day = "day >= DATE '2024-01-09'"  # a sum that may overflow decides nothing but what Spark adds up
        added = f"counts by v where {day} AND (v + 1) > 3"
        assert said.split("asked for ")[1] == (added if placement == "spark" else f"day, v where {day}")


def test_what_any_view_needs_is_read(spark, days):
    """Two days for one view and one for another; a filter that may fail decides nothing."""
    rows = an.source("rows", "day date, k bigint, v int")
    with an.Session(spark, placement="spark") as session:
        session.maintain("a", rows.filter("day >= date'2024-01-09'").select("k"))
        session.maintain("b", rows.filter("day = date'2024-01-01' and 1 div v = 1").select("k"))
        session.insert("rows", spark.read.parquet(days))
        with scanned(spark) as found:
            session.advance()
        assert (found.files, found.rows) == (3, 3000)
    with an.Session(spark, placement="spark") as session:
        session.maintain("c", rows.filter("1 div v = 1 and day = date'2024-01-01'").select("k"))
        session.insert("rows", spark.read.parquet(days))
        with scanned(spark) as found:
            session.advance()
        assert (found.files, found.rows) == (10, 10_000)


def test_rows_that_have_ended_are_not_read(spark, days):
    rows = an.source("rows", "day date, k bigint, v int")
    with an.Session(spark, placement="spark") as session:
        view = session.maintain("v", rows.filter("logical_now() < unix_date(day)").select("k"))
        session.advance(to=19_728)  # 2024-01-06
        session.insert("rows", spark.read.parquet(days))
        session.advance()
        assert len(view.to_pylist()) == 4000


def test_what_is_refused_is_refused_whatever_the_filter(spark):
    """A null where none may be, in a row that no view needs."""
    rows = an.source("rows", "k bigint not null, v int")
    frame = spark.createDataFrame([(1, 1), (None, 2)], "k bigint, v int")
    with an.Session(spark, placement="spark") as session:
        session.maintain("v", rows.filter("v = 1 and k = 1"))
        session.insert("rows", frame)
        with pytest.raises(an.errors.AltneuError, match="column 'k' of source 'rows' is NOT NULL"):
            session.advance()


@pytest.mark.parametrize("placement", ["spark", "auto"])
def test_rows_with_diffs_of_their_own_are_filtered_and_added_up_by_spark(spark, days, placement):
    rows = an.source("rows", "day date, k bigint, v int")
    some = rows.filter("day >= date'2024-01-09' and v + 1 > 3")
    frame = spark.read.parquet(days).selectExpr("*", "if(k % 5 = 0, -1, 1) as often")
    there = [(k, k % 1000 % 7) for k in range(8000, 10_000) if k % 1000 % 7 >= 3 and k % 5]  # twice, the others not
    totals = Counter()
    for k, v in there:
        totals[v] += 2 * k
    plans = {"where": some.select("k", "v"), "counts": some.group_by("v").agg("sum(k) as total")}
    for asked, plan in plans.items():
        with an.Session(spark, placement=placement) as session:
            view = session.maintain("v", plan)
            session.insert("rows", spark.read.parquet(days).where("day >= date'2024-01-09'"))
            session.advance()
            session.insert("rows", frame, diff="often")
            with scanned(spark) as found:
                session.advance()
            assert found.files == 2
            if placement == "spark":
                assert asked in session._engine.executor.jobs.asked["rows"]
                assert (found.into_python < 20_000) == (asked == "counts")  # and not 2,000 rows of four columns
            assert sorted(view.to_pylist()) == sorted(there * 2 if asked == "where" else totals.items())


@pytest.mark.parametrize("summed", [False, True])
def test_a_diff_that_is_refused_is_not_left_to_spark(spark, summed):
    """A null, and of a source to which rows are only added a negative one, whether or not the plan needs its row."""
    rows = an.source("rows", "k bigint, v int", append_only=True).filter("k > 5")
    plan = rows.group_by("v").agg("count(*) as n") if summed else rows
    for often, found in ((None, "is null in row"), (-1, "is append-only"), (-(2**63), "is append-only")):
        frame = spark.createDataFrame([(9, 1, 1), (8, 1, 1), (1, 2, often)], "k bigint, v int, often bigint")
        with an.Session(spark, placement="spark") as session:
            view = session.maintain("v", plan)
            session.insert("rows", frame, diff="often")
            with pytest.raises(an.errors.AltneuError, match=found):
                session.advance()
            session.discard("rows")
            session.insert("rows", frame.where("k > 5"), diff="often")
            session.advance()
            assert sorted(view.to_pylist()) == ([(1, 2)] if summed else [(8, 1), (9, 1)])


def test_rows_of_a_kept_source_are_all_read(spark, days):
    rows = an.source("rows", "day date, k bigint, v int", keep=True)
    with an.Session(spark, placement="spark") as session:
        session.maintain("v", rows.filter("k = 5"))
        session.insert("rows", spark.read.parquet(days))
        session.advance()
        assert len(session.maintain("all", rows).to_pylist()) == 10_000


SUMS = {
    "a decimal": ("p > 0", ["b"], ["sum(p) as x", "count(p) as c", "avg(p) as a", "count(*) as n"]),
    "computed": ("i is not null", ["s"], ["sum(p * (1 - p)) as x", "sum(cast(i as bigint) * 2) as y"]),
    "what may fail": ("n >= -1", ["b"], ["sum(n + 1) as x", "count(i * 2) as c", "sum(n) as y"]),
    "wide": ("b", ["d"], ["sum(p * p * p * p) as x"]),
    "everything": ("b is null or not b", [], ["sum(p) as x", "sum(i) as y", "count(s) as c"]),
    "by what is computed": ("p is not null", ["year(d) as year", "coalesce(s, '-') as text"], ["sum(p + i) as x"]),
    "cases": ("s is not null", ["i"], ["sum(case when s like 'a%' then p * 2 else 0 end) as x", "sum(n div 2) as y"]),
    "floating-point": ("i > 0", ["s"], ["sum(x) as x", "sum(p) as y"]),
    "distinct": ("i > 0", ["s", "b", "y"], []),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("name", SUMS)
def test_sums_that_spark_makes_are_those_that_are_made_here(spark, tmp_path, name, ansi):
    """Errors and all, then retracted row by row, so that every slot comes to nothing."""
    test, keys, calls = SUMS[name]
    rng = random.Random(f"{name}")
    table = pa.concat_tables([rows_at_random(rng, 300)] * 2)
    pq.write_table(table, tmp_path / "rows.parquet")
    rows = an.source("r", SCHEMA).filter(test)
    plan = rows.group_by(*keys).agg(*calls) if calls else rows.select(*keys).distinct()
    before = spark.conf.get("spark.sql.ansi.enabled")
    try:
        spark.conf.set("spark.sql.ansi.enabled", ansi)
        with an.Session() as here, an.Session(spark, placement="spark", shards=3) as there:
            views = [session.maintain("v", plan) for session in (here, there)]
            here.insert("r", table)
            there.insert("r", spark.read.parquet(str(tmp_path / "rows.parquet")))
            here.advance()
            there.advance()
            assert shown(views[0]) == shown(views[1])
            for part in (table.slice(0, 100), table.slice(100)):
                here.retract("r", part)
                here.advance()
                there.retract("r", part)
                there.advance()
                assert shown(views[0]) == shown(views[1])
            nothing = shown(views[0])
            for i, kind in enumerate((pa.int64(), pa.int8())):  # come and go, some often
                diffs = [rng.choice([1, 1, 1, -1, 0, 2, -3]) for _ in range(len(table))]
                pq.write_table(table.append_column("x y", pa.array(diffs, kind)), tmp_path / f"{i}.often")
                for session, rows_of in ((here, pq.read_table), (there, spark.read.parquet)):
                    session.insert("r", rows_of(str(tmp_path / f"{i}.often")), diff="x y")
                    session.advance()
                assert shown(views[0]) == shown(views[1])
                for session, rows_of in ((here, pq.read_table), (there, spark.read.parquet)):
                    session.retract("r", rows_of(str(tmp_path / f"{i}.often")), diff="x y")
                    session.advance()
                assert shown(views[0]) == shown(views[1]) == nothing
            there.retract("r", spark.read.parquet(str(tmp_path / "rows.parquet")))  # counts below zero
            there.insert("r", table)
            there.advance()
            assert shown(views[1]) == nothing
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


TOGETHER = {
    "several views": [
        "SELECT s, count(*) AS c, sum(i) AS x FROM r WHERE i > 0 GROUP BY s",
        "SELECT b, d, sum(p) AS x, count(n) AS c FROM r GROUP BY b, d",
        "SELECT count(*) AS c FROM r WHERE s LIKE 'a%'",
    ],
    "what fails for one": [
        "SELECT b, sum(n + 1) AS x FROM r WHERE n >= -1 GROUP BY b",
        "SELECT s, sum(i) AS x, count(*) AS c FROM r GROUP BY s",
        "SELECT d, count(i * 2) AS c FROM r WHERE i * 2 <> 4 GROUP BY d",
    ],
    "grouping sets": [
        "SELECT s, b, grouping_id() AS g, count(*) AS c, sum(p) AS x FROM r GROUP BY GROUPING SETS ((s, b), (s), ())",
        "SELECT x, i, count(n) AS c FROM r WHERE i IS NOT NULL GROUP BY x, i WITH ROLLUP",
    ],
    "grouping sets of what fails": [
        "SELECT b, i + 1 AS j, sum(n) AS x FROM r WHERE n * 2 <> 2 GROUP BY CUBE (b, i + 1)"
    ],
    "counts of different values": ["SELECT s, count(DISTINCT i) AS c, sum(i) AS x, count(*) AS n FROM r GROUP BY s"],
    "different values of what fails": ["SELECT b, count(DISTINCT i + 1) AS c, sum(n + 1) AS x FROM r GROUP BY b"],
    "wide": [
        "SELECT sum(p * p * p * p) AS x FROM r",
        "SELECT d, sum(p * p * p * p) AS x, sum(p) AS y FROM r GROUP BY d",
    ],
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", TOGETHER)
def test_sums_of_several_kinds_are_made_in_one_look_at_the_rows(spark, tmp_path, name, monkeypatch):
    """By views and grouping sets beside each other, where Spark is to make them; it reads each row once."""
    monkeypatch.setattr("altneu.runtime.spark.sums.TOGETHER", 16)
    table = pa.concat_tables([rows_at_random(random.Random(f"{name}"), 300)] * 2)
    pq.write_table(table, tmp_path / "rows.parquet")
    with an.Session() as here, an.Session(spark, placement="spark", shards=3) as there:
        views = []
        for session in (here, there):
            session.sql("CREATE SOURCE r (" + SCHEMA.replace(",", ", ") + ")")
            for i, text in enumerate(TOGETHER[name]):
                session.sql(f"CREATE MATERIALIZED VIEW v{i} AS {text}")
            views.append([session.view(f"v{i}") for i in range(len(TOGETHER[name]))])
        here.insert("r", table)
        there.insert("r", spark.read.parquet(str(tmp_path)))
        with scanned(spark) as found:
            there.advance()
        here.advance()
        assert "counts" in there._engine.executor.jobs.asked["r"]
        assert found.rows == table.num_rows
        assert [shown(v) for v in views[0]] == [shown(v) for v in views[1]]
        for part in (table.slice(0, 100), table.slice(100)):
            for session in (here, there):
                session.retract("r", part)
                session.advance()
            assert [shown(v) for v in views[0]] == [shown(v) for v in views[1]]


@pytest.mark.parametrize("summed", [False, True])
def test_spark_may_find_that_there_are_no_rows(spark, tmp_path, summed):
    """Then it leaves out its count of them with the rest of its plan: as it plans, or while the job runs."""
    rows = an.source("rows", "k bigint, v int").filter("k > 5")
    plan = rows.group_by("v").agg("count(*) as n") if summed else rows
    frame = spark.createDataFrame([(1, 1), (2, 1)], "k bigint, v int")
    frame.write.parquet(str(tmp_path / "rows"))
    with an.Session(spark, placement="spark") as session:
        view = session.maintain("v", plan)
        for nothing in (frame.where("false"), frame, spark.read.parquet(str(tmp_path / "rows")).distinct()):
            session.insert("rows", nothing)
            session.advance()
            session.insert("rows", nothing.selectExpr("*", "-1 as often"), diff="often")
            session.advance()
            assert view.to_pylist() == []
            assert "Spark was asked" in session.explain("v", analyze=True)


def test_columns_may_have_any_names(spark):
    """Dots and backticks too, in what is read and in what is added up."""
    frame = spark.createDataFrame([(1, 2), (1, 3)], "`a.b` bigint, `c``d` bigint")
    rows = an.source("rows", "`a.b` bigint, `c``d` bigint")
    for plan, wanted in ((rows.group_by("`a.b`").agg("sum(`c``d`) as x"), [(1, 5)]), (rows, [(1, 2), (1, 3)])):
        with an.Session(spark, placement="spark") as session:
            view = session.maintain("v", plan)
            session.insert("rows", frame)
            session.advance()
            assert sorted(view.to_pylist()) == wanted


def test_what_is_refused_is_refused_by_sums_too(spark):
    rows = an.source("rows", "k bigint not null, v decimal(5,2)")
    frame = spark.createDataFrame([(1, Decimal("1.5")), (None, Decimal(2))], "k bigint, v decimal(5,2)")
    with an.Session(spark, placement="spark") as session:
        view = session.maintain("v", rows.group_by("k").agg("sum(v) as total"))
        session.insert("rows", frame)
        with pytest.raises(an.errors.AltneuError, match="column 'k' of source 'rows' is NOT NULL"):
            session.advance()
        session.discard("rows")
        session.insert("rows", frame.where("k is not null"))
        session.advance()
        assert [tuple(row.values()) for row in view.to_arrow().to_pylist()] == [(1, Decimal("1.50"))]


def test_rows_that_spark_adds_up_do_not_come_to_python(spark, days):
    rows = an.source("rows", "day date, k bigint, v int")
    with an.Session(spark, placement="spark") as session:
        view = session.maintain("v", rows.filter("day >= date'2024-01-09'").group_by("v").agg("sum(k * 2) as total"))
        session.insert("rows", spark.read.parquet(days))
        with scanned(spark) as found:
            session.advance()
        assert (found.files, found.rows) == (2, 2000)
        assert found.into_python < 20_000  # and not 2,000 rows of three columns, as often as there are stages
        wanted = Counter()
        for k in range(8000, 10_000):
            wanted[k % 1000 % 7] += 2 * k
        assert dict(view.to_pylist()) == wanted
        asked = "Spark was asked for counts and sums of k * 2L by v where day >= DATE '2024-01-09'"
        assert asked in session.explain("v", analyze=True)


def test_a_closed_time_is_refused_at_once_whatever_number_says_it(spark, days):
    """Sums that Spark makes are never looked at for the time of their rows."""
    rows = an.source("rows", "day date, k bigint, v int")
    with an.Session(spark, placement="spark") as session:
        session.maintain("v", rows.group_by("v").agg("count(*) as n"))
        session.advance(to=5)
        for time in (3, np.int64(3)):
            with pytest.raises(an.errors.BeforeFrontierError, match="time 3 is closed: the session's lower is 5"):
                session.insert("rows", spark.read.parquet(days), time=time)
