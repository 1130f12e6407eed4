"""What is known to be nothing is not computed, and nothing that depends on it is."""

from __future__ import annotations

from altneu.linear.normal import is_empty, normalise
from altneu.plan.ir import (
    ArrangedBy,
    AsOf,
    Concat,
    Consolidate,
    Constant,
    Inspect,
    Join,
    Latest,
    Linear,
    Moments,
    Node,
    Reduce,
    Source,
    coordinates,
    inputs_first,
)
from altneu.plan.rewrite.transform import transform


def fold_constants(node: Node) -> Node:
    """Replace collections that are always empty by an empty constant.

    Logic that drops every row is one, and what is joined, grouped or filtered of nothing; a sum leaves out such parts.
    The row that an aggregate of everything has over nothing is a constant beside its reduce, and stays. What keeps a
    source or shows a collection to a function stays too, for that is asked for by name. So does everything where only
    what would go has two times: the view is read at both.
    """
    made = transform(node, lambda new, _: _folded(new))
    return made if coordinates(made) == coordinates(node) else node


def _folded(node: Node) -> Node:
    if isinstance(node, Constant):
        return node
    if _is_nothing(node) and not _has_what_is_asked_for(node):
        return Constant((), node.schema)
    if isinstance(node, Concat):
        parts = tuple(p for p in node.parts if not _is_empty_constant(p))
        made = Concat(parts)
        return made if made.schema.equals(node.schema) else node
    return node


def _is_nothing(node: Node) -> bool:
    """Whether a node over its inputs is empty whatever the sources hold."""
    empty = [_is_empty_constant(below) for below in node.inputs]
    match node:
        case Linear(below, logic):
            return empty[0] or is_empty(normalise(logic, below.schema))
        case Join():
            return any(empty)
        case AsOf(keeps=keeps):
            return empty[0] or (empty[1] and not keeps)
        case Concat() | Reduce() | Latest() | Consolidate() | Moments():
            return all(empty)
        case _:
            return False


def _is_empty_constant(node: Node) -> bool:
    return isinstance(node, Constant) and not node.rows


@inputs_first
def _has_what_is_asked_for(node: Node) -> bool:
    if isinstance(node, Inspect | ArrangedBy) or (isinstance(node, Source) and node.keep):
        return True
    return any(map(_has_what_is_asked_for, node.inputs))
