"""Delta tables that follow views: equal after every run, exactly once, whoever writes beside."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections import Counter

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from s3fs import S3FileSystem

import altneu as an
from altneu.errors import SchemaError, SinkError, UnknownColumnError
from faults.delta_tables import follow

EVENTS = an.source("events", "k long, name string, v double")
LAST = EVENTS.group_by("k").agg(n="count(*)", total="sum(v)")
NAMES = ["a", None, "ä'\"?%", ""]
MODES = ["upsert", "merge", "append"]


def rows(chance):
    return [(chance.choice([None, *range(6)]), chance.choice(NAMES), chance.choice([0.5, float("nan"), None]))] * 2


def step(session, chance):
    for _ in range(3):
        session.insert("events", rows(chance))
    kept = session.view("all").to_pylist() if session.lower else []
    session.retract("events", chance.sample(kept, min(len(kept), chance.randrange(6))))
    session.advance(to=session.lower + chance.randrange(1, 3))


def comparable(row):
    return tuple("NaN" if str(value) == "nan" else value for value in row)


def shown(view):
    return Counter(map(comparable, view.to_pylist()))


def table(path):
    return [tuple(row.values()) for row in pa.table(DeltaTable(path).scan()).to_pylist()]


def counted(path):
    """The rows of a table by mode merge, or the sum of a log of changes."""
    result = Counter()
    merged = "row_count" in DeltaTable(path).schema().to_json()
    for *row, last in table(path):
        result[comparable(row if merged else row[:-1])] += last
        assert not merged or last > 0
    return Counter({row: n for row, n in result.items() if n})


def keyed(path):
    return Counter(map(comparable, table(path)))


def open_session(path, **settings):
    session = an.Session(path=path, **settings)
    session.maintain("all", EVENTS)
    session.maintain("last", LAST)
    return session


def sinks(session, folder, **options):
    everything, last = session.view("all"), session.view("last")
    return [
        (an.sinks.delta(last, folder / "u", key=["k"], partition_by=["n"], **options), keyed),
        (an.sinks.delta(everything, folder / "m", partition_by=["k"], **options), counted),
        (an.sinks.delta(everything, folder / "a", mode="append", **options), counted),
    ]


@pytest.mark.parametrize("seed", range(2))
def test_every_table_follows_its_view_across_sessions_and_pauses(tmp_path, seed):
    chance = random.Random(seed)
    for _ in range(3):
        with open_session(tmp_path / "state") as session:
            for _ in range(3):
                step(session, chance)
                for sink, read in sinks(session, tmp_path):
                    if chance.random() < 0.7:
                        sink.run()
                        assert read(sink._path) == shown(sink.view), sink.where
                        assert sink.run() == 0
                        if chance.random() < 0.2:
                            DeltaTable(sink._path).optimize.compact()


@pytest.mark.parametrize("seed", range(2))
def test_a_table_has_rows_as_often_as_the_view(tmp_path, seed):
    """Copies come and go, across sessions, pauses and history that is gone; of two sinks one is refused."""
    chance = random.Random(seed)
    for turn in range(3):
        with open_session(tmp_path / "state") as session:
            made = [
                an.sinks.delta(session.view("all"), tmp_path / "r", mode="rows", partition_by=["k"], lease=1)
                for _ in range(2)
            ]
            for _ in range(3):
                step(session, chance)
                if chance.random() < 0.7:
                    made[0].run()
                    assert keyed(tmp_path / "r") == shown(session.view("all"))
                    assert made[1].run() == 0
                    assert [f.name for f in DeltaTable(tmp_path / "r").schema().fields] == ["k", "name", "v"]
        if turn == 1:
            (tmp_path / "state" / "readers").rename(tmp_path / "gone")


def test_copies_that_another_program_took_are_missed(tmp_path):
    with open_session(None) as session:
        sink = an.sinks.delta(session.view("all"), tmp_path / "r", mode="rows")
        session.insert("events", [(1, "a", 0.5)] * 3)
        session.advance()
        assert sink.run() == 1
        session.retract("events", [(1, "a", 0.5)] * 2)
        session.advance()
        DeltaTable(tmp_path / "r").delete()
        with pytest.raises(SinkError, match="cannot be in a table"):
            sink.run()


def test_a_run_is_one_version_and_none_if_there_is_nothing(tmp_path):
    with open_session(None) as session:
        created = sinks(session, tmp_path)
        attached = [sink.attach() for sink, _ in created]
        for i in range(1, 4):
            session.insert("events", [(i, "a", 1.0)])
            session.advance()
            assert [DeltaTable(sink._path).version() for sink, _ in created] == [i] * 3
        session.insert("events", [(9, "b", 1.0)])
        session.retract("events", [(9, "b", 1.0)])
        session.advance()  # nothing changes but the mark
        assert [DeltaTable(sink._path).version() for sink, _ in created] == [4] * 3
        for sink, read in created:
            assert read(sink._path) == shown(sink.view)
            assert sink.run() == 0
        for each in attached:
            each.close()
        assert [DeltaTable(sink._path).version() for sink, _ in created] == [4] * 3


def test_one_column_may_be_given_by_its_name(tmp_path):
    with an.Session() as session:
        view = session.maintain("last", LAST)
        session.insert("events", [(1, "a", 0.5), (2, "b", 1.5)])
        session.advance()
        sink = an.sinks.delta(view, tmp_path / "delta", key="k", partition_by="k")
        assert (sink.key, sink.run()) == (("k",), 2)
        assert DeltaTable(tmp_path / "delta").metadata().partition_columns == ["k"]
        assert an.sinks.parquet(view, tmp_path / "parquet", mode="upsert", key="k").run() == 2
        with pytest.raises(SinkError, match="partition_by names 'day', which is no column"):
            an.sinks.delta(view, tmp_path / "other", partition_by="day")
        with pytest.raises(UnknownColumnError, match="no column 'kk'"):
            an.sinks.delta(view, tmp_path / "other", key="kk")


def test_missing_history_is_replaced_by_a_comparison(tmp_path):
    chance = random.Random(3)
    with open_session(tmp_path / "state") as session:
        step(session, chance)
        for sink, _ in sinks(session, tmp_path, lease=1):
            sink.run()
    (tmp_path / "state" / "readers").rename(tmp_path / "gone")
    with open_session(tmp_path / "state") as session:
        step(session, chance)
        step(session, chance)
        created = sinks(session, tmp_path)
        for sink, read in created[:2]:
            assert sink.run() > 0
            assert read(sink._path) == shown(sink.view)
    with open_session(tmp_path / "other") as session:  # the view of another store
        step(session, chance)
        created = sinks(session, tmp_path)
        for sink, read in created[:2]:
            sink.run()
            assert read(sink._path) == shown(sink.view)
            assert sink.run() == 0
        with pytest.raises(SinkError, match="holds the changes of another store"):
            created[2][0].run()
    with open_session(tmp_path / "state") as session:  # and the first again, whose time is later than the other's
        for sink, read in sinks(session, tmp_path)[:2]:
            sink.run()
            assert read(sink._path) == shown(sink.view)


@pytest.mark.parametrize("mode", MODES)
def test_two_sinks_on_one_table(tmp_path, mode, monkeypatch):
    """Of two that write at once one is refused, and then finds that all is there."""
    options = {"mode": mode, "key": ["k"] if mode == "upsert" else ()}
    name = "last" if mode == "upsert" else "all"
    chance = random.Random(4)
    with open_session(tmp_path / "state", retain="all") as session:
        step(session, chance)
        one, two = (an.sinks.delta(session.view(name), tmp_path / "t", **options) for _ in range(2))
        assert one.run() > 0
        assert two.run() == 0
        for empty in (False, True):
            session.advance() if empty else step(session, chance)
            rows = type(two)._rows

            def late(self, updates, rows=rows):
                monkeypatch.setattr(type(two), "_rows", rows)
                one.run()  # between the other's mark and its commit
                return rows(self, updates)

            monkeypatch.setattr(type(two), "_rows", late)
            with pytest.raises(SinkError, match="was written by another process meanwhile; run again"):
                two.run()
            assert two.run() == 0
            read = keyed if mode == "upsert" else counted
            assert read(tmp_path / "t") == shown(session.view(name))


@pytest.mark.parametrize("written", [False, True])
def test_two_sinks_create_a_table_at_once(tmp_path, written, monkeypatch):
    with open_session(None) as session:
        session.insert("events", [(1, "a", 1.0), (1, "a", 1.0)])
        session.advance()
        one, two = (an.sinks.delta(session.view("all"), tmp_path / "t") for _ in range(2))
        create = type(two)._create

        def late(self, before):
            monkeypatch.setattr(type(two), "_create", create)
            one.run() if written else create(one, None)
            create(self, before)

        monkeypatch.setattr(type(two), "_create", late)
        if written:
            with pytest.raises(SinkError, match="was written by another process meanwhile; run again"):
                two.run()
        assert two.run() == (0 if written else 1)
        assert counted(tmp_path / "t") == shown(session.view("all"))


def test_a_compaction_beside_is_no_obstacle(tmp_path, monkeypatch):
    with open_session(None) as session:
        sink = an.sinks.delta(session.view("last"), tmp_path / "t", key=["k"])
        for i in range(3):
            session.insert("events", [(i, "a", 1.0)])
            session.advance()
            sink.run()
        session.insert("events", [(1, "a", 2.0)])
        session.advance()
        merge = type(sink)._merge

        def late(self, rows, properties):
            monkeypatch.setattr(type(sink), "_merge", merge)
            DeltaTable(tmp_path / "t").optimize.compact()
            merge(self, rows, properties)

        monkeypatch.setattr(type(sink), "_merge", late)
        assert sink.run() == 2
        assert keyed(tmp_path / "t") == shown(session.view("last"))


def test_a_reader_during_a_merge_sees_one_version(tmp_path):
    with open_session(None, retain="all") as session:
        sink = an.sinks.delta(session.view("last"), tmp_path / "t", key=["k"])
        session.insert("events", [(k, "a", 1.0) for k in range(20)])
        session.advance()
        sink.run()
        reader = DeltaTable(tmp_path / "t")
        scanned = reader.scan()
        session.insert("events", [(k, "a", 2.0) for k in range(10, 30)])
        session.advance()
        sink.run()
        assert len(pa.table(scanned)) == 20
        for version in range(DeltaTable(tmp_path / "t").version() + 1):
            at = DeltaTable(tmp_path / "t", version)
            frontier = at.transaction_version("altneu/to")
            there = {tuple(row.values()) for row in at.to_pyarrow_table().to_pylist()}
            assert there == (set() if frontier is None else {*session.view("last").to_pylist(at=frontier - 1)})


def test_a_session_follows_what_another_keeps(tmp_path):
    """The changes of a table with a change feed go on into a second session."""
    chance = random.Random(8)
    kept = an.source("last", "k long, n long, total double")
    with open_session(None) as one, an.Session() as two:
        view = two.maintain("tops", kept.group_by("n").agg(keys="count(*)"))
        properties = {"delta.enableChangeDataFeed": "true"}
        sink = an.sinks.delta(one.view("last"), tmp_path / "t", key=["k"], configuration=properties)
        for _ in range(4):
            step(one, chance)
            sink.run()
            follow(two, tmp_path / "t", "last")
            sizes = Counter(n for _, n, _ in one.view("last").to_pylist())
            assert dict(view.to_pylist()) == sizes
        assert (tmp_path / "t" / "_change_data").exists()


@pytest.fixture
def storage():
    """deltalake's options of an S3 in another process: deltalake holds this one's lock while it asks."""
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = str(chosen.getsockname()[1])
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", port]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        address, secret = f"http://127.0.0.1:{port}", "s3cr3t"
        client = S3FileSystem(key="k", secret=secret, client_kwargs={"endpoint_url": address})
        for _ in range(600):
            try:
                client.mkdir("tests")
                break
            except OSError:
                time.sleep(0.1)
        yield {
            "AWS_ENDPOINT_URL": address, "AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true",
        }  # fmt: skip
        server.kill()


def test_tables_on_an_object_store(storage):
    """The same on S3, with deltalake's own options: kept, and followed in pieces."""
    path, chance = f"s3://tests/{uuid.uuid4().hex}/last one", random.Random(9)
    kept = an.source("last", "k long, n long, total double")
    with open_session(None) as one, an.Session() as two:
        view = two.maintain("last", kept)
        sink = an.sinks.delta(one.view("last"), path, key=["k"], partition_by=["n"], storage_options=storage)
        given = {"storage_options": storage, "max_bytes": 1}
        for _ in range(3):
            step(one, chance)
            assert sink.run() > 0
            follow(two, path, "last", given=given)
            assert shown(view) == shown(one.view("last"))
            assert sink.run() == 0
    assert "s3cr3t" not in repr(an.delta(path, **given))


def test_values_of_every_type_come_back_as_they_were(tmp_path):
    columns = {
        "i": "byte", "j": "short", "k": "int", "l": "long", "f": "float", "d": "double", "b": "boolean", "s": "string",
        "x": "binary", "t": "timestamp", "n": "timestamp_ntz", "e": "date", "m": "decimal(12, 3)",
        "a": "array<struct<p: string, q: array<int>>>", "o": "struct<p: string, r: map<string, double>>",
        "h": "map<string, array<string>>",
    }  # fmt: skip
    at = dt.datetime(1965, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001  # of a column without a zone
    row = {
        "i": 1, "j": 2, "k": 3, "l": 2**40, "f": 0.5, "d": float("inf"), "b": True, "s": "ä\n", "x": b"\0\xff",
        "t": at.replace(tzinfo=dt.UTC), "n": at, "e": dt.date(1900, 1, 1), "m": decimal.Decimal("-1.250"),
        "a": [{"p": "x", "q": [1, None]}, None], "o": {"p": "y", "r": [("z", 1.0)]}, "h": [("q", ["w", None])],
    }  # fmt: skip
    every = an.source("every", ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    for mode in MODES:
        with an.Session() as session:
            view = session.maintain("v", every)
            key = [*columns] if mode == "upsert" else ()
            sink = an.sinks.delta(view, tmp_path / mode, mode=mode, key=key)
            session.insert("every", [row, dict.fromkeys(columns)])
            session.advance()
            assert sink.run() == 2
            there = sink.contents()
            assert Counter(map(str, there.rows.to_pylist())) == Counter(map(str, view.to_pylist()))
            session.retract("every", [row])
            session.advance()
            assert sink.run() == 1
            assert sink.contents().rows.to_pylist() == view.to_pylist() == [(None,) * len(columns)]
            if mode == "upsert":
                with an.Session() as second:
                    again = second.maintain("v", every)
                    follow(second, tmp_path / mode, "every", given={"from_version": 1})
                    assert again.to_pylist() == view.to_pylist()


def test_values_that_a_partition_cannot_have_are_refused(tmp_path):
    """A text that means null in the names of folders, and fractions that deltalake writes as no number."""
    text, half = an.source("texts", "text string"), an.source("halves", "half decimal(9, 1)")
    with an.Session() as session:
        by_text = an.sinks.delta(session.maintain("t", text), tmp_path / "t", partition_by=["text"])
        by_half = an.sinks.delta(session.maintain("h", half), tmp_path / "h", partition_by=["half"])
        session.insert("texts", [(None,), ("_",)])
        session.insert("halves", [(decimal.Decimal(-1),), (decimal.Decimal("0.5"),)])
        session.advance()
        assert (by_text.run(), by_half.run()) == (2, 2)
        session.insert("texts", [("__HIVE_DEFAULT_PARTITION__",)])
        session.insert("halves", [(decimal.Decimal("-0.5"),)])
        session.advance()
        with pytest.raises(SinkError, match=r"has the text of the folder of nulls in 'text', by which .* is part"):
            by_text.run()
        with pytest.raises(SinkError, match=r"has a negative fraction in 'half', by which .* is partitioned"):
            by_half.run()
        assert DeltaTable(tmp_path / "h").version() == 1


def test_what_is_refused_leaves_the_table_as_it_was(tmp_path):
    with open_session(None, retain="all") as session:
        last, everything = session.view("last"), session.view("all")
        for wrong in ({"mode": "upsert"}, {"mode": "merge", "key": ["k"]}, {"mode": "log"}):
            with pytest.raises(SinkError, match="mode"):
                an.sinks.delta(last, tmp_path / "x", **wrong)
        with pytest.raises(UnknownColumnError):
            an.sinks.delta(last, tmp_path / "x", key=["nothing"])
        with pytest.raises(SinkError, match=r"partition_by names 'total' of view 'last', which is double; a"):
            an.sinks.delta(last, tmp_path / "x", key=["k"], partition_by=["total"])
        by_name = an.sinks.delta(everything, tmp_path / "x", partition_by=["name"])
        session.insert("events", [(1, "", 1.0)])
        session.advance()
        with pytest.raises(SinkError, match=r"has an empty string in 'name', by which .* is partitioned, and there"):
            by_name.run()
        session.retract("events", [(1, "", 1.0)])
        with pytest.raises(SinkError, match="partition_by names 'day', which is no column of view 'last'"):
            an.sinks.delta(last, tmp_path / "x", key=["k"], partition_by=["day"])
        named = session.maintain("named", EVENTS.select(**{"a b": "k"}))
        with pytest.raises(SchemaError, match="column 'a b' of view 'named' has a name that Delta tables do not have"):
            an.sinks.delta(named, tmp_path / "x")
        spans = session.maintain("spans", EVENTS.select(s="interval 1 day * k"))
        with pytest.raises(SchemaError, match=r"column 's' has type interval.*, which Delta tables do not have"):
            an.sinks.delta(spans, tmp_path / "x")
        sink = an.sinks.delta(everything, tmp_path / "t", key=["k"])
        session.insert("events", [(1, "a", 1.0), (2, "b", 1.0)])
        session.advance()
        sink.run()
        version = DeltaTable(tmp_path / "t").version()
        for more in ([(3, "e", 1.0), (2, "c", 1.0)], [(2, "d", 1.0)]):  # beside a row of the table, beside one another
            session.insert("events", more)
            session.advance()
            with pytest.raises(SinkError, match=r"view 'all' has several rows of key {'k': 2}; choose a key"):
                sink.run()
        assert DeltaTable(tmp_path / "t").version() == version
        with pytest.raises(SinkError, match=r"has mode 'upsert', but this sink has 'merge'"):
            an.sinks.delta(everything, tmp_path / "t").run()
        with pytest.raises(SinkError, match=r"has view 'all', but this sink has 'last'"):
            an.sinks.delta(last, tmp_path / "t", key=["k"]).run()
        for wrong, text in {"partition_by": ["k"], "configuration": {"delta.appendOnly": "true"}}.items():
            with pytest.raises(
                SinkError, match=f"has {'delta.appendOnly' if wrong == 'configuration' else wrong}.*but this sink"
            ):
                an.sinks.delta(everything, tmp_path / "t", key=["k"], **{wrong: text}).run()
        write_deltalake(tmp_path / "mine", pa.table({"k": [1]}))
        with pytest.raises(SinkError, match="was not made by a sink of altneu"):
            an.sinks.delta(last, tmp_path / "mine", key=["k"]).run()


def test_a_table_that_was_removed_is_made_anew(tmp_path):
    with open_session(None) as session:
        created = sinks(session, tmp_path)
        for k in range(2):
            session.insert("events", [(k, "a", 1.0)])
            session.advance()
            for sink, read in created[:2]:
                sink.run()
                assert read(sink._path) == shown(sink.view)
                shutil.rmtree(sink._path)


def test_an_older_store_is_refused(tmp_path):
    chance = random.Random(1)
    with open_session(tmp_path / "state") as session:
        step(session, chance)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    with open_session(tmp_path / "state") as session:
        step(session, chance)
        for sink, _ in sinks(session, tmp_path):
            sink.run()
    with open_session(tmp_path / "copy") as session:
        for sink, _ in sinks(session, tmp_path):
            with pytest.raises(SinkError, match="the store is an older copy; open the right one"):
                sink.run()
