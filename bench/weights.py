"""Weights beside what they replace: a greatest value and a count, a tuple of sums and three, min-plus and distinct."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import altneu as an
from altneu import Collection
from altneu.collections.weights import Weighted
from bench.apart import apart
from bench.inputs import generator
from bench.measure import MIB, Steps, milliseconds
from bench.scale import Scale
from bench.tables import Aim, Findings, Table

W = an.weights
GROUPS, STEPS, PARTS = 1_000, 200, 20
LAYERS, DEGREE, LONGEST = 10, 5, 9


class Whole(W.Weight):
    """The whole numbers as a group of a user's own."""

    layout, zero = "bigint", 0

    def add(self, a: int, b: int) -> int:
        """Their sum."""
        return a + b

    def negate(self, a: int) -> int:
        """The negative."""
        return -a


Make = Callable[[Collection], dict[str, Collection]]
ROWS: dict[str, tuple[str, bool, Make]] = {
    "count": ("count", True, lambda t: {"n": t.group_by("g").agg(n="count(*)")}),
    "max": ("Max, rows are only added", True, lambda t: {"m": t.weighted(W.Max("v")).consolidate()}),
    "max of all": ("Max, rows may go", False, lambda t: {"m": t.weighted(W.Max("v")).consolidate()}),
    "tuple": (
        "one tuple: Sums of three",
        False,
        lambda t: {"all": t.select("g", n="1", s="v", q="v * v").weighted(W.Sums("n", "s", "q")).consolidate()},
    ),
    "three": (
        "three: Sums of one each",
        False,
        lambda t: {
            name: t.select("g", **{name: text}).weighted(W.Sums(name)).consolidate()
            for name, text in (("n", "1"), ("s", "v"), ("q", "v * v"))
        },
    ),
    "own": ("a group of one's own", False, lambda t: {"s": t.weighted(Whole("v")).consolidate()}),
    "own sum": ("Sums of the same", False, lambda t: {"s": t.weighted(W.Sums("v")).consolidate()}),
    "agg": (
        "group_by and agg",
        False,
        lambda t: {"all": t.group_by("g").agg(n="count(*)", s="sum(v)", q="sum(v * v)")},
    ),
}
"""What a contender is called, whether its source is append-only, and its views over groups of numbers."""


def _kept(session: an.Session) -> int:
    """Updates in all states, the contents of views among them."""
    table = session._engine.table
    return sum(table.rows(name) for name in table.sizes())


def grouped(name: str, rows: int) -> Any:
    """Rows in many groups, loaded in steps, and then one-row steps, ready to run."""
    _, append_only, make = ROWS[name]
    rng = generator(f"weights {rows}")
    table = pa.table({"g": rng.integers(GROUPS, size=rows), "v": rng.integers(1_000_000, size=rows)})
    session = an.Session()
    for view, plan in make(an.source("t", "g long, v long", append_only=append_only)).items():
        session.maintain(view, plan)
    session.insert("t", table.slice(0, 10))
    session.advance()  # kernels are loaded

    def run() -> dict[str, Any]:
        started, work = time.perf_counter(), time.process_time()
        for part in range(PARTS):
            size = (rows - 10) // PARTS
            session.insert("t", table.slice(10 + part * size, size))
            session.advance()
        load, cpu = time.perf_counter() - started, time.process_time() - work
        steps = Steps()
        for _ in range(STEPS):
            session.insert("t", [(int(rng.integers(GROUPS)), int(rng.integers(1_000_000)))])
            steps.run(session.advance)
        return {"load": load, "cpu": cpu, "kept": _kept(session), "wall": steps.wall}

    return run


def of_groups(findings: Findings, title: str, names: list[str], sizes: list[int]) -> dict[tuple[str, int], Any]:
    """A line for each contender and size."""
    shown = Table(title, ["", "rows", "load, CPU s", "updates kept", "a one-row step: p50, ms", "p99", "added MiB"])
    found = {}
    for name in names:
        for rows in sizes:
            one = apart(grouped, name, rows)
            found[name, rows] = result = one.result
            p50, p99 = (milliseconds(result["wall"], p) for p in (50, 99))
            shown.add(
                ROWS[name][0],
                f"{rows:,}",
                f"{result['cpu']:.1f}",
                f"{result['kept']:,}",
                f"{p50:.2f}",
                f"{p99:.2f}",
                f"{one.added / MIB:,.0f}",
            )
    findings.tables.append(shown)
    return found


# shortest paths -------------------------------------------------------------------------------------------------------


def by_weights(edges: Collection, start: Collection) -> Weighted:
    """The least length of a way to each node, as its weight."""
    weight = W.Min("length", multiply="+")
    roads, first = edges.weighted(weight), start.weighted(weight)

    def further(known: Weighted) -> Weighted:
        return known.join(roads, on={"node": "src"}).select(node="dst").concat(first)

    return first.iterate(further)


def by_distinct(edges: Collection, start: Collection) -> Collection:
    """All lengths of ways to each node, each once, and then the least."""

    def further(known: Collection) -> Collection:
        near = known.join(edges, on={"node": "src"}).select(node="dst", length="length + `right.length`")
        return near.concat(start).distinct()

    return start.iterate(further).group_by("node").agg(length="min(length)")


PATHS: dict[str, tuple[str, bool, Callable[[Collection, Collection], Collection]]] = {
    "weights, added": ("min-plus, edges are only added", True, lambda e, s: by_weights(e, s).consolidate()),
    "weights": ("min-plus", False, lambda e, s: by_weights(e, s).consolidate()),
    "distinct": ("distinct lengths, then min", False, by_distinct),
}


def paths(name: str, width: int) -> Any:
    """A graph of layers with so many nodes each, loaded, and edges added one by one, ready to run."""
    _, append_only, make = PATHS[name]
    rng = generator(f"paths {width}")
    count = width * DEGREE * (LAYERS - 1)

    def some(many: int) -> dict[str, Any]:
        layer = rng.integers(LAYERS - 1, size=many)
        ends = (layer * width + rng.integers(width, size=many), (layer + 1) * width + rng.integers(width, size=many))
        return {"src": ends[0], "dst": ends[1], "length": rng.integers(1, LONGEST + 1, size=many)}

    table, more = pa.table(some(count)), pa.table(some(STEPS))
    session = an.Session()
    edges = an.source("edges", "src long, dst long, length long", append_only=append_only)
    start = an.source("start", "node long, length long", append_only=append_only)
    view = session.maintain("lengths", make(edges, start))
    session.insert("edges", [(0, width, LONGEST), (width, 2 * width, LONGEST)])
    session.insert("start", [(i, 0) for i in range(max(width // 100, 1))])
    session.advance()  # kernels are loaded

    def run() -> dict[str, Any]:
        session.insert("edges", table)
        started, work = time.perf_counter(), time.process_time()
        session.advance()
        load, cpu = time.perf_counter() - started, time.process_time() - work
        retained, steps = _kept(session), Steps()
        for i in range(STEPS):
            session.insert("edges", more.slice(i, 1))
            steps.run(session.advance)
        found = sorted(view.to_pylist())
        answer = f"{len(found)} {sum(length for _, length in found)}"
        return {"load": load, "cpu": cpu, "kept": retained, "wall": steps.wall, "found": answer}

    return run


def of_paths(findings: Findings, width: int) -> None:
    """Min-plus against distinct."""
    edges = width * DEGREE * (LAYERS - 1)
    shown = Table(
        f"s. shortest paths in a graph of {width * LAYERS:,} nodes and {edges:,} edges",
        ["", "load, s", "CPU, s", "updates kept", "an edge added: p50, ms", "p99", "added MiB"],
    )
    runs = {name: apart(paths, name, width) for name in PATHS}
    for name, one in runs.items():
        p50, p99 = (milliseconds(one.result["wall"], p) for p in (50, 99))
        result = one.result
        shown.add(
            PATHS[name][0],
            f"{result['load']:.1f}",
            f"{result['cpu']:.1f}",
            f"{result['kept']:,}",
            f"{p50:.1f}",
            f"{p99:.1f}",
            f"{one.added / MIB:,.0f}",
        )
    same = len({one.result["found"] for one in runs.values()}) == 1
    shown.notes.append(f"The answers are {'the same' if same else 'NOT the same'}.")
    findings.tables.append(shown)
    less = runs["distinct"].result["kept"] / runs["weights"].result["kept"]
    findings.aims.append(Aim("s: min-plus keeps less than distinct", f"{less:.1f}x less", 1 / less))


def measure(scale: Scale) -> Findings:
    """All of it."""
    findings, many = Findings(), 10_000_000 if scale.name == "full" else 100_000
    sizes = [many // 100, many]
    title = f"s. the greatest of {GROUPS:,} groups, of rows that only grow, beside their count"
    grow = of_groups(findings, title, ["count", "max", "max of all"], sizes)
    few, all_ = (grow["max", rows]["kept"] for rows in sizes)
    findings.aims += [
        Aim("s: Max of rows that grow keeps no more of 100x as many", f"{all_ / few:.2f}x", all_ / few / 2),
        Aim(
            "s: its one-row step costs at most 3x a count's",
            f"{_p50(grow['max', many]) / _p50(grow['count', many]):.2f}x",
            _p50(grow["max", many]) / _p50(grow["count", many]) / 3,
        ),
    ]
    title = f"s. count, sum and sum of squares of {GROUPS:,} groups"
    sums = of_groups(findings, title, ["tuple", "three", "agg"], [many])
    gain = sums["three", many]["cpu"] / sums["tuple", many]["cpu"]
    findings.aims.append(Aim("s: one tuple of sums loads faster than three", f"{gain:.2f}x", 1 / gain))
    title = f"s. sums of {GROUPS:,} groups, by a Python class and by the engine"
    own = of_groups(findings, title, ["own", "own sum"], [many // 1_000, many // 10])
    few, all_ = (own["own", rows]["kept"] for rows in (many // 1_000, many // 10))
    findings.aims.append(
        Aim("s: a group of one's own keeps no more of 100x as many", f"{all_ / few:.2f}x", all_ / few / 2)
    )
    of_paths(findings, 2_000 if scale.name == "full" else 400)
    return findings


def _p50(result: dict[str, Any]) -> float:
    return float(milliseconds(result["wall"], 50))
