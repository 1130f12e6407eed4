"""What tests of delta joins share with other tests."""

from __future__ import annotations

import random

import altneu as an
from tests.oracle.histories import random_history, undone
from tests.oracle.runners import Judge

EDGES = an.source("edges", "trial int, src long, dst long, weight long")
LINKS = an.source("links", "trial int, a string, b string")
MARKS = an.source("marks", "trial int, node long, mark string")
SOURCES = {"edges": EDGES, "links": LINKS, "marks": MARKS}
NODES, TIMES = 4, 5
E = EDGES.select("trial", "src", "dst")


def row_of_edges(rng, case):
    return case, rng.randrange(NODES), rng.randrange(NODES), rng.randint(1, 2)


def row_of_links(rng, case):
    return case, rng.choice(["x", "y", "zz", None]), rng.choice(["x", "y", "zz", None])


def row_of_marks(rng, case):
    return case, rng.choice([*range(NODES), None]), rng.choice(["x", "y"])


TABLES = {"edges": row_of_edges, "links": row_of_links, "marks": row_of_marks}


def pattern(*edges):
    """The matches of a pattern of edges, each two letters: its nodes."""
    result, known = None, ""
    for edge, source in edges:
        side = source.select("trial", **dict(zip(edge, source.columns[1:3], strict=True)), **rest_of(source, edge))
        if result is None:
            result = side
        else:
            shared = ["trial", *(c for c in edge if c in known)]
            result = result.join(side, on=shared)
        known += edge
    return result


def rest_of(source, edge):
    return {f"{name}_{edge}": name for name in source.columns[3:]}


def edges_of(*names, source=E):
    return pattern(*((name, source) for name in names))


def truss():
    """What is left when edges in no triangle are taken off, again and again."""

    def keep(x):
        corners = edges_of("ab", "bc", "ac", source=x)
        sides = [corners.select("trial", src=a, dst=b) for a, b in ("ab", "bc", "ac")]
        return x.semijoin(sides[0].concat(*sides[1:]).distinct(), on=["trial", "src", "dst"])

    return E.distinct().iterate(keep)


def closing():
    """Paths of three edges closed, until there is nothing to close; two of the edges from outside."""

    def step(x):
        result = pattern(("ab", x), ("bc", E), ("cd", E), ("ad", x.select("trial", src="dst", dst="src")))
        return result.select("trial", src="a", dst="c").concat(E).distinct()

    return E.distinct().iterate(step, max_rounds=4, on_limit="stop")


PLANS = {
    "triangles": edges_of("ab", "bc", "ac"),
    "triangles of weights": edges_of("ab", "bc", "ac", source=EDGES),
    "directed circles": edges_of("ab", "bc", "ca"),
    "cliques of four": edges_of("ab", "bc", "ac", "cd", "ad", "bd", source=E.distinct()),
    "diamonds": edges_of("ab", "bc", "ac", "bd", "cd"),
    "circles of four": edges_of("ab", "bc", "cd", "da"),
    "chains": edges_of("ab", "bc", "cd"),
    "stars": pattern(("ab", EDGES), ("ac", MARKS), ("bd", MARKS)),
    "twice the same edge": edges_of("ab", "ab", "bc"),
    "texts and nulls": pattern(("ab", LINKS), ("bc", LINKS), ("ac", LINKS)),
    "texts and nulls in circles": pattern(("ab", LINKS), ("bc", LINKS), ("cd", LINKS), ("da", LINKS)),
    "marked triangles": pattern(("ab", E), ("bc", E), ("ac", E), ("ax", MARKS), ("bx", MARKS)),
    "triangles of other kinds": edges_of("ab", "bc").join(
        EDGES.group_by("trial", "src", "dst").agg(n="sum(weight)"), on={"trial": "trial", "a": "src", "c": "dst"}
    ),
    "triangles for a while": edges_of("ab", "bc", "ac", source=EDGES.temporal("weight", "weight + 3")),
    "what a filter leaves": edges_of("ab", "bc", "ac").filter("a <> b and 4 div (c - 1) > 0").select("a", "c"),
    "a filter on the way": edges_of("ab", "bc")
    .filter("a <> c and b <= 2")
    .join(E, on={"trial": "trial", "a": "src", "c": "dst"}),
    "truss": truss(),
    "closing": closing(),
}


def history_of(seed, cases, size=3):
    rng = random.Random(seed)
    history = random_history(rng, TABLES, cases, TIMES, size)
    end = undone(history, TIMES)
    return {name: updates + end[name] for name, updates in history.items()}


def even(history):
    """The cases in which no count is ever below zero: what is not there may not be distinct."""
    return {name: [u for u in updates if u[0][0] % 2 == 0] for name, updates in history.items()}


HISTORY = history_of(seed=1, cases=6)
JUDGE = Judge(PLANS, HISTORY)
JUDGE_EVEN = Judge(PLANS, even(HISTORY))


def judge_of(name):
    return JUDGE_EVEN if name in ("truss", "closing", "cliques of four") else JUDGE
