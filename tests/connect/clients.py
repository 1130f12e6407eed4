"""How tests run their clients."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from faults.children import ENVIRONMENT, Server

PATIENCE = 400  # seconds


def client() -> Server:
    """What runs jobs (tests/connect/jobs.py), each in a process of its own, one at a time."""
    return Server("tests.connect.jobs")


def run(clients: Server, job: str, folder: Path, **options: Any) -> Any:
    """What the client of a job has to say; None of one that was killed.

    Spark gives the Python of a query ten seconds to start, which a machine may be too busy for: it is started again.
    """
    for _ in range(5):
        ended = clients.run(job, folder, **options)
        failed = ended.last("failed") or ""
        if "Python worker failed to connect back" not in failed:
            break
    if ended.code == -signal.SIGKILL:
        return None
    assert ended.code == 0
    assert not failed, failed[-5000:]
    return ended.last("said")


def started(module: str, *arguments: str) -> subprocess.Popen[str]:
    """A program of another kind that runs."""
    command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root
    )


def ended(program: subprocess.Popen[str]) -> Any:
    """What it says in its last line."""
    out, error = program.communicate(timeout=PATIENCE)
    assert program.returncode == 0, error[-5000:]
    return json.loads(out.splitlines()[-1])
