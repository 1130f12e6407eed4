"""What runs inside Spark's Python workers: the functions given to ``mapInArrow``.

Each drains its input, whatever happens: a task that stops reading kills its worker. Failures of a step travel to the
driver as messages, so that it can tell them from failures of a source.
"""

from __future__ import annotations

import gc
import traceback
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu.columnar.rows import Ints, Rows, as_array
from altneu.errors import AltneuError
from altneu.operators.base import ArrangementState, Message, Opened, Region, Snapshot, StepMode
from altneu.operators.reduce.accumulate import Accumulator
from altneu.order import Antichain
from altneu.order.difference import multiply
from altneu.plan.physical import Plan, Port, Stages
from altneu.runtime.base import run
from altneu.runtime.divided import Division, home_of, sent_to
from altneu.runtime.files import Files
from altneu.runtime.inputs import Stamp
from altneu.runtime.measured import Counted, Counts
from altneu.runtime.memory import shares
from altneu.runtime.outcome import Outcome, Sent
from altneu.runtime.packed import Packed, unpacked
from altneu.runtime.parts import Inbox, StageRun
from altneu.runtime.reshard import Parting, parted_states
from altneu.runtime.segments import Place, SegmentBatchWriter, Writer
from altneu.runtime.spark.decimals import as_decimals
from altneu.runtime.spark.wire import (
    META,
    SEED,
    Row,
    decode,
    encode,
    given_to,
    open_message,
    pack,
    pack_meta,
    rows_in,
    unpack,
    written,
)
from altneu.runtime.spill import bytes_of
from altneu.runtime.state import BLOB_BYTES, Names, StateTable, blob_names, lazy_state, state_to_json
from altneu.runtime.stored import MessageRef, StoredState
from altneu.store import Folder
from altneu.trace.batch import Arranged, LazyBatch
from altneu.trace.update import Updates

APART, DIFF, OF = "#apart", "#diff", "#of"
CHUNK_ROWS = 1 << 19  # rows of a source that one run of stage 0 takes: enough to combine well, little enough to hold
LEAST_ROWS = 1 << 12  # so few that a failure to find memory for them is one
_frozen = False

Batches = Iterator[pa.RecordBatch]
Kernel = Callable[[Batches], Batches]


@dataclass(frozen=True)
class Task:
    """What every task of a segment is sent: the plan, the region, and the names of its state and its messages.

    ``inbox`` holds, by stage and shard and then by channel, the messages that segments before it have left;
    ``divided`` says, by stage, how heavy keys are.
    """

    plan: Plan
    region: Region
    mode: StepMode
    number: int
    directory: Folder
    durable: bool
    states: Mapping[tuple[str, int], StoredState]
    blobs: Mapping[str, bytes]
    stages: Stages
    inbox: Mapping[tuple[int, int], Mapping[int, list[MessageRef]]] = field(default_factory=dict)
    memory: int | None = None
    divided: Mapping[int, Division] = field(default_factory=dict)

    @property
    def place(self) -> Place:
        """Where its tasks write."""
        return Place(self.directory, self.number, self.durable)

    @property
    def starts(self) -> bool:
        """Whether its first stage finds something in the store: stage 0 has rows of sources, unless it fills views.

        What feedback brings back waits there, too.
        """
        first = self.stages[0]
        return first > 0 or self.mode.hydrating or first in self.plan.takers


def task_on(plan: Plan, table: StateTable, names: Collection[str], mode: StepMode, memory: int | None) -> Task:
    """A task outside of steps: it works on the present state of some arrangements."""
    table.settle()
    states = {key: value for key, value in table.stored.items() if key[0] in names}
    blobs = {name: bytes(table.blob(name)) for value in states.values() for name in blob_names(value)}
    nothing = Antichain.minimum(plan.lattice)
    region, folder, store = Region(nothing, nothing, nothing), table.store.segment_directory, table.store
    assert folder is not None
    store.hand_over()
    return Task(plan, region, mode, store.next_number, folder, store.durable, states, blobs, (), memory=memory)


@dataclass(frozen=True)
class Memory:
    """How much a task takes up at a time, as it is when the task begins."""

    room: int
    mapped: int | None

    @classmethod
    def of(cls, task: Task) -> Memory:
        """What the process has left, or the session has set."""
        return cls(*shares(task.memory))


class TaskSnapshot(Snapshot):
    """One shard's state, opened where it is touched, without the arrangements that are ``hidden``."""

    def __init__(self, task: Task, shard: int, memory: Memory, hidden: Collection[str] = ()) -> None:
        self.task, self.shard, self.hidden = task, shard, hidden
        self.files = Files(task.directory, task.blobs.__getitem__, scarce=memory.mapped is not None)
        self.opened: dict[str, ArrangementState] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """The state of an arrangement, or the default."""
        if name not in self.opened:
            value = self.task.states.get((name, self.shard))
            if value is None or name in self.hidden:
                return default
            layout = self.task.plan.layouts[name]
            self.opened[name] = lazy_state(layout, value, self.files)
        return self.opened[name]

    def __getitem__(self, name: str) -> ArrangementState:
        result = self.get(name)
        if result is None:
            raise KeyError(name)
        return result

    def __iter__(self) -> Iterator[str]:
        return iter(n for n, s in self.task.states if s == self.shard and n not in self.hidden)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def read_source(task: Task, source: str, stamp: Stamp, decimals: Mapping[int, pa.DataType]) -> Kernel:
    """Stage 0 for a DataFrame: stamp its rows, run what needs no exchange, send the rest on its way.

    The columns that come are the stamp's, in their order; those of ``decimals`` are whole numbers on their way.
    """

    def kernel(batches: Batches) -> Batches:
        _freeze()

        def rows() -> Iterator[Row]:
            memory = Memory.of(task)
            received, outbox = 0, _Outbox(task, memory)
            measured = Counted()
            for chunk in _chunks(batches, memory.room):
                updates = stamp.updates(as_decimals(chunk, decimals).rename_columns(stamp.columns))
                received += len(updates)
                for result in _outcome_of_source(task, source, updates):
                    measured.add(result.measured.counts)
                    yield from outbox.send(result.sent)
            yield outbox.meta(Outcome(received={source: received}, measured=measured))

        yield from pack(_guarded(rows(), batches))

    return kernel


def _outcome_of_source(
    task: Task, source: str, updates: Updates, nodes: Collection[int] | None = None
) -> Iterator[Outcome]:
    """What stage 0, or ``nodes`` of it, makes of rows; where memory does not do for all of them, half by half."""
    try:
        inbox: dict[int, list[Message]] = {-1 - task.plan.sources[source]: [updates]}
        result = run(task.plan, 0, 0, Opened(), inbox, task.region, task.mode, nodes)
    except MemoryError:
        if len(updates) <= LEAST_ROWS:
            raise
    else:
        yield result
        return
    gc.collect()  # the traceback that was just let go of held what the run had made
    pa.default_memory_pool().release_unused()
    middle = len(updates) // 2
    for half in (np.arange(middle), np.arange(middle, len(updates))):
        yield from _outcome_of_source(task, source, updates.take(half), nodes)


@dataclass(frozen=True)
class Adder:
    """Where the sums of a source go that Spark has made, and the nodes that would have made them of rows."""

    accumulator: Accumulator
    channel: int
    node: int
    nodes: frozenset[int]


def read_partials(
    task: Task, source: str, adders: Sequence[Adder], columns: Sequence[str], stamp: Stamp, time: int
) -> Kernel:
    """Stage 0 for sums that Spark has made already: they become slots and go where the rows would have gone.

    ``columns`` are the names of what comes. The column ``OF`` has the number of the adder whose group it is; its
    columns' names begin with that. Groups with a row in the column ``APART`` are as many such rows, which the adder's
    nodes read as they would any others. The sums of a group count as often as its rows do, as the stamp says or
    the column ``DIFF``.
    """

    def kernel(batches: Batches) -> Batches:
        _freeze()

        def rows() -> Iterator[Row]:
            memory = Memory.of(task)
            outbox, measured, received = _Outbox(task, memory), Counted(), dict[frozenset[int], int]()
            counts = dict[int, Counts]()
            for numbered in _chunks(batches, memory.room):
                chunk = numbered.rename_columns(columns)
                for number, adder in enumerate(adders):
                    groups = chunk.filter(pc.equal(chunk.column(OF), number))
                    there, apart = _without_apart(groups, stamp)
                    if apart is not None:
                        received[adder.nodes] = received.get(adder.nodes, 0) + len(apart)
                        for result in _outcome_of_source(task, source, apart, adder.nodes):
                            measured.add(result.measured.counts)
                            yield from outbox.send(result.sent)
                    if not there.num_rows:
                        continue
                    before = perf_counter()
                    partials = _of_adder(there, number)
                    slots = adder.accumulator.from_partials(partials, [time], _diffs_of(there, stamp))
                    seconds = perf_counter() - before
                    added = int(sum(partials.column("#rows").to_pylist()))
                    known = counts.setdefault(adder.node, [0, 0, 0, 0.0])
                    counts[adder.node] = [known[0] + added, known[1] + len(slots), 0, known[3] + seconds]
                    channel = adder.channel
                    key = task.plan.channels[channel].key
                    parts = sent_to(channel, slots, key or (), task.mode, task.region.upper)
                    yield from outbox.send((place, channel, part) for place, part in parts)
            through = dict[int, Counts]()
            for node, counted in counts.items():
                for above in task.plan.upstream(Port(node)):  # of several that read the rows it is the most
                    most = max(counted[0], through[above][0] if above in through else 0)
                    through[above] = [most, most, 0, 0.0]
            measured.add({**through, **counts})
            read = max(received.values(), default=0) + max((c[0] for c in counts.values()), default=0)
            yield outbox.meta(Outcome(received={source: int(read)}, measured=measured))

        yield from pack(_guarded(rows(), batches))

    return kernel


def _of_adder(groups: pa.Table, number: int) -> Rows:
    """The groups of one adder, with the columns as its accumulator names them."""
    prefix = f"{number}:"
    names = [name for name in groups.column_names if name == "#rows" or name.startswith(prefix)]
    return Rows.from_batch(groups.select(names).rename_columns([name.removeprefix(prefix) for name in names]))


def _diffs_of(groups: pa.Table, stamp: Stamp) -> Ints | None:
    """How often each row of a group is there; None if once."""
    if isinstance(stamp.diff, str):
        return stamp.diffs_of(pa.table({stamp.diff: groups.column(DIFF)}), groups.num_rows)
    return None if stamp.diff * stamp.sign == 1 else np.full(groups.num_rows, stamp.diff * stamp.sign)


def _without_apart(chunk: pa.Table, stamp: Stamp) -> tuple[pa.Table, Updates | None]:
    """The groups that have been added up, and the rows that have not."""
    if APART not in chunk.column_names:
        return chunk, None
    is_apart = chunk.column(APART).is_valid()
    there, apart = chunk.filter(pc.invert(is_apart)).drop_columns([APART]), chunk.filter(is_apart)
    if not apart.num_rows:
        return there, None
    rows, times = as_array(apart.column(APART)), np.asarray(as_array(apart.column("#rows")), np.int64)
    table = pa.table(rows.flatten(), names=[f.name for f in rows.type])
    updates = stamp.updates(table)
    if isinstance(stamp.diff, str):
        times = times[np.asarray(as_array(table.column(stamp.diff))) != 0]  # such rows are no updates
    return there, replace(updates, diffs=multiply(updates.diffs, times))


def start(task: Task) -> Kernel:
    """The first stage of a segment whose input is the numbers of the shards: all it needs it finds in the store."""

    def kernel(batches: Batches) -> Batches:
        _freeze()

        def rows() -> Iterator[Row]:
            for batch in batches:
                for shard in batch.column(0).to_pylist():
                    yield from _ShardRun(task, task.stages[0], shard).rows()

        yield from pack(_guarded(rows(), batches))

    return kernel


def run_stage(task: Task, stage: int) -> Kernel:
    """A later stage: gather the shard's messages, run, pass on what later stages want."""

    def kernel(batches: Batches) -> Batches:
        _freeze()

        def rows() -> Iterator[Row]:
            runs: dict[int, _ShardRun] = {}
            for shard, port, payload in unpack(batches):
                if port == META or (port >= 0 and task.plan.channels[port].stage > stage):
                    yield shard, port, payload
                    continue
                if shard not in runs:
                    runs[shard] = _ShardRun(task, stage, shard)
                if port != SEED:
                    runs[shard].receive(port, payload)
            while runs:  # each lets go of its messages before the next
                yield from runs.pop(next(iter(runs))).rows()

        yield from pack(_guarded(rows(), batches))

    return kernel


def part_shards(task: Task, parting: Parting) -> Kernel:
    """Part the state of the shards whose numbers come; what each shard has is told."""

    def kernel(batches: Batches) -> Batches:
        _freeze()

        def rows() -> Iterator[Row]:
            for batch in batches:
                for shard in batch.column(0).to_pylist():
                    yield from _parted(task, parting, shard)

        yield from pack(_guarded(rows(), batches))

    return kernel


def _parted(task: Task, parting: Parting, shard: int) -> Iterator[Row]:
    memory, writer = Memory.of(task), Writer(task.place)
    names, snapshot = Names(writer.write), TaskSnapshot(task, shard, memory)
    batch_writer = SegmentBatchWriter(memory.room, memory.mapped, files=snapshot.files, writer=writer)
    values: dict[int, dict[str, StoredState]] = defaultdict(dict)
    for name in snapshot:
        for _, target, state in parted_states(task.plan, {name: snapshot[name]}, shard, parting, batch_writer):
            values[target][name] = state_to_json(state, names)
    writer.settle()
    for target, states in values.items():
        named = {name: writer.blobs[name] for name in blob_names(states)}
        result = Outcome(stored={(name, target): value for name, value in states.items()})
        yield target, META, pack_meta(result.to_json(names), named)


class _ShardRun:
    """One stage in one shard, or in a slice of one, from the messages that it gets to those that it sends."""

    def __init__(self, task: Task, stage: int, number: int) -> None:
        self.task, self.stage = task, stage
        self.shard, slice_ = home_of(number, task.mode.shards)
        self.division = None if slice_ is None else task.divided[stage]
        self.memory = Memory.of(task)
        hidden = () if self.division is None else self.division.arrangements
        self.snapshot = TaskSnapshot(task, self.shard, self.memory, hidden)
        heavy, room = task.mode.heavy, self.memory.room
        if slice_ is not None and heavy is not None:
            room //= heavy.homes(task.mode.shards)
        self.inbox = Inbox(task.plan, room if task.plan.in_parts(stage) else None)

    def receive(self, port: int, payload: bytes) -> None:
        """A message from this segment has come."""
        task, snapshot = self.task, self.snapshot
        message = decode(task.plan, port, payload, snapshot, task.region, task.mode.given, snapshot.files)
        self.inbox.add(port, message)

    def rows(self) -> Iterator[Row]:
        """Open the messages of other segments and run; what the stage sends and tells."""
        task, plan, snapshot, division = self.task, self.task.plan, self.snapshot, self.division
        inbox = {} if division is not None else task.inbox.get((self.stage, self.shard), {})
        for port, result in inbox.items():
            for ref in result:
                self.inbox.add(port, open_message(plan, port, ref, snapshot, task.region, snapshot.files))
        outbox = _Outbox(task, self.memory, self.shard)
        batch_writer = SegmentBatchWriter(
            self.memory.room, self.memory.mapped, files=snapshot.files, writer=outbox.writer
        )
        working = StageRun(
            plan, self.stage, self.shard, snapshot, self.inbox, task.region, task.mode, batch_writer, division=division
        )
        yield from outbox.send(working.sent())
        for name, state in snapshot.opened.items():
            outbox.names.note(state, task.states[name, self.shard])
        if self.stage != task.stages[-1] and division is None:
            yield self.shard, SEED, b""
        outcome = working.outcome
        outcome.retain_new({ports.contents for ports in plan.views.values()})
        if division is not None:
            states, outcome.states = outcome.states, {}
            outcome.slices = {key: [*map(outbox.names.of, s.spine.batches)] for key, s in states.items()}
        yield outbox.meta(outcome, self.stage)


class _Outbox:
    """What a task sends: rows to later stages of its segment, references to what it has written to others."""

    def __init__(self, task: Task, memory: Memory, shard: int = 0) -> None:
        self.task, self.shard, self.room = task, shard, memory.room
        self.writer = Writer(task.place)
        self.names = Names(self.writer.write)
        self.leaving: list[Sent] = []
        self.waiting: list[Sent] = []
        self.bytes = self.passed = 0

    def send(self, messages: Iterable[Sent]) -> Iterator[Row]:
        """The rows of messages to this segment; others are written."""
        plan, given = self.task.plan, self.task.mode.given
        for target, channel, message in messages:
            assert not isinstance(message, MessageRef)
            if plan.channels[channel].stage not in self.task.stages:
                self._leave(target, channel, unpacked(message))
                continue
            self.passed += rows_in(message)
            if given_to(plan, channel, given):
                yield target, channel, b""  # whoever gets it reads the same state
            else:
                yield from encode(target, channel, self._by_name(message))

    def _by_name(self, message: Message | Packed) -> Message | MessageRef | Packed:
        """Replace an arrangement whose new batch is long by the name of its segment, which the state names too.

        Sent as rows, the batch would pass through every stage before the one that reads it.
        """
        if not isinstance(message, Arranged):
            return message
        is_stored = isinstance(message.new, LazyBatch) and message.new.stored is not None
        if not is_stored and message.new.nbytes < BLOB_BYTES:
            return message
        named = self.names.of(message.new)
        return MessageRef(named["rows"], named["data"])

    def _leave(self, target: int, channel: int, message: Message) -> None:
        """Messages to other segments are written together, as long as there is room."""
        self.waiting.append((target, channel, message))
        self.bytes += bytes_of(message) if isinstance(message, Updates) else 0
        if self.bytes > self.room:
            self._write()

    def _write(self) -> None:
        mode = self.task.mode
        self.leaving += written(self.task.plan, mode.given, self.waiting, self.names, self.writer.write)
        self.waiting, self.bytes = [], 0

    def meta(self, outcome: Outcome, stage: int = 0) -> Row:
        """What the driver is told: the outcome of a stage, with what was written for later segments."""
        self._write()
        outcome.sent, outcome.passed = self.leaving, self.passed
        told = {"stage": stage, **outcome.to_json(self.names)}
        self.writer.settle()
        return self.shard, META, pack_meta(told, self.writer.blobs)


def _chunks(batches: Iterable[pa.RecordBatch], room: int) -> Iterator[pa.Table]:
    """Spark's small batches as tables large enough to combine well."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= CHUNK_ROWS or size >= room:
            yield pa.Table.from_batches(waiting)
            waiting, rows, size = [], 0, 0
    if rows:
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
    from altneu.runtime.spark.warm import warm_kernels

    warm_kernels()
