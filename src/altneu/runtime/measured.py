"""What operators do, counted as they do it: in a stage, over a step, and over the life of a session."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from altneu.columnar.immutable import immutable
from altneu.explain import Measured
from altneu.operators.arrange.operation import ArrangeOp, ReadOp
from altneu.plan.physical import Plan

Counts = list[Any]
"""Rows in, rows out, errors, seconds."""
SECONDS = 3


@dataclass
class Counted:
    """What the nodes of a plan did, by their numbers; of those in loops also in how many rounds.

    Cost:   a step without loops and with one shard only collects what its stages counted.
    """

    counts: dict[int, Counts] = field(default_factory=dict)
    rounds: dict[int, int] = field(default_factory=dict)

    def add(self, more: Mapping[int, Counts]) -> None:
        """With what another stage counted, or another shard or part of the same one.

        >>> found = Counted({0: [1, 1, 0, 0.5]})
        >>> found.add({0: [2, 1, 1, 0.25], 4: [3, 3, 0, 0.0]})
        >>> found.counts
        {0: [3, 2, 1, 0.75], 4: [3, 3, 0, 0.0]}
        """
        known = self.counts
        if known.keys().isdisjoint(more):
            known.update(more)
            return
        for node, counts in more.items():
            earlier = known.get(node)
            known[node] = counts if earlier is None else [a + b for a, b in zip(earlier, counts, strict=True)]

    def add_segment(self, segment: Counted, *, in_loop: bool) -> None:
        """With what a segment counted; ``in_loop`` it is one round of each of its nodes."""
        self.add(segment.counts)
        if in_loop:
            for node in segment.counts:
                self.rounds[node] = self.rounds.get(node, 0) + 1

    def measured(self, node: int) -> Measured:
        """What a node did, in one step."""
        rows_in, rows_out, errors, seconds = self.counts[node]
        return Measured(rows_in, rows_out, errors, seconds, 1, self.rounds.get(node, 1))


@immutable(frozen=True)
class Ran:
    """A plan that was run, and what its nodes did; the arrangements ``given`` were only read."""

    plan: Plan
    counted: Counted
    given: Collection[str] = ()

    @property
    def done(self) -> Counted:
        """The same without what was only read."""
        nodes, counts = self.plan.nodes, self.counted.counts
        read = {n for n in counts if isinstance(o := nodes[n].operation, ArrangeOp) and o.arrangement in self.given}
        read |= {n for n in counts if isinstance(nodes[n].operation, ReadOp)}
        done = {n: done for n, done in counts.items() if n not in read and nodes[n].identity}
        return Counted(done, self.counted.rounds)


class Measurements:
    """What each operator of a session did: since the session was opened, and in the last advance.

    Operators go by what they are called in every plan (``PhysicalNode.identity``), so that a view more or less, for
    which the plan is made anew, loses nothing. What a step did counts once it is committed.

    Cost:   half a microsecond a step and operator that had anything to do.
    """

    def __init__(self) -> None:
        self.steps = 0
        self._total: dict[str, list[Any]] = {}
        self._last: list[tuple[Plan, Counted]] = []

    def __str__(self) -> str:
        return f"{self.steps:,} step{'' if self.steps == 1 else 's'} since the session was opened"

    def begin(self) -> None:
        """An advance begins."""
        self._last = []

    def add(self, *ran: Ran) -> None:
        """A step of the advance has been committed, which ran these plans."""
        self.steps += 1
        for one in ran:
            done = one.done if one.given else one.counted
            self._sum(one.plan, done)
            self._last.append((one.plan, done))

    def counted(self, operator: str) -> tuple[int, int]:
        """The rows that an operator has read, and those that it has made of them."""
        known = self._total.get(operator)
        return (0, 0) if known is None else (known[0], known[1])

    def fill(self, plan: Plan, counted: Counted, given: Collection[str]) -> None:
        """A view that came late has been computed; what was only read for it did nothing."""
        done = Ran(plan, counted, given).done
        if done.counts:
            self.steps += 1
            self._sum(plan, done)

    def _sum(self, plan: Plan, counted: Counted) -> None:
        nodes, total, counts, rounds = plan.nodes, self._total, counted.counts, counted.rounds
        for node in counts:
            rows_in, rows_out, errors, seconds = counts[node]
            name = nodes[node].identity
            if name not in total:
                total[name] = [0, 0, 0, 0.0, 0, 0]
            known = total[name]
            known[0] += rows_in
            known[1] += rows_out
            known[2] += errors
            known[3] += seconds
            known[4] += 1
            known[5] += rounds.get(node, 1) if rounds else 1

    def keep(self, plan: Plan) -> None:
        """Forget what a plan no longer has."""
        names = {node.identity for node in plan.nodes}
        self._total = {name: result for name, result in self._total.items() if name in names}

    def read(self) -> Callable[[str], tuple[Measured, Measured]]:
        """What each operator did, by what it is called: all together, and in the last advance."""
        nothing, last = Measured(), dict[str, Measured]()
        for plan, counted in self._last:
            for node in counted.counts:
                name = plan.nodes[node].identity
                last[name] = last.get(name, nothing) + counted.measured(node)
        total = {name: Measured(*result) for name, result in self._total.items()}
        return lambda name: (total.get(name, nothing), last.get(name, nothing))
