"""Sessions on Spark: DataFrames in and out, failures of sources and tasks, where steps run and what travels."""

from __future__ import annotations

import os
import threading
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import (
    BeforeFrontierError,
    DiffOverflowError,
    ReadError,
    SchemaError,
    SourceFailedError,
    ViewHasErrorsError,
)
from altneu.runtime import local
from altneu.runtime.spark import executor as spark_executor
from altneu.runtime.spark.versions import to_arrow
from altneu.runtime.spark.wire import open_message
from tests.interrupts import interrupted_when
from tests.oracle.histories import accumulated
from tests.oracle.operators_cases import HISTORY, TIMES
from tests.oracle.queries import SOURCES, queries
from tests.oracle.recompute import recompute
from tests.oracle.runners import contents_of, table_of, unlike

N = an.source("n", "k long, v long")
PLACEMENTS = ["spark", "driver", "auto"]


def contents(view):
    return Counter(view.to_pylist())


@pytest.fixture(params=PLACEMENTS)
def session(request, spark):
    with an.Session(spark, placement=request.param) as session:
        yield session


@pytest.fixture
def remote(spark):
    with an.Session(spark, placement="spark") as session:
        yield session


# DataFrames in --------------------------------------------------------------------------------------------------------


def test_a_dataframe_goes_in_with_times_and_diffs(session, spark):
    view = session.maintain("v", N)
    frame = spark.createDataFrame(
        [(2, 1, 20, 0), (1, 1, 10, 0), (1, 2, 10, 5), (3, 1, 30, 9)], "k int, n int, v long, t int"
    )
    session.insert("n", frame, time="t", diff="n")
    step = session.advance(to=6)
    assert session._engine.placement in ("auto", step.placement)
    assert step.changes_in == 4
    assert contents(view) == Counter({(1, 10): 3, (2, 20): 1})
    session.retract("n", frame.where("k = 1").drop("t"), diff="n")
    session.insert("n", [(7, 7)])
    session.advance(to=10)
    assert contents(view) == Counter([(2, 20), (3, 30), (7, 7)])


def test_a_dataframe_is_checked_before_it_is_read(session, spark):
    view = session.maintain("v", N)
    with pytest.raises(SchemaError, match="lacks column 'v'; it has: k"):
        session.insert("n", spark.range(3).toDF("k"))
    with pytest.raises(SchemaError, match="'v' of source 'n' is bigint, but the data has string"):
        session.insert("n", spark.createDataFrame([(1, "x")], "k long, v string"))
    with pytest.raises(SchemaError, match=r"diff='d' is not a column|lacks column 'd'"):
        session.insert("n", spark.createDataFrame([(1, 2)], "k long, v long"), diff="d")
    assert session.advance().changes_in == 0
    assert contents(view) == Counter()


def test_rows_of_a_dataframe_that_come_too_late_commit_nothing(session, spark):
    view = session.maintain("v", N)
    session.advance(to=3)
    session.insert("n", spark.createDataFrame([(1, 1, 3), (2, 2, 2)], "k long, v long, t long"), time="t")
    with pytest.raises(BeforeFrontierError, match="has time 2, but times before 3 are closed"):
        session.advance()
    assert session.lower == 3
    session.discard("n")
    session.insert("n", spark.createDataFrame([(1, 1)], "k long, v long"))
    session.advance()
    assert contents(view) == Counter([(1, 1)])


def test_a_null_where_none_is_allowed_commits_nothing(session, spark):
    view = session.maintain("v", an.source("x", "x long not null"))
    session.insert("x", spark.createDataFrame([(1,), (None,)], "x long"))
    with pytest.raises(SchemaError, match="'x' of source 'x' is NOT NULL"):
        session.advance()
    session.discard()
    session.insert("x", [1])
    session.advance()
    assert view.to_pylist() == [(1,)]


def failing_frames(spark):
    from pyspark.sql.functions import udf

    @udf("long")
    def fragile(n):
        if n == 777:
            raise ValueError("row 777 is broken")
        return n

    rows = spark.range(0, 1000, 1, 4)
    return {
        "row 777 is broken": rows.select(rows.id.alias("k"), fragile("id").alias("v")),
        "DIVIDE_BY_ZERO": rows.selectExpr("id as k", "1000 div (id - 777) as v"),
    }


@pytest.mark.parametrize("message", ["row 777 is broken", "DIVIDE_BY_ZERO"])
def test_a_dataframe_that_fails_half_way_commits_nothing(session, spark, message):
    view, total = session.maintain("v", N), session.maintain("t", N.group_by().agg(n="count(*)"))
    session.insert("n", [(1, 1)])
    session.advance()
    state = session.advance().state_rows
    session.insert("n", [(2, 2)])
    session.insert("n", failing_frames(spark)[message])
    for _ in range(2):
        with pytest.raises(SourceFailedError, match=f"(?s)DataFrame inserted into 'n' failed.*{message}.*discard"):
            session.advance()
        assert session.lower == 2
        assert contents(view) == Counter([(1, 1)])
        assert total.to_pylist() == [(1,)]
    session.discard("n")
    assert session.advance().state_rows == state
    session.insert("n", spark.createDataFrame([(3, 3)], "k long, v long"))
    session.advance()
    assert contents(view) == Counter([(1, 1), (3, 3)])
    assert total.to_pylist() == [(2,)]


# DataFrames out -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("large", [False, True])
def test_a_view_is_a_dataframe(spark, monkeypatch, large):
    """Small views come from the driver; large ones are read by tasks."""
    from altneu.engine import engine as sessions

    monkeypatch.setattr(sessions, "READ_ROWS", 0 if large else 1000)
    source = an.source("all", "k long, s string, d date, xs array<double>, t timestamp")
    with an.Session(spark, placement="spark", retain="all") as session:
        view = session.maintain("v", source)
        rows = spark.range(5).selectExpr("id as k", "cast(id as string) s", "date_add('2020-01-01', cast(id as int)) d",
                                         "array(id / 2, null) xs", "timestamp_seconds(id) t")  # fmt: skip
        session.insert("all", rows.union(rows.where("k = 2")))
        session.advance()
        session.retract("all", rows.where("k > 2"))
        session.advance()
        now, then = view.df(), view.df(at=0)
        assert now.schema.simpleString() == rows.schema.simpleString()
        assert sorted(now.collect()) == sorted(rows.where("k < 3").union(rows.where("k = 2")).collect())
        assert sorted(then.collect()) == sorted(rows.union(rows.where("k = 2")).collect())
        assert now.groupBy("k").count().where("count = 2").collect() == [(2, 2)]


@pytest.mark.parametrize("large", [False, True])
def test_a_dataframe_of_a_view_with_errors_is_refused(remote, monkeypatch, large):
    from altneu.engine import engine as sessions

    monkeypatch.setattr(sessions, "READ_ROWS", 0 if large else 1000)
    view = remote.maintain("v", N.select("k", x="10 div v"))
    remote.insert("n", [(1, 0), (2, 5)])
    remote.advance()
    with pytest.raises(ViewHasErrorsError, match="DIVIDE_BY_ZERO"):
        view.df()
    assert view.df(errors="ignore").collect() == [(2, 2)]
    with pytest.raises(ReadError):
        view.df(at=1)


# steps on Spark -------------------------------------------------------------------------------------------------------


def test_a_function_that_raises_on_one_row_of_many_loses_that_row_only(remote, spark):
    def fragile(row):
        if row.v == 123_456:
            raise ValueError("not this one")
        return row.k, row.v

    view = remote.maintain("v", N.map(fragile, "k long, v long").group_by("k").agg(n="count(*)", total="sum(v)"))
    remote.insert("n", spark.range(200_000).selectExpr("id % 10 as k", "id as v"))
    assert remote.advance().changes_in == 200_000
    (error,) = view.errors().to_pylist()
    assert (error["code"], error["message"], error["row"]) == (
        "PYTHON_EXCEPTION", "ValueError: not this one", '{"k": 6, "v": 123456}'
    )  # fmt: skip
    remote.retract("n", spark.createDataFrame([(6, 123_456)], "k long, v long"))
    remote.advance()
    wanted = {k: (20_000, sum(range(k, 200_000, 10))) for k in range(10)}
    wanted[6] = (19_999, wanted[6][1] - 123_456)
    assert {k: (n, total) for k, n, total in view.to_pylist()} == wanted


def test_an_overflowing_diff_keeps_its_class_on_the_way_from_a_task(remote, spark):
    view = remote.maintain("v", N.join(N, on="k"))
    remote.insert("n", [(1, 1)], diff=2**40)
    for _ in range(2):
        with pytest.raises(DiffOverflowError):
            remote.advance()
        assert remote.lower == 0
    remote.discard()
    remote.insert("n", [(1, 1)])
    remote.advance()
    assert view.to_pylist() == [(1, 1, 1)]


@pytest.mark.parametrize("frames", [True, False])
def test_sums_that_spark_makes_are_those_of_the_rows(remote, spark, frames):
    """Where all that reads a source is one sum or count, Spark adds up first; nobody can tell."""
    source = an.source("s", "k double, v long, w short")
    plan = source.group_by("k").agg(n="count(*)", m="count(v)", total="sum(v)", mean="avg(w)")
    view = remote.maintain("v", plan)
    big = "case when id % 7 = 0 then null when id % 5 = 0 then 9223372036854775807 - id else id - 500 end"
    keys = "case id % 6 when 0 then null when 1 then double('nan') when 2 then -0.0D when 3 then 0.0D else id % 6 end"
    rows = spark.range(0, 3000, 1, 3).selectExpr(f"{keys} as k", f"{big} as v", "cast(id % 100 - 50 as short) as w")
    remote.insert("s", rows if frames else to_arrow(rows))
    assert remote.advance().changes_in == 3000
    local = an.Session()
    wanted = local.maintain("v", plan)
    local.insert("s", to_arrow(rows))
    local.advance()
    assert contents_of(view) == contents_of(wanted)
    assert {e["row"] for e in view.errors().to_pylist()} == {e["row"] for e in wanted.errors().to_pylist()}
    remote.retract("s", rows)
    remote.advance()
    assert view.to_pylist() == []


def test_large_rows_do_not_pass_through_the_driver(remote, spark):
    """What the tasks of a step send to the driver says what they made, and is no larger for more rows."""
    view = remote.maintain("v", N.filter("v % 2 = 0").select("k", half="v div 2"))
    rows = 1_000_000
    before = set(stages(spark))
    remote.insert("n", spark.range(rows).selectExpr("id % 100 as k", "id as v"))
    step = remote.advance()
    assert (step.placement, step.changes_in, step.changes_out["v"]) == ("spark", rows, rows // 2)
    sent = {i: size for i, size in stages(spark).items() if i not in before}
    assert 0 < sum(sent.values()) < 1_000_000
    assert view.df().count() == rows // 2


def stages(spark) -> dict[int, int]:
    """Bytes of results that each stage has sent to the driver."""
    context = spark.sparkContext
    no_quantiles = context._gateway.new_array(context._jvm.double, 0)
    actual = context._jsc.sc().statusStore().stageList(None, False, False, no_quantiles, None)
    return {actual.apply(i).stageId(): actual.apply(i).resultSize() for i in range(actual.size())}


def test_jobs_and_stages_have_readable_names(remote, spark):
    remote.maintain("v", N.filter("v > 0").join(N.select("k", w="v"), on="k").group_by("w").agg(n="count(*)"))
    remote.insert("n", spark.range(10).selectExpr("id as k", "id as v"))
    remote.advance()
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    ours = [executions.apply(i) for i in range(executions.size())]
    ours = [e for e in ours if "altneu step [0] to [1]" in e.description()]
    plan = ours[-1].physicalPlanDescription()
    for name in ("read n", "stage 1: ", "arrange by k", "join on k", "stage 2: ", "group by w"):
        assert name in plan, plan
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None


def reach_of(edges, roots):
    def step(x):
        return x.join(edges, on={"node": "src"}).select(node="dst").concat(roots).distinct()

    return roots.iterate(step)


EDGES, ROOTS = an.source("edges", "src long, dst long"), an.source("roots", "node long")


def test_rounds_have_readable_names(remote, spark):
    remote.maintain("v", reach_of(EDGES, ROOTS))
    remote.insert("roots", [(0,)])
    remote.insert("edges", spark.range(4).selectExpr("id as src", "id + 1 as dst"))
    assert remote.advance().placement == "spark"
    store = spark._jsparkSession.sharedState().statusStore()
    actual = [store.executionsList().apply(i).description() for i in range(store.executionsList().size())]
    for at in range(5):
        name = f"altneu step [0] to [1], round {at} of the loop over x: "
        assert any(text.startswith(name) and "x of the round before" in text for text in actual), actual


@pytest.mark.parametrize("placement", ["spark", "auto"])
def test_rows_in_a_loop_do_not_pass_through_the_driver(spark, monkeypatch, placement):
    """Edges in a DataFrame, messages between large rounds: files of the store, of which the driver learns the names."""
    read = []
    monkeypatch.setattr(spark_executor, "DRIVER_ROWS", 1000)
    monkeypatch.setattr(local, "open_message", lambda *given: read.append(given[2].rows) or open_message(*given))
    chains, length = 50_000, 4
    edges = spark.range(chains * length).selectExpr("id as src", f"if(id < {chains * 3}, id + {chains}, id) as dst")
    with an.Session(spark, placement=placement) as session:
        view = session.maintain("v", reach_of(EDGES, ROOTS).group_by("node % 7 as m").agg(n="count(*)"))
        before = set(stages(spark))
        session.insert("edges", edges)
        session.insert("roots", spark.range(chains).selectExpr("id as node"))
        assert session.advance().placement == "spark"
        sent = {i: size for i, size in stages(spark).items() if i not in before}
        assert 0 < sum(sent.values()) < 1_000_000
        assert sum(read) <= (0 if placement == "spark" else 1000), read
        assert sum(n for _, n in view.to_pylist()) == chains * length
        session.retract("edges", [(0, chains)])
        assert session.advance().placement == ("spark" if placement == "spark" else "driver")
        assert sum(n for _, n in view.to_pylist()) == chains * length - 3


def test_a_round_that_makes_too_much_for_the_driver_runs_again_on_spark(spark, monkeypatch):
    monkeypatch.setattr(spark_executor, "DRIVER_MATCHES", 5000)
    with an.Session(spark) as session:
        view = session.maintain("v", reach_of(EDGES, ROOTS))
        session.insert("roots", [(0,)])
        session.insert("edges", [(0, 1), *((1, i) for i in range(2, 20_000))])
        assert session.advance().placement == "spark"
        assert len(view.to_pylist()) == 20_000
        session.retract("edges", [(1, 7)])
        assert session.advance().placement == "driver"
        assert len(view.to_pylist()) == 19_999


def test_a_job_leaves_the_users_settings_alone(session, spark):
    settings = {*spark.sql("SET").collect()}
    session.maintain("v", N.distinct())
    session.insert("n", spark.range(3).selectExpr("id as k", "id as v"))
    session.advance()
    assert {*spark.sql("SET").collect()} == settings


def test_auto_places_each_step_by_its_size(spark, monkeypatch):
    monkeypatch.setattr(spark_executor, "DRIVER_ROWS", 100)
    monkeypatch.setattr(spark_executor, "DRIVER_MATCHES", 5000)
    with an.Session(spark) as session:
        view = session.maintain("v", N.join(N, on="k").group_by("k").agg(n="count(v)", m="count(`right.v`)"))
        placed = []
        for rows in (3, 200, 3, 60):  # the last makes more matches than the driver takes
            session.insert("n", [(1, i) for i in range(rows)])
            placed.append(session.advance().placement)
        assert placed == ["driver", "spark", "driver", "spark"]
        assert view.to_pylist() == [(1, 266**2, 266**2)]


def test_a_store_goes_from_spark_to_a_plain_machine_and_back(spark, tmp_path):
    plan = N.join(N.distinct(), on="k").group_by("k").agg(n="count(*)", most="max(v)")
    for i, where in enumerate((spark, None, spark, None)):
        with an.Session(where, tmp_path, **({"placement": "spark"} if where else {})) as session:
            view = session.maintain("v", plan)
            session.insert("n", [(k, i) for k in range(10)])
            session.advance()
            assert contents(view) == Counter((k, (i + 1) ** 2, i) for k in range(10))
            assert session.shards == 2


def test_views_maintained_late_are_computed_on_spark(spark):
    names = ["self-join", "full join", "collect", "default row", "top_k", "sums of floats", "errors above aggregates"]
    plans = {name: queries()[name] for name in names}
    with an.Session(spark, placement="spark") as session:
        for source, collection in SOURCES.items():
            session.maintain(f"all of {source}", collection)
        for lower, upper in ((0, 3), (3, TIMES)):
            for source, collection in SOURCES.items():
                part = [u for u in HISTORY[source] if lower <= u[1] < upper]
                session.insert(source, table_of(part, collection), time="time", diff="diff")
            session.advance(to=upper)
            for name, plan in plans.items():
                view = session.maintain(name, plan)
                held = {s: accumulated(u, upper - 1) for s, u in HISTORY.items()}
                wanted = Counter({row: n for row, n in recompute(plan.node, held)[0].items() if n > 0})
                assert unlike(contents_of(view), wanted) == {}, name


# interrupts and threads -----------------------------------------------------------------------------------------------


def test_a_worker_maps_a_segment_once(remote, spark):
    """Arrangements stay mapped in a worker from stage to stage and from job to job."""
    view = remote.maintain("v", N.join(N, on="k").select("k", "v"))
    remote.insert("n", spark.range(60_000).selectExpr("id % 20000 k", "id v"))
    remote.advance()
    for i in range(4):
        remote.insert("n", [(j, -i) for j in range(50)])
        assert remote.advance().placement == "spark"
    assert view.df().count() == 180_000 + sum(50 * ((3 + i + 1) ** 2 - (3 + i) ** 2) for i in range(4))

    def seen(batches):
        for _ in batches:
            pass
        from altneu.store import segments

        actual = segments._mapped.cache_info()
        answer = {"pid": os.getpid(), "hits": actual.hits, "misses": actual.misses, "kept": actual.currsize}
        yield pa.RecordBatch.from_pylist([answer])

    schema = "pid long, hits long, misses long, kept long"
    answer = {row.pid: row for _ in range(3) for row in spark.range(0, 2, 1, 2).mapInArrow(seen, schema).collect()}
    assert all(row.misses == row.kept for row in answer.values())  # none was mapped a second time
    assert sum(row.misses for row in answer.values()) > 0
    assert sum(row.hits for row in answer.values()) > 0


def test_an_interrupt_cancels_the_job_and_leaves_the_session_usable(remote, spark, tmp_path):
    from pyspark.sql.functions import udf

    marker = str(tmp_path / "started")

    @udf("long")
    def slow(n):
        Path(marker).touch()
        threading.Event().wait(60)
        return n

    view = remote.maintain("v", N)
    remote.insert("n", spark.range(0, 2, 1, 2).select("id", slow("id").alias("v")).withColumnRenamed("id", "k"))
    started = threading.Event()

    def watch():
        while not Path(marker).exists() and not started.is_set():
            threading.Event().wait(0.02)
        started.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    with pytest.raises(KeyboardInterrupt), interrupted_when(started):
        remote.advance()
    watcher.join()
    assert remote.lower == 0
    remote.discard()
    remote.insert("n", [(1, 1)])
    remote.advance()
    assert contents(view) == Counter([(1, 1)])
    tracker = spark.sparkContext.statusTracker()
    assert not tracker.getActiveJobsIds()
