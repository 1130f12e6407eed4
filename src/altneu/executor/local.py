"""Run a step in this process, shard after shard: the whole of a local session, and the small steps of a Spark one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from altneu.batch import Batch
from altneu.executor.base import ArrangementState, Message, Region, StepMode, run
from altneu.executor.inputs import Inputs
from altneu.executor.state import Data, StateTable
from altneu.physical import ArrangeOp, Plan
from altneu.update import Updates


@dataclass
class Outcome:
    """What a step changes, before it is committed: nothing in the state table has moved yet."""

    placement: str
    states: dict[tuple[str, int], ArrangementState] = field(default_factory=dict)
    stored: dict[tuple[str, int], Data] = field(default_factory=dict)
    new: dict[str, list[Batch | Data]] = field(default_factory=dict)
    taps: dict[int, list[Updates]] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)


class ShardView(Mapping[str, ArrangementState]):
    """One shard of a state table as the snapshot that a step reads, opened where it is touched."""

    def __init__(self, table: StateTable, shard: int) -> None:
        self.table, self.shard = table, shard

    def get(self, name: str, default: Any = None) -> Any:
        """The state of an arrangement, or the default."""
        found = self.table.get(name, self.shard)
        return default if found is None else found

    def __getitem__(self, name: str) -> ArrangementState:
        found = self.table.get(name, self.shard)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter({n for n, s in (*self.table.live, *self.table.stored) if s == self.shard})

    def __len__(self) -> int:
        return sum(1 for _ in self)


def run_here(
    plan: Plan, table: StateTable, inputs: Mapping[str, list[Updates]], region: Region, mode: StepMode
) -> Outcome:
    """Run every stage of a step in this process.

    Cost:   follows the change: only shards with messages or due holds are run, only what they touch is opened.

    Raises:
        TooManyMatches: the step is too large for ``mode.budget``; nothing has happened.
        DiffOverflowError: a diff left int64; nothing has happened.
    """
    outcome = Outcome("driver", received={name: sum(map(len, parts)) for name, parts in inputs.items()})
    inbox: dict[tuple[int, int], dict[int, list[Message]]] = defaultdict(lambda: defaultdict(list))
    for name, parts in inputs.items():
        if name in plan.sources:
            inbox[0, 0][-1 - plan.sources[name]] += parts
    due = _due(plan, table, region)
    for stage in range(plan.depth):
        everywhere = range(mode.shards) if mode.hydrating else ()
        for shard in sorted({*everywhere, *due.get(stage, ()), *(s for g, s in inbox if g == stage)}):
            result = run(plan, stage, shard, ShardView(table, shard), inbox.pop((stage, shard), {}), region, mode)
            for target, channel, message in result.outbox:
                inbox[plan.channels[channel].stage, target][channel].append(message)
            outcome.states.update({(name, shard): state for name, state in result.states.items()})
            for name, batch in result.new.items():
                outcome.new.setdefault(name, []).append(batch)
            for node, updates in result.taps.items():
                outcome.taps.setdefault(node, []).append(updates)
    return outcome


def _due(plan: Plan, table: StateTable, region: Region) -> dict[int, set[int]]:
    """By stage, the shards that hold something of this region: they run even when nothing arrives."""
    found: dict[int, set[int]] = {}
    for (name, shard), held in table.held.items():
        node = plan.arrangements.get(name)
        if (
            node is not None
            and isinstance(plan.nodes[node].operation, ArrangeOp)
            and (region.upper.least is None or held.least < region.upper.least)
        ):
            found.setdefault(plan.nodes[node].stage, set()).add(shard)
    return found


class LocalExecutor:
    """The executor of a session without Spark: one shard, in this process."""

    shards = 1

    def step(self, plan: Plan, table: StateTable, inputs: Inputs, region: Region, mode: StepMode) -> Outcome:
        """Run a step; there is no Spark, so there are no DataFrames to read."""
        return run_here(plan, table, inputs.updates, region, mode)

    def close(self) -> None:
        """Nothing to let go of."""
