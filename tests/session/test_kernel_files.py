"""Files of compiled kernels that several processes write at once, or that were compiled of another text."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from altneu.compiled import _Files


def written_at_once(folder, keys):
    """Each key's code by a process of its own that saw no index when it began; what each key then finds."""
    for key in keys:
        files = _Files(str(folder), "module.kernel-1.py311", "stamp")
        files._load_index = dict  # as read before another one wrote it
        files.save(key, f"code for {key}")
    files = _Files(str(folder), "module.kernel-1.py311", "stamp")
    return [files.load(key) for key in keys]


def test_two_processes_that_compile_for_different_arguments_do_not_swap_code(tmp_path):
    keys = [("int64", "cpu", "code"), ("float64", "cpu", "code"), ("int64", "another cpu", "code")]
    assert written_at_once(tmp_path, keys) == [f"code for {key}" for key in keys]


@pytest.mark.parametrize("changed", ["signature", "processor", "text"])
def test_code_for_something_else_is_not_found(tmp_path, changed):
    _Files(str(tmp_path), "module.kernel-1.py311", "stamp").save(("int64", "cpu", "code"), "code")
    files = _Files(str(tmp_path), "module.kernel-1.py311", "another" if changed == "text" else "stamp")
    key = {"signature": ("int32", "cpu", "code"), "processor": ("int64", "gpu", "code")}.get(changed)
    assert files.load(key or ("int64", "cpu", "code")) is None


def test_what_was_compiled_of_an_earlier_text_is_removed(tmp_path):
    key = ("int64", "cpu", "code")
    _Files(str(tmp_path), "module.kernel-1.py311", "stamp").save(key, "old")
    _Files(str(tmp_path), "module.kernel-2.py311", "stamp").save(key, "another kernel")
    later = _Files(str(tmp_path), "module.kernel-1.py311", "later")
    later.save(key, "new")
    later.save(("float64", "cpu", "code"), "new too")
    assert later.load(key) == "new"
    assert len(list(tmp_path.glob("module.kernel-1.py311.*.nbc"))) == 2
    assert _Files(str(tmp_path), "module.kernel-2.py311", "stamp").load(key) == "another kernel"


MODULES = {
    "called": """
from altneu.compiled import compiled

STEP = 3

@compiled()
def moved(x):
    return x + STEP
""",
    "calling": """
from altneu.compiled import compiled
from called import moved

TIMES = 2

@compiled()
def through(x):
    return TIMES * moved(x)
""",
}
PROGRAM = """
import sys, numba.core.event as event
import called, calling
for name, value in (pair.split("=") for pair in sys.argv[1:]):
    setattr(calling if name == "TIMES" else called, name, int(value))
with event.install_recorder("numba:compile") as recorder:
    print(calling.through(1), len(recorder.buffer) > 0)
"""


def made(folder, *constants):
    """What the outer function gives of 1, and whether anything was compiled for that."""
    source = Path(__file__).resolve().parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(source)])}
    command = [sys.executable, "-B", "-c", PROGRAM, *constants]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    value, compiles = done.stdout.split()
    return int(value), compiles == "True"


@pytest.mark.parametrize("imports", ["from called import moved", "import called"])
def test_code_is_found_only_where_constants_and_what_it_calls_are_the_same(tmp_path, imports):
    for name, text in MODULES.items():
        whole = (
            text.replace("moved(x)", "called.moved(x)") if name == "calling" and imports == "import called" else text
        )
        (tmp_path / f"{name}.py").write_text(whole.replace("from called import moved", imports))
    assert made(tmp_path) == (8, True)
    assert made(tmp_path) == (8, False)
    assert made(tmp_path, "TIMES=5") == (20, True)  # a constant that a test replaces
    assert made(tmp_path, "STEP=0") == (2, True)
    assert made(tmp_path) == (8, False)  # what was compiled before is still there
    assert made(tmp_path, "TIMES=5") == (20, False)
    (tmp_path / "called.py").write_text(MODULES["called"].replace("x + STEP", "x - STEP"))
    assert made(tmp_path) == (-4, True)  # the text of another module
    assert made(tmp_path) == (-4, False)
