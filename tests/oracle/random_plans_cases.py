"""What tests of random plans share with other tests."""

from __future__ import annotations

import random
from dataclasses import replace

from tests.oracle.histories import History, random_cuts, random_history
from tests.oracle.plans import SOURCES, TABLES, random_plan
from tests.oracle.runners import Judge, Runner


class Scene:
    """A history, some plans over it that share a session, and the steps in which it is told."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        times = rng.randint(3, 8)
        self.history: History = random_history(rng, TABLES, rng.randint(1, 6), times, rng.randint(1, 4))
        self.plans = {str(i): random_plan(rng, rng.randint(2, 9)) for i in range(6)}
        self.cuts = random_cuts(rng, times)

    def check(self, runner: Runner) -> None:
        judge = Judge(self.plans, self.history)
        for name, trace in replace(runner, together=True).run(self.plans, SOURCES, self.history, self.cuts).items():
            judge.check(name, trace)
