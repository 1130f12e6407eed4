"""One writer at a time, over objects, processes and forks."""

from __future__ import annotations

import gc
import os
import subprocess
import sys

import pytest

from altneu.errors import StoreError, StoreLockedError
from altneu.store import DirectoryStore
from tests.store.support import CHILD

HOLD = """
import sys
from altneu.store import DirectoryStore
store = DirectoryStore.create_or_open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state"


def test_a_second_writer_is_refused_and_loses_nothing(path):
    with DirectoryStore.create_or_open(path) as first:
        first.commit(1, set={"a": 1})
        with pytest.raises(
            StoreLockedError, match=f"open in another session .process {os.getpid()} on .*close that one"
        ):
            DirectoryStore.create_or_open(path)
        assert first.commit(2, set={"a": 2}) == 2
    with DirectoryStore.create_or_open(path) as second:
        assert (second.number, second.state["a"]) == (2, 2)


def test_the_lock_goes_with_the_object(path):
    store = DirectoryStore.create_or_open(path)
    with pytest.raises(StoreLockedError):
        DirectoryStore.create_or_open(path)
    del store
    gc.collect()
    DirectoryStore.create_or_open(path).close()


def test_the_lock_goes_with_the_process_however_it_dies(path):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=CHILD
    )
    with child:
        assert child.stdout.readline() == b"open\n"
        with pytest.raises(StoreLockedError, match=f"process {child.pid} on"):
            DirectoryStore.create_or_open(path)
        child.kill()
    DirectoryStore.create_or_open(path).close()


FORK = """
import os, sys, warnings
from altneu.store import DirectoryStore
from altneu.errors import StoreError, StoreLockedError
warnings.simplefilter("ignore")
store = DirectoryStore.create_or_open(sys.argv[1])
store.commit(1, set={"a": 1})
told, tell = os.pipe()
child = os.fork()
if not child:
    try:
        store.commit(2, set={"a": 2})
    except StoreError as error:
        os.write(tell, b"refused " if "forked" in str(error) else b"?")
    store.close()
    try:
        DirectoryStore.create_or_open(sys.argv[1])
    except StoreLockedError:
        os.write(tell, b"locked ")
    if sys.argv[2] == "exit":
        sys.exit(0)  # runs finalizers, which must not release the parent's lock
    os.close(tell)
    os.read(int(sys.argv[3]), 1)  # lives on after its parent
    os._exit(0)
if sys.argv[2] == "exit":
    os.waitpid(child, 0)
    try:
        DirectoryStore.create_or_open(sys.argv[1])
    except StoreLockedError:
        os.write(tell, b"still locked ")
    store.commit(2, set={"a": 3})
os.close(tell)
print(os.read(told, 100) + os.read(told, 100), flush=True)
os._exit(0) if sys.argv[2] == "live" else None
"""


def test_a_forked_child_neither_writes_nor_holds_nor_releases(path):
    run = subprocess.run(
        [sys.executable, "-c", FORK, str(path), "exit"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=CHILD,
    )
    assert run.stdout == "b'refused locked still locked '\n"
    with DirectoryStore.create_or_open(path) as store:
        assert store.state["a"] == 3


def test_a_child_that_outlives_the_writer_does_not_keep_the_lock(path):
    wait, go = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-c", FORK, str(path), "live", str(wait)], stdout=subprocess.PIPE, pass_fds=[wait], env=CHILD
    )
    try:
        assert child.wait(timeout=60) == 0
        with DirectoryStore.create_or_open(path) as store:  # the grandchild is still there
            assert store.number == 1
    finally:
        os.write(go, b"x")
        os.close(go)
        os.close(wait)
        child.stdout.close()


def test_a_lock_that_is_a_link_is_refused(path, tmp_path):
    DirectoryStore.create_or_open(path).close()
    (path / "lock").unlink()
    (path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=r"cannot open .*lock"):
        DirectoryStore.create_or_open(path)
    assert not (tmp_path / "elsewhere").exists()
