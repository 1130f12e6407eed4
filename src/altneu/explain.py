"""EXPLAIN: what every operator of a view costs, before and while it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from altneu.errors import UnboundedCostError
from altneu.operators.reduce import AccumulableSpec, WindowFunctions
from altneu.physical import (
    HOSTS,
    ArrangeOp,
    AsofOp,
    ConcatOp,
    ConsolidateOp,
    ExplodeOp,
    IntegrateOp,
    JoinOp,
    LatestOp,
    LinearOp,
    LockedOp,
    PhysicalNode,
    Plan,
    Port,
    ReduceOp,
    SourceOp,
    TapOp,
)

CHANGE, GROUPS, EVERYTHING = "the change", "the groups touched", "everything"


@dataclass(frozen=True)
class OperatorCost:
    """One line of EXPLAIN.

    ``bound`` says what bounds the cost of a step: the change (and the matches it makes), the groups touched, or
    everything; shown as incremental, bounded and full.
    """

    label: str
    keys: tuple[str, ...]
    exchange: tuple[str, ...] | None
    state: str
    bound: str
    inputs: tuple[int, ...]


@dataclass(frozen=True)
class EventTimes:
    """How many event times the groups of an arrangement keep apart, each of which a correction may have to follow.

    Shape:  ``lines`` pairs of a group and an event time, of ``groups`` groups; ``most`` of them in one group.
    """

    groups: int
    lines: int
    most: int

    def __str__(self) -> str:
        if not self.groups:
            return "none so far"
        group = "1 group" if self.groups == 1 else f"{self.groups:,} groups"
        return f"{self.lines / self.groups:,.1f} on average in {group}, at most {self.most:,}"


def cost(plan: Plan, node: PhysicalNode) -> OperatorCost:
    """Keys, exchange, state and bound of one operator."""
    operation = node.operation
    inputs = tuple(p.node for p in node.inputs)
    keys: tuple[str, ...] = ()
    state, bound = "", CHANGE
    label = node.label
    if node.notes:
        inputs = tuple(dict.fromkeys(_arranged_below(plan, node)))
    match operation:
        case ArrangeOp(_, layout):
            keys, state = layout.key, _state(operation)
        case LatestOp():
            keys = _keys_below(plan, node)
        case ReduceOp(spec):
            keys = _keys_below(plan, node)
            if isinstance(spec, AccumulableSpec):
                label = f"reduce {label} [accumulable]"
            else:
                bound = GROUPS if keys else EVERYTHING
                verb = "" if isinstance(spec, WindowFunctions) else "reduce "
                label = f"{verb}{label.removeprefix('reduce ')} [general]"
            if plan.has_event_times(node):
                bound = max(bound, GROUPS, key=_BOUNDS.index)
                label += ", along chains of its two times"
        case JoinOp() | AsofOp() | LockedOp():
            keys = _keys_below(plan, node)
        case LinearOp():
            label = f"linear {label}"
        case _:
            pass
    if isinstance(operation, HOSTS) and operation.logic:
        label = f"{label}, then {operation.logic}"
    return OperatorCost(label, keys, node.exchange, state, bound, inputs)


def _arranged_below(plan: Plan, node: PhysicalNode) -> Iterator[int]:
    """The arrangements that a delta join reads, whatever operations it is made of."""
    for port in node.inputs:
        below = plan.nodes[port.node]
        if isinstance(below.operation, ArrangeOp):
            yield port.node
        else:
            yield from _arranged_below(plan, below)


def _state(operation: ArrangeOp) -> str:
    """What an arrangement keeps."""
    layout, locked = operation.layout, operation.locked
    if locked is not None:
        met = ", ".join(locked.met) or "nothing but its key"
        return f"arrangement ({', '.join(layout.key)}), each row that is there with what it met ({met})"
    names = layout.schema.names if operation.latest is None else layout.schema.names[:-1]
    more = "" if operation.latest is None else ", the latest row of each key"
    return f"arrangement ({', '.join(names)}){more}" + (f", in order of {layout.order}" if layout.order else "")


def _keys_below(plan: Plan, node: PhysicalNode) -> tuple[str, ...]:
    """The key of the arrangement that an operator reads first."""
    arranged = plan.nodes[node.inputs[0].node].operation
    return arranged.layout.key if isinstance(arranged, ArrangeOp) else ()


def explain(
    plan: Plan,
    view: str,
    rows: Callable[[str], int] | None = None,
    event_times: Callable[[str], EventTimes | None] | None = None,
) -> str:
    """The operators of a view as a tree, the view's contents first.

    ``rows`` tells how many updates an arrangement keeps now, ``event_times`` how many event times its groups have.
    """
    ports = plan.views[view]
    lines = [f"view {view}"]
    shown: set[int] = set()
    shared: dict[str, list[str]] = {}
    for other in plan.views:
        for name in plan.arrangements_of(other) if other != view else ():
            shared.setdefault(name, []).append(other)

    def show(i: int, depth: int) -> None:
        node = plan.nodes[i]
        line = cost(plan, node)
        parts = []
        if line.keys:
            parts.append(f"key: {', '.join(line.keys)}")
        if isinstance(node.operation, ArrangeOp | ConsolidateOp | TapOp):
            parts.append(
                "exchange: " + (", ".join(line.exchange) or "to one shard" if line.exchange is not None else "none")
            )
        if line.state:
            count = (
                f", {rows(node.operation.arrangement):,} updates"
                if rows and isinstance(node.operation, ArrangeOp)
                else ""
            )
            others = shared.get(node.operation.arrangement, ()) if isinstance(node.operation, ArrangeOp) else ()
            with_them = f", shared with {', '.join(others)}" if others else ""
            parts.append(f"state: {line.state}{count}{with_them}")
        if node.notes or not isinstance(node.operation, SourceOp | ConcatOp | ExplodeOp):
            parts.append(f"cost per step: {line.bound} ({_CALLED[line.bound]})")
        if (found := _lines(plan, node, event_times)) is not None:
            parts.append(f"a correction looks again at its event time and each later one of its group: {found}")
        repeated = i in shown and node.inputs
        lines.append(
            f"{'  ' * depth}{line.label}"
            + (f"  [{'; '.join(parts)}]" if parts else "")
            + ("  (shared, shown above)" if repeated else "")
        )
        if not repeated:
            shown.add(i)
            lines.extend(f"{'  ' * (depth + 1)}| {note}" for note in node.notes)
            for child in line.inputs:
                show(child, depth + 1)

    show(plan.arrangements[ports.contents], 1)
    if ports.errors:
        lines.append(f"  errors of {len(ports.errors)} operator(s), each a set, kept apart")
    upstream = [*plan.upstream(Port(plan.arrangements[ports.contents]))]
    exchanges = sum(1 for i in upstream if plan.nodes[i].exchange is not None)
    worst = max((cost(plan, plan.nodes[i]).bound for i in upstream), key=_BOUNDS.index)
    lines.append(f"  {exchanges} exchange(s); the cost of a step is bounded by {worst} ({_CALLED[worst]})")
    if any(isinstance(plan.nodes[i].operation, IntegrateOp) for i in upstream):
        lines.append("  depends on when rows come: a view added later starts from the present")
    return "\n".join(lines)


def _lines(plan: Plan, node: PhysicalNode, event_times: Callable[[str], EventTimes | None] | None) -> EventTimes | None:
    """The event times that a reduce follows a correction through, where it does and they are known."""
    if event_times is None or not isinstance(node.operation, ReduceOp) or not plan.has_event_times(node):
        return None
    arranged = plan.nodes[node.inputs[0].node].operation
    return event_times(arranged.arrangement) if isinstance(arranged, ArrangeOp) else None


_BOUNDS = [CHANGE, GROUPS, EVERYTHING]
_CALLED = {CHANGE: "incremental", GROUPS: "bounded", EVERYTHING: "full"}


def refuse_unbounded(plan: Plan, view: str) -> None:
    """Refuse a plan with an operator whose cost per step is bounded only by everything.

    Raises:
        UnboundedCostError: naming the operator and a remedy.
    """
    for i in plan.upstream(Port(plan.arrangements[plan.views[view].contents])):
        line = cost(plan, plan.nodes[i])
        if line.bound == EVERYTHING:
            raise UnboundedCostError(
                f"view {view!r} is maintained strictly, but {line.label!r} re-reads all rows on every change: "
                "it has no group key. Group it first (a top_k per group, then one over their winners), "
                "or maintain it with strict=False."
            )
