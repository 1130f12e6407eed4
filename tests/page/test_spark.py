"""What the page tells of Spark."""

from __future__ import annotations

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

import altneu as an


@pytest.fixture
def served(spark):
    """A session on Spark whose steps are jobs, and who asks its page."""
    numbers = an.source("n", "k long, v long")
    with an.Session(spark, placement="spark") as session:
        session.maintain("sums", numbers.group_by("k").agg(total="sum(v)"))
        session.maintain("all", numbers.select("k", "v", twice="v * 2"))
        with session.serve() as page, httpx.Client(base_url=page.url, timeout=60) as client:
            yield session, client


def test_jobs_and_the_rows_that_spark_counted(spark, served):
    session, client = served
    session.insert("n", spark.range(5_000).selectExpr("id % 10 AS k", "id AS v"))
    session.insert("n", spark.range(70).selectExpr("id % 10 AS k", "id AS v"))
    step = session.advance()
    assert step.placement == "spark"
    answer = client.get("api/jobs").json()
    assert answer["count"] >= 1
    assert 0 < answer["seconds"] <= step.seconds
    assert answer["read"] == {"n": 5_070}
    assert answer["last"][-1]["title"].startswith("altneu step")
    text = client.get("metrics").text
    actual = {s.name: s.value for family in text_string_to_metric_families(text) for s in family.samples}
    assert actual["altneu_spark_rows_read_total"] == 5_070
    assert actual["altneu_spark_jobs_total"] == answer["count"]


def test_views_that_tasks_have_written_are_read(spark, served):
    session, client = served
    session.insert("n", spark.range(3_000).selectExpr("id % 10 AS k", "id AS v"))
    session.advance()
    rows = client.get("api/rows", params={"view": "sums"}).json()
    assert sorted(map(tuple, rows["rows"])) == sorted(session.view("sums").to_pylist())
    assert client.get("api/rows", params={"view": "all"}).json()["selected"] == 3_000
    (change,) = client.get("api/changes", params={"view": "all"}).json()["changes"]
    assert (change["total"], len(change["rows"])) == (3_000, 500)
    answer = client.post("api/sql", json={"text": "SELECT sum(total) AS s FROM sums"})
    assert answer.json()["rows"] == [[3_000 * 2_999 // 2]]


def test_streams_that_are_followed(spark, served, tmp_path):
    session, client = served
    folder = tmp_path / "in"
    spark.range(100).selectExpr("id % 10 AS k", "id AS v").write.parquet(str(folder))
    stream = spark.readStream.schema("k long, v long").parquet(str(folder))
    with session.follow(n=stream, available_now=True) as following:
        following.wait(120)
    (answer,) = client.get("api/streams").json()["streams"]
    assert (answer["name"], answer["active"], answer["batches"], answer["rows"]) == ("n", False, 1, 100)
    assert answer["spark"]["numInputRows"] == 100
    assert answer["error"] is None
    text = client.get("metrics").text
    assert 'altneu_stream_rows_total{stream="n"} 100.0' in text
    assert client.get("api/sources").json()["sources"][0]["stream"] is True
