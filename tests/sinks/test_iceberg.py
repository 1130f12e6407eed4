"""Iceberg tables that follow views: equal after every run, exactly once, whoever writes beside."""

from __future__ import annotations

import datetime as dt
import decimal
import random
import time
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions.visitors import _ManifestEvalVisitor, visit

import altneu as an
from altneu.errors import SchemaError, SinkError, UnknownColumnError
from faults.iceberg_tables import properties

EVENTS = an.source("events", "k long, name string, v double")
LAST = EVENTS.group_by("k").agg(n="count(*)", total="sum(v)")
NAMES = ["a", None, "ä'\"?%", ""]
MODES = ["upsert", "merge", "append"]


@pytest.fixture
def catalog(tmp_path):
    with load_catalog("default", **properties(tmp_path / "tables")) as opened:
        opened.create_namespace("shop")
        yield opened


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


def read(catalog, name, snapshot_id=None):
    """The rows of a table with their counts, or the sum of a log of changes."""
    result = Counter()
    for row in catalog.load_table(f"shop.{name}").scan(snapshot_id=snapshot_id).to_arrow().to_pylist():
        count = row.pop("row_count", row.pop("diff", 1))
        row.pop("time", None)
        assert name != "m" or count > 0
        result[comparable(row.values())] += count
    return Counter({row: n for row, n in result.items() if n})


def open_session(path, **settings):
    session = an.Session(path=path, **settings)
    session.maintain("all", EVENTS)
    session.maintain("last", LAST)
    return session


def sinks(session, catalog, **options):
    everything, last = session.view("all"), session.view("last")
    return {
        "u": an.sinks.iceberg(last, "shop.u", catalog=catalog, key=["k"], partition_by=["n"], **options),
        "m": an.sinks.iceberg(everything, "shop.m", catalog=catalog, partition_by=["k"], **options),
        "a": an.sinks.iceberg(everything, "shop.a", catalog=catalog, mode="append", **options),
    }


@pytest.mark.parametrize("seed", range(2))
def test_every_table_follows_its_view_across_sessions_and_pauses(tmp_path, catalog, seed):
    chance = random.Random(seed)
    for _ in range(3):
        with open_session(tmp_path / "state") as session:
            for _ in range(2):
                step(session, chance)
                for name, sink in sinks(session, catalog).items():
                    if chance.random() < 0.7:
                        sink.run()
                        assert read(catalog, name) == shown(sink.view), sink.where
                        assert sink.run() == 0


def test_a_table_has_rows_as_often_as_the_view(tmp_path, catalog):
    chance = random.Random(0)
    for _ in range(2):
        with open_session(tmp_path / "state") as session:
            for _ in range(3):
                step(session, chance)
                if chance.random() < 0.7:
                    view = session.view("all")
                    sink = an.sinks.iceberg(view, "shop.r", catalog=catalog, mode="rows", partition_by=["k"])
                    sink.run()
                    assert read(catalog, "r") == shown(view)
                    assert sink.run() == 0


def test_a_run_is_one_snapshot_and_none_if_there_is_nothing(catalog):
    with open_session(None, retain="all") as session:
        created = sinks(session, catalog)
        attached = [sink.attach() for sink in created.values()]
        for i in range(1, 3):
            session.insert("events", [(i, "a", 1.0)])
            session.advance()
            assert [_snapshots(catalog, name) for name in created] == [i] * 3
        session.insert("events", [(9, "b", 1.0)])
        session.retract("events", [(9, "b", 1.0)])
        session.advance()  # nothing changes but the mark
        assert [_snapshots(catalog, name) for name in created] == [3] * 3
        for name, sink in created.items():
            assert read(catalog, name) == shown(sink.view)
            assert sink.run() == 0
            for snapshot in catalog.load_table(f"shop.{name}").metadata.snapshots:  # each is the view at a time
                upto = int(snapshot.summary["altneu.frontier"])
                wanted = Counter(map(comparable, sink.view.to_pylist(at=upto - 1)))
                assert read(catalog, name, snapshot.snapshot_id) == wanted
        for each in attached:
            each.close()
        assert [_snapshots(catalog, name) for name in created] == [3] * 3


def _snapshots(catalog, name):
    return len(catalog.load_table(f"shop.{name}").metadata.snapshots)


def test_missing_history_is_replaced_by_a_comparison(tmp_path, catalog):
    chance = random.Random(3)
    with open_session(tmp_path / "state") as session:
        step(session, chance)
        for sink in sinks(session, catalog, lease=1).values():
            sink.run()
    (tmp_path / "state" / "readers").rename(tmp_path / "gone")
    with open_session(tmp_path / "state") as session:
        step(session, chance)
        step(session, chance)
        created = sinks(session, catalog)
        for name in "um":
            assert created[name].run() > 0
            assert read(catalog, name) == shown(created[name].view)
    with open_session(tmp_path / "other") as session:  # the view of another store
        step(session, chance)
        created = sinks(session, catalog)
        for name in "um":
            created[name].run()
            assert read(catalog, name) == shown(created[name].view)
            assert created[name].run() == 0
        with pytest.raises(SinkError, match="holds the changes of another store"):
            created["a"].run()


@pytest.mark.parametrize("mode", MODES)
def test_two_sinks_on_one_table(tmp_path, catalog, mode, monkeypatch):
    """Of two that write at once one is refused, and then finds that all is there."""
    options = {"mode": mode, "key": ["k"] if mode == "upsert" else ()}
    name = "last" if mode == "upsert" else "all"
    chance = random.Random(4)
    with open_session(tmp_path / "state", retain="all") as session:
        step(session, chance)
        one, two = (an.sinks.iceberg(session.view(name), "shop.t", catalog=catalog, **options) for _ in range(2))
        assert one.run() > 0
        assert two.run() == 0
        for empty in (False, True):
            session.advance() if empty else step(session, chance)
            write = type(two)._write

            def late(self, *given, write=write):
                monkeypatch.setattr(type(two), "_write", write)
                one.run()  # between the other's mark and its commit
                return write(self, *given)

            monkeypatch.setattr(type(two), "_write", late)
            with pytest.raises(SinkError, match="was written by another process meanwhile; run again"):
                two.run()
            assert two.run() == 0
            assert read(catalog, "t") == shown(session.view(name))


@pytest.mark.parametrize("written", [False, True])
def test_two_sinks_create_a_table_at_once(catalog, written, monkeypatch):
    with open_session(None) as session:
        session.insert("events", [(1, "a", 1.0), (1, "a", 1.0)])
        session.advance()
        one, two = (an.sinks.iceberg(session.view("all"), "shop.t", catalog=catalog) for _ in range(2))
        opened = type(two)._opened

        def late(self, before):
            monkeypatch.setattr(type(two), "_opened", opened)
            one.run() if written else opened(one, None)
            return opened(self, before)

        monkeypatch.setattr(type(two), "_opened", late)
        if written:
            with pytest.raises(SinkError, match="was written by another process meanwhile; run again"):
                two.run()
        assert two.run() == (0 if written else 1)
        assert read(catalog, "t") == shown(session.view("all"))


def test_a_commit_of_another_program_is_no_obstacle(catalog, monkeypatch):
    """A snapshot that another one adds beside, without rows that change, is followed."""
    with open_session(None) as session:
        sink = an.sinks.iceberg(session.view("last"), "shop.t", catalog=catalog, key=["k"])
        for i in range(3):
            session.insert("events", [(i, "a", 1.0)])
            session.advance()
            sink.run()
        session.insert("events", [(1, "a", 2.0)])
        session.advance()
        write = type(sink)._write

        def late(self, *given):
            monkeypatch.setattr(type(sink), "_write", write)
            other = catalog.load_table("shop.t")
            other.append(other.scan().to_arrow().slice(0, 0))
            write(self, *given)

        monkeypatch.setattr(type(sink), "_write", late)
        assert sink.run() == 2
        assert read(catalog, "t") == shown(session.view("last"))
        assert "commit.retry.num-retries" not in catalog.load_table("shop.t").properties


def test_only_files_with_rows_of_changed_keys_are_written_anew(catalog):
    by_part = EVENTS.group_by("k", "name").agg(n="count(*)")
    for n in (2, 20):
        with an.Session() as session:
            view = session.maintain("v", by_part)
            sink = an.sinks.iceberg(view, f"shop.t{n}", catalog=catalog, key=["k", "name"], partition_by=["k"])
            session.insert("events", [(k, name, 1.0) for k in range(n) for name in "abc"])
            session.advance()
            sink.run()
            session.insert("events", [(1, "b", 1.0), (n, "new", 1.0)])
            session.advance()
            sink.run()
            summary = catalog.load_table(f"shop.t{n}").metadata.current_snapshot().summary
            assert (summary["deleted-data-files"], summary["added-data-files"]) == ("1", "2")
            assert (summary["deleted-records"], summary["added-records"]) == ("3", "4")
            assert read(catalog, f"t{n}") == shown(view)


def test_manifests_of_partitions_are_told_apart(catalog, monkeypatch):
    """pyiceberg evaluates them in threads; each is made to wait for the others where one could take another's place."""

    def slow(evaluator, manifest):
        evaluator.partition_fields = manifest.partitions
        time.sleep(0.01)
        return visit(evaluator.partition_filter, evaluator)

    monkeypatch.setattr(_ManifestEvalVisitor, "eval", slow)
    with an.Session() as session:
        view = session.maintain("all", EVENTS)
        sink = an.sinks.iceberg(view, "shop.p", catalog=catalog, partition_by=["k"])
        for k in range(6):
            session.insert("events", [(k, "a", 1.0)])
            session.advance()
            sink.run()
        for k in (3, 5, 0):
            session.retract("events", [(k, "a", 1.0)])
            session.advance()
            assert sink.run() == 1
            assert read(catalog, "p") == shown(view)


def test_values_of_every_type_come_back_as_they_were(catalog):
    columns = {
        "i": "byte", "j": "short", "k": "int", "l": "long", "f": "float", "d": "double", "b": "boolean", "s": "string",
        "x": "binary", "t": "timestamp", "n": "timestamp_ntz", "e": "date", "m": "decimal(12, 3)",
        "a": "array<array<int>>", "o": "struct<p: string, r: map<string, double>>",
        "h": "map<string, array<string>>",
    }  # fmt: skip
    at = dt.datetime(1965, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001  # of a column without a zone
    row = {
        "i": 1, "j": 2, "k": 3, "l": 2**40, "f": 0.5, "d": float("inf"), "b": True, "s": "ä\n", "x": b"\0\xff",
        "t": at.replace(tzinfo=dt.UTC), "n": at, "e": dt.date(1900, 1, 1), "m": decimal.Decimal("-1.250"),
        "a": [[1, None], None], "o": {"p": "y", "r": [("z", 1.0)]}, "h": [("q", ["w", None])],
    }  # fmt: skip
    every = an.source("every", ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    for mode in MODES:
        with an.Session() as session:
            view = session.maintain("v", every)
            key = [*columns] if mode == "upsert" else ()
            sink = an.sinks.iceberg(view, f"shop.{mode}", catalog=catalog, mode=mode, key=key)
            session.insert("every", [row, dict.fromkeys(columns)])
            session.advance()
            assert sink.run() == 2
            assert Counter(map(str, sink.contents().rows.to_pylist())) == Counter(map(str, view.to_pylist()))
            session.retract("every", [row])
            session.advance()
            assert sink.run() == 1
            sink.mark()
            assert sink.contents().rows.to_pylist() == view.to_pylist() == [(None,) * len(columns)]


def test_what_does_not_fit_is_refused_and_the_table_is_left(tmp_path, catalog):
    with open_session(tmp_path / "state") as session:
        last, everything = session.view("last"), session.view("all")

        def refused(match, view=last, table="shop.t", kind=SinkError, **options):
            with pytest.raises(kind, match=match):
                an.sinks.iceberg(view, table, **{"catalog": catalog, **options}).run()

        refused("named with its namespace", table="t", key=["k"])
        refused("partition_by names 'x', which is no column of view 'last'", key=["k"], partition_by=["x"])
        refused("partition_by names 'total' of view 'last', which is double", key=["k"], partition_by=["total"])
        refused("no column 'x'", key=["x"], kind=UnknownColumnError)
        refused("is none of pyiceberg's", key=["k"], catalog={"type": "unheard of"})
        session.insert("events", [(1, "a", 1.0), (1, "b", 1.0)])
        session.advance()
        refused(
            r"the namespace of Iceberg table none\.t does not exist; create it: .*'none'", table="none.t", key=["k"]
        )
        refused(r"has several rows of key \{'k': 1\}; choose a key", view=everything, key=["k"])
        refused(r"has several rows of key \{'k': 1\}", view=everything, table="shop.t", key=["k"])
        an.sinks.iceberg(last, "shop.u", catalog=catalog, key=["k"]).run()
        before = catalog.load_table("shop.u").metadata_location
        refused("has mode 'upsert', but this sink has 'merge'", table="shop.u")
        refused("has view 'last', but this sink has 'all'", view=everything, table="shop.u", key=["k"])
        refused(
            "has partition-by '\\[\\]', but this sink has '\\[\"n\"\\]'", table="shop.u", key=["k"], partition_by=["n"]
        )
        refused("has a None, but this sink has 'b'", table="shop.u", key=["k"], properties={"a": "b"})
        catalog.create_table("shop.other", pa.schema([("k", pa.int64())]))
        refused("was not made by a sink of altneu", table="shop.other", key=["k"])
        assert catalog.load_table("shop.u").metadata_location == before
        nested = session.maintain("nested", EVENTS.select(a="array(named_struct('k', k))"))
        refused(r"column 'a' has type array<struct<.*to_json\(a\)", view=nested, kind=SchemaError)
        spans = session.maintain("spans", EVENTS.select(at="make_dt_interval(1)"))
        refused("column 'at' has type interval", view=spans, kind=SchemaError)


MOMENTS = an.source("moments", "id bigint, name string, at timestamp, day date, price decimal(9,2)")
TRANSFORMS = {
    "days(at)": "at_day",
    "year(day)": "day_year",
    "months(at)": "at_month",
    "hours(at)": "at_hour",
    "date(at)": "at_day",
    "bucket(4, id)": "id_bucket",
    "Bucket( 3 , `name`)": "name_bucket",
    "truncate(2, name)": "name_trunc",
    "truncate(100, price)": "price_trunc",
    "name": "name",
}


@pytest.mark.parametrize("text", TRANSFORMS)
def test_partitions_by_transforms(tmp_path, catalog, text):
    """Each file has the rows of one value of the transform, which is what pyiceberg makes of a row."""
    chance = random.Random(1)

    def row(i):
        at = dt.datetime(2025 + i % 2, 1 + i % 3, 1 + i % 2, i % 5, tzinfo=dt.UTC)
        return (
            i,
            chance.choice(["tea", "jam", "teas", None]),
            at,
            at.date(),
            chance.choice([decimal.Decimal("1.50"), None]),
        )

    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("view", MOMENTS)
        for turn in range(3):
            session.insert("moments", [row(i) for i in range(turn * 10, turn * 10 + 20)])
            if turn:
                session.retract("moments", view.to_pylist()[:3])
            session.advance()
            an.sinks.iceberg(view, "shop.p", catalog=catalog, mode="rows", partition_by=[text]).run()
            assert read(catalog, "p") == shown(view)
    table = catalog.load_table("shop.p")
    (field,) = table.spec().fields
    assert field.name == TRANSFORMS[text]
    source = table.schema().find_field(field.source_id)
    transform = field.transform.transform(source.field_type)
    files = [(task.file.partition[0], task.file.file_path) for task in table.scan().plan_files()]
    assert len({value for value, _ in files}) > 1
    for value, path in files:
        found = pq.ParquetFile(path.removeprefix("file://")).read().column(source.name)
        kinds = {"at": pa.int64(), "day": pa.int32()}
        values = found.cast(kinds.get(source.name, found.type)).to_pylist()
        assert {transform(one) for one in values} == {value}


def test_partitions_that_there_are_not(tmp_path, catalog, monkeypatch):
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("view", MOMENTS)

        def refused(text, match):
            with pytest.raises(SinkError, match=match):
                an.sinks.iceberg(view, "shop.p", catalog=catalog, mode="rows", partition_by=[text])

        for text in ("zorder(id)", "bucket(id)", "days(3, at)", "bucket(0, id)"):
            refused(text, r"there are: a column, years\(t\), .*bucket\(n, c\)")
        refused("days(nosuch)", "'nosuch', which is no column of view 'view'")
        monkeypatch.setattr("altneu.sinks.partitions.find_spec", lambda _: None)
        refused("days(at)", r"pip install 'altneu\[iceberg\]'")
        monkeypatch.setattr("altneu.sinks.partitions.find_spec", lambda _: True)
        refused("days(id)", r"day takes no bigint \(column 'id'\)")


def test_partitions_in_a_statement(tmp_path, catalog):
    said = ", ".join(f"'{name}' = '{value}'" for name, value in properties(tmp_path / "tables").items())
    with an.Session(path=tmp_path / "state") as session:
        session.sql("CREATE TABLE t (id BIGINT, at TIMESTAMP); CREATE MATERIALIZED VIEW v AS SELECT * FROM t")
        session.sql(
            f"CREATE SINK s FROM v INTO ICEBERG 'shop.s' MODE ROWS OPTIONS ({said}) "
            "WITH (PARTITION_BY = ('days(at)', 'bucket(4, id)')); INSERT INTO t VALUES (1, TIMESTAMP '2026-01-02')"
        )
        session.advance()
    assert [f.name for f in catalog.load_table("shop.s").spec().fields] == ["at_day", "id_bucket"]
