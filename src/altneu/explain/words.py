"""How operators are called."""

from __future__ import annotations

from altneu.operators.base import Hosting, Kind
from altneu.operators.concat.operation import ConcatOp
from altneu.operators.linear.operation import LinearOp
from altneu.operators.reduce.operation import CollateOp, ReduceOp
from altneu.plan.physical import PhysicalNode, Plan


def kind_of(node: PhysicalNode) -> Kind:
    """The word for what an operator is."""
    operation = node.operation
    if isinstance(operation, ConcatOp) and node.notes:
        return "delta join"  # in several shards it is the sum of its paths
    return operation.word


def logic_of(node: PhysicalNode) -> str:
    """The linear logic of an operator: all that it is, or what it applies to its rows."""
    operation = node.operation
    return str(operation.logic) if isinstance(operation, LinearOp | Hosting) and operation.logic else ""


def labelled(plan: Plan, node: PhysicalNode) -> str:
    """What EXPLAIN calls an operator."""
    label, operation = node.label, node.operation
    match operation:
        case ReduceOp(spec):
            if spec.sums is not None:
                label = f"reduce {label} [accumulable]"
            else:
                verb = "" if spec.kind == "window" else "reduce "
                label = f"{verb}{label.removeprefix('reduce ')} [general]"
            if plan.has_event_times(node):
                label += ", along chains of its two times"
        case CollateOp():
            label = f"reduce {label} [by parts]"
        case LinearOp():
            label = f"linear {label}"
        case _:
            pass
    if isinstance(operation, Hosting) and operation.logic:
        label = f"{label}, then {operation.logic}"
    return label
