"""Sessions that are interrupted, in a process of their own: ``python -m tests.session.interrupted <what> <folder>``.

Every interrupt comes out as a KeyboardInterrupt whose note says whether the step is committed; the session goes on, and
shows what it ought to. The last line says how many interrupts there were of either kind.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

import altneu as an
from altneu.store import DirectoryStore

GROUPS = 50
N = an.source("n", "k long, v long")
VIEWS = {
    "sums": N.group_by("k").agg(total="sum(v)", least="min(v)"),
    "most": N.distinct().top_k(2, "v desc", per="k"),
}
SAID = [
    (
        "altneu: nothing of the step is committed, lower is {}, and the inserted rows are still pending: "
        "advance() takes the step again, session.discard() discards the rows"
    ),
    "altneu: the step is committed, lower is {}",
]


class Run:
    """A session, the rows that it has by what it says, and what its views are to show."""

    def __init__(self, path: Path | None, rows: int) -> None:
        self.session = an.Session(path=path)
        self.views = {name: self.session.maintain(name, plan) for name, plan in VIEWS.items()}
        self.rng, self.rows, self.values = np.random.default_rng(1), rows, [set[int]() for _ in range(GROUPS)]
        self.sums, self.said = Counter[int](), Counter[str]()

    def insert(self) -> None:
        keys, values = self.rng.integers(0, GROUPS, self.rows), self.rng.integers(0, 10**9, self.rows)
        self.session.insert("n", pa.table({"k": keys, "v": values}))
        for key, value in zip(keys.tolist(), values.tolist(), strict=True):
            self.values[key].add(value)
            self.sums[key] += value

    def step(self, interrupting) -> None:
        """A step with an interrupt at some moment of it, and as many more as it takes until it is committed."""
        self.insert()
        lower = self.session.lower
        try:
            interrupting(self.session.advance)
            self.said["too late"] += 1
        except KeyboardInterrupt as error:
            notes = getattr(error, "__notes__", None)
            committed = self.session.lower == lower + 1
            assert committed == (not self.session._engine.has_pending)
            if notes is None:
                self.said["outside"] += 1
            else:
                assert notes == [SAID[committed].format(self.session.lower)]
                self.said["committed" if committed else "undone"] += 1
            if not committed:
                self.session.advance()
        self.check()

    def check(self) -> None:
        shown = {k: (total, least) for k, total, least in self.views["sums"].to_pylist()}
        assert shown == {k: (self.sums[k], min(found)) for k, found in enumerate(self.values) if found}
        most = sorted((k, v) for k, found in enumerate(self.values) for v in sorted(found)[-2:])
        assert sorted(self.views["most"].to_pylist()) == most


def at_random_moments(path: Path | None) -> None:
    """Another thread sends the signal, at a random moment of a step of real kernels."""
    run, rng, lasts = Run(path, 4_000), random.Random(7), 0.2
    for _ in range(3):
        before = time.perf_counter()
        run.insert()
        run.session.advance()
        lasts = time.perf_counter() - before

    def interrupting(step) -> None:
        def send(wait: float) -> None:
            time.sleep(wait)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=send, args=[rng.random() * 1.2 * lasts])
        thread.start()
        try:
            step()
        finally:
            thread.join()

    for _ in range(25):
        try:
            run.step(interrupting)
        except KeyboardInterrupt:  # between two steps
            run.session.advance()
    run.check()
    run.session.close()
    sys.stdout.write(f"{sorted(run.said.items())}\n")


def within_commits(path: Path, strike) -> None:
    """At one operation on the log's files after the other."""
    left = 0

    def hook(event, arguments):
        nonlocal left
        events = ("open", "os.link", "os.remove", "os.rename", "os.listdir", "os.scandir")
        if left and event in events and str(path / "log") in str(arguments[0]):
            left -= 1
            if not left:
                strike()

    sys.addaudithook(hook)
    run = Run(path, 20)

    def interrupting(step) -> None:
        nonlocal left
        left = at
        try:
            step()
        finally:
            left = 0

    for at in range(1, 9):
        run.step(interrupting)
        with DirectoryStore.create_or_open(copied(path, at)) as store:
            assert store.frontier == [[run.session.lower]]
    run.session.close()
    run.session = an.Session(path=path)
    run.views = {name: run.session.maintain(name, plan) for name, plan in VIEWS.items()}
    run.check()
    run.session.close()
    sys.stdout.write(f"{sorted(run.said.items())}\n")


def copied(path: Path, at: int) -> Path:
    target = path.parent / f"copy{at}"
    shutil.copytree(path, target, ignore=shutil.ignore_patterns("lock"))
    return target


def raising() -> None:
    """What no handler of altneu's sees: as another thread may raise it here."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2]) / "state"
    if what == "memory":
        at_random_moments(None)
    elif what == "durable":
        at_random_moments(folder)
    elif what == "signal in commit":
        within_commits(folder, lambda: signal.raise_signal(signal.SIGINT))
    else:
        within_commits(folder, raising)
