"""A stage of one shard run in parts, where its messages are more than there is memory for.

A stage works key by key: rows of different keys never meet in it, whatever shards the keys are in. So it may be run for
some of the keys after the others, as if each had a shard of its own. Keys are parted by ranges of the same hash by
which they find their shard, so that what one arrangement gets from part to part is in the order of batches. Messages
that do not fit wait in a temporary file; of the state a part sees its own range; due future updates are given to
the part of its key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np

from altneu.columnar.hashing import Hashes, hash_rows
from altneu.operators.arrange.operation import ArrangeOp, ReadOp
from altneu.operators.base import MANY_ROWS, ArrangementState, Message, Operation, Region, Snapshot, StepMode
from altneu.plan.physical import Plan
from altneu.runtime.base import Sending, begin, inserted
from altneu.runtime.batch_writer import BatchWriter, Growing
from altneu.runtime.divided import Division
from altneu.runtime.measured import SECONDS
from altneu.runtime.memory import give_back
from altneu.runtime.outcome import Outcome
from altneu.runtime.packed import Packed, unpacked
from altneu.runtime.spark.wire import whole_of
from altneu.runtime.spill import BUCKETS, Cut, Ends, Spill, bytes_of, hashes_of, ordered, weights_of
from altneu.trace.batch import Arranged, Batch, Layout
from altneu.trace.future import FutureUpdates
from altneu.trace.spine import Merging, Spine
from altneu.trace.update import Updates

_RUNS = 16  # runs of future updates that are more than this part of the room are kept apart
_FLUSHES = 4  # what may wait in memory is written in so many parts once it is too much
_TOGETHER = 1 << 16  # rows of messages that are put in order together
Port = int | str  # a channel, a source as ``run`` numbers them, or the state whose future updates these are


class Inbox:
    """The messages of one stage and shard: in memory as long as they fit into ``room``, then in a temporary file.

    Packed messages stay as they are until they are taken. So many may fit whose updates do not: ``bytes`` are theirs,
    and ``held`` those of what is held. ``weights`` are the updates' bytes in each bucket, of what is in order.
    """

    def __init__(self, plan: Plan, room: int | None) -> None:
        self.plan, self.room = plan, room
        self.rows: dict[Port, list[Updates | Packed]] = defaultdict(list)
        self.arranged: dict[int, list[Arranged]] = defaultdict(list)
        self.bytes = self.held = 0
        self.spill: Spill | None = None
        self.is_in_order = False  # messages can be taken by ranges of buckets
        self.weights = np.zeros(BUCKETS, np.int64)
        self._ordered: dict[Port, list[tuple[Packed, Ends]]] = defaultdict(list)

    def add(self, port: int, message: Message | Packed) -> None:
        """A message has come."""
        if isinstance(message, Arranged):
            self.arranged[port].append(message)
        else:
            self.put(port, message)

    def put(self, port: Port, updates: Updates | Packed) -> None:
        """Updates have come."""
        self.rows[port].append(updates)
        if self.room is None:
            return
        if isinstance(updates, Packed):
            self.bytes += updates.bytes_as_updates
            self.held += updates.nbytes
        else:
            size = bytes_of(updates)
            self.bytes, self.held = self.bytes + size, self.held + size
        if self.held > (self.room if self.spill is None else self.room // _FLUSHES):
            self.put_away()

    def put_away(self) -> None:
        """Write to the file what is in memory."""
        self.spill = self.spill or Spill()
        for port, packed, ends in self._taken_in_order():
            self.spill.write(port, packed, ends)
        self.held = 0

    def put_in_order(self) -> None:
        """Get ready for ``take``: a port's messages in memory, each in the order of its buckets."""
        self.is_in_order = True
        if self.spill is not None:
            self.put_away()
        for port, packed, ends in self._taken_in_order():
            self._ordered[port].append((packed, ends))

    def _taken_in_order(self) -> Iterator[tuple[Port, Packed, Ends]]:
        """The messages in memory, each in the order of its buckets; small ones together."""
        for port, parts in self.rows.items():
            while parts:
                part = parts.pop(0)
                packed = part if isinstance(part, Packed) else None
                several, size = [unpacked(part)], len(part)
                while parts and size + len(parts[0]) <= _TOGETHER:
                    part, packed = parts.pop(0), None
                    several.append(unpacked(part))
                    size += len(part)
                updates = Updates.concat(several, several[0].schema, len(several[0].times))
                packed, ends = ordered(updates, self._hashes(port, updates), packed)
                self.weights += weights_of(packed, ends)
                yield port, packed, ends
        self.rows.clear()

    def _hashes(self, port: Port, updates: Updates) -> Hashes:
        """The hash by which rows lie where they are."""
        key = self.plan.shard_key(port) if isinstance(port, str) else self.plan.placed_by.get(port)
        return hash_rows(updates.rows, key)

    def take(self, cut: Cut) -> tuple[dict[int, list[Message]], dict[str, list[Updates]]]:
        """The messages of a range of keys by port, and the future updates by state."""
        lower, upper = hashes_of(cut)
        messages: dict[int, list[Message]] = {}
        due: dict[str, list[Updates]] = {}
        for port in self._ordered if self.spill is None else self.spill.ports():
            updates = list(self._between(port, cut))
            if isinstance(port, str):
                due[port] = updates
            elif updates:
                assert isinstance(port, int)
                messages[port] = [*updates]
        for channel, parts in self.arranged.items():
            new = [replace(part, new=part.new.between(lower, upper)) for part in parts]
            messages[channel] = [part for part in new if len(part.new)]
        return messages, due

    def _between(self, port: Any, cut: Cut) -> Iterator[Updates]:
        if self.spill is not None:
            yield from self.spill.read(port, cut)
            return
        for packed, ends in self._ordered[port]:
            start, stop = int(ends[cut[0]]), int(ends[cut[1]])
            if start < stop:
                yield packed.slice(start, stop).updates()

    def all(self) -> dict[int, list[Message]]:
        """Every message."""
        result: dict[int, list[Message]] = {
            port: [unpacked(part) for part in parts] for port, parts in self.rows.items() if isinstance(port, int)
        }
        for channel, parts in self.arranged.items():
            result[channel] = [*parts]
        return result

    def close(self) -> None:
        """Remove the file."""
        if self.spill is not None:
            self.spill.__exit__()


@dataclass
class StageRun:
    """One run of a stage in one shard; when all of ``sent`` has been taken, ``outcome`` has everything else.

    ``take`` is given each state as soon as it is made, so that what it replaces is let go of before the next is merged.
    With a ``division`` it is a run for a slice of a shard: it has no other results than what is made of divided rows.
    """

    plan: Plan
    stage: int
    shard: int
    snapshot: Snapshot
    inbox: Inbox
    region: Region
    mode: StepMode
    batch_writer: BatchWriter
    take: Callable[[str, ArrangementState], None] | None = None
    division: Division | None = None
    outcome: Outcome = field(init=False)
    _growing: dict[str, Growing] = field(default_factory=dict)
    _future: dict[str, FutureUpdates] = field(default_factory=dict)
    _passed_on: dict[tuple[int, int], None] = field(default_factory=dict)

    def sent(self) -> Iterator[Sending]:
        """Run it, in as many parts as it takes; what it sends."""
        try:
            cuts = self._cuts()
            if len(cuts) == 1 and not self.inbox.is_in_order:  # what is in order comes in parts, be it in one
                yield from self._whole()
            else:
                yield from self._in_parts(cuts)
        finally:
            self.inbox.close()

    @property
    def _operations(self) -> list[Operation]:
        return [self.plan.nodes[i].operation for i in self.plan.stages[self.stage] if self._runs(i)]

    @property
    def _running(self) -> Collection[int] | None:
        return None if self.division is None else self.division.running

    def _runs(self, node: int) -> bool:
        return self.division is None or node in self.division.running

    def _results(self, outcome: Outcome) -> Outcome:
        """What a run has changed, less what every slice and the shard itself make alike."""
        if self.division is not None:
            nodes, names = self.division.nodes, self.division.arrangements
            outcome.states = {key: state for key, state in outcome.states.items() if key[0] in names}
            outcome.new = {name: new for name, new in outcome.new.items() if name in names}
            outcome.inspected = {i: parts for i, parts in outcome.inspected.items() if i in nodes}
            counts = outcome.measured.counts
            for node in [node for node in counts if node not in nodes]:
                del counts[node]
        return outcome

    def _taken(self, sent: Iterable[Sending]) -> Iterator[Sending]:
        if self.division is None:
            return iter(sent)
        nodes, channels = self.division.nodes, self.plan.channels
        return (sending for sending in sent if channels[sending[1]].port.node in nodes)

    @property
    def _future_bytes(self) -> int:
        return self.mode.future_bytes if self.batch_writer.room is None else self.batch_writer.room

    def _state(self, name: str) -> ArrangementState:
        layout = self.plan.layouts[name]
        empty = ArrangementState(Spine.empty(layout), FutureUpdates(layout.schema, layout.lattice))
        return self.snapshot.get(name) or empty

    # how many parts -------------------------------------------------------------------------------------------------

    def _cuts(self) -> list[Cut]:
        """Ranges of keys whose messages, and what is read whole with them, fit into the room that there is."""
        room, inbox = self.batch_writer.room, self.inbox
        if room is None or not self.plan.in_parts(self.stage):
            return [(0, BUCKETS)]
        read = self._bytes_read()
        if inbox.spill is not None or inbox.bytes + read > room:
            inbox.put_in_order()
        waiting = inbox.weights if inbox.is_in_order else np.full(BUCKETS, inbox.bytes / BUCKETS)
        shares = (waiting + read / BUCKETS) / room
        if self.batch_writer.mapped is not None:
            open_at_once = sum(self._bytes_of(name) for name in self.plan.states_of((self.stage,)))
            shares += open_at_once / self.batch_writer.mapped / BUCKETS
        if shares.sum() <= 1 and not inbox.is_in_order:
            return [(0, BUCKETS)]
        cuts, start, taken = [], 0, 0.0
        for bucket, share in enumerate(shares.tolist()):
            if taken and taken + share > 1:
                cuts.append((start, bucket))
                start, taken = bucket, 0.0
            taken += share
        return [*cuts, (start, BUCKETS)]

    def _bytes_read(self) -> int:
        """Bytes of what is read whole: given arrangements, those that a hydration reads, and what others pass on."""
        read = {o.arrangement for o in self._operations if isinstance(o, ReadOp)}
        arranged = {o.arrangement for o in self._operations if isinstance(o, ArrangeOp)}
        read |= arranged & self.mode.given
        passed = sum(part.new.bytes_as_rows for parts in self.inbox.arranged.values() for part in parts)
        return passed + sum(self._bytes_of(name) for name in read)

    def _bytes_of(self, name: str) -> int:
        state = self.snapshot.get(name)
        return 0 if state is None else sum(batch.bytes_as_rows for batch in state.spine.batches)

    # all at once ----------------------------------------------------------------------------------------------------

    def _whole(self) -> Iterator[Sending]:
        mode = apart(self.mode, self._future_bytes)
        inbox = self.inbox.all()
        running = begin(self.plan, self.stage, self.shard, self.snapshot, inbox, self.region, mode, self._running)
        yield from self._taken(running.sent())
        outcome = self.outcome = self._results(running.outcome)
        del running, inbox  # what operators made on the way goes before batches are merged
        put_in(self.plan, self.shard, outcome, self.region, self._merging, self.take)

    @property
    def _merging(self) -> Merging | None:
        return self.batch_writer.merged if self.batch_writer.at_once else None

    def _inserted(self, name: str, spine: Spine, new: Batch) -> Spine:
        return inserted(self.plan, name, spine, new, self.region, self._merging)

    # in parts -------------------------------------------------------------------------------------------------------

    def _in_parts(self, cuts: list[Cut]) -> Iterator[Sending]:
        self.outcome = Outcome()
        self._take_future()
        self.inbox.put_in_order()
        for number, cut in enumerate(cuts):
            messages, due = self.inbox.take(cut)
            part = _Part(self, *hashes_of(cut), due)
            mode = replace(self.mode, apart=True, later_part=number > 0, future_bytes=self._future_bytes)
            running = begin(self.plan, self.stage, self.shard, part, messages, self.region, mode, self._running)
            for shard, channel, message in self._taken(running.sent()):
                if isinstance(message, Arranged):
                    self._passed_on[shard, channel] = None
                else:
                    yield shard, channel, message
            self._gather(self._results(running.outcome))
        yield from self._finish()

    def _take_future(self) -> None:
        """Take the future updates that are due, and those that are read whole, so that each part gets its own."""
        for operation in self._operations:
            if operation.keeps is not None and operation.takes_from is None:  # what was due in this round is removed
                self._take_due(operation.keeps[0])
            elif isinstance(operation, ReadOp):
                self.inbox.put(operation.arrangement, self._state(operation.arrangement).future.updates())
        for name, node in self.plan.takers.get(self.stage, ()):
            for due in self._take_due(name) if self._runs(node) else ():
                self.inbox.put(name, due)

    def _take_due(self, name: str) -> list[Updates]:
        due, self._future[name] = self._state(name).future.take(self.region.rounds, self.region.upper)
        return due

    def _gather(self, part: Outcome) -> None:
        for name, (new,) in part.new.items():
            assert isinstance(new, Batch)
            if name not in self._growing:
                self._growing[name] = self.batch_writer.growing(new.layout, new.description)
            self._growing[name].add(new)
        for (name, shard), state in part.states.items():
            self.outcome.states.setdefault((name, shard), self._state(name))
            self._future[name] = self._due(self._future[name], state.future)
        self.outcome.add(Outcome(inspected=part.inspected, measured=part.measured))

    def _due(self, rest: FutureUpdates, more: FutureUpdates) -> FutureUpdates:
        """The future updates with what a part has added: runs that fill much of the room stay apart."""
        room = self.batch_writer.room or 0
        large = [(rounds, run) for rounds, run in more.runs if _RUNS * run.nbytes > room]
        small = FutureUpdates.of(more.schema, more.lattice, [pair for pair in more.runs if pair not in large])
        layout = Layout(more.schema, (), more.lattice)
        runs = [*rest.runs, *((rounds, self.batch_writer.future_run(run, layout)) for rounds, run in large)]
        return FutureUpdates.of(more.schema, more.lattice, runs).add(small.updates(), room)

    def _finish(self) -> Iterator[Sending]:
        finished = {name: pieces.finish() for name, pieces in self._growing.items()}
        self.outcome.new = {name: [new] for name, new in finished.items()}
        for shard, channel in self._passed_on:
            operation = self.plan.nodes[self.plan.channels[channel].port.node].operation
            assert isinstance(operation, ArrangeOp)
            yield shard, channel, self._whole_of(operation.arrangement, finished)
        for (name, shard), state in self.outcome.states.items():
            spine = self._inserted(name, state.spine, finished[name]) if name in finished else state.spine
            self.outcome.states[name, shard] = ArrangementState(spine, self._future[name])

    def _whole_of(self, name: str, finished: Mapping[str, Batch]) -> Arranged:
        """An arrangement as readers in other stages see it."""
        layout, state = self.plan.layouts[name], self._state(name)
        if name in finished:
            return Arranged(layout, state.spine.batches, finished[name])
        return Arranged(layout, (), whole_of(state, self.region.inside(layout.lattice).since))


def put_in(
    plan: Plan,
    shard: int,
    outcome: Outcome,
    region: Region,
    merging: Merging | None = None,
    take: Callable[[str, ArrangementState], None] | None = None,
    *,
    loosely: bool = False,
) -> None:
    """Put what a stage that ran as a whole made of its arrangements into their spines, which takes these more time.

    For ``loosely`` see ``inserted``.
    """
    counts, before = outcome.measured.counts, perf_counter()
    for name, (new,) in outcome.new.items():
        assert isinstance(new, Batch)
        key = name, shard
        state = outcome.states[key]
        state = outcome.states[key] = ArrangementState(
            inserted(plan, name, state.spine, new, region, merging, loosely=loosely), state.future
        )
        if take is not None:
            take(name, state)
        if new.count >= MANY_ROWS:
            give_back()
        node, after = plan.arrangements[name], perf_counter()
        if node in counts:
            counts[node][SECONDS] += after - before
        before = after


@lru_cache(maxsize=16)
def apart(mode: StepMode, room: int) -> StepMode:
    """The mode of a stage whose caller puts what is new into the spines."""
    return replace(mode, apart=True, future_bytes=room)


class _Part(Snapshot):
    """What a part of a stage sees of its snapshot: its keys, and those of the future updates that are due."""

    def __init__(self, stage: StageRun, lower: int, upper: int, due: Mapping[str, list[Updates]]) -> None:
        self._stage, self._lower, self._upper, self._due = stage, lower, upper, due
        self._seen: dict[str, ArrangementState | None] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """The state of an arrangement, or the default."""
        if name not in self._seen:
            self._seen[name] = self._part_of(name)
        state = self._seen[name]
        return default if state is None else state

    def _part_of(self, name: str) -> ArrangementState | None:
        stage = self._stage
        state = stage.snapshot.get(name)
        if state is None:
            return None
        layout = stage.plan.layouts[name]
        spine = state.spine
        if (
            stage.plan.shard_key(name) == layout.key or name in stage.mode.given
        ):  # else it is looked up by other columns
            spine = Spine.of(layout, [batch.between(self._lower, self._upper) for batch in spine.batches])
        future = FutureUpdates(layout.schema, layout.lattice)
        if due := self._due.get(name):
            future = future.add(Updates.concat(due, due[0].schema, len(due[0].times)))
        return ArrangementState(spine, future)

    def __getitem__(self, name: str) -> ArrangementState:
        result: ArrangementState | None = self.get(name)
        if result is None:
            raise KeyError(name)
        return result

    def __iter__(self) -> Iterator[str]:
        return iter(self._stage.snapshot)

    def __len__(self) -> int:
        return len(self._stage.snapshot)
