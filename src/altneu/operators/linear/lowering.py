"""Linear logic as an operation, or in the operation whose rows it alone reads."""

from __future__ import annotations

from altneu.operators.base import LOGIC_ERRORS
from altneu.operators.linear.node import Linear
from altneu.operators.linear.operation import LinearOp
from altneu.operators.lowering import Lowered, Lowering, Port, spread_after
from altneu.operators.source.node import Source


def lower_linear(to: Lowering, node: Linear) -> Lowered:
    """Logic runs inside the join or reduce below it when nothing else reads that; else it is an operation.

    So it is where a table function follows a reduce, whose rows are few: what it makes can then flow.
    The names of arrangements do not depend on which it is, for another view may change it.
    """
    below, host = to.lower(node.input), to.host_of(node.input)
    port, errors = Port(below.port.node), LOGIC_ERRORS
    if host is not None and (host.flows or not node.logic.expands):
        to.give(port, node.logic, node)
    else:
        # a source's rows may come with more columns one time than another; the error of a row must always be the same
        shows_read = isinstance(node.input, Source) and node.fingerprint not in to.errors_show_all
        operation, errors = LinearOp(node.logic, shows_read), 1
        port = Port(to.add(operation, (below.port,), node.schema, label=str(node.logic), logical=node.fingerprint))
    if node.logic.has_errors:
        to.may_fail(node, Lowered(Port(port.node, errors), None, below.settled))
    return Lowered(port, spread_after(node.logic, below.spread), below.settled)
