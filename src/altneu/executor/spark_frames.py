"""DataFrames that Spark's tasks read in the first stage of a step: which columns, and what Spark may add up itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from altneu.executor.inputs import Stamp
from altneu.executor.wire import SPARK_SCHEMA
from altneu.executor.worker import Task, read_partials, read_source
from altneu.physical import ArrangeOp, ExplodeOp, LinearOp, Plan, Port
from altneu.types import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Watched: TypeAlias = "Callable[[DataFrame], DataFrame]"
_UNKNOWN = 1 << 62


def read_frame(task: Task, source: str, frame: DataFrame, stamp: Stamp, watched: Watched) -> DataFrame:
    """The messages that come of a DataFrame's rows in stage 0, made by the tasks that read it; ``watched`` counts."""
    unsure = columns_to_check(frame, stamp)
    partial = None if unsure else _partial_sums(task, source, frame, stamp, watched)
    if partial is not None:
        return partial
    read = columns_read(task.plan, source)
    read = read and [n for n in stamp.schema.names if n in unsure or n in read]
    stamp = stamp.reading(read)
    chosen = watched(frame.select(*map(quote_name, stamp.columns)))
    return chosen.mapInArrow(titled(read_source(task, source, stamp), f"read {source}"), SPARK_SCHEMA)


def _partial_sums(task: Task, source: str, frame: DataFrame, stamp: Stamp, watched: Watched) -> DataFrame | None:
    """Let Spark add up a bulk load where that is exact: counts and integer sums of plain columns at one time."""
    found = pre_aggregation(task.plan, source)
    added = stamp.diff == 1 and stamp.sign == 1 and stamp.event is None
    if found is None or not isinstance(stamp.time, int) or not added:
        return None
    accumulator, renames, channel = found
    partials = accumulator.partials()
    if partials is None:
        return None
    from pyspark.sql import functions as sf

    fields = [(new, stamp.schema.field(old).type) for new, old in renames.items()]
    columns = [sf.col(quote_name(renames[name])).cast(_spark_type(data_type)).alias(name) for name, data_type in fields]
    keys = [sf.col(quote_name(k)) for k in accumulator.key]
    sums = [sf.expr(expression).alias(name) for name, expression in partials]
    grouped = watched(frame.select(*columns)).groupBy(*keys).agg(*sums)
    kernel = read_partials(task, source, accumulator, stamp.time, channel)
    return grouped.mapInArrow(titled(kernel, f"sums of {source}"), SPARK_SCHEMA)


def spark_schema(schema: pa.Schema) -> Any:
    """The Spark schema of Arrow columns."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _spark_type(data_type: pa.DataType) -> Any:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(data_type)


def titled(kernel: Any, title: str) -> Any:
    """Name a kernel as Spark's pages show it."""
    kernel.__name__ = kernel.__qualname__ = title
    return kernel


def estimate(frame: DataFrame) -> int:
    """Bytes that Spark's optimiser expects of a DataFrame; much when it cannot be asked."""
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return _UNKNOWN
    return int(str(plan.queryExecution().optimizedPlan().stats().sizeInBytes()))


def columns_to_check(frame: DataFrame, stamp: Stamp) -> set[str]:
    """Columns of a source whose values may be refused: of another type in the DataFrame, or null where none may be.

    They are read even if the plan does not, so that what is refused does not depend on the plan; and Spark may not add
    them up, for its cast wraps where ANSI is off.
    """
    found = {f.name: f for f in frame.schema}
    return {
        f.name
        for f in stamp.schema
        if found[f.name].dataType != _spark_type(f.type) or (found[f.name].nullable and not f.nullable)
    }


def columns_read(plan: Plan, source: str) -> list[str] | None:
    """The columns of a source that the plan reads, None for all of them."""
    number = plan.sources[source]
    schema = plan.nodes[number].schema
    needed: set[str] = set()
    for node in plan.nodes:
        if Port(number) in node.inputs:
            if isinstance(node.operation, LinearOp):
                needed |= node.operation.logic.columns_read(schema)
            elif isinstance(node.operation, ExplodeOp):
                needed |= {*node.operation.accumulator.key, *node.operation.accumulator.arguments}
            else:
                return None
    return [n for n in schema.names if n in needed] or None


def pre_aggregation(plan: Plan, source: str) -> tuple[Any, dict[str, str], int] | None:
    """The accumulator that alone reads a source, through plain columns; None when something else reads it too.

    With it come the source's column for each of the accumulator's own, and its channel.
    """
    number = plan.sources[source]
    readers = [i for i, n in enumerate(plan.nodes) if Port(number) in n.inputs]
    if len(readers) != 1:
        return None
    at = readers[0]
    renames = {n: n for n in plan.nodes[number].schema.names}
    operation = plan.nodes[at].operation
    if isinstance(operation, LinearOp):
        found = operation.logic.plain_columns()
        readers = [i for i, n in enumerate(plan.nodes) if any(p.node == at for p in n.inputs)]
        if found is None or len(readers) != 1:
            return None
        renames, at = found, readers[0]
        operation = plan.nodes[at].operation
    if not isinstance(operation, ExplodeOp):
        return None
    channels = plan.outlets.get(Port(at), ())
    reader = next((n for n in plan.nodes if Port(at) in n.inputs), None)
    if len(channels) != 1 or reader is None or not isinstance(reader.operation, ArrangeOp):
        return None
    used = {*operation.accumulator.key, *operation.accumulator.arguments}
    return operation.accumulator, {n: o for n, o in renames.items() if n in used}, channels[0]
