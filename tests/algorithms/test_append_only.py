"""Algorithms over graphs that only grow: the same results, and of each node the best rows and not one for each edge."""

from __future__ import annotations

import random

import pytest

import altneu as an
from altneu import Collection, Session

ALGORITHMS = {
    "bfs": an.algorithms.bfs,
    "bfs, both ways": lambda e, r: an.algorithms.bfs(e, r, directed=False),
    "shortest paths": an.algorithms.shortest_paths,
    "components": lambda e, _: an.algorithms.connected_components(e),
    "propagate": lambda e, r: an.algorithms.propagate(e.select("src", "dst"), r.select("node", label="node")),
}


def sources(*, append_only: bool) -> tuple[Collection, Collection]:
    return (
        an.source("edges", "src long, dst long, weight long", append_only=append_only),
        an.source("roots", "node long", append_only=append_only),
    )


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("shards", [1, 2])
def test_graphs_that_only_grow(name: str, shards: int) -> None:
    rng = random.Random(shards)
    with Session(shards=shards) as session, Session() as other:
        for own, append_only in ((session, True), (other, False)):
            own.maintain("v", ALGORITHMS[name](*sources(append_only=append_only)))
        for _ in range(8):
            edges = [(rng.randrange(40), rng.randrange(40), rng.randrange(1, 50)) for _ in range(rng.randrange(40))]
            roots = [(rng.randrange(40),)] * rng.randrange(2)
            shown = []
            for own in (session, other):
                own.insert("edges", edges)
                if "roots" in own.sources:
                    own.insert("roots", roots)
                own.advance()
                shown.append(sorted(own.view("v").to_pylist()))
            assert shown[0] == shown[1]
        assert "the first row of each key" in session.explain("v")
        assert "the first row of each key" not in other.explain("v")


@pytest.mark.parametrize("name", ALGORITHMS)
def test_state_does_not_grow_with_the_edges_of_a_node(name: str) -> None:
    kept = []
    for degree in (5, 500):
        edges, roots = sources(append_only=True)
        with Session() as session:
            session.maintain("v", ALGORITHMS[name](edges, roots))
            if "roots" in session.sources:
                session.insert("roots", [(0,)])
            session.insert("edges", [(i % 20, (i * 7 + i // 20) % 20, 1 + i * 7919 % 97) for i in range(20 * degree)])
            session.advance()
            plan, table = session._engine.plan, session._engine.table
            names = [own for own, i in plan.arrangements.items() if "first by" in plan.nodes[i].label]
            assert names
            kept.append(sum(map(table.rows, names)))
    assert max(kept) <= 20 * 10
