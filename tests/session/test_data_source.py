"""The data source: Spark reads views and their changes from a store that a session goes on writing."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from collections import Counter

import pyarrow as pa
import pytest

import altneu as an
from tests.session.test_reader import accumulate

EDGES = an.source("edges", "src long, dst long, w string")


def load(spark, path, view, **options):
    reader = spark.read.format("altneu").option("view", view)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(path))


def rows(frame) -> Counter:
    return Counter(map(tuple, frame.collect()))


def start(spark, path, view, checkpoint, sink, **options):
    stream = spark.readStream.format("altneu").option("view", view).option("mode", "changes")
    for name, value in options.items():
        stream = stream.option(name, value)
    writer = stream.load(str(path)).writeStream.option("checkpointLocation", str(checkpoint))
    return sink(writer).trigger(availableNow=True).start()


def test_contents_at_times_and_changes(spark, tmp_path):
    with an.Session(path=tmp_path, shards=3, retain=5) as session:
        view = session.maintain("the `view` is\tnamed", EDGES)
        for step in range(4):
            session.insert("edges", [(step, i, "x" * (i % 3)) for i in range(200)])
            session.retract("edges", [(step - 1, 0, ""), (step - 1, 1, "x")] if step else [])
            session.advance()
        frame = load(spark, tmp_path, view.name)
        assert frame.rdd.getNumPartitions() == 3
        assert rows(frame) == Counter(view.to_pylist())
        assert rows(load(spark, tmp_path, view.name, at=1)) == Counter(view.to_pylist(1))
        assert rows(load(spark, tmp_path, view.name, columns="w,src").where("src = 3")) == Counter(
            (w, src) for src, _, w in view.to_pylist() if src == 3
        )
        last = load(spark, tmp_path, view.name, mode="changes", timeColumn="t", diffColumn="d")
        assert last.columns == ["src", "dst", "w", "t", "d"]
        assert rows(last) == Counter(tuple(r.values()) for r in view.changes().to_pylist())
        since = load(spark, tmp_path, view.name, mode="changes", since=0, until=2)
        assert rows(since) == Counter(tuple(r.values()) for r in view.changes(since=0, until=2).to_pylist())
        session.advance(to=100)
        session._journal.store.vacuum(keep=1)
        assert rows(frame) == Counter(view.to_pylist())  # its lease keeps what it was planned upon


EVERY_TYPE = pa.schema(
    [
        ("b", pa.bool_()), ("i8", pa.int8()), ("i16", pa.int16()), ("i32", pa.int32()), ("i64", pa.int64()),
        ("f", pa.float32()), ("g", pa.float64()), ("d", pa.decimal128(20, 3)), ("s", pa.string()), ("y", pa.binary()),
        ("day", pa.date32()), ("ts", pa.timestamp("us", "UTC")), ("ntz", pa.timestamp("us")), ("du", pa.duration("us")),
        ("l", pa.list_(pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]))),
        ("m", pa.map_(pa.string(), pa.int32())), pa.field("must", pa.int64(), nullable=False),
    ]
)  # fmt: skip


def test_every_type_passes(spark, tmp_path):
    now = dt.datetime(2013, 1, 1, 12, 30, tzinfo=dt.UTC)
    row = (
        True, 1, 2, 3, 4, 0.5, 0.25, decimal.Decimal("1.250"), "ä", b"\x00", now.date(), now, now.replace(tzinfo=None),
        dt.timedelta(seconds=1), [{"a": 1, "b": ["x", None]}, None], [("k", 1)], 7,
    )  # fmt: skip
    with an.Session(path=tmp_path) as session:
        view = session.maintain("v", an.source("s", EVERY_TYPE))
        session.insert("s", [row, (*[None] * 16, 8)])
        session.advance()
        found = sorted(load(spark, tmp_path, "v").toArrow().to_pylist(), key=lambda r: r["must"])
        assert found == sorted(view.to_arrow().to_pylist(), key=lambda r: r["must"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"view": "nope"}, "no view 'nope'; the views are: 'v'"),
        ({"view": "v", "columns": "src,nope"}, "no column 'nope' \\(in view v\\)"),
        ({"view": "v", "at": "soon"}, "at='soon' is no whole number from 0 on"),
        ({"view": "v", "color": "red"}, "unknown option 'color' of format altneu"),
        ({"view": "v", "mode": "changes", "at": 1}, 'option "at" is of contents'),
        ({}, "format altneu needs"),
    ],
)
def test_what_is_refused(spark, tmp_path, options, said):
    with an.Session(path=tmp_path) as session:
        session.maintain("v", EDGES)
        session.advance()
        with pytest.raises(Exception, match=said):
            spark.read.format("altneu").options(**options).load(str(tmp_path)).collect()


def test_errors_raise_unless_they_are_ignored(spark, tmp_path):
    with an.Session(path=tmp_path) as session:
        session.maintain("v", EDGES.select("src", share="100 div dst"))
        session.maintain("negative", EDGES)
        session.insert("edges", [(1, 0, ""), (2, 10, "")])
        session.retract("edges", [(3, 10, "")])
        session.advance()
        with pytest.raises(Exception, match="view 'v' has 1 error"):
            load(spark, tmp_path, "v").collect()
        assert rows(load(spark, tmp_path, "v", errors="ignore")) == Counter([(2, 10)])
        with pytest.raises(Exception, match="NEGATIVE_MULTIPLICITY"):
            load(spark, tmp_path, "negative").collect()
        assert rows(load(spark, tmp_path, "negative", errors="ignore")) == Counter([(1, 0, ""), (2, 10, "")])
        assert (3, 10, "", 0, -1) in rows(load(spark, tmp_path, "negative", mode="changes"))


def test_a_stream_into_files_and_functions_while_the_writer_goes_on(spark, tmp_path):
    """Parquet files by checkpoint, and foreachBatch, each stopped and started again between steps of the writer."""
    chance = random.Random(5)
    state, out, marks, mine = (tmp_path / name for name in ("state", "out", "marks", "mine"))
    batches: dict[int, list] = {}

    def to_parquet(writer):
        return writer.format("parquet").option("path", str(out))

    def take(frame, number):
        batches[number] = [row.asDict() for row in frame.collect()]

    with an.Session(path=state, shards=2) as session:
        view = session.maintain("degrees", EDGES.group_by("src").agg(n="count(*)"))
        for step in range(12):
            for _ in range(chance.randrange(4)):
                edge = (chance.randrange(5), chance.randrange(5), "")
                session.insert("edges", [edge]) if chance.random() < 0.7 else session.insert("edges", [edge] * 2)
                session.advance()
            if step % 3 == 0:
                to_files = start(
                    spark,
                    state,
                    "degrees",
                    marks,
                    lambda w: w.format("parquet").option("path", str(out)),
                    maxRowsPerBatch=3,
                )
                to_function = start(spark, state, "degrees", mine, lambda w: w.foreachBatch(take), timeColumn="t")
                for query in (to_files, to_function):
                    query.awaitTermination()
                expected = Counter(view.to_pylist())
                assert accumulate(spark.read.parquet(str(out)).toArrow()) == expected
                together = [{k: v for k, v in row.items() if k != "t"} for rows in batches.values() for row in rows]
                assert accumulate(pa.Table.from_pylist(together)) == expected if together else not expected
    assert len(batches) > 2
