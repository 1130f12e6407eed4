"""A session that computes views anew, to be killed anywhere: see ``tests.fate``."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import altneu as an
from tests.fate import forks

LEFT = an.source("left", "k long, v long")
RIGHT = an.source("right", "k long, w long")
JOINED = LEFT.join(RIGHT, on="k").group_by("w").agg(n="count(*)", most="max(v)")
STEPS = 5


def rows_at(step: int) -> list[tuple[int, int]]:
    return [(i % 50, i * step % 97) for i in range(1_000)]


def run(folder: Path) -> None:
    """Replace most of the rows in each step that is not taken yet."""
    with an.Session(path=folder / "state", shards=2) as session:
        view = session.maintain("v", JOINED, refresh="full")
        while session.lower < STEPS:
            at = session.lower
            check(view, at)
            if at:
                session.retract("left", rows_at(at - 1)[: 1_000 - at])
            session.insert("left", rows_at(at)[: 1_000 - at])
            session.insert("right", [(k, k % 5 + at) for k in range(50)])
            assert session.advance().recomputed == ("v",)
        check(view, session.lower)


def check(view: Any, steps: int) -> None:
    assert Counter(view.to_pylist()) == expected(steps)


def expected(steps: int) -> Counter[Any]:
    """What the view shows after so many steps."""
    left = Counter[tuple[int, int]]()
    for at in range(steps):
        if at:
            left.subtract(rows_at(at - 1)[: 1_000 - at])
        left.update(rows_at(at)[: 1_000 - at])
    groups: dict[int, list[tuple[int, int]]] = {}
    for at in range(steps):
        for (k, v), count in left.items():
            if count:
                groups.setdefault(k % 5 + at, []).append((v, count))
    return Counter({(w, sum(n for _, n in rows), max(v for v, _ in rows)): 1 for w, rows in groups.items()})


def shown(folder: Path) -> list[Any]:
    with an.read(folder / "state") as reader:
        return sorted(reader.view("v").to_pylist())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder))  # kernels are loaded once, and not by each run
    forks(run)
