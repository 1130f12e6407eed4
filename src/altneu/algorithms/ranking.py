"""Page rank, in whole numbers."""

from __future__ import annotations

from fractions import Fraction

from altneu.algorithms.graph import at_least, ends, simple
from altneu.collections.collection import Collection
from altneu.errors import PlanError


def pagerank(
    edges: Collection,
    nodes: Collection | None = None,
    *,
    rounds: int = 20,
    damping: float | Fraction = 0.85,
    unit: int = 1_000_000_000,
    src: str = "src",
    dst: str = "dst",
    directed: bool = True,
) -> Collection:
    """Page rank: the share of time that a random walk spends at each node, after a fixed number of rounds.

    Ranks are whole numbers whose mean is ``unit``: ``rank / unit / number of nodes`` is the probability. In each round
    a node passes on the share ``damping`` of its rank, in equal parts, to the nodes that its edges lead to, or, if it
    has no edge, to all nodes; the rest of all ranks is distributed over all nodes. Parts are rounded down to whole
    numbers. Therefore the ranks depend on the edges alone and not on the order of their changes, and a change fades out
    once it is less than one. A rank that exceeds 64 bits is an error row: ``unit`` times the number of nodes times the
    numerator of ``damping`` (17 for 0.85) must not. Parallel edges count once. ``nodes`` adds nodes that may have no
    edge.

    Shape:  ``node``, ``rank`` (bigint): one row for each node; the ranks add up to ``unit`` times the number of nodes,
            less what was rounded off: up to one for each edge and round.
    Cost:   a loop of ``rounds`` rounds: one exchange by node in each; arrangements of the edges, and for each node and
            round the rank and the part that each edge gets. A change spreads along edges, in ``rounds`` rounds often to
            all nodes; always if there are nodes without edges, whose ranks go to all. It then costs about twice what
            computing all ranks costs, since each is retracted and inserted. A larger ``unit`` is more exact, and
            changes spread further.
    Law:    at every time the same rounds over the edges at that time (tests/algorithms/test_maintained.py).
    Source: Page, Brin et al., The PageRank Citation Ranking, 1999; the rules are those of LDBC Graphalytics.

    Raises:
        UnknownColumnError, TypeMismatchError: an end is not a column, or neither a whole number nor a string.
        PlanError: ``nodes`` has more than one column, ``rounds`` or ``unit`` is below 1, or ``damping`` is not between
            0 and 1.

    >>> import altneu as an
    >>> edges = an.source("edges", "src long, dst long")
    >>> with an.Session() as session:
    ...     ranks = an.algorithms.pagerank(edges, rounds=10, unit=1000)
    ...     view = session.maintain("ranks", ranks)
    ...     session.insert("edges", [(1, 2), (2, 3), (3, 2)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(1, 150), (2, 1365), (3, 1477)]
    """
    share, last = _fraction(damping), at_least("rounds", rounds, 1)
    arcs = simple(edges, src, dst, directed=directed)
    start = ends(arcs, nodes).select("node", rank=f"{at_least('unit', unit, 1)}L", round="0")
    degrees = arcs.group_by("src").agg(degree="count(*)")
    silent = start.antijoin(degrees, on={"node": "src"}).select("node")
    size = start.group_by(of="1").agg(size="count(*)")
    everyone = start.select("node", of="1")
    least = f"{unit - unit * share.numerator // share.denominator}L"

    def part(of: str) -> str:
        return f"rank * {share.numerator}L div ({share.denominator}L * {of})"

    def step(ranks: Collection) -> Collection:
        ranks = ranks.filter(f"round < {last}").select("node", "rank", round="round + 1")
        shares = ranks.join(degrees, on={"node": "src"}).select("node", "round", rank=part("degree"))
        along = shares.join(arcs, on={"node": "src"}).select(node="dst", round="round", rank="rank")
        lost = ranks.join(silent, on="node").group_by("round").agg(rank="sum(rank)").select("round", "rank", of="1")
        spread = lost.join(size, on="of").select("of", "round", rank=part("size")).join(everyone, on="of")
        parts = along.concat(spread.select("node", "round", "rank"), ranks.select("node", "round", rank=least))
        return parts.group_by("node", "round").agg(rank="sum(rank)").select("node", "rank", "round").concat(start)

    # Each round's ranks are rows of their own: as differences from the round before, all of which changes, they would
    # be there twice, and a later change of them four times.
    ranks = start.iterate(step, max_rounds=last + 2)
    return ranks.filter(f"round = {last}").select("node", "rank")


def _fraction(damping: float | Fraction) -> Fraction:
    """A damping as the fraction that it is written as, in thousandths at the finest: 0.85 is 17/20."""
    try:
        share = Fraction(str(damping)).limit_denominator(1_000)
    except ValueError:
        share = Fraction(-1)
    if not 0 <= share <= 1:
        raise PlanError(f"damping must be a number from 0 to 1, got {damping!r}")
    return share
