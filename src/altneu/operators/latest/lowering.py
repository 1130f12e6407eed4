"""The latest events as an arrangement and the operation that reads it."""

from __future__ import annotations

from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.latest.events import kept_schema
from altneu.operators.latest.node import Latest
from altneu.operators.latest.operation import LatestOp
from altneu.operators.latest.retention import LatestEvents
from altneu.operators.lowering import Lowered, Lowering, Port, arrangement_id
from altneu.trace.batch import Layout


def lower_latest(to: Lowering, node: Latest) -> Lowered:
    """The arrangement has the latest event of each key and time."""
    below = to.lower(node.input)
    layout = Layout(kept_schema(node.schema), node.key, to.lattice)
    operation = ArrangeOp(arrangement_id(f"latest|{node.fingerprint}", node.key), layout, LatestEvents(node.order))
    exchange = None if below.spread == node.key else node.key
    label = f"latest by {', '.join(node.order)}"
    state = to.add(
        operation, (below.port,), layout.schema, exchange=exchange, label=f"keep {label}", logical=node.fingerprint
    )
    number = to.add(LatestOp(node.order), (Port(state),), node.schema, label=label, logical=node.fingerprint)
    to.may_fail(node, Lowered(Port(number, 1), None))
    return Lowered(Port(number), node.key)
