"""``session.follow(orders=an.iceberg(name))``: the snapshots of an Iceberg table become times."""

from __future__ import annotations

import random
import shutil
import time
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.types import LongType, StringType

import altneu as an
from altneu.errors import InputError, SchemaError, StreamError
from altneu.streams.tables.iceberg import FollowedIceberg
from faults.iceberg_tables import ARROW, NAME, QUERY, ROWS, SCHEMA, Changing, expected, follow

pytestmark = pytest.mark.filterwarnings("ignore:Delete operation did not match:UserWarning")


def contents(view, **options):
    return Counter(view.to_pylist(**options))


@pytest.fixture
def changing(tmp_path):
    """Make tables, and close their catalogs in the end."""
    made = []

    def make(rng=None, *, partitioned=False, name="table"):
        made.append(Changing(tmp_path / name, rng or random.Random(1), partitioned=partitioned))
        return made[-1]

    yield make
    for table in made:
        table.close()


@pytest.mark.parametrize("partitioned", [False, True])
def test_every_snapshot_is_a_time(partitioned, changing, tmp_path):
    """Whatever is done with the table, however it is cut into sessions: at each time views are those of a snapshot."""
    for seed in range(4):
        rng = random.Random(f"{seed} {partitioned}")
        table = changing(rng, partitioned=partitioned, name=f"table {seed}")
        state, shards = tmp_path / f"state {seed}", rng.choice([1, 3])
        for _ in range(5):
            for _ in range(rng.randint(0, 4)):
                table.change()
            with an.Session(path=state, shards=shards, retain="all") as session:
                view, rows = session.maintain("v", QUERY), session.maintain("rows", ROWS)
                begun = session.lower
                status = follow(session, table)
                assert (status.batch, status.error) == (table.number, None)
                assert contents(rows) == table.contents()
                assert contents(view) == expected(table.contents())
                for back in range(session.lower - begun):
                    snapshot = table.snapshot_of(table.number - back)
                    if _is_of_main(table, snapshot):
                        assert contents(rows, at=session.lower - 1 - back) == table.contents(snapshot)


def _is_of_main(table, snapshot_id):
    metadata, snapshot = table.table.metadata, table.table.metadata.current_snapshot()
    while snapshot is not None and snapshot.snapshot_id != snapshot_id:
        snapshot = metadata.snapshot_by_id(snapshot.parent_snapshot_id) if snapshot.parent_snapshot_id else None
    return snapshot is not None


# what is read ---------------------------------------------------------------------------------------------------------


def table_of(*rows):
    return pa.Table.from_pylist([dict(zip(ARROW.names, row, strict=True)) for row in rows], ARROW)


def test_a_snapshot_in_pieces(changing, tmp_path):
    """Cut in small pieces, with the process ending after any of them: the end is the same."""
    table = changing(random.Random(5), partitioned=True)
    for _ in range(6):
        table.change()
    table.table.append(table.some(20))
    with an.Session(path=tmp_path / "state", retain="all") as session:
        view = session.maintain("v", QUERY)

        def stop(status, step):
            raise RuntimeError("enough")

        steps = 0
        while True:
            given = an.iceberg(NAME, catalog=table.properties, max_bytes=1)
            with session.follow(rows=given, available_now=True, on_step=stop) as following:
                try:
                    following.wait(100)
                    break
                except StreamError as error:
                    assert "enough" in str(error)  # noqa: PT017  # it is raised or not
            steps += 1
        assert steps == session.lower > 2
        assert contents(view) == table.expected()
        for _ in range(3):
            table.change()
        follow(session, table, given={"max_bytes": 1})
        assert contents(view) == table.expected()


@pytest.mark.parametrize("n", [100, 10_000])
def test_the_files_that_changed_are_read_and_no_others(changing, monkeypatch, n):
    """Of a table with many files one that is added, one that is replaced, and one with deletes, each once."""
    table, read = changing(partitioned=True), []
    scan = FollowedIceberg._scan

    def counted(self, *given):
        result = scan(self, *given)
        read.append(len(result))
        return result

    monkeypatch.setattr(FollowedIceberg, "_scan", counted)
    table.table.append(pa.table({"k": range(n), "v": ["a"] * n, "p": [i % 10 for i in range(n)]}, ARROW))
    with an.Session() as session:
        view = session.maintain("rows", ROWS)
        follow(session, table)
        assert sum(read) == n
        for change, rows in (
            (lambda: table.table.append(table_of((1, "b", 11))), 1),
            (lambda: table.table.delete("k = 7"), n // 10 + n // 10 - 1),
            (lambda: table.delete_positions([table.files()[0][0]], lambda _: [0]), n // 10),
        ):
            change()
            read.clear()
            status = follow(session, table)
            assert status.error is None
            assert contents(view) == table.contents()
            assert sum(read) in (rows, rows - 1)  # the file with the deletes may be the one that lost a row


def test_a_compaction_reads_nothing(changing, monkeypatch):
    table = changing()
    for i in range(3):
        table.table.append(table_of((i, "a", 0)))
    with an.Session() as session:
        view = session.maintain("rows", ROWS)
        follow(session, table)
        table._replace()
        assert len(table.files()) == 1
        monkeypatch.setattr(FollowedIceberg, "_scan", None)
        status = follow(session, table)
        assert (status.batch, len(view.to_pylist())) == (table.number, 3)


def test_deletion_vectors(changing):
    table = changing()
    for i in range(2):
        table.table.append(table_of(*((i, v, 0) for v in "abc")))
    with an.Session() as session:
        view = session.maintain("rows", ROWS)
        follow(session, table)
        for gone in ([1], [1, 2]):
            table.delete_by_vector(table.files()[0][0], gone)
            follow(session, table)
            file = pq.read_table(table.files()[0][0].file_path.removeprefix("file://")).to_pylist()
            kept = [tuple(row.values()) for i, row in enumerate(file) if i not in gone]
            assert contents(view) == Counter(kept) + Counter(
                tuple(row.values())
                for path, _ in table.files()[1:]
                for row in pq.read_table(path.file_path.removeprefix("file://")).to_pylist()
            )


def test_types_and_nulls(changing, tmp_path):
    """Every type, with nulls at each depth, from files as Spark writes them."""
    fields = {
        "i": pa.int32(), "b": pa.bool_(), "d": pa.date32(), "t": pa.timestamp("us", "UTC"), "n": pa.timestamp("us"),
        "m": pa.decimal128(9, 2), "s": pa.string(), "x": pa.binary(), "f": pa.float32(), "g": pa.float64(),
        "l": pa.list_(pa.struct([("q", pa.string()), ("r", pa.list_(pa.int64()))])),
        "o": pa.struct([("q", pa.struct([("z", pa.int32())])), ("r", pa.int64())]),
        "h": pa.map_(pa.string(), pa.struct([("q", pa.int64())])),
    }  # fmt: skip
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    full = {
        "i": 1, "b": True, "d": date(2026, 1, 2), "t": at, "n": at.replace(tzinfo=None), "m": Decimal("7.10"),
        "s": "ä", "x": b"\x00\xff", "f": 0.5, "g": float("nan"), "l": [{"q": "a", "r": [1, None]}, None,
        {"q": None, "r": None}],
        "o": {"q": {"z": 3}, "r": None}, "h": [("a", {"q": 1}), ("b", None)],
    }  # fmt: skip
    empty = {**dict.fromkeys(fields), "i": 2, "l": [], "h": [], "o": {"q": None, "r": 2}}
    rows = pa.Table.from_pylist([full, empty, {**dict.fromkeys(fields), "i": 3}], pa.schema(list(fields.items())))
    declared = (
        "i int, b boolean, d date, t timestamp, n timestamp_ntz, m decimal(9, 2), s string, x binary, f float, "
        "g double, l array<struct<q: string, r: array<bigint>>>, o struct<q: struct<z: int>, r: bigint>, "
        "h map<string, struct<q: bigint>>"
    )
    source = an.source("every", declared)
    made = changing()
    table = made.catalog.create_table("shop.every", rows.schema)
    numbered = schema_to_pyarrow(table.schema(), include_field_ids=True)
    made.write_file(table, rows.cast(numbered))
    with an.Session() as one, an.Session() as two:
        view, wanted = one.maintain("every", source), two.maintain("every", source)
        two.insert("every", rows)
        two.advance()
        with one.follow(every=an.iceberg("shop.every", catalog=made.properties), available_now=True) as following:
            assert following.wait(100)
        assert str(view.to_arrow().sort_by("i").to_pylist()) == str(wanted.to_arrow().sort_by("i").to_pylist())


def test_columns_that_come_are_renamed_widened_and_go(changing):
    table = changing()
    narrow = table.catalog.create_table("shop.narrow", pa.schema([("k", pa.int32()), ("v", pa.string())]))
    source = an.source("narrow", "k int, v string")
    given = an.iceberg("shop.narrow", catalog=table.properties)

    def followed(session):
        with session.follow(narrow=given, available_now=True, extra="ignore") as following:
            assert following.wait(100)

    narrow.append(pa.table({"k": [1], "v": ["a"]}, schema=pa.schema([("k", pa.int32()), ("v", pa.string())])))
    with an.Session() as session:
        view = session.maintain("narrow", source)
        followed(session)
        with narrow.update_schema() as update:
            update.add_column("w", StringType())
        narrow.append(pa.table({"k": pa.array([2], pa.int32()), "v": ["b"], "w": ["x"]}))
        followed(session)
        assert contents(view) == Counter([(1, "a"), (2, "b")])
        with narrow.update_schema() as update:
            update.update_column("k", LongType())
        narrow.append(pa.table({"k": [2**40], "v": ["c"], "w": ["x"]}))
        with pytest.raises(
            StreamError, match="column 'k' of source 'narrow' is int, and a value of the data does not fit"
        ):
            followed(session)
        assert len(view.to_pylist()) == 2
    with an.Session() as session:
        wide = session.maintain("narrow", an.source("narrow", "k long, v string, w string"))
        followed(session)
        assert contents(wide) == Counter([(1, "a", None), (2, "b", "x"), (2**40, "c", "x")])
        with narrow.update_schema() as update:
            update.rename_column("w", "z")
        narrow.delete("k = 1")
        with pytest.raises(StreamError, match=r"(?s)snapshot 4 of .* has other columns, .*lacks column 'w'"):
            followed(session)
    with an.Session() as session:
        again = session.maintain("narrow", an.source("narrow", "k long, z string"))
        followed(session)
        assert contents(again) == Counter([(2, "x"), (2**40, "x")])
    with an.Session() as session:
        session.maintain("narrow", an.source("narrow", "k string"))
        with pytest.raises(SchemaError, match="column 'k' of source 'narrow' is string, but the data has bigint"):
            followed(session)


def test_files_without_numbers_are_read_by_the_mapping_of_names(changing, tmp_path):
    table = changing()
    path = tmp_path / "loose.parquet"
    pq.write_table(table_of((1, "a", 0)), path)
    table.table.add_files([f"file://{path}"])
    with an.Session() as session:
        view = session.maintain("rows", ROWS)
        follow(session, table)
        assert view.to_pylist() == [(1, "a", 0)]


# where it begins, and what is gone ------------------------------------------------------------------------------------


def test_from_a_snapshot_or_a_timestamp(changing):
    table, ids = changing(), []
    for i in range(4):
        table.table.append(table_of((i, "a", 0)))
        ids.append(table.table.metadata.current_snapshot_id)
        if i == 1:
            time.sleep(0.01)
            between = datetime.now(UTC)
            time.sleep(0.01)

    def taken(**given):
        with an.Session(retain="all") as session:
            view = session.maintain("rows", ROWS)
            follow(session, table, given=given)
            return session.lower, sorted(k for k, _, _ in view.to_pylist(at=0)), len(view.to_pylist())

    assert taken() == (1, [0, 1, 2, 3], 4)
    assert taken(from_snapshot=ids[0]) == (4, [0], 4)
    assert taken(from_snapshot=ids[2], snapshot=False) == (2, [], 1)
    assert taken(from_timestamp=between) == (3, [0, 1], 4)
    assert taken(from_timestamp=between.isoformat(), snapshot=False) == (3, [], 2)
    assert taken(snapshot=False) == (1, [], 0)
    with pytest.raises(InputError, match=r"from_snapshot=9 of source 'rows' is not among the snapshots"):
        taken(from_snapshot=9)
    with pytest.raises(InputError, match=r"from_timestamp='2001-01-01T00:00:00\+00:00' .* before the first snapshot"):
        taken(from_timestamp="2001-01-01")


def test_a_table_without_a_snapshot_is_followed_from_its_first_row(changing, tmp_path):
    table = changing()
    for rows in ([], [(1, "a", 0)]):
        with an.Session(path=tmp_path / "state") as session:
            view = session.maintain("rows", ROWS)
            status = follow(session, table)
            assert (status.batch, view.to_pylist()) == (len(rows), rows)
        table.table.append(table_of((1, "a", 0)))


def test_snapshots_that_were_expired_and_tables_that_were_rolled_back(changing, tmp_path):
    table, ids = changing(), []
    for i in range(4):
        table.table.append(table_of((i, "a", 0)))
        ids.append(table.table.metadata.current_snapshot_id)
        if i == 1:
            with an.Session(path=tmp_path / "state") as session:
                session.maintain("rows", ROWS)
                follow(session, table)
    with an.Session(path=tmp_path / "ahead") as session:
        view = session.maintain("rows", ROWS)
        follow(session, table)
        with table.table.manage_snapshots() as manage:
            manage.rollback_to_snapshot(ids[1])
        with pytest.raises(StreamError, match=r"has only the versions up to 2: it was restored from an older copy"):
            follow(session, table)
        table.table.refresh()
        table.table.append(table_of((9, "b", 0)))
        follow(session, table)  # the rows of two snapshots went, and one came
        assert contents(view) == table.contents() == Counter([(0, "a", 0), (1, "a", 0), (9, "b", 0)])
    with table.table.manage_snapshots() as manage:
        manage.set_current_snapshot(snapshot_id=ids[3])
    table.table.append(table_of((10, "c", 0)))
    table.table.maintenance.expire_snapshots().by_ids([ids[1], ids[2]]).commit()
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("rows", ROWS)
        with pytest.raises(
            StreamError, match=r"has the rows of snapshot .*, which was expired, so that nothing says .*restart="
        ):
            follow(session, table)
        assert len(view.to_pylist()) == 2
        follow(session, table, restart=session._streams.stored("rows").mark)
        assert contents(view) == table.contents()


def test_another_table_and_a_diverged_copy_are_refused(changing, tmp_path):
    one, other = changing(name="one"), changing(name="other")
    for table in (one, other):
        table.table.append(table_of((1, "a", 0)))
    with an.Session(path=tmp_path / "state") as session:
        session.maintain("rows", ROWS)
        follow(session, one)
        with pytest.raises(StreamError, match=r"but Iceberg table shop\.rows is another one, iceberg:.*restart="):
            follow(session, other)
    shutil.copytree(tmp_path / "one", tmp_path / "saved")
    one.table.append(table_of((2, "a", 0)))
    with an.Session(path=tmp_path / "state") as session:
        session.maintain("rows", ROWS)
        follow(session, one)
    one.close()
    shutil.rmtree(tmp_path / "one")
    shutil.copytree(tmp_path / "saved", tmp_path / "one")
    again = changing(name="one")
    again.table.append(table_of((3, "a", 0)))
    with an.Session(path=tmp_path / "state") as session:
        session.maintain("rows", ROWS)
        with pytest.raises(StreamError, match=r"are copies that have diverged"):
            follow(session, again)


def test_what_is_given_wrongly_is_refused(changing):
    table = changing()
    for options, match in (
        ({"from_snapshot": 1, "from_timestamp": "2026-01-01"}, "at from_snapshot= or at from_timestamp=, not at both"),
        ({"from_snapshot": "1"}, "from_snapshot must be the id of a snapshot, a whole number, got '1'"),
        ({"snapshot": 1}, "snapshot must be True or False, got 1"),
        ({"max_bytes": "much"}, "max_bytes must be a number of bytes"),
        ({"from_timestamp": "noon"}, "from_timestamp must be a time such as"),
    ):
        with pytest.raises(InputError, match=match):
            an.iceberg(NAME, catalog=table.properties, **options)
    with pytest.raises(InputError, match=r"a table with its namespace, such as 'shop.orders', got 'rows'"):
        an.iceberg("rows")
    old = table.catalog.create_table("shop.old", SCHEMA, properties={"format-version": "1"})
    assert old.metadata.format_version == 1
    with an.Session() as session:
        session.maintain("rows", ROWS)
        for name, kind, match in (
            ("shop.none", InputError, "there is no Iceberg table 'shop.none' in the catalog '.*'"),
            ("shop.old", StreamError, r"is of format version 1, .* raise it to 2 \(ALTER TABLE"),
        ):
            with pytest.raises(kind, match=match):
                session.follow(rows=an.iceberg(name, catalog=table.properties))
        with pytest.raises(InputError, match="is none of pyiceberg's"):
            session.follow(rows=an.iceberg(NAME, catalog={"type": "unheard of"}))


def test_a_session_follows_what_another_keeps(changing):
    table, chance = changing(), random.Random(8)
    with an.Session() as one, an.Session() as two:
        rows, again = one.maintain("rows", ROWS), two.maintain("kept", an.source("kept", "k long, n long"))
        counts = one.maintain("counts", ROWS.group_by("k").agg(n="count(*)"))
        sink = an.sinks.iceberg(counts, "shop.kept", catalog=table.properties, key=["k"])
        for _ in range(4):
            one.insert("rows", [(chance.randrange(3), chance.choice("abc"), 0)] * chance.randint(1, 2))
            one.retract("rows", rows.to_pylist()[:1] if one.lower else [])
            one.advance()
            sink.run()
            with two.follow(kept=an.iceberg("shop.kept", catalog=table.properties), available_now=True) as following:
                assert following.wait(100)
            assert contents(again) == contents(counts)
