"""Vacuum: what is named stays, what is over goes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from altneu.errors import StoreError
from altneu.store import DirectoryStore, LocalFolder, SegmentWriter, check_store, forget_segments, write_segment
from altneu.store.log import CommitLog, commit_name
from tests.store.support import SCHEMA, batch, check_step, files, step


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state"


def named_by(path, number):
    """Segments that commit ``number`` names, read from the log as it lies there."""
    ledger, _, _ = CommitLog(LocalFolder(path / "log"), root_of(path)).replay(number)
    return {f"segments/{name}" for name in ledger.segments}


def root_of(path):
    with DirectoryStore.create_or_open(path) as store:
        return store._log.root


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    every=st.integers(1, 6),
    acts=st.lists(st.one_of(st.just("step"), st.just("reopen"), st.integers(1, 5)), min_size=1, max_size=25),
)
def test_what_the_last_commits_name_stays_and_the_rest_goes(quick, every, acts):
    path = Path(tempfile.mkdtemp(dir=quick))
    store = DirectoryStore.create_or_open(path, checkpoint_every=every)
    for act in acts:
        if act == "step":
            step(store)
        elif act == "reopen":
            store.close()
            forget_segments()
            store = DirectoryStore.create_or_open(path, checkpoint_every=every)
        else:
            there = files(path)
            store.vacuum(keep=act)
            log = store._log
            oldest = max(store.number - act + 1, log.first_replayable(log.numbers()))
            replayed = [log.replay(number)[0] for number in range(max(oldest, 1), store.number + 1)]
            named = {f"segments/{name}" for ledger in replayed for name in ledger.segments}
            assert {name for name in files(path) if name.startswith("segments/")} == named & there
        check_step(store)
    store.close()


def test_the_commits_kept_can_be_replayed_with_their_segments(path):
    with DirectoryStore.create_or_open(path, checkpoint_every=5) as store:
        for _ in range(23):
            step(store)
        assert store.vacuum(keep=7).commits == 14  # 17 and later: replayed from the checkpoint at 15
    assert min(files(path / "log")) == commit_name(15)
    for number in range(17, 24):
        assert named_by(path, number) <= files(path)
    assert not named_by(path, 16) <= files(path)


def test_nothing_to_do_is_nothing_done(path):
    with DirectoryStore.create_or_open(path) as store:
        assert store.vacuum().segments == 0
        step(store)
        there = files(path)
        assert (store.vacuum().segments, store.vacuum(keep=1000).commits) == (0, 0)
        assert files(path) == there


def test_what_belongs_to_the_step_in_flight_stays(path):
    with DirectoryStore.create_or_open(path) as store:
        step(store)
        segment = store.write_segment([batch(50)], SCHEMA)
        scratch = write_segment(store.scratch_directory, [batch(0)], SCHEMA, store.next_number, durable=False)
        with SegmentWriter(store.segment_directory, SCHEMA, store.next_number) as unfinished:
            unfinished.write(batch(60))
            assert store.vacuum(keep=1).scratch == 0
            other = unfinished.finish()
        store.commit(2, set={"new": [segment.to_json(), other.to_json()]})
        assert store.open_segment(segment)[0].equals(batch(50))
        assert store.open_segment(other)[0].equals(batch(60))
        assert (store.vacuum(keep=1).scratch, files(path / "scratch")) == (1, set())
        assert scratch.number == 2


def test_what_a_task_writes_too_late_goes(path):
    with DirectoryStore.create_or_open(path) as store:
        for _ in range(3):
            step(store)
        there = files(path)
        zombie = SegmentWriter(store.segment_directory, SCHEMA, 2)  # of a step that is over; it never finishes
        zombie.write(batch(0))
        write_segment(store.segment_directory, [batch(99)], SCHEMA, 3)
        assert store.vacuum().segments == 2
        assert files(path) == there
        zombie.abandon()


def test_a_task_that_writes_what_is_committed_already_does_no_harm(path):
    with DirectoryStore.create_or_open(path) as store:
        step(store)
        write_segment(store.segment_directory, [batch(1), batch(11)], SCHEMA, 1)  # the same content, so the same name
        store.vacuum(keep=1)
        check_step(store)


def test_scratch_does_not_outlive_its_writer(path):
    with DirectoryStore.create_or_open(path) as store:
        write_segment(store.scratch_directory, [batch(0)], SCHEMA, 1, durable=False)
    with DirectoryStore.create_or_open(path):
        assert files(path / "scratch") == set()


def test_segments_do_not_outlive_the_step_that_died_before_its_commit(path):
    with DirectoryStore.create_or_open(path) as store:
        for _ in range(3):
            step(store)
    there = files(path)
    for dead in range(4):  # each time the step is taken again it leaves other segments, and one that is not finished
        with DirectoryStore.create_or_open(path) as store:
            assert len(files(path) - there) == 6 * (dead > 0)  # who only looks deletes nothing
            check_step(store)
            store.hand_over()
            assert files(path) == there
            ahead = store.next_number + dead % 2
            for number in range(5):
                write_segment(store.segment_directory, [batch(100 * dead + number)], SCHEMA, ahead)
            unfinished = SegmentWriter(store.segment_directory, SCHEMA, ahead)
            unfinished.write(batch(0))
            assert len(files(path) - there) == 6
    with DirectoryStore.create_or_open(path) as store:
        written = store.write_segment([batch(1)], SCHEMA)
        assert files(path) - there == {f"segments/{written.name}"}
        step(store)
        check_step(store)


def test_opening_leaves_segments_whose_commits_were_left_behind(path):
    """A copy of a store whose log arrives last, opened too early, is whole once its log is."""
    with DirectoryStore.create_or_open(path) as store:
        for _ in range(5):
            step(store)
    last = [path / "log" / commit_name(number) for number in (4, 5)]
    kept = [file.read_bytes() for file in last]
    for file in last:
        file.unlink()
    with DirectoryStore.create_or_open(path) as store:
        assert store.number == 3
        check_step(store)
    for file, data in zip(last, kept, strict=True):
        file.write_bytes(data)
    assert check_store(path).problems == ()
    with DirectoryStore.create_or_open(path) as store:
        assert store.number == 5
        check_step(store)


def test_a_task_of_a_dead_driver_that_finishes_later_does_no_harm(path):
    with DirectoryStore.create_or_open(path) as store:
        step(store)
        zombies = [SegmentWriter(store.segment_directory, SCHEMA, store.next_number) for _ in range(2)]
        for zombie in zombies:
            zombie.write(batch(50))
    with DirectoryStore.create_or_open(path) as store:
        store.hand_over()
        with pytest.raises(StoreError):
            zombies[0].finish()  # what it wrote has been deleted
        late = SegmentWriter(store.segment_directory, SCHEMA, store.next_number)
        late.write(batch(50))
        mine = store.write_segment([batch(50)], SCHEMA)
        assert late.finish() == mine  # the same content, so the same name
        store.commit(2, set={"new": mine.to_json()})
        assert store.open_segment(mine)[0].equals(batch(50))
        zombies[1].abandon()


def test_other_peoples_files_are_left_alone(path):
    with DirectoryStore.create_or_open(path) as store:
        for folder in ("segments", "log", "scratch"):
            (path / folder / "notes.txt").write_text("mine")
        (path / "segments" / "seg-00000001-x.arrow").mkdir()
        for _ in range(5):
            step(store)
        store.vacuum(keep=1)
    DirectoryStore.create_or_open(path).close()
    assert {f"{folder}/notes.txt" for folder in ("segments", "log", "scratch")} <= files(path)


def test_a_vacuum_cut_short_is_gone_on_with(path):
    with DirectoryStore.create_or_open(path, checkpoint_every=4) as store:
        for _ in range(14):
            step(store)
        for number in range(1, 6):  # commits 6 and 7 stand without a checkpoint
            (path / "log" / commit_name(number)).unlink()
        assert store.vacuum(keep=1000).commits == 2
        assert store.vacuum(keep=1).commits == 4
        check_step(store)
    with DirectoryStore.create_or_open(path) as store:
        check_step(store)


def test_keep_is_at_least_one(path):
    with DirectoryStore.create_or_open(path) as store, pytest.raises(StoreError, match="at least 1"):
        store.vacuum(keep=0)


def test_an_opened_segment_survives_its_removal(path):
    with DirectoryStore.create_or_open(path) as store:
        ref = store.write_segment([batch(0, 5000)], SCHEMA)
        store.commit(1, set={"a": ref.to_json()})
        actual = store.open_segment(ref)
        store.commit(2, delete=["a"])
        assert store.vacuum(keep=1).segments == 1
        forget_segments()
        assert actual[0].equals(batch(0, 5000))
