"""A process that has imported everything and forks one that works for every line it reads.

``server.py MODULE``: what ``JOBS`` of that module names can be asked for. A line is a job as JSON; what the child says,
and how it ended, comes back a line each. Forking saves an interpreter's start for every kill. Nothing here may use
Polars before it forks.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from altneu.runtime.spark.warm import warm_kernels

Jobs = Mapping[str, Callable[..., None]]


def say(word: str, what: object) -> None:
    """Tell the parent."""
    os.write(1, (json.dumps([word, what]) + "\n").encode())


def work(jobs: Jobs, job: dict[str, Any]) -> None:
    """Do a job in a forked child."""
    try:
        jobs[job["kind"]](Path(job["folder"]), say, **job["options"])
    except Exception:  # noqa: BLE001  # whatever it is, the parent is told
        say("failed", traceback.format_exc())
    os._exit(0)


def main(module: str) -> None:
    """Fork a child for every line; modules and kernels are loaded once, for all of them."""
    jobs: Jobs = importlib.import_module(module).JOBS
    warm_kernels()
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            work(jobs, job)
        say("pid", child)
        _, status = os.waitpid(child, 0)
        say("ended", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(*sys.argv[1:])
