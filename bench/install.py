"""``python -m bench.install WHEEL``: what a fresh installation of a wheel costs until its first steps are there.

The wheel (``make wheel``) is installed twice, into environments of their own: as it is, and without the compiled code
that it carries. In each a program runs twice, with a home folder that is new: once with nothing cached, and once more.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

from altneu.compiled import SHIPPED

PROGRAM = """
import json, time
start = time.perf_counter()
import altneu as an
from numba.core import event
with event.install_recorder("numba:compile") as recorder:
    marks = [time.perf_counter()]
    t, u = an.source("t", "k long, v long, s string", keep=True), an.source("u", "k long, w long")
    with an.Session() as session:
        session.maintain("sums", t.filter("v % 2 = 0").group_by("k").agg("count(*) AS n", "sum(v) AS total"))
        session.insert("t", [(i % 10, i, str(i)) for i in range(1000)])
        session.advance()
        marks.append(time.perf_counter())
        session.maintain("joined", t.join(u, on="k"))
        session.maintain("ends", t.group_by("k").agg("max(v) AS m", "count(DISTINCT s) AS d"))
        session.maintain("top", t.top_k(3, "v desc", per="k"))
        session.maintain("before", t.window(r="lag(v) OVER (PARTITION BY k ORDER BY v)"))
        session.insert("u", [(i, i) for i in range(10)])
        session.insert("t", [(1, 2, "x")])
        session.advance()
        graph = an.source("edges", "src int, dst int"), an.source("roots", "node int")
        session.maintain("bfs", an.algorithms.bfs(*graph))
        session.insert("edges", [(i, i + 1) for i in range(50)])
        session.insert("roots", [(0,)])
        session.advance()
        marks.append(time.perf_counter())
print(json.dumps([*(b - a for a, b in zip([start, *marks], marks)), len(recorder.buffer) // 2]))
"""
TITLES = ("import altneu, s", "first step, s", "five more views, s", "kernels compiled")


def main(wheel: Path) -> None:
    """Install, run, and print a table."""
    print(f"| | installing, s | {' | '.join(TITLES)} |")
    print("| --- " * (len(TITLES) + 2) + "|")
    for name, shipped in (("with the wheel's kernels", True), ("without", False)):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            python = installed(wheel, Path(folder), shipped=shipped)
            took = time.perf_counter() - start
            for run, again in ((f"{name}, first run", f"{took:.1f}"), (f"{name}, second run", "")):
                figures = ran(python, Path(folder) / "home")
                print(f"| {run} | {again} | {' | '.join(f'{value:.2f}' for value in figures[:-1])} | {figures[-1]} |")


def installed(wheel: Path, folder: Path, *, shipped: bool) -> Path:
    """The Python of a new environment with the wheel, with the compiled code that it carries or without."""
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel]
    subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
    if not shipped:
        for place in list(folder.glob(f"env/lib/*/site-packages/altneu/**/{SHIPPED}")):
            shutil.rmtree(place)
    return python


def ran(python: Path, home: Path) -> list[float]:
    """What the program measures."""
    home.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTHON", "XDG_"))}
    settings = {**kept, "HOME": str(home)}
    run = [python, "-c", PROGRAM]
    done = subprocess.run(run, check=True, text=True, stdout=subprocess.PIPE, cwd=home, env=settings)
    return json.loads(done.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
