"""Communities by label propagation."""

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
    """Communities: a fixed number of times, each node takes the label that most of its neighbours have.

    The first label of a node is the node itself. All labels change together; of labels that are equally frequent the
    least is taken. For directed edges, a neighbour in both directions counts twice. A node without neighbours keeps its
    label. Parallel edges count once. ``nodes`` adds nodes that may have no edge.

    Shape:  ``node``, ``label`` (of the same type): one row for each node.
    Cost:   a loop of ``rounds`` rounds: in each round one exchange by node and label and one by node; an arrangement of
            the edges, and every label that a node or a neighbour had in any round. When a neighbour of a node changes,
            the node's label is computed again from all its neighbours' labels.
    Law:    at every time the same rounds over the edges at that time (tests/algorithms/test_maintained.py).
    Source: Raghavan et al., Near linear time algorithm to detect community structures, 2007; synchronous, with the
            least of the most frequent labels, as in LDBC Graphalytics.

    Raises:
        UnknownColumnError, TypeMismatchError: an end is not a column, or neither a whole number nor a string.
        PlanError: ``nodes`` has more than one column, or ``rounds`` is below 1.

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
