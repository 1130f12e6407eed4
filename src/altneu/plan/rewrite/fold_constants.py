"""What is known to be nothing is not computed, and nothing that depends on it is."""

from __future__ import annotations

from altneu.plan.ir import Constant, Node, coordinates, inputs_first
from altneu.plan.rewrite.transform import transform


def fold_constants(node: Node) -> Node:
    """Replace collections that are always empty by an empty constant.

    Logic that drops every row is one, and what is joined, grouped or filtered of nothing; a sum leaves out such parts.
    The row that an aggregate of everything has over nothing is a constant beside its reduce, and stays. What keeps a
    source or shows a collection to a function stays too, for that is asked for by name. So does everything where only
    what would go has two times: the view is read at both.
    """
    folded = transform(node, lambda new, _: _folded(new))
    return folded if coordinates(folded) == coordinates(node) else node


def _folded(node: Node) -> Node:
    if isinstance(node, Constant):
        return node
    empty = [_is_empty_constant(below) for below in node.inputs]
    if node.is_nothing(empty) and not _has_what_stays(node):
        return Constant((), node.schema)
    return node.without(empty)


def _is_empty_constant(node: Node) -> bool:
    return isinstance(node, Constant) and not node.rows


@inputs_first
def _has_what_stays(node: Node) -> bool:
    return node.stays or any(map(_has_what_stays, node.inputs))
