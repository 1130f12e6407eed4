"""Readers beside a writer that commits, vacuums and is killed: always one whole commit, never a torn state."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading

import pytest

from altneu.errors import HistoryGoneError, StoreError
from altneu.store import DirectoryStore, StoreReader, forget_segments
from tests.store import killable
from tests.store.support import CHILD, check_step, step


class Writer:
    """A process that writes a store, three steps and a vacuum in turn, until it is killed."""

    def __init__(self):
        command = [sys.executable, "-W", "ignore", killable.__file__]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=CHILD
        )
        self.pid = self.told = 0
        self._changed = threading.Condition()
        self._ended = True
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout:
            word, _, number = line.rpartition(" ")
            with self._changed:
                if word == "writer":
                    self.pid = int(number)
                elif word == "ended":
                    self.pid, self._ended = 0, True
                else:
                    self.told = int(number)
                self._changed.notify_all()

    def start(self, folder) -> None:
        self._ended, self.told = False, 0
        self.process.stdin.write(f"0 {folder}\n")

    def wait_for(self, number: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.told >= number, 60)

    def kill(self) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.pid, 60)
            os.kill(self.pid, signal.SIGKILL)
            assert self._changed.wait_for(lambda: self._ended, 60)


@pytest.fixture(scope="module")
def writer():
    started = Writer()
    with started.process:
        yield started
        started.process.stdin.close()


def test_a_reader_beside_a_writer_that_is_killed_again_and_again(writer, quick):
    chance = random.Random(20130101)
    readers: list[StoreReader] = []
    seen = set()
    writer.start(quick)
    writer.wait_for(1)
    for turn in range(150):
        if turn % 25 == 24:
            writer.kill()
            writer.start(quick)
        writer.wait_for(writer.told + 1)  # of a writer that begins anew, its first
        forget_segments()
        if len(readers) < 4:
            readers.append(StoreReader(quick))
        reader = chance.choice(readers)
        before = reader.snapshot.number
        if chance.random() < 0.6:
            reader.refresh()
            reader.keep(reader.snapshot.number, None)
        assert reader.snapshot.number >= before
        check_step(reader.snapshot)
        seen.add(reader.snapshot.number)
        if chance.random() < 0.1:
            readers.remove(reader)
            reader.close()
    for reader in readers:
        check_step(reader.snapshot)
        reader.close()
    writer.kill()
    assert len(seen) > 60


def test_without_a_lease_a_reader_is_warned_and_goes_on(writer, quick):
    gone = 0
    writer.start(quick)
    writer.wait_for(1)
    reader = StoreReader(quick, lease=None)
    for _ in range(40):
        writer.wait_for(writer.told + 4)
        forget_segments()
        try:
            check_step(reader.snapshot)
        except HistoryGoneError:
            gone += 1
        reader.refresh()
    writer.kill()
    forget_segments()
    reader.refresh()
    check_step(reader.snapshot)
    assert gone
    assert not list((quick / "readers").iterdir())


def test_a_snapshot_writes_nothing(tmp_path):
    with DirectoryStore.create_or_open(tmp_path) as store:
        step(store)
    snapshot = StoreReader(tmp_path, lease=None).snapshot
    for write in (
        lambda: snapshot.commit([2], {"a": 1}),
        lambda: snapshot.write_segment([], None),
        snapshot.vacuum,
    ):
        with pytest.raises(StoreError, match="open for reading only"):
            write()
    assert [commit.number for commit in snapshot.history()] == [1]
