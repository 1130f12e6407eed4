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


def forking() -> Server:
    """What runs jobs (tests/connect/jobs.py), each in a process of its own, one at a time."""
    return Server("tests.connect.jobs")


def run(clients: Server, job: str, folder: Path, **options: Any) -> Any:
    """What the client of a job has to say."""
    ended = clients.run(job, folder, **options)
    failed = ended.last("failed")
    assert failed is None, failed[-5000:]
    assert ended.code == 0
    return ended.last("said")


def started(module: str, *arguments: str) -> subprocess.Popen[str]:
    """A client of another kind that runs."""
    command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root
    )


def ended(client: subprocess.Popen[str]) -> Any:
    """What a client says in its last line; None of one that was killed."""
    return _last(client, *client.communicate(timeout=PATIENCE))


def _last(client: subprocess.Popen[str], out: str, error: str) -> Any:
    if client.returncode == -signal.SIGKILL:
        return None
    assert client.returncode == 0, error[-5000:]
    return json.loads(out.splitlines()[-1])


def follow(**what: Any) -> Any:
    """Follow a stream of files (tests/connect/client.py).

    Spark gives the Python of a query ten seconds to start, which a machine may be too busy for: it is started again.
    """
    for _ in range(5):
        client = started("tests.connect.client", json.dumps(what, default=str))
        said, error = client.communicate(timeout=PATIENCE)
        if client.returncode in (0, -signal.SIGKILL) or "Python worker failed to connect back" not in error:
            break
    return _last(client, said, error)
