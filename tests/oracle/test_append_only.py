"""Append-only sources: every view shows what it shows of others, whatever rows of its groups are not kept."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

import altneu as an
from altneu import Collection, Session
from altneu.columnar.hashing import hash_bits
from altneu.plan import ir
from altneu.plan.rewrite import optimise
from altneu.plan.rewrite.transform import transform
from tests.oracle import loops_cases, two_times_cases
from tests.oracle.histories import History, random_cuts, random_history
from tests.oracle.plans import KEY, TABLES, random_plan
from tests.oracle.runners import Judge, Runner

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


def marks(collection: Collection) -> list[bool]:
    """Of the reduces of a plan which keep the best rows."""
    return [node.keeps_best for node in ir.walk(optimise(collection.node)) if isinstance(node, ir.Reduce)]


HISTORY, CUTS = growing(5), [2, 3, 6, 8]
JUDGE = Judge(KEPT | WHOLE, HISTORY)


@pytest.mark.parametrize("name", KEPT)
def test_best_rows_are_all_that_is_kept(name: str) -> None:
    assert any(marks(KEPT[name]))


@pytest.mark.parametrize("name", WHOLE)
def test_groups_are_kept_whose_best_rows_may_become_worse(name: str) -> None:
    *_, last = marks(WHOLE[name])
    assert not last


@pytest.mark.sampled(2)
def test_every_view_shows_what_it_shows_of_other_sources(runner: Runner) -> None:
    """On Spark, whose steps take longer, fewer views."""
    quick = runner.name not in ("driver", "spark", "mixed")
    some = ["both ends", "beside sums", "first", "of the best", "distances", "predecessors", "a loop that turns"]
    JUDGE.run(runner, SOURCES, CUTS, [*KEPT, *WHOLE] if quick else some)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(4))
def test_other_histories_and_cuts(seed: int) -> None:
    judge, cuts = Judge(KEPT | WHOLE, growing(20 + seed)), random_cuts(random.Random(seed), 8)
    judge.run(Runner("memory", lambda _: Session(shards=1 + seed), ahead=seed == 1), SOURCES, cuts)


def test_collisions_of_hashes_change_nothing() -> None:
    with hash_bits(2):
        JUDGE.run(Runner("memory", lambda _: Session()), SOURCES, [3, 8])


def test_history_that_is_retained_shows_every_time() -> None:
    JUDGE.run(Runner("memory", lambda _: Session(retain="all")), SOURCES, CUTS)


@pytest.mark.parametrize("seed", range(60))
def test_random_plans(seed: int) -> None:
    rng = random.Random(seed)
    plans = {"plan": random_plan(rng, 6, SOURCES)}
    Judge(plans, growing(seed, cases=2)).run(Runner("memory", lambda _: Session()), SOURCES, random_cuts(rng, 8))


def only_growing(collection: Collection) -> Collection:
    """The same over sources that are append-only."""

    def change(new: ir.Node, _: ir.Node) -> ir.Node:
        return replace(new, append_only=True) if isinstance(new, ir.Source) else new

    return Collection(transform(collection.node, change))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", loops_cases.PLANS)
def test_loops_of_all_kinds(name: str) -> None:
    sources = {own: only_growing(source) for own, source in loops_cases.SOURCES.items()}
    history = {own: [u for u in updates if u[2] > 0] for own, updates in loops_cases.HISTORY.items()}
    plans: Mapping[str, Collection] = {name: only_growing(loops_cases.PLANS[name])}
    judge, end = Judge(plans, history), loops_cases.TIMES + 1
    for cuts in ([2, 3, end], [end]):
        judge.run(Runner("memory", lambda _: Session(shards=2)), sources, cuts)


TIMED = two_times_cases.PLANS | {
    "least": two_times_cases.A.group_by("trial", "k").agg(lo="min(v)"),
    "both ends": two_times_cases.A.group_by("trial").agg(lo="min(v)", hi="max(v)", of="max(k)"),
    "first": two_times_cases.A.top_k(1, "v desc, k", per="trial"),
    "of the best": two_times_cases.A.group_by("trial", "k").agg(hi="max(v)").group_by("trial").agg(h="max(hi + k)"),
}


@pytest.mark.parametrize("name", TIMED)
@pytest.mark.parametrize("seed", range(2))
def test_two_times(name: str, seed: int) -> None:
    plan, history = only_growing(TIMED[name]), two_times_cases.History.random(3 + seed)
    history.a = [update for update in history.a if update[2] > 0]
    assert any(marks(plan)) or name not in ("least", "both ends", "first", "of the best", "labels")
    with Session(retain="all" if seed else None, shards=2) as session:
        view = session.maintain("v", plan)
        for lower, upper in pairwise([0, 2, 3, two_times_cases.SYSTEMS]):
            history.insert(session, lower, upper)
            session.advance(to=upper)
        last = two_times_cases.SYSTEMS
        two_times_cases.check(view, plan, history, last, range(last) if seed else [last - 1])
