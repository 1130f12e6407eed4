"""Real graphs, and the example graphs of LDBC Graphalytics, come out as computed elsewhere, however they came.

The timeline of a graph inserts a tenth of the lines of its file at each step, and in the last takes every tenth away;
loops are left out. The snapshots of the Internet's autonomous systems are days of real inserts and deletes.
"""

from __future__ import annotations

import gzip
import json
import math
from itertools import pairwise

import polars as pl
import pytest

import altneu as an
from altneu import algorithms as algo
from altneu.runtime.spark import executor

EDGES = an.source("edges", "src long, dst long")
ROOTS = an.source("roots", "node long")


def number_of(collection: an.Collection) -> an.Collection:
    return collection.group_by().agg(n="count(*)")


def read(views, at=None) -> dict[str, int]:
    return {name: view.to_pylist(at)[0][0] for name, view in views.items()}


# LDBC Graphalytics ----------------------------------------------------------------------------------------------------

UNREACHED = 2**63 - 1
LDBC = ("directed", "undirected")
WEIGHTED = an.source("edges", "src long, dst long, weight double")
VERTICES = an.source("vertices", "node long")


class Example:
    """An example graph, the algorithms with its parameters, and what they should give."""

    def __init__(self, folder, name):
        path = folder / "graphalytics" / f"example-{name}"
        if not path.with_suffix(".e").exists():
            pytest.skip(f"no {path.name}.e in {path.parent}")
        self.path = path
        self.directed = name == "directed"
        self.vertices = [(int(line),) for line in path.with_suffix(".v").read_text().split()]
        lines = map(str.split, path.with_suffix(".e").read_text().splitlines())
        self.edges = [(int(src), int(dst), float(weight)) for src, dst, weight in lines]
        lines = path.with_suffix(".properties").read_text().splitlines()
        settings = dict(line.removeprefix(f"graph.{path.name}.").split(" = ") for line in lines if " = " in line)
        self.root = int(settings["bfs.source-vertex"])
        assert self.root == int(settings["sssp.source-vertex"])
        self.rounds = int(settings["pr.num-iterations"])
        assert self.rounds == int(settings["cdlp.max-iterations"])
        self.damping = float(settings["pr.damping-factor"])

    def plans(self):
        how = {"directed": self.directed}
        return {
            "BFS": algo.bfs(WEIGHTED, ROOTS, **how),
            "WCC": algo.connected_components(WEIGHTED, VERTICES),
            "CDLP": algo.label_propagation(WEIGHTED, VERTICES, rounds=self.rounds, **how),
            "LCC": algo.clustering_coefficient(WEIGHTED, VERTICES, **how),
            "PR": algo.pagerank(WEIGHTED, VERTICES, rounds=self.rounds, damping=self.damping, **how),
            "SSSP": algo.shortest_paths(WEIGHTED, ROOTS, **how),
        }

    def expected(self, which):
        """The publisher's file; what cannot be reached is left out."""
        lines = map(str.split, (self.path.parent / f"{self.path.name}-{which}").read_text().splitlines())
        kind = float if which in ("LCC", "PR", "SSSP") else int
        return {int(node): kind(value) for node, value in lines if kind(value) not in (UNREACHED, math.inf)}

    def check(self, views, at=None):
        for which, view in views.items():
            actual, wanted = dict(view.to_pylist(at)), self.expected(which)
            if which == "PR":
                actual = {node: rank / 1e9 / len(self.vertices) for node, rank in actual.items()}
            exact = which in ("BFS", "WCC", "CDLP")
            assert actual == (wanted if exact else pytest.approx(wanted, rel=1e-7, abs=1e-15)), which


@pytest.fixture(params=LDBC)
def example(request, data_dir):
    return Example(data_dir, request.param)


def begin(session, example):
    views = {name: session.maintain(name, plan) for name, plan in example.plans().items()}
    session.insert("roots", [(example.root,)])
    session.insert("vertices", example.vertices)
    return views


def test_examples_at_once_and_after_edges_were_added_and_removed(example):
    n = max(example.vertices)[0]
    others = [(dst, src + 1, weight) for src, dst, weight in example.edges]
    others += [(i, i + 1, 0.01) for i in range(n + 5)]
    with an.Session() as session:
        views = begin(session, example)
        session.insert("edges", example.edges)
        session.advance()
        example.check(views)
        for part in (others[::2], others[1::2]):
            session.insert("edges", part)
            session.advance()
        with pytest.raises(AssertionError):
            example.check(views)
        for part in (others[1::3], others[::3], others[2::3]):
            session.retract("edges", part)
            session.advance()
        example.check(views)


@pytest.mark.parametrize("steps", ["a step an edge", "all times in a step"])
def test_examples_edge_by_edge(example, steps):
    """The last edges are taken away before they come for good."""
    changes = [(edge, 1) for edge in example.edges]
    changes += [(edge, diff) for edge in example.edges[::3] for diff in (-1, 1)]
    with an.Session(retain="all") as session:
        views = begin(session, example)
        for time, (edge, diff) in enumerate(changes):
            (session.insert if diff > 0 else session.retract)("edges", [edge], time=time)
            if steps == "a step an edge":
                session.advance()
        session.advance(to=len(changes) + 1)
        for time in (len(example.edges) - 1, len(changes) - 1, len(changes)):
            example.check(views, time)
        with pytest.raises(AssertionError):
            example.check(views, len(example.edges) - 2)


# timelines ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def truth(data_dir):
    return json.loads((data_dir / "graphs" / "truth.json").read_text())


FILES = {"ca-GrQc": ("ca-grqc", "\t"), "ego-Facebook": ("ego-facebook", " ")}


class Timeline:
    """The changes of each step, and the numbers after it."""

    def __init__(self, folder, truth, name):
        file, separator = FILES[name]
        path = folder / "graphs" / f"{file}.txt.gz"
        if not path.exists():
            pytest.skip(f"no {path.name} in {path.parent}")
        read = {"separator": separator, "has_header": False, "comment_prefix": "#", "new_columns": ["src", "dst"]}
        lines = pl.read_csv(gzip.decompress(path.read_bytes()).replace(b"\r", b""), **read)
        ends = [i * len(lines) // 10 for i in range(11)]
        self.steps = [(lines[lower:upper], 1) for lower, upper in pairwise(ends)] + [(lines.gather_every(10, 9), -1)]
        self.steps = [(part.filter(pl.col("src") != pl.col("dst")), diff) for part, diff in self.steps]
        known = truth["timeline"][name]
        self.root = known["src"]
        names = {"triangles": "triangles", "components": "wcc", "core": "core3", "reached": "reach_directed_from_src"}
        self.numbers = [{ours: step[theirs] for ours, theirs in names.items()} for step in known["timeline"]]


def timeline_views(session):
    nodes = EDGES.select(node="src").concat(EDGES.select(node="dst"))
    reached = algo.reachability(EDGES, ROOTS).semijoin(nodes, on="node")  # the root itself only once it has an edge
    plans = {
        "triangles": algo.triangles(EDGES),
        "components": algo.connected_components(EDGES).select("component").distinct(),
        "core": algo.k_core(EDGES, 3),
        "reached": reached,
    }
    return {name: session.maintain(name, number_of(plan)) for name, plan in plans.items()}


@pytest.mark.parametrize("name", FILES)
def test_timeline_step_by_step(data_dir, truth, name):
    timeline = Timeline(data_dir, truth, name)
    with an.Session() as session:
        views = timeline_views(session)
        session.insert("roots", [(timeline.root,)])
        for step, (part, diff) in enumerate(timeline.steps):
            (session.insert if diff > 0 else session.retract)("edges", part)
            session.advance()
            assert read(views) == timeline.numbers[step], f"after step {step}"


def test_timeline_in_one_step(data_dir, truth):
    timeline = Timeline(data_dir, truth, "ca-GrQc")
    with an.Session(retain="all") as session:
        follow(session, timeline, [11])


def test_timeline_on_spark(spark, data_dir, truth, monkeypatch):
    """Rounds of thousands of rows are jobs, and the many small ones after them run in the driver on their state."""
    monkeypatch.setattr(executor, "DRIVER_ROWS", 5_000)
    timeline = Timeline(data_dir, truth, "ca-GrQc")
    with an.Session(spark, retain="all") as session:
        follow(session, timeline, [10], lambda part: spark.createDataFrame(part.to_arrow()))
        assert session.history()[-1].step.placement == "spark"  # some of it


def follow(session, timeline, cuts, convert=lambda part: part):
    """Several of the timeline's steps in one of the session's."""
    views = timeline_views(session)
    session.insert("roots", [(timeline.root,)])
    for lower, upper in pairwise([0, *cuts]):
        for time in range(lower, upper):
            part, diff = timeline.steps[time]
            (session.insert if diff > 0 else session.retract)("edges", convert(part), time=time)
        session.advance(to=upper)
        for time in range(lower, upper):
            assert read(views, time) == timeline.numbers[time], f"at time {time}"


# days -----------------------------------------------------------------------------------------------------------------


def test_autonomous_systems_day_by_day(data_dir, truth):
    files = sorted((data_dir / "graphs" / "as-routeviews").glob("*.csv.gz"))
    if len(files) != 7:
        pytest.skip("not seven snapshots of autonomous systems")
    days = [frozenset(snapshot(file)) for file in files]
    known = [truth["temporal"][f"AS {file.name.removesuffix('.gz')}"] for file in files]
    cores = sorted({k for day in known for k in (day["max_core"], day["max_core"] + 1)})
    components = algo.connected_components(EDGES)
    plans = {
        "edges": algo.k_truss(EDGES, 2),
        "triangles": algo.triangles(EDGES),
        "nodes": components,
        "wcc": components.select("component").distinct(),
        **{f"core{k}": algo.k_core(EDGES, k) for k in cores},
    }
    names = {"edges": "und_edges", "triangles": "triangles", "nodes": "nodes", "wcc": "wcc"}
    with an.Session() as session:
        views = {name: session.maintain(name, number_of(plan)) for name, plan in plans.items()}
        for before, now, day in zip([frozenset(), *days], days, known, strict=False):
            session.retract("edges", sorted(before - now))
            session.insert("edges", sorted(now - before))
            session.advance()
            actual = read(views)
            assert {name: actual[name] for name in names} == {name: day[theirs] for name, theirs in names.items()}
            assert max(k for k in cores if actual[f"core{k}"]) == day["max_core"]


def snapshot(file):
    """The edges of a day; some files begin with the names of the columns."""
    lines = gzip.decompress(file.read_bytes()).decode().split()
    return [tuple(map(int, line.split(","))) for line in lines if line[0].isdigit()]
