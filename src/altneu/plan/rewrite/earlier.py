"""Plans as earlier versions of altneu made them, so that views which those stored are found again."""

from __future__ import annotations

from dataclasses import replace

from altneu.linear import BoundLogic, ParseJson
from altneu.plan import ir
from altneu.plan.rewrite.transform import transform


def without_needs(node: ir.Node) -> ir.Node:
    """A plan whose decoders take an object without any of the members that they need for a row of nulls.

    That is how they took it before they had to have one.
    """
    return transform(node, lambda new, _: _lenient(new))


def _lenient(node: ir.Node) -> ir.Node:
    if not isinstance(node, ir.Linear) or not any(isinstance(s, ParseJson) and s.needs for s in node.logic.steps):
        return node
    steps = (replace(s, needs=()) if isinstance(s, ParseJson) else s for s in node.logic.steps)
    return replace(node, logic=BoundLogic(tuple(steps), node.logic.delay))
