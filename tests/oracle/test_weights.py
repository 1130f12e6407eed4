"""Weights of every kind on every runner against tables of rows and weights, at every time."""

from __future__ import annotations

import random

import pytest

from altneu import Session
from tests.lane import seeds
from tests.oracle.histories import random_cuts
from tests.oracle.runners import Runner
from tests.oracle.weights_cases import KINDS, ByWeight, Q, Weigher, even, history_of, plans_of, queries_of

TIMES = 6
CUTS = [2, 3, TIMES]
SOME = [
    "by key",
    "function",
    "together",
    "partners",
    "less",
    "product",
    "exploded",
    "left",
    "loop",
]  # where steps take longer


def weigher(name: str, seed: int) -> Weigher:
    """Counts below zero for groups alone: of others the weight would be of rows that are not there."""
    history = history_of(seed)
    return Weigher(plans_of(name), history if KINDS[name].group else even(history), {}, name, queries_of(name))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", KINDS)
def test_every_time_shows_the_weights_of_the_table(runner: Runner, name: str) -> None:
    judge, runner = weigher(name, 1), ByWeight(**vars(runner), kind=name)
    sources = {"p": KINDS[name].source, "q": Q}
    names = [n for n in judge.plans if runner.name == "memory" or n in SOME]
    judge.run(runner, sources, CUTS, [n for n in names if n not in KEYS])
    if some := [n for n in names if n in KEYS]:
        judge.history = even(judge.history)
        judge.known.clear()
        judge.run(runner, sources, CUTS, some)


KEYS = {"without", "right of all"}
"""They look for keys of an ordinary collection, of which counts below zero are errors."""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("seed", seeds(2, 1))
def test_other_histories_and_cuts(name: str, seed: int) -> None:
    judge, cuts = weigher(name, 10 + seed), random_cuts(random.Random(seed), TIMES)
    memory = ByWeight("memory", lambda _: Session(shards=1 + seed), ahead=seed == 1, together=True, kind=name)
    judge.run(memory, {"p": KINDS[name].source, "q": Q}, cuts, [n for n in judge.plans if n not in KEYS])
