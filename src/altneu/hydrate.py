"""Hydration plans: compute what a new view lacks from what arrangements already hold, without re-reading sources.

The plan of the whole session is cut at every collection that can be read: an arrangement that exists is read whole,
and as new; a collection that some arrangement holds is read from it. What lies between is run again, and its results
kept only where nothing was kept before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

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

    def need(self, root: int) -> int | None:
        """The node here that gives what a node gives; None where that is known to be empty.

        What it is made of is made first, so that a plan may be of any depth; a loop is made as a whole.
        """
        todo = [(root, False)]
        while todo:
            i, is_entered = todo.pop()
            if i in self.made:
                continue
            if not is_entered:
                todo.append((i, True))
                todo += [(below, False) for below in reversed(self._below(i))]
            elif loop := self.plan.loop_around(self.plan.nodes[i].scope):
                self._make_loop(loop)
            else:
                self.made[i] = self._make(i)
        return self.made[root]

    def _below(self, i: int) -> list[int]:
        """The nodes without which a node cannot be made here."""
        node = self.plan.nodes[i]
        if loop := self.plan.loop_around(node.scope):
            inside = self.loops[loop]
            return [p.node for j in inside for p in self.plan.nodes[j].inputs if p.node not in inside]
        if not self.plan.has_moments(node) and (self._is_given(node) or i in self.readers):
            return []
        return [p.node for p in node.inputs]

    def _is_given(self, node: PhysicalNode) -> bool:
        return isinstance(node.operation, ArrangeOp) and node.operation.arrangement in self.existing

    def _make(self, i: int) -> int | None:
        node = self.plan.nodes[i]
        operation = node.operation
        moments = self.plan.has_moments(node)  # nothing keeps what was there at a moment: it is made again
        if isinstance(operation, ArrangeOp) and operation.arrangement in self.existing:
            if not moments:
                self.given.add(operation.arrangement)
                return self.add(replace(node, exchange=None), ())
            self.anew.add(operation.arrangement)
        reader = self.readers.get(i)
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
        ports = [Port(made, port.output) for port in node.inputs if (made := self.made[port.node]) is not None]
        return self.add(node, tuple(ports))

    def _make_loop(self, loop: int) -> None:
        """The whole of a loop, from what enters it: its rounds are run again, even those that were kept."""
        for i in self.loops[loop]:
            node = self.plan.nodes[i]
            ports = [Port(made, p.output) for p in node.inputs if (made := self.made[p.node]) is not None]
            self.made[i] = self.add(node, tuple(ports))
            if isinstance(node.operation, STATEFUL) and node.operation.arrangement in self.existing:
                self.anew.add(node.operation.arrangement)

    @cached_property
    def loops(self) -> dict[int, dict[int, None]]:
        """The nodes of each outermost loop, in order."""
        found: dict[int, dict[int, None]] = {}
        for i, node in enumerate(self.plan.nodes):
            if loop := self.plan.loop_around(node.scope):
                found.setdefault(loop, {})[i] = None
        return found

    @cached_property
    def readers(self) -> dict[int, str]:
        """For a node, an existing arrangement that holds all rows of its output."""
        found: dict[int, str] = {}
        for node in self.plan.nodes:
            operation = node.operation
            if not isinstance(operation, ArrangeOp) or operation.arrangement not in self.existing:
                continue
            if len(node.inputs) == 1 and not node.inputs[0].output and not operation.transforms:
                below = node.inputs[0].node
                if not isinstance(self.plan.nodes[below].operation, ExplodeOp | ArrangeOp):
                    found.setdefault(below, operation.arrangement)
        return found


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
