"""``session.follow``: micro-batches become times, and go on where they were."""

from __future__ import annotations

import random
import shutil
import threading
from collections import Counter
from itertools import pairwise

import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import InputError, SchemaError, StreamError, UnknownSourceError
from altneu.runtime import step_limit
from altneu.runtime.journal import Journal
from altneu.streams.batch import TIME, MicroBatch
from altneu.streams.record import Record
from faults.stream_files import COUNTS, LATE, Files, N, follow
from tests.interrupts import interrupted_when


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path / "in")


def contents(view):
    return Counter(view.to_pylist())


@pytest.mark.parametrize("where", ["local", "driver", "tasks"])
def test_every_micro_batch_is_a_time(where, spark, files, tmp_path):
    options = {"local": {}, "driver": {"spark": spark}, "tasks": {"spark": spark, "placement": "spark"}}[where]
    files.put((1, 1), (2, 2))
    files.put((1, 5))
    with an.Session(path=tmp_path / "state", **options) as session:
        view = session.maintain("v", COUNTS)
        status = follow(session, files)
        assert (session.lower, contents(view)) == (2, Counter([(1, 2, 6), (2, 1, 2)]))
        assert {change["time"] for change in view.changes().to_pylist()} == {1}
        assert (status.batch, status.batches, status.rows, status.active, status.error) == (1, 2, 3, False, None)
    files.put((2, 3))
    with an.Session(path=tmp_path / "state", **options) as session:
        view = session.maintain("v", COUNTS)
        assert follow(session, files).batches == 1
        assert contents(view) == Counter([(1, 2, 6), (2, 2, 5)])
    assert sorted(p.name for p in (tmp_path / "state" / "streams").iterdir()) == ["n"]


def test_a_large_batch_is_cut_and_each_piece_is_a_time(spark, files, tmp_path):
    files.put(*((k, k) for k in range(100)))
    with an.Session(path=tmp_path / "state", retain="all") as session:
        view = session.maintain("v", N)
        status = follow(session, files, max_rows=30)
        assert (session.lower, status.rows, status.batches) == (4, 100, 1)
        assert contents(view) == Counter((k, k) for k in range(100))
        sizes = [len(view.to_pylist(at=t)) for t in range(4)]
        assert all(10 < after - before < 50 for before, after in pairwise([0, *sizes]))


def test_rows_too_many_for_the_driver_are_read_by_tasks(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("altneu.streams.batch.HERE_ROWS", 0)
    files = Files(spark, tmp_path / "in")
    files.put(*((k % 3, k, k % 7) for k in range(50)))
    files.put((0, 1000, 2), (0, 2000, 9), (1, 3000, 3))
    with an.Session(spark, tmp_path / "state", placement="spark") as session:
        view, late = session.maintain("v", COUNTS), session.maintain("late", LATE)
        status = follow(session, files, time="time", watermark=0, late="error", max_rows=40)
        assert (session.lower, status.rows, status.late, status.seen) == (9, 53, 2, 9)
        assert contents(late) == Counter([(0, 1000, 2, 6), (1, 3000, 3, 6)])
        assert sum(n for _, n, _ in view.to_pylist()) == 50
        session.advance()
        assert sum(n for _, n, _ in view.to_pylist()) == 51


# event times ----------------------------------------------------------------------------------------------------------


def test_a_watermark_says_which_times_are_closed(files, tmp_path):
    files.put((1, 1, 5), (1, 2, 8))
    files.put((1, 3, 7), (1, 4, 30))
    for part in (0, 1):
        with an.Session(path=tmp_path / "state", retain="all") as session:
            view = session.maintain("v", COUNTS)
            if part == 0:
                follow(session, files, time="time", watermark=3)
                assert session.lower == 27
                assert [contents(view) for view in [view]] == [Counter([(1, 3, 6)])]
                assert [view.to_pylist(at=t) for t in (4, 5, 7, 8)] == [[], [(1, 1, 1)], [(1, 2, 4)], [(1, 3, 6)]]
                files.put((1, 9, 28), (1, 5, 40))
            else:
                status = follow(session, files, time="time", watermark=3)
                assert (session.lower, status.frontier, status.lag) == (37, 37, 4)
                assert view.to_pylist() == [(1, 5, 19)]
                session.advance(to=41)
                assert view.to_pylist() == [(1, 6, 24)]


@pytest.mark.parametrize("late", ["revise", "drop", "error"])
def test_late_rows_are_taken_as_declared(late, files, tmp_path):
    files.put((1, 1, 10))
    files.put((2, 2, 4), (3, 3, 10), (4, 4, -7), (5, 5, 11))
    with an.Session(path=tmp_path / "state") as session:
        view, errors = session.maintain("v", N), session.maintain("late", LATE)
        status = follow(session, files, time="time", late=late)
        session.advance(to=12)
        assert (status.late, status.rows) == (2, 5)
    kept = {(1, 1), (3, 3), (5, 5)} | ({(2, 2), (4, 4)} if late == "revise" else set())
    with an.Session(path=tmp_path / "state") as session:
        view, errors = session.maintain("v", N), session.maintain("late", LATE)
        assert set(view.to_pylist()) == kept
        assert set(errors.to_pylist()) == ({(2, 2, 4, 10), (4, 4, -7, 10)} if late == "error" else set())


TWO = an.source("n", "k long, v long", time=("system", "event"))


@pytest.mark.parametrize("late", ["revise", "drop", "error"])
@pytest.mark.parametrize("where", ["here", "tasks"])
def test_rows_about_closed_event_times_are_late(where, late, spark, files, tmp_path, monkeypatch):
    if where == "tasks":
        monkeypatch.setattr("altneu.streams.batch.HERE_ROWS", 0)
    files.put((1, 1, 2), (1, 2, 4))
    with an.Session(spark if where == "tasks" else None, tmp_path / "state", retain="all") as session:
        view, errors = session.maintain("v", TWO), session.maintain("late", LATE)
        follow(session, files, time="time", late=late)
        session.advance(event=4)
        files.put((1, 4, 3), (1, 8, 5))
        status = follow(session, files, time="time", late=late)
        assert (status.rows, status.late) == (4, 1)
        assert view.to_pylist(at=(None, 3)) == view.to_pylist(at=(10**6, 3)) == [(1, 1)]
        assert set(view.to_pylist(at=(None, 4))) == {(1, 1), (1, 2), *([(1, 4)] if late == "revise" else [])}
        assert errors.to_pylist() == ([(1, 4, 3, 4)] if late == "error" else [])


@pytest.mark.parametrize("where", ["here", "tasks"])
def test_either_of_two_times_may_be_late(where, spark, files, tmp_path, monkeypatch):
    if where == "tasks":
        monkeypatch.setattr("altneu.streams.batch.HERE_ROWS", 0)
    files.put((0, 0, 10, 7))
    with an.Session(spark if where == "tasks" else None, tmp_path / "state") as session:
        view, errors = session.maintain("v", TWO), session.maintain("late", LATE)
        follow(session, files, time=("time", "d"), late="error")
        session.advance(to=11, event=5)
        files.put((1, 0, 12, 4), (2, 0, 9, 6), (3, 0, 9, 3), (4, 0, 11, 5))
        assert follow(session, files, time=("time", "d"), late="error").late == 3
        session.advance(to=20)
        assert contents(view) == Counter([(0, 0), (4, 0)])
        assert contents(errors) == Counter([(1, 0, 4, 5), (2, 0, 9, 11), (3, 0, 9, 11)])


def test_late_rows_need_a_view_to_be_kept_in(files):
    with an.Session() as session:
        session.maintain("v", N)
        with pytest.raises(StreamError, match=r"maintain one of an\.late_rows\(n\) first"):
            session.follow(n=files.stream(), time="time", late="error", extra="ignore")


def test_the_session_is_where_the_slowest_stream_is(spark, files, tmp_path):
    other = Files(spark, tmp_path / "other")
    m = an.source("m", "k long, v long")
    plan = N.join(m, on="k").select("k", "v", w="right.v")
    files.put((1, 1, 20))
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("v", plan)
        streams = {"n": files.stream(), "m": other.stream()}
        options = {"time": "time", "watermark": {"m": 2}, "available_now": True}
        with session.follow(streams, **options, extra="ignore") as following:
            assert following.wait(200)
        assert (session.lower, following.status["m"].frontier, following.status["n"].lag) == (0, None, 21)
    other.put((1, 7, 9))
    with an.Session(path=tmp_path / "state") as session:  # n holds it back although it is not followed this time
        view = session.maintain("v", plan)
        follow(session, other, "m", time="time", watermark=2)
        assert (session.lower, view.to_pylist()) == (7, [])
        session.unfollow("m")
        with session.follow(n=files.stream(), time="time", available_now=True, extra="ignore") as following:
            assert following.wait(200)
        session.advance(to=21)
        assert view.to_pylist() == [(1, 1, 7)]


def test_diffs_expressions_and_two_times(files):
    delays = an.source("n", "k long, v long", time=("known", "day"))
    files.put((1, 10, 3), (1, 20, 4))
    files.put((1, 10, 3, -1))
    with an.Session(retain="all") as session:
        view = session.maintain("v", delays.group_by("k").agg(total="sum(v)"))
        follow(session, files, time="time + 1", diff="2 * d")
        assert session.lower == 2
        assert [view.to_pylist(at=at) for at in [(0, 4), (0, 5), (1, 4), (1, 5)]] == [
            [(1, 20)],
            [(1, 60)],
            [],
            [(1, 40)],
        ]


# errors ---------------------------------------------------------------------------------------------------------------


def test_a_stream_that_fails_leaves_the_session_and_other_streams_going(spark, files, tmp_path):
    good = Files(spark, tmp_path / "good")
    m = an.source("m", "k long not null")
    with an.Session() as session:
        view, other = session.maintain("v", N), session.maintain("m", m)
        session.insert("n", [(7, 7)])
        files.put((1, 1))
        good.put((1,))
        good.put_table(pa.table({"k": pa.array([None], pa.int64()), **{n: pa.array([1]) for n in ("v", "time", "d")}}))
        with session.follow(n=files.stream(), m=good.stream(), available_now=True, extra="ignore") as following:
            with pytest.raises(
                StreamError, match=r"stream 'm' stopped, its batches up to 0 are committed: SchemaError: .*NOT NULL"
            ) as raised:
                following.wait(200)
            assert isinstance(raised.value.__cause__, SchemaError)
            following.queries["n"].awaitTermination(100)
        assert following.status["n"].error is None
        assert following.status["m"].error is raised.value
        assert (contents(view), other.to_pylist()) == (Counter([(7, 7), (1, 1)]), [(1,)])
        session.insert("n", [(8, 8)])
        session.advance()
        assert (8, 8) in view.to_pylist()


def test_wrong_streams_and_options_are_refused(spark, files):
    with an.Session() as session:
        session.maintain("v", N)
        stream = files.stream()
        refused = [
            ({}, InputError, "by the names of sources"),
            ({"n": spark.range(3)}, InputError, r"needs a streaming DataFrame.*takes other data$"),
            ({"n": stream, "available_know": True}, InputError, "an option of follow, it is spelt 'available_now'"),
            ({"m": stream}, UnknownSourceError, "no maintained view reads"),
            ({"n": stream.drop("v")}, SchemaError, "lacks column 'v'"),
            ({"n": stream.withColumn("v", stream.v.cast("string"))}, SchemaError, "'v' of source 'n' is bigint"),
            ({"n": stream, "time": "when"}, SchemaError, "neither a column .* nor an expression"),
            ({"n": stream, "time": "timestamp_seconds(time)"}, SchemaError, r"unix_seconds\(\.\.\.\)"),
            ({"n": stream, "watermark": 3}, InputError, "needs time="),
            ({"n": stream, "time": "time", "watermark": -3}, InputError, "at least 0"),
            ({"n": stream, "late": "later"}, InputError, "late must be"),
            ({"n": stream, "max_rows": 0}, InputError, "must be at least 1"),
        ]
        for arguments, error, message in refused:
            with pytest.raises(error, match=message):
                session.follow(**arguments, extra="ignore")
        with pytest.raises(InputError, match="is a stream and cannot be inserted"):
            session.insert("n", stream)


def test_what_a_long_advance_has_not_closed_is_closed_when_the_stream_is_followed_again(files, tmp_path, monkeypatch):
    monkeypatch.setattr(step_limit, "STEP_ROWS", 2)
    files.put(*((k, k, k) for k in range(9)))
    commit = Journal.commit_step
    done = []

    def fail_later(*args, **options):
        if len(done) == 2:
            raise RuntimeError("out of luck")
        done.append(commit(*args, **options))

    plan = N.group_by().agg(n="count(*)")
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("v", plan)
        with monkeypatch.context() as patched:
            patched.setattr(Journal, "commit_step", fail_later)
            with pytest.raises(StreamError, match=r"its batches up to 0 are committed: .*out of luck"):
                follow(session, files, time="time")
        assert (session.lower, view.to_pylist()) == (3, [(3,)])
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("v", plan)
        assert follow(session, files, time="time").rows == 9
        assert (session.lower, view.to_pylist()) == (8, [(8,)])


# streams that go on ---------------------------------------------------------------------------------------------------


def test_a_stream_that_goes_on_is_stopped_after_its_batch_and_gone_on_with(files, tmp_path):
    files.put((1, 1))
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("v", N)
        with session.follow(n=files.stream(), trigger="0 seconds", extra="ignore") as following:
            following.queries["n"].processAllAvailable()
            assert not following.wait(0)
            with pytest.raises(InputError, match="is followed already"):
                session.follow(n=files.stream(), extra="ignore")
            with pytest.raises(InputError, match="is being followed"):
                session.unfollow("n")
            files.put((2, 2))
            following.queries["n"].processAllAvailable()
            assert following.status["n"].active
        assert following.wait()
        assert contents(view) == Counter([(1, 1), (2, 2)])
        following = session.follow(n=files.stream(), extra="ignore")
    assert not following.active  # the session stops what it follows when it is closed
    with an.Session(path=tmp_path / "state") as session:
        assert contents(session.maintain("v", N)) == Counter([(1, 1), (2, 2)])


def test_what_is_called_after_a_step_sees_it_and_may_stop_the_streams(spark, files, tmp_path):
    """Spark plans the next micro-batch when this one is committed, and not before."""
    other = Files(spark, tmp_path / "other")
    for k in range(4):
        files.put((k, k))
        other.put((k, k))
    seen = []
    planned = tmp_path / "state" / "streams" / "n" / "offsets"

    def look(status, step):
        if status.name == "n":
            seen.append((step.lower, step.changes_out["v"], view.changes().column("k").to_pylist()))
            assert sorted(p.name for p in planned.glob("[0-9]*")) == [str(k) for k in range(status.batch + 1)]
        if len(seen) == 2:
            following.stop()

    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("v", N)
        session.maintain("m", an.source("m", "k long, v long"))
        session.lock.acquire()  # until following is known
        with session.follow(
            n=files.stream(), m=other.stream(), trigger="0 seconds", on_step=look, extra="ignore"
        ) as following:
            session.lock.release()
            following.queries["n"].awaitTermination(100)
        assert following.error is None
        assert [(changes, k) for _, changes, k in seen] == [(1, [0]), (1, [1])]
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("v", N)
        session.maintain("m", an.source("m", "k long, v long"))
        follow(session, files)
        assert contents(view) == Counter((k, k) for k in range(4))


@pytest.mark.parametrize("seed", range(3))
def test_rows_at_their_own_times_as_a_list_would_have_them(seed, files):
    """Watermarks, late rows and retractions in any mixture, against a few lines of Python."""
    rng = random.Random(seed)
    late, delay, lower, seen = rng.choice(["revise", "drop", "error"]), rng.randint(0, 4), 0, -1
    kept, dropped = [], []
    for _ in range(5):
        rows = [
            (rng.randint(0, 2), rng.randint(0, 9), max(seen, 0) + rng.randint(-8, 4), rng.choice([1, 1, 2, -1]))
            for _ in range(rng.randint(1, 9))
        ]
        files.put(*rows)
        for k, v, t, d in rows:
            if t >= lower or late == "revise":
                kept.append((k, v, max(t, lower), d))
            else:
                dropped.append(((k, v, t, lower), d))
        seen = max([seen, *(t for _, _, t, _ in rows)])
        lower = max(lower, seen - delay)
    with an.Session(retain="all") as session:
        view = session.maintain("v", N.select("k").count())
        lost = session.maintain("late", LATE.count())
        follow(session, files, time="time", diff="d", watermark=delay, late=late, max_rows=rng.choice([None, 3]))
        assert session.lower == lower
        session.advance(to=lower + 50)
        for at in range(lower + 50):
            counts = Counter()
            for k, _, t, d in kept:
                counts[k] += d if t <= at else 0
            assert dict(view.to_pylist(at)) == {k: n for k, n in counts.items() if n}
        counts = Counter()
        for row, d in dropped if late == "error" else ():
            counts[row] += d
        assert {tuple(row[:-1]): row[-1] for row in lost.to_pylist()} == {r: n for r, n in counts.items() if n}


def test_an_interrupt_leaves_a_store_that_opens_again(files, tmp_path):
    for k in range(3):
        files.put((k, k))
    taken = threading.Event()
    with an.Session(path=tmp_path / "state") as session:
        session.maintain("v", N.inspect(lambda *_: taken.set()))
        with (
            pytest.raises(KeyboardInterrupt),
            interrupted_when(taken),
            session.follow(n=files.stream(), extra="ignore") as following,
        ):
            following.wait()
        assert not following.active
        assert session.lower >= 1
    with an.Session(path=tmp_path / "state") as session:
        view = session.maintain("v", N.inspect(lambda *_: taken.set()), trust_functions=True)  # the event is set by now
        follow(session, files)
        assert contents(view) == Counter((k, k) for k in range(3))


# stores and checkpoints that have parted ------------------------------------------------------------------------------


def test_a_checkpoint_and_a_store_that_do_not_belong_together_are_refused(files, tmp_path):
    state, streams = tmp_path / "state", tmp_path / "state" / "streams"
    files.put((1, 1))
    files.put((2, 2))

    def again(expected, restart=None):
        with an.Session(path=state) as session:
            view = session.maintain("v", N)
            if expected is None:
                follow(session, files, restart=restart)
                return contents(view)
            with pytest.raises(StreamError, match=expected) as raised:
                follow(session, files)
            return str(raised.value).split("restart=")[-1].split("'")[1]

    assert again(None) == Counter([(1, 1), (2, 2)])
    shutil.copytree(state, tmp_path / "copy")
    files.put((3, 3))
    assert again(None) == Counter([(1, 1), (2, 2), (3, 3)])

    shutil.move(streams, tmp_path / "newer")
    shutil.copytree(tmp_path / "copy" / "streams", streams)  # Spark plans batch 2 anew, perhaps of other files
    assert again("planned batch 2 again")

    shutil.rmtree(streams)  # a new query, which begins again
    mark = again("this is another query")
    assert again(None, mark) == Counter({(1, 1): 2, (2, 2): 2, (3, 3): 2})
    files.put((4, 4))
    assert again(None, mark)[4, 4] == 1  # the mark was of another state: it does nothing now

    shutil.rmtree(state)
    shutil.copytree(tmp_path / "copy", state)
    shutil.rmtree(streams)
    shutil.move(tmp_path / "newer", streams)  # Spark's checkpoint has batch 2, which this store has not
    assert again("the store was restored from an older copy") == "rewind"
    shutil.copytree(state, tmp_path / "behind")
    assert again(None, "rewind") == Counter((k, k) for k in range(1, 5))  # the files of batches 2 and 3 come again
    assert again(None, "rewind") == Counter((k, k) for k in range(1, 5))

    shutil.rmtree(state)
    shutil.move(tmp_path / "behind", state)
    shutil.rmtree(state / "log")
    shutil.rmtree(state / "segments")
    (state / "format.json").unlink()
    shutil.move(streams, tmp_path / "newer")
    shutil.rmtree(state)
    with an.Session(path=state):
        pass
    shutil.move(tmp_path / "newer", streams)
    mark = again("the store is new, or older than the checkpoint")
    assert mark == "nothing"
    assert again(None, mark) == Counter([(4, 4)])


def test_a_checkpoint_whose_last_batch_was_another_is_refused():
    """A store and a checkpoint of copies that went on each by itself."""
    record = Record(query="q", batch=3, plan="its plan", piece=0, of=1)
    assert record.step("q", 4, "next", None, "its plan") == record.step("q", 4, "next", None) == (0, None)
    with pytest.raises(StreamError, match="batch 3 of Spark's checkpoint is a different one"):
        record.step("q", 4, "next", None, "the plan of the other copy")


def test_a_batch_is_cut_in_the_same_way_however_times_and_diffs_are_asked_for(spark):
    rows = [(k, k % 7) for k in range(50)]
    cuts = []
    for times in ("k", "v + 1"):
        frame = spark.createDataFrame(rows, "k long, v long").selectExpr("k", "v", f"{times} as `{TIME}`")
        batch = MicroBatch(frame, here=True)
        cuts.append([sorted(batch.piece(piece, 3)["k"].to_pylist()) for piece in range(3)])
    assert cuts[0] == cuts[1]
    assert sorted(k for cut in cuts[0] for k in cut) == list(range(50))


def test_a_source_that_no_view_reads_any_more_stops_its_stream(files):
    with an.Session() as session:
        session.maintain("v", COUNTS)
        files.put((1, 1))
        assert follow(session, files).batches == 1
        with session.follow({"n": files.stream()}, extra="ignore") as following:
            session.drop("v")
            files.put((2, 2))
            with pytest.raises(StreamError, match="no maintained view reads a source 'n'"):
                following.wait(100)
        with pytest.raises(UnknownSourceError):
            session.insert("n", [(3, 3)])


def test_streams_are_stopped_by_a_function_that_a_step_calls(files):
    with an.Session() as session:
        view = session.maintain("v", N)
        files.put((1, 1))
        following = session.follow({"n": files.stream()}, extra="ignore")
        view.subscribe(on_time_end=lambda _: following.stop(), snapshot=False)
        for _ in range(3):
            session.insert("n", [(9, 9)])
            session.advance()
        assert following.wait(100)


def test_values_drawn_by_chance_are_not_cut(files):
    with an.Session() as session:
        session.maintain("v", N)
        drawn = files.stream().selectExpr("k", "cast(rand() * 9 as bigint) as v")
        with pytest.raises(InputError, match="computes random values"):
            session.follow({"n": drawn}, available_now=True, max_rows=5, extra="ignore")


def test_an_option_for_a_stream_that_is_not_there_is_refused(files):
    with an.Session() as session:
        session.maintain("v", N)
        with pytest.raises(InputError, match="late= names 'm', and the streams are: n"):
            session.follow({"n": files.stream()}, available_now=True, late={"m": "drop"}, extra="ignore")


def test_a_checkpoint_is_set_back_to_a_store_that_has_nothing_of_the_stream(files, tmp_path):
    files.put((1, 1))
    with an.Session(path=tmp_path / "state") as session:
        session.maintain("v", N)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    for state, restart in (("state", None), ("copy", "rewind")):
        with an.Session(path=tmp_path / state) as session:
            view = session.maintain("v", N)
            follow(session, files, checkpoint=tmp_path / "checkpoint", restart=restart)
            assert view.to_pylist() == [(1, 1)]


def test_a_store_that_is_behind_is_reported_though_nothing_new_arrives(files, tmp_path):
    files.put((1, 1))
    with an.Session(path=tmp_path / "state") as session:
        session.maintain("v", N)
    shutil.copytree(tmp_path / "state", tmp_path / "copy")
    with an.Session(path=tmp_path / "state") as session:
        session.maintain("v", N)
        follow(session, files, checkpoint=tmp_path / "checkpoint")
    with an.Session(path=tmp_path / "copy") as session:
        session.maintain("v", N)
        with pytest.raises(StreamError, match="older than the checkpoint"):
            follow(session, files, checkpoint=tmp_path / "checkpoint")
