"""Processes that kill themselves: scripts that fork runs, each to end before an operation that a seed chooses."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MOST = 400  # operations before a run is killed
OPERATIONS = {"open", "os.link", "os.remove", "os.rename", "os.mkdir", "os.listdir", "os.scandir"}
Run = Callable[[int, Path], int]


class Fate:
    """Kills this process in front of the operation whose turn it is."""

    def __init__(self):
        self.left = 0  # for ever

    def tick(self, *_: object) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def arm(self, folder: str, seed: int) -> None:
        self.left = random.Random(seed).randrange(1, MOST)

        def hook(event: str, arguments: tuple[object, ...]) -> None:
            if event in OPERATIONS and str(arguments[0]).startswith(folder):
                self.tick()

        sys.addaudithook(hook)

    def connect(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path)
        connection.set_trace_callback(self.tick)  # of each statement
        return connection


FATE = Fate()


def forks(run: Callable[[Path], None]) -> None:
    """What such a script does: a line ``<seed> <folder>`` is a run, whose exit code is written; with seed 0 it ends."""
    for line in sys.stdin:
        seed, folder = line.rstrip("\n").split(" ", 1)
        child = os.fork()
        if not child:
            if seed != "0":
                FATE.arm(folder, int(seed))
            run(Path(folder))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))


def killed(run: Run, folder: Path, seed: int) -> int:
    """Start runs in a folder, each killed somewhere else, until one comes to its end; how many were killed."""
    kills = 0
    while (ended := run(seed + 1000 * kills, folder)) == -signal.SIGKILL:
        kills += 1
    assert ended == 0
    return kills


@contextmanager
def forking(script: str, environment: dict[str, str]) -> Iterator[Run]:
    """Start such a script; what it gives starts a run and returns its exit code, negative for the signal it died of."""
    command = [sys.executable, "-W", "ignore", script]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=environment) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(seed: int, folder: Path) -> int:
            process.stdin.write(f"{seed} {folder}\n")
            return int(process.stdout.readline())

        yield run
        process.stdin.close()
