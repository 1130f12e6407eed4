"""TIME columns through everything that rows go through: stores, Arrow, Spark, JSON, Python, sinks."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

import altneu as an
from altneu import types as T
from altneu.errors import SchemaError
from altneu.expressions.column import lit

T1, T2, LAST = dt.time(9, 30), dt.time(12, 0, 0, 500_000), dt.time(23, 59, 59, 999_999)
EVENTS = an.source("events", "k int, at time", keep=True)


def test_a_view_of_times_is_maintained_and_opened_again(tmp_path):
    daily = EVENTS.group_by("at").agg(n="count(*)", first="min(k)")
    with an.Session(path=tmp_path / "s") as session:
        view = session.maintain("daily", daily)
        session.insert("events", [(1, T1), (2, T1), (3, LAST), (4, None)])
        session.advance()
        session.retract("events", [(1, T1)])
        session.insert("events", pa.table({"k": [5], "at": pa.array([T2], pa.time64("ns"))}))
        session.advance()
        before = sorted(view.to_pylist(), key=str)
    assert before == sorted([(T1, 1, 2), (T2, 1, 5), (LAST, 1, 3), (None, 1, 4)], key=str)
    with an.Session(path=tmp_path / "s") as session:
        view = session.maintain("daily", daily)
        session.insert("events", [(0, LAST)])
        session.advance()
        assert (LAST, 2, 0) in view.to_pylist()
        assert view.to_arrow().schema.field("at").type == T.TIME
        found = session.sql("SELECT at, n FROM daily WHERE at >= TIME '12:00' ORDER BY at").to_pylist()
        assert found == [(T2, 1), (LAST, 2)]


def test_half_a_microsecond_is_no_time():
    with an.Session() as session:
        session.maintain("all", EVENTS)
        with pytest.raises(SchemaError, match="does not fit"):
            session.insert("events", pa.table({"k": [5], "at": pa.array([1], pa.int64()).cast(pa.time64("ns"))}))


def test_another_day_is_an_error_row():
    with an.Session() as session:
        view = session.maintain("later", EVENTS.select("k", later="at + interval 1 hour"))
        session.insert("events", [(1, T1), (2, LAST)])
        session.advance()
        assert view.to_pylist(errors="ignore") == [(1, dt.time(10, 30))]
        assert [row["code"] for row in view.errors().to_pylist()] == ["DATETIME_OVERFLOW"]


def test_times_are_read_from_json_and_compared_with_python_s():
    texts = an.source("texts", "body string")
    read = texts.json("body", "k int, at time").filter(an.col("at") > lit(T1))
    with an.Session() as session:
        view = session.maintain("read", read)
        session.insert("texts", [('{"k": 1, "at": "9:30"}',), ('{"k": 2, "at": "12:00:00.5"}',), ('{"at": "25:00"}',)])
        session.advance()
        assert [row[-1] for row in view.to_pylist(errors="ignore")] == [T2]
        assert [row["code"] for row in view.errors().to_pylist()] == ["JSON_TYPE"]


def test_other_precisions_are_refused_by_name():
    with pytest.raises(SchemaError, match=r"time\(3\) is not supported"):
        T.parse_schema("at time(3)")
    with pytest.raises(an.errors.PlanError, match=r"time\(0\) is not supported"):
        EVENTS.select("cast(at as time(0)) as at")


def test_what_has_no_times_refuses_them(tmp_path):
    with an.Session() as session:
        view = session.maintain("all", EVENTS)
        with pytest.raises(SchemaError, match="time"):
            an.sinks.delta(view, str(tmp_path / "t"), mode="append")


def test_spark_takes_times_and_gives_them(spark):
    frame = spark.createDataFrame([(1, T1), (2, LAST), (3, None)], "k int, at time")
    with an.Session(spark, placement="spark", shards=2) as session:
        view = session.maintain("latest", EVENTS.group_by().agg(last="max(at)", all="collect_set(at)"))
        rows = session.maintain("rows", EVENTS)
        session.insert("events", frame)
        session.advance()
        assert view.df().collect()[0]["last"] == LAST
        assert sorted(view.df().collect()[0]["all"]) == [T1, LAST]
        assert sorted(map(tuple, rows.df().collect()), key=str) == sorted(map(tuple, frame.collect()), key=str)
        assert rows.df().schema == frame.schema
