"""What is run on the cluster: three views over a graph that changes, and what they ought to show."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import altneu as an

NODES, EDGES, STEPS = 400, 3_000, 6

Row = tuple[int, int]

edges = an.source("edges", "src long, dst long")
VIEWS = {
    "degrees": edges.group_by("dst").agg(n="count(*)", total="sum(src)"),
    "hops": edges.join(edges, on={"dst": "src"}).select("src", far="right.dst").group_by("src").agg(most="max(far)"),
    "near": edges.filter("src < 5")
    .select(node="dst")
    .distinct()
    .iterate(lambda near: near.concat(near.join(edges, on={"node": "src"}).select(node="right.dst")).distinct()),
}


def changes(step: int) -> tuple[list[Row], list[Row]]:
    """The edges that come and go in a step: what goes is of the edges that came in the step before."""
    came = edges_of_step(step)
    return came, random.Random(-step).sample(edges_of_step(step - 1), EDGES // 8) if step else []


def edges_of_step(step: int) -> list[Row]:
    rng = random.Random(step)
    return [(rng.randrange(NODES), rng.randrange(NODES)) for _ in range(EDGES if step == 0 else EDGES // 4)]


def maintain(session: an.Session) -> dict[str, an.View]:
    """The views of a session."""
    return {name: session.maintain(name, view) for name, view in VIEWS.items()}


def go_on(session: an.Session, until: int = STEPS) -> Iterator[int]:
    """Take the steps that the session has not taken yet; the number of each when it is over."""
    for step in range(session.lower, until):
        came, went = changes(step)
        session.insert("edges", came)
        session.retract("edges", went)
        session.advance()
        yield step


def contents(views: dict[str, an.View]) -> dict[str, Counter[Row]]:
    """What the views show."""
    return {name: Counter(view.to_pylist()) for name, view in views.items()}


def expected(until: int = STEPS) -> dict[str, Counter[Row]]:
    """What an undisturbed session in this process shows after ``until`` steps."""
    with an.Session() as session:
        views = maintain(session)
        assert list(go_on(session, until)) == list(range(until))
        return contents(views)
