"""What tests of processes share with other tests."""

from __future__ import annotations

import subprocess
import sys

from tests.store.support import CHILD

ALTNEU = [sys.executable, "-W", "ignore", "-m", "altneu.cli"]


def start(*arguments, **rest):
    return subprocess.Popen([*ALTNEU, *map(str, arguments)], text=True, env=CHILD | rest.pop("env", {}), **rest)
