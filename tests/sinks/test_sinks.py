"""Sinks end equal to the view: files and tables, whatever happens between their runs."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import sqlite3
from collections import Counter
from functools import partial

import pyarrow.parquet as pq
import pytest

import altneu as an
from altneu.errors import SchemaError, SinkError, StoreError, UnknownColumnError, ViewHasErrorsError

EVENTS = an.source("events", 'k long, `the "name" is; DROP` string, v double')
LAST = EVENTS.group_by("k").agg(n="count(*)", total="sum(v)")
NAMES = ["a", None, "ä'\"?%", ""]


def rows(chance):
    return [(chance.randrange(6), chance.choice(NAMES), chance.choice([0.5, 1.0, None])) for _ in range(4)]


def step(session, chance):
    for row in rows(chance):
        session.insert("events", [row])
    kept = session.view("all").to_pylist()
    session.retract("events", chance.sample(kept, min(len(kept), chance.randrange(4))))
    session.advance(to=session.lower + chance.randrange(1, 3))


def parquet_table(path) -> Counter:
    result = Counter()
    for file in an.sinks.parquet_files(path):
        table = pq.ParquetFile(file).read()
        result += Counter(tuple(r.values()) for r in table.to_pylist())
    return result


def parquet_changes(path) -> Counter:
    actual = Counter()
    for file in an.sinks.parquet_files(path):
        for row in pq.ParquetFile(file).read().to_pylist():
            diff = row.pop("diff")
            del row["time"]
            actual[tuple(row.values())] += diff
    return Counter({row: n for row, n in actual.items() if n})


def database_table(path, table) -> Counter:
    with sqlite3.connect(path) as connection:
        actual = connection.execute(f'SELECT * FROM "{table}"').fetchall()
    connection.close()
    return Counter(actual)


def merged(found: Counter) -> Counter:
    return Counter({row[:-1]: row[-1] for row in found})


def sinks(session, tmp_path):
    """Each kind of sink, and how to read what it has made."""
    everything, last, path = session.view("all"), session.view("last"), tmp_path / "tables.db"
    connect = partial(sqlite3.connect, path)
    return [
        (
            an.sinks.parquet(last, tmp_path / "u", mode="upsert", key=["k"], buckets=3),
            partial(parquet_table, tmp_path / "u"),
        ),
        (an.sinks.parquet(everything, tmp_path / "m", buckets=3), partial(parquet_table, tmp_path / "m")),
        (an.sinks.parquet(everything, tmp_path / "a", mode="append"), partial(parquet_changes, tmp_path / "a")),
        (
            an.sinks.database(last, connect, "last one", mode="upsert", key=["k"]),
            partial(database_table, path, "last one"),
        ),
        (
            an.sinks.database(everything, connect, "all; of", mode="merge"),
            lambda: merged(database_table(path, "all; of")),
        ),
    ]


def open_session(path, **settings):
    session = an.Session(path=path, **settings)
    session.maintain("all", EVENTS)
    session.maintain("last", LAST)
    return session


@pytest.mark.parametrize("seed", range(3))
def test_every_sink_follows_its_view_across_sessions_and_pauses(tmp_path, seed):
    chance = random.Random(seed)
    for _ in range(4):
        with open_session(tmp_path / "state") as session:
            created = sinks(session, tmp_path)
            for _ in range(4):
                step(session, chance)
                if chance.random() < 0.6:
                    for sink, read in created:
                        sink.run()
                        assert read() == Counter(sink.view.to_pylist()), sink.where
                        assert sink.run() == 0


def test_attached_sinks_run_with_every_commit(tmp_path):
    chance = random.Random(7)
    with open_session(None) as session:
        created = sinks(session, tmp_path)
        attached = [sink.attach() for sink, _ in created]
        for _ in range(5):
            step(session, chance)
            for sink, read in created:
                assert read() == Counter(sink.view.to_pylist()), sink.where
        for subscription in attached:
            subscription.close()
        before = [read() for _, read in created]
        step(session, chance)
        assert [read() for _, read in created] == before


def test_missing_history_is_replaced_by_a_comparison(tmp_path):
    chance = random.Random(11)
    with open_session(tmp_path / "state") as session:
        created = sinks(session, tmp_path)
        step(session, chance)
        for sink, _ in created:
            sink.run()
        store = session._engine.journal.store
        for lease in store.leases():
            store._leases.end(lease)
        for _ in range(3):
            step(session, chance)
        for sink, read in created:
            sink.run()
            assert read() == Counter(sink.view.to_pylist()), sink.where


def test_a_reader_feeds_a_sink_too(tmp_path):
    chance = random.Random(13)
    with open_session(tmp_path / "state") as session, an.read(tmp_path / "state") as reader:
        step(session, chance)
        reader.refresh()
        created = sinks(reader, tmp_path)
        for _ in range(4):
            step(session, chance)
            reader.refresh()
            for sink, read in created:
                sink.run()
                assert read() == Counter(sink.view.to_pylist()) == Counter(session.view(sink.view.name).to_pylist())


def test_cost_follows_the_change(tmp_path):
    with open_session(tmp_path / "state") as session:
        sink = an.sinks.parquet(session.view("all"), tmp_path / "m", buckets=8)
        session.insert("events", [(k, "a", 1.0) for k in range(100)])
        session.advance()
        sink.run()
        before = set(sink.files())
        assert len(before) == 8
        session.insert("events", [(1000, "b", 1.0)])
        session.advance()
        sink.run()
        assert len(before & set(sink.files())) == 7
        for file in before:
            assert pq.ParquetFile(file).metadata.num_rows  # those who read the version before still can
        for k in range(3):
            session.insert("events", [(1000 + k, "b", 1.0)])
            session.advance()
            sink.run()
        there = {str(p) for p in (tmp_path / "m").glob("part-*")}
        assert set(sink.files()) < there
        assert len(there) <= 8 + 2


def test_what_is_refused_leaves_the_target_as_it_was(tmp_path):
    with open_session(tmp_path / "state") as session:
        view, path = session.view("all"), tmp_path / "t.db"
        connect = partial(sqlite3.connect, path)
        with pytest.raises(SinkError, match='mode="upsert" needs the columns'):
            an.sinks.parquet(view, tmp_path / "x", mode="upsert")
        with pytest.raises(UnknownColumnError, match="no column 'nope'"):
            an.sinks.parquet(view, tmp_path / "x", mode="upsert", key=["nope"])
        session.insert("events", [(1, "a", 1.0), (2, "b", 1.0)])
        session.advance()
        upserts = [
            an.sinks.parquet(view, tmp_path / "u", mode="upsert", key=["k"]),
            an.sinks.database(view, connect, "t", mode="upsert", key=["k"]),
        ]
        for sink in upserts:
            sink.run()
        session.insert("events", [(1, "another", 1.0)])
        session.advance()
        for sink in upserts:
            with pytest.raises((SinkError, sqlite3.IntegrityError)):
                sink.run()
        assert parquet_table(tmp_path / "u") == database_table(path, "t") == Counter([(1, "a", 1.0), (2, "b", 1.0)])
        session.retract("events", [(1, "a", 1.0)])
        session.advance()
        for sink in upserts:
            sink.run()
        assert parquet_table(tmp_path / "u") == database_table(path, "t") == Counter(view.to_pylist())
        with pytest.raises(SinkError, match="holds view 'all', not 'last'"):
            an.sinks.database(session.view("last"), connect, "t", mode="upsert", key=["k"]).run()
        with pytest.raises(SinkError, match="was created with mode='upsert'"):
            an.sinks.parquet(view, tmp_path / "u").run()
        failing = session.maintain("failing", EVENTS.select("k", share="1 div (k - 2)"))
        with pytest.raises(ViewHasErrorsError):
            an.sinks.parquet(failing, tmp_path / "f").run()
        nested = session.maintain("nested", EVENTS.select("k", xs="array(k)"))
        with pytest.raises(SchemaError, match="column 'xs' has type array<bigint>"):
            an.sinks.database(nested, connect, "n", mode="merge")


REFUSED = [
    ({"lease": "soon"}, StoreError, "lease must be a span of at least a second.*got 'soon'"),
    ({"lease": None}, StoreError, "lease must be a span of at least a second.*got None"),
    ({"errors": "skip"}, SinkError, 'errors must be "raise" or "ignore", got \'skip\''),
    ({"buckets": 0}, SinkError, "buckets must be a whole number of at least 1, got 0"),
    ({"buckets": "3"}, SinkError, "buckets must be a whole number of at least 1, got '3'"),
    ({"keep": 1.5}, SinkError, "keep must be a whole number of at least 0, got 1.5"),
]


@pytest.mark.parametrize(("option", "error", "said"), REFUSED)
def test_options_that_are_none_are_refused_before_a_sink_writes(tmp_path, option, error, said):
    with open_session(None) as session, pytest.raises(error, match=said):
        an.sinks.parquet(session.view("all"), tmp_path / "x", **option)
    assert not (tmp_path / "x").exists()


def test_a_folder_without_a_name_is_not_the_one_that_the_program_runs_in():
    with open_session(None) as session, pytest.raises(StoreError, match="path of a folder must not be empty"):
        an.sinks.parquet(session.view("all"), "")


def test_a_database_that_does_not_open_is_named(tmp_path):
    with open_session(None) as session:
        view, connect = session.view("all"), partial(sqlite3.connect, tmp_path / "none" / "t.db")
        session.insert("events", [(1, "a", 1.0)])
        session.advance()
        with pytest.raises(SinkError, match=r"^table t of the database cannot be created or read: OperationalError"):
            an.sinks.database(view, connect, "t", mode="merge").run()
        with pytest.raises(UnknownColumnError, match=r"no column 'w' \(in the types of a sink of view all\)"):
            an.sinks.database(view, connect, "t", mode="merge", types={"w": "TEXT"})


def test_changes_of_two_stores_are_not_mixed(tmp_path):
    for first in (True, False):
        with open_session(None) as session:
            session.insert("events", [(1, "a", 1.0)])
            session.advance()
            sink = an.sinks.parquet(session.view("all"), tmp_path / "a", mode="append")
            if first:
                assert sink.run() == 1
            else:
                with pytest.raises(SinkError, match="holds the changes of another store"):
                    sink.run()


ROW = "s string, b boolean, i int, d decimal(20,3), f double, day date, at timestamp, local timestamp_ntz, y binary"
WIDE = decimal.Decimal("1234567890123456789012345678.0123456789")


def test_values_of_every_type_come_back_as_they_were(tmp_path):
    moment = dt.datetime(2013, 1, 1, 12, 30, 0, 123456, tzinfo=dt.UTC).replace(tzinfo=None)
    some = ("x", True, 3, decimal.Decimal("12345678901234567.125"), 0.1, moment.date(), moment.replace(tzinfo=dt.UTC),
            moment, b"\x00\xff", WIDE)  # fmt: skip
    with an.Session() as session:
        view = session.maintain("v", an.source("s", f"{ROW}, w decimal(38, 10)"))
        session.insert("s", [some, (None,) * 10])
        session.advance()
        sink = an.sinks.database(view, partial(sqlite3.connect, tmp_path / "t.db"), "t", mode="merge")
        sink.run()
        actual = sink.contents()
        assert Counter(actual.rows.to_pylist()) == Counter(view.to_pylist())
        session.retract("s", [some, (None,) * 10])
        session.advance()
        sink.run()
        assert len(sink.contents()) == 0


def test_derby_by_jdbc(spark, tmp_path):
    chance = random.Random(17)
    moment = dt.datetime(2013, 1, 1, 12, 30, 0, 123456, tzinfo=dt.UTC).replace(tzinfo=None)
    url = f"jdbc:derby:{tmp_path / 'db'};create=true"
    some = (
        "x'\"?",
        True,
        3,
        decimal.Decimal("1.125"),
        0.1,
        moment.date(),
        moment.replace(tzinfo=dt.UTC),
        moment,
        b"\x00",
    )
    with open_session(tmp_path / "state") as session:
        typed = session.maintain("typed", an.source("s", ROW))
        session.insert("s", [some, (None,) * 9])
        result = [
            an.sinks.jdbc(session.view("last"), spark, url, "last one", mode="upsert", key=["k"]),
            an.sinks.jdbc(session.view("all"), spark, url, "all of it", mode="merge"),
            an.sinks.jdbc(session.view("all"), spark, url, "changes", mode="append"),
            an.sinks.jdbc(typed, spark, url, "typed", mode="merge"),
        ]
        for _ in range(3):
            step(session, chance)
            for sink in result:
                sink.run()
                actual = sink.contents()
                there = dict(zip(actual.rows.to_pylist(), actual.diffs.tolist(), strict=True))
                assert there == Counter(sink.view.to_pylist()), sink.where


@pytest.mark.parametrize(
    ("zone", "row", "said"),
    [
        ("America/New_York", (dt.datetime.fromisoformat("2020-03-08 02:30"), None), "2020-03-08 02:30"),
        ("Pacific/Apia", (None, dt.date(2011, 12, 30)), "2011-12-30"),
    ],
)
def test_what_the_time_zone_of_java_skips_is_not_written_as_something_else(spark, tmp_path, zone, row, said):
    # Derby itself has no such values in such a zone; other databases do.
    zones = spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    url = f"jdbc:derby:{tmp_path / 'db'};create=true"
    with an.Session() as session:
        view = session.maintain("v", an.source("s", "t timestamp_ntz, d date"))
        plain = (dt.datetime.fromisoformat("2020-03-08 01:30"), dt.date(2011, 12, 29))
        session.insert("s", [plain])
        session.advance()
        try:
            zones.setDefault(zones.getTimeZone(zone))
            sink = an.sinks.jdbc(view, spark, url, "t", mode="append")
            sink.run()
            session.insert("s", [row])
            session.advance()
            with pytest.raises(SinkError, match=f"{said} cannot be written: .* {zone}, skips it"):
                sink.run()
        finally:
            zones.setDefault(before)
        sink = an.sinks.jdbc(view, spark, url, "t", mode="append")
        sink.run()
        assert Counter(sink.contents().rows.to_pylist()) == Counter([plain, row])


@pytest.mark.parametrize("mode", ["append", "upsert", "merge"])
def test_a_table_that_was_dropped_is_filled_anew(tmp_path, mode):
    key = ["k"] if mode == "upsert" else []
    with an.Session() as session:
        view = session.maintain("last", LAST)
        sink = an.sinks.database(view, partial(sqlite3.connect, tmp_path / "d"), "last", mode=mode, key=key)
        for k in (1, 2):
            session.insert("events", [(k, "a", 1.0)])
            session.advance()
            sink.run()
            with sqlite3.connect(tmp_path / "d") as connection:
                assert connection.execute("SELECT count(*) FROM last").fetchone() == (k,)
                connection.execute("DROP TABLE last") if k == 1 else None
            connection.close()
            sink.run()
        with sqlite3.connect(tmp_path / "d") as connection:
            assert sorted(connection.execute("SELECT k FROM last").fetchall()) == [(1,), (2,)]
        connection.close()


def test_tables_of_one_name_in_two_databases_have_a_lease_each(tmp_path):
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("events", EVENTS)
        sinks = [
            an.sinks.database(view, partial(sqlite3.connect, tmp_path / name), "t", mode="append") for name in "ab"
        ]
        for sink in sinks:
            session.insert("events", [(0, "a", 1.0)])
            session.advance()
            sink.run()
        for k in range(1, 4):
            session.insert("events", [(k, "a", 1.0)])
            session.retract("events", [(k - 1, "a", 1.0)])
            session.advance()
            sinks[1].run()
        sinks[0].run()
        actual = []
        for name in "ab":
            with sqlite3.connect(tmp_path / name) as connection:
                actual.append(connection.execute("SELECT count(*) FROM t").fetchone()[0])
            connection.close()
    assert actual == [8, 7]  # every change, of the second from what was there at once


def test_what_sqlite_cannot_tell_apart_is_refused(tmp_path):
    with an.Session() as session:
        view = session.maintain("all", EVENTS)
        sink = an.sinks.database(view, partial(sqlite3.connect, tmp_path / "d"), "t", mode="merge")
        session.insert("events", [(1, "a", float("nan"))])
        session.advance()
        with pytest.raises(SinkError, match="column 'v' of view 'all' has a NaN"):
            sink.run()
        session.retract("events", [(1, "a", float("nan"))])
        session.insert("events", [(2, None, None), (2, None, None)])
        session.advance()
        sink.run()
        assert database_table(tmp_path / "d", "t") == {(2, None, None, 2): 1}


def test_a_table_with_rows_and_no_mark_is_refused(tmp_path):
    with an.Session() as session:
        view = session.maintain("last", LAST)
        sink = an.sinks.database(view, partial(sqlite3.connect, tmp_path / "d"), "t", mode="merge")
        session.insert("events", [(1, "a", 1.0)])
        session.advance()
        sink.run()
        with sqlite3.connect(tmp_path / "d") as connection:
            connection.execute("DELETE FROM altneu_marks")
        connection.close()
        with pytest.raises(SinkError, match="has rows, but altneu_marks has no row"):
            sink.run()


@pytest.mark.parametrize("mode", ["merge", "append"])
def test_another_view_of_the_same_name_is_distinguished_from_the_first(tmp_path, mode):
    with an.Session(path=tmp_path / "state") as session:
        kept = an.source("events", "k long", keep=True)
        sinks = []
        for plan in (kept.select("k"), kept.select(k="k + 10")):
            view = session.maintain("v", plan)
            session.maintain("other", kept)
            sinks = [
                an.sinks.database(view, partial(sqlite3.connect, tmp_path / "d"), "t", mode=mode),
                an.sinks.parquet(view, tmp_path / "p", mode=mode),
            ]
            if plan.node.fingerprint != kept.select("k").node.fingerprint:
                break
            session.insert("events", [1, 2])
            session.advance()
            for sink in sinks:
                sink.run()
            session.drop("v")
        for sink in sinks:
            if mode == "append":
                with pytest.raises(SinkError, match="another view with this name"):
                    sink.run()
            else:
                sink.run()
        if mode == "merge":
            assert database_table(tmp_path / "d", "t") == {(11, 1): 1, (12, 1): 1}
            assert sum(parquet_table(tmp_path / "p").values()) == 2


def test_a_table_continues_as_it_was_created(tmp_path):
    with an.Session() as session:
        view = session.maintain("last", LAST)
        make = partial(an.sinks.database, view, partial(sqlite3.connect, tmp_path / "d"), "t")
        session.insert("events", [(1, "a", 1.0)])
        session.advance()
        make(mode="append").run()
        for other in ({"mode": "merge"}, {"mode": "upsert", "key": ["k"]}):
            with pytest.raises(SinkError, match="was created with mode='append'"):
                make(**other).run()


# views without contents -----------------------------------------------------------------------------------------------


def test_sinks_of_a_view_without_contents_are_equal_to_it_from_the_first_step_on(tmp_path):
    chance, path = random.Random(4), tmp_path / "tables.db"
    for life in range(3):
        with an.Session(path=tmp_path / "state", shards=2) as session:
            session.maintain("all", EVENTS)
            plain = session.maintain("plain", LAST)
            view = session.maintain("last", LAST, contents=False)
            connect = partial(sqlite3.connect, path)
            result = [
                an.sinks.parquet(view, tmp_path / "u", mode="upsert", key=["k"], buckets=3),
                an.sinks.parquet(view, tmp_path / "a", mode="append"),
                an.sinks.database(view, connect, "u", mode="upsert", key=["k"]),
            ]
            if life == 1:  # no sink runs for a while, and their leases keep what they lack
                for _ in range(4):
                    step(session, chance)
            attached = [sink.attach() for sink in result]
            for _ in range(4):
                step(session, chance)
            wanted = Counter(plain.to_pylist())
            assert parquet_table(tmp_path / "u") == parquet_changes(tmp_path / "a") == wanted
            assert database_table(path, "u") == wanted
            assert [sink.run() for sink in result] == [0, 0, 0]
            for subscription in attached:
                subscription.close()


def test_a_sink_that_comes_late_begins_with_what_changes_then(tmp_path):
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("all", EVENTS, contents=False)
        for k in range(3):
            session.insert("events", [(k, "a", 1.0)])
            session.advance()
        with pytest.raises(SinkError, match=r"contents=False, and its first changes are gone.*mode='append'"):
            an.sinks.parquet(view, tmp_path / "m", mode="merge").run()
        sink = an.sinks.parquet(view, tmp_path / "a", mode="append")
        assert sink.run() == 0
        for k in range(3, 6):
            session.insert("events", [(k, "a", 1.0)])
            session.advance()
        assert (sink.run(), sink.run()) == (3, 0)
        assert parquet_changes(tmp_path / "a") == {(k, "a", 1.0): 1 for k in range(3, 6)}


def test_changes_that_are_lost_to_a_sink_are_an_error(tmp_path):
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("all", EVENTS, contents=False)
        sink = an.sinks.parquet(view, tmp_path / "m", mode="merge")
        for k in range(4):
            session.insert("events", [(k, "a", 1.0)])
            session.advance()
            if k == 0:
                assert sink.run() == 1
                for lease in (tmp_path / "state/readers").iterdir():
                    lease.unlink()
        with pytest.raises(
            SinkError, match=r"has the changes of view 'all' up to time 0. The later ones are gone.*longer lease="
        ):
            sink.run()
        assert parquet_table(tmp_path / "m") == {(0, "a", 1.0): 1}
