"""Runs that are killed again and again, at random: for a few seeds in the tests, for many in the suite of faults."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import altneu as an
from tests.session.streaming import COUNTS, LATE, Files, follow

ROOT = Path(__file__).parents[2]
POINTS = ("operation", "operation", "offsets", "commits", "after")


def put_random(rng: random.Random, files: Files) -> int:
    """Files of rows, some of them late; how many rows."""
    sizes = [rng.randint(1, 12) for _ in range(rng.randint(3, 6))]
    for i, size in enumerate(sizes):
        files.put(*((rng.randint(0, 3), rng.randint(0, 99), max(3 * i + rng.randint(-6, 5), 0)) for _ in range(size)))
    return sum(sizes)


def killed_and_resumed(spark: Any, seed: int, folder: Path, kills: int) -> int:
    """Kill processes that follow a stream, then follow it to its end; how many kills struck. The result is checked."""
    rng = random.Random(seed)
    files = Files(spark, folder / "in")
    rows = put_random(rng, files)
    options: dict[str, Any] = {"time": "time", "watermark": 2, "late": rng.choice(["revise", "drop", "error"])}
    options = rng.choice([options, {}])
    wanted, _ = followed(spark, folder / "undisturbed", files, options)
    struck = 0
    for _ in range(kills):
        kind = rng.choice(POINTS)
        point = f"{kind} {rng.randint(1, 25) if kind == 'operation' else rng.randint(0, 4)}"
        struck += killed(folder / "state", files.folder, point, options | {"max_rows": rng.choice([None, 4, 5])})
    found, taken = followed(spark, folder / "state", files, options)
    assert (found, taken) == (wanted, rows), f"seed {seed}"
    return struck


def followed(spark: Any, state: Path, files: Files, options: dict[str, Any]) -> tuple[list[Counter], int]:
    """What the views show when the stream has been followed to its end and all times are closed, and its rows."""
    with an.Session(path=state, shards=1) as session:
        views = session.maintain("v", COUNTS), session.maintain("late", LATE)
        status = follow(session, files, **options)
        session.advance(to=max(session.lower + 1, 100))
        return [Counter(view.to_pylist()) for view in views], status.rows


def killed(state: Path, folder: Path, point: str, options: dict[str, Any]) -> bool:
    """Follow in a process that kills itself at a point; whether it came to that."""
    command = [sys.executable, "-m", "tests.session.stream_child", str(state), str(folder), point, json.dumps(options)]
    path = {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(command, env=os.environ | path, capture_output=True, check=False, cwd=ROOT)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr.decode()
    return done.returncode != 0
