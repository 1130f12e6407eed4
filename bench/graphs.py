"""Loops: algorithms on random graphs, loaded and then changed; against Spark's joins and one edge at a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import altneu as an
from altneu import algorithms
from bench.apart import apart
from bench.inputs import generator
from bench.measure import MIB, Steps, milliseconds
from bench.scale import Scale
from bench.tables import Aim, Findings, Table

NODES, EDGES = 100_000, 500_000
ROUNDS, REPLACED = 10, 100
K = 5
# Rust differential dataflow on such a machine, recorded: load and ten rounds of a hundred replacements, in seconds; how
# many times of that are aimed at.
RECORDED = {
    "bfs": (0.32, 0.03, 3.0, 10.0),
    "connected components": (4.0, 1.0, 1.0, 3.0),
    "k-core": (0.77, 0.01, 3.0, 10.0),
    "strongly connected components": (7.7, 2.5, 1.0, 3.0),
}
EDGE = an.source("edges", "src int, dst int")
ROOT = an.source("roots", "node int")
PLANS: dict[str, Callable[[], an.Collection]] = {
    "bfs": lambda: algorithms.bfs(EDGE, ROOT),
    "connected components": lambda: algorithms.connected_components(EDGE),
    "k-core": lambda: algorithms.k_core(EDGE, K),
    "strongly connected components": lambda: algorithms.strongly_connected_components(EDGE),
}


class _Graph:
    """A random graph of which edges are replaced, and the session that follows it."""

    def __init__(self, name: str, nodes: int, edges: int) -> None:
        self.rng, self.nodes = generator(f"graph {nodes} {edges}"), nodes
        self.ends = self.rng.integers(nodes, size=(2, edges)).astype(np.int32)
        self.session = an.Session()
        self.view = self.session.maintain("found", PLANS[name]())

    def load(self) -> float:
        """Seconds for the first computation."""
        if "roots" in self.session._engine.declared:
            self.session.insert("roots", [(0,)])
        self.session.insert("edges", _edges(self.ends))
        started = time.perf_counter()
        self.session.advance()
        return time.perf_counter() - started

    def replace(self, many: int) -> float:
        """Seconds for the step in which so many edges give way to others."""
        at = self.rng.choice(self.ends.shape[1], size=many, replace=False)
        self.session.retract("edges", _edges(self.ends[:, at]))
        self.ends[:, at] = self.rng.integers(self.nodes, size=(2, many))
        self.session.insert("edges", _edges(self.ends[:, at]))
        started = time.perf_counter()
        self.session.advance()
        return time.perf_counter() - started


def _edges(ends: np.ndarray[Any, Any]) -> pa.Table:
    return pa.table({"src": pa.array(ends[0]), "dst": pa.array(ends[1])})


def followed(name: str, nodes: int, edges: int) -> Any:
    """An algorithm on a graph that is loaded and then changed, ready to run."""
    warm = _Graph(name, 100, 400)
    warm.load()
    warm.replace(10)
    graph = _Graph(name, nodes, edges)

    def run() -> dict[str, float]:
        load = graph.load()
        rounds = [graph.replace(REPLACED) for _ in range(ROUNDS)]
        return {"load": load, "changes": sum(rounds), "rows": graph.view.to_arrow().num_rows}

    return run


def algorithms_on_a_graph(findings: Findings, nodes: int, edges: int, *, judged: bool) -> None:
    """Every algorithm, loaded and changed."""
    shown = Table(
        f"g. a random graph of {nodes:,} nodes and {edges:,} edges, then {ROUNDS} rounds of {REPLACED} replacements",
        ["", "load, s", "ten rounds, s", "added MiB", "rows", "recorded load", "recorded rounds"],
    )
    for name, (load, changes, load_limit, changes_limit) in RECORDED.items():
        result = apart(followed, name, nodes, edges)
        answer = result.result
        shown.add(
            name,
            f"{answer['load']:.2f}",
            f"{answer['changes']:.2f}",
            f"{result.added / MIB:,.0f}",
            f"{answer['rows']:,.0f}",
            load,
            changes,
        )
        for what, limit, reference in (("load", load_limit, load), ("changes", changes_limit, changes)):
            ratio = answer[what] / reference
            aim = Aim(
                f"g: {name}, {what} within {limit:g}x of differential dataflow (recorded)",
                f"{ratio:.2f}x",
                ratio / limit if judged else None,
            )
            findings.aims.append(aim)
    shown.notes.append("Recorded: differential dataflow in Rust, measured earlier on a machine of this kind.")
    findings.tables.append(shown)


# one edge at a time, and Spark's joins --------------------------------------------------------------------------------


def one_by_one(nodes: int, edges: int, steps: int) -> Any:
    """Distances on a large graph of which one edge at a time is replaced, ready to run."""
    graph = _Graph("bfs", nodes, edges)

    def run() -> dict[str, Any]:
        load = graph.load()
        taken = Steps()
        for _ in range(steps):
            at = graph.rng.integers(edges, size=1)
            graph.session.retract("edges", _edges(graph.ends[:, at]))
            graph.ends[:, at] = graph.rng.integers(nodes, size=(2, 1))
            graph.session.insert("edges", _edges(graph.ends[:, at]))
            taken.run(graph.session.advance)
        return {"load": load, "wall": taken.wall, "total": int(sum(d for _, d in graph.view.to_pylist()))}

    return run


def on_spark(nodes: int, edges: int) -> Any:
    """The same distances from scratch by joins of DataFrames, round by round, ready to run."""
    ends = generator(f"graph {nodes} {edges}").integers(nodes, size=(2, edges)).astype(np.int32)
    spark = an.spark_session("local[2]")
    arcs = spark.createDataFrame(_edges(ends)).cache()
    arcs.count()

    def run() -> dict[str, float]:
        result = spark.createDataFrame([(0, 0)], "node int, dist int").cache()
        frontier, count, distance = result, result.count(), 0
        while count:
            distance += 1
            met = frontier.join(arcs, frontier.node == arcs.src).selectExpr("dst as node", f"{distance} as dist")
            frontier = met.distinct().join(result, "node", "left_anti").localCheckpoint()
            result = result.unionByName(frontier).localCheckpoint()
            count = frontier.count()
        return {"rows": result.count(), "rounds": distance}

    return run


def large_graph(findings: Findings, nodes: int, edges: int, steps: int) -> None:
    """Distances on a large graph: from scratch, and one edge at a time; components from scratch, for Pathway's sake."""
    ours, theirs = apart(one_by_one, nodes, edges, steps), apart(on_spark, nodes, edges)
    wall = ours.result["wall"]
    shown = Table(
        f"g. distances on a random graph of {nodes:,} nodes and {edges:,} edges",
        ["", "from scratch, s", "one edge: p50, ms", "p99, ms", "added MiB"],
    )
    shown.add(
        "altneu",
        f"{ours.result['load']:.2f}",
        f"{milliseconds(wall, 50):.2f}",
        f"{milliseconds(wall, 99):.2f}",
        f"{ours.added / MIB:,.0f}",
    )
    shown.add("Spark, joins of DataFrames", f"{theirs.seconds:.2f}", "", "", f"{theirs.added / MIB:,.0f} (Python's)")
    shown.notes.append(f"{steps:,} one-edge replacements, each a step of its own.")
    findings.tables.append(shown)
    components = apart(followed, "connected components", nodes, edges)
    shown.add(
        "altneu, connected components", f"{components.result['load']:.2f}", "", "", f"{components.added / MIB:,.0f}"
    )
    findings.figures |= {"g bfs": ours.result["load"], "g components": components.result["load"]}
    ratio = theirs.seconds / ours.result["load"]
    median = milliseconds(wall, 50)
    findings.aims += [
        Aim("g: distances from scratch, against Spark's joins", f"{ratio:.1f}x faster", 1 / ratio),
        Aim("g: a one-edge change under 3 ms (p50)", f"{median:.2f} ms", median / 3),
    ]


def measure(scale: Scale) -> Findings:
    """All of it."""
    findings, full = Findings(), scale.name == "full"
    size = 1 if full else 10
    algorithms_on_a_graph(findings, NODES // size, EDGES // size, judged=full)
    large_graph(findings, *large(scale), 500 if full else 100)
    return findings


def large(scale: Scale) -> tuple[int, int]:
    """Nodes and edges of the large graph."""
    edges = 1_000_000 if scale.name == "full" else 100_000
    return edges // 5, edges
