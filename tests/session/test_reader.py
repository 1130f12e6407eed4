"""Reading a store beside its writer."""

from __future__ import annotations

import json
import random
import uuid
from collections import Counter

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import altneu as an
from altneu.errors import HistoryGoneError, NotYetKnownError, PlanError, ReadError, SinkError, StoreError
from altneu.store import LocalFolder, forget_segments
from pyspark_altneu.options import Options
from pyspark_altneu.stream import ChangeReader
from tests.session.reader_cases import accumulate

ORDERS = an.source("orders", "item string, price long")
TOTAL = ORDERS.group_by("item").agg(total="sum(price)")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state"


def test_a_reader_stays_at_its_commit_until_refreshed(path):
    with an.Session(path=path) as session:
        session.maintain("total", TOTAL)
        with an.read(path) as reader:
            view = reader.view("total")
            for step in range(120):
                session.insert("orders", [("tea", 1)])
                session.advance()
                session._engine.journal.store.vacuum(keep=1)
                if step % 7 == 0:
                    forget_segments()
                    assert reader.refresh()
                    assert view.to_pylist() == [("tea", step + 1)]
                    assert reader.lower == step + 1
                before = 7 * (step // 7) + 1
                assert view.to_pylist() == [("tea", before)]


def test_changes_are_there_for_a_reader_that_requested_them(path):
    chance = random.Random(3)
    with an.Session(path=path) as session:
        view = session.maintain("v", ORDERS)
        session.insert("orders", [("tea", 1)])
        session.advance()
        with an.read(path, since=0) as reader:
            mine = reader.view("v")
            for _ in range(40):
                session.insert(
                    "orders", [(chance.choice("abc"), chance.randrange(3), chance.choice((-1, 1)))], diff="d"
                )
                session.advance()
            reader.refresh()
            every = mine.changes(since=0)
            assert accumulate(every, [("tea", 1)]) == accumulate_contents(view)
            for since in range(40):
                net = mine.changes(since=since, net=True)
                assert accumulate(net) == accumulate(mine.changes(since=since))
                assert net.column_names == ["item", "price", "diff"]
            reader.hold(30)
            session.advance()
            reader.refresh()
            assert mine.since == 30
            gone = pytest.raises(HistoryGoneError, match="29 are no longer retained: view 'v' has them since 30")
            with an.read(path, lease=None) as other, gone:
                other.view("v").changes(since=29)
            with pytest.raises(NotYetKnownError, match="since=42 is not closed yet"):
                mine.changes(since=42)
        session.advance()
        assert view.since == 42


def accumulate_contents(view):
    actual = view._read(None, "ignore")
    return Counter(dict(zip(actual.rows.to_pylist(), actual.diffs.tolist(), strict=True)))


def test_a_step_on_its_way_that_had_not_seen_the_lease(path):
    """Its commit tells what it changed, and the lease keeps that commit."""
    with an.Session(path=path) as session:
        session.maintain("v", ORDERS)
        session.insert("orders", [("a", 0)])
        session.advance()
        for at in range(1, 60, 6):
            session.insert("orders", [("b", at)])
            session._engine.times.since_after, own = (lambda upper: upper - 1), session._engine.times.since_after
            reader = an.read(path, since=at - 1)  # the step was computed without a look at it
            session.advance()
            session._engine.times.since_after = own
            for later in range(1, 6):
                session.insert("orders", [("c", at + later)])
                session.advance()
            session._engine.journal.store.vacuum(keep=1)
            reader.refresh()
            assert reader.view("v").since == at
            actual = reader.view("v").changes(since=at - 1).to_pylist()
            assert sorted((r["time"], r["item"], r["price"]) for r in actual) == [
                (at, "b", at),
                *((at + n, "c", at + n) for n in range(1, 6)),
            ]
            reader.close()


def test_messages_of_a_reader(path):
    with pytest.raises(StoreError, match="there is no store in"):
        an.read(path)
    with an.Session(path=path) as session:
        view = session.maintain("not an identifier", ORDERS)
        session.advance()
        with an.read(path, lease=None) as reader:
            assert reader.views == ["not an identifier"]
            assert reader.view("not an identifier").schema == view.schema
            with pytest.raises(PlanError, match="no view 'v'"):
                reader.view("v")


def test_a_store_that_went_back_is_another_history(path, tmp_path):
    """Readers see it, subscriptions end, sinks compare, streams and files of changes refuse."""
    with an.Session(path=path) as session:
        session.maintain("v", ORDERS)
        for at in range(6):
            session.insert("orders", [("x", at)])
            session.advance()
    reader = an.read(path)
    seen = reader.view("v").subscribe(lambda *_: None)
    table = an.sinks.parquet(reader.view("v"), tmp_path / "table")
    changes = an.sinks.parquet(reader.view("v"), tmp_path / "changes", mode="append")
    assert table.run() == changes.run() == 6
    stream = ChangeReader(Options.of({"path": str(path), "view": "v", "mode": "changes"}))
    offset = stream.latestOffset(stream.initialOffset(), ReadAllAvailable())
    newest = max((path / "log").iterdir())
    newest.write_bytes(newest.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="was damaged and went back"):
        session = an.Session(path=path, recover=True)
    with session:
        session.maintain("v", ORDERS)
        with pytest.raises(HistoryGoneError, match="went back to an earlier commit after damage"):
            reader.refresh()
        assert seen.closed
        assert reader.lower == 5
        session.insert("orders", [("y", 5)])
        session.advance()
        session.insert("orders", [("y", 6)])
        session.advance()
        reader.refresh()
        assert table.run() == 3  # one that went, two that came
        assert Counter(table.contents().rows.to_pylist()) == Counter(session.view("v").to_pylist())
        with pytest.raises(SinkError, match="holds the changes of another store"):
            changes.run()
        with pytest.raises(ReadError, match="it went back to an earlier commit after damage"):
            stream.latestOffset(offset, ReadAllAvailable())
    stream.stop()
    reader.close()


def test_on_an_object_store(s3):
    url = f"s3://tests/{uuid.uuid4().hex}"
    with an.Session(path=url, storage_options=s3) as session:
        view = session.maintain("v", ORDERS)
        session.insert("orders", [(f"item {i}", i) for i in range(3000)])
        session.advance()
        with an.read(url, since=0, storage_options=s3) as reader:
            before = Counter(view.to_pylist())
            for at in range(4):
                session.insert("orders", [("later", at)])
                session.advance()
                session._engine.journal.store.vacuum(keep=1)
            forget_segments()
            assert Counter(reader.view("v").to_pylist()) == before
            assert reader.refresh()
            assert reader.view("v").changes(since=0).num_rows == 4
            assert Counter(reader.view("v").to_pylist()) == Counter(view.to_pylist())
        session.advance()
        assert view.since == 5
        options = {"path": url, "view": "v", "mode": "changes", "storageOptions": json.dumps(s3)}
        stream = ChangeReader(Options.of(options))
        start = stream.initialOffset()
        parts = stream.partitions(start, stream.latestOffset(start, ReadAllAvailable()))
        assert sum(rows.num_rows for part in parts for rows in stream.read(part)) == 3004
        stream.stop()


def test_where_nothing_can_be_written_a_reader_does_without_a_lease(path, monkeypatch):
    with an.Session(path=path) as session:
        session.maintain("v", ORDERS)
        session.insert("orders", [("x", 1)])
        session.advance()

    def put(self, name, *_, **__):
        raise StoreError(f"cannot write {name}: Read-only file system")

    monkeypatch.setattr(LocalFolder, "put", put)
    with pytest.raises(
        StoreError, match="Read-only file system; this failed when the reader wrote its lease: lease=None reads without"
    ):
        an.read(path)
    assert an.read(path, lease=None).view("v").to_pylist() == [("x", 1)]
