"""An executor that runs the very tasks that Spark runs, in this process, each of them more than once.

A task that is retried, speculated or recomputed gets its messages in another order and in other batches. It must make
the same again: the same rows for the same shards, the same state under the same names.
"""

from __future__ import annotations

import pickle
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from altneu.executor.base import Region, StepMode, run
from altneu.executor.inputs import Inputs
from altneu.executor.local import Outcome
from altneu.executor.spark import SparkExecutor
from altneu.executor.state import StateTable, blob_names, from_ipc
from altneu.executor.wire import META, SEED, Row, encode, pack, unpack, unpack_meta
from altneu.executor.worker import Task, read_shards, run_stage
from altneu.physical import Plan

ATTEMPTS = 2


class Retries(SparkExecutor):
    """Runs every task of every step ``ATTEMPTS`` times and goes on with any one of them."""

    def __init__(self, shards: int) -> None:
        super().__init__(None, shards, "spark")
        self.rng = random.Random(shards)
        self.tasks = 0

    def step(self, plan: Plan, table: StateTable, inputs: Inputs, region: Region, mode: StepMode) -> Outcome:
        table.settle()
        wanted = {*plan.arrangements, *plan.read_layouts}
        states = {key: value for key, value in table.stored.items() if key[0] in wanted}
        blobs = {name: bytes(table.blob(name)) for value in states.values() for name in blob_names(value)}
        whole = StepMode(mode.shards, mode.given, mode.hydrating, whole=True)
        folder = table.store.segment_directory
        made = Task(plan, region, whole, table.store.next_number, folder, table.store.durable, states, blobs)
        task: Task = pickle.loads(cloudpickle.dumps(made))  # noqa: S301 -- as tasks get it
        outcome = Outcome("spark", received={name: sum(map(len, parts)) for name, parts in inputs.updates.items()})
        messages = self._first(task, inputs)
        for stage in range(1, plan.depth):
            by_shard: dict[int, list[Row]] = defaultdict(list)
            for row in messages:
                by_shard[row[0]].append(row)
            messages = [row for rows in by_shard.values() for row in self._attempt(run_stage(task, stage), rows)]
        self._gather(plan, table, [payload for _, port, payload in messages if port == META], outcome)
        return outcome

    def _first(self, task: Task, inputs: Inputs) -> list[Row]:
        messages: list[Row] = [(shard, SEED, b"") for shard in range(self.shards)]
        plan = task.plan
        local = {-1 - plan.sources[s]: list(u) for s, u in inputs.updates.items() if s in plan.sources}
        if local:
            result = run(plan, 0, 0, {}, local, task.region, task.mode)
            messages += [r for shard, channel, message in result.outbox for r in encode(shard, channel, message)]
        if task.mode.hydrating:
            for shard in range(self.shards):
                kernel = read_shards(task)
                messages += unpack(kernel(iter([pa.record_batch({"id": [shard]})])))
        return messages

    def _attempt(self, kernel: Any, rows: Sequence[Row]) -> list[Row]:
        """What a task makes, having seen that it makes the same in every attempt."""
        attempts = [list(unpack(kernel(self._arriving(rows)))) for _ in range(ATTEMPTS)]
        self.tasks += len(attempts)
        first = told(attempts[0])
        for other in attempts[1:]:
            assert told(other) == first
        return self.rng.choice(attempts)

    def _arriving(self, rows: Sequence[Row]) -> Iterator[pa.RecordBatch]:
        """Rows in any order and any batches."""
        order = self.rng.sample(list(rows), len(rows))
        while order:
            cut = self.rng.randint(1, len(order))
            yield from pack(order[:cut])
            order = order[cut:]


def told(rows: Sequence[Row]) -> Counter[Any]:
    """What the rows say, whatever the order of the messages, and of the rows in one of them."""
    said: Counter[Any] = Counter()
    for shard, port, payload in rows:
        if port == META:
            meta, blobs = unpack_meta(payload)
            meta["error"] = meta.get("error", [""])[0]  # its class: the text may name a temporary file
            said[shard, repr(meta), tuple(sorted(blobs.items()))] += 1
        elif not payload:  # a seed, or an arrangement that is there already
            said[shard, port] += 1
        else:
            for batch in from_ipc(payload):
                said.update((shard, port, repr(row)) for row in batch.to_pylist())
    return said
