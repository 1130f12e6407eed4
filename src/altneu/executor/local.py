"""Run a step in this process, shard after shard: the whole of a local session, and the small steps of a Spark one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from altneu.batch import Batch
from altneu.errors import NoFixpointError
from altneu.executor.base import PENDED, ArrangementState, Message, Region, StageResult, StepMode, run
from altneu.executor.inputs import Inputs
from altneu.executor.state import Data, StateTable
from altneu.hold import Holds, Rounds
from altneu.physical import ArrangeOp, FeedbackOp, LoopUnit, Plan, ReduceOp, Schedule, Scope
from altneu.update import Updates

_EPOCHS_NAMED = 5


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
    """One shard of a state table as the snapshot that a stage reads, opened where it is touched.

    ``made`` is what the step has made of it so far; ``anew`` what the step makes from nothing.
    """

    def __init__(
        self, table: StateTable, shard: int, made: Mapping[tuple[str, int], ArrangementState], anew: Container[str]
    ) -> None:
        self.table, self.shard, self.made, self.anew = table, shard, made, anew

    def get(self, name: str, default: Any = None) -> Any:
        """The state of an arrangement, or the default."""
        found = self.made.get((name, self.shard))
        if found is None and name not in self.anew:
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


def run_here(
    plan: Plan, table: StateTable, inputs: Mapping[str, list[Updates]], region: Region, mode: StepMode
) -> Outcome:
    """Run every stage of a step in this process, those of loops round by round.

    Cost:   follows the change: only shards with messages or due holds are run, only what they touch is opened, and
            rounds in which nothing is due are passed over.

    Raises:
        TooManyMatches: the step is too large for ``mode.budget``; nothing has happened.
        DiffOverflowError: a diff left int64; nothing has happened.
        NoFixpointError: a loop needs more rounds than it may have; nothing has happened.
    """
    return _Run(plan, table, region, mode).run(inputs)


class _Run:
    """A step in this process: the messages on their way, and what stages have made of the state so far."""

    def __init__(self, plan: Plan, table: StateTable, region: Region, mode: StepMode) -> None:
        self.plan, self.table, self.region, self.mode = plan, table, region, mode
        self.outcome = Outcome("driver")
        self.inbox: dict[tuple[int, int], dict[int, list[Message]]] = defaultdict(lambda: defaultdict(list))
        self.holders: dict[int, list[str]] = defaultdict(list)  # by stage, what has a hold that the stage takes from
        for i, node in enumerate(plan.nodes):
            match node.operation:
                case ArrangeOp(name) | FeedbackOp(name):
                    self.holders[node.stage].append(name)
                case ReduceOp() if node.scope:
                    self.holders[node.stage].append(f"{PENDED}{i}")

    def run(self, inputs: Mapping[str, list[Updates]]) -> Outcome:
        self.outcome.received = {name: sum(map(len, parts)) for name, parts in inputs.items()}
        for name, parts in inputs.items():
            if name in self.plan.sources:
                self.inbox[0, 0][-1 - self.plan.sources[name]] += parts
        self._units(self.plan.schedule, ())
        anew, made = self.mode.anew, self.outcome.states
        self.outcome.states = {k: s for k, s in made.items() if not (k[0].startswith(PENDED) or k[0] in anew)}
        return self.outcome

    def _units(self, units: Schedule, rounds: Rounds) -> None:
        for unit in units:
            if isinstance(unit, LoopUnit):
                self._loop(unit, rounds)
            else:
                self._stage(unit, rounds)

    def _loop(self, unit: LoopUnit, rounds: Rounds) -> None:
        """Run the rounds in which anything is due, the least first, until nothing is."""
        scope = self.plan.scopes[unit.scope]
        while (at := self._next_round(unit, rounds)) is not None:
            if at >= scope.max_rounds:
                raise self._no_fixpoint(unit, scope, (*rounds, at))
            self._units(unit.units, (*rounds, at))

    def _next_round(self, unit: LoopUnit, rounds: Rounds) -> int | None:
        stages = unit.stages
        if any(self.inbox.get((stage, shard)) for stage in stages for shard in range(self.mode.shards)):
            return 0
        upper = self.region.upper
        found = (holds.next_round(rounds, upper) for stage in stages for holds in self._holds(stage).values())
        return min((at for at in found if at is not None), default=None)

    def _no_fixpoint(self, unit: LoopUnit, scope: Scope, rounds: Rounds) -> NoFixpointError:
        due: set[int] = set()
        for stage in unit.stages:
            for holds in self._holds(stage).values():
                due |= {int(t) for part in holds.take(rounds, self.region.upper)[0] for t in part.times[0].tolist()}
        times = ", ".join(map(str, sorted(due)[:_EPOCHS_NAMED])) + (", …" if len(due) > _EPOCHS_NAMED else "")
        return NoFixpointError(
            f"the loop over {', '.join(scope.names)} still changes after {scope.max_rounds} rounds at time {times}; "
            "nothing of the step is committed. Mend the body (a distinct is often what is missing), raise max_rounds, "
            'or take what is there by then with on_limit="stop"'
        )

    def _holds(self, stage: int) -> dict[tuple[str, int], Holds]:
        """What waits for a stage, by name and shard; what no round of this step wants is not opened."""
        found = {}
        least = self.region.upper.least
        for name in self.holders.get(stage, ()):
            for shard in range(self.mode.shards):
                state = self.outcome.states.get((name, shard))
                if state is None and name not in self.mode.anew:
                    held = self.table.held.get((name, shard))
                    if held is not None and (least is None or held.least < least):
                        state = self.table.get(name, shard)
                if state is not None and len(state.holds):
                    found[name, shard] = state.holds
        return found

    def _stage(self, stage: int, rounds: Rounds) -> None:
        region = replace(self.region, rounds=rounds)
        due = {shard for (_, shard), holds in self._holds(stage).items() if holds.is_due(rounds, region.upper)}
        everywhere = range(self.mode.shards) if self.mode.hydrating and not rounds else ()
        arrived = [shard for shard in range(self.mode.shards) if (stage, shard) in self.inbox]
        for shard in sorted({*everywhere, *due, *arrived}):
            snapshot = ShardView(self.table, shard, self.outcome.states, self.mode.anew)
            inbox = self.inbox.pop((stage, shard), {})
            self._take(run(self.plan, stage, shard, snapshot, inbox, region, self.mode), shard)

    def _take(self, result: StageResult, shard: int) -> None:
        outcome = self.outcome
        for target, channel, message in result.outbox:
            self.inbox[self.plan.channels[channel].stage, target][channel].append(message)
        outcome.states.update({(name, shard): state for name, state in result.states.items()})
        for name, batch in result.new.items():
            outcome.new.setdefault(name, []).append(batch)
        for node, updates in result.taps.items():
            outcome.taps.setdefault(node, []).append(updates)


class LocalExecutor:
    """The executor of a session without Spark: one shard, in this process."""

    shards = 1

    def step(self, plan: Plan, table: StateTable, inputs: Inputs, region: Region, mode: StepMode) -> Outcome:
        """Run a step; there is no Spark, so there are no DataFrames to read."""
        return run_here(plan, table, inputs.updates, region, mode)

    def close(self) -> None:
        """Nothing to let go of."""
