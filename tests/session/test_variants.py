"""VARIANT columns through everything that rows go through: stores, Arrow, Spark, Python, keys, sinks, error rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

import altneu as an
from altneu import types as T
from altneu.errors import PlanError, SchemaError, SinkError
from altneu.expressions.variants.binary import Reader, Variant, encoded
from altneu.expressions.variants.text import json_text

TEXTS = an.source("texts", "k int, s string", keep=True)
EVENTS = an.source("events", "k int, v variant", keep=True)
ONE, OTHER = encoded(1), encoded([True, None])


def shown(rows):
    """Rows with their variants as documents."""
    return sorted(tuple(json_text(Reader(**v)) if isinstance(v, dict) else v for v in row) for row in rows)


def test_a_view_of_variants_is_maintained_and_opened_again(tmp_path):
    parsed = TEXTS.select("k", v="parse_json(s)")
    with an.Session(path=tmp_path / "s") as session:
        view = session.maintain("parsed", parsed)
        counts = session.maintain("counts", parsed.group_by(kind="schema_of_variant(v)").agg(n="count(*)"))
        session.insert("texts", [(1, '{"b": 1, "a": [2.50]}'), (2, "null"), (2, "null"), (3, None)])
        session.advance()
        session.retract("texts", [(2, "null")])
        session.insert("texts", [(4, "[")])
        session.advance()
        assert shown(view.to_pylist(errors="ignore")) == [(1, '{"a":[2.5],"b":1}'), (2, "null"), (3, None)]
        assert [row["code"] for row in view.errors().to_pylist()] == ["MALFORMED_RECORD_IN_PARSING"]
        session.retract("texts", [(4, "[")])
        session.advance()
        assert sorted(counts.to_pylist(), key=str) == [
            ("OBJECT<a: ARRAY<DECIMAL(2,1)>, b: BIGINT>", 1),
            ("VOID", 1),
            (None, 1),
        ]
    with an.Session(path=tmp_path / "s") as session:
        view = session.maintain("parsed", parsed)
        assert view.to_arrow().schema.field("v").type == T.VARIANT
        found = session.sql("SELECT k, v:a[0]::double AS a FROM parsed WHERE k = 1").to_pylist()
        assert found == [(1, 2.5)]


def test_variants_are_inserted_and_retracted_as_they_are():
    with an.Session() as session:
        view = session.maintain("all", EVENTS)
        session.insert("events", [(1, ONE), (1, OTHER), (2, None)])
        session.insert("events", pa.table({"k": pa.array([3], pa.int32()), "v": pa.array([ONE._asdict()], T.VARIANT)}))
        session.advance()
        session.retract("events", [(1, OTHER), (3, ONE)])
        session.advance()
        assert shown(view.to_pylist()) == [(1, "1"), (2, None)]


def test_bytes_that_are_no_variant_are_error_rows():
    with an.Session() as session:
        view = session.maintain("texts", EVENTS.select("k", s="cast(v as string)", valid="is_valid_variant(v)"))
        nested = session.maintain("nested", EVENTS.select("k", j="to_json(struct(v))"))
        session.insert("events", [(1, ONE), (2, Variant(b"\x03\x01", b"\x01\x00\x00"))])
        session.advance()
        for one in (view, nested):
            assert len(one.to_pylist(errors="ignore")) == 1
            assert [row["code"] for row in one.errors().to_pylist()] == ["MALFORMED_VARIANT"]


@pytest.mark.parametrize(
    "made",
    [
        EVENTS.distinct,
        EVENTS.count,
        lambda: EVENTS.group_by("v").agg(n="count(*)"),
        lambda: EVENTS.group_by().agg(n="count(distinct v)"),
        lambda: EVENTS.group_by().agg(n="min(v)"),
        lambda: EVENTS.group_by().agg(n="collect_set(v)"),
        lambda: EVENTS.top_k(1, by="v"),
        lambda: EVENTS.join(EVENTS, on="v"),
        lambda: EVENTS.semijoin(EVENTS, on="v"),
        lambda: EVENTS.latest(key="v", order="k"),
        lambda: EVENTS.latest(key="k", order="v"),
        lambda: EVENTS.window(n="row_number() over (partition by v order by k)"),
        lambda: EVENTS.window(n="row_number() over (order by v)"),
    ],
)
def test_keys_are_refused(made):
    with pytest.raises(PlanError, match="variant"):
        made()


@pytest.mark.parametrize(
    "text",
    [
        "select distinct v from events",
        "select v, count(*) from events group by v",
        "select * from events order by v limit 1",
        "select * from events a join events b on a.v = b.v",
        "select * from events a join events b using (v)",
        "select k, v from events union select k, v from events",
        "select k, v from events except select k, v from events",
        "select k, v from events except all select k, v from events",
        "select k, v from events intersect select k, v from events",
        "select k from events where v in (select v from events)",
        "select max(v) from events",
    ],
)
def test_keys_are_refused_in_queries(text):
    with an.Session() as session:
        session.maintain("all", EVENTS)
        with pytest.raises(PlanError, match="variant"):
            session.sql(text)


def test_what_has_no_variants_refuses_them(tmp_path):
    with an.Session() as session:
        view = session.maintain("all", EVENTS)
        with pytest.raises(SchemaError, match="variant, which Delta tables do not have"):
            an.sinks.delta(view, str(tmp_path / "t"), mode="append")
        with pytest.raises(SinkError, match="JSON is not read as variant"):
            an.sinks.feed(view, str(tmp_path / "t"))
    with pytest.raises(PlanError, match="variant"):
        TEXTS.json("s", "v variant")


def test_spark_takes_variants_and_gives_them(spark):
    frame = spark.sql(
        'select * from values (1, parse_json(\'{"b": [1, null], "a": "x"}\')), (2, parse_json(\'null\')), '
        "(2, parse_json('null')), (3, null) as t(k, v)"
    )
    with an.Session(spark, placement="spark", shards=2) as session:
        rows = session.maintain("rows", EVENTS)
        lists = session.maintain("lists", EVENTS.group_by("k").agg(all="collect_list(v)"))
        parts = session.maintain("parts", EVENTS.select("k", a="v:a", z="variant_set(v, '$.z', k)").filter("k = 1"))
        session.insert("events", frame)
        session.advance()
        assert [f.dataType for f in rows.df().schema] == [f.dataType for f in frame.schema]
        texts = sorted(map(tuple, rows.df().selectExpr("k", "to_json(v)").collect()), key=str)
        assert texts == sorted(map(tuple, frame.selectExpr("k", "to_json(v)").collect()), key=str)
        assert lists.df().schema["all"].dataType.simpleString() == "array<variant>"
        assert parts.df().selectExpr("a::string", "to_json(z)").collect() == [("x", '{"a":"x","b":[1,null],"z":1}')]
