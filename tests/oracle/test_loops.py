"""Loops on every runner against iterating from scratch at every time: many epochs a step, deletes, future rows.

The cases of a history travel together, as everywhere: graphs of a few nodes, each with its trial in every row.
"""

from __future__ import annotations

import random

import pytest

import altneu as an
from altneu import Session
from altneu.columnar.hashing import hash_bits
from tests.oracle.histories import History, accumulated, random_cuts, random_history, undone
from tests.oracle.runners import Judge, Runner, contents_of, observe, state_left, table_of

EDGES = an.source("edges", "trial int, src long, dst long, weight long")
ROOTS = an.source("roots", "trial int, node long")
SOURCES = {"edges": EDGES, "roots": ROOTS}
NODES, TIMES = 5, 6
E = EDGES.select("trial", "src", "dst").distinct()
BOTH = E.concat(E.select("trial", src="dst", dst="src")).distinct()
VERTICES = E.select("trial", node="src").concat(E.select("trial", node="dst"), ROOTS).distinct()


def row_of_edges(rng, case):
    return 2 * case, rng.randrange(NODES), rng.randrange(NODES), rng.randint(1, 5)


def row_of_roots(rng, case):
    return 2 * case, rng.randrange(NODES)


TABLES = {"edges": row_of_edges, "roots": row_of_roots}


def step_along(nodes, edges=E):
    """From nodes to the nodes that edges lead to; other columns of a node go with it."""
    rest = [c for c in nodes.columns if c not in ("trial", "node")]
    joined = nodes.join(edges, on={"trial": "trial", "node": "src"})
    return joined.select("trial", *rest, node="dst").select(*nodes.columns)


def reach(edges=E):
    return ROOTS.iterate(lambda x: step_along(x, edges).concat(ROOTS).distinct())


def components(nodes=VERTICES, edges=BOTH):
    own = nodes.select("trial", "node", label="node")

    def least(x):
        return step_along(x, edges).concat(own).group_by("trial", "node").agg(label="min(label)")

    return own.iterate(least)


def components_by_and_by():
    """The least labels first, so that others find their work done."""
    own = VERTICES.select("trial", "node", label="node")

    def least(x):
        first = own.enter_at("2 * (label div 2)")
        return step_along(x, BOTH).concat(first).group_by("trial", "node").agg(label="min(label)")

    return own.filter("false").iterate(least)


def distances():
    start = ROOTS.distinct().select("trial", "node", cost="cast(0 as bigint)")
    edges = EDGES.group_by("trial", "src", "dst").agg(weight="min(weight)")

    def closer(x):
        joined = x.join(edges, on={"trial": "trial", "node": "src"}).select("trial", node="dst", cost="cost + weight")
        return joined.concat(start).group_by("trial", "node").agg(cost="min(cost)")

    return start.iterate(closer)


def even_odd():
    def step(even, odd):
        return step_along(odd).concat(ROOTS).distinct(), step_along(even).distinct()

    even, odd = an.recursive(step, even=ROOTS, odd=ROOTS.filter("false"))
    return even.select("trial", "node", which="'even'").concat(odd.select("trial", "node", which="'odd'"))


def trim(edges):
    """The edges whose ends the same node is the least to reach."""
    own = edges.select("trial", node="dst", label="dst").distinct()

    def least(x):
        return step_along(x, edges).concat(own).group_by("trial", "node").agg(label="min(label)")

    labels = own.iterate(least)
    sides = edges.join(labels, on={"trial": "trial", "src": "node"}).select("trial", "src", "dst", a="label")
    both = sides.join(labels, on={"trial": "trial", "dst": "node"}).filter("a = label")
    return both.select("trial", "src", "dst")


def turned(edges):
    return edges.select("trial", src="dst", dst="src")


def strong():
    return E.iterate(lambda x: turned(trim(turned(trim(x)))))


def k_core():
    def keep(x):
        many = x.group_by("trial", "src").agg(n="count(*)").filter("n >= 2").select("trial", node="src")
        left = x.semijoin(many, on={"trial": "trial", "src": "node"})
        return left.semijoin(many, on={"trial": "trial", "dst": "node"})

    return BOTH.filter("src <> dst").iterate(keep)


def spreading():
    """Not monotone: a node is there when no node with an edge to it was, for a few rounds."""

    def flip(x):
        return VERTICES.antijoin(step_along(x).distinct(), on=["trial", "node"])

    return VERTICES.iterate(flip, max_rounds=4, on_limit="stop")


def paths():
    """Every walk counted: nothing is made distinct."""
    walks = ROOTS.iterate(lambda x: step_along(x).concat(ROOTS), max_rounds=4, on_limit="stop")
    return walks.count()


def collected():
    def gather(x):
        near = step_along(x).concat(ROOTS.select("trial", "node", top="node"))
        return near.top_k(2, "top desc", per=["trial", "node"]).distinct()

    return ROOTS.select("trial", "node", top="node").iterate(gather, max_rounds=5, on_limit="stop")


def numbered():
    """The two nodes with most ways to each; what is behind a node by now is its number."""

    def best(x):
        near = step_along(x).concat(ROOTS.select("trial", "node", top="node"))
        place = near.window(n="row_number() over (partition by trial, node order by top desc)")
        return place.filter("n <= 2").select("trial", "node", top="pmod(top + n, 5)").distinct()

    return ROOTS.select("trial", "node", top="node").iterate(best, max_rounds=5, on_limit="stop")


def with_python():
    def best(key, rows):
        return [max(row.label for row, _ in rows) % 4]

    own = VERTICES.select("trial", "node", label="node")

    def step(x):
        return step_along(x).concat(own).group_by("trial", "node").reduce(best, "label long")

    return own.iterate(step, max_rounds=5, on_limit="stop")


def with_errors():
    own = ROOTS.select("trial", "node", left="node")

    def step(x):
        return step_along(x).concat(own).select("trial", "node", left="6 div (left - 1)").distinct()

    return own.iterate(step, max_rounds=3, on_limit="stop")


def sums():
    def step(x):
        near = step_along(x).concat(ROOTS.select("trial", "node", n="1L"))
        return near.group_by("trial", "node").agg(n="sum(n)", m="count(*)").select("trial", "node", n="pmod(n + m, 7)")

    return ROOTS.select("trial", "node", n="1L").iterate(step, max_rounds=4, on_limit="stop")


PLANS = {
    "reach": reach(),
    "reach of edges for a while": reach(EDGES.temporal("weight", "weight + 3").select("trial", "src", "dst")),
    "reach within a window of the loop": ROOTS.iterate(
        lambda x: step_along(x).concat(ROOTS).distinct().filter("logical_now() >= node - 2")
    ),
    "reach beside what it reaches": reach().join(ROOTS, on=["trial", "node"]).concat(reach().select("trial", "node")),
    "a loop over what a loop gives": components(reach(), BOTH),
    "components": components(),
    "components by and by": components_by_and_by(),
    "distances": distances(),
    "even and odd": even_odd(),
    "strong components": strong(),
    "k-core": k_core(),
    "one round": ROOTS.iterate(lambda x: step_along(x).distinct(), max_rounds=1, on_limit="stop"),
    "nothing happens": ROOTS.iterate(lambda x: x),
    "a body without its variable": ROOTS.iterate(lambda _: VERTICES),
    "not monotone": spreading(),
    "walks": paths(),
    "top_k": collected(),
    "window functions": numbered(),
    "a python reducer": with_python(),
    "errors": with_errors(),
    "sums": sums(),
}


def history_of(seed: int, cases: int, size: int = 3) -> History:
    rng = random.Random(seed)
    history = random_history(rng, TABLES, 2 * cases, TIMES, size)  # in even cases no count is ever below zero
    even = {name: [u for u in updates if u[0][0] % 4 == 0] for name, updates in history.items()}
    end = undone(even, TIMES)
    return {name: updates + end[name] for name, updates in even.items()}


EACH, ONE = list(range(1, TIMES + 2)), [TIMES + 1]
HISTORY = history_of(seed=1, cases=6)
JUDGE = Judge(PLANS, HISTORY)


@pytest.mark.parametrize("name", PLANS)
def test_every_step_shows_what_iterating_gives(runner, name):
    cuts = {"memory": [EACH, ONE, [2, 5, TIMES + 1]], "durable": [[2, 3, TIMES + 1]]}
    for some in cuts.get(runner.name, [[3, 4, TIMES + 1]]):
        JUDGE.check(name, runner.run({name: PLANS[name]}, SOURCES, HISTORY, some)[name])


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("seed", range(3))
def test_other_histories_and_cuts(name, seed):
    history = history_of(seed=100 + seed, cases=3)
    cuts = random_cuts(random.Random(seed), TIMES + 1)
    runner = Runner("memory", lambda _: Session(shards=1 + seed), ahead=seed == 1)
    Judge(PLANS, history).check(name, runner.run({name: PLANS[name]}, SOURCES, history, cuts)[name])


@pytest.mark.parametrize("name", PLANS)
def test_collisions_of_hashes_change_nothing(name):
    history = history_of(seed=2, cases=2)
    with hash_bits(2):
        traces = Runner("memory", lambda _: Session()).run({name: PLANS[name]}, SOURCES, history, [3, TIMES + 1])
    Judge(PLANS, history).check(name, traces[name])


@pytest.mark.parametrize("name", PLANS)
def test_a_late_view_shows_the_same(name):
    """Computed from what another view keeps, beside it, and after the loop's own view was there."""
    with Session(retain="all") as session:
        for source in SOURCES.values():
            session.maintain(f"keep {source.node.name}", an.source(source.node.name, source.schema))
        _insert(session, 0, 3)
        session.advance(to=3)
        view = session.maintain(name, PLANS[name])
        again = session.maintain("again", PLANS[name].select("*", more="1"))
        for time in range(3):
            assert observe(view, 2, 3).contents == JUDGE.expected(name, 2)[0]
            assert contents_of(view, time) == JUDGE.expected(name, time)[0]
        _insert(session, 3, TIMES + 1)
        session.advance(to=TIMES)
        assert contents_of(view) == JUDGE.expected(name, TIMES - 1)[0]
        assert sum(contents_of(again).values()) == sum(JUDGE.expected(name, TIMES - 1)[0].values())


def _insert(session, lower, upper):
    for name, source in SOURCES.items():
        updates = [u for u in HISTORY[name] if lower <= u[1] < upper]
        session.insert(name, table_of(updates, source), time="time", diff="diff")


@pytest.mark.parametrize("name", PLANS)
def test_retracting_everything_returns_to_nothing(name):
    with Session(shards=2) as session:
        view = session.maintain(name, PLANS[name])
        kept = []
        for time in range(12):
            for source in session._engine.declared:
                there = accumulated(HISTORY[source], TIMES - 1)
                updates = [(row, time, n if time % 2 == 0 else -n) for row, n in there.items()]
                session.insert(source, table_of(updates, SOURCES[source]), time="time", diff="diff")
            kept.append(session.advance().state_rows)
        session.advance(to=30)
        assert not view.to_pylist()
        assert not [name for name, _ in state_left(session)]
        assert kept[-1] <= 3 * max(kept[:2]) + 64
