"""The data source: Spark reads views and their changes from a store that a session goes on writing."""

from __future__ import annotations

import datetime as dt
import decimal
import inspect
from collections import Counter

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

import altneu as an
from altneu.errors import AltneuError, HistoryGoneError, ViewHasErrorsError
from altneu.runtime.spark.versions import STREAMS_SINCE, version_of
from altneu.store import forget_segments
from pyspark_altneu import DefaultSource
from tests.session.reader_cases import accumulate

HAS_STREAMS = version_of(pyspark.__version__) >= STREAMS_SINCE
IN_UTC = {"timezone": "UTC"} if "timezone" in inspect.signature(to_arrow_schema).parameters else {}  # before 4.1 always
EDGES = an.source("edges", "src long, dst long, w string")


def load(spark, path, view, **options):
    reader = spark.read.format("altneu").option("view", view)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(str(path))


def rows(frame) -> Counter:
    return Counter(map(tuple, frame.collect()))


def stream(spark, path, view, **options):
    reader = spark.readStream.format("altneu").option("view", view).option("mode", "changes")
    return reader.options(**options).load(str(path)).writeStream


def here(path, view, **options) -> Counter:
    """What the tasks of a read would give Spark, read in this process."""
    given = {"path": str(path), "view": view, **{name: str(value) for name, value in options.items()}}
    source = DefaultSource(given)
    reader = source.reader(source.schema())
    result = Counter()
    for part in reader.partitions():
        for batch in reader.read(part):
            assert batch.schema == to_arrow_schema(source.schema(), **IN_UTC)
            result.update(tuple(row.values()) for row in batch.to_pylist())
    return result


def test_spark_reads_contents_and_changes(spark, tmp_path):
    with an.Session(path=tmp_path, shards=3) as session:
        view = session.maintain("the `view` is\tnamed", EDGES)
        for step in range(2):
            session.insert("edges", [(step, i, "x" * (i % 3)) for i in range(200)])
            session.advance()
        frame = load(spark, tmp_path, view.name)
        assert frame.rdd.getNumPartitions() == 3
        assert rows(load(spark, tmp_path, view.name, columns="w,src").where("src = 1")) == Counter(
            (w, src) for src, _, w in view.to_pylist() if src == 1
        )
        session.maintain("nothing", EDGES.filter("src > 7"))
        assert load(spark, tmp_path, "nothing").collect() == []
        last = load(spark, tmp_path, view.name, mode="changes", timeColumn="t", diffColumn="d")
        assert last.columns == ["src", "dst", "w", "t", "d"]
        assert rows(last) == Counter(tuple(r.values()) for r in view.changes().to_pylist())
        before = Counter(view.to_pylist())
        session.retract("edges", [(1, 1, "x")])
        session.advance(to=100)
        session._engine.journal.store.vacuum(keep=1)
        assert rows(frame) == before  # its lease keeps what it was planned upon
        with pytest.raises(Exception, match="no view 'nope'; the views are: 'the `view` is"):
            load(spark, tmp_path, "nope")


def test_times_and_columns(tmp_path):
    with an.Session(path=tmp_path, shards=3, retain=5) as session:
        view = session.maintain("v", EDGES)
        for step in range(4):
            session.insert("edges", [(step, i, "x" * (i % 3)) for i in range(20)])
            session.retract("edges", [(step - 1, 0, ""), (step - 1, 1, "x")] if step else [])
            session.advance()
        for at in range(4):
            assert here(tmp_path, "v", at=at) == Counter(view.to_pylist(at))
        assert here(tmp_path, "v") == Counter(view.to_pylist())
        assert here(tmp_path, "v", columns='["w"]') == Counter((w,) for *_, w in view.to_pylist())
        for since, until in ((0, 2), (-1, 3), (2, 2), (3, 3)):
            actual = here(tmp_path, "v", mode="changes", since=since, until=until)
            assert actual == Counter(tuple(r.values()) for r in view.changes(since=since, until=until).to_pylist())
        assert len(list((tmp_path / "readers").iterdir())) <= 2  # reads of one commit share a lease


def test_both_of_two_times(tmp_path):
    with an.Session(path=tmp_path, retain=5) as session:
        view = session.maintain("v", an.source("two", "item string", time=("known", "about")))
        for about in range(4):
            session.insert("two", [("a", about)], time="about")
            session.advance()
        for at in ((1, 0), (3, 1), (None, 2)):
            assert here(tmp_path, "v", at=f"{'' if at[0] is None else at[0]}, {at[1]}") == Counter(view.to_pylist(at))
        assert here(tmp_path, "v", mode="changes") == Counter([("a", 3, 3, 1)])


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
        actual = sorted(load(spark, tmp_path, "v").toArrow().to_pylist(), key=lambda r: r["must"])
        assert actual == sorted(view.to_arrow().to_pylist(), key=lambda r: r["must"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": "src,nope"}, r"no column 'nope' \(in view v\)"),
        ({"columns": "src,src"}, "names no column, or one twice"),
        ({"columns": "[1]"}, "must be a JSON list of names"),
        ({"at": "soon"}, "at must be a whole number of at least 0, got 'soon'"),
        ({"at": "1,"}, "at='1,' is neither a time nor two of them"),
        ({"at": "7"}, "at=7 is not closed yet"),
        ({"color": "red"}, "unknown option 'color' of format altneu; the options are: at, columns"),
        ({"mode": "sideways"}, "option mode must be one of 'contents', 'changes', got 'sideways'"),
        ({"mode": "changes", "at": 1}, 'option "at" is of contents'),
        ({"mode": "changes", "until": 0}, 'option "until" needs "since"'),
        ({"mode": "changes", "timeColumn": "src"}, "the view has a column 'src'; name the control columns"),
        ({"since": 0}, 'are of .option\\("mode", "changes"\\)'),
        ({"lease": "for ever"}, "lease must be a span of at least a second.*got 'for ever'"),
        ({"storageOptions": "[]"}, "storageOptions is a JSON object"),
        ({"storageOptions": '{"a": 1}'}, "has no storage_options"),
        ({"view": ""}, 'format altneu needs .option\\("view", "reach"\\)'),
    ],
)
def test_what_is_refused(tmp_path, options, said):
    with an.Session(path=tmp_path) as session:
        session.maintain("v", EDGES)
        session.advance()
    with pytest.raises(AltneuError, match=said):
        here(tmp_path, **{"view": "v", **options})


def test_errors_raise_unless_they_are_ignored(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.maintain("v", EDGES.select("src", share="100 div dst"))
        session.maintain("negative", EDGES)
        session.insert("edges", [(1, 0, ""), (2, 10, "")])
        session.retract("edges", [(3, 10, "")])
        session.advance()
        with pytest.raises(ViewHasErrorsError, match="view 'v' has 1 error"):
            here(tmp_path, "v")
        assert here(tmp_path, "v", errors="ignore") == Counter([(2, 10)])
        with pytest.raises(ViewHasErrorsError, match="NEGATIVE_MULTIPLICITY"):
            here(tmp_path, "negative")
        assert here(tmp_path, "negative", errors="ignore") == Counter([(1, 0, ""), (2, 10, "")])
        assert here(tmp_path, "negative", mode="changes")[3, 10, "", 0, -1] == 1


def test_a_task_that_starts_too_late_gets_an_error(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.maintain("v", EDGES)
        session.insert("edges", [(i, i, "x" * 100) for i in range(5000)])
        session.advance()
        source = DefaultSource({"path": str(tmp_path), "view": "v"})
        reader = source.reader(source.schema())
        parts = reader.partitions()
        for segment in (tmp_path / "segments").iterdir():
            segment.unlink()  # as vacuum does when its time has come
        forget_segments()
        with pytest.raises(HistoryGoneError, match="the reader's lease has expired"):
            list(reader.read(parts[0]))


@pytest.mark.skipif(not HAS_STREAMS, reason="this Spark's streams do not say where a batch begins")
def test_a_stream_into_parquet_files_while_a_session_of_the_same_application_advances(spark, tmp_path):
    """Stopped and started again in between: what the files accumulate to is the view."""
    state, out = tmp_path / "state", tmp_path / "out"

    def into_files(**options):
        writer = stream(spark, state, "degrees", **options).format("parquet").option("path", str(out))
        return writer.option("checkpointLocation", str(tmp_path / "marks"))

    with an.Session(spark, path=state, shards=2) as session:
        view = session.maintain("degrees", EDGES.group_by("src").agg(n="count(*)"))
        session.insert("edges", [(1, 1, "")])
        session.advance()
        query = into_files().start()
        for at in range(3):
            session.insert("edges", [(at, 1, ""), (5, at, "")])
            session.advance()
        query.processAllAvailable()
        assert accumulate(spark.read.parquet(str(out)).toArrow()) == Counter(view.to_pylist())
        query.stop()
        for at in range(3):
            session.insert("edges", [(at, 2, "")])
            session.retract("edges", [(5, at, "")])
            session.advance()
        into_files(maxRowsPerBatch=4).trigger(availableNow=True).start().awaitTermination()
        actual = spark.read.parquet(str(out)).toArrow()
        assert accumulate(actual) == Counter(view.to_pylist())
        assert set(actual["time"].to_pylist()) >= {4, 5, 6}  # each at its own


@pytest.mark.skipif(not HAS_STREAMS, reason="this Spark's streams do not say where a batch begins")
def test_a_batch_that_failed_is_given_again_the_same(spark, tmp_path):
    batches: dict[int, list[Counter]] = {}

    def take(frame, number):
        batches.setdefault(number, []).append(Counter(map(tuple, frame.collect())))
        if number == 1 and len(batches[1]) == 1:
            raise RuntimeError("after its effect, before Spark knows of it")

    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("v", EDGES)
        for at in range(2):
            session.insert("edges", [(at, at, "x")])
            session.advance()
            writer = stream(spark, tmp_path / "state", "v", timeColumn="t").foreachBatch(take)
            query = writer.option("checkpointLocation", str(tmp_path / "marks")).trigger(availableNow=True).start()
            if at == 0:
                query.awaitTermination()
            else:
                with pytest.raises(Exception, match="after its effect, before Spark knows of it"):
                    query.awaitTermination()
        session.insert("edges", [(7, 7, "later")])
        session.advance()
        writer.trigger(availableNow=True).start().awaitTermination()
        assert batches[1][0] == batches[1][1] == Counter([(1, 1, "x", 1, 1)])
        assert sum((seen[-1] for seen in batches.values()), Counter()) == Counter(
            [(0, 0, "x", 0, 1), (1, 1, "x", 1, 1), (7, 7, "later", 2, 1)]
        )
        assert Counter(view.to_pylist()) == Counter([(0, 0, "x"), (1, 1, "x"), (7, 7, "later")])


@pytest.mark.skipif(HAS_STREAMS, reason="this Spark has such streams")
def test_a_stream_is_refused_by_an_older_spark(spark, tmp_path):
    with an.Session(path=tmp_path) as session:
        session.maintain("v", EDGES)
        session.advance()
        with pytest.raises(Exception, match=r"must be run by Spark 4\.2 or newer"):
            stream(spark, tmp_path, "v").format("noop").start().awaitTermination()


def test_a_view_without_contents_has_changes_to_be_read(tmp_path):
    with an.Session(path=tmp_path, shards=2, retain="all") as session:
        session.maintain("v", EDGES, contents=False)
        for k in range(3):
            session.insert("edges", [(k, 0, "x")])
            session.advance()
        with pytest.raises(AltneuError, match="contents=False"):
            here(tmp_path, "v")
        assert here(tmp_path, "v", mode="changes") == {(2, 0, "x", 2, 1): 1}
        assert here(tmp_path, "v", mode="changes", since=-1) == {(k, 0, "x", k, 1): 1 for k in range(3)}
