"""A full disk, really full: a small tmpfs where mounting is permitted, and the process's own limit on file sizes."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import subprocess

import pyarrow as pa
import pytest

from altneu.errors import StoreFullError
from altneu.store import DirectoryStore, forget_segments, write_segment
from tests.store.support import SCHEMA, batch, check_step, content, files, step, steps_for_ever


@contextlib.contextmanager
def mounted(folder, options):
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if os.geteuid() or not mount or not unmount:
        pytest.skip("mounting a tmpfs needs root")
    done = subprocess.run([mount, "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.decode(errors='replace').strip()}")
    try:
        yield folder
    finally:
        forget_segments()
        subprocess.run([unmount, "-l", str(folder)], check=True)


@pytest.fixture
def disk(tmp_path):
    with mounted(tmp_path, "size=1m") as folder:
        yield folder


def temporaries(folder):
    return [name for name in files(folder) if name.endswith(".tmp")]


def large(store):
    return [batch(i * 1000, 1000) for i in range(200)]


def test_a_segment_that_does_not_fit_leaves_nothing(disk):
    with DirectoryStore.create_or_open(disk / "s") as store:
        step(store)
        before, there = content(store), files(disk)
        with pytest.raises(StoreFullError, match="No space left on device; nothing was written"):
            store.write_segment(large(store), SCHEMA)
        assert (content(store), files(disk)) == (before, there)
        step(store)
        check_step(store)


def test_a_commit_that_does_not_fit_leaves_nothing(disk):
    with DirectoryStore.create_or_open(disk / "s") as store:
        step(store)
        before, there = content(store), files(disk)
        for _ in range(3):
            with pytest.raises(StoreFullError, match=r"cannot write .*00000000000000000002\.commit"):
                store.commit(2, set={"big": {"blob": "big"}}, blobs={"big": bytes(2_000_000)})
            assert (content(store), files(disk)) == (before, there)
        step(store)
        check_step(store)
    with DirectoryStore.create_or_open(disk / "s") as store:
        check_step(store)


def test_a_disk_filled_to_the_brim_opens_and_vacuum_makes_room(disk):
    with DirectoryStore.create_or_open(disk / "s", checkpoint_every=5) as store:
        with pytest.raises(StoreFullError):
            steps_for_ever(store)
        reached = store.number
        assert reached > 10
        with (disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(bytes(4096))
        assert not temporaries(disk)
        check_step(store)
    with DirectoryStore.create_or_open(disk / "s", checkpoint_every=5) as store:
        assert store.number == reached
        check_step(store)
        with pytest.raises(StoreFullError):
            step(store)
        assert store.vacuum().bytes > 100_000
        step(store)
        check_step(store)


def test_a_disk_too_full_for_a_store_says_so(disk):
    with (disk / "ballast").open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(bytes(4096))
    with pytest.raises(StoreFullError):
        DirectoryStore.create_or_open(disk / "s")
    (disk / "ballast").unlink()
    with DirectoryStore.create_or_open(disk / "s") as store:
        step(store)
        check_step(store)


@pytest.mark.parametrize("inodes", range(8, 22))
def test_a_disk_without_inodes_fails_at_creating_or_linking_and_leaves_nothing(tmp_path, inodes):
    """On a tmpfs every name costs an inode, so the limits in turn stop each operation that makes one."""
    with mounted(tmp_path, f"size=4m,nr_inodes={inodes}") as disk:
        ballast = disk / "ballast"
        ballast.mkdir()
        reached = 0
        with contextlib.suppress(StoreFullError), DirectoryStore.create_or_open(disk / "s") as store:
            try:
                steps_for_ever(store)
            finally:
                reached = store.number
        assert not temporaries(disk)
        ballast.rmdir()
        subprocess.run(["mount", "-o", f"remount,nr_inodes={inodes + 10}", str(disk)], check=True)  # noqa: S607
        with DirectoryStore.create_or_open(disk / "s") as store:
            assert store.number == reached
            check_step(store)
            step(store)
            check_step(store)


@contextlib.contextmanager
def no_file_beyond(size):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("size", [0, 1, 100, 5000, 70_000])
def test_the_limit_of_the_process_stops_a_write_half_way(tmp_path, size):
    with DirectoryStore.create_or_open(tmp_path) as store:
        step(store)
        before, there = content(store), files(tmp_path)
        with no_file_beyond(size):
            with pytest.raises(StoreFullError, match="File too large"):
                store.commit(2, set={"big": {"blob": "big"}}, blobs={"big": bytes(200_000)})
            with pytest.raises(StoreFullError, match="File too large"):
                store.write_segment([batch(0, 10_000)], SCHEMA)
            assert (content(store), files(tmp_path)) == (before, there)
        step(store)
        check_step(store)


def test_a_segment_of_many_blocks_fails_while_it_is_written(tmp_path):
    big = pa.record_batch({"x": pa.array(range(200_000), pa.int64())})
    with no_file_beyond(4_000_000), pytest.raises(StoreFullError, match="File too large"):
        write_segment(str(tmp_path), [big] * 10, big.schema, 1)
    assert files(tmp_path) == set()
