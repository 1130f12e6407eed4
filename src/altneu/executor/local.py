"""Run segments in this process, shard after shard: the whole of a local session, and the small ones of a Spark one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from altneu.executor.base import ArrangementState, Message, Region, Snapshot, StepMode, run
from altneu.executor.inputs import Inputs
from altneu.executor.schedule import Inbox, Outcome, Run, Segment
from altneu.executor.state import StateTable
from altneu.executor.wire import Parcel, open_parcel, rows_in
from altneu.physical import Plan


class ShardView(Mapping[str, ArrangementState]):
    """One shard of a state table as the snapshot that a stage reads, opened where it is touched."""

    def __init__(self, table: StateTable, shard: int) -> None:
        self.table, self.shard = table, shard

    def get(self, name: str, default: Any = None) -> Any:
        """The state of an arrangement, or the default."""
        found = self.table.get(name, self.shard)
        return default if found is None else found

    def __getitem__(self, name: str) -> ArrangementState:
        found: ArrangementState | None = self.get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter({n for n, s in (*self.table.live, *self.table.stored) if s == self.shard})

    def __len__(self) -> int:
        return sum(1 for _ in self)


def run_here(step: Run, segment: Segment, budget: int | None = None) -> Outcome:
    """Run a segment in this process.

    Cost:   follows the change: only shards with messages or due holds are run, and only what they touch is opened.

    Raises:
        TooManyMatches: the segment is too large for ``budget``; nothing has happened.
        DiffOverflowError: a diff left int64; nothing has happened.
    """
    plan, region = step.plan, step.region_of(segment)
    mode = step.mode if step.mode.budget == budget else replace(step.mode, budget=budget)
    made = Outcome()
    kept = {ports.contents for ports in plan.views.values()}
    inboxes: dict[tuple[int, int], Mapping[int, list[Message]]] = defaultdict(lambda: defaultdict(list))
    for (stage, shard), inbox in step.inbox(segment).items():
        inboxes[stage, shard] = _opened(step, region, shard, inbox)
    for stage in segment.stages:
        for shard in sorted({*step.due(stage, segment.rounds), *(n for s, n in inboxes if s == stage)}):
            snapshot = ShardView(step.states, shard)
            result = run(plan, stage, shard, snapshot, inboxes.pop((stage, shard), {}), region, mode)
            for target, channel, message in result.outbox:
                to = plan.channels[channel].stage
                if to in segment.stages:
                    made.passed += rows_in(message)
                    inboxes[to, target][channel].append(message)
                else:
                    made.sent.append((target, channel, message))
            made.states |= {(name, shard): state for name, state in result.states.items()}
            for name in result.new.keys() & kept:
                made.new.setdefault(name, []).append(result.new[name])
            for node, updates in result.taps.items():
                made.taps.setdefault(node, []).append(updates)
    return made


def _opened(step: Run, region: Region, shard: int, inbox: Inbox) -> dict[int, list[Message]]:
    snapshot: Snapshot = ShardView(step.states, shard)

    def message(channel: int, found: Message | Parcel) -> Message:
        if not isinstance(found, dict):
            return found
        return open_parcel(step.plan, channel, found, snapshot, region, step.states.open_data)

    return defaultdict(list, {channel: [message(channel, m) for m in parts] for channel, parts in inbox.items()})


class LocalExecutor:
    """The executor of a session without Spark: one shard, in this process."""

    shards = 1

    def step(self, plan: Plan, table: StateTable, inputs: Inputs, region: Region, mode: StepMode) -> Outcome:
        """Run a step; there is no Spark, so there are no DataFrames to read."""
        step = Run(plan, table, region, mode)
        step.insert(inputs.updates)
        return step.run(lambda segment: run_here(step, segment))

    def close(self) -> None:
        """Nothing to let go of."""
