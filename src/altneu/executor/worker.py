"""What runs inside Spark's Python workers: the functions given to ``mapInArrow``.

Each drains its input, whatever happens: a task that stops reading kills its worker. Failures of a step travel to the
driver as messages, so that it can tell them from failures of a source.
"""

from __future__ import annotations

import gc
import hashlib
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from altneu.errors import AltneuError
from altneu.executor.base import ArrangementState, Message, Region, StageResult, StepMode, run
from altneu.executor.inputs import Stamp
from altneu.executor.state import (
    BLOB_BYTES,
    Data,
    Names,
    opener,
    state_from_json,
    state_to_json,
    to_ipc,
    updates_to_batch,
)
from altneu.executor.wire import (
    META,
    SEED,
    Parcel,
    Row,
    Sent,
    decode,
    encode,
    given_to,
    open_parcel,
    pack,
    pack_meta,
    parcels,
    rows_in,
    unpack,
)
from altneu.operators.accumulate import Accumulator
from altneu.physical import Plan, Stages
from altneu.rows import Rows
from altneu.store import Folder, write_segment
from altneu.update import Updates

CHUNK_ROWS = 1 << 19  # rows of a source that one run of stage 0 takes: enough to combine well, little enough to hold
_frozen = False

Batches = Iterator[pa.RecordBatch]
Kernel = Callable[[Batches], Batches]


@dataclass(frozen=True)
class Task:
    """What every task of a segment is sent: the plan, the region, and the names of its state and its messages.

    ``inbox`` holds, by stage and shard and then by channel, the messages that segments before it have left.
    """

    plan: Plan
    region: Region
    mode: StepMode
    number: int
    directory: Folder
    durable: bool
    states: Mapping[tuple[str, int], Data]
    blobs: Mapping[str, bytes]
    stages: Stages
    inbox: Mapping[tuple[int, int], Mapping[int, list[Parcel]]] = field(default_factory=dict)

    def open_data(self, data: Data) -> list[pa.RecordBatch]:
        """Open data that a state or a message names."""
        return opener(self.directory, self.blobs)(data)


class TaskSnapshot(Mapping[str, ArrangementState]):
    """One shard's state, opened (memory-mapped) where it is touched."""

    def __init__(self, task: Task, shard: int) -> None:
        self.task, self.shard = task, shard
        self.opened: dict[str, ArrangementState] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """The state of an arrangement, or the default."""
        if name not in self.opened:
            value = self.task.states.get((name, self.shard))
            if value is None:
                return default
            self.opened[name] = state_from_json(self.task.plan.layouts[name], value, self.task.open_data)
        return self.opened[name]

    def __getitem__(self, name: str) -> ArrangementState:
        found = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(n for n, s in self.task.states if s == self.shard)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Writer:
    """Writes what a task makes, named by its content: small as blobs that travel with it, large as segments."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.names = Names(self.write)
        self.blobs: dict[str, bytes] = {}

    def write(self, batches: list[pa.RecordBatch], schema: pa.Schema) -> Data:
        """Write data that the coming commit, or a later segment of the step, will name."""
        task = self.task
        if sum(b.nbytes for b in batches) < BLOB_BYTES:
            data = to_ipc(batches, schema)
            name = f"b{task.number}.{hashlib.blake2b(data, digest_size=16).hexdigest()}"
            self.blobs[name] = data
            return {"blob": name}
        return write_segment(task.directory, batches, schema, task.number, durable=task.durable).to_json()


def read_source(task: Task, source: str, stamp: Stamp) -> Kernel:
    """Stage 0 for a DataFrame: stamp its rows, run what needs no exchange, send the rest on its way."""

    def kernel(batches: Batches) -> Batches:
        _freeze()

        def rows() -> Iterator[Row]:
            received, outbox = 0, _Outbox(task)
            for chunk in _chunks(batches):
                updates = stamp.updates(chunk)
                received += len(updates)
                result = run(task.plan, 0, 0, {}, {-1 - task.plan.sources[source]: [updates]}, task.region, task.mode)
                yield from outbox.send(result.outbox)
            yield outbox.meta({"received": {source: received}})

        yield from pack(_guarded(rows(), batches))

    return kernel


def read_partials(task: Task, source: str, accumulator: Accumulator, time: int, channel: int) -> Kernel:
    """Stage 0 for sums that Spark has made already: they become slots and go where the rows would have gone."""

    def kernel(batches: Batches) -> Batches:
        _freeze()

        def rows() -> Iterator[Row]:
            from altneu.executor.base import shard_of

            received, outbox = 0, _Outbox(task)
            for chunk in _chunks(batches):
                partials = Rows.from_batch(chunk)
                slots = accumulator.from_partials(partials, [time])
                received += int(sum(v or 0 for v in partials.column("#rows").to_pylist()))
                key = task.plan.channels[channel].key
                target = shard_of(slots.rows, key or (), task.mode.shards)
                parts = ((shard, channel, slots.filter(target == shard)) for shard in range(task.mode.shards))
                yield from outbox.send((s, c, part) for s, c, part in parts if len(part))
            yield outbox.meta({"received": {source: received}})

        yield from pack(_guarded(rows(), batches))

    return kernel


def start(task: Task) -> Kernel:
    """The first stage of a segment whose input is the numbers of the shards: all it needs it finds in the store."""

    def kernel(batches: Batches) -> Batches:
        _freeze()

        def rows() -> Iterator[Row]:
            for batch in batches:
                for shard in batch.column(0).to_pylist():
                    yield from _run(task, task.stages[0], shard, {})

        yield from pack(_guarded(rows(), batches))

    return kernel


def run_stage(task: Task, stage: int) -> Kernel:
    """A later stage: gather the shard's messages, run, pass on what later stages want."""

    def kernel(batches: Batches) -> Batches:
        _freeze()

        def rows() -> Iterator[Row]:
            inbox: dict[int, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
            for shard, port, payload in unpack(batches):
                if port == META or (port >= 0 and task.plan.channels[port].stage > stage):
                    yield shard, port, payload
                elif port == SEED:
                    inbox[shard].setdefault(SEED, [])
                else:
                    inbox[shard][port].append(payload)
            for shard, payloads in inbox.items():
                yield from _run(task, stage, shard, payloads)

        yield from pack(_guarded(rows(), batches))

    return kernel


def _run(task: Task, stage: int, shard: int, payloads: Mapping[int, list[bytes]]) -> Iterator[Row]:
    plan, region, given = task.plan, task.region, task.mode.given
    snapshot = TaskSnapshot(task, shard)
    inbox: dict[int, list[Message]] = defaultdict(list)
    for port, found in task.inbox.get((stage, shard), {}).items():
        inbox[port] += [open_parcel(plan, port, p, snapshot, region, task.open_data) for p in found]
    for port, parts in payloads.items():
        if port >= 0:
            inbox[port] += [decode(plan, port, p, snapshot, region, given) for p in parts]
    result = run(plan, stage, shard, snapshot, inbox, region, task.mode)
    outbox = _Outbox(task, shard)
    for name, state in snapshot.opened.items():
        outbox.writer.names.note(state, task.states[name, shard])
    yield from outbox.send(result.outbox)
    if stage != task.stages[-1]:
        yield shard, SEED, b""
    yield outbox.meta(_made(task, stage, shard, result, outbox.writer))


def _made(task: Task, stage: int, shard: int, result: StageResult, writer: Writer) -> dict[str, Any]:
    kept = {p.contents for p in task.plan.views.values()}
    return {
        "stage": stage,
        "shard": shard,
        "new": {n: writer.names.of(b) for n, b in result.new.items() if len(b) and n in kept},
        "states": {n: state_to_json(s, writer.names) for n, s in result.states.items()},
        "taps": {str(i): _tap(u, writer) for i, u in result.taps.items()},
    }


def _tap(updates: Updates, writer: Writer) -> Data:
    batch = updates_to_batch(updates)
    return writer.write([batch], batch.schema)


class _Outbox:
    """What a task sends: rows to later stages of its segment, parcels in the store to stages of others."""

    def __init__(self, task: Task, shard: int = 0) -> None:
        self.task, self.shard, self.writer = task, shard, Writer(task)
        self.leaving: list[Sent] = []
        self.passed = 0

    def send(self, messages: Iterable[tuple[int, int, Message]]) -> Iterator[Row]:
        """The rows of messages to this segment; others are written."""
        plan, given, writer = self.task.plan, self.task.mode.given, self.writer
        out: list[Sent] = []
        for target, channel, message in messages:
            if plan.channels[channel].stage not in self.task.stages:
                out.append((target, channel, message))
                continue
            self.passed += rows_in(message)
            if given_to(plan, channel, given):
                yield target, channel, b""  # whoever gets it reads the same state
            else:
                yield from encode(target, channel, message)
        self.leaving += parcels(plan, given, out, writer.names, writer.write)

    def meta(self, told: dict[str, Any]) -> Row:
        """What the driver is told: what was made, and what was written for later segments."""
        return self.shard, META, pack_meta({**told, "sent": self.leaving, "passed": self.passed}, self.writer.blobs)


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Spark's small batches as tables large enough to combine well."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.num_rows
        if size >= CHUNK_ROWS:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if size:
        yield pa.Table.from_batches(waiting)


def _guarded(rows: Iterator[Row], batches: Batches) -> Iterator[Row]:
    """The rows, or a message that tells what went wrong; the input is read to its end in any case."""
    try:
        yield from rows
    except AltneuError as error:
        yield 0, META, pack_meta({"error": [type(error).__name__, str(error)]}, {})
    except Exception as error:
        if _is_from_input(error):
            raise
        text = f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
        yield 0, META, pack_meta({"error": ["StepFailedError", text]}, {})
    for _ in batches:
        pass


def _is_from_input(error: Exception) -> bool:
    """Whether reading the input failed, which is Spark's to report."""
    return isinstance(error, EOFError | ConnectionError | BrokenPipeError)


def _freeze() -> None:
    """Exempt what is imported from the garbage collection that Spark runs after every task, once per worker."""
    global _frozen  # noqa: PLW0603 -- one flag a process
    if not _frozen:
        gc.collect()
        gc.freeze()
        _frozen = True


def warm() -> None:
    """Compile or load the kernels, in the daemon from which workers are forked."""
    from altneu.executor.warm import warm_kernels

    warm_kernels()
