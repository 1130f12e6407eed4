"""The worker step: one pure function from a stage, a snapshot, an inbox and a region to what comes of them.

Nothing else is read and nothing is changed in place, so a retried, speculated or repeated call gives the same answer.
Every executor runs this function; they differ only in where, and in how messages travel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.hashing import hash_rows
from altneu.columnar.narrow import narrow_rows
from altneu.columnar.rows import Rows
from altneu.operators.asof import asof_join
from altneu.operators.extend import confirm, counted, delta_join_pieces, news, proposed
from altneu.operators.join import Meter, join_pieces
from altneu.operators.keyed import changed, conflicts
from altneu.operators.latest import current, events, latest
from altneu.operators.linear import pieces, run_logic
from altneu.operators.locked import arrivals, lock, locked_rows
from altneu.operators.reduce import reduce
from altneu.operators.rounds import reduce_in_round
from altneu.order import (
    AltNeu,
    Antichain,
    Lattice,
    Product,
    Rounds,
    difference,
    fixed,
    has_moments,
    lifted,
    lifted_frontier,
    parted,
)
from altneu.plan.physical import (
    ArrangeOp,
    AsofOp,
    CommandsOp,
    ConcatOp,
    ConfirmOp,
    ConsolidateOp,
    ConstantOp,
    CountOp,
    DeltaJoinOp,
    DifferentiateOp,
    EnterAtOp,
    EnterOp,
    ExplodeOp,
    FeedbackOp,
    FeedOp,
    IntegrateOp,
    JoinOp,
    LatestOp,
    LeaveOp,
    LinearOp,
    LockedOp,
    NewsOp,
    Plan,
    Port,
    ProposeOp,
    ReadOp,
    ReduceOp,
    RowsOp,
    SourceOp,
    TapOp,
    ToNeuOp,
    pended,
)
from altneu.runtime.keeper import ranges
from altneu.runtime.memory import give_back
from altneu.trace.batch import Arranged, Batch, Description, Layout, reaches, told_apart_from
from altneu.trace.hold import MERGED_BYTES, Holds
from altneu.trace.spine import Merging, Spine, merge
from altneu.trace.update import Updates, consolidate

FEW = 1024  # overlapping sums of fewer updates are left as they are
GATHERED = 1 << 19  # updates that are gathered before they are summed up
FOLD_ROWS = 1024  # new batches of fewer updates are folded as the spine merges them
MANY_ROWS = 1 << 18  # of more new updates than these readers see what is kept of them, which takes less room
_LOOK_BYTES = 16 << 20  # of a batch that is somewhere else, so much is looked at at once


@dataclass(frozen=True)
class Region:
    """The times a step closes: outer times in ``[lower, upper)`` at the rounds given (none outside loops).

    ``since`` is how far history may be folded while the step runs, ``folded`` how far where no round of a loop comes
    back to it (None: as ``since``). What is about event times before ``events`` counts as of then.
    """

    lower: Antichain
    upper: Antichain
    since: Antichain
    rounds: tuple[int, ...] = ()
    folded: Antichain | None = None
    events: int = 0

    def inside(self, lattice: Lattice) -> Description:
        """The region's bounds in the times of a scope, for what a batch says of itself."""
        return _inside(self.lower, self.upper, self.since, self.events, lattice)


@lru_cache(maxsize=16)
def _inside(lower: Antichain, upper: Antichain, since: Antichain, events: int, lattice: Lattice) -> Description:
    folded = lifted_frontier(since, lattice)
    if events and has_events(lattice):
        times = folded.elements.copy()
        times[1] = events
        folded = Antichain(lattice, times)
    return Description(lifted_frontier(lower, lattice), lifted_frontier(upper, lattice), folded)


def has_events(lattice: Lattice) -> bool:
    """Whether times have an event time, as their second coordinate."""
    while isinstance(lattice, AltNeu | Rounds):
        lattice = lattice.inner if isinstance(lattice, AltNeu) else lattice.outer
    return isinstance(lattice, Product)


@dataclass(frozen=True)
class ArrangementState:
    """What one arrangement keeps in one shard: the readable batches and the updates that are not due yet."""

    spine: Spine
    holds: Holds


Snapshot = Mapping[str, ArrangementState]
Message = Updates | Arranged
Sent = tuple[int, int, Message]
"""A shard, a channel, and what is sent there."""


Pieces = tuple[Updates | None, ...]
"""Something of each output of a node."""


class Gathered:
    """A sum of updates that come piece by piece, of which no more is kept than they add up to.

    Cost:   each update is sorted O(log n) times; in memory are about twice as many as there are in the sum, or
            ``GATHERED``.
    """

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self._parts: list[Updates] = []
        self._rows, self._most = 0, GATHERED

    def add(self, updates: Updates | None) -> None:
        """More of them."""
        if updates is None or not len(updates):
            return
        self._parts.append(updates)
        self._rows += len(updates)
        if self._rows > self._most:
            settled = self.settled()
            self._parts, self._rows = [settled], len(settled)
            self._most = max(GATHERED, 2 * self._rows)

    def settled(self) -> Updates:
        """Their sum."""
        return consolidate(self.together(), self.lattice)

    def together(self) -> Updates:
        """The same as far as it was summed up on the way."""
        return Updates.concat(self._parts, self._parts[0].schema, self.lattice.width)


@dataclass
class StageResult:
    """What a stage makes in one shard; ``measured`` of each node: rows in, rows out, errors, seconds."""

    outbox: list[tuple[int, int, Message]] = field(default_factory=list)  # shard, channel, rows
    states: dict[str, ArrangementState] = field(default_factory=dict)
    new: dict[str, Batch] = field(default_factory=dict)
    taps: dict[int, Updates] = field(default_factory=dict)
    measured: dict[int, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class StepMode:
    """How a step differs from the ordinary.

    ``given`` arrangements are read whole and as new (hydration); ``anew`` ones are there already and are computed again
    on the way (loops); ``budget`` bounds the matches of a join. With ``apart`` what is new is not put into its spine:
    whoever asks does that (``inserted``), with what other parts of the stage have made; ``later_part`` says that it is
    not the first of them. ``held`` bounds the bytes to which runs of held updates are merged.
    """

    shards: int = 1
    given: frozenset[str] = frozenset()
    hydrating: bool = False
    budget: int | None = None
    anew: frozenset[str] = frozenset()
    held: int = MERGED_BYTES
    apart: bool = False
    later_part: bool = False


def run(
    plan: Plan,
    stage: int,
    shard: int,
    snapshot: Snapshot,
    inbox: Mapping[int, list[Message]],
    region: Region,
    mode: StepMode,
) -> StageResult:
    """Run one stage in one shard.

    Shape:  ``inbox`` maps channels (and, in stage 0, ``-1 - node`` for sources) to messages; the result's outbox
            names the shard and channel of every message.
    Law:    the result, but for the seconds that are measured, depends on the arguments alone; every update of the
            region reaches the outputs in this step, later ones go to holds (tests/oracle).
    """
    running = begin(plan, stage, shard, snapshot, inbox, region, mode)
    running.result.outbox.extend(running.sent())
    return running.result


def begin(
    plan: Plan,
    stage: int,
    shard: int,
    snapshot: Snapshot,
    inbox: Mapping[int, list[Message]],
    region: Region,
    mode: StepMode,
) -> _Stage:
    """As ``run``, for callers that take messages while the stage runs: they iterate over ``sent()``."""
    return _Stage(plan, stage, shard, snapshot, inbox, region, mode)


class _Stage:
    """One run of a stage: values by port, filled in topological order.

    The output of a table function, where it is large, is never one value: it flows through the operators behind it
    piece by piece. Linear operators pass each piece on, sums accumulate them, and other operators read all pieces when
    it is their turn.
    """

    def __init__(
        self,
        plan: Plan,
        stage: int,
        shard: int,
        snapshot: Snapshot,
        inbox: Mapping[int, list[Message]],
        region: Region,
        mode: StepMode,
    ) -> None:
        self.plan, self.stage, self.shard = plan, stage, shard
        self.snapshot, self.inbox, self.region, self.mode = snapshot, inbox, region, mode
        self.values: dict[Port, Message] = {}
        self.result = StageResult()
        self.came = self.went = 0  # rows into the node that runs, and those that leave it by no port
        self.flowed: dict[tuple[int, Port], list[Updates]] = defaultdict(list)  # pieces that wait for a node
        self.gathered: dict[int, Gathered] = {}
        self._ready: dict[int, Pieces] = {}  # what a table function or a join made, where it was little
        self._queue: list[int] = []  # nodes that are to run, as a heap
        self._awake: set[int] = set()  # these, and those that have run
        self._left: dict[Port, int] = {}  # how many nodes have still to read a value
        self._piece: Updates | None = None  # what the node that runs is given instead of its inputs

    def sent(self) -> Iterator[Sent]:
        """Run the nodes that have anything to do, in topological order: each wakes those that read what it made.

        The messages that they send; when all are taken, ``result`` has the rest.
        """
        before, readers, nodes = perf_counter(), self.plan.readers, self.plan.nodes
        for node in self._woken():
            self._wake(node)
        while self._queue:
            i = heappop(self._queue)
            self.came = self.went = failed = 0
            if self._streams(i):
                yield from self._stream(i)
            for output, value in enumerate(_STEP[type(nodes[i].operation)](self, i)):
                if value is not None and (rows := _news(value)):
                    port = Port(i, output)
                    self.values[port] = value
                    if output:
                        failed += rows
                    else:
                        self.went += rows
                    for reader in readers.get(port, ()):
                        self._wake(reader)
            self._let_go(i)
            after = perf_counter()
            if self.came or self.went or failed:
                self._measure(i, self.came, self.went, failed, after - before)
            before = after
        for port, value in self.values.items():
            yield from self._send(port, value)

    def _woken(self) -> set[int]:
        """The nodes that have something to do whatever others make: messages, held updates that are due, contents."""
        found: set[int] = set()
        for channel, messages in self.inbox.items():
            if messages:
                found.update(self.plan.listeners[channel] if channel >= 0 else (-1 - channel,))
        rounds, upper = self.region.rounds, self.region.upper
        for name, node in self.plan.takers.get(self.stage, ()):
            if node not in found:
                state = self.snapshot.get(name)
                if state is not None and state.holds.is_due(rounds, upper):
                    found.add(node)
        if self.mode.hydrating or self.mode.given:
            found.update(self.plan.starters.get(self.stage, ()))
        return found

    def _wake(self, node: int) -> None:
        """Have a node run when it is its turn."""
        if node not in self._awake:
            self._awake.add(node)
            heappush(self._queue, node)

    def _let_go(self, i: int) -> None:
        """Forget the values that no node but this one had still to read: the rounds of a load make much of them."""
        for port in dict.fromkeys(port for port, channel in self.plan.wires[i] if channel is None):
            if port in self.values and port not in self.plan.outlets:
                left = self._left.get(port, len(self.plan.readers[port])) - 1
                self._left[port] = left
                if not left:
                    del self.values[port]

    def _measure(self, i: int, *counts: float) -> None:
        known = self.result.measured.get(i)
        self.result.measured[i] = [*counts] if known is None else [a + b for a, b in zip(known, counts, strict=True)]

    def _send(self, port: Port, value: Message) -> Iterator[Sent]:
        for number in self.plan.outlets.get(port, ()):
            key = self.plan.channels[number].key
            if key is None or isinstance(value, Arranged) or self.mode.shards == 1:
                yield self.shard, number, value
                continue
            target = shard_of(value.rows, key, self.mode.shards)
            for shard in range(self.mode.shards):
                part = value.filter(target == shard)
                if len(part):
                    yield shard, number, part

    # what flows -----------------------------------------------------------------------------------------------------

    def _streams(self, i: int) -> bool:
        operation = self.plan.nodes[i].operation
        if isinstance(operation, LinearOp):
            return operation.logic.expands
        return isinstance(operation, JoinOp | DeltaJoinOp)

    def _in_pieces(self, i: int) -> Iterator[Pieces]:
        """What a node makes that may be much: table functions and joins."""
        node = self.plan.nodes[i]
        match node.operation:
            case LinearOp(logic):
                updates = self.one(i)
                return iter(()) if updates is None else pieces(logic, updates, self.plan.lattice_of(i))
            case JoinOp(spec, logic):
                left, right = (self.arranged(i, port) for port in node.inputs)
                made = join_pieces(left, right, spec, logic, self.mode.budget)
            case DeltaJoinOp(spec, logic):
                inputs = [self.arranged(i, port) for port in node.inputs]
                self.came = sum(inputs[path.at].new.rows_at_most for path in spec.paths)
                made = delta_join_pieces(inputs, spec, logic, self.mode.budget)
        return ((rows, None, failed) for rows, failed in made)

    def _stream(self, i: int) -> Iterator[Sent]:
        """Table functions and joins: what is more than a piece flows, less is a value as any other."""
        made = self._in_pieces(i)
        first, second = next(made, None), next(made, None)
        if first is None:
            return
        if second is None:
            self._ready[i] = first
            return
        yield from self._flow(i, chain((first, second), made))

    def _flow(self, i: int, made: Iterable[Pieces]) -> Iterator[Sent]:
        """Pass on what a node makes, piece by piece."""
        for parts in made:
            for output, part in enumerate(parts):
                if part is not None and len(part):
                    self._measure(i, 0, 0 if output else len(part), len(part) if output else 0, 0.0)
                    yield from self._pass(Port(i, output), part)

    def _pass(self, port: Port, part: Updates) -> Iterator[Sent]:
        """Give a piece to all who read a port."""
        yield from self._send(port, part)
        for node in self._readers.get(port, ()):
            kind = type(self.plan.nodes[node].operation)
            if kind in (ExplodeOp, ConsolidateOp) or node in self.plan.overlapping:
                self._wake(node)
                self.gathered.setdefault(node, Gathered(self.plan.lattice_of(node))).add(self._of(node, part)[0])
            elif kind in _ADDITIVE:
                operation = self.plan.nodes[node].operation
                if isinstance(operation, LinearOp) and operation.logic.expands:
                    yield from self._flow(node, pieces(operation.logic, part, self.plan.lattice_of(node)))
                else:
                    yield from self._flow(node, [self._of(node, part)])
            else:
                self._wake(node)
                self.flowed[node, port].append(part)

    def _of(self, node: int, part: Updates) -> tuple[Any, ...]:
        """What a node makes of a piece alone."""
        came, self._piece = self.came, part
        try:
            made = tuple(_STEP[type(self.plan.nodes[node].operation)](self, node))
        finally:
            self.came, self._piece = came, None
        self._measure(node, len(part), 0, 0, 0.0)
        return made

    @cached_property
    def _readers(self) -> dict[Port, list[int]]:
        """The nodes of this stage that read a port of this stage."""
        found: dict[Port, list[int]] = defaultdict(list)
        for node in self.plan.stages[self.stage]:
            for port, channel in self.plan.wires[node]:
                if channel is None:
                    found[port].append(node)  # twice where it reads it twice
        return found

    def _with_gathered(self, i: int, made: Updates | None) -> Updates | None:
        """What a node that sums updates up makes of its values, with what it made of pieces."""
        gathered = self.gathered.pop(i, None)
        if gathered is None:
            return made
        gathered.add(made)
        port = Port(i)
        readers = self.plan.readers.get(port, ()) if port not in self.plan.outlets else (i,)
        if all(isinstance(self.plan.nodes[r].operation, ArrangeOp) for r in readers):
            return gathered.together()  # they sum it up
        return gathered.settled()

    def received(self, i: int) -> list[Updates]:
        """Updates on the inputs of a node, from this stage or an earlier one."""
        if self._piece is not None:
            return [self._piece]
        found: list[Updates] = []
        for port, channel in self.plan.wires[i]:
            values: Sequence[Message | None] = self.inbox.get(channel, ()) if channel is not None else ()
            if channel is None:
                values = (self.values.get(port), *self.flowed.pop((i, port), ()))
            for value in values:
                if isinstance(value, Updates) and (rows := len(value)):
                    found.append(value)
                    self.came += rows
        return found

    def one(self, i: int) -> Updates | None:
        """The received updates as one, None when there are none."""
        parts = self.received(i)
        if len(parts) < 2:
            return parts[0] if parts else None
        return Updates.concat(parts, parts[0].schema, self._width(i))

    def _width(self, i: int) -> int:
        return self.plan.lattice_of(i).width

    def _state(self, name: str) -> ArrangementState | None:
        """What an arrangement keeps, with what this stage has done to it."""
        return self.result.states.get(name) or self.snapshot.get(name)

    def arranged(self, i: int, port: Port) -> Arranged:
        """The arrangement on an input, with what is new to it in this step (perhaps nothing)."""
        channel = self.plan.inlets.get((i, port))
        values = (self.values.get(port),) if channel is None else self.inbox.get(channel, ())
        for value in values:
            if isinstance(value, Arranged):
                self.came += value.new.rows_at_most
                return value
        return self._quiet(port)

    def _quiet(self, port: Port) -> Arranged:
        operation = self.plan.nodes[port.node].operation
        assert isinstance(operation, ArrangeOp)
        layout = operation.layout
        state = self.snapshot.get(operation.arrangement)
        given = operation.arrangement in self.mode.given and not any(self.region.rounds)
        hidden = state is None or given
        old = () if hidden or state is None else state.spine.batches
        return Arranged(layout, old, Batch.empty(layout, self._description(layout.lattice)))

    def _description(self, lattice: Lattice) -> Description:
        if lattice == self.plan.lattice:
            return Description(self.region.lower, self.region.upper, self.region.since)
        return self.region.inside(lattice)

    # One method per operation: (node number) -> a value, or None, for each output.

    def source(self, i: int) -> list[Message | None]:
        parts = [m for m in self.inbox.get(-1 - i, []) if isinstance(m, Updates)]
        self.came = sum(map(len, parts))
        return [Updates.concat(parts, self.plan.nodes[i].schema, self._width(i)) if parts else None]

    def constant(self, i: int) -> list[Message | None]:
        operation = self.plan.nodes[i].operation
        first = self.shard == 0 and not self.mode.later_part
        if not self.mode.hydrating or not first or not isinstance(operation, ConstantOp):
            return [None]
        rows = Rows.from_pylist(operation.rows, self.plan.nodes[i].schema)
        times = np.repeat(self.region.since.elements[:, :1], rows.count, axis=1)
        return [Updates(rows, times, np.ones(rows.count, np.int64))]

    def read(self, i: int) -> list[Message | None]:
        operation = self.plan.nodes[i].operation
        if not isinstance(operation, ReadOp) or (state := self.snapshot.get(operation.arrangement)) is None:
            return [None]
        parts = [*(b.updates() for b in state.spine.batches), state.holds.updates()]
        updates = Updates.concat(parts, self.plan.nodes[i].schema, self._width(i))
        return [self._present(updates, self.plan.lattice_of(i)) if operation.present else updates]

    def linear(self, i: int) -> list[Message | None]:
        node = self.plan.nodes[i]
        if self._streams(i):
            return [*self._ready.pop(i, (None, None))]
        updates = self.one(i)
        if updates is None or not isinstance(node.operation, LinearOp):
            return [None, None]
        return list(run_logic(node.operation.logic, updates))

    def concat(self, i: int) -> list[Message | None]:
        parts = [u if u.schema is self.plan.nodes[i].schema else self._conform(i, u) for u in self.received(i)]
        made = Updates.concat(parts, self.plan.nodes[i].schema, self._width(i)) if parts else None
        if i not in self.plan.overlapping or self._piece is not None:
            return [made]
        made = self._with_gathered(i, made)
        return [made if made is None or len(made) <= FEW else consolidate(made, self.plan.lattice_of(i))]

    def _conform(self, i: int, updates: Updates) -> Updates:
        """The parts of a sum agree in types; names and nullability are those of the first."""
        return updates.with_rows(Rows(self.plan.nodes[i].schema, updates.rows.columns, len(updates)))

    def explode(self, i: int) -> list[Message | None]:
        updates = self.one(i)
        operation = self.plan.nodes[i].operation
        assert isinstance(operation, ExplodeOp)
        made = None if updates is None else operation.accumulator.explode(updates, self.plan.lattice_of(i))
        return [made if self._piece is not None else self._with_gathered(i, made)]

    def arrange(self, i: int) -> list[Message | None]:
        operation = self.plan.nodes[i].operation
        assert isinstance(operation, ArrangeOp)
        name, layout = operation.arrangement, operation.layout
        state = self.snapshot.get(name)
        if name in self.mode.given and state is not None:
            return [Arranged(layout, (), state.spine.merged(self._description(layout.lattice).since))]
        parts = self.received(i)
        folded = self.region.since if self.mode.hydrating else None
        if operation.latest is not None:
            parts = [events(part, layout, folded) for part in parts]
        elif operation.locked is not None:
            parts = [arrivals(part, layout, folded) for part in parts]
        if not parts and (state is None or not state.holds.is_due(self.region.rounds, self.region.upper)):
            return [None]
        if state is None:
            state = ArrangementState(Spine.empty(layout), self._holds(layout))
        due, holds = state.holds.take(self.region.rounds, self.region.upper)
        arrived, later = self._split(parts, layout.lattice)
        description = self._description(layout.lattice)
        old = state.spine.batches
        if operation.commanded:  # commands, which are not rows of the arrangement, wait elsewhere
            new = changed(Updates.concat(parts, parts[0].schema, layout.lattice.width), old, layout, description)
        else:
            updates = Updates.concat([*due, *arrived], layout.schema, layout.lattice.width)
            new = Batch.build(self._kept_apart(updates, layout.lattice), layout, description)
        if operation.latest is not None:
            new = latest(Arranged(layout, old, new), operation.latest)
        elif operation.locked is not None:
            right = None if operation.locked.times else self.arranged(i, self.plan.nodes[i].inputs[1])
            new = lock(Arranged(layout, old, new), right, operation.locked, folded)
        kept = new.packed()
        spine = state.spine if self.mode.apart else inserted(self.plan, name, state.spine, kept, self.region)
        if later:  # at once, so that the order in which messages arrive leaves no trace
            holds = holds.add(Updates.concat(later, layout.schema, layout.lattice.width), self.mode.held)
        self.result.states[name] = ArrangementState(spine, holds)
        self.result.new[name] = kept
        return [Arranged(layout, old, kept if len(new) >= MANY_ROWS else new)]

    def commands(self, i: int) -> list[Message | None]:
        operation = self.plan.nodes[i].operation
        assert isinstance(operation, CommandsOp)
        name, layout = operation.arrangement, operation.layout
        state, parts = self.snapshot.get(name), self.received(i)
        holds = self._holds(layout) if state is None else state.holds
        due, waiting = holds.take(self.region.rounds, self.region.upper)
        arrived, later = self._split(parts, layout.lattice)
        if later:
            waiting = waiting.add(Updates.concat(later, layout.schema, layout.lattice.width), self.mode.held)
        if due or later:
            self.result.states[name] = ArrangementState(Spine.empty(layout), waiting)
        if not (due or arrived):
            return [None]
        return [Updates.concat([*due, *arrived], layout.schema, layout.lattice.width)]

    def rows(self, i: int) -> list[Message | None]:
        node = self.plan.nodes[i]
        arranged = self.arranged(i, node.inputs[0])
        if not isinstance(node.operation, RowsOp) or not len(arranged.new):
            return [None, None]
        errors = conflicts(arranged, node.label) if node.operation.key else None
        return [arranged.new.updates(), errors]

    def _kept_apart(self, updates: Updates, lattice: Lattice) -> Updates:
        """Updates about event times that are no longer kept apart, all as of the first that is."""
        if not self.region.events or not has_events(lattice):
            return updates
        times = updates.times.copy()
        times[1] = np.maximum(times[1], self.region.events)
        return replace(updates, times=times)

    def _holds(self, layout: Layout) -> Holds:
        return Holds(layout.schema, layout.lattice)

    def _split(self, parts: list[Updates], lattice: Lattice) -> tuple[list[Updates], list[Updates]]:
        """Updates of this region, and those beyond: of times at or beyond its upper, or of other rounds."""
        arrived, later = [], []
        rounds, upper = np.array(self.region.rounds, np.int64)[:, None], self.region.upper
        if fixed(lattice).is_total:
            upper = lifted_frontier(upper, fixed(lattice))
        for part in parts:
            times, at = parted(lattice, part.times)
            beyond = upper.less_equal(times[: upper.lattice.width])
            if len(rounds):
                beyond = beyond | (at != rounds).any(axis=0)
            if not beyond.any():
                arrived.append(part)
            else:
                arrived.append(part.filter(~beyond))
                later.append(part.filter(beyond))
        return arrived, later

    def consolidate(self, i: int) -> list[Message | None]:
        updates = self.one(i)
        made = None if updates is None else consolidate(updates, self.plan.lattice_of(i))
        return [made if self._piece is not None else self._with_gathered(i, made)]

    def tap(self, i: int) -> list[Message | None]:
        updates = self.one(i)
        if updates is not None:
            self.result.taps[i] = consolidate(updates, self.plan.lattice_of(i))
            self.went = len(self.result.taps[i])
        return [None]

    def enter(self, i: int) -> list[Message | None]:
        updates = self.one(i)
        operation = self.plan.nodes[i].operation
        if updates is None or not isinstance(operation, EnterOp):
            return [None]
        below, inside = self.plan.lattice_of(self.plan.nodes[i].inputs[0].node), self.plan.lattice_of(i)
        if has_moments(inside):
            updates = self._present(updates, below)
        return [replace(updates, times=lifted(updates.times, below, inside))]

    def _present(self, updates: Updates, lattice: Lattice) -> Updates:
        """What a hydration reads came all at once: how much of history is folded already makes no difference."""
        if not self.mode.hydrating:
            return updates
        return replace(updates, times=self._description(lattice).since.advance(updates.times))

    def differentiate(self, i: int) -> list[Message | None]:
        updates, moments = self.one(i), self._moments(i)
        if updates is None:
            return [None]
        updates = self._present(updates, moments.inner)
        gone = replace(updates, times=moments.neu(updates.times), diffs=difference.negate(updates.diffs))
        there = replace(updates, times=moments.alt(updates.times))
        return [Updates.concat([there, gone], updates.schema, moments.width)]

    def to_neu(self, i: int) -> list[Message | None]:
        updates, moments = self.one(i), self._moments(i)
        return [None if updates is None else replace(updates, times=moments.neu(moments.unwrap(updates.times)))]

    def integrate(self, i: int) -> list[Message | None]:
        updates, moments = self.one(i), self._moments(self.plan.nodes[i].inputs[0].node)
        if updates is None:
            return [None]
        kept = updates.filter(~moments.is_neu(updates.times))
        return [replace(kept, times=moments.unwrap(kept.times))]

    def _moments(self, i: int) -> AltNeu:
        moments = self.plan.lattice_of(i)
        assert isinstance(moments, AltNeu)
        return moments

    def enter_at(self, i: int) -> list[Message | None]:
        """Where the expression has no value it is round 0: when a row enters is of no consequence."""
        updates = self.one(i)
        operation = self.plan.nodes[i].operation
        if updates is None or not isinstance(operation, EnterAtOp):
            return [None]
        found = operation.rounds.evaluate(updates.rows)
        rounds = found.values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        times = updates.times.copy()
        times[-1] = np.maximum(times[-1], rounds if found.failed is None else np.where(found.failed, 0, rounds))
        moved, limit = replace(updates, times=times), operation.limit
        return [moved if limit is None else moved.filter(times[-1] < limit)]

    def leave(self, i: int) -> list[Message | None]:
        parts = [replace(part, times=part.times[:-1]) for part in self.received(i)]
        if not parts:
            return [None]
        made = consolidate(Updates.concat(parts, parts[0].schema, self._width(i)), self.plan.lattice_of(i))
        if len(made) >= MANY_ROWS:  # it waits for the last round
            made = made.with_rows(narrow_rows(made.rows))
        return [made]

    def feedback(self, i: int) -> list[Message | None]:
        operation = self.plan.nodes[i].operation
        state = self._state(operation.arrangement) if isinstance(operation, FeedbackOp) else None
        if state is None or not isinstance(operation, FeedbackOp):
            return [None]
        due, holds = state.holds.take(self.region.rounds, self.region.upper)
        if not due:
            return [None]
        self.result.states[operation.arrangement] = ArrangementState(state.spine, holds)
        found = Updates.concat(due, self.plan.nodes[i].schema, self._width(i))
        return [found if len(due) == 1 else consolidate(found, self.plan.lattice_of(i))]  # a run is consolidated

    def feed(self, i: int) -> list[Message | None]:
        """What has come round, consolidated, or it would go round for ever: +x and -x chasing each other.

        What was due in this round has been taken, even where that is not seen here because it happened in the same job.
        """
        updates = self.one(i)
        operation = self.plan.nodes[i].operation
        if updates is None or not isinstance(operation, FeedOp):
            return [None]
        settled = consolidate(updates, self.plan.lattice_of(i))
        times = settled.times.copy()
        times[-1] += 1
        settled = replace(settled, times=times)
        if operation.limit is not None:
            settled = settled.filter(times[-1] < operation.limit)
        name, layout = operation.arrangement, operation.layout
        state = self._state(name) or ArrangementState(Spine.empty(layout), self._holds(layout))
        self.went = len(settled)
        if len(settled):
            _, waiting = state.holds.take(self.region.rounds, self.region.upper)
            waiting = waiting.add(settled, self.mode.held, settled=True)
            self.result.states[name] = ArrangementState(state.spine, waiting)
        return [None]

    def join(self, i: int) -> list[Message | None]:
        return [*self._ready.pop(i, (None, None, None))]

    def news(self, i: int) -> list[Message | None]:
        node = self.plan.nodes[i]
        return [news(self.arranged(i, node.inputs[0]), node.schema, self.plan.lattice_of(i))]

    def count(self, i: int) -> list[Message | None]:
        prefixes, others, operation = *self._looked_up(i), self.plan.nodes[i].operation
        if prefixes is None or not isinstance(operation, CountOp):
            return [None]
        return [counted(prefixes, operation.offer, operation.number, others, self.plan.nodes[i].schema)]

    def propose(self, i: int) -> list[Message | None]:
        prefixes, others, operation = *self._looked_up(i), self.plan.nodes[i].operation
        if prefixes is None or not isinstance(operation, ProposeOp):
            return [None]
        meter = Meter(self.mode.budget)
        return [proposed(prefixes, operation.spec, operation.number, others, self.plan.lattice_of(i), meter)]

    def confirm(self, i: int) -> list[Message | None]:
        prefixes, others, operation = *self._looked_up(i), self.plan.nodes[i].operation
        if prefixes is None or not isinstance(operation, ConfirmOp):
            return [None]
        return [confirm(prefixes, operation.offer, operation.adds, others, self.plan.lattice_of(i))]

    def _looked_up(self, i: int) -> tuple[Updates | None, list[Arranged]]:
        """The updates on the first input, and the arrangement on the second."""
        return self.one(i), [self.arranged(i, self.plan.nodes[i].inputs[1])]

    def latest(self, i: int) -> list[Message | None]:
        node = self.plan.nodes[i]
        new = self.arranged(i, node.inputs[0]).new
        if not isinstance(node.operation, LatestOp) or not len(new):
            return [None, None]
        own = new.layout.schema.remove(len(new.layout.schema) - 1)
        return _finished(node.operation, *current(new, own, node.operation.order, node.label))

    def asof(self, i: int) -> list[Message | None]:
        node = self.plan.nodes[i]
        left, right = (self.arranged(i, port) for port in node.inputs)
        if not isinstance(node.operation, AsofOp) or not (len(left.new) or len(right.new)):
            return [None, None]
        made = asof_join(left, right, node.operation.spec, node.label)
        return _finished(node.operation, made.oks, made.errs)

    def locked(self, i: int) -> list[Message | None]:
        node = self.plan.nodes[i]
        new = self.arranged(i, node.inputs[0]).new
        if not isinstance(node.operation, LockedOp) or not len(new):
            return [None, None]
        return _finished(node.operation, *locked_rows(new, node.operation.spec, node.label))

    def reduce(self, i: int) -> list[Message | None]:
        node = self.plan.nodes[i]
        arranged = self.arranged(i, node.inputs[0])
        if not isinstance(node.operation, ReduceOp):
            return [None, None]
        if not arranged.layout.lattice.is_total:
            return self._reduce_in_round(i, arranged, node.operation)
        if not len(arranged.new):
            return [None, None]
        made = reduce(arranged, node.operation.spec, node.label)
        return _finished(node.operation, made.oks, made.errs)

    def _reduce_in_round(self, i: int, arranged: Arranged, operation: ReduceOp) -> list[Message | None]:
        """A reduce of times that are no chain; in a loop it looks again where an earlier round asked for it."""
        name, rounds = pended(i), self.region.rounds
        layout = self.plan.layouts[name]
        state = self._state(name)
        due: list[Updates] = []
        holds = self._holds(layout)
        if state is not None:
            due, holds = state.holds.take(rounds, self.region.upper)
        if not len(arranged.new) and not due:
            return [None, None]
        again = Updates.concat(due, layout.schema, layout.lattice.width)
        made = reduce_in_round(arranged, rounds, again, operation.spec, self.plan.nodes[i].label)
        holds = holds.add(made.pended, self.mode.held)
        if due or len(made.pended):
            self.result.states[name] = ArrangementState(Spine.empty(layout), holds)
        return _finished(operation, made.oks, made.errs)


def _finished(
    operation: ReduceOp | LatestOp | AsofOp | LockedOp, rows: Updates, errors: Updates
) -> list[Message | None]:
    """What an operation made, with the linear logic that it took over applied."""
    if not operation.logic:
        return [rows, errors]
    passed, failed = run_logic(operation.logic, rows)
    return [passed, errors, failed]


def inserted(plan: Plan, name: str, spine: Spine, new: Batch, region: Region, merging: Merging | None = None) -> Spine:
    """The spine of an arrangement with what a step has made of it; ``merging`` as for ``Spine.insert``."""
    if not len(new):
        return spine
    lattice = spine.layout.lattice
    since = region.inside(lattice).since if plan.arrangements[name] in plan.revisited else _final(region, lattice)
    if spine.layout.changes_only:
        spine, new = spine.from_time(told_apart_from(since)), _told_apart(new, since, merging or merge)
        return spine.insert(_after(spine, new), since, merging=merging) if len(new) else spine
    return spine.insert(_after(spine, _folded(new, since, merging or merge)), since, merging=merging)


def _final(region: Region, lattice: Lattice) -> Antichain:
    """How far an arrangement may be folded that nobody comes back to in this step.

    Moments are read by the step alone whose times they are, so of them nothing is retained.
    """
    if has_moments(lattice):
        return replace(region, since=region.upper).inside(lattice).since
    return (region if region.folded is None else replace(region, since=region.folded)).inside(lattice).since


def _after(spine: Spine, batch: Batch) -> Batch:
    """A batch that may follow what a spine has: rounds come back to times that other rounds have covered."""
    told = batch.description
    if spine.upper is None or spine.upper.less_equal_frontier(told.lower):
        return batch
    return batch.described(replace(told, lower=spine.upper, upper=spine.upper.join(told.upper)))


def _folded(new: Batch, since: Antichain, merging: Merging) -> Batch:
    """A long history folded up to ``since`` before it is kept: a bulk load may meet nothing to be merged with for long.

    Its readers in this step have it unfolded.
    """
    if len(new) < FOLD_ROWS or all(_is_folded(new.between(*part), since) for part in ranges(new.nbytes, _LOOK_BYTES)):
        return new
    return merging((new,), since)


def _told_apart(new: Batch, since: Antichain, merging: Merging) -> Batch:
    """What of a step's changes is told apart from what was before ``since``: none of those of the usual step."""
    start = told_apart_from(since)
    if not reaches(new.description.upper.elements, start):
        return Batch.empty(new.layout, new.description)
    parts = (new.between(*part) for part in ranges(new.nbytes, _LOOK_BYTES))
    if all(int(block.times[0].min()) >= start for part in parts for block in part.blocks):
        return new
    return merging((new,), since)


def _is_folded(batch: Batch, since: Antichain) -> bool:
    return all((since.advance(block.times) == block.times).all() for block in batch.blocks)


def fold(states: dict[tuple[str, int], ArrangementState], region: Region) -> None:
    """Fold the long histories of the states that a step with loops has made up to what its region says, in place.

    Its rounds came back to what earlier ones had made, so nothing of it could be folded before the last one was over.
    One state after the other lets go of what it was.

    Cost:   what the step has put in; batches that are older are left to the merges.
    """
    for key in list(states):
        states[key] = _folded_after(states[key], region)
        if len(states[key].spine) >= MANY_ROWS:
            give_back()


def _folded_after(state: ArrangementState, region: Region) -> ArrangementState:
    bounds = region.inside(state.spine.layout.lattice)
    return replace(state, spine=state.spine.folded(bounds.lower, bounds.since, FOLD_ROWS))


def _news(value: Message) -> int:
    return len(value.new if isinstance(value, Arranged) else value)


_ADDITIVE = (LinearOp, ConcatOp, EnterOp, EnterAtOp, LeaveOp, DifferentiateOp, ToNeuOp, IntegrateOp)
"""What an operation of these makes of a sum is the sum of what it makes of the parts, and it keeps nothing."""


_STEP: dict[type[Any], Callable[[_Stage, int], list[Message | None]]] = {
    SourceOp: _Stage.source,
    ConstantOp: _Stage.constant,
    ReadOp: _Stage.read,
    LinearOp: _Stage.linear,
    ConcatOp: _Stage.concat,
    ExplodeOp: _Stage.explode,
    ArrangeOp: _Stage.arrange,
    CommandsOp: _Stage.commands,
    RowsOp: _Stage.rows,
    ConsolidateOp: _Stage.consolidate,
    TapOp: _Stage.tap,
    LatestOp: _Stage.latest,
    JoinOp: _Stage.join,
    AsofOp: _Stage.asof,
    LockedOp: _Stage.locked,
    DeltaJoinOp: _Stage.join,
    NewsOp: _Stage.news,
    CountOp: _Stage.count,
    ProposeOp: _Stage.propose,
    ConfirmOp: _Stage.confirm,
    ReduceOp: _Stage.reduce,
    EnterOp: _Stage.enter,
    EnterAtOp: _Stage.enter_at,
    LeaveOp: _Stage.leave,
    DifferentiateOp: _Stage.differentiate,
    ToNeuOp: _Stage.to_neu,
    IntegrateOp: _Stage.integrate,
    FeedbackOp: _Stage.feedback,
    FeedOp: _Stage.feed,
}


def shard_of(rows: Rows, key: tuple[str, ...], shards: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The shard of each row: its key's hash modulo their number."""
    return (hash_rows(rows, key) % np.uint64(shards)).astype(np.int64)
