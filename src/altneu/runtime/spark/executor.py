"""Run segments on Spark: one job each, its stages joined by Spark's own shuffle, its state in files that tasks write.

A segment is small or large. Small ones run in the driver, on the same snapshots, in milliseconds; large ones, and those
whose input is a large DataFrame, become one Spark job: ``mapInArrow`` a stage, a shuffle by shard between stages, one
``collect`` of what the stages tell. A step without loops is one segment. What passes from one to the next is written by
the tasks, and only its names and counts go through the driver.
"""

from __future__ import annotations

import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from altneu import errors
from altneu.errors import SourceFailedError, StepFailedError
from altneu.operators.base import Message, Opened, Region, StepMode
from altneu.operators.join.pairs import TooManyMatches
from altneu.plan.physical import Plan, ViewPorts
from altneu.runtime import interrupts
from altneu.runtime.base import begin
from altneu.runtime.batch_writer import BatchWriter
from altneu.runtime.contents import contents_reader, updates_reader
from altneu.runtime.divided import Division, divisions, heavy_keys, with_slices
from altneu.runtime.inputs import Inputs, Stamp
from altneu.runtime.local import reshard_here, run_here
from altneu.runtime.memory import shares
from altneu.runtime.outcome import Outcome
from altneu.runtime.packed import unpacked
from altneu.runtime.read import At
from altneu.runtime.reshard import Parting
from altneu.runtime.schedule import Run, Segment
from altneu.runtime.spark.frames import (
    asked,
    first_rows,
    has_width,
    is_dear,
    narrowed,
    placed,
    rows_needed,
    surely_more,
    titled,
    widened,
)
from altneu.runtime.spark.jobs import Jobs
from altneu.runtime.spark.static_keys import StaticKeys
from altneu.runtime.spark.sums import read_frame
from altneu.runtime.spark.versions import (
    by_shard,
    expected_bytes,
    failure_of,
    from_arrow,
    in_units_of_spark,
    is_stopped,
    job_group,
    record_batches,
    spark_schema,
    to_arrow,
)
from altneu.runtime.spark.wire import (
    META,
    RECORD_BYTES,
    RECORD_ROWS,
    SCHEMA,
    SEED,
    SPARK_SCHEMA,
    Row,
    encode,
    pack,
    unpack_meta,
    written,
)
from altneu.runtime.spark.worker import Kernel, Task, part_shards, run_stage, start, task_on
from altneu.runtime.spill import bytes_of
from altneu.runtime.state import StateTable, blob_names, updates_from_batch
from altneu.runtime.stored import Data, MessageRef, StoredOutcome
from altneu.trace.update import Updates
from altneu.types import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DRIVER_ROWS = 1_000_000  # a segment of no more rows is computed in the driver (docs/running.md has what was measured)
FETCH_ROWS = 200_000  # so many rows of DataFrames, all together, are brought there; more are read by Spark's tasks
DRIVER_MATCHES = 10_000_000  # a segment that would make more matches in the driver is run again on Spark

_TITLE = 160  # characters of a job's name that Spark's pages show well
_FETCHED_ROWS = 1 << 17  # rows of a record batch on its way to the driver
_TASK_MEMORY = "spark.executor.pyspark.memory"
_IN_BATCHES = record_batches(_FETCHED_ROWS, RECORD_BYTES)
# Placement by shard needs no second opinion and stages cost less without; but a user's DataFrame may have shuffles.
_OWN_SETTINGS = {**record_batches(RECORD_ROWS), "spark.sql.adaptive.enabled": "false"}

SAMPLE_ROWS = 10_000  # so many rows say which keys have so many that a task alone should not take them
_SAMPLED_BYTES = 1 << 18  # of a DataFrame of which Spark expects less, one task can take what it has of a key
_LEAST_SAMPLED = 100  # rows of each insert

Frames = Mapping[str, list[tuple[Any, Stamp]]]
Seen = dict[str, list[Updates]]
"""Some rows of large DataFrames."""


class SparkExecutor:
    """Runs segments in the driver or as Spark jobs, whichever their size asks for (``placement`` decides otherwise)."""

    def __init__(self, spark: SparkSession, shards: int, placement: str, memory: int | None = None) -> None:
        self.spark, self.shards, self.placement, self.memory = spark, shards, placement, memory
        self.jobs = Jobs()
        self.batch_writer = BatchWriter() if memory is None else BatchWriter(shares(memory)[0])
        self._divisions: tuple[Plan, list[Division]] | None = None  # those of the last plan
        self._keys: StaticKeys | None = None  # of the step

    def close(self) -> None:
        """Nothing to let go of: the Spark session is its owner's."""

    def step(self, plan: Plan, table: StateTable, inputs: Inputs, region: Region, mode: StepMode) -> Outcome:
        """Run a step, each part of it where it belongs.

        Raises:
            SourceFailedError: a DataFrame could not be read.
            StepFailedError: a task failed.
        """
        step = Run(plan, table, region, mode)
        self._keys = StaticKeys(plan, table) if plan.released else None
        step.insert(inputs.updates)
        return step.run(lambda segment: self._execute(step, segment, inputs.frames if 0 in segment.stages else {}))

    def _execute(self, step: Run, segment: Segment, frames: Frames) -> Outcome:
        persisted: list[DataFrame] = []
        seen: dict[str, list[Updates]] = {}
        try:
            if self.placement != "spark":
                frames = self._fetch(step, segment, frames, persisted, seen)
            if self.is_large(step, segment, frames):
                return self._on_spark(step, segment, frames, seen)
            try:
                return run_here(step, segment, DRIVER_MATCHES if self.placement == "auto" else None, self.batch_writer)
            except TooManyMatches:
                return self._on_spark(step, segment, {}, {})
        finally:
            with interrupts.deferred():
                for frame in persisted:
                    frame.unpersist()

    def is_large(self, step: Run, segment: Segment, frames: Frames) -> bool:
        """Whether a segment is run on Spark; ``frames`` are DataFrames that were not brought to the driver."""
        if frames:
            return True
        if segment.stages == (0,) and not step.mode.hydrating:
            return False  # rows that the driver has, on their way to where there is something to do
        if self.placement != "auto":
            return self.placement == "spark" and step.work(segment, 0) > 0
        return step.work(segment, DRIVER_ROWS) > DRIVER_ROWS

    def _fetch(
        self, step: Run, segment: Segment, frames: Frames, persisted: list[DataFrame], seen: dict[str, list[Updates]]
    ) -> Frames:
        """Bring DataFrames of few rows to the driver; the others.

        At most one row more is fetched than the driver takes; none of files that are surely larger (``surely_more``).
        If a DataFrame has more rows, those fetched serve as a sample only (``seen``), and Spark's tasks read it from
        the beginning: so its rows are those of one reading, even if each reading gives others. What Spark shuffles
        first is persisted meanwhile.
        """
        room = FETCH_ROWS
        rest: dict[str, list[tuple[Any, Stamp]]] = {}
        for name, result in frames.items():
            for frame, stamp in result:
                needed, where = rows_needed(step.plan, name, frame, stamp, self._keys)
                numbered, read = placed(needed, narrowed(step.plan, name, frame, stamp))
                chosen, known = numbered.select(*map(quote_name, read.columns)), len(persisted)
                most = min(room, DRIVER_ROWS - step.work(segment, DRIVER_ROWS))
                table = self._fetched(name, chosen, most, persisted)
                if table is not None and (self.placement == "driver" or table.num_rows <= most):
                    room -= table.num_rows
                    self.jobs.fetched(name, table.num_rows)
                    self.jobs.asked[name] = asked(", ".join(read.columns), where)
                    updates = read.updates(table)
                    step.insert({name: [updates if stamp.commands else widened(updates, stamp.schema)]})
                else:
                    if table is not None and stamp.commands is None:
                        seen.setdefault(name, []).extend(_sampled(table, read, stamp))
                    rest.setdefault(name, []).append((chosen, read) if len(persisted) > known else (frame, stamp))
        return rest

    def _fetched(self, name: str, frame: DataFrame, most: int, persisted: list[DataFrame]) -> pa.Table | None:
        """The rows of a DataFrame, or more than the driver takes of them; None if these are too much to bring."""
        self._check_runs()
        began = time.perf_counter()
        with self._job(f"read {name}"), _source_failures([name]):
            if self.placement == "driver":
                table: pa.Table | None = to_arrow(frame)
            else:
                if most < 0 or surely_more(frame, most):
                    return None
                if is_dear(frame):
                    persisted.append(frame.persist())
                    frame = frame.select("*")  # which is planned anew, upon what is persisted
                table = first_rows(frame, most)
        self.jobs.add(f"read {name}", time.perf_counter() - began)
        return table

    # the job --------------------------------------------------------------------------------------------------------

    def _on_spark(self, step: Run, segment: Segment, frames: Frames, seen: Seen) -> Outcome:
        """Run a segment as one job; the rows that the driver has go through stage 0 here and join it there."""
        self._check_runs()
        result = Outcome("spark")
        task = task_of(step, segment, self.memory)
        rows: list[Row] = [(shard, SEED, b"") for shard in range(self.shards)]
        matches = step.inbox(segment).get((0, 0), {})
        here = {
            port: [unpacked(message) for message in messages if not isinstance(message, MessageRef)]
            for port, messages in matches.items()
        }
        task = self._divided(step, task, here, frames, seen)
        if here:
            mode = StepMode(self.shards, heavy=task.mode.heavy)
            running = begin(step.plan, 0, 0, Opened(), here, task.region, mode)
            for shard, channel, message in running.sent():
                if step.plan.channels[channel].stage in segment.stages:
                    rows += encode(shard, channel, message)
                else:
                    result.sent.append((shard, channel, message))
            result.measured.add(running.outcome.measured.counts)
        began, title = time.perf_counter(), _title(step, segment)
        payloads = self._run_job(task, title, frames, rows, seen)
        _gather(step.states, step.plan, payloads, result)
        for key, batches in result.slices.items():
            result.stored[key] = with_slices(result.stored.get(key, task.states.get(key)), batches)
        self.jobs.add(title, time.perf_counter() - began, result.passed)
        return result

    # keys with many rows --------------------------------------------------------------------------------------------

    def _divided(self, step: Run, task: Task, here: Mapping[int, list[Message]], frames: Frames, seen: Seen) -> Task:
        """The task, with those keys divided over the tasks of all shards that are heavy in a sample of its input."""
        plan, mode = step.plan, task.mode
        if 0 not in task.stages or mode.hydrating or mode.given or self.shards == 1:
            return task
        if self._divisions is None or self._divisions[0] is not plan:
            self._divisions = plan, divisions(plan)
        possible = [d for d in self._divisions[1] if d.stage in task.stages and not _is_told_apart(step, d)]
        if not possible:
            return task
        ports = {plan.channels[division.channel].port for division in possible}
        upstream = {*plan.upstream(*ports)}
        sources = {plan.source_of[i] for i in upstream if i in plan.source_of}
        sample = {port: _some_of(parts) for port, parts in here.items()}
        for source in sorted(sources & frames.keys()):
            updates = self._sample(plan, source, frames[source], seen)
            sample.setdefault(-1 - plan.sources[source], []).extend(_some_of(updates))
        try:
            sent = begin(plan, 0, 0, Opened(), sample, task.region, StepMode(), upstream).sent()
            heavy, divided = heavy_keys(possible, sent, plan, self.shards)
        except errors.AltneuError:  # which the step will meet where it reads all rows
            return task
        return task if heavy is None else replace(task, mode=replace(mode, heavy=heavy), divided=divided)

    def _sample(self, plan: Plan, source: str, parts: list[tuple[Any, Stamp]], seen: Seen) -> Sequence[Updates]:
        """Some rows of a source's large DataFrames, which are looked at once."""
        if source not in seen:
            seen[source] = [*self._samples(plan, source, parts)]
        return seen[source]

    def _samples(self, plan: Plan, source: str, parts: list[tuple[Any, Stamp]]) -> Iterator[Updates]:
        """Some of the first rows of large DataFrames, but of those that Spark would have to shuffle first."""
        for frame, stamp in parts:
            expected = expected_bytes(frame)
            is_large = expected is None or expected > _SAMPLED_BYTES
            if is_large and stamp.commands is None and not is_dear(frame):
                needed = rows_needed(plan, source, frame, stamp, self._keys)[0]
                read = narrowed(plan, source, frame, stamp)
                began = time.perf_counter()
                with self._job(f"sample {source}"), _source_failures([source]):
                    table = first_rows(needed.select(*map(quote_name, read.columns)), SAMPLE_ROWS)
                self.jobs.add(f"sample {source}", time.perf_counter() - began)
                if table is not None:
                    yield from _sampled(table, read, stamp)

    def _run_job(self, task: Task, title: str, frames: Frames, rows: list[Row], seen: Seen) -> list[bytes]:
        """Run the stages of a task, each shard by itself; what they tell.

        Messages pass through the stages that they are not for. So a DataFrame is read beside the stage before the first
        one that wants something of it.
        """
        read: defaultdict[int, list[DataFrame]] = defaultdict(list)
        handed: dict[str, list[DataFrame]] = {}
        with _source_failures(list(frames)):
            for source, parts in frames.items():
                if not task.stages[0] and source in task.plan.sources:
                    before = max((s for s in task.stages if s < task.plan.first_uses[source]), default=0)
                    made = [read_frame(task, source, frame, stamp, self.jobs, self._keys) for frame, stamp in parts]
                    read[before] += [messages for messages, _ in made]
                    handed[source] = [rows for _, rows in made if rows is not None]
        settings = self._settings(task.plan, frames, handed, seen) if frames else _OWN_SETTINGS
        with self._job(title, settings), _source_failures(list(frames)):
            messages = self._first_stage(task, read[task.stages[0]], rows)
            for stage in task.stages[1:]:
                kernel = titled(run_stage(task, stage), f"stage {stage}: {task.plan.stage_label(stage)}")
                messages = by_shard(messages, self.shards).mapInArrow(kernel, SPARK_SCHEMA)
                messages = _union([messages, *read[stage]])
            return _told(messages)

    def _settings(
        self, plan: Plan, frames: Frames, handed: Mapping[str, list[DataFrame]], seen: Seen
    ) -> Mapping[str, str]:
        """How Spark hands the rows of DataFrames to Python: so many at a time that they take up some 16 MB.

        Rows of numbers have a width, others the mean width of a sample, which bounds nothing: where memory is given, or
        no sample can be had, Spark counts their bytes.
        """
        width = RECORD_BYTES // RECORD_ROWS
        for source, rows in handed.items():
            width = max([width, *(16 * len(frame.columns) for frame in rows)])
            if not all(has_width(field.dataType) for frame in rows for field in frame.schema):
                sample = () if self._is_bounded() else self._sample(plan, source, frames[source], seen)
                if not sample:
                    return record_batches(RECORD_ROWS, RECORD_BYTES)
                width = max(width, sum(map(bytes_of, sample)) // max(sum(map(len, sample)), 1))
        return record_batches(max(RECORD_BYTES // width, 1))

    def _check_runs(self) -> None:
        """Refuse to start a job of a SparkSession that was stopped, of which each call of Spark's says something else.

        Raises:
            StepFailedError: it was stopped.
        """
        if is_stopped(self.spark):
            raise StepFailedError(
                "the step needs Spark, whose SparkSession was stopped, and nothing of it is committed; open the store "
                "again with an.Session(spark, path=...) of one that runs, and insert what was not committed"
            )

    def _is_bounded(self) -> bool:
        """Whether the memory of tasks has a bound."""
        return self.memory is not None or self.spark.conf.get(_TASK_MEMORY, None) is not None

    def _first_stage(self, task: Task, read: list[DataFrame], rows: list[Row]) -> DataFrame:
        """Messages of a segment's first stage.

        Those of stage 0 come of DataFrames that are ``read``, of what a hydration reads or feedback brings back, and of
        what the driver has; every other stage finds what it needs in the store.
        """
        first, plan = task.stages[0], task.plan
        parts: list[DataFrame] = []
        if task.starts:
            title = f"stage {first}: {plan.stage_label(first)}" if first else "read arrangements"
            shards = self.spark.range(0, self.shards, 1, self.shards)
            parts.append(shards.mapInArrow(titled(start(task), title), SPARK_SCHEMA))
        if not first:
            parts += [*read, from_arrow(self.spark, pa.Table.from_batches(list(pack(rows)), SCHEMA), SPARK_SCHEMA)]
        return _union(parts)

    @contextmanager
    def _job(self, title: str, settings: Mapping[str, str] = _IN_BATCHES) -> Iterator[None]:
        """Settings and a readable name for the jobs inside; on an interrupt they are cancelled."""
        before = {key: self.spark.conf.get(key, None) for key in settings}
        try:
            with job_group(self.spark, f"altneu-{id(self)}", title):
                for key, value in settings.items():
                    self.spark.conf.set(key, value)
                yield
        finally:
            with interrupts.deferred():
                for key, old in before.items():
                    if old is None:
                        self.spark.conf.unset(key)
                    else:
                        self.spark.conf.set(key, old)

    # reading --------------------------------------------------------------------------------------------------------

    def reshard(self, plan: Plan, table: StateTable, parting: Parting) -> Outcome:
        """Part the state of every shard, by tasks where it is large."""
        rows = sum(map(table.rows, table.layouts))
        if self.placement == "driver" or (self.placement == "auto" and rows <= DRIVER_ROWS):
            return reshard_here(plan, table, parting, self.batch_writer)
        result = Outcome("spark")
        task = task_on(plan, table, table.layouts, StepMode(parting.before), self.memory)
        with self._job(f"altneu: {parting.before} shards become {parting.after}", _OWN_SETTINGS), _source_failures([]):
            payloads = self._run_on_shards(part_shards(task, parting), parting.before, "part shards")
        _gather(table, plan, payloads, result)
        return result

    def _run_on_shards(self, kernel: Kernel, shards: int, title: str) -> list[bytes]:
        numbers = self.spark.range(0, shards, 1, shards)
        payloads = numbers.mapInArrow(titled(kernel, title), SPARK_SCHEMA)
        return _told(payloads)

    def frame_of(self, table: pa.Table) -> DataFrame:
        """Rows of the driver as a DataFrame."""
        return from_arrow(self.spark, in_units_of_spark(table), spark_schema(table.schema))

    def read(self, table: StateTable, ports: ViewPorts, view: str, at: At, on_errors: str) -> DataFrame:
        """A large view as a DataFrame that Spark's own tasks read, shard by shard, from the segments."""
        kernel = contents_reader(table, ports, view, at, on_errors, self.shards, self.memory)
        shards = self.spark.range(0, self.shards, 1, self.shards)
        return shards.mapInArrow(titled(kernel, f"read view {view}"), spark_schema(ports.schema))

    def read_updates(self, table: StateTable, name: str, diff: str, at: At) -> DataFrame:
        """The rows of an arrangement at a time with their counts, which Spark's own tasks read, shard by shard."""
        kernel = updates_reader(table, name, diff, at, self.shards, self.memory)
        shards = self.spark.range(0, self.shards, 1, self.shards)
        schema = table.layouts[name].schema.append(pa.field(diff, pa.int64(), nullable=False))
        return shards.mapInArrow(titled(kernel, f"read {name}"), spark_schema(schema))


def task_of(step: Run, segment: Segment, memory: int | None = None) -> Task:
    """What the tasks of a segment are sent; what they need of it is in the store from now on."""
    plan, states, mode = step.plan, step.states, step.mode
    named = states.named(plan.states_of(segment.stages))
    inbox: dict[tuple[int, int], dict[int, list[MessageRef]]] = {}
    for place, result in step.inbox(segment).items():
        for channel, messages in result.items():
            if channel >= 0:
                sent = [(place[1], channel, message) for message in messages]
                refs = [ref for *_, ref in written(plan, mode.given, sent, states.names, states.write)]
                inbox.setdefault(place, {})[channel] = refs
    sent_refs = [ref for channels in inbox.values() for refs in channels.values() for ref in refs]
    used = {name for value in (*named.values(), *(ref.to_json() for ref in sent_refs)) for name in blob_names(value)}
    directory = states.store.segment_directory
    assert directory is not None
    states.store.hand_over()
    return Task(
        plan,
        step.region_of(segment),
        mode,
        states.store.next_number,
        directory,
        states.store.durable,
        named,
        {name: bytes(states.blob(name)) for name in used},
        segment.stages,
        inbox,
        memory,
    )


def _told(messages: DataFrame) -> list[bytes]:
    """What stages tell the driver."""
    return [bytes(r[0]) for r in messages.where(f"port = {META}").select("payload").collect()]


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda whole, part: whole.union(part), frames)


def _title(step: Run, segment: Segment) -> str:
    """What a job is called on Spark's pages."""
    plan, scope, rounds = step.plan, segment.scope, segment.rounds
    where = ""
    for at in reversed(rounds):
        where += f"{' in' if where else ','} round {at} of the loop over {', '.join(plan.scopes[scope].names)}"
        scope = plan.scopes[scope].parent
    stages = "; ".join(plan.stage_label(stage) for stage in segment.stages if stage)
    return f"altneu step {step.region.lower.to_pylist()} to {step.region.upper.to_pylist()}{where}: {stages}"[:_TITLE]


def _gather(states: StateTable, plan: Plan, payloads: list[bytes], result: Outcome) -> None:
    """Add the outcomes of the tasks of a segment, those of earlier stages first."""

    def opened(node: int, data: Data) -> list[Updates]:
        schema, width = plan.nodes[node].schema, plan.lattice_of(node).width
        return [updates_from_batch(batch, schema, width) for batch in states.open_data(data)]

    encoded = [unpack_meta(payload) for payload in payloads]
    for value, blobs in sorted(encoded, key=lambda pair: int(pair[0].get("stage", 0))):
        if "error" in value:
            name, text = value["error"]
            raise getattr(errors, name, StepFailedError)(text)
        states.blobs.update(blobs)
        result.add(Outcome.from_json(cast(StoredOutcome, value), opened))


def _is_told_apart(step: Run, division: Division) -> bool:
    """Whether changes of what is there already are shown, and would not meet those that slices make."""
    return division.is_shown and any(step.states.table.rows(name) for name in division.arrangements)


def _some_of(messages: Sequence[Message]) -> list[Message]:
    """Rows from all over some messages of rows."""
    result: list[Message] = []
    for message in messages:
        most = max(SAMPLE_ROWS // len(messages), _LEAST_SAMPLED)
        if isinstance(message, Updates) and len(message) > most:
            result.append(message.take(np.linspace(0, len(message) - 1, most).astype(np.int64)))
        else:
            result.append(message)
    return result


def _sampled(table: pa.Table, read: Stamp, stamp: Stamp) -> Iterator[Updates]:
    """Rows as updates; none if the step that reads them all will refuse one."""
    try:
        yield widened(read.updates(table), stamp.schema)
    except errors.AltneuError:
        return


_NOT_INSTALLED = re.compile("No module named '(altneu|numba|numpy|polars|pyarrow|sqlglot|tzdata)['.]")
"""Said where altneu or one of the packages that it needs is not there, all of which this process has."""


@contextmanager
def _source_failures(sources: list[str]) -> Iterator[None]:
    """What Spark raises while it reads DataFrames is the sources' failure: our kernels report theirs as messages."""
    try:
        yield
    except (errors.AltneuError, TooManyMatches):
        raise
    except Exception as error:
        text = failure_of(error)
        if (missing := _NOT_INSTALLED.search(text)) is not None:
            raise StepFailedError(
                f"Spark's Python workers cannot import {missing[1]}, and nothing of the step is committed: they run a "
                "different Python than this process. Set the environment variable PYSPARK_PYTHON to the path of this "
                f"Python before the SparkSession is created ({sys.executable}), or create it with "
                "altneu.spark_session()"
            ) from error
        if not sources:
            raise StepFailedError(f"a Spark job of the step failed and nothing of it is committed: {text}") from error
        raise SourceFailedError(
            f"a DataFrame inserted into {', '.join(map(repr, sources))} failed while it was read, "
            f"and nothing of the step is committed: {text}\n"
            f"Call {', '.join(f'session.discard({name!r})' for name in sources)} and insert the rows again when the "
            "cause is removed."
        ) from error
