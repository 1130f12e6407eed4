"""``session.follow(orders=an.delta(path))``: the versions of a Delta table become times."""

from __future__ import annotations

import json
import random
import struct
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import altneu as an
from altneu.errors import InputError, SchemaError, StreamError
from altneu.streams.tables.delta import FollowedDelta
from faults.delta_tables import QUERY, ROWS, SCHEMA, Changing, follow

KINDS = [(feed, partitioned) for feed in (False, True) for partitioned in (False, True)]


def contents(view, **options):
    return Counter(view.to_pylist(**options))


def rows_of(*rows):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


def log_of(path, version):
    return Path(path) / "_delta_log" / f"{version:020d}.json"


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "a table")


# every version --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("feed", "partitioned"), KINDS)
def test_every_version_is_a_time(feed, partitioned, path, tmp_path):
    """Whatever is done with the table, however it is cut into sessions: at each time views are those of a version."""
    for seed in range(3):
        rng = random.Random(f"{seed} {feed} {partitioned}")
        table = Changing(Path(f"{path} {seed}"), rng, feed=feed, partitioned=partitioned)
        state, shards = tmp_path / f"state {seed}", rng.choice([1, 3])
        times = {}
        for _ in range(4):
            for _ in range(rng.randint(0, 4)):
                table.change()
            with an.Session(path=state, shards=shards, retain="all") as session:
                view, rows = session.maintain("v", QUERY), session.maintain("rows", ROWS)
                begun = session.lower
                status = follow(session, table.path)
                version = table.table.version()
                assert (status.batch, status.error) == (version, None)
                times |= {session.lower - 1 - i: version - i for i in range(session.lower - begun)}
                for time, number in times.items():
                    assert contents(view, at=time) == table.expected(number), (time, number)
                    assert contents(rows, at=time) == table.contents(number)
        assert sorted(times.values()) == list(range(min(times.values()), table.table.version() + 1))


def test_a_version_in_pieces(path, tmp_path):
    """Cut in small pieces, with the process ending after any of them: the end is the same."""
    rng = random.Random(5)
    table = Changing(Path(path), rng, feed=False, partitioned=True)
    for _ in range(9):
        table.change()
    write_deltalake(path, table.some(20), mode="append")
    with an.Session(path=tmp_path / "state", retain="all") as session:
        view = session.maintain("v", QUERY)

        def stop(status, step):
            raise RuntimeError("enough")

        steps = 0
        while True:
            table_given = an.delta(path, max_bytes=1)
            with session.follow(rows=table_given, available_now=True, on_step=stop) as following:
                if not _failed(following):
                    break
            steps += 1
        assert steps == session.lower > 3
        assert contents(view) == table.expected()
        for _ in range(3):
            table.change()
        lower = session.lower
        status = follow(session, path, given={"max_bytes": 1})
        assert contents(view) == table.expected()
        assert (status.batches, status.batch) == (3, table.table.version())
        assert session.lower >= lower + 3


def test_what_is_followed_is_shown_with_its_source_and_its_state(path):
    write_deltalake(path, pa.table({"k": [1, 2]}))
    with an.Session() as session:
        session.maintain("v", an.source("numbers", "k long"))
        following = session.follow(numbers=an.delta(path))
        shown = f"Following(Delta table {path!r} into source 'numbers': "
        assert repr(following).startswith(f"{shown}running, ")
        following.stop()
        following.wait(60)
        assert repr(following).startswith(f"{shown}ended, ")
        with session.follow(numbers=an.delta(path), available_now=True, restart="again", on_step=_fails) as following:
            _failed(following)
        assert repr(following).startswith(f"{shown}failed: ")


def _fails(_status, _step):
    raise RuntimeError("enough")


def test_it_is_stopped_between_two_pieces(path):
    for i in range(4):
        write_deltalake(path, rows_of((i, "a", 0)), mode="append")
    with an.Session() as session:
        view = session.maintain("rows", ROWS)
        started = []

        def stop(status, step):
            if not started:
                started.append(following.stop())  # which does not wait, as it is called by a step

        with session.lock:  # the first step waits until the object is known
            following = session.follow(rows=an.delta(path, max_bytes=1), on_step=stop)
        assert following.wait(100)
        assert (session.lower, len(view.to_pylist())) == (1, 1)
        follow(session, path)
        assert (session.lower, len(view.to_pylist())) == (4, 4)


def _failed(following):
    try:
        following.wait(100)
    except StreamError as error:
        assert "enough" in str(error)  # noqa: PT017  # it is raised or not
        return True
    return False


def test_it_goes_on_while_it_is_followed(path):
    write_deltalake(path, rows_of((1, "a", 0)))
    with an.Session() as session:
        view = session.maintain("rows", ROWS)
        seen = []
        with session.follow(
            rows=an.delta(path), trigger="20 milliseconds", on_step=lambda status, _: seen.append(status.batch)
        ) as following:
            for i in range(3):
                write_deltalake(path, rows_of((i, "b", i)), mode="append")
                while len(seen) < i + 2:
                    assert not following.wait(0.01)
        assert seen == [0, 1, 2, 3]
        assert len(view.to_pylist()) == 4
        assert not following.active


def test_beside_a_stream_of_sparks_and_other_tables(spark, path, tmp_path):
    from faults.stream_files import Files

    files = Files(spark, tmp_path / "in")
    files.put((1, 1), (2, 2))
    write_deltalake(path, rows_of((1, "a", 0), (7, "b", 1)))
    n = an.source("n", "k long, v long")
    both = ROWS.join(n, on="k").select("k", "v", w="right.v")
    with an.Session(spark, tmp_path / "state") as session:
        view = session.maintain("both", both)
        with session.follow(rows=an.delta(path), n=files.stream(), available_now=True, extra="ignore") as following:
            assert following.wait(200)
        assert view.to_pylist() == [(1, "a", 1)]
        assert set(following.queries) == {"n"}
        assert session.rows_followed == {"rows": 2, "n": 2}


# what is read ---------------------------------------------------------------------------------------------------------


def test_with_a_feed_only_changes_are_read_and_without_the_files(path, monkeypatch):
    read = []
    rows = FollowedDelta._rows

    def counted(self, file):
        result = rows(self, file)
        read.append(result.num_rows)
        return result

    monkeypatch.setattr(FollowedDelta, "_rows", counted)
    for feed in (True, False):
        for n in (100, 10_000):
            place = f"{path} {feed} {n}"
            data = pa.table({"k": range(n), "v": ["a"] * n, "p": [0] * n})
            write_deltalake(place, data, configuration={"delta.enableChangeDataFeed": str(feed).lower()})
            with an.Session() as session:
                view = session.maintain("v", QUERY)
                follow(session, place)
                DeltaTable(place).update(updates={"v": "'b'"}, predicate="k = 7")
                read.clear()
                status = follow(session, place)
                assert status.rows == n + 2
                assert view.to_pylist() == [(0, n, n * (n - 1) // 2, "b")]
                assert sum(read) == (2 if feed else 2 * n)


def test_types_and_partitions(path):
    fields = [
        ("i", pa.int32()), ("b", pa.bool_()), ("d", pa.date32()), ("t", pa.timestamp("us", "UTC")),
        ("n", pa.timestamp("us")), ("m", pa.decimal128(9, 2)), ("s", pa.string()), ("x", pa.binary()),
        ("f", pa.float64()), ("l", pa.list_(pa.string())), ("o", pa.struct([("q", pa.string()), ("r", pa.int8())])),
        ("h", pa.map_(pa.string(), pa.int64())),
    ]  # fmt: skip
    schema = pa.schema(fields)
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    rows = [
        {
            "i": 1, "b": True, "d": date(2026, 1, 2), "t": at, "n": at.replace(tzinfo=None), "m": Decimal("7.10"),
            "s": "a b/c%=ä", "x": b"\x00\xff", "f": 0.5, "l": ["a", None], "o": {"q": "y", "r": 3}, "h": [("a", 1)],
        },
        dict.fromkeys(schema.names),
    ]  # fmt: skip
    declared = (
        "i int, b boolean, d date, t timestamp, n timestamp_ntz, m decimal(9, 2), s string, x binary, f double, "
        "l array<string>, o struct<q: string, r: tinyint>, h map<string, bigint>"
    )
    expected = an.source("t", declared)
    with an.Session() as session:
        wanted = session.maintain("t", expected)
        session.insert("t", pa.Table.from_pylist(rows, schema))
        session.advance()
        want = wanted.to_arrow().sort_by("i").to_pylist()
    for i, by in enumerate([None, ["i"], ["b", "d"], ["t"], ["n"], ["m"], ["s"], ["f"]]):
        place = f"{path} {i}"
        write_deltalake(place, pa.Table.from_pylist(rows, schema), partition_by=by)
        for version in (0, 1):
            with an.Session() as session:
                view = session.maintain("t", an.source("t", declared))
                follow(session, place, "t", given={"from_version": version})
                assert view.to_arrow().sort_by("i").to_pylist() == want[version:], by
                if version == 0:
                    DeltaTable(place).delete("i = 1")
                    follow(session, place, "t")
                    assert view.to_arrow().to_pylist() == want[:1] if want[0]["i"] is None else want[1:]
                    want.sort(key=lambda row: row["i"] is None)


def test_rows_have_times_of_their_own(path):
    schema = pa.schema([("k", pa.int64()), ("at", pa.int32())])
    write_deltalake(path, pa.Table.from_pylist([{"k": 1, "at": 5}, {"k": 2, "at": 8}], schema))
    keys = an.source("keys", "k long")
    with an.Session(retain="all") as session:
        view = session.maintain("keys", keys)
        status = follow(session, path, "keys", time="at", watermark=0)
        assert (session.lower, status.seen, view.to_pylist()) == (8, 8, [(1,)])
        DeltaTable(path).delete("k = 1")  # at a time that is closed: it counts from now on
        status = follow(session, path, "keys", time="at", watermark=0)
        session.advance(to=9)
        assert [view.to_pylist(at=t) for t in (4, 5, 7, 8)] == [[], [(1,)], [(1,)], [(2,)]]
        assert status.late == 1
        with pytest.raises(InputError, match=r"restart='delta:.*' replaces the rows of source 'keys', whose rows have"):
            follow(session, path, "keys", time="at", restart=_mark(session, "keys"))
    with an.Session() as session:
        session.maintain("keys", keys)
        with pytest.raises(
            SchemaError, match=r"time='k \+ 1' of source 'keys' must be a column of the table with whole"
        ):
            follow(session, path, "keys", time="k + 1")


def test_a_log_of_changes_is_followed_by_its_times_and_diffs(path, tmp_path):
    """What one session keeps as a log is the same source in another, at the same times."""
    log = str(tmp_path / "log")
    with an.Session(retain="all") as one, an.Session(retain="all") as two:
        rows, again = one.maintain("rows", ROWS), two.maintain("v", QUERY)
        wanted, chance = one.maintain("v", QUERY), random.Random(3)
        with an.sinks.delta(rows, log, mode="append").attach():
            for _ in range(6):
                one.insert("rows", [(chance.randrange(3), chance.choice("abc"), 0)] * chance.randint(1, 2))
                one.retract("rows", rows.to_pylist()[:1] if one.lower else [])
                one.advance(to=one.lower + (chance.randint(1, 2) if one.lower else 1))
        follow(two, log, time="time", diff="diff", given={"from_version": 0})
        two.advance(to=one.lower)
        for t in range(one.lower):
            assert contents(again, at=t) == contents(wanted, at=t)
    write_deltalake(path, rows_of((1, "a", None)))
    with an.Session() as session:
        session.maintain("rows", ROWS)
        for diff, match in {
            "p": "diff='p' of source 'rows' is null in a row",
            "v": "diff='v' of .* got string",
        }.items():
            with pytest.raises((StreamError, SchemaError), match=match):
                follow(session, path, diff=diff)


def test_a_source_with_a_key_and_one_that_only_grows(path):
    keyed = an.source("rows", "k long, v string", key="k")
    write_deltalake(path, rows_of((1, "a", 0), (2, "b", 0)), partition_by=["p"])
    with an.Session() as session:
        view = session.maintain("rows", keyed)
        follow(session, path, extra="ignore")
        DeltaTable(path).update(updates={"v": "'c'"}, predicate="k = 1")
        DeltaTable(path).delete("k = 2")
        follow(session, path, extra="ignore")
        assert view.to_pylist() == [(1, "c")]
        assert view.errors().num_rows == 0
    growing = an.source("rows", "k long, v string", append_only=True)
    with an.Session() as session:
        session.maintain("rows", growing)
        follow(session, path, extra="ignore")
        write_deltalake(path, rows_of((3, "a", 0)), mode="append")
        follow(session, path, extra="ignore")
        DeltaTable(path).delete("k = 3")
        with pytest.raises(
            StreamError, match="versions up to 3 are committed: InputError: source 'rows' is append-only"
        ):
            follow(session, path, extra="ignore")


# where it begins ------------------------------------------------------------------------------------------------------


def test_from_a_version_or_a_timestamp(path, tmp_path):
    for i in range(4):
        write_deltalake(path, rows_of((i, "a", 0)), mode="append")
        if i == 1:
            between = datetime.now(UTC)

    def taken(**given):
        with an.Session(retain="all") as session:
            view = session.maintain("rows", ROWS)
            follow(session, path, given=given)
            return session.lower, sorted(k for k, _, _ in view.to_pylist(at=0)), len(view.to_pylist())

    assert taken() == (1, [0, 1, 2, 3], 4)
    assert taken(from_version=0) == (4, [0], 4)
    assert taken(from_version=2) == (2, [0, 1, 2], 4)
    assert taken(from_version=2, snapshot=False) == (2, [], 1)
    assert taken(from_timestamp=between) == (3, [0, 1], 4)
    assert taken(from_timestamp=between.isoformat(), snapshot=False) == (3, [], 2)
    assert taken(snapshot=False) == (1, [], 0)
    with pytest.raises(InputError, match=r"from_version=9 of source 'rows' is not there yet: .* versions up to 3"):
        taken(from_version=9)
    with pytest.raises(InputError, match=r"from_timestamp='2001-01-01T00:00:00\+00:00' .* before the first version"):
        taken(from_timestamp="2001-01-01")


def test_the_beginning_is_remembered_before_anything_came(path, tmp_path):
    write_deltalake(path, rows_of((0, "a", 0)))
    for _ in range(2):
        with an.Session(path=tmp_path / "state") as session:
            view = session.maintain("rows", ROWS)
            follow(session, path, given={"snapshot": False})
        write_deltalake(path, rows_of((1, "b", 0)), mode="append")
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("rows", ROWS)
        follow(session, path, given={"snapshot": False})
        assert view.to_pylist() == [(1, "b", 0), (1, "b", 0)]


# what has changed -----------------------------------------------------------------------------------------------------


def test_columns_that_come_and_columns_that_go(path):
    write_deltalake(path, rows_of((1, "a", 0)))
    with an.Session() as session:
        view = session.maintain("rows", ROWS)
        follow(session, path)
        more = rows_of((2, "b", 1)).append_column("w", pa.array([5.0]))
        write_deltalake(path, more, mode="append", schema_mode="merge")
        DeltaTable(path).update(updates={"v": "'c'"}, predicate="k = 1")
        with pytest.raises(StreamError, match=r"(?s)version 1 of .* changed its columns, .*has 'w', .*ALTER TABLE"):
            follow(session, path)
        assert contents(view) == Counter([(1, "a", 0)])
        follow(session, path, extra="ignore")
        assert contents(view) == Counter([(1, "c", 0), (2, "b", 1)])
        other = more.drop_columns(["v"])
        write_deltalake(path, other, mode="overwrite", schema_mode="overwrite")
        with pytest.raises(StreamError, match=r"(?s)version 3 of .* changed its columns, .*lacks column 'v'"):
            follow(session, path, extra="ignore")
        assert len(view.to_pylist()) == 2
    late = an.source("rows", "k long, w double")
    with an.Session() as session:
        view = session.maintain("rows", late)
        follow(session, path, given={"from_version": 1}, extra="ignore")
        assert view.to_pylist() == [(2, 5.0)]


def test_a_field_that_comes_into_a_column(path):
    old, new = ({"o": {"q": 1}, "l": [{"q": 1}]}, {"o": {"q": 2, "r": "x"}, "l": [{"q": 2, "r": "y"}]})
    write_deltalake(path, pa.Table.from_pylist([old]))
    nested = an.source("t", "o struct<q: bigint, r: string>, l array<struct<q: bigint, r: string>>")
    with an.Session() as session:
        before = session.maintain("t", an.source("t", "o struct<q: bigint>"))
        follow(session, path, "t", extra="ignore")
        write_deltalake(path, pa.Table.from_pylist([new]), mode="append", schema_mode="merge")
        follow(session, path, "t", extra="ignore")
        assert sorted(row["o"]["q"] for row in before.to_arrow().to_pylist()) == [1, 2]
    with an.Session() as session:
        view = session.maintain("t", nested)
        follow(session, path, "t")
        DeltaTable(path).delete("o.q = 1")
        follow(session, path, "t")
        assert view.to_arrow().to_pylist() == [new]


def test_a_column_whose_type_changes(path):
    write_deltalake(path, rows_of((1, "a", 0), (2**40, "b", 0)))
    with an.Session() as session:
        view = session.maintain("rows", ROWS)
        follow(session, path)
        less = rows_of((3, "c", 0)).set_column(0, "k", pa.array([3], pa.int32()))
        write_deltalake(path, less, mode="overwrite", schema_mode="overwrite")
        with pytest.raises(
            StreamError, match=r"has column 'k' as int32, and a value of it in the file .* is none.*restart="
        ):
            follow(session, path)
        assert len(view.to_pylist()) == 2
        text = rows_of((3, "c", 0)).set_column(0, "k", pa.array(["3"]))
        write_deltalake(f"{path} 2", rows_of((1, "a", 0)))
        session.unfollow("rows")
        follow(session, f"{path} 2")
        write_deltalake(f"{path} 2", text, mode="overwrite", schema_mode="overwrite")
        with pytest.raises(
            StreamError, match=r"version 1 of .* changed its columns, .*column 'k' of source 'rows' is bigi"
        ):
            follow(session, f"{path} 2")


def test_a_column_of_another_type_is_refused_at_once(path):
    write_deltalake(path, rows_of((1, "a", 0)))
    with an.Session() as session:
        session.maintain("rows", an.source("rows", "k string"))
        with pytest.raises(SchemaError, match="column 'k' of source 'rows' is string, but the data has bigint"):
            follow(session, path)


def test_history_that_is_gone(path, tmp_path):
    """Vacuumed files, a log that was cleaned up: the error names the remedy, and the remedy works."""
    write_deltalake(path, rows_of((1, "a", 0), (1, "a", 0), (2, "b", 0)))
    kept = an.source("rows", "k long, v string, p long", keep=True)
    for what in ("files", "log"):
        with an.Session(path=tmp_path / what) as session:
            view = session.maintain("v", kept.filter("k > 0"))
            follow(session, path)
            for i in range(3):
                DeltaTable(path).update(updates={"v": f"'{what}{i}'"}, predicate="k = 1")
            if what == "files":
                DeltaTable(path).vacuum(0, dry_run=False, enforce_retention_duration=False)
                match = r"(?s)no longer has the file .* vacuum removed it.*restart='delta:.*' makes the source what"
            else:
                DeltaTable(path).create_checkpoint()
                log_of(path, DeltaTable(path).version() - 2).unlink()
                match = r"(?s)version \d+ of .* can no longer be read: its log, or files of it, were.*restart='del"
            with pytest.raises(StreamError, match=match):
                follow(session, path)
            mark = _mark(session)
            status = follow(session, path, restart=mark)
            assert contents(view) == Counter([(1, f"{what}2", 0)] * 2 + [(2, "b", 0)])
            write_deltalake(path, rows_of((5, what, 0)), mode="append")
            status = follow(session, path, restart=mark)  # it may stay: it is of that state alone
            assert contents(view)[5, what, 0] == 1
            assert status.batch == DeltaTable(path).version()
            DeltaTable(path).delete("k = 5")


def _mark(session, name="rows"):
    stored = session._engine.streams_stored[name]
    return f"{stored['query']}/{stored['batch']}"


def test_another_table_and_copies_that_diverged(path, tmp_path):
    write_deltalake(path, rows_of((1, "a", 0)))
    write_deltalake(path, rows_of((2, "a", 0)), mode="append")
    with an.Session() as session:
        view = session.maintain("rows", ROWS)
        follow(session, path)
        first = log_of(path, 1).read_bytes()
        log_of(path, 1).unlink()
        with pytest.raises(StreamError, match=r"versions up to 0: it was restored from an older copy. restart='delta:"):
            follow(session, path)
        write_deltalake(path, rows_of((3, "a", 0)), mode="append")
        with pytest.raises(StreamError, match=r"version 1 of .* is a different one: table and store are copies"):
            follow(session, path)
        log_of(path, 1).write_bytes(first)
        follow(session, path)
        other = str(tmp_path / "other")
        for _ in range(2):
            write_deltalake(other, rows_of((1, "a", 0)), mode="append")
        with pytest.raises(StreamError, match=r"but Delta table .* is another one, delta:"):
            follow(session, other)
        session.unfollow("rows")
        follow(session, other)
        assert len(view.to_pylist()) == 4


# features -------------------------------------------------------------------------------------------------------------

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def vector(rows):
    """A deletion vector within the log, as Delta's protocol writes it: a roaring bitmap in Z85."""
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + struct.pack(f"<{len(rows)}H", *rows)
    body = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    padded, text = body + bytes(-len(body) % 4), ""
    for at in range(0, len(padded), 4):
        number = int.from_bytes(padded[at : at + 4], "big")
        text += "".join(Z85[number // 85**i % 85] for i in (4, 3, 2, 1, 0))
    return {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(body), "cardinality": len(rows)}


def commit(path, version, *actions):
    log_of(path, version).write_text("".join(json.dumps(action) + "\n" for action in actions))


PROTOCOL = {"minReaderVersion": 3, "minWriterVersion": 7}


@pytest.mark.parametrize("partitioned", [False, True])
def test_deletion_vectors(partitioned, path, tmp_path):
    write_deltalake(
        path, rows_of(*((k, "ab"[k % 2], 0) for k in range(6))), partition_by=["p"] if partitioned else None
    )
    (add,) = [json.loads(line)["add"] for line in log_of(path, 0).read_text().splitlines() if '"add"' in line]
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    remove = {"dataChange": True, "deletionTimestamp": 1} | {n: add[n] for n in ("path", "partitionValues", "size")}
    one, two = vector([1]), vector([1, 4])
    commit(path, 1, {"protocol": PROTOCOL | features}, {"remove": remove}, {"add": add | {"deletionVector": one}})
    commit(path, 2, {"remove": remove | {"deletionVector": one}}, {"add": add | {"deletionVector": two}})
    commit(path, 3, {"remove": remove | {"deletionVector": two}}, {"add": add})  # as RESTORE does
    commit(path, 4, {"remove": remove}, {"add": add | {"deletionVector": two}})
    everything = set(range(6))
    there = [everything, everything - {1}, everything - {1, 4}, everything, everything - {1, 4}]
    for begin in range(5):
        with an.Session(retain="all") as session:
            view = session.maintain("rows", ROWS)
            status = follow(session, path, given={"from_version": begin})
            assert [{k for k, _, _ in view.to_pylist(at=t)} for t in range(session.lower)] == there[begin:]
            assert status.rows == len(there[begin]) + sum(
                len(a ^ b) for a, b in zip(there[begin:], there[begin + 1 :], strict=False)
            )
    DeltaTable(path).delete("k = 5")
    with an.Session() as session:
        view = session.maintain("rows", ROWS)
        follow(session, path, given={"from_version": 3})
        assert {k for k, _, _ in view.to_pylist()} == {0, 2, 3}


def test_column_mapping(path):
    DeltaTable.create(path, SCHEMA, partition_by=["p"], configuration={"delta.columnMapping.mode": "name"})
    write_deltalake(path, rows_of((1, "a", 0), (2, "b", 1)), mode="append")
    with an.Session(retain="all") as session:
        view = session.maintain("rows", ROWS)
        follow(session, path, given={"from_version": 0})
        assert contents(view) == Counter([(1, "a", 0), (2, "b", 1)])
        fields = json.loads(DeltaTable(path).schema().to_json())["fields"]
        assert all(f["metadata"]["delta.columnMapping.physicalName"] != f["name"] for f in fields)
    with an.Session() as session:
        view = session.maintain("rows", ROWS)
        follow(session, path)
        assert contents(view) == Counter([(1, "a", 0), (2, "b", 1)])
        metadata = next(
            json.loads(line) for line in log_of(path, 0).read_text().splitlines() if "metaData" in json.loads(line)
        )
        schema = json.loads(metadata["metaData"]["schemaString"])
        next(f for f in schema["fields"] if f["name"] == "v")["name"] = "renamed"
        metadata["metaData"]["schemaString"] = json.dumps(schema)
        commit(path, DeltaTable(path).version() + 1, metadata)
        with pytest.raises(StreamError, match=r"(?s)version 2 of .* changed its columns.*lacks column 'v'"):
            follow(session, path, extra="ignore")
    with an.Session() as session:
        view = session.maintain("rows", an.source("rows", "k long, renamed string, p long"))
        follow(session, path)
        assert contents(view) == Counter([(1, "a", 0), (2, "b", 1)])
    nested = Path(path).parent / "nested"
    DeltaTable.create(
        nested, pa.schema([("o", pa.struct([("q", pa.int64())]))]), configuration={"delta.columnMapping.mode": "name"}
    )
    with an.Session() as session:
        session.maintain("rows", an.source("rows", "o struct<q: bigint>"))
        with pytest.raises(SchemaError, match=r"column 'o' of Delta table .* is nested, and the table maps the names"):
            follow(session, nested)


def test_a_table_with_the_feature_of_variants_is_read_without_them(path):
    """deltalake gives the feature to a table of the newest protocol when it sets a property."""
    at = datetime.fromisoformat("2026-01-01")
    write_deltalake(path, pa.table({"k": [1], "at": pa.array([at], pa.timestamp("us"))}))
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "true"})
    assert "variantType" in DeltaTable(path).protocol().reader_features
    with an.Session() as session:
        view = session.maintain("rows", an.source("rows", "k long, at timestamp_ntz"))
        follow(session, path)
        assert view.to_pylist() == [(1, at)]
    said = json.loads(DeltaTable(path).schema().to_json())
    array = {"type": "array", "elementType": "variant", "containsNull": True}
    said["fields"] += [{"name": "v", "type": array, "nullable": True, "metadata": {}}]
    log = log_of(path, 0)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    other = next(line for line in lines if "metaData" in line)
    other["metaData"]["schemaString"] = json.dumps(said)
    commit(path, 2, other)
    with an.Session() as session:
        session.maintain("rows", an.source("rows", "k long, v array<variant>"))
        with pytest.raises(SchemaError, match=r"column 'v' of Delta table .* has variants, which are not read"):
            follow(session, path, extra="ignore")
    with an.Session() as session:
        view = session.maintain("rows", an.source("rows", "k long"))
        follow(session, path, extra="ignore")
        assert view.to_pylist() == [(1,)]


def test_a_feature_that_is_not_known_is_refused(path):
    write_deltalake(path, rows_of((1, "a", 0)))
    with an.Session() as session:
        session.maintain("rows", ROWS)
        follow(session, path)
        commit(path, 1, {"protocol": PROTOCOL | {"readerFeatures": ["shiny"], "writerFeatures": ["shiny"]}})
        with pytest.raises(StreamError, match=r"cannot be opened: .*Feature 'shiny' is not supported"):
            follow(session, path)
        log_of(path, 1).unlink()
        clone = {"path": f"file://{path}/x.parquet", "partitionValues": {}, "size": 1, "dataChange": True}
        commit(path, 1, {"add": clone | {"modificationTime": 0}})
        with pytest.raises(StreamError, match="is a shallow clone, and is not read"):
            follow(session, path)


def test_what_is_refused(path):
    write_deltalake(path, rows_of((1, "a", 0)))
    with pytest.raises(InputError, match="at from_version= or at from_timestamp=, not at both"):
        an.delta(path, from_version=1, from_timestamp="2026-01-01")
    for wrong in ({"from_version": -1}, {"from_version": True}, {"from_timestamp": "soon"}, {"max_bytes": "much"}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            an.delta(path, **wrong)
    with an.Session() as session:
        session.maintain("rows", ROWS)
        for wrong in ({"command": "insert"}, {"max_rows": 5}, {"snapshots": True}):
            with pytest.raises(InputError, match=f"{next(iter(wrong))}=.* of source 'rows' is for streams of Spark's"):
                follow(session, path, **wrong)
        with pytest.raises(InputError, match="trigger must be a span such as"):
            session.follow(rows=an.delta(path), trigger="often")
        with pytest.raises(InputError, match="no stream of Spark's is followed: of a table the store has the position"):
            follow(session, path, checkpoint="/nowhere")
        with pytest.raises(InputError, match="there is no Delta table at /nowhere"):
            follow(session, "/nowhere")
    with an.Session() as session:
        session.maintain("rows", an.source("rows", "k long", distinct=True))
        with pytest.raises(InputError, match="source 'rows' is distinct, and a table counts its rows"):
            follow(session, path)
