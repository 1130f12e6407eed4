"""Resharding: after it every step gives what it would have given, and nothing is read but what is kept."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import altneu as an
from altneu import Session
from tests.oracle.agree import FAMILIES
from tests.oracle.agree import Batch as Batch_of_runs
from tests.oracle.queries import SOURCES
from tests.oracle.runners import Judge, Runner
from tests.oracle.test_random_plans import Scene

TRADES = an.source("trades", "item string, price long")
TOTAL = TRADES.group_by("item").agg(n="count(*)", total="sum(price)")


def parting(rng: random.Random, shards: int = 64):
    """Before a step, now and then: more shards."""

    def before(session: Session, step: int) -> None:
        if step and rng.random() < 0.6 and session.shards < shards:
            session.reshard(session.shards * rng.choice([2, 2, 3]))

    return before


@pytest.mark.parametrize("seed", range(8))
def test_random_plans_go_on_as_if_nothing_had_happened(seed, tmp_path_factory):
    rng = random.Random(seed)
    folder = lambda: tmp_path_factory.mktemp("store") if seed % 2 else None  # noqa: E731
    opened = lambda path: Session(path=path, shards=1 if rng.random() < 0.3 else 2)  # noqa: E731
    runner = Runner("parted", opened, folder, ahead=seed % 3 == 0, before_step=parting(rng))
    scene = Scene(seed + 100)
    scene.cuts = list(range(1, scene.cuts[-1] + 1))
    scene.check(runner)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_loops_go_on_as_if_nothing_had_happened(family):
    rng = random.Random(family.name)
    batch = replace(Batch_of_runs.draw(rng, 12), cuts=[2, 4, 6, 9])
    opened = lambda _: Session(shards=batch.shards, retain=batch.retain)  # noqa: E731
    plans = {family.name: family.plan}
    runner = Runner("parted", opened, ahead=True, before_step=parting(rng))
    sources = {"edges": SOURCES} and __import__("tests.oracle.agree", fromlist=["SOURCES"]).SOURCES
    trace = runner.run(plans, sources, batch.history, batch.cuts)[family.name]
    Judge(plans, batch.history).check(family.name, trace)
