"""The worker step: one pure function from a stage, a snapshot, an inbox and a region to what comes of them.

Nothing else is read and nothing is changed in place, so a retried, speculated or repeated call gives the same answer.
Every executor runs this function; they differ only in where, and in how messages travel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from heapq import heappop, heappush, heappushpop
from itertools import chain
from time import perf_counter
from typing import Any

import pyarrow as pa

from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.base import (
    MANY_ROWS,
    ArrangementState,
    Message,
    Outputs,
    Pieces,
    Region,
    Snapshot,
    StepMode,
)
from altneu.order import (
    Antichain,
    Lattice,
    has_moments,
)
from altneu.plan.physical import Plan, Port, pended
from altneu.runtime.batch_writer import ranges
from altneu.runtime.divided import sent_to
from altneu.runtime.memory import give_back
from altneu.runtime.outcome import Outcome
from altneu.runtime.packed import Packed
from altneu.trace.batch import Arranged, Batch, Description, Layout, reaches, uncompacted_from
from altneu.trace.spine import Merging, Spine, merge
from altneu.trace.update import Updates, consolidate

FEW = 1024  # overlapping sums of fewer updates are left as they are
GATHERED = 1 << 19  # updates that are gathered before they are summed up
COMPACT_ROWS = 1024  # new batches of fewer updates are compacted as the spine merges them
_LOOK_BYTES = 16 << 20  # of a batch that is somewhere else, so much is looked at at once


Sending = tuple[int, int, Message | Packed]
"""A shard, a channel, and the message that a running stage sends there."""


class Gathered:
    """The sum of updates that arrive piece by piece, in no more memory than the sum needs.

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


def run(
    plan: Plan,
    stage: int,
    shard: int,
    snapshot: Snapshot,
    inbox: Mapping[int, list[Message]],
    region: Region,
    mode: StepMode,
    nodes: Collection[int] | None = None,
) -> Outcome:
    """Run one stage in one shard; with ``nodes`` these alone, whatever comes to others.

    Shape:  ``inbox`` maps channels (and, in stage 0, ``-1 - node`` for sources) to messages; the outcome has the
            shard and channel of every message that is sent.
    Law:    the result, but for the seconds that are measured, depends on the arguments alone; every update of the
            region reaches the outputs in this step, later ones become future updates (tests/oracle).
    """
    running = begin(plan, stage, shard, snapshot, inbox, region, mode, nodes)
    running.outcome.sent.extend(running.sent())
    return running.outcome


def begin(
    plan: Plan,
    stage: int,
    shard: int,
    snapshot: Snapshot,
    inbox: Mapping[int, list[Message]],
    region: Region,
    mode: StepMode,
    running: Collection[int] | None = None,
) -> _Stage:
    """As ``run``, for callers that take messages while the stage runs: they iterate over ``sent()``.

    With ``running`` no other nodes run, whatever comes to them.
    """
    return _Stage(plan, stage, shard, snapshot, inbox, region, mode, running)


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
        running: Collection[int] | None = None,
    ) -> None:
        self.plan, self.stage, self.shard = plan, stage, shard
        self.snapshot, self.inbox, self.region, self.mode = snapshot, inbox, region, mode
        self.values: dict[Port, Message] = {}
        self.outcome = Outcome()
        self.rows_in = self.rows_out = 0  # rows into the node that runs, and those that leave it by no port
        self.flowed: dict[tuple[int, Port], list[Updates]] = defaultdict(list)  # pieces that wait for a node
        self.gathered: dict[int, Gathered] = {}
        self._ready: dict[int, Pieces] = {}  # what a table function or a join made, where it was little
        self._queue: list[int] = []  # nodes that are to run, as a heap
        self._awake: dict[int, None] = {}  # these, those that have run, and those that never do
        self._asleep = () if running is None else [i for i in plan.stages[stage] if i not in running]
        self._awake.update(dict.fromkeys(self._asleep))
        self._description: Description | None = None  # in the session's times

    def sent(self) -> Iterator[Sending]:  # noqa: C901, PLR0912  # one loop: calls would cost more than what they do
        """Run the nodes that have anything to do, in topological order: each wakes those that read what it made.

        The messages that they send; when all are taken, ``outcome`` has the rest.
        """
        before, plan = perf_counter(), self.plan
        resolved, nodes = plan.resolved, plan.nodes
        queue, values, awake, counts = self._queue, self.values, self._awake, self.outcome.measured.counts
        here = _Here(self, -1)
        for node in self._woken():
            self._wake(node)
        following = heappop(queue) if queue else -1  # the node whose turn it is, -1 where the queue knows
        while following >= 0 or queue:
            i = following if not queue else heappop(queue) if following < 0 else heappushpop(queue, following)
            following = -1
            self.rows_in = self.rows_out = failed = 0
            step, in_pieces, wire, ports, readers, frees = resolved[i]
            here._number, here._node, here._wire = i, nodes[i], wire
            made: Outputs | None = None
            if in_pieces is not None and (flowing := in_pieces(here)) is not None:
                if isinstance(flowing, list):
                    made = flowing
                else:
                    yield from self._stream(i, flowing)
            output = -1
            for value in step(here) if made is None else made:
                output += 1
                if value is None:
                    continue
                rows = value.new.count if type(value) is Arranged else value.diffs.size  # type: ignore[union-attr]
                if rows:
                    values[ports[output]] = value
                    if output:
                        failed += rows
                    else:
                        self.rows_out += rows
                    for reader in readers[output]:
                        if reader in awake:
                            continue
                        awake[reader] = None
                        if following < 0:
                            following = reader
                        else:
                            heappush(queue, reader)
            for port in frees:  # the rounds of a load make much of them
                if port in values:
                    del values[port]
            after = perf_counter()
            if i in counts:
                self._measure(i, self.rows_in, self.rows_out, failed, after - before)
            elif self.rows_in or self.rows_out or failed:
                counts[i] = [self.rows_in, self.rows_out, failed, after - before]
            before = after
        if plan.channels:
            for port, value in values.items():
                yield from self._send(port, value)

    def _woken(self) -> set[int]:
        """The nodes that have something to do whatever others make: messages, future updates that are due, contents."""
        result: set[int] = set()
        for channel, messages in self.inbox.items():
            if messages:
                result |= self.plan.listeners[channel] if channel >= 0 else {-1 - channel}
        rounds, upper, waiting = self.region.rounds, self.region.upper, self.snapshot.waiting
        takers = self.plan.takers.get(self.stage, ()) if waiting is None or waiting else ()
        for name, node in takers:
            if node not in result and (waiting is None or name in waiting):
                state = self.snapshot.get(name)
                if state is not None and state.future.is_due(rounds, upper):
                    result.add(node)
        if self.mode.hydrating or self.mode.given:
            result.update(self.plan.starters.get(self.stage, ()))
        return result

    def _wake(self, node: int) -> None:
        """Have a node run when it is its turn."""
        if node not in self._awake:
            self._awake[node] = None
            heappush(self._queue, node)

    def _measure(self, i: int, *counts: float) -> None:
        measured = self.outcome.measured.counts
        known = measured.get(i)
        measured[i] = [*counts] if known is None else [a + b for a, b in zip(known, counts, strict=True)]

    def _send(self, port: Port, value: Message) -> Iterator[Sending]:
        for number in self.plan.outlets.get(port, ()):
            if isinstance(value, Arranged) or self.mode.shards == 1:
                yield self.shard, number, value
                continue
            key = self.plan.channels[number].key
            if key is None and port.node in self.plan.unplaced and port not in self.plan.spreads:
                key = tuple(value.schema.names)  # they need not all lie in one shard
            if key is None:
                yield self.shard, number, value
                continue
            for place, part in sent_to(number, value, key, self.mode, self.region.upper):
                yield place, number, part

    # what flows -----------------------------------------------------------------------------------------------------

    def _stream(self, i: int, result: Iterator[Pieces]) -> Iterator[Sending]:
        """Table functions and joins: what is more than a piece flows, less is a value as any other."""
        first, second = next(result, None), next(result, None)
        if first is None:
            return
        if second is None:
            self._ready[i] = first
            return
        yield from self._flow(i, chain((first, second), result))

    def _flow(self, i: int, result: Iterable[Pieces]) -> Iterator[Sending]:
        """Pass on what a node makes, piece by piece."""
        for parts in result:
            for output, part in enumerate(parts):
                if part is not None and len(part):
                    self._measure(i, 0, 0 if output else len(part), len(part) if output else 0, 0.0)
                    yield from self._pass(Port(i, output), part)

    def _pass(self, port: Port, part: Updates) -> Iterator[Sending]:
        """Give a piece to all who read a port."""
        yield from self._send(port, part)
        for node in self._readers.get(port, ()):
            operation = self.plan.nodes[node].operation
            if operation.summing or node in self.plan.overlapping:
                self._wake(node)
                self.gathered.setdefault(node, Gathered(self.plan.lattice_of(node))).add(self._of(node, part)[0])
            elif operation.additive:
                yield from self._flow(node, self._of_piece(node, part))
            else:
                self._wake(node)
                self.flowed[node, port].append(part)

    def _of_piece(self, node: int, part: Updates) -> Iterable[Pieces]:
        """What an additive node makes of a piece: one piece, or many."""
        here = _Here(self, node, part)
        result = self.plan.nodes[node].operation.in_pieces(here)
        assert not isinstance(result, list)  # as of joins alone
        return [self._of(node, part)] if result is None else result

    def _of(self, node: int, part: Updates) -> tuple[Any, ...]:
        """What a node makes of a piece alone."""
        rows_in = self.rows_in
        try:
            result = tuple(self.plan.nodes[node].operation.step(_Here(self, node, part)))
        finally:
            self.rows_in = rows_in
        self._measure(node, len(part), 0, 0, 0.0)
        return result

    @cached_property
    def _readers(self) -> dict[Port, list[int]]:
        """The nodes of this stage that read a port of this stage."""
        result: dict[Port, list[int]] = defaultdict(list)
        for node in self.plan.stages[self.stage]:
            if node in self._asleep:
                continue
            for port, channel in self.plan.wires[node]:
                if channel is None:
                    result[port].append(node)  # twice where it reads it twice
        return result

    def _with_gathered(self, i: int, result: Updates | None) -> Updates | None:
        """What a node that sums updates up makes of its values, with what it made of pieces."""
        gathered = self.gathered.pop(i, None)
        if gathered is None:
            return result
        gathered.add(result)
        port = Port(i)
        readers = self.plan.readers.get(port, ()) if port not in self.plan.outlets else (i,)
        if all(isinstance(self.plan.nodes[r].operation, ArrangeOp) for r in readers):
            return gathered.together()  # they sum it up
        return gathered.settled()

    def _quiet(self, port: Port) -> Arranged:
        """An arrangement to which nothing is new."""
        operation: ArrangeOp = self.plan.nodes[port.node].operation  # type: ignore[assignment]  # as they are read
        layout = operation.layout
        state = self.snapshot.get(operation.arrangement)
        given = operation.arrangement in self.mode.given and not any(self.region.rounds)
        old = () if state is None or given else state.spine.batches
        return Arranged(layout, old, Batch.empty(layout, self.description(layout.lattice)))

    def description(self, lattice: Lattice) -> Description:
        """The region in the times of a scope."""
        if lattice is not self.plan.lattice:
            return self.region.inside(lattice)
        if self._description is None:
            self._description = Description(self.region.lower, self.region.upper, self.region.since)
        return self._description


class _Here:
    """A node in a stage that is being run: what its operation is given, as ``operators.base.Here`` has it.

    With a ``piece`` that is all that has come in. A stage has one for all of its nodes, which it puts to each in turn;
    ``_wire`` is the port of the node's only input, if that is one of this stage.
    """

    __slots__ = ("_node", "_number", "_piece", "_stage", "_wire", "mode", "region", "shard")

    def __init__(self, stage: _Stage, number: int, piece: Updates | None = None) -> None:
        self._stage, self._number, self._piece = stage, number, piece
        self._node = stage.plan.nodes[number]
        self._wire: Port | None = None
        self.shard, self.region, self.mode = stage.shard, stage.region, stage.mode

    @property
    def schema(self) -> pa.Schema:
        return self._node.schema

    @property
    def label(self) -> str:
        return self._node.label

    @property
    def lattice(self) -> Lattice:
        return self._stage.plan.lattices[self._node.scope]

    @property
    def inputs(self) -> int:
        return len(self._node.inputs)

    def lattice_of_input(self, place: int) -> Lattice:
        return self._stage.plan.lattice_of(self._node.inputs[place].node)

    # what comes in

    def received(self) -> list[Updates]:
        if self._piece is not None:
            return [self._piece]
        stage = self._stage
        if (wire := self._wire) is not None and not stage.flowed:
            one = stage.values[wire] if wire in stage.values else None  # noqa: SIM401  # a call of ``get`` takes longer
            if type(one) is not Updates:
                return []
            stage.rows_in += one.diffs.size
            return [one]
        results: list[Updates] = []
        for port, channel in stage.plan.wires[self._number]:
            values: Sequence[Message | None]
            if channel is not None:
                values = stage.inbox.get(channel, ())
            elif stage.flowed:
                values = (stage.values.get(port), *stage.flowed.pop((self._number, port), ()))
            else:
                values = (stage.values.get(port),)
            for value in values:
                if isinstance(value, Updates) and (rows := len(value)):
                    results.append(value)
                    stage.rows_in += rows
        return results

    def one(self) -> Updates | None:
        stage, wire = self._stage, self._wire
        if wire is not None and wire in stage.values and self._piece is None and not stage.flowed:
            one = stage.values[wire]
            if type(one) is Updates:
                stage.rows_in += one.diffs.size
                return one
        parts = self.received()
        if not parts[1:]:
            return parts[0] if parts else None
        return Updates.concat(parts, parts[0].schema, self.lattice.width)

    def arranged(self, place: int = 0) -> Arranged:
        stage, port = self._stage, self._node.inputs[place]
        channel = None if port is self._wire else stage.plan.wires[self._number][place][1]
        values: Sequence[Message]
        if channel is not None:
            values = stage.inbox.get(channel, ())
        else:
            values = (stage.values[port],) if port in stage.values else ()
        for value in values:
            if type(value) is Arranged:
                stage.rows_in += value.new.rows_at_most
                return value
        return stage._quiet(port)

    def inserted_rows(self) -> list[Updates]:
        stage, place = self._stage, -1 - self._number
        parts = [part for part in stage.inbox.get(place, ()) if type(part) is Updates]
        stage.rows_in = 0
        for part in parts:
            stage.rows_in += part.diffs.size
        return parts

    # what goes out otherwise than by a port

    def summed(self, result: Updates | None, *, settle: bool = False) -> Updates | None:
        if self._piece is not None or (settle and self._number not in self._stage.plan.overlapping):
            return result
        if self._stage.gathered:
            result = self._stage._with_gathered(self._number, result)
        if not settle or result is None or len(result) <= FEW:
            return result
        return consolidate(result, self.lattice)

    def ready(self, outputs: int) -> Outputs:
        return self._stage._ready.pop(self._number, (None,) * outputs)

    def show(self, updates: Updates) -> None:
        self._stage.outcome.inspected[self._number] = [updates]

    def measure(self, rows_in: int | None = None, rows_out: int | None = None) -> None:
        if rows_in is not None:
            self._stage.rows_in = rows_in
        if rows_out is not None:
            self._stage.rows_out = rows_out

    # state

    def stored(self, name: str) -> ArrangementState | None:
        return self._stage.snapshot.get(name)

    def known(self, name: str) -> ArrangementState | None:
        return self._stage.outcome.states.get((name, self.shard)) or self._stage.snapshot.get(name)

    def state(self, name: str, layout: Layout) -> ArrangementState:
        return self.known(name) or ArrangementState.empty(layout)

    def keep(self, name: str, state: ArrangementState) -> None:
        self._stage.outcome.states[name, self.shard] = state

    def put(self, name: str, state: ArrangementState, new: Batch) -> None:
        if not self.mode.apart:
            state = replace(state, spine=inserted(self._stage.plan, name, state.spine, new, self.region))
        self._stage.outcome.states[name, self.shard] = state
        self._stage.outcome.new[name] = [new]

    @property
    def pended(self) -> tuple[str, Layout]:
        name = pended(self._number)
        return name, self._stage.plan.layouts[name]

    # times

    def description(self, lattice: Lattice) -> Description:
        return self._stage.description(lattice)

    def present(self, updates: Updates, lattice: Lattice) -> Updates:
        if not self.mode.hydrating:
            return updates
        return replace(updates, times=self.description(lattice).since.advance(updates.times))


def inserted(
    plan: Plan,
    name: str,
    spine: Spine,
    new: Batch,
    region: Region,
    merging: Merging | None = None,
    *,
    loosely: bool = False,
) -> Spine:
    """The spine of an arrangement with what a step has made of it; ``merging`` as for ``Spine.insert``.

    What rounds of the step read may be inserted ``loosely``, if the step ends with ``compact``.
    """
    if not new.count or name in plan.released:
        return spine
    layout = spine.layout
    is_revisited = plan.arrangements[name] in plan.revisited
    if region.kept and name in region.kept:
        since = (region if is_revisited else region.final).since_of(name, layout.lattice)
    elif layout.lattice is region.lower.lattice:
        since = region.since if is_revisited else region.final.since
    else:
        since = region.inside(layout.lattice).since if is_revisited else _final(region, layout.lattice)
    if layout.changes_only:
        spine, new = spine.from_time(uncompacted_from(since)), _uncompacted(new, since, merging or merge)
        return spine.insert(_after(spine, new), since, merging=merging) if len(new) else spine
    if new.count >= COMPACT_ROWS:
        new = _compacted(new, since, merging or merge)
    if spine.upper is not new.description.lower:
        new = _after(spine, new)
    return spine.insert(new, since, merging=merging, loosely=loosely and is_revisited)


def _final(region: Region, lattice: Lattice) -> Antichain:
    """The time up to which an arrangement may be compacted that nothing in this step reads again.

    Moments are read by the step alone whose times they are, so of them nothing is retained.
    """
    if has_moments(lattice):
        return replace(region, since=region.upper).inside(lattice).since
    return region.final.inside(lattice).since


def _after(spine: Spine, batch: Batch) -> Batch:
    """A batch that may follow what a spine has: rounds come back to times that other rounds have covered."""
    description, upper = batch.description, spine.upper
    if upper is None or upper is description.lower or upper.less_equal_frontier(description.lower):
        return batch
    return batch.described(replace(description, lower=upper, upper=upper.join(description.upper)))


def _compacted(new: Batch, since: Antichain, merging: Merging) -> Batch:
    """A long history compacted up to ``since`` before it is stored: a bulk load may long have nothing to merge with.

    Its readers in this step see it as it was.
    """
    if all(_is_compacted(new.between(*part), since) for part in ranges(new.bytes_as_rows, _LOOK_BYTES)):
        return new
    return merging((new,), since)


def _uncompacted(new: Batch, since: Antichain, merging: Merging) -> Batch:
    """The changes of a step at times that ``since`` does not compact: in a usual step there are none."""
    start = uncompacted_from(since)
    if not reaches(new.description.upper.elements, start):
        return Batch.empty(new.layout, new.description)
    parts = (new.between(*part) for part in ranges(new.bytes_as_rows, _LOOK_BYTES))
    if all(int(block.times[0].min()) >= start for part in parts for block in part.blocks):
        return new
    return merging((new,), since)


def _is_compacted(batch: Batch, since: Antichain) -> bool:
    return all((since.advance(block.times) == block.times).all() for block in batch.blocks)


def compact(states: dict[tuple[str, int], ArrangementState], region: Region, *, histories: bool) -> None:
    """End a step with loops: merge what its rounds have put in, up to what its region says, in place.

    With ``histories`` long ones are compacted too that are not merged. Its rounds read the output of earlier ones, so
    that nothing could be compacted before the last one ended. One state after the other lets go of what it was.

    Cost:   what the step has put in; batches that are older are left to the merges.
    """
    for key, state in states.items():
        spine = state.spine
        lattice = spine.layout.lattice
        since = region.since_of(key[0], lattice)
        compacted = spine.gathered(since) if spine.loose else spine
        if histories:
            compacted = compacted.compacted(region.inside(lattice).lower, since, COMPACT_ROWS)
        if compacted is not spine:
            states[key] = ArrangementState(compacted, state.future)
            made = sum([batch.count for batch in compacted.batches if batch not in spine.batches])
            del state, spine
            if made >= MANY_ROWS:
                give_back()
