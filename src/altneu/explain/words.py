"""How operators are called."""

from __future__ import annotations

from typing import Any, Literal

from altneu.operators.reduce import AccumulableSpec, WindowFunctions
from altneu.plan.physical import (
    HOSTS,
    ArrangeOp,
    AsofOp,
    CommandsOp,
    ConcatOp,
    ConfirmOp,
    ConsolidateOp,
    ConstantOp,
    CountOp,
    DeltaJoinOp,
    DifferentiateOp,
    EnterAtOp,
    EnterOp,
    ExplodeOp,
    FeedbackOp,
    FeedOp,
    IntegrateOp,
    JoinOp,
    LatestOp,
    LeaveOp,
    LinearOp,
    LockedOp,
    NewsOp,
    PhysicalNode,
    Plan,
    ProposeOp,
    ReadOp,
    ReduceOp,
    RowsOp,
    SourceOp,
    TapOp,
    ToNeuOp,
)

Kind = Literal[
    "source",
    "constant",
    "read",
    "linear",
    "concat",
    "combine",
    "arrangement",
    "commands",
    "rows",
    "latest",
    "consolidate",
    "inspect",
    "join",
    "delta join",
    "as-of join",
    "update time",
    "reduce",
    "window",
    "enter",
    "leave",
    "moments",
    "variable",
    "next round",
    "path",
]

_KINDS: dict[type[Any], Kind] = {
    SourceOp: "source",
    ConstantOp: "constant",
    ReadOp: "read",
    LinearOp: "linear",
    ConcatOp: "concat",
    ExplodeOp: "combine",
    ArrangeOp: "arrangement",
    CommandsOp: "commands",
    RowsOp: "rows",
    LatestOp: "latest",
    ConsolidateOp: "consolidate",
    TapOp: "inspect",
    JoinOp: "join",
    DeltaJoinOp: "delta join",
    AsofOp: "as-of join",
    LockedOp: "as-of join",
    NewsOp: "path",
    CountOp: "path",
    ProposeOp: "path",
    ConfirmOp: "path",
    ReduceOp: "reduce",
    EnterOp: "enter",
    EnterAtOp: "enter",
    LeaveOp: "leave",
    DifferentiateOp: "moments",
    ToNeuOp: "moments",
    IntegrateOp: "moments",
    FeedbackOp: "variable",
    FeedOp: "next round",
}


def kind_of(node: PhysicalNode) -> Kind:
    """The word for what an operator is."""
    operation = node.operation
    if isinstance(operation, ConcatOp) and node.notes:
        return "delta join"  # in several shards it is the sum of its paths
    if isinstance(operation, ReduceOp) and isinstance(operation.spec, WindowFunctions):
        return "window"
    if isinstance(operation, LockedOp) and operation.spec.times:
        return "update time"
    return _KINDS[type(operation)]


def logic_of(node: PhysicalNode) -> str:
    """The linear logic of an operator: all that it is, or what it applies to its rows."""
    operation = node.operation
    return str(operation.logic) if isinstance(operation, (LinearOp, *HOSTS)) and operation.logic else ""


def labelled(plan: Plan, node: PhysicalNode) -> str:
    """What EXPLAIN calls an operator."""
    label, operation = node.label, node.operation
    match operation:
        case ReduceOp(spec):
            if isinstance(spec, AccumulableSpec):
                label = f"reduce {label} [accumulable]"
            else:
                verb = "" if isinstance(spec, WindowFunctions) else "reduce "
                label = f"{verb}{label.removeprefix('reduce ')} [general]"
            if plan.has_event_times(node):
                label += ", along chains of its two times"
        case LinearOp():
            label = f"linear {label}"
        case _:
            pass
    if isinstance(operation, HOSTS) and operation.logic:
        label = f"{label}, then {operation.logic}"
    return label
