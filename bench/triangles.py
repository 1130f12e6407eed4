"""Cyclic joins: triangles of random and real graphs, of hubs, and what several such views keep of one graph."""

from __future__ import annotations

import gzip
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import altneu as an
from bench.apart import apart
from bench.inputs import Columns, parquet
from bench.measure import MIB, Steps, milliseconds
from bench.scale import Scale
from bench.tables import Aim, Findings, Table

NODES, EDGES = 100_000, 1_000_000
HUB = 45_000
# Others on such a machine, recorded: seconds for the first computation of the triangles of such a graph.
RECORDED = {"Spark": 17, "Pathway": 23, "d2ts": 143}
FACEBOOK, FACEBOOK_TRIANGLES = "graphs/ego-facebook.txt.gz", 1_612_010
EDGE = an.source("edges", "src long, dst long")


def wedges(edges: an.Collection) -> an.Collection:
    """Pairs of edges, head to tail."""
    return edges.join(edges, on={"dst": "src"}).select(a="src", b="dst", c="`right.dst`")


def triangles(edges: an.Collection) -> an.Collection:
    """Triples with an edge from the first to the second, from that to the third, and from the first to the third."""
    return wedges(edges).join(edges, on={"a": "src", "c": "dst"}).select("a", "b", "c")


def counted(triangles: an.Collection) -> an.Collection:
    """How many."""
    return triangles.group_by().agg(n="count(*)")


def random_edges(nodes: int, edges: int) -> Path:
    """A random graph as Parquet files."""

    def make(rng: np.random.Generator) -> Columns:
        return {"src": rng.integers(0, nodes, edges), "dst": rng.integers(0, nodes, edges)}

    return parquet(f"edges-{nodes}-{edges}", make)


def graph_of(scale: Scale) -> tuple[int, int]:
    """Nodes and edges of the random graph."""
    size = 1 if scale.name == "full" else 10
    return NODES // size, EDGES // size


def _some(nodes: int, count: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng([nodes, count]).integers(0, nodes, (count, 2))


def _table(pairs: np.ndarray[Any, Any]) -> pa.Table:
    return pa.table({"src": np.ascontiguousarray(pairs[:, 0]), "dst": np.ascontiguousarray(pairs[:, 1])})


def _warm(session: an.Session) -> None:
    """Kernels are loaded, and nothing is left of it."""
    for sign in (1, -1):
        session.insert("edges", [(1, 2), (2, 3), (1, 3)], diff=sign)
        session.advance()


def followed(nodes: int, edges: int, changes: int, joins: Any) -> Any:
    """The triangles of a random graph, loaded and changed edge by edge and then at once, ready to run."""
    table = pq.read_table(random_edges(nodes, edges))
    session = an.Session()
    view = session.maintain("n", counted(triangles(EDGE)), joins=joins)
    _warm(session)

    def run() -> dict[str, Any]:
        session.insert("edges", table)
        started = time.perf_counter()
        session.advance()
        load = time.perf_counter() - started
        result = view.to_pylist()[0][0]
        taken = Steps()
        for src, dst in _some(nodes, changes).tolist():
            session.insert("edges", [(src, dst)])
            taken.run(session.advance)
        session.insert("edges", _table(_some(nodes + 1, changes) % nodes))
        started = time.perf_counter()
        step = session.advance()
        once = time.perf_counter() - started
        return {"load": load, "found": result, "wall": taken.wall, "once": once, "kept": step.state_rows}

    return run


def on_spark(nodes: int, edges: int) -> Any:
    """The same from scratch by joins of DataFrames, ready to run."""
    spark = an.spark_session("local[2]")
    arcs = spark.read.parquet(str(random_edges(nodes, edges))).cache()
    arcs.count()

    def run() -> dict[str, int]:
        one, two, three = (arcs.selectExpr(f"src as {a}", f"dst as {b}") for a, b in ("ab", "bc", "ac"))
        result = one.join(two, "b").join(three, ["a", "c"])
        return {"found": result.count()}

    return run


def of_a_random_graph(findings: Findings, nodes: int, edges: int, changes: int, *, judged: bool) -> None:
    """Load, changes one by one and at once: against Spark and against binary joins here."""
    ours, theirs = apart(followed, nodes, edges, changes, "delta"), apart(on_spark, nodes, edges)
    trees = apart(followed, nodes, edges, changes, "binary")
    shown = Table(
        f"j. triangles of a random graph of {nodes:,} nodes and {edges:,} edges",
        [
            "",
            "from scratch, s",
            "one edge: p50, ms",
            "p99, ms",
            f"{changes:,} in one step, ms",
            "kept updates",
            "added MiB",
        ],
    )
    for name, result in (("altneu, delta join", ours), ("altneu, binary joins", trees)):
        answer = result.result
        wall = [milliseconds(answer["wall"], p) for p in (50, 99)]
        shown.add(
            name,
            f"{answer['load']:.2f}",
            *(f"{w:.2f}" for w in wall),
            f"{answer['once'] * 1e3:.1f}",
            f"{answer['kept']:,}",
            f"{result.added / MIB:,.0f}",
        )
    added = f"{theirs.added / MIB:,.0f} (Python's)"
    shown.add("Spark, joins of DataFrames", f"{theirs.seconds:.2f}", "", "", "", "", added)
    same = ours.result["found"] == theirs.result["found"] == trees.result["found"]
    shown.notes.append(
        f"{ours.result['found']:,} triangles, {'the same' if same else 'NOT the same'} from all three systems."
    )
    shown.notes.append(
        ", ".join(f"{n} {s} s" for n, s in RECORDED.items()) + ": first computation, measured elsewhere."
    )
    findings.tables.append(shown)
    load, median = ours.result["load"], milliseconds(ours.result["wall"], 50)
    findings.figures["j first"], findings.figures["j one"] = load, median / 1e3
    findings.figures["j once"] = ours.result["once"]
    findings.aims += [
        Aim("j: triangles from scratch, against Spark", f"{theirs.seconds / load:.1f}x faster", load / theirs.seconds),
        Aim("j: in under 6 s", f"{load:.2f} s", load / 6 if judged else None),
        Aim("j: with less than 512 MiB added", f"{ours.added / MIB:,.0f}", ours.added / MIB / 512 if judged else None),
        Aim("j: a one-edge change under 1 ms (p50)", f"{median:.2f} ms", median),
    ]


# real graphs, hubs, several views -------------------------------------------------------------------------------------


def of_a_table(kind: str, size: int) -> Any:
    """The triangles of a real graph, or of one with a hub, loaded in one step, ready to run."""
    table = _facebook() if kind == "facebook" else _hub(size)
    session = an.Session()
    view = session.maintain("n", counted(triangles(EDGE)))
    _warm(session)

    def run() -> dict[str, Any]:
        session.insert("edges", table)
        step = session.advance()
        return {"found": view.to_pylist()[0][0], "kept": step.state_rows, "edges": table.num_rows}

    return run


def data_folder() -> Path:
    """Where the real graphs are."""
    return Path(os.environ.get("ALTNEU_DATA", "data"))


def _facebook() -> pa.Table:
    lines = gzip.decompress((data_folder() / FACEBOOK).read_bytes()).decode().split()
    pairs = np.array(lines, np.int64).reshape(-1, 2)
    return _table(np.sort(pairs, axis=1))


def _hub(size: int) -> pa.Table:
    """A node with edges to all others, and as many edges between these."""
    rng = np.random.default_rng(size)
    spokes = np.stack([np.zeros(size, np.int64), np.arange(1, size + 1)], axis=1)
    return _table(np.concatenate([spokes, np.sort(rng.integers(1, size + 1, (size, 2)), axis=1)]))


def of_others(findings: Findings, hub: int) -> None:
    """Real graphs and hubs, in one step."""
    shown = Table(
        "j. triangles, all edges in one step", ["graph", "edges", "triangles", "s", "kept updates", "added MiB"]
    )
    cases = [("hub", size) for size in (hub // 4, hub // 2, hub)]
    if (data_folder() / FACEBOOK).exists():
        cases.insert(0, ("facebook", 0))
    for kind, size in cases:
        result = apart(of_a_table, kind, size)
        answer = result.result
        name = "ego-Facebook" if kind == "facebook" else f"a hub of degree {size:,}"
        cells = (f"{answer['edges']:,}", f"{answer['found']:,}", f"{result.seconds:.2f}", f"{answer['kept']:,}")
        shown.add(name, *cells, f"{result.added / MIB:,.0f}")
        if kind == "facebook":
            right = answer["found"] == FACEBOOK_TRIANGLES
            findings.aims.append(
                Aim(f"j: ego-Facebook has {FACEBOOK_TRIANGLES:,}", f"{answer['found']:,}", 1 if right else 9)
            )
    findings.tables.append(shown)


def several(views: int) -> Any:
    """So many cyclic views over one graph, ready to run."""
    patterns = [
        triangles(EDGE),
        wedges(EDGE).join(EDGE, on={"c": "src", "a": "dst"}),
        wedges(EDGE).join(wedges(EDGE).select(a="a", d="b", c="c"), on=["a", "c"]),
    ]
    session = an.Session()
    for i in range(views):
        session.maintain(f"v{i}", patterns[i % 3].group_by("a").agg(n=f"count(*) + {i}"))
    session.insert("edges", _table(_some(20_000, 100_000)))

    def run() -> dict[str, Any]:
        step = session.advance()
        size = sum(b.nbytes for state in session._engine.table.live.values() for b in state.spine.batches)
        return {"kept": step.state_rows, "bytes": size}

    return run


def of_several(findings: Findings) -> None:
    """State by number of views."""
    shown = Table("j. state per edge of 100,000 edges", ["cyclic views", "updates per edge", "bytes per edge", "s"])
    for views in (1, 3, 10):
        result = apart(several, views)
        per = [result.result[what] / 100_000 for what in ("kept", "bytes")]
        shown.add(f"{views}", f"{per[0]:.2f}", f"{per[1]:.0f}", f"{result.seconds:.2f}")
    findings.tables.append(shown)


def measure(scale: Scale) -> Findings:
    """All of it."""
    findings, full = Findings(), scale.name == "full"
    size = 1 if full else 10
    of_a_random_graph(findings, *graph_of(scale), scale.changes, judged=full)
    of_others(findings, HUB // size)
    of_several(findings)
    return findings
