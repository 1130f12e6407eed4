"""Two linear operators in a row are one: rows pass through both without being handed over."""

from __future__ import annotations

from dataclasses import replace

from altneu.ir import Concat, Consolidate, Inspect, Join, Linear, Node, Reduce


def merge_linear(node: Node) -> Node:
    """Merge every run of linear nodes, and leave out those that do nothing."""
    return _merge(node, {})


def _merge(node: Node, done: dict[str, Node]) -> Node:
    if node.fingerprint not in done:
        done[node.fingerprint] = _merge_here(node, done)
    return done[node.fingerprint]


def _merge_here(node: Node, done: dict[str, Node]) -> Node:
    match node:
        case Linear(below, logic):
            merged = _merge(below, done)
            if isinstance(merged, Linear):
                logic = merged.logic.followed_by(logic)
                merged = merged.input
            return Linear(merged, logic) if logic else merged
        case Concat(parts):
            return Concat(tuple(_merge(p, done) for p in parts))
        case Join(left, right):
            return replace(node, left=_merge(left, done), right=_merge(right, done))
        case Reduce(below) | Consolidate(below) | Inspect(below):
            return replace(node, input=_merge(below, done))
        case _:
            return node
