"""Append-only sources: every view shows what it shows of others, whatever rows of its groups are not kept."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest

from altneu import Collection, Session
from altneu.columnar.hashing import hash_bits
from altneu.plan import ir
from altneu.plan.rewrite import optimise
from altneu.plan.rewrite.transform import transform
from tests.oracle import loops_cases, two_times_cases
from tests.oracle.append_only_cases import CUTS, HISTORY, KEPT, SOURCES, WHOLE, growing
from tests.oracle.histories import random_cuts
from tests.oracle.plans import random_plan
from tests.oracle.runners import Judge, Runner


def marks(collection: Collection) -> list[bool]:
    """Of the reduces of a plan which keep the best rows."""
    return [node.keeps_best for node in ir.walk(optimise(collection.node)) if isinstance(node, ir.Reduce)]


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
