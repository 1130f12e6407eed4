"""Sums, consolidation and inspection as operations."""

from __future__ import annotations

from altneu.operators.concat.node import Concat, Consolidate, Inspect
from altneu.operators.concat.operation import ConcatOp, ConsolidateOp, InspectOp
from altneu.operators.lowering import Lowered, Lowering, Port, by_row


def lower_concat(to: Lowering, node: Concat) -> Lowered:
    """The parts in the innermost scope of any of them; spread alike, the sum is, too."""
    parts = [to.lower(p) for p in node.parts]
    scope = to.innermost(map(to.scope_of, parts))
    parts = [to.entered(p, scope) for p in parts]
    spreads = {p.spread for p in parts}
    ports = tuple(p.port for p in parts)
    number = to.add(ConcatOp(), ports, node.schema, label="concat", logical=node.fingerprint)
    return Lowered(Port(number), spreads.pop() if len(spreads) == 1 else None, all(p.settled for p in parts))


def lower_consolidate(to: Lowering, node: Consolidate) -> Lowered:
    """Equal rows meet where they are, or by the whole row."""
    return by_row(to, node.input, ConsolidateOp(), "consolidate")


def lower_inspect(to: Lowering, node: Inspect) -> Lowered:
    """The function is shown what readers go on reading of the input."""
    by_row(to, node.input, InspectOp(node.function), f"inspect {node.function.name}")
    return to.lower(node.input)
