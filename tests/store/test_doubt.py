"""A commit whose outcome its writer cannot know: it stops, and whoever opens the store next finds out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from altneu.store import DirectoryStore
from tests.store.support import CHILD, check_step, files

WRITER = """
import os, sys
from altneu.errors import StoreError
from altneu.store import DirectoryStore
from tests.store.support import step

folder, event_wanted, what = sys.argv[1], sys.argv[2], sys.argv[3]
armed = False

def hook(event, arguments):  # the interpreter tells of every operation; what a hook raises, the operation raises
    global armed
    if armed and event == event_wanted and os.fspath(arguments[0]).endswith(("/log", "commit", ".tmp")):
        if event == "open" and not os.fspath(arguments[0]).endswith("/log"):
            return
        armed = False
        raise KeyboardInterrupt if what == "interrupt" else OSError(5, "Input/output error")

sys.addaudithook(hook)
store = DirectoryStore.create_or_open(folder)
step(store)
armed = True
for _ in range(2):
    try:
        step(store)
    except KeyboardInterrupt:
        print("interrupted", store.number)
    except StoreError as error:
        print(error, store.number)
"""


def run(folder, event, what):
    command = [sys.executable, "-W", "ignore", "-c", WRITER, str(folder), event, what]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=CHILD, timeout=100)
    return done.stdout.splitlines()


@pytest.mark.parametrize(("event", "there"), [("os.remove", 2), ("os.link", 1), ("open", 2)])
def test_an_interrupt_within_a_commit_leaves_it_there_or_not_and_the_writer_knows_which(tmp_path, event, there):
    assert run(tmp_path, event, "interrupt") == [f"interrupted {there}"]  # the second try went through
    with DirectoryStore.create_or_open(tmp_path) as store:
        assert store.number == there + 1
        check_step(store)
    assert not [name for name in files(tmp_path / "log") if name.endswith(".tmp")]


def test_a_folder_that_cannot_be_synced_stops_the_writer(tmp_path):
    said = run(tmp_path, "open", "error")
    assert "cannot sync" in said[0]
    assert all("may have been written or not; open the store again" in line and line.endswith(" 1") for line in said)
    with DirectoryStore.create_or_open(tmp_path) as store:
        assert store.number == 2
        check_step(store)


def test_a_link_that_fails_leaves_the_writer_usable(tmp_path):
    said = run(tmp_path, "os.link", "error")
    assert len(said) == 1  # the second try went through
    assert said[0].startswith("cannot write ")
    with DirectoryStore.create_or_open(tmp_path) as store:
        assert store.number == 2
        check_step(store)
