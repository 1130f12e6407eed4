"""A process that has imported everything and forks one that works for every line it reads.

A line is a job as JSON; what the child says, and how it ended, comes back a line each. Forking saves an interpreter's
start for every kill. Nothing here may use Polars before it forks.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from altneu.runtime.spark.warm import warm_kernels
from faults import jobs


def say(word: str, what: object) -> None:
    """Tell the parent."""
    os.write(1, (json.dumps([word, what]) + "\n").encode())


def work(job: dict[str, Any]) -> None:
    """Do a job in a forked child."""
    try:
        jobs.JOBS[job["kind"]](Path(job["folder"]), say, **job["options"])
    except Exception:  # noqa: BLE001  # whatever it is, the parent is told
        say("failed", traceback.format_exc())
    os._exit(0)


def main() -> None:
    """Fork a child for every line; the kernels are loaded once, for all of them."""
    warm_kernels()
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if not child:
            work(job)
        say("pid", child)
        _, status = os.waitpid(child, 0)
        say("ended", os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main()
