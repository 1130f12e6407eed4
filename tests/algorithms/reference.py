"""The algorithms in plain Python, each from its definition and not from how it is maintained.

A graph is a set of pairs of nodes (the edges), or a list of triples with a weight; extra nodes come beside it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from itertools import combinations


def nodes_of(edges, nodes=()):
    return {end for edge in edges for end in edge[:2]} | set(nodes)


def turned(edges):
    return {(b, a, *rest) for a, b, *rest in edges}


def successors(edges):
    result = defaultdict(set)
    for a, b in edges:
        result[a].add(b)
    return result


def neighbours(edges):
    actual = successors(set(edges) | turned(edges))
    return {node: near - {node} for node, near in actual.items()}


def distances(edges, roots):
    """The number of edges from the nearest root, level by level."""
    near, known, level = successors(edges), {}, set(roots)
    while level:
        known |= dict.fromkeys(level, max(known.values(), default=-1) + 1)
        level = {b for a in level for b in near[a]} - known.keys()
    return known


def between(edges, starts, ends):
    """The pairs with a path, and its length."""
    there = {start: distances(edges, [start]) for start in starts}
    return {(start, end, there[start][end]) for start in starts for end in ends if end in there[start]}


def least(edges, labels):
    """The least label of the nodes from which a node is reached."""
    there = {start: distances(edges, [start]) for start in labels}
    nodes = {node for near in there.values() for node in near}
    return {node: min(labels[start] for start, near in there.items() if node in near) for node in nodes}


def swept(edges, first, function):
    """One node after the other, in their order."""
    now = dict(first)
    for node in sorted(first):
        now[node] = function(node, sorted(now[a] for a, b in edges if b == node and a != b and a in first))
    return now


def closure(edges):
    near = successors(edges)
    return {(a, b) for a in near for b in distances(edges, near[a])}


def lightest(weighted, roots):
    """Bellman and Ford: as many rounds as there are nodes, and one more to see that nothing falls."""
    known = dict.fromkeys(roots, 0)
    for _ in range(len(nodes_of(weighted, roots)) + 1):
        before = dict(known)
        for a, b, weight in weighted:
            if a in known and known[a] + weight < known.get(b, float("inf")):
                known[b] = known[a] + weight
    assert before == known
    return known


def weak(edges, nodes=()):
    every = set(edges) | turned(edges)
    return {node: min(distances(every, [node])) for node in nodes_of(edges, nodes)}


def strong(edges, nodes=()):
    there = {node: set(distances(edges, [node])) for node in nodes_of(edges, nodes)}
    return {node: min(other for other in led if node in there[other]) for node, led in there.items()}


def core(edges, k):
    near = neighbours(edges)
    while weak_ones := [node for node, others in near.items() if len(others) < k]:
        for node in weak_ones:
            for other in near.pop(node):
                if other in near:
                    near[other].discard(node)
    return set(near)


def undirected(edges):
    return {(min(e), max(e)) for e in edges if e[0] != e[1]}


def triangles(edges):
    joined = undirected(edges)
    near = neighbours(edges)
    return {(a, b, c) for a, b in joined for c in near[a] & near[b] if c > b}


def truss(edges, k):
    left = undirected(edges)
    while True:
        support = Counter(side for corners in triangles(left) for side in combinations(corners, 2))
        kept = {edge for edge in left if support[edge] >= k - 2}
        if kept == left:
            return left
        left = kept


def clustering(edges, nodes=(), *, directed):
    arcs = set(edges) if directed else set(edges) | turned(edges)
    near = neighbours(edges)
    shares = {}
    for node in nodes_of(edges, nodes):
        around = near.get(node, set())
        there = sum((a, b) in arcs for a in around for b in around if a != b)
        shares[node] = there / (len(around) * (len(around) - 1)) if len(around) > 1 else 0.0
    return shares


def labels(edges, nodes=(), *, rounds, directed):
    around = [*edges, *turned(edges)] if directed else list(set(edges) | turned(edges))
    now = {node: node for node in nodes_of(edges, nodes)}
    for _ in range(rounds):
        votes = defaultdict(Counter)
        for a, b in around:
            votes[b][now[a]] += 1
        now |= {node: min(heard, key=lambda label: (-heard[label], label)) for node, heard in votes.items()}
    return now


def ranks(edges, nodes=(), *, rounds, unit, damping=Fraction(17, 20)):
    """Page rank in whole units, every part cut off."""
    every, near = nodes_of(edges, nodes), successors(edges)
    now = dict.fromkeys(every, unit)
    base = unit - int(unit * damping)
    for _ in range(rounds):
        lost = sum(rank for node, rank in now.items() if not near[node])
        after = dict.fromkeys(every, base + _part(lost, damping, max(1, len(every))))
        for a in every:
            for b in near[a]:
                after[b] += _part(now[a], damping, len(near[a]))
        now = after
    return now


def _part(rank, damping, of):
    return rank * damping.numerator // (damping.denominator * of)


def running(values, asked):
    return {place: sum(value for at, value in values if at <= place) for place in asked}
