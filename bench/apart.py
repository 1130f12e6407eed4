"""One measurement in a process of its own, for its peak of memory: exact, and of nothing else."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")  # Linux only
RESET_PEAK = "5"


@dataclass(frozen=True)
class Apart:
    """What a run gave and took.

    Units:  ``before`` and ``peak`` bytes resident: when the run began, and the most while it ran, as the kernel says.
    """

    result: Any
    seconds: float
    before: int
    peak: int

    @property
    def added(self) -> int:
        """What the run took beyond what was there."""
        return self.peak - self.before


def apart(prepare: Callable[..., Callable[[], Any]], *given: Any) -> Apart:
    """Prepare in another process, then run what that gave: only the run is measured.

    ``prepare`` is a function of a module, ``given`` and what the run returns are JSON.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        command = [sys.executable, "-m", "bench.apart", prepare.__module__, prepare.__name__, json.dumps(given)]
        subprocess.run([*command, str(out)], check=True)
        return Apart(**json.loads(out.read_text()))


def main(module: str, name: str, given: str, out: str) -> None:
    """The other process."""
    run = getattr(importlib.import_module(module), name)(*json.loads(given))
    CLEAR.write_text(RESET_PEAK)
    before = _bytes("VmRSS")
    started = time.perf_counter()
    result = run()
    matches = Apart(result, time.perf_counter() - started, before, _bytes("VmHWM"))
    Path(out).write_text(json.dumps(asdict(matches)))


def _bytes(what: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{what}:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
