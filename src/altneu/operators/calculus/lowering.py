"""Changes, delays and sums of moments as operations: into the scope of the moments, and out of it."""

from __future__ import annotations

from dataclasses import replace

from altneu.operators.calculus.node import Differentiate, Integrate, TellMoment, ToNeu
from altneu.operators.calculus.operation import DifferentiateOp, TellMomentOp, ToNeuOp
from altneu.operators.lowering import Lowered, Lowering, Port


def lower_differentiate(to: Lowering, node: Differentiate) -> Lowered:
    """From the scope around into that of the moments."""
    below = to.lower(node.input)
    scope = to.moment_scope(below, node.level, node.depth)
    below = to.entered(below, to.around(scope))
    number = to.add(DifferentiateOp(), (below.port,), node.schema, label="differentiate", scope=scope)
    return replace(below, port=Port(number))


def lower_to_neu(to: Lowering, node: ToNeu) -> Lowered:
    """In the scope of the moments, which what has none enters first."""
    below = to.lower(node.input)
    scope = to.moment_scope(below, node.level, node.depth)
    below = to.entered(below, scope)
    number = to.add(ToNeuOp(), (below.port,), node.schema, label="delay to neu", scope=scope)
    return replace(below, port=Port(number))


def lower_tell_moment(to: Lowering, node: TellMoment) -> Lowered:
    """In the scope of the moments."""
    below = to.lower(node.input)
    scope = to.moment_scope(below, node.level, node.depth)
    below = to.entered(below, scope)
    number = to.add(TellMomentOp(), (below.port,), node.schema, label=node.title, scope=scope)
    return Lowered(Port(number), below.spread, below.settled)


def lower_integrate(to: Lowering, node: Integrate) -> Lowered:
    """Out of the scope of the moments; what is in none is as it was."""
    below = to.lower(node.input)
    scope = to.moment_scope(below, node.level, node.depth)
    return to.left(below) if to.scope_of(below) == scope else below
