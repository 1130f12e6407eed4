"""Joins of three and more collections at once, on every runner, against recomputation at every time.

Patterns with and without cycles, relations with columns of their own, texts and nulls, negative counts, future rows,
many times a step, and inside loops: each as a delta join, whatever the optimiser would choose.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import altneu as an
from altneu import Session
from altneu.columnar.hashing import hash_bits
from altneu.plan import ir
from tests.oracle.histories import accumulated, random_cuts, random_history, undone
from tests.oracle.runners import Judge, Runner, contents_of, observe, state_left, table_of

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
    made, known = None, ""
    for edge, source in edges:
        side = source.select("trial", **dict(zip(edge, source.columns[1:3], strict=True)), **rest_of(source, edge))
        if made is None:
            made = side
        else:
            shared = ["trial", *(c for c in edge if c in known)]
            made = made.join(side, on=shared)
        known += edge
    return made


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
        made = pattern(("ab", x), ("bc", E), ("cd", E), ("ad", x.select("trial", src="dst", dst="src")))
        return made.select("trial", src="a", dst="c").concat(E).distinct()

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


EACH, ONE = list(range(1, TIMES + 2)), [TIMES + 1]
HISTORY = history_of(seed=1, cases=6)
JUDGE = Judge(PLANS, HISTORY)
JUDGE_EVEN = Judge(PLANS, even(HISTORY))


def judge_of(name):
    return JUDGE_EVEN if name in ("truss", "closing", "cliques of four") else JUDGE


@pytest.mark.parametrize("name", PLANS)
def test_every_step_shows_what_joining_gives(runner, name):
    cuts = {"memory": [EACH, ONE, [2, 4, TIMES + 1]], "shards": [EACH, ONE], "durable": [[2, 3, TIMES + 1]]}
    judge = judge_of(name)
    for some in cuts.get(runner.name, [[3, 4, TIMES + 1]]):
        made = replace(runner, joins="delta").run({name: PLANS[name]}, SOURCES, judge.history, some)
        judge.check(name, made[name])


def test_delta_joins_are_what_was_run():
    for name, plan in PLANS.items():
        with Session() as session:
            session.maintain("v", plan, joins="delta")
            joins = [n for n in ir.walk(session._engine.catalogue.nodes["v"]) if isinstance(n, ir.MultiJoin)]
            assert joins, name
            assert "delta join of" in session.explain("v")


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("seed", range(3))
def test_other_histories_and_cuts(name, seed):
    history = even(history_of(seed=100 + seed, cases=6)) if name in ("truss", "closing", "cliques of four") else None
    history = history or history_of(seed=100 + seed, cases=3)
    cuts = random_cuts(random.Random(seed), TIMES + 1)
    runner = Runner("memory", lambda _: Session(shards=1 + seed), ahead=seed == 1, joins="delta")
    Judge(PLANS, history).check(name, runner.run({name: PLANS[name]}, SOURCES, history, cuts)[name])


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("shards", [1, 2])
def test_collisions_of_hashes_change_nothing(name, shards):
    history = even(history_of(seed=2, cases=4))
    with hash_bits(2):
        runner = Runner("memory", lambda _: Session(shards=shards), joins="delta")
        traces = runner.run({name: PLANS[name]}, SOURCES, history, [3, TIMES + 1])
    Judge(PLANS, history).check(name, traces[name])


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("shards", [1, 2])
def test_a_late_view_shows_the_same(name, shards):
    judge = judge_of(name)
    with Session(shards=shards, retain="all") as session:
        for source in SOURCES.values():
            session.maintain(f"keep {source.node.name}", an.source(source.node.name, source.schema))
        _insert(session, judge, 0, 3)
        session.advance(to=3)
        view = session.maintain(name, PLANS[name], joins="delta")
        for time in range(3):
            assert contents_of(view, time) == +judge.expected(name, time)[0]
        assert observe(view, 2, 3).contents == +judge.expected(name, 2)[0]
        _insert(session, judge, 3, TIMES + 1)
        session.advance(to=TIMES)
        assert contents_of(view) == +judge.expected(name, TIMES - 1)[0]


def _insert(session, judge, lower, upper):
    for name, source in SOURCES.items():
        updates = [u for u in judge.history[name] if lower <= u[1] < upper]
        session.insert(name, table_of(updates, source), time="time", diff="diff")


@pytest.mark.parametrize("name", PLANS)
def test_retracting_everything_returns_to_nothing(name):
    judge = judge_of(name)
    with Session(shards=2) as session:
        view = session.maintain(name, PLANS[name], joins="delta")
        for time in range(6):
            for source in session._engine.declared:
                there = accumulated(judge.history[source], TIMES - 1)
                updates = [(row, time, n if time % 2 == 0 else -n) for row, n in there.items()]
                session.insert(source, table_of(updates, SOURCES[source]), time="time", diff="diff")
            session.advance()
        session.advance(to=20)
        assert not view.to_pylist()
        assert not [name for name, _ in state_left(session)]
