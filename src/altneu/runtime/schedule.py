"""The schedule of a step: which stages run, at which rounds of loops, and what passes from some to others.

Where they run is their executor's choice, one segment at a time.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from sys import maxsize

from altneu.columnar.immutable import immutable
from altneu.errors import NoFixpointError
from altneu.operators.arrange.operation import ArrangeOp, ReadOp
from altneu.operators.base import Message, Region, StepMode
from altneu.order import epochs
from altneu.plan.physical import LoopUnit, Plan, Schedule, Stages
from altneu.runtime.outcome import Outcome, Sent
from altneu.runtime.overlay import Overlay
from altneu.runtime.packed import Packed
from altneu.runtime.progress import watch
from altneu.runtime.spark.wire import rows_in
from altneu.runtime.state import FutureSummary, StateTable
from altneu.runtime.stored import MessageRef
from altneu.trace.future import FutureUpdates, Rounds
from altneu.trace.update import Updates

WARN_ROUNDS = 10_000  # rounds of one loop in one step after which a warning is logged
_EPOCHS_NAMED = 5
_MANY_ROWS = 10_000  # a round that passes on fewer says nothing of how much the next one makes of a row
_STILL_CHANGES = (
    "the loop over %s still changes after %s rounds, of at most %s. Ctrl-C undoes the step; max_rounds= bounds the "
    "loop, in SQL RECURSION LIMIT n"
)
_logger = logging.getLogger("altneu")

Inbox = Mapping[int, list[Message | MessageRef | Packed]]


@immutable(frozen=True)
class Segment:
    """Stages of one scope that follow each other with no loop in between, at some rounds of the loops around them."""

    stages: Stages
    scope: int = 0
    rounds: Rounds = ()


class Run:
    """A step on its way: messages that wait for their stages, and what has become of the state so far.

    Cost:   follows the change: rounds in which nothing is due are passed over, and what is due is known unopened.
    """

    def __init__(self, plan: Plan, table: StateTable, region: Region, mode: StepMode) -> None:
        self.plan, self.region, self.mode = plan, region, mode
        self.states = Overlay(table, plan, mode.anew)
        self.outcome = Outcome()
        self._inbox: dict[tuple[int, int], dict[int, list[Message | MessageRef | Packed]]] = {}
        self._growth: dict[Stages, float] = {}  # what the last large round made of a row

    def insert(self, inputs: Mapping[str, list[Updates]]) -> None:
        """Rows of sources."""
        for name, parts in inputs.items():
            received = self.outcome.received
            received[name] = received.get(name, 0) + sum(map(len, parts))
            if name in self.plan.sources:
                self._deliver((0, -1 - self.plan.sources[name], part) for part in parts)

    def run(self, execute: Callable[[Segment], Outcome]) -> Outcome:
        """Run every segment of the step by ``execute``, those of loops round by round.

        Raises:
            NoFixpointError: a loop needs more rounds than it may have; nothing has happened.
        """
        self._units(self.plan.schedule, 0, (), execute)
        self.outcome.states, self.outcome.stored = self.states.retained()
        return self.outcome

    def _units(self, schedule: Schedule, scope: int, rounds: Rounds, execute: Callable[[Segment], Outcome]) -> None:
        """Run the segments and the loops of a schedule; a closure that called itself would keep all states alive."""
        for unit in schedule:
            if isinstance(unit, LoopUnit):
                for at in self._rounds(unit, rounds):
                    self._units(unit.units, unit.scope, (*rounds, at), execute)
            else:
                segment = Segment(unit, scope, rounds)
                self._take(segment, execute(segment))

    def _rounds(self, unit: LoopUnit, rounds: Rounds) -> Iterator[int]:
        """The rounds in which anything is due, the least first, until nothing is."""
        scope, warned = self.plan.scopes[unit.scope], False
        try:
            while (at := self._next_round(unit, rounds)) is not None:
                if at >= scope.max_rounds:
                    raise self._no_fixpoint(unit, (*rounds, at))
                watch.round = (scope.names, at)
                if at >= WARN_ROUNDS and not warned:
                    warned = True
                    names = ", ".join(scope.names)
                    _logger.warning(_STILL_CHANGES, names, f"{at:,}", f"{scope.max_rounds:,}")
                yield at
        finally:
            watch.round = None

    def _next_round(self, unit: LoopUnit, rounds: Rounds) -> int | None:
        if any(stage in unit.stages for stage, _ in self._inbox):
            return 0
        upper, least = self.region.upper, None
        for stage in unit.stages:
            for _, _, waiting in self._waiting(stage):
                at = waiting.next_round(rounds, upper)
                if at is not None and (least is None or at < least):
                    least = at
        return least

    def _no_fixpoint(self, unit: LoopUnit, rounds: Rounds) -> NoFixpointError:
        scope, due = self.plan.scopes[unit.scope], set[int]()
        for name, shard in {(name, shard) for stage in unit.stages for name, shard, _ in self._waiting(stage)}:
            state = self.states.get(name, shard)
            if state is not None:
                lattice, (parts, _) = state.future.lattice, state.future.take(rounds, self.region.upper)
                due |= {int(t) for part in parts for t in epochs(lattice, part.times)}
        times = ", ".join(map(str, sorted(due)[:_EPOCHS_NAMED])) + (", …" if len(due) > _EPOCHS_NAMED else "")
        return NoFixpointError(
            f"the loop over {', '.join(scope.names)} still changes after {scope.max_rounds} rounds at time {times}; "
            "nothing of the step is committed. Mend the body (a distinct is often what is missing), raise max_rounds, "
            'or take what is there by then with on_limit="stop"; in SQL (RETURN AT RECURSION LIMIT n) does'
        )

    def _waiting(self, stage: int) -> Iterator[tuple[str, int, FutureUpdates | FutureSummary]]:
        """What waits for a stage, by name and shard."""
        holders = self.plan.holders.get(stage, ())
        for name, shard in self.states.holding:
            if name in holders:
                result = self.states.waiting(name, shard)
                if result is not None:
                    yield name, shard, result

    def region_of(self, segment: Segment) -> Region:
        """The times that a segment closes."""
        return self.region.at(segment.rounds) if segment.rounds else self.region

    def inbox(self, segment: Segment) -> dict[tuple[int, int], Inbox]:
        """The messages for a segment's stages, by stage and shard."""
        return {key: inbox for key, inbox in self._inbox.items() if key[0] in segment.stages}

    def messages(self, stage: int) -> dict[int, list[Message]]:
        """The messages for a stage of the only shard, none of which is a reference; they are taken out."""
        return self._inbox.pop((stage, 0), {})  # type: ignore[return-value]

    def due(self, stage: int, rounds: Rounds) -> set[int]:
        """The shards in which anything is due for a stage, or has to be looked at whatever is."""
        if self.mode.hydrating and not rounds:
            return set(range(self.mode.shards))
        return {shard for _, shard, w in self._waiting(stage) if w.is_due(rounds, self.region.upper)}

    def work(self, segment: Segment, enough: int) -> int:
        """Rows that a segment has to do with: what has arrived, what is due, what a hydration reads.

        If the round before made more of them on their way, so does this one. What is due is counted exactly only if
        it may be more than ``enough``.
        """
        growth = self._growth.get(segment.stages, 1.0)
        arrived = sum(rows_in(m) for inbox in self.inbox(segment).values() for part in inbox.values() for m in part)
        operations = [self.plan.nodes[i].operation for stage in segment.stages for i in self.plan.stages[stage]]
        read = {o.arrangement for o in operations if isinstance(o, ReadOp)}
        read |= {o.arrangement for o in operations if isinstance(o, ArrangeOp) and o.arrangement in self.mode.given}
        rows = arrived + sum(self.states.table.rows(name) for name in read)
        rounds, upper = segment.rounds, self.region.upper
        waiting = [w for stage in segment.stages for w in self._waiting(stage)]
        rows_due = sum(w.due_in(rounds, upper) for *_, w in waiting)
        if (rows + rows_due) * growth > enough >= rows * growth:
            states = [self.states.get(name, shard) for name, shard, _ in waiting]
            rows_due = sum(state.future.due_in(rounds, upper) for state in states if state is not None)
        return int((rows + rows_due) * growth)

    def _take(self, segment: Segment, result: Outcome) -> None:
        if segment.rounds and result.passed > _MANY_ROWS:
            self._growth.pop(segment.stages, None)  # the work is counted in rows alone
            self._growth[segment.stages] = max(result.passed / max(self.work(segment, maxsize), 1), 1.0)
        if self._inbox:
            for place in self.inbox(segment):
                del self._inbox[place]
        self._deliver(result.sent)
        for key, state in result.states.items():
            self.states.put(*key, state)
        for key, value in result.stored.items():
            self.states.put_stored(*key, value)
        self.outcome.add_segment(result, in_loop=bool(segment.rounds))

    def _deliver(self, sent: Iterator[Sent] | list[Sent]) -> None:
        for shard, channel, message in sent:
            stage = self.plan.channels[channel].stage if channel >= 0 else 0
            self._inbox.setdefault((stage, shard), defaultdict(list))[channel].append(message)
