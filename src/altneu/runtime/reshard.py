"""Parting the state of every shard into several: what is kept is cut by the hash of its key, and no source is read.

Rows are in shard ``h % n`` by the hash h of a key. With k times as many shards, those of shard s come into the shards
s, s + n, s + 2n … Nothing of one shard meets anything of another on the way, so shards are parted one by one: in the
driver where they are few rows, else in Spark's tasks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from altneu.columnar.hashing import Hashes, hash_rows
from altneu.columnar.rows import Ints
from altneu.errors import PlanError
from altneu.operators.base import ArrangementState
from altneu.plan.physical import Plan
from altneu.runtime.batch_writer import BatchWriter, Growing, ranges
from altneu.trace.batch import Batch, Block
from altneu.trace.future import FutureUpdates, Run
from altneu.trace.spine import Spine
from altneu.trace.update import Updates


@dataclass(frozen=True)
class Parting:
    """From ``before`` shards to ``after``, which are ``times`` as many."""

    before: int
    after: int

    @property
    def times(self) -> int:
        """Into how many each is parted."""
        return self.after // self.before

    @classmethod
    def of(cls, before: int, after: int) -> Parting:
        """Checked.

        Raises:
            PlanError: it is not a multiple.
        """
        if after < 1 or after % before:
            raise PlanError(
                f"{before} shard(s) cannot become {after}: resharding splits each into the same number of parts, so "
                f"use {2 * before}, {3 * before} or another multiple of {before}"
            )
        return cls(before, after)

    def shards(self, shard: int) -> list[int]:
        """What a shard becomes."""
        return [shard + self.before * i for i in range(self.times)]

    def of_rows(self, hashes: Hashes) -> Ints:
        """Which of those each row comes into, counted from 0.

        Rows that lie anyhow in their shard (errors that are settled) are parted by their own hash: their sum over all
        shards is what is read.
        """
        return (hashes // np.uint64(self.before) % np.uint64(self.times)).astype(np.int64)


def parted_state(
    plan: Plan, name: str, state: ArrangementState, parting: Parting, batch_writer: BatchWriter
) -> list[ArrangementState]:
    """The states of the shards that one shard becomes, in order.

    Law:    every update is in one of them, under the same descriptions and in the same rounds
            (tests/session/test_reshard.py).
    """
    key = plan.shard_key(name)
    spines: list[list[Batch]] = [[] for _ in range(parting.times)]
    for batch in state.spine.batches:
        for results, part in zip(spines, _parted_batch(batch, key, parting, batch_writer), strict=True):
            results.append(part)
    runs: list[list[tuple[tuple[int, ...], Run]]] = [[] for _ in range(parting.times)]
    for rounds, run in state.future.runs:
        for parts, some in zip(runs, _parted_run(run, key, parting), strict=True):
            if len(some):
                parts.append((rounds, some))
    layout, upper = state.spine.layout, state.spine.upper
    return [
        ArrangementState(
            replace(Spine.of(layout, batches), upper=upper), FutureUpdates.of(layout.schema, layout.lattice, some)
        )
        for batches, some in zip(spines, runs, strict=True)
    ]


def _parted_batch(batch: Batch, key: tuple[str, ...], parting: Parting, batch_writer: BatchWriter) -> list[Batch]:
    results = [batch_writer.growing(batch.layout, batch.description) for _ in range(parting.times)]
    for lower, upper in ranges(batch.bytes_as_rows, batch_writer.room):
        for block in batch.between(lower, upper).blocks:
            _part_block(block, batch, key, parting, results)
    return [pieces.finish(ordered=True) for pieces in results]


def _part_block(block: Block, batch: Batch, key: tuple[str, ...], parting: Parting, result: list[Growing]) -> None:
    layout = batch.layout
    by_key = key == layout.key
    hashes = block.key_hash if by_key else hash_rows(layout.join(block.keys, block.values), key)
    wanted = parting.of_rows(hashes)
    for number, pieces in enumerate(result):
        index = np.flatnonzero(wanted == number)
        if len(index):
            pieces.add(Batch(layout, batch.description, (block.take(index),)))


def _parted_run(run: Run, key: tuple[str, ...], parting: Parting) -> Iterator[Run]:
    updates: Updates = run.updates()
    wanted = parting.of_rows(hash_rows(updates.rows, key))
    for number in range(parting.times):
        yield Run(updates.filter(wanted == number))


def parted_states(
    plan: Plan, states: Mapping[str, ArrangementState], shard: int, parting: Parting, batch_writer: BatchWriter
) -> Iterator[tuple[str, int, ArrangementState]]:
    """Every state of a shard, parted: name, new shard and state; those that have nothing only where there was one."""
    for name, state in states.items():
        for target, part in zip(
            parting.shards(shard), parted_state(plan, name, state, parting, batch_writer), strict=True
        ):
            if target == shard or part.spine.batches or len(part.future):
                yield name, target, part
