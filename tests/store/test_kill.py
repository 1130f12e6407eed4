"""A writer killed anywhere leaves a whole commit: the last it was told of, or the one it was in."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from altneu.store import DirectoryStore, SegmentRef, forget_segments
from tests.store import killable
from tests.store.support import CHILD, check_step, files, step


class Writers:
    """The forking process, and what its writers say."""

    def __init__(self):
        command = [sys.executable, "-W", "ignore", killable.__file__]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, env=CHILD
        )

    def start(self, folder: Path, fatal: int) -> None:
        self.process.stdin.write(f"{fatal} {folder}\n")

    def line(self) -> tuple[str, int]:
        word, _, number = self.process.stdout.readline().rpartition(" ")
        return word, int(number)

    def run(self, folder: Path, fatal: int, kill_after: int | None = None) -> tuple[int, int]:
        """Last commit the writer was told of, and how it ended."""
        self.start(folder, fatal)
        answer = pid = heard = 0
        while True:
            word, number = self.line()
            if word == "ended":
                return answer, number
            if word == "writer":
                pid = number
                continue
            answer = max(answer, number)
            heard += 1
            if heard == kill_after:
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def writers():
    started = Writers()
    with started.process:
        yield started
        started.process.stdin.close()


def check_survivor(folder: Path, told: int) -> int:
    """Reopened, the store is at one whole commit, works, and vacuum leaves what is named and nothing else."""
    forget_segments()
    with DirectoryStore.create_or_open(folder, checkpoint_every=3) as store:
        result = store.number
        assert told <= result <= told + 1
        check_step(store)
        step(store)
        check_step(store)
        store.vacuum(keep=1)
        named = {f"segments/{SegmentRef.from_json(value).name}" for value in store.state["spine"]}
        assert {name for name in files(folder) if not name.startswith("log/")} == {"format.json", "lock"} | named
        assert not [name for name in files(folder) if name.endswith(".tmp")]
    return result


def test_killed_in_front_of_every_operation_on_a_file(writers, quick):
    ended, fatal, actual = -signal.SIGKILL, 0, set()
    while ended:
        fatal += 1
        folder = quick / str(fatal)
        text, ended = writers.run(folder, fatal)
        assert ended in {0, -signal.SIGKILL}
        actual.add(check_survivor(folder, text))
    assert fatal > 60  # opening, seven steps and two vacuums have at least as many
    assert actual == set(range(killable.STEPS + 1))


def test_killed_at_random_and_gone_on_with(writers, quick):
    chance = random.Random(20130101)
    number = 0
    for _ in range(40):
        text, ended = writers.run(quick, 0, kill_after=chance.randint(1, 12))
        assert ended == -signal.SIGKILL
        assert text > number
        number = check_survivor(quick, text) + 1
    assert number >= 80
