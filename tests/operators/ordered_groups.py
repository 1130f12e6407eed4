"""Histories of groups whose rows lie in an order, kernel by kernel."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.operators.kernels.below_zero import below_zero
from altneu.order import Antichain, Epoch
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.spine import Spine
from altneu.trace.update import Updates, consolidate

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
ORDERS = [
    (("v", False, True),),
    (("v", True, False),),
    (("s", True, True), ("v", False, False)),
    (("s", False, False),),
]


def updates_of(listed):
    rows = Rows.from_pylist([row for row, _, _ in listed], SCHEMA)
    times, diffs = (np.array([u[i] for u in listed], np.int64) for i in (1, 2))
    return Updates(rows, times.reshape(1, -1), diffs)


def as_counts(updates):
    actual = Counter()
    result = consolidate(updates, Epoch())
    for row, time, diff in zip(result.rows.to_pylist(), result.times[0].tolist(), result.diffs.tolist(), strict=True):
        actual[row, time] += diff
    return {what: diff for what, diff in actual.items() if diff}


class Group:
    """An arrangement in an order, with the number of its rows below zero beside it."""

    def __init__(self, order):
        self.layout = Layout(SCHEMA, ("k",), Epoch(), order)
        self.spine = Spine.empty(self.layout)
        self.negative_layout = Layout(self.layout.key_schema, ("k",), Epoch())
        self.negative = Spine.empty(self.negative_layout)
        self.upper = 0

    def step(self, listed, upper):
        """One step: the arrangement with what is new, and that of the numbers of rows below zero."""
        description = Description.interval(Epoch(), self.upper, upper)
        new = Batch.build(updates_of(listed), self.layout, description)
        given = Arranged(self.layout, self.spine.batches, new)
        change = below_zero(given, self.negative.batches)
        negative = Batch.build(change, self.negative_layout, description)
        both = Arranged(self.negative_layout, self.negative.batches, negative)
        self.spine = self.spine.insert(new, since=Antichain.of(Epoch(), max(upper - 2, 0)))
        self.negative = self.negative.insert(negative, since=Antichain.of(Epoch(), max(upper - 2, 0)))
        self.upper = upper
        return given, both


def history(rng, steps, below):
    """Updates of one step after the other; rows come, go, count several times and, where ``below``, below zero."""
    there = Counter()
    time = 0
    for _ in range(steps):
        upper = time + rng.choice([1, 1, 3])
        result = []
        nulls = rng.random() < 0.3  # at times all that comes in has no value
        for _ in range(rng.choice([1, 2, 2, 30])):
            v, text = rng.choice([None, -(2**63), *range(30)]), rng.choice([None, "a", "b", "long enough to tie"])
            row = (rng.randrange(2), None if nulls else v, text)
            standing = [r for r, n in there.items() if n > 0]
            if standing and rng.random() < 0.3:
                row = min(standing, key=repr) if rng.random() < 0.5 else rng.choice(sorted(standing, key=repr))
                at = rng.randrange(time, upper) if below else upper - 1
                result.append((row, at, -rng.randint(1, there[row])))
            elif below and rng.random() < 0.1:
                result.append((row, rng.randrange(time, upper), -2))
            else:
                result.append((row, rng.randrange(time, upper), rng.randint(1, 2)))
            there[row] += result[-1][2]
        yield result, upper
        time = upper
