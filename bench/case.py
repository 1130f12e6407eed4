"""One case in a process of its own, so that no case sees the memory or the warm caches of another."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from bench import (
    asof,
    between_tables,
    durable,
    first,
    following,
    graphs,
    histories,
    linear,
    one_group,
    parsing,
    relations,
    rounds,
    steps,
    streams,
    times,
    triangles,
    weights,
    workloads,
)
from bench.nexmark import measure as nexmark
from bench.scale import SCALES, Scale
from bench.tables import Findings
from bench.tpch import bulk, crossing
from bench.tpch import measure as tpch

CASES: dict[str, Callable[[Scale], Findings]] = {
    "a": lambda scale: first.measure(workloads.groups(scale), scale),
    "b1": lambda scale: first.measure(workloads.joined(scale, 1), scale),
    "b10": lambda scale: first.measure(workloads.joined(scale, 10), scale),
    "c": streams.measure,
    "d": steps.measure,
    "e": linear.measure,
    "f": times.measure,
    "g": graphs.measure,
    "h": histories.measure,
    "i": asof.measure,
    "j": triangles.measure,
    "k": following.measure,
    "l": durable.measure,
    "m": tpch.measure,
    "n": nexmark.measure,
    "o": rounds.measure,
    "p": parsing.measure,
    "q": one_group.measure,
    "r": relations.measure,
    "s": weights.measure,
    "t": bulk.measure,
    "u": between_tables.measure,
    "v": crossing.measure,
}


def main(name: str, scale: str, out: str) -> None:
    """Run a case and write what it found as JSON."""
    result = CASES[name](SCALES[scale])
    Path(out).write_text(json.dumps(result.to_json()))


if __name__ == "__main__":
    main(*sys.argv[1:])
