"""The dense parts of a graph: cores and trusses."""

from __future__ import annotations

from altneu.algorithms.cliques import closed
from altneu.algorithms.graph import ENDS, at_least, both, pairs
from altneu.collections.collection import Collection


def k_core(edges: Collection, k: int, *, src: str = "src", dst: str = "dst") -> Collection:
    """The k-core: the nodes of the largest subgraph in which each node has at least ``k`` neighbours.

    The direction of edges does not matter; loops and parallel edges do not count.

    Shape:  ``node``, each once.
    Cost:   a loop with as many rounds as it takes to peel off the nodes outside of the core: one exchange by node in
            each; an arrangement of the edges in both directions, and the number of neighbours of each node. A change
            costs the nodes that enter or leave the core, or that are peeled off in another round, and their edges.
    Law:    at every time the nodes that are left after peeling the edges at that time
            (tests/algorithms/test_maintained.py).
    Source: Seidman, Network structure and minimum degree, 1983.

    Raises:
        UnknownColumnError, TypeMismatchError: an end is not a column, or neither a whole number nor a string.
        PlanError: ``k`` is below 1.

    >>> import altneu as an
    >>> edges = an.source("edges", "src long, dst long")
    >>> with an.Session() as session:
    ...     view = session.maintain("core", an.algorithms.k_core(edges, 2))
    ...     session.insert("edges", [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(1,), (2,), (3,)]
    """
    enough = f"degree >= {at_least('k', k, 1)}"
    arcs = both(pairs(edges, src, dst))

    def keep(left: Collection) -> Collection:
        seen = left.join(arcs, on={"node": "dst"}).select(node="src")
        return seen.group_by("node").agg(degree="count(*)").filter(enough).select("node")

    return arcs.select(node="src").distinct().iterate(keep, max_rounds=ENDS)


def k_truss(edges: Collection, k: int, *, src: str = "src", dst: str = "dst") -> Collection:
    """The k-truss: the edges of the largest subgraph in which each edge is in at least ``k - 2`` triangles.

    The direction of edges does not matter; loops and parallel edges do not count.

    Shape:  ``src``, ``dst``: each edge once, the lesser end first.
    Cost:   a loop with as many rounds as it takes to peel off the edges outside of the truss, and in it a delta join:
            two arrangements of the remaining edges, and the number of triangles of each; no triangle is kept. A change
            costs the edges that enter or leave the truss, and their triangles.
    Law:    at every time the edges that are left after peeling those at that time
            (tests/algorithms/test_maintained.py).
    Source: Cohen, Trusses: cohesive subgraphs for social network analysis, 2008.

    Raises:
        UnknownColumnError, TypeMismatchError: as ``k_core``.
        PlanError: ``k`` is below 2.

    >>> import altneu as an
    >>> edges = an.source("edges", "src long, dst long")
    >>> with an.Session() as session:
    ...     view = session.maintain("truss", an.algorithms.k_truss(edges, 3))
    ...     session.insert("edges", [(1, 2), (2, 3), (3, 1), (3, 4)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(1, 2), (1, 3), (2, 3)]
    """
    all_edges = pairs(edges, src, dst)
    if at_least("k", k, 2) == 2:
        return all_edges.select(src="a", dst="b")

    def keep(left: Collection) -> Collection:
        corners = closed(left)
        sides = [corners.select(a=one, b=other) for one, other in (("a", "b"), ("a", "c"), ("b", "c"))]
        counted = sides[0].concat(*sides[1:]).group_by("a", "b").agg(support="count(*)")
        return counted.filter(f"support >= {k - 2}").select("a", "b")

    return all_edges.iterate(keep, max_rounds=ENDS).select(src="a", dst="b")
