"""Stopwatches, and the memory that a section of the run took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import psutil

SAMPLE_SECONDS = 0.05
MIB = 1 << 20

T = TypeVar("T")


@dataclass
class Peak:
    """The most memory that was seen while a section ran.

    Units:  bytes resident. ``python`` is this process and its Python children, ``jvm`` the Java process; ``added`` is
            what ``python`` grew by since the section began. A worker that was forked from another counts by what it has
            beyond its parent; a mapped segment counts in every process that touched it.
    """

    python: int = 0
    jvm: int = 0
    added: int = 0

    def join(self, other: Peak) -> Peak:
        """The larger of both, each part for itself."""
        return Peak(max(self.python, other.python), max(self.jvm, other.jvm), max(self.added, other.added))

    def __str__(self) -> str:
        java = f" + {self.jvm / MIB:,.0f}" if self.jvm else ""
        return f"{self.python / MIB:,.0f} ({self.added / MIB:+,.0f}){java}"


@dataclass
class Timed:
    """Seconds of each run of one contender, on the clock and (where it was asked) computed, and its peak memory."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak: Peak = field(default_factory=Peak)

    @property
    def median(self) -> float:
        """The median of the runs."""
        return float(np.median(self.seconds))

    @property
    def least(self) -> float:
        """The quickest run: what a run takes when nothing disturbs it."""
        return min(self.seconds)


@contextmanager
def memory() -> Iterator[Peak]:
    """Sample memory while the block runs; the value is complete when the block ends."""
    me = psutil.Process()
    start = _resident(me)
    peak = Peak(start.python, start.jvm)
    stop = threading.Event()

    def watch() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            now = _resident(me)
            peak.python, peak.jvm = max(peak.python, now.python), max(peak.jvm, now.jvm)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        stop.set()
        watcher.join()
        now = _resident(me)
        peak.python, peak.jvm = max(peak.python, now.python), max(peak.jvm, now.jvm)
        peak.added = peak.python - start.python


def _resident(me: psutil.Process) -> Peak:
    sizes = {me.pid: me.memory_info().rss}
    now = Peak(python=sizes[me.pid])
    for child in me.children(recursive=True):  # parents come before their children
        try:
            size, parent, name = child.memory_info().rss, child.ppid(), child.name()
        except psutil.NoSuchProcess:
            continue  # it ended between the listing and the look
        if "java" in name:
            now.jvm += size
        elif "python" in name:  # else a command that Java is starting, which for a moment has all of Java's memory
            sizes[child.pid] = size
            forked = parent != me.pid and parent in sizes
            now.python += max(size - sizes[parent], 0) if forked else size
    return now


def timed(run: Callable[[], T], into: Timed) -> T:
    """Run once; add its seconds and its peak to ``into``."""
    with memory() as peak:
        started = time.perf_counter()
        result = run()
        into.seconds.append(time.perf_counter() - started)
    into.peak = into.peak.join(peak)
    return result


def in_turns(contenders: dict[str, Callable[[], object]], turns: int) -> dict[str, Timed]:
    """Run each contender once, then each again: what disturbs the machine for a while disturbs all of them.

    The peaks are those of the first turn, in which a contender sees the memory of those before it and not its own.
    """
    result = {name: Timed() for name in contenders}
    for turn in range(turns):
        for name, run in contenders.items():
            peak = result[name].peak
            timed(run, result[name])
            if turn:
                result[name].peak = peak
    return result


def interleaved(contenders: dict[str, Callable[[], object]], turns: int) -> dict[str, Timed]:
    """As ``in_turns``, without looking at memory: in runs of a tenth of a second the looking would show."""
    matches = {name: Timed() for name in contenders}
    for _ in range(turns):
        for name, run in contenders.items():
            cpu, started = time.process_time(), time.perf_counter()
            result = run()
            matches[name].seconds.append(time.perf_counter() - started)
            matches[name].cpu.append(time.process_time() - cpu)
            del result
    return matches


@dataclass
class Steps:
    """One step after another: seconds on the clock, and seconds this thread computed.

    On a shared machine the clock's tail shows other processes too, the thread's own time does not.
    """

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def run(self, step: Callable[[], T]) -> T:
        """Run and record one step."""
        cpu, wall = time.thread_time(), time.perf_counter()
        result = step()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.thread_time() - cpu)
        return result

    @property
    def total(self) -> float:
        """Seconds on the clock of all steps."""
        return float(sum(self.wall))


def milliseconds(seconds: Sequence[float], percentile: float) -> float:
    """A percentile in milliseconds; 100 is the maximum."""
    return float(np.percentile(seconds, percentile)) * 1e3
