"""Linear logic as an operation, or in the operation whose rows it alone reads."""

from __future__ import annotations

from altneu.errors import PlanError
from altneu.linear import BoundLogic
from altneu.operators.base import LOGIC_ERRORS, own_times
from altneu.operators.linear.node import Linear
from altneu.operators.linear.operation import LinearOp
from altneu.operators.lowering import Lowered, Lowering, Port, spread_after
from altneu.operators.source.node import Source


def lower_linear(to: Lowering, node: Linear) -> Lowered:
    """Logic runs inside the join or reduce below it when nothing else reads that; else it is an operation.

    So it is where a table function follows a reduce, whose rows are few: what it makes can then flow.
    The names of arrangements do not depend on which it is, for another view may change it.
    """
    below, host = to.lower(to.input_of(node)), to.host_of(node.input)
    logic = (
        node.logic.with_event_times()
        if own_times(to.lattice_in(to.scope_of(below))) == 1
        else _without_event_times(node)
    )
    port, errors = Port(below.port.node), LOGIC_ERRORS
    if host is not None and (host.flows or not logic.expands):
        to.give(port, logic, node)
    else:
        # a source's rows may come with more columns one time than another; the error of a row must always be the same
        shows_read = isinstance(node.input, Source) and node.fingerprint not in to.errors_show_all
        operation, errors = LinearOp(logic, shows_read), 1
        port = Port(to.add(operation, (below.port,), node.schema, label=str(logic), logical=node.fingerprint))
    if logic.has_errors:
        to.may_fail(node, Lowered(Port(port.node, errors), None, below.settled))
    return Lowered(port, spread_after(logic, below.spread), below.settled)


def _without_event_times(node: Linear) -> BoundLogic:
    """The logic of rows that have one time, or more than two.

    Raises:
        PlanError: it moves event times.
    """
    if node.logic.moves_events:
        raise PlanError(
            f"{node.logic} moves event times, and its rows do not have two times: declare a source with two, "
            'an.source(..., time=("system", "event")), or move the first time alone'
        )
    return node.logic
