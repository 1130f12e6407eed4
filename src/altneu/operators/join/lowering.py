"""An equijoin as an operation over two arrangements."""

from __future__ import annotations

from altneu.operators.join.node import Join
from altneu.operators.join.operation import JoinOp
from altneu.operators.join.pairs import JoinSpec
from altneu.operators.lowering import Lowered, Lowering, Port, arrange_label


def lower_join(to: Lowering, node: Join) -> Lowered:
    """Both sides by their keys; the rows are spread by the key that is handed on."""
    left, right = to.lower(node.left), to.lower(node.right)
    sides = ((left, node.left, node.left_key), (right, node.right, node.right_key))
    inputs = tuple(Port(to.arrange(lowered, key, to.name_of(side), arrange_label(key))) for lowered, side, key in sides)
    scope = to.innermost(map(to.scope_of, (left, right)))
    spec = JoinSpec(node.schema, node.outputs, to.lattice_in(scope), node.nulls_equal)
    notes = (node.reason,) if node.reason else ()
    port = Port(to.add(JoinOp(spec), inputs, node.schema, label=node.title, logical=node.fingerprint, notes=notes))
    for side, key in ((0, node.left_key), (1, node.right_key)):
        name_of = {column: name for name, s, column in node.outputs if s == side}
        if all(k in name_of for k in key):
            return Lowered(port, tuple(name_of[k] for k in key))
    return Lowered(port, None)
