"""Triangles and clustering coefficients."""

from __future__ import annotations

from altneu.algorithms.graph import ends, links, pairs, simple
from altneu.collections.collection import Collection


def triangles(edges: Collection, *, src: str = "src", dst: str = "dst") -> Collection:
    """The triangles of a graph: all sets of three nodes of which each two are joined by an edge in either direction.

    Loops and parallel edges do not count.

    Shape:  ``a``, ``b``, ``c`` with ``a < b < c``, each triangle once.
    Cost:   a delta join: two arrangements of the edges, by either end; no pair of edges is kept. A changed edge costs
            the neighbours of that of its ends that has fewer.
    Law:    at every time the triangles of the edges at that time (tests/algorithms/test_maintained.py).

    Raises:
        UnknownColumnError, TypeMismatchError: an end is not a column, or neither a whole number nor a string.

    >>> import altneu as an
    >>> edges = an.source("edges", "src long, dst long")
    >>> with an.Session() as session:
    ...     view = session.maintain("triangles", an.algorithms.triangles(edges))
    ...     session.insert("edges", [(1, 2), (2, 3), (3, 1), (3, 4)])
    ...     _ = session.advance()
    ...     view.to_pylist()
    [(1, 2, 3)]
    """
    return closed(pairs(edges, src, dst))


def clustering_coefficient(
    edges: Collection,
    nodes: Collection | None = None,
    *,
    src: str = "src",
    dst: str = "dst",
    directed: bool = True,
) -> Collection:
    """The local clustering coefficient: the share of the pairs of a node's neighbours that are joined by an edge.

    Neighbours are those in either direction. For directed edges pairs are ordered, and an edge joins one of the two
    orders. Loops and parallel edges do not count. ``nodes`` adds nodes that may have no edge.

    Shape:  ``node``, ``coefficient`` (double, from 0 to 1): one row for each node; 0 with fewer than two neighbours.
    Cost:   that of ``triangles``, and one exchange by node; two numbers for each node.
    Law:    at every time the coefficients of the edges at that time (tests/algorithms/test_maintained.py).
    Source: Watts and Strogatz, Collective dynamics of small-world networks, 1998; directed as in LDBC Graphalytics.

    Raises:
        UnknownColumnError, TypeMismatchError: as ``triangles``.
        PlanError: ``nodes`` has more than one column.

    >>> import altneu as an
    >>> edges = an.source("edges", "src long, dst long")
    >>> with an.Session() as session:
    ...     shares = an.algorithms.clustering_coefficient(edges, directed=False)
    ...     view = session.maintain("shares", shares)
    ...     session.insert("edges", [(1, 2), (2, 3), (3, 1), (1, 4), (4, 3)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(1, 0.6666666666666666), (2, 1.0), (3, 0.6666666666666666), (4, 1.0)]
    """
    arcs = simple(edges, src, dst, directed=directed).filter("src <> dst")
    joined = arcs.select(a="least(src, dst)", b="greatest(src, dst)").count("n")  # by one edge or two
    triangles = closed(joined)
    corners = (("a", "bc"), ("b", "ac"), ("c", "ab"))
    parts = [triangles.select(node=corner, links=opposite, degree="0L") for corner, opposite in corners]
    parts += [joined.select(node=end, links="0L", degree="1L") for end in ("a", "b")]
    parts.append(ends(links(edges, src, dst), nodes).select("node", links="0L", degree="0L"))
    share = "if(sum(degree) > 1, sum(links) / (sum(degree) * (sum(degree) - 1)), 0D)"
    return parts[0].concat(*parts[1:]).group_by("node").agg(coefficient=share)


def closed(joined: Collection) -> Collection:
    """The triangles ``a``, ``b``, ``c`` of joined pairs ``a < b``.

    Where pairs have a number ``n``, the output has that of each side of the triangle too: ``ab``, ``bc``, ``ac``.
    """
    counted = "n" in joined.columns
    of_wedge = {"ab": "n", "bc": "`right.n`"} if counted else {}
    wedges = joined.join(joined, on={"b": "a"}).select("a", "b", c="`right.b`", **of_wedge)
    paths = wedges.join(joined, on={"a": "a", "c": "b"})
    return paths.select("a", "b", "c", *of_wedge, **({"ac": "n"} if counted else {}))
