"""A sample as an operation where its rows are."""

from __future__ import annotations

from altneu.operators.lowering import Lowered, Lowering, Port
from altneu.operators.sample.node import Sample
from altneu.operators.sample.operation import SampleOp


def lower_sample(to: Lowering, node: Sample) -> Lowered:
    """Rows stay where they are."""
    below = to.lower(node.input)
    operation = SampleOp(node.key, node.fraction, node.seed)
    number = to.add(operation, (below.port,), node.schema, label=node.title, logical=node.fingerprint)
    return Lowered(Port(number), below.spread, below.settled)
