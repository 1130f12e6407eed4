"""Random histories: few keys, small values, nulls, duplicates, retractions, simultaneous changes that cancel or not.

Many independent histories travel in one: the first column of every row is its case. In even cases no count is ever
below zero; odd cases retract whatever they like, rows that were never there too, and often mend it later.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial

from tests.oracle.recompute import Multiset, Row, without_zeros

Update = tuple[Row, int, int]  # row, time, diff
History = dict[str, list[Update]]  # by source, in no particular order
MakeRow = Callable[[random.Random, int], Row]


def random_history(rng: random.Random, tables: Mapping[str, MakeRow], cases: int, times: int, size: int) -> History:
    """For every table and case up to ``size`` changes at each of some times from 0 up to ``times - 1``."""
    history: History = {}
    for name, make in tables.items():
        updates: list[Update] = []
        for case in range(cases):
            held: Multiset = Counter()
            for time in range(times):
                for _ in range(rng.randint(0, size)):
                    for row, diff in _change(rng, held, partial(make, rng, case), mend=case % 2 == 1):
                        held[row] += diff
                        updates.append((row, time, diff))
        rng.shuffle(updates)
        history[name] = updates
    return history


def _change(rng: random.Random, held: Multiset, make: Callable[[], Row], *, mend: bool) -> list[tuple[Row, int]]:
    """One or two simultaneous changes of what is held."""
    there = [row for row, n in held.items() if n > 0]
    missing = [row for row, n in held.items() if n < 0]
    choice = rng.random()
    if missing and choice < 0.3:
        row = rng.choice(missing)
        return [(row, -held[row])]
    if mend and choice < 0.4:
        return [(make(), -rng.randint(1, 2))]
    if there and choice < 0.6:
        row = rng.choice(there)
        return [(row, -rng.randint(1, held[row]))]
    if there and choice < 0.7:  # a correction: one row gives way to another at the same time
        row = rng.choice(there)
        return [(row, -1), (make(), 1)]
    if choice < 0.75:  # it comes and goes at once
        row = make()
        return [(row, 2), (row, -2)]
    return [(make(), rng.choice([1, 1, 1, 2, 3]))]


def accumulated(updates: list[Update], time: int) -> Multiset:
    """What is there at a time."""
    held: Multiset = Counter()
    for row, t, diff in updates:
        if t <= time:
            held[row] += diff
    return without_zeros(held)


def undone(history: History, time: int) -> History:
    """Updates at ``time`` that take back whatever is left then."""
    return {
        name: [(row, time, -n) for row, n in accumulated(updates, time).items()] for name, updates in history.items()
    }


def random_cuts(rng: random.Random, times: int) -> list[int]:
    """Steps of random length: the upper bound of each, the last beyond every time."""
    return sorted({*rng.sample(range(1, times), rng.randint(0, times - 1)), times})
