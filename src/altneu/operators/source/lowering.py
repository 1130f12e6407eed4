"""Sources and constants as operations, and the arrangements of sources."""

from __future__ import annotations

from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.linear.operation import LinearOp
from altneu.operators.lowering import Earlier, Lowered, Lowering, Port, arrangement_id, spread_after
from altneu.operators.node import Key
from altneu.operators.source.keyed import command_schema
from altneu.operators.source.node import Constant, Source
from altneu.operators.source.operation import CommandsOp, ConstantOp, RowsOp, SourceOp
from altneu.operators.source.retention import CommandedRows
from altneu.trace.batch import Layout


def lower_source(to: Lowering, node: Source) -> Lowered:
    """Rows as they were inserted; where rows replace each other, as commands."""
    if (earlier := to.earlier.get(node.fingerprint)) is not None:
        return _earlier(to, node, earlier)
    if node.commanded_by is not None:
        return _commanded(to, node, node.commanded_by)
    scope = to.event_scope(node.coordinates) if node.coordinates else 0
    label = f"source {node.name}"
    number = to.add(SourceOp(node.name), (), node.schema, label=label, logical=node.fingerprint, scope=scope)
    port = Port(number)
    if node.keep:
        keep(to, node, port)
    return Lowered(port, None, settled=False)


def _earlier(to: Lowering, node: Source, earlier: Earlier) -> Lowered:
    """The rows of the present version as they would have been then."""
    below = to.lower(earlier.present)
    label = f"source {node.name} with earlier columns"
    number = to.add(LinearOp(earlier.logic), (below.port,), node.schema, label=label, logical=node.fingerprint)
    return Lowered(Port(number), spread_after(earlier.logic, below.spread), below.settled)


def _commanded(to: Lowering, node: Source, key: Key) -> Lowered:
    """Commands, those that are due, the arrangement of the rows that they change, and these rows.

    The arrangement is that of the rows by the key for all who ask for one.
    """
    commands, logical, by = command_schema(node.schema), node.fingerprint, ", ".join(node.key or ("row",))
    number = to.add(SourceOp(node.name), (), commands, label=f"source {node.name}", logical=logical)
    waiting = CommandsOp(commands_name(node), Layout(commands, key, to.lattice))
    label = f"commands to {node.name}"
    number = to.add(waiting, (Port(number),), commands, exchange=key, label=label, logical=logical)
    operation = ArrangeOp(arrangement_id(logical, key), Layout(node.schema, key, to.lattice), CommandedRows())
    label = f"keep {node.name} by {by}"
    state = to.add(operation, (Port(number),), node.schema, label=label, logical=logical)
    label = f"rows of {node.name}"
    number = to.add(RowsOp(node.key), (Port(state),), node.schema, label=label, logical=logical)
    to.arranged_already(Lowered(Port(number), key), state)
    if node.key:
        to.may_fail(node, Lowered(Port(number, 1), None))
    return Lowered(Port(number), key)


def keep(to: Lowering, source: Source, port: Port) -> None:
    """Arrange all rows of a source."""
    to.arrange(Lowered(port, None), tuple(source.schema.names), source.fingerprint, f"keep {source.name}")


def lower_constant(to: Lowering, node: Constant) -> Lowered:
    """The rows at the least time."""
    number = to.add(ConstantOp(node.rows), (), node.schema, label="constant")
    return Lowered(Port(number), None, settled=False)


def commands_name(source: Source) -> str:
    """What the state of a source's commands that wait is called in every session."""
    return arrangement_id(f"commands|{source.fingerprint}", source.commanded_by or ())
