"""Pathway on cases a, b, c, g, j and q, in an environment of its own: its dependencies and altneu's need not agree."""

from __future__ import annotations

import json
import subprocess
import venv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench import one_group
from bench.graphs import large
from bench.inputs import FOLDER, grouped, side
from bench.measure import MIB
from bench.scale import Scale
from bench.streams import dimension, stream
from bench.tables import Findings, Table
from bench.triangles import graph_of, random_edges

ONE_GROUP_STEPS = 50  # rows that come, and go again
SIDE = Path(__file__).with_name("pathway_side.py")


class PathwayError(Exception):
    """Pathway could not be installed, or failed; the message has the last of what was said."""


def environment() -> Path:
    """The Python of an environment that has Pathway; made when there is none.

    Raises:
        PathwayError: pip could not install it.
    """
    folder = FOLDER / "pathway"
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        print("Pathway: making an environment for it")
        venv.create(folder, with_pip=True, clear=True)
        _checked([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pathway"])
        (folder / "installed").touch()
    return python


def _checked(command: list[str]) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise PathwayError(said[-1] if said else f"exit code {done.returncode}")
    return done.stdout


def measure(cases: Iterable[str], scale: Scale, ours: Mapping[str, float]) -> Findings:
    """Pathway's figures, each beside altneu's in memory of the same run (``ours``) where that was measured."""
    wanted = [c for c in cases if c in ("a", "b1", "b10", "c", "g", "j", "q")]
    if not wanted:
        return Findings()
    try:
        side = Side(environment(), ours)
    except PathwayError as error:
        return Findings([Table("Pathway", ["case"], notes=[f"It could not be installed: {error}"])])
    table = Table(
        f"Pathway {side.version}, beside altneu's local session in memory",
        ["what", "Pathway", "altneu", "altneu / Pathway", "Pathway's peak MiB"],
        notes=[
            "Pathway's changes are rows that come and go again, since its static inputs cannot shrink.",
            "In c it takes rows from a Python connector, a commit a batch, and does not wait for answers in between.",
            "In g its random graph is another one of the same size.",
        ],
    )
    for case in wanted:
        print(f"{case}. Pathway")
        try:
            if case == "q":
                side.one_group(table)
                continue
            runs = {"c": side.streams, "g": side.loops}
            table.rows += runs[case](scale) if case in runs else side.first(case, scale)
        except PathwayError as error:
            table.notes.append(f"{case}: Pathway failed: {error}")
    return Findings([table])


class Side:
    """Runs measurements in Pathway's environment and makes lines of the table of them."""

    def __init__(self, python: Path, ours: Mapping[str, float]) -> None:
        self.python, self.ours = python, ours
        code = "import importlib.metadata as m; print(m.version('pathway'))"
        self.version = _checked([str(python), "-c", code]).strip()

    def run(self, **job: Any) -> dict[str, Any]:
        """One measurement, in a process of its own."""
        files = {name: str(path.absolute()) for name, path in job["files"].items()}
        said = _checked([str(self.python), str(SIDE), json.dumps(job | {"files": files})])
        result: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
        return result

    def first(self, case: str, scale: Scale) -> list[list[str]]:
        """Cases a, b and j."""
        if case == "j":
            nodes, edges = graph_of(scale)
            return self._first(case, "triangles", {"edges": random_edges(nodes, edges)}, nodes, scale)
        matches = 0 if case == "a" else int(case[1:])
        if matches:
            query, keys = "join", scale.join_rows // matches
            files = {s: side(s, scale.join_rows, matches) for s in "ab"}
        else:
            query, keys = "groups", scale.groups
            files = {"events": grouped(scale.group_rows, scale.groups)}
        return self._first(case, query, files, keys, scale)

    def _first(self, case: str, query: str, files: dict[str, Path], keys: int, scale: Scale) -> list[list[str]]:
        whole = self.run(mode="first", query=query, files=files)
        steps = self.run(mode="changes", query=query, files=files, keys=keys, changes=scale.changes)
        one, once = float(np.median(steps["one_by_one"])), float(np.median(steps["at_once"]))
        return [
            self._seconds(f"{case}: first computation, s", whole["seconds"], f"{case} first", 1, whole["peak"]),
            self._seconds(f"{case}: one-row step p50, ms", one, f"{case} one", 1e3, steps["peak"]),
            self._seconds(f"{case}: {scale.changes:,} rows in one step, ms", once, f"{case} once", 1e3, steps["peak"]),
        ]

    def _seconds(self, what: str, theirs: float, name: str, unit: float, peak: int) -> list[str]:
        mine = self.ours.get(name)
        known = ["-", "-"] if mine is None else [f"{mine * unit:.2f}", f"{mine / theirs:.2f}"]
        return [what, f"{theirs * unit:.2f}", *known, f"{peak / MIB:,.0f}"]

    def loops(self, scale: Scale) -> list[list[str]]:
        """Case g: on the large graph, from scratch."""
        nodes, edges = large(scale)
        rows = []
        for query in ("bfs", "components"):
            result = self.run(mode="first", query=query, files={"edges": random_edges(nodes, edges)})
            what = f"g: {query}, {edges:,} edges, s"
            rows.append(self._seconds(what, result["seconds"], f"g {query}", 1, result["peak"]))
        return rows

    def one_group(self, table: Table) -> None:
        """Case q: one-row steps on one group, for the queries that Pathway can express; each may fail for itself."""
        size = one_group.SIZES[-1]
        files = one_group.files(size)
        ranges = [1, size, one_group.VALUES, size]
        for operator in (operator for operator in one_group.OPERATORS if operator.pathway):
            name = f"q: {operator.name}, {size:,} rows in one group, one-row step p50, ms"
            try:
                steps = self.run(
                    mode="steps", query=operator.pathway, files=files, ranges=ranges, changes=2 * ONE_GROUP_STEPS
                )
            except PathwayError as error:
                table.notes.append(f"q: {operator.name}: Pathway failed: {error}")
                continue
            one = float(np.median(steps["one_by_one"]))
            table.rows.append(self._seconds(name, one, f"q {operator.name}", 1e3, steps["peak"]))
        table.notes.append(
            "In q, Pathway sorts the whole group for the top 10, as it has no reducer of the first rows. It has none "
            "of percentiles either, so the median is left out."
        )

    def streams(self, scale: Scale) -> list[list[str]]:
        """Case c."""
        longest = max(count for _, count in scale.streams)
        rows = []
        for query, ours, keys in (("count", "count", scale.stream_groups), ("lookup", "join", scale.stream_dimension)):
            files = {"updates": stream(longest, keys), "dimension": dimension(scale.stream_dimension)}
            for batch, count in scale.streams:
                result = self.run(mode="stream", query=query, files=files, batch=batch, updates=count)
                rate = count / result["seconds"]
                mine = self.ours.get(f"c {ours} {batch}")
                known = ["-", "-"] if mine is None else [f"{mine:,.0f}", f"{rate / mine:.2f}"]
                what = f"c: filter + {ours}, batches of {batch:,}, updates/s"
                rows.append([what, f"{rate:,.0f}", *known, f"{result['peak'] / MIB:,.0f}"])
        return rows
