"""Reading a large view inside Spark's tasks: each shard opens its segments, nothing passes through the driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.base import ArrangementState, StepMode
from altneu.plan.physical import PhysicalNode, Plan, ViewPorts
from altneu.runtime.read import At, accumulated, negatives, parts_of
from altneu.runtime.spark.versions import in_units_of_spark
from altneu.runtime.spark.worker import Batches, Kernel, Memory, TaskSnapshot, task_on
from altneu.runtime.state import StateTable

_CHUNK = 1 << 17


def contents_reader(
    table: StateTable, ports: ViewPorts, view: str, at: At, on_errors: str, shards: int, memory: int | None
) -> Kernel:
    """A kernel that turns shard numbers into the rows of a view, each as often as its count says.

    It names the segments of now: later steps do not show in it. A row of negative count fails the task that reads it.
    """

    def rows(state: ArrangementState) -> Iterator[pa.RecordBatch]:
        result = accumulated(state, at)
        bad = negatives(result, view) if on_errors == "raise" else None
        if bad is not None:
            operator, code, message, row = bad.rows.slice(0, 1).to_pylist()[0]
            raise ValueError(f"{operator}: {code}: {message} (row {row}); view.errors() lists them all")
        copies = np.repeat(np.arange(len(result)), np.maximum(result.diffs, 0))
        for start in range(0, len(copies), _CHUNK):
            yield result.rows.take(copies[start : start + _CHUNK]).to_batch()

    return _reader(table, ports.contents, rows, shards, memory)


def updates_reader(table: StateTable, name: str, diff: str, at: At, shards: int, memory: int | None) -> Kernel:
    """A kernel that turns shard numbers into the rows of an arrangement at a time, each once with its count.

    The count is the last column, ``diff``. Like ``contents_reader`` it names the segments of now.
    """

    def rows(state: ArrangementState) -> Iterator[pa.RecordBatch]:
        result = accumulated(state, at)
        counted = result.rows.to_batch().append_column(pa.field(diff, pa.int64(), nullable=False), result.diffs)
        yield from (counted.slice(start, _CHUNK) for start in range(0, len(result), _CHUNK))

    return _reader(table, name, rows, shards, memory)


def _reader(
    table: StateTable,
    name: str,
    rows: Callable[[ArrangementState], Iterator[pa.RecordBatch]],
    shards: int,
    memory: int | None,
) -> Kernel:
    """A kernel that turns shard numbers into what ``rows`` makes of the parts of an arrangement's states."""
    layout = table.layouts[name]
    plan = Plan(table.lattice, (PhysicalNode(ArrangeOp(name, layout), (), 0, layout.schema),))
    task = task_on(plan, table, {name}, StepMode(shards), memory)

    def kernel(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for shard in batch.column(0).to_pylist():
                room = Memory.of(task)
                state = TaskSnapshot(task, shard, room).get(name)
                for part in () if state is None else parts_of(state, room.room):
                    yield from map(in_units_of_spark, rows(part))

    return kernel
