"""Run the kernels once on a row or two, so that what is compiled lazily is compiled before it is timed or forked."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.operators.join.pairs import JoinSpec, join
from altneu.operators.reduce.accumulable import AggregatesSpec
from altneu.operators.reduce.accumulate import Accumulator
from altneu.operators.reduce.calls import Aggregate
from altneu.order import Epoch
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.spine import Spine
from altneu.trace.update import Updates


def warm_kernels() -> None:
    """Arrange, join and reduce two rows. Uses no Polars: workers are forked after this."""
    lattice = Epoch()
    schema = pa.schema([("k", pa.string()), ("x", pa.int64()), ("y", pa.float64())])
    rows = Rows.from_pylist([("a", 1, 0.5), ("b", 2, 1.5)], schema)
    updates = Updates(rows, np.zeros((1, 2), np.int64), np.ones(2, np.int64))
    description = Description.interval(lattice, 0, 1)
    layout = Layout(schema, ("k",), lattice)
    batch = Batch.build(updates, layout, description)
    later = Batch.build(updates, layout, Description.interval(lattice, 1, 2))
    Spine.empty(layout).insert(batch, description.since).insert(later, description.since)
    arranged = Arranged(layout, (batch,), batch)
    outputs = (("k", 0, "k"), ("x", 1, "x"))
    join(arranged, arranged, JoinSpec(pa.schema([schema.field(0), schema.field(1)]), outputs, lattice))
    calls = (
        Aggregate("count", (), pa.int64()),
        Aggregate("sum", ("x",), pa.int64()),
        Aggregate("avg", ("y",), pa.float64()),
    )
    accumulator = Accumulator(("k",), calls, schema)
    slots = accumulator.explode(updates, lattice)
    slot_layout = Layout(accumulator.slot_schema, ("k",), lattice)
    given = Arranged(slot_layout, (), Batch.build(slots, slot_layout, description))
    AggregatesSpec(accumulator).reduce(given, "reduce")
