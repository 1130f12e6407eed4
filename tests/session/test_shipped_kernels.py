"""Code that a wheel brings is used where the processor runs it; everything else is compiled as in any installation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from altneu.compiled import LEVEL, SHIPPED, runs_shipped

ROOT = Path(__file__).resolve().parents[2]
MODULE = """
from altneu.compiled import compiled

@compiled(inline="always")
def twice(x):
    return 2 * x

@compiled()
def added(xs):
    total = 0
    for x in xs:
        total += twice(x)
    return total
"""
PROGRAM = """
import numpy as np, numba.core.event as event
from collections import Counter
from shipped import added
with event.install_recorder("numba:compile") as recorder:
    print(added(np.arange(4)), len(recorder.buffer) > 0)
"""


def run(folder, **settings):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    paths = os.pathsep.join([str(folder), str(ROOT / "src")])
    environment = {**kept, "PYTHONPATH": paths, "HOME": str(folder / "home"), **settings}
    done = subprocess.run(
        [sys.executable, "-B", "-c", PROGRAM], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    total, compiles = done.stdout.split()
    assert total == "12"
    return compiles == "True"


@pytest.fixture
def installed(tmp_path):
    """A folder with the module and its code for the level, as scripts/build-wheel leaves it."""
    (tmp_path / "shipped.py").write_text(MODULE)
    assert run(tmp_path, NUMBA_CPU_NAME=LEVEL, NUMBA_CPU_FEATURES="")
    (tmp_path / "__pycache__").rename(tmp_path / SHIPPED)
    return tmp_path


needs_level = pytest.mark.skipif(not runs_shipped(), reason=f"the processor is not {LEVEL}")


@needs_level
def test_what_the_wheel_brings_is_not_compiled_again(installed):
    assert not run(installed)
    assert not list(installed.rglob("__pycache__/*.nbc"))


@needs_level
def test_nothing_has_to_be_written(installed):
    (installed / "__pycache__").write_text("not a folder, so that nobody, root included, can write there")
    (installed / "home").write_text("the same")
    assert not run(installed)


def test_without_the_wheels_code_and_without_a_place_it_is_compiled_for_the_process(tmp_path):
    (tmp_path / "shipped.py").write_text(MODULE)
    (tmp_path / "__pycache__").write_text("not a folder")
    (tmp_path / "home").write_text("not a folder")
    assert run(tmp_path)


def test_another_processor_or_another_source_is_compiled(installed):
    assert run(installed, NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    (installed / "shipped.py").write_text(MODULE.replace("2 * x", "x + x"))
    assert run(installed)
    assert not run(installed)
