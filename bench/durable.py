"""Case l: what durability costs a one-row step, and how soon a large state answers after a restart."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import altneu as an
from bench.inputs import FOLDER
from bench.measure import Steps, milliseconds
from bench.scale import Scale
from bench.steps import WARM_STEPS, Changes, fill, keys
from bench.streams import counting, joining
from bench.tables import Aim, Findings, Table

P50_LIMIT, RECOVERY_LIMIT = 5.0, 2.0
_PLANS = {"filter + count by group": (counting, ("events",)), "filter + join": (joining, ("events", "dimension"))}
_PROBES = 300


def measure(scale: Scale) -> Findings:
    """One-row steps in memory and on the disk in turns, then the recovery of the largest state."""
    findings = Findings()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        findings.extend(_steps(scale, Path(folder)))
        findings.extend(_recovery(scale, Path(folder)))
    return findings


def _steps(scale: Scale, folder: Path) -> Findings:
    size = scale.states[1]
    findings = Findings()
    table = Table(
        f"l. a one-row step on {size:,} rows, durable and in memory",
        ["plan", "where", "p50 ms", "p99 ms", "max ms", "files per step"],
        notes=[
            f"{scale.steps:,} steps. Durable: written and synced when advance() returns.",
            f"Of it the disk: {disk(folder):.2f} ms to write, sync, link and sync the folder, for 2 KB (p50).",
        ],
    )
    for name, (plan, sources) in _PLANS.items():
        p50 = {}
        for where, path in (("in memory", None), ("durable", folder / name)):
            print(f"l. {name}, {where}")
            with an.Session(path=path) as session:
                session.maintain("view", plan())
                for source in sources:
                    columns = ["k", "v"] if source == "events" else ["k", "w"]
                    fill(session, source, keys(size).rename_columns(columns))
                changes = Changes(size, sources)
                for i in range(WARM_STEPS):
                    changes.apply(session, i)
                before = _written(path)
                steps = Steps()
                for i in range(scale.steps):
                    steps.run(partial(changes.apply, session, i))
            files = f"{(_written(path) - before) / scale.steps:.2f}" if path else "0"
            p50[where] = milliseconds(steps.wall, 50)
            table.add(name, where, *(f"{milliseconds(steps.wall, p):.2f}" for p in (50, 99, 100)), files)
        table.notes.append(f"{name}: durable / in memory, p50: {p50['durable'] / p50['in memory']:.2f}")
        findings.aims.append(
            Aim(f"{name}: a durable one-row step, p50 under {P50_LIMIT:.0f} ms", f"{p50['durable']:.2f} ms",
                p50["durable"] / P50_LIMIT)
        )  # fmt: skip
    findings.tables.append(table)
    return findings


def disk(folder: Path) -> float:
    """Milliseconds of the system calls of a commit alone."""
    seconds, data = [], os.urandom(2048)
    directory = os.open(folder, os.O_RDONLY)
    for i in range(_PROBES):
        path, begin = folder / f"probe-{i}", time.perf_counter()
        descriptor = os.open(f"{path}.tmp", os.O_CREAT | os.O_WRONLY)
        os.write(descriptor, data)
        os.fsync(descriptor)
        os.close(descriptor)
        os.link(f"{path}.tmp", path)
        Path(f"{path}.tmp").unlink()
        os.fsync(directory)
        seconds.append(time.perf_counter() - begin)
        path.unlink()
    os.close(directory)
    return sorted(seconds)[_PROBES // 2] * 1e3


def _written(path: Path | None) -> int:
    """Files that a store has ever written: commits are numbered, segments are told by the commits that they aim at."""
    if path is None:
        return 0
    commits = max(int(p.stem) for p in (path / "log").glob("*.commit"))
    return commits + len(list((path / "segments").iterdir()))


def _recovery(scale: Scale, folder: Path) -> Findings:
    size = scale.states[-1]
    path = folder / "large"
    print(f"l. recovery of {size:,} rows")
    with an.Session(path=path) as session:
        _maintain(session)
        fill(session, "events", keys(size))
        rows = session.advance().state_rows
    runs = [_opened(path) for _ in range(3)]
    table = Table(
        f"l. a restart on {size:,} rows ({rows:,} updates kept)",
        ["run", "open, s", "maintain, s", "first answer, s", "first one-row step, s"],
        notes=[
            "In a process of its own each time, from Session(path=...) on; imports are not counted.",
            "The answer is the contents of a view of 1,000 groups; the step adds one row, and is durable.",
        ],
    )
    for i, run in enumerate(runs):
        table.add(i + 1, *(f"{run[k]:.3f}" for k in ("open", "maintain", "answer", "step")))
    worst = max(run["answer"] for run in runs)
    aim = Aim(f"restart on {size:,} rows: first answer within {RECOVERY_LIMIT:.0f} s", f"{worst:.2f} s",
              worst / RECOVERY_LIMIT)  # fmt: skip
    return Findings([table], [aim])


def _maintain(session: an.Session) -> an.View:
    """A view with as many groups as rows, which is the large state, and a small one upon it."""
    events = an.source("events", "k long, v long")
    large = events.group_by("k").agg(n="count(*)", total="sum(v)")
    session.maintain("large", large)
    return session.maintain("small", large.group_by(part="k % 1000").agg(n="count(*)", total="sum(total)"))


def _opened(path: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.durable", str(path)], check=True, capture_output=True, text=True
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def restart(path: str) -> None:
    """Open a store, ask, and take a step; the seconds until each was done."""
    importlib.import_module("polars")  # as an application has when it starts
    begin = time.perf_counter()
    seconds = {}
    with an.Session(path=path) as session:
        seconds["open"] = time.perf_counter() - begin
        small = _maintain(session)
        seconds["maintain"] = time.perf_counter() - begin
        assert small.to_arrow().num_rows == 1000
        seconds["answer"] = time.perf_counter() - begin
        session.insert("events", [(7, 1)])
        session.advance()
        seconds["step"] = time.perf_counter() - begin
    print(json.dumps(seconds))


if __name__ == "__main__":
    restart(sys.argv[1])
