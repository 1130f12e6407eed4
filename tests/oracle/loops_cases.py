"""What tests of loops share with other tests."""

from __future__ import annotations

import random

import altneu as an
from tests.oracle.histories import History, random_history, undone
from tests.oracle.runners import Judge, table_of

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


def at_different_paces():
    """Not monotone, so that the result at the limit depends on what each variable is in each round."""

    def body(near, far, told):
        seen = step_along(near).concat(far).distinct()
        return (
            VERTICES.antijoin(seen, on=["trial", "node"]),
            near.semijoin(told, on=["trial", "node"]),
            ROOTS.distinct(),
        )

    none = ROOTS.filter("false")
    near, far, _ = an.recursive(
        body, near=VERTICES, far=none, told=none, max_rounds=7, on_limit="stop", step={"near": 2, "far": 1, "told": 3}
    )
    return near.select("*", which="'near'").concat(far.select("*", which="'far'"))


def paths():
    """Every walk counted: nothing is made distinct."""
    walks = ROOTS.iterate(lambda x: step_along(x).concat(ROOTS), max_rounds=4, on_limit="stop")
    return walks.count()


def collected():
    def gather(x):
        near = step_along(x).concat(ROOTS.select("trial", "node", top="node"))
        return near.top_k(2, "top desc", per=["trial", "node"]).distinct()

    return ROOTS.select("trial", "node", top="node").iterate(gather, max_rounds=5, on_limit="stop")


def best_two(function):
    """The two nodes with most ways to each; what is behind a node by now is its number."""

    def best(x):
        near = step_along(x).concat(ROOTS.select("trial", "node", top="node"))
        place = near.window(n=f"{function}() over (partition by trial, node order by top desc)")
        return place.filter("n <= 2").select("trial", "node", top="pmod(top + n, 5)").distinct()

    return ROOTS.select("trial", "node", top="node").iterate(best, max_rounds=5, on_limit="stop")


def numbered():
    return best_two("row_number")


def ranked():
    """The same with all that are as good."""
    return best_two("dense_rank")


def counted_back():
    """What is behind a node, and the most frequent of what is left."""

    def best(x):
        near = step_along(x).concat(ROOTS.select("trial", "node", top="node"))
        behind = "order by top rows between current row and unbounded following"
        few = near.window(n=f"count(*) over (partition by trial, node {behind})").filter("n <= 2")
        most = few.group_by("trial", "node").agg(m="mode(top)", n="count(distinct top, n)", h="median(distinct n)")
        return most.select("trial", "node", top="pmod(m + n, 5)").filter("top >= 0")

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


def weighed():
    """The number of walks to each node, of up to so many steps."""
    own = ROOTS.select("trial", "node", n="1L").weighted(an.weights.Sums("n"))

    def step(x):
        return x.join(E, on={"trial": "trial", "node": "src"}).select("trial", node="dst").concat(own)

    return own.iterate(step, max_rounds=4, on_limit="stop").consolidate()


PLANS = {
    "weights": weighed(),
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
    "at different paces": at_different_paces(),
    "top_k": collected(),
    "window functions": numbered(),
    "first ranks": ranked(),
    "window functions of what is behind": counted_back(),
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


HISTORY = history_of(seed=1, cases=6)
JUDGE = Judge(PLANS, HISTORY)


def _insert(session, lower, upper):
    for name, source in SOURCES.items():
        updates = [u for u in HISTORY[name] if lower <= u[1] < upper]
        session.insert(name, table_of(updates, source), time="time", diff="diff")
