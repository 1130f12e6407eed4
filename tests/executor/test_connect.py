"""Sessions over Spark Connect, in a process of their own: one that has a classic session cannot have both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHAT = [
    "tests/session/test_versions.py",
    "tests/session/test_spark.py",
    "tests/oracle/test_operators.py",  # every operator, against recomputation
    "-k",
    "versions or half_way or plain_machine or (every_step and [spark-)",
]
"""``make spark-matrix`` runs more of them."""


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_sessions_run_on_spark_connect():
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "default", *WHAT]
    environment = os.environ | {"ALTNEU_CONNECT": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1700, check=False)
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-2_000:]
    assert "failed" not in done.stdout
