"""Functions that read few rows of a group read them from the ends of an order."""

from __future__ import annotations

from dataclasses import replace

from altneu.plan.ir import Node, Reduce
from altneu.plan.rewrite.transform import transform


def order_groups(node: Node) -> Node:
    """Have groups lie in the order of the functions that need only the first of their rows."""
    return transform(node, lambda new, _: _in_order(new))


def _in_order(node: Node) -> Node:
    if not isinstance(node, Reduce):
        return node
    reducer = node.reducer.with_order(node.input, node.key)
    return node if reducer is node.reducer else replace(node, reducer=reducer)
