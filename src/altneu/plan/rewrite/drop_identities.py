"""Operators that hand on what they are given are left out."""

from __future__ import annotations

from altneu.plan.ir import Node, inputs_first
from altneu.plan.rewrite.transform import transform


def drop_identities(node: Node) -> Node:
    """Leave out sums of one part, consolidation of what is consolidated, and distinct of what has every row once.

    What is integrated right after it was differentiated is as it was.

    Linear operators that do nothing go with ``merge_linear``. A threshold stays, for its function may say anything; and
    so does a semijoin of a collection with itself, for counts of one key may cancel.
    """
    return transform(node, lambda new, _: _without(new))


def _without(node: Node) -> Node:
    inputs = node.inputs
    return node.same_as([*map(_is_set, inputs)], [*map(_is_consolidated, inputs)]) or node


@inputs_first
def _is_consolidated(node: Node) -> bool:
    """Whether no two updates of a node have equal row and time."""
    return node.is_consolidated([*map(_is_consolidated, node.inputs)])


@inputs_first
def _is_set(node: Node) -> bool:
    """Whether every row of a node is there once."""
    return node.is_set([*map(_is_set, node.inputs)])
