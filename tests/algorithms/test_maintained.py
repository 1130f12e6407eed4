"""Every algorithm, maintained while edges come and go, against its definition in plain Python at every time.

Graphs are random and small: loops, parallel edges, nodes without edges, roots that are no end of any edge.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import pytest

import altneu as an
from altneu import algorithms as algo
from tests.algorithms import reference
from tests.algorithms.histories import changes
from tests.oracle.histories import accumulated, random_cuts, undone
from tests.oracle.runners import contents_of, state_left, table_of

NODES, TIMES = 9, 8
NUMBERS = (-3, 0, 1, 2, 5, 6, 31, 32, 300)


@dataclass(frozen=True)
class Kind:
    """How nodes are typed and columns are called."""

    name: str
    edges: str
    node: str
    arguments: dict[str, str]

    def node_of(self, number):
        return f"n{number}" if "string" in self.node else NUMBERS[number]

    def sources(self):
        edges = an.source("edges", self.edges)
        return {"edges": edges, "roots": an.source("roots", self.node), "nodes": an.source("nodes", self.node)}


LONG = Kind("long", "src long, dst long, weight long", "node long", {})
TEXT = Kind("text", "`on e` string, two string, cost smallint", "root string", {"src": "on e", "dst": "two"})
KINDS = (LONG, TEXT)


@dataclass(frozen=True)
class Graph:
    """What the sources hold at a time: a count for every row."""

    edges: Counter
    roots: Counter
    nodes: Counter

    @property
    def arcs(self):
        return {edge[:2] for edge in self.edges}

    @property
    def either_way(self):
        return self.arcs | reference.turned(self.arcs)

    @property
    def starts(self):
        return {root for (root,) in self.roots}

    @property
    def others(self):
        return {node for (node,) in self.nodes}


def cost(kind):
    return {**kind.arguments, **({"weight": "cost"} if kind is TEXT else {})}


def singles(nodes):
    return [(node,) for node in nodes]


def rows(found):
    return list(found.items())


def mark(node):
    """A label that has another order than its node."""
    return node[::-1] if isinstance(node, str) else -node


def marked(nodes, kind):
    (name,) = nodes.columns
    return nodes.select(name, label=f"reverse({name})" if kind is TEXT else f"-{name}")


def paired(roots, nodes):
    (root,), (node,) = roots.columns, nodes.columns
    ends = nodes.select(stop=node, both="1").distinct()
    return roots.select(start=root, both="1").distinct().join(ends, on="both").select("start", "stop")


def first_states(nodes, kind):
    (name,) = nodes.columns
    return nodes.select(name, state=f"length({name})" if kind is TEXT else f"CAST({name} % 5 AS int)").distinct()


def first_state(node):
    return len(node) if isinstance(node, str) else math.copysign(abs(node) % 5, node)


def mixed(node, heard):
    """A function whose answer depends on the node and on all that it hears, more than once too."""
    return (sum(heard) + 3 * len(heard) + (len(node) if isinstance(node, str) else node)) % 11


# For each: the plan, from the collections and how columns are called; and what it ought to show.
CASES = {
    "reachability": (
        lambda e, r, _, kind: algo.reachability(e, r, **kind.arguments),
        lambda g: singles(reference.distances(g.arcs, g.starts)),
    ),
    "reachability either way": (
        lambda e, r, _, kind: algo.reachability(e, r, directed=False, **kind.arguments),
        lambda g: singles(reference.distances(g.either_way, g.starts)),
    ),
    "bfs": (
        lambda e, r, _, kind: algo.bfs(e, r, **kind.arguments),
        lambda g: rows(reference.distances(g.arcs, g.starts)),
    ),
    "bfs either way": (
        lambda e, r, _, kind: algo.bfs(e, r, directed=False, **kind.arguments),
        lambda g: rows(reference.distances(g.either_way, g.starts)),
    ),
    "shortest paths": (
        lambda e, r, _, kind: algo.shortest_paths(e, r, **cost(kind)),
        lambda g: rows(reference.lightest(g.edges, g.starts)),
    ),
    "shortest paths either way": (
        lambda e, r, _, kind: algo.shortest_paths(e, r, directed=False, **cost(kind)),
        lambda g: rows(reference.lightest(g.edges.keys() | reference.turned(g.edges), g.starts)),
    ),
    "pairs": (
        lambda e, r, nodes, kind: algo.bidirectional_search(e, paired(r, nodes), **kind.arguments),
        lambda g: reference.between(g.arcs, g.starts, g.others),
    ),
    "pairs either way": (
        lambda e, r, nodes, kind: algo.bidirectional_search(e, paired(r, nodes), directed=False, **kind.arguments),
        lambda g: reference.between(g.either_way, g.starts, g.others),
    ),
    "least labels": (
        lambda e, _, nodes, kind: algo.propagate(e, marked(nodes, kind), **kind.arguments),
        lambda g: rows(reference.least(g.arcs, {node: mark(node) for node in g.others})),
    ),
    "least labels either way, in order": (
        lambda e, _, nodes, kind: algo.propagate(
            e, marked(nodes, kind), at="3 - length(label)", directed=False, **kind.arguments
        ),
        lambda g: rows(reference.least(g.either_way, {node: mark(node) for node in g.others})),
    ),
    "sequence": (
        lambda e, _, nodes, kind: algo.sequence(e, first_states(nodes, kind), mixed, **kind.arguments),
        lambda g: rows(reference.swept(g.arcs, {node: first_state(node) for node in g.others}, mixed)),
    ),
    "sequence either way": (
        lambda e, _, nodes, kind: algo.sequence(e, first_states(nodes, kind), mixed, directed=False, **kind.arguments),
        lambda g: rows(reference.swept(g.either_way, {node: first_state(node) for node in g.others}, mixed)),
    ),
    "transitive closure": (
        lambda e, _, __, kind: algo.transitive_closure(e, **kind.arguments),
        lambda g: reference.closure(g.arcs),
    ),
    "components": (
        lambda e, _, __, kind: algo.connected_components(e, **kind.arguments),
        lambda g: rows(reference.weak(g.arcs)),
    ),
    "components of all nodes": (
        lambda e, _, nodes, kind: algo.connected_components(e, nodes, **kind.arguments),
        lambda g: rows(reference.weak(g.arcs, g.others)),
    ),
    "strong components": (
        lambda e, _, nodes, kind: algo.strongly_connected_components(e, nodes, **kind.arguments),
        lambda g: rows(reference.strong(g.arcs, g.others)),
    ),
    "page rank": (
        lambda e, _, nodes, kind: algo.pagerank(e, nodes, rounds=5, unit=1000, **kind.arguments),
        lambda g: rows(reference.ranks(g.arcs, g.others, rounds=5, unit=1000)),
    ),
    "page rank either way": (
        lambda e, _, __, kind: algo.pagerank(e, rounds=4, damping=0.5, directed=False, **kind.arguments),
        lambda g: rows(reference.ranks(g.either_way, rounds=4, unit=10**9, damping=reference.Fraction(1, 2))),
    ),
    "labels": (
        lambda e, _, nodes, kind: algo.label_propagation(e, nodes, rounds=5, **kind.arguments),
        lambda g: rows(reference.labels(g.arcs, g.others, rounds=5, directed=True)),
    ),
    "labels either way": (
        lambda e, _, __, kind: algo.label_propagation(e, rounds=3, directed=False, **kind.arguments),
        lambda g: rows(reference.labels(g.arcs, rounds=3, directed=False)),
    ),
    "2-core": (
        lambda e, _, __, kind: algo.k_core(e, 2, **kind.arguments),
        lambda g: singles(reference.core(g.arcs, 2)),
    ),
    "3-core": (
        lambda e, _, __, kind: algo.k_core(e, 3, **kind.arguments),
        lambda g: singles(reference.core(g.arcs, 3)),
    ),
    "3-truss": (
        lambda e, _, __, kind: algo.k_truss(e, 3, **kind.arguments),
        lambda g: reference.truss(g.arcs, 3),
    ),
    "4-truss": (
        lambda e, _, __, kind: algo.k_truss(e, 4, **kind.arguments),
        lambda g: reference.truss(g.arcs, 4),
    ),
    "2-truss": (
        lambda e, _, __, kind: algo.k_truss(e, 2, **kind.arguments),
        lambda g: reference.undirected(g.arcs),
    ),
    "triangles": (
        lambda e, _, __, kind: algo.triangles(e, **kind.arguments),
        lambda g: reference.triangles(g.arcs),
    ),
    "clustering": (
        lambda e, _, nodes, kind: algo.clustering_coefficient(e, nodes, **kind.arguments),
        lambda g: rows(reference.clustering(g.arcs, g.others, directed=True)),
    ),
    "clustering either way": (
        lambda e, _, __, kind: algo.clustering_coefficient(e, directed=False, **kind.arguments),
        lambda g: rows(reference.clustering(g.arcs, directed=False)),
    ),
}
SETTLED = frozenset(CASES) - {name for name in CASES if name.startswith(("page rank", "labels"))}
"""Those that end by themselves."""


def history_of(seed, kind):
    """Edges come and go, now many and now few; in the end everything is taken back."""
    rng = random.Random(seed)

    def node():
        return kind.node_of(rng.randrange(NODES))

    history = {
        "edges": changes(rng, TIMES, lambda: (node(), node(), rng.randint(0, 6)), sizes=(8, 12, 24, 60)),
        "roots": changes(rng, TIMES, lambda: (node(),), sizes=(1, 2)),
        "nodes": changes(rng, TIMES, lambda: (node(),), sizes=(0, 3)),
    }
    end = undone(history, TIMES)
    return {name: updates + end[name] for name, updates in history.items()}


def held_at(history, time):
    return Graph(**{name: accumulated(updates, time) for name, updates in history.items()})


def insert(session, sources, history, lower, upper):
    for name, source in sources.items():
        if name in session._engine.declared:
            updates = [u for u in history[name] if lower <= u[1] < upper]
            session.insert(name, table_of(updates, source), time="time", diff="diff")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", CASES)
def test_maintained_step_by_step_and_in_one(name, kind):
    make, expected = CASES[name]
    sources = kind.sources()
    history = history_of(kind.name, kind)
    wanted = [Counter(expected(held_at(history, time))) for time in range(TIMES + 1)]
    assert len({frozenset(rows) for rows in wanted}) > 2, "this history hardly changes anything"
    several = random_cuts(random.Random(name), TIMES + 1) if kind is TEXT else [*range(1, TIMES + 2)]
    for cuts in (several, [TIMES + 1]):
        with an.Session(retain="all", shards=len(cuts) % 3 + 1) as session:
            view = session.maintain(name, make(*sources.values(), kind))
            for lower, upper in pairwise([0, *cuts]):
                insert(session, sources, history, lower, upper)
                session.advance(to=upper)
                assert contents_of(view) == wanted[upper - 1], f"at {upper - 1}, cuts {cuts}"
            assert [contents_of(view, time) for time in range(TIMES + 1)] == wanted, f"cuts {cuts}"


@pytest.mark.parametrize("name", ["least labels, in order", "sequence", "prefix scan"])
def test_on_spark(spark, name):
    """Those whose loops and functions are their own: a few steps, each a job."""

    def swept(node, heard):  # which tasks get with what it refers to: they do not have this module
        return (2 * sum(heard) + 3 * len(heard) + node) % 11

    def composed(left, right):  # associative, and not commutative
        return left if right % 2 else right

    def scanned(edges):
        result, scan = {}, None
        for src, dst in sorted(edge[:2] for edge in edges):
            scan = result[src] = dst if scan is None else composed(scan, dst)
        return result

    kind = LONG
    make, expected = {
        "least labels, in order": CASES["least labels either way, in order"],
        "sequence": (
            lambda e, _, nodes, kind: algo.sequence(e, first_states(nodes, kind), swept),
            lambda g: rows(reference.swept(g.arcs, {node: first_state(node) for node in g.others}, swept)),
        ),
        "prefix scan": (
            lambda e, *_: algo.prefix_scan(e.select(position="src", value="dst"), composed),
            lambda g: rows(scanned(g.edges)),
        ),
    }[name]
    sources, history = kind.sources(), history_of("spark", kind)
    with an.Session(spark, placement="spark", shards=2) as session:
        view = session.maintain(name, make(*sources.values(), kind))
        for lower, upper in ((0, 2), (2, 3), (3, TIMES + 1)):
            insert(session, sources, history, lower, upper)
            assert session.advance(to=upper).placement == "spark"
            assert contents_of(view) == Counter(expected(held_at(history, upper - 1)))


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_left_of_what_is_taken_back(name):
    make, expected = CASES[name]
    sources, history = LONG.sources(), history_of("again", LONG)
    end = held_at(history, TIMES - 1)
    wanted = Counter(expected(end))
    with an.Session() as session:
        view = session.maintain(name, make(*sources.values(), LONG))
        kept = []
        for time in range(4):
            sign = 1 if time % 2 == 0 else -1
            for source in session._engine.declared:
                updates = [(row, time, sign * n) for row, n in getattr(end, source).items()]
                session.insert(source, table_of(updates, sources[source]), time="time", diff="diff")
            kept.append(session.advance().state_rows)
            assert contents_of(view) == (wanted if sign == 1 else Counter())
        session.advance(to=30)
        assert list(state_left(session)) == []
        assert kept[-1] <= 3 * max(kept[:2]) + 64
