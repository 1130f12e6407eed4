"""Rows whose time is over leave the arrangements of joins, and not only their output."""

from __future__ import annotations

from altneu.linear import Temporal
from altneu.plan.ir import Node
from altneu.plan.rewrite.demand import push


def push_bounds(node: Node) -> Node:
    """Move the bounds of temporal filters below joins and sums, each to the side that has its columns.

    So a windowed join keeps the window. Reduces and what is like them do not commute with changes of time, and bounds
    stay above. One that can fail stays, and a tolerant copy of it goes.
    """
    return push(node, (Temporal,))
