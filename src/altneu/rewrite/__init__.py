"""Rewriting of logical plans: rules, one a file, applied in the order of ``RULES``."""

from __future__ import annotations

from collections.abc import Callable

from altneu.ir import Node
from altneu.rewrite.merge_linear import merge_linear

Rule = Callable[[Node], Node]

RULES: tuple[Rule, ...] = (merge_linear,)


def optimise(node: Node) -> Node:
    """Apply every rule once, in order.

    Law:    the plans before and after give the same updates (tests/golden/test_rewrite.py).
    """
    for rule in RULES:
        node = rule(node)
    return node
