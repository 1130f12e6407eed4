"""Rows of a source that a worker has no memory for, all at once."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pytest

import altneu as an
from altneu.operators.base import Region, StepMode
from altneu.order import Antichain, Epoch
from altneu.plan.lower import lower
from altneu.runtime.base import run
from altneu.runtime.spark import worker
from altneu.store import LocalFolder
from tests.operators.support import updates_of

NUMBERS = an.source("numbers", "k long, v long")
PLAN = lower({"sums": NUMBERS.group_by("k").agg(total="sum(v)").node}, Epoch(), 2)
MOST = worker.LEAST_ROWS + 1


@pytest.fixture
def task(tmp_path):
    nothing = Antichain.minimum(Epoch())
    region = Region(nothing, Antichain.of(Epoch(), 1), nothing)
    return worker.Task(PLAN, region, StepMode(2), 1, LocalFolder(tmp_path), False, {}, {}, (0, 1))


def summed(sent):
    total = Counter()
    for part in sent:
        for shard, channel, updates in part.sent:
            for row, diff in zip(updates.rows.to_pylist(), updates.diffs.tolist(), strict=True):
                total[shard, channel, row] += diff
    return total


def poor(most):
    """Run a stage as a worker does that has memory for so many rows."""

    def limited(plan, stage, shard, snapshot, inbox, region, mode, nodes):
        if sum(len(updates) for updates in inbox[-1]) > most:
            raise MemoryError
        return run(plan, stage, shard, snapshot, inbox, region, mode, nodes)

    return limited


def test_rows_that_memory_does_not_do_for_are_taken_half_by_half(task, monkeypatch):
    rows = updates_of(NUMBERS.schema, [((k % 70, k), 0, 1) for k in range(5 * MOST)])
    whole = list(worker._outcome_of_source(task, "numbers", rows))
    monkeypatch.setattr(worker, "run", poor(MOST))
    parts = list(worker._outcome_of_source(task, "numbers", rows))
    assert (len(whole), len(parts)) == (1, 8)
    assert summed(parts) == summed(whole)


def test_few_rows_that_find_no_memory_are_a_failure(task, monkeypatch):
    rows = updates_of(NUMBERS.schema, [((1, k), 0, 1) for k in range(MOST)])
    monkeypatch.setattr(worker, "run", poor(10))
    with pytest.raises(MemoryError):
        list(worker._outcome_of_source(task, "numbers", rows))


def test_arrow_says_the_same_when_there_is_no_memory():
    assert issubclass(pa.ArrowMemoryError, MemoryError)
