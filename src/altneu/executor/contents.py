"""Reading a large view inside Spark's tasks: each shard opens its segments, nothing passes through the driver."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from altneu.executor.base import ArrangementState, Region, StepMode
from altneu.executor.read import At, accumulated, negatives, parts_of
from altneu.executor.state import StateTable, blob_names
from altneu.executor.worker import Batches, Kernel, Memory, Task, TaskSnapshot
from altneu.order import Antichain
from altneu.physical import ArrangeOp, PhysicalNode, Plan, ViewPorts

_CHUNK = 1 << 17


def contents_reader(
    table: StateTable, ports: ViewPorts, view: str, at: At, on_errors: str, shards: int, memory: int | None
) -> Kernel:
    """A kernel that turns shard numbers into the rows of a view, each as often as its count says.

    It names the segments of now: later steps do not show in it. A row of negative count fails the task that reads it.
    """
    table.settle()
    states = {key: value for key, value in table.stored.items() if key[0] == ports.contents}
    blobs = {name: bytes(table.blob(name)) for value in states.values() for name in blob_names(value)}
    operation = ArrangeOp(ports.contents, table.layouts[ports.contents])
    plan = Plan(table.lattice, (PhysicalNode(operation, (), 0, ports.schema),))
    frontier = Antichain.of(table.lattice, at[0])
    region = Region(frontier, frontier, frontier)
    directory = table.store.segment_directory
    assert directory is not None
    task = Task(plan, region, StepMode(shards), 0, directory, table.store.durable, states, blobs, (), memory=memory)

    def kernel(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                room = Memory.of(task)
                state = TaskSnapshot(task, shard, room).get(ports.contents)
                for part in () if state is None else parts_of(state, room.room):
                    yield from _rows(part)

    def _rows(state: ArrangementState) -> Iterator[pa.RecordBatch]:
        found = accumulated(state, at)
        bad = negatives(found, view) if on_errors == "raise" else None
        if bad is not None:
            operator, code, message, row = bad.rows.slice(0, 1).to_pylist()[0]
            raise ValueError(f"{operator}: {code}: {message} (row {row}); view.errors() lists them all")
        copies = np.repeat(np.arange(len(found)), np.maximum(found.diffs, 0))
        for start in range(0, len(copies), _CHUNK):
            yield found.rows.take(copies[start : start + _CHUNK]).to_batch()

    return kernel
