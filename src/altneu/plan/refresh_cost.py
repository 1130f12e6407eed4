"""What a step of a view costs by the change, and what it costs to compute the view anew: estimates, in rows.

Both count the rows that the operators read and make which a view may compute anew, from what is counted already: the
rows of the change, those that arrangements hold, and how many rows operators have made of those that they read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.source.operation import SourceOp
from altneu.plan.physical import PhysicalNode, Plan, Port
from altneu.plan.recompute import Recomputable

MARGIN = 1.2
"""How many times as much the change must cost: no estimate is better than that."""
ROUNDS = 4
"""How many times a row of a loop comes and goes while its rounds follow a change (measured: components, bench)."""

Work = tuple[int, int]
"""Rows that an operator has read, and those that it has made of them, since the session was opened."""


@dataclass(frozen=True)
class Cost:
    """What a step costs by the change, and anew.

    Units:  rows that are read or made; estimates.
    """

    incremental: int
    full: int

    def __str__(self) -> str:
        return f"about {self.incremental:,} rows by the change, {self.full:,} anew"

    @property
    def is_full_cheaper(self) -> bool:
        """Whether to compute anew costs clearly less."""
        return self.full * MARGIN < self.incremental


@dataclass(frozen=True)
class Facts:
    """What is counted: rows of arrangements, of the change of each source (updates, and what they add up to), of work.

    ``due`` are the future updates of arrangements that the step takes up; ``history`` says whether earlier times stay
    readable, so that other arrangements than those of contents are compared with what they had, too.
    """

    rows: Callable[[str], int]
    changes: Mapping[str, tuple[int, int]]
    counted: Callable[[str], Work]
    due: Mapping[str, int]
    history: bool = False


@dataclass(frozen=True)
class _Flow:
    """Rows of a collection before the step, its updates in the step, and rows after it."""

    rows: float = 0.0
    updates: float = 0.0
    after: float = 0.0

    def scaled(self, rows: float) -> _Flow:
        """The same shares of so many rows; no more updates than if all rows went and others came."""
        if not self.rows:
            return _Flow(rows, self.updates, rows + self.after)
        by = rows / self.rows
        after = self.after * by
        return _Flow(rows, min(self.updates * by, rows + after), after)


NOTHING = _Flow()


def cost_of(what: Recomputable, facts: Facts) -> Cost:
    """What the operators that some views may compute anew cost in a step.

    A source's change is taken to be spread evenly over what is made of it. Of a join with the changes d, e of inputs
    with n, m rows the change is (d / n + e / m) times its rows; a loop changes as much as what comes into it, and each
    of its rows comes and goes several times (``ROUNDS``) before it stays.

    Cost:   O(size of the plan).
    """
    return _Costing(what.plan, facts).cost(what)


class _Costing:
    """The flows of one plan, inputs first."""

    def __init__(self, plan: Plan, facts: Facts) -> None:
        self.plan, self.facts = plan, facts
        self.flows: dict[int, _Flow] = {}
        self.loops: dict[int, _Flow] = {}

    def cost(self, what: Recomputable) -> Cost:
        """Add up what the nodes cost of which a recomputation is made."""
        plan = self.plan
        roots = [plan.arrangements[name] for name in what.arrangements]
        stays = {*plan.upstream(*(Port(i) for n, i in plan.arrangements.items() if n not in what.arrangements))}
        by_change = anew = 0.0
        read = set[int]()
        for i in sorted(plan.upstream(*map(Port, roots))):
            node = plan.nodes[i]
            inputs = [self._of(port) for port in node.inputs]
            flow = self.flows[i] = self._flow(i, node, inputs)
            if i in stays:
                continue
            times = ROUNDS if plan.loop_around(node.scope) else 1
            read |= {port.node for port in node.inputs if port.node in stays and plan.layout_at(port.node)}
            arranged = isinstance(node.operation, ArrangeOp)
            if arranged or any(plan.layout_at(port.node) for port in node.inputs):
                by_change += times * (sum(one.updates for one in inputs) + (0 if arranged else flow.updates))
                anew += sum(one.after for one in inputs) + (0 if arranged else flow.after)
        for name in what.arrangements if self.facts.history else what.outputs:
            flow = self.flows[plan.arrangements[name]]
            anew += flow.rows + flow.after
        anew += sum(self.flows[i].rows + self.flows[i].updates for i in read)
        return Cost(round(by_change), round(anew))

    def _of(self, port: Port) -> _Flow:
        return NOTHING if port.output else self.flows.get(port.node, NOTHING)

    def _flow(self, i: int, node: PhysicalNode, inputs: list[_Flow]) -> _Flow:
        plan, operation = self.plan, node.operation
        if isinstance(operation, SourceOp):
            updates, net = self.facts.changes.get(operation.name, (0, 0))
            rows = self._rows_of(i)
            return _Flow(rows, updates, max(rows + net, 0))
        if loop := plan.loop_around(node.scope):
            return self._in_loop(loop, i, node, inputs)
        if isinstance(operation, ArrangeOp):
            (flow, *_) = inputs
            due = self.facts.due.get(operation.arrangement, 0)
            scaled = flow.scaled(self.facts.rows(operation.arrangement))
            return _Flow(scaled.rows, scaled.updates + due, scaled.after)
        if not any(plan.layout_at(port.node) for port in node.inputs):
            return _Flow(*(sum(getattr(one, name) for one in inputs) for name in ("rows", "updates", "after")))
        if any(operation.looked_up_for(place) for place in range(len(inputs))):
            return self._joined(i, node, inputs)
        first = inputs[0]
        rows = self._made(i) or first.rows
        flow = first.scaled(rows)
        return _Flow(rows, min(2 * first.updates, flow.rows + flow.after), flow.after)

    def _joined(self, i: int, node: PhysicalNode, inputs: list[_Flow]) -> _Flow:
        read, made = self.facts.counted(node.identity)
        rows = sum(one.rows for one in inputs) * made / read if read else self._made(i)
        if not rows:
            rows = max(one.rows for one in inputs)
        updates = sum(one.updates / one.rows if one.rows else 0.0 for one in inputs)
        shares = [one.after / one.rows for one in inputs if one.rows]
        after = min(shares) if min(shares, default=1.0) < 1 else max(shares, default=1.0)
        return _Flow(rows, rows * updates, rows * after)

    def _in_loop(self, loop: int, i: int, node: PhysicalNode, inputs: list[_Flow]) -> _Flow:
        """A loop is one: what comes into it changes all of it."""
        outside = [
            self._of(port) for port in node.inputs if self.plan.loop_around(self.plan.nodes[port.node].scope) != loop
        ]
        known = self.loops.get(loop, NOTHING)
        share = known.updates + sum(one.updates / one.rows for one in outside if one.rows)
        self.loops[loop] = known = _Flow(1, share, 1)
        rows = self._made(i) or max((one.rows for one in inputs), default=0.0)
        return known.scaled(rows)

    def _made(self, i: int) -> float:
        """How many rows a node makes, as an arrangement right behind it has them."""
        keeps = self.plan.nodes[i].operation.keeps
        if keeps is not None:
            return self.facts.rows(keeps[0])
        return max((self.facts.rows(n) for n, at in self.plan.arrangements.items() if self._is_of(at, i)), default=0)

    def _is_of(self, at: int, i: int) -> bool:
        """Whether an arrangement has the rows that a node makes."""
        operation = self.plan.nodes[at].operation
        return isinstance(operation, ArrangeOp) and Port(i) in self.plan.nodes[at].inputs

    def _rows_of(self, source: int) -> float:
        """At least how many rows a source has: those of the largest arrangement of rows that are made one by one."""
        largest, reached = 0, {source}
        for i, node in enumerate(self.plan.nodes):
            if i == source or not any(port.node in reached and not port.output for port in node.inputs):
                continue
            if isinstance(node.operation, ArrangeOp):
                largest = max(largest, self.facts.rows(node.operation.arrangement))
            elif node.operation.is_linear or node.operation.is_sum:
                reached.add(i)
        return largest
