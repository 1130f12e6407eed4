"""Hydration plans: compute what a new view lacks from what arrangements already hold, without re-reading sources.

The plan of the whole session is cut at every collection that can be read: an arrangement that exists is read whole,
and as new; a collection that some arrangement holds is read from it. What lies between is run again, and its results
kept only where nothing was kept before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from altneu.errors import HydrationError
from altneu.physical import (
    STATEFUL,
    ArrangeOp,
    ConsolidateOp,
    ConstantOp,
    ExplodeOp,
    PhysicalNode,
    Plan,
    Port,
    ReadOp,
    SourceOp,
    scheduled,
)


@dataclass
class _Cutter:
    plan: Plan
    existing: Collection[str]
    filled: Collection[str]
    view: str
    nodes: list[PhysicalNode] = field(default_factory=list)
    made: dict[int, int | None] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    anew: set[str] = field(default_factory=set)

    def add(self, node: PhysicalNode, inputs: tuple[Port, ...]) -> int:
        """Append a node at its stage in this plan.

        Rows read from arrangements may lie otherwise than the session's plan knew, so no exchange is left out.
        """
        exchange = node.exchange
        if isinstance(node.operation, ArrangeOp):
            locked = node.operation.locked
            key = node.operation.layout.key if locked is None else locked.keys[0]
            exchange = key if inputs else None
        elif isinstance(node.operation, ConsolidateOp):
            exchange = tuple(node.schema.names)
        self.nodes.append(replace(node, inputs=inputs, exchange=exchange))
        return len(self.nodes) - 1

    def need(self, i: int) -> int | None:
        """The node here that gives what node i gives; None where that is known to be empty."""
        if i not in self.made:
            self.made[i] = self._need(i)
        return self.made[i]

    def _need(self, i: int) -> int | None:
        node = self.plan.nodes[i]
        operation = node.operation
        if loop := self.plan.loop_around(node.scope):
            self._need_loop(loop)
            return self.made[i]
        moments = self.plan.has_moments(node)  # nothing keeps what was there at a moment: it is made again
        if isinstance(operation, ArrangeOp) and operation.arrangement in self.existing:
            if not moments:
                self.given.add(operation.arrangement)
                return self.add(replace(node, exchange=None), ())
            self.anew.add(operation.arrangement)
        reader = self._reader(i)
        if reader is not None and not moments:
            self.read.add(reader)
            label = f"read {node.label}"
            read = PhysicalNode(ReadOp(reader), (), 0, node.schema, label=label, scope=node.scope)
            return self.add(replace(read, identity=node.identity), ())
        if isinstance(operation, SourceOp):
            if operation.name in self.filled:
                raise HydrationError(
                    f"view {self.view!r} needs the rows of source {operation.name!r} that were inserted before, "
                    f"and no view keeps them; declare an.source({operation.name!r}, ..., keep=True), "
                    "in SQL CREATE SOURCE … KEEP, or maintain the view before the first advance"
                )
            return self.add(node, ())
        if isinstance(operation, ConstantOp):
            return self.add(node, ())
        inputs = []
        for port in node.inputs:
            made = self.need(port.node)
            if made is not None:
                inputs.append(Port(made, port.output))
        return self.add(node, tuple(inputs))

    def _need_loop(self, scope: int) -> None:
        """The whole of a loop, from what enters it: its rounds are run again, even those that were kept."""
        inside = [i for i, n in enumerate(self.plan.nodes) if self.plan.loop_around(n.scope) == scope]
        for i in inside:
            for port in self.plan.nodes[i].inputs:
                if port.node not in inside:
                    self.need(port.node)
        for i in inside:
            node = self.plan.nodes[i]
            ports = [Port(made, p.output) for p in node.inputs if (made := self.made[p.node]) is not None]
            self.made[i] = self.add(node, tuple(ports))
            if isinstance(node.operation, STATEFUL) and node.operation.arrangement in self.existing:
                self.anew.add(node.operation.arrangement)

    def _reader(self, i: int) -> str | None:
        """An existing arrangement that holds all rows of node i's output."""
        if isinstance(self.plan.nodes[i].operation, ExplodeOp | ArrangeOp):
            return None
        for node in self.plan.nodes:
            if (
                isinstance(node.operation, ArrangeOp)
                and node.inputs == (Port(i),)
                and node.operation.arrangement in self.existing
                and not node.operation.transforms
            ):
                return node.operation.arrangement
        return None


def hydration_plan(
    plan: Plan, view: str, existing: Collection[str], filled: Collection[str]
) -> tuple[Plan, frozenset[str], frozenset[str]]:
    """The plan that fills what does not exist yet, the arrangements it is given, and those that it computes again.

    Shape:  ``existing`` names the arrangements that hold state, ``filled`` the sources that ever had rows.

    Raises:
        HydrationError: a source's rows are needed and nothing keeps them.
    """
    cutter = _Cutter(plan, existing, filled, view)
    for name, i in plan.arrangements.items():
        if name not in existing:
            cutter.need(i)
    layouts = {
        n: o.layout
        for n, i in plan.arrangements.items()
        if isinstance(o := plan.nodes[i].operation, ArrangeOp) and n in cutter.read
    }
    nodes, schedule = scheduled(cutter.nodes, plan.scopes)
    made = Plan(plan.lattice, nodes, read_layouts=layouts, scopes=plan.scopes, schedule=schedule)
    return made, frozenset(cutter.given), frozenset(cutter.anew)


def missing(plan: Plan, existing: Mapping[str, object] | Collection[str]) -> list[str]:
    """Arrangements of a plan that do not exist yet."""
    return [name for name in plan.arrangements if name not in existing]
