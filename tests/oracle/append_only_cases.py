"""Plans over sources that only grow."""

from __future__ import annotations

import random
from typing import Any

import altneu as an
from altneu import Collection
from tests.oracle.histories import History, random_history
from tests.oracle.plans import KEY, TABLES

ROWS = "trial int, k long, v long"
SOURCES = {name: an.source(name, ROWS, append_only=True, keep=name == "p") for name in ("p", "q")}
P, Q = SOURCES.values()
EDGES = Q.filter("k is not null and v is not null").select("trial", src="k", dst="v")
START = P.filter("k is not null").select("trial", node="k", cost="coalesce(v, 3)")


def along(nodes: Collection, cost: str) -> Collection:
    return nodes.join(EDGES, on={"trial": "trial", "node": "src"}).select("trial", node="dst", cost=cost)


def distances(cost: str = "cost + 1") -> Collection:
    """The nodes that a few are reached from, and the least cost of each; the graph has loops."""
    return START.iterate(lambda x: along(x, cost).concat(START).group_by("trial", "node").agg(cost="min(cost)"))


def widest() -> Collection:
    """The greatest number of each node that leads to one, and of what leads there."""
    return START.iterate(lambda x: along(x, "cost").concat(START).group_by("trial", "node").agg(cost="max(cost)"))


def predecessors() -> Collection:
    """With the least cost the node before, which is free to change."""
    start = START.select("trial", "node", "cost", before="node")

    def closer(x: Collection) -> Collection:
        near = x.join(EDGES, on={"trial": "trial", "node": "src"})
        near = near.select("trial", node="dst", cost="cost + 1", before="node")
        return near.concat(start).top_k(1, "cost nulls last, before nulls last", per=["trial", "node"])

    return start.iterate(closer)


def from_the_best(added: Collection, order: str = "", **limit: Any) -> Collection:
    """A loop that begins with the best rows of START, and adds others in every round."""
    columns = ["trial", "node"]

    def best(x: Collection) -> Collection:
        return x.top_k(1, order, per=columns) if order else x.group_by(*columns).agg(cost="min(cost)")

    return best(START).iterate(lambda x: best(along(x, "cost + 1").concat(added)), **limit)


KEPT = {
    "begins with the least": from_the_best(START),
    "begins with the first": from_the_best(START, "cost nulls last"),
    "max": P.group_by(*KEY).agg(hi="max(v)"),
    "min": P.group_by(*KEY).agg(lo="min(v)"),
    "both ends": P.group_by(*KEY).agg(lo="min(v)", hi="max(v)", odd="max(pmod(v, 3))"),
    "beside sums": P.group_by(*KEY).agg(hi="max(v)", n="count(*)", s="sum(v)", lo="min(v)"),
    "all": P.group_by().agg(lo="min(v)", hi="max(k)"),
    "all beside a sum": P.group_by().agg(lo="min(v)", n="count(v)"),
    "by one": P.group_by("trial").agg(a="max_by(k, v)", v="max(v)"),
    "by": P.group_by("trial").agg(a="max_by(k, v)", b="min_by(v, k)"),
    "first": P.top_k(1, "v desc, k", per="trial"),
    "first of all": P.top_k(1, "v"),
    "of a join": P.join(Q, on=KEY).select(*KEY, w="v + coalesce(`right.v`, 1)").group_by(*KEY).agg(hi="max(w)"),
    "of a sum": P.concat(Q, P.filter("v > 1")).distinct().group_by("k").agg(lo="min(v)"),
    "of the best": P.group_by(*KEY).agg(hi="max(v)").group_by("trial").agg(hi="max(hi)"),
    "of the best, above a bound": P.group_by(*KEY)
    .agg(hi="max(v)")
    .filter("hi >= 2")
    .group_by("trial")
    .agg(h="max(hi)"),
    "distances": distances(),
    "labels": distances("cost"),
    "widest": widest(),
    "predecessors": predecessors(),
    "labels that enter by and by": START.filter("false").iterate(
        lambda x: along(x, "cost").concat(START.enter_at("cost")).group_by("trial", "node").agg(cost="min(cost)")
    ),
    "distances of distances": distances().join(Q, on=["trial"]).group_by("node").agg(least="min(cost - v)"),
}
WHOLE = {
    "begins with the least, and adds less": from_the_best(START.filter("cost > 1"), max_rounds=3, on_limit="stop"),
    "falls and rises": P.group_by(*KEY).agg(hi="max(v)").group_by("trial").agg(lo="min(hi)"),
    "of counts": P.group_by(*KEY).agg(n="count(*)").group_by("trial").agg(hi="max(n)"),
    "of what goes": P.filter("logical_now() < v + 3").group_by(*KEY).agg(hi="max(v)"),
    "less": P.concat(Q.negate()).group_by(*KEY).agg(hi="max(v)"),
    "without": P.antijoin(Q, on=KEY).group_by("trial").agg(hi="max(v)"),
    "below a bound": P.group_by(*KEY).agg(hi="max(v)").filter("hi < 2").group_by("trial").agg(h="max(hi)"),
    "what a better row may fail at": P.group_by(*KEY)
    .agg(hi="max(v)")
    .select("trial", "hi", x="10 div (hi - 2)")
    .group_by("trial")
    .agg(h="max(hi)", n="count(x)"),
    "beside sums that may leave their range": P.group_by(*KEY)
    .agg(hi="max(v)", s="sum(v)")
    .group_by("trial")
    .agg(h="max(hi)", n="count(s)"),
    "a loop that begins with more": START.iterate(
        lambda x: along(x, "cost").group_by("trial", "node").agg(cost="min(cost)"), max_rounds=3, on_limit="stop"
    ),
    "a loop that turns": START.iterate(
        lambda x: along(x, "3 - cost").concat(START).group_by("trial", "node").agg(cost="min(cost)"),
        max_rounds=4,
        on_limit="stop",
    ),
}
"""Plans of which a reduce reads more than the best rows, or these may become worse."""


def growing(seed: int, cases: int = 4, times: int = 8, size: int = 3) -> History:
    """Rows that are only added, several copies of some."""
    history = random_history(random.Random(seed), TABLES, cases, times, size)
    return {name: [update for update in updates if update[2] > 0] for name, updates in history.items()}


HISTORY, CUTS = growing(5), [2, 3, 6, 8]
