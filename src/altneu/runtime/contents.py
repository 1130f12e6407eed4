"""Reading a large view inside Spark's tasks: each shard opens its segments, nothing passes through the driver."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.base import ArrangementState, StepMode
from altneu.plan.physical import PhysicalNode, Plan, ViewPorts
from altneu.runtime.read import At, accumulated, negatives, parts_of
from altneu.runtime.spark.worker import Batches, Kernel, Memory, TaskSnapshot, task_on
from altneu.runtime.state import StateTable

_CHUNK = 1 << 17


def contents_reader(
    table: StateTable, ports: ViewPorts, view: str, at: At, on_errors: str, shards: int, memory: int | None
) -> Kernel:
    """A kernel that turns shard numbers into the rows of a view, each as often as its count says.

    It names the segments of now: later steps do not show in it. A row of negative count fails the task that reads it.
    """
    operation = ArrangeOp(ports.contents, table.layouts[ports.contents])
    plan = Plan(table.lattice, (PhysicalNode(operation, (), 0, ports.schema),))
    task = task_on(plan, table, {ports.contents}, StepMode(shards), memory)

    def kernel(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                room = Memory.of(task)
                state = TaskSnapshot(task, shard, room).get(ports.contents)
                for part in () if state is None else parts_of(state, room.room):
                    yield from _rows(part)

    def _rows(state: ArrangementState) -> Iterator[pa.RecordBatch]:
        result = accumulated(state, at)
        bad = negatives(result, view) if on_errors == "raise" else None
        if bad is not None:
            operator, code, message, row = bad.rows.slice(0, 1).to_pylist()[0]
            raise ValueError(f"{operator}: {code}: {message} (row {row}); view.errors() lists them all")
        copies = np.repeat(np.arange(len(result)), np.maximum(result.diffs, 0))
        for start in range(0, len(copies), _CHUNK):
            yield result.rows.take(copies[start : start + _CHUNK]).to_batch()

    return kernel
