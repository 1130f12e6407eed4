"""Sessions over Spark Connect, in a process of their own: one that has a classic session cannot have both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANS = ("full join", "reduce with errors", "own weights")
ORACLE = "tests/oracle/test_operators.py::test_every_step_shows_what_recomputation_gives"
WHAT = [
    "tests/session/test_versions.py",
    "tests/session/test_spark.py",
    *(f"{ORACLE}[spark-{plan}]" for plan in PLANS),
    "-k",
    "versions or half_way or plain_machine or every_step",
]
"""``make spark-matrix`` runs all of them, which takes half an hour."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_sessions_run_on_spark_connect():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default", *WHAT]
    seen = f"{ROOT / 'src'}{os.pathsep}{ROOT}"  # by workers, which read functions of the tests
    environment = os.environ | {"ALTNEU_CONNECT": "1", "ALTNEU_EVERY": "1", "PYTHONPATH": seen}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1100, check=False)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    assert "failed" not in done.stdout
