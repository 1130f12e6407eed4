"""Read a large view by Spark's own tasks: each shard opens its segments, nothing passes through the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from altneu.executor.base import Region, StepMode
from altneu.executor.read import accumulated
from altneu.executor.state import blob_names
from altneu.executor.worker import Task, TaskSnapshot
from altneu.order import Antichain
from altneu.physical import ArrangeOp, PhysicalNode, Plan
from altneu.types import to_ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from altneu.executor.spark import SparkExecutor

_CHUNK = 1 << 17


def read_contents(executor: SparkExecutor, session: Any, view: Any, at: int | None, on_errors: str) -> DataFrame:
    """A DataFrame over a view's contents as they are now.

    Raises:
        ViewHasErrorsError: the view has error rows; rows of negative count fail the DataFrame's own job.
    """
    table = session.table
    ports = session.ports(view.name)
    time = session.readable(view.name, at)
    if on_errors == "raise":
        view.raise_errors(time)
    table.settle()
    states = {key: value for key, value in table.stored.items() if key[0] == ports.contents}
    blobs = {name: bytes(table.blob(name)) for value in states.values() for name in blob_names(value)}
    operation = ArrangeOp(ports.contents, table.layouts[ports.contents])
    part = Plan(table.lattice, (PhysicalNode(operation, (), 0, ports.schema),))
    frontier = Antichain.of(table.lattice, time)
    region, mode = Region(frontier, frontier, frontier), StepMode(executor.shards)
    task = Task(part, region, mode, 0, table.store.segment_directory, table.store.durable, states, blobs)
    shards = executor.spark.range(0, executor.shards, 1, executor.shards)
    return shards.mapInArrow(_reader(task, ports.contents, time, view.name, on_errors), to_ddl(ports.schema))


def _reader(
    task: Task, name: str, at: int, view: str, on_errors: str
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def kernel(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                state = TaskSnapshot(task, shard).get(name)
                if state is None:
                    continue
                found = accumulated(state, at)
                if on_errors == "raise" and (found.diffs < 0).any():
                    raise ValueError(f"view {view!r} has rows of negative count; view.errors() lists them")
                copies = np.repeat(np.arange(len(found)), np.maximum(found.diffs, 0))
                for start in range(0, len(copies), _CHUNK):
                    yield found.rows.take(copies[start : start + _CHUNK]).to_batch()

    kernel.__name__ = kernel.__qualname__ = f"read view {view}"
    return kernel
