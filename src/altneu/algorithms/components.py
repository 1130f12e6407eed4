"""Connected components, weak and strong."""

from __future__ import annotations

import pyarrow as pa

from altneu.algorithms.graph import ENDS, ends, links, simple
from altneu.algorithms.propagation import least_of
from altneu.collections.collection import Collection

ROUNDS_APART = 4


def connected_components(
    edges: Collection, nodes: Collection | None = None, *, src: str = "src", dst: str = "dst"
) -> Collection:
    """The weakly connected components: for each node the least node that it is connected with in any direction.

    ``nodes``, a collection of one column, adds nodes that may have no edge; each such node is a component by itself.

    Shape:  ``node``, ``component`` (of the same type): one row for each node.
    Cost:   a loop with as many rounds as the least node of a component needs to reach all others: one exchange by node
            in each round; an arrangement of the edges in both directions, and every label that a node had in any round.
            A change costs the nodes whose label changes: where a component splits, the part that loses its least node.
    Law:    at every time the components of the edges at that time (tests/algorithms/test_maintained.py).
    Source: McSherry et al., Differential Dataflow, CIDR 2013.

    Raises:
        UnknownColumnError, TypeMismatchError: an end is not a column, or neither a whole number nor a string.
        PlanError: ``nodes`` has more than one column.

    >>> import altneu as an
    >>> edges = an.source("edges", "src long, dst long")
    >>> with an.Session() as session:
    ...     view = session.maintain("components", an.algorithms.connected_components(edges))
    ...     session.insert("edges", [(2, 1), (2, 3), (4, 5)])
    ...     _ = session.advance()
    ...     print(sorted(view.to_pylist()))
    ...     session.retract("edges", [(2, 1)])
    ...     _ = session.advance()
    ...     print(sorted(view.to_pylist()))
    [(1, 1), (2, 1), (3, 1), (4, 4), (5, 4)]
    [(2, 2), (3, 2), (4, 4), (5, 4)]
    """
    arcs = links(edges, src, dst, directed=False)
    return _least_label(arcs, ends(links(edges, src, dst), nodes))


def strongly_connected_components(
    edges: Collection, nodes: Collection | None = None, *, src: str = "src", dst: str = "dst"
) -> Collection:
    """The strongly connected components: for each node the least node to which and from which a path leads.

    The algorithm trims edges. Both ends of an edge within a component are reached from the same least node, and both
    reach the same least node. Edges for which this does not hold are removed, in one direction and then in the other,
    until it holds for all.

    Shape:  ``node``, ``component`` (of the same type): one row for each node; a node that is on no cycle is its own
            component.
    Cost:   a loop around two loops like that of ``connected_components``; arrangements of the edges in both directions,
            and every label that a node had in any round of either: the most expensive of these algorithms.
    Law:    at every time the components of the edges at that time (tests/algorithms/test_maintained.py).
    Source: McSherry et al., Differential Dataflow, CIDR 2013.

    Raises:
        UnknownColumnError, TypeMismatchError, PlanError: as ``connected_components``.

    >>> import altneu as an
    >>> edges = an.source("edges", "src long, dst long")
    >>> with an.Session() as session:
    ...     view = session.maintain("components", an.algorithms.strongly_connected_components(edges))
    ...     session.insert("edges", [(1, 2), (2, 3), (3, 2), (3, 4)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(1, 1), (2, 2), (3, 2), (4, 4)]
    """
    arcs = simple(edges, src, dst)
    back = arcs.select(src="dst", dst="src")
    whole = arcs.select("src", "dst", component="dst")
    within = whole.iterate(lambda left: _trimmed(back, _trimmed(arcs, left)), max_rounds=ENDS)
    together = within.select(node="dst", component="component").distinct()
    alone = ends(links(edges, src, dst), nodes).antijoin(together, on="node")
    return together.concat(alone.select("node", component="node"))


def _trimmed(arcs: Collection, left: Collection) -> Collection:
    """The arcs whose ends are reached from the same least node along the remaining arcs, reversed, with that node.

    Only nodes that an arc leads to have a label: the others are on no cycle.
    """
    labels = _least_label(left, arcs.select(node="dst").distinct())
    started = arcs.join(labels, on={"src": "node"}).select("src", "dst", heard="component")
    alike = started.join(labels, on={"dst": "node", "heard": "component"})
    return alike.select(src="dst", dst="src", component="heard")


def _least_label(arcs: Collection, nodes: Collection) -> Collection:
    """For each node the least node from which arcs lead to it."""
    return least_of(arcs, nodes.select("node", component="node"), "component", _entry(nodes))


def _entry(nodes: Collection) -> str:
    """The round at which a node's own label enters: small ones first, so that most nodes find a lesser one there.

    A node could receive a lesser label in every round, and each of these would be kept. Numbers therefore enter by
    their number of bits, some rounds apart; strings, whose length says nothing about their order, enter first.
    """
    if not pa.types.is_integer(nodes.schema.field("node").type):
        return "0"
    bits = " + ".join(["4 * length(hex(node))", *(f"if(hex(node) >= '{digit}', 1, 0)" for digit in (2, 4, 8))])
    return f"if(node < 1, 0, {ROUNDS_APART} * ({bits} - 4))"
