"""Folders elsewhere: which file systems hold a store, several writers of one, and the local copies of segments."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
import threading
import uuid

import fsspec
import pytest
from fsspec.implementations.arrow import ArrowFSWrapper
from fsspec.implementations.memory import MemoryFileSystem
from pyarrow import fs

import altneu as an
from altneu.errors import StoreCorruptError, StoreError, StoreInDoubtError, StoreLockedError
from altneu.store import (
    DirectoryStore,
    LocalFolder,
    check_store,
    folder_of,
    forget_segments,
    open_segment,
    write_segment,
)
from altneu.store.cache import SegmentCache
from altneu.store.log import CommitLog
from altneu.store.references import segment_number
from altneu.store.remote import RemoteFolder
from tests.store.support import CHILD, SCHEMA, batch, check_step, files, step


@pytest.fixture
def url():
    return f"memory://{uuid.uuid4().hex}/state"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Each test its own copies of segments."""
    result = SegmentCache(tmp_path / "copies", 1 << 30)
    result.folder.mkdir()
    monkeypatch.setattr("altneu.store.remote.segment_cache", lambda: result)
    forget_segments()
    return result


def test_a_session_in_a_memory_that_many_share(url):
    orders = an.source("orders", "item string")
    for n in range(3):
        with an.Session(path=url) as session:
            view = session.maintain("v", orders.count())
            session.insert("orders", [("tea",)])
            session.advance()
            assert view.to_pylist() == [("tea", n + 1)]


# which file systems ------------------------------------------------------------------------------------------------


class Overwriting(MemoryFileSystem):
    """What is put exclusively replaces what is there."""

    protocol = "overwriting"

    def pipe_file(self, path, value, mode="overwrite", **settings):
        super().pipe_file(path, value, mode="overwrite")

    def _open(self, path, mode="rb", **settings):
        return super()._open(path, mode.replace("x", "w"), **settings)


class Looking(MemoryFileSystem):
    """Looks whether a file is there, and puts it then: what fsspec does for file systems that know no better."""

    protocol = "looking"
    meeting = threading.Barrier(4)

    def pipe_file(self, path, value, mode="overwrite", **settings):
        if mode == "create" and self.exists(path):
            raise FileExistsError
        if mode == "create":
            self.meeting.wait(timeout=60)  # as far as the network is away
        super().pipe_file(path, value, mode="overwrite")

    def _open(self, path, mode="rb", **settings):
        if "x" in mode:
            raise NotImplementedError("no exclusive files")
        return super()._open(path, mode, **settings)


class Lying(MemoryFileSystem):
    """Says that the file is there, and writes it all the same."""

    protocol = "lying"

    def pipe_file(self, path, value, mode="overwrite", **settings):
        there = self.exists(path)
        super().pipe_file(path, value, mode="overwrite")
        if there and mode == "create":
            raise FileExistsError

    def _open(self, path, mode="rb", **settings):
        if "x" in mode:
            raise NotImplementedError("no exclusive files")
        return super()._open(path, mode, **settings)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (Overwriting, "lets two writers put the same file"),
        (Looking, "lets two writers put the same file"),
        (Lying, "overwrites a file that it says exists"),
    ],
)
def test_a_file_system_without_put_if_absent_is_refused_and_left_empty(kind, why):
    folder = RemoteFolder(f"/{uuid.uuid4().hex}", kind())
    with pytest.raises(StoreError, match=rf"cannot hold a store: .*{why}.*S3 \(s3fs 2026.9 or newer\)"):
        DirectoryStore.create_or_open(folder)
    assert folder.names() == []


def test_pyarrow_s_own_file_systems_are_refused_with_advice(tmp_path):
    for filesystem in (fs._MockFileSystem(), fs.SubTreeFileSystem("a/b", fs._MockFileSystem())):
        with pytest.raises(
            StoreError, match=r"_MockFileSystem cannot hold a store.*overwrite each other; give the addr"
        ):
            an.Session(path=filesystem)
    wrapped = fs.PyFileSystem(fs.FSSpecHandler(ArrowFSWrapper(fs.LocalFileSystem())))
    with pytest.raises(StoreError, match="cannot hold a store: it does not put a file only if it does not exist yet"):
        DirectoryStore.create_or_open(fs.SubTreeFileSystem(str(tmp_path / "s"), wrapped))


def test_local_folders_by_other_names_are_local_folders(tmp_path):
    local = fs.SubTreeFileSystem(str(tmp_path / "a"), fs.LocalFileSystem())
    for location in (local, f"file://{tmp_path}/a", tmp_path / "a", str(tmp_path / "a")):
        assert folder_of(location) == LocalFolder(tmp_path / "a")
    with DirectoryStore.create_or_open(local) as store:
        step(store)
        assert "lock" in files(tmp_path / "a")


@pytest.mark.parametrize(
    ("location", "options", "said"),
    [
        ("nowhere://a/b", {}, "nowhere:// cannot be opened.*Protocol not known"),
        ("memory://", {}, "an address needs a bucket"),
        ("/a/b", {"key": "k"}, "has no storage_options"),
        (fs.LocalFileSystem(), {}, "does not name a folder"),
        (fs.LocalFileSystem(), {"key": "k"}, "leave storage_options out"),
        (17, {}, "got 17"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused(location, options, said):
    with pytest.raises(StoreError, match=said):
        folder_of(location, options)


def test_a_local_session_loads_nothing_of_this(tmp_path):
    code = (
        f"import sys, altneu as an\nwith an.Session(path={str(tmp_path / 's')!r}) as session: session.advance()\n"
        "print([m for m in sys.modules if m.startswith(('fsspec', 's3fs', 'aiohttp'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=CHILD)
    assert done.stdout.strip() == "[]"


# writers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_of_several_writers_each_commit_counts_once_and_losers_leave_no_mark(url, seed):
    """Random steps, losses, vacuums, reopenings and recoveries of three writers of one store."""
    rng, answer, serial = random.Random(seed), [], 0
    folder = folder_of(url)
    writers = [DirectoryStore.create_or_open(url, checkpoint_every=3) for _ in range(3)]
    for _ in range(40):
        i = rng.randrange(3)
        store = writers[i]
        action = rng.choice(["commit", "commit", "commit", "reopen", "vacuum"])
        if action == "commit":
            serial += 1
            same = [batch(0)]  # what two write for one number has one name
            ref = store.write_segment(rng.choice([same, [batch(serial)]]), SCHEMA)
            if rng.random() < 0.2:
                continue  # its writer is in no hurry, or dies here
            try:
                store.commit(serial, {"told": [*store.state.get("told", []), serial], "data": ref.to_json()})
                answer.append(serial)
            except (StoreLockedError, StoreInDoubtError):
                writers[i] = DirectoryStore.create_or_open(url, checkpoint_every=3)
                assert serial not in writers[i].state.get("told", [])
        elif action == "vacuum":
            try:
                store.vacuum(keep=1)
            except StoreLockedError:
                assert store.number < max(CommitLog(folder.child("log"), "").numbers())
        else:
            store.close()
            writers[i] = DirectoryStore.create_or_open(url, checkpoint_every=3, recover=rng.random() < 0.5)
        assert check_store(url).problems == ()
    with DirectoryStore.create_or_open(url) as store:
        assert store.state.get("told", []) == answer
        assert len(answer) > 5
        store.vacuum(keep=1)
        over = [n for n in folder.child("segments").names() if segment_number(n) <= store.number]
        assert len(over) == 1  # the one that is named; higher numbers are of steps in flight


def commit_in_a_child(store, answers):
    try:
        store.commit(9, {"child": True})
    except StoreError as error:
        answers.put(str(error))
    else:
        answers.put("committed")


def test_a_forked_child_cannot_commit(url, tmp_path):
    for location in (url, tmp_path / "local"):
        context = multiprocessing.get_context("fork")
        with DirectoryStore.create_or_open(location) as store:
            step(store)
            answers = context.SimpleQueue()
            child = context.Process(target=commit_in_a_child, args=(store, answers))
            child.start()
            child.join()
            assert "inherited by a forked process" in answers.get()
            step(store)
            check_step(store)


# local copies ------------------------------------------------------------------------------------------------------


def make_segment(folder, number):
    return write_segment(folder, [batch(number * 1000, 1000)], SCHEMA, 1)


def test_copies_are_bounded_and_what_is_used_stays(url, cache):
    folder = folder_of(url)
    refs = [make_segment(folder, n) for n in range(8)]
    cache.largest = 3 * max(ref.bytes for ref in refs)
    for n, ref in enumerate(refs):
        set_used(cache, ref, 1_000_000 + n)
    folder.mappable(refs[0])  # used now
    make_segment(folder, 9)
    left = {p.name for p in cache.folder.iterdir()}
    assert len(left) == 3
    assert f"{refs[0].checksum}.arrow" in left
    assert all(sum(b.num_rows for b in open_segment(folder, ref)) == 1000 for ref in refs)  # the others come again
    assert sum(p.stat().st_size for p in cache.folder.iterdir()) <= cache.largest


def set_used(cache, ref, at):
    os.utime(cache.folder / f"{ref.checksum}.arrow", (at, at))


def test_what_nobody_finished_goes_after_a_day(url, cache):
    old, new = cache.temporary(), cache.temporary()
    for draft in (old, new):
        draft.write_bytes(b"half")
    os.utime(old, (1_000_000, 1_000_000))
    make_segment(folder_of(url), 1)
    assert new.exists()
    assert not old.exists()


def test_what_is_fetched_is_checked(url, cache):
    folder = folder_of(url)
    ref = make_segment(folder, 1)
    good = bytes(folder.read(ref.name))
    for data in (good[:-1], bytes([good[0] ^ 1]) + good[1:], b""):
        folder.put(ref.name, data)
        cache.discard(ref)
        forget_segments()
        with pytest.raises(StoreCorruptError, match=ref.name):
            open_segment(folder, ref)
        assert list(cache.folder.iterdir()) == []
    folder.put(ref.name, good)
    assert open_segment(folder, ref)[0].num_rows == 1000


def test_a_copy_that_goes_is_fetched_again_and_what_is_mapped_stays(url, cache):
    folder = folder_of(url)
    ref = make_segment(folder, 1)
    held = open_segment(folder, ref)
    cache.discard(ref)
    forget_segments()
    assert open_segment(folder, ref)[0].equals(held[0])


def test_a_segment_that_cannot_be_uploaded_leaves_nothing(url, cache, monkeypatch):
    folder = folder_of(url)

    def fail(*arguments, **settings):
        raise ConnectionResetError("the line went dead")

    monkeypatch.setattr(fsspec.filesystem("memory"), "put_file", fail)
    with pytest.raises(StoreError, match=r"cannot write memory:.*seg-00000001.*the line went dead"):
        make_segment(folder, 1)
    assert list(cache.folder.iterdir()) == []
