"""Functions of groups that see their own output: over an arrangement of the groups, and one of the output."""

from __future__ import annotations

from altneu.expressions import Column, call
from altneu.linear import BoundLogic, Filter, Project
from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.linear.operation import LinearOp
from altneu.operators.lowering import Lowered, Lowering, Port, arrange_label, arrangement_id, group_label
from altneu.operators.reduce_core.groups import CODE, CoreSpec
from altneu.operators.reduce_core.node import ReduceCore
from altneu.operators.reduce_core.operation import ReduceCoreOp


def lower_reduce_core(to: Lowering, node: ReduceCore) -> Lowered:
    """The groups, the function, what it made, and of that the rows."""
    below = to.lower(node.input)
    groups = to.arrange(below, node.key, to.name_of(node.input), arrange_label(node.key), node.order)
    spec = CoreSpec(node.key, node.function.call, node.result, node.input.schema)
    layout, logical = spec.layout(to.lattice), node.fingerprint
    name = arrangement_id(f"output|{logical}", node.key)
    label = f"reduce_core {node.function.name}, {group_label(node.key)}"
    made = to.add(ReduceCoreOp(name, spec), (Port(groups),), spec.kept, label=label, logical=logical)
    kept = f"output of {label}"
    to.add(ArrangeOp(name, layout), (Port(made),), spec.kept, label=f"keep {kept}", logical=f"output|{logical}")
    to.may_fail(node, Lowered(Port(made, 1), node.key))
    code = Column(CODE, spec.kept.field(CODE).type, nullable=True)
    outputs = tuple((f.name, Column(f.name, f.type, f.nullable)) for f in node.schema)
    logic = BoundLogic((Filter(call("isnull", [code])), Project(outputs)))
    rows = to.add(LinearOp(logic), (Port(made),), node.schema, label=f"rows of {label}", logical=logical)
    return Lowered(Port(rows), node.key)
