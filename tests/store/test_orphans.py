"""Tidying a store from outside: what is needed stays, whatever was left by whoever was killed."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from altneu.errors import StoreError, StoreLockedError
from altneu.store import DirectoryStore, LocalFolder, forget_segments, vacuum_store, write_segment
from altneu.store.lock import WriterLock, holder_of
from altneu.store.orphans import find_orphans
from tests.store.support import SCHEMA, batch, check_step, content, files, step


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    every=st.integers(1, 6),
    acts=st.lists(st.one_of(st.just("step"), st.just("litter"), st.integers(1, 4)), min_size=1, max_size=20),
)
def test_a_store_says_what_it_said_before(quick, every, acts):
    """Also that everything goes which is not needed: a second time finds nothing."""
    path = Path(tempfile.mkdtemp(dir=quick))
    DirectoryStore.create_or_open(path).close()
    for act in acts:
        forget_segments()
        if act == "step":
            with DirectoryStore.create_or_open(path, checkpoint_every=every) as store:
                step(store)
        elif act == "litter":
            with DirectoryStore.create_or_open(path, checkpoint_every=every) as store:
                number = store.next_number
            for ahead in (0, 1):
                write_segment(LocalFolder(path / "segments"), [batch(900 + ahead)], SCHEMA, number + ahead)
                write_segment(LocalFolder(path / "scratch"), [batch(900 + ahead)], SCHEMA, number + ahead)
            (path / "log" / ".x.0f.tmp").write_bytes(b"half")
        else:
            with DirectoryStore.create_or_open(path, checkpoint_every=every) as store:
                before = content(store)
            removed = vacuum_store(path, keep=act, dry_run=True)
            there = files(path)
            assert vacuum_store(path, keep=act) == removed
            assert there - files(path) == {name for kind in removed.kinds.values() for name in kind}
            assert vacuum_store(path, keep=act).bytes == 0
            forget_segments()
            with DirectoryStore.create_or_open(path, checkpoint_every=every) as store:
                check_step(store)
                assert content(store) == before


def test_it_finds_what_the_sessions_own_vacuum_finds(tmp_path):
    with DirectoryStore.create_or_open(tmp_path / "s", checkpoint_every=4) as store:
        for _ in range(11):
            step(store)
        actual = find_orphans(store.folder, store._log, 2, [], until=store.number)
        removed = vacuum_store(tmp_path / "s", keep=2, dry_run=True)
        assert [f"segments/{name}" for name in actual.segments] == list(removed.segments)
        assert store.vacuum(keep=2).bytes == removed.bytes > 0


def test_who_is_refused(tmp_path):
    with pytest.raises(StoreError, match="no store"):
        vacuum_store(tmp_path / "s")
    with DirectoryStore.create_or_open(tmp_path / "s"):
        with pytest.raises(StoreLockedError, match="another session"):
            vacuum_store(tmp_path / "s")
        with pytest.raises(StoreError, match="at least 1"):
            vacuum_store(tmp_path / "s", keep=0)


def test_a_store_on_an_object_store(s3):
    """Nobody knows there whether a session is writing: what is above the last commit stays."""
    address = "s3://tests/tidied"
    with DirectoryStore.create_or_open(address, storage_options=s3, checkpoint_every=3) as store:
        for _ in range(9):
            step(store)
        left = [write_segment(store.segment_directory, [batch(n)], SCHEMA, n) for n in (9, 10)]
    removed = vacuum_store(address, storage_options=s3, dry_run=True)
    assert vacuum_store(address, storage_options=s3) == removed
    assert f"segments/{left[0].name}" in removed.segments
    assert f"segments/{left[1].name}" not in removed.segments
    with DirectoryStore.create_or_open(address, storage_options=s3, checkpoint_every=3) as store:
        check_step(store)
        assert store.segment_directory.has(left[1].name)


def test_a_look_at_the_lock_refuses_nobody(tmp_path):
    path = tmp_path / "lock"
    assert holder_of(path) is None
    lock = WriterLock(path)
    assert holder_of(path).startswith("process ")
    with pytest.raises(StoreLockedError):
        WriterLock(path)
    lock.release()
    assert holder_of(path) is None


def test_writers_open_while_somebody_looks(tmp_path):
    path = tmp_path / "lock"
    ended = threading.Event()

    def look():
        while not ended.is_set():
            holder_of(path)

    looking = [threading.Thread(target=look)]
    for thread in looking:
        thread.start()
    try:
        for _ in range(40):
            WriterLock(path).release()
    finally:
        ended.set()
        for thread in looking:
            thread.join()
