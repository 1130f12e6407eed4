"""Forks: two stores with the same segments, of which each goes on, is vacuumed, and dies, for itself."""

from __future__ import annotations

import multiprocessing
import os
import uuid
from pathlib import Path

import pytest

import altneu as an
from altneu.errors import StoreCorruptError, StoreError, StoreLockedError
from altneu.store import (
    FORK,
    DirectoryStore,
    SegmentRef,
    StoreReader,
    check_store,
    folder_of,
    forget_segments,
    fork_of,
    make_fork,
    vacuum_store,
)
from tests.store.killable import arm
from tests.store.support import content, files, step


def fork(path, to) -> None:
    reader = StoreReader(path)
    make_fork(reader.snapshot, folder_of(to), lambda state, _: state)
    reader.close()


def writer(path, **options) -> DirectoryStore:
    return DirectoryStore.create_or_open(path, checkpoint_every=3, **options)


def told(store) -> dict[str, object]:
    """What a store says, but for what it is a fork of, and the number of its commit."""
    actual = content(store)
    return {**actual, "number": 0, "state": {k: v for k, v in actual["state"].items() if k != FORK}}


def named(store) -> set[str]:
    return {SegmentRef.from_json(value).name for value in store.state["spine"]}


def segments(path: Path) -> set[str]:
    return {p.name for p in (path / "segments").iterdir()}


def test_a_fork_has_the_state_and_the_files_of_the_store(tmp_path):
    with writer(tmp_path / "blue") as blue:
        for _ in range(5):
            step(blue)
        fork(tmp_path / "blue", tmp_path / "green")
        with writer(tmp_path / "green") as green:
            assert told(green) == told(blue)
            assert green.number == blue.number + 1
            assert fork_of(green.state) == {"of": [blue.identity], "commit": 5}
            assert green.identity != blue.identity
        for name in named(blue):
            assert (tmp_path / "blue/segments" / name).samefile(tmp_path / "green/segments" / name)
        assert segments(tmp_path / "green") == named(blue)  # no more than the state needs
    assert check_store(tmp_path / "green").problems == ()


@pytest.mark.parametrize("gone", ["blue", "green"])
def test_neither_loses_anything_by_what_the_other_does(tmp_path, gone):
    with writer(tmp_path / "blue") as blue:
        for _ in range(4):
            step(blue)
    fork(tmp_path / "blue", tmp_path / "green")
    left = ({"blue", "green"} - {gone}).pop()
    with writer(tmp_path / left) as store:
        before = told(store)
    with writer(tmp_path / gone) as other:
        for _ in range(7):
            step(other)
        other.vacuum(keep=1)
    vacuum_store(tmp_path / gone, keep=1)
    forget_segments()
    with writer(tmp_path / left) as store:
        assert told(store) == before
        for _ in range(7):
            step(store)
        store.vacuum(keep=1)
        assert segments(tmp_path / left) == named(store)
    for folder in ("blue", "green"):
        assert check_store(tmp_path / folder).problems == ()


def test_a_fork_of_a_fork_needs_neither(tmp_path):
    with writer(tmp_path / "a") as a:
        step(a)
        first = a.identity
    fork(tmp_path / "a", tmp_path / "b")
    with writer(tmp_path / "b") as b:
        step(b)
        second, wanted = b.identity, told(b)
    fork(tmp_path / "b", tmp_path / "c")
    for folder in ("a", "b"):
        for name in files(tmp_path / folder):
            (tmp_path / folder / name).unlink()
    forget_segments()
    with writer(tmp_path / "c") as c:
        assert told(c) == wanted
        assert fork_of(c.state) == {"of": [first, second], "commit": 3}
        step(c)
    assert check_store(tmp_path / "c").problems == ()


def test_of_a_store_without_a_commit_and_of_a_recovered_one(tmp_path):
    writer(tmp_path / "empty").close()
    fork(tmp_path / "empty", tmp_path / "of empty")
    with writer(tmp_path / "of empty") as store:
        assert store.frontier is None
        step(store)
    assert check_store(tmp_path / "of empty").problems == ()
    with writer(tmp_path / "blue") as blue:
        for _ in range(4):
            step(blue)
    last = max((tmp_path / "blue/log").iterdir())
    last.write_bytes(last.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="went back to commit 3"), writer(tmp_path / "blue", recover=True) as blue:
        root, wanted = blue.identity.partition(".")[0], told(blue)
    fork(tmp_path / "blue", tmp_path / "green")
    with writer(tmp_path / "green") as green:
        assert told(green) == wanted
        assert fork_of(green.state)["of"] == [root]  # whose marks are told by it, before and after a recovery


def test_a_writer_goes_on_while_it_is_forked(tmp_path):
    """The lease of the fork's reader keeps the files of its commit until they are shared."""
    with writer(tmp_path / "blue") as blue:
        for _ in range(4):
            step(blue)
        wanted = told(blue)
        reader = StoreReader(tmp_path / "blue")
        for _ in range(9):
            step(blue)
            blue.vacuum(keep=1)
        make_fork(reader.snapshot, folder_of(tmp_path / "green"), lambda state, _: state)
        reader.close()
    with writer(tmp_path / "green") as green:
        assert told(green) == wanted


def _forked_and_killed(path: Path, to: Path, fatal: int) -> None:
    if fatal:
        arm(str(to), fatal)
    fork(path, to)
    os._exit(0)


def test_killed_in_front_of_every_operation_on_a_file(quick):
    with writer(quick / "blue") as blue:
        for _ in range(4):
            step(blue)
        wanted = told(blue)
    before = {name: (quick / "blue" / name).read_bytes() for name in files(quick / "blue") if "readers" not in name}
    context, states = multiprocessing.get_context("fork"), set()
    for fatal in range(1, 200):
        green = quick / f"green {fatal}"
        process = context.Process(target=_forked_and_killed, args=(quick / "blue", green, fatal))
        process.start()
        process.join()
        if process.exitcode == 0:
            break
        states.add((green / "format.json").exists())
        if not (green / "format.json").exists():
            fork(quick / "blue", green)
        forget_segments()
        with writer(green) as store:
            assert told(store) == wanted
            store.vacuum(keep=1)
            step(store)
        assert not [name for name in files(green) if name.endswith(".tmp")]
    assert process.exitcode == 0
    assert fatal > 15
    assert states == {False, True}
    assert before == {name: (quick / "blue" / name).read_bytes() for name in before}


def test_what_is_half_a_fork_is_no_store(tmp_path):
    with writer(tmp_path / "blue") as blue:
        step(blue)
    fork(tmp_path / "blue", tmp_path / "green")
    (tmp_path / "green/format.json").unlink()
    with pytest.raises(StoreCorruptError, match="if a fork into this folder was interrupted, fork again"):
        writer(tmp_path / "green")
    fork(tmp_path / "blue", tmp_path / "green")
    writer(tmp_path / "green").close()


def test_refused(tmp_path):
    with writer(tmp_path / "blue") as blue:
        step(blue)
        with pytest.raises(StoreLockedError, match="is open in another session"):
            fork(tmp_path / "blue", tmp_path / "blue")
        (tmp_path / "other").mkdir()
        (tmp_path / "other/notes.txt").write_text("mine")
        with pytest.raises(StoreError, match="contains other files"):
            fork(tmp_path / "blue", tmp_path / "other")
        with pytest.raises(StoreError, match="is on another file system"):
            fork(tmp_path / "blue", f"memory://{uuid.uuid4().hex}/green")
    with pytest.raises(StoreError, match="blue has a store already; give the fork a folder of its own"):
        fork(tmp_path / "blue", tmp_path / "blue")
    assert check_store(tmp_path / "blue").problems == ()


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is one file system only")  # noqa: S108
def test_another_disk_is_refused(tmp_path, quick):
    if tmp_path.stat().st_dev == quick.stat().st_dev:
        pytest.skip("there is one file system only")
    with writer(tmp_path / "blue") as blue:
        step(blue)
    with pytest.raises(StoreError, match=r"on another file system than .*choose a folder on the same one"):
        fork(tmp_path / "blue", quick / "green")


def test_on_an_object_store():
    place = f"memory://{uuid.uuid4().hex}"
    with writer(f"{place}/blue") as blue:
        for _ in range(4):
            step(blue)
        fork(f"{place}/blue", f"{place}/green")
        wanted = told(blue)
        for _ in range(7):
            step(blue)
        blue.vacuum(keep=1)
    forget_segments()
    with writer(f"{place}/green") as green:
        assert told(green) == wanted
        step(green)
        green.vacuum(keep=1)
    for folder in ("blue", "green"):
        assert an.check_store(f"{place}/{folder}").problems == ()
