"""Operators that hand on what they are given are left out."""

from __future__ import annotations

from altneu.linear import Filter, FilterFunction, Negate
from altneu.plan.ir import (
    Aggregates,
    ArrangedBy,
    Concat,
    Consolidate,
    CountOf,
    Differentiate,
    Distinct,
    Inspect,
    Integrate,
    Latest,
    Linear,
    Node,
    Reduce,
    inputs_first,
)
from altneu.plan.rewrite.transform import transform


def drop_identities(node: Node) -> Node:
    """Leave out sums of one part, consolidation of what is consolidated, and distinct of what has every row once.

    What is integrated right after it was differentiated is as it was.

    Linear operators that do nothing go with ``merge_linear``. A threshold stays, for its function may say anything; and
    so does a semijoin of a collection with itself, for counts of one key may cancel.
    """
    return transform(node, lambda new, _: _without(new))


def _without(node: Node) -> Node:
    match node:
        case Concat((part,)):
            return part
        case Consolidate(below) if _is_consolidated(below):
            return below
        case Reduce(below, _, Distinct()) if _is_set(below):
            return below
        case Integrate(Differentiate(below, depth, level)) if (depth, level) == (node.depth, node.level):
            return below
        case _:
            return node


@inputs_first
def _is_consolidated(node: Node) -> bool:
    """Whether no two updates of a node have equal row and time."""
    match node:
        case Consolidate() | Reduce(_, _, Distinct() | CountOf()):
            return True
        case Linear(below, logic):
            only_drops = all(isinstance(s, Filter | FilterFunction | Negate) for s in logic.steps)
            return only_drops and not logic.delay and _is_consolidated(below)
        case Inspect(below) | ArrangedBy(below) | Differentiate(below) | Integrate(below):
            return _is_consolidated(below)
        case _:
            return False


@inputs_first
def _is_set(node: Node) -> bool:
    """Whether every row of a node is there once."""
    match node:
        case Reduce(_, _, Distinct() | CountOf()) | Latest():
            return True
        case Reduce(_, _, Aggregates(_, default_row)):
            return not default_row
        case Linear(below, logic):
            only_drops = all(isinstance(s, Filter | FilterFunction) for s in logic.steps)
            return only_drops and not logic.delay and _is_set(below)
        case Consolidate(below) | Inspect(below) | ArrangedBy(below):
            return _is_set(below)
        case _:
            return False
