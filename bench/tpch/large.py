"""``python -m bench.tpch.large 10``: TPC-H with more rows than memory, each query loaded into a durable view on Spark.

Tables are written in pieces. Each query has a process of its own (``bench.tpch.large_load``), whose memory and disk are
watched from here. One query is loaded once more, killed half way with all of its processes, and continued.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import psutil

from altneu.runtime.memory import bytes_in
from bench.inputs import FOLDER
from bench.measure import MIB
from bench.tables import Aim, Findings, Table, markdown
from bench.tpch import data
from bench.tpch.large_load import ANSWER, CHECK, LOAD, ON, OUT, STORE, TABLES

PIECE = 0.5  # the scale factor of what is generated at a time, in 1.3 GB
SAMPLE_SECONDS = 0.25
SCARCE = 8  # one look at the disk for so many at memory
TEMPORARY = "temporary"  # what a load has for temporary files
DRIVER, JVM, WORKER, ALL, DISK = "driver", "JVM", "worker", "all", "disk"


@dataclass
class Peaks:
    """The most bytes that were seen in each phase.

    Of a process of Python it is what it has for itself, without files that it has mapped; ``ALL`` adds up what is
    resident of all processes of the load.
    """

    seen: dict[tuple[str, str], int] = field(default_factory=dict)

    def note(self, phase: str, kind: str, size: int) -> None:
        """So much was seen."""
        self.seen[phase, kind] = max(self.seen.get((phase, kind), 0), size)

    def __call__(self, phase: str, kind: str) -> int:
        """The most."""
        return self.seen.get((phase, kind), 0)


class Loading:
    """A load that runs: its process, the phase that it is in, what it says in the end, and its peaks."""

    def __init__(self, folder: Path, number: int, memory: str, *, again: bool = False) -> None:
        self.folder, self.temporary = folder, folder / TEMPORARY
        self.temporary.mkdir(exist_ok=True)
        self.phase, self.began, self.peaks, self.found = "start", 0.0, Peaks(), dict[str, Any]()
        command = [sys.executable, "-m", "bench.tpch.large_load", str(folder), str(number), f"--memory={memory}"]
        command += ["--again"] if again else []
        environment = os.environ | {"TMPDIR": str(self.temporary)}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            value = json.loads(line)
            if "phase" in value:
                self.phase, self.began = value["phase"], time.monotonic()
            else:
                self.found = value

    def watch(self, until: float | None = None) -> dict[str, Any]:
        """Look at it until it ends, or has loaded for so many seconds and is killed; what it has found."""
        me, looks = psutil.Process(self.process.pid), 0
        while self.process.poll() is None:
            self._look(me, at_disk=looks % SCARCE == 0)
            looks += 1
            if until is not None and self.phase == LOAD and time.monotonic() - self.began > until:
                self._kill(me)
                break
            time.sleep(SAMPLE_SECONDS)
        self._listener.join()
        return self.found

    def _look(self, me: psutil.Process, *, at_disk: bool) -> None:
        whole, deleted = 0, 0
        for process in _tree(me):
            try:
                memory, name = process.memory_info(), process.name()
                whole += memory.rss
                own = memory.rss - memory.shared
                if process.pid == me.pid:
                    self.peaks.note(self.phase, DRIVER, own)
                elif "java" in name:
                    self.peaks.note(self.phase, JVM, memory.rss)
                elif "python" in name:  # else a command that Java is starting, which for a moment has Java's memory
                    self.peaks.note(self.phase, WORKER, own)
                deleted += sum(_deleted(process)) if at_disk else 0
            except psutil.Error:  # it ended while it was looked at
                continue
        self.peaks.note(self.phase, ALL, whole)
        if at_disk:
            places = (self.folder / STORE, self.temporary)
            self.peaks.note(self.phase, DISK, deleted + sum(map(_size, places)))

    def _kill(self, me: psutil.Process) -> None:
        """Kill all of its processes, as a machine that loses its power does."""
        while running := [process for process in _tree(me) if process.status() != psutil.STATUS_ZOMBIE]:
            for process in running:
                process.kill()
            self.process.wait()
            psutil.wait_procs(running, timeout=10)


def _tree(me: psutil.Process) -> list[psutil.Process]:
    try:
        return [me, *me.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _size(folder: Path) -> int:
    """Bytes that a folder takes on the disk."""
    result = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                result += (Path(place) / name).lstat().st_blocks * 512
            except FileNotFoundError:
                continue
    return result


def _deleted(process: psutil.Process) -> Iterator[int]:
    """Bytes of files that a process has open and that have no name any more."""
    descriptors = Path(f"/proc/{process.pid}/fd")
    try:
        for descriptor in descriptors.iterdir():
            found = descriptor.stat()
            if stat.S_ISREG(found.st_mode) and not found.st_nlink:
                yield found.st_blocks * 512
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return


@dataclass
class Loaded:
    """What one query's load has found, and its peaks; of a killed one also what the kill has left."""

    found: dict[str, Any]
    peaks: Peaks
    left: int = 0

    @property
    def problem(self) -> str | None:
        """Why it is not right, None if it is."""
        return self.found["difference"] if self.found else "it has failed"


class Run:
    """Queries over the tables of a folder, one after the other."""

    def __init__(self, folder: Path, memory: str) -> None:
        self.folder, self.memory = folder, memory

    def load(self, number: int) -> Loaded:
        """Spark's query, the load and the check."""
        self._clear()
        loading = Loading(self.folder, number, self.memory)
        return Loaded(loading.watch(), loading.peaks)

    def killed(self, number: int, after: float) -> Loaded:
        """A load that is killed after so many seconds, and the one that continues it."""
        shutil.rmtree(self.folder / STORE)
        killed = Loading(self.folder, number, self.memory, again=True)
        killed.watch(after)
        left = _size(self.folder / STORE)
        shutil.rmtree(killed.temporary)
        going_on = Loading(self.folder, number, self.memory, again=True)
        return Loaded(going_on.watch(), going_on.peaks, left)

    def _clear(self) -> None:
        for name in (STORE, TEMPORARY, OUT, ANSWER):
            shutil.rmtree(self.folder / name, ignore_errors=True)


def _told(scale: float, memory: str, loads: dict[str, Loaded]) -> Findings:
    columns = ["query", "Spark, s", "altneu, s", "ratio", "Spark, s computed", "altneu, s computed", "ratio"]
    columns += ["updates kept", "MiB kept", "MiB of disk", "of a worker", "of the driver", "of Java", "Spark's query"]
    table = Table(f"t. TPC-H at scale factor {scale:g} with {memory} a task", columns)
    for name, one in loads.items():
        found, peaks = one.found, one.peaks
        if not found:
            table.add(name, *["failed" for _ in columns[1:]])
            continue
        mine, own = (found["seconds"], found["computed"]), found["own"]
        cells = [[f"{a:.0f}", f"{b:.0f}", f"{b / a:.1f}x"] for a, b in zip(own, mine, strict=True)] if own else None
        clock, computed = cells or [["", f"{seconds:.0f}", ""] for seconds in mine]
        table.add(
            name,
            *clock,
            *computed,
            f"{found['rows']:,}",
            f"{found['kept'] / MIB:,.0f}",
            *(f"{peaks(LOAD, kind) / MIB:,.0f}" for kind in (DISK, WORKER, DRIVER, JVM)),
            f"{peaks(ON, JVM) / MIB:,.0f}" if own else "",
        )
        if one.left:
            when = "had been committed, with" if found["was_loaded"] else "left"
            table.notes.append(f"{name}: the killed load {when} {one.left / MIB:,.0f} MiB in the store.")
    bound = bytes_in(memory)
    worker = max(one.peaks(phase, WORKER) for one in loads.values() for phase in (LOAD, CHECK))
    wrong = {name: one.problem for name, one in loads.items() if one.problem is not None}
    for name, problem in wrong.items():
        click.echo(f"{name}: {problem}", err=True)
    aims = [
        Aim(f"t: no worker has more than {memory}", f"{worker / MIB:,.0f} MiB", worker / bound),
        Aim(
            "t: every view is what Spark makes of the tables",
            f"{len(wrong)} differ" if wrong else "yes",
            1 + len(wrong),
        ),
    ]
    return Findings(tables=[table], aims=aims)


def _chosen(queries: Iterable[int]) -> list[int]:
    return list(queries) or list(data.QUERIES)


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.argument("scale", type=float)
@click.option("--query", "queries", multiple=True, type=click.IntRange(1, 22), help="Only this one; may be repeated.")
@click.option("--kill", default=9, type=click.IntRange(1, 22), help="The query whose second load is killed half way.")
@click.option("--memory", default="2g", help="Of a task.")
@click.option("--tables", type=click.Path(path_type=Path), help="A folder that keeps the tables, for another run.")
@click.option("--details", is_flag=True, help="What each operator did, after each load.")
def main(scale: float, queries: tuple[int, ...], kill: int, memory: str, tables: Path | None, *, details: bool) -> None:
    """Load TPC-H's queries at a scale factor with so much memory a task, and compare them with Spark."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    loads: dict[str, Loaded] = {}
    with tempfile.TemporaryDirectory(prefix="tpch-large-", dir=FOLDER) as name:
        folder = Path(name).absolute()
        if tables is not None:
            (folder / TABLES).symlink_to(tables.absolute())
        if tables is None or not tables.exists():
            data.write(scale, folder / TABLES if tables is None else tables, max(round(scale / PIECE), 1))
        run = Run(folder, memory)
        for number in _chosen(queries):
            one = loads[f"q{number}"] = run.load(number)
            _say(f"q{number}", one, details=details)
            if number == kill and one.found:
                one = loads[f"q{number}, killed and continued"] = run.killed(number, one.found["seconds"] / 2)
                _say(f"q{number} again", one, details=details)
    click.echo(markdown(_told(scale, memory, loads)))


def _say(name: str, one: Loaded, *, details: bool) -> None:
    found = {key: value for key, value in one.found.items() if key != "analysed"}
    click.echo(f"{name}: {found}, left {one.left / MIB:,.0f} MiB", err=True)
    peaks = [f"{phase} {kind} {size / MIB:,.0f}" for (phase, kind), size in one.peaks.seen.items()]
    click.echo(f"  most MiB: {', '.join(peaks)}", err=True)
    if details and one.found:
        click.echo(one.found["analysed"], err=True)


if __name__ == "__main__":
    main()
