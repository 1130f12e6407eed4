"""Joins read the arrangements that are requested by name, as wide as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from altneu.linear import Project
from altneu.plan.ir import ArrangedBy, Join, Linear, Node
from altneu.plan.rewrite.transform import transform


def use_indexes(node: Node) -> Node:
    """Move what only renames and leaves out columns from below a join to its outputs, where an index has its key.

    So the join reads the arrangement that is there, and keeps none of its own that is narrower.
    """
    return transform(node, lambda new, _: _joined(new) if isinstance(new, Join) else new)


def without_indexes(root: Node) -> Node:
    """The plan as it is lowered: what joins read of an index they share with it, for it is arranged alike."""
    plan = transform(root, lambda new, _: new.input if isinstance(new, ArrangedBy) else new)
    for index in reversed(list(_indexes(root))):
        plan = replace(index, input=plan)
    return plan


def keys_of(node: Node) -> Iterator[tuple[str, ...]]:
    """The columns by which a collection is arranged for its own sake as joins read it, by one index or several."""
    return (index.key for index in _indexes(node) if not index.order)


def _indexes(node: Node) -> Iterator[ArrangedBy]:
    while isinstance(node, ArrangedBy):
        yield node
        node = node.input


def _joined(node: Join) -> Join:
    for side in (0, 1):
        node = _with_index(node, side)
    return node


def _with_index(node: Join, side: int) -> Join:
    """A join that reads an index of one of its sides, if there is one by the columns of its key."""
    below, keys = node.inputs[side], (node.left_key, node.right_key)
    names = {name: name for name in below.schema.names}
    if isinstance(below, Linear) and isinstance(below.input, ArrangedBy):
        (project, *more) = below.logic.steps or (None,)
        if more or below.logic.delay or not isinstance(project, Project):
            return node
        if not all(expression.is_column for _, expression in project.outputs):
            return node
        names = {name: expression.column_name for name, expression in project.outputs}
        below = below.input
    key = tuple(names[column] for column in keys[side])
    index_key = next((index for index in keys_of(below) if sorted(index) == sorted(key)), None)
    if index_key is None or (index_key == key and below is node.inputs[side]):
        return node
    order = [key.index(column) for column in index_key]
    mine, theirs = index_key, tuple(keys[1 - side][i] for i in order)
    outputs = tuple((name, s, names[column] if s == side else column) for name, s, column in node.outputs)
    if side == 0:
        return replace(node, left=below, left_key=mine, right_key=theirs, outputs=outputs)
    return replace(node, right=below, left_key=theirs, right_key=mine, outputs=outputs)
