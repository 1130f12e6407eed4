"""An index is not an operation: its view's contents are arranged by its key."""

from __future__ import annotations

from altneu.operators.arrange.node import ArrangedBy
from altneu.operators.lowering import Lowered, Lowering


def lower_arranged_by(to: Lowering, node: ArrangedBy) -> Lowered:
    """As what it is an index of."""
    return to.lower(node.input)
