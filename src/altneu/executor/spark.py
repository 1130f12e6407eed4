"""Run steps on Spark: one job a step, its stages joined by Spark's own shuffle, its state in segments that tasks write.

A step is small or large. Small ones run in the driver, on the same snapshots, in milliseconds; large ones, and those
whose input is a large DataFrame, become one Spark job: ``mapInArrow`` a stage, ``repartitionById`` between stages, one
``collect`` of what the stages tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from altneu import errors
from altneu.errors import SourceFailedError, StepFailedError
from altneu.executor.base import Message, Region, StepMode, run
from altneu.executor.contents import contents_reader
from altneu.executor.inputs import Inputs, Stamp
from altneu.executor.local import Outcome, run_here
from altneu.executor.read import At
from altneu.executor.state import StateTable, blob_names, opener, updates_from_batch
from altneu.executor.wire import META, SCHEMA, SEED, SPARK_SCHEMA, encode, pack, unpack_meta
from altneu.executor.worker import Task, read_partials, read_shards, read_source, run_stage
from altneu.operators.join import TooManyMatches
from altneu.physical import ArrangeOp, ExplodeOp, LinearOp, Plan, Port, ReadOp, ViewPorts
from altneu.types import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER_ROWS = 200_000  # a step of fewer rows is quicker in the driver than a Spark job is to start
DRIVER_BYTES = 1 << 20  # a DataFrame that Spark estimates smaller is fetched to the driver
DRIVER_MATCHES = 4_000_000  # a step that would make more matches in the driver is run again on Spark

_TITLE = 160  # characters of a job's name that Spark's pages show well
_JOB_SETTINGS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "131072"}
# Placement by shard needs no second opinion and stages cost less without; but a user's DataFrame may have shuffles.
_OWN_SETTINGS = {**_JOB_SETTINGS, "spark.sql.adaptive.enabled": "false"}


class SparkExecutor:
    """Runs steps in the driver or as Spark jobs, whichever their size asks for (``placement`` decides otherwise)."""

    def __init__(self, spark: SparkSession, shards: int, placement: str) -> None:
        self.spark, self.shards, self.placement = spark, shards, placement

    def close(self) -> None:
        """Nothing to let go of: the Spark session is its owner's."""

    def step(self, plan: Plan, table: StateTable, inputs: Inputs, region: Region, mode: StepMode) -> Outcome:
        """Run a step where it belongs.

        Raises:
            SourceFailedError: a DataFrame could not be read.
            StepFailedError: a task failed.
        """
        if not plan.loops and self._is_large(plan, table, inputs, region, mode):
            return self._run_on_spark(plan, table, inputs, region, mode)
        fetched = self._fetch(inputs)
        budget = DRIVER_MATCHES if self.placement == "auto" and not plan.loops else None
        here = replace(mode, budget=budget)
        try:
            return run_here(plan, table, fetched.updates, region, here)
        except TooManyMatches:
            return self._run_on_spark(plan, table, fetched, region, mode)

    def _is_large(self, plan: Plan, table: StateTable, inputs: Inputs, region: Region, mode: StepMode) -> bool:
        if self.placement != "auto":
            return self.placement == "spark" and not (mode.hydrating and not self._rows_read(plan, table, mode))
        if any(_estimate(frame) > DRIVER_BYTES for frames in inputs.frames.values() for frame, _ in frames):
            return True
        rows = sum(len(u) for parts in inputs.updates.values() for u in parts) + self._rows_read(plan, table, mode)
        return rows > DRIVER_ROWS or table.is_due(region.upper, beyond=DRIVER_ROWS - rows)

    def _rows_read(self, plan: Plan, table: StateTable, mode: StepMode) -> int:
        """Rows that a hydration reads from arrangements."""
        read = {n.operation.arrangement for n in plan.nodes if isinstance(n.operation, ReadOp)}
        return sum(table.rows(name) for name in read | mode.given)

    def _fetch(self, inputs: Inputs) -> Inputs:
        """Bring small DataFrames to the driver."""
        updates = {name: list(parts) for name, parts in inputs.updates.items()}
        for name, frames in inputs.frames.items():
            for frame, stamp in frames:
                with self._job(f"read {name}"), _source_failures([name]):
                    found = frame.select(*map(quote_name, stamp.columns)).toArrow()
                updates.setdefault(name, []).append(stamp.updates(found))
        return Inputs(updates)

    # the job --------------------------------------------------------------------------------------------------------

    def _run_on_spark(self, plan: Plan, table: StateTable, inputs: Inputs, region: Region, mode: StepMode) -> Outcome:
        table.settle()
        wanted = {*plan.arrangements, *plan.read_layouts}
        states = {key: value for key, value in table.stored.items() if key[0] in wanted}
        blobs = {name: bytes(table.blob(name)) for value in states.values() for name in blob_names(value)}
        directory = table.store.segment_directory
        assert directory is not None
        whole = replace(mode, whole=True)
        task = Task(plan, region, whole, table.store.next_number, directory, table.store.durable, states, blobs)
        outcome = Outcome("spark")
        stages = "; ".join(plan.stage_label(stage) for stage in range(1, plan.depth))
        title = f"altneu step {region.lower.to_pylist()} to {region.upper.to_pylist()}: {stages}"[:_TITLE]
        with self._job(title, own=not inputs.frames), _source_failures(list(inputs.frames)):
            messages = self._first_stage(task, inputs, outcome)
            for stage in range(1, plan.depth):
                messages = messages.repartitionById(self.shards, "shard").mapInArrow(
                    _titled(run_stage(task, stage), f"stage {stage}: {plan.stage_label(stage)}"), SPARK_SCHEMA
                )
            rows = messages.where(f"port = {META}").select("payload").collect()
        self._gather(plan, table, [bytes(r[0]) for r in rows], outcome)
        return outcome

    def _first_stage(self, task: Task, inputs: Inputs, outcome: Outcome) -> DataFrame:
        """Messages of stage 0: of the DataFrames in tasks, of what the driver has in the driver."""
        plan = task.plan
        parts: list[DataFrame] = []
        for source, frames in inputs.frames.items():
            if source in plan.sources:
                parts += [self._read_frame(task, source, frame, stamp) for frame, stamp in frames]
        rows = [(shard, SEED, b"") for shard in range(self.shards)]
        local: dict[int, list[Message]] = {
            -1 - plan.sources[s]: list(u) for s, u in inputs.updates.items() if s in plan.sources
        }
        outcome.received.update({s: sum(map(len, u)) for s, u in inputs.updates.items()})
        if local:
            result = run(plan, 0, 0, {}, local, task.region, StepMode(self.shards))
            rows += [r for shard, channel, m in result.outbox for r in encode(shard, channel, m)]
        parts.append(self.spark.createDataFrame(pa.Table.from_batches(list(pack(rows)), SCHEMA), SPARK_SCHEMA))
        if task.mode.hydrating:
            shards = self.spark.range(0, self.shards, 1, self.shards)
            parts.append(shards.mapInArrow(_titled(read_shards(task), "read arrangements"), SPARK_SCHEMA))
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.union(part)
        return whole

    def _read_frame(self, task: Task, source: str, frame: DataFrame, stamp: Stamp) -> DataFrame:
        unsure = columns_to_check(frame, stamp)
        partial = None if unsure else self._partial_sums(task, source, frame, stamp)
        if partial is not None:
            return partial
        read = columns_read(task.plan, source)
        read = read and [n for n in stamp.schema.names if n in unsure or n in read]
        stamp = stamp.reading(read)
        chosen = frame.select(*map(quote_name, stamp.columns))
        return chosen.mapInArrow(_titled(read_source(task, source, stamp), f"read {source}"), SPARK_SCHEMA)

    def _partial_sums(self, task: Task, source: str, frame: DataFrame, stamp: Stamp) -> DataFrame | None:
        """Let Spark add up a bulk load where that is exact: counts and integer sums of plain columns at one time."""
        found = pre_aggregation(task.plan, source)
        if (
            found is None
            or stamp.event is not None
            or not isinstance(stamp.time, int)
            or stamp.diff != 1
            or stamp.sign != 1
        ):
            return None
        accumulator, renames, channel = found
        partials = accumulator.partials()
        if partials is None:
            return None
        from pyspark.sql import functions as sf

        fields = [(new, stamp.schema.field(old).type) for new, old in renames.items()]
        columns = [
            sf.col(quote_name(renames[name])).cast(_spark_type(data_type)).alias(name) for name, data_type in fields
        ]
        keys = [sf.col(quote_name(k)) for k in accumulator.key]
        sums = [sf.expr(expression).alias(name) for name, expression in partials]
        grouped = frame.select(*columns).groupBy(*keys).agg(*sums)
        kernel = read_partials(task, source, accumulator, stamp.time, channel)
        return grouped.mapInArrow(_titled(kernel, f"sums of {source}"), SPARK_SCHEMA)

    def _gather(self, plan: Plan, table: StateTable, payloads: list[bytes], outcome: Outcome) -> None:
        for payload in payloads:
            meta, blobs = unpack_meta(payload)
            if "error" in meta:
                name, text = meta["error"]
                raise getattr(errors, name, StepFailedError)(text)
            for source, count in meta.get("received", {}).items():
                outcome.received[source] = outcome.received.get(source, 0) + count
            table.blobs.update(blobs)
            for name, value in meta.get("states", {}).items():
                outcome.stored[name, meta["shard"]] = value
            for name, value in meta.get("new", {}).items():
                outcome.new.setdefault(name, []).append(value)
            for node, value in meta.get("taps", {}).items():
                schema = plan.nodes[int(node)].schema
                open_data = opener(table.store.segment_directory, table.blob)
                parts = [updates_from_batch(b, schema, plan.lattice.width) for b in open_data(value)]
                outcome.taps.setdefault(int(node), []).extend(parts)

    @contextmanager
    def _job(self, title: str, *, own: bool = False) -> Iterator[None]:
        """Settings and a readable name for the jobs inside; on an interrupt they are cancelled."""
        context = self.spark.sparkContext
        settings = _OWN_SETTINGS if own else _JOB_SETTINGS
        before = {key: self.spark.conf.get(key, None) for key in settings}
        group = f"altneu-{id(self)}"
        context.setJobGroup(group, title, interruptOnCancel=True)
        try:
            for key, value in settings.items():
                self.spark.conf.set(key, value)
            yield
        except BaseException:
            with suppress(Exception):  # another error is on its way, which must not be replaced
                context.cancelJobGroup(group)
            raise
        finally:
            for key, old in before.items():
                if old is None:
                    self.spark.conf.unset(key)
                else:
                    self.spark.conf.set(key, old)
            for key in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                context.setLocalProperty(key, None)  # type: ignore[arg-type]

    # reading --------------------------------------------------------------------------------------------------------

    def frame_of(self, table: pa.Table) -> DataFrame:
        """Rows of the driver as a DataFrame."""
        return self.spark.createDataFrame(table, spark_schema(table.schema))

    def read(self, table: StateTable, ports: ViewPorts, view: str, at: At, on_errors: str) -> DataFrame:
        """A large view as a DataFrame that Spark's own tasks read, shard by shard, from the segments."""
        kernel = contents_reader(table, ports, view, at, on_errors, self.shards)
        shards = self.spark.range(0, self.shards, 1, self.shards)
        return shards.mapInArrow(_titled(kernel, f"read view {view}"), spark_schema(ports.schema))


def spark_schema(schema: pa.Schema) -> Any:
    """The Spark schema of Arrow columns."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)


def _spark_type(data_type: pa.DataType) -> Any:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(data_type)


def _titled(kernel: Any, title: str) -> Any:
    """Name a kernel as Spark's pages show it."""
    kernel.__name__ = kernel.__qualname__ = title
    return kernel


def _estimate(frame: DataFrame) -> int:
    """Bytes that Spark's optimiser expects of a DataFrame; much when it cannot be asked."""
    plan = getattr(frame, "_jdf", None)
    if plan is None:
        return DRIVER_BYTES + 1
    return int(str(plan.queryExecution().optimizedPlan().stats().sizeInBytes()))


@contextmanager
def _source_failures(sources: list[str]) -> Iterator[None]:
    """What Spark raises while it reads DataFrames is the sources' failure: our kernels report theirs as messages."""
    try:
        yield
    except (errors.AltneuError, TooManyMatches):
        raise
    except Exception as error:
        text = str(error).strip().split("\n\tat ")[0]
        if not sources:
            raise StepFailedError(f"a Spark job of the step failed and nothing of it is committed: {text}") from error
        raise SourceFailedError(
            f"a DataFrame inserted into {', '.join(map(repr, sources))} failed while it was read, "
            f"and nothing of the step is committed: {text}\n"
            "Call session.discard(source) and insert it again when it is mended."
        ) from error


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
