"""Two linear operators in a row are one, in normal form: rows pass through both without being handed over."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from altneu.linear import BoundLogic, Negate, Project
from altneu.linear.normal import normalise
from altneu.plan.ir import Linear, Node, walk
from altneu.plan.rewrite.transform import readers, transform

_NORMAL = "#in normal form"
_LONG = 64  # nodes in a run that is not merged from below, one by one, as each is then brought into normal form again


def merge_linear(node: Node) -> Node:
    """Merge every run of linear nodes, bring what they do into normal form, and leave out those that do nothing.

    What several nodes read is computed once for all of them, unless it only chooses columns: to do that again costs
    nothing.
    """
    counts = readers(node)
    runs = _long_runs(node, counts)

    def merged(new: Node, old: Node) -> Node:
        if not isinstance(new, Linear) or not isinstance(old, Linear):
            return new
        if length := runs.get(old.fingerprint):
            return _merged_run(new, length)
        if old.fingerprint in runs:
            return new  # merged at the end of its run
        under = new.input
        if (
            isinstance(under, Linear)
            and (counts[old.input.fingerprint] == 1 or _costs_nothing(under.logic))
            and under.logic.may_be_followed_by(new.logic)
        ):
            new = Linear(under.input, under.logic.followed_by(new.logic))
        return _in_normal_form(new)

    return transform(node, merged)


def _in_normal_form(node: Linear) -> Node:
    """The node with its logic in normal form, or its input where that does nothing; the node itself where it is so.

    That a node is so is noted with it: rules pass over a plan again and again, and most of it stays as it is.
    """
    if _NORMAL in node.__dict__:
        return node
    logic = normalise(node.logic, node.input.schema)
    if not logic:
        return node.input
    result = node if logic is node.logic else Linear(node.input, logic)
    result.__dict__[_NORMAL] = True
    return result


def _long_runs(root: Node, counts: Counter[str]) -> dict[str, int]:
    """How long each long run of linear nodes is, at the last of them; 0 at the others."""
    lengths: dict[str, int] = {}
    runs: dict[str, int] = {}
    nodes = {node.fingerprint: node for node in walk(root) if isinstance(node, Linear)}
    for place, node in nodes.items():
        below = node.input.fingerprint
        is_one = counts[below] == 1 and not node.logic.delay.is_of_both
        lengths[place] = 1 + (lengths.pop(below, 0) if is_one else 0)
    for place, length in lengths.items():
        if length > _LONG:
            runs[place] = length
            at = nodes[place].input.fingerprint
            for _ in range(length - 1):
                runs[at] = 0
                at = nodes[at].input.fingerprint
    return runs


def _merged_run(last: Linear, length: int) -> Node:
    """A run of linear nodes as one: neighbours are merged, then the results, so that each is seldom moved."""
    parts: list[tuple[pa.Schema, BoundLogic]] = []
    node: Node = last
    for _ in range(length):
        assert isinstance(node, Linear)
        parts.append((node.input.schema, node.logic))
        node = node.input
    parts.reverse()
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [_merged_pair(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    logic = parts[0][1]
    return Linear(node, logic) if logic else node


def _merged_pair(
    first: tuple[pa.Schema, BoundLogic], second: tuple[pa.Schema, BoundLogic]
) -> tuple[pa.Schema, BoundLogic]:
    return first[0], normalise(first[1].followed_by(second[1]), first[0])


def _costs_nothing(logic: BoundLogic) -> bool:
    return not logic.delay and all(
        isinstance(s, Negate) or (isinstance(s, Project) and all(e.is_column for _, e in s.outputs))
        for s in logic.steps
    )
