"""What tests of operators share with other tests."""

from __future__ import annotations

import random

from tests.oracle.histories import History, random_history, undone
from tests.oracle.queries import SOURCES, TABLES, queries
from tests.oracle.runners import Judge

__all__ = ["HISTORY", "JUDGE", "PLANS", "SOURCES", "TIMES"]

PLANS = queries()
TIMES = 7  # of random changes; at one time more everything is taken back


def history_of(seed: int, cases: int, size: int) -> History:
    history = random_history(random.Random(seed), TABLES, cases, TIMES, size)
    end = undone(history, TIMES)
    return {name: updates + end[name] for name, updates in history.items()}


HISTORY = history_of(seed=1, cases=8, size=3)
JUDGE = Judge(PLANS, HISTORY)
