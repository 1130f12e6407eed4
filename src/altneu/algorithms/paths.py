"""Reachability and shortest paths."""

from __future__ import annotations

from altneu.algorithms.graph import ENDS, asked, checked_nodes, links
from altneu.collections.collection import Collection
from altneu.collections.loops import MAX_ROUNDS
from altneu.collections.recursion import recursive
from altneu.types import LONG


def reachability(
    edges: Collection, roots: Collection, *, src: str = "src", dst: str = "dst", directed: bool = True
) -> Collection:
    """The nodes that can be reached from some root along edges, including the roots.

    Shape:  ``node``, each once.
    Cost:   a loop with as many rounds as the longest of the shortest paths has edges: one exchange by node and one by
            row in each; an arrangement of the edges by their first end, and the nodes reached. A change costs the nodes
            that it adds or cuts off.
    Law:    at every time the result of a search over the edges at that time (tests/algorithms/test_maintained.py).
    Source: McSherry et al., Differential Dataflow, CIDR 2013.

    Raises:
        UnknownColumnError, TypeMismatchError: an end is not a column, or neither a whole number nor a string; roots and
            ends differ in type.
        PlanError: ``roots`` has more than one column.

    >>> import altneu as an
    >>> edges, roots = an.source("edges", "src long, dst long"), an.source("roots", "node long")
    >>> with an.Session() as session:
    ...     view = session.maintain("reached", an.algorithms.reachability(edges, roots))
    ...     session.insert("edges", [(1, 2), (2, 3), (4, 3)])
    ...     session.insert("roots", [(1,)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(1,), (2,), (3,)]
    """
    steps = links(edges, src, dst, directed=directed)
    start = checked_nodes(roots, steps, "roots").distinct()

    def further(reached: Collection) -> Collection:
        return reached.join(steps, on={"node": "src"}).select(node="dst").concat(start).distinct()

    return start.iterate(further, max_rounds=ENDS)


def bfs(
    edges: Collection, roots: Collection, *, src: str = "src", dst: str = "dst", directed: bool = True
) -> Collection:
    """Breadth-first search: for each node that can be reached, its distance from the nearest root, in edges.

    Shape:  ``node``, ``distance`` (bigint): one row for each node that is reached; 0 at roots.
    Cost:   a loop with as many rounds as the greatest distance: one exchange by node in each; an arrangement of the
            edges, the distances, and the candidates of each node. A change costs the nodes whose distance changes, and
            their edges.
    Law:    at every time the result of a search over the edges at that time (tests/algorithms/test_maintained.py).
    Source: McSherry et al., Differential Dataflow, CIDR 2013.

    Raises:
        UnknownColumnError, TypeMismatchError, PlanError: as ``reachability``.

    >>> import altneu as an
    >>> edges, roots = an.source("edges", "src string, dst string"), an.source("roots", "node string")
    >>> with an.Session() as session:
    ...     view = session.maintain("distances", an.algorithms.bfs(edges, roots))
    ...     session.insert("edges", [("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")])
    ...     session.insert("roots", [("a",)])
    ...     _ = session.advance()
    ...     print(sorted(view.to_pylist()))
    ...     session.retract("edges", [("a", "c")])
    ...     _ = session.advance()
    ...     print(sorted(view.to_pylist()))
    [('a', 0), ('b', 1), ('c', 1), ('d', 2)]
    [('a', 0), ('b', 1), ('c', 2), ('d', 3)]
    """
    steps = links(edges, src, dst, directed=directed)
    return _least(steps, checked_nodes(roots, steps, "roots"), "distance + 1L", "0L", ENDS)


def shortest_paths(
    edges: Collection,
    roots: Collection,
    *,
    src: str = "src",
    dst: str = "dst",
    weight: str = "weight",
    directed: bool = True,
    max_rounds: int = MAX_ROUNDS,
) -> Collection:
    """For each node that can be reached, the least sum of weights along a path from some root.

    Of several edges between two nodes the lightest counts. Weights may be negative as long as no cycle of negative sum
    can be reached: on such a cycle distances fall for ever, and after ``max_rounds`` rounds the step is refused.
    Doubles are added in the order of the path. Edges without a weight (null) are ignored.

    Shape:  ``node``, ``distance`` (bigint, or double if weights are): one row for each node that is reached; 0 at
            roots.
    Cost:   as ``bfs``, except that there are as many rounds as the longest of the lightest paths has edges, and that
            the distance of a node may fall in several rounds: each of these values is kept.
    Law:    at every time the result of the Bellman-Ford algorithm (tests/algorithms/test_maintained.py).

    Raises:
        UnknownColumnError, TypeMismatchError, PlanError: as ``reachability``; the weight is not a number.
        NoFixpointError: (raised by ``advance``) a cycle of negative sum is reached, or a path has more edges than
            ``max_rounds``.

    >>> import altneu as an
    >>> edges = an.source("edges", "src long, dst long, weight long")
    >>> roots = an.source("roots", "node long")
    >>> with an.Session() as session:
    ...     view = session.maintain("distances", an.algorithms.shortest_paths(edges, roots))
    ...     session.insert("edges", [(1, 2, 10), (1, 3, 1), (3, 2, 2)])
    ...     session.insert("roots", [(1,)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(1, 0), (2, 3), (3, 1)]
    """
    steps = links(edges, src, dst, directed=directed, weight=weight)
    zero = f"CAST(0 AS {'bigint' if steps.schema.field('weight').type == LONG else 'double'})"
    return _least(steps, checked_nodes(roots, steps, "roots"), "distance + weight", zero, max_rounds)


def bidirectional_search(
    edges: Collection, pairs: Collection, *, src: str = "src", dst: str = "dst", directed: bool = True
) -> Collection:
    """For each pair of nodes, the least number of edges on a path from the first to the second.

    The search begins at both ends of a pair and stops as soon as the two sides meet, so it looks at the nodes within
    half of the distance of either end, and not at all that lie between. If no path leads from one end to the other,
    the search takes in all that either end reaches.

    Shape:  ``src``, ``dst``, ``distance`` (bigint): one row for each pair with a path; 0 for a node and itself.
    Cost:   a loop with half as many rounds as the greatest distance has edges: one exchange by end, two by node and one
            by pair in each; arrangements of the edges by both ends, and for each end the distances of the nodes that
            its search has reached. A change costs the searches in which a distance changes.
    Law:    at every time the distances of a search from each end alone (tests/algorithms/test_maintained.py).
    Source: ``bidijkstra`` of differential dataflow.

    Raises:
        UnknownColumnError, TypeMismatchError: an end is not a column, or neither a whole number nor a string; pairs and
            ends differ in type.
        PlanError: ``pairs`` does not have two columns.

    >>> import altneu as an
    >>> flights = an.source("flights", "src string, dst string")
    >>> trips = an.source("trips", "start string, stop string")
    >>> with an.Session() as session:
    ...     view = session.maintain("stops", an.algorithms.bidirectional_search(flights, trips))
    ...     session.insert("flights", [("a", "b"), ("b", "c"), ("c", "d"), ("a", "c")])
    ...     session.insert("trips", [("a", "d"), ("d", "a")])
    ...     _ = session.advance()
    ...     view.to_pylist()
    [('a', 'd', 2)]
    """
    ahead = links(edges, src, dst, directed=directed).distinct()
    back = ahead.select(src="dst", dst="src")
    wanted = asked(pairs, ahead)
    starts, stops = (wanted.select(root=end, node=end, distance="0L").distinct() for end in ("src", "dst"))

    def both_sides(near: Collection, far: Collection) -> tuple[Collection, Collection]:
        apart = wanted.antijoin(_met(near, far, wanted), on=["src", "dst"])
        return _wider(near, ahead, starts, apart, "src"), _wider(far, back, stops, apart, "dst")

    near, far = recursive(both_sides, max_rounds=ENDS, near=starts, far=stops)
    return _met(near, far, wanted)


def _met(near: Collection, far: Collection, wanted: Collection) -> Collection:
    """The pairs of which both searches have reached a node, with their distance over the nearest such node."""
    reached = near.join(wanted, on={"root": "src"}).select("node", "dst", src="root", before="distance")
    paths = reached.join(far, on={"node": "node", "dst": "root"})
    return (
        paths.select("src", "dst", distance="before + distance").group_by("src", "dst").agg("min(distance) AS distance")
    )


def _wider(known: Collection, steps: Collection, starts: Collection, apart: Collection, end: str) -> Collection:
    """The distances that searches know after one more step, of those that have not met their other end."""
    searching = known.semijoin(apart.select(root=end).distinct(), on="root")
    further = searching.join(steps, on={"node": "src"}).select("root", node="dst", distance="distance + 1L")
    return further.concat(known).concat(starts).group_by("root", "node").agg(distance="min(distance)")


def transitive_closure(edges: Collection, *, src: str = "src", dst: str = "dst") -> Collection:
    """The pairs of nodes for which a path of at least one edge leads from the first to the second.

    A node on a cycle is paired with itself.

    Shape:  ``src``, ``dst``, each pair once: up to the square of the number of nodes.
    Cost:   a loop with as many rounds as the longest of the shortest paths has edges; an arrangement of the edges, and
            every pair. A change costs the pairs whose paths change: many, if the graph is dense.
    Law:    at every time the result of a search from every node (tests/algorithms/test_maintained.py).

    Raises:
        UnknownColumnError, TypeMismatchError: as ``reachability``.

    >>> import altneu as an
    >>> edges = an.source("edges", "src long, dst long")
    >>> with an.Session() as session:
    ...     view = session.maintain("paths", an.algorithms.transitive_closure(edges))
    ...     session.insert("edges", [(1, 2), (2, 3), (3, 2)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(1, 2), (1, 3), (2, 2), (2, 3), (3, 2), (3, 3)]
    """
    steps = links(edges, src, dst).distinct()

    def longer(paths: Collection) -> Collection:
        return paths.join(steps, on={"dst": "src"}).select("src", dst="`right.dst`").concat(steps).distinct()

    return steps.iterate(longer, max_rounds=ENDS)


def _least(steps: Collection, roots: Collection, further: str, zero: str, max_rounds: int) -> Collection:
    start = roots.select("node", distance=zero).distinct()

    def nearer(known: Collection) -> Collection:
        candidates = known.join(steps, on={"node": "src"}).select(node="dst", distance=further)
        return candidates.concat(start).group_by("node").agg(distance="min(distance)")

    return start.iterate(nearer, max_rounds=max_rounds)
