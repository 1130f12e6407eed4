"""Rows that a filter drops are dropped before they are joined, grouped and arranged."""

from __future__ import annotations

from altneu.linear import Filter
from altneu.plan.ir import Node
from altneu.plan.rewrite.demand import push


def push_filters(node: Node) -> Node:
    """Move filters below joins, sums, and groups as far as their columns allow.

    A filter goes to the side of a join that has its columns, and to both sides when it reads only the key; below a
    reduce only when it reads only the group columns. One that can fail stays, and a tolerant copy of it goes.
    """
    return push(node, (Filter,))
