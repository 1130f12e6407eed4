"""Stores on S3, as moto serves it in this process: what holds on a local disk holds there."""

from __future__ import annotations

import asyncio
import pickle
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyarrow import fs
from s3fs import S3FileSystem

import altneu as an
from altneu.errors import StoreCorruptError, StoreError, StoreInDoubtError, StoreLockedError
from altneu.store import DirectoryStore, check_store, folder_of, forget_segments, write_segment
from altneu.store.cache import segment_cache
from altneu.store.log import commit_name
from altneu.store.remote import RemoteFolder
from tests.store.support import SCHEMA, batch, check_step, content, step

ORDERS = an.source("orders", "item string, price long")
TOTAL = ORDERS.group_by("item").agg(total="sum(price)")


@pytest.fixture
def url():
    return f"s3://tests/{uuid.uuid4().hex}"


@pytest.fixture
def bucket(s3):
    """The same bucket by a client that remembers nothing."""
    return S3FileSystem(**s3, use_listings_cache=False, skip_instance_cache=True)


def forget_copies():
    forget_segments()
    for file in segment_cache().folder.iterdir():
        file.unlink()


def test_steps_checkpoints_vacuum_and_reopening(s3, url, bucket):
    for n in range(1, 12):
        with DirectoryStore.create_or_open(url, storage_options=s3, checkpoint_every=4) as store:
            assert store.number == n - 1
            check_step(store)
            step(store)
            if n == 9:
                assert store.vacuum(keep=1).segments > 0
            check_step(store)
        if n % 3 == 0:
            forget_copies()
    assert check_store(url, storage_options=s3).problems == ()
    assert any(c.checkpoint for c in store.history())
    names = [path.rpartition("/")[2] for path in bucket.find(url)]
    assert commit_name(3) not in names
    assert commit_name(11) in names


def test_a_small_commit_is_one_put_and_one_look(s3, url):
    asked = []

    class Counting(S3FileSystem):
        async def _call_s3(self, method, *arguments, **settings):
            asked.append(method if isinstance(method, str) else method.__name__)
            return await super()._call_s3(method, *arguments, **settings)

    filesystem = Counting(**s3, skip_instance_cache=True)
    with DirectoryStore.create_or_open(RemoteFolder(url.removeprefix("s3://"), filesystem)) as store:
        asked.clear()
        store.commit(1, set={"a": {"blob": "b"}}, blobs={"b": b"x" * 1000})
        assert asked == ["put_object", "list_objects_v2"]


def test_a_session_is_durable_there(s3, url):
    for price in range(4):
        with an.Session(path=url, storage_options=s3) as session:
            assert session.lower == price
            view = session.maintain("total", TOTAL)
            session.insert("orders", [("tea", 1), (f"item {price}", price)])
            session.advance()
            assert Counter(view.to_pylist()) == Counter(
                [("tea", price + 1), *((f"item {i}", i) for i in range(price + 1))]
            )


def test_large_state_is_uploaded_once_and_mapped_from_a_local_copy(s3, url, bucket):
    with an.Session(path=url, storage_options=s3) as session:
        session.maintain("v", ORDERS)
        session.insert("orders", [(f"item {i}", i) for i in range(20_000)])
        session.advance()
    segments = bucket.ls(f"{url}/segments")
    assert segments
    forget_copies()
    with an.Session(path=url, storage_options=s3) as session:
        view = session.maintain("v", ORDERS)
        assert len(view.to_pylist()) == 20_000
    assert 0 < len(list(segment_cache().folder.iterdir())) <= len(segments)


class Slow(S3FileSystem):
    """Tells how many uploads ran at a time, and how many were over at each put of a commit; some may fail."""

    def __init__(self, *arguments, **settings):
        super().__init__(*arguments, **settings)
        self.running = self.most = self.over = 0
        self.failing = 0
        self.at_commits = []

    async def _put_file(self, local, remote, *arguments, **settings):
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.05)
        self.running -= 1
        self.failing -= 1
        if self.failing == 0:
            raise OSError("the line is cut")
        await super()._put_file(local, remote, *arguments, **settings)
        self.over += 1

    async def _pipe_file(self, path, *arguments, **settings):
        if "/log/" in path:
            self.at_commits.append(self.over)
        return await super()._pipe_file(path, *arguments, **settings)


def test_segments_are_uploaded_at_once_and_before_the_commit_that_names_them(s3, url, bucket):
    slow = Slow(**s3, skip_instance_cache=True)
    batches = [pa.record_batch({"a": [n]}) for n in range(12)]
    with DirectoryStore.create_or_open(RemoteFolder(url.removeprefix("s3://"), slow)) as store:
        refs = [store.write_segment([batch], batch.schema) for batch in batches]
        assert store.open_segment(refs[5])[0] == batches[5]  # on its way or not
        store.commit(1, set={"all": [ref.to_json() for ref in refs]})
        assert slow.at_commits == [12]
        assert 4 <= slow.most <= 12
        more = [store.write_segment([batch], batch.schema) for batch in batches[:3]]
        store.hand_over()
        assert {ref.name for ref in more} <= {path.rpartition("/")[2] for path in bucket.ls(f"{url}/segments")}


def test_a_step_whose_uploads_fail_is_made_again(s3, url):
    slow = Slow(**s3, skip_instance_cache=True)
    with an.Session(path=RemoteFolder(url.removeprefix("s3://"), slow)) as session:
        views = [
            session.maintain(name, ORDERS.filter(f"price % {n} = 0")) for n, name in ((1, "a"), (2, "b"), (3, "c"))
        ]
        session.insert("orders", [(f"item {i}", i) for i in range(30_000)])
        slow.failing = 2
        with pytest.raises(StoreError, match=r"cannot write s3://.*seg-.*the line is cut"):
            session.advance()
        assert [len(view.to_pylist()) for view in views] == [0, 0, 0]
        session.advance()
        assert [len(view.to_pylist()) for view in views] == [30_000, 15_000, 10_000]
    forget_copies()
    assert check_store(url, storage_options=s3).problems == ()
    with an.Session(path=url, storage_options=s3) as session:
        assert len(session.maintain("b", ORDERS.filter("price % 2 = 0")).to_pylist()) == 15_000


def test_the_second_of_two_writers_learns_that_it_lost_and_nothing_is_lost(s3, url):
    first = an.Session(path=url, storage_options=s3)
    one = first.maintain("total", TOTAL)
    second = an.Session(path=url, storage_options=s3)
    two = second.maintain("total", TOTAL)
    first.insert("orders", [("tea", 1)])
    second.insert("orders", [("jam", 2)])
    first.advance()
    with pytest.raises(StoreLockedError, match="another writer"):
        second.advance()
    assert two.to_pylist() == []
    first.insert("orders", [("tea", 1)])
    first.advance()
    second.close()
    with an.Session(path=url, storage_options=s3) as third:  # and so does the other one now
        assert third.maintain("total", TOTAL).to_pylist() == [("tea", 2)]
        third.insert("orders", [("jam", 2)])
        third.advance()
    first.insert("orders", [("tea", 1)])
    with pytest.raises(StoreLockedError):
        first.advance()
    assert one.to_pylist() == [("tea", 2)]
    first.close()
    assert check_store(url, storage_options=s3).problems == ()


def test_opening_leaves_what_another_writer_is_about_to_need(s3, url):
    with DirectoryStore.create_or_open(url, storage_options=s3) as first:
        step(first)
        scratch = first.scratch_directory
        for number in (1, 2):
            scratch.put(f"seg-{number:08d}-{'0' * 32}.arrow", b"rows on their way")
        with DirectoryStore.create_or_open(url, storage_options=s3) as second:
            assert scratch.names() == [f"seg-00000002-{'0' * 32}.arrow"]
            second.vacuum(keep=1)
        assert scratch.names() == [f"seg-00000002-{'0' * 32}.arrow"]
        step(first)
        check_step(first)


# replies that are lost ---------------------------------------------------------------------------------------------


class Flaky(S3FileSystem):
    """An S3 whose next conditional puts fail: ``before`` they are done, ``after``, or ``late``, when it is asked to."""

    faults: list[str]
    late: list[tuple[str, bytes]]
    error: Exception

    async def _pipe_file(self, path, data, mode="overwrite", **settings):
        fault = self.faults.pop(0) if mode == "create" and self.faults else ""
        if fault == "late":
            self.late.append((path, data))
        if fault in ("", "after"):
            await super()._pipe_file(path, data, mode=mode, **settings)
        if fault:
            raise self.error


@pytest.fixture
def flaky(s3, url):
    filesystem = Flaky(**s3, skip_instance_cache=True)
    filesystem.faults, filesystem.late, filesystem.error = [], [], ConnectionResetError("the line went dead")
    folder = RemoteFolder(url.removeprefix("s3://"), filesystem)
    with DirectoryStore.create_or_open(folder) as store:
        step(store)
        yield store, filesystem, folder


def test_a_commit_whose_reply_is_lost_has_happened_once(flaky):
    store, filesystem, folder = flaky
    for _ in range(3):
        filesystem.faults = ["after"]
        step(store)
    assert store.number == 4
    check_step(store)
    with DirectoryStore.create_or_open(folder) as again:
        assert content(again) == content(store)


@pytest.mark.parametrize("faults", [["before"], ["before", "before"], ["late"], ["before", "after"], ["late", "after"]])
def test_a_commit_that_did_not_arrive_is_put_again(flaky, faults):
    store, filesystem, folder = flaky
    filesystem.faults = list(faults)
    step(store)
    for path, data in filesystem.late:  # it arrives after all
        with pytest.raises(FileExistsError):
            filesystem.pipe_file(path, data, mode="create")
    step(store)
    check_step(store)
    with DirectoryStore.create_or_open(folder) as again:
        assert content(again) == content(store)


@pytest.mark.parametrize("last", ["before", "after", "late"])
def test_a_writer_whose_line_is_dead_stops_and_the_next_finds_out(flaky, last):
    store, filesystem, folder = flaky
    filesystem.faults = ["before", "before", last]
    with pytest.raises(
        StoreInDoubtError, match=r"cannot write s3://.*02\.commit: ConnectionResetError.*open the store"
    ):
        step(store)
    with pytest.raises(StoreInDoubtError, match="open the store again"):
        step(store)
    assert store.number == 1
    for path, data in filesystem.late:
        filesystem.pipe_file(path, data, mode="create")
    with DirectoryStore.create_or_open(folder) as again:
        assert again.number == (1 if last == "before" else 2)
        check_step(again)
        step(again)
        check_step(again)


def test_what_is_forbidden_is_no_doubt(flaky):
    store, filesystem, _ = flaky
    filesystem.error = PermissionError("forbidden")
    filesystem.faults = ["before"]
    with pytest.raises(StoreError, match=r"cannot write s3://.*02\.commit: PermissionError: forbidden"):
        step(store)
    step(store)
    check_step(store)


# damage ------------------------------------------------------------------------------------------------------------


def test_damage_is_named_and_recovered_from(s3, url, bucket):
    with DirectoryStore.create_or_open(url, storage_options=s3, checkpoint_every=4) as store:
        for _ in range(5):
            step(store)
        step(store)
    segment = max(bucket.ls(f"{url}/segments", detail=False))
    data = bytearray(bucket.cat_file(segment))
    data[100] ^= 1
    bucket.pipe_file(segment, bytes(data))
    forget_copies()
    with (
        DirectoryStore.create_or_open(url, storage_options=s3) as store,
        pytest.raises(StoreCorruptError, match=rf"{segment} fails its checksum"),
    ):
        content(store)
    check = check_store(url, storage_options=s3)
    assert (check.commit, check.whole) == (6, 5)
    bucket.rm_file(f"{url}/log/{commit_name(5)}")
    with pytest.raises(StoreCorruptError, match=rf"{commit_name(5)} is missing.*recover=True"):
        DirectoryStore.create_or_open(url, storage_options=s3)
    with pytest.warns(UserWarning, match="went back to commit 4; the 2 after it"):
        store = DirectoryStore.create_or_open(url, storage_options=s3, recover=True)
    with store:
        assert (store.number, store.frontier) == (7, [4])
        step(store)
        now = content(store)
    with DirectoryStore.create_or_open(url, storage_options=s3) as store:
        assert content(store) == now
        store.vacuum(keep=1)
    assert check_store(url, storage_options=s3).problems == ()
    aside = [path.rpartition("/")[2] for path in bucket.find(f"{url}/aside")]
    assert {commit_name(6), segment.rpartition("/")[2]} <= set(aside)


def test_a_damaged_copy_is_fetched_again(s3, url):
    with DirectoryStore.create_or_open(url, storage_options=s3) as store:
        step(store)
        for file in segment_cache().folder.iterdir():
            data = bytearray(file.read_bytes())
            data[50] ^= 1
            file.write_bytes(data)
        forget_segments()
        check_step(store)


def test_many_threads_fetch_one_segment_at_once(s3, url):
    folder = folder_of(url, s3)
    ref = write_segment(folder, [batch(0, 10_000)], SCHEMA, 1)
    forget_copies()
    with ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(lambda _: folder.mappable(ref).stat().st_size, range(8)))
    assert sizes == [ref.bytes] * 8
    assert [p.name for p in segment_cache().folder.iterdir()] == [f"{ref.checksum}.arrow"]


# what is said and where it goes ------------------------------------------------------------------------------------


def test_no_secret_is_in_a_store_or_in_a_text(s3, url, bucket):
    folder = folder_of(url, s3)
    with DirectoryStore.create_or_open(url, storage_options=s3) as store:
        step(store)
        texts = [repr(folder), repr(store.segment_directory), folder.where("x"), repr(store)]
    with pytest.raises(StoreError) as told:
        folder.child("nowhere").read("nothing")
    texts.append(str(told.value))
    with pytest.raises(StoreError) as told:
        DirectoryStore.create_or_open("s3://no-such-bucket/state", storage_options=s3)
    texts.append(str(told.value))
    assert "no-such-bucket" in texts[-1]
    assert not [text for text in texts if "s3cr3t" in text]
    assert not [path for path in bucket.find(url) if b"s3cr3t" in bucket.cat_file(path)]


def test_a_folder_travels_as_a_pickle(s3, url):
    folder = pickle.loads(pickle.dumps(folder_of(url, s3)))  # noqa: S301  # the test's own
    assert folder.names() == []
    assert folder.put("a", b"1")
    assert bytes(folder.read("a")) == b"1"


def test_a_pyarrow_file_system_that_wraps_fsspec_is_as_good_as_an_address(s3, url, bucket):
    wrapped = fs.SubTreeFileSystem(url.removeprefix("s3://"), fs.PyFileSystem(fs.FSSpecHandler(bucket)))
    with DirectoryStore.create_or_open(wrapped) as store:
        step(store)
    with DirectoryStore.create_or_open(url, storage_options=s3) as store:
        check_step(store)


def test_a_folder_with_other_things_is_left_alone(s3, url, bucket):
    bucket.pipe_file(f"{url}/thesis.tex", b"x")
    with pytest.raises(StoreError, match=r"contains other files \(thesis.tex"):
        DirectoryStore.create_or_open(url, storage_options=s3)
    assert len(bucket.find(url)) == 1
