"""Run segments in this process, shard after shard: the whole of a local session, and the small ones of a Spark one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import pyarrow as pa

from altneu.operators.base import ArrangementState, Message, Region, Snapshot, StepMode
from altneu.plan.physical import Plan, ViewPorts
from altneu.runtime.base import begin
from altneu.runtime.batch_writer import BatchWriter
from altneu.runtime.execution import no_spark
from altneu.runtime.inputs import Inputs
from altneu.runtime.memory import shares
from altneu.runtime.outcome import Outcome, Sent
from altneu.runtime.packed import Packed
from altneu.runtime.parts import Inbox, StageRun, apart, put_in
from altneu.runtime.read import At
from altneu.runtime.reshard import Parting, parted_states
from altneu.runtime.schedule import Inbox as Waiting
from altneu.runtime.schedule import Run, Segment
from altneu.runtime.spark.jobs import Jobs
from altneu.runtime.spark.wire import open_message, rows_in
from altneu.runtime.state import StateTable
from altneu.runtime.stored import MessageRef
from altneu.trace.update import Updates


class ShardView(Snapshot):
    """One shard of a state table as the snapshot that a stage reads, opened where it is touched."""

    def __init__(self, table: StateTable, shard: int) -> None:
        self.table, self.shard = table, shard

    def get(self, name: str, default: Any = None) -> Any:
        """The state of an arrangement, or the default."""
        result = self.table.get(name, self.shard)
        return default if result is None else result

    @property
    def waiting(self) -> Collection[str]:
        """The names of the states that have future updates."""
        if not self.table.holding:
            return ()
        return {name for name, shard in self.table.holding if shard == self.shard}

    def __getitem__(self, name: str) -> ArrangementState:
        result: ArrangementState | None = self.get(name)
        if result is None:
            raise KeyError(name)
        return result

    def __iter__(self) -> Iterator[str]:
        return iter({n for n, s in (*self.table.live, *self.table.stored) if s == self.shard})

    def __len__(self) -> int:
        return sum(1 for _ in self)


def run_here(
    step: Run, segment: Segment, budget: int | None = None, batch_writer: BatchWriter | None = None
) -> Outcome:
    """Run a segment in this process; with a ``batch_writer`` that has little room, stages in parts.

    Cost:   follows the change: only shards with messages or due future updates run, and open only what they touch.

    Raises:
        TooManyMatches: the segment is too large for ``budget``; nothing has happened.
        DiffOverflowError: a diff left int64; nothing has happened.
    """
    plan, region = step.plan, step.region_of(segment)
    mode = step.mode if step.mode.budget == budget else replace(step.mode, budget=budget)
    result: Outcome | None = None
    sent, passed = list[Sent](), 0
    batch_writer = batch_writer or BatchWriter()
    inboxes: dict[tuple[int, int], Inbox] = {}

    def inbox_of(stage: int, shard: int) -> Inbox:
        if (stage, shard) not in inboxes:
            inboxes[stage, shard] = Inbox(plan, batch_writer.room if plan.in_parts(stage) else None)
        return inboxes[stage, shard]

    for (stage, shard), matches in step.inbox(segment).items():
        for channel, message in _opened(step, region, shard, matches):
            inbox_of(stage, shard).add(channel, message)
    for stage in segment.stages:
        for shard in sorted({*step.due(stage, segment.rounds), *(n for s, n in inboxes if s == stage)}):
            inbox = inbox_of(stage, shard)
            del inboxes[stage, shard]
            take = partial(_taken, step, shard) if budget is None and len(segment.stages) == 1 else None
            working = StageRun(
                plan, stage, shard, ShardView(step.states, shard), inbox, region, mode, batch_writer, take
            )
            for target, channel, message in working.sent():
                to = plan.channels[channel].stage
                if to in segment.stages:
                    passed += rows_in(message)
                    inbox_of(to, target).add(channel, message)
                else:
                    sent.append((target, channel, message))
            working.outcome.retain_new(plan.contents)
            if result is None:
                result = working.outcome
            else:
                result.add(working.outcome)
    result = result or Outcome()
    result.sent, result.passed = sent, passed
    return result


def _run_whole(step: Run, mode: StepMode, segment: Segment) -> Outcome:
    """The same of a segment that is one stage of the only shard, where nothing is too large for memory.

    Rounds of loops are mostly small, and there are many: nothing is laid out for more than one stage.
    """
    (stage,) = segment.stages
    inbox = step.messages(stage)
    if not inbox and not step.due(stage, segment.rounds):
        return Outcome()
    view = ShardView(step.states, 0)
    return _stage_whole(step.plan, stage, view, inbox, step.region_of(segment), mode, partial(_taken, step, 0))


def _stage_whole(
    plan: Plan,
    stage: int,
    snapshot: ShardView,
    inbox: dict[int, list[Message]],
    region: Region,
    mode: StepMode,
    take: Callable[[str, ArrangementState], None] | None = None,
) -> Outcome:
    """A stage of the only shard, run at once; ``inbox`` is emptied, and ``take`` is given each state as it is made."""
    running = begin(plan, stage, 0, snapshot, inbox, region, mode)
    outcome = running.outcome
    outcome.sent = [*running.sent()]
    del running  # what operators made on the way goes before batches are merged
    inbox.clear()
    put_in(plan, 0, outcome, region, take=take, loosely=bool(plan.loops))
    outcome.retain_new(plan.contents)
    return outcome


def _taken(step: Run, shard: int, name: str, state: ArrangementState) -> None:
    """Put a state where the last one was: of a segment that is never run again nobody looks for that."""
    step.states.put(name, shard, state)


def _opened(step: Run, region: Region, shard: int, inbox: Waiting) -> Iterator[tuple[int, Message | Packed]]:
    """The messages that wait for a stage, one after the other."""
    snapshot: Snapshot = ShardView(step.states, shard)
    for channel, parts in inbox.items():
        for result in parts:
            if isinstance(result, MessageRef):
                yield channel, open_message(step.plan, channel, result, snapshot, region, step.states.files)
            else:
                yield channel, result


def reshard_here(plan: Plan, table: StateTable, parting: Parting, batch_writer: BatchWriter) -> Outcome:
    """Part the state of every shard in this process; the table stays as it is."""
    result = Outcome()
    for shard in range(parting.before):
        view = ShardView(table, shard)
        for name, target, state in parted_states(
            plan, {name: view[name] for name in view}, shard, parting, batch_writer
        ):
            result.states[name, target] = state
    return result


class LocalExecutor:
    """The executor of a session without Spark: in this process, with ``memory`` bytes for what a step is about."""

    def __init__(self, memory: int | None = None) -> None:
        self.shards = 1
        self.jobs = Jobs()  # which stays empty
        self.batch_writer = BatchWriter() if memory is None else BatchWriter(shares(memory)[0])

        self._mode = self._apart = StepMode()

    def step(self, plan: Plan, table: StateTable, inputs: Inputs, region: Region, mode: StepMode) -> Outcome:
        """Run a step; there is no Spark, so there are no DataFrames to read."""
        whole = mode.shards == 1 and self.batch_writer.room is None  # else stages are what is parted
        if whole:
            plan = plan.in_one_shard
            if plan.is_one_stage and not (mode.hydrating or mode.given or mode.anew):
                return self._in_one_stage(plan, table, inputs.updates, region, mode)
        step = Run(plan, table, region, mode)
        step.insert(inputs.updates)
        if whole:
            return step.run(partial(_run_whole, step, apart(mode, mode.future_bytes)))
        return step.run(lambda segment: run_here(step, segment, batch_writer=self.batch_writer))

    def _in_one_stage(
        self, plan: Plan, table: StateTable, inputs: Mapping[str, list[Updates]], region: Region, mode: StepMode
    ) -> Outcome:
        """A step that is one stage of one shard: nothing waits for another, and nothing is laid over the table."""
        if mode is not self._mode:
            self._mode, self._apart = mode, apart(mode, mode.future_bytes)
        inbox: dict[int, list[Message]] = {}
        received: dict[str, int] = {}
        for name in inputs:
            parts, received[name] = inputs[name], 0
            for part in parts:
                received[name] += part.diffs.size
            if name in plan.sources:
                inbox[-1 - plan.sources[name]] = [*parts]
        outcome = _stage_whole(plan, 0, ShardView(table, 0), inbox, region, self._apart)
        outcome.received = received
        return outcome

    def reshard(self, plan: Plan, table: StateTable, parting: Parting) -> Outcome:
        """Part the state of every shard."""
        return reshard_here(plan, table, parting, self.batch_writer)

    def frame_of(self, table: pa.Table) -> NoReturn:
        """Refused: there is no Spark."""
        raise no_spark()

    def read(self, table: StateTable, ports: ViewPorts, view: str, at: At, on_errors: str) -> NoReturn:
        """Refused in the same way."""
        raise no_spark()

    def read_updates(self, table: StateTable, name: str, diff: str, at: At) -> NoReturn:
        """Refused in the same way."""
        raise no_spark()

    def close(self) -> None:
        """Nothing to let go of."""
