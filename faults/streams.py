"""Streams that are followed by processes that are killed: in front of any operation, and between any two commits."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altneu as an
from faults import follower
from faults.children import ENVIRONMENT
from faults.report import Findings
from faults.stream_files import COUNTS, LATE, Files, follow

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KILLS = 2  # of the processes of one run
POINTS = {"operation": 20, "offsets": 2, "commits": 2, "after": 2}  # where, and up to which
_PATIENCE = 240  # seconds for a process that is left alone


def kills(count: int, seed: int, folder: Path, done: Callable[[], None]) -> Findings:
    """Kill -9 of processes that follow a stream, each of which goes on where the one before it was."""
    findings = Findings("kill -9 of a follower")
    spark = an.spark_session("faults", "local[2]", config={"spark.sql.shuffle.partitions": 2})
    for number in range(count):
        place = folder / str(number)
        place.mkdir()
        struck, differences = killed_and_resumed(spark, random.Random(f"{seed} {number}"), place)
        findings.add(struck=struck > 0, differences=differences, processes_killed=struck)
        shutil.rmtree(place, ignore_errors=True)
        done()
    return findings


def killed_and_resumed(
    spark: SparkSession, rng: random.Random, folder: Path, kills: int = KILLS
) -> tuple[int, list[str]]:
    """Kill processes that follow a stream, then follow it to its end: how many kills struck, what is different."""
    files = Files(spark, folder / "in")
    rows = _put(rng, files)
    timed = {"time": "time", "watermark": 2, "late": rng.choice(["revise", "drop", "error"])}
    options: dict[str, Any] = rng.choice([timed, {}])
    expected, _ = _followed(folder / "undisturbed", files, options)
    struck = 0
    for _ in range(kills):
        kind = rng.choice(list(POINTS))
        point = f"{kind} {rng.randint(1, POINTS[kind])}"
        struck += _killed(folder / "state", files.folder, point, options | {"max_rows": rng.choice([None, 4, 5])})
    actual, taken = _followed(folder / "state", files, options)
    differences = [] if actual == expected else [f"{folder.name}: {options} shows {actual}, undisturbed {expected}"]
    return struck, differences + ([] if taken == rows else [f"{folder.name}: {taken} of {rows} rows were taken"])


def _put(rng: random.Random, files: Files) -> int:
    """Files of rows, some of them late; how many rows."""
    sizes = [rng.randint(1, 12) for _ in range(rng.randint(3, 6))]
    for i, size in enumerate(sizes):
        files.put(*((rng.randint(0, 3), rng.randint(0, 99), max(3 * i + rng.randint(-6, 5), 0)) for _ in range(size)))
    return sum(sizes)


def _followed(state: Path, files: Files, options: dict[str, Any]) -> tuple[list[Counter[Any]], int]:
    """What the views show when the stream has been followed to its end and all times are closed, and its rows."""
    with an.Session(path=state, shards=1) as session:
        views = session.maintain("v", COUNTS), session.maintain("late", LATE)
        status = follow(session, files, **options)
        session.advance(to=max(session.lower + 1, 100))
        return [Counter(view.to_pylist()) for view in views], status.rows


def _killed(state: Path, folder: Path, point: str, options: dict[str, Any]) -> bool:
    """Follow in a process that kills itself at a point; whether it came to that."""
    command = [sys.executable, "-W", "ignore", follower.__file__, str(state), str(folder), point, json.dumps(options)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, check=False, timeout=_PATIENCE)
    if done.returncode not in (0, -signal.SIGKILL):
        raise RuntimeError(f"a follower failed: {done.stderr.decode()[-5000:]}")
    return done.returncode != 0
