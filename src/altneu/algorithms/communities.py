"""Communities by what most neighbours say."""

from __future__ import annotations

from altneu.algorithms.graph import at_least, ends, simple
from altneu.collections.collection import Collection


def label_propagation(
    edges: Collection,
    nodes: Collection | None = None,
    *,
    rounds: int = 10,
    src: str = "src",
    dst: str = "dst",
    directed: bool = True,
) -> Collection:
    """Communities: each node takes on the label that most of its neighbours have, a fixed number of times.

    A node's first label is itself. All change at once; among labels that equally many have the least wins. Where edges
    are directed, a neighbour in both directions counts twice. A node without neighbours keeps its label. Parallel edges
    count once. ``nodes`` adds nodes that may have no edge.

    Shape:  ``node``, ``label`` (of the same type): one row a node.
    Cost:   a loop of ``rounds`` rounds: one exchange by node and label, and one by node in each; an arrangement of the
            edges, and every label that a node or a neighbour had in any round. A node one of whose neighbours changes
            is decided anew from all the labels around it.
    Law:    at every time the same rounds over the edges at that time (tests/algorithms/test_maintained.py).
    Source: Raghavan et al., Near linear time algorithm to detect community structures, 2007; synchronous and with the
            least of the most frequent, as LDBC Graphalytics has it.

    Raises:
        UnknownColumnError, TypeMismatchError: an end is no column, or neither a whole number nor a text.
        PlanError: nodes of more than one column; rounds below 1.

    >>> import altneu as an
    >>> edges = an.source("edges", "src long, dst long")
    >>> with an.Session() as session:
    ...     labels = an.algorithms.label_propagation(edges, directed=False)
    ...     view = session.maintain("labels", labels)
    ...     session.insert("edges", [(1, 2), (2, 3), (3, 1), (3, 4), (4, 5), (5, 6), (6, 4)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(1, 1), (2, 1), (3, 1), (4, 3), (5, 3), (6, 3)]
    """
    arcs = simple(edges, src, dst, directed=directed)
    around = arcs.concat(arcs.select(src="dst", dst="src")) if directed else arcs
    own = ends(arcs, nodes).select("node", label="node")
    alone = own.antijoin(around, on={"node": "dst"})

    def vote(labels: Collection) -> Collection:
        heard = labels.join(around, on={"node": "src"}).select(node="dst", label="label").count("votes")
        return heard.top_k(1, by="votes desc, label", per="node").select("node", "label").concat(alone)

    return own.iterate(vote, max_rounds=at_least("rounds", rounds, 1), on_limit="stop")
